"""The symbolic engine: all reachable states as one set (`docs/symbolic.md`)."""

from __future__ import annotations

from collections import Counter, defaultdict

from kraftcheck.explorer.behaviour import Behaviour, behaviour_along, step_of
from kraftcheck.explorer.bookkeeping import Bookkeeping, Totals
from kraftcheck.explorer.interruption import Interruption
from kraftcheck.explorer.result import DEADLOCK, MEMORY, Options, Result, Search
from kraftcheck.explorer.symbolic.calls import Calls
from kraftcheck.explorer.symbolic.checks import StateChecks, StepChecks
from kraftcheck.explorer.symbolic.counterexamples import Predecessors
from kraftcheck.explorer.symbolic.refusals import require_able
from kraftcheck.explorer.symbolic.relations import Event
from kraftcheck.explorer.symbolic.search import Space
from kraftcheck.explorer.symbolic.store import EMPTY, NoRoom
from kraftcheck.explorer.symbolic.variables import Layout, Rearranged, layout_of
from kraftcheck.explorer.tables.states.memory import default_memory
from kraftcheck.spec.language.property import Property
from kraftcheck.spec.language.protocol import Protocol
from kraftcheck.spec.language.semantics import Semantics
from kraftcheck.spec.language.starts import initial_states

SATURATION, CHAINING = "saturation", "chaining"


def explore(protocol: Protocol, options: Options) -> Result:
    """Search the reachable states of a protocol as sets.

    Parameters
    ----------
    protocol
        The protocol, with its constants.
    options
        What to check and where to stop. `search` is "saturation", "chaining" or "bfs".

    Returns
    -------
    Result
        As the other engines find it; breadth first, a level in which something is violated is searched to its end.

    Raises
    ------
    Interrupted
        Where the user interrupts it; the exception has what was found until then.
    InputError
        For what this engine does not do.
    ProtocolError
        Where the protocol breaks the language's contract.
    """
    require_able(protocol, options)
    return SymbolicSearch(protocol, options).run()


class SymbolicSearch:
    """One search.

    Parameters
    ----------
    protocol, options
        The search.
    """

    def __init__(self, protocol: Protocol, options: Options) -> None:
        self.protocol = protocol
        self.options = options
        self.semantics = Semantics(protocol)
        self.starts = list(initial_states(self.semantics, options.init))
        self.calls = Calls(protocol, type(self.starts[0].shared))
        self._books = Bookkeeping(options, self._totals)
        self._interruption = Interruption()
        self._counted, self._expanded = 0, EMPTY
        self._is_over = False
        self.sizes: list[int] = []
        self.space: Space | None = None

    def run(self) -> Result:
        """Search, and return what was found.

        Raises
        ------
        Interrupted
            Where the user interrupts it; the exception has what was found until then.
        """
        with self._interruption:
            return self._books.result_of(self._search, self._notes)

    def _search(self) -> None:
        try:
            self._search_spaces()
        finally:
            self._is_over = True

    def _search_spaces(self) -> None:
        layout = self._layout()
        while True:
            try:
                self.space = Space(self.calls, layout, self.starts, self._memory(), self._tick)
                self._books.result.depth = 0
                self._search_space(self.space)
                return
            except Rearranged:
                self.sizes, self._counted, self._expanded = [], 0, EMPTY
            except NoRoom:
                self._books.stop_at(MEMORY)

    def _search_space(self, space: Space) -> None:
        """Search with the variables that are known."""
        if self.options.search == Search.BFS:
            BreadthFirst(self, space, self._properties(over_steps=False), self._properties(over_steps=True)).run()
            return
        self._books.result.depth = None
        reached = space.start
        if self.options.search == SATURATION:
            reached = space.saturated(reached)
        else:
            while reached != (after := space.chained(reached)):
                reached = after
                self.note(reached, EMPTY)
        self.note(reached, reached)
        violated = self._violated(space, reached)
        if violated:
            states = tuple(p for p in self._properties(over_steps=False) if p.name in violated)
            steps = tuple(p for p in self._properties(over_steps=True) if p.name in violated)
            BreadthFirst(self, space, states, steps, deadlock=DEADLOCK in violated, second=True).run()

    def _properties(self, *, over_steps: bool) -> tuple[Property, ...]:
        return tuple(prop for prop in self.options.properties if prop.over_steps is over_steps)

    def _violated(self, space: Space, states: int) -> set[str]:
        """Return the names of what is violated in a set of states, all of it or only one."""
        checks, steps = StateChecks(space), StepChecks(space)
        violated: set[str] = set()
        for prop in self.options.properties:
            if (steps if prop.over_steps else checks).violating(prop, states) != EMPTY:
                violated.add(prop.name)
        if self.options.deadlock and space.stuck(states) != EMPTY:
            violated.add(DEADLOCK)
        return violated

    def _layout(self) -> Layout:
        reads = [action.reads for action in self.protocol.actions.values()]
        reads += [prop.reads for prop in self.options.properties]
        whole = any(read.of_inbox for some in reads for read in some)
        return layout_of(self.protocol, self.starts, whole_inboxes=whole)

    def _memory(self) -> int:
        return self.options.memory or default_memory()

    # What is counted

    def note(self, reached: int, expanded: int) -> None:
        """Note which states are known, and of which all steps are."""
        assert self.space is not None
        self._counted, self._expanded = self.space.store.count(reached), expanded

    def found(self, name: str, trace: Behaviour) -> None:
        """Note that a property is violated."""
        self._books.violation(name, trace)

    def is_known(self, name: str) -> bool:
        """Whether a property is known to be violated."""
        return name in self._books.violated

    def deeper(self, depth: int, states: int) -> None:
        """Note a level and its size."""
        self._books.result.depth = depth
        self.sizes.append(states)

    def stop_at(self, limit: str) -> None:
        """End the search at a limit."""
        self._books.stop_at(limit)

    def _tick(self) -> None:
        if self._interruption.asked:
            raise KeyboardInterrupt
        self._books.look_at_the_clock(self.space.store.nodes if self.space is not None else 0)

    def _totals(self) -> Totals:
        names = [*self.protocol.actions, *self.protocol.network.own_actions()]
        actions = dict.fromkeys(names, 0) | self._fired()
        return Totals(self._counted, len(self.starts) + sum(actions.values()), actions, dict(self.calls.counts))

    def _fired(self) -> dict[str, int]:
        """Return how often each action fires in the states of which all steps are known."""
        if self._expanded == EMPTY or self.space is None or not self._is_over:
            return {}
        store, nodes = self.space.store, self.space.groups.nodes
        by_action: dict[tuple[str, int, tuple[int, ...]], list[Event]] = defaultdict(list)
        times: Counter[tuple[str, Event]] = Counter()
        for taken in self.space.learning.taken:
            times[taken.action, taken.event] += 1
            levels = tuple(level for level, _ in taken.event)
            by_action[taken.action, times[taken.action, taken.event], levels].append(taken.event)
        fired: Counter[str] = Counter()
        for (action, _, _), events in by_action.items():
            most = self._counted * len(events)
            fired[action] += store.count_steps(self._expanded, nodes.of(events), most)
        return dict(fired)

    def _notes(self) -> list[str]:
        if self.space is None:
            return []
        made = self.space.store.nodes_made
        return [f"the sets have {len(self.space.variables.keys):,} variables; {made:,} nodes were made"]


class BreadthFirst:
    """A search level by level, for the depth and for shortest counterexamples.

    Parameters
    ----------
    search
        The search that notes what is found.
    space
        The state space.
    states, steps
        What is checked.
    deadlock
        Whether deadlock is; None as the options say.
    second
        Whether all is counted already, and only counterexamples are looked for.
    """

    def __init__(
        self,
        search: SymbolicSearch,
        space: Space,
        states: tuple[Property, ...],
        steps: tuple[Property, ...],
        *,
        deadlock: bool | None = None,
        second: bool = False,
    ) -> None:
        self._search = search
        self._space = space
        self._states = states
        self._steps = steps
        self._deadlock = search.options.deadlock if deadlock is None else deadlock
        self._second = second
        self._state_checks = StateChecks(space)
        self._step_checks = StepChecks(space)
        self._levels: list[int] = []

    def run(self) -> None:
        """Search, until nothing is new or all that is looked for is found."""
        store, options = self._space.store, self._search.options
        reached = frontier = self._space.start
        expanded = EMPTY
        while frontier != EMPTY:
            depth = len(self._levels) + 1
            if not self._second:
                self._search.note(reached, expanded)
                self._search.deeper(depth, store.count(frontier))
            self._check_states(frontier)
            if not self._second and options.max_states and store.count(reached) >= options.max_states:
                self._search.stop_at("max_states")
            if not self._second and depth == options.max_depth:
                self._search.stop_at("max_depth")
            self._space.learn(frontier)
            self._check_steps(frontier)
            if self._second and self._all_found():
                return
            after = self._space.level_after(frontier, reached)
            self._levels.append(frontier)
            expanded = reached
            reached, frontier = store.union(reached, after), after
            reached, frontier = self._tidied(reached, frontier)
        if not self._second:
            self._search.note(reached, reached)

    def _tidied(self, reached: int, frontier: int) -> tuple[int, int]:
        """Collect garbage where half of the room is taken."""
        store = self._space.store
        if 2 * store.nodes > len(store.arrays.nodes):
            reached, frontier, *self._levels = store.collect_garbage([reached, frontier, *self._levels])
        return reached, frontier

    def _all_found(self) -> bool:
        names = [prop.name for prop in (*self._states, *self._steps)] + [DEADLOCK] * self._deadlock
        return all(self._search.is_known(name) for name in names)

    def _check_states(self, frontier: int) -> None:
        for prop in self._states:
            if not self._search.is_known(prop.name):
                bad = self._state_checks.violating(prop, frontier)
                if bad != EMPTY:
                    self._search.found(prop.name, self._trace(bad))

    def _check_steps(self, frontier: int) -> None:
        semantics = self._search.semantics
        for prop in self._steps:
            if not self._search.is_known(prop.name):
                bad = self._step_checks.violating(prop, frontier)
                if bad != EMPTY:
                    trace = self._trace(bad)
                    state = trace[-1].state
                    wrong = (t for t in semantics.transitions(state) if not semantics.kept_by(prop, state, t))
                    self._search.found(prop.name, (*trace, step_of(next(wrong))))
        if self._deadlock and not self._search.is_known(DEADLOCK):
            bad = self._space.stuck(frontier)
            if bad != EMPTY:
                self._search.found(DEADLOCK, self._trace(bad))

    def _trace(self, bad: int) -> Behaviour:
        """Return a behaviour to a state of a set, which is of the newest level."""
        path = Predecessors(self._space).path(self._levels, self._space.store.one_of(bad))
        return behaviour_along(self._search.semantics, path)
