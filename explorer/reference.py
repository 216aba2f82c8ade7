"""The reference engine: whole states, a set of those visited, nothing clever. Every other engine must agree with it."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from contextlib import suppress

from kraftcheck.explorer import capabilities
from kraftcheck.explorer.behaviour import Behaviour, step_of
from kraftcheck.explorer.bookkeeping import Bookkeeping, Stop, Totals
from kraftcheck.explorer.identity import identity_of
from kraftcheck.explorer.purity import PurityTest, TestedSemantics
from kraftcheck.explorer.reachability import Edge, Goals, stuck
from kraftcheck.explorer.result import DEADLOCK, Options, Result, Search, TraceStep, Trap
from kraftcheck.explorer.temporal.plain import labelled
from kraftcheck.explorer.temporal.search import check_temporal, without_symmetry
from kraftcheck.spec.errors import RaisedError
from kraftcheck.spec.language.protocol import Protocol
from kraftcheck.spec.language.semantics import Semantics, Transition
from kraftcheck.spec.language.starts import initial_states
from kraftcheck.spec.language.state import State
from kraftcheck.spec.values import Value

REPORT_EVERY = 1000  # states expanded between two looks at the clock


def explore(protocol: Protocol, options: Options | None = None) -> Result:
    """Search the reachable states of a protocol."""
    if options is None:
        options = Options(properties=tuple(p for p in protocol.properties.values() if p.kind == "invariant"))
    return ReferenceSearch(protocol, options).run()


class ReferenceSearch:
    """Searches whole states, and keeps all that it visited."""

    def __init__(self, protocol: Protocol, options: Options) -> None:
        self.protocol = protocol
        self.options, notes = without_symmetry(options)
        options = self.options
        self.purity = PurityTest(protocol, thorough=options.check_actions)
        self.semantics: Semantics = TestedSemantics(protocol, self.purity)
        self.identity = identity_of(protocol, options.symmetry, options.view)
        names = [*protocol.actions, *protocol.network.own_actions()]
        self._place = {name: place for place, name in enumerate(names)}
        self._fired = dict.fromkeys(names, 0)
        self._generated = 0
        self.parents: dict[Value, tuple[State, Transition | None]] = {}
        self._depths: dict[Value, int] = {}  # of states met, where a depth-first search is bounded
        self._state_properties = [p for p in options.properties if not p.over_steps]
        self._step_properties = [p for p in options.properties if p.over_steps]
        self._at: tuple[State, Transition | None] | None = None  # what is looked at
        self._goals = Goals(self.semantics, options, self.semantics.most_spent)
        self._books = Bookkeeping(options, self._totals, protocol, first_found=options.search == Search.BFS)
        self.result.notes += notes

    @property
    def result(self) -> Result:
        """What was found so far."""
        return self._books.result

    def run(self) -> Result:
        """Search, and return what was found."""
        return self._books.result_of(self._search)

    def _search(self) -> None:
        breadth_first = self.options.search == Search.BFS
        capabilities.require_able("reference", self.protocol, self.options)
        try:
            with suppress(Stop):
                starts = [state for state in self._initial() if self._admit(state, None, 1)]
                (self._breadth_first if breadth_first else self._depth_first)(starts)
                self._find_traps()
                self._check_temporal()
            self.purity.call_again()
            self._books.report(0)
        except RaisedError as error:
            judged = self._goals.judged
            error.trace = self.path_to(judged) if judged else self._trace(*self._at) if self._at else None
            raise
        finally:
            if not breadth_first:
                self.result.depth = None

    def _totals(self) -> Totals:
        return Totals(len(self.parents), self._generated, dict(self._fired), dict(self.semantics.handler_calls))

    def _initial(self) -> Iterator[State]:
        for state in initial_states(self.semantics, self.options.init):
            self._generated += 1
            yield state

    def _breadth_first(self, starts: list[State]) -> None:
        frontier, depth = starts, 1
        while frontier:
            if depth == self.options.max_depth:
                self._books.stop_at("max_depth")
            reached: list[State] = []
            for number, state in enumerate(frontier):
                if number % REPORT_EVERY == 0:
                    self._books.look_at_the_clock(len(frontier) - number + len(reached))
                reached += [t.target for t in self._expand(state) if self._admit(state, t, depth + 1)]
            frontier, depth = reached, depth + 1

    def _depth_first(self, starts: list[State]) -> None:
        waiting: deque[tuple[State, int]] = deque((state, 1) for state in reversed(starts))
        expanded, most = 0, self.options.max_depth
        while waiting:
            state, depth = waiting.pop()
            if depth == most:
                continue
            if most and depth > self._depths[self.identity(state)]:
                continue  # met again nearer to the start since it was put here
            expanded += 1
            if expanded % REPORT_EVERY == 0:
                self._books.look_at_the_clock(len(waiting))
            reached = [t.target for t in self._expand(state) if self._admit(state, t, depth + 1)]
            waiting.extend((target, depth + 1) for target in reversed(reached))
        if most in self._depths.values():  # of the others, those that were met there were met nearer later on
            self._books.stop_at("max_depth")

    def _expand(self, state: State) -> Iterator[Transition]:
        """Yield the transitions out of a state, counting them and checking the step properties.

        They come by action, in the order in which the protocol defines these, as TLC goes through the disjuncts of a
        Next: so a search that stops at a violation has met the same states, in the same order.
        """
        stuck = True
        self._at = state, None
        for transition in sorted(self.semantics.transitions(state), key=lambda t: self._place[t.action]):
            stuck = False
            self._at = state, transition
            self._generated += 1
            self._fired[transition.action] += 1
            for prop in self._step_properties:
                if not self.semantics.kept_by(prop, state, transition):
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
        if within and len(self.parents) == self.options.max_states:
            self._books.stop_at("max_states")
        return within

    def _find_traps(self) -> None:
        """Check what should stay reachable, once every state is visited."""
        goals, states = self._goals, list(self.states())
        numbers = {identity: number for number, identity in enumerate(self.parents)}
        for prop in self.options.reachable:
            wanted = {number for number, state in enumerate(states) if goals.holds(prop, state)}
            edges: list[Edge] = []
            for number, state in enumerate(states):
                if number % REPORT_EVERY == 0:
                    self._books.look_at_the_clock(0)
                if number not in wanted:
                    edges += self._edges(number, state, numbers, prop.without)
            found = stuck(len(states), wanted, edges)
            self._books.followed.add(prop.name)
            if found:
                trap = Trap(len(found), len(states))
                self._books.violation(prop.name, self.path_to(states[found[0]]), trap)

    def _edges(self, number: int, state: State, numbers: dict[Value, int], without: tuple[str, ...]) -> Iterator[Edge]:
        """Yield the steps within the constraints out of a state, given the numbers of states by identity."""
        for transition in self.semantics.transitions(state):
            target = numbers.get(self.identity(transition.target))
            if target is None or transition.action in without:
                continue
            if all(self.semantics.holds_over(c, state, transition.target) for c in self.options.action_constraints):
                yield Edge(number, target)

    def _check_temporal(self) -> None:
        """Check the temporal properties, once every state is visited."""
        if self.options.temporal:
            states = list(self.states())
            numbers = {identity: number for number, identity in enumerate(self.parents)}
            graph = labelled(
                self.semantics, self.options, states, lambda state: numbers.get(self.identity(state)), self._goals
            )
            check_temporal(graph, self.semantics, self.options, self._books, states.__getitem__)

    def _check(self, source: State, transition: Transition | None) -> None:
        """Check the invariants in a state."""
        state = source if transition is None else transition.target
        self._at = source, transition
        for prop in self._state_properties:
            if not self.semantics.holds(prop, state):
                self._violation(prop.name, source, transition)

    def _note(self, identity: Value, source: State, transition: Transition | None, depth: int) -> None:
        """Count a new state, one that violates a property too: as in TLC it was found, and so was its level."""
        self.parents[identity] = (source, transition)
        if self.options.search != Search.BFS and self.options.max_depth:
            self._depths[identity] = depth
        self.result.depth = max(self.result.depth or 0, depth)

    def _violation(self, name: str, source: State, transition: Transition | None) -> None:
        if name not in self._books.violated:
            self._books.violation(name, self._trace(source, transition))

    def _trace(self, source: State, transition: Transition | None) -> Behaviour:
        """Return the behaviour to a state, and a step further where one is given."""
        if transition is not None:
            return (*self.path_to(source), step_of(transition))
        return self.path_to(source) if self.identity(source) in self.parents else (TraceStep(source),)

    def path_to(self, state: State) -> Behaviour:
        """Return the behaviour by which a visited state was found first (in a bounded search: nearest)."""
        steps: list[TraceStep] = []
        source, transition = self.parents[self.identity(state)]
        while transition is not None:
            steps.append(step_of(transition))
            source, transition = self.parents[self.identity(source)]
        return (TraceStep(source), *reversed(steps))

    def states(self) -> Iterator[State]:
        """Yield every state visited, one for each identity."""
        for source, transition in self.parents.values():
            yield source if transition is None else transition.target
