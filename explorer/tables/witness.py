"""Shortest behaviours to the states of a breadth-first search, the same ones whatever the order of discovery.

Predecessors are searched level by level, and of all states of a level that lead to something the least is taken. Ids,
and the order of a level, depend on how many threads searched. Fingerprints of states do not
(`learning/fingerprints.py`). Under symmetry the least fingerprint of a state's images stands for its orbit.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from functools import partial
from itertools import chain
from typing import Any

import numpy as np

from kraftcheck.explorer.behaviour import Behaviour, NoSuchPathError, behaviour_along, least, step_of
from kraftcheck.explorer.canonical import canonicalizer
from kraftcheck.explorer.result import SearchRequest
from kraftcheck.explorer.tables.checker import Checker
from kraftcheck.explorer.tables.expander import Event, Expander
from kraftcheck.explorer.tables.kernel.codes import R_IDENTITY
from kraftcheck.explorer.tables.learning.fingerprints import Fingerprints
from kraftcheck.explorer.tables.states.levels import CHUNK, Levels
from kraftcheck.explorer.tables.states.packing import Rows
from kraftcheck.explorer.tables.threads import SERIAL
from kraftcheck.spec.errors import RaisedError
from kraftcheck.spec.language.semantics import Transition
from kraftcheck.spec.language.state import State

PATIENCE = 5.0
"""Seconds that looking for the least may take in any case; more where the search itself took more."""


class LeastStates:
    """Finds the least states of levels."""

    def __init__(self, expander: Expander, levels: Levels, batch: int) -> None:
        self.gave_up = False
        self._expander = expander
        self._levels = levels
        self._batch = batch
        self._fingerprints: Fingerprints | None = None
        self._until = float("inf")

    def forget(self) -> None:
        """Forget what is known of states: they are laid out otherwise from now on."""
        self._fingerprints = None

    def allow(self, seconds: float) -> None:
        """Allow a search of so many seconds to look for as long again, and for `PATIENCE` in any case."""
        self._until = time.monotonic() + max(PATIENCE, seconds)

    def of_level(self, level: int, leads: Callable[[Rows], int | None]) -> Any:
        """Return the row of the least state of a level that leads to something; None where there is none."""
        with self._expander.with_control_rows():
            return self._of_level(map(self._expander.unflattened, self._levels.chunks(level, self._batch)), leads)

    def _of_level(self, chunks: Iterable[Rows], leads: Callable[[Rows], int | None]) -> Any:
        best, found = None, None
        for rows in chunks:
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
        """Return the place of the first of some rows that fits; None where none does, or there is no time to look."""
        for place, row in enumerate(rows):
            if fits(row):
                return place
            if time.monotonic() > self._until:
                self.gave_up = True
                break
        return None

    def _keys(self, rows: Rows) -> Any:
        if self._fingerprints is None:
            self._fingerprints = Fingerprints(self._expander.learner)
        self._expander.identities(rows)  # this learns their images
        self._fingerprints.update()
        of = self._fingerprints
        tables: Any = self._expander.learner.tables
        keys = of.rows[rows[:, 0]] + of.contents[rows[:, 1:]].sum(axis=1, dtype=np.uint64)
        shown = tables.row_info[rows[:, 0], R_IDENTITY]
        for image in range(1, self._expander.learner.permutations):
            contents = np.where(rows[:, 1:] == 0, 0, tables.permuted_contents[rows[:, 1:], image])
            images = of.rows[tables.permuted_rows[shown, image]]
            keys = np.minimum(keys, images + of.contents[contents].sum(axis=1, dtype=np.uint64))
        return keys

    def showing(self, rows: Rows, violated: set[str]) -> int | None:
        """Return the place of the first of some states out of which something is violated, or None."""
        for first in range(0, len(rows), SERIAL):
            part = rows[first : first + SERIAL]
            if self._events(part, violated):
                return first + min(place for place, _, _ in self._events(part, violated))  # nothing is missing now
        return None

    def events_of(self, row: Any, violated: set[str]) -> list[tuple[int, int]]:
        """Return what is violated out of a state: kinds and masks, as those of `Event`, each kind once."""
        masks: dict[int, int] = {}
        for _, kind, mask in self.events_out_of(row[None], violated):
            masks[kind] = masks.get(kind, 0) | mask
        return sorted(masks.items())

    def events_out_of(self, rows: Rows, violated: set[str]) -> list[Event]:
        """Return what is violated out of states; a place of an event is one among them."""
        with self._expander.with_control_rows():
            return self._events(rows, violated)

    def _events(self, rows: Rows, violated: set[str]) -> list[Event]:
        """Expand states, one after another, and return what the kernel notes; leave all else as it was."""
        expander = self._expander
        fired = [worker.fired.copy() for worker in expander.pool]
        expander.events()
        expander.ignore(violated)
        which = np.arange(len(rows), dtype=np.int64)
        try:
            while len(which):
                rows, which = expander.expand(rows, which)
                for worker in expander.pool:
                    worker.take_pruned()
                    worker.successors.clear()
            return expander.events()
        finally:
            for worker, before in zip(expander.pool, fired, strict=True):
                worker.fired[:] = before
            expander.ignore(violated)


class WitnessSearch:
    """Finds shortest behaviours to states, and those that show what is violated."""

    def __init__(
        self, expander: Expander, levels: Levels, checker: Checker, options: SearchRequest, batch: int
    ) -> None:
        self.least = LeastStates(expander, levels, batch)
        self._expander, self._levels, self._checker = expander, levels, checker
        self._books, self._options = checker.books, options

    def note(self, events: list[Event], level: int, trace_to: Callable[[int], Behaviour]) -> None:
        """Note what is violated out of the states of a level: of the least one, and of others where it goes on.

        `trace_to` returns a behaviour to the state of an event; it serves where there is no time to look for the least.
        """
        while events:
            self._allow_time()
            row = self.least.of_level(level, lambda found: self.least.showing(found, self._books.violated))
            if row is None:
                if self.least.gave_up:
                    self._checker.take(events, trace_to)
                break
            trace = self.to_orbit(row, level) or self.to_row(row, level)
            for kind, mask in self.least.events_of(row, self._books.violated):
                self._checker.note(kind, mask, trace)

    def to_breach(self, name: str, level: int) -> Behaviour | None:
        """Return the behaviour through the least state with a step that breaks a property; None without the time."""
        self._allow_time()
        semantics, decode = self._checker.semantics, self._expander.learner.decode_state
        (prop,) = (one for one in self._options.properties if one.name == name)

        def breaking(state: State) -> list[Transition]:
            try:
                return [taken for taken in semantics.transitions(state) if not semantics.holds(prop, taken.target)]
            except RaisedError:  # the search comes to it by itself
                return []

        row = self.least.of_level(level, lambda rows: self.least.first(rows, lambda one: bool(breaking(decode(one)))))
        for path in () if row is None else (self.to_orbit, self.to_row):
            trace = path(row, level)
            steps = breaking(trace[-1].state) if trace else []
            if trace and steps:
                return (*trace, step_of(least(steps)))
        return None

    def traced(self, error: RaisedError, position: int) -> RaisedError:
        """Return an error with the behaviour that leads there: to a state of the level that is being expanded.

        The states from a position on are tried first: the error is of one that is expanded.
        """
        level = self._levels.depth - 1
        if level > 0 and error.trace is None:
            for rows in chain([self._levels.read(level, position, 2 * CHUNK)], self._levels.chunks(level)):
                error = self._checker.traced(error, rows, lambda index, rows=rows: self.to(rows[index], level))  # type: ignore[misc]
        return error

    def _allow_time(self) -> None:
        self._books.tally()
        self.least.allow(self._books.result.seconds)

    def to(self, row: Any, level: int) -> Behaviour:
        """Return a behaviour to a state of a level; the first is 1."""
        return self.to_row(self._expander.unflattened(np.asarray(row)[None])[0], level)

    def to_row(self, row: Any, level: int) -> Behaviour:
        """Do the same, given a state with a control row."""
        with self._expander.with_control_rows():
            return self._checker.behaviour(self._path(row, level, lambda target: target))

    def to_orbit(self, row: Any, level: int) -> Behaviour | None:
        """Return a behaviour to the orbit of a state that breaks something: which state stands for it says nothing.

        Returns None where there is no symmetry, or it is none: the sets named are not alike in what is violated.
        """
        expander, symmetry = self._expander, self._options.symmetry
        if symmetry is None or self._options.view is not None:
            return None
        class_of = canonicalizer(expander.learner.protocol, symmetry, None)
        with expander.with_control_rows():
            path = self._path(row, level, expander.images)
            classes = [class_of(expander.learner.decode_state(one)) for one in path]
        try:
            found = behaviour_along(
                self._checker.semantics, classes, starts=self._checker.starts, class_of=class_of
            )
        except NoSuchPathError:
            return None
        with expander.with_control_rows():
            image, violated = expander.encode([found[-1].state])[0], self._checker.books.violated
        return found if self.least.events_of(image, violated) == self.least.events_of(row, violated) else None

    def _path(self, row: Any, level: int, targets: Callable[[Rows], Rows]) -> list[Any]:
        """Return states of each level up to a state, each the least that leads to one of the targets for the next."""
        path = [np.asarray(row)]
        for before in range(level - 1, 0, -1):
            wanted = targets(path[-1][None])
            found = self.least.of_level(before, partial(self._expander.predecessor, targets=wanted))
            if found is None:
                raise AssertionError("a visited state has no predecessor in the level before")
            path.append(found)
        return path[::-1]
