"""How compiled functions of this folder are compiled."""

from __future__ import annotations

from pathlib import Path

from kraftcheck.explorer.native.compiling import (
    bare,
    cache_folder,
    compiler,
    inlined,
    load64,
    move_bytes,
    prefetch,
    store64,
)

__all__ = ["CACHE", "bare", "inlined", "jit", "load64", "move_bytes", "prefetch", "store64"]

_HERE = Path(__file__).parent
CACHE = cache_folder(_HERE)
jit = compiler(_HERE)
