"""What is asked about local states and about inboxes: functions whose values are numbered, once for each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from kraftcheck.explorer.tables.learning.growing_tables import UNKNOWN, GrowingTables
from kraftcheck.spec.values import Record, Value

Key = tuple[str, str]
WHOLE: Key = ("whole", "")  # the local state itself
CLASS: Key = ("class", "")  # its class


class View(NamedTuple):
    """A function of a local state, or of an inbox, and the numbers of its values."""

    function: Callable[[Any], Value]
    ids: dict[Any, int]

    def number(self, value: Any) -> int:
        """Return the number of the function's value."""
        answer = self.function(value)
        return self.ids.setdefault((type(answer), answer), len(self.ids))  # 1 and True are equal, and not the same


class Views:
    """The views of local states.

    Parameters
    ----------
    tables
        Where the answers are noted.
    records
        The local states by id; the first is None.
    """

    def __init__(self, tables: GrowingTables, records: Sequence[Any]) -> None:
        self._tables = tables
        self._records = records
        self._numbers: dict[Key, int] = {}
        self._views: list[View] = []

    def number(self, key: Key, function: Callable[[Record], Value]) -> int:
        """Return the number of a view."""
        found = self._numbers.get(key)
        if found is None:
            found = self._numbers[key] = len(self._views)
            view = View(function, {None: 0})  # 0: no replica
            self._views.append(view)
            self._tables.set("views", found, 0)
            for local, record in enumerate(self._records[1:], 1):
                self._tables.views[found, local] = view.number(record)
        return found

    def add_record(self, local: int, record: Record) -> None:
        """Note the answers of a new local state."""
        table = self._tables.fit_columns("views", local + 1)
        for number, view in enumerate(self._views):
            table[number, local] = view.number(record)

    def answer(self, view: int, local: int) -> int:
        """Return the number of a view's answer."""
        return int(self._tables.views[view, local])


class InboxViews:
    """The views of inboxes.

    Parameters
    ----------
    tables
        Where the answers are noted.
    decode
        Returns the inbox of an inbox content's id.
    """

    def __init__(self, tables: GrowingTables, decode: Callable[[int], Value]) -> None:
        self._tables = tables
        self._decode = decode
        self._numbers: dict[str, int] = {}
        self._views: list[View] = []

    def number(self, name: str, function: Callable[[Value], Value]) -> int:
        """Return the number of a view."""
        found = self._numbers.get(name)
        if found is None:
            found = self._numbers[name] = len(self._views)
            self._views.append(View(function, {}))
            self._tables.set("inbox_views", found, UNKNOWN, UNKNOWN)
        return found

    def answer(self, view: int, content: int) -> int:
        """Return the number of a view's answer, evaluating it once."""
        table = self._tables.inbox_views
        if table[view, content] < 0:
            table[view, content] = self._views[view].number(self._decode(content))
        return int(table[view, content])
