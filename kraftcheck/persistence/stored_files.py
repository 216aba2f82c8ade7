"""Stored data: append-only files, an index of their rows, large arrays, and validation.

A folder may be forged, digests included.
"""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import blake2b
from io import FileIO
from pathlib import Path
from tempfile import TemporaryFile, gettempdir
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from kraftcheck.files import open_refusing_link
from kraftcheck.spec.errors import InputError
from kraftcheck.spec.values import truncate_text

LARGEST_STORED_NUMBER = 1 << 62
"""The limit on numbers in a manifest, so that sums of a few stay within 64 bits."""

HASH_FACTOR = np.uint64(0x9E3779B97F4A7C15)


class CorruptFileError(Exception):
    """Invalid content of a file; `Checkpoint.rejecting` adds the folder to the message."""


def require_condition(is_right: Any, problem: str) -> None:
    """Raise CorruptFileError unless a condition (or each of an array) is true."""
    if not np.all(is_right):
        raise CorruptFileError(problem)


@contextmanager
def errors_as_corrupt_file(what: str, *others: type[BaseException]) -> Iterator[None]:
    """Convert any error into CorruptFileError: forged values raise many kinds in NumPy, Arrow and protocols."""
    known: tuple[type[BaseException], ...] = (CorruptFileError, InputError, MemoryError, *others)
    try:
        yield
    except known:
        raise
    except Exception as error:
        raise CorruptFileError(f"{what}: {type(error).__name__}: {error}") from None


def require_json_shape(value: Any, shape: Any, place: str = "it") -> None:
    """Raise CorruptFileError unless a JSON value has a shape.

    Shapes are `int` and `float` (numbers of at least 0), `str`, `bool`, `dict`, and `object` for any value. `[shape]`
    is a list, `(shape, ...)` a list of this length. `{name: shape}` is an object with these names, `{str: shape}` an
    object with any names.
    """
    if isinstance(shape, list | tuple):
        _require_list(value, shape, place)
    elif isinstance(shape, dict):
        _require_object(value, shape, place)
    elif shape in (int, float):
        if type(value) not in {int, shape} or not 0 <= value < LARGEST_STORED_NUMBER:
            raise CorruptFileError(f"{place}: expected a number of at least 0, found {_shortened_value(value)}")
    elif shape is not object and type(value) is not shape:
        raise CorruptFileError(f"{place}: expected {shape.__name__}, found {_shortened_value(value)}")


def _require_list(value: Any, shape: list[Any] | tuple[Any, ...], place: str) -> None:
    length = len(shape) if isinstance(shape, tuple) else None
    if type(value) is not list or length not in (None, len(value)):
        raise CorruptFileError(
            f"{place}: expected a list{f' of {length}' if length else ''}, found {_shortened_value(value)}"
        )
    shapes = cast("list[Any]", shape) * len(value) if length is None else shape
    for number, (one, its_shape) in enumerate(zip(value, shapes, strict=True)):
        require_json_shape(one, its_shape, f"{place}[{number}]")


def _require_object(value: Any, shape: dict[Any, Any], place: str) -> None:
    if type(value) is not dict or (str not in shape and value.keys() != shape.keys()):
        names = "an object" if str in shape else f"an object with {', '.join(shape)}"
        raise CorruptFileError(f"{place}: expected {names}, found {_shortened_value(value)}")
    for name, one in value.items():
        require_json_shape(one, shape[str if str in shape else name], f"{place}.{name}")


def _shortened_value(value: Any) -> str:
    return truncate_text(", ".join(value) if isinstance(value, dict) else repr(value), 60)


def require_distinct_hashes(hashes: NDArray[np.uint64], what: str) -> None:
    """Raise CorruptFileError if two 64-bit hashes are equal."""
    require_condition(len(np.unique(hashes)) == len(hashes), f"two {what} are equal")


def hash_each_number(keys: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return 64-bit hashes of numbers."""
    keys = (keys ^ (keys >> np.uint64(31))) * HASH_FACTOR + HASH_FACTOR  # maps 0 to another number
    keys = (keys ^ (keys >> np.uint64(29))) * HASH_FACTOR
    return keys ^ (keys >> np.uint64(32))


DIGEST_BYTES = 16
HASH_CHUNK_BYTES = 1 << 20  # bytes hashed at a time


class AppendOnlyFile:
    """An append-only file with random reads. Several threads may read at the same time."""

    def __init__(self, file: FileIO, *, hashed: bool, place: str = "") -> None:
        self.length = 0
        self._file = file
        self._place = place or str(file.name)
        self._hash = blake2b(digest_size=DIGEST_BYTES) if hashed else None

    @classmethod
    def temporary(cls, folder: Path | None = None) -> AppendOnlyFile:
        """Return an unnamed temporary file, which vanishes with the process."""
        return cls(TemporaryFile(buffering=0, dir=folder), hashed=False, place=str(folder or gettempdir()))

    @classmethod
    def at(cls, path: Path, place: str = "") -> AppendOnlyFile:
        """Open or create the file at a path, with valid length 0 until `restore`."""
        return cls(FileIO(open_refusing_link(path), "r+"), hashed=True, place=place or str(path))

    @property
    def digest(self) -> str:
        """The digest of the valid bytes, in hexadecimal."""
        assert self._hash is not None
        return self._hash.hexdigest()

    def append(self, data: bytes | NDArray[Any]) -> int:
        """Append bytes and return their offset."""
        view = _array_bytes(np.ascontiguousarray(data)) if isinstance(data, np.ndarray) else memoryview(data)
        start = at = self.length
        while at < start + len(view):
            try:
                at += os.pwrite(self._file.fileno(), view[at - start :], at)
            except OSError as error:  # an unnamed file: the error names the folder
                raise OSError(error.errno, error.strerror, self._place) from None
        if self._hash is not None:
            self._hash.update(view)
        self.length = at
        return start

    def read_into(self, offset: int, array: NDArray[Any]) -> None:
        """Fill an array with the bytes at an offset."""
        view, at = _array_bytes(array), 0
        while at < len(view):
            found = os.preadv(self._file.fileno(), [view[at:]], offset + at)
            if found == 0:
                raise CorruptFileError(f"it ends after {offset + at} bytes")
            at += found

    def read(self, offset: int, count: int) -> bytes:
        """Return `count` bytes at an offset."""
        array = np.empty(count, np.uint8)
        self.read_into(offset, array)
        return array.tobytes()

    def restore(self, length: int, digest: str) -> None:
        """Check the digest of the first `length` bytes, make them the valid content, and truncate the rest."""
        size = os.fstat(self._file.fileno()).st_size
        if size < length:
            raise CorruptFileError(f"expected {length} bytes, found {size}")
        assert self._hash is not None
        for offset in range(0, length, HASH_CHUNK_BYTES):
            self._hash.update(self.read(offset, min(HASH_CHUNK_BYTES, length - offset)))
        if self.digest != digest:
            raise CorruptFileError("its content has changed: its checksum is not the one noted")
        os.ftruncate(self._file.fileno(), length)
        self.length = length

    def clear(self) -> None:
        """Truncate the file to length 0."""
        os.ftruncate(self._file.fileno(), 0)
        self.length = 0
        if self._hash is not None:
            self._hash = blake2b(digest_size=DIGEST_BYTES)

    def sync(self) -> None:
        """Flush the file to disk with fsync."""
        os.fsync(self._file.fileno())

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def _array_bytes(array: NDArray[Any]) -> memoryview:
    return array.data.cast("B") if array.size else memoryview(b"")


class RowExtent(NamedTuple):
    """A contiguous stretch of rows of one width in a file."""

    rows: int
    columns: int
    offset: int  # in bytes


class RowIndex:
    """The index of numeric rows in a growing file."""

    def __init__(self, item: type[np.generic]) -> None:
        self.count = 0
        self._item = np.dtype(item)
        self._extents: list[RowExtent] = []
        self._firsts: list[int] = []  # the number of each extent's first row

    @property
    def shapes(self) -> list[tuple[int, int]]:
        """The number and the width of the rows of each extent."""
        return [(extent.rows, extent.columns) for extent in self._extents]

    def append(self, file: AppendOnlyFile, rows: NDArray[Any]) -> None:
        """Append rows to the file and to the index."""
        if len(rows):
            self.note(len(rows), rows.shape[1], file.append(rows))

    def note(self, rows: int, columns: int, offset: int) -> int:
        """Add rows at an offset of the file to the index; return the offset of their end."""
        last = self._extents[-1] if self._extents else RowExtent(0, 0, 0)
        if last.columns == columns and self._end(*last) == offset:
            self._extents[-1] = last._replace(rows=last.rows + rows)
        else:
            self._extents.append(RowExtent(rows, columns, offset))
            self._firsts.append(self.count)
        self.count += rows
        return self._end(rows, columns, offset)

    def _end(self, rows: int, columns: int, offset: int) -> int:
        return offset + rows * columns * self._item.itemsize

    def read(self, file: AppendOnlyFile, first: int, most: int) -> NDArray[Any]:
        """Return up to `most` rows from number `first` on; fewer at a change of width."""
        if not 0 <= first < self.count:
            raise IndexError(f"there are {self.count} rows")
        which = bisect_right(self._firsts, first) - 1
        return self._read(file, self._extents[which], first - self._firsts[which], most)

    def _read(self, file: AppendOnlyFile, extent: RowExtent, first: int, most: int) -> NDArray[Any]:
        rows = np.empty((min(most, extent.rows - first), extent.columns), self._item)
        file.read_into(self._end(first, extent.columns, extent.offset), rows)
        return rows

    def chunks(self, file: AppendOnlyFile, most: int) -> Iterator[NDArray[Any]]:
        """Yield all present rows in chunks of at most `most`."""
        for extent in list(self._extents):
            for first in range(0, extent.rows, most):
                yield self._read(file, extent, first, most)


BYTES_WITHOUT_SPILLING = 1 << 40
"""Bytes of memory with which no array spills."""
FIRST_ARRAY_LENGTH = 1 << 12
"""Initial capacity of a growing array."""


class SpillArena:
    """Allocator of large arrays: in memory up to a budget, then mapped from files that vanish with the process."""

    def __init__(self, left: int = BYTES_WITHOUT_SPILLING, folder: Path | None = None) -> None:
        self.left = left
        self.on_disk = 0
        self._folder = folder

    def array(self, count: int, kind: Any, fill: int = 0) -> NDArray[Any]:
        """Return a new array."""
        size = count * np.dtype(kind).itemsize
        if size <= self.left or not size:
            self.left -= size
            return np.full(count, fill, kind) if fill else np.zeros(count, kind)
        self.on_disk += size
        with TemporaryFile(dir=self._folder) as file:
            reserve_disk_space(file.fileno(), size, str(self._folder or gettempdir()))
            found = np.memmap(file, kind, "r+", shape=(count,)).view(np.ndarray)
        if fill:
            found[:] = fill
        return found

    def give_back(self, array: NDArray[Any]) -> None:
        """Return the bytes of an unused array to the memory budget, unless it is mapped from a file."""
        if not is_mapped(array):
            self.left += array.nbytes


def reserve_disk_space(file: int, size: int, place: str) -> None:
    """Allocate the disk space of a file, since writing to a mapped file on a full disk would kill the process."""
    if not hasattr(os, "posix_fallocate"):
        os.truncate(file, size)
        return
    try:
        os.posix_fallocate(file, 0, size)
    except OSError as error:  # the file has no name
        raise OSError(error.errno, error.strerror, place) from None


def is_mapped(array: NDArray[Any]) -> bool:
    """Whether an array is mapped from a file."""
    base: Any = array
    while base is not None and not isinstance(base, np.memmap):
        base = getattr(base, "base", None)
    return base is not None


class GrowableSpillArray:
    """Growing array of numbers."""

    def __init__(self, room: SpillArena, kind: Any, expected: int = FIRST_ARRAY_LENGTH) -> None:
        self.count = 0
        self._room = room
        self._array = room.array(max(expected, FIRST_ARRAY_LENGTH), kind)

    @property
    def all(self) -> NDArray[Any]:
        """The numbers appended so far."""
        return self._array[: self.count]

    def append(self, numbers: NDArray[Any]) -> None:
        """Append numbers."""
        end = self.count + len(numbers)
        if end > len(self._array):
            old = self._array
            self._array = self._room.array(max(end, len(old) + len(old) // 2), old.dtype)
            self._array[: self.count] = old[: self.count]
            self._room.give_back(old)
        self._array[self.count : end] = numbers
        self.count = end
