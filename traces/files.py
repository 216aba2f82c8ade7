"""Trace files, read and written. Their beginning tells the format, not their name."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from os import PathLike, fspath
from typing import TYPE_CHECKING, TextIO, cast

from kraftcheck.traces.formats.tlc_dump import read_dot, read_dump
from kraftcheck.traces.parsing import DEFAULT_LIMIT, Source, ValueCache
from kraftcheck.traces.trace import Trace, TraceEvent, TraceFormat, TraceHead, TraceState

if TYPE_CHECKING:
    import networkx as nx

_BEGINNING = 2**16  # bytes that tell the format


def read_traces(
    path: str | PathLike[str], *, limit_bytes: int = DEFAULT_LIMIT, cache: ValueCache | None = None
) -> Iterator[Trace]:
    """Read the traces of a file: TLC's log, ``-simulate file=``, ``-dumpTrace`` of both kinds, or ITF.

    One trace is in memory at a time, and a value that recurs in it once. `stream_traces` takes longer traces, too.

    `cache`: reads the values. A cache shared by many files reads a value that recurs in them once; a cache with names
    turns identifiers into what they stand for, such as model values in the order of a `.cfg`.
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
    path: str | PathLike[str], *, limit_bytes: int = DEFAULT_LIMIT, cache: ValueCache | None = None
) -> Iterator[TraceEvent]:
    """Read the traces of a file state by state, in memory that does not grow with the file."""
    source = Source(path, limit_bytes=limit_bytes)
    yield from _format_of(source).read(source, cache or ValueCache())


def read_states(
    path: str | PathLike[str], *, limit_bytes: int = DEFAULT_LIMIT, cache: ValueCache | None = None
) -> Iterator[TraceState]:
    """Read the states of TLC's ``-dump``, in memory that does not grow with the file."""
    yield from read_dump(Source(path, limit_bytes=limit_bytes), cache or ValueCache())


def read_graph(
    path: str | PathLike[str], *, limit_bytes: int = DEFAULT_LIMIT, cache: ValueCache | None = None
) -> nx.MultiDiGraph[int]:
    """Read the state graph of TLC's ``-dump dot,actionlabels``."""
    return read_dot(Source(path, limit_bytes=limit_bytes), cache or ValueCache())


def detect_format(path: str | PathLike[str]) -> TraceFormat:
    """Return the format of a file, told by its beginning.

    Both kinds of JSON look alike there: the answer `TraceFormat.TLC_JSON` stands for ITF, too. A file that looks like
    nothing else is taken for a log.
    """
    return _format_of(Source(path))


def _format_of(source: Source) -> TraceFormat:
    beginning = source.beginning(_BEGINNING)
    first = next((line.strip() for line in beginning.splitlines() if line.strip()), "")
    return next(known for known in TraceFormat if known.recognises(first, beginning))


def form_of(path: str | PathLike[str]) -> str:
    """Return the form in which `write_trace` writes a file of this name by default."""
    name = fspath(path).removesuffix(".gz")
    fitting = [known for known in TraceFormat if known.form is not None and name.endswith(known.ending)]
    return max(fitting, key=lambda known: len(known.ending)).form or ""


def write_trace(trace: Trace, path: str | PathLike[str], form: str | None = None) -> None:
    """Write a trace to a file."""
    name = fspath(path)
    forms = {known.form: known for known in TraceFormat if known.form is not None}
    form = form or form_of(path)
    if form not in forms:
        raise ValueError(f"expected as the form {', '.join(forms)}, found {form!r}")
    texts = forms[form].write(trace)
    opener = gzip.open if name.endswith(".gz") else open
    with cast(TextIO, opener(name, "wt", encoding="utf-8", newline="\n")) as stream:
        stream.writelines(texts)
