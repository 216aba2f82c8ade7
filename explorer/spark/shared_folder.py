"""Folder shared by driver and executors: the states of each level, and the definitions of global ids.

The file `levels/00007/part-00003.parquet` has the states of level 7 in partition 3, a column for each field. The file
`names/00007.parquet` has the definitions of the new global ids in level 7.

A file appears atomically, and its content follows from the search alone: a task that runs twice writes the same file
twice. So no process reads half a file, and all read the same. Pages have checksums, so a damaged file is an error.

A state is a row of 32-bit numbers. The first one is its control row. Each other one belongs to a slot: the number of
its inbox among the inboxes of that slot (0: empty). Its row is packed while it is sent.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from kraftcheck.explorer.spark.wire_records import WireRecord, wire_records_from_table, wire_records_to_table
from kraftcheck.explorer.tables.kernel.packing import (
    pack_rows_of_numbers,
    unpack_rows_of_numbers,
    write_partitions_of_states,
)
from kraftcheck.explorer.tables.rows import Words, indices_by_owner_partition, packing_of_widths
from kraftcheck.explorer.tables.visited import VisitedSetPartition
from kraftcheck.files import (
    atomic_replacement,
    fsync_path,
    make_folder_refusing_link,
    remove_path,
    remove_unfinished_files,
)
from kraftcheck.spec.errors import InputError

StateRows = NDArray[np.int32]
STATES_A_ROW_GROUP = 1 << 16
"""States of a row group, the unit that a task reads; tasks share a file by row groups."""

ID_BYTES = 4
LEVELS_FOLDER, DEFINITIONS_FOLDER = "levels", "names"


def row_group_count(rows: int) -> int:
    """Return the number of row groups of a file with this many states."""
    return -(-rows // STATES_A_ROW_GROUP)


class SharedFolder:
    """The folder that driver and executors share."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)

    def _level(self, level: int) -> Path:
        return self.path / LEVELS_FOLDER / f"{level:05d}"

    def _part(self, level: int, part: int) -> Path:
        return self._level(level) / f"part-{part:05d}.parquet"

    def _definitions(self, level: int) -> Path:
        return self.path / DEFINITIONS_FOLDER / f"{level:05d}.parquet"

    def clear(self, after: int = 0) -> None:
        """Remove all levels after a given one; after level 0, remove everything."""
        for folder in (self.path / LEVELS_FOLDER, self.path / DEFINITIONS_FOLDER):
            make_folder_refusing_link(folder)
            for path in folder.iterdir():
                stem = path.name.split(".")[0]
                if path.is_symlink() or not stem.isdigit() or int(stem) > after:
                    remove_path(path)
                elif path.is_dir():
                    remove_unfinished_files(path)

    # Levels

    def begin_level(self, level: int) -> None:
        """Create the folder of a level, empty."""
        remove_path(self._level(level))
        make_folder_refusing_link(self._level(level))

    def write_states(self, level: int, part: int, states: StateRows) -> int:
        """Write the states of a level that a partition owns; return the bytes of the file."""
        names = ["control", *(f"inbox_{slot}" for slot in range(states.shape[1] - 1))]
        table = pa.table({name: pa.array(states[:, i]) for i, name in enumerate(names)})
        return _write_parquet(table, self._part(level, part))

    def read_part(self, level: int, part: int) -> Iterator[StateRows]:
        """Yield the states of a level that a partition owns, a row group at a time."""
        with _open_numbers_file(self._part(level, part)) as file:
            for group in range(file.num_row_groups):
                yield _table_to_states(file.read_row_group(group, use_threads=False))

    def read_level(self, level: int) -> Iterator[StateRows]:
        """Yield the states of a level from all of its files, a row group at a time."""
        for path in sorted(self._level(level).glob("part-*.parquet")):
            yield from self.read_part(level, int(path.stem.removeprefix("part-")))

    def read_group(self, level: int, part: int, group: int) -> StateRows:
        """Return the states of one row group."""
        with _open_numbers_file(self._part(level, part)) as file:
            return _table_to_states(file.read_row_group(group, use_threads=False))

    def count(self, level: int, part: int) -> int:
        """Return the number of states in a file; 0 if the file is missing or incomplete."""
        try:
            return int(pq.read_metadata(self._part(level, part)).num_rows)
        except (OSError, ValueError, pa.ArrowException):
            return 0

    def sync(self, level: int, parts: list[int]) -> None:
        """Flush a level to disk, so that it survives a loss of power."""
        for path in [*(self._part(level, part) for part in parts), self._level(level)]:
            fsync_path(path)

    # Definitions

    def write_definitions(self, level: int, definitions: list[WireRecord]) -> None:
        """Write the definitions of the global ids that a level introduces."""
        _write_parquet(wire_records_to_table(definitions), self._definitions(level))

    def read_definitions(self, level: int) -> Iterator[WireRecord]:
        """Yield the definitions of the global ids that a level introduces."""
        with _open_numbers_file(self._definitions(level)) as file:
            yield from wire_records_from_table(file.read(use_threads=False))


@contextmanager
def _open_numbers_file(path: Path) -> Iterator[Any]:
    """Open a file of uncompressed numbers; raise InputError if it cannot be read."""
    try:
        with pq.ParquetFile(path, page_checksum_verification=True) as file:
            rows, size = file.metadata.num_rows, path.stat().st_size
            if rows * ID_BYTES > size:
                raise ValueError(f"its header says {rows:,} rows, but it has {size:,} bytes")
            yield file
    except (InputError, MemoryError):
        raise
    except (ArithmeticError, LookupError, OSError, TypeError, ValueError, pa.ArrowException) as error:
        said = str(error).partition("\n")[0][:200]
        raise InputError(f"{path}: the file is missing or damaged: {said}") from error


def _write_parquet(table: Any, path: Path) -> int:
    plain = {
        "compression": "none", "use_dictionary": False, "write_statistics": False, "write_page_checksum": True,
    }  # fmt: skip
    with atomic_replacement(path) as new:
        pq.write_table(table, new, row_group_size=STATES_A_ROW_GROUP, **plain)
    return path.stat().st_size


def _table_to_states(table: Any) -> StateRows:
    states = np.empty((table.num_rows, table.num_columns), np.int32)
    for i, column in enumerate(table.columns):
        states[:, i] = column.to_numpy()
    return states


WORD_BYTES = 8


class StatePacking:
    """Bit layout of the packed states of a level."""

    def __init__(self, counts: list[int]) -> None:
        self._fields = packing_of_widths([max(1, (count - 1).bit_length()) for count in counts])
        self.bytes_a_state = (int(self._fields.width.sum()) + 7) // 8

    def partition(self) -> VisitedSetPartition:
        """Return an empty hash table for packed words."""
        return VisitedSetPartition(self._fields)

    def pack(self, states: StateRows) -> Words:
        """Return states as packed words; missing columns are 0."""
        words = np.zeros((len(states), self._fields.words), np.uint64)
        pack_rows_of_numbers(states, self._fields, words)
        return words

    def unpack(self, words: Words) -> StateRows:
        """Return the states of packed words."""
        states = np.empty((len(words), len(self._fields.position)), np.int32)
        unpack_rows_of_numbers(words, self._fields, states)
        return states

    def to_bytes(self, words: Words) -> bytes:
        """Return packed words as bytes, without the bytes that no state uses."""
        octets = np.ascontiguousarray(words.astype("<u8", copy=False)).view(np.uint8)
        return octets[:, : self.bytes_a_state].tobytes()

    def from_bytes(self, data: Any) -> Words:
        """Return packed words from their bytes."""
        octets: NDArray[np.uint8] = np.frombuffer(data, np.uint8).reshape(-1, self.bytes_a_state)
        whole = np.zeros((len(octets), WORD_BYTES * self._fields.words), np.uint8)
        whole[:, : self.bytes_a_state] = octets
        return whole.view("<u8").astype(np.uint64, copy=False)


def state_indices_by_partition(compared: StateRows, parts: int) -> Iterator[tuple[int, NDArray[np.int64]]]:
    """Yield (partition, indices of its states) for each partition that owns some of the states."""
    owner = np.empty(len(compared), np.int64)
    write_partitions_of_states(np.ascontiguousarray(compared), parts, owner)
    return indices_by_owner_partition(owner, parts)


def sorted_packed_words(words: Words) -> Words:
    """Return packed words in ascending order."""
    return words[np.lexsort(words.T)]


def least_row_index_of_each_key(keys: Words, words: Words) -> NDArray[np.int64]:
    """Return for each distinct key the index of its least row in `words`, in the order of the keys."""
    order = np.lexsort((*words.T, *keys.T))
    ordered = keys[order]
    differs = np.ones(len(order), bool)
    differs[1:] = (ordered[1:] != ordered[:-1]).any(axis=1)
    return order[differs]
