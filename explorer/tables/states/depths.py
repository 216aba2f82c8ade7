"""The visited states of a depth-first search, each with the least depth at which it was met; all in one table."""

from __future__ import annotations

from typing import Any

import numpy as np

from kraftcheck.explorer.tables.kernel.depth_first import enter, move
from kraftcheck.explorer.tables.states.packing import Packing, Words

FIRST_CAPACITY = 1 << 12


class DepthSet:
    """The visited states.

    Parameters
    ----------
    packing
        How they are packed.

    Attributes
    ----------
    keys
        The words of each entry, and behind them its depth.
    places
        How far each entry stands from its home; 0 where there is none.
    count
        How many states there are.
    """

    def __init__(self, packing: Packing) -> None:
        self.packing = packing
        self.count = 0
        self._make(FIRST_CAPACITY)

    def _make(self, capacity: int) -> None:
        self.keys: Words = np.zeros((capacity, self.packing.words + 1), np.uint64)
        self.places: Any = np.zeros(capacity, np.uint16)

    def add(self, words: Words) -> None:
        """Insert packed states at depth 1."""
        self.count += int(enter(words, self.keys, self.places))

    def grow(self, least: int) -> None:
        """Make room for more states, `least` at least."""
        self._move(self.packing, max(2 * len(self.places), least))

    def fit(self, packing: Packing) -> None:
        """Pack the states anew where they shall be packed in another way."""
        if packing is not self.packing:
            self._move(packing, len(self.places))

    def _move(self, new: Packing, capacity: int) -> None:
        keys, places, old, fields = self.keys, self.places, self.packing, len(self.packing.position)
        self.packing = new
        self._make(capacity)
        move(
            keys, places, old.position, old.width, old.words, self.keys, self.places, new.position[:fields],
            new.width[:fields], new.words,
        )  # fmt: skip
