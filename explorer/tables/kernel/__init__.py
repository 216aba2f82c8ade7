"""The compiled code of the table engine: it knows no protocol, and imports nothing of the engine above it."""

from __future__ import annotations

from pathlib import Path

from kraftcheck.explorer.native.compiling import cache_folder_for_sources, kernel_compiler

_KERNEL_FOLDER = Path(__file__).parent
CACHE_FOLDER = cache_folder_for_sources(_KERNEL_FOLDER)
jit = kernel_compiler(_KERNEL_FOLDER)
