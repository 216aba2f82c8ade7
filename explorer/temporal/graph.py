"""Labelled state graph in arrays, for temporal properties; built from any `StateGraph`."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kraftcheck.explorer.state_graph import StateGraph
from kraftcheck.explorer.transition_system import BEYOND, BLOCKED, Label, Labels, Mask, Numbers
from kraftcheck.persistence.stored_files import SpillArena, SpillArray
from kraftcheck.spec.language.declarations import Property

Masks = NDArray[np.uint64]


class Marks(NamedTuple):
    """Labels, sorted by source state, of enabled steps whose target is outside of the graph."""

    states: Numbers
    labels: Labels

    def add(self, bits: Masks, first: int, found: Masks) -> None:
        """Add to `found[i]` the bits of all labels of the state `first + i`, by bitwise or."""
        begin, end = np.searchsorted(self.states, (first, first + len(found)))
        np.bitwise_or.at(found, self.states[begin:end] - first, bits[self.labels[begin:end]])


class _GrowingMarks:
    """Marks under construction."""

    def __init__(self, room: SpillArena) -> None:
        self._states, self._labels = SpillArray(room, np.int32), SpillArray(room, np.uint16)

    def append(self, states: NDArray[Any], labels: Labels) -> None:
        """Append marks; drop duplicates among them."""
        both = np.unique(states.astype(np.int64) << 16 | labels)
        self._states.append((both >> 16).astype(np.int32))
        self._labels.append((both & 0xFFFF).astype(np.uint16))

    def all(self) -> Marks:
        """Return all marks, in the order in which they were appended."""
        return Marks(self._states.all, self._labels.all)


class LabelledGraph:
    """The numbered states of a finished search, and the steps between them that change the state."""

    def __init__(self, graph: StateGraph, *, expected: int, strict_bounds: bool) -> None:
        self.count, self.starts, self.room, self.book = graph.count, graph.store.starts, graph.room, graph.system.labels
        self._graph, self._strict = graph, strict_bounds
        self.first = graph.room.array(graph.count + 1, np.int64)  # place of a state's first edge
        targets, labels = (SpillArray(graph.room, kind, expected) for kind in (np.int32, np.uint16))
        outside = {BEYOND: _GrowingMarks(graph.room), BLOCKED: _GrowingMarks(graph.room)}
        used = np.zeros(len(self.book.labels), bool)
        for first, states in graph.store.chunks(backwards=False):
            pieces = [
                (one.sources + first, one.targets, one.labels.copy(), one.rounds)
                for one in graph.edges(states, np.arange(len(states)))
            ]
            sources, ends, named, rounds = (np.concatenate(parts) for parts in zip(*pieces, strict=True))
            used = np.concatenate([used, np.zeros(len(self.book.labels) - len(used), bool)])
            used[named[ends >= 0]] = True
            for end, marks in outside.items():
                mine = ends == end
                if mine.any() and not (strict_bounds and end == BLOCKED):
                    marks.append(sources[mine], named[mine])
            kept = np.flatnonzero((ends >= 0) & ((sources != ends) | rounds))
            order = kept[np.argsort(sources[kept], kind="stable")]
            lengths = np.bincount(sources[order] - first, minlength=len(states))
            self.first[first + 1 : first + len(states) + 1] = targets.count + np.cumsum(lengths)
            targets.append(ends[order])
            labels.append(named[order])
        self.target, self.label = targets.all, labels.all
        self.beyond, self.blocked = outside[BEYOND].all(), outside[BLOCKED].all()
        used[self.beyond.labels] = used[self.blocked.labels] = True
        self._used = used
        graph.store.forget_keys()

    def holds(self, prop: Property) -> Mask:
        """Return for each state whether a property holds."""
        return self._graph.where(prop).view(np.bool_)

    def labels_in_use(self) -> list[Label]:
        """Return the labels of steps that are enabled in some state."""
        return [label for label, used in zip(self.book.labels, self._used, strict=True) if used]

    def enabled(self, bits: Masks, first: int, count: int) -> Masks:
        """Return, for each state from `first` on, the bits of the labels of enabled steps that change it."""
        from kraftcheck.explorer.temporal.kernel.product import gather

        found = np.zeros(count, np.uint64)
        self.beyond.add(bits, first, found)
        self.blocked.add(bits, first, found)
        gather(self.first, self.label, bits, first, found)
        return found
