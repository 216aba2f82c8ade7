"""What a worker notes while it expands states: what it missed, and what is to be reported."""

# ruff: noqa: D103 - the functions are documented where their contract is not plain from the name
from __future__ import annotations

from typing import Any

from kraftcheck.explorer.tables.kernel.layout import S_EVENTS, S_NEEDS
from kraftcheck.explorer.tables.kernel.native import inlined


@inlined
def need(needs: Any, stats: Any, kind: Any, a: Any, b: Any, c: Any, d: Any, e: Any) -> None:
    """Note what is missing; once the list is full, the state is simply tried again."""
    n = stats[S_NEEDS]
    if n < len(needs):
        needs[n, 0] = kind
        needs[n, 1] = a
        needs[n, 2] = b
        needs[n, 3] = c
        needs[n, 4] = d
        needs[n, 5] = e
        stats[S_NEEDS] = n + 1


@inlined
def note(events: Any, stats: Any, state: Any, kind: Any, mask: Any) -> None:
    at = stats[S_EVENTS]
    if at < len(events):
        events[at, 0] = state
        events[at, 1] = kind
        events[at, 2] = mask
        stats[S_EVENTS] = at + 1
