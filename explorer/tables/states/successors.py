"""States on their way from the workers that found them to the part of the visited set that owns them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kraftcheck.explorer.tables.kernel.worker import SuccessorArrays
from kraftcheck.explorer.tables.states.packing import PARTITIONS, Packing, Rows, Words, by_owner
from kraftcheck.explorer.tables.states.pages import scattered

SUCCESSORS_PER_STATE = 12  # for which the buffers have room, on the average


class Successors(SuccessorArrays):
    """What one worker has found and nobody has looked up yet."""

    def __init__(self) -> None:
        super().__init__()
        self.rows = np.zeros((PARTITIONS, 0, 0), np.int32)
        self.words = np.zeros((PARTITIONS, 0, 0), np.uint64)
        self.counts = np.zeros(PARTITIONS, np.int64)

    def fit(self, room: int, width: int, stored: int) -> None:
        """Make room."""
        room = max(room, self.rows.shape[1])
        self.rows = _fitted(self.rows, self.counts, room, width)
        self.words = _fitted(self.words, self.counts, room, stored)

    def put(self, rows: Rows, words: Words, owner: NDArray[np.int64]) -> None:
        """Replace everything by these rows."""
        counts = np.bincount(owner, minlength=PARTITIONS)
        room = max(self.rows.shape[1], int(counts.max()))
        if self.rows.shape[1:] != (room, rows.shape[1]):
            self.rows = scattered((PARTITIONS, room, rows.shape[1]), np.int32)
        if self.words.shape[1:] != (room, words.shape[1]):
            self.words = scattered((PARTITIONS, room, words.shape[1]), np.uint64)
        for p, mine in by_owner(owner):
            self.rows[p, : len(mine)], self.words[p, : len(mine)] = rows[mine], words[mine]
        self.counts[:] = counts

    def all_rows(self) -> Rows:
        """Return the rows of all partitions."""
        return np.concatenate([self.rows[p, : self.counts[p]] for p in range(PARTITIONS)])

    def clear(self) -> None:
        """Forget everything; the room stays."""
        self.counts[:] = 0


def _fitted(array: NDArray[Any], counts: NDArray[np.int64], room: int, columns: int) -> NDArray[Any]:
    """Return an array with as much room for each partition, and so many columns; what is counted stays in it."""
    _, old_room, old_columns = array.shape
    if (old_room, old_columns) == (room, columns):
        return array
    larger = scattered((PARTITIONS, room, columns), array.dtype)
    for p in np.flatnonzero(counts).tolist() if old_columns <= columns else ():
        larger[p, : counts[p], :old_columns] = array[p, : counts[p]]
    return larger


class Found(NamedTuple):
    """What all workers have found."""

    parts: list[Successors]  # the successors of each worker
    packing: Packing  # how their identities are packed
    width: int  # columns of a state
