"""The JIT decorator of the tables kernel, with its compile cache."""

from __future__ import annotations

from pathlib import Path

from kraftcheck.explorer.native.compiling import cache_folder, kernel_compiler

_HERE = Path(__file__).parent
CACHE = cache_folder(_HERE)
jit = kernel_compiler(_HERE)
