"""TLC's text format of TLA+ values, including line breaks.

TLC writes a value on one line if it fits. Otherwise it writes each element on its own lines, recursively. Sources:
TLC's output, and the description of the layout in ``tlc2/pprint/Format.java`` of the tlaplus repository.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal, NamedTuple, TypeVar

from kraftcheck.spec.tla.parsing import as_function, as_name
from kraftcheck.spec.values import Map, ModelValue, Record, Symbol, Value, field_names, field_values, order_key

T = TypeVar("T")
Style = Literal["tlc", "tlc2.15"]

_FIELD_NAME = re.compile(r"(?!WF_.|SF_.)\w*[A-Za-z]\w*", re.ASCII)
_LAID_OUT = re.compile(r'(?:"[^"\\]*+(?:\\[^"][^"\\]*+)*+"|[^"_]++)*+')
_ESCAPES = {'"': '\\"', "\\": "\\\\", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r"}
_VALUE_INDENT = 4  # for a value below its field or argument


def format_value(
    value: Value,
    *,
    width: int = 80,
    indent: int = 0,
    style: Style = "tlc",
    sort: bool = True,
) -> str:
    """Return a value as text in TLC's format.

    Elements of sets and arguments of functions are in TLC's order, fields of records in declaration order. There is
    one difference: TLC orders strings, and hence records with different fields, by first occurrence. Here they are in
    alphabetical order.

    `style`: ``"tlc2.15"`` for the style of TLC 2.15 (2020), which writes the empty function as ``<< >>``. An empty
    function and an empty sequence are the same value. At top level it is written as the function, within another value
    as the sequence.
    `sort`: whether to sort the arguments of functions. Otherwise they keep the order of the `Map`, which is that of
    the parsed text. In the output of ``-simulate``, TLC does not always sort them.

    Examples
    --------
    >>> print(format_value(frozenset({2, 1}), width=5))
    { 1,
      2 }
    """
    box = _Boxes(sort).box(value)
    if style == "tlc2.15" and box.flat == "<<>>":
        return "<< >>"
    if not _is_laid_out(box.flat):
        return box.flat
    return _lay_out(box, width, 0, "\n" + " " * indent)


def one_line(value: Value) -> str:
    """Return a value on one line, as TLC writes it with enough room.

    >>> one_line((1, frozenset({"b", "a"})))
    '<<1, {"a", "b"}>>'
    """
    return _Boxes(sort=True).box(value).flat


def in_tlc_order(values: Iterable[T]) -> list[T]:
    """Return values in the order of `format_value`."""
    return sorted(values, key=_order)


class _Brackets(NamedTuple):
    opening: str
    closing: str
    separator: str
    arrow: str = ""


_SET = _Brackets("{", "}", ",")
_SEQUENCE = _Brackets("<<", ">>", ",")
_RECORD = _Brackets("[", "]", ",", " |->")
_FUNCTION = _Brackets("(", ")", " @@", " :>")
_ATOM = _Brackets("", "", "")


_FLAT: dict[type, Callable[[Any], str]] = {
    bool: lambda value: "TRUE" if value else "FALSE",
    int: str,
    str: lambda value: '"' + "".join([_ESCAPES.get(letter, letter) for letter in value]) + '"',
    ModelValue: lambda value: value.name,
}


class _Box(NamedTuple):
    """A formatted value: its text on one line, its brackets, and the boxes of its elements and keys."""

    flat: str
    brackets: _Brackets = _ATOM
    items: Sequence[_Box] = ()
    keys: Sequence[_Box] = ()


class _Boxes:
    """Builder of the `_Box` of a value."""

    def __init__(self, sort: bool) -> None:
        self._sort = sort

    def box(self, value: Value) -> _Box:
        kind = type(value)
        if kind in _FLAT:
            return _Box(_FLAT[kind](value))
        if isinstance(value, Symbol):
            return _Box(str(value.value))
        if value is None or isinstance(value, enum.Enum):
            return self.box(as_name(value))
        if kind is frozenset:
            return _enclosed(_SET, [*map(self.box, in_tlc_order(value))])
        if isinstance(value, Map):
            value = as_function(value)
        if type(value) is tuple:
            return _enclosed(_SEQUENCE, [*map(self.box, value)])
        return self._function(_fields(value) if isinstance(value, Record) else value)

    def _function(self, value: Value) -> _Box:
        if not isinstance(value, Map):
            raise TypeError(f"{value!r} of type {type(value).__name__} is not a value")
        if all(type(key) is str and _FIELD_NAME.fullmatch(key) for key in value):
            return _enclosed(_RECORD, [self.box(item) for item in value.values()], [_Box(name) for name in value])
        keys = in_tlc_order(value) if self._sort else list(value)
        return _enclosed(_FUNCTION, [self.box(value[key]) for key in keys], [self.box(key) for key in keys])


def _order(value: Value) -> tuple[Any, ...]:
    """Return a sort key in TLC's order: `order_key`, with model values first and functions by their domain."""
    kind = type(value)
    if kind is ModelValue or isinstance(value, Symbol):
        return (0, *order_key(value))
    if value is None or isinstance(value, enum.Enum):
        return _order(as_name(value))
    if kind is tuple:
        return (2, len(value), [*map(_order, value)])
    if kind is frozenset:
        return (3, len(value), sorted(map(_order, value)))
    if isinstance(value, Record):
        value = _fields(value)
    if not isinstance(value, Map):
        return (1, *order_key(value))
    keys = list(value) if {*map(type, value)} <= {str} else in_tlc_order(value)
    return (4, len(value), [*map(_order, keys)], [*map(_order, map(value.__getitem__, keys))])


def _fields(record: Record) -> Map[str, Value]:
    return Map(zip(field_names(type(record)), field_values(record), strict=True))


def _enclosed(brackets: _Brackets, items: Sequence[_Box], keys: Sequence[_Box] = ()) -> _Box:
    if keys:
        texts = [f"{key.flat}{brackets.arrow} {item.flat}" for key, item in zip(keys, items, strict=True)]
    else:
        texts = [item.flat for item in items]
    flat = brackets.opening + f"{brackets.separator} ".join(texts) + brackets.closing
    return _Box(flat, brackets, items, keys)


def _is_laid_out(flat: str) -> bool:
    """Whether TLC breaks a long value into lines: not with some names with ``_`` and some strings with quotes."""
    return ("_" not in flat and '\\"' not in flat) or _LAID_OUT.fullmatch(flat) is not None


def _lay_out(box: _Box, room: int, after: int, newline: str) -> str:
    """Break a value into lines of `room` columns, leaving `after` columns at the end of the last one.

    `newline` ends a line and indents the next one.
    """
    brackets = box.brackets
    if brackets is _ATOM or len(box.flat) <= room - after:
        return box.flat
    inset = len(brackets.opening) + 1
    room -= inset
    newline += " " * inset
    after += len(brackets.closing) + 1
    lines = []
    for number, item in enumerate(box.items, start=1):
        follows = after if number == len(box.items) else len(brackets.separator)
        if not box.keys:
            lines.append(_lay_out(item, room, follows, newline))
            continue
        key = box.keys[number - 1]
        head = key.flat + brackets.arrow
        if len(head) + 1 + len(item.flat) + follows <= room:
            lines.append(f"{head} {item.flat}")
            continue
        if len(head) > room:
            head = _lay_out(key, room, after + len(brackets.arrow), newline) + brackets.arrow
        below = newline + " " * _VALUE_INDENT
        lines.append(head + below + _lay_out(item, room - _VALUE_INDENT, follows, below))
    return f"{brackets.opening} " + (brackets.separator + newline).join(lines) + f" {brackets.closing}"
