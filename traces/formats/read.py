"""Traces from files of any format: the format is told by what the file says, not by its name."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from os import PathLike

import networkx as nx

from kraftcheck.traces.formats import itf
from kraftcheck.traces.formats import tlc_dot as dot
from kraftcheck.traces.formats import tlc_dump as dump
from kraftcheck.traces.formats import tlc_dump_trace as counterexample
from kraftcheck.traces.formats import tlc_log as log
from kraftcheck.traces.formats import tlc_simulation as simulation
from kraftcheck.traces.parsing.documents import read_json
from kraftcheck.traces.parsing.lines import DEFAULT_LIMIT, Source
from kraftcheck.traces.parsing.value_cache import ValueCache
from kraftcheck.traces.trace import Trace, TraceEvent, TraceFormat, TraceHead, TraceState

_ENOUGH = 2**16  # bytes of the beginning of a file, to tell its format by
_TEXT_READERS: dict[TraceFormat, Callable[[Source, ValueCache], Iterator[TraceEvent]]] = {
    TraceFormat.TLC_LOG: log.read_log,
    TraceFormat.TLC_SIMULATION: simulation.read_simulation,
    TraceFormat.TLC_TLA: counterexample.read_counterexample_tla,
}


def read_traces(
    path: str | PathLike[str],
    *,
    limit_bytes: int = DEFAULT_LIMIT,
    cache: ValueCache | None = None,
) -> Iterator[Trace]:
    """Read the traces of a file: TLC's log, ``-simulate file=``, ``-dumpTrace`` of both kinds, or ITF.

    One trace is in memory at a time, and a value that recurs in it once. For a trace that is too long for that
    there is `stream_traces`.

    Parameters
    ----------
    path
        The file, gzipped or not.
    limit_bytes
        What it may unpack to.
    cache
        What reads the values. Give the same one for many files, and a value that recurs in them is read once; give
        one with names, and identifiers become what they stand for, such as model values in the order of a `.cfg`.

    Yields
    ------
    Trace
        The traces in the order of the file, at least one.

    Raises
    ------
    TraceError
        The file cannot be read, has no trace, or is not what it should be. Traces before that place are given first.
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
            yield Trace(
                head.file,
                head.index,
                head.format,
                tuple(states),
                event.ending,
                head.violated,
                head.problem,
                event.complete,
                head.untyped,
            )
            states = []


def stream_traces(
    path: str | PathLike[str],
    *,
    limit_bytes: int = DEFAULT_LIMIT,
    cache: ValueCache | None = None,
) -> Iterator[TraceEvent]:
    """Read the traces of a file state by state, in memory that does not grow with the file.

    Parameters
    ----------
    path, limit_bytes, cache
        See `read_traces`.

    Yields
    ------
    TraceEvent
        For each trace a `TraceHead`, its states and a `TraceEnd`.

    Raises
    ------
    TraceError
        See `read_traces`.
    """
    source = Source(path, limit_bytes=limit_bytes)
    beginning = source.beginning(_ENOUGH)
    kind = _format_of(beginning)
    if kind is TraceFormat.TLC_DUMP or kind is TraceFormat.TLC_DOT:
        holds = "the states of a model" if kind is TraceFormat.TLC_DUMP else "a state graph"
        raise source.error(f"{holds} ({kind})", "a trace")
    if kind is TraceFormat.TLC_JSON:
        document = read_json(source)
        if isinstance(document, dict) and "states" in document:
            yield from itf.read_itf(source, document)
        elif isinstance(document, dict) and ("counterexample" in document or "state" in document):
            yield from counterexample.read_counterexample_json(source, document)
        else:
            raise source.error("other JSON", "an object with 'counterexample' (TLC) or 'states' (ITF)", line=1)
        return
    yield from _TEXT_READERS[kind](source, cache or ValueCache())


def read_states(
    path: str | PathLike[str],
    *,
    limit_bytes: int = DEFAULT_LIMIT,
    cache: ValueCache | None = None,
) -> Iterator[TraceState]:
    """Read the states of TLC's ``-dump``, in memory that does not grow with the file.

    Parameters
    ----------
    path, limit_bytes, cache
        See `read_traces`.

    Yields
    ------
    TraceState
        A state, with its number in the file.

    Raises
    ------
    TraceError
        The file cannot be read, or is no dump.
    """
    yield from dump.read_states(Source(path, limit_bytes=limit_bytes), cache or ValueCache())


def read_graph(
    path: str | PathLike[str],
    *,
    limit_bytes: int = DEFAULT_LIMIT,
    cache: ValueCache | None = None,
) -> nx.MultiDiGraph[int]:
    """Read the state graph of TLC's ``-dump dot,actionlabels``.

    Parameters
    ----------
    path, limit_bytes, cache
        See `read_traces`.

    Returns
    -------
    networkx.MultiDiGraph
        See `kraftcheck.traces.formats.tlc_dot.read_dot`.

    Raises
    ------
    TraceError
        The file cannot be read, or is no such graph.
    """
    return dot.read_dot(Source(path, limit_bytes=limit_bytes), cache or ValueCache())


def detect_format(path: str | PathLike[str]) -> TraceFormat:
    """Return the format of a file, told by its beginning.

    Both kinds of JSON look alike there: the answer `TraceFormat.TLC_JSON` stands for ITF, too. What looks like
    nothing else is taken for a log.

    Parameters
    ----------
    path
        The file, gzipped or not.

    Raises
    ------
    TraceError
        The file cannot be read.
    """
    return _format_of(Source(path).beginning(_ENOUGH))


def _format_of(beginning: str) -> TraceFormat:
    lines = [line for line in beginning.splitlines() if line.strip()]
    first = lines[0].strip() if lines else ""
    if first.startswith("{"):
        return TraceFormat.TLC_JSON
    if dot.GRAPH.match(first):
        return TraceFormat.TLC_DOT
    if dump.STATE.fullmatch(first):
        return TraceFormat.TLC_DUMP
    if simulation.MODULE.match(first):
        is_record = re.search(rf"^{counterexample.MODULE_BODY.pattern}", beginning, re.MULTILINE)
        return TraceFormat.TLC_TLA if is_record else TraceFormat.TLC_SIMULATION
    return TraceFormat.TLC_LOG
