"""The formats of TLC's ``-dump`` and ``-dumpTrace``: states, a state graph for Graphviz, and traces as TLA+ or JSON.

Source: the output of TLC 2.15 and of the current TLC, and ``tlc2/util/DotStateWriter.java`` of the tlaplus repository.

The record of a trace (without types) is a graph: ``state`` has pairs of number and state, ``action`` has triples: a
pair, an action, another pair. In a lasso one of the steps leads back. Source: the output of the current TLC, and
``tlc2/value/impl/CounterExample.java``.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Iterator, Mapping
from os import PathLike
from typing import TYPE_CHECKING, Any, NoReturn

from kraftcheck.spec.tla.text import format_on_one_line, sort_in_tlc_order, tla_value_of_enum_member
from kraftcheck.spec.values import Map, ModelValue, Record, Symbol, Value, field_names, field_values
from kraftcheck.traces.formats.tlc_log import (
    LONGEST_VALUE,
    MODULE_LINE,
    StateTextReader,
    location_from_numbers,
    parse_action_label,
)
from kraftcheck.traces.parsing import DEFAULT_LIMIT_BYTES, Json, TraceError, TraceFileReader, ValueCache
from kraftcheck.traces.trace import (
    ActionLocation,
    InfiniteEnding,
    JsonFormat,
    Trace,
    TraceEnd,
    TraceEvent,
    TraceFormat,
    TraceHead,
    TraceState,
)

if TYPE_CHECKING:
    import networkx as nx

_STATE_HEADING = re.compile(r"State (\d{1,18}):\s*")
_STATE_AT_START = re.compile(r"(?:\s*\n)?State")


class _NonTraceDumpFormat(TraceFormat):
    holds = "the states of a model"

    def recognises(self, first: str, beginning: str) -> bool:
        is_indented = _STATE_AT_START.match(beginning) is None  # as a trace that somebody posted without its actions
        return _STATE_HEADING.fullmatch(first) is not None and not is_indented

    def read(self, source: TraceFileReader, cache: ValueCache) -> NoReturn:
        found = f"{self.holds} ({self}); if they are a trace, write 'State 1: <Initial predicate>' in its first line"
        raise source.error(found, "a trace")


TLC_DUMP = _NonTraceDumpFormat("TLC -dump")


def read_states(
    path: str | PathLike[str], *, limit_bytes: int = DEFAULT_LIMIT_BYTES, cache: ValueCache | None = None
) -> Iterator[TraceState]:
    """Read the states of TLC's ``-dump`` in bounded memory."""
    source = TraceFileReader(path, limit_bytes=limit_bytes)
    text = StateTextReader(source.file, cache or ValueCache())
    is_empty = True
    open_state: int | None = None  # the number of the current state
    for number, line in source.lines():
        if open_state is not None:
            if text.take(number, line):
                continue
            yield _parse_finished_state(source, text, open_state)
            is_empty, open_state = False, None
        if not line:
            continue
        heading = _STATE_HEADING.fullmatch(line)
        if heading is None:
            raise source.error(f"'{line[:40]}'", "'/\\ name = value', an empty line or 'State n:'")
        open_state = int(heading[1])
        text.begin(number)
    if open_state is not None:
        text.end_value()
        if is_empty or not source.ends_in_newline:
            raise source.at_end("the rest of the state, and an empty line")
        yield _parse_finished_state(source, text, open_state)
    elif is_empty:
        raise source.at_end("'State 1:'")


def _parse_finished_state(source: TraceFileReader, text: StateTextReader, number: int) -> TraceState:
    text.end_value()
    if not text.variables:
        raise source.error("a state without variables", "'/\\ name = value'", line=text.line + 1)
    return text.whole_state(number)


_DIGRAPH_LINE = re.compile(r"(?:strict )?digraph \w+ \{\s*")
_DOT_LABEL_PATTERN = r'\[label="([^"\\]*+(?:\\.[^"\\]*+)*+)"(.*?)\];?\s*'
_NODE_LINE = re.compile(r"(-?\d{1,20}) " + _DOT_LABEL_PATTERN)
_EDGE_LINE = re.compile(rf"(-?\d{{1,20}}) -> (-?\d{{1,20}})(?: (?:{_DOT_LABEL_PATTERN}|\[style=.*\]))?;?\s*")
_ESCAPED_CHARACTER = re.compile(r"\\(.)")
_OTHER_DOT_LINE = re.compile(r"\}*\s*|(?:node|edge) ?\[.*|\w+=.*|label ?=.*|subgraph .*\{.*|\{rank = same;.*")
_LEGEND_BEGINS = re.compile(r"subgraph cluster_legend.*")
_ACTION_LABEL = re.compile(r"([^(\n]*)(?:\((.*)\))?(?:\n.*)?", re.DOTALL)


class _NonTraceDotFormat(TraceFormat):
    holds = "a state graph"

    def recognises(self, first: str, beginning: str) -> bool:
        return _DIGRAPH_LINE.match(first) is not None


TLC_DOT = _NonTraceDotFormat("TLC -dump dot")


def read_graph(
    path: str | PathLike[str], *, limit_bytes: int = DEFAULT_LIMIT_BYTES, cache: ValueCache | None = None
) -> nx.MultiDiGraph[int]:
    """Read the state graph of TLC's ``-dump dot,actionlabels``."""
    return _GraphReader(TraceFileReader(path, limit_bytes=limit_bytes), cache or ValueCache()).read()


class _GraphReader:
    def __init__(self, source: TraceFileReader, cache: ValueCache) -> None:
        import networkx as nx

        self._source = source
        self._text = StateTextReader(source.file, cache)
        self._graph: nx.MultiDiGraph[int] = nx.MultiDiGraph()
        self._used_in: dict[int, int] = {}  # the line of the first step from or to each state
        self._depth = 0
        self._in_legend = False

    def read(self) -> nx.MultiDiGraph[int]:
        source = self._source
        held: list[str] = []  # lines of an edge whose label has line breaks
        for number, line in source.lines():
            whole = "\n".join([*held, line]) if held else line
            if self._is_element(whole, number) or (not held and self._is_outside(line)):
                held = []
            elif _line_may_continue(whole) and len(held) < 100:
                held.append(line)
            else:
                raise source.error(f"'{line[:40]}'", "a state or a step", line=number - len(held))
        if held or self._depth or not self._graph:
            raise source.at_end("the rest of the graph" if self._graph else "a graph of states")
        for node, number in self._used_in.items():
            if "state" not in self._graph.nodes[node]:
                raise source.error(f"a step from or to {node}, which the file does not show", "a state", line=number)
        return self._graph

    def _is_element(self, line: str, number: int) -> bool:
        """Parse a line with a state or a step; return whether it is one."""
        if node := _NODE_LINE.fullmatch(line):
            _add_node(self._graph, self._source, self._text, node, number)
        elif edge := _EDGE_LINE.fullmatch(line):
            before, after = int(edge[1]), int(edge[2])
            self._used_in.setdefault(before, number)
            self._used_in.setdefault(after, number)
            action = _ACTION_LABEL.fullmatch(_unescaped_dot_label(edge[3] or ""))
            name, parameters = (action[1], action[2]) if action and edge[3] else (None, None)
            self._graph.add_edge(before, after, action=name, parameters=parameters)
        else:
            return False
        return True

    def _is_outside(self, line: str) -> bool:
        """Parse a line outside of states and steps, such as one of the legend; return whether it is one."""
        if not (self._in_legend or _OTHER_DOT_LINE.fullmatch(line) or _DIGRAPH_LINE.fullmatch(line)):
            return False
        self._in_legend = self._in_legend or _LEGEND_BEGINS.match(line) is not None
        self._depth += line.count("{") - line.count("}")
        return True


def _line_may_continue(line: str) -> bool:
    """Whether a line begins a state or a step that may continue on the next line."""
    return re.match(r"-?\d{1,20} ", line) is not None and len(line) < LONGEST_VALUE


def _add_node(
    graph: nx.MultiDiGraph[int], source: TraceFileReader, text: StateTextReader, node: re.Match[str], number: int
) -> None:
    text.begin(number)
    try:
        for line in _unescaped_dot_label(node[2]).split("\n"):
            if not text.take(number, line):
                raise source.error(f"'{line[:40]}'", "'/\\ name = value'", line=number)
        text.end_value()
    except TraceError as error:  # all lines of a label are on one line of the file
        raise source.error(error.found, error.expected, line=number) from None
    style = node[3]
    is_within = "fillcolor=lightyellow" not in style.replace(" ", "")
    graph.add_node(
        int(node[1]),
        state=text.state(len(graph) + 1),
        initial=is_within and "style = filled" in style,
        within_constraints=is_within,
    )


def _unescaped_dot_label(label: str) -> str:
    return _ESCAPED_CHARACTER.sub(lambda escape: "\n" if escape[1] == "n" else escape[1], label)


LOCATION_FIELDS = ("beginLine", "beginColumn", "endLine", "endColumn", "module")
"""The fields of an action's location, in the order of `ActionLocation`."""


def events_of_counterexample_record(source: TraceFileReader, record: Any, line: int) -> Iterator[TraceEvent]:
    """Yield the states and the end of a trace, given the record that TLC dumps; raise TraceError if it is invalid."""
    try:
        states, end = _states_and_end_of_record(record, line)
    except (TypeError, ValueError, KeyError, AttributeError, IndexError):
        found, expected = "something else", "a record of states, numbered from 1, and of the actions between them"
        raise source.error(found, expected, line=line) from None
    yield from states
    yield end


def _states_and_end_of_record(record: Any, line: int) -> tuple[list[TraceState], TraceEnd]:
    """Return the states in order; an invalid record raises TypeError, ValueError or the like."""
    states, last = dict(record["state"]), len(record["state"])
    if len(states) != last:
        raise ValueError("two states with the same number")
    end = TraceEnd()
    arrivals: dict[int, tuple[str | None, ActionLocation | None]] = {1: (None, None)}
    for (before, source), action, (after, target) in record["action"]:
        if (source, target) != (states[before], states[after]):
            raise ValueError("a step whose states differ from the states with its numbers")
        if after == before + 1 and after not in arrivals:
            arrivals[after] = _action_name_and_location(action)
        elif before == last and 1 <= after <= before and end.ending is None:
            name, location = _action_name_and_location(action)
            end = TraceEnd(
                InfiniteEnding() if after == last and name is None else InfiniteEnding(after, name, location)
            )
        else:
            raise ValueError("a step that leads neither to the next state nor back from the last state")
    if not states or len(arrivals) != last:
        raise ValueError("no state, or a state without an action that leads to it")
    return [
        _state_of_counterexample_record(number, states[number], *arrivals[number], line)
        for number in range(1, last + 1)
    ], end


def _state_of_counterexample_record(
    number: int, variables: Any, action: str | None, location: ActionLocation | None, line: int
) -> TraceState:
    if not isinstance(variables, Mapping) or not variables:
        raise TypeError("a state that is no record of variables")
    return TraceState(number, variables, action, location=location, line=line)


def _action_name_and_location(record: Mapping[str, Any]) -> tuple[str | None, ActionLocation | None]:
    name, _, _ = parse_action_label(record["name"])
    place = record.get("location")
    if not place:
        return name, None
    *numbers, module = (place[field] for field in LOCATION_FIELDS)
    return name, location_from_numbers(numbers, str(module))


class _CounterexampleJsonFormat(JsonFormat):
    form = "json"
    ending = ".json"
    mark = "'counterexample' (TLC)"

    def recognises(self, first: str, beginning: str) -> bool:
        return first.startswith("{")

    def fits(self, document: dict[str, Json]) -> bool:
        return "states" not in document and ("counterexample" in document or "state" in document)

    def events(self, source: TraceFileReader, document: dict[str, Json]) -> Iterator[TraceEvent]:
        yield TraceHead(source.file, 0, self, untyped=True)
        yield from events_of_counterexample_record(source, document.get("counterexample", document), 1)

    def document(self, trace: Trace) -> dict[str, Json]:
        return trace_as_tlc_json(trace)


TLC_JSON = _CounterexampleJsonFormat("TLC -dumpTrace json")


def trace_as_tlc_json(trace: Trace) -> dict[str, Json]:
    """Return a trace as the untyped JSON of TLC's ``-dumpTrace json``."""
    states: list[list[Json]] = []
    for state in trace.states:
        variables = {name: value if trace.untyped else _value_as_json(value) for name, value in state.variables.items()}
        states.append([state.number, variables])
    steps = [
        [before, _action_as_json(state.action, state.location), after]
        for before, after, state in zip(states, states[1:], trace.states[1:], strict=False)
    ]
    if trace.ending is not None:
        action = _action_as_json(trace.ending.action, trace.ending.location)
        steps.append([states[-1], action, states[(trace.ending.back_to or len(states)) - 1]])
    return {"counterexample": {"action": steps, "state": states}, "vars": list(trace.states[0].variables)}


def _action_as_json(name: str | None, location: ActionLocation | None) -> dict[str, Json]:
    place = {"location": dict(zip(LOCATION_FIELDS, location, strict=True))} if location else {}
    return {"name": name or "UnnamedAction", **place}


def _value_as_json(value: Value) -> Json:
    if isinstance(value, ModelValue | Symbol):
        return format_on_one_line(value)
    if value is None or isinstance(value, enum.Enum):
        return _value_as_json(tla_value_of_enum_member(value))
    if isinstance(value, tuple):
        return list(map(_value_as_json, value))
    if isinstance(value, frozenset):
        return list(map(_value_as_json, sort_in_tlc_order(value)))
    if isinstance(value, Record):
        return dict(zip(field_names(type(value)), map(_value_as_json, field_values(value)), strict=True))
    if isinstance(value, Map):
        return {
            key if isinstance(key, str) else format_on_one_line(key): _value_as_json(item)
            for key, item in value.items()
        } or []
    return value


_COUNTEREXAMPLE_BEGINS = re.compile(r"CounterExample\s*==\s*")
_COUNTEREXAMPLE_LINE = re.compile(f"^{_COUNTEREXAMPLE_BEGINS.pattern}", re.MULTILINE)
_MODULE_END = re.compile(r"\n={4,}\s*$")


class _CounterexampleModuleFormat(TraceFormat):
    def recognises(self, first: str, beginning: str) -> bool:
        return MODULE_LINE.match(first) is not None and _COUNTEREXAMPLE_LINE.search(beginning) is not None

    def read(self, source: TraceFileReader, cache: ValueCache) -> Iterator[TraceEvent]:
        text = source.document()
        body, end = _COUNTEREXAMPLE_BEGINS.search(text), _MODULE_END.search(text)
        if body is None:
            raise source.at_end("'CounterExample =='")
        if end is None:
            raise source.at_end("'====', the end of the module")
        line = text.count("\n", 0, body.end()) + 1
        column = body.end() - text.rfind("\n", 0, body.end())
        value, _ = cache.read(text[body.end() : end.start()], where=source.file, line=line, column=column)
        yield TraceHead(source.file, 0, self)
        yield from events_of_counterexample_record(source, value, line)


TLC_TLA = _CounterexampleModuleFormat("TLC -dumpTrace tla")


_TOOLBOX_TRACE_BEGINS = re.compile(r"^([ \t]*)<<\s*\[\s*_TEAction\b", re.MULTILINE)
_ENDING_OF_LASSO = re.compile(r",\s*<(?:Stuttering|Back to state:? (\d{1,9}).*)>\s*\Z")


class _ToolboxFormat(TraceFormat):
    """The form in which the TLA+ Toolbox copies an error trace: a sequence of records with their actions."""

    def recognises(self, first: str, beginning: str) -> bool:
        return _TOOLBOX_TRACE_BEGINS.search(beginning) is not None

    def read(self, source: TraceFileReader, cache: ValueCache) -> Iterator[TraceEvent]:
        text = source.document()
        line, counted = 1, 0  # the line of the character at `counted`
        for index, found in enumerate(_TOOLBOX_TRACE_BEGINS.finditer(text)):
            line, counted = line + text.count("\n", counted, found.start()), found.start()
            end = re.compile(f"^{found[1]}>>", re.MULTILINE).search(text, found.end())
            if end is None:
                raise source.at_end("'>>', the end of the trace")
            body = text[found.start() : end.start()]
            last = _ENDING_OF_LASSO.search(body)
            body = body[: last.start()] if last else body
            value, _ = cache.read(f"{body}>>", where=source.file, line=line, column=1)
            yield TraceHead(source.file, index, self)
            try:
                yield from _toolbox_states(value, line)
            except (TypeError, ValueError, KeyError, AttributeError):
                expected = "records of '_TEAction' and the variables, in the order of their positions"
                raise source.error("something else", expected, line=line) from None
            yield TraceEnd(InfiniteEnding(int(last[1]) if last[1] else None) if last else None)


def _toolbox_states(records: Any, line: int) -> Iterator[TraceState]:
    before = 0
    for record in records:
        step, variables = record["_TEAction"], {name: record[name] for name in record if name != "_TEAction"}
        number = step["position"]
        if number <= before:
            raise ValueError("positions that do not ascend")
        before = number
        name, parameters, location = parse_action_label(f"{step['name']} {step['location']}")
        yield TraceState(number, variables, None if number == 1 else name, parameters, location, line)


TLC_TOOLBOX = _ToolboxFormat("TLA+ Toolbox")
