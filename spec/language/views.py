"""Views: fields and bounds that VIEW hides from state identity, and the methods that still read them; relative epochs.

Relative epochs rename a state's epochs, so that an endless row of elections is a cycle. A protocol may only compare its
epochs, and make new ones by `+ 1`. Then it behaves alike in two states whose epochs have the same order and, from the
lowest live epoch on, the same differences.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Container, Iterable, Mapping
from functools import partial
from typing import Any, NamedTuple

from kraftcheck.spec.errors import InputError
from kraftcheck.spec.language.state import State
from kraftcheck.spec.values import Map, Record, Value, field_names, proxy_class_forwarding_dunders

KINDS_EVALUATED_ON_VIEW = ("reachable ", "predicate ")
"""Kinds of property that are evaluated on the view of a state."""


class HiddenFieldsAndBounds(NamedTuple):
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


class HiddenReadLog:
    """Recorder of the methods that read hidden fields or bounds.

    Without any recorded read, states with equal views behave alike, and the result of a search does not depend on its
    order.
    """

    def __init__(self, view: str, hidden: HiddenFieldsAndBounds, by_type: Container[str], *, first_found: bool) -> None:
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
            if hasattr(type(value), "__with_parts__"):  # a proxy
                return value.__with_parts__(partial(self.seen, reader, name))
            return value.but(
                shared=_SharedRecordReadProxy(value.shared, shared, note),
                spent=_UsedBoundsReadProxy(value.spent, spent, note),
            )
        return (
            _SharedRecordReadProxy(value, shared, note)
            if parameter == "shared"
            else _UsedBoundsReadProxy(value, spent, note)
        )

    def require_unread(self, reader: str) -> None:
        """Raise HiddenReadError if a property read what the VIEW hides, so that its verdict may vary."""
        self._properties.add(reader)
        names = ", ".join(sorted(name for name, readers in self.found.items() if reader in readers))
        if not names:
            return
        what = f"{reader} reads {names}, which VIEW {self._view} leaves out"
        if reader.startswith(KINDS_EVALUATED_ON_VIEW):
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

    def _listed(self, verb: str, hidden: HiddenFieldsAndBounds, reads: Callable[[str], bool]) -> list[str]:
        """Return one warning with the hidden fields and bounds that methods selected by `reads` read, or none."""
        listed = []
        for name in sorted(self.found.keys() & (hidden.shared | hidden.bounds)):
            if readers := list(filter(reads, self.found[name])):
                listed.append(f"{name} ({verb} by {', '.join(readers)})")
        return [f"VIEW {self._view} leaves out {', '.join(listed)}"] if listed else []


NoteReadsCallback = Callable[[Iterable[str]], None]


class _SharedRecordReadProxy:
    """Read-tracking proxy of the shared record: a use other than a field access counts as reading every field."""

    __slots__ = ("__hidden__", "__note__", "__record__")

    def __new__(cls, record: Any, *_: Any) -> Any:
        """Return a proxy with the special methods of the record's class."""
        return object.__new__(proxy_class_forwarding_dunders((cls, record.__class__)))

    def __init__(self, record: Any, hidden: frozenset[str], note: NoteReadsCallback) -> None:
        self.__record__, self.__hidden__, self.__note__ = record, hidden, note

    def __whole__(self) -> Any:
        self.__note__(self.__hidden__)
        return self.__record__

    @property  # type: ignore[misc]
    def __class__(self) -> Any:  # isinstance sees the record's class
        return self.__record__.__class__

    def __getattr__(self, name: str) -> Any:
        self.__note__([name] if name in field_names(self.__class__) else self.__hidden__)
        return getattr(self.__record__, name)

    def __eq__(self, other: object) -> bool:
        return bool(self.__whole__() == getattr(other, "__whole__", lambda: other)())

    def __hash__(self) -> int:
        return hash(self.__whole__())

    def __repr__(self) -> str:
        return repr(self.__whole__())


class _UsedBoundsReadProxy(Map[str, int]):
    """Read-tracking proxy of the used bounds: a use other than a lookup counts as reading every bound."""

    __slots__ = ("_hidden", "_note", "_spent")

    def __init__(self, spent: Map[str, int], hidden: frozenset[str], note: NoteReadsCallback) -> None:
        self._hash = None
        self._spent, self._hidden, self._note = spent, hidden, note

    @property
    def _items(self) -> dict[str, int]:  # type: ignore[override]
        self._note(self._hidden)
        return dict(self._spent)

    def __getitem__(self, key: str) -> int:
        self._note([key])
        return self._spent[key]


MOST_CACHED_PARTS = 1 << 18
"""Cached parts of states before the cache is emptied."""


class RelativeNumbers:
    """Renames the numbers that a state holds in some fields, by their order and distances.

    Parameters
    ----------
    fields
        Names of the fields that hold such numbers (epochs), in records of any class.
    """

    def __init__(self, *fields: str) -> None:
        self._fields = frozenset(fields)
        self._held: dict[Value, frozenset[int]] = {}
        self._renamed: dict[tuple[Value, tuple[tuple[int, int], ...]], Value] = {}

    def held(self, value: Value) -> frozenset[int]:
        """Return the numbers that a value holds.

        Parameters
        ----------
        value
            A record, an inbox, a state, or any other value.
        """
        if not isinstance(value, Record | Map | tuple | frozenset):
            return frozenset()
        found = self._held.get(value)
        if found is None:
            found = frozenset().union(*map(self.held, _direct_subvalues(value)))
            if isinstance(value, Record):
                found |= {getattr(value, name) for name in self._own(value)}
            if len(self._held) > MOST_CACHED_PARTS:
                self._held.clear()
            self._held[value] = found
        return found

    def relative(self, state: State, live: Iterable[int], lift: int | None = 0) -> State:
        """Return a state with its numbers renamed by `renaming`.

        Parameters
        ----------
        state
            The state.
        live
            The numbers that a step may increment: the epochs of running replicas.
        lift
            Increases every number except 0. Without a live number above 0, or with None, no number changes.
        """
        if lift is None:
            return state
        parts = {"replicas": state.replicas, "inboxes": state.inboxes, "shared": state.shared}
        names = self.renaming(frozenset().union(*map(self.held, parts.values())), live, lift)
        return state.but(**{name: self.renamed(part, names) for name, part in parts.items()})

    def renaming(self, held: Iterable[int], live: Iterable[int], lift: int = 0) -> dict[int, int]:
        """Return the new number of each number that is held.

        Number 0 stays. From the lowest live number on, differences stay; below it, the order alone.

        Parameters
        ----------
        held
            All numbers of a state.
        live
            The numbers that a step may increment: the epochs of running replicas.
        lift
            Increases every number except 0. Without a live number above 0, no number changes.
        """
        above, lowest = sorted(set(held) - {0}), min(live, default=0)
        below = [number for number in above if number < lowest]
        if lowest <= 0:
            return {0: 0, **{number: number for number in above}}
        ranks = {number: rank + lift for rank, number in enumerate(below, start=1)}
        return {0: 0, **ranks, **{n: n - lowest + len(below) + 1 + lift for n in above if n >= lowest}}

    def renamed(self, value: Value, names: Mapping[int, int]) -> Value:
        """Return a value with other numbers.

        Parameters
        ----------
        value
            A record, an inbox, a state, or any other value.
        names
            The new number of each number that the value holds.
        """
        changes = tuple((number, names[number]) for number in sorted(self.held(value)) if names[number] != number)
        if not changes:
            return value
        found = self._renamed.get((value, changes))
        if found is None:
            found = self._made(value, names)
            if len(self._renamed) > MOST_CACHED_PARTS:
                self._renamed.clear()
            self._renamed[value, changes] = found
        return found

    def _made(self, value: Value, names: Mapping[int, int]) -> Value:
        if isinstance(value, Record):
            own = self._own(value)
            parts = {name: getattr(value, name) for name in field_names(type(value))}
            return value.but(**{n: names[v] if n in own else self.renamed(v, names) for n, v in parts.items()})
        if isinstance(value, Map):
            return Map((self.renamed(key, names), self.renamed(item, names)) for key, item in value.items())
        made = (self.renamed(item, names) for item in value)
        return tuple(made) if isinstance(value, tuple) else frozenset(made)

    def _own(self, record: Record) -> list[str]:
        return [
            name for name in field_names(type(record)) if name in self._fields and type(getattr(record, name)) is int
        ]


def _direct_subvalues(value: Value) -> Iterable[Value]:
    if isinstance(value, Record):
        return [getattr(value, name) for name in field_names(type(value))]
    return [part for item in value.items() for part in item] if isinstance(value, Map) else value
