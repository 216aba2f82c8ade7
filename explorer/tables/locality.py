"""Partition of a search's properties and constraints into local and non-local ones.

The tables decide the local ones, which read replicas, projections of replicas, shared fields, or one message alone.
A property is non-local if it reads a whole state, whole inboxes, or a message with other inputs. It has nearly as
many distinct inputs as there are states, so tables would not help.
"""

from __future__ import annotations

from typing import NamedTuple

from kraftcheck.explorer.calls.conjuncts import reads_parts
from kraftcheck.explorer.result import SearchRequest
from kraftcheck.explorer.tables.kernel.codes import MOST_PROPERTIES
from kraftcheck.spec.language.declarations import Property


class Parts(NamedTuple):
    """Properties and constraints of a search: local ones, decided by the tables, and others, evaluated in Python."""

    properties: tuple[Property, ...]  # decided by a control row
    constraints: tuple[Property, ...]
    about_messages: tuple[Property, ...]  # invariants of one message alone
    non_local: tuple[Property, ...]  # evaluated in Python, on each new state
    non_local_constraints: tuple[Property, ...]


def split(options: SearchRequest) -> Parts:
    """Partition the properties and constraints of a search."""
    about_states = [p for p in options.properties if not p.over_steps]
    room = MOST_PROPERTIES - 1  # bits of a mask; Python evaluates the properties beyond these
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
    """Name the input that makes a property non-local; None for a local property."""
    if "state" in prop.asks and not reads_parts(prop):
        return "whole states"
    if any(read.of_inbox for read in prop.reads):
        return "whole inboxes"
    if "message" in prop.asks:
        others = [name for name in prop.asks if name != "message"]
        if others:
            return f"messages together with {', '.join(others)}"
        return None if prop.kind == "invariant" else "every message"
    return None
