"""The table engine: handlers memoized as integer tables, and states as rows of ids that a compiled kernel expands."""

from __future__ import annotations

from pkgutil import iter_modules


def search_orders() -> tuple[str, ...]:
    """Return the search orders, the default first: one for each file in `searches/`. Imports none of these files."""
    from kraftcheck.explorer.tables import searches

    files = (module.name for module in iter_modules(searches.__path__))
    found = (name.replace("_", "-") for name in files if not name.startswith("_"))
    return tuple(sorted(found, key=lambda name: (name != "bfs", name)))
