"""What the symbolic engine does not do: it is refused before the search, never done wrongly."""

from __future__ import annotations

from dataclasses import replace

from kraftcheck.explorer import reachability
from kraftcheck.explorer.result import Options, Search
from kraftcheck.spec.errors import InputError
from kraftcheck.spec.language.protocol import Protocol

TABLES = "--engine tables"
BFS_OR_TABLES = f"--search bfs or {TABLES}"


def require_able(protocol: Protocol, options: Options) -> None:
    """Raise InputError for what the engine does not do, naming what it is.

    Parameters
    ----------
    protocol
        The protocol, with its constants.
    options
        What is asked for.

    Raises
    ------
    InputError
        At the first.
    """
    reachability.require_able(protocol, replace(options, search=Search.BFS))
    for reason, expected in _reasons(protocol, options):
        raise InputError(f"{reason}; expected {expected}")


def _reasons(protocol: Protocol, options: Options) -> list[tuple[str, str]]:
    """Return why the engine cannot do what is asked, and what can."""
    found = []
    if options.symmetry is not None:
        why = "the engine symbolic counts every state: give --no-symmetry"
        found.append((f"SYMMETRY {options.symmetry}: {why}", TABLES))
    for prop in options.temporal:
        found.append((f"{prop.name}: the engine symbolic cannot check temporal properties", TABLES))
    shared = protocol.hidden(options.view).shared if options.view is not None else frozenset()
    if shared:
        protocol.checked_initial()  # raises for a name that is no shared field
        what = f"VIEW {options.view} leaves out {', '.join(sorted(shared))}"
        why = "it matters which of the states that look the same is found first, and the engine symbolic finds them in"
        found.append((f"{what}: {why} no order", TABLES))
    elif options.view is not None and options.search != Search.BFS:
        found.append((f"VIEW {options.view}: --search {options.search} does not see it", BFS_OR_TABLES))
    if options.search != Search.BFS:
        for name in ("max_states", "max_depth"):
            if getattr(options, name) is not None:
                option = "--" + name.replace("_", "-")
                found.append((f"{option}: --search {options.search} finds states in no order", BFS_OR_TABLES))
    return found
