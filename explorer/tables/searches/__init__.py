"""The orders of search, a module each: its name is the order's name, and it has a `STRATEGY`.

A module added here is found by its name; nothing lists them.
"""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kraftcheck.explorer.tables.strategy import Strategy


def names() -> tuple[str, ...]:
    """Return the names of the orders of search. Nothing is imported for it."""
    return tuple(sorted(module.name for module in iter_modules(__path__)))


def find(name: str) -> Strategy:
    """Return an order of search, by name."""
    strategy: Strategy = import_module(f"{__name__}.{name}").STRATEGY
    return strategy
