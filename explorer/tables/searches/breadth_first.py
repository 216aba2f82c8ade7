"""Breadth first over the tables: level by level, so that the first counterexample is a shortest one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from kraftcheck.explorer.interruption import Interruption
from kraftcheck.explorer.result import INTERRUPTED, Options, Result, TraceStep
from kraftcheck.explorer.tables.engine import BATCH, Rows, Stop
from kraftcheck.explorer.tables.kernel.expand import find_predecessor
from kraftcheck.explorer.tables.kernel.layout import S_NEEDS, S_RETRY
from kraftcheck.explorer.tables.states.spilling import SpillingSearch
from kraftcheck.spec.language.protocol import Protocol

if TYPE_CHECKING:
    from kraftcheck.explorer.tables.checkpoints.search_checkpoint import Keeper


class BreadthFirst(SpillingSearch):
    """Level by level.

    Parameters
    ----------
    protocol
        The protocol, with its constants.
    options
        What to check and where to stop.
    workers
        Threads.
    batch
        States that one worker expands between two looks at the clock, at most.

    Attributes
    ----------
    position
        How many states of the last level but one are expanded into the last.
    between
        Whether nothing is half done: the search stands between two batches.
    """

    def __init__(self, protocol: Protocol, options: Options, workers: int, batch: int = BATCH) -> None:
        super().__init__(protocol, options, workers)
        self.batch = batch
        self.position = 0
        self.between = False
        self.earlier = 0.0  # seconds that the search took before it was resumed
        self.interruption = Interruption()
        self.keeper: Keeper | None = None
        if self.folder is not None:
            from kraftcheck.explorer.tables.checkpoints.search_checkpoint import Keeper as CheckpointKeeper

            self.keeper = CheckpointKeeper(self)

    def run(self) -> Result:
        """Search, and return what was found.

        Raises
        ------
        Interrupted
            Where the user interrupts it; the exception has what was found until then.
        """
        try:
            with self.interruption:
                return super().run()
        finally:
            self.close()

    def search(self) -> None:
        """Search until the end, and write the last checkpoint."""
        try:
            self._search()
        except Stop:
            self._settle_up()
            raise
        except KeyboardInterrupt:
            self.result.complete, self.result.limit = False, INTERRUPTED
            if self.between:
                self._settle_up()
            raise
        self._settle_up()

    def _settle_up(self) -> None:
        """Bring what is under way to its end."""
        self.settle()
        if self.keeper is not None:
            if self.between:
                self.keeper.save(finished=self.result.limit is None)
            elif self.result.limit is None:
                self.keeper.finish()

    def _search(self) -> None:
        """Search level by level."""
        if self.options.resume is not None and self.keeper is not None:
            self._resume(self.keeper)
        else:
            self._start()
        levels, limit = self.levels, self.options.max_depth
        while True:
            while self.position < levels.count(levels.depth - 1):
                self._batch()
                self._pause()
            self._settle()
            if not levels.count(levels.depth):
                break
            self.result.depth = levels.depth
            if levels.depth == limit:
                self.between = True
                self.stop_at("max_depth")
            levels.begin()
            self.position = 0
        self.between = True

    def _start(self) -> None:
        first = self.identified(self.begin())
        self.fit_packing()
        self._fill(self.pool[0], first, self.packing)
        self.levels.begin()
        for rows in self.collect():
            self.levels.append(rows)
        self.check_starts()
        if self.keeper is not None:
            self.keeper.save()
        self.stop_at_max_states()

    def _resume(self, keeper: Keeper) -> None:
        keeper.restore()
        self.expect(sum(self.levels.counts))
        for rows in self._all_rows():
            self.enter(rows)
            self._look_around(0)
        keeper.check_distinct(self.distinct)
        if self.archive is not None:
            self.spill()  # what is in memory from now on are candidates

    def _all_rows(self) -> Iterator[Rows]:
        for level in range(1, self.levels.depth + 1):
            yield from self.levels.chunks(level, self.batch)

    def _batch(self) -> None:
        """Expand a piece of the last level but one."""
        columns = self.learner.width * self.copies
        most = self.workers * self.budget.batch(self.batch, columns, self.workers)
        rows = self.levels.read(self.levels.depth - 1, self.position, min(most, self.batch_size()))
        count = len(rows)
        which = np.arange(count, dtype=np.int64)
        while len(which):
            asked = which
            rows, which = self.expand(rows, which)
            self.keep(self.collect())
            self._events(rows)
            if self.slow is not None:
                self.slow.pruned(rows, np.setdiff1d(asked, which, assume_unique=True), self.trace_to)
            self._stop_if_over()
        self.position += count

    def _stop_if_over(self) -> None:
        if self.over:
            raise Stop

    def _settle(self) -> None:
        self.settle()
        self._stop_if_over()

    def _pause(self) -> None:
        """Do what is to be done between two batches."""
        levels = self.levels
        if self.options.max_states is not None and self.distinct >= self.options.max_states:
            self._settle()
        self.between = True
        self.stop_at_max_states()
        left = levels.count(levels.depth - 1) - self.position
        self._look_around(left + levels.count(levels.depth) + sum(self.candidates.counts))
        self.between = False
        if self.keeper is not None and self.keeper.is_due():
            self._settle()
            self.keeper.save()

    def _look_around(self, frontier: int) -> None:
        """Report, and end the search at the time limit or where the user asks for it."""
        self.report(frontier)
        if self.interruption.asked:
            raise KeyboardInterrupt

    def depth(self) -> int:
        """Return the number of levels in which there are states."""
        return sum(1 for count in self.levels.counts if count)

    def tally(self) -> None:
        """Bring the result's counts up to date."""
        super().tally()
        self.result.seconds += self.earlier

    def close(self) -> None:
        """Close every file."""
        super().close()
        if self.keeper is not None:
            self.keeper.close()

    # Behaviours

    def trace_to(self, rows: Rows, index: int) -> tuple[TraceStep, ...]:
        """Return a shortest behaviour to a state that is being expanded."""
        return self.path_to(rows[index], self.levels.depth - 1)

    def path_to(self, row: Any, level: int) -> tuple[TraceStep, ...]:
        """Return a behaviour to a state of a level (the first is 1), found by searching each level's predecessors."""
        rows = [np.asarray(row)]
        for before in range(level - 1, 0, -1):
            rows.append(self._predecessor(rows[-1], before))
        return self.behaviour(rows[::-1])

    def _predecessor(self, target: Any, level: int) -> Any:
        """Return the first state of a level that leads to the target."""
        learner, worker = self.learner, self.pool[0]
        for stored in self.levels.chunks(level, self.batch):
            rows = self.widened(stored)
            while len(rows):
                target, rows = self.widened(target[None])[0], self.widened(rows)
                worker.fit(len(rows), learner.width, self.copies, self.packing.words + 1)
                worker.stats[S_RETRY] = worker.stats[S_NEEDS] = 0
                found = find_predecessor(
                    learner.tables, rows, target, worker.succ, worker.retry, worker.needs, worker.stats
                )
                if found >= 0:
                    return rows[found]
                again = worker.retry[: worker.stats[S_RETRY]].copy()
                self.learn(rows, [worker])
                rows = rows[again]
        raise AssertionError("a visited state has no predecessor in the level before")
