"""Traces and their file formats: the format interface, format detection, reading and writing."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from os import PathLike, fspath
from pkgutil import iter_modules
from typing import NamedTuple, Self, TextIO, cast

from kraftcheck.spec.values import Value
from kraftcheck.traces.parsing import DEFAULT_LIMIT_BYTES, Json, TraceFileReader, ValueCache, read_json

_FORMATS_PACKAGE = "kraftcheck.traces.formats"


class _TraceFormatMeta(type):
    """The metaclass that finds formats: `TraceFormat.TLC_LOG` is the constant `TLC_LOG` of a module in `formats`."""

    def __getattr__(cls, name: str) -> TraceFormat:
        found = formats_by_constant_name().get(name)
        if found is None:
            raise AttributeError(f"unknown format {name}")
        return found

    def __iter__(cls) -> Iterator[TraceFormat]:
        return iter(sorted(formats_by_constant_name().values(), key=lambda found: found.order))


@cache
def formats_by_constant_name() -> dict[str, TraceFormat]:
    """Return all trace formats by the names of their constants; their modules are imported first."""
    names = [module.name for module in iter_modules(import_module(_FORMATS_PACKAGE).__path__)]
    constants = [item for name in names for item in vars(import_module(f"{_FORMATS_PACKAGE}.{name}")).items()]
    return {name: value for name, value in constants if isinstance(value, TraceFormat)}


class TraceFormat(str, metaclass=_TraceFormatMeta):
    """A trace file format. The string is its name in messages and tables.

    Modules in the folder `formats` define formats as constants. `TraceFormat` is iterable over all of them and has each
    as an attribute.
    """

    order = 0
    holds = "a trace"
    has_lines = False
    form: str | None = None  # the name for `write_trace`; None for a read-only format
    ending = ""  # the file name extension

    def recognises(self, first: str, beginning: str) -> bool:
        """Whether a file has this format, by its first line and its beginning."""
        return False

    def read(self, source: TraceFileReader, cache: ValueCache) -> Iterator[TraceEvent]:
        """Yield the events of the traces in a file: for each trace a `TraceHead`, its states and a `TraceEnd`."""
        raise source.error(f"{self.holds} ({self})", "a trace")

    def write(self, trace: Trace) -> Iterator[str]:
        """Yield the text of a file with a trace."""
        raise ValueError(f"format {self}: read-only; choose another format")


class JsonFormat(TraceFormat):
    """A JSON format, which is recognized from the whole document."""

    mark = ""

    def fits(self, document: dict[str, Json]) -> bool:
        """Whether a document has this format."""
        raise NotImplementedError

    def events(self, source: TraceFileReader, document: dict[str, Json]) -> Iterator[TraceEvent]:
        """Yield the events of the traces in a document (see `read`)."""
        raise NotImplementedError

    def document(self, trace: Trace) -> dict[str, Json]:
        """Return a trace as a document (see `write`)."""
        raise NotImplementedError

    def read(self, source: TraceFileReader, cache: ValueCache) -> Iterator[TraceEvent]:
        """Read a document with the JSON format that fits it."""
        document = read_json(source)
        known = [other for other in TraceFormat if isinstance(other, JsonFormat)]
        for other in known:
            if isinstance(document, dict) and other.fits(document):
                return other.events(source, document)
        raise source.error("other JSON", f"an object with {' or '.join(other.mark for other in known)}", line=1)

    def write(self, trace: Trace) -> Iterator[str]:
        """Yield the document of a trace as text."""
        return iter([json.dumps(self.document(trace), ensure_ascii=False, separators=(",", ":"))])


class ActionLocation(NamedTuple):
    """The place of an action in its TLA+ module."""

    first_line: int
    first_column: int
    last_line: int
    last_column: int
    module: str

    def __str__(self) -> str:
        first = f"line {self.first_line}, col {self.first_column}"
        return f"{first} to line {self.last_line}, col {self.last_column} of module {self.module}"


class InfiniteEnding(NamedTuple):
    """The infinite continuation of a trace: stuttering, or a step back to an earlier state."""

    back_to: int | None = None
    action: str | None = None
    location: ActionLocation | None = None

    def __str__(self) -> str:
        return "stuttering" if self.back_to is None else f"back to state {self.back_to}"


@dataclass(frozen=True, slots=True)
class TraceState:
    """A state of a trace.

    `fingerprints` has a hash of each variable's text, in the order of `variables`. Equal hashes imply equal values, but
    not conversely. It is empty for formats without a text of each variable.
    """

    number: int
    variables: Mapping[str, Value]
    action: str | None = None
    parameters: str | None = None
    location: ActionLocation | None = None
    line: int = 1
    fingerprints: tuple[bytes, ...] = ()


@dataclass(frozen=True, slots=True)
class TraceHead:
    """The beginning of a trace in its file; for the fields see `Trace`."""

    file: str
    index: int
    format: TraceFormat
    violated: str | None = None
    problem: str | None = None
    untyped: bool = False


@dataclass(frozen=True, slots=True)
class TraceEnd:
    """The end of a trace in its file; for the fields see `Trace`."""

    ending: InfiniteEnding | None = None
    complete: bool = True


TraceEvent = TraceHead | TraceState | TraceEnd


@dataclass(frozen=True, slots=True)
class Trace:
    """A trace of a file, in memory."""

    file: str
    index: int
    format: TraceFormat
    states: tuple[TraceState, ...]
    ending: InfiniteEnding | None = None
    violated: str | None = None
    problem: str | None = None
    complete: bool = True
    untyped: bool = False

    @classmethod
    def of(cls, head: TraceHead, states: Iterable[TraceState], end: TraceEnd) -> Self:
        """Assemble a trace from its head, states and end."""
        return cls(
            head.file, head.index, head.format, tuple(states), end.ending, head.violated, head.problem, end.complete,
            head.untyped,
        )  # fmt: skip

    def events(self) -> Iterator[TraceEvent]:
        """Yield the trace as events, as `stream_traces` does."""
        yield TraceHead(self.file, self.index, self.format, self.violated, self.problem, self.untyped)
        yield from self.states
        yield TraceEnd(self.ending, self.complete)

    def require_types(self) -> None:
        """Raise ValueError if the values are untyped JSON."""
        if self.untyped:
            raise ValueError("the values of this trace are untyped JSON")


_DETECTION_BYTES = 2**16  # bytes for the detection of the format


def read_traces(
    path: str | PathLike[str], *, limit_bytes: int = DEFAULT_LIMIT_BYTES, cache: ValueCache | None = None
) -> Iterator[Trace]:
    """Read the traces of a file: TLC's log, ``-simulate file=``, ``-dumpTrace`` of both kinds, or ITF.

    One trace is in memory at a time; for longer traces see `stream_traces`. A `cache` shared by many files parses a
    recurring value once. A cache with names maps identifiers to values, such as model values in the order of a `.cfg`.
    """
    head: TraceHead | None = None
    states: list[TraceState] = []
    for event in stream_traces(path, limit_bytes=limit_bytes, cache=cache):
        if isinstance(event, TraceHead):
            head, states = event, []
        elif isinstance(event, TraceState):
            states.append(event)
        else:
            assert head is not None
            yield Trace.of(head, states, event)


def stream_traces(
    path: str | PathLike[str], *, limit_bytes: int = DEFAULT_LIMIT_BYTES, cache: ValueCache | None = None
) -> Iterator[TraceEvent]:
    """Read the traces of a file state by state, in bounded memory."""
    source = TraceFileReader(path, limit_bytes=limit_bytes)
    yield from _detect_source_format(source).read(source, cache or ValueCache())


def detect_format(path: str | PathLike[str]) -> TraceFormat:
    """Return the format of a file, detected from its beginning.

    `TraceFormat.TLC_JSON` stands for ITF too, since both begin alike. The default for unrecognized files is TLC's log.
    """
    return _detect_source_format(TraceFileReader(path))


def _detect_source_format(source: TraceFileReader) -> TraceFormat:
    beginning = source.beginning(_DETECTION_BYTES)
    first = next((line.strip() for line in beginning.splitlines() if line.strip()), "")
    return next(known for known in TraceFormat if known.recognises(first, beginning))


def format_name_for_path(path: str | PathLike[str]) -> str:
    """Return the default `form` of `write_trace` for a file name, by its ending."""
    name = fspath(path).removesuffix(".gz")
    fitting = [known for known in TraceFormat if known.form is not None and name.endswith(known.ending)]
    return max(fitting, key=lambda known: len(known.ending)).form or ""


def write_trace(trace: Trace, path: str | PathLike[str], form: str | None = None) -> None:
    """Write a trace to a file, gzipped if its name ends in `.gz`."""
    name = fspath(path)
    forms = {known.form: known for known in TraceFormat if known.form is not None}
    form = form or format_name_for_path(path)
    if form not in forms:
        raise ValueError(f"form: expected one of {', '.join(forms)}, found {form!r}")
    texts = forms[form].write(trace)
    opener = gzip.open if name.endswith(".gz") else open
    with cast(TextIO, opener(name, "wt", encoding="utf-8", newline="\n")) as stream:
        stream.writelines(texts)
