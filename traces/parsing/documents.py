"""JSON, read as a whole, with an error for everything that is not what it should be."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import accumulate
from typing import Any, NoReturn

from kraftcheck.spec.tla.parsing import DEEPEST, QUOTED, quoted
from kraftcheck.traces.parsing.lines import Source
from kraftcheck.traces.parsing.value_cache import ValueCache
from kraftcheck.traces.trace import Trace, TraceEvent, TraceFormat

_BRACKET = re.compile(QUOTED + r"|[\[{\]}]")

_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
"""Begins the code of half a character; two halves make one."""

Json = Any  # what the json module makes of JSON: dict, list, str, int, float, bool, None


class JsonFormat(TraceFormat):
    """A format in JSON. Which of them a file has is told by the whole document."""

    mark = ""

    def fits(self, document: dict[str, Json]) -> bool:
        """Tell whether a document has this format."""
        raise NotImplementedError

    def events(self, source: Source, document: dict[str, Json]) -> Iterator[TraceEvent]:
        """Yield the traces of a document. See `read`."""
        raise NotImplementedError

    def document(self, trace: Trace) -> dict[str, Json]:
        """Return the document of a trace. See `write`."""
        raise NotImplementedError

    def read(self, source: Source, cache: ValueCache) -> Iterator[TraceEvent]:
        """Read the document with the format that it has. See `TraceFormat.read`."""
        document = read_json(source)
        known = [other for other in TraceFormat if isinstance(other, JsonFormat)]
        for other in known:
            if isinstance(document, dict) and other.fits(document):
                return other.events(source, document)
        raise source.error("other JSON", f"an object with {' or '.join(other.mark for other in known)}", line=1)

    def write(self, trace: Trace) -> Iterator[str]:
        """Return the text of the document. See `TraceFormat.write`."""
        return iter([json.dumps(self.document(trace), ensure_ascii=False, separators=(",", ":"))])


class JsonError(Exception):
    """JSON that no trace consists of: what was found, what was expected."""


@contextmanager
def placed(source: Source) -> Iterator[None]:
    """Turn a `JsonError` into a `TraceError` of a file."""
    try:
        yield
    except JsonError as error:
        raise source.error(str(error.args[0]), str(error.args[1]), line=1) from None


def read_json(source: Source) -> Json:
    """Read the JSON that a file consists of."""
    text = source.document()
    if max(accumulate(map(_rise, _BRACKET.finditer(text))), default=0) > DEEPEST:
        raise source.error("values nested deeper", f"JSON of at most {DEEPEST} levels", line=1)
    try:
        with placed(source):
            found = json.loads(
                text, parse_float=_refuse, parse_constant=_refuse, parse_int=_integer, object_pairs_hook=_object
            )
    except json.JSONDecodeError as error:
        rest = text[error.pos : error.pos + 100].split("\n")[0]
        told = quoted(rest) if rest else "the end of the file"
        expected = f"JSON ({error.msg.removeprefix('Expecting ')})"
        raise source.error(told, expected, line=error.lineno, column=error.colno) from None
    if _SURROGATE.search(text):
        try:
            json.dumps(found, ensure_ascii=False).encode()
        except UnicodeEncodeError as error:
            half = f"\\u{ord(error.object[error.start]):x}"
            raise source.error(f"half a character ({half})", "text in Unicode", line=1) from None
    return found


def _rise(bracket: re.Match[str]) -> int:
    return 0 if bracket[0][0] == '"' else 1 if bracket[0] in "[{" else -1


def _refuse(number: str) -> NoReturn:
    raise JsonError(f"the number {quoted(number)}", "whole numbers of a sensible length")


def _object(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    result = dict(pairs)
    if len(result) < len(pairs):
        twice = Counter(name for name, _ in pairs).most_common(1)[0][0]
        raise JsonError(f"the name {quoted(twice)} twice in one object", "each name once")
    return result


def _integer(number: str) -> int:
    if len(number) > 1_000:
        _refuse(number)
    return int(number)
