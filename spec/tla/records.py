"""Encodes a protocol's values as TLA+ values, and says what the fields of its records are called in TLA+.

A record becomes a TLA+ record whose field names are those of the class in camel case. A class may declare otherwise:

``tla_prefix``
    A prefix of every field's name: with ``"m"``, `last_log_epoch` is ``mlastLogEpoch``.
``tla_snake_case``
    Whether fields are called as in Python instead.
``tla_names``
    From a field to its whole name, if that is another.
``tla_constants``
    Fields that all records of the class have with the same values, such as ``mtype``.
"""

from __future__ import annotations

import enum
import json
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from kraftcheck.spec.display import cut
from kraftcheck.spec.kinds import SCALARS
from kraftcheck.spec.tla.formatting import one_line
from kraftcheck.spec.tla.parsing import as_function, as_name
from kraftcheck.spec.values import Map, ModelValue, Record, Value, field_names, field_types

SHOWN = 60
"""The most characters of a value that an error quotes."""

NAMED = 20
"""The most names that an error lists."""


def camel(name: str) -> str:
    """Return a field's name in TLA+: `lastLogEpoch` for `last_log_epoch`."""
    first, *rest = name.split("_")
    return first + "".join(word[:1].upper() + word[1:] for word in rest)


def quoted_value(value: Value) -> str:
    """Return a TLA+ value, or one read from JSON, as text for an error message."""
    try:
        text = "null" if value is None else one_line(value)
    except TypeError:
        text = json.dumps(value, default=str)
    return cut(text, SHOWN)


def few(names: Iterable[str]) -> str:
    """Return a list of names for an error message: not too many, and none too long."""
    listed = [cut(name, SHOWN) for name in names]
    more = len(listed) - NAMED
    return ", ".join(listed[:NAMED]) + (f" and {more:,} more" if more > 0 else "")


def tla_names(cls: type[Record]) -> dict[str, str]:
    """Return the TLA+ names of a record class's fields, by attribute."""
    prefix: str = getattr(cls, "tla_prefix", "")
    given: Mapping[str, str] = getattr(cls, "tla_names", {})
    cased: Callable[[str], str] = str if getattr(cls, "tla_snake_case", False) else camel
    return {name: given.get(name, prefix + cased(name)) for name in field_names(cls)}


def subclasses(cls: type[Record]) -> list[type[Record]]:
    """Return all classes derived from a record class, in the order of their definition.

    Of a class that was defined again, as when a user's file is loaded twice, the last definition counts.
    """
    found: dict[tuple[str, str], type[Record]] = {}
    for child in cls.__subclasses__():
        for one in (child, *subclasses(child)):
            found[one.__module__, one.__qualname__] = one
    return list(found.values())


def _looks_like_another(cls: type[Record]) -> bool:
    """Whether a class has the same fields as one defined before it that derives from the same class."""
    for base in cls.__bases__:
        family = subclasses(base) if issubclass(base, Record) and base is not Record else []
        earlier = family[: family.index(cls)] if cls in family else []
        if any(_fields(other) == _fields(cls) for other in earlier):
            return True
    return False


def _fields(cls: type[Record]) -> dict[str, object]:
    try:
        return {**field_types(cls)}
    except NameError:  # a class defined within a function
        return dict.fromkeys(field_names(cls))


class Encoder:
    """Encodes a protocol's values as TLA+ values.

    `messages`: the classes of messages. One without `tla_constants` gets a field `type` with its name, as in textbook
    specifications. So does a class with the same fields as one defined before it that derives from the same class.
    """

    def __init__(self, messages: Iterable[type[Record]], symbols: Mapping[enum.Enum, ModelValue]) -> None:
        self._messages = frozenset(messages)
        self._symbols = symbols
        self._known: dict[Record, Value] = {}
        self._constants: dict[type[Record], dict[str, Value]] = {}

    def constants(self, cls: type[Record]) -> dict[str, Value]:
        """Return the fields that are the same in all records of a class."""
        found = self._constants.get(cls)
        if found is None:
            declared = getattr(cls, "tla_constants", None)
            if declared is None:
                tagged = (cls in self._messages or _looks_like_another(cls)) and "type" not in tla_names(cls).values()
                declared = {"type": cls.__name__} if tagged else {}
            found = self._constants[cls] = {name: self.encode(value) for name, value in declared.items()}
        return found

    def encode(self, value: Value) -> Value:
        """Return a value as `kraftcheck.spec.tla.parsing` reads it: records as maps, symbols as model values."""
        kind = type(value)
        if kind in SCALARS:
            return value
        if value is None or isinstance(value, enum.Enum):
            found = None if value is None else self._symbols.get(value)
            return as_name(value) if found is None else found
        if kind is tuple:
            return tuple([self.encode(item) for item in value])
        if kind is frozenset:
            return frozenset([self.encode(item) for item in value])
        if isinstance(value, Map):
            return as_function({self.encode(key): self.encode(item) for key, item in value.items()})
        if not isinstance(value, Record):
            raise TypeError(f"{value!r} of type {kind.__name__} is not a value")
        known = self._known.get(value)
        if known is None:
            names = tla_names(type(value))
            fields = {name: self.encode(getattr(value, attribute)) for attribute, name in names.items()}
            known = self._known[value] = as_function({**self.constants(type(value)), **fields})
        return known


class Shape(NamedTuple):
    """The fields of a record class in TLA+."""

    cls: type[Record]
    names: dict[str, str]
    constants: dict[str, Value]

    @property
    def fields(self) -> frozenset[str]:
        """Names of all fields."""
        return frozenset((*self.names.values(), *self.constants))
