"""Views: fields and bounds that VIEW hides from state identity, and the methods that still read them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Container, Iterable
from functools import partial
from typing import Any, NamedTuple

from kraftcheck.spec.errors import InputError
from kraftcheck.spec.values import Map, field_names

OF_SEEN_STATES = ("reachable ", "predicate ")
"""Kinds of property that are evaluated on the view of a state."""


class Hidden(NamedTuple):
    """The shared fields and bounds that a VIEW hides from state identity."""

    shared: frozenset[str]
    bounds: frozenset[str]

    def columns(self, bounds: Iterable[str], shared: Iterable[str]) -> list[bool]:
        """Return for each bound, and then for each shared field, whether it is hidden."""
        return [*(name in self.bounds for name in bounds), *(name in self.shared for name in shared)]


class View(frozenset[str]):
    """The names of hidden shared fields and bounds; `by` names the method that renames states, if there is one."""

    by: str | None = None


def hide(*names: str, by: str | None = None) -> View:
    """Return a view that hides the named shared fields and bounds from state identity.

    Parameters
    ----------
    names
        Names of shared fields and bounds.
    by
        Name of a method `(self, state, lift) -> State` of the protocol. States that it maps to one state, with `lift`
        0, are identified. With a higher `lift` it returns another state of the same class, and with None the state
        without what nothing reads (docs/temporal.md).
    """
    view = View(names)
    view.by = by
    return view


class HiddenReadError(InputError):
    """A property reads a field or bound that the VIEW hides, so its verdict depends on the search order."""


class HiddenReads:
    """Recorder of the methods that read hidden fields or bounds.

    Without any recorded read, states with equal views behave alike, and the result of a search does not depend on its
    order.
    """

    def __init__(self, view: str, hidden: Hidden, by_type: Container[str], *, first_found: bool) -> None:
        self.found: defaultdict[str, dict[str, None]] = defaultdict(dict)
        self.enough_left = False
        self._properties: set[str] = set()
        self._view, self._hidden, self._by_type, self._first_found = view, hidden, by_type, first_found

    def note(self, reader: str, names: Iterable[str]) -> None:
        """Record that a method reads fields or bounds, if the view hides them."""
        for name in names:
            if name in self._hidden.shared or name in self._hidden.bounds:
                self.found[name][reader] = None

    def seen(self, reader: str, name: str, parameter: str, value: Any) -> Any:
        """Return the argument for a method's parameter, in a read-tracking proxy if the view hides a part of it."""
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
        """Raise HiddenReadError if a property read what the VIEW hides, so that its verdict may vary."""
        self._properties.add(reader)
        names = ", ".join(sorted(name for name, readers in self.found.items() if reader in readers))
        if not names:
            return
        what = f"{reader} reads {names}, which VIEW {self._view} leaves out"
        if reader.startswith(OF_SEEN_STATES):
            raise HiddenReadError(f"{what}: it is evaluated on the view of a state; expected a view that shows {names}")
        if not self._first_found:
            why = "the verdict depends on which of the states with equal views this search checks"
            able = "--engine reference with --search bfs, which checks the first one found, as TLC does"
            raise HiddenReadError(f"{what}: {why}; expected {able}, or a view that shows {names}")

    def warnings(self) -> list[str]:
        """Return warnings for the recorded reads, of properties and of actions."""
        checked = self._listed("read", self._hidden, self._properties.__contains__)
        limiting = self._hidden._replace(bounds=frozenset()) if self.enough_left else self._hidden
        searched = self._listed("read or spent", limiting, lambda reader: reader not in self._properties)
        alike = "only one of the states with equal views is explored"
        missed = "successors of the others may be missed, and counts may depend on the search order"
        return [
            *[f"{what}: only the first state found is checked, as in TLC" for what in checked],
            *[f"{what}: {alike}, so {missed}" for what in searched],
        ]

    def _listed(self, verb: str, hidden: Hidden, reads: Callable[[str], bool]) -> list[str]:
        """Return one warning with the hidden fields and bounds that methods selected by `reads` read, or none."""
        listed = []
        for name in sorted(self.found.keys() & (hidden.shared | hidden.bounds)):
            if readers := list(filter(reads, self.found[name])):
                listed.append(f"{name} ({verb} by {', '.join(readers)})")
        return [f"VIEW {self._view} leaves out {', '.join(listed)}"] if listed else []


Note = Callable[[Iterable[str]], None]


class _SeenRecord:
    """Read-tracking proxy of the shared record: a use other than a field access counts as reading every field."""

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
    """Read-tracking proxy of the used bounds: a use other than a lookup counts as reading every bound."""

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
