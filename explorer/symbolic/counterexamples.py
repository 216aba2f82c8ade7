"""Witness paths into sets of reached states, shortest or any, found backwards through predecessors."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from kraftcheck.explorer.behaviour import Behaviour, behaviour_along, step_of
from kraftcheck.explorer.symbolic.checks import StateChecks
from kraftcheck.explorer.symbolic.relations import BY_MESSAGE, BY_VALUE, Change
from kraftcheck.explorer.symbolic.state_space import StateSpace
from kraftcheck.explorer.symbolic.store import EMPTY, UNIT
from kraftcheck.spec.language.declarations import Property
from kraftcheck.spec.language.semantics import Semantics
from kraftcheck.spec.language.state import State

Vector = tuple[int, ...]
Witness = tuple[str, list[State]]
VIOLATING = "violating "  # prefix of the names of roots that hold violating states


class Predecessors:
    """Finds a state of a set that leads to a given state."""

    def __init__(self, space: StateSpace) -> None:
        self._space = space
        self._applied: dict[tuple[int, int], int] = {}

    def path(self, levels: Sequence[int], target: Sequence[int]) -> list[State]:
        """Return a path of states through the levels to the target."""
        path = [tuple(target)]
        for level in reversed(levels):
            if not self._holds(level, 0, path[-1]):
                path.append(self._before(level, path[-1], is_last=len(path) == 1))
        return [self._space.variables.decode(vector) for vector in reversed(path)]

    def _before(self, states: int, target: Vector, *, is_last: bool) -> Vector:
        """Return a state of a set that leads to the target; only a path's last step may break action constraints."""
        for root in (*self._space.groups.roots(), *(self._space.pruned_roots() if is_last else ())):
            found = self._find(states, root, 0, target, set())
            if found is not None:
                vector = list(target)
                for level, value in found:
                    vector[level] = value
                return tuple(vector)
        raise AssertionError("no state of the previous level has a step to this state")

    def _find(
        self, a: int, r: int, at: int, target: Vector, failed: set[tuple[int, int, int]]
    ) -> list[tuple[int, int]] | None:
        """Return the (level, value) pairs that turn the target into a predecessor in the set; None if there is none."""
        if a == EMPTY or r == 0 or (a, r, at) in failed:
            return None
        if r == 1:
            return [] if self._holds(a, at, target) else None
        for child, rest, below, changed in self._branches(a, r, at, target):
            found = self._find(child, rest, below, target, failed)
            if found is not None:
                return [*changed, *found]
        failed.add((a, r, at))  # so that no part of the set and relation is searched twice
        return None

    def _branches(
        self, a: int, r: int, at: int, target: Vector
    ) -> Iterator[tuple[int, int, int, list[tuple[int, int]]]]:
        """Yield the choices at the next level as (child of set, child of relation, next level, changed values)."""
        level, edges = self._space.store.edges(a)
        there, changes = self._space.groups.nodes.node(r)
        if any(target[at : min(level, there)]):  # a level that the set skips has the value 0
            return
        if level < there:
            yield from ((child, r, level + 1, []) for value, child in edges if value == target[level])
            return
        for value, child in edges if level == there else [(0, a)]:
            for change, rest in changes:
                if self._leads(there, change, value, target[there]):
                    yield child, rest, there + 1, [(there, value)]

    def _holds(self, a: int, at: int, target: Vector) -> bool:
        """Whether the set of node `a` contains the target's values from level `at` on."""
        while a != UNIT:
            level, edges = self._space.store.edges(a)
            child = dict(edges).get(target[level], EMPTY)
            if child == EMPTY or any(target[at:level]):
                return False
            a, at = child, level + 1
        return not any(target[at:])

    def _leads(self, level: int, change: Change, value: int, target: int) -> bool:
        if change.how == BY_VALUE:
            return value == change.key and target == change.result
        labels = self._space.labels
        if change.how == BY_MESSAGE:
            if change.key not in labels.classes_of(level, labels.messages(level), value):
                return False
            label = change.result
        else:
            label = change.key
        key = (label, value)
        if key not in self._applied:
            self._applied[key] = labels.apply(label, value)
        return self._applied[key] == target


class WitnessPaths:
    """Finds witness paths into sets.

    `violating(name, states)` returns the violating states among `states`. It is given while some states are unknown; a
    root then holds only the known violating states. It is None once all states are reached and learned.
    """

    def __init__(
        self,
        space: StateSpace,
        checks: StateChecks,
        constraints: tuple[Property, ...],
        beyond: frozenset[str],
        pause: Callable[[], None],
        violating: Callable[[str, int], int] | None = None,
    ) -> None:
        self._space = space
        self._checks = checks
        self._constraints = constraints
        self._beyond = beyond
        self._pause = pause
        self._violating = violating

    def shortest(self, names: Iterable[str]) -> Iterator[Witness]:
        """Yield (name, path) for each violating set, with a shortest path into the set."""
        space, store, wanted = self._space, self._space.store, list(names)
        new, pruned, known, levels = space.start, EMPTY, EMPTY, list[int]()
        while wanted:
            self._pause()
            frontier = self._checks.within(self._constraints, new)
            if self._violating is not None:
                space.learn(frontier)
            yield from self._into(wanted, store.union(new, pruned), frontier, levels, self._violating or self._known)
            known = store.union(known, space.view.of(new))
            levels.append(frontier)
            new = space.view.without(space.successors(frontier), known)
            pruned = space.view.without(space.pruned(frontier), known)
            if store.is_crowded:
                new, pruned, known, *levels = store.collect_garbage([new, pruned, known, *levels])

    def any(self, names: Iterable[str]) -> Iterator[Witness]:
        """Yield (name, path) for each violating set, with any path into the set, found by chaining."""
        space, store, wanted, stages = self._space, self._space.store, list(names), list[int]()
        yield from self._into(wanted, space.start, space.start, stages, self._known)
        reached = self._checks.within(self._constraints, space.start)
        known = store.union(space.start, reached)
        while wanted:
            for root in space.groups.roots():
                self._pause()
                new = store.difference(store.successors(reached, root), known)
                if new != EMPTY:
                    stages.append(reached)
                    yield from self._into(wanted, new, new, stages, self._known)
                    known = store.union(known, new)
                    reached = store.union(reached, self._checks.within(self._constraints, new))
            yield from self._into(wanted, space.pruned(reached), EMPTY, [*stages, reached], self._known)
            if store.is_crowded:
                reached, known, *stages = store.collect_garbage([reached, known, *stages])

    def _known(self, name: str, states: int) -> int:
        """Return the states of a set that are already known to violate the named property."""
        return self._space.view.meet(states, self._space.store.roots[VIOLATING + name])

    def _into(
        self, wanted: list[str], states: int, expanded: int, sets: list[int], violating: Callable[[str, int], int]
    ) -> Iterator[Witness]:
        """Yield (name, path) for each wanted violating set that contains one of the states.

        State properties are looked up in `states`, whose last step may break action constraints. Step properties are
        looked up in `expanded`, whose outgoing steps are known.
        """
        for name in list(wanted):
            there = violating(name, states if name in self._beyond else expanded)
            if there != EMPTY:
                wanted.remove(name)
                yield name, Predecessors(self._space).path(sets, self._space.store.one_of(there))


def violating_behaviour(semantics: Semantics, prop: Property | None, path: list[State]) -> Behaviour:
    """Return the behaviour along a path; for a step property with a step out of its end that violates the property."""
    trace = behaviour_along(semantics, path)
    if prop is None or not prop.over_steps:
        return trace
    end = path[-1]
    wrong = (step for step in semantics.transitions(end) if not semantics.step_satisfies(prop, end, step))
    return (*trace, step_of(next(wrong)))
