"""Violating states, the search for them level by level, and the behaviours that show them.

Witness paths into sets of reached states, shortest or any, are found backwards through predecessors.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import nullcontext, suppress
from typing import Protocol

from kraftcheck.explorer.result import (
    DEADLOCK,
    Behaviour,
    Search,
    SearchMonitor,
    SearchRequest,
    SearchStopped,
    behaviour_along,
    trace_step_of_transition,
)
from kraftcheck.explorer.symbolic.diagram_store import EMPTY_SET, UNIT_SET, OutOfNodes
from kraftcheck.explorer.symbolic.property_checks import StatePropertyEvaluator, StepPropertyEvaluator
from kraftcheck.explorer.symbolic.relations import EDGES_BY_MESSAGE, EDGES_BY_VALUE, VariableChange
from kraftcheck.explorer.symbolic.state_space import StateSpace
from kraftcheck.explorer.symbolic.variables import LayoutChanged, OpaqueSetRequired
from kraftcheck.spec.errors import InputError, RaisedError
from kraftcheck.spec.language.declarations import Property
from kraftcheck.spec.language.semantics import Semantics
from kraftcheck.spec.language.state import State

VectorOfNumbers = tuple[int, ...]
NamedWitness = tuple[str, list[State]]
VIOLATING_ROOT_PREFIX = "violating "  # prefix of the names of roots that hold violating states


class PredecessorFinder:
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

    def _before(self, states: int, target: VectorOfNumbers, *, is_last: bool) -> VectorOfNumbers:
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
        self, a: int, r: int, at: int, target: VectorOfNumbers, failed: set[tuple[int, int, int]]
    ) -> list[tuple[int, int]] | None:
        """Return the (level, value) pairs that turn the target into a predecessor in the set; None if there is none."""
        if a == EMPTY_SET or r == 0 or (a, r, at) in failed:
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
        self, a: int, r: int, at: int, target: VectorOfNumbers
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

    def _holds(self, a: int, at: int, target: VectorOfNumbers) -> bool:
        """Whether the set of node `a` contains the target's values from level `at` on."""
        while a != UNIT_SET:
            level, edges = self._space.store.edges(a)
            child = dict(edges).get(target[level], EMPTY_SET)
            if child == EMPTY_SET or any(target[at:level]):
                return False
            a, at = child, level + 1
        return not any(target[at:])

    def _leads(self, level: int, change: VariableChange, value: int, target: int) -> bool:
        if change.how == EDGES_BY_VALUE:
            return value == change.key and target == change.result
        labels = self._space.labels
        if change.how == EDGES_BY_MESSAGE:
            if change.key not in labels.classes_of(level, labels.messages[level], value):
                return False
            label = change.result
        else:
            label = change.key
        key = (label, value)
        if key not in self._applied:
            self._applied[key] = labels.apply(label, value)
        return self._applied[key] == target


class WitnessPathFinder:
    """Finds witness paths into sets.

    With `is_part`, some states are unknown, so properties are evaluated again: a root holds only the known violating
    states. Else all states are reached and learned.
    """

    def __init__(
        self, space: StateSpace, finder: ViolationFinder, search: SymbolicSearchInterface, *, is_part: bool
    ) -> None:
        self._space, self._checks, self._pause = space, finder.states, search.pause
        self._constraints = search.options.constraints
        self._beyond = {prop.name for prop in search.options.properties if not prop.over_steps}
        self._violating = finder.of_property if is_part else None

    def shortest(self, names: Iterable[str]) -> Iterator[NamedWitness]:
        """Yield (name, path) for each violating set, with a shortest path into the set."""
        space, store, wanted = self._space, self._space.store, list(names)
        new, pruned, known, levels = space.start, EMPTY_SET, EMPTY_SET, list[int]()
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

    def any(self, names: Iterable[str]) -> Iterator[NamedWitness]:
        """Yield (name, path) for each violating set, with any path into the set, found by chaining."""
        space, store, wanted, stages = self._space, self._space.store, list(names), list[int]()
        yield from self._into(wanted, space.start, space.start, stages, self._known)
        reached = self._checks.within(self._constraints, space.start)
        known = store.union(space.start, reached)
        while wanted:
            for root in space.groups.roots():
                self._pause()
                new = store.difference(store.successors(reached, root), known)
                if new != EMPTY_SET:
                    stages.append(reached)
                    yield from self._into(wanted, new, new, stages, self._known)
                    known = store.union(known, new)
                    reached = store.union(reached, self._checks.within(self._constraints, new))
            yield from self._into(wanted, space.pruned(reached), EMPTY_SET, [*stages, reached], self._known)
            if store.is_crowded:
                reached, known, *stages = store.collect_garbage([reached, known, *stages])

    def _known(self, name: str, states: int) -> int:
        """Return the states of a set that are already known to violate the named property."""
        return self._space.view.meet(states, self._space.store.roots[VIOLATING_ROOT_PREFIX + name])

    def _into(
        self, wanted: list[str], states: int, expanded: int, sets: list[int], violating: Callable[[str, int], int]
    ) -> Iterator[NamedWitness]:
        """Yield (name, path) for each wanted violating set that contains one of the states.

        State properties are looked up in `states`, whose last step may break action constraints. Step properties are
        looked up in `expanded`, whose outgoing steps are known.
        """
        for name in list(wanted):
            there = violating(name, states if name in self._beyond else expanded)
            if there != EMPTY_SET:
                wanted.remove(name)
                yield name, PredecessorFinder(self._space).path(sets, self._space.store.one_of(there))


def violating_path_as_behaviour(semantics: Semantics, prop: Property | None, path: list[State]) -> Behaviour:
    """Return the behaviour along a path; for a step property with a step out of its end that violates the property."""
    trace = behaviour_along(semantics, path)
    if prop is None or not prop.over_steps:
        return trace
    end = path[-1]
    wrong = (step for step in semantics.transitions(end) if not semantics.step_satisfies(prop, end, step))
    return (*trace, trace_step_of_transition(next(wrong)))


FIRST_CHECK_NODES, FIRST_CHECK_SECONDS, URGENT_CHECK_NODES = 1 << 12, 5.0, 1 << 16
"""Nodes made and seconds passed before the first early check; with AT_ONCE nodes it does not wait."""
CHECK_NODE_GROWTH, CHECK_TIME_MULTIPLE = 2, 30
"""Growth of the nodes made, and multiple of the last check's time, before the next early check."""


LEAST_WITNESS_SECONDS, WITNESS_TIME_FACTOR = 30.0, 3.0
"""Time for finding a counterexample: at least these seconds, or this multiple of the search's time."""

LEAST_PARTIAL_CHECK_SECONDS = 10.0
"""Least seconds for checking properties after a limit; else a tenth of the search's time."""
MOST_NAMED_VARIABLES, FEWEST_NAMED_NODES = 3, 1_000  # variables that a note names, and fewest nodes of the first one

FindWitnesses = Callable[[list[str]], Iterable[tuple[str, list[State]]]]
"""Finds counterexamples, given the names of properties."""


class CounterexampleTimeout(Exception):  # noqa: N818 - not an error
    """Raised when the time for finding a counterexample has passed."""


class WitnessDeadline:
    """Time of the next clock check, and deadline of a counterexample search."""

    next_look = 0.0
    deadline: float | None = None


class SymbolicSearchInterface(Protocol):
    """A symbolic search, as its search orders and its checks see it."""

    options: SearchRequest
    semantics: Semantics
    monitor: SearchMonitor
    pace: WitnessDeadline

    def note(self, reached: int, expanded: int) -> None:
        """Record the set of the reached states, and the subset of them that was expanded."""

    def found(self, name: str, trace: Behaviour) -> None:
        """Record a violated property with its counterexample."""

    def is_known(self, name: str) -> bool:
        """Whether a violation of the property is already recorded."""

    def pause(self) -> None:
        """Check the clock, and report progress."""

    @property
    def is_interrupted(self) -> bool:
        """Whether an interruption was asked for."""

    def keep(self, sets: dict[str, int]) -> None:
        """Keep named sets for the checkpoint; write the checkpoint when it is due."""


class ViolationFinder:
    """Evaluates the properties of a search on sets of one state space, and shows what violates them."""

    def __init__(self, space: StateSpace, search: SymbolicSearchInterface) -> None:
        self.states = StatePropertyEvaluator(space, search.semantics)
        self._steps = StepPropertyEvaluator(space, search.semantics, is_asked_again=search.options.search == Search.BFS)
        self._space = space
        self._search, self._options = search, search.options
        self._nodes, self._at_once = FIRST_CHECK_NODES, URGENT_CHECK_NODES
        self._not_before = time.monotonic() + FIRST_CHECK_SECONDS

    def of(self, states: int, more: int, *, known: Collection[str] = (), is_part: bool = False) -> dict[str, int]:
        """Return the set of violating states of each violated property; state properties are also checked on `more`.

        Properties named in `known` are left out. With `is_part`, so are deadlocks, since some steps are not known yet.
        """
        found = self._of((prop for prop in self._options.properties if prop.name not in known), states, more)
        if self._options.deadlock and not is_part and (stuck := self._space.stuck(states)) != EMPTY_SET:
            found[DEADLOCK] = stuck
        return found

    def _of(self, properties: Iterable[Property], states: int, more: int) -> dict[str, int]:
        every = self._space.store.union(states, more)
        found = {prop.name: self.violating(prop, states if prop.over_steps else every) for prop in properties}
        return {name: bad for name, bad in found.items() if bad != EMPTY_SET}

    def of_property(self, name: str, states: int) -> int:
        """Return the states of a set that violate the named property."""
        return next(self.violating(prop, states) for prop in self._options.properties if prop.name == name)

    def violating(self, prop: Property, states: int) -> int:
        """Return the states of a set that violate a property."""
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
            local = [prop for prop in self._options.properties if not self.states.reads_whole_states(prop)]
            return self._of(local, states, more)
        finally:
            now = time.monotonic()
            self._not_before = now + CHECK_TIME_MULTIPLE * (now - began)
            self._nodes, self._at_once = CHECK_NODE_GROWTH * self._space.store.nodes_made, sys.maxsize

    def check_part(self) -> None:
        """Look for violations in the known states, after a limit ended the search."""
        monitor, store = self._search.monitor, self._space.store
        self._search.pace.deadline = time.monotonic() + max(LEAST_PARTIAL_CHECK_SECONDS, monitor.seconds / 10)
        try:
            store.collect_garbage([])
            bad = self.of(store.roots["reached"], EMPTY_SET, is_part=True)
        except (CounterexampleTimeout, OutOfNodes, LayoutChanged, OpaqueSetRequired, InputError) as why:
            if isinstance(why, RaisedError):
                raise
            is_out_of_nodes = isinstance(why, OutOfNodes) and monitor.result.limit == "max_nodes"
            shortage = "--max-nodes" if is_out_of_nodes else "out of memory or time"
            reason = why if isinstance(why, InputError) else shortage
            monitor.result.notes.append(f"properties were not checked on the states found so far: {reason}")
        else:
            self.show(bad)
        finally:
            self._search.pace.deadline = None

    def show(self, bad: dict[str, int], *, is_part: bool = False) -> None:
        """Show each violation by a shortest behaviour, else by any behaviour, else by a violating state.

        If only part of the states is known, an unknown violating state may be nearer to the initial states.
        """
        search, space, left = self._search, self._space, list(bad)
        space.store.roots.update({VIOLATING_ROOT_PREFIX + name: states for name, states in bad.items()})
        ways = WitnessPathFinder(space, self, search, is_part=is_part)
        for find, kind in ((ways.shortest, "shortest"), (ways.any, "other")):
            self._show_found(find, left, kind)
            if search.is_interrupted:
                break
        for name in left:
            search.monitor.result.notes.append(
                f"{name}: no behaviour that leads to the state shown was found; use --search bfs or --engine tables"
            )
            vector = space.store.one_of(space.store.roots[VIOLATING_ROOT_PREFIX + name])
            with suppress(SearchStopped) if search.is_interrupted else nullcontext():
                self._tell(name, [space.variables.decode(vector)])
        if search.is_interrupted:
            raise KeyboardInterrupt

    def _show_found(self, find: FindWitnesses, left: list[str], kind: str) -> None:
        """Show the counterexamples found in time; names without a counterexample stay in `left`."""
        monitor = self._search.monitor
        most = max(LEAST_WITNESS_SECONDS, WITNESS_TIME_FACTOR * monitor.seconds)
        spare = (self._options.time_limit or math.inf) - monitor.seconds
        allowed = max(min(most, spare), 0)
        self._search.pace.deadline = time.monotonic() + allowed
        try:
            for name, path in find(left):
                left.remove(name)
                self._tell(name, path)
        except (CounterexampleTimeout, OutOfNodes):
            self._space.store.collect_garbage([])
            names = ", ".join(left)
            monitor.result.notes.append(f"{names}: no {kind} counterexample was found within {allowed:,.0f} s")
        finally:
            self._search.pace.deadline = None

    def _tell(self, name: str, path: list[State]) -> None:
        """Record a violated property with the behaviour along a path."""
        prop = next((one for one in self._options.properties if one.name == name), None)
        self._search.found(name, violating_path_as_behaviour(self._search.semantics, prop, path))


def states_without_path_to(
    space: StateSpace, checks: StatePropertyEvaluator, prop: Property, reached: int, pause: Callable[[], None]
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
    out, before = store.difference(reached, left), EMPTY_SET
    while left not in (before, EMPTY_SET):
        before = left
        for relation in relations:
            pause()
            found = store.predecessors(left, relation, out)
            out, left = store.union(out, found), store.difference(left, found)
        if store.is_crowded:
            out, left, before = store.collect_garbage([out, left, before])
    return left


def diagram_and_violation_notes(space: StateSpace, traps: Collection[str]) -> Iterator[str]:
    """Yield the diagram's size with its largest variables, and the violating states of properties not in `traps`."""
    store, reached = space.store, space.store.roots.get("reached", EMPTY_SET)
    size, variables = store.size(reached), len(space.variables.keys)
    yield f"a diagram of {size:,} nodes over {variables:,} variables; {store.nodes_made:,} nodes were created for it"
    levels = store.sizes(reached).most_common(MOST_NAMED_VARIABLES)
    if levels and levels[0][1] >= FEWEST_NAMED_NODES:
        names = [f"{space.variables.name(level)} ({nodes:,})" for level, nodes in levels]
        yield f"most nodes belong to {', '.join(names)}"
    for root, states in store.roots.items():
        name = root.removeprefix(VIOLATING_ROOT_PREFIX)
        if name != root and name not in traps:
            what = "no next state" if name == DEADLOCK else f"{name} violated"
            yield f"{store.count(states):,} states have {what}"


class SymbolicBreadthFirstSearch:
    """Breadth-first search over the sets of one state space."""

    def __init__(self, search: SymbolicSearchInterface, space: StateSpace, violations: ViolationFinder) -> None:
        self._search, self._space, self._violations = search, space, violations
        self._states = tuple(prop for prop in search.options.properties if not prop.over_steps)
        self._steps = tuple(prop for prop in search.options.properties if prop.over_steps)
        self._levels: list[int] = []

    def run(self) -> int:
        """Search until a level adds no state; return the reached states, projected by the VIEW."""
        store, space, view = self._space.store, self._space, self._space.view
        new, pruned, reached, known, expanded = space.start, EMPTY_SET, EMPTY_SET, EMPTY_SET, EMPTY_SET
        if space.kept():
            new, pruned, reached, known, expanded, *self._levels = space.kept().values()
            self._search.monitor.result.depth = len(self._levels)
            space.learn(expanded)
            space.successors(expanded)  # so that the steps out of earlier levels can be counted
            space.pruned(expanded)
        while new != EMPTY_SET or pruned != EMPTY_SET:
            names = ("new", "pruned", "reached", "known", "expanded", *map(str, range(len(self._levels))))
            sets = (new, pruned, reached, known, expanded, *self._levels)
            self._search.keep(dict(zip(names, sets, strict=True)))
            frontier = self._violations.states.within(self._search.options.constraints, new)
            known = store.union(known, view.of(new))
            reached = store.union(reached, view.of(frontier))
            self._search.note(reached, expanded)
            if frontier != EMPTY_SET:
                self._search.monitor.result.depth = len(self._levels) + 1
            self._search.pause()
            self._check(self._states, store.union(new, pruned))
            if frontier == EMPTY_SET:
                break
            self._look_at_limits(reached)
            space.learn(frontier)
            store.forget_products()  # cached products of the previous frontier
            view.require_room(frontier)
            self._check(self._steps, frontier)
            self._check_deadlock(frontier)
            new = view.without(space.successors(frontier), known)
            pruned = view.without(space.pruned(frontier), known)
            self._levels.append(frontier)
            expanded = reached
            if store.is_crowded:
                kept = [new, pruned, reached, known, expanded, *self._levels]
                new, pruned, reached, known, expanded, *self._levels = store.collect_garbage(kept)
        self._search.note(reached, reached)
        return reached

    def _look_at_limits(self, reached: int) -> None:
        options = self._search.options
        if options.max_states and self._space.store.count(reached) >= options.max_states:
            self._search.monitor.stop_at("max_states")
        if options.max_depth is not None and len(self._levels) + 1 >= options.max_depth:
            self._search.monitor.stop_at("max_depth")

    def _check(self, properties: Iterable[Property], states: int) -> None:
        for prop in properties:
            if not self._search.is_known(prop.name):
                bad = self._violations.violating(prop, states)
                if bad != EMPTY_SET:
                    self._search.found(prop.name, self._trace(bad, prop))

    def _check_deadlock(self, frontier: int) -> None:
        if self._search.options.deadlock and not self._search.is_known(DEADLOCK):
            bad = self._space.stuck(frontier)
            if bad != EMPTY_SET:
                self._search.found(DEADLOCK, self._trace(bad))

    def _trace(self, bad: int, prop: Property | None = None) -> Behaviour:
        """Return a behaviour through the levels to some state of the set that violates a property."""
        path = PredecessorFinder(self._space).path(self._levels, self._space.store.one_of(bad))
        return violating_path_as_behaviour(self._search.semantics, prop, path)
