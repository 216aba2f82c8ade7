"""Saves and restores a breadth-first search, and searches part of a checkpoint again before it goes on.

A checkpoint may come from strangers, with digests of their own. A small one is searched again as a whole, so that any
state, count or violation that differs shows. Of a large one the part that is not in the sample is taken on trust.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from random import SystemRandom
from typing import NamedTuple

import numpy as np

from kraftcheck.explorer.checkpoint import SearchCheckpoint, folder_of
from kraftcheck.explorer.result import DEADLOCK, SearchRequest, Violation
from kraftcheck.explorer.tables.checker import Checker
from kraftcheck.explorer.tables.checkpoints import interned_values
from kraftcheck.explorer.tables.checkpoints.interned_values import (
    FILES,
    InternedValues,
    StateRequirements,
    require_bytes,
)
from kraftcheck.explorer.tables.expander import Expander
from kraftcheck.explorer.tables.kernel.codes import STUCK
from kraftcheck.explorer.tables.learning.learner import Learner
from kraftcheck.explorer.tables.level_states import LevelStates
from kraftcheck.explorer.tables.python_checks import PythonChecks
from kraftcheck.explorer.tables.states.levels import ID_BYTES, Levels
from kraftcheck.explorer.tables.states.packing import Found, Rows
from kraftcheck.explorer.tables.states.spilling import SpillingSet
from kraftcheck.explorer.tables.states.visited import VisitedSet
from kraftcheck.persistence.growing_file import GrowingFile
from kraftcheck.persistence.validation import require
from kraftcheck.spec.language.protocol import Protocol
from kraftcheck.spec.language.state import State

STATES = "states"
SHAPE = {
    "levels": [[(int, int)]],
    "position": int,
    "actions": {str: int},
    "seconds": float,
    "ids": interned_values.SHAPE,
}
"""The form of what a manifest notes: see `require_shape`."""

WHOLE = 200_000  # states up to which levels are searched again as a whole
PIECES, PIECE = 64, 64  # of consecutive states, beyond these levels
READ = 1 << 12  # states read at a time
JUDGED = 16  # pieces, in which properties that need Python are evaluated


class Snapshot(NamedTuple):
    """A search between two batches, without what the files of states and of interned values hold."""

    # for each level how many rows of which width it has in the file of states, one stretch after the other
    levels: list[list[tuple[int, int]]]
    position: int  # how many states of the last level but one are expanded
    actions: dict[str, int]  # times each action fired
    seconds: float  # time it took
    violations: list[Violation]  # what is violated


class TablesCheckpoint(SearchCheckpoint):
    """Saves snapshots of a search, and restores the last."""

    def __init__(
        self, folder: Path, protocol: Protocol, options: SearchRequest, learner: Learner, starts: Sequence[State]
    ) -> None:
        super().__init__(folder, protocol, options, starts, names=(STATES, *FILES))
        self._learner = learner
        self._values = InternedValues(learner.interner, self)
        self._last = time.monotonic()

    @property
    def states(self) -> GrowingFile:
        """The file of states."""
        return self.files[STATES]

    def is_due(self) -> bool:
        """Return whether it is time for a checkpoint."""
        return time.monotonic() - self._last >= self.options.checkpoint_every

    def save(self, snapshot: Snapshot, *, finished: bool = False) -> None:
        """Write a checkpoint."""
        noted = {**snapshot._asdict(), "ids": self._values.save()}
        self.save_search(noted, noted.pop("violations"), finished=finished)
        self._last = time.monotonic()

    def restore(self) -> Snapshot:
        """Give a learner that knows nothing yet the ids of the checkpoint; return the search as it stood."""
        self._learner.interner.shape(type(self.starts[0].shared))
        with self.rejecting():
            noted, violations = self.read_search(SHAPE)
            self._values.load(noted.pop("ids"))
            snapshot = Snapshot(**noted, violations=violations)
            self._require_levels(snapshot)
            require(snapshot.actions.keys() == {*self._learner.action_names}, "it has counts of other actions")
        return snapshot

    def _require_levels(self, snapshot: Snapshot) -> None:
        levels, most = snapshot.levels, self._learner.interner.width
        counts = [sum(rows for rows, _ in level) for level in levels]
        require(bool(levels) and all(counts[:-1]), "there are no levels, or one but the last is empty")
        shapes = [shape for level in levels for shape in level]
        require(all(rows > 0 and 0 < columns <= most for rows, columns in shapes), "states of a wrong width")
        require_bytes(STATES, self.states.length, sum(rows * columns * ID_BYTES for rows, columns in shapes))
        before = counts[-2] if len(counts) > 1 else 0
        require(snapshot.position <= before, f"{snapshot.position} of {before} states are expanded")


class CheckpointRecheck:
    """Compares a checkpoint with what a search finds."""

    def __init__(self, expander: Expander, levels: Levels, snapshot: Snapshot, python: PythonChecks | None) -> None:
        self._expander = expander
        self._levels = levels
        self._snapshot = snapshot
        self._python = python
        self._violated = {violation.property for violation in snapshot.violations}
        self._parts = StateRequirements(expander.learner.interner)
        self._random = SystemRandom()  # whoever forges a checkpoint must not know the sample

    def require_known_parts(self, rows: Rows) -> None:
        """Require that the parts of states are in the tables."""
        self._parts.check(rows)

    def require_same(self, starts: Rows, visited: SpillingSet) -> None:
        """Search again, and raise CorruptFileError where the checkpoint has something else."""
        counts = self._levels.counts
        require(visited.count == sum(counts), f"expected {sum(counts)} different states, found {visited.count}")
        self._expander.restart()
        last = self._require_first_levels(starts)
        if last == self._levels.depth:
            noted = [self._snapshot.actions[name] for name in self._expander.learner.action_names]
            require(self._expander.fired == np.array(noted), "actions fired another number of times")
        if self._python is not None:
            for row in chain.from_iterable(self._pieces(1, JUDGED)):
                self._require_noted(set(self._python.violated_by(row)))
        for rows in self._pieces(last, PIECES):
            for new in self._successors(rows):
                found = [*visited.add(new), *visited.settle()]
                require(not any(map(self._count, found)), "it lacks successors of its states")

    def _require_first_levels(self, starts: Rows) -> int:
        """Search the first levels again; return the number of the last one that is known to be right."""
        known, levels = VisitedSet(self._expander.threads), self._levels
        new, level = sum(map(self._count, known.add(self._expander.load(starts)))), 1
        while True:
            require(new == levels.count(level), f"level {level}: expected {new} states, found {levels.count(level)}")
            for rows in levels.chunks(level, READ):
                require(not known.add(self._expander.load(rows)), f"level {level} has states that are not reached")
            if level == levels.depth or sum(levels.counts[:level]) > WHOLE:
                return level
            new, left = 0, self._expanded(level)
            for rows in levels.chunks(level, READ):
                for found in self._successors(rows[:left]):
                    new += sum(map(self._count, known.add(found)))
                left = max(left - len(rows), 0)
            level += 1

    def _expanded(self, level: int) -> int:
        """Return how many states of a level are expanded."""
        return self._snapshot.position if level == self._levels.depth - 1 else self._levels.count(level)

    def _successors(self, rows: Rows) -> Iterator[Found]:
        """Yield what states lead to, piece by piece; require that what they violate is noted."""
        expander, which = self._expander, np.arange(len(rows))
        while len(which):
            rows, which = expander.expand(rows, which)
            for event in expander.events():
                names = {prop.name for prop in expander.properties_in(event.kind, event.mask)}
                self._require_noted({DEADLOCK} if event.kind == STUCK else names)
            yield expander.found()

    def _require_noted(self, violated: set[str]) -> None:
        new = violated - self._violated
        require(not new, f"a violation of {', '.join(sorted(new))} is not noted")

    def _pieces(self, first: int, count: int) -> Iterator[Rows]:
        """Yield some pieces of the states that are expanded, from a level on; the last of them always."""
        levels = [(level, self._expanded(level)) for level in range(first, self._levels.depth)]
        ends = np.cumsum([states for _, states in levels]) if levels else np.zeros(1, np.int64)
        chosen = {max(int(ends[-1]) - PIECE, 0), *(self._random.randrange(int(ends[-1]) or 1) for _ in range(count))}
        for place in sorted(chosen) if ends[-1] else ():
            number = int(np.searchsorted(ends, place, side="right"))
            level, states = levels[number]
            start = place - (int(ends[number]) - states)
            yield self._levels.read(level, start, min(PIECE, states - start))

    def _count(self, rows: Rows) -> int:
        """Return how many new states are within the constraints that need Python."""
        if self._python is None or not self._python.constrains:
            return len(rows)
        return sum(map(self._python.is_within, rows))


class CheckpointWriter:
    """The checkpoint of a search; does nothing where no folder is given."""

    def __init__(self, protocol: Protocol, options: SearchRequest, checker: Checker) -> None:
        asked = options.checkpoint is not None or options.resume is not None
        self.folder, self._checker = folder_of(options) if asked else None, checker
        self._checkpoint: TablesCheckpoint | None = None
        if self.folder is not None:
            learner, starts = checker.expander.learner, checker.starts
            self._checkpoint = TablesCheckpoint(self.folder, protocol, options, learner, starts)

    @property
    def file(self) -> GrowingFile | None:
        """The file for states."""
        return None if self._checkpoint is None else self._checkpoint.states

    def is_due(self) -> bool:
        """Return whether it is time for a checkpoint."""
        return self._checkpoint is not None and self._checkpoint.is_due()

    def save(self, states: LevelStates, position: int, *, finished: bool = False) -> None:
        """Save a search that stands between two batches, with no candidate left."""
        if self._checkpoint is not None:
            self._checker.books.tally()
            states.levels.flush()
            result = self._checker.books.result
            kept = [one for one in result.violations if not one.is_of_behaviours() and one.failed is None]  # found anew
            snapshot = Snapshot(states.levels.extents, position, result.actions, result.seconds, kept)
            self._checkpoint.save(snapshot, finished=finished)

    def finish(self) -> None:
        """Note that the search is over, although it stopped in the middle of a batch."""
        if self._checkpoint is not None:
            self._checkpoint.finish()

    def restore(self, states: LevelStates, pause: Callable[[], None]) -> int:
        """Take a search up; return how many states of the last level but one are expanded.

        The visited set is made again from the levels, and part of the search is done again: see `CheckpointRecheck`.
        """
        assert self._checkpoint is not None
        checker, expander, levels = self._checker, states.expander, states.levels
        snapshot = self._checkpoint.restore()
        levels.restore(snapshot.levels)
        checker.books.restore(snapshot.violations, snapshot.seconds)
        checker.books.result.depth = max(levels.depth - 1, 1)
        expander.fit_packing()
        states.visited.reserve(sum(levels.counts), expander.packing)
        again = CheckpointRecheck(expander, levels, snapshot, checker.python)
        with self._checkpoint.rejecting():
            for rows in states.all_rows():
                again.require_known_parts(rows)
                states.visited.restore(expander.load(rows))
                pause()
            states.visited.restored()
            again.require_same(checker.starting_rows(), states.visited)
        checker.restored = checker.distinct
        expander.restart(checker.books.violated)
        expander.note_fired(np.array([snapshot.actions[name] for name in expander.learner.action_names]))
        return snapshot.position

    def close(self) -> None:
        """Let other processes have the folder."""
        if self._checkpoint is not None:
            self._checkpoint.close()
