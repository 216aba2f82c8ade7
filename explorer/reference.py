"""The reference engine: whole states, a set of those seen, nothing clever. The yardstick for every other engine."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator

from kraftcheck.explorer.identity import identity_of
from kraftcheck.explorer.purity import PureSemantics
from kraftcheck.explorer.result import (
    DEADLOCK,
    INTERRUPTED,
    Interrupted,
    Options,
    Progress,
    Result,
    Search,
    TraceStep,
    Verdict,
    Violation,
)
from kraftcheck.spec.language.protocol import Protocol
from kraftcheck.spec.language.semantics import Semantics, Transition
from kraftcheck.spec.language.starts import initial_states
from kraftcheck.spec.language.state import State
from kraftcheck.spec.values import Value

REPORT_EVERY = 1000  # states expanded between two looks at the clock


def explore(protocol: Protocol, options: Options | None = None) -> Result:
    """Search the reachable states of a protocol.

    Parameters
    ----------
    protocol
        The protocol, with its constants.
    options
        What to check and where to stop; by default everything the protocol calls an invariant, breadth first.

    Returns
    -------
    Result
        The counts, and a counterexample for each violated property (the first only, unless `keep_going`).

    Raises
    ------
    ProtocolError
        Where the protocol breaks the language's contract.
    """
    if options is None:
        options = Options(properties=tuple(p for p in protocol.properties.values() if p.kind == "invariant"))
    return ReferenceSearch(protocol, options).run()


class Stop(Exception):  # noqa: N818 - a way out of the search, not an error
    """The search is over before it is complete."""


class ReferenceSearch:
    """One search; afterwards it can still be asked about the states that it visited.

    Parameters
    ----------
    protocol
        The protocol, with its constants.
    options
        What to check and where to stop.

    Attributes
    ----------
    parents
        For each state found, by identity: how it was reached first.
    """

    def __init__(self, protocol: Protocol, options: Options) -> None:
        self.protocol = protocol
        self.options = options
        self.semantics = (PureSemantics if options.check_actions else Semantics)(protocol)
        self.identity = identity_of(protocol, options.symmetry, options.view)
        names = [*protocol.actions, *protocol.network.own_actions()]
        self.result = Result(actions=dict.fromkeys(names, 0))
        self._place = {name: place for place, name in enumerate(names)}
        self.parents: dict[Value, tuple[State, Transition | None]] = {}
        self._depths: dict[Value, int] = {}  # of states met, where a depth-first search is bounded
        self._violated: set[str] = set()
        self._state_properties = [p for p in options.properties if not p.over_steps]
        self._step_properties = [p for p in options.properties if p.over_steps]
        self._began = time.monotonic()

    def run(self) -> Result:
        """Search, and return what was found.

        Raises
        ------
        Interrupted
            Where the user interrupts it; the exception has what was found until then.
        """
        try:
            starts = [state for state in self._initial() if self._admit(state, None, 1)]
            if self.options.search is Search.BFS:
                self._breadth_first(starts)
            else:
                self._depth_first(starts)
        except Stop:
            pass
        except KeyboardInterrupt:
            self.result.complete = False
            self.result.limit = INTERRUPTED
            raise Interrupted(self._finished()) from None
        self._report(0)
        return self._finished()

    def _finished(self) -> Result:
        result = self.result
        if result.violations:
            deadlock_only = {violation.property for violation in result.violations} == {DEADLOCK}
            result.verdict = Verdict.DEADLOCK if deadlock_only else Verdict.VIOLATION
            result.complete = result.complete and self.options.keep_going
        elif not result.complete:
            result.verdict = Verdict.INCOMPLETE
        if self.options.search is not Search.BFS:
            result.depth = None
        result.handler_calls = dict(self.semantics.handler_calls)
        result.seconds = time.monotonic() - self._began
        return result

    def _initial(self) -> Iterator[State]:
        for state in initial_states(self.semantics, self.options.init):
            self.result.generated_states += 1
            yield state

    def _breadth_first(self, starts: list[State]) -> None:
        frontier, depth = starts, 1
        while frontier:
            if depth == self.options.max_depth:
                self._limit("max_depth")
            reached: list[State] = []
            for number, state in enumerate(frontier):
                if number % REPORT_EVERY == 0:
                    self._look_at_the_clock(len(frontier) - number + len(reached))
                reached += [t.target for t in self._expand(state) if self._admit(state, t, depth + 1)]
            frontier, depth = reached, depth + 1

    def _depth_first(self, starts: list[State]) -> None:
        waiting: deque[tuple[State, int]] = deque((state, 1) for state in reversed(starts))
        expanded, cut = 0, False
        while waiting:
            state, depth = waiting.pop()
            if depth == self.options.max_depth:
                cut = True
                continue
            if self.options.max_depth and depth > self._depths[self.identity(state)]:
                continue  # met again nearer to the start since it was put here
            expanded += 1
            if expanded % REPORT_EVERY == 0:
                self._look_at_the_clock(len(waiting))
            reached = [t.target for t in self._expand(state) if self._admit(state, t, depth + 1)]
            waiting.extend((target, depth + 1) for target in reversed(reached))
        if cut:
            self._limit("max_depth")

    def _expand(self, state: State) -> Iterator[Transition]:
        """Yield the transitions out of a state, counting them and checking the step properties.

        They come by action, in the order in which the protocol defines these, as TLC goes through the disjuncts of a
        Next: so a search that stops at a violation has met the same states, in the same order.
        """
        result, stuck = self.result, True
        for transition in sorted(self.semantics.transitions(state), key=lambda t: self._place[t.action]):
            stuck = False
            result.generated_states += 1
            result.actions[transition.action] += 1
            for prop in self._step_properties:
                if not self.semantics.holds_over(prop, state, transition.target):
                    self._violation(prop.name, state, transition)
            if all(self.semantics.holds_over(c, state, transition.target) for c in self.options.action_constraints):
                yield transition
            else:
                self._check(state, transition)  # as TLC does, also what is pruned
        if stuck and self.options.deadlock:
            self._violation(DEADLOCK, state, None)

    def _admit(self, source: State, transition: Transition | None, depth: int) -> bool:
        """Note a state; return whether it is to be expanded: new (or nearer than before) and within the constraints."""
        state = source if transition is None else transition.target
        identity = self.identity(state)
        if identity in self.parents:
            if self._depths.get(identity, 0) <= depth:
                return False
            self.parents[identity] = (source, transition)
            self._depths[identity] = depth
            return True
        within = all(self.semantics.holds(constraint, state) for constraint in self.options.constraints)
        if within:
            self._note(identity, source, transition, depth)
        self._check(source, transition)
        if within and self.result.distinct_states == self.options.max_states:
            self._limit("max_states")
        return within

    def _check(self, source: State, transition: Transition | None) -> None:
        """Check the invariants in a state."""
        state = source if transition is None else transition.target
        for prop in self._state_properties:
            if not self.semantics.holds(prop, state):
                self._violation(prop.name, source, transition)

    def _note(self, identity: Value, source: State, transition: Transition | None, depth: int) -> None:
        """Count a new state, one that violates a property too: as in TLC it was found, and so was its level."""
        self.parents[identity] = (source, transition)
        if self.options.search is not Search.BFS and self.options.max_depth:
            self._depths[identity] = depth
        self.result.distinct_states += 1
        self.result.depth = max(self.result.depth or 0, depth)

    def _violation(self, name: str, source: State, transition: Transition | None) -> None:
        if name in self._violated:
            return
        self._violated.add(name)
        trace = self.path_to(source) if transition is not None or name == DEADLOCK else ()
        if transition is not None:
            trace = (*trace, _trace_step(transition))
        elif name != DEADLOCK:
            trace = (TraceStep(source),)
        self.result.violations.append(Violation(name, trace))
        if not self.options.keep_going:
            raise Stop

    def path_to(self, state: State) -> tuple[TraceStep, ...]:
        """Return the behaviour by which a visited state was found first (in a bounded search: nearest)."""
        steps: list[TraceStep] = []
        source, transition = self.parents[self.identity(state)]
        while transition is not None:
            steps.append(_trace_step(transition))
            source, transition = self.parents[self.identity(source)]
        return (TraceStep(source), *reversed(steps))

    def states(self) -> Iterator[State]:
        """Yield every state visited, one for each identity."""
        for source, transition in self.parents.values():
            yield source if transition is None else transition.target

    def _limit(self, name: str) -> None:
        self.result.complete = False
        self.result.limit = name
        raise Stop

    def _look_at_the_clock(self, frontier: int) -> None:
        limit = self.options.time_limit
        if limit is not None and time.monotonic() - self._began > limit:
            self._limit("time_limit")
        self._report(frontier)

    def _report(self, frontier: int) -> None:
        if self.options.report is not None:
            result = self.result
            seconds = time.monotonic() - self._began
            self.options.report(
                Progress(result.distinct_states, result.generated_states, result.depth or 0, frontier, seconds)
            )


def _trace_step(transition: Transition) -> TraceStep:
    return TraceStep(transition.target, transition.action, transition.actor, transition.message)
