"""Refuses what would make states equal that differ: records with an equality of their own, protocols that remember."""

from __future__ import annotations

import dataclasses
import inspect
import sys
from collections.abc import Iterable
from typing import Any

from kraftcheck.spec.errors import ProtocolError

INSTEAD: dict[Any, str] = {list: "tuple", set: "frozenset", dict: "Map", bytearray: "tuple of numbers"}
"""What to write instead of a collection that can change."""

_EQUALITY = ("__eq__", "__ne__", "__hash__")
_ORDER = ("__lt__", "__le__", "__gt__", "__ge__")
_ACCESS = ("__getattribute__", "__setattr__", "__delattr__", "__slots__")
_CALLERS = {
    ("kraftcheck.spec.language.calling", "call_action"),
    ("kraftcheck.spec.language.calling", "evaluate_property"),
    ("kraftcheck.spec.language.protocol", "projected"),
}
_OURS = ("abc", "builtins", "enum", "typing", "kraftcheck.spec.values")
_BY_FIELDS = "records are compared by all their fields, or states would be merged"
_BY_IDENTITY = "members of an enum are compared by identity, or states would be merged"


def refuse_methods(record_type: type) -> None:
    """Raise ProtocolError where a record class, or a mixin of it, defines how records are compared or read."""
    _refuse(record_type, (*_EQUALITY, *_ORDER, *_ACCESS), _BY_FIELDS)


def refuse_enum(kind: type) -> None:
    """Raise ProtocolError where an enum defines which of its members are equal."""
    _refuse(kind, _EQUALITY, _BY_IDENTITY)


def refuse_fields(record_type: type) -> None:
    """Raise ProtocolError where a field's default can change, or the field is not compared or not given in order."""
    for field in dataclasses.fields(record_type):
        factory, problem = field.default_factory, None
        if factory is not dataclasses.MISSING and (kind := type(factory())) in INSTEAD:
            problem = f"a {kind.__name__} can change; write a {INSTEAD[kind]}"
        for option, usual in (("compare", True), ("hash", None), ("init", True), ("kw_only", False)):
            if (found := getattr(field, option)) is not usual:
                problem = f"field({option}={found}): {_BY_FIELDS}, which are given in order; remove it"
        if problem is not None:
            raise ProtocolError(f"{_place(record_type)}{record_type.__qualname__}.{field.name}: {problem}")


def refuse_made_equality(record_type: type, base: type) -> None:
    """Raise ProtocolError where a decorator gave a record class another equality after it was made."""
    if record_type.__eq__ is not base.__eq__ or record_type.__hash__ is not base.__hash__:
        what = f"{_BY_FIELDS}; remove it (or the decorator)"
        raise ProtocolError(f"{_place(record_type)}{record_type.__qualname__}.__eq__: {what}")


def refuse_write(protocol: object, name: str) -> None:
    """Raise AttributeError where a method that a search calls writes an attribute of its protocol."""
    frame = sys._getframe(2)
    while frame.f_back is not None:
        if (frame.f_globals.get("__name__"), frame.f_code.co_name) in _CALLERS:
            kept = "keep it in a replica or in the shared state"
            raise AttributeError(f"{type(protocol).__name__}.{name} is written while states are searched; {kept}")
        frame = frame.f_back


def _refuse(cls: type, names: Iterable[str], reason: str) -> None:
    for base in cls.__mro__:
        if base is not cls and (dataclasses.is_dataclass(base) or base.__module__ in _OURS):
            continue
        for name in names:
            if name in vars(base):
                raise ProtocolError(f"{_place(base, vars(base)[name])}{cls.__qualname__}.{name}: {reason}; remove it")


def _place(cls: type, method: object = None) -> str:
    """Return the file and line of a method, or else of its class, with a colon; "" if unknown."""
    code = getattr(method, "__code__", None)
    if code is not None and not code.co_filename.startswith("<"):
        return f"{code.co_filename}:{code.co_firstlineno}: "
    try:
        return f"{inspect.getsourcefile(cls)}:{inspect.getsourcelines(cls)[1]}: "
    except (OSError, TypeError):
        return ""
