"""Compiled functions: how they are compiled, cached on disk, and given memory that they do not own.

Numba counts references to arrays, with atomic instructions, wherever one is given to an inlined function or handed on
in a tuple. In a loop over states that costs more than the work, and worse where several threads share the tables. So
the kernel sees *bare* arrays: the same memory, without an owner. The learner keeps it, and the kernel finds it through
a *directory*, an array of three numbers for each table: address, rows, columns.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numba
import numpy as np
from numba import njit, types
from numba.core import cgutils as llvm_utilities
from numba.core import imputils
from numba.extending import intrinsic

cgutils: Any = llvm_utilities  # what Numba exports without annotations
impl_ret_untracked: Any = imputils.impl_ret_untracked
_numba: Any = numba
carray, config = _numba.carray, _numba.config

ENTRY = 3  # numbers that the directory holds for each table
_FOLDER = "kraftcheck"


def _cache_folder() -> str:
    """Return where compiled code is cached: a folder for the sources of the kernel as they are now.

    Numba looks at a function's own file only, but a constant of another one is compiled in as well.
    """
    digest = blake2b(digest_size=8)
    for path in sorted(Path(__file__).parent.rglob("*.py")):
        digest.update(path.read_bytes())
    given = os.environ.get("NUMBA_CACHE_DIR") or os.environ.get("XDG_CACHE_HOME")
    with suppress(OSError, RuntimeError):
        folder = Path(given or Path.home() / ".cache") / _FOLDER / digest.hexdigest()
        folder.mkdir(parents=True, exist_ok=True)
        if os.access(folder, os.W_OK):
            return str(folder)
    return str(config.CACHE_DIR)


CACHE = _cache_folder()


def jit(function: Callable[..., Any]) -> Any:
    """Compile a function when it is first called; other processes find the code in the cache."""
    before = config.CACHE_DIR
    config.CACHE_DIR = CACHE
    try:
        return njit(cache=True, nogil=True, boundscheck=False)(function)
    finally:
        config.CACHE_DIR = before


inlined = njit(inline="always")


def _bare(context: Any, array: Any) -> Any:
    """Return an array without an owner: the same memory, which the caller keeps."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kind = signature.return_type
        copy = context.make_array(kind)(context, builder, value=arguments[0])
        copy.meminfo = cgutils.get_null_value(copy.meminfo.type)
        copy.parent = cgutils.get_null_value(copy.parent.type)
        return impl_ret_untracked(context, builder, kind, copy._getvalue())

    return array(array), generate


bare: Any = intrinsic(_bare)


def _pointer(context: Any, address: Any) -> Any:
    """Return the pointer that a number is the address of."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.inttoptr(arguments[0], cgutils.voidptr_t)

    return types.voidptr(types.int64), generate


pointer: Any = intrinsic(_pointer)


def table(number: int, kind: Any, columns: int) -> Any:
    """Return a compiled function that finds a table in a directory, given the directory's address.

    Parameters
    ----------
    number
        Its place in the directory.
    kind
        Its NumPy type.
    columns
        0 for a table of one dimension, -1 where the directory says how many there are.
    """
    first, last = ENTRY * number, ENTRY * (number + 1)
    if columns == 0:

        @inlined
        def find_table(directory: Any) -> Any:
            entry = carray(pointer(directory), last, np.int64)
            return carray(pointer(entry[first]), entry[first + 1], kind)

    elif columns < 0:

        @inlined
        def find_table(directory: Any) -> Any:
            entry = carray(pointer(directory), last, np.int64)
            return carray(pointer(entry[first]), (entry[first + 1], entry[first + 2]), kind)

    else:

        @inlined
        def find_table(directory: Any) -> Any:
            entry = carray(pointer(directory), last, np.int64)
            return carray(pointer(entry[first]), (entry[first + 1], columns), kind)

    return find_table
