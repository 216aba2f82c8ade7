"""Incremental evaluation of state properties: those that a step violates."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from kraftcheck.spec.language.declarations import Property
from kraftcheck.spec.language.semantics import Semantics
from kraftcheck.spec.language.state import State
from kraftcheck.spec.values import Record, Value


def properties_violated_by_step(
    semantics: Semantics, properties: Iterable[Property], before: State, after: State
) -> Iterator[Property]:
    """Yield the state properties that a step breaks; where possible, only changed replicas are checked."""
    kept = before.replicas
    changed = {key: replica for key, replica in after.replicas.items() if kept.get(key) is not replica}
    same_shared = before.shared == after.shared
    for prop in properties:
        if _requires_full_evaluation(semantics, prop, kept, changed, same_shared):
            holds = semantics.holds(prop, after)
        else:
            holds = _holds_for_changed_replicas(semantics, prop, changed, after)
        if not holds:
            yield prop


def _requires_full_evaluation(
    semantics: Semantics, prop: Property, kept: Mapping[Any, Record], changed: Mapping[Any, Record], same_shared: bool
) -> bool:
    """Whether a step may affect a property beyond the replicas that the property quantifies over."""
    asks = prop.asks
    if "message" in asks or "state" in asks or ("shared" in asks and not same_shared):
        return True
    return any(
        read.of_inbox or key not in kept or semantics.view(read, kept[key]) is not semantics.view(read, replica)
        for read in prop.reads
        for key, replica in changed.items()
    )


def _holds_for_changed_replicas(
    semantics: Semantics, prop: Property, changed: Mapping[Any, Record], state: State
) -> bool:
    """Whether a property holds for every binding to a changed replica."""
    if "me" not in prop.asks:
        return True
    known: dict[str, Value] = {"shared": state.shared}
    for read in prop.reads:
        known[read.name] = semantics.project(read, state)
    mes = prop.kinds("me")
    if "peer" not in prop.asks:
        return all(semantics.verdict(prop, {**known, "me": me}) for me in changed.values() if isinstance(me, mes))
    peers = prop.kinds("peer")
    pairs = [(one, state.replicas[key]) for key in state.replicas for other, one in changed.items() if other != key]
    return all(
        semantics.verdict(prop, {**known, "me": me, "peer": peer})
        for one, other in pairs
        for me, peer in ((one, other), (other, one))
        if isinstance(me, mes) and isinstance(peer, peers)
    )
