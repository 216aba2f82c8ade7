"""TLC's text format of TLA+ values: formatting, with line breaks, and parsing.

TLC writes a value on one line if it fits. Otherwise it writes each element on its own lines, recursively. Sources:
TLC's output, and the description of the layout in ``tlc2/pprint/Format.java`` of the tlaplus repository.

A TLA+ value becomes a value of `kraftcheck.spec.values`:

====================  =====================================================
TLA+                  Python
====================  =====================================================
``3``, ``TRUE``       int, bool
``"text"``            str
``n1``                ``ModelValue("n1")``, or an entry of `names`
``{a, b}``, ``1..3``  frozenset
``<<a, b>>``          tuple
``[x |-> a]``         ``Map`` with str keys, in the order of the text
``(a :> b @@ c :> d)``  ``Map``
====================  =====================================================

As in TLA+, a function whose domain is 1..n is a sequence, so it becomes a tuple; the empty function is ``()``.

>>> parse_value("[host |-> n1, log |-> << 4, 5 >>]")
Map({'host': n1, 'log': (4, 5)})
"""

from __future__ import annotations

import enum
import fcntl
import os
import re
import stat
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, lru_cache, partial
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeVar

from lark import Lark, Token, Transformer
from lark.exceptions import UnexpectedCharacters, UnexpectedInput, UnexpectedToken

from kraftcheck.spec.encoding import encode
from kraftcheck.spec.errors import InputError
from kraftcheck.spec.values import (
    Map,
    ModelValue,
    Record,
    Symbol,
    Value,
    enum_name,
    escape_invisible,
    field_names,
    field_values,
    or_phrase,
    order_key,
    truncate_text,
)

T = TypeVar("T")
TlcVersionStyle = Literal["tlc", "tlc2.15"]

_FIELD_NAME = re.compile(r"(?!WF_.|SF_.)\w*[A-Za-z]\w*", re.ASCII)
_BREAKABLE_TEXT = re.compile(r'(?:"[^"\\]*+(?:\\[^"][^"\\]*+)*+"|[^"_]++)*+')
_ESCAPES = {'"': '\\"', "\\": "\\\\", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r"}
_VALUE_INDENT = 4  # for a value below its field or argument


def format_value(
    value: Value, *, width: int = 80, indent: int = 0, style: TlcVersionStyle = "tlc", sort: bool = True
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
    box = _BoxBuilder(sort).box(value)
    if style == "tlc2.15" and box.flat == "<<>>":
        return "<< >>"
    if not _is_breakable_by_tlc(box.flat):
        return box.flat
    return _break_into_lines(box, width, 0, "\n" + " " * indent)


def format_on_one_line(value: Value) -> str:
    """Return a value on one line, as TLC writes it with enough room.

    >>> format_on_one_line((1, frozenset({"b", "a"})))
    '<<1, {"a", "b"}>>'
    """
    return _BoxBuilder(sort=True).box(value).flat


def sort_in_tlc_order(values: Iterable[T]) -> list[T]:
    """Return values in the order of `format_value`."""
    return sorted(values, key=_tlc_sort_key)


class _Brackets(NamedTuple):
    opening: str
    closing: str
    separator: str
    arrow: str = ""


_SET_BRACKETS = _Brackets("{", "}", ",")
_SEQUENCE_BRACKETS = _Brackets("<<", ">>", ",")
_RECORD_BRACKETS = _Brackets("[", "]", ",", " |->")
_FUNCTION_BRACKETS = _Brackets("(", ")", " @@", " :>")
_NO_BRACKETS = _Brackets("", "", "")


_FORMAT_SCALAR: dict[type, Callable[[Any], str]] = {
    bool: lambda value: "TRUE" if value else "FALSE",
    int: str,
    str: lambda value: '"' + "".join([_ESCAPES.get(letter, letter) for letter in value]) + '"',
    ModelValue: lambda value: value.name,
}


class _Box(NamedTuple):
    """A formatted value: its text on one line, its brackets, and the boxes of its elements and keys."""

    flat: str
    brackets: _Brackets = _NO_BRACKETS
    items: Sequence[_Box] = ()
    keys: Sequence[_Box] = ()


class _BoxBuilder:
    """Builder of the `_Box` of a value."""

    def __init__(self, sort: bool) -> None:
        self._sort = sort

    def box(self, value: Value) -> _Box:
        kind = type(value)
        if kind in _FORMAT_SCALAR:
            return _Box(_FORMAT_SCALAR[kind](value))
        if isinstance(value, Symbol):
            return _Box(str(value.value))
        if value is None or isinstance(value, enum.Enum):
            return self.box(tla_value_of_enum_member(value))
        if kind is frozenset:
            return _box_around_items(_SET_BRACKETS, [*map(self.box, sort_in_tlc_order(value))])
        if isinstance(value, Map):
            value = tuple_or_map_of_function(value)
        if type(value) is tuple:
            return _box_around_items(_SEQUENCE_BRACKETS, [*map(self.box, value)])
        return self._function(_fields_as_map(value) if isinstance(value, Record) else value)

    def _function(self, value: Value) -> _Box:
        if not isinstance(value, Map):
            raise TypeError(f"{value!r} of type {type(value).__name__} is not a value")
        if all(type(key) is str and _FIELD_NAME.fullmatch(key) for key in value):
            return _box_around_items(
                _RECORD_BRACKETS, [self.box(item) for item in value.values()], [_Box(name) for name in value]
            )
        keys = sort_in_tlc_order(value) if self._sort else list(value)
        return _box_around_items(
            _FUNCTION_BRACKETS, [self.box(value[key]) for key in keys], [self.box(key) for key in keys]
        )


def _tlc_sort_key(value: Value) -> tuple[Any, ...]:
    """Return a sort key in TLC's order: `order_key`, with model values first and functions by their domain."""
    kind = type(value)
    if kind is ModelValue or isinstance(value, Symbol):
        return (0, *order_key(value))
    if value is None or isinstance(value, enum.Enum):
        return _tlc_sort_key(tla_value_of_enum_member(value))
    if kind is tuple:
        return (2, len(value), [*map(_tlc_sort_key, value)])
    if kind is frozenset:
        return (3, len(value), sorted(map(_tlc_sort_key, value)))
    if isinstance(value, Record):
        value = _fields_as_map(value)
    if not isinstance(value, Map):
        return (1, *order_key(value))
    keys = list(value) if {*map(type, value)} <= {str} else sort_in_tlc_order(value)
    return (4, len(value), [*map(_tlc_sort_key, keys)], [*map(_tlc_sort_key, map(value.__getitem__, keys))])


def _fields_as_map(record: Record) -> Map[str, Value]:
    return Map(zip(field_names(type(record)), field_values(record), strict=True))


def _box_around_items(brackets: _Brackets, items: Sequence[_Box], keys: Sequence[_Box] = ()) -> _Box:
    if keys:
        texts = [f"{key.flat}{brackets.arrow} {item.flat}" for key, item in zip(keys, items, strict=True)]
    else:
        texts = [item.flat for item in items]
    flat = brackets.opening + f"{brackets.separator} ".join(texts) + brackets.closing
    return _Box(flat, brackets, items, keys)


def _is_breakable_by_tlc(flat: str) -> bool:
    """Whether TLC breaks a long value into lines: not with some names with ``_`` and some strings with quotes."""
    return ("_" not in flat and '\\"' not in flat) or _BREAKABLE_TEXT.fullmatch(flat) is not None


def _break_into_lines(box: _Box, room: int, after: int, newline: str) -> str:
    """Break a value into lines of `room` columns, leaving `after` columns at the end of the last one.

    `newline` ends a line and indents the next one.
    """
    brackets = box.brackets
    if brackets is _NO_BRACKETS or len(box.flat) <= room - after:
        return box.flat
    inset = len(brackets.opening) + 1
    room -= inset
    newline += " " * inset
    after += len(brackets.closing) + 1
    lines = []
    for number, item in enumerate(box.items, start=1):
        follows = after if number == len(box.items) else len(brackets.separator)
        if not box.keys:
            lines.append(_break_into_lines(item, room, follows, newline))
            continue
        key = box.keys[number - 1]
        head = key.flat + brackets.arrow
        if len(head) + 1 + len(item.flat) + follows <= room:
            lines.append(f"{head} {item.flat}")
            continue
        if len(head) > room:
            head = _break_into_lines(key, room, after + len(brackets.arrow), newline) + brackets.arrow
        below = newline + " " * _VALUE_INDENT
        lines.append(head + below + _break_into_lines(item, room - _VALUE_INDENT, follows, below))
    return f"{brackets.opening} " + (brackets.separator + newline).join(lines) + f" {brackets.closing}"


MAX_NESTING = 200
"""Maximum nesting of a value: hashing and ordering recurse, and Python allows 1,000 calls."""

MAX_INTERVAL_ELEMENTS = 1_000_000
"""Maximum number of elements in all intervals of a text: ``1..2000000000`` has only fifteen characters."""

MAX_DIGITS = 1_000
"""Maximum number of digits. TLC's own numbers have at most ten."""

STRING_PATTERN = r'"[^"\\]*+(?:(?s:\\.)[^"\\]*+)*+(?:"|\\?\Z)'
"""Pattern of a string, possibly unterminated: otherwise each quote in it would begin another match."""

_STRING_OR_BRACKET = re.compile(STRING_PATTERN + r"|<<|>>|[\[({\])}]")
_ESCAPED_CHARACTER = re.compile(r"\\(.)")
_UNESCAPED = {"n": "\n", "t": "\t", "f": "\f", "r": "\r"}
_PHRASE_OF_TERMINAL = {
    "NAME": "the name of a field",
    "INTEGER": "a number",
    "STRING": "a string",
    "$END": "the end of the value",
}
_STARTS_OF_A_VALUE = {*_PHRASE_OF_TERMINAL.values(), "'TRUE'", "'FALSE'", "'{'", "'<<'", "'['", "'('"} - {
    _PHRASE_OF_TERMINAL["$END"]
}
_MAX_FOUND_TEXT_LENGTH = 40


class TlaSyntaxError(InputError):
    """A syntax error, with its position."""

    def __init__(self, file: str, line: int, column: int, found: str, expected: str) -> None:
        # file and variable names may contain line breaks
        super().__init__(escape_invisible(f"{file}:{line}:{column}: expected {expected}, found {found}"))
        self.file = file
        self.line = line
        self.column = column
        self.found = found
        self.expected = expected

    def __reduce__(self) -> tuple[type[TlaSyntaxError], tuple[str, int, int, str, str]]:
        return (type(self), (self.file, self.line, self.column, self.found, self.expected))


class IntervalElementBudget:
    """Counter of the elements of intervals, such as `1..9`, that a text or file may still contain."""

    def __init__(self, left: int = MAX_INTERVAL_ELEMENTS) -> None:
        self.left = left


def lark_parser(grammar: Path, **options: Any) -> Lark:
    """Return the parser of a grammar. Its tables take long to make, so Lark keeps them in the user's cache."""
    make = partial(Lark, grammar.read_text(encoding="utf-8"), parser="lalr", **options)
    try:
        folder = _private_cache_folder()
        with (folder / "lock").open("wb") as lock:  # another process may be writing the tables
            fcntl.flock(lock, fcntl.LOCK_EX)
            return make(cache=str(folder / grammar.stem))
    except (OSError, RuntimeError):
        return make()


def _private_cache_folder() -> Path:
    """Return a folder of the user's cache; raise an OSError if another user can enter it: Lark unpickles its files."""
    whole = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "kraftcheck"
    whole.parent.mkdir(parents=True, exist_ok=True)
    for folder in (whole, whole / "grammars"):
        folder.mkdir(mode=0o700, exist_ok=True)
    found = (whole / "grammars").stat()
    if found.st_uid != os.geteuid() or found.st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise PermissionError(f"other users can enter {whole / 'grammars'}")
    return whole / "grammars"


class ValueParser:
    """Parser of values. Building a parser is slow: use one for all texts with the same `names`."""

    def __init__(self, names: Mapping[str, Value] | None = None) -> None:
        self._builder = _ValueBuilder(names or {})
        grammar = Path(__file__).with_name("value.lark")
        self._lark = lark_parser(grammar, start="value", transformer=self._builder, maybe_placeholders=False)

    def parse(
        self,
        text: str,
        *,
        where: str = "<text>",
        line: int = 1,
        column: int = 1,
        intervals: IntervalElementBudget | None = None,
    ) -> Value:
        """Parse one value."""
        self._builder.intervals = intervals or IntervalElementBudget()
        try:
            _reject_deep_nesting(text)
            return self._lark.parse(text)
        except _RejectedValueError as rejected:
            offset, found, expected = rejected.args
        except UnexpectedInput as error:
            offset, found = _offset_and_found_text(text, error)
            expected = self._expected(error)
        before = text[:offset]
        row, start = before.count("\n"), before.rfind("\n") + 1
        raise TlaSyntaxError(where, line + row, offset - start + (1 if row else column), found, expected)

    def _expected(self, error: UnexpectedInput) -> str:
        terminals: set[str] = error.interactive_parser.accepts()  # type: ignore[no-untyped-call]
        words = {self._word(name) for name in terminals or ["$END"]}  # Lark's final state accepts nothing by name
        if "'{'" in words:
            words = {"a value"} | words - _STARTS_OF_A_VALUE
        return or_phrase(sorted(words - {"'..'"} or words, key=lambda word: (word.startswith("'"), word)))

    def _word(self, terminal: str) -> str:
        if terminal in _PHRASE_OF_TERMINAL:
            return _PHRASE_OF_TERMINAL[terminal]
        return f"'{self._lark.get_terminal(terminal).pattern.value}'"


def parse_value(
    text: str, *, where: str = "<text>", line: int = 1, column: int = 1, names: Mapping[str, Value] | None = None
) -> Value:
    """Parse one value."""
    parser = shared_value_parser() if names is None else ValueParser(names)
    return parser.parse(text, where=where, line=line, column=column)


def quoted_for_error(text: str) -> str:
    """Return quoted text, truncated for an error message."""
    return repr(truncate_text(str(text), _MAX_FOUND_TEXT_LENGTH))


@cache
def shared_value_parser() -> ValueParser:
    """Return the parser without `names`, built only once: building takes longer than parsing a value."""
    return ValueParser()


class _RejectedValueError(Exception):
    """A well-formed text with a rejected value: the offset, the value found, the value expected."""


class _ValueBuilder(Transformer[Token, Value]):
    """Builder of values, called by the parser for each rule; it builds no tree."""

    def __init__(self, names: Mapping[str, Value]) -> None:
        super().__init__()
        self.intervals = IntervalElementBudget()
        self._names = names
        self._model_value = lru_cache(maxsize=100_000)(ModelValue)  # one object per name speeds up comparisons

    def integer(self, children: list[Token]) -> int:
        (digits,) = children
        if len(digits) > MAX_DIGITS:
            found = f"one of {len(digits):,}"
            raise _RejectedValueError(_token_offset(digits), found, f"a number of at most {MAX_DIGITS:,} digits")
        return int(digits)

    def interval(self, children: list[Token]) -> frozenset[int]:
        low, high = (self.integer([token]) for token in children)
        count = max(0, high - low + 1)
        if count > self.intervals.left:
            expected = f"an interval of at most {MAX_INTERVAL_ELEMENTS:,} elements"
            if count <= MAX_INTERVAL_ELEMENTS:
                expected = f"intervals of at most {MAX_INTERVAL_ELEMENTS:,} elements in one file"
            raise _RejectedValueError(_token_offset(children[0]), f"one of {count:,}", expected)
        self.intervals.left -= count
        return frozenset(range(low, high + 1))

    def true(self, _: list[Token]) -> bool:
        return True

    def false(self, _: list[Token]) -> bool:
        return False

    def string(self, children: list[Token]) -> str:
        (quoted,) = children
        if "\\" not in quoted:
            return quoted[1:-1]
        return _ESCAPED_CHARACTER.sub(lambda escape: _UNESCAPED.get(escape[1], escape[1]), quoted[1:-1])

    def identifier(self, children: list[Token]) -> Value:
        (name,) = children
        try:
            return self._names[name]
        except KeyError:
            return self._model_value(str(name))

    def set(self, children: list[Value]) -> frozenset[Value]:
        opening, *elements = children
        result = frozenset(elements)
        if len(result) < len(elements):
            _reject_incomparable_values(_token_offset(opening), elements)
        return result

    def sequence(self, children: list[Value]) -> tuple[Value, ...]:
        return tuple(children)

    def field(self, children: list[Value]) -> tuple[Token, Value]:
        name, value = children
        return (name, value)

    def record(self, children: list[tuple[Token, Value]]) -> Value:
        fields = {str(name): value for name, value in children}
        if len(fields) < len(children):
            _reject_repeated_keys([(str(name), name) for name, _ in children])
        return Map(fields) if fields else ()

    def pair(self, children: list[Value]) -> tuple[Value, Token, Value]:
        key, arrow, value = children
        return (key, arrow, value)

    def function(self, children: list[tuple[Value, Token, Value]]) -> Value:
        pairs = {key: value for key, _, value in children}
        if len(pairs) < len(children):
            _reject_repeated_keys([(key, arrow) for key, arrow, _ in children])
        return tuple_or_map_of_function(pairs)


def tuple_or_map_of_function(pairs: Mapping[Value, Value]) -> Value:
    """Return the value of a TLA+ function: a tuple if its domain is 1..n, otherwise a `Map`.

    >>> tuple_or_map_of_function({2: "b", 1: "a"})
    ('a', 'b')
    """
    if all(type(key) is int for key in pairs) and pairs.keys() == set(range(1, len(pairs) + 1)):
        return tuple([pairs[number] for number in range(1, len(pairs) + 1)])
    return Map(pairs)


def tla_value_of_enum_member(value: enum.Enum | None) -> Value:
    """Return the TLA+ value of an enum member or of None.

    It is a model value with the member's name, except that a member of a `StrEnum` or an `IntEnum` is its string or
    number.

    >>> tla_value_of_enum_member(None)
    None
    """
    if value is None:
        return ModelValue("None")
    if isinstance(value, int | str):
        return value.value
    return ModelValue(enum_name(value))


def _reject_repeated_keys(keys: list[tuple[Value, Token]]) -> None:
    seen: dict[Value, Value] = {}
    for key, token in keys:
        if key in seen:
            _reject_incomparable_values(_token_offset(token), [key, seen[key]])
            raise _RejectedValueError(_token_offset(token), "one twice", "each field or argument once")
        seen[key] = key


def _reject_incomparable_values(offset: int, values: list[Value]) -> None:
    """Reject values that are equal in Python but not in TLA+: ``TRUE`` is not 1."""
    if len({encode(value) for value in values}) > len(frozenset(values)):
        raise _RejectedValueError(offset, "a mixture of numbers and TRUE or FALSE", "elements that can be compared")


def _reject_deep_nesting(text: str) -> None:
    if sum(map(text.count, ("{", "<<", "[", "("))) <= MAX_NESTING:
        return
    depth = 0
    for bracket in _STRING_OR_BRACKET.finditer(text):
        if bracket[0] in ("{", "<<", "[", "("):
            depth += 1
            if depth > MAX_NESTING:
                raise _RejectedValueError(
                    bracket.start(), "one that is deeper", f"a value of at most {MAX_NESTING} levels"
                )
        elif not bracket[0].startswith('"'):
            depth -= 1


def _token_offset(token: Token) -> int:
    assert token.start_pos is not None  # Lark omits it only in its own tokens
    return token.start_pos


def _offset_and_found_text(text: str, error: UnexpectedInput) -> tuple[int, str]:
    if isinstance(error, UnexpectedToken) and error.token.type != "$END":
        return _token_offset(error.token), quoted_for_error(error.token)
    if isinstance(error, UnexpectedCharacters):
        offset = error.pos_in_stream or 0
        if text[offset] == '"':
            return offset, "a string that does not end, or has an escape that TLA+ does not know"
        return offset, quoted_for_error(text[offset])
    return len(text.rstrip()), "the end of the text"
