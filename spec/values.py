"""The immutable values of states, with a canonical order, and their text.

An atomic value is an int, a bool, a string, None, a model value or an enum member. Records, tuples, frozensets and maps
of values are values too. Values are hashable. The canonical order and encoding are independent of the process, of the
order of discovery and of PYTHONHASHSEED.
"""

from __future__ import annotations

import dataclasses
import enum
import inspect
import re
from collections import defaultdict
from collections.abc import Callable, ItemsView, Iterable, Iterator, Mapping, Sequence, ValuesView
from functools import cache, partialmethod, reduce
from operator import itemgetter, or_
from types import UnionType
from typing import (
    TYPE_CHECKING,
    Any,
    ClassVar,
    Final,
    Literal,
    Self,
    TypeVar,
    Union,
    dataclass_transform,
    get_args,
    get_origin,
    get_type_hints,
)

from kraftcheck.spec.errors import ProtocolError

Value = Any
"""A value: a recursive union that mypy cannot express. `kraftcheck.spec.type_checks` checks it at run time."""

K = TypeVar("K")
V = TypeVar("V", covariant=True)
A = TypeVar("A")
T = TypeVar("T")

_VALID_NAME = re.compile(r"\w*[A-Za-z]\w*", re.ASCII)


def memoize(function: Callable[[A], T]) -> Callable[[A], T]:
    """Memoize a function of one argument; typed for mypy, which rejects classes as hashable arguments."""
    return cache(function)


class ModelValue:
    """An uninterpreted constant of a `.cfg`, such as a host: equal to itself alone.

    Parameters
    ----------
    name
        The name in the `.cfg`. Model values with equal names are equal.
    index
        The rank by first occurrence in the `.cfg`, as in TLC.
        It determines the canonical order, not equality.
    """

    __slots__ = ("_hash", "index", "name")

    def __init__(self, name: str, index: int = 0) -> None:
        self.name, self.index = name, index
        self._hash = hash(("ModelValue", name))

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, ModelValue) and self.name == other.name)

    def __hash__(self) -> int:
        return self._hash

    def __repr__(self) -> str:
        return self.name

    def __reduce__(self) -> tuple[type[ModelValue], tuple[str, int]]:
        return (ModelValue, (self.name, self.index))


class Symbol(enum.Enum):
    """A constant that the protocol itself names, such as a role or an error code.

    Subclass it, and assign each member its name in TLA+ and in the `.cfg`.
    """

    __hash__ = object.__hash__  # members are singletons; Enum's own hash is slow

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        refuse_enum_equality_override(cls)

    def __repr__(self) -> str:
        return str(self.value)

    def __str__(self) -> str:
        return str(self.value)


def is_enum(kind: Any) -> bool:
    """Whether a type is an enum whose members are values: a `Symbol`, or any `enum.Enum` that is not a `Flag`."""
    return isinstance(kind, type) and issubclass(kind, enum.Enum) and not issubclass(kind, enum.Flag)


@memoize
def enum_members_by_name(kind: type[enum.Enum]) -> dict[str, enum.Enum]:
    """Return the members of an enum, by their names in texts, in TLA+ and in a `.cfg`.

    A member is called by its value where all values of the enum are names, such as `"white"`; else by its name.

    >>> class Level(enum.Enum):
    ...     LOW = enum.auto()
    >>> enum_members_by_name(Level)
    {'LOW': <Level.LOW: 1>}
    """
    if issubclass(kind, Symbol) or all(isinstance(one.value, str) and _VALID_NAME.fullmatch(one.value) for one in kind):
        return {str(member.value): member for member in kind}
    return {member.name: member for member in kind}


@memoize
def _texts_by_member_name(kind: type[enum.Enum]) -> dict[str, str]:
    return {member.name: name for name, member in enum_members_by_name(kind).items()}


def enum_name(member: enum.Enum) -> str:
    """Return the name of an enum member in texts, in TLA+ and in a `.cfg`: see `enum_members_by_name`."""
    return _texts_by_member_name(type(member))[member.name]


@dataclass_transform(frozen_default=True)
class Record:
    """An immutable record with named, typed fields: a replica's state, a message, the shared state, a log entry.

    Subclasses declare fields as annotations, as in a dataclass:

    >>> class Point(Record):
    ...     x: int
    ...     y: int = 0
    >>> Point(1).but(y=2)
    Point(x=1, y=2)
    """

    _quiet: ClassVar[tuple[str, ...]] = ()
    _is_exact: ClassVar[bool] = False  # whether it contains only records, whose equality distinguishes 1 from True
    _is_plain: ClassVar[bool] = True  # whether construction only sets the fields
    _well_typed: ClassVar[bool] = False  # whether the fields of a record have been checked; true in its `__dict__`

    def __init_subclass__(cls, quiet: tuple[str, ...] = (), **options: Any) -> None:
        super().__init_subclass__(**options)
        cls._quiet = (*cls._quiet, *quiet)
        for name, annotation in vars(cls).get("__annotations__", {}).items():
            kind = type(vars(cls).get(name))
            if kind in IMMUTABLE_TYPE_OF and "ClassVar" not in str(annotation):
                raise TypeError(
                    f"{cls.__name__}.{name}: a {kind.__name__} can change; write a {IMMUTABLE_TYPE_OF[kind]}"
                )
            if is_enum(kind):
                refuse_enum_equality_override(kind)
        refuse_overridden_methods(cls)
        cls._is_plain &= not hasattr(cls, "__post_init__") and not {"__init__", "__new__"} & vars(cls).keys()
        dataclasses.dataclass(frozen=True, eq=False, repr=False)(cls)
        refuse_field_options(cls)

    def but(self, **changes: Value) -> Self:
        """Return a copy with the named fields changed.

        Raises
        ------
        TypeError
            If a name is not a field.
        """
        names = field_names(type(self))
        for name in changes:
            if name not in names:
                raise TypeError(f"{type(self).__name__} has no field {name!r}; its fields are {', '.join(names)}")
        current = self.__dict__
        if not self._is_plain:
            return type(self)(*[changes[name] if name in changes else current[name] for name in names])
        made = object.__new__(type(self))
        known = made.__dict__
        for name in names:
            known[name] = current[name]
        known.update(changes)
        if "_well_typed" in current:
            known["_unchecked"] = tuple(changes)
        elif "_unchecked" in current:
            known["_unchecked"] = (*current["_unchecked"], *changes)
        return made

    if not TYPE_CHECKING:  # else type checkers would accept any name as a field

        def __getattr__(self, name: str) -> Any:
            kind = type(self)
            if name.startswith("_"):
                raise AttributeError(f"{kind.__name__!r} object has no attribute {name!r}")
            known = ", ".join(field_names(kind))
            raise AttributeError(f"{kind.__name__} has no field {name!r}; its fields are {known}")

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if type(self) is not type(other):
            return NotImplemented  # a proxy of a record may define equality
        if hash(self) != hash(other):
            return False
        values = _fields_getter(type(self))
        mine, others = values(self.__dict__), values(other.__dict__)
        return mine == others and (not _fields_may_conflate_values(type(self)) or same_types(mine, others))

    def __hash__(self) -> int:
        try:
            return self.__dict__["_hash"]  # type: ignore[no-any-return]
        except KeyError:
            result = hash((type(self).__qualname__, *field_values(self)))
            self.__dict__["_hash"] = result
            return result

    def __getstate__(self) -> dict[str, Value]:
        return {name: value for name, value in self.__dict__.items() if name[0] != "_"}

    def __repr__(self) -> str:
        inner = ", ".join(f"{name}={getattr(self, name)!r}" for name in field_names(type(self)))
        return f"{type(self).__name__}({inner})"


def with_fields(record: Record, changes: Sequence[tuple[str, Value]]) -> Any:
    """Return a copy of a record with fields changed to values of their types, which are not checked again."""
    kind = type(record)
    if not kind._is_plain:
        return record.but(**dict(changes))
    made = object.__new__(kind)
    known, current = made.__dict__, record.__dict__
    for name in field_names(kind):
        known[name] = current[name]
    known.update(changes)
    if "_well_typed" in current:
        known["_well_typed"] = True
    return made


@memoize
def field_names(cls: type[Record]) -> tuple[str, ...]:
    """Return the field names of a record class, in order of declaration."""
    refuse_replaced_equality(cls, Record)
    return tuple(field.name for field in dataclasses.fields(cls))  # type: ignore[arg-type]


def shown_field_names(record: Record) -> tuple[str, ...]:
    """Return the fields to show in texts: a quiet field only if it differs from its default."""
    names, kind = field_names(type(record)), type(record)
    return tuple(n for n in names if n not in kind._quiet or getattr(record, n) != getattr(kind, n))


@memoize
def type_hints(cls: type) -> Mapping[str, Any]:
    """Return the resolved annotations of a class and its bases."""
    return {name: _type_without_aliases(kind) for name, kind in get_type_hints(cls).items()}


def _type_without_aliases(kind: Any) -> Any:
    """Return a type as values have it: without aliases, Final, type variables and the parameters of a record."""
    alias = getattr(kind, "__supertype__", None) or getattr(kind, "__value__", None)  # a NewType, a `type` statement
    if alias is not None:
        return _type_without_aliases(alias)
    if isinstance(kind, TypeVar):
        return Any
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is Final:
        return _type_without_aliases(arguments[0])
    if isinstance(origin, type) and issubclass(origin, Record):
        return origin
    plain = arguments if origin in (None, Literal, ClassVar) else tuple(map(_type_without_aliases, arguments))
    if plain == arguments:
        return kind
    return Union[plain] if origin is UnionType else origin[plain]  # noqa: UP007 - of a tuple


@memoize
def field_types(cls: type[Record]) -> dict[str, Any]:
    """Return the resolved field types of a record class, in order of declaration."""
    hints = type_hints(cls)
    return {name: hints[name] for name in field_names(cls)}


def field_values(record: Record) -> tuple[Value, ...]:
    """Return the field values of a record, in order of declaration."""
    return _fields_getter(type(record))(record.__dict__)


@memoize
def _fields_getter(cls: type[Record]) -> Callable[[dict[str, Value]], tuple[Value, ...]]:
    names = field_names(cls)
    if len(names) > 1:
        return itemgetter(*names)
    return lambda values: tuple([values[name] for name in names])


@memoize
def _fields_may_conflate_values(cls: type[Record]) -> bool:
    try:
        return not cls._is_exact and any(map(may_conflate_values, field_types(cls).values()))
    except NameError:
        return True


def may_conflate_values(kind: Any) -> bool:
    """Whether a type admits distinct values that are equal in Python, as 1 and True are."""
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is None:
        return not isinstance(kind, type) or kind in (Any, object, tuple, frozenset, Map)
    if origin is Literal:
        return len(set(map(type, arguments))) > 1
    if origin not in (Union, UnionType):
        return any(map(may_conflate_values, set(arguments) - {Ellipsis}))
    like = [base for one in arguments for base in (int, str) if isinstance(one, type) and issubclass(one, base)]
    plain, inside = [one for one in arguments if get_origin(one) is None], defaultdict[Any, set[Any]](set)
    for one in arguments:
        inside[get_origin(one)] |= set(get_args(one)) - {Ellipsis}
    has_literals = inside.pop(Literal, None) is not None
    alike = [reduce(or_, items) for items in inside.values() if items]  # (1,) == (True,): items of one container
    return has_literals or len(set(like)) < len(like) or any(map(may_conflate_values, [*plain, *alike]))


def same_types(one: Value, other: Value) -> bool:
    """Return whether equal values have equal types at every level: 1 and True are equal in Python."""
    if one is other or isinstance(one, Record):  # Record.__eq__ compares types too
        return True
    kind = type(one)
    if kind is not type(other):
        return False
    if kind is tuple:
        return all(map(same_types, one, other))
    if kind is frozenset and all(map(_equals_only_its_type, one)):
        return True
    if kind is Map and all(map(_equals_only_its_type, one)):
        return all(same_types(item, other[key]) for key, item in one.items())
    return bool(type_distinguishing_key(one) == type_distinguishing_key(other))


def _equals_only_its_type(value: Value) -> bool:
    """Whether all values equal to a value are of its type."""
    return type(value) is ModelValue or isinstance(value, Record)


def type_distinguishing_key(value: Value) -> Any:
    """Return a dict key that distinguishes values equal in Python, such as 1 and True."""
    kind = type(value)
    if kind is int or kind is bool or kind is str:  # most values
        return kind, value
    if kind is tuple or kind is frozenset:
        return kind, kind(map(type_distinguishing_key, value))
    if isinstance(value, Map):
        return kind, frozenset(
            [(type_distinguishing_key(key), type_distinguishing_key(item)) for key, item in value.items()]
        )
    return kind, value


_NOT_FORWARDED_SPECIALS = {
    *("__delattr__", "__eq__", "__getattr__", "__hash__", "__init__", "__new__", "__post_init__", "__replace__"),
    *("__dict__", "__doc__", "__repr__", "__setattr__", "__weakref__"),
}
"""Special names that proxies define, or that Python or a dataclass adds to a class and no handler calls."""


@memoize
def proxy_class_forwarding_dunders(classes: tuple[type, type[Record]]) -> Any:
    """Return a proxy class with a record class's special methods, which Python looks up on the class."""
    proxy, record_type = classes
    bases = [base for base in reversed(record_type.__mro__) if base not in Record.__mro__]
    own = {name: value for base in bases for name, value in vars(base).items() if name[:2] == "__"}
    # Each may be a descriptor or another callable; None takes a method away.
    specials = {
        name
        for name in own.keys() - _NOT_FORWARDED_SPECIALS
        if own[name] is None or callable(own[name]) or _is_descriptor(own[name])
    }
    methods = {name: None if own[name] is None else partialmethod(_forward_to_whole_value, name) for name in specials}
    return type(proxy.__name__, (proxy,), {"__slots__": (), **methods}) if methods else proxy


def _is_descriptor(value: Any) -> bool:
    return hasattr(type(value), "__get__")


def _forward_to_whole_value(proxy: Any, name: str, *arguments: Any, **named: Any) -> Any:
    return getattr(proxy.__whole__(), name)(*arguments, **named)


class Map(Mapping[K, V]):
    """An immutable map, the function of TLA+.

    >>> Map({"a": 1}).put("b", 2)["b"]
    2
    """

    __slots__ = ("_fitted", "_hash", "_items")

    def __init__(self, items: Mapping[K, V] | Iterable[tuple[K, V]] = ()) -> None:
        self._items: dict[K, V] = dict(items)
        self._hash: int | None = None
        self._fitted: object = None  # the check of types that it last passed

    def __getitem__(self, key: K) -> V:
        return self._items[key]

    def __iter__(self) -> Iterator[K]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    def __contains__(self, key: object) -> bool:
        return key in self._items

    def items(self) -> ItemsView[K, V]:
        """Return a view of the pairs (key, value)."""
        return self._items.items()

    def values(self) -> ValuesView[V]:
        """Return a view of the values."""
        return self._items.values()

    def put(self, key: K, value: V) -> Map[K, V]:  # type: ignore[misc]
        """Return a copy of the map in which `key` maps to `value`."""
        copy: Map[K, V] = Map(self._items)
        copy._items[key] = value
        return copy

    def __or__(self, other: Mapping[K, V]) -> Map[K, V]:
        return Map({**self._items, **other})

    def without(self, key: K) -> Map[K, V]:
        """Return a copy of the map without `key`."""
        return Map({k: v for k, v in self._items.items() if k != key})

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return isinstance(other, Map) and hash(self) == hash(other) and self._items == other._items

    def __hash__(self) -> int:
        if self._hash is None:
            self._hash = hash(frozenset(self._items.items()))
        return self._hash

    def __reduce__(self) -> tuple[type[Map[K, V]], tuple[dict[K, V]]]:
        return (Map, (self._items,))

    def __repr__(self) -> str:
        inner = ", ".join(f"{key!r}: {self._items[key]!r}" for key in ordered(self._items))
        return f"Map({{{inner}}})"


def order_key(value: Value) -> tuple[Any, ...]:
    """Return the sort key of a value in the canonical order.

    The order is TLC's where TLC defines one: numbers by size, model values by first occurrence in the `.cfg`. Sets and
    sequences are ordered by size, then by elements; enum members by declaration. Values of different kinds are ordered
    by kind, None first.
    """
    kind = type(value)
    if kind is bool:
        return (0, value)
    if kind is int:
        return (1, value)
    if kind is str:
        return (2, value)
    if kind is ModelValue:
        return (3, value.index, value.name)
    if isinstance(value, enum.Enum) and is_enum(kind):
        return (4, kind.__qualname__, _enum_declaration_ranks(kind)[value.name])
    if kind is tuple:
        return (5, len(value), tuple(map(order_key, value)))
    if isinstance(value, frozenset):
        return (6, len(value), tuple(sorted(map(order_key, value))))
    if isinstance(value, Record):
        if (known := value.__dict__.get("_order")) is None:
            known = (7, kind.__qualname__, kind.__module__, tuple(map(order_key, field_values(value))))
            value.__dict__["_order"] = known
        return known
    if isinstance(value, Map):
        return (8, len(value), tuple(sorted((order_key(k), order_key(v)) for k, v in value.items())))
    if value is None:
        return (-1,)
    raise TypeError(f"{value!r} of type {kind.__name__} is not a value")


@memoize
def _enum_declaration_ranks(kind: type[enum.Enum]) -> dict[str, int]:
    return {member.name: number for number, member in enumerate(kind)}


def ordered(values: Iterable[T]) -> list[T]:
    """Return values sorted in canonical order, for actions that iterate over a set.

    >>> ordered(frozenset({3, 1, 2}))
    [1, 2, 3]
    """
    return sorted(values, key=order_key)


def map_model_values(value: Value, leaf: Callable[[Value], Value]) -> Value:
    """Return a value with a function applied to every model value in it, such as a symmetry permutation."""
    kind = type(value)
    if kind is ModelValue:
        return leaf(value)
    if kind is tuple:
        return tuple([map_model_values(item, leaf) for item in value])
    if kind is frozenset:
        return frozenset([map_model_values(item, leaf) for item in value])
    if isinstance(value, Record):
        return kind(*[map_model_values(item, leaf) for item in field_values(value)])
    if isinstance(value, Map):
        return Map([(map_model_values(k, leaf), map_model_values(v, leaf)) for k, v in value.items()])
    return value


# Forbidden features of classes

IMMUTABLE_TYPE_OF: dict[Any, str] = {list: "tuple", set: "frozenset", dict: "Map", bytearray: "tuple of numbers"}
"""The immutable replacement for each mutable collection."""

_EQUALITY_METHODS = ("__eq__", "__ne__", "__hash__")
_ORDER_METHODS = ("__lt__", "__le__", "__gt__", "__ge__")
_ACCESS_METHODS = ("__getattribute__", "__setattr__", "__delattr__", "__slots__")
_OWN_MODULES = ("abc", "builtins", "enum", "typing", "kraftcheck.spec.values")
_BY_FIELDS_REASON = "records are compared by all their fields, or states would be merged"
_BY_IDENTITY_REASON = "members of an enum are compared by identity, or states would be merged"


def refuse_overridden_methods(record_type: type) -> None:
    """Raise ProtocolError if a record class, or a mixin of it, overrides comparison or attribute access."""
    _refuse_overrides(record_type, (*_EQUALITY_METHODS, *_ORDER_METHODS, *_ACCESS_METHODS), _BY_FIELDS_REASON)


def refuse_enum_equality_override(kind: type) -> None:
    """Raise ProtocolError if an enum overrides equality of its members."""
    _refuse_overrides(kind, _EQUALITY_METHODS, _BY_IDENTITY_REASON)


def refuse_field_options(record_type: type) -> None:
    """Raise ProtocolError if a field has a mutable default, or changes `compare`, `hash`, `init` or `kw_only`."""
    for field in dataclasses.fields(record_type):
        factory, problem = field.default_factory, None
        if factory is not dataclasses.MISSING and (kind := type(factory())) in IMMUTABLE_TYPE_OF:
            problem = f"a {kind.__name__} can change; write a {IMMUTABLE_TYPE_OF[kind]}"
        for option, usual in (("compare", True), ("hash", None), ("init", True), ("kw_only", False)):
            if (found := getattr(field, option)) is not usual:
                problem = f"field({option}={found}): {_BY_FIELDS_REASON}, which are given in order; remove the option"
        if problem is not None:
            raise ProtocolError(f"{_location_prefix(record_type)}{record_type.__qualname__}.{field.name}: {problem}")


def refuse_replaced_equality(record_type: type, base: type) -> None:
    """Raise ProtocolError if a decorator replaced the equality of a record class."""
    if record_type.__eq__ is not base.__eq__ or record_type.__hash__ is not base.__hash__:
        what = f"{_BY_FIELDS_REASON}; remove the method, or the decorator that adds it"
        raise ProtocolError(f"{_location_prefix(record_type)}{record_type.__qualname__}.__eq__: {what}")


def _refuse_overrides(cls: type, names: Iterable[str], reason: str) -> None:
    for base in cls.__mro__:
        if base is not cls and (dataclasses.is_dataclass(base) or base.__module__ in _OWN_MODULES):
            continue
        for name in names:
            if name in vars(base):
                raise ProtocolError(
                    f"{_location_prefix(base, vars(base)[name])}{cls.__qualname__}.{name}: {reason}; remove {name}"
                )


def _location_prefix(cls: type, method: object = None) -> str:
    """Return the file and line of a method, or else of its class, with a colon; "" if unknown."""
    code = getattr(method, "__code__", None)
    if code is not None and not code.co_filename.startswith("<"):
        return f"{code.co_filename}:{code.co_firstlineno}: "
    try:
        return f"{inspect.getsourcefile(cls)}:{inspect.getsourcelines(cls)[1]}: "
    except (OSError, TypeError):
        return ""


def text_of(value: Value) -> str:
    """Return the text of a value in reports, reasons and counterexamples.

    A record is shown by its `__str__` if its class defines one, as the identity of a server does.

    >>> text_of(frozenset({2, 1})), text_of((True, "a")), text_of(Map({1: 2}))
    ('{1, 2}', '[TRUE, "a"]', '{1: 2}')
    """
    kind = type(value)
    if kind is bool:
        return "TRUE" if value else "FALSE"
    if kind is str:
        return f'"{escape_invisible(value)}"'
    if isinstance(value, enum.Enum):
        return enum_name(value)
    if kind is frozenset:
        return "{" + ", ".join(map(text_of, ordered(value))) + "}"
    if kind is tuple:
        return "[" + ", ".join(map(text_of, value)) + "]"
    if isinstance(value, Map):
        return "{" + ", ".join(f"{text_of(key)}: {text_of(value[key])}" for key in ordered(value)) + "}"
    return _record_text(value) if isinstance(value, Record) else str(value)


def _record_text(record: Record) -> str:
    kind = type(record)
    if any("__str__" in vars(base) for base in kind.__mro__[:-1]):
        return str(record)
    fields = [f"{name}={text_of(getattr(record, name))}" for name in shown_field_names(record)]
    return f"{kind.__name__}({', '.join(fields)})"


_NOT_IN_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def replace_non_xml(text: str) -> str:
    """Return text with `?` for each character that XML forbids, such as ESC."""
    return _NOT_IN_XML.sub("?", text)


def escape_invisible(text: str, keep: str = "") -> str:
    r"""Return text with control, invisible and bidirectional characters escaped."""
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() or one in keep else _escape_code(one) for one in text)


def _escape_code(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")


def or_phrase(choices: Sequence[str]) -> str:
    """Return alternatives as a phrase.

    >>> or_phrase(["a value", "','", "'}'"])
    "a value, ',' or '}'"
    """
    return " or ".join(filter(None, [", ".join(choices[:-1]), *choices[-1:]]))


def truncate_text(text: str, width: int) -> str:
    """Return text truncated to `width` characters, with `...` at the end.

    >>> truncate_text("NoIllegalState", 8)
    'NoIll...'
    """
    return text if len(text) <= width else text[: width - 3] + "..."
