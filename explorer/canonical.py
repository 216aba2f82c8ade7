"""Canonical keys of states under a symmetry and a view."""

from __future__ import annotations

from collections.abc import Callable

from kraftcheck.explorer.calls.type_inspection import note_types
from kraftcheck.explorer.request import SearchRequest
from kraftcheck.spec.encoding import encode
from kraftcheck.spec.language.protocol import Protocol
from kraftcheck.spec.language.state import State, permutation_group, permuted
from kraftcheck.spec.language.views import HiddenReads
from kraftcheck.spec.values import Map, Value, field_names

MOST_CACHED = 1 << 16
"""Renamed states before their cache is emptied."""


def canonicalizer(protocol: Protocol, symmetry: str | None, view: str | None) -> Callable[[State], Value]:
    """Return the canonical-key function: states that the symmetry or the view identifies have equal keys."""
    see = _viewed(protocol, view)
    if symmetry is None:
        return see
    group = permutation_group(protocol.symmetry_sets(symmetry))

    # The key of an orbit is the least encoding of its members. It is exact, at the cost of one encoding for each
    # permutation of the group.
    def canonical(state: State) -> bytes:
        seen = see(state)
        return min(encode(permuted(seen, permutation)) for permutation in group)

    return canonical


def _viewed(protocol: Protocol, view: str | None) -> Callable[[State], State]:
    if view is None:
        return lambda state: state
    hidden, renamed = protocol.hidden(view), protocol.renames(view)

    def see(state: State) -> State:
        names = field_names(type(state.shared))
        shared = Map((name, getattr(state.shared, name)) for name in names if name not in hidden.shared)
        spent = Map((name, used) for name, used in state.spent.items() if name not in hidden.bounds)
        return state.but(shared=shared, spent=spent)

    if renamed is None:
        return see
    cached: dict[State, State] = {}

    def see_renamed(state: State) -> State:
        found = cached.get(state)
        if found is None:
            if len(cached) > MOST_CACHED:
                cached.clear()
            found = cached[state] = see(renamed(state, 0))
        return found

    return see_renamed


def hidden_reads(protocol: Protocol, options: SearchRequest, *, first_found: bool) -> HiddenReads | None:
    """Return a recorder of the methods that read what the VIEW hides (fields, bounds); None without a VIEW."""
    if options.view is None:
        return None
    reads = HiddenReads(options.view, protocol.hidden(options.view), note_types(protocol), first_found=first_found)
    for name, _, spends in protocol.network.own_operations():
        reads.note(f"action {name}", [bound for bound in spends if protocol.bounds[bound]])
    if options.resume is not None:
        reads.note("actions before the checkpoint, perhaps", protocol.views[options.view])
    return reads
