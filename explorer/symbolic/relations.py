"""Relations between states: events over labels, as diagrams that are shared where they end alike.

An event says for some variables what happens to each; the others stay. Events over the same variables are a group. A
group keeps its events as a few relations of growing size, so that adding some costs little.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from kraftcheck.explorer.symbolic.store import Store, require

BY_VALUE, BY_MESSAGE, GENERAL = 0, 1, 2
"""How an edge is found: by the value that it is for, by a message that can be delivered, or for any value."""


class Change(NamedTuple):
    """What an event does to one variable.

    Attributes
    ----------
    how
        BY_VALUE, BY_MESSAGE or GENERAL.
    key
        The value, the message's class, or the label.
    result
        BY_VALUE: the next value. BY_MESSAGE: the label.
    """

    how: int
    key: int
    result: int = 0


Event = tuple[tuple[int, Change], ...]  # by level, in their order
_Node = tuple[int, tuple[tuple[Change, int], ...]]


class RelationNodes:
    """The nodes of all relations: 0 is no step, 1 the step that changes nothing more."""

    def __init__(self, store: Store) -> None:
        self._arrays = store.arrays
        self._known: dict[_Node, int] = {}
        self._nodes: list[_Node] = [(0, ()), (0, ())]
        self._edges = 0

    def relations(self, events: Iterable[Event]) -> list[int]:
        """Return the relations of events, one for each set of levels."""
        by_levels: dict[tuple[int, ...], list[Event]] = {}
        for event in events:
            by_levels.setdefault(tuple(level for level, _ in event), []).append(event)
        return [self.of(some) for some in by_levels.values()]

    def of(self, events: Iterable[Event]) -> int:
        """Return the relation of events over the same levels."""
        return self._of(sorted(events), 0)

    def _of(self, events: list[Event], depth: int) -> int:
        if depth == len(events[0]):
            return 1
        level, edges, first = events[0][depth][0], [], 0
        for i in range(1, len(events) + 1):
            if i == len(events) or events[i][depth][1] != events[first][depth][1]:
                edges.append((events[first][depth][1], self._of(events[first:i], depth + 1)))
                first = i
        return self._node(level, tuple(edges))

    def _node(self, level: int, edges: tuple[tuple[Change, int], ...]) -> int:
        key = (level, edges)
        found = self._known.get(key)
        if found is not None:
            return found
        number, start, arrays = len(self._nodes), self._edges, self._arrays
        require(number, len(arrays.relation_nodes) - 1, "nodes of relations")
        require(start + len(edges), len(arrays.relation_edges), "edges of relations")
        counts = [0, 0, 0]
        for change, _ in edges:
            counts[change.how] += 1
        rows = [(c.key, c.result, child) for c, child in edges]
        arrays.relation_edges[start : start + len(rows)] = rows
        arrays.relation_nodes[number] = (
            level,
            *(start, counts[BY_VALUE]),
            *(start + counts[BY_VALUE], counts[BY_MESSAGE]),
            *(start + counts[BY_VALUE] + counts[BY_MESSAGE], counts[GENERAL]),
        )
        self._edges += len(edges)
        self._known[key] = number
        self._nodes.append(key)
        return number

    def node(self, number: int) -> _Node:
        """Return a node's level, and its edges: what changes, and the node after."""
        return self._nodes[number]

    def union(self, a: int, b: int) -> int:
        """Return the union of two relations over the same levels."""
        if a == b or b == 0:
            return a
        if a == 0:
            return b
        (level, first), (_, second) = self._nodes[a], self._nodes[b]
        merged = dict(first)
        for change, child in second:
            merged[change] = self.union(merged[change], child) if change in merged else child
        return self._node(level, tuple(sorted(merged.items())))


class Groups:
    """The events that are known, by the variables that they are about.

    Parameters
    ----------
    store
        Where compiled code finds them.
    """

    def __init__(self, store: Store) -> None:
        self._arrays = store.arrays
        self.nodes = RelationNodes(store)
        self.events = 0
        self._groups: dict[tuple[int, ...], list[int]] = {}
        self._number = 0
        self._tops = np.zeros(store.levels + 1, bool)

    def roots(self) -> list[int]:
        """Return all relations."""
        return [int(root) for root in self._arrays.event_root[: self._number] if root]

    def add(self, events: Iterable[Event]) -> None:
        """Add events, none of which was added before."""
        by_levels: dict[tuple[int, ...], list[Event]] = {}
        for event in events:
            by_levels.setdefault(tuple(level for level, _ in event), []).append(event)
        for levels, some in by_levels.items():
            self._add(levels, some)

    def _add(self, levels: tuple[int, ...], events: list[Event]) -> None:
        places = self._groups.setdefault(levels, [])
        self.events += len(events)
        root, place = self.nodes.of(events), len(events).bit_length() - 1
        arrays = self._arrays
        while True:
            while len(places) <= place:
                places.append(self._place(levels[0]))
            there = int(arrays.event_root[places[place]])
            if there == 0:
                arrays.event_root[places[place]] = root
                break
            root = self.nodes.union(there, root)
            arrays.event_root[places[place]] = 0
            place += 1
        arrays.event_version[levels[0]] += 1

    def _place(self, level: int) -> int:
        """Return a new place for a relation that begins at a level."""
        number, arrays = self._number, self._arrays
        require(number + 1, len(arrays.event_root), "groups of events")
        self._number += 1
        arrays.next_event[number] = arrays.first_event[level]
        arrays.first_event[level] = number
        self.note_top(level)
        return number

    def note_top(self, level: int) -> None:
        """Note that an event or a watch begins at a level."""
        arrays = self._arrays
        arrays.event_version[level] += 1
        if not self._tops[level]:
            self._tops[level] = True
            before = int(np.flatnonzero(self._tops[:level])[-1]) + 1 if self._tops[:level].any() else 0
            arrays.next_top[before : level + 1] = level
