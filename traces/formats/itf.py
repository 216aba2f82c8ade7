"""The Informal Trace Format of Apalache and Quint: a trace as JSON, with marks for what JSON has not.

Source: https://apalache-mc.org/docs/adr/015adr-trace.html. Two things are ours, in the ``#meta`` objects that the
format leaves to each tool: the action that led to a state, and which strings stand for model values.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Iterator, Mapping
from typing import TypeVar

from kraftcheck.spec.display import visible
from kraftcheck.spec.tla.formatting import in_tlc_order
from kraftcheck.spec.tla.parsing import as_function, as_name
from kraftcheck.spec.values import Map, ModelValue, Record, Symbol, Value, field_names, field_values
from kraftcheck.traces.parsing import Json, JsonError, Source, placed
from kraftcheck.traces.trace import Ending, JsonFormat, Trace, TraceEnd, TraceEvent, TraceHead, TraceState

T = TypeVar("T")

_MODEL_VALUES = "modelValues"
_PAGE = "https://apalache-mc.org/docs/adr/015adr-trace.html"
_LARGEST_PLAIN = 2**53  # from here on readers of JSON may round
_LONGEST_NUMBER = 1_000  # characters
_KINDS = {dict: "an object", list: "an array", str: "a string", bool: "a truth value", int: "a number"}


class _Itf(JsonFormat):
    order = 3  # TLC's JSON, which is asked before, reads JSON of both kinds
    form = "itf"
    ending = ".itf.json"
    mark = "'states' (ITF)"

    def fits(self, document: dict[str, Json]) -> bool:
        return "states" in document

    def events(self, source: Source, document: dict[str, Json]) -> Iterator[TraceEvent]:
        with placed(source):
            events = list(_events(source.file, document))
        yield from events

    def document(self, trace: Trace) -> dict[str, Json]:
        return as_itf(trace)


ITF = _Itf("ITF")


def _events(file: str, document: dict[str, Json]) -> Iterator[TraceEvent]:
    meta = _typed(dict, document.get("#meta", {}), "#meta")
    names = _strings(meta.get(_MODEL_VALUES, []), f"#meta.{_MODEL_VALUES}")
    reader = _ItfReader({name: ModelValue(name, index) for index, name in enumerate(names)})
    variables = _strings(document.get("vars"), "vars")
    if len(set(variables)) < len(variables):
        raise JsonError("a variable twice in 'vars'", "each variable once")
    known = {"#meta", *variables, *_strings(document.get("params", []), "params")}
    states = document.get("states")
    if not isinstance(states, list) or not states:
        found = "an empty one" if isinstance(states, list) else _kind(states)
        raise JsonError(found, "an array of states in 'states'")
    violated = meta.get("violated")
    yield TraceHead(file, 0, ITF, violated if isinstance(violated, str) else None)
    for index, state in enumerate(states):
        place = f"states[{index}]"
        _typed(dict, state, place)
        values = {name: reader.value(state[name], f"{place}.{name}") for name in variables if name in state}
        if len(values) < len(variables):
            missing = ", ".join(name for name in variables if name not in values)
            raise JsonError(f"no {visible(missing)} in {place}", "a value for each of 'vars'")
        if more := [name for name in state if name not in known]:
            raise JsonError(f"{visible(', '.join(more))} in {place}", "values of no other variables than 'vars'")
        about = _typed(dict, state.get("#meta", {}), f"{place}.#meta")
        if about.get("index", index) != index:
            raise JsonError(f"index {about['index']!r} in {place}.#meta", f"index {index}")
        action = about.get("action")
        yield TraceState(index + 1, values, action if isinstance(action, str) and index else None)
    loop = document.get("loop")
    if loop is not None and (type(loop) is not int or not 0 <= loop < len(states)):
        raise JsonError(f"{loop!r} in 'loop'", f"the index of a state, 0 to {len(states) - 1}")
    yield TraceEnd(None if loop is None else Ending(loop + 1) if loop < len(states) - 1 else Ending())


class _ItfReader:
    """Makes values of JSON; `place` says which, for errors."""

    def __init__(self, names: Mapping[str, ModelValue]) -> None:
        self._names = names

    def value(self, json: Json, place: str) -> Value:
        if type(json) is str:
            return self._names.get(json, json)
        if type(json) in (bool, int):
            return json
        if type(json) is list:
            return self._items(json, place)
        if type(json) is not dict:
            raise JsonError(f"{_kind(json)} in {place}", "a value of ITF")
        mark = next(iter(json), "") if len(json) == 1 else ""
        content = json.get(mark)
        if mark == "#bigint":
            return _big(content, place)
        if mark == "#tup":
            return self._items(content, place)
        if mark == "#set":
            items = self._items(content, place)
            elements = frozenset(items)
            if len(elements) < len(items):
                raise JsonError(f"an element twice (or 1 and true, or 0 and false) in {place}", "each element once")
            return elements
        if mark == "#map":
            pairs = [self._items(pair, place) for pair in _typed(list, content, place)]
            if any(len(pair) != 2 for pair in pairs):
                raise JsonError(f"an entry that is no pair in {place}", "pairs of an argument and a value")
            function: dict[Value, Value] = dict(pairs)
            if len(function) < len(pairs):
                raise JsonError(f"an argument twice in {place}", "each argument once")
            return as_function(function)
        if any(name.startswith("#") for name in json):
            raise JsonError(f"the mark {mark or next(iter(json))!r} in {place}", "#bigint, #tup, #set or #map")
        fields = {name: self.value(item, f"{place}.{name}") for name, item in json.items()}
        return Map(fields) if fields else ()

    def _items(self, json: Json, place: str) -> tuple[Value, ...]:
        return tuple([self.value(item, place) for item in _typed(list, json, place)])


def _typed(kind: type[T], json: Json, place: str) -> T:
    """Return JSON that must be of a kind."""
    if type(json) is not kind:
        raise JsonError(f"{_kind(json)} in {place}", _KINDS[kind])
    return json


def _strings(json: Json, place: str) -> list[str]:
    if type(json) is not list or not all(type(item) is str for item in json):
        raise JsonError(f"{_kind(json)} in {place}", "an array of strings")
    return json


def _big(digits: Json, place: str) -> int:
    if type(digits) is str and len(digits) <= _LONGEST_NUMBER and re.fullmatch("-?[0-9]+", digits):
        return int(digits)
    raise JsonError(f"{str(digits)[:40]!r} in {place}", "a number in #bigint")


def _kind(json: Json) -> str:
    return _KINDS.get(type(json), "nothing")


def as_itf(trace: Trace) -> dict[str, Json]:
    """Return a trace as the JSON of ITF."""
    trace.require_types()
    writer = _ItfWriter()
    states = [
        {
            "#meta": {"index": index} | ({"action": state.action} if state.action else {}),
            **{name: writer.json(value) for name, value in state.variables.items()},
        }
        for index, state in enumerate(trace.states)
    ]
    if both := writer.strings & writer.names.keys():
        raise ValueError(f"{min(both)!r} is both a string and a model value in this trace; ITF cannot tell them apart")
    meta: dict[str, Json] = {"format": "ITF", "format-description": _PAGE}
    if trace.violated is not None:
        meta["violated"] = trace.violated
    meta[_MODEL_VALUES] = [name.name for name in in_tlc_order(writer.names.values())]
    document: dict[str, Json] = {"#meta": meta, "vars": list(trace.states[0].variables), "states": states}
    if trace.ending is not None:
        document["loop"] = (trace.ending.back_to or len(states)) - 1
    return document


class _ItfWriter:
    def __init__(self) -> None:
        self.strings: set[str] = set()
        self.names: dict[str, ModelValue] = {}

    def json(self, value: Value) -> Json:
        kind = type(value)
        if kind is bool:
            return value
        if kind is int:
            return value if abs(value) < _LARGEST_PLAIN else {"#bigint": str(value)}
        if kind is str:
            self.strings.add(value)
            return value
        if kind is ModelValue or isinstance(value, Symbol):
            name = value if kind is ModelValue else ModelValue(str(value.value))
            self.names.setdefault(name.name, name)
            return name.name
        if value is None or isinstance(value, enum.Enum):
            return self.json(as_name(value))
        if kind is tuple:
            return [self.json(item) for item in value]
        if kind is frozenset:
            return {"#set": [self.json(item) for item in in_tlc_order(value)]}
        if isinstance(value, Record):
            value = Map(zip(field_names(type(value)), field_values(value), strict=True))
        if not isinstance(value, Map):
            raise TypeError(f"{value!r} of type {kind.__name__} is not a value")
        if all(type(key) is str and not key.startswith("#") for key in value):
            return {key: self.json(item) for key, item in value.items()}
        return {"#map": [[self.json(key), self.json(value[key])] for key in in_tlc_order(value)]}
