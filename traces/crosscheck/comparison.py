"""The states, and the labelled steps, of one of TLC's dumps beside those that a search of ours found."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

import networkx as nx

from kraftcheck.spec.language.semantics import Semantics
from kraftcheck.spec.language.state import State
from kraftcheck.spec.tla.view import StateView, ViewError
from kraftcheck.spec.values import Value
from kraftcheck.traces.replay.differences import Difference, differences
from kraftcheck.traces.replay.divergence import Divergence, Judge, Wanted, short_names
from kraftcheck.traces.replay.state_reader import StateReader
from kraftcheck.traces.trace import TraceState

EXAMPLES = 5
"""Examples that are kept of what only one side has."""

LOOKED_AT = 500
"""States of ours among which the one most like a state of theirs is looked for."""

Edge = tuple[int, str | None, int]


@dataclass(frozen=True)
class Space:
    """What a search of ours found.

    Attributes
    ----------
    states
        Every reachable state, by what identifies it: itself, unless there is a symmetry or a view.
    initial
        The initial states.
    identity
        Returns what identifies a state.
    semantics
        The protocol's meaning.
    allowed
        Whether a step counts: no action constraint refuses it.
    """

    states: Mapping[Value, State]
    initial: frozenset[Value]
    identity: Callable[[State], Value]
    semantics: Semantics
    allowed: Callable[[State, State], bool]


@dataclass(frozen=True)
class Stranger:
    """A state that only the dump has.

    Attributes
    ----------
    found
        The state in the file.
    problem
        Why it can be no state of the protocol, or None.
    differences
        Where it differs from the state of ours that is most like it.
    divergence
        Where the dump shows how the state is reached: why the protocol does not get there.
    """

    found: TraceState
    problem: str | None = None
    differences: tuple[Difference, ...] = ()
    divergence: Divergence | None = None


@dataclass
class StateComparison:
    """How two sets of states compare.

    Attributes
    ----------
    ours, theirs
        How many distinct states each has.
    only_ours, only_theirs
        How many the other lacks.
    ours_examples
        Some of ours that the dump lacks.
    theirs_examples
        Some of the dump's that ours lack.
    same
        States of the dump that count as one of those before it.
    """

    ours: int
    theirs: int = 0
    only_ours: int = 0
    only_theirs: int = 0
    ours_examples: list[State] = field(default_factory=list)
    theirs_examples: list[Stranger] = field(default_factory=list)
    same: int = 0

    @property
    def equal(self) -> bool:
        """Whether both have the same states."""
        return self.only_ours == self.only_theirs == self.same == 0


@dataclass(frozen=True)
class LabelledStep:
    """A labelled step that only one side has; `divergence` says why ours lack it."""

    before: State
    action: str | None
    after: State
    divergence: Divergence | None = None


@dataclass
class StepComparison:
    """How two sets of labelled steps between states that both have compare.

    Attributes
    ----------
    labelled
        Whether the dump names the actions; if not, only the ends of steps are compared.
    ours, theirs
        How many distinct steps each has.
    only_ours, only_theirs
        How many the other lacks.
    ours_examples, theirs_examples
        Some of these.
    initial_differ
        Whether the dump has other initial states.
    """

    labelled: bool
    ours: int = 0
    theirs: int = 0
    only_ours: int = 0
    only_theirs: int = 0
    ours_examples: list[LabelledStep] = field(default_factory=list)
    theirs_examples: list[LabelledStep] = field(default_factory=list)
    initial_differ: bool = False

    @property
    def equal(self) -> bool:
        """Whether both have the same steps, and start from the same states."""
        return self.only_ours == self.only_theirs == 0 and not self.initial_differ


class Comparison:
    """Compares the states of a file with ours.

    Parameters
    ----------
    space
        Our states.
    view
        States as variables.
    reader
        Reads the file's states as the protocol's.
    """

    def __init__(self, space: Space, view: StateView, reader: StateReader) -> None:
        self._space = space
        self._view = view
        self._reader = reader
        self._judge = Judge(space.semantics, view, "dump")
        self._known = list(space.states.values())
        self._numbers = {identity: number for number, identity in enumerate(space.states)}
        self._strangers: dict[Value, int] = {}

    def states(self, found: Iterable[TraceState]) -> StateComparison:
        """Compare sets of states.

        Parameters
        ----------
        found
            The states of the file.

        Returns
        -------
        StateComparison
            How they compare.

        Raises
        ------
        TraceError
            The file cannot be read, or is about another specification.
        """
        strangers: list[Stranger] = []
        counts: Counter[int] = Counter()
        for state in found:
            number, problem = self._number(state)
            counts[number] += 1
            if number < 0 and counts[number] == 1 and len(strangers) < EXAMPLES:
                strangers.append(Stranger(state, problem))
        result = self._compared(counts)
        result.theirs_examples = self._with_differences(strangers, result)
        return result

    def graph(self, graph: nx.MultiDiGraph[int]) -> tuple[StateComparison, StepComparison]:
        """Compare state graphs.

        Parameters
        ----------
        graph
            The file's, as `traces.read_graph` returns it. States beyond its constraints are left out.

        Returns
        -------
        StateComparison, StepComparison
            How the states compare, and the steps between those that both have.

        Raises
        ------
        TraceError
            The file is about another specification.
        """
        within = [node for node, known in graph.nodes(data="within_constraints") if known]
        found: dict[int, TraceState] = {node: graph.nodes[node]["state"] for node in within}
        read = {node: self._number(state) for node, state in found.items()}
        numbers = {node: number for node, (number, _) in read.items()}
        states = self._compared(Counter(numbers.values()))
        strange = [node for node in within if numbers[node] < 0]
        reached = [node for node in strange if any(numbers.get(n, -1) >= 0 for n in graph.predecessors(node))]
        chosen = list(dict.fromkeys([*reached, *strange]))[:EXAMPLES]
        told = [self._reached(Stranger(found[node], read[node][1]), node, graph, numbers) for node in chosen]
        states.theirs_examples = self._with_differences(told, states)
        edges = self._compared_edges(graph, numbers, found)
        initial = {numbers[node] for node in within if graph.nodes[node]["initial"]}
        edges.initial_differ = initial != {self._numbers[identity] for identity in self._space.initial}
        return states, edges

    def _number(self, found: TraceState) -> tuple[int, str | None]:
        """Return a state's number among ours, or one below 0; and why it can be no state of the protocol."""
        read = self._reader.state(found)
        if isinstance(read, ViewError):
            return self._strangers.setdefault(found.number, -1 - len(self._strangers)), str(read)
        identity = self._space.identity(read)
        number = self._numbers.get(identity)
        if number is None:
            number = self._strangers.setdefault(identity, -1 - len(self._strangers))
        return number, None

    def _compared(self, counts: Counter[int]) -> StateComparison:
        """Compare the numbers of the file's states with ours."""
        result = StateComparison(len(self._known), len(counts), same=counts.total() - len(counts))
        result.only_theirs = sum(number < 0 for number in counts)
        missing = [state for number, state in enumerate(self._known) if number not in counts]
        result.only_ours, result.ours_examples = len(missing), missing[:LOOKED_AT]
        return result

    def _with_differences(self, strangers: list[Stranger], result: StateComparison) -> list[Stranger]:
        """Say of states that only they have, and do not show how to reach, where they differ from one of ours."""
        near = result.ours_examples or self._known[:LOOKED_AT]
        result.ours_examples = result.ours_examples[:EXAMPLES]
        if all(stranger.divergence for stranger in strangers):
            return strangers
        ours = [(self._view.variables(state), short_names(self._view, state)) for state in near]
        return [s if s.divergence else replace(s, differences=_nearest(s.found, ours)) for s in strangers]

    def _reached(
        self, stranger: Stranger, node: int, graph: nx.MultiDiGraph[int], numbers: Mapping[int, int]
    ) -> Stranger:
        """Say of a state that only they have why the protocol does not go there from one that both have."""
        found = stranger.found
        into: Iterable[tuple[int, int, str | None]] = graph.in_edges(node, data="action")
        for source, _, action in into:
            number = numbers.get(source, -1)
            if number >= 0:
                before: TraceState = graph.nodes[source]["state"]
                wanted = Wanted(found.number, found.line, before.number, action, found.variables)
                return replace(stranger, divergence=self._judge.no_step(wanted, self._known[number]))
        return stranger

    def _compared_edges(
        self, graph: nx.MultiDiGraph[int], numbers: Mapping[int, int], found: Mapping[int, TraceState]
    ) -> StepComparison:
        labelled = any(action is not None for _, _, action in _edges_of(graph))
        ours = set(self._edges(labelled))
        theirs = {
            (numbers[source], action if labelled else None, numbers[target])
            for source, target, action in _edges_of(graph)
            if source in numbers and target in numbers
        }
        both = set(numbers.values())
        more = sorted((edge for edge in ours - theirs if edge[0] in both and edge[2] in both), key=_in_order)
        less = sorted((edge for edge in theirs - ours if edge[0] >= 0 and edge[2] >= 0), key=_in_order)
        result = StepComparison(labelled, len(ours), len(theirs), len(more), len(less))
        known = self._known
        result.ours_examples = [LabelledStep(known[s], action, known[t]) for s, action, t in more[:EXAMPLES]]
        in_file = {number: found[node] for node, number in numbers.items()}
        result.theirs_examples = [self._refused(edge, in_file) for edge in less[:EXAMPLES]]
        return result

    def _edges(self, labelled: bool) -> Iterator[Edge]:
        """Yield our steps between states within the constraints."""
        space = self._space
        for number, state in enumerate(self._known):
            for step in space.semantics.transitions(state):
                reached = self._numbers.get(space.identity(step.target))
                if reached is not None and space.allowed(state, step.target):
                    yield number, step.action if labelled else None, reached

    def _refused(self, edge: Edge, in_file: Mapping[int, TraceState]) -> LabelledStep:
        """Return a step of theirs with why the protocol has none such."""
        before, action, after = self._known[edge[0]], edge[1], self._known[edge[2]]
        source, target = in_file[edge[0]], in_file[edge[2]]
        wanted = Wanted(target.number, target.line, source.number, action, self._view.variables(after))
        leading = [step for step in self._space.semantics.transitions(before) if step.target == after]
        return LabelledStep(before, action, after, self._judge.no_step(wanted, before, leading))


def _nearest(
    found: TraceState, ours: Iterable[tuple[Mapping[str, Value], Mapping[Value, str]]]
) -> tuple[Difference, ...]:
    """Return where a state differs from the one of ours that is most like it."""
    nearest: list[Difference] = min(
        (differences(found.variables, variables, names) for variables, names in ours), key=len, default=[]
    )
    return tuple(nearest)


def _edges_of(graph: nx.MultiDiGraph[int]) -> Iterable[tuple[int, int, str | None]]:
    edges: Iterable[tuple[int, int, str | None]] = graph.edges(data="action")
    return edges


def _in_order(edge: Edge) -> tuple[int, str, int]:
    return edge[0], edge[1] or "", edge[2]


def times_taken(graph: nx.MultiDiGraph[int]) -> dict[str, int] | None:
    """Return how often a graph shows each action; None where it names none."""
    counts = Counter(action for _, _, action in _edges_of(graph))
    return None if set(counts) <= {None} else {name: count for name, count in counts.items() if name is not None}


def depth_of(graph: nx.MultiDiGraph[int]) -> int:
    """Return the states on the longest shortest path from an initial state of a graph."""
    reached = [node for node, initial in graph.nodes(data="initial") if initial]
    seen, depth = set(reached), 0
    while reached:
        depth += 1
        found = dict.fromkeys(target for node in reached for target in graph.successors(node))
        reached = [node for node in found if node not in seen and graph.nodes[node]["within_constraints"]]
        seen.update(reached)
    return depth
