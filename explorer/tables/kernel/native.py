"""The JIT decorators and intrinsics of the tables kernel, with its compile cache."""

from __future__ import annotations

from pathlib import Path

from kraftcheck.explorer.native.compiling import (
    add_atomically,
    bare,
    bytes_from,
    cache_folder,
    compiler,
    inlined,
    keep,
    load64,
    move_bytes,
    on_stack,
    prefetch,
    replace_atomically,
    store64,
)

__all__ = [
    "CACHE",
    "add_atomically",
    "bare",
    "bytes_from",
    "inlined",
    "jit",
    "keep",
    "load64",
    "move_bytes",
    "on_stack",
    "prefetch",
    "replace_atomically",
    "store64",
]

_HERE = Path(__file__).parent
CACHE = cache_folder(_HERE)
jit = compiler(_HERE)
