"""Finds the states from which what should stay reachable (`@reachable`) is not, once every state is visited.

The states are gone through once more, the deepest level first, and a state that leads to one which is known to have a
way out has one itself; most need no more than that. The steps between the others are kept, four bytes for each end, and
followed backwards.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kraftcheck.explorer.reachability import Goals
from kraftcheck.explorer.tables.kernel.edges import mark_back
from kraftcheck.explorer.tables.locality import reason
from kraftcheck.explorer.tables.state_graph import Flags, Numbers, StateGraph
from kraftcheck.spec.language.property import Property

BYTES_AN_EDGE = 12  # its source, its target, and its source again, by the target


def without_way_out(graph: StateGraph, prop: Property, goals: Goals) -> NDArray[np.int64]:
    """Return the numbers of the states from which a property cannot be reached, in their order.

    Parameters
    ----------
    graph
        The states and the steps between them.
    prop
        What should stay reachable.
    goals
        What judges the states.
    """
    marked = graph.where(prop, goals.holds)
    kept: list[tuple[Numbers, Numbers]] = []
    left = graph.room
    for first, rows in graph.chunks(range(graph.depth, 0, -1)):
        which = np.flatnonzero(marked[first : first + len(rows)] == 0)
        for places, targets, labels in graph.steps_from(rows, which):
            names = [label.action for label in graph.expander.learner.book.labels]
            closed = np.array([name in prop.without for name in names], bool)
            there = (targets >= 0) & ~closed[labels]
            sources = (places + first).astype(np.int32)
            marked[sources[there][marked[targets[there]] != 0]] = 1
            open_ = there & (marked[sources] == 0)
            kept.append((sources[open_], targets[open_]))
            left -= BYTES_AN_EDGE * len(kept[-1][0])
            if left < 0:
                graph.stop()
    _follow(graph.count, kept, marked)
    return np.flatnonzero(marked == 0)


def _follow(count: int, kept: list[tuple[Numbers, Numbers]], marked: Flags) -> None:
    """Mark the states from which edges lead to marked ones."""
    sources = np.concatenate([np.zeros(0, np.int32), *(edge[0] for edge in kept)])
    targets = np.concatenate([np.zeros(0, np.int32), *(edge[1] for edge in kept)])
    kept.clear()
    first, before = np.zeros(count + 1, np.int64), np.zeros(len(sources), np.int32)
    mark_back(sources, targets, marked, first, before, np.zeros(count, np.int32))


def note_of(prop: Property, count: int) -> list[str]:
    """Return what to tell of how a property was evaluated: nothing where the tables decide it."""
    why = reason(prop)
    return [] if why is None else [f"{prop.name} reads {why}: it was evaluated {count:,} times"]
