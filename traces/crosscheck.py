"""The states, and the labelled steps, of one of TLC's dumps beside those that a search of ours found."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import networkx as nx

from spec.semantics import Semantics
from spec.state import State
from spec.values import Value
from spec.view import StateView, ViewError
from traces.differences import Difference, differences
from traces.divergence import Divergence, Judge, Wanted
from traces.model import TraceState
from traces.reader import StateReader

EXAMPLES = 5
"""Examples that are kept of what only one side has."""

LOOKED_AT = 2_000
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
class States:
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
class Step:
    """A labelled step that only one side has; `divergence` says why ours lack it."""

    before: State
    action: str | None
    after: State
    divergence: Divergence | None = None


@dataclass
class Edges:
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
    ours_examples: list[Step] = field(default_factory=list)
    theirs_examples: list[Step] = field(default_factory=list)
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
        self._judge = Judge(space.semantics, view)
        self._numbers = {identity: number for number, identity in enumerate(space.states)}

    def states(self, found: Iterable[TraceState]) -> States:
        """Compare sets of states.

        Parameters
        ----------
        found
            The states of the file.

        Returns
        -------
        States
            How they compare.

        Raises
        ------
        TraceError
            The file cannot be read, or is about another specification.
        """
        return self._states(found)[0]

    def _states(self, found: Iterable[TraceState]) -> tuple[States, list[int | None]]:
        """Compare sets of states; return also the number of each as one of ours, or None."""
        result = States(len(self._space.states))
        seen: dict[Value, int | None] = {}
        numbers: list[int | None] = []
        strangers: list[tuple[TraceState, ViewError | None]] = []
        for state in found:
            read = self._reader.state(state)
            if isinstance(read, ViewError):
                number = None
                result.theirs += 1
            else:
                identity = self._space.identity(read)
                number = self._numbers.get(identity)
                result.same += identity in seen
                result.theirs += identity not in seen
                if identity in seen:
                    numbers.append(number)
                    continue
                seen[identity] = number
            numbers.append(number)
            if number is None:
                result.only_theirs += 1
                if len(strangers) < EXAMPLES:
                    strangers.append((state, read if isinstance(read, ViewError) else None))
        missing = [state for identity, state in self._space.states.items() if identity not in seen]
        result.only_ours = len(missing)
        result.ours_examples = missing[:EXAMPLES]
        near = (missing or list(self._space.states.values()))[:LOOKED_AT] if strangers else []
        result.theirs_examples = [self._stranger(state, problem, near) for state, problem in strangers]
        return result, numbers

    def _stranger(self, found: TraceState, problem: ViewError | None, near: list[State]) -> Stranger:
        ours = (differences(found.variables, self._view.variables(state)) for state in near)
        nearest = min(ours, key=len, default=[])
        return Stranger(found, None if problem is None else str(problem), tuple(nearest))

    def graph(self, graph: nx.MultiDiGraph[int]) -> tuple[States, Edges]:
        """Compare state graphs.

        Parameters
        ----------
        graph
            The file's, as `traces.read_graph` returns it. States beyond its constraints are left out.

        Returns
        -------
        States, Edges
            How the states compare, and the steps between those that both have.

        Raises
        ------
        TraceError
            The file is about another specification.
        """
        within = [node for node, known in graph.nodes(data="within_constraints") if known]
        states, numbers = self._states(graph.nodes[node]["state"] for node in within)
        number_of = dict(zip(within, numbers, strict=True))
        in_file = {number: graph.nodes[node]["state"] for node, number in number_of.items() if number is not None}
        labelled = any(action is not None for _, _, action in _edges_of(graph))
        edges = Edges(labelled)
        ours, theirs = set(self._edges(labelled)), set(_common(graph, number_of, labelled))
        edges.ours, edges.theirs = len(ours), len(theirs)
        more, less = sorted(ours - theirs, key=_in_order), sorted(theirs - ours, key=_in_order)
        edges.only_ours, edges.only_theirs = len(more), len(less)
        known = list(self._space.states.values())
        edges.ours_examples = [Step(known[s], action, known[t]) for s, action, t in more[:EXAMPLES]]
        edges.theirs_examples = [
            self._refused(known[s], action, known[t], in_file[s], in_file[t]) for s, action, t in less[:EXAMPLES]
        ]
        initial = {number_of[node] for node in within if graph.nodes[node]["initial"]}
        edges.initial_differ = initial != {self._numbers[identity] for identity in self._space.initial}
        states.theirs_examples = [self._reached(stranger, graph, number_of) for stranger in states.theirs_examples]
        return states, edges

    def _edges(self, labelled: bool) -> Iterator[Edge]:
        space = self._space
        for number, state in enumerate(space.states.values()):
            for step in space.semantics.transitions(state):
                reached = self._numbers.get(space.identity(step.target))
                if reached is not None and space.allowed(state, step.target):
                    yield number, step.action if labelled else None, reached

    def _refused(
        self, before: State, action: str | None, after: State, source: TraceState, target: TraceState
    ) -> Step:
        """Return a step of theirs with why the protocol has none such."""
        steps = list(self._space.semantics.transitions(before))
        wanted = Wanted(target.number, target.line, source.number, action, self._view.variables(after))
        leading = [step for step in steps if step.target == after]
        if leading:
            return Step(before, action, after, self._judge.other_name(wanted, before, steps, leading))
        return Step(before, action, after, self._judge.no_step(wanted, before, steps))

    def _reached(
        self, stranger: Stranger, graph: nx.MultiDiGraph[int], number_of: Mapping[int, int | None]
    ) -> Stranger:
        """Add to a state that only they have why the protocol does not go there, from where both have been."""
        found = stranger.found
        node = next(node for node in number_of if graph.nodes[node]["state"] is found)
        known = list(self._space.states.values())
        into: Iterable[tuple[int, int, str | None]] = graph.in_edges(node, data="action")
        for source, _, action in into:
            number = number_of.get(source)
            if number is not None:
                before = graph.nodes[source]["state"].number
                wanted = Wanted(found.number, found.line, before, action, found.variables)
                steps = list(self._space.semantics.transitions(known[number]))
                divergence = self._judge.no_step(wanted, known[number], steps)
                return Stranger(found, stranger.problem, stranger.differences, divergence)
        return stranger


def _edges_of(graph: nx.MultiDiGraph[int]) -> Iterable[tuple[int, int, str | None]]:
    edges: Iterable[tuple[int, int, str | None]] = graph.edges(data="action")
    return edges


def _common(graph: nx.MultiDiGraph[int], number_of: Mapping[int, int | None], labelled: bool) -> Iterator[Edge]:
    """Yield the steps of a graph between states that both sides have."""
    for source, target, action in _edges_of(graph):
        before, after = number_of.get(source), number_of.get(target)
        if before is not None and after is not None:
            yield before, action if labelled else None, after


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
