"""The formats of TLC's ``-dump``: unordered states, and a state graph for Graphviz (``-dump dot``).

Source: the output of TLC 2.15 and of the current TLC, and ``tlc2/util/DotStateWriter.java`` of the tlaplus repository.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from os import PathLike
from typing import TYPE_CHECKING, NoReturn

from kraftcheck.traces.formats.tlc_log import LONGEST_VALUE, StateText
from kraftcheck.traces.parsing import DEFAULT_LIMIT, Source, TraceError, ValueCache
from kraftcheck.traces.trace import TraceFormat, TraceState

if TYPE_CHECKING:
    import networkx as nx


_STATE = re.compile(r"State (\d+):\s*")
_UNINDENTED = re.compile(r"(?:\s*\n)?State")


class _Dump(TraceFormat):
    holds = "the states of a model"

    def recognises(self, first: str, beginning: str) -> bool:
        is_indented = _UNINDENTED.match(beginning) is None  # as a trace that somebody posted without its actions
        return _STATE.fullmatch(first) is not None and not is_indented

    def read(self, source: Source, cache: ValueCache) -> NoReturn:
        found = f"{self.holds} ({self}); if they are a trace, write 'State 1: <Initial predicate>' in its first line"
        raise source.error(found, "a trace")


TLC_DUMP = _Dump("TLC -dump")


def read_states(
    path: str | PathLike[str], *, limit_bytes: int = DEFAULT_LIMIT, cache: ValueCache | None = None
) -> Iterator[TraceState]:
    """Read the states of TLC's ``-dump`` in bounded memory."""
    source = Source(path, limit_bytes=limit_bytes)
    text = StateText(source.file, cache or ValueCache())
    is_empty = True
    open_state: int | None = None  # the number of the current state
    for number, line in source.lines():
        if open_state is not None:
            if text.take(number, line):
                continue
            yield _state(source, text, open_state)
            is_empty, open_state = False, None
        if not line:
            continue
        heading = _STATE.fullmatch(line)
        if heading is None:
            raise source.error(f"'{line[:40]}'", "'/\\ name = value', an empty line or 'State n:'")
        open_state = int(heading[1])
        text.begin(number)
    if open_state is not None:
        text.end_value()
        if is_empty or not source.ends_in_newline:
            raise source.at_end("the rest of the state, and an empty line")
        yield _state(source, text, open_state)
    elif is_empty:
        raise source.at_end("'State 1:'")


def _state(source: Source, text: StateText, number: int) -> TraceState:
    text.end_value()
    if not text.variables:
        raise source.error("a state without variables", "'/\\ name = value'", line=text.line + 1)
    return text.whole_state(number)


_GRAPH = re.compile(r"(?:strict )?digraph \w+ \{\s*")
_LABEL = r'\[label="([^"\\]*+(?:\\.[^"\\]*+)*+)"(.*?)\];?\s*'
_NODE = re.compile(r"(-?\d+) " + _LABEL)
_EDGE = re.compile(rf"(-?\d+) -> (-?\d+)(?: (?:{_LABEL}|\[style=.*\]))?;?\s*")
_ESCAPE = re.compile(r"\\(.)")
_OUTSIDE = re.compile(r"\}*\s*|(?:node|edge) ?\[.*|\w+=.*|label ?=.*|subgraph .*\{.*|\{rank = same;.*")
_LEGEND = re.compile(r"subgraph cluster_legend.*")
_ACTION = re.compile(r"([^(\n]*)(?:\((.*)\))?(?:\n.*)?", re.DOTALL)


class _Graph(TraceFormat):
    holds = "a state graph"

    def recognises(self, first: str, beginning: str) -> bool:
        return _GRAPH.match(first) is not None


TLC_DOT = _Graph("TLC -dump dot")


def read_graph(
    path: str | PathLike[str], *, limit_bytes: int = DEFAULT_LIMIT, cache: ValueCache | None = None
) -> nx.MultiDiGraph[int]:
    """Read the state graph of TLC's ``-dump dot,actionlabels``."""
    return _GraphReader(Source(path, limit_bytes=limit_bytes), cache or ValueCache()).read()


class _GraphReader:
    def __init__(self, source: Source, cache: ValueCache) -> None:
        import networkx as nx

        self._source = source
        self._text = StateText(source.file, cache)
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
            elif _may_go_on(whole) and len(held) < 100:
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
        if node := _NODE.fullmatch(line):
            _add_node(self._graph, self._source, self._text, node, number)
        elif edge := _EDGE.fullmatch(line):
            before, after = int(edge[1]), int(edge[2])
            self._used_in.setdefault(before, number)
            self._used_in.setdefault(after, number)
            action = _ACTION.fullmatch(_unescaped(edge[3] or ""))
            name, parameters = (action[1], action[2]) if action and edge[3] else (None, None)
            self._graph.add_edge(before, after, action=name, parameters=parameters)
        else:
            return False
        return True

    def _is_outside(self, line: str) -> bool:
        """Parse a line outside of states and steps, such as one of the legend; return whether it is one."""
        if not (self._in_legend or _OUTSIDE.fullmatch(line) or _GRAPH.fullmatch(line)):
            return False
        self._in_legend = self._in_legend or _LEGEND.match(line) is not None
        self._depth += line.count("{") - line.count("}")
        return True


def _may_go_on(line: str) -> bool:
    """Whether a line begins a state or a step that may continue on the next line."""
    return re.match(r"-?\d+ ", line) is not None and len(line) < LONGEST_VALUE


def _add_node(graph: nx.MultiDiGraph[int], source: Source, text: StateText, node: re.Match[str], number: int) -> None:
    text.begin(number)
    try:
        for line in _unescaped(node[2]).split("\n"):
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


def _unescaped(label: str) -> str:
    return _ESCAPE.sub(lambda escape: "\n" if escape[1] == "n" else escape[1], label)
