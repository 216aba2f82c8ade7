"""Keeps the states of a breadth-first search level by level: in memory while there is room, then in a file.

A level's states are rows of ids; a row found later may be wider than one found earlier, where a replica appeared in
between. Rows are only ever appended, to the last level, and all levels share one file, so that what was written
never changes: a checkpoint notes how long it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from kraftcheck.explorer.tables.states.packing import Rows
from kraftcheck.persistence.growing_file import GrowingFile, RowsInFile

ID_BYTES = 4
EARLY = 1 << 22  # bytes that are worth a write, where nobody waits for it
CHUNK = 1 << 15  # rows read at a time where the caller does not say


class Level:
    """One level: rows in the file, then rows in memory."""

    def __init__(self) -> None:
        self.filed = RowsInFile(np.int32)
        self.waiting: list[Rows] = []
        self.count = 0


class Levels:
    """The levels of a search; the first is number 1."""

    def __init__(self, budget: int, file: GrowingFile | None = None, folder: Path | None = None) -> None:
        self.budget = budget
        self.nbytes = 0
        self._file = file
        self._folder = folder
        self._levels: list[Level] = []

    @property
    def depth(self) -> int:
        """How many levels there are."""
        return len(self._levels)

    def count(self, level: int) -> int:
        """Return how many rows a level has; 0 for level 0."""
        return self._levels[level - 1].count if level else 0

    @property
    def counts(self) -> list[int]:
        """How many rows each level has."""
        return [level.count for level in self._levels]

    def begin(self) -> None:
        """Begin another level."""
        self._levels.append(Level())

    def append(self, rows: Rows) -> None:
        """Append rows to the last level; the array must not change afterwards."""
        if not len(rows):
            return
        if rows.base is not None and rows.base.nbytes > rows.nbytes:
            rows = rows.copy()  # else the whole array stays in memory
        level = self._levels[-1]
        level.waiting.append(rows)
        level.count += len(rows)
        self.nbytes += rows.nbytes
        if self.nbytes > self.budget:
            self.flush()

    def rewrite(self, convert: Callable[[Rows], Rows], most: int = CHUNK) -> None:
        """Replace all rows by what becomes of them, so many at a time."""
        new = Levels(self.budget, folder=self._folder)
        for rows_of_level in (self.chunks(level, most) for level in range(1, self.depth + 1)):
            new.begin()
            for rows in rows_of_level:
                new.append(convert(rows))
        self.close()
        self._file, self._levels, self.nbytes = new._file, new._levels, new.nbytes

    def flush(self) -> None:
        """Write what is in memory to the file."""
        if self._file is None:
            self._file = GrowingFile.temporary(self._folder)
        for level in self._levels:
            for rows in level.waiting:
                level.filed.append(self._file, rows)
            level.waiting = []
        self.nbytes = 0

    def flush_early(self) -> None:
        """Write what is in memory, if it is some, and if it will not stay there."""
        if self._file is not None and self.nbytes > EARLY:
            self.flush()

    def read(self, level: int, first: int, most: int) -> Rows:
        """Return rows of a level from number `first` on, at most so many; fewer where their width changes.

        The array is the caller's own, unless it is from memory.
        """
        held = self._levels[level - 1]
        if first < held.filed.count:
            assert self._file is not None
            return held.filed.read(self._file, first, most)
        first -= held.filed.count
        found: list[Rows] = []
        for part in held.waiting:
            if first >= len(part):
                first -= len(part)
                continue
            if most == 0 or (found and part.shape[1] != found[0].shape[1]):
                break
            found.append(part[first : first + most])
            most -= len(found[-1])
            first = 0
        return found[0] if len(found) == 1 else np.concatenate(found)

    def chunks(self, level: int, most: int = CHUNK) -> Iterator[Rows]:
        """Yield the rows of a level, piece by piece."""
        first = 0
        while first < self.count(level):
            rows = self.read(level, first, most)
            yield rows
            first += len(rows)

    def __iter__(self) -> Iterator[Iterator[Rows]]:
        """Yield for each level its rows, piece by piece."""
        return (self.chunks(level) for level in range(1, self.depth + 1))

    # What a checkpoint notes

    @property
    def extents(self) -> list[list[tuple[int, int]]]:
        """For each level how many rows of which width it has in the file, after `flush`."""
        return [level.filed.shapes for level in self._levels]

    def restore(self, extents: list[list[tuple[int, int]]]) -> int:
        """Take the levels for what the file holds; return how many bytes of it they need."""
        offset = 0
        for noted in extents:
            self.begin()
            level = self._levels[-1]
            for rows, columns in noted:
                offset = level.filed.note(rows, columns, offset)
            level.count = level.filed.count
        return offset

    def clear(self) -> None:
        """Forget everything."""
        self._levels = []
        self.nbytes = 0
        if self._file is not None:
            self._file.clear()

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()
