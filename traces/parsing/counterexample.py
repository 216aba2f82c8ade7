"""The record of states and steps that TLC writes with ``-dumpTrace tla`` and ``-dumpTrace json``.

It is a graph: ``state`` has pairs of a number and a state, ``action`` has triples of such a pair, the action
and another pair. For a trace that goes on for ever one of the steps leads back.
Source: what the current TLC writes, and ``tlc2/value/impl/CounterExample.java`` of the tlaplus repository.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from kraftcheck.traces.parsing.lines import Source
from kraftcheck.traces.parsing.states import action_of, location_of
from kraftcheck.traces.trace import Ending, Location, TraceEnd, TraceEvent, TraceState

LOCATION = ("beginLine", "beginColumn", "endLine", "endColumn", "module")
"""The fields of an action's place, in the order of `Location`."""


def read_record(source: Source, record: Any, line: int) -> Iterator[TraceEvent]:
    """Read the states and the end of a trace."""
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
    if len(record["state"]) != last:
        raise ValueError("a state of one number twice")
    arrivals: dict[int, tuple[str | None, Location | None]] = {1: (None, None)}
    end = TraceEnd()
    for (before, source), action, (after, target) in record["action"]:
        if (source, target) != (states[before], states[after]):
            raise ValueError("a step between other states than those of these numbers")
        if after == before + 1 and after not in arrivals:
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
    *numbers, module = (place[field] for field in LOCATION)
    return name, location_of(numbers, str(module))
