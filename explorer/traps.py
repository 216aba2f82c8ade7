"""Finds where a protocol is stuck: the reachable states from which no wanted state can be reached.

Until temporal properties are checked, this is how a fault shows that breaks no safety, only progress: no leader is ever
elected again, no record is ever committed. A part of the graph with no way out holds whatever is fair, so it needs no
assumption of fairness; the reverse does not follow, since a way out that is there need not be taken.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace

import networkx as nx

from kraftcheck.explorer.graph import state_graph
from kraftcheck.explorer.reference import ReferenceSearch
from kraftcheck.explorer.result import Options, Search, TraceStep
from kraftcheck.spec.errors import InputError, unknown
from kraftcheck.spec.language.protocol import Protocol
from kraftcheck.spec.language.state import State


@dataclass(frozen=True)
class Trap:
    """The states of a search from which no state that is wanted can be reached.

    Attributes
    ----------
    states
        How many they are.
    among
        How many states were searched.
    components
        The sizes of their components that cannot be left, the largest first: a component of one state is where the
        protocol stops or repeats itself, a larger one a circle (or several) in which it runs for ever.
    trace
        A shortest behaviour from an initial state into them; empty where there are none.
    """

    states: int
    among: int
    components: tuple[int, ...]
    trace: tuple[TraceStep, ...]


def find_trap(
    protocol: Protocol,
    wanted: Callable[[State], bool],
    options: Options | None = None,
    *,
    without: Collection[str] = (),
) -> Trap:
    """Search a protocol whole, and return the states from which no wanted state can be reached.

    Parameters
    ----------
    protocol
        The protocol, with its constants. A bound that is used up looks like a trap: give what must go on enough of it,
        or count a state in which it is used up as wanted.
    wanted
        Whether a state is one that should always be reachable: a leader is there, a record is committed.
    options
        Constraints, symmetry and start of the search; its properties are not checked.
    without
        Names of actions that do not count as a way out, because nobody may rely on them: a crash, an operator's help.
        The states that they lead to are searched all the same.

    Returns
    -------
    Trap
        How many states there are from which there is no way out, and a shortest way into them.

    Raises
    ------
    InputError
        For an action that the protocol does not have, or where a limit ended the search: what lies beyond is not known.

    Examples
    --------
    A lock service that loses a message leaves everyone waiting:

    >>> from kraftcheck.spec.examples.lock_service import LockService, Phase
    >>> from kraftcheck.spec.values import ModelValue
    >>> service = LockService(clients=frozenset({ModelValue("c1", 1), ModelValue("c2", 2)}), losses=1)
    >>> held = lambda state: any(c.phase is Phase.HOLDING for k, c in state.replicas.items() if str(k) != "server")
    >>> trap = find_trap(service, held)
    >>> trap.states, trap.among, trap.components
    (12, 48, (1, 1, 1, 1))
    >>> [step.action for step in trap.trace]
    [None, 'Ask', 'Grant', 'LoseMessage']

    References
    ----------
    `networkx.attracting_components`: strongly connected components that cannot be left.
    """
    known = [*protocol.actions, *protocol.network.own_actions()]
    for name in without:
        if name not in known:
            raise InputError(unknown("action", name, known, protocol.name()))
    search = _searched_whole(protocol, options or Options())
    states = list(search.states())
    graph: nx.DiGraph[int] = nx.DiGraph()
    graph.add_nodes_from(range(1, len(states) + 1))
    graph.add_edges_from(
        (source, target)
        for source, target, data in state_graph(search).edges(data=True)
        if data["action"] not in without
    )
    ends = [number for number, state in enumerate(states, start=1) if wanted(state)]
    there = 0  # no state's number
    backwards = graph.reverse()
    backwards.add_edges_from((there, number) for number in ends)
    led = nx.descendants(backwards, there) if ends else set()
    stuck = [number for number in graph if number not in led]
    components = sorted(map(len, nx.attracting_components(graph.subgraph(stuck))), reverse=True)
    trace = search.path_to(states[stuck[0] - 1]) if stuck else ()
    return Trap(len(stuck), len(states), tuple(components), trace)


def _searched_whole(protocol: Protocol, options: Options) -> ReferenceSearch:
    """Return a search of all states that checks no property."""
    search = ReferenceSearch(
        protocol, replace(options, properties=(), deadlock=False, search=Search.BFS, check_actions=False, report=None)
    )
    result = search.run()
    if not result.complete:
        raise InputError(f"the search was not complete ({result.limit}): what can be reached is not known")
    return search
