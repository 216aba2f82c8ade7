"""Canonical binary encoding of values, and its decoder.

An encoding names record and symbol classes by qualified name, and the decoder looks them up in a `DecodingVocabulary`
of the protocol's classes. Decoding never imports or evaluates anything.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Callable, Iterable, Mapping, Sized
from enum import Enum
from typing import Any, TypeVar

from kraftcheck.spec.errors import InputError
from kraftcheck.spec.values import (
    Map,
    ModelValue,
    Record,
    Symbol,
    Value,
    field_names,
    field_values,
    is_enum,
    truncate_text,
)


def _encode_length(number: int) -> bytes:
    return number.to_bytes(4, "big")


def _encode_text(tag: bytes, text: str) -> bytes:
    data = text.encode()
    return tag + _encode_length(len(data)) + data


def encode(value: Value) -> bytes:
    """Return the canonical encoding of a value; equal encodings mean equal values, and vice versa."""
    kind = type(value)
    if kind is bool:
        return b"T" if value else b"F"
    if kind is int:
        return _encode_text(b"i", str(value))
    if kind is str:
        return _encode_text(b"s", value)
    if kind is ModelValue:
        return _encode_text(b"m", value.name)
    if isinstance(value, Symbol):
        return _encode_text(b"y", kind.__qualname__) + _encode_text(b"", str(value.value))
    if value is None:
        return b"N"
    if isinstance(value, enum.Enum) and is_enum(kind):
        return _encode_text(b"e", kind.__qualname__) + _encode_text(b"", value.name)
    if kind is tuple:
        return b"(" + _encode_length(len(value)) + b"".join(map(encode, value))
    if kind is frozenset:
        return b"{" + _encode_length(len(value)) + b"".join(sorted(map(encode, value)))
    if isinstance(value, Record):
        fields = b"".join(map(encode, field_values(value)))
        return _encode_text(b"r", kind.__qualname__) + _encode_length(len(field_names(kind))) + fields
    if isinstance(value, Map):
        pairs = sorted(encode(k) + encode(v) for k, v in value.items())
        return b"[" + _encode_length(len(pairs)) + b"".join(pairs)
    raise TypeError(f"{value!r} of type {kind.__name__} is not a value")


T = TypeVar("T")
C = TypeVar("C", bound=Sized)

MAX_DIGITS = 4_000  # below Python's limit for int()
_DECIMAL_NUMBER = re.compile("0|-?[1-9][0-9]*")


class DecodingError(InputError):
    """Bytes that are not the canonical encoding of a value."""


class DecodingVocabulary:
    """The classes and model values that encodings may name."""

    def __init__(self, classes: Iterable[type] = (), model_values: Iterable[ModelValue] = ()) -> None:
        self.records: dict[str, type[Record]] = {}
        self.symbols: dict[str, type[Enum]] = {}
        self.model_values: dict[str, ModelValue] = {}
        for cls in classes:
            self.add(cls)
        for value in model_values:
            self.model_values.setdefault(value.name, value)

    @property
    def classes(self) -> list[type]:
        """All classes, in the order in which they were added."""
        return [*self.records.values(), *self.symbols.values()]

    def add(self, cls: type) -> None:
        """Add a record class or an enum; raise InputError if another class has its name."""
        known: dict[str, Any] = self.records if issubclass(cls, Record) else self.symbols
        if cls.__qualname__ not in known and _has_members_with_equal_texts(cls):
            problem = "two of its values have the same text; encodings cannot tell them apart"
            raise InputError(f"{cls.__module__}.{cls.__qualname__}: {problem}")
        other = known.setdefault(cls.__qualname__, cls)
        if other is not cls:
            raise InputError(
                f"two classes are called {cls.__qualname__}: one of {other.__module__} and one of {cls.__module__}; "
                "encodings cannot tell their values apart"
            )

    def note(self, value: Value) -> None:
        """Add the classes and model values that occur in a value."""
        if type(value) is ModelValue:
            self.model_values.setdefault(value.name, value)
            return
        if isinstance(value, Record) or is_enum(type(value)):
            self.add(type(value))
        for part in _direct_components(value):
            self.note(part)

    def note_decodable(self, value: Value, known: Mapping[tuple[str, str], type], problem: str) -> None:
        """Record the classes in a value; raise InputError for one that is not known, named by `{}` in `problem`."""
        before = len(self.classes)
        self.note(value)
        for cls in self.classes if len(self.classes) > before else ():
            if known.get((cls.__module__, cls.__qualname__)) is not cls:
                raise InputError(
                    f"{problem.format(f'{cls.__qualname__} (module {cls.__module__})')}: nothing in the protocol leads "
                    "to it; import it by name in the protocol's module"
                )


def _has_members_with_equal_texts(cls: type) -> bool:
    return issubclass(cls, Symbol) and len({str(one.value) for one in cls}) < len(cls)


def _direct_components(value: Value) -> Iterable[Value]:
    if isinstance(value, Record):
        return field_values(value)
    if isinstance(value, Map):
        return (item for pair in value.items() for item in pair)
    return value if type(value) in (tuple, frozenset) else ()


def decode(data: bytes, lexicon: DecodingVocabulary) -> Value:
    """Return the value of a canonical encoding; the inverse of `encode`."""
    reader = _ValueReader(data, lexicon)
    try:
        value = reader.value()
    except RecursionError:
        raise reader.error("nested too deeply") from None
    if reader.at != len(data):
        raise reader.error(f"expected the end, found {len(data) - reader.at} more bytes")
    return value


class _ValueReader:
    """Reader of consecutive values in bytes."""

    def __init__(self, data: bytes, lexicon: DecodingVocabulary) -> None:
        self.data = data
        self.lexicon = lexicon
        self.at = 0

    def error(self, problem: str) -> DecodingError:
        return DecodingError(f"byte {self.at} of an encoded value: {problem}")

    def value(self) -> Value:
        tag = self.take(1)
        read = _READER_OF_TAG.get(tag)
        if read is None:
            self.at -= 1
            raise self.error(f"expected a value, found {tag!r}")
        return read(self)

    def take(self, count: int) -> bytes:
        found = self.data[self.at : self.at + count]
        if len(found) < count:
            raise self.error(f"expected {count} more bytes, found the end")
        self.at += count
        return found

    def length(self) -> int:
        return int.from_bytes(self.take(4), "big")

    def text(self) -> str:
        try:
            return self.take(self.length()).decode()
        except UnicodeDecodeError as error:
            raise self.error("expected text in UTF-8") from error

    def number(self) -> int:
        text = self.text()
        if len(text) > MAX_DIGITS or _DECIMAL_NUMBER.fullmatch(text) is None:
            raise self.error(f"expected a number, found {truncate_text(text, 60)!r}")
        return int(text)

    def model_value(self) -> ModelValue:
        name = self.text()
        found = self.lexicon.model_values.get(name)
        if found is None:
            raise self.error(f"there is no model value {name!r}")
        return found

    def symbol(self) -> Enum:
        return self.member(lambda member: str(member.value) if isinstance(member, Symbol) else None)

    def enum_member(self) -> Enum:
        return self.member(lambda member: None if isinstance(member, Symbol) else member.name)

    def member(self, called: Callable[[Enum], str | None]) -> Enum:
        kind = self.text()
        cls, name = self.lexicon.symbols.get(kind), self.text()
        if cls is None:
            raise self.error(f"there is no enum called {kind!r}")
        for member in cls:
            if called(member) == name:
                return member
        raise self.error(f"{kind} has no member {name!r}")

    def record(self) -> Record:
        kind = self.text()
        cls = self.lexicon.records.get(kind)
        if cls is None:
            raise self.error(f"there is no record class called {kind!r}")
        names = field_names(cls)
        if self.length() != len(names):
            raise self.error(f"expected the {len(names)} fields of {kind}: {', '.join(names) or 'none'}")
        return cls(*[self.value() for _ in names])

    def sequence(self) -> tuple[Value, ...]:
        return tuple([self.value() for _ in range(self.length())])

    def ascending(self, read: Callable[[], T]) -> list[T]:
        """Read the elements of a set, or the pairs of a map; raise DecodingError unless their encodings ascend."""
        found, before = [], b""
        for _ in range(self.length()):
            start = self.at
            found.append(read())
            encoding = self.data[start : self.at]
            if encoding <= before:
                raise self.error("elements out of order or duplicate")
            before = encoding
        return found

    def pair(self) -> tuple[Value, Value]:
        return self.value(), self.value()

    def set(self) -> frozenset[Value]:
        return self.whole(frozenset, self.ascending(self.value))

    def map(self) -> Map[Value, Value]:
        return self.whole(Map, self.ascending(self.pair))

    def whole(self, kind: Callable[[list[T]], C], items: list[T]) -> C:
        """Return the collection `kind(items)`; raise DecodingError if items are equal in Python, as 1 and True are."""
        found = kind(items)
        if len(found) != len(items):
            raise self.error("duplicate element")
        return found


_READER_OF_TAG: dict[bytes, Any] = {
    b"T": lambda reader: True,
    b"F": lambda reader: False,
    b"i": _ValueReader.number,
    b"s": _ValueReader.text,
    b"m": _ValueReader.model_value,
    b"y": _ValueReader.symbol,
    b"e": _ValueReader.enum_member,
    b"N": lambda reader: None,
    b"r": _ValueReader.record,
    b"(": _ValueReader.sequence,
    b"{": _ValueReader.set,
    b"[": _ValueReader.map,
}
