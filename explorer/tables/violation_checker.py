"""Initial states, violations and result of a search, for every search order of the table engine."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import cached_property, partial
from math import log
from typing import Any

import numpy as np

from kraftcheck.explorer.result import (
    DEADLOCK,
    Behaviour,
    Result,
    SearchCounts,
    SearchMonitor,
    SearchRequest,
    SearchStopped,
    TraceStep,
    behaviour_along,
    find_error_in_steps_from,
    least_transition,
    trace_step_of_transition,
)
from kraftcheck.explorer.tables.expander import Expander, ExpansionEvent
from kraftcheck.explorer.tables.kernel.codes import EVENT_BAD_STEP, EVENT_DEADLOCK
from kraftcheck.explorer.tables.python_checks import PythonChecks
from kraftcheck.explorer.tables.rows import Rows
from kraftcheck.explorer.transition_system import PlainTransitionSystem
from kraftcheck.spec.errors import RaisedError
from kraftcheck.spec.language.declarations import Property
from kraftcheck.spec.language.protocol import Protocol
from kraftcheck.spec.language.semantics import Semantics, Transition
from kraftcheck.spec.language.state import State

FIRST_CALL_SAMPLE_STATES = 1_000  # at the first sample
FEWEST_CALLS_TO_WARN = 1_000  # for a warning
# The seconds, and the part of them in learning, from which a note says so.
LONG_LEARNING_SECONDS, LONG_LEARNING_FRACTION = 10.0, 0.1
STEEP_CALL_GROWTH_EXPONENT = 0.8  # exponent: calls that grow as states ** STEEP, or faster, are worth a warning

StepAndCallCounts = tuple[dict[str, int], dict[str, int]]


class ViolationChecker:
    """Checks the states of one search, and keeps its statistics."""

    def __init__(
        self,
        protocol: Protocol,
        options: SearchRequest,
        expander: Expander,
        count_visited: Callable[[], int],
        tallies: Callable[[], StepAndCallCounts] | None = None,
    ) -> None:
        self.semantics = Semantics(protocol)
        self.system = PlainTransitionSystem(self.semantics, options)
        self.monitor = SearchMonitor(options, self._totals, protocol)
        self.monitor.result.workers = expander.workers
        self.initial_count = self.restored = 0
        self._options = options
        self.expander = expander
        self._learner = expander.learner
        self._count_visited = count_visited
        self._tallies = tallies or self._own_tallies
        self._growth = CallGrowthWarnings()
        parts = expander.parts
        self.python: PythonChecks | None = None
        if parts.non_local or parts.non_local_constraints:
            learner = self._learner
            self.python = PythonChecks(parts, self.system, learner.interner, learner.calls, self.monitor)

    def result_of(self, search: Callable[[], None]) -> Result:
        """Run a search, test the purity of its handlers, and return its result."""
        try:
            return self.monitor.result_of(partial(self._search_and_test_purity, search), self._notes)
        finally:
            self.expander.close()

    def _search_and_test_purity(self, search: Callable[[], None]) -> None:
        with suppress(SearchStopped):
            search()
        self._learner.calls.purity.call_again()

    # Initial states

    @cached_property
    def starts(self) -> list[State]:
        """The initial states."""
        return self.system.initial()

    def starting_rows(self) -> Rows:
        """Return the initial states that satisfy the constraints; `check_starts` checks them once they are stored."""
        self.initial_count = len(self.starts)
        rows = self.expander.encode(self.starts)
        within = list(map(self.system.is_within, self.starts))
        first: Rows = rows[np.array(within, bool)]
        return first

    def check_starts(self) -> None:
        """Check the properties of the initial states."""
        for state in self.starts:
            for prop in self._options.properties:
                try:
                    holds = (self.semantics.begins if prop.over_steps else self.semantics.holds)(prop, state)
                except RaisedError as error:
                    error.trace = (TraceStep(state),)
                    raise
                if not holds:
                    self.monitor.violation(prop.name, (TraceStep(state),))

    # Errors of user code

    def traced(self, error: RaisedError, rows: Iterable[Any], trace_to: Callable[[int], Behaviour]) -> RaisedError:
        """Return an error with the trace to the state that raises it, found by repeating the steps of `rows`."""
        me = getattr(error, "me", None)
        asked = self._options
        judged = (asked.properties, asked.action_constraints, asked.constraints)
        rows = list(rows) if error.trace is None else []
        for index, row in enumerate(rows):
            state = self._learner.interner.decode_state(row)
            if me is None or me in state.replicas.values():
                find = partial(self._error_in_steps_from, judged)
                found = _find_error_with_trace(state, find, partial(trace_to, index))
                if found is not None:
                    return found
        for index, row in enumerate(rows if "of" in error.given else ()):
            state = self._learner.interner.decode_state(row)
            found = _find_error_with_trace(state, partial(self._raised_next, error), partial(trace_to, index))
            if found is not None:
                return found
        return error

    def _error_in_steps_from(self, judged: Sequence[Sequence[Property]], state: State) -> RaisedError | None:
        return find_error_in_steps_from(self.semantics, state, *judged)

    def _raised_next(self, error: RaisedError, state: State) -> RaisedError | None:
        """Return the same error, raised in a successor of a state; the tables evaluate projections one step ahead."""
        for taken in self.semantics.transitions(state):
            if self.system.goes_on(state, taken.target):
                found = find_error_in_steps_from(self.semantics, taken.target, ())
                if found is not None and found.name == error.name and found.trace is not None:
                    found.trace = (trace_step_of_transition(taken), *found.trace)
                    return found
        return None

    # Violations

    def report_events(self, events: Iterable[ExpansionEvent], trace_to: Callable[[int], Behaviour]) -> None:
        """Report the violations in the kernel's events, without a search for the least state (`witness.py`)."""
        for event in events:
            self.report_event(event.kind, event.mask, trace_to(event.state))

    def report_event(self, kind: int, mask: int, trace: Behaviour) -> None:
        """Report the violations of one event."""
        if kind == EVENT_DEADLOCK:
            self.monitor.violation(DEADLOCK, trace)
            return
        self.report_step(self.expander.properties_in(kind, mask), trace, over_steps=kind == EVENT_BAD_STEP)

    def report_step(self, properties: Iterable[Property], trace: Behaviour, *, over_steps: bool) -> None:
        """Report properties that a step out of the last state of a trace violates, or its target."""
        transitions = list(self.semantics.transitions(trace[-1].state))
        for prop in properties:
            violates = self._violates(prop, trace[-1].state, over_steps)
            steps = list(filter(violates, transitions))
            if not steps:
                raise AssertionError(f"{prop.name} is violated in the tables, but by no reference step of the state")
            self.monitor.violation(prop.name, (*trace, trace_step_of_transition(least_transition(steps))))

    def _violates(self, prop: Property, state: State, over_steps: bool) -> Callable[[Transition], bool]:
        """Return a test of whether a step violates a property."""
        if over_steps:
            return lambda step: not self.semantics.step_satisfies(prop, state, step)
        return lambda step: not self.semantics.holds(prop, step.target)

    def behaviour(self, rows: Iterable[Any]) -> Behaviour:
        """Return the trace through states, given as rows."""
        return behaviour_along(self.semantics, [self._learner.interner.decode_state(row) for row in rows])

    # Counts and limits

    @property
    def distinct(self) -> int:
        """Number of distinct states that satisfy the constraints."""
        return self._count_visited() - (0 if self.python is None else self.python.beyond)

    def _totals(self) -> SearchCounts:
        actions, calls = self._tallies()
        distinct, most = self.distinct, self._options.max_states
        if most is not None:  # the last batch may exceed the limit
            distinct = min(distinct, max(most, self.restored))
        self._growth.sample(distinct, calls)
        evaluations = self._learner.calls.evaluations
        generated = self.initial_count + sum(actions.values())
        return SearchCounts(distinct, generated, actions, calls, evaluations=evaluations.copy())

    def _own_tallies(self) -> StepAndCallCounts:
        learner = self._learner
        fired = self.expander.fired.tolist()
        return dict(zip(learner.action_names, fired, strict=True)), dict(learner.calls.counts)

    def _notes(self) -> list[str]:
        python = [] if self.python is None else self.python.notes(len(self.starts))
        result = self.monitor.result
        return python + self._growth.notes(result.distinct_states, result.handler_calls) + self._notes_on_workers()

    def _notes_on_workers(self) -> list[str]:
        """Return a note if several workers gain little, because one thread alone calls handlers."""
        seconds, learning = self.monitor.seconds, self._learner.seconds
        if self.expander.workers == 1 or seconds < LONG_LEARNING_SECONDS or learning < LONG_LEARNING_FRACTION * seconds:
            return []
        calls = self._learner.calls.counts + self._learner.calls.evaluations
        most = ", ".join(name for name, _ in calls.most_common(1))
        share = f"{learning / seconds:.0%} of the time"
        return [f"learning (most calls: {most}) took {share}; more workers do not shorten it"]

    def batch_size(self, most: int) -> int:
        """Return the number of states to expand at once, at most `most`; fewer near the limit on states."""
        if self._options.max_states is None:
            return most
        return max(1, min(most, (self._options.max_states - self.distinct) // 8))

    def has_max_states(self) -> bool:
        """Return whether the limit on states is reached."""
        return self._options.max_states is not None and self.distinct >= self._options.max_states

    def stop_at_max_states(self) -> None:
        """Stop the search if the limit on states is reached."""
        if self.has_max_states():
            self.monitor.stop_at("max_states")


def _find_error_with_trace(
    state: State, raised: Callable[[State], RaisedError | None], trace_to: Callable[[], Behaviour]
) -> RaisedError | None:
    """Return the error that `raised` finds in a state, with the trace to that state, or None."""
    found = raised(state)
    if found is None:
        return None
    before = trace_to()
    if before and before[-1].state != state:  # under symmetry the trace may end in another image of the state
        found = raised(before[-1].state) or found
    assert found.trace is not None
    found.trace = (*before, *found.trace)
    return found


class CallGrowthWarnings:
    """Warns of actions whose calls grow with the number of states, sampled at each doubling."""

    def __init__(self) -> None:
        self._samples: list[tuple[int, dict[str, int]]] = []

    def sample(self, states: int, calls: dict[str, int]) -> None:
        """Sample the calls of each action, if the number of states has doubled."""
        if states >= (2 * self._samples[-1][0] if self._samples else FIRST_CALL_SAMPLE_STATES):
            self._samples.append((states, dict(calls)))

    def notes(self, states: int, calls: dict[str, int]) -> list[str]:
        """Return a warning for each action whose calls still grow about as fast as the number of states."""
        earlier = [sample for sample in self._samples if 2 * sample[0] <= states]
        if not earlier:
            return []
        then, before = earlier[-1]
        return [
            f"{name}: {times:,} calls in Python, which grow with the number of states, since its inputs hardly repeat; "
            "see docs/fast.md"
            for name, times in calls.items()
            if times >= FEWEST_CALLS_TO_WARN
            and log(times / max(1, before.get(name, 0))) >= STEEP_CALL_GROWTH_EXPONENT * log(states / then)
        ]
