"""What the symbolic engine does not do: it is refused before the search, never done wrongly."""

from __future__ import annotations

from kraftcheck.explorer.result import Options, Search
from kraftcheck.spec.errors import InputError
from kraftcheck.spec.language.protocol import Protocol


def require_able(protocol: Protocol, options: Options) -> None:
    """Raise InputError for what the engine does not do, naming what it is.

    Parameters
    ----------
    protocol
        The protocol, with its constants.
    options
        What is asked for.
    """
    for reason in _reasons(options):
        raise InputError(f"{reason}; expected --engine tables")


def _reasons(options: Options) -> list[str]:
    """Return why the engine cannot do what is asked."""
    found = []
    if options.symmetry is not None:
        found.append(f"SYMMETRY {options.symmetry}: the engine symbolic counts every state: give --no-symmetry")
    if options.view is not None:
        found.append(f"VIEW {options.view}: the engine symbolic has no views")
    for prop in options.reachable:
        found.append(f"{prop.name}: the engine symbolic cannot check what stays reachable")
    for prop in options.temporal:
        found.append(f"{prop.name}: the engine symbolic cannot check temporal properties")
    if options.search != Search.BFS:
        for name in ("max_states", "max_depth"):
            if getattr(options, name) is not None:
                option = "--" + name.replace("_", "-")
                found.append(f"{option}: --search {options.search} finds states in no order; expected --search bfs")
    return found
