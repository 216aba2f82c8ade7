"""Refinements on sets: a set is divided by abstract state, and the successors of each part are compared with it.

A mapping is called once for each combination of values of the parts of a state that it reads.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from kraftcheck.explorer.calls.proxies import StateProxy
from kraftcheck.explorer.symbolic.relations import BY_VALUE, IDENTITY, Change
from kraftcheck.explorer.symbolic.state_space import StateSpace
from kraftcheck.explorer.symbolic.store import EMPTY
from kraftcheck.explorer.symbolic.variables import BOUND, CHANNEL, LOCAL, MEMBER, SHARED
from kraftcheck.spec.errors import InputError
from kraftcheck.spec.language.refinement import Refinement

MOST_INPUTS = 100_000
"""Most distinct inputs of a mapping."""

KINDS = {"replicas": (LOCAL, MEMBER), "inboxes": (CHANNEL,), "shared": (SHARED,), "spent": (BOUND,)}
"""The kinds of variable of each part of a state."""

Vector = tuple[int, ...]


class MappedSets:
    """Evaluates one refinement on the sets of a state space."""

    def __init__(self, space: StateSpace, refinement: Refinement) -> None:
        self._space, self._refinement = space, refinement
        self._read(())

    def _read(self, parts: tuple[str, ...]) -> None:
        """Set the parts of a state that the mapping reads."""
        self._parts, kinds = parts, [kind for part in parts for kind in KINDS[part]]
        self._levels = [level for level, key in enumerate(self._space.variables.keys) if key.kind in kinds]
        self._projection: int | None = None
        if self._levels:
            self._projection = self._space.learning.watches.projection([(one, IDENTITY) for one in self._levels])
        self._known: dict[Vector, int] = {}

    def violating(self, states: int) -> int:
        """Return the states of a set with an outgoing step that maps to no step of the abstract protocol."""
        space, store, bad = self._space, self._space.store, EMPTY
        self._divided(store.union(states, store.union(space.successors(states), space.pruned(states))))  # learns all
        for number, vectors in self._divided(states).items():
            sources = self._with(states, vectors)
            targets = store.union(space.successors(sources), space.pruned(sources))
            wrong = EMPTY
            for other, theirs in self._divided(targets).items():
                if not self._refinement.allows(number, other):
                    wrong = store.union(wrong, self._with(targets, theirs))
            for root in (*space.groups.roots(), *space.pruned_roots()) if wrong != EMPTY else ():
                bad = store.union(bad, store.predecessors(sources, root, wrong))
        return bad

    def _divided(self, states: int) -> dict[int, list[Vector]]:
        """Return the inputs of the mapping in a set, by the number of the abstract state."""
        found: dict[int, list[Vector]] = {}
        while states != EMPTY:
            parts, found = self._parts, defaultdict(list)
            for vector in self._inputs(states):
                number = self._number(states, vector)
                if self._parts != parts:
                    break
                found[number].append(vector)
            else:
                break
        return found

    def _inputs(self, states: int) -> list[Vector]:
        """Return the values, in a set, of the variables that the mapping reads."""
        store = self._space.store
        if self._projection is None:
            return [()]
        projected = store.project(states, self._projection)
        count = store.count(projected)
        if count > MOST_INPUTS:
            raise InputError(
                f"{self._refinement.prop.name} reads {', '.join(self._parts)}, with {count:,} combinations of values: "
                f"the engine symbolic evaluates at most {MOST_INPUTS:,}; expected --engine tables"
            )
        return list(store.vectors(projected, self._levels))

    def _with(self, states: int, vectors: list[Vector]) -> int:
        """Return the states of a set with one of some inputs."""
        if self._projection is None:
            return states
        events = [
            tuple((level, Change(BY_VALUE, value, value)) for level, value in zip(self._levels, vector, strict=True))
            for vector in vectors
        ]
        return self._space.store.enabled(states, self._space.groups.nodes.of(events))

    def _number(self, states: int, vector: Vector) -> int:
        """Return the number of the abstract state of an input; note the parts that the mapping reads besides it."""
        if vector in self._known:
            return self._known[vector]
        variables, more = self._space.variables, dict[str, None]()
        state = variables.decode(self._space.store.one_of(self._with(states, [vector])))

        def read(name: str) -> Any:
            if name not in self._parts:
                more[name] = None
            return getattr(state, name)

        number = self._refinement.evaluated(StateProxy(read))
        if more:
            self._read((*self._parts, *more))
        else:
            self._known[vector] = number
        return number
