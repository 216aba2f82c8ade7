"""Violating states of a search, among all states or among those known so far, and the behaviours that show them."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import nullcontext, suppress
from typing import Protocol

from kraftcheck.explorer.behaviour import Behaviour
from kraftcheck.explorer.bookkeeping import Bookkeeping, SearchStopped
from kraftcheck.explorer.result import DEADLOCK, SearchRequest
from kraftcheck.explorer.symbolic.checks import StateChecks, StepChecks
from kraftcheck.explorer.symbolic.counterexamples import VIOLATING, WitnessPaths, violating_behaviour
from kraftcheck.explorer.symbolic.state_space import StateSpace
from kraftcheck.explorer.symbolic.store import EMPTY, OutOfNodes
from kraftcheck.explorer.symbolic.variables import LayoutChanged, OpaqueSetRequired
from kraftcheck.spec.errors import InputError, RaisedError
from kraftcheck.spec.language.declarations import Property
from kraftcheck.spec.language.semantics import Semantics
from kraftcheck.spec.language.state import State

FEWEST, SECONDS, AT_ONCE = 1 << 12, 5.0, 1 << 16
"""Nodes made and seconds passed before the first early check; with AT_ONCE nodes it does not wait."""
GROWTH, SPARED = 2, 30
"""Growth of the nodes made, and multiple of the last check's time, before the next early check."""


SHOWING_SECONDS, SHOWING_TIMES = 30.0, 3.0
"""Time for finding a counterexample: at least these seconds, or this multiple of the search's time."""

CHECKING_SECONDS = 10.0  # least seconds for checking properties after a limit; else a tenth of the search's time
MOST_NAMED, FEWEST_NAMED = 3, 1_000  # variables that a note names, and fewest nodes of the first one

Find = Callable[[list[str]], Iterable[tuple[str, list[State]]]]
"""Finds counterexamples, given the names of properties."""


class PathTimeout(Exception):  # noqa: N818 - not an error
    """Raised when the time for finding a counterexample has passed."""


class Pace:
    """Time of the next clock check, and deadline of a counterexample search."""

    next_look = 0.0
    deadline: float | None = None


class SearchObserver(Protocol):
    """A symbolic search, as its search orders and its checks see it."""

    options: SearchRequest
    semantics: Semantics
    books: Bookkeeping
    pace: Pace

    def note(self, reached: int, expanded: int) -> None:
        """Record the set of the reached states, and the subset of them that was expanded."""

    def found(self, name: str, trace: Behaviour) -> None:
        """Record a violated property with its counterexample."""

    def is_known(self, name: str) -> bool:
        """Whether a violation of the property is already recorded."""

    def deeper(self, depth: int) -> None:
        """Record the depth of the search."""

    def stop_at(self, limit: str) -> None:
        """End the search because it reached a limit."""

    def pause(self) -> None:
        """Check the clock, and report progress."""

    @property
    def is_interrupted(self) -> bool:
        """Whether an interruption was asked for."""

    @property
    def keeps_sets(self) -> bool:
        """Whether the search has a checkpoint."""

    def keep(self, sets: dict[str, int]) -> None:
        """Keep named sets for the checkpoint; write the checkpoint when it is due."""


class Violations:
    """Evaluates the properties of a search on sets of one state space, and shows what violates them."""

    def __init__(self, space: StateSpace, search: SearchObserver) -> None:
        self.states = StateChecks(space, search.semantics)
        self._steps = StepChecks(space, search.semantics, is_asked_again=False)
        self._space = space
        self._search, self._options = search, search.options
        self._nodes, self._not_before, self._at_once = FEWEST, time.monotonic() + SECONDS, AT_ONCE

    def of(self, states: int, more: int, *, is_part: bool = False) -> dict[str, int]:
        """Return the set of violating states of each violated property; state properties are also checked on `more`.

        With `is_part`, deadlocks are left out, since some steps are not known yet.
        """
        found = self._of(self._options.properties, states, more)
        if self._options.deadlock and not is_part and (stuck := self._space.stuck(states)) != EMPTY:
            found[DEADLOCK] = stuck
        return found

    def _of(self, properties: Iterable[Property], states: int, more: int) -> dict[str, int]:
        every = self._space.store.union(states, more)
        found = {prop.name: self._violating(prop, states if prop.over_steps else every) for prop in properties}
        return {name: bad for name, bad in found.items() if bad != EMPTY}

    def of_property(self, name: str, states: int) -> int:
        """Return the states of a set that violate the named property."""
        return next(self._violating(prop, states) for prop in self._options.properties if prop.name == name)

    def _violating(self, prop: Property, states: int) -> int:
        return (self._steps if prop.over_steps else self.states).violating(prop, states)

    @property
    def is_due(self) -> bool:
        """Whether an early check is due: the set has grown, and checks have taken little of the time."""
        made = self._space.store.nodes_made
        if made <= self._nodes or self._options.keep_going:
            return False
        return made > self._at_once or time.monotonic() > self._not_before

    def early(self, states: int, more: int) -> dict[str, int]:
        """Check the known states, except for properties that read whole states; schedule the next early check."""
        began = time.monotonic()
        try:
            return self._of([prop for prop in self._options.properties if "state" not in prop.asks], states, more)
        finally:
            now = time.monotonic()
            self._nodes, self._not_before = GROWTH * self._space.store.nodes_made, now + SPARED * (now - began)
            self._at_once = sys.maxsize

    def check_part(self) -> None:
        """Look for violations in the known states, after a limit ended the search."""
        books, store = self._search.books, self._space.store
        self._search.pace.deadline = time.monotonic() + max(CHECKING_SECONDS, books.seconds / 10)
        try:
            store.collect_garbage([])
            bad = self.of(store.roots["reached"], EMPTY, is_part=True)
        except (PathTimeout, OutOfNodes, LayoutChanged, OpaqueSetRequired, InputError) as why:
            if isinstance(why, RaisedError):
                raise
            reason = why if isinstance(why, InputError) else "out of memory or time"
            books.result.notes.append(f"properties were not checked on the states found so far: {reason}")
        else:
            self.show(bad)
        finally:
            self._search.pace.deadline = None

    def show(self, bad: dict[str, int], *, is_part: bool = False) -> None:
        """Show each violation by a shortest behaviour, else by any behaviour, else by a violating state.

        If only part of the states is known, an unknown violating state may be nearer to the initial states.
        """
        search, space, left = self._search, self._space, list(bad)
        space.store.roots.update({VIOLATING + name: states for name, states in bad.items()})
        beyond = frozenset(prop.name for prop in self._options.properties if not prop.over_steps)
        violating = self.of_property if is_part else None
        ways = WitnessPaths(space, self.states, self._options.constraints, beyond, search.pause, violating)
        for find, kind in ((ways.shortest, "shortest"), (ways.any, "other")):
            self._show_found(find, left, kind)
            if search.is_interrupted:
                break
        for name in left:
            search.books.result.notes.append(
                f"{name}: no behaviour that leads to the state shown was found; use --search bfs or --engine tables"
            )
            with suppress(SearchStopped) if search.is_interrupted else nullcontext():
                self._tell(name, [space.variables.decode(space.store.one_of(space.store.roots[VIOLATING + name]))])
        if search.is_interrupted:
            raise KeyboardInterrupt

    def _show_found(self, find: Find, left: list[str], kind: str) -> None:
        """Show the counterexamples found in time; names without a counterexample stay in `left`."""
        books = self._search.books
        most = max(SHOWING_SECONDS, SHOWING_TIMES * books.seconds)
        spare = (self._options.time_limit or math.inf) - books.seconds
        allowed = max(min(most, spare), 0)
        self._search.pace.deadline = time.monotonic() + allowed
        try:
            for name, path in find(left):
                left.remove(name)
                self._tell(name, path)
        except (PathTimeout, OutOfNodes):
            self._space.store.collect_garbage([])
            names = ", ".join(left)
            books.result.notes.append(f"{names}: no {kind} counterexample was found within {allowed:,.0f} s")
        finally:
            self._search.pace.deadline = None

    def _tell(self, name: str, path: list[State]) -> None:
        """Record a violated property with the behaviour along a path."""
        prop = next((one for one in self._options.properties if one.name == name), None)
        self._search.found(name, violating_behaviour(self._search.semantics, prop, path))


def states_without_path_to(
    space: StateSpace, checks: StateChecks, prop: Property, reached: int, pause: Callable[[], None]
) -> int:
    """Return the states from which no state with the property is reachable within the set (AG EF, backwards)."""
    store = space.store
    pruned = set(space.learning.events.pruned)
    events = {
        space.view.event(taken.event): None
        for taken in space.learning.events.infos
        if taken.action not in prop.without and taken.event not in pruned
    }
    relations = space.groups.nodes.relations(events)
    left = checks.violating(prop, reached)
    out, before = store.difference(reached, left), EMPTY
    while left not in (before, EMPTY):
        before = left
        for relation in relations:
            pause()
            found = store.predecessors(left, relation, out)
            out, left = store.union(out, found), store.difference(left, found)
        if store.is_crowded:
            out, left, before = store.collect_garbage([out, left, before])
    return left


def notes_on_sets(space: StateSpace, traps: Collection[str]) -> Iterator[str]:
    """Yield the diagram's size with its largest variables, and the violating states of properties not in `traps`."""
    store, reached = space.store, space.store.roots.get("reached", EMPTY)
    size, variables = store.size(reached), len(space.variables.keys)
    yield f"a diagram of {size:,} nodes over {variables:,} variables; {store.nodes_made:,} nodes were created for it"
    levels = store.sizes(reached).most_common(MOST_NAMED)
    if levels and levels[0][1] >= FEWEST_NAMED:
        names = [f"{space.variables.name(level)} ({nodes:,})" for level, nodes in levels]
        yield f"most nodes belong to {', '.join(names)}"
    for root, states in store.roots.items():
        name = root.removeprefix(VIOLATING)
        if name != root and name not in traps:
            what = "no next state" if name == DEADLOCK else f"{name} violated"
            yield f"{store.count(states):,} states have {what}"
