"""Memory for tables that are often replaced by larger ones.

Fresh memory comes from the system page by page. Each page must be cleared, and threads of one process wait for each
other meanwhile. So a table reserves more address space than it needs, and grows in place. The memory of a replaced
table goes to the next table that grows in the same thread.
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

OWN_PAGES = 1 << 18  # bytes from which on a table gets pages of its own
LARGE_PAGES = 1 << 25  # default number of bytes from which on a table gets huge pages: the last page is half empty
RESERVED = 4  # ratio of reserved addresses to bytes


def reserved(count: int, large: int = LARGE_PAGES) -> Any:
    """Return at least `count` zero bytes; pages that are never written take no memory."""
    if count < OWN_PAGES:
        return np.zeros(count, np.uint8)
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | getattr(mmap, "MAP_NORESERVE", 0)
    try:
        pages = map_memory(-1, RESERVED * count, flags=flags)
    except OSError:  # too little address space
        pages = map_memory(-1, count, flags=flags)
    if count >= large and hasattr(mmap, "MADV_HUGEPAGE"):
        with suppress(OSError):  # a kernel without them
            pages.madvise(mmap.MADV_HUGEPAGE)
    return np.frombuffer(pages, np.uint8)


def scattered(shape: tuple[int, ...], kind: Any) -> NDArray[Any]:
    """Return a zeroed array in small pages, for random writes; NumPy would request huge pages.

    A small array is an ordinary NumPy array, in recycled memory.
    """
    count = math.prod(shape) * np.dtype(kind).itemsize
    if count >= OWN_PAGES:
        with suppress(OSError):
            pages = map_memory(-1, count, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
            return np.frombuffer(pages, kind).reshape(shape)
    return np.zeros(shape, kind)


class Spare(local):
    """The largest array that this thread has released, kept for reuse by tables of one kind."""

    def __init__(self) -> None:
        self._spare = reserved(0)

    def take(self, count: int) -> Any:
        """Return an array of at least `count` bytes with arbitrary contents: the spare array, or a new one."""
        taken, self._spare = self._spare, reserved(0)
        return taken if len(taken) >= count else reserved(count)

    def leave(self, left: Any) -> None:
        """Release an array for reuse; keep it if it is larger than the spare array."""
        if len(left) > len(self._spare):
            self._spare = left
