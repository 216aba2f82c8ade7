"""The reference engine: explicit search over whole states. Every other engine must agree with it.

It tests a VIEW that renames states: a state and its twins have the same steps, and the same verdicts. A twin is another
state that the view identifies with a state: its numbers are higher by a lift. If every state behaves as its twins, the
view is a bisimulation: the search of one state of each class decides every property. An action or a property that
compares a number with a constant differs between twins on both sides of the constant, and is refused.
"""

from __future__ import annotations

import gc
import sys
from array import array
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cached_property
from inspect import unwrap
from types import CodeType, FunctionType
from typing import Any

from kraftcheck.explorer.calls.handlers import PurityTest, PurityTestingSemantics
from kraftcheck.explorer.request import drop_unsound_symmetry_with_notes, require_supported
from kraftcheck.explorer.result import (
    DEADLOCK,
    Behaviour,
    NoSuchPathError,
    Result,
    Search,
    SearchCounts,
    SearchMonitor,
    SearchRequest,
    SearchStopped,
    TraceStep,
    trace_step_of_transition,
)
from kraftcheck.explorer.state_graph import SingleStatePropertyEvaluator, StateGraph
from kraftcheck.explorer.temporal.search import check_reachable_properties, check_temporal_properties
from kraftcheck.explorer.transition_system import BLOCKED, InMemoryStateStore, LabelTable, PlainTransitionSystem
from kraftcheck.spec.errors import InputError, RaisedError
from kraftcheck.spec.language.declarations import Property
from kraftcheck.spec.language.formula import NEXT_ACTION, Enabled, StatePredicate
from kraftcheck.spec.language.protocol import Protocol
from kraftcheck.spec.language.semantics import Semantics, Transition
from kraftcheck.spec.language.state import State
from kraftcheck.spec.values import Value

LIFT_BEYOND_CONSTANTS = 1_000_003
"""A lift above any constant of a protocol."""
TWIN_LIFTS_AROUND_CONSTANTS = range(-4, 2)
"""Lifts around each constant, since the highest number of a state is a few above its lowest."""
MOST_TWIN_LIFTS = 240


class RenamingViewSoundnessCheck:
    """Tests a VIEW that renames states: compares states with their twins.

    A new state is compared with one twin; with a twin of each lift if it has a local state or a message that no state
    before had, up to the renaming; always so if `thorough`. A state that was met before is compared with the form of
    its class if the count of such states is a power of two.
    """

    def __init__(self, system: PlainTransitionSystem, *, thorough: bool) -> None:
        protocol, options = system.semantics.protocol, system.options
        self._system, self._options, self._thorough = system, options, thorough
        self._semantics = Semantics(protocol)  # its calls are neither counted nor tested
        self._renamed = system.renames
        self._lifts = renaming_check_offsets(protocol) if self._renamed is not None else ()
        self._labels = LabelTable(protocol, system.actions, options.all_fairness)
        atoms = [atom for prop in options.temporal for atom in prop.formula(protocol).atoms()]
        predicates = tuple(atom.prop for atom in atoms if isinstance(atom, StatePredicate))
        self._enabled = frozenset[str]().union(*(atom.actions for atom in atoms if isinstance(atom, Enabled)))
        checked = (*options.properties, *options.constraints, *options.reachable, *predicates)
        self._of_states = tuple(dict.fromkeys(prop for prop in checked if not prop.over_steps))
        self._of_steps = tuple(dict.fromkeys(prop for prop in options.properties if prop.over_steps))
        self._seen: set[Value] = set()
        self._new, self._met, self.compared = 0, 0, 0

    def meet(self, state: State, *, is_new: bool) -> None:
        """Compare a state that the search reaches with its twins."""
        if self._renamed is None:
            return
        steps: dict[Any, str] | None = None
        for lift in self._lifts_for(self._renamed(state, 0), is_new=is_new):
            twin = self._renamed(state, lift)
            if twin != state:
                self._require_one_key(state, twin, lift)
                steps = self._steps(state) if steps is None else steps
                self._require_alike(state, twin, lift, steps)

    def _lifts_for(self, form: State, *, is_new: bool) -> tuple[int, ...]:
        """Return the lifts of the twins to compare with a state, given the form of its class."""
        if not is_new:
            self._met += 1
            return self._lifts[:1] if self._thorough or not self._met & (self._met - 1) else ()
        parts = self._parts(form) - self._seen
        self._seen |= parts
        self._new += 1
        return self._lifts if self._thorough or parts else self._lifts[self._new % len(self._lifts) :][:1]

    def _parts(self, state: State) -> set[Value]:
        known = self._semantics.network.known
        return {*state.replicas.values(), *(one for inbox in state.inboxes.values() for one in known(inbox))}

    def notes(self) -> list[str]:
        """Return a note about the comparisons made, if the view renames states."""
        if self._renamed is None:
            return []
        return [f"VIEW {self._options.view}: {self.compared:,} pairs of states had the same steps and verdicts"]

    def _require_one_key(self, state: State, twin: State, lift: int) -> None:
        if self._system.identity(twin) != self._system.identity(state):
            where = f"VIEW {self._options.view}, lift {lift}:"
            raise InputError(f"{where} leads to a state of another class; expected one of the same class")

    def _require_alike(self, state: State, twin: State, lift: int, steps: dict[Any, str]) -> None:
        self.compared += 1
        others = self._steps(twin)
        different = {(steps.get(key) or others[key]) for key in steps.keys() ^ others.keys()}
        if different:  # a step that only one of them has explains the verdicts over it
            name = min(different, key=lambda one: (not one.startswith("action "), one))
            raise self._refusal(name, lift)
        for prop in self._of_states:
            if self._semantics.holds(prop, state) != self._semantics.holds(prop, twin):
                raise self._refusal(prop.name, lift)

    def _steps(self, state: State) -> dict[Any, str]:
        """Return the steps out of a state, up to the view, each with the name to blame for a difference."""
        found: dict[Any, str] = {}
        for choice in self._semantics.choices(state):
            own = choice.inbox is not None
            me, message = (None, None) if own else (state.replicas.get(choice.actor), choice.message)
            label = self._labels.number(choice.action, me, message, choice.step)
            taken = self._semantics.taken(state, choice)
            if taken is None:
                if self._counts_blocked(choice.action) and self._semantics.is_blocked(state, choice):
                    found[label, BLOCKED] = f"action {choice.action}"
                continue
            key = (label, self._system.identity(taken.target), self._system.is_round(state, taken.target))
            found[key] = f"action {choice.action}"
            for prop in (*self._options.constraints, *self._options.action_constraints, *self._of_steps):
                found[key, prop.name, self._verdict(prop, state, taken)] = prop.name
        return found

    def _counts_blocked(self, action: str) -> bool:
        """Whether it matters that a bound alone prevents an action: fairness or a formula may name it as enabled."""
        fairness = self._options.all_fairness
        return bool(self._enabled & {NEXT_ACTION, action}) or any(one.names(action) for one in fairness)

    def _verdict(self, prop: Property, state: State, taken: Any) -> bool:
        if prop in self._options.constraints:
            return self._semantics.holds(prop, taken.target)
        if prop in self._options.action_constraints:
            return self._semantics.holds_over(prop, state, taken.target)
        return self._semantics.step_satisfies(prop, state, taken)

    def _refusal(self, name: str, lift: int) -> InputError:
        return InputError(
            f"{name}: differs in two states that VIEW {self._options.view} identifies (lift {lift}):"
            " it reads a number that the view renames; expected comparisons of such numbers with each other"
        )


def renaming_check_offsets(protocol: Protocol) -> tuple[int, ...]:
    """Return the lifts of twins: small ones, one beyond every constant, and those around the protocol's constants."""
    found = dict.fromkeys((0, 1, 2, 3, LIFT_BEYOND_CONSTANTS))
    limits = protocol.bounds  # a bound is spent, not read; a comparison with one differs between 0 and the last lift
    known = [value for one, value in vars(protocol).items() if type(value) is int and one not in limits]
    for number in sorted({*known, *_integers_in_protocol_code(type(protocol))}):
        around = (number + more for more in TWIN_LIFTS_AROUND_CONSTANTS)
        found |= dict.fromkeys(lift for lift in around if 0 < lift < LIFT_BEYOND_CONSTANTS)
    return tuple(found)[:MOST_TWIN_LIFTS]


def _integers_in_protocol_code(protocol: type[Protocol]) -> Iterator[int]:
    """Yield the integers in the code of a protocol, and of the modules of its classes."""
    declared = [one.function for one in protocol.actions.values()]
    declared += [one.function for one in protocol.properties.values()]
    values: list[object] = [unwrap(function) for function in declared]
    for base in protocol.__mro__:
        if not base.__module__.startswith(("kraftcheck.spec", "builtins")) or "examples" in base.__module__:
            values += [*vars(sys.modules[base.__module__]).values(), *vars(base).values()]
    for value in values:
        if type(value) is int:
            yield value
        elif isinstance(value, FunctionType):
            yield from _integers_in_code(value.__code__)


def _integers_in_code(code: CodeType) -> Iterator[int]:
    for value in code.co_consts:
        if type(value) is int:
            yield value
        elif isinstance(value, CodeType):
            yield from _integers_in_code(value)


STATES_A_CLOCK_CHECK = 1000  # states expanded between two checks of the clock
GC_THRESHOLD_OBJECTS = 100_000  # new objects between two runs of the garbage collector: states are in no cycles
GC_UNTRACKED_FROM_STATES = 10_000  # visited states, from which on the garbage collector is kept from traversing them
NO_SOURCE_STATE = -1


def explore(protocol: Protocol, options: SearchRequest | None = None, *, whole_levels: bool = False) -> Result:
    """Search the reachable states of a protocol."""
    if options is None:
        options = SearchRequest(properties=tuple(p for p in protocol.properties.values() if p.kind == "invariant"))
    return ReferenceSearch(protocol, options, whole_levels=whole_levels).run()


class VisitedStates:
    """The visited states by number, with the number of the state that first led to each."""

    def __init__(self) -> None:
        self.numbers: dict[Value, int] = {}  # by canonical key
        self.states: list[State] = []
        self.sources = array("q")  # NO_SOURCE_STATE for initial states
        self.depths: dict[int, int] = {}  # in a depth-first search with a bound


class ReferenceSearch:
    """A search over whole states. It keeps every visited state, and the number of the state that first led to it.

    A search that stops at a violation has met the same states as TLC. With `whole_levels`, a breadth-first search
    expands the rest of the level before it stops. Its counts are then those of the table engine.
    """

    def __init__(self, protocol: Protocol, options: SearchRequest, *, whole_levels: bool = False) -> None:
        self.protocol = protocol
        self._finishes_level = whole_levels and options.search == Search.BFS
        self.options, notes = drop_unsound_symmetry_with_notes(options)
        options = self.options
        self.purity = PurityTest(protocol, thorough=options.check_actions)
        self.semantics: Semantics = PurityTestingSemantics(protocol, self.purity)
        self.system = PlainTransitionSystem(self.semantics, options)
        self._twins = RenamingViewSoundnessCheck(self.system, thorough=options.check_actions)
        self._fired = dict.fromkeys(self.system.actions, 0)
        self._generated = 0
        self._visited = VisitedStates()
        self._state_properties = [p for p in options.properties if not p.over_steps]
        self._step_properties = [p for p in options.properties if p.over_steps]
        self._at: tuple[State, Transition | None] | None = None  # the state, or the step, under evaluation
        self._monitor = SearchMonitor(options, self._totals, protocol, first_found=options.search == Search.BFS)
        self.result.notes += notes

    @property
    def numbers(self) -> dict[Value, int]:
        """The numbers of the visited states, by canonical key."""
        return self._visited.numbers

    @cached_property
    def identity(self) -> Callable[[State], Value]:
        """The function from a state to its canonical key."""
        return self.system.identity

    @property
    def result(self) -> Result:
        """The result so far."""
        return self._monitor.result

    def run(self) -> Result:
        """Search, and return the result."""
        return self._monitor.result_of(self._search)

    def _search(self) -> None:
        options = self.options
        breadth_first, thresholds = options.search == Search.BFS, gc.get_threshold()
        require_supported("reference", self.protocol, options)
        gc.set_threshold(GC_THRESHOLD_OBJECTS, *thresholds[1:])
        try:
            with suppress(SearchStopped):
                self._admit_initial()
                (self._breadth_first if breadth_first else self._depth_first)(range(len(self._visited.states)))
                if options.reachable:
                    check_reachable_properties(self._graph(), options, self._monitor)
                if options.temporal:
                    check_temporal_properties(self._graph(), self.semantics, options, self._monitor)
            self.purity.call_again()
            self.result.notes += self._twins.notes()
            self._monitor.report(0)
        except RaisedError as error:
            if error.trace is None and self._at is not None:
                error.trace = self._trace(*self._at)
            raise
        finally:
            gc.set_threshold(*thresholds)
            if len(self._visited.states) >= GC_UNTRACKED_FROM_STATES:
                gc.unfreeze()
            if not breadth_first:
                self.result.depth = None

    def _admit_initial(self) -> None:
        for state in self.system.initial():
            self._generated += 1
            self._admit(NO_SOURCE_STATE, state, None, 1)
            if self._generated % STATES_A_CLOCK_CHECK == 0:
                self._pause(len(self._visited.states))
        self._end_level()

    def _totals(self) -> SearchCounts:
        calls = dict(self.semantics.handler_calls)
        return SearchCounts(len(self._visited.states), self._generated, dict(self._fired), calls)

    def _breadth_first(self, level: range) -> None:
        depth = 1
        while level:
            if depth == self.options.max_depth:
                self._monitor.stop_at("max_depth")
            for number in level:
                if (number - level.start) % STATES_A_CLOCK_CHECK == 0:
                    self._pause(len(self._visited.states) - number)
                for transition in self._expand(number):
                    self._admit(number, transition.target, transition, depth + 1)
            self._end_level()
            level, depth = range(level.stop, len(self._visited.states)), depth + 1

    def _pause(self, waiting: int) -> None:
        """Check the clock, and hide the states from the garbage collector once they are many: none is in a cycle."""
        self._monitor.check_time_limit(waiting)
        if len(self._visited.states) >= GC_UNTRACKED_FROM_STATES:
            gc.freeze()

    @property
    def _is_over(self) -> bool:
        """Whether a recorded violation ends the search."""
        return bool(self._monitor.violated) and not self.options.keep_going

    def _end_level(self) -> None:
        if self._is_over:
            raise SearchStopped

    def _depth_first(self, starts: range) -> None:
        waiting: deque[tuple[int, int]] = deque((number, 1) for number in reversed(starts))
        expanded, most = 0, self.options.max_depth
        while waiting:
            number, depth = waiting.pop()
            if depth == most:
                continue
            if most and depth > self._visited.depths[number]:
                continue  # reached again, nearer to the start, after it was pushed
            expanded += 1
            if expanded % STATES_A_CLOCK_CHECK == 0:
                self._pause(len(waiting))
            reached = [self._admit(number, t.target, t, depth + 1) for t in self._expand(number)]
            waiting.extend((target, depth + 1) for target in reversed(reached) if target is not None)
        if most in self._visited.depths.values():  # else each state at the bound was later reached nearer to the start
            self._monitor.stop_at("max_depth")

    def _expand(self, number: int) -> Iterator[Transition]:
        """Yield the transitions out of a state, counting them and checking the step properties."""
        state, stuck = self._visited.states[number], True
        self._at = state, None
        for transition in self.system.transitions(state):
            stuck = False
            self._at = state, transition
            self._generated += 1
            self._fired[transition.action] += 1
            for prop in self._step_properties:
                if not self.semantics.step_satisfies(prop, state, transition):
                    self._violation(prop.name, state, transition)
            if not self.options.action_constraints or self.system.allows(state, transition.target):
                yield transition
            else:
                self._check(state, transition)  # as in TLC, pruned states are checked too
        if stuck and self.options.deadlock:
            self._violation(DEADLOCK, state, None)

    def _admit(self, source: int, state: State, transition: Transition | None, depth: int) -> int | None:
        """Add a state within the constraints; return its number if it is new, or nearer to the start than before."""
        identity = self.identity(state)
        visited = self._visited
        number = visited.numbers.get(identity)
        if number is not None:
            self._twins.meet(state, is_new=False)
            if visited.depths.get(number, 0) <= depth:
                return None
            visited.states[number], visited.sources[number], visited.depths[number] = state, source, depth
            return number
        if not self.options.constraints or self.system.is_within(state):
            number = self._add(identity, source, state, depth)
            self._twins.meet(state, is_new=True)
        self._check(state if transition is None else visited.states[source], transition)
        if number is not None and len(visited.states) == self.options.max_states:
            self._end_level()
            self._monitor.stop_at("max_states")
        return number

    def _graph(self) -> StateGraph:
        """Return the state graph of the finished search, with a new table of step labels."""
        bounds = SingleStatePropertyEvaluator(self.semantics, self.options, self.semantics.most_spent)
        system = PlainTransitionSystem(self.semantics, self.options)
        states = InMemoryStateStore(self._visited.states, self._visited.numbers, len(self.starts()), self.path_to)
        return StateGraph(system, states, bounds, pause=lambda: self._monitor.check_time_limit(0))

    def _check(self, source: State, transition: Transition | None) -> None:
        """Check the invariants in the target of a transition; without a transition, in the state `source` itself."""
        state = source if transition is None else transition.target
        self._at = source, transition
        for prop in self._state_properties:
            if not self.semantics.holds(prop, state):
                self._violation(prop.name, source, transition)
        for prop in self._step_properties if transition is None else ():
            if not self.semantics.begins(prop, state):
                self._violation(prop.name, source, None)

    def _add(self, identity: Value, source: int, state: State, depth: int) -> int:
        """Add a new state and count its level, even if it violates a property, as TLC does; return its number."""
        number = self._visited.numbers[identity] = len(self._visited.states)
        self._visited.states.append(state)
        self._visited.sources.append(source)
        if self.options.search != Search.BFS and self.options.max_depth:
            self._visited.depths[number] = depth
        self.result.depth = max(self.result.depth or 0, depth)
        return number

    def _violation(self, name: str, source: State, transition: Transition | None) -> None:
        if name in self._monitor.violated or self._is_over:
            return
        try:
            self._monitor.violation(name, self._trace(source, transition))
        except SearchStopped:
            if not self._finishes_level:
                raise

    def _trace(self, source: State, transition: Transition | None) -> Behaviour:
        """Return the behaviour to a state, with one more step if a transition is given."""
        if transition is not None:
            return (*self.path_to(source), trace_step_of_transition(transition))
        return self.path_to(source) if self.identity(source) in self._visited.numbers else (TraceStep(source),)

    def path_to(self, state: State) -> Behaviour:
        """Return the behaviour that first reached a state (in a bounded search: the shortest)."""
        numbers = [self._visited.numbers[self.identity(state)]]
        while self._visited.sources[numbers[-1]] != NO_SOURCE_STATE:
            numbers.append(self._visited.sources[numbers[-1]])
        steps = [TraceStep(self._visited.states[numbers.pop()])]
        while numbers:
            steps.append(
                trace_step_of_transition(self._first_step(steps[-1].state, self._visited.states[numbers.pop()]))
            )
        return tuple(steps)

    def _first_step(self, before: State, after: State) -> Transition:
        """Return the first transition out of a state to the canonical key of another; transitions are not kept."""
        wanted, again = self.identity(after), self._again
        for transition in again.transitions(before):
            if self.identity(transition.target) == wanted and again.allows(before, transition.target):
                return transition
        self.purity.call_again()  # names the action if it is one of the tested calls
        raise NoSuchPathError(again.semantics, "a step was not found again")

    @cached_property
    def _again(self) -> PlainTransitionSystem:
        """The transition system with calls that are neither counted nor tested."""
        return PlainTransitionSystem(Semantics(self.protocol), self.options)

    def states(self) -> Iterator[State]:
        """Yield every visited state, one for each canonical key."""
        yield from self._visited.states

    def starts(self) -> list[int]:
        """Return the numbers of the initial states."""
        return [number for number, source in enumerate(self._visited.sources) if source == NO_SOURCE_STATE]

    def edges(self, *, skip_errors: bool = False) -> Iterator[tuple[int, Transition, int]]:
        """Yield each step between two visited states, as (number of source, transition, number of target)."""
        for number, state in enumerate(self._visited.states):
            with suppress(*[RaisedError] if skip_errors else []):
                for transition in self.semantics.transitions(state):
                    # None beyond a constraint or a limit
                    target = self._visited.numbers.get(self.identity(transition.target))
                    if target is not None and self.system.allows(state, transition.target):
                        yield number, transition, target
