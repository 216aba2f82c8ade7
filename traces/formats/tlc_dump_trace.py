"""What TLC writes with ``-dumpTrace tla`` and ``-dumpTrace json``: a record of the states and of the steps.

Both hold a graph: ``state`` has pairs of a number and a state, ``action`` has triples of such a pair, the action
and another pair. For a trace that goes on for ever one of the steps leads back.
Source: what the current TLC writes, and ``tlc2/value/impl/CounterExample.java`` of the tlaplus repository.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from kraftcheck.traces.parsing.documents import Json
from kraftcheck.traces.parsing.lines import Source
from kraftcheck.traces.parsing.states import action_of
from kraftcheck.traces.parsing.value_cache import ValueCache
from kraftcheck.traces.trace import Ending, Location, TraceEnd, TraceEvent, TraceFormat, TraceHead, TraceState

MODULE_BODY = re.compile(r"CounterExample\s*==\s*")
_MODULE_END = re.compile(r"\n={4,}\s*$")
_LOCATION = ("beginLine", "beginColumn", "endLine", "endColumn", "module")


def read_counterexample_tla(source: Source, cache: ValueCache) -> Iterator[TraceEvent]:
    """Read the module of ``-dumpTrace tla``.

    Parameters
    ----------
    source
        The file.
    cache
        What reads the values.

    Yields
    ------
    TraceEvent
        A `TraceHead`, the states and a `TraceEnd`.

    Raises
    ------
    TraceError
        The file is not such a module.
    """
    text = source.document()
    body = MODULE_BODY.search(text)
    end = _MODULE_END.search(text)
    if body is None:
        raise source.at_end("'CounterExample =='")
    if end is None:
        raise source.at_end("'====', the end of the module")
    line = text.count("\n", 0, body.end()) + 1
    column = body.end() - text.rfind("\n", 0, body.end())
    value, _ = cache.read(text[body.end() : end.start()], where=source.file, line=line, column=column)
    yield TraceHead(source.file, 0, TraceFormat.TLC_TLA)
    yield from _events(source, value, line)


def read_counterexample_json(source: Source, document: Json) -> Iterator[TraceEvent]:
    """Read the JSON of ``-dumpTrace json``. The values stay what JSON makes of them: the trace is untyped.

    Parameters
    ----------
    source
        The file.
    document
        The JSON that it consists of.

    Yields
    ------
    TraceEvent
        A `TraceHead`, the states and a `TraceEnd`.

    Raises
    ------
    TraceError
        The JSON is not such a trace.
    """
    yield TraceHead(source.file, 0, TraceFormat.TLC_JSON, untyped=True)
    yield from _events(source, document.get("counterexample", document), 1)


def _events(source: Source, record: Any, line: int) -> Iterator[TraceEvent]:
    try:
        states, end = _states(record, line)
    except (TypeError, ValueError, KeyError, AttributeError, IndexError):
        found, expected = "something else", "a record of states, numbered from 1, and of the actions between them"
        raise source.error(found, expected, line=line) from None
    yield from states
    yield end


def _states(record: Any, line: int) -> tuple[list[TraceState], TraceEnd]:
    """Put the states in order. Any error of Python's says that the record is not what it should be."""
    states = dict(record["state"])
    last = len(states)
    arrivals: dict[int, tuple[str | None, Location | None]] = {1: (None, None)}
    end = TraceEnd()
    for (before, _), action, (after, _) in record["action"]:
        if after == before + 1:
            arrivals[after] = _action(action)
        elif before == last and 1 <= after <= before and end.ending is None:
            name, location = _action(action)
            end = TraceEnd(Ending() if after == last and name is None else Ending(after, name, location))
        else:
            raise ValueError("a step that is neither the next one nor the one that leads back")
    for number in range(1, last + 1):
        if not isinstance(states[number], Mapping) or not states[number]:
            raise TypeError("a state that is no record of variables")
    if not states or len(arrivals) != last:
        raise ValueError("states and actions that do not fit together")
    trace = [
        TraceState(number, states[number], arrivals[number][0], location=arrivals[number][1], line=line)
        for number in range(1, last + 1)
    ]
    return trace, end


def _action(record: Mapping[str, Any]) -> tuple[str | None, Location | None]:
    name, _, _ = action_of(record["name"])
    place = record.get("location")
    if not place:
        return name, None
    *numbers, module = (place[field] for field in _LOCATION)
    first_line, first_column, last_line, last_column = map(int, numbers)
    return name, Location(first_line, first_column, last_line, last_column, str(module))
