"""Whether a value is of the type that an annotation names, and how to say what that type is to a person."""

from __future__ import annotations

import types
from collections.abc import Callable
from functools import cache
from typing import Any, Union, get_args, get_origin

from kraftcheck.spec.display import cut
from kraftcheck.spec.values import Map, ModelValue, Record, Symbol, Value, field_types

SCALARS = {int: "a number", bool: "TRUE or FALSE", str: "a string", ModelValue: "a model value"}


def describe_type(kind: Any) -> str:
    """Return a few words for a type: "a set of model values" for `frozenset[ModelValue]`."""
    if kind in SCALARS:
        return SCALARS[kind]
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is frozenset:
        return f"a set of {_plural(describe_type(arguments[0]))}"
    if origin is tuple:
        return f"a sequence of {_plural(describe_type(arguments[0]))}"
    if origin is Map:
        return f"a map from {_plural(describe_type(arguments[0]))} to {_plural(describe_type(arguments[1]))}"
    if origin in (Union, types.UnionType):
        return " or ".join(describe_type(argument) for argument in arguments)
    return f"a {kind.__name__}" if isinstance(kind, type) else "a value"


def _plural(phrase: str) -> str:
    return phrase.removeprefix("a ").removeprefix("an ") + ("s" if phrase.startswith("a") else "")


def describe_value(value: Value) -> str:
    """Return a few words for what a value is, with the value where it is short."""
    shown = cut(repr(value), 60)
    kind = type(value)
    if kind is bool:
        return str(value).upper()
    if kind in SCALARS:
        return f"{SCALARS[kind]}, {shown}"
    if kind is frozenset:
        return f"the set {{{', '.join(sorted(map(repr, value)))}}}"
    return f"{shown} of type {kind.__name__}"


def mismatch(value: Value, kind: Any, path: str = "") -> str | None:
    """Say where a value is not of a type.

    Parameters
    ----------
    value
        What was found.
    kind
        A type as an annotation gives it: a scalar, a `Record`, a `Symbol` class, `frozenset[T]`, `tuple[T, ...]`,
        `tuple[A, B]`, `Map[K, V]`, a union, or `Any`.
    path
        What the value is called, for the message.

    Returns
    -------
    str or None
        "log[2].epoch: expected a number, found ...", or None where the value is of the type.
    """
    return None if _checker(kind)(value) else _explain(value, kind, path)


def _explain(value: Value, kind: Any, path: str) -> str | None:
    """Say where a value is not of a type; slower than to find out whether it is."""
    if kind is Any or kind is object:
        return _not_a_value(value, path)
    origin = get_origin(kind)
    if origin is None:
        return _plain_mismatch(value, kind, path)
    arguments = get_args(kind)
    if origin in (Union, types.UnionType):
        if any(mismatch(value, argument, path) is None for argument in arguments):
            return None
        return _wrong(value, kind, path)
    if type(value) is not origin:
        return _wrong(value, kind, path)
    if origin is frozenset:
        return _first(mismatch(item, arguments[0], f"an element of {path}") for item in value)
    if origin is tuple:
        kinds = arguments[:1] * len(value) if arguments[-1] is Ellipsis else arguments
        if len(kinds) != len(value):
            return f"{path}: expected {len(kinds)} elements, found {len(value)}"
        return _first(mismatch(item, kinds[i], f"{path}[{i + 1}]") for i, item in enumerate(value))
    if origin is Map:
        return _first(mismatch(key, arguments[0], f"a key of {path}") for key in value) or _first(
            mismatch(item, arguments[1], f"{path}[{key!r}]") for key, item in value.items()
        )
    return None


def _plain_mismatch(value: Value, kind: Any, path: str) -> str | None:
    if kind in SCALARS or not isinstance(kind, type):
        return None if type(value) is kind or not isinstance(kind, type) else _wrong(value, kind, path)
    if not isinstance(value, kind):
        return _wrong(value, kind, path)
    if isinstance(value, Record):
        types_of = field_types(type(value))
        return _first(mismatch(getattr(value, name), types_of[name], _join(path, name)) for name in types_of)
    if issubclass(kind, Symbol):
        return None
    return _not_a_value(value, path)


Check = Callable[[Any], bool]


@cache
def _checker(kind: Any) -> Check:
    """Return a function that says whether a value is of a type."""
    if kind is Any or kind is object:
        return lambda value: _not_a_value(value, "") is None
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is None:
        return _plain_checker(kind)
    if origin in (Union, types.UnionType):
        choices = [_checker(argument) for argument in arguments]
        return lambda value: any(check(value) for check in choices)
    if origin is frozenset:
        element = _checker(arguments[0])
        return lambda value: type(value) is frozenset and all(map(element, value))
    if origin is tuple:
        return _tuple_checker(arguments)
    if origin is Map:
        key, item = map(_checker, arguments)
        return lambda value: type(value) is Map and all(key(k) and item(v) for k, v in value.items())
    return lambda value: type(value) is origin


def _tuple_checker(arguments: tuple[Any, ...]) -> Check:
    if arguments[-1] is Ellipsis:
        element = _checker(arguments[0])
        return lambda value: type(value) is tuple and all(map(element, value))
    elements = [_checker(argument) for argument in arguments]
    return lambda value: (
        type(value) is tuple
        and len(value) == len(elements)
        and all(check(item) for check, item in zip(elements, value, strict=True))
    )


def _plain_checker(kind: Any) -> Check:
    if not isinstance(kind, type):
        return lambda value: True
    if kind in SCALARS:
        return lambda value: type(value) is kind
    if issubclass(kind, Record):
        return lambda value: isinstance(value, kind) and _has_good_fields(value)
    return lambda value: _plain_mismatch(value, kind, "") is None


def _has_good_fields(record: Record) -> bool:
    """Whether every field is of its type; remembered, since records do not change."""
    known = record.__dict__
    if "_well_typed" in known:
        return True
    cls: Any = type(record)
    for name, check in _field_checkers(cls):
        if not check(known[name]):
            return False
    known["_well_typed"] = True
    return True


@cache
def _field_checkers(cls: Any) -> list[tuple[str, Check]]:
    return [(name, _checker(kind)) for name, kind in field_types(cls).items()]


def _not_a_value(value: Value, path: str) -> str | None:
    if type(value) in SCALARS or isinstance(value, Symbol):
        return None
    if isinstance(value, Record):
        return _plain_mismatch(value, type(value), path)
    if type(value) in (tuple, frozenset):
        return _first(_not_a_value(item, f"an element of {path}") for item in value)
    if isinstance(value, Map):
        return _first(_not_a_value(item, f"an item of {path}") for pair in value.items() for item in pair)
    return f"{path}: {value!r} of type {type(value).__name__} is not a value that a state may hold"


def _wrong(value: Value, kind: Any, path: str) -> str:
    return f"{path}: expected {describe_type(kind)}, found {describe_value(value)}"


def _first(messages: Any) -> str | None:
    return next((message for message in messages if message is not None), None)


@cache
def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name
