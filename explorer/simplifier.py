"""Simplification of a counterexample: fewer steps, then fewer replicas, actions, switches, messages and values.

A shortest counterexample is not always the simplest. Small passes propose other behaviours. Each one is replayed with
the reference semantics and must end in a violation of the same property. A cheaper one is kept.

Sources: A. Zeller and R. Hildebrandt, "Simplifying and Isolating Failure-Inducing Input" (2002), for leaving out steps;
E. W. Dijkstra, "A Note on Two Problems in Connexion with Graphs" (1959), for the cheapest of the shortest behaviours.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from heapq import heappop, heappush
from itertools import count, pairwise
from typing import Any, NamedTuple

from kraftcheck.explorer.request import SearchRequest
from kraftcheck.explorer.result import (
    Behaviour,
    TraceStep,
    UnmappedStep,
    Violation,
    trace_step_of_transition,
    unmapped_last_step,
)
from kraftcheck.explorer.transition_system import PlainTransitionSystem
from kraftcheck.spec.encoding import encode
from kraftcheck.spec.errors import RaisedError
from kraftcheck.spec.language.declarations import REFINES
from kraftcheck.spec.language.network import Network
from kraftcheck.spec.language.protocol import DEADLOCK, Protocol
from kraftcheck.spec.language.semantics import Semantics, Transition
from kraftcheck.spec.language.state import State
from kraftcheck.spec.values import Map, Record, Value, field_values

DEFAULT_TIME_LIMIT_SECONDS = 30.0
"""Time limit."""
MOST_STATES_A_SEARCH = 6_000
"""Most states of one search around a counterexample."""
MOST_REMEMBERED_STATES = 200_000  # states with remembered steps
INFINITE_COST = (math.inf,) * 4


class CounterexampleCost(NamedTuple):
    """Complexity of a counterexample; earlier fields count more."""

    steps: int
    replicas: int  # replicas that take a step
    actions: int  # different actions
    switches: int  # steps taken by another replica than the one before
    messages: int  # messages sent
    left: int  # messages in flight at the end
    values: int  # the sum of all numbers in the last state


class CostFunction:
    """Computes the cost of behaviours of one protocol."""

    def __init__(self, network: Network) -> None:
        self._network = network
        self._weights: dict[Record, int] = {}
        self._sent: dict[tuple[Value, Value], int] = {}

    def of(self, trace: Behaviour) -> CounterexampleCost:
        """Return the cost of a behaviour."""
        steps = trace[1:]
        actors = [step.actor for step in steps]
        sent = sum(self.sent(a.state, b.state) for a, b in zip(trace, steps, strict=False))
        return CounterexampleCost(
            len(steps),
            len({*actors} - {None}),
            len({step.action for step in steps}),
            sum(a != b for a, b in pairwise(actors)),
            sent,
            sum(self._copies(inbox).total() for inbox in trace[-1].state.inboxes.values()),
            self.weight(trace[-1].state),
        )

    def sent(self, before: State, after: State) -> int:
        """Return the number of messages that a step sends."""
        empty, sent = self._network.empty, 0
        for key, inbox in after.inboxes.items():
            old = before.inboxes.get(key, empty)
            if old is not inbox:
                if (old, inbox) not in self._sent:
                    self._sent[old, inbox] = (self._copies(inbox) - self._copies(old)).total()
                sent += self._sent[old, inbox]
        return sent

    def _copies(self, inbox: Value) -> Counter[Any]:
        return Counter({message: self._network.count(inbox, message) for message in self._network.known(inbox)})

    def weight(self, state: State) -> int:
        """Return the sum of the numbers in a state."""
        return sum(self._weight_of(record) for record in (*state.replicas.values(), state.shared))

    def _weight_of(self, record: Record) -> int:
        if record not in self._weights:
            self._weights[record] = _sum_of_magnitudes(record)
        return self._weights[record]


def _sum_of_magnitudes(value: Value) -> int:
    """Return the sum of the absolute values of the numbers in a value."""
    if isinstance(value, bool):
        return 0
    if isinstance(value, int):
        return abs(value)
    if isinstance(value, Record):
        return sum(map(_sum_of_magnitudes, field_values(value)))
    if isinstance(value, Map):
        return sum(_sum_of_magnitudes(key) + _sum_of_magnitudes(one) for key, one in value.items())
    return sum(map(_sum_of_magnitudes, value)) if isinstance(value, tuple | frozenset) else 0


class _TimeOver(Exception):  # noqa: N818 - a way out, not an error
    """Raised when the time limit is reached."""


class CounterexampleSimplifier:
    """Simplifies one counterexample."""

    def __init__(
        self,
        protocol: Protocol,
        options: SearchRequest,
        violation: Violation,
        seconds: float = DEFAULT_TIME_LIMIT_SECONDS,
        report: Callable[[], None] | None = None,
    ) -> None:
        self.best: Behaviour = violation.trace
        self.done: list[str] = []
        self._semantics, self._violation, self._failed = Semantics(protocol), violation, violation.failed
        self._system = PlainTransitionSystem(self._semantics, options)
        self._property = protocol.properties.get(violation.property)
        self._report = report or (lambda: None)
        self._until = time.monotonic() + seconds
        self._encoded: dict[tuple[Any, Any], bytes] = {}
        self._known: dict[State, list[Transition]] = {}
        self.costs = CostFunction(protocol.network)

    def run(self, shortest: Callable[[int, float], Behaviour | None] | None = None) -> Violation:
        """Simplify until no pass helps, the time is over, or the user interrupts.

        `shortest(most, seconds)` returns a shortest behaviour with the violation, of at most `most` states, or None.
        Without the function, the counterexample counts as shortest already.
        """
        try:
            if shortest is not None:
                self._pass("steps left out", self._steps_left_out())
                left = (self._until - time.monotonic()) / 2
                found = shortest(len(self.best) - 1, left) if len(self.best) > 1 else None
                self._pass("a shortest one searched", iter([found] if found else []))
            before = None
            while before != self.best:
                before = self.best
                self._pass("steps moved", self._steps_moved())
                self._pass("steps in another order", self._reordered())
                self._pass("replicas left out", self._replicas_left_out())
                self._pass("actions left out", self._actions_left_out())
                self._pass("the cheapest of its length", self._cheapest())
                if shortest is not None:
                    self._pass("steps left out", self._steps_left_out())
        except _TimeOver:
            self.done.append("then the time was over")
        except KeyboardInterrupt:
            self.done.append("then it was interrupted")
        if self._failed is not None:
            self._shows(*self._end(self.best))
            self._failed.trace = self.best
        return replace(self._violation, trace=self.best, failed=self._failed, unmapped=self._unmapped())

    def _unmapped(self) -> UnmappedStep | None:
        known, prop = self._violation.unmapped, self._property
        return known if known is None or prop is None else unmapped_last_step(self._semantics, prop, self.best)

    def _pass(self, what: str, tried: Iterator[Behaviour | None]) -> None:
        """Replace the best behaviour by each cheaper one that a pass proposes; note the pass if it helped."""
        before = self.best
        try:
            for found in tried:
                self._report()
                if found is not None and self.costs.of(found) < self.costs.of(self.best):
                    self.best = found
                if time.monotonic() > self._until:
                    raise _TimeOver
        finally:
            if self.best is not before and what not in self.done:
                self.done.append(what)

    # Steps

    def _steps(self, state: State) -> list[Transition]:
        """Return the steps out of a state, in canonical order."""
        found = self._known.get(state)
        if found is None:
            if time.monotonic() > self._until:
                raise _TimeOver
            if len(self._known) > MOST_REMEMBERED_STATES:
                self._known.clear()
            found = self._known[state] = sorted(self._semantics.transitions(state), key=self._order)
        return found

    def _order(self, taken: Transition) -> tuple[str, bytes]:
        by_whom = (taken.actor, taken.message)
        if by_whom not in self._encoded:
            self._encoded[by_whom] = b"".join(encode(part) for part in by_whom if part is not None)
        return taken.action, self._encoded[by_whom]

    def _is_expanded(self, before: State | None, state: State) -> bool:
        """Whether a search expands a state; a state beyond a constraint is no deadlock."""
        return self._system.is_within(state) if before is None else self._system.goes_on(before, state)

    def _shows(self, before: State | None, taken: Transition | None, state: State) -> bool:
        """Whether a state, or the step to it, shows the violation."""
        if self._violation.trap is not None:
            return state == self._violation.trace[-1].state
        try:
            return self._is_broken(before, taken, state) and self._violation.failed is None
        except RaisedError as error:
            if self._violation.failed is None or error.name != self._violation.property:
                return False
            self._failed = error
            return True

    def _is_broken(self, before: State | None, taken: Transition | None, state: State) -> bool:
        """Whether a state, or the step to it, violates the property; raise the error of a failed evaluation."""
        prop = self._property
        if prop is None:  # a deadlock, or an action in which an `assert` failed
            steps = self._steps(state) if self._is_expanded(before, state) else None
            return self._violation.property == DEADLOCK and steps == []
        if prop.over_steps:
            if before is None or taken is None:
                return not self._semantics.begins(prop, state)
            return not self._semantics.step_satisfies(prop, before, taken)
        return not self._semantics.holds(prop, state)

    def shows_it(self) -> bool:
        """Whether the last step of the best behaviour shows the violation."""
        return self._shows(*self._end(self.best))

    def _end(self, trace: Behaviour) -> tuple[State | None, Transition | None, State]:
        """Return the last step of a behaviour: the state before, the step, and the state."""
        last = trace[-1]
        if len(trace) == 1:
            return None, None, last.state
        before = trace[-2].state
        return before, self._like(before, last, exactly=True), last.state

    def _like(self, state: State, step: TraceStep, *, exactly: bool = False) -> Transition | None:
        """Return the transition out of a state that is most similar to a recorded step, or None."""
        fitting = [t for t in self._steps(state) if (t.action, t.actor) == (step.action, step.actor)]
        if exactly:
            return next(t for t in fitting if (t.message, t.target) == (step.message, step.state))
        same = [t for t in fitting if t.message == step.message]
        same = same or [t for t in fitting if _loose_message_key(t.message) == _loose_message_key(step.message)]
        if step.actor is not None:
            wanted = step.state.replicas.get(step.actor)
            same.sort(key=lambda t: t.target.replicas.get(step.actor) != wanted)
        return same[0] if same else None

    def _along(self, steps: Sequence[TraceStep]) -> Behaviour | None:
        """Take the given steps as far as they are enabled; return the behaviour up to the violation, or None."""
        trace = [self.best[0]]
        if self._shows(None, None, trace[0].state):
            return tuple(trace)
        for step in steps:
            before = trace[-1].state
            try:
                taken = self._like(before, step)
            except RaisedError:
                return None
            if taken is None:
                continue
            trace.append(trace_step_of_transition(taken))
            if self._shows(before, taken, taken.target):
                return tuple(trace)
            if not self._system.goes_on(before, taken.target):
                return None
        return None

    # Passes

    def _steps_left_out(self) -> Iterator[Behaviour | None]:
        """Leave out steps: halves, quarters and so on, down to single ones."""
        size = max(1, len(self.best) // 2)
        while True:
            first, before = 1, self.best
            while first < len(self.best):
                found, shorter = self._along(self.best[1:first] + self.best[first + size :]), len(self.best)
                yield found
                if len(self.best) == shorter:
                    first += size
            if self.best is before and size == 1:
                return
            size = max(1, min(size if self.best is not before else size // 2, len(self.best) // 2))

    def _steps_moved(self) -> Iterator[Behaviour | None]:
        """Move each step to each other place, which may bring the steps of one replica together."""
        for first in range(1, len(self.best)):
            for place in range(1, len(self.best)):
                steps = list(self.best[1:])
                if place != first and first <= len(steps):
                    steps.insert(place - 1, steps.pop(first - 1))
                    yield self._along(steps)

    def _replicas_left_out(self) -> Iterator[Behaviour | None]:
        """Search for a behaviour of at most the same length without the steps of one replica."""
        for actor, _ in Counter(step.actor for step in self.best[1:] if step.actor is not None).most_common()[::-1]:
            actors = {step.actor for step in self.best[1:]} - {actor} | {None}
            yield self._around(lambda taken, actors=actors: taken.actor in actors)  # type: ignore[misc]

    def _actions_left_out(self) -> Iterator[Behaviour | None]:
        """Search for a behaviour of at most the same length, by the same replicas, without one action."""
        for action in sorted({str(step.action) for step in self.best[1:]}):
            actors = {step.actor for step in self.best[1:]}
            actions = {step.action for step in self.best[1:]} - {action}
            yield self._around(
                lambda taken, actors=actors, actions=actions: taken.actor in actors and taken.action in actions  # type: ignore[misc]
            )

    def _reordered(self) -> Iterator[Behaviour | None]:
        """Search for the cheapest behaviour of at most the same length with the same actions, actors and messages."""
        allowed = {(step.action, step.actor, step.message) for step in self.best[1:]}
        yield self._around(lambda taken: (taken.action, taken.actor, taken.message) in allowed)

    def _cheapest(self) -> Iterator[Behaviour | None]:
        """Search for the cheapest behaviour of at most the same length with the same actions and actors."""
        allowed = {(step.action, step.actor) for step in self.best[1:]}
        yield self._around(lambda taken: (taken.action, taken.actor) in allowed)

    def _around(self, allowed: Callable[[Transition], bool]) -> Behaviour | None:
        """Return the cheapest behaviour to the violation with only the steps for which `allowed` holds."""
        waiting: list[tuple[tuple[int, int, int, int], int, State, Any]] = []
        ways: dict[tuple[State, Any], tuple[tuple[State, Any] | None, TraceStep]] = {}
        numbers = count()
        for state in filter(self._system.is_within, self._system.initial()):
            ways[state, None] = None, TraceStep(state)
            heappush(waiting, ((0, 0, 0, 0), next(numbers), state, None))
        costs: dict[tuple[State, Any], tuple[int, int, int, int]] = dict.fromkeys(ways, (0, 0, 0, 0))
        finished: set[tuple[State, Any]] = set()
        while waiting and len(ways) < MOST_STATES_A_SEARCH:
            cost, _, state, actor = heappop(waiting)
            if (state, actor) in finished:
                continue
            finished.add((state, actor))
            if cost[0] == len(self.best) - 1:
                return None
            with suppress(RaisedError):
                self._steps(state)
            for taken in filter(allowed, self._known.get(state, ())):
                end = (taken.target, taken.actor)
                switches = cost[1] + int(taken.actor != actor is not None)
                sent, weight = self.costs.sent(state, taken.target), self.costs.weight(taken.target)
                total = (cost[0] + 1, switches, cost[2] + sent, cost[3] + weight)
                if self._shows(state, taken, taken.target):
                    way = _behaviour_from_predecessors(ways, (state, actor))
                    return self._last((*way, trace_step_of_transition(taken)))
                if total < costs.get(end, INFINITE_COST) and self._system.goes_on(state, taken.target):
                    costs[end], ways[end] = total, ((state, actor), trace_step_of_transition(taken))
                    heappush(waiting, (total, next(numbers), taken.target, taken.actor))
        return None

    def _last(self, trace: Behaviour) -> Behaviour:
        """Return a behaviour with its last step replaced by the cheapest step that shows the violation."""
        before = trace[-2].state
        shown = [
            (*trace[:-1], trace_step_of_transition(t)) for t in self._steps(before) if self._shows(before, t, t.target)
        ]
        return min(shown, key=self.costs.of)


def _behaviour_from_predecessors(ways: dict[tuple[State, Any], Any], end: tuple[State, Any] | None) -> Behaviour:
    """Return the behaviour that ends at `end`; `ways` maps each node to its predecessor and step."""
    steps: list[TraceStep] = []
    while end is not None:
        end, step = ways[end]
        steps.append(step)
    return tuple(reversed(steps))


def _loose_message_key(message: Any) -> tuple[Any, ...]:
    """Return the parts of a message by which a recorded step is matched with a similar transition."""
    return type(message), getattr(message, "source", None) if message is not None else None


def find_violation_at_end(protocol: Protocol, trace: Behaviour, name: str | None) -> Violation | None:
    """Return the violation at the end of a behaviour, or None."""
    kinds = [prop for prop in protocol.properties.values() if prop.kind in ("invariant", "step_invariant", REFINES)]
    names = [name] if name in (DEADLOCK, *protocol.properties) else [prop.name for prop in kinds]
    for one in names:
        violation = Violation(one, trace)
        if CounterexampleSimplifier(protocol, SearchRequest(), violation).shows_it():
            return violation
    return None


def describe_simplification(
    name: str, before: CounterexampleCost, after: CounterexampleCost, done: Sequence[str], seconds: float
) -> str:
    """Return a note about a simplification."""
    changed = [
        f"{old:,} -> {new:,} {what.replace('left', 'messages left in flight').replace('values', 'in values')}"
        for what, old, new in zip(CounterexampleCost._fields, before, after, strict=True)
        if old != new
    ]
    how = f" ({', '.join(done)})" if done else ""
    return f"simplified {name} in {seconds:.1f} s: {', '.join(changed) or 'nothing'}{how}"
