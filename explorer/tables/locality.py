"""Divides the properties and constraints of a search into local and non-local ones.

The tables decide the local ones: those that read replicas, projections of them and shared fields, or one message alone.
What reads a whole state, a message together with something else, or whole inboxes has nearly as many inputs as there
are states.
"""

from __future__ import annotations

from typing import NamedTuple

from kraftcheck.explorer.result import SearchRequest
from kraftcheck.explorer.tables.kernel.codes import MOST_PROPERTIES
from kraftcheck.spec.language.declarations import Property


class Parts(NamedTuple):
    """The properties and constraints of a search, by how they are decided."""

    properties: tuple[Property, ...]  # by a control row
    constraints: tuple[Property, ...]
    about_messages: tuple[Property, ...]  # invariants of one message alone
    non_local: tuple[Property, ...]  # by Python, on each new state
    non_local_constraints: tuple[Property, ...]


def split(options: SearchRequest) -> Parts:
    """Divide the properties and constraints of a search by how they are decided."""
    about_states = [p for p in options.properties if not p.over_steps]
    room = MOST_PROPERTIES - 1  # Python evaluates those for which there is none
    constraints = [c for c in options.constraints if reason(c) is None][:room]
    local = [p for p in about_states if reason(p) is None and p.asks != ("message",)][: room - len(constraints)]
    messages = [p for p in about_states if p.asks == ("message",)][: room - len(constraints) - len(local)]
    return Parts(
        tuple(local),
        tuple(constraints),
        tuple(messages),
        tuple(p for p in about_states if p not in local and p not in messages),
        tuple(c for c in options.constraints if c not in constraints),
    )


def reason(prop: Property) -> str | None:
    """Return what a property reads that makes it non-local; None where it is local."""
    if "state" in prop.asks:
        return "whole states"
    if any(read.of_inbox for read in prop.reads):
        return "whole inboxes"
    if "message" in prop.asks:
        others = [name for name in prop.asks if name != "message"]
        if others:
            return f"messages together with {', '.join(others)}"
        return None if prop.kind == "invariant" else "every message"
    return None
