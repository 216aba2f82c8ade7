"""Of all states of a level that lead to something, the least: the same one whatever the order of discovery.

Ids, and the order of a level, depend on how many threads searched. Fingerprints of states do not
(`learning/fingerprints.py`), so of several shortest counterexamples the one with the least fingerprints is the same in
every run. Under symmetry the least fingerprint of a state's images stands for its orbit.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from kraftcheck.explorer.tables.expander import Event, Expander
from kraftcheck.explorer.tables.kernel.codes import R_IDENTITY
from kraftcheck.explorer.tables.learning.fingerprints import Fingerprints
from kraftcheck.explorer.tables.states.levels import Levels
from kraftcheck.explorer.tables.states.packing import Rows
from kraftcheck.explorer.tables.threads import SERIAL

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
        least, found = None, None
        for rows in chunks:
            if time.monotonic() > self._until:
                self.gave_up = True
                if found is not None:
                    break
            rows = self._expander.with_columns(rows)
            keys = self._keys(rows)
            order = np.argsort(keys, kind="stable")
            if least is not None:
                order = order[keys[order] < least]
            place = leads(rows[order]) if len(order) else None
            if place is not None:
                least, found = keys[order[place]], rows[order[place]]
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
