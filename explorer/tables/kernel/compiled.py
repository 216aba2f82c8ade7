"""Whether the kernel has been compiled on this machine, so that a search can begin at once."""

from __future__ import annotations

from typing import Any

from kraftcheck.explorer.tables.kernel.expand import expand_batch
from kraftcheck.explorer.tables.kernel.resolving.resolve import resolve

KERNEL: tuple[Any, ...] = (expand_batch, resolve)
"""What takes longest to compile; the rest is called by it, or small."""


def is_compiled() -> bool:
    """Return whether Numba has the kernel's compiled code, in this process or in its cache."""
    try:
        return all(function.signatures or function._cache._cache_file._load_index() for function in KERNEL)
    except (AttributeError, OSError):  # a Numba that keeps its cache in another way: take it to be there
        return True
