"""Stand-ins that note what a handler or a property reads, so that it is learned under that and nothing else."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from kraftcheck.spec.values import Map, Record, Value, field_names

ABSENT = object()
"""What a `MapReader` reads of a replica that is not there."""


class SharedReader:
    """Reads like the shared record, and notes each field when it is first read.

    Parameters
    ----------
    record_type
        The shared record's class.
    read
        Gives a field's value by name, noting it.
    """

    __slots__ = ("_read", "_type")

    def __init__(self, record_type: type[Record], read: Callable[[str], Value]) -> None:
        self._type = record_type
        self._read = read

    def __getattr__(self, name: str) -> Value:
        if name in field_names(self._type):
            return self._read(name)
        raise AttributeError(
            f"{self._type.__name__} has no field {name!r}; the shared state is read field by field: "
            f"{', '.join(field_names(self._type))}"
        )


class LocalReader:
    """Reads like a replica's record, and notes each field; any other use notes the whole record.

    Parameters
    ----------
    record
        The record.
    note
        Called with a field's name, or None for the whole, when that is first read.
    """

    __slots__ = ("_names", "_record", "_tell")

    def __init__(self, record: Record, note: Callable[[str | None], None]) -> None:
        self._record = record
        self._tell: Callable[[str | None], None] | None = note
        self._names = field_names(type(record))

    def _note(self, name: str | None) -> None:
        """Note what is read; nothing more once the whole is noted."""
        if self._tell is not None:
            tell = self._tell
            if name is None:
                self._tell = None
            tell(name)

    @property  # type: ignore[misc]
    def __class__(self) -> Any:  # isinstance sees the record's class
        return type(self._record)

    def __getattr__(self, name: str) -> Value:
        self._note(name if name in self._names else None)
        return getattr(self._record, name)

    def __eq__(self, other: object) -> bool:
        self._note(None)
        return self._record == (other._record if type(other) is LocalReader else other)

    def __hash__(self) -> int:
        self._note(None)
        return hash(self._record)

    def __repr__(self) -> str:
        self._note(None)
        return repr(self._record)


class MapReader(Map[Any, Any]):
    """Reads like the map of a projection of all replicas, and notes each of its values when that is first read.

    Parameters
    ----------
    keys
        The replicas that there may be.
    read
        Gives the value of one of them, or `ABSENT`, noting it.
    """

    __slots__ = ("_all", "_keys", "_read")

    def __init__(self, keys: Iterable[Any], read: Callable[[Any], Any]) -> None:
        self._hash = None
        self._keys = dict.fromkeys(keys)
        self._read = read
        self._all: dict[Any, Any] | None = None

    @property
    def _items(self) -> dict[Any, Any]:  # type: ignore[override]  # any other use reads the whole
        if self._all is None:
            self._all = {key: value for key in self._keys if (value := self._read(key)) is not ABSENT}
            self._read = _read_before
        return self._all

    def __getitem__(self, key: Any) -> Any:
        found = ABSENT
        if self._all is not None:
            found = self._all.get(key, ABSENT)
        elif key in self._keys:
            found = self._read(key)
        if found is ABSENT:
            raise KeyError(key)
        return found

    def __iter__(self) -> Iterator[Any]:
        return (key for key in self._keys if key in self)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __contains__(self, key: object) -> bool:
        if self._all is not None:
            return key in self._all
        return key in self._keys and self._read(key) is not ABSENT

    @property
    def was_read_whole(self) -> bool:
        """Whether all was read: only then it can be part of a step, which was compared with others."""
        return self._all is not None


def plain(value: Any) -> Any:
    """Return a value without stand-ins: a plain map for each."""
    if isinstance(value, Map):
        return Map((plain(key), plain(item)) for key, item in value.items())
    if isinstance(value, tuple | frozenset):
        return type(value)(map(plain, value))
    if isinstance(value, Record):
        return value.but(**{name: plain(getattr(value, name)) for name in field_names(type(value))})
    return value


def _read_before(key: Any) -> Any:
    raise AssertionError("the whole map was read before")
