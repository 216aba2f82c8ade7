"""Effects on single variables (labels), and abstractions of their values (maps).

A label gives the next value of a variable. It is applied to a value on first use, and the result is cached. A map gives
the classes of a value: the deliverable messages of a channel, or the value of a projection.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import Any, NamedTuple

from kraftcheck.explorer.symbolic.handler_cache import Read
from kraftcheck.explorer.symbolic.store import Store
from kraftcheck.explorer.symbolic.variables import BOUND, CHANNEL, MEMBER, Variables
from kraftcheck.spec.values import Record, Value, keyed

IDENTITY = 0  # the map of each value to itself


class Label(NamedTuple):
    """Effect of a step on one variable: guards, and the value after."""

    level: int  # the variable's level
    guards: tuple[tuple[int, int], ...] = ()  # pairs (map, class): the value must be of that class
    target: int | None = None  # the number of the value after, or None
    operations: tuple[tuple[str, Record], ...] = ()  # of a channel: pairs (operation, message)
    # of a bound: the amount spent; 0 if the step only needs some left, None for other variables
    spends: int | None = None


class Classes:
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
        key = keyed(one)
        found = self._numbers.get(key)
        if found is None:
            found = self._numbers[key] = len(self.values)
            self.values.append(one)
        return found


class Labels:
    """The labels and maps of one search."""

    def __init__(self, variables: Variables, store: Store) -> None:
        self._variables = variables
        self._store = store
        self._items: list[Label | Classes | None] = [None]
        self._numbers: dict[Hashable, int] = {}
        self._messages: dict[int, int] = {}
        self._firsts: dict[int, int] = {}
        for level, key in enumerate(variables.keys):
            if key.kind == CHANNEL:
                network = variables.network
                self._messages[level] = self.map(level, "messages", network.deliverable)
                store.arrays.message_maps[level] = self._messages[level]

    def messages(self, level: int) -> int:
        """Return the number of the map from a channel's content to its deliverable messages."""
        return self._messages[level]

    def is_membership(self, level: int) -> bool:
        """Whether a level holds the membership of an element in an exploded set."""
        return self._variables.keys[level].kind == MEMBER

    def level_of_membership(self, read: Read) -> int:
        """Return the level of the membership that a read tests; -1 for any other read."""
        return -1 if read.member is None else self._variables.membership(read.replica, *read.member)

    def map(self, level: int, name: Hashable, function: Callable[[Any], Iterable[Hashable]]) -> int:
        """Return the number of a map; make the map if its name is new."""
        found = self._numbers.get((level, name))
        if found is None:
            found = self._numbers[level, name] = len(self._items)
            self._items.append(Classes(level, function))
        return found

    def pair(self, level: int, first: int, second: int) -> int:
        """Return the map whose classes are pairs: a class of the first map and one of the second."""

        def pairs(value: Any) -> list[Hashable]:
            number = self._variables.number(level, value)
            others = self.classes_of(level, second, number)
            return [(a, b) for a in self.classes_of(level, first, number) for b in others]

        number = self.map(level, ("pair", first, second), pairs)
        self._firsts[number] = first
        return number

    def first_of_pair(self, mapped: int) -> int:
        """Return the number of the first of the two maps that `pair` combined into a map."""
        return self._firsts[mapped]

    def classes_of(self, level: int, mapped: int, number: int) -> list[int]:
        """Return the numbers of the classes of a value."""
        if mapped == IDENTITY:
            return [number]
        return self.classes(mapped).of(number, self._variables.values[level][number])

    def classes(self, mapped: int) -> Classes:
        """Return the map with a number."""
        found = self._items[mapped]
        assert isinstance(found, Classes)
        return found

    def meaning(self, level: int, mapped: int, number: int) -> Any:
        """Return the class that has a number in a map; for the map IDENTITY, the value that has the number."""
        return self._variables.values[level][number] if mapped == IDENTITY else self.classes(mapped).values[number]

    def label(self, label: Label) -> int:
        """Return the number of a label; add the label if it is new."""
        found = self._numbers.get(label)
        if found is None:
            found = self._numbers[label] = len(self._items)
            self._items.append(label)
            if label.guards:
                self._store.guarded.add(found)
        return found

    def spends(self, number: int) -> int:
        """Return the amount by which a label decreases its bound; 0 for any other label."""
        found = self._items[number]
        return (found.spends or 0) if isinstance(found, Label) else 0

    def apply(self, number: int, value: int) -> int:
        """Apply a label or a map to a value, and cache the result in the store."""
        item = self._items[number]
        if isinstance(item, Classes):
            result = self._store.add_items(item.of(value, self._variables.values[item.level][value]))
        else:
            assert item is not None
            result = self._applied(item, value)
        self._store.cache_effect(number, value, result)
        return result

    def _applied(self, label: Label, number: int) -> int:
        level, variables = label.level, self._variables
        if any(one not in self.classes_of(level, mapped, number) for mapped, one in label.guards):
            return -1
        if label.target is not None:
            return label.target
        if variables.keys[level].kind == BOUND:
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
