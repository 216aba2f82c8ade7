"""State graphs of searches: networkx graphs, files and pictures.

Graphviz draws the picture if it is installed. Otherwise nodes are drawn in layers by their distance from the start;
within a layer, each node moves to the mean of its neighbours. Source: K. Sugiyama, S. Tagawa, M. Toda, "Methods for
Visual Understanding of Hierarchical System Structures" (1981).
"""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
from collections.abc import Callable
from importlib.util import find_spec
from itertools import islice, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

import networkx as nx

from kraftcheck.explorer.reference import ReferenceSearch
from kraftcheck.explorer.result import Behaviour, Result, SearchRequest, trace_step_of_transition
from kraftcheck.spec.errors import InputError
from kraftcheck.spec.language.protocol import Protocol
from kraftcheck.spec.language.semantics import Semantics, Transition
from kraftcheck.spec.language.state import State
from kraftcheck.spec.values import replace_non_xml

if TYPE_CHECKING:
    Graph = nx.MultiDiGraph[int]  # the class takes no type arguments at run time

DescribeState = Callable[[State], object] | None

SVG_ENDING, PARQUET_ENDING = ".svg", ".parquet"
MOST_WRITTEN_STATES, MOST_DRAWN_STATES = 200_000, 1_000
"""Default limits: states of a graph that is written, and of a graph that is drawn."""
STATES_SAMPLED_FOR_SIZE = 100
NODE_DISTANCE_PIXELS, LAYER_DISTANCE_PIXELS = 150, 90
"""Pixels between nodes, and between layers."""
NODE_RADIUS_PIXELS = 14
LAYER_ORDERING_SWEEPS = 8
GRAPHVIZ_SECONDS = 120
"""Time limit of Graphviz."""
_SVG_STYLE = "".join(
    (
        "svg{background:#fff;font:11px sans-serif}circle{fill:#eef;stroke:#446}.way circle{fill:#fd8;stroke:#a50}",
        ".bad circle{fill:#f99;stroke:#a00}path{fill:none;stroke:#889}path.way{stroke:#a50;stroke-width:2}",
        "text{text-anchor:middle}text.step{fill:#556;font-size:9px}",
    )
)

_DOT_ESCAPES = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\l"})


def search_with_graph(
    protocol: Protocol, options: SearchRequest, state_text: DescribeState = None
) -> tuple[Result, Graph]:
    """Search with the reference engine, and return its result with the graph of the states visited."""
    search = ReferenceSearch(protocol, options)
    return search.run(), graph_of_search(search, state_text)


def graph_of_search(search: ReferenceSearch, state_text: DescribeState = None) -> Graph:
    """Return the graph of a search's visited states.

    References
    ----------
    Hagberg, Schult, Swart: "Exploring network structure, dynamics, and function using NetworkX", SciPy 2008.
    """
    graph: Graph = nx.MultiDiGraph()
    starts = set(search.starts())
    for number, state in enumerate(search.states()):
        graph.add_node(number + 1, initial=number in starts, **_state_attributes(state, state_text))
    for source, transition, target in search.edges(skip_errors=True):  # the result reports them
        graph.add_edge(source + 1, target + 1, **_step_attributes(transition))
    return graph


def _state_attributes(state: State, state_text: DescribeState) -> dict[str, Any]:
    return {} if state_text is None else {"state": state_text(state)}


def _step_attributes(transition: Transition) -> dict[str, Any]:
    by = {} if transition.actor is None else {"actor": str(transition.actor)}
    return {"action": transition.action, **by}


def graph_around_behaviour(
    semantics: Semantics, trace: Behaviour, steps: int, most: int, state_text: DescribeState = None
) -> Graph:
    """Return the graph of a behaviour's states, and of the states within a few steps of them."""
    numbers = _state_numbers_around_behaviour(semantics, trace, steps, most)
    graph: Graph = nx.MultiDiGraph()
    on = dict.fromkeys((step.state for step in trace), "way") | {trace[-1].state: "bad"}
    for state, number in numbers.items():
        known = {"on": on[state]} if state in on else {}
        graph.add_node(number, initial=state == trace[0].state, **_state_attributes(state, state_text), **known)
    taken = {(before.state, after) for before, after in pairwise(trace)}
    for state, number in numbers.items():
        for transition in semantics.transitions(state):
            if transition.target in numbers:
                way = {"way": True} if (state, trace_step_of_transition(transition)) in taken else {}
                graph.add_edge(number, numbers[transition.target], **_step_attributes(transition), **way)
    return graph


def _state_numbers_around_behaviour(semantics: Semantics, trace: Behaviour, steps: int, most: int) -> dict[State, int]:
    """Return the numbers, from 1, of the states of a behaviour and of the states within `steps` steps of it."""
    numbers: dict[State, int] = {}
    for step in trace:
        numbers.setdefault(step.state, len(numbers) + 1)
    frontier = list(numbers)
    for _ in range(steps):
        found = [taken.target for state in frontier for taken in semantics.transitions(state)]
        frontier = [state for state in dict.fromkeys(found) if state not in numbers]
        numbers.update({state: number for number, state in enumerate(frontier, start=len(numbers) + 1)})
        if len(numbers) > most:
            raise InputError(
                f"--graph-around {steps}: more than {most:,} states; expected fewer steps, or more by --graph-most"
            )
    return numbers


def describe_graph_size_or_raise(graph: Graph, path: Path, most: int | None) -> str:
    """Return the size of a state graph and of its file as text; raise InputError if the graph is too large."""
    states, steps = graph.number_of_nodes(), graph.number_of_edges()
    sample = [len(str(node.get("state", ""))) + 60 for node in islice(graph.nodes.values(), STATES_SAMPLED_FOR_SIZE)]
    size = sum(sample) / max(1, len(sample)) * states + 80 * steps
    said = f"{states:,} states and {steps:,} steps, about {size / 1e6:,.1f} MB"
    allowed = most or (MOST_DRAWN_STATES if path.suffix.lower() == SVG_ENDING else MOST_WRITTEN_STATES)
    if states > allowed:
        raise InputError(f"--graph {path}: {said}; expected at most {allowed:,} states, or more by --graph-most")
    return said


def graph_writer(path: str | Path) -> Callable[[Graph, Path], None]:
    """Return the writer for a file's ending; raise `InputError` for an unknown ending."""
    writers = {
        ".graphml": _write_graphml, ".json": _write_json, ".dot": _write_dot, SVG_ENDING: _write_svg,
        PARQUET_ENDING: _write_parquet,
    }  # fmt: skip
    ending = Path(path).suffix.lower()
    if ending not in writers:
        raise InputError(f"{path}: expected a file that ends in {', '.join(writers)}, found {ending or 'no ending'}")
    if ending == PARQUET_ENDING and find_spec("pyarrow") is None:
        raise InputError(f"{path}: needs the package pyarrow: pip install 'kraftcheck[parquet]'")
    return writers[ending]


def _write_parquet(graph: Graph, path: Path) -> None:
    """Write one row for each step, with its states; an initial state is a row without source and action."""
    from pyarrow import Table, parquet

    states = {number: node["state"] for number, node in graph.nodes(data=True)}
    rows = [{"target": states[number]} for number, initial in graph.nodes(data="initial") if initial]
    rows += [{"source": states[one], "target": states[other], **step} for one, other, step in graph.edges(data=True)]
    columns = {name: [row.get(name) for row in rows] for name in ("source", "action", "actor", "target")}
    parquet.write_table(Table.from_pydict(columns), path)


def _write_graphml(graph: Graph, path: Path) -> None:
    nx.write_graphml(_with_valid_xml_text(graph), path)


def _write_json(graph: Graph, path: Path) -> None:
    path.write_text(json.dumps(nx.node_link_data(graph, edges="edges")), encoding="utf-8")


def _write_dot(graph: Graph, path: Path) -> None:
    path.write_text(_graph_to_dot(graph), encoding="utf-8")


def _with_valid_xml_text(graph: Graph) -> Graph:
    """Return a copy of a graph whose texts are allowed in XML."""
    graph = graph.copy()
    for known in (*graph.nodes.values(), *graph.edges.values()):
        known.update({name: replace_non_xml(value) for name, value in known.items() if isinstance(value, str)})
    return graph


def _graph_to_dot(graph: Graph, *, drawn: bool = False) -> str:
    """Return a graph in Graphviz's language; for a drawing, the text of a state is a tooltip."""
    lines = ["digraph states {", "  node [shape=box];"]
    for number, node in graph.nodes(data=True):
        label = f"{number}\n{node['state']}\n" if "state" in node and not drawn else str(number)
        filled = ", style=filled" if node["initial"] or "on" in node else ""
        colour = {"way": ', fillcolor="#ffdd88"', "bad": ', fillcolor="#ff9999"'}.get(node.get("on", ""), "")
        shown = f", tooltip={_dot_string(str(node['state']))}" if drawn and "state" in node else ""
        lines.append(f"  {number} [label={_dot_string(label)}{filled}{colour}{shown}];")
    for source, target, edge in graph.edges(data=True):
        bold = ', color="#aa5500", penwidth=2' if edge.get("way") else ""
        lines.append(f"  {source} -> {target} [label={_dot_string(edge_label(edge))}{bold}];")
    return "\n".join([*lines, "}", ""])


def _dot_string(text: str) -> str:
    return f'"{text.translate(_DOT_ESCAPES)}"'


# Pictures


def _write_svg(graph: Graph, path: Path) -> None:
    graph, program = _with_valid_xml_text(graph), shutil.which("dot")
    if program is None:
        tree = ElementTree.ElementTree(_graph_to_svg_element(graph))
        ElementTree.indent(tree)
        tree.write(path, "utf-8", xml_declaration=True)
        return
    try:
        dot = _graph_to_dot(graph, drawn=True).encode()
        done = subprocess.run([program, "-Tsvg"], input=dot, capture_output=True, timeout=GRAPHVIZ_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        raise InputError(
            f"{path}: Graphviz takes more than {GRAPHVIZ_SECONDS} s; expected fewer states, or a .dot file"
        ) from None
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip().splitlines()
        raise InputError(f"{path}: Graphviz {_describe_process_exit(done.returncode)}{f': {said[-1]}' if said else ''}")
    path.write_bytes(done.stdout)


def _describe_process_exit(code: int) -> str:
    """Describe how a process ended: by its exit code, or by a signal."""
    return f"ended with exit code {code}" if code >= 0 else f"was ended by a signal ({signal.strsignal(-code)})"


def _node_positions(graph: Graph) -> dict[int, tuple[float, float]]:
    """Return the drawing position of each node: a layer for each distance from the start, neighbours close together."""
    starts = [node for node, known in graph.nodes(data=True) if known["initial"]] or list(graph.nodes)[:1]
    depths = nx.multi_source_dijkstra_path_length(graph, set(starts), weight=None)
    layers: dict[float, list[int]] = {}
    for node in graph.nodes:
        layers.setdefault(depths.get(node, 0), []).append(node)
    across = {node: float(place) for layer in layers.values() for place, node in enumerate(layer)}
    joined = graph.to_undirected(as_view=True)

    def wanted(node: int) -> float:
        near = [across[other] for other in joined[node] if depths.get(other, 0) != depths.get(node, 0)]
        return sum(near) / len(near) if near else across[node]

    for sweep in range(LAYER_ORDERING_SWEEPS):
        for depth in sorted(layers, reverse=bool(sweep % 2)):
            layers[depth].sort(key=lambda node: (wanted(node), node))
            middle = (len(layers[depth]) - 1) / 2
            across.update({node: place - middle for place, node in enumerate(layers[depth])})
    widest = max(map(len, layers.values()))
    return {
        node: ((across[node] + widest / 2) * NODE_DISTANCE_PIXELS, (depths.get(node, 0) + 0.5) * LAYER_DISTANCE_PIXELS)
        for node in graph.nodes
    }


def _graph_to_svg_element(graph: Graph) -> ElementTree.Element:
    places = _node_positions(graph)
    width, height = (round(max(point[axis] for point in places.values()) + NODE_DISTANCE_PIXELS / 2) for axis in (0, 1))
    size = {"width": str(width), "height": str(height), "viewBox": f"0 0 {width} {height}"}
    svg = ElementTree.Element("svg", {"xmlns": "http://www.w3.org/2000/svg", **size})
    ElementTree.SubElement(svg, "style").text = _SVG_STYLE
    marker = {"id": "end", "viewBox": "0 0 8 8", "refX": "8", "refY": "4", "orient": "auto", "markerWidth": "7"}
    head = ElementTree.SubElement(ElementTree.SubElement(svg, "defs"), "marker", marker)
    ElementTree.SubElement(head, "path", {"d": "M0 0L8 4L0 8z", "style": "fill:#889;stroke:none"})
    several: dict[tuple[int, int], list[str]] = {}
    for source, target, step in graph.edges(data=True):
        several.setdefault((source, target), []).append(edge_label(step))
    ways = {(source, target) for source, target, step in graph.edges(data=True) if step.get("way")}
    for (source, target), steps in several.items():
        _draw_edge(svg, places[source], places[target], steps, is_way=(source, target) in ways)
    for node, known in graph.nodes(data=True):
        x, y = places[node]
        group = ElementTree.SubElement(svg, "g", {"class": str(known.get("on", ""))})
        ElementTree.SubElement(group, "title").text = f"{node}\n{known.get('state', '')}"
        ElementTree.SubElement(group, "circle", {"cx": f"{x:.0f}", "cy": f"{y:.0f}", "r": str(NODE_RADIUS_PIXELS)})
        ElementTree.SubElement(group, "text", {"x": f"{x:.0f}", "y": f"{y + 4:.0f}"}).text = str(node)
    return svg


def _draw_edge(
    svg: ElementTree.Element, begin: tuple[float, float], end: tuple[float, float], steps: list[str], *, is_way: bool
) -> None:
    (x, y), (u, v) = begin, end
    if begin == end:
        line = f"M{x + NODE_RADIUS_PIXELS:.0f} {y:.0f}c30 -20 30 20 0 4"
    else:
        length = ((u - x) ** 2 + (v - y) ** 2) ** 0.5
        dx, dy = (u - x) / length * NODE_RADIUS_PIXELS, (v - y) / length * NODE_RADIUS_PIXELS
        bend = 0 if v > y else NODE_DISTANCE_PIXELS / 3  # steps backwards and sideways bend
        line = f"M{x + dx:.0f} {y + dy:.0f}Q{(x + u) / 2 + bend:.0f} {(y + v) / 2:.0f} {u - dx:.0f} {v - dy:.0f}"
        x, y = (x + u) / 2 + bend / 2, (y + v) / 2
    group = ElementTree.SubElement(svg, "g")
    ElementTree.SubElement(group, "title").text = "\n".join(steps)
    ElementTree.SubElement(group, "path", {"d": line, "class": "way" if is_way else "", "marker-end": "url(#end)"})
    more = f" +{len(steps) - 1}" if len(steps) > 1 else ""
    ElementTree.SubElement(group, "text", {"x": f"{x:.0f}", "y": f"{y:.0f}", "class": "step"}).text = steps[0] + more


def edge_label(step: dict[str, Any]) -> str:
    """Return an edge's action with its actor."""
    return f"{step['action']} {step['actor']}" if "actor" in step else str(step["action"])
