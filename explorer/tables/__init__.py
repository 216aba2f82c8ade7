"""The table engine: handlers learned as integer tables, states explored as rows of ids by a compiled kernel."""

from __future__ import annotations

from pkgutil import iter_modules


def search_orders() -> tuple[str, ...]:
    """Return the names of the search orders: those of the files in `searches/`. No search is imported for it."""
    from kraftcheck.explorer.tables import searches

    files = (module.name for module in iter_modules(searches.__path__))
    return tuple(sorted(name.replace("_", "-") for name in files if not name.startswith("_")))
