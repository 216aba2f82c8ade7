"""The state graph of a bounded model, with a label for each step."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from kraftcheck.lockstep.offers import Taken
from kraftcheck.lockstep.steps import is_driven
from kraftcheck.spec import State
from kraftcheck.spec.errors import InputError
from kraftcheck.spec.language.semantics import Semantics, Transition
from kraftcheck.spec.language.starts import initial_states

MOST_STATES = 500_000
"""States that are kept in memory."""


class Edge(NamedTuple):
    """A labelled step."""

    label: Taken  # its name
    target: int  # the number of the state that it leads to
    is_driven: bool  # whether Kafka can be made to take it


@dataclass
class StateGraph:
    """A state graph."""

    init: str  # the start: "Init", or the name of one to which steps lead. Its state is number 0.
    states: list[State] = field(default_factory=list)  # the states, in the order of discovery
    numbers: dict[State, int] = field(default_factory=dict)
    edges: list[list[Edge]] = field(default_factory=list)  # for each state its steps; none for those beyond the depth
    depth: int = 0  # the number of steps to the state that is farthest
    is_whole: bool = True  # whether every state is there
    # whether a request for a pre-vote stays under way when its sender does not ask any more (LatePreVotes)
    has_late_pre_votes: bool = True

    @property
    def size(self) -> int:
        """The number of labelled steps."""
        return sum(map(len, self.edges))


def labelled(offered: Iterable[Transition]) -> Iterator[tuple[Taken, Transition]]:
    """Yield transitions out of a state, each with its label."""
    outcomes: Counter[tuple[Any, ...]] = Counter()
    for transition in offered:
        key = transition.action, transition.actor, transition.message
        outcomes[key] += 1
        yield Taken(*key, outcomes[key]), transition


def state_graph(semantics: Semantics, init: str, depth: int | None = None) -> StateGraph:
    """Return the state graph of a model."""
    (start,) = initial_states(semantics, init)[:1]
    late = bool(getattr(semantics.protocol, "late_pre_votes", True))
    graph = StateGraph(init, [start], {start: 0}, has_late_pre_votes=late)
    first = 0
    while first < len(graph.states):
        if graph.depth == depth:
            graph.is_whole = False
            graph.edges += [[] for _ in graph.states[first:]]
            break
        last = len(graph.states)
        for state in graph.states[first:last]:
            edges: list[Edge] = []
            for label, transition in labelled(semantics.transitions(state)):
                target = graph.numbers.setdefault(transition.target, len(graph.states))
                if target == len(graph.states):
                    graph.states.append(transition.target)
                edges.append(Edge(label, target, is_driven(label.action, label.message is not None)))
            graph.edges.append(edges)
            if len(graph.states) > MOST_STATES:
                raise InputError(f"expected at most {MOST_STATES:,} states, found more: cover them to a --depth")
        first = last
        graph.depth += first < len(graph.states)
    return graph
