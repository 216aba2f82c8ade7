"""What should stay reachable (`@reachable`): the states that have no way out, found backwards as sets."""

from __future__ import annotations

from collections.abc import Callable

from kraftcheck.explorer.symbolic.checks import StateChecks
from kraftcheck.explorer.symbolic.search import Space
from kraftcheck.explorer.symbolic.store import EMPTY
from kraftcheck.spec.language.declarations import Property


def without_way_out(space: Space, checks: StateChecks, prop: Property, reached: int, pause: Callable[[], None]) -> int:
    """Return the states of a set from which a property cannot be reached within it."""
    store = space.store
    pruned = set(space.learning.pruned)
    events = {
        space.view.event(taken.event): None
        for taken in space.learning.taken
        if taken.action not in prop.without and taken.event not in pruned
    }
    relations = space.groups.nodes.relations(events)
    left = checks.violating(prop, reached)
    out, before = store.difference(reached, left), EMPTY
    while left not in (before, EMPTY):
        before = left
        for relation in relations:
            pause()
            found = store.predecessors(left, relation, out)
            out, left = store.union(out, found), store.difference(left, found)
        if store.is_crowded:
            out, left, before = store.collect_garbage([out, left, before])
    return left
