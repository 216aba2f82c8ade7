"""The symbolic engine: all reachable states as one set (`docs/symbolic.md`)."""

from __future__ import annotations

from collections import Counter, defaultdict

from kraftcheck.explorer.behaviour import Behaviour
from kraftcheck.explorer.bookkeeping import Bookkeeping, Totals
from kraftcheck.explorer.interruption import Interruption
from kraftcheck.explorer.result import DEADLOCK, MEMORY, Options, Result, Search
from kraftcheck.explorer.symbolic.breadth_first import BreadthFirst
from kraftcheck.explorer.symbolic.calls import Calls
from kraftcheck.explorer.symbolic.checks import StateChecks, StepChecks
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
                memory, constraints = self._memory(), self.options.action_constraints
                self.space = Space(self.calls, layout, self.starts, memory, self._tick, constraints)
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
        reached, beyond = space.start, EMPTY
        if self.options.search == SATURATION and not self.options.constraints:
            reached = space.saturated(reached)
        else:
            reached, beyond = self._chained(space)
        self.note(reached, reached)
        violated = self._violated(space, reached, space.store.union(beyond, space.pruned(reached)))
        if violated:
            states = tuple(p for p in self._properties(over_steps=False) if p.name in violated)
            steps = tuple(p for p in self._properties(over_steps=True) if p.name in violated)
            BreadthFirst(self, space, states, steps, deadlock=DEADLOCK in violated, second=True).run()

    def _chained(self, space: Space) -> tuple[int, int]:
        """Return what is reached, and what is beyond the constraints: each event is taken from all known by then."""
        store, checks, constraints = space.store, StateChecks(space, self.semantics), self.options.constraints
        reached = checks.within(constraints, space.start)
        beyond, before = store.difference(space.start, reached), EMPTY
        while reached != before:
            before = reached
            space.learn(reached)
            store.forget_products()  # of what was new in the last round
            for root in space.groups.roots():
                new = store.difference(store.difference(store.successors(reached, root), reached), beyond)
                allowed = checks.within(constraints, new)
                reached = store.union(reached, allowed)
                beyond = store.union(beyond, store.difference(new, allowed))
            self.note(reached, EMPTY)
        return reached, beyond

    def _properties(self, *, over_steps: bool) -> tuple[Property, ...]:
        return tuple(prop for prop in self.options.properties if prop.over_steps is over_steps)

    def _violated(self, space: Space, states: int, more: int) -> set[str]:
        """Return the names of what is violated in a set of states; of invariants also in more states."""
        checks, steps = StateChecks(space, self.semantics), StepChecks(space)
        violated, every = set(), space.store.union(states, more)
        for prop in self.options.properties:
            if (steps.violating(prop, states) if prop.over_steps else checks.violating(prop, every)) != EMPTY:
                violated.add(prop.name)
        if self.options.deadlock and space.stuck(states) != EMPTY:
            violated.add(DEADLOCK)
        return violated

    def _layout(self) -> Layout:
        reads = [action.reads for action in self.protocol.actions.values()]
        reads += [prop.reads for prop in (*self.options.properties, *self.options.constraints)]
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
        by_action: dict[tuple[str, int], list[Event]] = defaultdict(list)
        times: Counter[tuple[str, Event]] = Counter()
        for taken in self.space.learning.taken:
            times[taken.action, taken.event] += 1  # steps that differ and do the same are counted each
            by_action[taken.action, times[taken.action, taken.event]].append(taken.event)
        fired: Counter[str] = Counter()
        for (action, _), events in by_action.items():
            for relation in self.space.groups.nodes.relations(events):
                fired[action] += self.space.store.count_steps(self._expanded, relation, self._counted * len(events))
        return dict(fired)

    @property
    def nodes(self) -> int:
        """Nodes of the set of the states that were found."""
        return 0 if self.space is None else self.space.store.size(self._expanded)

    def _notes(self) -> list[str]:
        if self.space is None:
            return []
        variables, made = len(self.space.variables.keys), self.space.store.nodes_made
        return [f"a diagram of {self.nodes:,} nodes over {variables:,} variables; {made:,} nodes were made for it"]
