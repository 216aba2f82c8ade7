"""The state graph with what its steps are called, in memory, for temporal properties."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kraftcheck.explorer.reachability import Goals
from kraftcheck.explorer.tables.kernel import edges as kernel
from kraftcheck.explorer.tables.locality import reason
from kraftcheck.explorer.tables.state_graph import StateGraph
from kraftcheck.explorer.temporal.graph import LabelledGraph, Labels, Marks, Numbers
from kraftcheck.spec.language.property import Property

BYTES_A_STEP = 20  # its source, target and label, once as they are found and once in order


def labelled(graph: StateGraph, goals: Goals, notes: list[str]) -> LabelledGraph:
    """Return the graph for temporal properties.

    Parameters
    ----------
    graph
        The states and the steps between them.
    goals
        What judges the states.
    notes
        Where it is noted if a predicate is evaluated on every state.
    """
    sources: list[Numbers] = []
    targets: list[Numbers] = []
    labels: list[Labels] = []
    apart: list[tuple[NDArray[np.int64], Numbers, Labels]] = []
    left = graph.room
    for first, rows in graph.chunks(range(1, graph.depth + 1)):
        for step in graph.steps_from(rows, np.arange(len(rows))):
            inside = step.targets >= 0
            sources.append((step.places[inside] + first).astype(np.int32))
            targets.append(step.targets[inside])
            labels.append(step.labels[inside].copy())
            left -= BYTES_A_STEP * len(targets[-1])
            if left < 0:
                graph.stop()
            if not inside.all():
                outside = ~inside
                apart.append((step.places[outside] + first, step.targets[outside], step.labels[outside].copy()))
    edges = (_joined(sources, np.int32), _joined(targets, np.int32), _joined(labels, np.uint16))
    for pieces in (sources, targets, labels):
        pieces.clear()

    def marks(kind: int) -> Marks:
        mine = [(states[ends == kind], names[ends == kind]) for states, ends, names in apart]
        return Marks(_joined([one for one, _ in mine], np.int64), _joined([one for _, one in mine], np.uint16))

    def holds(prop: Property) -> NDArray[np.bool_]:
        why = reason(prop)
        if why is not None:
            notes.append(f"{prop.name} reads {why}: it was evaluated {graph.count:,} times")
        return graph.where(prop, goals.holds).astype(bool)

    book = graph.expander.learner.book
    beyond, blocked = marks(kernel.BEYOND), marks(kernel.BLOCKED)
    return LabelledGraph(graph.count, graph.starts, edges, book, beyond, blocked, holds)


def _joined(pieces: Sequence[NDArray[Any]], kind: type[np.generic]) -> NDArray[Any]:
    return np.concatenate([np.zeros(0, kind), *pieces])
