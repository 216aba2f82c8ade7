"""Encoding of a protocol's values as TLA+ values, and typed decoding of TLA+ values from traces.

A record becomes a TLA+ record with the class's field names in camel case. A class may override this:

``tla_prefix``
    A prefix of every field's name: with ``"m"``, `last_log_epoch` is ``mlastLogEpoch``.
``tla_snake_case``
    Whether fields keep their Python names.
``tla_names``
    From a field to its whole name.
``tla_constants``
    Fields with the same value in all records of the class, such as ``mtype``.

The type of a decoded value follows from its place: a field's annotation and, for records, the names of their fields.
Classes that may occur in one place are distinguished by fields, constants or types; if they are indistinguishable, the
first class is used.
"""

from __future__ import annotations

import enum
import json
import types
from collections.abc import Callable, Hashable, Iterable, Mapping
from contextlib import suppress
from typing import Any, Literal, NamedTuple, Union, get_args, get_origin

from kraftcheck.spec.errors import InputError
from kraftcheck.spec.tla.text import (
    IntervalElementBudget,
    TlaSyntaxError,
    format_on_one_line,
    shared_value_parser,
    tla_value_of_enum_member,
    tuple_or_map_of_function,
)
from kraftcheck.spec.type_checks import PHRASE_OF_SCALAR
from kraftcheck.spec.values import (
    Map,
    ModelValue,
    Record,
    Value,
    field_names,
    field_types,
    is_enum,
    or_phrase,
    truncate_text,
)

MAX_QUOTED_LENGTH = 60
"""Maximum length of a value in an error message."""

MAX_LISTED_NAMES = 20
"""Maximum number of names in an error message."""


def camel_case_field(name: str) -> str:
    """Return a field's name in TLA+: `lastLogEpoch` for `last_log_epoch`."""
    first, *rest = name.split("_")
    return first + "".join(word[:1].upper() + word[1:] for word in rest)


def truncated_value_text(value: Value) -> str:
    """Return a TLA+ or JSON value as text for an error message."""
    try:
        text = "null" if value is None else format_on_one_line(value)
    except TypeError:
        text = json.dumps(value, default=str)
    return truncate_text(text, MAX_QUOTED_LENGTH)


def name_list_text(names: Iterable[str]) -> str:
    """Return a list of names for an error message, truncated in number and length."""
    listed = [truncate_text(name, MAX_QUOTED_LENGTH) for name in names]
    more = len(listed) - MAX_LISTED_NAMES
    return ", ".join(listed[:MAX_LISTED_NAMES]) + (f" and {more:,} more" if more > 0 else "")


def tla_names(cls: type[Record]) -> dict[str, str]:
    """Return the TLA+ names of a record class's fields, by attribute."""
    prefix: str = getattr(cls, "tla_prefix", "")
    given: Mapping[str, str] = getattr(cls, "tla_names", {})
    cased: Callable[[str], str] = str if getattr(cls, "tla_snake_case", False) else camel_case_field
    names: dict[str, str] = {}
    for field in field_names(cls):
        name = given.get(field, prefix + cased(field))
        if name in names.values():
            raise TlaVariablesError(name, name, f"two of that name in {cls.__qualname__}", "one; set tla_names")
        names[field] = name
    return names


def subclasses(cls: type[Record]) -> list[type[Record]]:
    """Return all subclasses of a record class, in the order of definition.

    Of a class that was defined twice, as when a user file is loaded again, the last definition counts.
    """
    found: dict[tuple[str, str], type[Record]] = {}
    for child in cls.__subclasses__():
        for one in (child, *subclasses(child)):
            found[one.__module__, one.__qualname__] = one
    return list(found.values())


def _duplicates_sibling_fields(cls: type[Record]) -> bool:
    """Whether a class has the same fields as an earlier subclass of the same base."""
    for base in cls.__bases__:
        family = subclasses(base) if issubclass(base, Record) and base is not Record else []
        earlier = family[: family.index(cls)] if cls in family else []
        if any(_types_by_field(other) == _types_by_field(cls) for other in earlier):
            return True
    return False


def _types_by_field(cls: type[Record]) -> dict[str, object]:
    try:
        return {**field_types(cls)}
    except NameError:  # a class defined within a function
        return dict.fromkeys(field_names(cls))


class TlaValueEncoder:
    """Encoder of a protocol's values as TLA+ values.

    `messages`: the classes of messages. Without `tla_constants`, a class gets a field `type` with its name, as in
    textbook specifications. So does a class with the same fields as an earlier subclass of the same base.
    """

    def __init__(
        self, messages: Iterable[type[Record]], symbols: Mapping[enum.Enum, ModelValue], none: str = "None"
    ) -> None:
        self.none = ModelValue(none)
        self._messages = frozenset(messages)
        self._symbols = symbols
        self._known: dict[Record, Value] = {}
        self._constants: dict[type[Record], dict[str, Value]] = {}

    def constants(self, cls: type[Record]) -> dict[str, Value]:
        """Return the fields with a constant value, such as `type`, that a record class has in TLA+ only."""
        found = self._constants.get(cls)
        if found is None:
            declared = getattr(cls, "tla_constants", None)
            if declared is None:
                tagged = (cls in self._messages or _duplicates_sibling_fields(cls)) and "type" not in tla_names(
                    cls
                ).values()
                declared = {"type": cls.__name__} if tagged else {}
            found = self._constants[cls] = {name: self.encode(value) for name, value in declared.items()}
        return found

    def encode(self, value: Value) -> Value:
        """Return a value in the form of `kraftcheck.spec.tla.text`: records as maps, symbols as model values."""
        kind = type(value)
        if kind in PHRASE_OF_SCALAR:
            return value
        if value is None:
            return self.none
        if isinstance(value, enum.Enum):
            return self._symbols.get(value) or tla_value_of_enum_member(value)
        if kind in (tuple, frozenset):
            return kind(map(self.encode, value))
        if isinstance(value, Map):
            return tuple_or_map_of_function({self.encode(key): self.encode(item) for key, item in value.items()})
        if not isinstance(value, Record):
            raise TypeError(f"{value!r} of type {kind.__name__} is not a value")
        known = self._known.get(value)
        if known is None:
            names = tla_names(kind)
            fields = {name: self.encode(getattr(value, attribute)) for attribute, name in names.items()}
            known = self._known[value] = tuple_or_map_of_function({**self.constants(kind), **fields})
        return known


class TlaRecordMapping(NamedTuple):
    """A record class with the TLA+ names of its fields, and with its constant TLA+ fields."""

    cls: type[Record]
    names: dict[str, str]
    constants: dict[str, Value]

    @property
    def fields(self) -> frozenset[str]:
        """Names of all fields."""
        return frozenset((*self.names.values(), *self.constants))


Decode = Callable[[Value], Value]
MAX_MEMOIZED_VALUES = 200_000
"""Maximum number of memoized values per type."""


class TlaVariablesError(InputError):
    """TLA+ variables that are not a state of the protocol; the message has the place and the expected value."""

    def __init__(self, variable: str, path: str, found: str, expected: str, wrong_kind: bool = False) -> None:
        super().__init__(f"variable {path}: expected {expected}, found {found}")
        self.variable = variable
        self.path = path
        self.found = found
        self.expected = expected
        self.wrong_kind = wrong_kind

    def __reduce__(self) -> tuple[type[TlaVariablesError], tuple[str, str, str, str, bool]]:
        return (type(self), (self.variable, self.path, self.found, self.expected, self.wrong_kind))


class TlaTypeMismatchError(Exception):
    """A value that does not match a type. Readers of enclosing values prepend their place to the path."""

    def __init__(self, found: str, expected: str, *, wrong_kind: bool = True) -> None:
        super().__init__(found, expected)
        self.found = found
        self.expected = expected
        self.wrong_kind = wrong_kind
        self.path: list[str] = []

    def inside(self, place: str) -> TlaTypeMismatchError:
        """Return this error with a place prepended to its path."""
        self.path.insert(0, place)
        return self


class TlaValueDecoder:
    """Decoder of TLA+ values into values of declared types."""

    def __init__(
        self,
        encoder: TlaValueEncoder,
        names: Mapping[str, Value],
        records: Iterable[type[Record]],
        *,
        untyped: bool = False,
    ) -> None:
        self._encoder = encoder
        self._names = names
        self._model_values = {name: value for name, value in names.items() if isinstance(value, ModelValue)}
        self._records = tuple(records)
        self._untyped = untyped
        self._decoders: dict[Any, Decode] = {}
        self._keys: dict[str, Value] = {}
        self._intervals = IntervalElementBudget()
        self._of_keys = (
            TlaValueDecoder(encoder, names, self._records) if untyped else self
        )  # text is typed once it is parsed

    def of(self, kind: Any) -> Decode:
        """Return the decoder of a type, which raises `TlaTypeMismatchError` for other values."""
        found = self._decoders.get(kind)
        if found is None:
            found = self._decoders[kind] = self._make(kind)
        return found

    def _make(self, kind: Any) -> Decode:
        origin, arguments = get_origin(kind), get_args(kind)
        if origin in (Union, types.UnionType):
            return self._one_of(arguments)
        if origin is frozenset:
            return self._set(arguments[0])
        if origin is tuple:
            return self._sequence(arguments)
        if origin is Map:
            return self._map(*arguments)
        if kind is ModelValue:
            return self._model_value
        if kind in PHRASE_OF_SCALAR:
            return self._scalar(kind)
        if kind is type(None):
            return self._name_in([None])
        if is_enum(kind):
            return self._name_in(list(kind))
        if origin is Literal:
            return self._name_in([*arguments])
        if isinstance(kind, type) and issubclass(kind, Record):
            return self._record((kind,))
        return self._anything

    def _scalar(self, kind: type) -> Decode:
        def decode(value: Value) -> Value:
            if type(value) is not kind:
                raise TlaTypeMismatchError(truncated_value_text(value), PHRASE_OF_SCALAR[kind])
            return value

        return decode

    def _model_value(self, value: Value) -> ModelValue:
        name = self._name(value)
        if name not in self._model_values:
            expected = "a model value: " + or_phrase(sorted(self._model_values))
            raise TlaTypeMismatchError(truncated_value_text(value), expected, wrong_kind=name is None)
        return self._model_values[name]

    def _name(self, value: Value) -> str | None:
        """Return the name of a model value or a symbol; None for any other value."""
        if isinstance(value, ModelValue):
            return value.name
        return value if self._untyped and isinstance(value, str) else None

    def _name_in(self, choices: list[Any]) -> Decode:
        """Return a decoder that accepts only `choices`: the members of an enum, None, or the values of a `Literal`."""
        named: dict[Any, Value] = {}
        plain: dict[tuple[type, Any], Value] = {}
        for choice in choices:
            stand_in = tla_value_of_enum_member(choice) if isinstance(choice, enum.Enum) else choice
            if choice is None:
                stand_in = self._encoder.none
            if isinstance(stand_in, ModelValue):
                named[stand_in.name] = choice
            else:
                plain[type(stand_in), stand_in] = choice
        known = or_phrase(sorted([*named, *[truncated_value_text(value) for _, value in plain]]))

        def decode(value: Value) -> Value:
            if plain and isinstance(value, Hashable) and (type(value), value) in plain:
                return plain[type(value), value]
            name = self._name(value)
            if name not in named:
                raise TlaTypeMismatchError(truncated_value_text(value), known, wrong_kind=name is None or not named)
            return named[name]

        return decode

    def _set(self, kind: Any) -> Decode:
        element = self.of(kind)
        wanted = list if self._untyped else frozenset

        def decode(value: Value) -> Value:
            if type(value) is not wanted:
                raise TlaTypeMismatchError(truncated_value_text(value), "a set")
            elements = frozenset([_decode_with_error_path(_element_path, item, element, item) for item in value])
            if len(elements) < len(value):
                raise TlaTypeMismatchError(truncated_value_text(value), "a set (each element once)")
            return elements

        return self._memoised(decode)

    def _sequence(self, kinds: tuple[Any, ...]) -> Decode:
        fixed = None if kinds[-1:] == (Ellipsis,) else [self.of(kind) for kind in kinds]
        every = self.of(kinds[0]) if fixed is None else None
        wanted = list if self._untyped else tuple

        def decode(value: Value) -> Value:
            if type(value) is not wanted:
                raise TlaTypeMismatchError(truncated_value_text(value), "a sequence")
            if fixed is not None and len(value) != len(fixed):
                raise TlaTypeMismatchError(truncated_value_text(value), f"a sequence of {len(fixed)}")
            readers = fixed if every is None else [every] * len(value)
            assert readers is not None
            items = zip(range(1, len(value) + 1), readers, value, strict=True)
            return tuple([_decode_with_error_path(_argument_path, number, read, item) for number, read, item in items])

        return self._memoised(decode)

    def _map(self, key_kind: Any, kind: Any) -> Decode:
        read = self.of(kind)

        def decode(value: Value) -> Value:
            pairs = self.pairs(value, text_keys=not is_tla_string_type(key_kind))
            return Map(
                [
                    (self.argument(key_kind, key), _decode_with_error_path(_argument_path, key, read, item))
                    for key, item in pairs
                ]
            )

        return self._memoised(decode)

    def argument(self, kind: Any, key: Value) -> Value:
        """Decode `key`, an argument of a function as returned by `pairs`, to a value of the type `kind`."""
        read = self._of_keys.of(kind)
        try:
            return read(key)
        except TlaTypeMismatchError as error:
            if self._untyped and isinstance(key, ModelValue):  # a string, if all arguments are strings
                with suppress(TlaTypeMismatchError):
                    return read(key.name)
            error.expected = f"as an argument {error.expected}"
            raise error.inside(_argument_path(key)) from None

    def pairs(self, value: Value, *, text_keys: bool) -> list[tuple[Value, Value]]:
        """Return a TLA+ function as pairs (argument, value), which are not decoded yet."""
        if isinstance(value, dict) and self._untyped:
            found = [(self._key(key) if text_keys else key, item) for key, item in value.items()]
            if len(dict(found)) < len(found):
                raise TlaTypeMismatchError(truncated_value_text(value), "a function (each argument once)")
            return found
        if isinstance(value, Map):
            return list(value.items())
        if type(value) is (list if self._untyped else tuple):
            return list(enumerate(value, start=1))
        raise TlaTypeMismatchError(truncated_value_text(value), "a function")

    def _key(self, text: str) -> Value:
        if text not in self._keys:
            self._intervals.left += len(text)
            try:
                self._keys[text] = shared_value_parser().parse(text, intervals=self._intervals)
            except TlaSyntaxError as error:
                raise TlaTypeMismatchError(truncated_value_text(text), f"an argument as TLA+ text ({error})") from None
        return self._keys[text]

    def _record(self, kinds: tuple[type[Record], ...]) -> Decode:
        shapes = [self._shape(cls) for cls in self._classes(kinds)]
        readers = {s.cls: {name: self._later(field_types(s.cls)[a]) for a, name in s.names.items()} for s in shapes}

        by_fields: dict[frozenset[str], list[TlaRecordMapping]] = {}
        for shape in shapes:
            by_fields.setdefault(shape.fields, []).append(shape)

        def decode(value: Value) -> Value:
            fields: Mapping[Any, Value] = {} if value in ((), []) else value
            if type(fields) not in (Map, dict) or not all(type(name) is str for name in fields):
                raise TlaTypeMismatchError(truncated_value_text(value), _record_shapes_text(shapes))
            alike = by_fields.get(frozenset(fields), [])
            fitting = [shape for shape in alike if self._has(fields, shape.constants)]
            if not fitting:
                raise self._unlike(fields, shapes, wrong_kind=not alike)
            wrong: TlaTypeMismatchError | None = None
            for shape in fitting:
                try:
                    read = readers[shape.cls]
                    return shape.cls(
                        *[_decode_with_error_path(_field_path, n, read[n], fields[n]) for n in shape.names.values()]
                    )
                except TlaTypeMismatchError as error:
                    wrong = wrong or error
            assert wrong is not None
            raise wrong

        return self._memoised(decode)

    def _memoised(self, decode: Decode) -> Decode:
        """Return a memoizing decoder, keyed by identity, since True equals 1 in Python."""
        if self._untyped:  # JSON values are mutable
            return decode
        known: dict[int, tuple[Value, Value]] = {}

        def read(value: Value) -> Value:
            found = known.get(id(value))
            if found is not None:
                return found[1]
            result = decode(value)
            if len(known) >= MAX_MEMOIZED_VALUES:
                known.clear()
            known[id(value)] = (value, result)  # holding the value keeps its id from being reused
            return result

        return read

    def _later(self, kind: Any) -> Decode:
        """Return a decoder that is built at first use, since a record may contain records of its own class."""
        return lambda value: self.of(kind)(value)

    def _shape(self, cls: type[Record]) -> TlaRecordMapping:
        return TlaRecordMapping(cls, tla_names(cls), self._encoder.constants(cls))

    def _classes(self, kinds: Iterable[type[Record]]) -> list[type[Record]]:
        """Return the classes of records that may occur where one of the given classes is declared.

        A class is omitted if a subclass in its module looks the same in TLA+: it is only a base class.
        """
        found: dict[type[Record], None] = {}
        for kind in kinds:
            for cls in self._records if kind is Record else (kind, *subclasses(kind)):
                alike = [s for s in subclasses(cls) if s.__module__ == cls.__module__]
                if not any(self._shape(s)[1:] == self._shape(cls)[1:] for s in alike):
                    found[cls] = None
        return list(found)

    def _has(self, fields: Mapping[str, Value], constants: Mapping[str, Value]) -> bool:
        return all(name in fields and self._is(fields[name], value) for name, value in constants.items())

    def _is(self, found: Value, wanted: Value) -> bool:
        if isinstance(wanted, ModelValue):
            return self._name(found) == wanted.name
        return type(found) is type(wanted) and found == wanted

    def _unlike(
        self, fields: Mapping[str, Value], shapes: list[TlaRecordMapping], *, wrong_kind: bool
    ) -> TlaTypeMismatchError:
        """Return the error for a record that fits no class: its differences from the most similar class."""
        near = min(shapes, key=lambda s: (not self._has(fields, s.constants), len(s.fields ^ fields.keys())))
        lacking, more = sorted(near.fields - fields.keys()), sorted(fields.keys() - near.fields)
        for name, value in near.constants.items():
            if name in fields and not self._is(fields[name], value):
                wanted = dict.fromkeys(format_on_one_line(s.constants[name]) for s in shapes if name in s.constants)
                found, is_name = truncated_value_text(fields[name]), self._name(fields[name]) is not None
                return TlaTypeMismatchError(found, or_phrase(sorted(wanted)), wrong_kind=not is_name).inside(f".{name}")
        problems = [f"no {or_phrase(lacking)}"] if lacking else []
        problems += [f"also {name_list_text(more)}"] if more else []
        return TlaTypeMismatchError(" and ".join(problems), _record_shapes_text([near]), wrong_kind=wrong_kind)

    def _one_of(self, kinds: tuple[Any, ...]) -> Decode:
        records = tuple(kind for kind in kinds if isinstance(kind, type) and issubclass(kind, Record))
        others = sorted((kind for kind in kinds if kind not in records), key=lambda kind: kind is str)
        readers = [*([self._record(records)] if records else []), *[self.of(kind) for kind in others]]
        if len(readers) == 1:
            return readers[0]

        def decode(value: Value) -> Value:
            errors = []
            for read in readers:
                try:
                    return read(value)
                except TlaTypeMismatchError as error:
                    errors.append(error.with_traceback(None))  # else its traceback and this frame are a cycle
            deep = [error for error in errors if error.path]
            if len(deep) == 1:
                raise deep[0]
            expected = " or ".join(dict.fromkeys(error.expected for error in errors))
            raise TlaTypeMismatchError(
                truncated_value_text(value), expected, wrong_kind=all(error.wrong_kind for error in errors)
            )

        return decode

    def _anything(self, value: Value) -> Value:
        """Decode a value without a declared type: known names are resolved, and records stay maps."""
        name = self._name(value)
        if name is not None:
            return self._names.get(name, None if name == "None" else value)
        if type(value) is frozenset:
            return frozenset(map(self._anything, value))
        if type(value) in (tuple, list):
            return tuple(map(self._anything, value))
        if isinstance(value, Map | dict):
            return Map({self._anything(key): self._anything(item) for key, item in value.items()})
        return value


def is_tla_string_type(kind: Any) -> bool:
    """Whether all values of a type are strings in TLA+."""
    if get_origin(kind) is Literal:
        return all(type(choice) is str for choice in get_args(kind))
    return kind is str or (is_enum(kind) and issubclass(kind, str))


def _decode_with_error_path(place: Callable[[Any], str], key: Any, read: Decode, value: Value) -> Value:
    try:
        return read(value)
    except TlaTypeMismatchError as error:
        raise error.inside(place(key)) from None


def _argument_path(key: Value) -> str:
    return f"[{truncated_value_text(key)}]"


def _element_path(value: Value) -> str:
    return f"{{{truncated_value_text(value)}}}"


def _field_path(name: str) -> str:
    return f".{name}"


def _record_shapes_text(shapes: Iterable[TlaRecordMapping]) -> str:
    return " or ".join(dict.fromkeys(f"a record of {', '.join(sorted(s.fields)) or 'no fields'}" for s in shapes))
