"""Refinement mappings: each mapped step of a protocol is a step of an abstract protocol, or a stutter.

Source: L. Lamport, "Specifying Systems" (2002), section 5.8, refinement mappings; M. Abadi and L. Lamport, "The
existence of refinement mappings" (1991). Only the safety of the abstract protocol is checked: its initial states and
steps.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kraftcheck.explorer.behaviour import Behaviour, step_of
from kraftcheck.explorer.bookkeeping import Bookkeeping
from kraftcheck.explorer.canonical import canonicalizer
from kraftcheck.explorer.result import SearchRequest, Unmapped
from kraftcheck.explorer.state_graph import StateGraph
from kraftcheck.spec.errors import ProtocolError, RaisedError
from kraftcheck.spec.kinds import describe_value, mismatch
from kraftcheck.spec.language.declarations import Property
from kraftcheck.spec.language.protocol import MISSING, Protocol
from kraftcheck.spec.language.semantics import Semantics
from kraftcheck.spec.language.state import State


class Refinement:
    """A mapping of a protocol's states to states of an abstract protocol, with the abstract steps known so far."""

    def __init__(self, protocol: Protocol, prop: Property) -> None:
        self.protocol, self.prop = protocol, prop
        self.other = Semantics(abstract_protocol(protocol, prop))
        self.starts = frozenset(self.other.initial())
        self.mapped: list[State] = []  # abstract states that occur, by number
        self._numbers: dict[State, int] = {}
        self._next: dict[int, frozenset[State]] = {}

    def number(self, state: State) -> int:
        """Return the number of the abstract state that a state maps to."""
        found: Any = None
        cause, problem = None, ""
        try:
            found = self.prop.function(self.protocol, state, self.other.protocol)
        except (Exception, SystemExit) as error:
            cause = error
        if cause is None:
            name = self.other.protocol.name()
            is_state = isinstance(found, State)
            problem = (mismatch(found, State, "") or "") if is_state else f"returned {describe_value(found)}"
            problem += "" if is_state else f"; expected a state of {name}, made by start(...)"
        if cause is not None or problem:
            what = f"property {self.prop.name}"
            raise RaisedError(self.protocol, what, self.prop.function, problem, {"state": state}, cause) from cause
        number = self._numbers.setdefault(found, len(self.mapped))
        if number == len(self.mapped):
            self.mapped.append(found)
        return number

    def allows(self, before: int, after: int) -> bool:
        """Whether two abstract states are equal, or a step of the abstract protocol leads from one to the other."""
        if before == after:
            return True
        if before not in self._next:
            self._next[before] = frozenset(step.target for step in self.other.transitions(self.mapped[before]))
        return self.mapped[after] in self._next[before]


def abstract_protocol(protocol: Protocol, prop: Property) -> Protocol:
    """Return the abstract protocol of a refinement; constants that both protocols have are equal."""
    other: type[Protocol] = prop.refined
    names = [constant.attribute for constant in other.constants.values()]
    given = {name: getattr(protocol, name) for name in names if hasattr(protocol, name)}
    missing = [c.attribute for c in other.constants.values() if c.attribute not in given and c.default is MISSING]
    if missing:
        code = prop.function.__code__
        expected = f"{other.name()} needs the constant {missing[0]}, which {protocol.name()} does not have"
        raise ProtocolError(f"{code.co_filename}:{code.co_firstlineno}: refinement {prop.name}: {expected}")
    return other(**given)


def check_refinements(graph: StateGraph, semantics: Semantics, options: SearchRequest, books: Bookkeeping) -> None:
    """Check that mapped initial states and steps of a search belong to the abstract protocols; record violations."""
    for prop in options.refines:
        books.check_time_limit(0)
        refinement = Refinement(semantics.protocol, prop)
        found = _first_unmapped(graph, refinement)
        books.followed.add(prop.name)
        if found is not None:
            source, target = found
            trace: Behaviour | None = graph.store.path_to(source)
            if target is not None:
                trace = _with_step(graph, semantics, options.view, source, target)
            if trace is None:
                raise graph.bounds.spends_too_much(prop.name)
            ends = [refinement.mapped[refinement.number(step.state)] for step in trace[-2:]]
            books.violation(prop.name, trace, unmapped=Unmapped(None if target is None else ends[0], ends[-1]))


def _first_unmapped(graph: StateGraph, refinement: Refinement) -> tuple[int, int | None] | None:
    """Return the first unmapped step as (source, target), or (start, None) for an unmapped initial state; else None."""
    numbers = np.zeros(graph.count, np.int32)
    for first, states in graph.store.chunks(backwards=False):
        for place, state in enumerate(graph.system.decode(states)):
            try:
                numbers[first + place] = refinement.number(state)
            except RaisedError as error:
                error.trace = graph.store.path_to(first + place)
                raise
    for start in range(graph.store.starts):
        if refinement.mapped[numbers[start]] not in refinement.starts:
            return start, None
    for first, states in graph.store.chunks(backwards=False):
        bad = [pair for edges in _edges(graph, states, first) for pair in _unmapped(refinement, numbers, *edges)]
        if bad:
            return min(bad)
    return None


def _edges(graph: StateGraph, states: Any, first: int) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    for edges in graph.edges(states, np.arange(len(states))):
        inside = edges.targets >= 0
        yield edges.sources[inside] + first, edges.targets[inside].astype(np.int64)


def _unmapped(
    refinement: Refinement, numbers: NDArray[np.int32], sources: NDArray[np.int64], targets: NDArray[np.int64]
) -> Iterator[tuple[int, int]]:
    """Yield steps that map to no abstract step, as (source, target); one step for each pair of abstract states."""
    count = len(refinement.mapped)
    pairs, places = np.unique(numbers[sources].astype(np.int64) * count + numbers[targets], return_index=True)
    for pair, place in zip(pairs.tolist(), places.tolist(), strict=True):
        if not refinement.allows(pair // count, pair % count):
            yield int(sources[place]), int(targets[place])


def _with_step(
    graph: StateGraph, semantics: Semantics, view: str | None, source: int, target: int
) -> Behaviour | None:
    """Return the behaviour to the state `source` and on to `target`; None if a bound hidden by the VIEW is used up."""
    trace, key_of = graph.store.path_to(source), canonicalizer(semantics.protocol, None, view)
    wanted = key_of(graph.store.state(target))
    steps = (step for step in semantics.transitions(trace[-1].state) if key_of(step.target) == wanted)
    step = next(steps, None)
    return None if step is None else (*trace, step_of(step))
