"""Large arrays: in memory up to a budget, beyond it mapped from unnamed temporary files."""

from __future__ import annotations

import os
from pathlib import Path
from tempfile import TemporaryFile, gettempdir
from typing import Any

import numpy as np
from numpy.typing import NDArray

AMPLE = 1 << 40
"""Bytes of memory with which no array spills."""
FIRST = 1 << 12
"""Initial capacity of a growing array."""


class SpillArena:
    """Allocator of large arrays: in memory up to a budget, then mapped from files that vanish with the process."""

    def __init__(self, left: int = AMPLE, folder: Path | None = None) -> None:
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
            reserve(file.fileno(), size, str(self._folder or gettempdir()))
            found = np.memmap(file, kind, "r+", shape=(count,)).view(np.ndarray)
        if fill:
            found[:] = fill
        return found

    def give_back(self, array: NDArray[Any]) -> None:
        """Return the bytes of an unused array to the memory budget, unless it is mapped from a file."""
        if not is_mapped(array):
            self.left += array.nbytes


def reserve(file: int, size: int, place: str) -> None:
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


class SpillArray:
    """Growing array of numbers."""

    def __init__(self, room: SpillArena, kind: Any, expected: int = FIRST) -> None:
        self.count = 0
        self._room = room
        self._array = room.array(max(expected, FIRST), kind)

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
