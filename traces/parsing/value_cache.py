"""Values of variables, each distinct text read once.

The texts of a trace repeat themselves, as a whole and in their parts: a step changes two of twenty variables,
and a message bag of sixty messages by one. So a text is cut at the commas of its outermost brackets, and each
part is read by the grammar once. What the grammar says stays the law: where anything is odd about a text, the
grammar reads all of it, and its errors are the ones that are seen.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from hashlib import blake2b
from typing import Generic, TypeVar

from kraftcheck.spec.tla.parsing import (
    LARGEST_INTERVAL,
    QUOTED,
    Intervals,
    TlaSyntaxError,
    ValueParser,
    as_function,
    shared_parser,
)
from kraftcheck.spec.values import Map, Value
from kraftcheck.traces.errors import TraceError

CACHED_CHARACTERS = 32 * 2**20
"""Characters of text that the caches of whole values and of parts may hold each."""

_SHORT = 48  # characters that are not worth cutting
_DEEP = 40  # levels that are cut, and no more: cutting recurses
_MARK = re.compile(QUOTED + r"|<<|>>|[\[({})\]]|@@|,|:>|\|->")
_NAME = re.compile(r"\s*([0-9]*[A-Za-z_][A-Za-z0-9_]*)\s*")
_CLOSING = {"{": "}", "<<": ">>", "[": "]", "(": ")"}
_SEPARATOR = {"{": ",", "<<": ",", "[": ",", "(": "@@"}
_ARROW = {"[": "|->", "(": ":>"}
_CLOSINGS = frozenset(_CLOSING.values())

T = TypeVar("T")


class _Cache(Generic[T]):
    """Remembers the results for texts; forgets those not asked for within about `CACHED_CHARACTERS` characters."""

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
    """Reads values as `kraftcheck.spec.tla.parsing.ValueParser` does, and remembers them."""

    def __init__(self, names: Mapping[str, Value] | None = None) -> None:
        self._parser = shared_parser() if names is None else ValueParser(names)
        self._parts = _Cache(self._read)
        self._whole = _Cache(self._read_whole)
        self._file, self._intervals = "", Intervals()

    def _begin(self, file: str) -> None:
        """Begin a file; forget values of the last one that are large for their text."""
        if self._intervals.left < LARGEST_INTERVAL:
            self._parts, self._whole = _Cache(self._read), _Cache(self._read_whole)
        self._file, self._intervals = file, Intervals()

    def read(self, text: str, *, where: str, line: int, column: int) -> tuple[Value, bytes]:
        """Return the value of a text, and a hash of the text."""
        if where != self._file:
            self._begin(where)
        before = self._intervals.left
        try:
            return self._whole[text]
        except TlaSyntaxError:
            self._intervals.left = before
        try:
            value = self._parser.parse(text, where=where, line=line, column=column, intervals=self._intervals)
            return value, _fingerprint(text)
        except TlaSyntaxError as error:
            raise TraceError(error.file, error.line, error.column, error.found, error.expected) from None

    def _read_whole(self, text: str) -> tuple[Value, bytes]:
        self._intervals.left += len(text)  # so intervals take no more memory than other text may
        return self._read(text), _fingerprint(text)

    def _parse(self, text: str) -> Value:
        return self._parser.parse(text, intervals=self._intervals)

    def _read(self, text: str) -> Value:
        cut = _cut(text) if len(text) > _SHORT else None
        if cut is None:
            return self._parse(text)
        opening, texts, keys = cut
        items = [self._parts[text] for text in texts]
        if opening == "<<":
            return tuple(items)
        if opening == "{":
            elements = frozenset(items)
            return elements if len(elements) == len(items) else self._parse(text)
        if opening == "(":
            pairs = dict(zip([self._parts[key] for key in keys], items, strict=True))
            return as_function(pairs) if len(pairs) == len(items) else self._parse(text)
        names = [_NAME.fullmatch(key) for key in keys]
        fields = {name[1]: item for name, item in zip(names, items, strict=True) if name}
        return Map(fields) if len(fields) == len(items) else self._parse(text)


def _fingerprint(text: str) -> bytes:
    return blake2b(text.encode(), digest_size=16).digest()


def _cut(text: str) -> tuple[str, list[str], list[str]] | None:
    """Cut a text in its outermost brackets, at separators and arrows; None if it does not look like one value."""
    marks = _MARK.finditer(text)
    first = next(marks, None)
    if first is None or first[0] not in _CLOSING or text[: first.start()].strip():
        return None
    opening = first[0]
    closing, separator, arrow = _CLOSING[opening], _SEPARATOR[opening], _ARROW.get(opening)
    items: list[str] = []
    keys: list[str] = []
    start, depth = first.end(), 1
    for match in marks:
        mark = match[0]
        if mark in _CLOSING:
            depth += 1
            if depth > _DEEP:
                return None
        elif mark in _CLOSINGS:
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
