"""Which properties a step breaks, with a look at what the step changes alone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from kraftcheck.spec import Record, State
from kraftcheck.spec.language.property import Property
from kraftcheck.spec.language.semantics import Semantics
from kraftcheck.spec.values import Value


def broken(semantics: Semantics, properties: Iterable[Property], before: State, after: State) -> Iterator[Property]:
    """Yield the state properties that a step breaks."""
    kept = before.replicas
    changed = {key: replica for key, replica in after.replicas.items() if kept.get(key) is not replica}
    same_shared = before.shared == after.shared
    for prop in properties:
        asks = prop.asks
        wide = "message" in asks or "state" in asks or ("shared" in asks and not same_shared)
        wide = wide or any(
            read.of_inbox or key not in kept or semantics.view(read, kept[key]) is not semantics.view(read, replica)
            for read in prop.reads
            for key, replica in changed.items()
        )
        if not (semantics.holds(prop, after) if wide else _holds_of(semantics, prop, changed, after)):
            yield prop


def _holds_of(semantics: Semantics, prop: Property, changed: Mapping[Any, Record], state: State) -> bool:
    """Return whether a property is true wherever a changed replica stands in it."""
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
