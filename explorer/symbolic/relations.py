"""Transition relations as diagrams that grow, the effects of events on single variables, and watched projections.

A label gives the next value of a variable. It is applied to a value on first use, and the result is cached. A map gives
the classes of a value: the deliverable messages of a channel, or the value of a projection.

An event lists changes of some variables; the other variables stay. Events over the same variables form a group. Its
relation is a tree over the variables that its events were learned from, and it grows in place. So cached results about
a part of the tree stay valid when events are added elsewhere. Below the tree, equal ends of events are shared.

A watch reports the new vectors of a projection of a set, from which events are learned.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from kraftcheck.explorer.calls.handlers import MissingRead
from kraftcheck.explorer.symbolic.diagram_store import DiagramStore, require_within_limit
from kraftcheck.explorer.symbolic.handler_cache import HandlerRead
from kraftcheck.explorer.symbolic.variables import DiagramVariables, VariableKind
from kraftcheck.spec.language.state import Step
from kraftcheck.spec.values import Record, Value, type_distinguishing_key

IDENTITY_MAP = 0  # the map of each value to itself


class EffectLabel(NamedTuple):
    """Effect of a step on one variable: guards, and the value after."""

    level: int  # the variable's level
    guards: tuple[tuple[int, int], ...] = ()  # pairs (map, class): the value must be of that class
    target: int | None = None  # the number of the value after, or None
    operations: tuple[tuple[str, Record], ...] = ()  # of a channel: pairs (operation, message)
    # of a bound: the amount spent; 0 if the step only needs some left, None for other variables
    spends: int | None = None


class ValueClassMap:
    """A map: a function from a variable's values to numbered classes."""

    def __init__(self, level: int, function: Callable[[Any], Iterable[Hashable]]) -> None:
        self.level = level
        self._function = function
        self._numbers: dict[Hashable, int] = {}
        self.values: list[Any] = []
        self._known: dict[int, list[int]] = {}

    def of(self, number: int, value: Any) -> list[int]:
        """Return the class numbers of a value, sorted."""
        found = self._known.get(number)
        if found is None:
            found = self._known[number] = sorted({self.number(one) for one in self._function(value)})
        return found

    def number(self, one: Hashable) -> int:
        """Return the number of an abstract value; a new value gets the next number."""
        key = type_distinguishing_key(one)
        found = self._numbers.get(key)
        if found is None:
            found = self._numbers[key] = len(self.values)
            self.values.append(one)
        return found


class EffectLabels:
    """The labels and maps of one search."""

    def __init__(self, variables: DiagramVariables, store: DiagramStore) -> None:
        self._variables = variables
        self._store = store
        self._items: list[EffectLabel | ValueClassMap | None] = [None]
        self._numbers: dict[Hashable, int] = {}
        self.messages: dict[int, int] = {}  # by level: the map from a channel's content to its deliverable messages
        self.firsts: dict[int, int] = {}  # by map of pairs: the first of the two maps
        for level, key in enumerate(variables.keys):
            if key.kind == VariableKind.CHANNEL:
                self.messages[level] = self.map(level, "messages", variables.network.deliverable)
                store.arrays.message_maps[level] = self.messages[level]

    def is_membership(self, level: int) -> bool:
        """Whether a level holds the membership of an element in an exploded set."""
        return self._variables.keys[level].kind == VariableKind.MEMBER

    def level_of_membership(self, read: HandlerRead) -> int:
        """Return the level of the membership that a read tests; -1 for any other read."""
        return -1 if read.member is None else self._variables.membership(read.replica, *read.member)

    def map(self, level: int, name: Hashable, function: Callable[[Any], Iterable[Hashable]]) -> int:
        """Return the number of a map; make the map if its name is new."""
        found = self._numbers.get((level, name))
        if found is None:
            found = self._numbers[level, name] = len(self._items)
            self._items.append(ValueClassMap(level, function))
        return found

    def pair(self, level: int, first: int, second: int) -> int:
        """Return the map whose classes are pairs: a class of the first map and one of the second."""

        def pairs(value: Any) -> list[Hashable]:
            number = self._variables.number(level, value)
            others = self.classes_of(level, second, number)
            return [(a, b) for a in self.classes_of(level, first, number) for b in others]

        number = self.map(level, ("pair", first, second), pairs)
        self.firsts[number] = first
        return number

    def classes_of(self, level: int, mapped: int, number: int) -> list[int]:
        """Return the numbers of the classes of a value."""
        if mapped == IDENTITY_MAP:
            return [number]
        return self.classes(mapped).of(number, self._variables.values[level][number])

    def classes(self, mapped: int) -> ValueClassMap:
        """Return the map with a number."""
        found = self._items[mapped]
        assert isinstance(found, ValueClassMap)
        return found

    def meaning(self, level: int, mapped: int, number: int) -> Any:
        """Return the class that has a number in a map; for the map IDENTITY_MAP, the value that has the number."""
        return self._variables.values[level][number] if mapped == IDENTITY_MAP else self.classes(mapped).values[number]

    def label(self, label: EffectLabel) -> int:
        """Return the number of a label; add the label if it is new."""
        found = self._numbers.get(label)
        if found is None:
            found = self._numbers[label] = len(self._items)
            self._items.append(label)
            if label.guards:
                self._store.guarded.add(found)
        return found

    def change(self, label: EffectLabel) -> VariableChange:
        """Return the change of a variable that a label describes, for any value."""
        return VariableChange(GENERAL_EDGES, self.label(label))

    def spends(self, number: int) -> int:
        """Return the amount by which a label decreases its bound; 0 for any other label."""
        found = self._items[number]
        return (found.spends or 0) if isinstance(found, EffectLabel) else 0

    def apply(self, number: int, value: int) -> int:
        """Apply a label or a map to a value, and cache the result in the store."""
        item = self._items[number]
        if isinstance(item, ValueClassMap):
            result = self._store.add_items(item.of(value, self._variables.values[item.level][value]))
        else:
            assert item is not None
            result = self._applied(item, value)
        self._store.cache_effect(number, value, result)
        return result

    def _applied(self, label: EffectLabel, number: int) -> int:
        level, variables = label.level, self._variables
        if any(one not in self.classes_of(level, mapped, number) for mapped, one in label.guards):
            return -1
        if label.target is not None:
            return label.target
        if variables.keys[level].kind == VariableKind.BOUND:
            limit = variables.limits[variables.keys[level].of]
            if label.spends is None:
                return number
            return number + label.spends if number + max(label.spends, 1) <= limit else -1
        if not label.operations:
            return number
        content: Value = variables.values[level][number]
        for operation, message in label.operations:
            content = variables.network.apply(operation, content, message)
            if content is None:
                return -1
        return variables.number(level, content)


EDGES_BY_VALUE, EDGES_BY_MESSAGE, GENERAL_EDGES = 0, 1, 2
"""Lookup of an edge: by the variable's value, by a deliverable message, or for any value."""


class VariableChange(NamedTuple):
    """Effect of an event on one variable."""

    how: int  # EDGES_BY_VALUE, EDGES_BY_MESSAGE or GENERAL_EDGES
    key: int  # the value, the message's class, or the label
    result: int = 0  # by value: the next value. By message: the label.


Event = tuple[tuple[int, VariableChange], ...]  # by level, in their order


class EventWithWatch(NamedTuple):
    """An event with the watch that it was learned from."""

    event: Event
    last: int = -1  # last level of the watch; -1 if there is none
    # a watched tail over levels of the event: the event needs a vector of it; 0 if there is none
    gate: int = 0


class EventWithStep(NamedTuple):
    """An event with its action and step, for counts and step properties."""

    action: str  # the action's name
    event: Event
    # replicas that it writes: level, local state before (None: any) and after
    pairs: tuple[tuple[int, Any, Any], ...] = ()
    act: tuple[Any, Any, Step] | None = None  # the actor, the delivered message or None, and the step


class RelationNodes:
    """Nodes of all relations; node 0 is the empty relation, node 1 the identity on the remaining levels."""

    def __init__(self, store: DiagramStore) -> None:
        self._store = store
        self._known: dict[tuple[int, tuple[tuple[VariableChange, int], ...]], int] = {}
        self._levels = [0, 0]
        self._edges: list[list[tuple[VariableChange, int]]] = [[], []]
        self._branches: dict[tuple[int, VariableChange], int] = {}

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
        require_within_limit(number, len(arrays.relation_nodes) - 1, "nodes of relations")
        arrays.relation_nodes[number] = (level, 0, 0, -1, gate, 0)
        self._levels.append(level)
        self._edges.append([])
        return number

    def add(self, number: int, change: VariableChange, child: int) -> None:
        """Add an edge to a node."""
        key, result = (0, change.key) if change.how == GENERAL_EDGES else (change.key, change.result)
        if change.how != EDGES_BY_VALUE and result in self._store.guarded:
            self._store.arrays.relation_nodes[number, 5] = 1
        self._store.add_edge(number, change.how, key, result, child)
        self._edges[number].append((change, child))

    def branch(self, number: int, change: VariableChange, level: int) -> int:
        """Return the child of a node's edge for a change; add the edge, and a child at `level`, if it is new."""
        found = self._branches.get((number, change))
        if found is None:
            gate = int(self._store.arrays.relation_nodes[number, 4])
            found = self._branches[number, change] = self.new(level, gate)
            self.add(number, change, found)
        return found

    def node(self, number: int) -> tuple[int, list[tuple[VariableChange, int]]]:
        """Return a node's level, and its edges as (change, child)."""
        return self._levels[number], self._edges[number]


class EventGroups:
    """The known events, grouped by their variables."""

    def __init__(self, store: DiagramStore) -> None:
        self._arrays = store.arrays
        self.nodes = RelationNodes(store)
        self.events = 0
        self._groups: dict[tuple[tuple[int, ...], int], int] = {}
        self._idle = False  # whether some event changes and requires nothing
        self._ends: set[tuple[int, VariableChange, int]] = set()
        self._tops = np.zeros(store.levels + 1, bool)

    def roots(self) -> list[int]:
        """Return the roots of all relations."""
        return [*self._groups.values(), *[1] * self._idle]

    def add(self, events: Iterable[EventWithWatch]) -> None:
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
        require_within_limit(number + 1, len(arrays.event_root), "groups of events")
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


LevelAndMap = tuple[int, int]  # level, map
Combination = dict[LevelAndMap, Any]  # a value or class for each dimension
CombinationCallback = Callable[[Combination], None]


class CombinationWatch(NamedTuple):
    """A callback, called once for each combination of values that some diagram variables take."""

    dims: tuple[LevelAndMap, ...]  # dimensions, sorted by level
    learn: CombinationCallback  # called with each new vector, as classes by dimension


class CombinationWatches:
    """The watches of one search, and the value combinations that each has seen."""

    def __init__(self, store: DiagramStore, labels: EffectLabels, groups: EventGroups) -> None:
        self.active: list[int] = []
        self.known: dict[int, CombinationWatch] = {}
        self.store, self.labels, self.groups = store, labels, groups
        self._projections = 0
        self._tails: dict[tuple[int, int, int], int] = {}

    def add(self, dims: Iterable[LevelAndMap], learn: CombinationCallback) -> int:
        """Watch a projection for new vectors; return its number."""
        dims = tuple(sorted(dims))
        number = self.projection(dims)
        self.known[number] = CombinationWatch(dims, learn)
        arrays, level = self.store.arrays, dims[0][0]
        arrays.watch_known[number] = 0
        arrays.next_watch[number] = arrays.first_watch[level]
        arrays.first_watch[level] = number
        self.groups.note_top(level)
        arrays.watch_version[level] += 1
        self.active.append(number)
        self.store.watch_tails({tail for one in self.active for tail in self._tails_of(one)})
        return number

    def tail(self, dims: Sequence[LevelAndMap]) -> int:
        """Return the number of a tail, a list of dimensions in ascending order of level; add it if it is new."""
        tails = self.store.arrays.tails
        number = 0
        for level, mapped in reversed(dims):
            key = (level, mapped, number)
            if key not in self._tails:
                self._tails[key] = len(self._tails) + 1
                require_within_limit(len(self._tails) + 1, len(tails), "dimensions of projections")
                tails[self._tails[key]] = (*key, -1)
            number = self._tails[key]
        return number

    def _tails_of(self, number: int) -> list[int]:
        """Return the tails of a projection (the suffixes of its list of dimensions), the longest first."""
        tail, found = int(self.store.arrays.watch_tail[number]), []
        while tail:
            found.append(tail)
            tail = int(self.store.arrays.tails[tail, 2])
        return found

    def projection(self, dims: Iterable[LevelAndMap]) -> int:
        """Return the number of a new projection; two dimensions of one level are merged into pairs."""
        merged: dict[int, int] = {}
        for level, mapped in dims:
            merged[level] = self.labels.pair(level, merged[level], mapped) if level in merged else mapped
        arrays = self.store.arrays
        number = self._projections
        self._projections += 1
        require_within_limit(number + 1, len(arrays.watch_tail), "projections")
        arrays.watch_tail[number] = self.tail(list(merged.items()))
        return number

    def projection_of_values(self, levels: Iterable[int]) -> int:
        """Return the number of a new projection onto the values at some levels."""
        return self.projection((level, IDENTITY_MAP) for level in levels)

    def remove(self, number: int) -> None:
        """Remove a watch from the linked list of its level; an iteration at the watch can still continue."""
        arrays, level = self.store.arrays, self.known[number].dims[0][0]
        self.active.remove(number)
        if arrays.first_watch[level] == number:
            arrays.first_watch[level] = arrays.next_watch[number]
            return
        before = int(arrays.first_watch[level])
        while arrays.next_watch[before] != number:
            before = int(arrays.next_watch[before])
        arrays.next_watch[before] = arrays.next_watch[number]

    def each(self, number: int, dims: tuple[LevelAndMap, ...], node: int, use: CombinationCallback) -> None:
        """Call `use` with each vector of a projection, as a map from dimensions to values, without set memberships.

        If `use` raises MissingRead for a membership, it is called again with each value of that membership.
        """
        merged = [self.store.arrays.tails[tail, :2].tolist() for tail in self._tails_of(number)]
        levels = [level for level, _ in merged]
        lazy = {level for level in levels if self.labels.is_membership(level)}
        if not lazy:
            for vector in list(self.store.vectors(node, levels)):
                use(self._meant(merged, dims, dict(zip(levels, vector, strict=True))))
            return
        pending: list[dict[int, int]] = [{}]
        while pending:
            fixed = pending.pop()
            missing = next((level for level in levels if level not in fixed and level not in lazy), None)
            if missing is None:
                missing = self._missing_membership(use, self._meant(merged, dims, fixed), lazy - fixed.keys())
            if missing is not None:
                pending += [fixed | {missing: value} for value in self._values(node, levels, fixed, missing)]

    def _missing_membership(self, use: CombinationCallback, found: Combination, unknown: set[int]) -> int | None:
        """Call `use`; return the level of the set membership for which `use` raises MissingRead, or None."""
        try:
            use(found)
        except MissingRead as missing:
            level = self.labels.level_of_membership(missing.read)
            if level not in unknown:
                raise
            return level
        return None

    def _values(self, node: int, levels: list[int], fixed: dict[int, int], wanted: int) -> list[int]:
        """Return the values at the level `wanted` among the vectors that have the values `fixed` at other levels."""
        known: dict[tuple[int, int], set[int]] = {}

        def there(place: int, a: int) -> set[int]:
            if place == len(levels):
                return {0}
            if (place, a) in known:
                return known[place, a]
            level, found = levels[place], set[int]()
            at, edges = self.store.edges(a)
            for value, child in edges if at == level else [(0, a)]:
                if fixed.get(level, value) == value:
                    below = there(place + 1, child)
                    found |= {value} if level == wanted and below else below
            known[place, a] = found
            return found

        return sorted(there(0, node))

    def _meant(self, merged: list[list[int]], dims: tuple[LevelAndMap, ...], vector: dict[int, int]) -> Combination:
        """Decode a vector: return the value or class that its number means in each dimension."""
        found: Combination = {}
        for level, mapped in merged:
            if level in vector:
                classes: Any = vector[level]
                own = [dim for dim in dims if dim[0] == level]
                for dim in own[:0:-1]:
                    classes, found[dim] = self.labels.meaning(level, mapped, classes)
                    mapped = self.labels.firsts[mapped]
                found[own[0]] = classes
        return found
