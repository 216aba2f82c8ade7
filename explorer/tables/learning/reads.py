"""Stand-ins that note what a handler or a property reads, so that it is learned under that and nothing else."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from kraftcheck.explorer.tables.learning.shared_sets import SharedSet
from kraftcheck.spec.values import Map, Record, Value, field_names

ABSENT = object()
"""What a `MapReader` reads of a replica that is not there."""
UNREAD = object()
NO_CHANGES: Mapping[str, Value] = {}


class StandIn:
    """Is what a record is, to whoever asks for more than a field of it: `_whole` gives that record, and notes it."""

    __slots__ = ()

    def _whole(self) -> Any:
        raise NotImplementedError

    def __eq__(self, other: object) -> bool:
        return bool(self._whole() == plain(other))

    def __hash__(self) -> int:
        return hash(self._whole())

    def __repr__(self) -> str:
        return repr(self._whole())


class SharedReader(StandIn):
    """Reads like the shared record, and notes each field when it is first read."""

    __slots__ = ("_read", "_type")

    def __init__(self, record_type: type[Record], read: Callable[[str], Value]) -> None:
        self._type = record_type
        self._read = read

    def read_through(self, change: Callable[[Value], Value]) -> SharedReader:
        """Return a reader of the same, whose values are changed."""
        return SharedReader(self._type, lambda name: change(self._read(name)))

    def _whole(self) -> Any:
        """Return the record itself, all fields of which are noted."""
        return plain(self._type(*map(self._read, field_names(self._type))))

    @property  # type: ignore[misc]
    def __class__(self) -> Any:  # isinstance sees the record's class
        return self._type

    def __getattr__(self, name: str) -> Value:
        if name in field_names(self._type):
            return self._read(name)
        raise AttributeError(
            f"{self._type.__name__} has no field {name!r}; the shared state is read field by field: "
            f"{', '.join(field_names(self._type))}"
        )


class LocalReader(StandIn):
    """Reads like a replica's record, and notes each field; any other use notes the whole record."""

    def __init__(
        self, record: Record, note: Callable[[str | None], None], changes: Mapping[str, Value] = NO_CHANGES
    ) -> None:
        self._record = record
        self._tell = note
        self._names = field_names(type(record))
        self._changes = changes
        self.__dict__.update(changes)  # what is known is found without `__getattr__`

    def _whole(self) -> Any:
        """Return the record itself, which is noted."""
        self._tell(None)
        return self._unread()

    def _unread(self) -> Any:
        """Return the record itself, which is not noted: whoever takes it says so in another way."""
        return self._record.but(**self._changes) if self._changes else self._record

    @property  # type: ignore[misc]
    def __class__(self) -> Any:  # isinstance sees the record's class
        return type(self._record)

    def __getattr__(self, name: str) -> Value:
        if name not in self._names:
            return getattr(self._whole(), name)
        self._tell(name)
        value = self.__dict__[name] = getattr(self._record, name)
        return value

    def but(self, **changes: Value) -> Any:
        """Return a copy in which the named fields have the given values."""
        kind = type(self._record)
        is_plain = kind.but is Record.but and not hasattr(kind, "__post_init__") and changes.keys() <= {*self._names}
        return self._changed({**self._changes, **changes}) if is_plain else self._whole().but(**changes)

    def _changed(self, changes: Mapping[str, Value]) -> LocalReader:
        return LocalReader(self._record, self._tell, changes)

    def __reduce__(self) -> Any:
        return self._whole().__reduce__()


class PeerReader(LocalReader):
    """Reads like another replica's record."""

    def __init__(
        self,
        key: Value,
        record: Record,
        note: Callable[[str | None], None],
        changes: Mapping[str, Value] = NO_CHANGES,
    ) -> None:
        super().__init__(record, note, changes)
        self._key = key
        self.__dict__.setdefault("id", key)

    def _changed(self, changes: Mapping[str, Value]) -> PeerReader:
        return PeerReader(self._key, self._record, self._tell, changes)


class MapReader(Map[Any, Any]):
    """Reads like the map of a projection of all replicas, and notes each of its values when that is first read."""

    __slots__ = ("_all", "_keys", "_known", "_read")

    def __init__(self, keys: Iterable[Any], read: Callable[[Any], Any]) -> None:
        self._hash = None
        self._keys = dict.fromkeys(keys)
        self._read = read
        self._all: dict[Any, Any] | None = None
        self._known: dict[Any, Any] = {}

    def _look(self, key: Any) -> Any:
        """Return what is read of a replica, which is read once."""
        found = self._known.get(key, UNREAD)
        if found is UNREAD:
            found = self._known[key] = self._read(key)
        return found

    @property
    def _items(self) -> dict[Any, Any]:  # type: ignore[override]  # any other use reads the whole
        if self._all is None:
            self._all = {key: value for key in self._keys if (value := self._look(key)) is not ABSENT}
            self._read = _read_before
        return self._all

    def __getitem__(self, key: Any) -> Any:
        found = ABSENT
        if self._all is not None:
            found = self._all.get(key, ABSENT)
        elif key in self._keys:
            found = self._look(key)
        if found is ABSENT:
            raise KeyError(key)
        return found

    def __iter__(self) -> Iterator[Any]:
        return iter(self._all) if self._all is not None else self._ones_there()

    def _ones_there(self) -> Iterator[Any]:
        return (key for key in self._keys if self._look(key) is not ABSENT)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __contains__(self, key: object) -> bool:
        if self._all is not None:
            return key in self._all
        return key in self._keys and self._look(key) is not ABSENT

    @property
    def was_read_whole(self) -> bool:
        """Whether all was read: only then it can be part of a step, which was compared with others."""
        return self._all is not None


def plain(value: Any) -> Any:
    """Return a value without stand-ins: what each stands for, which is read whole."""
    if issubclass(type(value), LocalReader):
        return value._whole()
    if type(value) is SharedSet:
        return frozenset(value)
    if isinstance(value, Map):
        return Map((plain(key), plain(item)) for key, item in value.items())
    if isinstance(value, tuple | frozenset):
        return type(value)(map(plain, value))
    if isinstance(value, Record):
        return value.but(**{name: plain(getattr(value, name)) for name in field_names(type(value))})
    return value


def _read_before(key: Any) -> Any:
    raise AssertionError("the whole map was read before")
