"""Views: what VIEW leaves out of the identity of states, and which methods read it all the same."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Container, Iterable
from functools import partial
from typing import Any, NamedTuple

from kraftcheck.spec.errors import InputError
from kraftcheck.spec.values import Map, field_names

OF_SEEN_STATES = ("reachable ", "predicate ")
"""Kinds of method that judge states as a view shows them."""


class Hidden(NamedTuple):
    """The shared fields and bounds that a VIEW leaves out of the identity of states."""

    shared: frozenset[str]
    bounds: frozenset[str]

    def columns(self, bounds: Iterable[str], shared: Iterable[str]) -> list[bool]:
        """Return for each of the bounds, and then of the shared fields, whether it is left out."""
        return [*(name in self.bounds for name in bounds), *(name in self.shared for name in shared)]


def hide(*names: str) -> frozenset[str]:
    """Return a view that leaves the named shared fields and bounds out of the identity of states."""
    return frozenset(names)


class HiddenReadError(InputError):
    """A property reads what the VIEW leaves out, so its verdict depends on the order of the search."""


class HiddenReads:
    """Notes which methods read what a view leaves out.

    A read is noted when it happens. Where a search notes none, states that look alike behave alike, and its result
    does not depend on which of them it found first.
    """

    def __init__(self, view: str, hidden: Hidden, by_type: Container[str], *, first_found: bool) -> None:
        self.found: defaultdict[str, dict[str, None]] = defaultdict(dict)
        self.enough_left = False
        self._properties: set[str] = set()
        self._view, self._hidden, self._by_type, self._first_found = view, hidden, by_type, first_found

    def note(self, reader: str, names: Iterable[str]) -> None:
        """Note that a method reads fields or bounds, as far as the view leaves them out."""
        for name in names:
            if name in self._hidden.shared or name in self._hidden.bounds:
                self.found[name][reader] = None

    def seen(self, reader: str, name: str, parameter: str, value: Any) -> Any:
        """Return the argument for a parameter of a method: a stand-in that notes reads, where something is hidden."""
        shared = self._hidden.shared if parameter in ("shared", "state") else frozenset[str]()
        spent = self._hidden.bounds if parameter in ("spent", "state") else frozenset[str]()
        note = partial(self.note, reader)
        if not shared and not spent:
            return value
        if name in self._by_type:
            note((*shared, *spent))
            return value
        if parameter == "state":
            return value.but(shared=_SeenRecord(value.shared, shared, note), spent=_SeenSpent(value.spent, spent, note))
        return _SeenRecord(value, shared, note) if parameter == "shared" else _SeenSpent(value, spent, note)

    def require_unread(self, reader: str) -> None:
        """Raise HiddenReadError where a property read what the view leaves out, and the search has no fixed order."""
        self._properties.add(reader)
        names = ", ".join(sorted(name for name, readers in self.found.items() if reader in readers))
        if not names:
            return
        what = f"{reader} reads {names}, which VIEW {self._view} leaves out"
        if reader.startswith(OF_SEEN_STATES):
            raise HiddenReadError(f"{what}: states are judged as they are seen; expected a view that shows {names}")
        if not self._first_found:
            why = "which of the states that look alike is checked depends on the order of this search"
            able = "--engine reference with --search bfs, which checks the one found first, as TLC does"
            raise HiddenReadError(f"{what}: {why}; expected {able}, or a view that shows {names}")

    def warnings(self) -> list[str]:
        """Return warnings of what was read: by properties, and by actions."""
        checked = self._listed("read", self._hidden, self._properties.__contains__)
        limiting = self._hidden._replace(bounds=frozenset()) if self.enough_left else self._hidden
        searched = self._listed("read or spent", limiting, lambda reader: reader not in self._properties)
        alike = "of the states that look alike one is searched"
        missed = "what another one leads to may be missed, and counts may depend on the order of the search"
        return [
            *[f"{what}: only the state found first is checked, as in TLC" for what in checked],
            *[f"{what}: {alike}, so {missed}" for what in searched],
        ]

    def _listed(self, verb: str, hidden: Hidden, reads: Callable[[str], bool]) -> list[str]:
        """Return a clause that lists fields and bounds, each with its readers of a kind; nothing without readers."""
        listed = []
        for name in sorted(self.found.keys() & (hidden.shared | hidden.bounds)):
            if readers := list(filter(reads, self.found[name])):
                listed.append(f"{name} ({verb} by {', '.join(readers)})")
        return [f"VIEW {self._view} leaves out {', '.join(listed)}"] if listed else []


Note = Callable[[Iterable[str]], None]


class _SeenRecord:
    """Reads like the shared record, and notes when hidden fields are read; any other use reads them all."""

    __slots__ = ("_hidden", "_note", "_record")

    def __init__(self, record: Any, hidden: frozenset[str], note: Note) -> None:
        self._record, self._hidden, self._note = record, hidden, note

    def _whole(self) -> Any:
        self._note(self._hidden)
        return self._record

    @property  # type: ignore[misc]
    def __class__(self) -> Any:  # isinstance sees the record's class
        return self._record.__class__

    def __getattr__(self, name: str) -> Any:
        self._note([name] if name in field_names(self.__class__) else self._hidden)
        return getattr(self._record, name)

    def __eq__(self, other: object) -> bool:
        return bool(self._whole() == (other._whole() if type(other) is _SeenRecord else other))

    def __hash__(self) -> int:
        return hash(self._whole())

    def __repr__(self) -> str:
        return repr(self._whole())


class _SeenSpent(Map[str, int]):
    """Reads like the use of bounds so far, and notes when hidden ones are read; any other use reads them all."""

    __slots__ = ("_hidden", "_note", "_spent")

    def __init__(self, spent: Map[str, int], hidden: frozenset[str], note: Note) -> None:
        self._hash = None
        self._spent, self._hidden, self._note = spent, hidden, note

    @property
    def _items(self) -> dict[str, int]:  # type: ignore[override]
        self._note(self._hidden)
        return dict(self._spent)

    def __getitem__(self, key: str) -> int:
        self._note([key])
        return self._spent[key]
