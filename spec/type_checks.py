"""Type checks of values against annotations, and descriptions of types, values and mismatches."""

from __future__ import annotations

import enum
import re
import types
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache, wraps
from inspect import signature
from itertools import chain, filterfalse, repeat
from operator import attrgetter
from os import PathLike
from typing import Any, Literal, SupportsFloat, SupportsIndex, TypeVar, Union, cast, get_args, get_origin

from kraftcheck.spec.errors import InputError, ProtocolError
from kraftcheck.spec.values import (
    IMMUTABLE_TYPE_OF,
    Map,
    ModelValue,
    Record,
    Value,
    field_types,
    is_enum,
    refuse_enum_equality_override,
    truncate_text,
)

_LONE_SURROGATE = re.compile("[\ud800-\udfff]")
HINT_FOR_TYPE = {float: "; write an int"}
_is_marked_well_typed = attrgetter("_well_typed")
PHRASE_OF_SCALAR = {int: "a number", bool: "TRUE or FALSE", str: "a string", ModelValue: "a model value"}


def describe_type(kind: Any) -> str:
    """Return a short description of a type: "a set of model values" for `frozenset[ModelValue]`."""
    if kind in PHRASE_OF_SCALAR:
        return PHRASE_OF_SCALAR[kind]
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is frozenset:
        return f"a set of {_plural_phrase(describe_type(arguments[0]))}"
    if origin is tuple:
        return f"a sequence of {_plural_phrase(describe_type(arguments[0]))}"
    if origin is Map:
        return (
            f"a map from {_plural_phrase(describe_type(arguments[0]))} to {_plural_phrase(describe_type(arguments[1]))}"
        )
    if origin in (Union, types.UnionType):
        return " or ".join(map(describe_type, arguments))
    if origin is Literal:
        return " or ".join(map(describe_value, arguments))
    if kind is type(None):
        return "None"
    return f"a {kind.__name__}" if isinstance(kind, type) else "a value"


def may_be_record(kind: Any) -> bool:
    """Whether a type admits records."""
    if isinstance(kind, type) and get_origin(kind) is None:
        return kind in (Any, object) or issubclass(kind, Record)
    if get_origin(kind) in (Union, types.UnionType):
        return any(map(may_be_record, get_args(kind)))
    return get_origin(kind) is None


def _plural_phrase(phrase: str) -> str:
    return phrase.removeprefix("a ").removeprefix("an ") + ("s" if phrase.startswith("a") else "")


def describe_value(value: Value) -> str:
    """Return a short description of a value: its type and its text, truncated if long."""
    shown = truncate_text(repr(value), 60)
    kind = type(value)
    if kind is bool:
        return str(value).upper()
    if kind in PHRASE_OF_SCALAR:
        return f"{PHRASE_OF_SCALAR[kind]}, {shown}"
    if value is None:
        return "None"
    if kind in IMMUTABLE_TYPE_OF:
        return f"{shown}, a {kind.__name__}, which can change; write a {IMMUTABLE_TYPE_OF[kind]}"
    if kind is frozenset:
        return f"the set {{{', '.join(sorted(map(repr, value)))}}}"
    return f"{shown} of type {kind.__name__}"


def fits_type(value: Value, kind: Any) -> bool:
    """Return whether a value matches a type; `type_mismatch` also locates the mismatch."""
    return _checker_of_type(kind)(value)


def type_mismatch(value: Value, kind: Any, path: str = "") -> str | None:
    """Return the first mismatch between a value and a type, with its path, or None.

    `kind`: a type as in an annotation: a scalar, a `Record`, an enum, `frozenset[T]`, `tuple[T, ...]`, `tuple[A, B]`,
    `Map[K, V]`, a union, `Optional[T]`, `Literal[...]`, or `Any`.
    """
    if _checker_of_type(kind)(value):
        return None
    for part, part_kind, place in _parts_with_types(value, kind, path):
        problem = type_mismatch(part, part_kind, place)
        if problem is not None:
            return problem
    return f"{path}: {_top_level_mismatch(value, kind)}"


def _top_level_mismatch(value: Value, kind: Any) -> str:
    """Return the text of the mismatch between a value and a type, for a value without a mismatching part."""
    wanted = get_args(kind)
    if get_origin(kind) is tuple and type(value) is tuple and len(value) != len(wanted):
        return f"expected {len(wanted)} elements, found {len(value)}"
    if kind in (Any, object) or (isinstance(kind, type) and kind not in PHRASE_OF_SCALAR and isinstance(value, kind)):
        kind = type(value)
        return f"{value!r} of type {kind.__name__} is not a value that a state may hold{HINT_FOR_TYPE.get(kind, '')}"
    if kind is str and type(value) is str:
        return f"expected text, found {describe_value(value)}, with a lone surrogate"
    return f"expected {describe_type(kind)}, found {describe_value(value)}"


def _parts_with_types(value: Value, kind: Any, path: str) -> Iterator[tuple[Value, Any, str]]:
    """Yield (part, type, path) for each field or element of `value`; none if its outermost type is not `kind`."""
    untyped = kind in (Any, object)
    if isinstance(value, Record) and (untyped or (isinstance(kind, type) and isinstance(value, kind))):
        for name, field_kind in field_types(type(value)).items():
            yield getattr(value, name), field_kind, f"{path}.{name}" if path else name
    elif untyped and isinstance(value, Map):
        yield from ((item, Any, f"an item of {path}") for item in chain.from_iterable(value.items()))
    elif untyped and isinstance(value, tuple | frozenset):
        yield from ((item, Any, f"an element of {path}") for item in value)
    elif type(value) is get_origin(kind):
        yield from _elements_with_types(value, get_args(kind), path)


def _elements_with_types(value: Value, kinds: tuple[Any, ...], path: str) -> Iterator[tuple[Value, Any, str]]:
    """Yield (part, type, path) for each element of a collection whose elements have the types `kinds`."""
    if isinstance(value, frozenset):
        yield from ((item, kinds[0], f"an element of {path}") for item in value)
    elif isinstance(value, Map):
        yield from ((key, kinds[0], f"a key of {path}") for key in value)
        yield from ((item, kinds[1], f"{path}[{key!r}]") for key, item in value.items())
    elif kinds[-1:] == (Ellipsis,) or len(kinds) == len(value):
        places = zip(value, repeat(kinds[0]) if kinds[-1:] == (Ellipsis,) else kinds, strict=False)
        yield from ((item, kind, f"{path}[{number}]") for number, (item, kind) in enumerate(places, start=1))


TypePredicate = Callable[[Any], bool]


@cache
def _checker_of_type(kind: Any) -> TypePredicate:
    """Return the predicate that checks values against a type."""
    if kind is Any or kind is object:
        return _is_value
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is None:
        return _nongeneric_type_checker(kind)
    if origin in (Union, types.UnionType):
        _refuse_ambiguous_union(kind, arguments)
        return _union_checker(arguments)
    if origin is frozenset:
        return _elements_checker(frozenset, arguments[0])
    if origin is tuple:
        return _tuple_checker(arguments)
    if origin is Map:
        return _map_checker(*map(_checker_of_type, arguments))
    if origin is Literal:
        return lambda value: any(type(value) is type(choice) and value == choice for choice in arguments)
    if origin in IMMUTABLE_TYPE_OF:
        raise ProtocolError(f"a field of type {kind} can change; annotate it as a {IMMUTABLE_TYPE_OF[origin]}")
    raise ProtocolError(f"no value has the type {kind}; a map is a Map, a sequence a tuple, a set a frozenset")


def _refuse_ambiguous_union(kind: Any, arguments: tuple[Any, ...]) -> None:
    """Reject a union of types with values that are equal in Python but distinct: `1 == Level.LOW` of an IntEnum."""
    like = [(base, one) for one in arguments for base in (int, str) if isinstance(one, type) and issubclass(one, base)]
    for base in (int, str):
        mixed = [one for found, one in like if found is base]
        if len(mixed) > 1 and any(issubclass(one, enum.Enum) for one in mixed):
            names = " and ".join(one.__name__ for one in mixed)
            raise ProtocolError(f"{kind}: values of {names} may be equal in Python; make the enum an enum.Enum")


def _map_checker(key: TypePredicate, item: TypePredicate) -> TypePredicate:
    def check(value: Any) -> bool:
        if not isinstance(value, Map):
            return False
        if type(value) is not Map:  # a proxy
            return all(key(one) and item(other) for one, other in value.items())
        if value._fitted is not check and all(map(key, value)) and all(map(item, value.values())):
            value._fitted = check
        return value._fitted is check

    return check


def _union_checker(arguments: tuple[Any, ...]) -> TypePredicate:
    choices = {get_origin(one) or one: _checker_of_type(one) for one in reversed(arguments)}
    every = list(map(_checker_of_type, arguments))

    def check(value: Any) -> bool:
        own = choices.get(type(value))
        return (own is not None and own(value)) or any(one(value) for one in every)

    return check


def _elements_checker(collection: Any, kind: Any) -> TypePredicate:
    """Return the predicate of a collection. Records that were checked before, which are most, take no call."""
    element = _checker_of_type(kind)
    choices = get_args(kind) if get_origin(kind) in (Union, types.UnionType) else (kind,)
    records = {one for one in choices if isinstance(one, type) and get_origin(one) is None and issubclass(one, Record)}

    def check(value: Any) -> bool:
        if type(value) is not collection:
            return False
        if records and records.issuperset(map(type, value)):
            return all(map(element, filterfalse(_is_marked_well_typed, value)))
        return all(map(element, value))

    return check


def _tuple_checker(arguments: tuple[Any, ...]) -> TypePredicate:
    if arguments[-1:] == (Ellipsis,):
        return _elements_checker(tuple, arguments[0])
    elements = [_checker_of_type(argument) for argument in arguments]
    return lambda value: (
        type(value) is tuple
        and len(value) == len(elements)
        and all(check(item) for check, item in zip(elements, value, strict=True))
    )


def _nongeneric_type_checker(kind: Any) -> TypePredicate:
    if not isinstance(kind, type):
        return lambda value: True
    if kind in IMMUTABLE_TYPE_OF:
        raise ProtocolError(f"a field of type {kind.__name__} can change; annotate it as a {IMMUTABLE_TYPE_OF[kind]}")
    if kind is str:
        return _is_encodable_text
    if kind in PHRASE_OF_SCALAR:
        return lambda value: type(value) is kind
    if issubclass(kind, Record):
        return lambda value: isinstance(value, kind) and _has_well_typed_fields(value)
    if issubclass(kind, enum.Enum):
        refuse_enum_equality_override(kind)
    return lambda value: isinstance(value, kind) and _is_value(value)


def _is_encodable_text(value: Any) -> bool:
    """Whether a value is a string that UTF-8 can encode, without lone surrogates."""
    return type(value) is str and (value.isascii() or _LONE_SURROGATE.search(value) is None)


def _has_well_typed_fields(record: Record) -> bool:
    """Whether every field of a record matches its type; memoized on the record, and kept by its copies."""
    known = record.__dict__
    if "_well_typed" in known:
        return True
    cls: Any = type(record)
    checkers = field_checkers(cls)
    for name in known.get("_unchecked", checkers):
        if not checkers[name](known[name]):
            return False
    known["_well_typed"] = True
    return True


@cache
def field_checkers(cls: Any) -> dict[str, TypePredicate]:
    """Return for each field of a record class the predicate that checks its values."""
    try:
        kinds = field_types(cls)
    except NameError as error:
        raise ProtocolError(f"{cls.__qualname__}: the annotation of a field cannot be resolved: {error}") from None
    found = {}
    for name, kind in kinds.items():
        try:
            found[name] = _checker_of_type(kind)
        except ProtocolError as error:
            raise ProtocolError(f"{cls.__qualname__}.{name}: {error}") from None
    return found


def _is_value(value: Value) -> bool:
    if isinstance(value, Record):
        return _has_well_typed_fields(value)
    if isinstance(value, Map):
        return all(_is_value(key) and _is_value(item) for key, item in value.items())
    if type(value) in (tuple, frozenset):
        return all(map(_is_value, value))
    if type(value) is str:
        return _is_encodable_text(value)
    return value is None or type(value) in PHRASE_OF_SCALAR or is_enum(type(value))


# Arguments of public functions

Function = TypeVar("Function", bound=Callable[..., Any])

_NUMBERS: dict[Any, Any] = {int: SupportsIndex, float: SupportsFloat}  # numbers of NumPy too
_ARGUMENT_PHRASES: dict[Any, str] = {
    bool: "True or False",
    int: "a whole number",
    float: "a number",
    str: "a string",
    types.NoneType: "None",
    type: "a protocol's class",
    PathLike: "a path",
    Mapping: "a mapping",
    Callable: "a function",
    **dict.fromkeys((Iterable, Collection, Sequence), "a sequence"),
}


def check_arguments(function: Function) -> Function:
    """Make a function raise InputError for an argument that does not fit its annotation."""
    parameters = signature(function)

    @cache  # annotations are evaluated at the first call, since they may take long; that of `return` may have no module
    def types_of_parameters() -> dict[str, Any]:
        found = {name: one.annotation for name, one in parameters.parameters.items() if one.kind is not one.VAR_KEYWORD}
        return {name: eval(text, function.__globals__) for name, text in found.items() if isinstance(text, str)}

    @wraps(function)
    def checked(*given: Any, **named: Any) -> Any:
        call, kinds = parameters.bind(*given, **named), types_of_parameters()
        for name in call.arguments.keys() & kinds.keys():
            call.arguments[name] = require_fitting_argument(name, call.arguments[name], kinds[name])
        return function(*call.args, **call.kwargs)

    return cast(Function, checked)


def require_fitting_argument(name: str, value: Any, kind: Any) -> Any:
    """Return an argument that fits its annotation, an iterator as a tuple. Raise InputError for another one."""
    if isinstance(value, Iterator):  # a check of its elements would consume it
        value = tuple(value)
    misfit = _first_misfit_with_annotation(value, kind)
    if misfit is not None:
        raise InputError(
            f"argument {name}: expected {_argument_phrase(misfit[1])}, found {_found_argument_phrase(*misfit)}"
        )
    return value


def _first_misfit_with_annotation(value: Any, kind: Any) -> tuple[Any, Any] | None:
    """Return the argument, or the element of it, that does not fit, with its annotation; None if all fit."""
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        found = [_first_misfit_with_annotation(value, one) for one in arguments]
        inner = (one for one in found if one is not None and one[0] is not value)
        return None if None in found else next(inner, (value, kind))
    if kind is not Any and not _fits_outermost_type(value, kind):
        return value, kind
    parts: Iterable[tuple[Any, Any]] = ()
    if origin is Mapping:
        parts = chain(zip(value, repeat(arguments[0])), zip(value.values(), repeat(arguments[1])))
    elif origin in (Iterable, Collection, Sequence):
        parts = zip(value, repeat(arguments[0]))
    return next((one for part in parts if (one := _first_misfit_with_annotation(*part)) is not None), None)


def _fits_outermost_type(value: Any, kind: Any) -> bool:
    if get_origin(kind) is type:
        return isinstance(value, type) and issubclass(value, get_args(kind)[0])
    if kind in _NUMBERS:
        return isinstance(value, _NUMBERS[kind]) and not isinstance(value, bool)
    return isinstance(value, get_origin(kind) or kind)


def _argument_phrase(kind: Any) -> str:
    if get_origin(kind) in (Union, types.UnionType):
        return " or ".join(dict.fromkeys(map(_argument_phrase, get_args(kind))))
    kind = get_origin(kind) or kind
    return _ARGUMENT_PHRASES.get(kind) or f"a {kind.__name__}"


def _found_argument_phrase(value: Any, kind: Any) -> str:
    """Return the text of a misfit, with the remedy for a class or a method in place of an instance or a name."""
    if isinstance(value, type):
        remedy = f"; call it, {value.__name__}(...)" if isinstance(kind, type) and issubclass(value, kind) else ""
        return f"the class {value.__name__}{remedy}"
    mark = getattr(value, "property_mark", None)
    name = getattr(value if mark is None else mark.made(value.__name__, value), "name", None)
    remedy = f'; give the name "{name}"' if kind is str and isinstance(name, str) else ""
    if isinstance(value, types.FunctionType | types.MethodType):
        return f"the function {value.__qualname__}{remedy}"
    is_plain = type(value).__module__ == "builtins"
    return (truncate_text(repr(value), 60) if is_plain else f"an instance of {type(value).__name__}") + remedy
