"""The states that TLC writes with ``-dump``, in no order of time, and the state graph of ``-dump dot`` for Graphviz.

Source: what TLC 2.15 and the current TLC write, and ``tlc2/util/DotStateWriter.java`` of the tlaplus repository.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from kraftcheck.traces.formats.tlc_log import LONGEST_VALUE, StateText
from kraftcheck.traces.parsing import Source, TraceError, ValueCache
from kraftcheck.traces.trace import TraceFormat, TraceState

if TYPE_CHECKING:
    import networkx as nx



_STATE = re.compile(r"State (\d+):\s*")


class _Dump(TraceFormat):
    holds = "the states of a model"

    def recognises(self, first: str, beginning: str) -> bool:
        return _STATE.fullmatch(first) is not None


TLC_DUMP = _Dump("TLC -dump")


def read_dump(source: Source, cache: ValueCache) -> Iterator[TraceState]:
    """Read the states of a dump one by one."""
    text = StateText(source.file, cache)
    is_empty = True
    open_state: int | None = None  # the number of the state that is being read
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


def read_dot(source: Source, cache: ValueCache) -> nx.MultiDiGraph[int]:
    """Read a state graph."""
    import networkx as nx

    graph: nx.MultiDiGraph[int] = nx.MultiDiGraph()
    text = StateText(source.file, cache)
    used_in: dict[int, int] = {}
    depth = 0
    in_legend = False
    held: list[str] = []  # the label of an edge can have line ends in it
    for number, line in source.lines():
        whole = "\n".join([*held, line]) if held else line
        if node := _NODE.fullmatch(whole):
            _add_node(graph, source, text, node, number)
        elif edge := _EDGE.fullmatch(whole):
            before, after = int(edge[1]), int(edge[2])
            used_in.setdefault(before, number)
            used_in.setdefault(after, number)
            action = _ACTION.fullmatch(_unescaped(edge[3])) if edge[3] else None
            graph.add_edge(before, after, action=action[1] if action else None, parameters=action and action[2])
        elif not held and (_OUTSIDE.fullmatch(line) or _GRAPH.fullmatch(line) or in_legend):
            in_legend = in_legend or _LEGEND.match(line) is not None
            depth += line.count("{") - line.count("}")
        elif re.match(r"-?\d+ ", whole) and len(held) < 100 and len(whole) < LONGEST_VALUE:
            held.append(line)
            continue
        else:
            raise source.error(f"'{line[:40]}'", "a state or a step", line=number - len(held))
        held = []
    if held or depth or not graph:
        raise source.at_end("the rest of the graph" if graph else "a graph of states")
    for fingerprint, number in used_in.items():
        if "state" not in graph.nodes[fingerprint]:
            raise source.error(f"a step from or to {fingerprint}, which the file does not show", "a state", line=number)
    return graph


def _add_node(graph: nx.MultiDiGraph[int], source: Source, text: StateText, node: re.Match[str], number: int) -> None:
    text.begin(number)
    try:
        for line in _unescaped(node[2]).split("\n"):
            if not text.take(number, line):
                raise source.error(f"'{line[:40]}'", "'/\\ name = value'", line=number)
        text.end_value()
    except TraceError as error:  # the lines of a label are one line of the file
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
