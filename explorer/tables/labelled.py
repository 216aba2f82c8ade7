"""The state graph with what its steps are called, for temporal properties."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from kraftcheck.explorer.reachability import Goals
from kraftcheck.explorer.tables.kernel import edges as kernel
from kraftcheck.explorer.tables.locality import reason
from kraftcheck.explorer.tables.state_graph import StateGraph
from kraftcheck.explorer.temporal.graph import LabelledGraph, Labels, Marks, StepsBySource
from kraftcheck.explorer.temporal.room import Growing
from kraftcheck.spec.language.property import Property


class GrowingMarks:
    """Steps that lead to no state of the graph, as they are found."""

    def __init__(self, graph: StateGraph) -> None:
        self._states, self._labels = Growing(graph.room, np.int32), Growing(graph.room, np.uint16)

    def append(self, states: NDArray[Any], labels: Labels) -> None:
        """Append some; those of the same state and label are one."""
        both = np.unique(states.astype(np.int64) << 16 | labels)
        self._states.append((both >> 16).astype(np.int32))
        self._labels.append((both & 0xFFFF).astype(np.uint16))

    def all(self) -> Marks:
        """Return them, in the order of the states if so they were appended."""
        return Marks(self._states.all, self._labels.all)


def labelled(graph: StateGraph, goals: Goals, notes: list[str], expected: int, strict_bounds: bool) -> LabelledGraph:
    """Return the graph for temporal properties."""
    steps = StepsBySource(graph.count, graph.room, expected)
    apart = {kernel.BEYOND: GrowingMarks(graph), kernel.BLOCKED: GrowingMarks(graph)}
    book = graph.expander.learner.book
    used = np.zeros(len(book.labels), bool)
    for first, rows in graph.chunks(range(1, graph.depth + 1)):
        found = [
            (one.places + first, one.targets, one.labels.copy()) for one in graph.steps_from(rows, np.arange(len(rows)))
        ]
        sources, targets, labels = (np.concatenate(parts) for parts in zip(*found, strict=True))
        used = np.concatenate([used, np.zeros(len(book.labels) - len(used), bool)])
        used[labels[targets >= 0]] = True
        for end, marks in apart.items():
            mine = targets == end
            if mine.any() and not (strict_bounds and end == kernel.BLOCKED):
                marks.append(sources[mine], labels[mine])
        inside = targets >= 0
        steps.append(first, first + len(rows), sources[inside], targets[inside], labels[inside])

    def holds(prop: Property) -> NDArray[np.bool_]:
        why = reason(prop)
        if why is not None:
            notes.append(f"{prop.name} reads {why}: it was evaluated {graph.count:,} times")
        return graph.where(prop, goals.holds).view(np.bool_)

    beyond, blocked = (apart[end].all() for end in (kernel.BEYOND, kernel.BLOCKED))
    return LabelledGraph(graph.count, graph.starts, steps, used, book, beyond, blocked, holds, graph.room)
