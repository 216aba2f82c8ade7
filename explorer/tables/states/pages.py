"""Memory for tables that are replaced by larger ones again and again.

What is given back to the system and taken anew comes page by page, each of which the system clears; and threads of one
process wait for each other there. So a table's bytes stand at the beginning of addresses reserved for more, and
what a table leaves goes to the next one that grows in the same thread.
"""

from __future__ import annotations

import math
import mmap
from contextlib import suppress
from mmap import mmap as map_memory
from threading import local
from typing import Any

import numpy as np
from numpy.typing import NDArray

OWN_PAGES = 1 << 18  # bytes of a table that has pages of its own
LARGE_PAGES = 1 << 25  # bytes of a table that has large pages, if nothing else is said: the last one is half empty
RESERVED = 4  # times as many addresses as bytes


def reserved(count: int, large: int = LARGE_PAGES) -> Any:
    """Return bytes that are 0, at least so many; those that nobody writes take no memory."""
    if count < OWN_PAGES:
        return np.zeros(count, np.uint8)
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | getattr(mmap, "MAP_NORESERVE", 0)
    try:
        pages = map_memory(-1, RESERVED * count, flags=flags)
    except OSError:  # there are not so many addresses
        pages = map_memory(-1, count, flags=flags)
    if count >= large and hasattr(mmap, "MADV_HUGEPAGE"):
        with suppress(OSError):  # a kernel without them
            pages.madvise(mmap.MADV_HUGEPAGE)
    return np.frombuffer(pages, np.uint8)


def scattered(shape: tuple[int, ...], kind: Any) -> NDArray[Any]:
    """Return an array that is 0 and will be written here and there, in small pages: NumPy would ask for large ones.

    A small array is as NumPy makes it, in memory that others had.
    """
    count = math.prod(shape) * np.dtype(kind).itemsize
    if count >= OWN_PAGES:
        with suppress(OSError):
            pages = map_memory(-1, count, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
            return np.frombuffer(pages, kind).reshape(shape)
    return np.zeros(shape, kind)


class Spare(local):
    """What tables of one kind have left in this thread: the largest of it."""

    def __init__(self) -> None:
        self._spare = reserved(0)

    def take(self, count: int) -> Any:
        """Return bytes, at least so many, which may hold anything."""
        taken, self._spare = self._spare, reserved(0)
        return taken if len(taken) >= count else reserved(count)

    def leave(self, left: Any) -> None:
        """Leave bytes that nobody reads any more."""
        if len(left) > len(self._spare):
            self._spare = left
