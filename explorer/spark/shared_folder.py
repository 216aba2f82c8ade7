"""The folder that driver and executors share: for each level the states found, and what their ids mean.

    levels/00007/part-00003.parquet    the states of level 7 that partition 3 owns, one column of ids for each field
    names/00007.parquet                what the ids mean that level 7 is the first to have

A file appears in one go, and its content follows from the search alone: a task that runs twice writes the same file
twice. So nobody ever reads half a file, or a different one from his neighbour.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from kraftcheck.explorer.spark.definitions import Definition, from_table, to_table
from kraftcheck.files import replacing

States = NDArray[np.int32]
GROUP = 1 << 16
"""States of a row group: what a task reads at a time, and the least that two tasks divide among them."""

LEVELS, NAMES = "levels", "names"


class Piece(NamedTuple):
    """Some states of one file.

    Attributes
    ----------
    level, part
        Which file.
    first, groups
        Which of its row groups.
    """

    level: int
    part: int
    first: int
    groups: int


def groups_of(rows: int) -> int:
    """Return how many row groups a file of so many states has."""
    return -(-rows // GROUP)


class Shared:
    """The folder.

    Parameters
    ----------
    path
        Where it is, for the driver and for every executor.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)

    def _level(self, level: int) -> Path:
        return self.path / LEVELS / f"{level:05d}"

    def _part(self, level: int, part: int) -> Path:
        return self._level(level) / f"part-{part:05d}.parquet"

    def _names(self, level: int) -> Path:
        return self.path / NAMES / f"{level:05d}.parquet"

    def clear(self, after: int = 0) -> None:
        """Remove all levels after one; after level 0, everything."""
        for folder in (self.path / LEVELS, self.path / NAMES):
            for path in folder.glob("*"):
                stem = path.name.split(".")[0]
                if not stem.isdigit() or int(stem) > after:
                    shutil.rmtree(path) if path.is_dir() else path.unlink()
            folder.mkdir(parents=True, exist_ok=True)

    def remove(self) -> None:
        """Remove everything."""
        for name in (LEVELS, NAMES):
            shutil.rmtree(self.path / name, ignore_errors=True)

    # Levels

    def begin_level(self, level: int) -> None:
        """Make the folder of a level, empty."""
        shutil.rmtree(self._level(level), ignore_errors=True)
        self._level(level).mkdir(parents=True)

    def write_states(self, level: int, part: int, states: States) -> int:
        """Write the states of a level that a partition owns; return the bytes of the file."""
        names = ["control", *(f"inbox_{slot}" for slot in range(states.shape[1] - 1))]
        table = pa.table({name: pa.array(states[:, i]) for i, name in enumerate(names)})
        return _write(table, self._part(level, part))

    def read_states(self, piece: Piece) -> Iterator[States]:
        """Yield the states of a piece of a level, a row group at a time."""
        with pq.ParquetFile(self._part(piece.level, piece.part)) as file:
            for group in range(piece.first, piece.first + piece.groups):
                yield _states(file.read_row_group(group, use_threads=False))

    def read_part(self, level: int, part: int) -> Iterator[States]:
        """Yield all states of a level that a partition owns."""
        with pq.ParquetFile(self._part(level, part)) as file:
            for group in range(file.num_row_groups):
                yield _states(file.read_row_group(group, use_threads=False))

    def count(self, level: int, part: int) -> int:
        """Return how many states a file has; 0 where it is not there, or not whole."""
        try:
            return int(pq.read_metadata(self._part(level, part)).num_rows)
        except (OSError, pa.ArrowException):
            return 0

    def sync(self, level: int, parts: list[int]) -> None:
        """See to it that a level outlives the machine's failure."""
        for path in [*(self._part(level, part) for part in parts), self._level(level)]:
            number = os.open(path, os.O_RDONLY)
            try:
                os.fsync(number)
            finally:
                os.close(number)

    # Names

    def write_names(self, level: int, definitions: list[Definition]) -> None:
        """Write what the ids mean that a level is the first to have."""
        _write(to_table(definitions), self._names(level))

    def read_names(self, level: int) -> Iterator[Definition]:
        """Yield what the ids mean that a level is the first to have."""
        return from_table(pq.read_table(self._names(level), use_threads=False))


def _write(table: Any, path: Path) -> int:
    plain = {"compression": "none", "use_dictionary": False, "write_statistics": False}
    with replacing(path) as new:
        pq.write_table(table, new, row_group_size=GROUP, **plain)
    return path.stat().st_size


def _states(table: Any) -> States:
    states = np.empty((table.num_rows, table.num_columns), np.int32)
    for i, column in enumerate(table.columns):
        at = 0
        for chunk in column.chunks:
            states[at : at + len(chunk), i] = chunk.to_numpy()
            at += len(chunk)
    return states
