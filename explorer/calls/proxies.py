"""Read-tracking proxies of records, projections and sets: a call is memoized under its reads.

A proxy shows the class of its record (`__class__`), so that `isinstance(me, Controller)` works in handlers and
properties. Methods that inspect types more closely (`inspection.py`) get the records themselves.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, ItemsView, Iterable, Iterator, Mapping, Set, ValuesView
from functools import cache, wraps
from opcode import opmap
from operator import is_
from typing import Any, ClassVar, Protocol

from kraftcheck.spec.language.state import State, Step
from kraftcheck.spec.values import Map, Record, Value, field_names, ordered, proxy_class_forwarding_dunders

ABSENT_REPLICA = object()
"""Result of reading an absent replica through a `ProjectionProxy`."""
UNREAD_VALUE = object()
NO_CHANGES: Mapping[str, Value] = {}
SET_TYPES = (frozenset, set)
FIRST_IN_PLACE_OPERATOR = 13
"""Least argument of BINARY_OP that stands for an operator like `|=`."""

FieldItems = tuple[tuple[str, Value], ...]
"""Names of fields, each with its value."""


class UnansweredRead(BaseException):
    """A read that its proxy does not answer. It is no Exception, so that `except Exception` lets it pass."""

    last: ClassVar[UnansweredRead | None] = None

    def __init__(self, *about: Any) -> None:
        super().__init__(*about)
        UnansweredRead.last = self


class _ReraisingUnansweredRead:
    """Context of a call that raises its unanswered read even if the called code caught it, as a bare `except` does."""

    __slots__ = ()

    def __enter__(self) -> None:
        UnansweredRead.last = None

    def __exit__(self, *_: object) -> None:
        found, UnansweredRead.last = UnansweredRead.last, None
        if found is not None:
            raise found


reraising_unanswered_read = _ReraisingUnansweredRead()


class SetChange(Record):
    """Change of a set by a step."""

    added: frozenset[Any]
    removed: frozenset[Any] | None  # None: all other elements


class DeltaStep(Step):
    """A step without proxies that also has its changes of peers and shared sets as deltas, applicable to any state."""

    # changed fields of other replicas, by id; `writes` has these replicas after this step
    peers: tuple[tuple[Value, FieldItems], ...] = ()
    # changes of exploded sets, by field of the shared record or of `me`; the field itself holds the added elements
    sets: tuple[tuple[str, SetChange], ...] = ()


class ReadProxy:
    """Proxy of a record that records reads of single fields; any other use records a read of the whole record.

    Attributes of proxies of records have names as `__key__`, since a record class may give any other name to a method.
    """

    __slots__ = ()

    def __whole__(self) -> Any:
        raise NotImplementedError

    @property
    def __dataclass_fields__(self) -> Any:  # `dataclasses.replace` reads the fields that it keeps, one by one
        return self.__class__.__dataclass_fields__

    def __eq__(self, other: object) -> bool:
        return bool(self.__whole__() == unwrap(other))

    def __hash__(self) -> int:
        return hash(self.__whole__())

    def __repr__(self) -> str:
        return repr(self.__whole__())

    def __reduce__(self) -> Any:
        return self.__whole__().__reduce__()


class SharedRecordProxy(ReadProxy):
    """Proxy of the shared record, read field by field."""

    __slots__ = ("__read__", "__type__")

    def __new__(cls, record_type: type[Record], *_: Any) -> Any:
        """Return a proxy with the special methods of the record class."""
        return object.__new__(proxy_class_forwarding_dunders((cls, record_type)))

    def __init__(self, record_type: type[Record], read: Callable[[str], Value]) -> None:
        self.__type__, self.__read__ = record_type, read

    def __read_through__(self, change: Callable[[Value], Value]) -> SharedRecordProxy:
        """Return a proxy of the same record that applies `change` to each value it reads."""
        return SharedRecordProxy(self.__type__, lambda name: change(self.__read__(name)))

    def __whole__(self) -> Any:
        return unwrap(self.__type__(*map(self.__read__, field_names(self.__type__))))

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        return self.__type__

    def __getattr__(self, name: str) -> Value:
        if name in field_names(self.__type__):
            return self.__read__(name)
        return getattr(self.__whole__(), name)


class StateProxy(SharedRecordProxy):
    """Proxy of a state, read part by part."""

    __slots__ = ()

    def __new__(cls, *_: Any) -> Any:
        """Return a proxy; a state has no special methods."""
        return object.__new__(cls)

    def __init__(self, read: Callable[[str], Value]) -> None:
        super().__init__(State, read)

    def __with_parts__(self, change: Callable[[str, Value], Value]) -> StateProxy:
        """Return a proxy of the same state that applies `change` to each part, given its name."""
        return StateProxy(lambda name: change(name, self.__read__(name)))


class MapProxy(Map[Any, Any]):
    """Map that reads its values one by one; it shows the class of a map."""

    __slots__ = ()

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        return Map

    def items(self) -> ItemsView[Any, Any]:
        """Return a view of the pairs (key, value)."""
        return _ProxyItems(self)

    def values(self) -> ValuesView[Any]:
        """Return a view of the values."""
        return _ProxyValues(self)


class _ProxyItems(ItemsView[Any, Any]):
    """View of the pairs of a `MapProxy`, which otherwise behaves as that of a dictionary."""

    __slots__ = ()

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        return type({}.items())

    def __contains__(self, item: object) -> bool:
        return isinstance(item, tuple) and len(item) == 2 and super().__contains__(item)

    def __reversed__(self) -> Iterator[Any]:
        return iter([*self][::-1])

    def __repr__(self) -> str:
        return repr(dict(self).items())


class _ProxyValues(ValuesView[Any]):
    """View of the values of a `MapProxy`, which otherwise behaves as that of a dictionary."""

    __slots__ = ()

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        return type({}.values())

    def __reversed__(self) -> Iterator[Any]:
        return iter([*self][::-1])

    def __repr__(self) -> str:
        return repr(dict(enumerate(self)).values())


class LazyMap(MapProxy):
    """Map of the values of some columns of a row, decoded one by one; `reads` receives each column that is read.

    The map has no value where the id in the column is 0.
    """

    __slots__ = ("_columns", "_decode", "_ids", "_reads", "_whole")

    def __init__(
        self, columns: Mapping[Value, int], ids: list[int], decode: Callable[[int], Any], reads: dict[int, None]
    ) -> None:
        self._hash, self._fitted = None, None
        self._columns, self._ids, self._decode, self._reads = columns, ids, decode, reads
        self._whole: dict[Any, Any] | None = None  # once all columns were read

    @property
    def _items(self) -> dict[Any, Any]:  # type: ignore[override]
        return dict(self.items())

    def __getitem__(self, key: Any) -> Any:
        column = self._columns[key]
        self._reads[column] = None
        if self._ids[column]:
            return self._decode(self._ids[column])
        raise KeyError(key)

    def __contains__(self, key: object) -> bool:
        column = self._columns.get(key)
        if column is not None:
            self._reads[column] = None
        return column is not None and self._ids[column] != 0

    def __iter__(self) -> Iterator[Any]:
        return self._each_key() if self._whole is None else iter(self._whole)

    def _each_key(self) -> Iterator[Any]:
        ids, reads = self._ids, self._reads
        for key, column in self._columns.items():
            reads[column] = None
            if ids[column]:
                yield key
        self._whole = {key: self._decode(ids[column]) for key, column in self._columns.items() if ids[column]}

    def __len__(self) -> int:
        return sum(1 for _ in self) if self._whole is None else len(self._whole)

    def items(self) -> ItemsView[Any, Any]:
        """Return a view of the pairs (key, value)."""
        return super().items() if self._whole is None else self._whole.items()

    def values(self) -> ValuesView[Any]:
        """Return a view of the values."""
        return super().values() if self._whole is None else self._whole.values()


FieldPath = tuple[str, ...]
"""The path to a field of a record, through records in it; () for the record itself."""
NoteRead = Callable[[FieldPath], Any]


class RecordProxy(ReadProxy):
    """Proxy of a record; `note` receives the path to each field read.

    It may return a proxy of the field's record, and None otherwise.
    """

    def __new__(cls, record: Record, *_: Any) -> Any:
        """Return a proxy with the special methods of the record's class."""
        return object.__new__(proxy_class_forwarding_dunders((cls, type(record))))

    def __init__(self, record: Record, note: NoteRead, changes: Mapping[str, Value] = NO_CHANGES) -> None:
        self.__record__, self.__note__, self.__changes__ = record, note, changes
        self.__names__ = field_names(type(record))
        self.__dict__.update(changes)  # known values are found without `__getattr__`

    def __whole__(self) -> Any:
        self.__note__(())
        return self.__peek__()

    def __peek__(self) -> Any:
        """Return the record without recording a read."""
        return self.__record__.but(**self.__changes__) if self.__changes__ else self.__record__

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        return type(self.__record__)

    def __getattr__(self, name: str) -> Value:
        if name not in self.__names__:
            return getattr(self.__whole__(), name)
        value = self.__dict__[name] = self.__note__((name,)) or getattr(self.__record__, name)
        return value

    def but(self, **changes: Value) -> Any:
        """Return a copy with other values in some fields."""
        kind = type(self.__record__)
        is_plain = kind.but is Record.but and not hasattr(kind, "__post_init__") and changes.keys() <= {*self.__names__}
        return self.__changed__({**self.__changes__, **changes}) if is_plain else self.__whole__().but(**changes)

    def __changed__(self, changes: Mapping[str, Value]) -> RecordProxy:
        return RecordProxy(self.__record__, self.__note__, changes)


class PeerProxy(RecordProxy):
    """Proxy of another replica's record; reading its `id` records no read."""

    def __new__(cls, _: Value, record: Record, *__: Any) -> Any:
        """Return a proxy with the special methods of the replica's class."""
        return super().__new__(cls, record)

    def __init__(self, key: Value, record: Record, note: NoteRead, changes: Mapping[str, Value] = NO_CHANGES) -> None:
        super().__init__(record, note, changes)
        self.__key__ = key
        self.__dict__.setdefault("id", key)

    def __changed__(self, changes: Mapping[str, Value]) -> PeerProxy:
        return PeerProxy(self.__key__, self.__record__, self.__note__, changes)


class ProjectionProxy(MapProxy):
    """Proxy of the map from replica ids to projected values; each value is read, and its read recorded, once."""

    __slots__ = ("_all", "_keys", "_known", "_read")

    def __init__(self, keys: Iterable[Any], read: Callable[[Any], Any]) -> None:
        self._hash = None
        self._keys = dict.fromkeys(keys)
        self._read = read
        self._all: dict[Any, Any] | None = None
        self._known: dict[Any, Any] = {}

    def _look(self, key: Any) -> Any:
        found = self._known.get(key, UNREAD_VALUE)
        if found is UNREAD_VALUE:
            found = self._known[key] = self._read(key)
        return found

    @property
    def _items(self) -> dict[Any, Any]:  # type: ignore[override]  # any other use reads the whole
        if self._all is None:
            self._all = {key: value for key in self._keys if (value := self._look(key)) is not ABSENT_REPLICA}
            self._read = _refuse_element_read
        return self._all

    def __getitem__(self, key: Any) -> Any:
        found = ABSENT_REPLICA
        if self._all is not None:
            found = self._all.get(key, ABSENT_REPLICA)
        elif key in self._keys:
            found = self._look(key)
        if found is ABSENT_REPLICA:
            raise KeyError(key)
        return found

    def __iter__(self) -> Iterator[Any]:
        if self._all is not None:
            return iter(self._all)
        return (key for key in self._keys if self._look(key) is not ABSENT_REPLICA)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __contains__(self, key: object) -> bool:
        if self._all is not None:
            return key in self._all
        return key in self._keys and self._look(key) is not ABSENT_REPLICA

    @property
    def was_read_whole(self) -> bool:
        """Whether the whole map was read; a step may contain the map only after it was read whole."""
        return self._all is not None


class ElementUniverse(Protocol):
    """Protocol for the collection of all elements that a set could contain."""

    def __iter__(self) -> Iterator[Value]: ...

    def __contains__(self, element: Any) -> bool: ...


IsElement = Callable[[Value], bool]


def _sets_only_operator(method: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """Return an operator that accepts sets only, as the operators of `frozenset` do."""

    @wraps(method)
    def operator(self: Any, other: Any) -> Any:
        return method(self, other) if isinstance(other, SET_TYPES) else NotImplemented

    return operator


def _reflected_set_operator(method: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """Return an operator with a set on the left, without `|=` and the like: that set, of any name, would not change."""

    @wraps(method)
    def operator(self: Any, other: Any) -> Any:
        frame = sys._getframe(1)
        opcode, argument = frame.f_code.co_code[frame.f_lasti :][:2]
        if type(other) is set and (opcode != opmap["BINARY_OP"] or argument >= FIRST_IN_PLACE_OPERATOR):
            raise TypeError("expected a set, found its proxy")
        return method(self, other)

    return operator


class SetProxy:
    """Proxy of a set that reads the membership of single elements, and holds additions and removals separately."""

    __slots__ = ("_added", "_elements", "_has", "_removed")

    def __init__(
        self,
        elements: ElementUniverse,
        has: IsElement,
        added: frozenset[Value] = frozenset(),
        removed: frozenset[Value] = frozenset(),
    ) -> None:
        self._elements, self._has, self._added, self._removed = elements, has, added, removed

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        return frozenset

    def _with(self, added: frozenset[Value], removed: frozenset[Value]) -> Any:
        """Return the set with the given additions and removals; a plain set if the whole set was read before."""
        return added if self._has is _refuse_element_read else SetProxy(self._elements, self._has, added, removed)

    def _candidates(self) -> Iterator[Value]:
        """Yield every element that may be in the set; the loop may hash the set meanwhile."""
        elements, added = self._elements, self._added
        yield from elements
        yield from added.difference(elements)

    def __contains__(self, element: object) -> bool:
        if element in self._added or element in self._removed:
            return element in self._added
        return element in self._elements and self._has(element)

    def __iter__(self) -> Iterator[Value]:
        return (element for element in self._candidates() if element in self)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __bool__(self) -> bool:
        return any(True for _ in self)

    def __hash__(self) -> int:
        """Read the whole set, and return its hash; a cache may keep the hash after reads are no longer tracked."""
        whole = frozenset(self)
        self._elements, self._added, self._removed, self._has = (), whole, frozenset(), _refuse_element_read
        return hash(whole)

    def __repr__(self) -> str:
        return repr(frozenset(self))

    def __reduce__(self) -> Any:
        return frozenset, (tuple(self),)

    # A comparison stops at the first element that decides it.

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Set) and not isinstance(other, SET_TYPES):
            other = frozenset(other)
        if not isinstance(other, SET_TYPES) or any(element not in self._elements for element in other - self._added):
            return False
        return all((element in self) == (element in other) for element in self._candidates())

    @_sets_only_operator
    def __le__(self, other: Any) -> bool:
        return all(element in other or element not in self for element in self._candidates())

    @_sets_only_operator
    def __ge__(self, other: Any) -> bool:
        return all(element in self for element in other)

    @_sets_only_operator
    def __lt__(self, other: Any) -> Any:
        return self <= other and not self >= other

    @_sets_only_operator
    def __gt__(self, other: Any) -> Any:
        return self >= other and not self <= other

    @_sets_only_operator
    def __or__(self, other: Any) -> Any:
        more = frozenset(other)
        return self._with(self._added | more, self._removed - more)

    @_sets_only_operator
    def __sub__(self, other: Any) -> Any:
        less = frozenset(other)
        return self._with(self._added - less, self._removed | less)

    @_sets_only_operator
    def __and__(self, other: Any) -> Any:
        return frozenset(element for element in other if element in self)

    @_reflected_set_operator
    @_sets_only_operator
    def __rsub__(self, other: Any) -> Any:
        return frozenset(element for element in other if element not in self)

    @_sets_only_operator
    def __xor__(self, other: Any) -> Any:
        return frozenset(self) ^ frozenset(other)

    __ror__, __rand__, __rxor__ = map(_reflected_set_operator, (__or__, __and__, __xor__))

    def union(self, *others: Iterable[Value]) -> Any:
        """Return the union with other iterables."""
        return self | frozenset().union(*others)

    def difference(self, *others: Iterable[Value]) -> Any:
        """Return the elements that are in no other iterable."""
        return self - frozenset().union(*others)

    def intersection(self, *others: Iterable[Value]) -> frozenset[Value]:
        """Return the elements that are in all other iterables too."""
        return frozenset(self).intersection(*others)

    def symmetric_difference(self, other: Iterable[Value]) -> frozenset[Value]:
        """Return the elements that are in exactly one of the two."""
        return frozenset(self).symmetric_difference(other)

    def issubset(self, other: Iterable[Value]) -> bool:
        """Whether the set is a subset of another."""
        return bool(self <= frozenset(other))

    def issuperset(self, other: Iterable[Value]) -> bool:
        """Whether the set is a superset of another."""
        return bool(self >= frozenset(other))

    def isdisjoint(self, other: Iterable[Value]) -> bool:
        """Whether the set has no element in common with another."""
        return not any(element in self for element in other)

    def copy(self) -> Any:
        """Return a copy."""
        return self._with(self._added, self._removed)

    def among(self, passes: Callable[[Any], Any]) -> Iterator[Value]:
        """Yield the elements; where possible, filter them by `passes` before reading their membership."""
        passing = getattr(self._elements, "passing", None)
        if passing is None:
            yield from self
            return
        known: Any = self._elements
        is_changed = self._added or self._removed
        yield from passing(passes, (lambda element, _: element in self) if is_changed else known.has_at)
        yield from self._added.difference(known.known)

    def changes(self, has: IsElement) -> SetChange | None:
        """Return the set's additions and removals if `has` is its membership function, else None."""
        return SetChange(unwrap(self._added), self._removed) if self._has is has else None

    def minimal(self) -> SetProxy:
        """Return an equal set without additions of present elements and removals of absent ones."""
        added = frozenset(e for e in ordered(self._added) if not (e in self._elements and self._has(e)))
        removed = frozenset(e for e in ordered(self._removed) if e in self._elements and self._has(e))
        return SetProxy(self._elements, self._has, added, removed)


def unwrap(value: Any) -> Any:
    """Return a value without proxies, after reading them whole; a value without proxies stays the same object."""
    kind: Any = type(value)
    unwrapping = _unwrapper_of(kind)
    return value if unwrapping is None else unwrapping(value)


@cache
def _unwrapper_of(kind: type) -> Callable[[Any], Any] | None:
    """Return the function that unwraps values of a class; None for a class whose values hold no others."""
    if kind is SetProxy:
        return lambda value: unwrap(frozenset(value))
    if issubclass(kind, Record):
        return _unwrap_record
    if issubclass(kind, tuple | frozenset):
        return _unwrap_items
    if issubclass(kind, Map):
        return _unwrap_map
    if hasattr(kind, "__whole__"):
        return lambda value: unwrap(value.__whole__())
    return None


def _unwrap_record(record: Record) -> Record:
    known = vars(record)
    new = {name: unwrap(known[name]) for name in field_names(type(record))}
    return record if all(new[name] is known[name] for name in new) else record.but(**new)


def _unwrap_items(items: Any) -> Any:
    parts = list(map(unwrap, items))
    return items if all(map(is_, parts, items)) else type(items)(parts)


def _unwrap_map(value: Map[Any, Any]) -> Map[Any, Any]:
    items = {unwrap(key): unwrap(item) for key, item in value.items()}
    is_plain = type(value) is Map and all(map(is_, items, value)) and all(map(is_, items.values(), value.values()))
    return value if is_plain else Map(items)


def _refuse_element_read(key: Any) -> Any:
    raise AssertionError("the collection was read as a whole; expected no read of one element after it")
