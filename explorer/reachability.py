"""What should stay reachable (`@reachable`): what it takes to find the states that have no way out.

A search finds them when it has visited every state: backwards, from the states in which the property is true. What is
not in the state graph is no way out: what lies beyond a constraint, and a step for which a bound has nothing left.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import NamedTuple

from kraftcheck.explorer.result import Options, Search
from kraftcheck.spec.errors import InputError, unknown
from kraftcheck.spec.language.property import Property
from kraftcheck.spec.language.protocol import Protocol
from kraftcheck.spec.language.semantics import Semantics
from kraftcheck.spec.language.state import State


def require_able(protocol: Protocol, options: Options) -> None:
    """Check, before a search, that it can find out what stays reachable.

    Parameters
    ----------
    protocol
        The protocol, with its constants.
    options
        What is checked.

    Raises
    ------
    InputError
        For another search order than breadth first, an action that the protocol does not have, or a VIEW that leaves
        out shared fields: what follows from a state may depend on them.
    """
    if not options.reachable:
        return
    names = ", ".join(prop.name for prop in options.reachable)
    if options.search != Search.BFS:
        raise InputError(f"{names}: what stays reachable is found breadth first only; expected --search bfs")
    known = [*protocol.actions, *protocol.network.own_actions()]
    for prop in options.reachable:
        for action in prop.without:
            if action not in known:
                raise InputError(f"{prop.name}, without=: {unknown('action', action, known, protocol.name())}")
    shared = ", ".join(sorted(protocol.hidden(options.view).shared)) if options.view else ""
    if shared:
        raise InputError(
            f"{names}: VIEW {options.view} leaves out {shared}, on which it may depend what can be reached;"
            " expected a view that leaves out bounds only"
        )


class Goals:
    """Judges states by what should stay reachable.

    Parameters
    ----------
    semantics
        The meaning of the protocol.
    options
        What is checked, in which view.
    """

    def __init__(self, semantics: Semantics, options: Options) -> None:
        self._semantics = semantics
        self._view = options.view
        hidden = semantics.protocol.hidden(options.view).bounds if options.view else frozenset()
        limits = semantics.protocol.bounds
        self._limits = {name: limits[name] for name in hidden if limits[name]}

    def holds(self, prop: Property, state: State) -> bool:
        """Return whether what a property wants is there in a state.

        Raises
        ------
        InputError
            Where the VIEW leaves out a bound that is used up: then other states that look the same may go on.
        """
        for name, limit in self._limits.items():
            if state.spent[name] >= limit:
                constants = self._semantics.protocol.constants.values()
                known = next(constant.name for constant in constants if constant.attribute == name)
                raise InputError(
                    f"{prop.name}: VIEW {self._view} leaves out {known}, of which nothing is left in a state, so that"
                    f" it is not known what can be reached; expected more than {known} = {limit}"
                )
        return self._semantics.holds(prop, state)


class Edge(NamedTuple):
    """A step from one state to another, by their numbers."""

    source: int
    target: int


def stuck(count: int, goals: Iterable[int], edges: Iterable[Edge]) -> list[int]:
    """Return the numbers of the states, out of `count`, from which no edges lead to a goal; in their order."""
    before: defaultdict[int, list[int]] = defaultdict(list)
    for source, target in edges:
        before[target].append(source)
    waiting = list(goals)
    led = set(waiting)
    while waiting:
        for source in before[waiting.pop()]:
            if source not in led:
                led.add(source)
                waiting.append(source)
    return [number for number in range(count) if number not in led]
