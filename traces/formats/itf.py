"""The Informal Trace Format (ITF) of Apalache and Quint: JSON with marks for types that JSON lacks.

Source: https://apalache-mc.org/docs/adr/015adr-trace.html. The format leaves ``#meta`` objects to each tool. There
kraftcheck writes the action that leads to a state, and the strings that are model values.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Callable, Iterator, Mapping
from typing import TypeVar

from kraftcheck.spec.tla.text import sort_in_tlc_order, tla_value_of_enum_member, tuple_or_map_of_function
from kraftcheck.spec.values import Map, ModelValue, Record, Symbol, Value, escape_invisible, field_names, field_values
from kraftcheck.traces.parsing import Json, JsonError, TraceFileReader, json_errors_as_trace_errors
from kraftcheck.traces.trace import InfiniteEnding, JsonFormat, Trace, TraceEnd, TraceEvent, TraceHead, TraceState

T = TypeVar("T")

_MODEL_VALUES_KEY = "modelValues"
_FORMAT_URL = "https://apalache-mc.org/docs/adr/015adr-trace.html"
_BIGINT_FROM = 2**53  # JSON readers may round larger numbers
_MOST_BIGINT_CHARACTERS = 1_000
_JSON_TYPE_NAMES = {dict: "an object", list: "an array", str: "a string", bool: "a truth value", int: "a number"}


class _ItfFormat(JsonFormat):
    order = 3  # after TLC's JSON, which recognizes both
    form = "itf"
    ending = ".itf.json"
    mark = "'states' (ITF)"

    def fits(self, document: dict[str, Json]) -> bool:
        return "states" in document

    def events(self, source: TraceFileReader, document: dict[str, Json]) -> Iterator[TraceEvent]:
        with json_errors_as_trace_errors(source):
            events = list(_trace_events(source.file, document))
        yield from events

    def document(self, trace: Trace) -> dict[str, Json]:
        return itf_document(trace)


ITF = _ItfFormat("ITF")


def _trace_events(file: str, document: dict[str, Json]) -> Iterator[TraceEvent]:
    meta = _require_json_type(dict, document.get("#meta", {}), "#meta")
    names = _require_json_strings(meta.get(_MODEL_VALUES_KEY, []), f"#meta.{_MODEL_VALUES_KEY}")
    reader = _ItfReader({name: ModelValue(name, index) for index, name in enumerate(names)})
    variables = _require_json_strings(document.get("vars"), "vars")
    if len(set(variables)) < len(variables):
        raise JsonError("a variable twice in 'vars'", "each variable once")
    known = {"#meta", *variables, *_require_json_strings(document.get("params", []), "params")}
    states = document.get("states")
    if not isinstance(states, list) or not states:
        found = "an empty one" if isinstance(states, list) else _json_type_name(states)
        raise JsonError(found, "an array of states in 'states'")
    yield TraceHead(file, 0, ITF, _string_field_or_none(meta, "violated"))
    for index, state in enumerate(states):
        yield _read_state(reader, index, state, variables, known)
    yield TraceEnd(_infinite_ending_from_loop_index(document.get("loop"), len(states)))


def _read_state(reader: _ItfReader, index: int, state: Json, variables: list[str], known: set[str]) -> TraceState:
    place = f"states[{index}]"
    _require_json_type(dict, state, place)
    values = {name: reader.value(state[name], f"{place}.{name}") for name in variables if name in state}
    if len(values) < len(variables):
        missing = ", ".join(name for name in variables if name not in values)
        raise JsonError(f"no {escape_invisible(missing)} in {place}", "a value for each of 'vars'")
    if more := [name for name in state if name not in known]:
        raise JsonError(f"{escape_invisible(', '.join(more))} in {place}", "values of no other variables than 'vars'")
    about = _require_json_type(dict, state.get("#meta", {}), f"{place}.#meta")
    if about.get("index", index) != index:
        raise JsonError(f"index {about['index']!r} in {place}.#meta", f"index {index}")
    return TraceState(index + 1, values, _string_field_or_none(about, "action") if index else None)


def _infinite_ending_from_loop_index(loop: Json, states: int) -> InfiniteEnding | None:
    if loop is None:
        return None
    if type(loop) is not int or not 0 <= loop < states:
        raise JsonError(f"{loop!r} in 'loop'", f"the index of a state, 0 to {states - 1}")
    return InfiniteEnding(loop + 1) if loop < states - 1 else InfiniteEnding()


class _ItfReader:
    """Converts JSON to values; `place` is the path in error messages."""

    def __init__(self, names: Mapping[str, ModelValue]) -> None:
        self._names = names

    def value(self, json: Json, place: str) -> Value:
        kind = type(json)
        if kind is str:
            return self._names.get(json, json)
        if kind is bool or kind is int:
            return json
        if kind is list:
            return self._items(json, place)
        if kind is not dict:
            raise JsonError(f"{_json_type_name(json)} in {place}", "a value of ITF")
        mark = next(iter(json), "") if len(json) == 1 else ""
        if mark in _READERS_BY_MARK:
            return _READERS_BY_MARK[mark](self, json[mark], place)
        if any(name.startswith("#") for name in json):
            raise JsonError(f"the name {mark or next(iter(json))!r} in {place}", "only #bigint, #tup, #set or #map")
        fields = {name: self.value(item, f"{place}.{name}") for name, item in json.items()}
        return Map(fields) if fields else ()

    def _big(self, digits: Json, place: str) -> int:
        if type(digits) is str and len(digits) <= _MOST_BIGINT_CHARACTERS and re.fullmatch("-?[0-9]+", digits):
            return int(digits)
        raise JsonError(f"{str(digits)[:40]!r} in {place}", "a number in #bigint")

    def _set(self, content: Json, place: str) -> frozenset[Value]:
        items = self._items(content, place)
        elements = frozenset(items)
        if len(elements) < len(items):
            raise JsonError(f"an element twice (or 1 and true, or 0 and false) in {place}", "each element once")
        return elements

    def _function(self, content: Json, place: str) -> Value:
        pairs = [self._items(pair, place) for pair in _require_json_type(list, content, place)]
        if any(len(pair) != 2 for pair in pairs):
            raise JsonError(f"an entry that is no pair in {place}", "pairs of an argument and a value")
        function: dict[Value, Value] = dict(pairs)
        if len(function) < len(pairs):
            raise JsonError(f"an argument twice in {place}", "each argument once")
        return tuple_or_map_of_function(function)

    def _items(self, json: Json, place: str) -> tuple[Value, ...]:
        return tuple([self.value(item, place) for item in _require_json_type(list, json, place)])


_READERS_BY_MARK: dict[str, Callable[[_ItfReader, Json, str], Value]] = {
    "#bigint": _ItfReader._big,
    "#tup": _ItfReader._items,
    "#set": _ItfReader._set,
    "#map": _ItfReader._function,
}


def _require_json_type(kind: type[T], json: Json, place: str) -> T:
    """Return a JSON value; raise JsonError unless it has the type `kind`."""
    if type(json) is not kind:
        raise JsonError(f"{_json_type_name(json)} in {place}", _JSON_TYPE_NAMES[kind])
    return json


def _require_json_strings(json: Json, place: str) -> list[str]:
    if type(json) is not list or not all(type(item) is str for item in json):
        raise JsonError(f"{_json_type_name(json)} in {place}", "an array of strings")
    return json


def _string_field_or_none(json: dict[str, Json], name: str) -> str | None:
    found = json.get(name)
    return found if isinstance(found, str) else None


def _json_type_name(json: Json) -> str:
    return _JSON_TYPE_NAMES.get(type(json), "nothing")


def itf_document(trace: Trace) -> dict[str, Json]:
    """Return a trace as ITF."""
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
        raise ValueError(f"{min(both)!r} is both a string and a model value in this trace; ITF cannot distinguish them")
    meta: dict[str, Json] = {"format": "ITF", "format-description": _FORMAT_URL}
    if trace.violated is not None:
        meta["violated"] = trace.violated
    meta[_MODEL_VALUES_KEY] = [name.name for name in sort_in_tlc_order(writer.names.values())]
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
            return value if abs(value) < _BIGINT_FROM else {"#bigint": str(value)}
        if kind is str:
            self.strings.add(value)
            return value
        if kind is tuple:
            return list(map(self.json, value))
        if kind is frozenset:
            return {"#set": list(map(self.json, sort_in_tlc_order(value)))}
        if isinstance(value, Record):
            return self._function(Map(zip(field_names(kind), field_values(value), strict=True)))
        if isinstance(value, Map):
            return self._function(value)
        return self._name(value)

    def _name(self, value: Value) -> Json:
        if isinstance(value, Symbol):
            value = ModelValue(str(value.value))
        elif value is None or isinstance(value, enum.Enum):
            return self.json(tla_value_of_enum_member(value))
        if type(value) is not ModelValue:
            raise TypeError(f"{value!r} of type {type(value).__name__} is not a value")
        return self.names.setdefault(value.name, value).name

    def _function(self, value: Map[Value, Value]) -> Json:
        if all(type(key) is str and not key.startswith("#") for key in value):
            return {key: self.json(item) for key, item in value.items()}
        return {"#map": [[self.json(key), self.json(value[key])] for key in sort_in_tlc_order(value)]}
