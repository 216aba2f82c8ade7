"""What should stay reachable (`@reachable`): what it takes to find the states that have no way out.

A search finds them when it has visited every state: backwards, from the states in which the property is true. What is
not in the state graph is no way out: what lies beyond a constraint, and a step for which a bound has nothing left.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from kraftcheck.explorer.result import Options
from kraftcheck.spec.errors import InputError, unknown
from kraftcheck.spec.language.property import Property
from kraftcheck.spec.language.protocol import Protocol
from kraftcheck.spec.language.semantics import Semantics
from kraftcheck.spec.language.state import State


def require_able(protocol: Protocol, options: Options) -> None:
    """Check, before a search, that it can find out what stays reachable."""
    if not options.reachable:
        return
    names = ", ".join(prop.name for prop in options.reachable)
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
    """Judges states by what should stay reachable."""

    def __init__(self, semantics: Semantics, options: Options, most_spent: Mapping[str, int]) -> None:
        self._semantics = semantics
        self._most_spent = most_spent
        self._used: dict[str, int] = {}
        self.judged: State | None = None
        self._view = options.view
        self._hidden = semantics.protocol.hidden(options.view).bounds if options.view else frozenset()
        limits = semantics.protocol.bounds
        self._limits = {name: limits[name] for name in sorted(self._hidden) if limits[name]}

    def holds(self, prop: Property, state: State) -> bool:
        """Return whether what a property wants is there in a state."""
        self.judged = state
        for name in self._limits:
            self._used[name] = max(self._used.get(name, 0), state.spent[name])
        self.require_room(prop.name)
        return self._semantics.holds(prop, state)

    def require_room(self, name: str) -> None:
        """Raise where, of a bound that the VIEW leaves out, less is left in a state than a step may spend."""
        for bound, used in self._used.items():
            limit, most = self._limits[bound], self._most_spent.get(bound, 1)
            if used + most > limit:
                known = self._semantics.protocol.constant_of(bound)
                left = "nothing" if used >= limit else f"less than a step spends ({most})"
                raise InputError(
                    f"{name}: VIEW {self._view} leaves out {known}, of which {left} is left in a state, so that"
                    f" it is not known what can be reached; expected more than {known} = {limit}"
                )

    def spends_too_much(self, name: str) -> InputError:
        """Return what to say of a behaviour that breaks a property and spends more than there is.

        The states of the graph each have something left of what the VIEW leaves out. A behaviour through them may
        spend more than any of the ways by which they were found.
        """
        known = self._semantics.protocol.constant_of
        bounds = ", ".join(f"{known(bound)} = {limit}" for bound, limit in self._limits.items())
        return InputError(
            f"{name} is violated, by a behaviour that spends more than there is of what VIEW {self._view} leaves out;"
            f" expected more than {bounds}, to tell it"
        )


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
