"""States on their way from the workers that found them to the part of the visited set that owns them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kraftcheck.explorer.tables.kernel.worker import SuccessorArrays
from kraftcheck.explorer.tables.states.packing import PARTITIONS, Packing, Rows, Words, by_owner


class Successors(SuccessorArrays):
    """What one worker has found and nobody has looked up yet.

    Attributes
    ----------
    rows
        For each partition the states that it owns; beside each, under symmetry, its canonical image.
    words
        The packed identity of each.
    counts
        How many there are for each partition.
    """

    def __init__(self) -> None:
        super().__init__()
        self.rows = np.zeros((PARTITIONS, 0, 0), np.int32)
        self.words = np.zeros((PARTITIONS, 0, 0), np.uint64)
        self.counts = np.zeros(PARTITIONS, np.int64)

    def fit(self, room: int, width: int, copies: int, stored: int) -> None:
        """Make room.

        Parameters
        ----------
        room
            For how many states of a partition.
        width, copies
            Columns of a state, and how many states stand in a row: two where states are symmetric.
        stored
            Words of a packed state.
        """
        room = max(room, self.rows.shape[1])
        if self.rows.shape[1:] != (room, width * copies):
            larger = np.zeros((PARTITIONS, room, width * copies), np.int32)
            kept, old = self.counts.max(), self.rows.shape[2] // copies
            for copy in range(copies):
                larger[:, :kept, copy * width : copy * width + old] = self.rows[:, :kept, copy * old : (copy + 1) * old]
            self.rows = larger
        if self.words.shape[1:] != (room, stored):
            packed = np.zeros((PARTITIONS, room, stored), np.uint64)
            if self.words.shape[2] == stored:
                packed[:, : self.words.shape[1]] = self.words
            self.words = packed

    def put(self, rows: Rows, words: Words, owner: NDArray[np.int64]) -> None:
        """Replace everything by these rows.

        Parameters
        ----------
        rows, words, owner
            The rows, their packed identities, and the partitions that own them.
        """
        counts = np.bincount(owner, minlength=PARTITIONS)
        room = max(self.rows.shape[1], int(counts.max()))
        if self.rows.shape[1:] != (room, rows.shape[1]):
            self.rows = np.zeros((PARTITIONS, room, rows.shape[1]), np.int32)
        if self.words.shape[1:] != (room, words.shape[1]):
            self.words = np.zeros((PARTITIONS, room, words.shape[1]), np.uint64)
        for p, mine in by_owner(owner):
            self.rows[p, : len(mine)], self.words[p, : len(mine)] = rows[mine], words[mine]
        self.counts[:] = counts

    def all_rows(self) -> Rows:
        """Return the rows of all partitions."""
        return np.concatenate([self.rows[p, : self.counts[p]] for p in range(PARTITIONS)])

    def clear(self) -> None:
        """Forget everything; the room stays."""
        self.counts[:] = 0


class Found(NamedTuple):
    """What all workers have found.

    Attributes
    ----------
    parts
        The successors of each worker.
    packing
        How their identities are packed.
    width
        Columns of a state.
    """

    parts: list[Successors]
    packing: Packing
    width: int
