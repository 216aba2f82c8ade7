"""The state graph of a search, as a networkx graph and as a file."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import networkx as nx

from kraftcheck.explorer.reference import ReferenceSearch
from kraftcheck.explorer.result import Options, Result
from kraftcheck.spec.errors import InputError
from kraftcheck.spec.language.protocol import Protocol
from kraftcheck.spec.language.state import State

if TYPE_CHECKING:
    Graph = nx.MultiDiGraph[int]  # the class takes no type arguments when it runs

Told = Callable[[State], object]

_ESCAPES = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\l"})


def explore_graph(
    protocol: Protocol, options: Options, state_text: Told | None = None
) -> tuple[Result, Graph]:
    """Search with the reference engine, and return its result with the graph of the states visited.

    Parameters
    ----------
    protocol
        The protocol, with its constants.
    options
        What to check and where to stop.
    state_text
        What to note for a state in its node's attribute `state`; by default nodes have none.
    """
    search = ReferenceSearch(protocol, options)
    return search.run(), state_graph(search, state_text)


def state_graph(search: ReferenceSearch, state_text: Told | None = None) -> Graph:
    """Return the graph of the states that a search visited.

    Parameters
    ----------
    search
        A search that was run.
    state_text
        What to write for a state; by default nothing.

    Returns
    -------
    networkx.MultiDiGraph
        Nodes are numbers, from 1 in the order of discovery, with `initial` (and `state`). Edges are transitions
        between states visited, self-loops included, with `action` and, where a replica took it, `actor`.

    References
    ----------
    Hagberg, Schult, Swart: "Exploring network structure, dynamics, and function using NetworkX", SciPy 2008.
    """
    graph: Graph = nx.MultiDiGraph()
    numbers = {identity: number for number, identity in enumerate(search.parents, start=1)}
    states = list(search.states())
    for number, (state, (_, reached_by)) in enumerate(zip(states, search.parents.values(), strict=True), start=1):
        text = {} if state_text is None else {"state": state_text(state)}
        graph.add_node(number, initial=reached_by is None, **text)
    constraints = search.options.action_constraints
    for number, state in enumerate(states, start=1):
        for transition in search.semantics.transitions(state):
            target = numbers.get(search.identity(transition.target))
            if target is None:  # beyond a constraint or a limit
                continue
            if all(search.semantics.holds_over(c, state, transition.target) for c in constraints):
                actor = {} if transition.actor is None else {"actor": str(transition.actor)}
                graph.add_edge(number, target, action=transition.action, **actor)
    return graph


def write_graph(graph: Graph, path: str | Path) -> None:
    """Write a state graph, in the format that the file's ending says.

    Parameters
    ----------
    graph
        What `state_graph` returned.
    path
        A file that ends in `.graphml`, `.json` (node-link data) or `.dot` (Graphviz).

    Raises
    ------
    InputError
        For another ending.
    """
    graph_writer(path)(graph, Path(path))


def graph_writer(path: str | Path) -> Callable[[Graph, Path], None]:
    """Return the writer for a file's ending, or raise `InputError` where there is none."""
    writers = {".graphml": _write_graphml, ".json": _write_json, ".dot": _write_dot}
    ending = Path(path).suffix.lower()
    if ending not in writers:
        raise InputError(f"{path}: expected a file that ends in {', '.join(writers)}, found {ending or 'no ending'}")
    return writers[ending]


def _write_graphml(graph: Graph, path: Path) -> None:
    nx.write_graphml(graph, path)


def _write_json(graph: Graph, path: Path) -> None:
    path.write_text(json.dumps(nx.node_link_data(graph, edges="edges")), encoding="utf-8")


def _write_dot(graph: Graph, path: Path) -> None:
    lines = ["digraph states {", "  node [shape=box];"]
    for number, node in graph.nodes(data=True):
        label = f"{number}\n{node['state']}\n" if "state" in node else str(number)
        filled = ", style=filled" if node["initial"] else ""
        lines.append(f"  {number} [label={_quoted(label)}{filled}];")
    for source, target, edge in graph.edges(data=True):
        label = f"{edge['action']} {edge['actor']}" if "actor" in edge else edge["action"]
        lines.append(f"  {source} -> {target} [label={_quoted(label)}];")
    path.write_text("\n".join([*lines, "}", ""]), encoding="utf-8")


def _quoted(text: str) -> str:
    return f'"{text.translate(_ESCAPES)}"'
