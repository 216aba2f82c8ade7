"""The table engine: handlers learned as integer tables, states explored as rows of ids by a compiled kernel."""


def search_orders() -> tuple[str, ...]:
    """Return the names of the search orders; no search is imported for it."""
    from kraftcheck.explorer.tables.searches import names

    return names()
