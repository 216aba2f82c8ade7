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
from kraftcheck.explorer.tables.state_graph import StateGraph
from kraftcheck.explorer.temporal.room import Growing
from kraftcheck.spec.language.property import Property


def without_way_out(graph: StateGraph, prop: Property, goals: Goals) -> NDArray[np.int64]:
    """Return the numbers of the states from which a property cannot be reached, in their order."""
    marked = graph.where(prop, goals.holds)
    kept = Growing(graph.room, np.int32), Growing(graph.room, np.int32)
    for first, rows in graph.chunks(range(graph.depth, 0, -1)):
        which = np.flatnonzero(marked[first : first + len(rows)] == 0)
        for places, targets, labels in graph.steps_from(rows, which):
            names = [label.action for label in graph.expander.learner.book.labels]
            closed = np.array([name in prop.without for name in names], bool)
            there = (targets >= 0) & ~closed[labels]
            sources = (places + first).astype(np.int32)
            marked[sources[there][marked[targets[there]] != 0]] = 1
            open_ = there & (marked[sources] == 0)
            kept[0].append(sources[open_])
            kept[1].append(targets[open_])
    goals.require_room(prop.name)  # now that all steps are known
    begins, waiting = graph.room.array(graph.count + 1, np.int64), graph.room.array(graph.count, np.int32)
    before = graph.room.array(kept[0].count, np.int32)
    mark_back(kept[0].all, kept[1].all, marked, begins, before, waiting)
    for used in (begins, waiting, before, kept[0].all, kept[1].all):
        graph.room.give_back(used)
    return np.flatnonzero(marked == 0)


def note_of(prop: Property, count: int) -> list[str]:
    """Return what to tell of how a property was evaluated: nothing where the tables decide it."""
    why = reason(prop)
    return [] if why is None else [f"{prop.name} reads {why}: it was evaluated {count:,} times"]
