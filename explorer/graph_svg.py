"""A state graph as a picture: by Graphviz where it is installed, else in layers, one for each distance from the start.

Source of the order within layers: K. Sugiyama, S. Tagawa, M. Toda, "Methods for Visual Understanding of Hierarchical
System Structures" (1981): each node moves to the mean of those that it is joined to.
"""

from __future__ import annotations

import shutil
import signal
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

import networkx as nx

from kraftcheck.spec.errors import InputError

if TYPE_CHECKING:
    Graph = nx.MultiDiGraph[int]  # the class takes no type arguments when it runs

WIDE, HIGH = 150, 90
"""Pixels between nodes, and between layers."""
RADIUS = 14
SWEEPS = 8
SECONDS = 120
"""How long Graphviz may take."""
_STYLE = (
    "svg{background:#fff;font:11px sans-serif}circle{fill:#eef;stroke:#446}.way circle{fill:#fd8;stroke:#a50}"
    ".bad circle{fill:#f99;stroke:#a00}path{fill:none;stroke:#889}path.way{stroke:#a50;stroke-width:2}"
    "text{text-anchor:middle}text.step{fill:#556;font-size:9px}"
)


def write_svg(graph: Graph, path: Path, dot: str) -> None:
    """Write a state graph as SVG."""
    program = shutil.which("dot")
    if program is None:
        tree = ElementTree.ElementTree(_drawn(graph))
        ElementTree.indent(tree)
        tree.write(path, "utf-8", xml_declaration=True)
        return
    try:
        done = subprocess.run(
            [program, "-Tsvg"], input=dot.encode(), capture_output=True, timeout=SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        raise InputError(
            f"{path}: Graphviz takes more than {SECONDS} s; expected fewer states, or a .dot file"
        ) from None
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip().splitlines()
        raise InputError(f"{path}: Graphviz {_end(done.returncode)}{f': {said[-1]}' if said else ''}")
    path.write_bytes(done.stdout)


def _end(code: int) -> str:
    """Return how a process ended, in words."""
    return f"ended with exit code {code}" if code >= 0 else f"was ended by a signal ({signal.strsignal(-code)})"


def _places(graph: Graph) -> dict[int, tuple[float, float]]:
    """Return where each node stands: below the start by its distance, beside those that it is joined to."""
    starts = [node for node, known in graph.nodes(data=True) if known["initial"]] or list(graph.nodes)[:1]
    depths = nx.multi_source_dijkstra_path_length(graph, set(starts), weight=None)
    layers: dict[float, list[int]] = {}
    for node in graph.nodes:
        layers.setdefault(depths.get(node, 0), []).append(node)
    across = {node: float(place) for layer in layers.values() for place, node in enumerate(layer)}
    joined = graph.to_undirected(as_view=True)
    for sweep in range(SWEEPS):
        for depth in sorted(layers, reverse=bool(sweep % 2)):
            wanted = {}
            for node in layers[depth]:
                near = [across[other] for other in joined[node] if depths.get(other, 0) != depth]
                wanted[node] = sum(near) / len(near) if near else across[node]
            layers[depth].sort(key=lambda node: (wanted[node], node))
            middle = (len(layers[depth]) - 1) / 2
            across.update({node: place - middle for place, node in enumerate(layers[depth])})
    widest = max(map(len, layers.values()))
    return {node: ((across[node] + widest / 2) * WIDE, (depths.get(node, 0) + 0.5) * HIGH) for node in graph.nodes}


def _drawn(graph: Graph) -> ElementTree.Element:
    places = _places(graph)
    width, height = (round(max(point[axis] for point in places.values()) + WIDE / 2) for axis in (0, 1))
    size = {"width": str(width), "height": str(height), "viewBox": f"0 0 {width} {height}"}
    svg = ElementTree.Element("svg", {"xmlns": "http://www.w3.org/2000/svg", **size})
    ElementTree.SubElement(svg, "style").text = _STYLE
    marker = {"id": "end", "viewBox": "0 0 8 8", "refX": "8", "refY": "4", "orient": "auto", "markerWidth": "7"}
    head = ElementTree.SubElement(ElementTree.SubElement(svg, "defs"), "marker", marker)
    ElementTree.SubElement(head, "path", {"d": "M0 0L8 4L0 8z", "style": "fill:#889;stroke:none"})
    several: dict[tuple[int, int], list[str]] = {}
    ways: set[tuple[int, int]] = set()
    for source, target, step in graph.edges(data=True):
        several.setdefault((source, target), []).append(told_step(step))
        if step.get("way"):
            ways.add((source, target))
    for (source, target), steps in several.items():
        _edge(svg, places[source], places[target], steps, is_way=(source, target) in ways)
    for node, known in graph.nodes(data=True):
        x, y = places[node]
        group = ElementTree.SubElement(svg, "g", {"class": str(known.get("on", ""))})
        ElementTree.SubElement(group, "title").text = f"{node}\n{known.get('state', '')}"
        ElementTree.SubElement(group, "circle", {"cx": f"{x:.0f}", "cy": f"{y:.0f}", "r": str(RADIUS)})
        ElementTree.SubElement(group, "text", {"x": f"{x:.0f}", "y": f"{y + 4:.0f}"}).text = str(node)
    return svg


def _edge(
    svg: ElementTree.Element, begin: tuple[float, float], end: tuple[float, float], steps: list[str], *, is_way: bool
) -> None:
    (x, y), (u, v) = begin, end
    if begin == end:
        line = f"M{x + RADIUS:.0f} {y:.0f}c30 -20 30 20 0 4"
    else:
        length = ((u - x) ** 2 + (v - y) ** 2) ** 0.5
        dx, dy = (u - x) / length * RADIUS, (v - y) / length * RADIUS
        bend = 0 if v > y else WIDE / 3  # steps back, and aside, go round
        line = f"M{x + dx:.0f} {y + dy:.0f}Q{(x + u) / 2 + bend:.0f} {(y + v) / 2:.0f} {u - dx:.0f} {v - dy:.0f}"
        x, y = (x + u) / 2 + bend / 2, (y + v) / 2
    group = ElementTree.SubElement(svg, "g")
    ElementTree.SubElement(group, "title").text = "\n".join(steps)
    ElementTree.SubElement(group, "path", {"d": line, "class": "way" if is_way else "", "marker-end": "url(#end)"})
    more = f" +{len(steps) - 1}" if len(steps) > 1 else ""
    ElementTree.SubElement(group, "text", {"x": f"{x:.0f}", "y": f"{y:.0f}", "class": "step"}).text = steps[0] + more


def told_step(step: dict[str, Any]) -> str:
    """Return an edge's action with who takes it."""
    return f"{step['action']} {step['actor']}" if "actor" in step else str(step["action"])
