"""Comparison of the states and labelled steps of a TLC dump with those of a reference search."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import networkx as nx

from kraftcheck.explorer.reference import ReferenceSearch
from kraftcheck.spec.language.state import State
from kraftcheck.spec.tla.types import ViewError
from kraftcheck.spec.tla.view import StateView
from kraftcheck.spec.values import Value
from kraftcheck.traces.replay.divergence import (
    Difference,
    Divergence,
    DivergenceExplainer,
    Wanted,
    differences,
    short_names,
)
from kraftcheck.traces.replay.replayer import StateReader
from kraftcheck.traces.trace import TraceState

EXAMPLES = 5
"""Number of examples for each kind of difference."""

LOOKED_AT = 500
"""Number of the search's states to compare with a state of the dump, for the most similar one."""

Edge = tuple[int, str | None, int]


@dataclass
class Stranger:
    """A state that only the dump has."""

    found: TraceState  # the state in the file
    problem: str | None = None  # the reason why it is not a state of the protocol, if so
    differences: list[Difference] = field(default_factory=list)  # from the most similar state of the search
    divergence: Divergence | None = None  # of the dump's step to it from a common state, if the dump has one


@dataclass
class SetCounts:
    """Sizes of two sets and of their differences."""

    ours: int  # distinct elements of the search
    theirs: int  # distinct elements of the dump
    only_ours: int
    only_theirs: int


@dataclass
class StateComparison(SetCounts):
    """The comparison of two sets of states."""

    same: int  # duplicate states of the dump, by the identity of states here
    ours_examples: list[State]  # states that only the search has
    theirs_examples: list[Stranger] = field(default_factory=list)  # states that only the dump has

    @property
    def equal(self) -> bool:
        """Whether both sides have the same states."""
        return self.only_ours == self.only_theirs == self.same == 0


@dataclass(frozen=True)
class LabelledStep:
    """A labelled step that only one side has; `divergence` is the reason why the search lacks it."""

    before: State
    action: str | None
    after: State
    divergence: Divergence | None = None


@dataclass
class StepComparison(SetCounts):
    """The comparison of two sets of labelled steps between common states."""

    labelled: bool  # whether the dump names actions; if not, steps are compared without labels
    initial_differ: bool  # whether the dump has other initial states
    ours_examples: list[LabelledStep]  # steps that only the search has
    theirs_examples: list[LabelledStep]  # steps that only the dump has

    @property
    def equal(self) -> bool:
        """Whether both sides have the same steps and the same initial states."""
        return self.only_ours == self.only_theirs == 0 and not self.initial_differ


class Comparison:
    """Compares the states of a dump with those of a reference search."""

    def __init__(
        self,
        search: ReferenceSearch,
        dump: Path,
        limit_bytes: int,
        *,
        unlabelled: bool = False,
        any_action: str | None = None,
    ) -> None:
        """Prepare the comparison. A step of the dump with the label `any_action` may be any action."""
        self._view = view = StateView(search.protocol)
        self._reader = StateReader(view, search.protocol.name(), str(dump), limit_bytes)
        self._search = search
        self._unlabelled = unlabelled
        self._any_action = any_action
        self._judge = DivergenceExplainer(search.semantics, view, "dump")
        self._known = list(search.states())
        self._numbers = search.numbers
        self._strangers: dict[Value, int] = {}

    def states(self, found: Iterable[TraceState]) -> StateComparison:
        """Compare the states of a dump with those of the search."""
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
        """Compare the states and the steps of a dumped graph with those of the search."""
        within = [node for node, known in graph.nodes(data="within_constraints") if known]
        found: dict[int, TraceState] = {node: graph.nodes[node]["state"] for node in within}
        read = {node: self._number(state) for node, state in found.items()}
        numbers = {node: number for node, (number, _) in read.items()}
        states = self._compared(Counter(numbers.values()))
        strange = [node for node in within if numbers[node] < 0]
        reached = [node for node in strange if any(numbers.get(n, -1) >= 0 for n in graph.predecessors(node))]
        chosen = list(dict.fromkeys([*reached, *strange]))[:EXAMPLES]
        examples = [self._reached(Stranger(found[node], read[node][1]), node, graph, numbers) for node in chosen]
        states.theirs_examples = self._with_differences(examples, states)
        return states, self._compared_edges(graph, numbers, found)

    def _number(self, found: TraceState) -> tuple[int, str | None]:
        """Return a state's number in the search (negative if unknown), and the error if it is not a valid state."""
        read = self._reader.state(found)
        if isinstance(read, ViewError):
            return self._strangers.setdefault(found.number, -1 - len(self._strangers)), str(read)
        identity = self._search.identity(read)
        number = self._numbers.get(identity)
        if number is None:
            number = self._strangers.setdefault(identity, -1 - len(self._strangers))
        return number, None

    def _compared(self, counts: Counter[int]) -> StateComparison:
        """Compare the dump's states, counted by their number in the search, with the states of the search."""
        missing = [state for number, state in enumerate(self._known) if number not in counts]
        only_theirs, same = sum(number < 0 for number in counts), counts.total() - len(counts)
        return StateComparison(len(self._known), len(counts), len(missing), only_theirs, same, missing[:LOOKED_AT])

    def _with_differences(self, strangers: list[Stranger], result: StateComparison) -> list[Stranger]:
        """Add to each dumped state without a divergence its differences from the most similar searched state."""
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
        """Add to a state of the dump the divergence of a dumped step that leads to it from a common state."""
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
        labelled = not self._unlabelled and bool({*(times_taken(graph) or ())} - {self._any_action})
        ours, theirs = self._edges(graph, numbers, labelled=labelled)
        both = set(numbers.values())
        more = sorted((edge for edge in ours - theirs if {edge[0], edge[2]} <= both), key=_in_order)
        less = sorted((edge for edge in theirs - ours if min(edge[0], edge[2]) >= 0), key=_in_order)
        starts = set(self._search.starts())
        in_file = {number: found[node] for node, number in numbers.items()}
        return StepComparison(
            len(ours), len(theirs), len(more), len(less), labelled,
            initial_differ=starts != {number for node, number in numbers.items() if graph.nodes[node]["initial"]},
            ours_examples=[LabelledStep(self._known[s], action, self._known[t]) for s, action, t in more[:EXAMPLES]],
            theirs_examples=[self._refused(edge, in_file) for edge in less[:EXAMPLES]],
        )  # fmt: skip

    def _edges(
        self, graph: nx.MultiDiGraph[int], numbers: Mapping[int, int], *, labelled: bool
    ) -> tuple[set[Edge], set[Edge]]:
        """Return the edges of the search and of the dump, by the states' numbers in the search."""
        ours = {(source, step.action if labelled else None, target) for source, step, target in self._search.edges()}
        within = [edge for edge in _edges_of(graph) if {*edge[:2]} <= numbers.keys()]
        theirs = {(numbers[source], action if labelled else None, numbers[target]) for source, target, action in within}
        return ours, _named(theirs, ours, self._any_action) if labelled else theirs

    def _refused(self, edge: Edge, in_file: Mapping[int, TraceState]) -> LabelledStep:
        """Return a step that only the dump has, with the reason why the protocol cannot take it."""
        before, action, after = self._known[edge[0]], edge[1], self._known[edge[2]]
        source, target = in_file[edge[0]], in_file[edge[2]]
        wanted = Wanted(target.number, target.line, source.number, action, self._view.variables(after))
        leading = [step for step in self._search.semantics.transitions(before) if step.target == after]
        return LabelledStep(before, action, after, self._judge.no_step(wanted, before, leading))


def _edges_of(graph: nx.MultiDiGraph[int]) -> Iterable[tuple[int, int, str | None]]:
    edges: Iterable[tuple[int, int, str | None]] = graph.edges(data="action")
    return edges


def _named(theirs: set[Edge], ours: set[Edge], any_action: str | None) -> set[Edge]:
    """Replace each edge that may be any action by our edges between the same states, if there are any."""
    unnamed = {(source, target) for source, action, target in theirs if action == any_action}
    named = {edge for edge in ours if (edge[0], edge[2]) in unnamed}
    matched = {(source, any_action, target) for source, _, target in named}
    return (theirs - matched) | named


def _in_order(edge: Edge) -> tuple[int, str, int]:
    return edge[0], edge[1] or "", edge[2]


def times_taken(graph: nx.MultiDiGraph[int]) -> dict[str, int] | None:
    """Return the number of steps by action in a graph; None for a graph without actions."""
    return dict(Counter(action for _, _, action in _edges_of(graph) if action is not None)) or None


def depth_of(graph: nx.MultiDiGraph[int]) -> int:
    """Return the depth of a graph: the number of states on the longest shortest path from an initial state."""
    within = graph.subgraph(node for node, known in graph.nodes(data="within_constraints") if known)
    return len(list(nx.bfs_layers(within, [node for node, initial in within.nodes(data="initial") if initial])))
