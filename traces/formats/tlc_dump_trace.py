"""The formats of TLC's ``-dumpTrace tla`` and ``-dumpTrace json`` (without types).

The record is a graph: ``state`` has pairs of number and state, ``action`` has triples: a pair, an action,
another pair. In a lasso one of the steps leads back.
Source: the output of the current TLC, and ``tlc2/value/impl/CounterExample.java`` of the tlaplus repository.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Iterator, Mapping
from typing import Any

from kraftcheck.spec.tla.text import as_name, in_tlc_order, one_line
from kraftcheck.spec.values import Map, ModelValue, Record, Symbol, Value, field_names, field_values
from kraftcheck.traces.formats.tlc_log import MODULE, action_of, location_of
from kraftcheck.traces.parsing import Json, Source, ValueCache
from kraftcheck.traces.trace import (
    Ending,
    JsonFormat,
    Location,
    Trace,
    TraceEnd,
    TraceEvent,
    TraceFormat,
    TraceHead,
    TraceState,
)

LOCATION = ("beginLine", "beginColumn", "endLine", "endColumn", "module")
"""The fields of an action's location, in the order of `Location`."""


def read_record(source: Source, record: Any, line: int) -> Iterator[TraceEvent]:
    """Yield the states and the end of a trace, given the record that TLC dumps; raise TraceError if it is invalid."""
    try:
        states, end = _states(record, line)
    except (TypeError, ValueError, KeyError, AttributeError, IndexError):
        found, expected = "something else", "a record of states, numbered from 1, and of the actions between them"
        raise source.error(found, expected, line=line) from None
    yield from states
    yield end


def _states(record: Any, line: int) -> tuple[list[TraceState], TraceEnd]:
    """Return the states in order; an invalid record raises TypeError, ValueError or the like."""
    states, last = dict(record["state"]), len(record["state"])
    if len(states) != last:
        raise ValueError("two states with the same number")
    end = TraceEnd()
    arrivals: dict[int, tuple[str | None, Location | None]] = {1: (None, None)}
    for (before, source), action, (after, target) in record["action"]:
        if (source, target) != (states[before], states[after]):
            raise ValueError("a step whose states differ from the states with its numbers")
        if after == before + 1 and after not in arrivals:
            arrivals[after] = _read_action(action)
        elif before == last and 1 <= after <= before and end.ending is None:
            name, location = _read_action(action)
            end = TraceEnd(Ending() if after == last and name is None else Ending(after, name, location))
        else:
            raise ValueError("a step that leads neither to the next state nor back from the last state")
    if not states or len(arrivals) != last:
        raise ValueError("no state, or a state without an action that leads to it")
    return [_state(number, states[number], *arrivals[number], line) for number in range(1, last + 1)], end


def _state(number: int, variables: Any, action: str | None, location: Location | None, line: int) -> TraceState:
    if not isinstance(variables, Mapping) or not variables:
        raise TypeError("a state that is no record of variables")
    return TraceState(number, variables, action, location=location, line=line)


def _read_action(record: Mapping[str, Any]) -> tuple[str | None, Location | None]:
    name, _, _ = action_of(record["name"])
    place = record.get("location")
    if not place:
        return name, None
    *numbers, module = (place[field] for field in LOCATION)
    return name, location_of(numbers, str(module))


class _Counterexample(JsonFormat):
    form = "json"
    ending = ".json"
    mark = "'counterexample' (TLC)"

    def recognises(self, first: str, beginning: str) -> bool:
        return first.startswith("{")

    def fits(self, document: dict[str, Json]) -> bool:
        return "states" not in document and ("counterexample" in document or "state" in document)

    def events(self, source: Source, document: dict[str, Json]) -> Iterator[TraceEvent]:
        yield TraceHead(source.file, 0, self, untyped=True)
        yield from read_record(source, document.get("counterexample", document), 1)

    def document(self, trace: Trace) -> dict[str, Json]:
        return as_json(trace)


TLC_JSON = _Counterexample("TLC -dumpTrace json")


def as_json(trace: Trace) -> dict[str, Json]:
    """Return a trace as the untyped JSON of TLC's ``-dumpTrace json``."""
    states: list[list[Json]] = []
    for state in trace.states:
        variables = {name: value if trace.untyped else _json(value) for name, value in state.variables.items()}
        states.append([state.number, variables])
    steps = [
        [before, _action(state.action, state.location), after]
        for before, after, state in zip(states, states[1:], trace.states[1:], strict=False)
    ]
    if trace.ending is not None:
        action = _action(trace.ending.action, trace.ending.location)
        steps.append([states[-1], action, states[(trace.ending.back_to or len(states)) - 1]])
    return {"counterexample": {"action": steps, "state": states}, "vars": list(trace.states[0].variables)}


def _action(name: str | None, location: Location | None) -> dict[str, Json]:
    place = {"location": dict(zip(LOCATION, location, strict=True))} if location else {}
    return {"name": name or "UnnamedAction", **place}


def _json(value: Value) -> Json:
    if isinstance(value, ModelValue | Symbol):
        return one_line(value)
    if value is None or isinstance(value, enum.Enum):
        return _json(as_name(value))
    if isinstance(value, tuple):
        return list(map(_json, value))
    if isinstance(value, frozenset):
        return list(map(_json, in_tlc_order(value)))
    if isinstance(value, Record):
        return dict(zip(field_names(type(value)), map(_json, field_values(value)), strict=True))
    if isinstance(value, Map):
        return {key if isinstance(key, str) else one_line(key): _json(item) for key, item in value.items()} or []
    return value


_BODY = re.compile(r"CounterExample\s*==\s*")
_BODY_LINE = re.compile(f"^{_BODY.pattern}", re.MULTILINE)
_END = re.compile(r"\n={4,}\s*$")


class _Module(TraceFormat):
    def recognises(self, first: str, beginning: str) -> bool:
        return MODULE.match(first) is not None and _BODY_LINE.search(beginning) is not None

    def read(self, source: Source, cache: ValueCache) -> Iterator[TraceEvent]:
        text = source.document()
        body, end = _BODY.search(text), _END.search(text)
        if body is None:
            raise source.at_end("'CounterExample =='")
        if end is None:
            raise source.at_end("'====', the end of the module")
        line = text.count("\n", 0, body.end()) + 1
        column = body.end() - text.rfind("\n", 0, body.end())
        value, _ = cache.read(text[body.end() : end.start()], where=source.file, line=line, column=column)
        yield TraceHead(source.file, 0, self)
        yield from read_record(source, value, line)


TLC_TLA = _Module("TLC -dumpTrace tla")


_TRACE = re.compile(r"^([ \t]*)<<\s*\[\s*_TEAction\b", re.MULTILINE)
_LAST = re.compile(r",\s*<(?:Stuttering|Back to state:? (\d{1,9}).*)>\s*\Z")


class _Copied(TraceFormat):
    """The form in which the TLA+ Toolbox copies an error trace: a sequence of records with their actions."""

    def recognises(self, first: str, beginning: str) -> bool:
        return _TRACE.search(beginning) is not None

    def read(self, source: Source, cache: ValueCache) -> Iterator[TraceEvent]:
        text = source.document()
        line, counted = 1, 0  # the line of the character at `counted`
        for index, found in enumerate(_TRACE.finditer(text)):
            line, counted = line + text.count("\n", counted, found.start()), found.start()
            end = re.compile(f"^{found[1]}>>", re.MULTILINE).search(text, found.end())
            if end is None:
                raise source.at_end("'>>', the end of the trace")
            body = text[found.start() : end.start()]
            last = _LAST.search(body)
            body = body[: last.start()] if last else body
            value, _ = cache.read(f"{body}>>", where=source.file, line=line, column=1)
            yield TraceHead(source.file, index, self)
            try:
                yield from _copied_states(value, line)
            except (TypeError, ValueError, KeyError, AttributeError):
                expected = "records of '_TEAction' and the variables, in the order of their positions"
                raise source.error("something else", expected, line=line) from None
            yield TraceEnd(Ending(int(last[1]) if last[1] else None) if last else None)


def _copied_states(records: Any, line: int) -> Iterator[TraceState]:
    before = 0
    for record in records:
        step, variables = record["_TEAction"], {name: record[name] for name in record if name != "_TEAction"}
        number = step["position"]
        if number <= before:
            raise ValueError("positions that do not ascend")
        before = number
        name, parameters, location = action_of(f"{step['name']} {step['location']}")
        yield TraceState(number, variables, None if number == 1 else name, parameters, location, line)


TLC_TOOLBOX = _Copied("TLA+ Toolbox")
