"""Shortest traces to states of a breadth-first search, independent of the order of discovery.

A trace is found backwards, level by level: of all predecessors in a level, the least one is taken. Ids and the
order of a level depend on the number of threads, so states are compared by fingerprint
(`learning/fingerprints.py`). Under symmetry the least fingerprint of a state's images stands for its orbit.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from itertools import chain
from typing import Any

import numpy as np

from kraftcheck.explorer.result import (
    Behaviour,
    NoSuchPathError,
    SearchRequest,
    behaviour_along,
    least_transition,
    trace_step_of_transition,
)
from kraftcheck.explorer.tables.expander import Expander, ExpansionEvent
from kraftcheck.explorer.tables.kernel.codes import ROW_IDENTITY
from kraftcheck.explorer.tables.learning.fingerprints import StatePartFingerprints
from kraftcheck.explorer.tables.rows import MOST_SERIAL_STATES, ROWS_A_CHUNK, Rows, SpillingLevels
from kraftcheck.explorer.tables.violation_checker import ViolationChecker
from kraftcheck.explorer.transition_system import canonicalizer
from kraftcheck.spec.errors import RaisedError
from kraftcheck.spec.language.semantics import Transition
from kraftcheck.spec.language.state import State

LEAST_STATE_SEARCH_SECONDS = 5.0
"""Minimum number of seconds to look for least states; a long search may take as long again."""


class LeastStateFinder:
    """Finds the least state of a level, compared by fingerprint."""

    def __init__(self, expander: Expander, levels: SpillingLevels, batch: int) -> None:
        self.gave_up = False
        self._expander = expander
        self._levels = levels
        self._batch = batch
        self._fingerprints: StatePartFingerprints | None = None
        self._until = float("inf")

    def forget(self) -> None:
        """Drop the fingerprints, after a change of layout."""
        self._fingerprints = None

    def allow(self, seconds: float) -> None:
        """Limit the time for finding least states to `seconds`, or to `LEAST_STATE_SEARCH_SECONDS` if longer."""
        self._until = time.monotonic() + max(LEAST_STATE_SEARCH_SECONDS, seconds)

    def least_in_level(self, level: int, leads: Callable[[Rows], int | None]) -> Any:
        """Return the row of the least state in a level for which `leads` succeeds, or None.

        `leads` takes rows and returns the index of the first that qualifies, or None.
        """
        best, found = None, None
        with self._expander.with_control_rows():
            for rows in map(self._expander.unflattened, self._levels.chunks(level, self._batch)):
                if time.monotonic() > self._until:
                    self.gave_up = True
                    if found is not None:
                        break
                rows = self._expander.with_columns(rows)
                keys = self._keys(rows)
                order = np.argsort(keys, kind="stable")
                if best is not None:
                    order = order[keys[order] < best]
                place = leads(rows[order]) if len(order) else None
                if place is not None:
                    best, found = keys[order[place]], rows[order[place]]
        return found

    def first(self, rows: Rows, fits: Callable[[Any], bool]) -> int | None:
        """Return the index of the first row that fits; None if none does or time runs out."""
        for place, row in enumerate(rows):
            if fits(row):
                return place
            if time.monotonic() > self._until:
                self.gave_up = True
                break
        return None

    def _keys(self, rows: Rows) -> Any:
        """Return the fingerprints of states, under symmetry the least of their orbits."""
        if self._fingerprints is None:
            self._fingerprints = StatePartFingerprints(self._expander.learner)
        self._expander.canonical_rows(rows)  # caches their images
        self._fingerprints.update()
        of = self._fingerprints
        tables: Any = self._expander.learner.tables
        keys = of.rows[rows[:, 0]] + of.contents[rows[:, 1:]].sum(axis=1, dtype=np.uint64)
        shown = tables.row_info[rows[:, 0], ROW_IDENTITY]
        for image in range(1, self._expander.learner.permutations):
            contents = np.where(rows[:, 1:] == 0, 0, tables.permuted_contents[rows[:, 1:], image])
            images = of.rows[tables.permuted_rows[shown, image]]
            keys = np.minimum(keys, images + of.contents[contents].sum(axis=1, dtype=np.uint64))
        return keys

    def first_violating(self, rows: Rows, violated: set[str]) -> int | None:
        """Return the index of the first state with an event for a property not in `violated`, or None."""
        for first in range(0, len(rows), MOST_SERIAL_STATES):
            part = rows[first : first + MOST_SERIAL_STATES]
            if self._events(part, violated):
                return first + min(place for place, _, _ in self._events(part, violated))  # complete: no miss is left
        return None

    def events_of(self, row: Any, violated: set[str]) -> list[tuple[int, int]]:
        """Return a state's events as sorted (kind, mask) pairs; masks of the same kind are united."""
        masks: dict[int, int] = {}
        for _, kind, mask in self.events_out_of(row[None], violated):
            masks[kind] = masks.get(kind, 0) | mask
        return sorted(masks.items())

    def events_out_of(self, rows: Rows, violated: set[str]) -> list[ExpansionEvent]:
        """Return the events of states, for properties not in `violated`."""
        with self._expander.with_control_rows():
            return self._events(rows, violated)

    def _events(self, rows: Rows, violated: set[str]) -> list[ExpansionEvent]:
        """Expand states and return the events; restore the counts and suppressed events."""
        expander = self._expander
        fired = [worker.fired.copy() for worker in expander.pool]
        expander.events()
        expander.suppress_events(violated)
        which = np.arange(len(rows), dtype=np.int64)
        try:
            while len(which):
                rows, which = expander.expand(rows, which)
                for worker in expander.pool:
                    worker.take_collected()
                    worker.successors.clear()
            return expander.events()
        finally:
            for worker, before in zip(expander.pool, fired, strict=True):
                worker.fired[:] = before
            expander.suppress_events(violated)


class WitnessSearch:
    """Finds shortest traces to states and to violations."""

    def __init__(
        self, expander: Expander, levels: SpillingLevels, checker: ViolationChecker, options: SearchRequest, batch: int
    ) -> None:
        self.least = LeastStateFinder(expander, levels, batch)
        self._expander, self._levels, self._checker = expander, levels, checker
        self._monitor, self._options = checker.monitor, options

    def note(self, events: list[ExpansionEvent], level: int, trace_to: Callable[[int], Behaviour]) -> None:
        """Report violations by states of a level, each with the trace through the least such state.

        The level is expanded again for the least state. Where time runs out, the events are reported, with `trace_to`.
        """
        while events:
            self._allow_time()
            row = self.least.least_in_level(
                level, lambda rows: self.least.first_violating(rows, self._monitor.violated)
            )
            if row is None:
                if self.least.gave_up:
                    self._checker.report_events(events, trace_to)
                break
            trace = self.to_orbit(row, level) or self.to_row(row, level)
            for kind, mask in self.least.events_of(row, self._monitor.violated):
                self._checker.report_event(kind, mask, trace)

    def to_violation(self, name: str, level: int) -> Behaviour | None:
        """Return the trace through the least state with a step that violates a property; None after a timeout."""
        self._allow_time()
        semantics, decode = self._checker.semantics, self._expander.learner.interner.decode_state
        (prop,) = (one for one in self._options.properties if one.name == name)

        def breaking(state: State) -> list[Transition]:
            try:
                return [taken for taken in semantics.transitions(state) if not semantics.holds(prop, taken.target)]
            except RaisedError:  # the search will report it
                return []

        row = self.least.least_in_level(level, partial(self.least.first, fits=lambda one: bool(breaking(decode(one)))))
        for path in () if row is None else (self.to_orbit, self.to_row):
            trace = path(row, level)
            steps = breaking(trace[-1].state) if trace else []
            if trace and steps:
                return (*trace, trace_step_of_transition(least_transition(steps)))
        return None

    def traced(self, error: RaisedError, position: int) -> RaisedError:
        """Return an error with the trace to the state of the last expanded level in which it was raised.

        States from `position` on are tried first, since they are the ones in expansion.
        """
        level = self._levels.depth - 1
        if level > 0 and error.trace is None:
            for rows in chain([self._levels.read(level, position, 2 * ROWS_A_CHUNK)], self._levels.chunks(level)):
                error = self._checker.traced(error, rows, lambda index, rows=rows: self.to(rows[index], level))  # type: ignore[misc]
        return error

    def _allow_time(self) -> None:
        self._monitor.tally()
        self.least.allow(self._monitor.result.seconds)

    def to(self, row: Any, level: int) -> Behaviour:
        """Return a shortest trace to a state of a level."""
        return self.to_row(self._expander.unflattened(np.asarray(row)[None])[0], level)

    def to_row(self, row: Any, level: int) -> Behaviour:
        """Return a shortest trace to a state of a level, given as a row with the id of its control row."""
        with self._expander.with_control_rows():
            return self._checker.behaviour(self._path(row, level, lambda target: target))

    def to_orbit(self, row: Any, level: int) -> Behaviour | None:
        """Return a trace to an image, under symmetry, of a violating state, whichever image of it is stored.

        Returns None without a symmetry, and where the declared symmetry does not preserve the violations.
        """
        expander, symmetry = self._expander, self._options.symmetry
        if symmetry is None or self._options.view is not None:
            return None
        class_of = canonicalizer(expander.learner.protocol, symmetry, None)
        with expander.with_control_rows():
            path = self._path(row, level, expander.images)
            classes = [class_of(expander.learner.interner.decode_state(one)) for one in path]
        try:
            found = behaviour_along(self._checker.semantics, classes, starts=self._checker.starts, class_of=class_of)
        except NoSuchPathError:
            return None
        with expander.with_control_rows():
            image, violated = expander.encode([found[-1].state])[0], self._checker.monitor.violated
        return found if self.least.events_of(image, violated) == self.least.events_of(row, violated) else None

    def _path(self, row: Any, level: int, targets: Callable[[Rows], Rows]) -> list[Any]:
        """Return a path to a state, one row per level; each is the least predecessor of a target in the next level."""
        path = [np.asarray(row)]
        for before in range(level - 1, 0, -1):
            wanted = targets(path[-1][None])
            found = self.least.least_in_level(before, partial(self._expander.predecessor, targets=wanted))
            if found is None:
                raise AssertionError("a visited state has no predecessor in the previous level")
            path.append(found)
        return path[::-1]
