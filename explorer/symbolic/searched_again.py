"""Checks a restored search by sets: its diagrams are well formed, and a part of what it found is found again.

A checkpoint may come from strangers, with digests of their own. Sets of few states are searched again as a whole; of
large ones some levels, or some states, are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import SystemRandom

import numpy as np
from numpy.typing import NDArray

from kraftcheck.explorer.symbolic.checks import StateChecks
from kraftcheck.explorer.symbolic.search import Space
from kraftcheck.explorer.symbolic.store import EMPTY, UNIT
from kraftcheck.persistence.validation import mixed, require, require_distinct
from kraftcheck.spec.language.declarations import Property

WHOLE = 50_000  # states that are searched again as a whole
LEVELS, STATES = 3, 32  # of a larger search by levels, and of another one
LOW = (1 << 32) - 1

Sets = Mapping[str, int]
Violated = Callable[[int, int], Mapping[str, int]]


def require_diagrams(nodes: NDArray[np.int64], edges: NDArray[np.int64], values: list[int], roots: Sets) -> None:
    """Require that diagrams are in their canonical form."""
    require(nodes.dtype == np.int64 and nodes.shape == (len(nodes), 2), "its nodes are no pairs of numbers")
    require(edges.dtype == np.int64 and edges.ndim == 1, "its edges are no numbers")
    require([root < len(nodes) + 2 for root in roots.values()], "a set that is no node")
    levels, counts = nodes[:, 1] >> 32, nodes[:, 1] & LOW
    require((levels >= 0) & (levels < len(values)), "a node of an unknown level")
    require((counts > 0) & (counts <= len(edges)), "a node with a wrong number of edges")
    require(nodes[:, 0] == np.cumsum(counts) - counts, "the edges of a node are not behind those of the one before")
    require(counts.sum() == len(edges), f"expected {counts.sum()} edges, found {len(edges)}")
    of = np.repeat(np.arange(len(nodes)), counts)
    number, child = edges >> 32, edges & LOW
    require((number >= 0) & (number < np.array([*values, 0])[levels[of]]), "an edge with an unknown value")
    require((child > 0) & (child < of + 2), "an edge that leads to no earlier node")
    require(np.array([0, len(values), *levels.tolist()])[child] > levels[of], "an edge that leads to no lower level")
    require((np.diff(number) > 0) | (np.diff(of) > 0), "the edges of a node are not in order")
    require((counts > 1) | (number[nodes[:, 0]] > 0), "a node that is superfluous")
    if len(nodes):
        sums = np.add.reduceat(mixed(edges.astype(np.uint64)), nodes[:, 0])
        require_distinct(sums + mixed(levels.astype(np.uint64)), "nodes")


class SetsAgain:
    """Compares the sets of a checkpoint with what a search finds."""

    def __init__(
        self, space: Space, checks: StateChecks, constraints: tuple[Property, ...], violated: Violated, noted: set[str]
    ) -> None:
        self._space = space
        self._store = space.store
        self._checks, self._constraints = checks, constraints
        self._violated = violated
        self._noted = noted
        self._random = SystemRandom()  # whoever forges a checkpoint must not know the sample

    def require_levels(self, sets: Sets) -> None:
        """Require of a breadth-first search that each level follows from the one before."""
        names = ("new", "pruned", "reached", "known", "expanded")
        levels = list(sets.values())[len(names) :]
        require([*sets] == [*names, *map(str, range(len(levels)))], "it has sets of another search")
        if self._store.count(sets["known"]) <= WHOLE:
            found = self._levels_again(levels)
            require([sets[name] for name in names] == found, "its last level does not follow from those before")
            return
        reached = EMPTY
        for level in levels:
            reached = self._store.union(reached, self._space.view.of(level))
        require([sets["reached"], sets["expanded"]] == [reached] * 2, "its levels are not the states that are reached")
        known = self._store.union(sets["known"], self._space.view.of(sets["new"]))
        for number in self._random.sample(range(len(levels) - 1), min(LEVELS, len(levels) - 1)):
            successors = self._successors(levels[number])
            require(self._space.view.without(successors, known) == EMPTY, f"successors of level {number} are missing")
            extra = self._store.difference(levels[number + 1], successors)
            require(extra == EMPTY, f"states of level {number + 1} do not follow from level {number}")
            self._require_noted(levels[number], EMPTY)

    def _levels_again(self, levels: list[int]) -> list[int]:
        """Search all levels again; return the sets that a checkpoint then has besides."""
        store, view = self._store, self._space.view
        new, pruned, reached, known, judged = self._space.start, EMPTY, EMPTY, EMPTY, EMPTY
        for number, level in enumerate(levels):
            require(level == self._within(new), f"level {number} does not follow from those before")
            judged = store.union(judged, store.union(new, pruned))
            known, reached = store.union(known, view.of(new)), store.union(reached, view.of(level))
            new = view.without(self._successors(level), known)
            pruned = view.without(self._space.pruned(level), known)
            self._require_noted(level, judged)
        return [new, pruned, reached, known, reached]

    def require_reached(self, sets: Sets, *, has_beyond: bool) -> None:
        """Require that each state of another search follows from others of it."""
        store, reached, beyond = self._store, sets.get("reached", EMPTY), sets.get("beyond", EMPTY)
        require([*sets] == ["reached", "beyond"][: 1 + has_beyond], "it has sets of another search")
        within = [self._within(reached), self._within(beyond)]
        require(within == [reached, EMPTY], "its sets are not divided by the constraints")
        if store.count(reached) + store.count(beyond) > WHOLE:
            self._space.learn(reached)
            for _ in range(STATES):
                self._require_predecessor(store.set_of([self._any_of(reached)]), reached)
            return
        found, before, whole = store.intersection(self._space.start, reached), EMPTY, store.union(reached, beyond)
        while found != before:
            before = found
            self._learn(self._within(found))
            for root in self._space.groups.roots():
                found = store.union(found, store.intersection(store.successors(self._within(found), root), whole))
        found = store.union(found, store.intersection(self._space.start, beyond))
        require(found == whole, "it has states that are not reached")

    def _require_predecessor(self, state: int, reached: int) -> None:
        store, roots = self._store, self._space.groups.roots()
        is_start = store.difference(state, self._space.start) == EMPTY
        is_next = any(store.predecessors(reached, root, state) != EMPTY for root in roots)
        require(is_start or is_next, "it has a state that does not follow from others")

    def _any_of(self, states: int) -> list[int]:
        """Return a vector of a set, chosen at random."""
        vector = [0] * self._store.levels
        while states != UNIT:
            level, edges = self._store.edges(states)
            vector[level], states = self._random.choice(edges)
        return vector

    def _within(self, states: int) -> int:
        return self._checks.within(self._constraints, states)

    def _successors(self, states: int) -> int:
        self._learn(states)
        return self._space.successors(states)

    def _learn(self, states: int) -> None:
        self._space.learn(states)
        self._store.forget_products()

    def _require_noted(self, expanded: int, more: int) -> None:
        new = self._violated(expanded, more).keys() - self._noted
        require(not new, f"a violation of {', '.join(sorted(new))} is not noted")
