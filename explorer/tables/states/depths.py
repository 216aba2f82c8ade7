"""The visited states of a depth-first search, each with the least depth at which it was met; all in one table."""

from __future__ import annotations

import numpy as np

from kraftcheck.explorer.tables.kernel.depth_first import DepthSetArrays, enter, move
from kraftcheck.explorer.tables.states.packing import Packing, Words

FIRST_CAPACITY = 1 << 12


class DepthSet(DepthSetArrays):
    """The visited states."""

    def __init__(self, packing: Packing, capacity: int = FIRST_CAPACITY) -> None:
        super().__init__()
        self.packing = packing
        self.count = 0
        self.keys = np.zeros((capacity, packing.words + 1), np.uint64)

    def add(self, words: Words) -> None:
        """Insert packed states at depth 1, or move them there: no path meets them nearer to the start."""
        if 2 * (self.count + len(words)) > len(self.keys):
            self.grow(2 * (self.count + len(words)))
        self.count += int(enter(self, words))

    def has_at(self, depth: int) -> bool:
        """Whether there is a state that was met at a depth, and no nearer to the start."""
        return bool((self.keys[:, -1] == depth).any())

    def grow(self, least: int) -> None:
        """Make room for more states, `least` at least."""
        self._move(self.packing, max(2 * len(self.keys), least))

    def fit(self, packing: Packing) -> None:
        """Pack the states anew where they shall be packed in another way."""
        if packing is not self.packing:
            self._move(packing, len(self.keys))

    def _move(self, new: Packing, capacity: int) -> None:
        other = DepthSet(new, capacity)
        move(self, self.packing, other, new)
        self.keys, self.packing = other.keys, new
