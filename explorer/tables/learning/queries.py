"""Queries: functions of a local state, a shared value or an inbox, with interned answers.

A decision tree tests queries. Each query is evaluated once for each distinct value, and its answers are table
columns that the kernel reads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from kraftcheck.explorer.tables.learning.growing_tables import UNASKED, GrowingTables
from kraftcheck.spec.values import Value, keyed

Key = tuple[str, ...]
Query = tuple[int, int, int]  # kind of a decision tree's node, and its two arguments
WHOLE = 0  # id of the query that returns the local state itself
CLASS: Key = ("class", "")  # query for the value's class
PRESENT: Key = ("present", "")  # query whether the replica exists
ITSELF: Any = object()
"""The answer of a projection that returns the whole replica."""


class InternedList(list[Any]):
    """A list of interned values, indexed by their ids."""

    def __init__(self, values: Iterable[Any] = ()) -> None:
        super().__init__(values)
        self._ids: dict[Any, int] = {}

    def find(self, key: Any) -> int | None:
        """Return the id of the value added with `key`, or None."""
        return self._ids.get(key)

    def add(self, key: Any, value: Any) -> int:
        """Add a value with a key; return its id."""
        found = self._ids[key] = len(self)
        self.append(value)
        return found


class InternedFunction(NamedTuple):
    """A function with interned results."""

    function: Callable[[Any], Value]
    values: list[Any]
    ids: dict[Any, int]

    def number(self, value: Any) -> int:
        """Return the id of the function's result for a value."""
        answer = self.function(value)
        key = keyed(answer)
        found = self.ids.get(key)
        if found is None:
            found = self.ids[key] = len(self.values)
            self.values.append(answer)
        return found


class ValueQueries:
    """The queries on values of one kind: local states, or a shared field's values."""

    def __init__(self, tables: GrowingTables, name: str, values: Sequence[Any], numbers: Iterator[int]) -> None:
        self._tables = tables
        self._name = name
        self._values = values
        self._free = numbers
        self._numbers: dict[Key, int] = {}
        self._queries: dict[int, InternedFunction] = {}

    def number(self, key: Key, function: Callable[[Any], Value]) -> int:
        """Return the id of a query; evaluate a new query for all known values."""
        found = self._numbers.get(key)
        if found is None:
            found = self._numbers[key] = next(self._free)
            query = self._queries[found] = InternedFunction(function, [None], {None: 0})  # 0: no replica
            self._tables.set(self._name, found, 0)
            table = self._tables.fit_columns(self._name, len(self._values))
            for place, value in enumerate(self._values):
                table[found, place] = 0 if value is None else query.number(value)
        return found

    def known(self, key: Key) -> int:
        """Return the id of a query, or -1 if there is none yet."""
        return self._numbers.get(key, -1)

    def add(self, place: int, value: Any) -> None:
        """Evaluate all known queries for a new value, whose id is `place`."""
        table = self._tables.fit_columns(self._name, place + 1) if self._queries else None
        for number, query in self._queries.items():
            table[number, place] = query.number(value)  # type: ignore[index]

    def answer(self, query: int, place: int) -> int:
        """Return the id of a query's answer for a value's id."""
        return int(getattr(self._tables, self._name)[query, place])

    def value(self, query: int, answer: int) -> Any:
        """Return the value whose id is `answer` among the answers to `query`."""
        return self._queries[query].values[answer]


class InboxQueries:
    """The queries on inboxes, each answered at its first use for an inbox content."""

    def __init__(self, tables: GrowingTables, decode: Callable[[int], Value]) -> None:
        self._tables = tables
        self._decode = decode
        self._numbers: dict[str, int] = {}
        self._queries: list[InternedFunction] = []

    def number(self, name: str, function: Callable[[Value], Value]) -> int:
        """Return the id of the query `name`; register a new one with `function`."""
        found = self._numbers.get(name)
        if found is None:
            found = self._numbers[name] = len(self._queries)
            self._queries.append(InternedFunction(function, [], {}))
            self._tables.set("inbox_answers", found, UNASKED, UNASKED)
        return found

    def answer(self, query: int, content: int) -> int:
        """Return the id of a query's answer for an inbox content, which is evaluated at the first call."""
        table = self._tables.inbox_answers
        if table[query, content] < 0:
            table[query, content] = self._queries[query].number(self._decode(content))
        return int(table[query, content])

    def value(self, query: int, answer: int) -> Any:
        """Return the value whose id is `answer` among the answers to `query`."""
        return self._queries[query].values[answer]
