"""Transition relations over labels, as diagrams that grow.

An event lists changes of some variables; the other variables stay. Events over the same variables form a group. Its
relation is a tree over the variables that its events were learned from, and it grows in place. So cached results about
a part of the tree stay valid when events are added elsewhere. Below the tree, equal ends of events are shared.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from kraftcheck.explorer.symbolic.store import Store, require
from kraftcheck.spec.language.state import Step

BY_VALUE, BY_MESSAGE, GENERAL = 0, 1, 2
"""Lookup of an edge: by the variable's value, by a deliverable message, or for any value."""


class Change(NamedTuple):
    """Effect of an event on one variable."""

    how: int  # BY_VALUE, BY_MESSAGE or GENERAL
    key: int  # the value, the message's class, or the label
    result: int = 0  # BY_VALUE: the next value. BY_MESSAGE: the label.


Event = tuple[tuple[int, Change], ...]  # by level, in their order


class Source(NamedTuple):
    """An event with the watch that it was learned from."""

    event: Event
    last: int = -1  # last level of the watch; -1 if there is none
    # a watched tail over levels of the event: the event needs a vector of it; 0 if there is none
    gate: int = 0


class EventInfo(NamedTuple):
    """An event with its action and step, for counts and step properties."""

    action: str  # the action's name
    event: Event
    # replicas that it writes: level, local state before (None: any) and after
    pairs: tuple[tuple[int, Any, Any], ...] = ()
    act: tuple[Any, Any, Step] | None = None  # the actor, the delivered message or None, and the step


class RelationNodes:
    """Nodes of all relations; node 0 is the empty relation, node 1 the identity on the remaining levels."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._known: dict[tuple[int, tuple[tuple[Change, int], ...]], int] = {}
        self._levels = [0, 0]
        self._edges: list[list[tuple[Change, int]]] = [[], []]
        self._branches: dict[tuple[int, Change], int] = {}

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
        key = (level, tuple(edges))
        if key not in self._known:
            self._known[key] = number = self.new(level)
            for change, child in edges:
                self.add(number, change, child)
        return self._known[key]

    def new(self, level: int, gate: int = 0) -> int:
        """Add a node without edges; return its number."""
        if gate and self._store.arrays.tails[gate, 0] < level:
            gate = int(self._store.arrays.tails[gate, 2])
        number, arrays = len(self._levels), self._store.arrays
        require(number, len(arrays.relation_nodes) - 1, "nodes of relations")
        arrays.relation_nodes[number] = (level, 0, 0, -1, gate, 0)
        self._levels.append(level)
        self._edges.append([])
        return number

    def add(self, number: int, change: Change, child: int) -> None:
        """Add an edge to a node."""
        key, result = (0, change.key) if change.how == GENERAL else (change.key, change.result)
        if change.how != BY_VALUE and result in self._store.guarded:
            self._store.arrays.relation_nodes[number, 5] = 1
        self._store.add_edge(number, change.how, key, result, child)
        self._edges[number].append((change, child))

    def branch(self, number: int, change: Change, level: int) -> int:
        """Return the child of a node's edge for a change; add the edge, and a child at `level`, if it is new."""
        found = self._branches.get((number, change))
        if found is None:
            gate = int(self._store.arrays.relation_nodes[number, 4])
            found = self._branches[number, change] = self.new(level, gate)
            self.add(number, change, found)
        return found

    def node(self, number: int) -> tuple[int, list[tuple[Change, int]]]:
        """Return a node's level, and its edges as (change, child)."""
        return self._levels[number], self._edges[number]


class EventGroups:
    """The known events, grouped by their variables."""

    def __init__(self, store: Store) -> None:
        self._arrays = store.arrays
        self.nodes = RelationNodes(store)
        self.events = 0
        self._groups: dict[tuple[tuple[int, ...], int], int] = {}
        self._idle = False  # whether some event changes and requires nothing
        self._ends: set[tuple[int, Change, int]] = set()
        self._tops = np.zeros(store.levels + 1, bool)

    def roots(self) -> list[int]:
        """Return the roots of all relations."""
        return [*self._groups.values(), *[1] * self._idle]

    def add(self, events: Iterable[Source]) -> None:
        """Add events to the relations of their groups."""
        alike: defaultdict[tuple[tuple[int, ...], int, Event], list[Event]] = defaultdict(list)
        for event, last, gate in events:
            self.events += 1
            if not event:
                self._idle = True
                continue
            depth = max(sum(level <= last for level, _ in event), 1)
            alike[tuple(level for level, _ in event), gate, event[:depth]].append(event[depth:])
        for (levels, gate, begin), ends in alike.items():
            self._add(levels, gate, begin, self.nodes.of(ends))

    def _add(self, levels: tuple[int, ...], gate: int, begin: Event, end: int) -> None:
        if (levels, gate) not in self._groups:
            self._groups[levels, gate] = self._place(levels[0], gate)
        node = self._groups[levels, gate]
        for depth in range(len(begin) - 1):
            node = self.nodes.branch(node, begin[depth][1], levels[depth + 1])
        last = (node, begin[-1][1], end)
        if last not in self._ends:
            self._ends.add(last)
            self.nodes.add(*last)

    def _place(self, level: int, gate: int) -> int:
        """Add an empty relation that begins at a level; return its root."""
        number, arrays = len(self._groups), self._arrays
        require(number + 1, len(arrays.event_root), "groups of events")
        arrays.event_root[number] = root = self.nodes.new(level, gate)
        arrays.next_event[number] = arrays.first_event[level]
        arrays.first_event[level] = number
        self.note_top(level)
        return root

    def note_top(self, level: int) -> None:
        """Record that an event or a watch begins at a level."""
        arrays = self._arrays
        if not self._tops[level]:
            self._tops[level] = True
            before = int(np.flatnonzero(self._tops[:level])[-1]) + 1 if self._tops[:level].any() else 0
            arrays.next_top[before : level + 1] = level
