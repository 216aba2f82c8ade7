"""The sources of the product, each parsed once for all tests that measure them."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGES = ("spec", "kraft_model", "explorer", "traces", "kraftcheck")
KERNELS = tuple(ROOT / "explorer" / engine / "kernel" for engine in ("tables", "symbolic", "temporal", "bytecode"))


@cache
def trees() -> dict[Path, ast.Module]:
    """Return the syntax tree of every module of the product, once: not by the links in `kraftcheck`."""
    return {
        path: ast.parse(path.read_text())
        for package in PACKAGES
        for path in sorted((ROOT / package).rglob("*.py"))
        if not any(parent.is_symlink() for parent in path.parents)
    }
