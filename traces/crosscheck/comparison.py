"""Compares the states and labelled steps of a dump of TLC's with those that our search found."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import networkx as nx

from kraftcheck.explorer.reference import ReferenceSearch
from kraftcheck.spec.language.state import State
from kraftcheck.spec.tla.types import ViewError
from kraftcheck.spec.values import Value
from kraftcheck.traces.replay.divergence import Difference, Divergence, Judge, Wanted, differences, short_names
from kraftcheck.traces.replay.replayer import StateReader
from kraftcheck.traces.trace import TraceState

EXAMPLES = 5
"""Examples of each kind that a comparison returns."""

LOOKED_AT = 500
"""States of ours that are searched for the one most like a state of theirs."""

Edge = tuple[int, str | None, int]


@dataclass
class Stranger:
    """A state that only the dump has."""

    found: TraceState  # the state in the file
    problem: str | None = None  # why it is no state of the protocol, or None
    differences: list[Difference] = field(default_factory=list)  # its differences from the most similar state of ours
    divergence: Divergence | None = None  # why the protocol does not get there, where the dump shows a step that does


@dataclass
class SetCounts:
    """Sizes of two sets and of what they do not share."""

    ours: int  # distinct elements of each
    theirs: int
    only_ours: int  # elements that the other lacks
    only_theirs: int


@dataclass
class StateComparison(SetCounts):
    """How two sets of states compare. See `SetCounts`."""

    same: int  # states of the dump that count as one of those before it
    ours_examples: list[State]  # some of ours that the dump lacks
    theirs_examples: list[Stranger] = field(default_factory=list)  # some of the dump's that ours lack

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
class StepComparison(SetCounts):
    """How two sets of labelled steps between states that both have compare. See `SetCounts`."""

    labelled: bool  # whether the dump names the actions; if not, only the ends of steps are compared
    initial_differ: bool  # whether the dump has other initial states
    ours_examples: list[LabelledStep]  # some of the steps that only one side has
    theirs_examples: list[LabelledStep]

    @property
    def equal(self) -> bool:
        """Whether both have the same steps, and start from the same states."""
        return self.only_ours == self.only_theirs == 0 and not self.initial_differ


class Comparison:
    """Compares the states of a file with ours."""

    def __init__(self, search: ReferenceSearch, reader: StateReader, *, unlabelled: bool = False) -> None:
        self._search = search
        self._unlabelled = unlabelled
        self._view = reader.view
        self._reader = reader
        self._judge = Judge(search.semantics, reader.view, "dump")
        self._known = list(search.states())
        self._numbers = {identity: number for number, identity in enumerate(search.parents)}
        self._strangers: dict[Value, int] = {}

    def states(self, found: Iterable[TraceState]) -> StateComparison:
        """Compare sets of states."""
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
        """Compare state graphs."""
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
        return states, self._compared_edges(graph, numbers, found)

    def _number(self, found: TraceState) -> tuple[int, str | None]:
        """Return a state's number among ours, or one below 0; and why it can be no state of the protocol."""
        read = self._reader.state(found)
        if isinstance(read, ViewError):
            return self._strangers.setdefault(found.number, -1 - len(self._strangers)), str(read)
        identity = self._search.identity(read)
        number = self._numbers.get(identity)
        if number is None:
            number = self._strangers.setdefault(identity, -1 - len(self._strangers))
        return number, None

    def _compared(self, counts: Counter[int]) -> StateComparison:
        """Compare the numbers of the file's states with ours."""
        missing = [state for number, state in enumerate(self._known) if number not in counts]
        only_theirs, same = sum(number < 0 for number in counts), counts.total() - len(counts)
        return StateComparison(
            len(self._known), len(counts), len(missing), only_theirs, same, missing[:LOOKED_AT]
        )

    def _with_differences(self, strangers: list[Stranger], result: StateComparison) -> list[Stranger]:
        """Say of states that only they have, and do not show how to reach, where they differ from one of ours."""
        near = result.ours_examples or self._known[:LOOKED_AT]
        result.ours_examples = result.ours_examples[:EXAMPLES]
        if all(stranger.divergence for stranger in strangers):
            return strangers
        ours = [(self._view.variables(state), short_names(self._view, state)) for state in near]
        for stranger in strangers:
            if stranger.divergence is None:
                found = (differences(stranger.found.variables, variables, names) for variables, names in ours)
                stranger.differences = min(found, key=len, default=[])
        return strangers

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
                stranger.divergence = self._judge.no_step(wanted, self._known[number])
                break
        return stranger

    def _compared_edges(
        self, graph: nx.MultiDiGraph[int], numbers: Mapping[int, int], found: Mapping[int, TraceState]
    ) -> StepComparison:
        labelled = not self._unlabelled and times_taken(graph) is not None
        ours = {(source, step.action if labelled else None, target) for source, step, target in self._search.edges()}
        within = [edge for edge in _edges_of(graph) if {*edge[:2]} <= numbers.keys()]
        theirs = {(numbers[source], action if labelled else None, numbers[target]) for source, target, action in within}
        both = set(numbers.values())
        more = sorted((edge for edge in ours - theirs if {edge[0], edge[2]} <= both), key=_in_order)
        less = sorted((edge for edge in theirs - ours if min(edge[0], edge[2]) >= 0), key=_in_order)
        starts = {number for number, (_, reached_by) in enumerate(self._search.parents.values()) if reached_by is None}
        in_file = {number: found[node] for node, number in numbers.items()}
        return StepComparison(
            len(ours), len(theirs), len(more), len(less), labelled,
            initial_differ=starts != {number for node, number in numbers.items() if graph.nodes[node]["initial"]},
            ours_examples=[LabelledStep(self._known[s], action, self._known[t]) for s, action, t in more[:EXAMPLES]],
            theirs_examples=[self._refused(edge, in_file) for edge in less[:EXAMPLES]],
        )  # fmt: skip

    def _refused(self, edge: Edge, in_file: Mapping[int, TraceState]) -> LabelledStep:
        """Return a step of theirs with why the protocol has none such."""
        before, action, after = self._known[edge[0]], edge[1], self._known[edge[2]]
        source, target = in_file[edge[0]], in_file[edge[2]]
        wanted = Wanted(target.number, target.line, source.number, action, self._view.variables(after))
        leading = [step for step in self._search.semantics.transitions(before) if step.target == after]
        return LabelledStep(before, action, after, self._judge.no_step(wanted, before, leading))


def _edges_of(graph: nx.MultiDiGraph[int]) -> Iterable[tuple[int, int, str | None]]:
    edges: Iterable[tuple[int, int, str | None]] = graph.edges(data="action")
    return edges


def _in_order(edge: Edge) -> tuple[int, str, int]:
    return edge[0], edge[1] or "", edge[2]


def times_taken(graph: nx.MultiDiGraph[int]) -> dict[str, int] | None:
    """Return how often a graph shows each action; None where it names none."""
    return dict(Counter(action for _, _, action in _edges_of(graph) if action is not None)) or None


def depth_of(graph: nx.MultiDiGraph[int]) -> int:
    """Return the states on the longest shortest path from an initial state of a graph."""
    within = graph.subgraph(node for node, known in graph.nodes(data="within_constraints") if known)
    return len(list(nx.bfs_layers(within, [node for node, initial in within.nodes(data="initial") if initial])))
