"""Parsing of trace files: lines, JSON documents and TLA+ values. Errors have the file, line and column.

Values and parts of values recur in a trace: a step changes two of twenty variables, or one of sixty messages in a bag.
`ValueCache` splits a text at the commas of its outermost brackets, and the parser reads each distinct part once. If a
text has an unexpected form, the parser reads the whole text, so all errors are the parser's.
"""

from __future__ import annotations

import errno
import gzip
import io
import json
import os
import re
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from hashlib import blake2b
from itertools import accumulate
from os import PathLike, fspath
from typing import Any, BinaryIO, Generic, NoReturn, TypeVar, cast

from kraftcheck.spec.tla.text import (
    MAX_INTERVAL_ELEMENTS,
    MAX_NESTING,
    STRING_PATTERN,
    IntervalElementBudget,
    TlaSyntaxError,
    ValueParser,
    quoted_for_error,
    shared_value_parser,
    tuple_or_map_of_function,
)
from kraftcheck.spec.values import Map, Value


class TraceError(TlaSyntaxError):
    """An invalid trace file. The message has the file, line and column, and the found and the expected text."""


DEFAULT_LIMIT_BYTES = 4 * 2**30
"""Default limit on the unpacked size of a file, in bytes."""

LONGEST_LINE = 32 * 2**20
"""Maximum length of a line, in bytes."""

LARGEST_DOCUMENT = 32 * 2**20
"""Maximum size of a file in a format without lines, such as JSON, in bytes."""

_GZIP_MAGIC = b"\x1f\x8b"
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_BUFFER_BYTES = 2**20


class TraceFileReader:
    """A file, possibly gzipped, for one sequential read."""

    def __init__(self, path: str | PathLike[str], *, limit_bytes: int = DEFAULT_LIMIT_BYTES) -> None:
        self.file = fspath(path)
        self.line = 0
        """The number of the last read line."""
        self.ends_in_newline = True
        """Whether the last read line ended in a newline."""
        self._limit = limit_bytes

    def lines(self) -> Iterator[tuple[int, str]]:
        """Yield the lines with their numbers from 1, without LF or CRLF."""
        read = 0
        stream = self._open()
        with stream:
            while raw := self._read(stream, LONGEST_LINE + 1):
                self.line += 1
                read += len(raw)
                if len(raw) > LONGEST_LINE:
                    raise self.error("a longer line", f"a line of at most {LONGEST_LINE:,} bytes")
                if read > self._limit:
                    raise self.error("more", f"at most {self._limit:,} bytes, unpacked (--max-size raises the limit)")
                if self.line == 1:
                    raw = raw.removeprefix(_BYTE_ORDER_MARK)
                self.ends_in_newline = raw.endswith(b"\n")
                yield self.line, self._decode(raw.rstrip(b"\r\n"))

    def document(self) -> str:
        """Return the whole text, for a format without lines."""
        parts: list[str] = []
        size = 0
        for _, text in self.lines():
            size += len(text) + 1
            if size > LARGEST_DOCUMENT:
                raise self.error("a larger file", f"a file of at most {LARGEST_DOCUMENT:,} bytes in this format")
            parts.append(text)
        return "\n".join(parts)

    def beginning(self, size: int) -> str:
        """Return the first `size` bytes, decoded leniently, for the detection of the format."""
        with self._open() as stream:
            try:
                raw = stream.read(size)
            except (OSError, EOFError, zlib.error):
                raw = b""  # `lines` reports the error
        return raw.removeprefix(_BYTE_ORDER_MARK).decode(errors="replace")

    def error(self, found: str, expected: str, *, line: int | None = None, column: int = 1) -> TraceError:
        """Return an error at a line, by default the last read line."""
        return TraceError(self.file, max(1, self.line) if line is None else line, column, found, expected)

    def at_end(self, expected: str) -> TraceError:
        """Return an error at the end of the file."""
        return self.error("the end of the file", expected, line=self.line + 1)

    def _open(self) -> BinaryIO:
        try:
            return open_unpacked(self.file)
        except OSError as error:
            raise TraceError(self.file, 1, 1, f"an unreadable one ({error.strerror})", "a readable file") from None

    def _read(self, stream: BinaryIO, size: int) -> bytes:
        try:
            return stream.readline(size)
        except EOFError:
            raise self.at_end("the rest of the gzip file") from None
        except (OSError, zlib.error) as error:
            raise self.error(f"damaged data ({error})", "a whole gzip file", line=self.line + 1) from None

    def _decode(self, raw: bytes) -> str:
        try:
            return raw.decode()
        except UnicodeDecodeError as error:
            column = len(raw[: error.start].decode()) + 1
            raise self.error(f"the byte 0x{raw[error.start]:02x}", "text in UTF-8", column=column) from None


def open_unpacked(path: str | PathLike[str]) -> BinaryIO:
    """Open a file, and unpack it if its content is gzipped."""
    if not (os.path.isfile(path) or os.path.isdir(path)) and os.path.exists(path):
        raise OSError(errno.ESPIPE, "a pipe or a device; a file is opened more than once", fspath(path))
    with open(path, "rb") as stream:
        is_gzip = stream.read(2) == _GZIP_MAGIC
    if not is_gzip:
        return open(path, "rb", buffering=_BUFFER_BYTES)
    unpacked = cast(io.RawIOBase, gzip.open(path))  # noqa: SIM115  (the reader around it closes it)
    return cast(BinaryIO, io.BufferedReader(unpacked, _BUFFER_BYTES))


_STRING_OR_BRACKET = re.compile(STRING_PATTERN + r"|[\[{\]}]")

_SURROGATE_ESCAPE = re.compile(r"\\u[dD][89a-fA-F]")
"""The escape of a surrogate, one half of a character."""

Json = Any  # a value of the json module: dict, list, str, int, float, bool, None


class JsonError(Exception):
    """Invalid JSON of a trace, with the found and the expected text."""


@contextmanager
def json_errors_as_trace_errors(source: TraceFileReader) -> Iterator[None]:
    """Convert a `JsonError` into a `TraceError` with the file."""
    try:
        yield
    except JsonError as error:
        raise source.error(str(error.args[0]), str(error.args[1]), line=1) from None


def read_json(source: TraceFileReader) -> Json:
    """Parse a file as JSON."""
    text = source.document()
    if max(accumulate(map(_bracket_depth_change, _STRING_OR_BRACKET.finditer(text))), default=0) > MAX_NESTING:
        raise source.error("values nested deeper", f"JSON of at most {MAX_NESTING} levels", line=1)
    try:
        with json_errors_as_trace_errors(source):
            found = json.loads(
                text,
                parse_float=_refuse_json_number,
                parse_constant=_refuse_json_number,
                parse_int=_parse_json_int,
                object_pairs_hook=_object_with_unique_names,
            )
    except json.JSONDecodeError as error:
        rest = text[error.pos : error.pos + 100].split("\n")[0]
        shown = quoted_for_error(rest) if rest else "the end of the file"
        expected = f"JSON ({error.msg.removeprefix('Expecting ')})"
        raise source.error(shown, expected, line=error.lineno, column=error.colno) from None
    if _SURROGATE_ESCAPE.search(text):
        try:
            json.dumps(found, ensure_ascii=False).encode()
        except UnicodeEncodeError as error:
            half = f"\\u{ord(error.object[error.start]):x}"
            raise source.error(f"a lone surrogate ({half})", "text in Unicode", line=1) from None
    return found


def _bracket_depth_change(bracket: re.Match[str]) -> int:
    return 0 if bracket[0][0] == '"' else 1 if bracket[0] in "[{" else -1


def _refuse_json_number(number: str) -> NoReturn:
    raise JsonError(f"the number {quoted_for_error(number)}", "whole numbers of a sensible length")


def _object_with_unique_names(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    result = dict(pairs)
    if len(result) < len(pairs):
        twice = Counter(name for name, _ in pairs).most_common(1)[0][0]
        raise JsonError(f"the name {quoted_for_error(twice)} twice in one object", "each name once")
    return result


def _parse_json_int(number: str) -> int:
    if len(number) > 1_000:
        _refuse_json_number(number)
    return int(number)


CACHED_CHARACTERS = 32 * 2**20
"""Limit on the text in the cache of values and in the cache of parts, in characters each."""

_MOST_UNSPLIT_CHARACTERS = 48  # maximum length of a text that is not split
_DEEPEST_SPLIT = 40  # maximum number of nested levels to split, a limit on the recursion
_STRING_OR_PUNCTUATION = re.compile(STRING_PATTERN + r"|<<|>>|[\[({})\]]|@@|,|:>|\|->")
_OPENING_BRACKET = re.compile(r"\s*(\{|<<|\[|\()")
_FIELD_NAME = re.compile(r"\s*([0-9]*[A-Za-z_][A-Za-z0-9_]*)\s*")
_CLOSING_OF = {"{": "}", "<<": ">>", "[": "]", "(": ")"}
_SEPARATOR_OF = {"{": ",", "<<": ",", "[": ",", "(": "@@"}
_ARROW_OF = {"[": "|->", "(": ":>"}
_CLOSING_BRACKETS = frozenset(_CLOSING_OF.values())

T = TypeVar("T")


class _TwoGenerationCache(Generic[T]):
    """A cache by text in two generations. It drops entries unused for about `CACHED_CHARACTERS` characters."""

    def __init__(self, make: Callable[[str], T]) -> None:
        self._make = make
        self._young: dict[str, T] = {}
        self._old: dict[str, T] = {}
        self._characters = 0

    def __getitem__(self, text: str) -> T:
        try:
            return self._young[text]
        except KeyError:
            pass
        result = self._old[text] if text in self._old else self._make(text)
        self._young[text] = result
        self._characters += len(text) + 64
        if self._characters > CACHED_CHARACTERS // 2:
            self._young, self._old, self._characters = {}, self._young, 0
        return result


class ValueCache:
    """A cache in front of `kraftcheck.spec.tla.text.ValueParser`."""

    def __init__(self, names: Mapping[str, Value] | None = None) -> None:
        self._parser = shared_value_parser() if names is None else ValueParser(names)
        self._parts = _TwoGenerationCache(self._read)
        self._whole = _TwoGenerationCache(self._read_whole)
        self._file, self._intervals = "", IntervalElementBudget()

    def _begin(self, file: str) -> None:
        """Begin another file; drop the caches if the last file had large values with a short text."""
        if self._intervals.left < MAX_INTERVAL_ELEMENTS:
            self._parts, self._whole = _TwoGenerationCache(self._read), _TwoGenerationCache(self._read_whole)
        self._file, self._intervals = file, IntervalElementBudget()

    def read(self, text: str, *, where: str, line: int, column: int) -> tuple[Value, bytes]:
        """Return the value and the hash of a text."""
        if where != self._file:
            self._begin(where)
        before = self._intervals.left
        try:
            return self._whole[text]
        except TlaSyntaxError:
            self._intervals.left = before
        try:
            value = self._parser.parse(text, where=where, line=line, column=column, intervals=self._intervals)
            return value, _text_hash(text)
        except TlaSyntaxError as error:
            raise TraceError(error.file, error.line, error.column, error.found, error.expected) from None

    def _read_whole(self, text: str) -> tuple[Value, bytes]:
        self._intervals.left += len(text)  # limits the memory of intervals to that of other text
        return self._read(text), _text_hash(text)

    def _parse(self, text: str) -> Value:
        return self._parser.parse(text, intervals=self._intervals)

    def _read(self, text: str) -> Value:
        cut = _split_brackets(text) if len(text) > _MOST_UNSPLIT_CHARACTERS else None
        if cut is None:
            return self._parse(text)
        opening, texts, keys = cut
        items = [self._parts[text] for text in texts]
        value = self._joined(opening, items, keys)
        return self._parse(text) if value is None else value

    def _joined(self, opening: str, items: list[Value], keys: list[str]) -> Value | None:
        """Return the value with this opening bracket, items and keys; None if an element or a key occurs twice."""
        if opening == "<<":
            return tuple(items)
        if opening == "{":
            elements = frozenset(items)
            return elements if len(elements) == len(items) else None
        if opening == "(":
            pairs = dict(zip([self._parts[key] for key in keys], items, strict=True))
            return tuple_or_map_of_function(pairs) if len(pairs) == len(items) else None
        names = [_FIELD_NAME.fullmatch(key) for key in keys]
        fields = {name[1]: item for name, item in zip(names, items, strict=True) if name}
        return Map(fields) if len(fields) == len(items) else None


def _text_hash(text: str) -> bytes:
    return blake2b(text.encode(), digest_size=16).digest()


def _split_brackets(text: str) -> tuple[str, list[str], list[str]] | None:
    """Split a text in its outermost brackets into values and keys; None if it does not look like one value."""
    first = _OPENING_BRACKET.match(text)
    if first is None:
        return None
    opening = first[1]
    closing, separator, arrow = _CLOSING_OF[opening], _SEPARATOR_OF[opening], _ARROW_OF.get(opening)
    items: list[str] = []
    keys: list[str] = []
    start, depth = first.end(), 1
    for match in _STRING_OR_PUNCTUATION.finditer(text, first.end()):
        mark = match[0]
        if mark in _CLOSING_OF:
            depth += 1
            if depth > _DEEPEST_SPLIT:
                return None
        elif mark in _CLOSING_BRACKETS:
            depth -= 1
            if depth == 0:
                items.append(text[start : match.start()])
                paired = len(keys) == (len(items) if arrow else 0)
                whole = mark == closing and not text[match.end() :].strip()
                return (opening, items, keys) if paired and whole else None
        elif depth == 1:
            if mark == separator:
                items.append(text[start : match.start()])
            elif mark == arrow and len(keys) == len(items):
                keys.append(text[start : match.start()])
            else:
                continue
            start = match.end()
    return None
