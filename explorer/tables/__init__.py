"""The table engine: handlers learned as integer tables, states explored as rows of ids by a compiled kernel."""

from __future__ import annotations

from pkgutil import iter_modules


def search_orders() -> tuple[str, ...]:
    """Return the search orders, the default first: those of the files in `searches/`. None is imported for it."""
    from kraftcheck.explorer.tables import searches

    files = (module.name for module in iter_modules(searches.__path__))
    found = (name.replace("_", "-") for name in files if not name.startswith("_"))
    return tuple(sorted(found, key=lambda name: (name != "bfs", name)))
