"""Violating states of a search: among all states, or among those known so far."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable

from kraftcheck.explorer.result import DEADLOCK, SearchRequest
from kraftcheck.explorer.symbolic.checks import StateChecks, StepChecks
from kraftcheck.explorer.symbolic.state_space import StateSpace
from kraftcheck.explorer.symbolic.store import EMPTY
from kraftcheck.spec.language.declarations import Property
from kraftcheck.spec.language.semantics import Semantics

FEWEST, SECONDS, AT_ONCE = 1 << 12, 5.0, 1 << 16
"""Nodes made and seconds passed before the first early check; with AT_ONCE nodes it does not wait."""
GROWTH, SPARED = 2, 30
"""Growth of the nodes made, and multiple of the last check's time, before the next early check."""


class Violations:
    """Evaluates the properties of a search on sets of one state space."""

    def __init__(self, space: StateSpace, options: SearchRequest, semantics: Semantics) -> None:
        self.states = StateChecks(space, semantics)
        self._steps = StepChecks(space, semantics, is_asked_again=False)
        self._space = space
        self._options = options
        self._nodes, self._not_before, self._at_once = FEWEST, time.monotonic() + SECONDS, AT_ONCE

    def of(self, states: int, more: int, *, is_part: bool = False) -> dict[str, int]:
        """Return the set of violating states of each violated property; state properties are also checked on `more`.

        With `is_part`, deadlocks are left out, since some steps are not known yet.
        """
        found = self._of(self._options.properties, states, more)
        if self._options.deadlock and not is_part and (stuck := self._space.stuck(states)) != EMPTY:
            found[DEADLOCK] = stuck
        return found

    def _of(self, properties: Iterable[Property], states: int, more: int) -> dict[str, int]:
        every = self._space.store.union(states, more)
        found = {prop.name: self._violating(prop, states if prop.over_steps else every) for prop in properties}
        return {name: bad for name, bad in found.items() if bad != EMPTY}

    def of_property(self, name: str, states: int) -> int:
        """Return the states of a set that violate the named property."""
        return next(self._violating(prop, states) for prop in self._options.properties if prop.name == name)

    def _violating(self, prop: Property, states: int) -> int:
        return (self._steps if prop.over_steps else self.states).violating(prop, states)

    @property
    def is_due(self) -> bool:
        """Whether an early check is due: the set has grown, and checks have taken little of the time."""
        made = self._space.store.nodes_made
        if made <= self._nodes or self._options.keep_going:
            return False
        return made > self._at_once or time.monotonic() > self._not_before

    def early(self, states: int, more: int) -> dict[str, int]:
        """Check the known states, except for properties that read whole states; schedule the next early check."""
        began = time.monotonic()
        try:
            return self._of([prop for prop in self._options.properties if "state" not in prop.asks], states, more)
        finally:
            now = time.monotonic()
            self._nodes, self._not_before = GROWTH * self._space.store.nodes_made, now + SPARED * (now - began)
            self._at_once = sys.maxsize


def states_without_path_to(
    space: StateSpace, checks: StateChecks, prop: Property, reached: int, pause: Callable[[], None]
) -> int:
    """Return the states from which no state with the property is reachable within the set (AG EF, backwards)."""
    store = space.store
    pruned = set(space.learning.events.pruned)
    events = {
        space.view.event(taken.event): None
        for taken in space.learning.events.infos
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
