"""The JSON that TLC writes with ``-dumpTrace json``: a record of states and steps, without types.

Source: what the current TLC writes, and ``tlc2/value/impl/CounterExample.java`` of the tlaplus repository.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator

from kraftcheck.spec.tla.formatting import in_tlc_order, one_line
from kraftcheck.spec.tla.parsing import as_name
from kraftcheck.spec.values import Map, ModelValue, Record, Symbol, Value, field_names, field_values
from kraftcheck.traces.parsing.counterexample import LOCATION, read_record
from kraftcheck.traces.parsing.documents import Json, JsonFormat
from kraftcheck.traces.parsing.lines import Source
from kraftcheck.traces.trace import Location, Trace, TraceEvent, TraceHead


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


FORMAT = _Counterexample("TLC -dumpTrace json")


def as_json(trace: Trace) -> dict[str, Json]:
    """Return a trace as the JSON of TLC's ``-dumpTrace json``, which does not keep the types of values."""
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
    if isinstance(value, tuple | frozenset):
        return [_json(item) for item in (value if isinstance(value, tuple) else in_tlc_order(value))]
    if isinstance(value, Record):
        return {name: _json(item) for name, item in zip(field_names(type(value)), field_values(value), strict=True)}
    if isinstance(value, Map):
        return {key if isinstance(key, str) else one_line(key): _json(item) for key, item in value.items()} or []
    return value
