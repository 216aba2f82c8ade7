"""The levels of a breadth-first search: rows of states, in memory and then in a file.

Rows are appended to the last level only, and all levels share one file. Written data never changes, so a checkpoint
stores only the file's length. A row may be wider than earlier ones, if a replica appeared in between.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from kraftcheck.explorer.tables.states.packed_rows import Rows
from kraftcheck.persistence.stored_files import GrowingFile, RowsInFile

ID_BYTES = 4
EARLY = 1 << 22  # bytes that are worth a write during miss handling
CHUNK = 1 << 15  # default number of rows in a chunk


class Level:
    """One level: rows in the file, then rows in memory."""

    def __init__(self) -> None:
        self.filed = RowsInFile(np.int32)
        self.waiting: list[Rows] = []
        self.count = 0


class Levels:
    """The levels of a search, counted from 1."""

    def __init__(self, budget: int, file: GrowingFile | None = None, folder: Path | None = None) -> None:
        self.budget = budget
        self.nbytes = 0
        self._file = file
        self._folder = folder
        self._levels: list[Level] = []

    @property
    def depth(self) -> int:
        """Number of levels."""
        return len(self._levels)

    def count(self, level: int) -> int:
        """Return the number of rows of a level; level 0 has none."""
        return self._levels[level - 1].count if level else 0

    @property
    def counts(self) -> list[int]:
        """Number of rows of each level."""
        return [level.count for level in self._levels]

    def begin(self) -> None:
        """Start a new level."""
        self._levels.append(Level())

    def append(self, rows: Rows) -> None:
        """Append rows to the last level; the array must not change afterwards."""
        if not len(rows):
            return
        if rows.base is not None and rows.base.nbytes > rows.nbytes:
            rows = rows.copy()  # a view would keep the whole array in memory
        level = self._levels[-1]
        level.waiting.append(rows)
        level.count += len(rows)
        self.nbytes += rows.nbytes
        if self.nbytes > self.budget:
            self.flush()

    def rewrite(self, convert: Callable[[Rows], Rows], most: int = CHUNK) -> None:
        """Convert all rows, `most` at a time."""
        new = Levels(self.budget, folder=self._folder)
        for rows_of_level in (self.chunks(level, most) for level in range(1, self.depth + 1)):
            new.begin()
            for rows in rows_of_level:
                new.append(convert(rows))
        self.close()
        self._file, self._levels, self.nbytes = new._file, new._levels, new.nbytes

    def flush(self) -> None:
        """Write the rows in memory to the file."""
        if self._file is None:
            self._file = GrowingFile.temporary(self._folder)
        for level in self._levels:
            for rows in level.waiting:
                level.filed.append(self._file, rows)
            level.waiting = []
        self.nbytes = 0

    def flush_early(self) -> None:
        """Write the rows in memory to the file, if they will go there anyway and are worth a write."""
        if self._file is not None and self.nbytes > EARLY:
            self.flush()

    def read(self, level: int, first: int, most: int) -> Rows:
        """Return at most `most` rows of a level from number `first` on; fewer where their width changes.

        The caller may change the array only if it comes from the file.
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
        """Yield the rows of a level in chunks."""
        first = 0
        while first < self.count(level):
            rows = self.read(level, first, most)
            yield rows
            first += len(rows)

    def __iter__(self) -> Iterator[Iterator[Rows]]:
        """Yield for each level an iterator over chunks of its rows."""
        return (self.chunks(level) for level in range(1, self.depth + 1))

    # Checkpoints

    @property
    def extents(self) -> list[list[tuple[int, int]]]:
        """For each level, its blocks in the file as (rows, columns); call `flush` first."""
        return [level.filed.shapes for level in self._levels]

    def restore(self, extents: list[list[tuple[int, int]]]) -> int:
        """Restore the levels from a file with these extents; return the bytes of the file that they take."""
        offset = 0
        for noted in extents:
            self.begin()
            level = self._levels[-1]
            for rows, columns in noted:
                offset = level.filed.note(rows, columns, offset)
            level.count = level.filed.count
        return offset

    def clear(self) -> None:
        """Remove all levels."""
        self._levels = []
        self.nbytes = 0
        if self._file is not None:
            self._file.clear()

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()
