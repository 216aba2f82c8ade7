"""Breadth-first search, level by level, so that the first counterexample is a shortest one."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from kraftcheck.explorer.result import INTERRUPTED_LIMIT, MEMORY_LIMIT, Behaviour, Result, SearchRequest, SearchStopped
from kraftcheck.explorer.tables.expander import Expander, ExpansionEvent
from kraftcheck.explorer.tables.level_graph import check_graph_properties
from kraftcheck.explorer.tables.level_states import LayoutPolicy, SearchStates
from kraftcheck.explorer.tables.rows import Rows
from kraftcheck.explorer.tables.violation_checker import ViolationChecker
from kraftcheck.explorer.tables.witness import WitnessSearch
from kraftcheck.processes import InterruptHandler
from kraftcheck.spec.errors import RaisedError
from kraftcheck.spec.language.protocol import Protocol

if TYPE_CHECKING:
    from kraftcheck.explorer.tables.checkpoint import TablesCheckpoint

FIRST_SLICE_STATES = 1 << 10
"""Initial states that are expanded before the first report; each further slice has as many as all before it."""
COUNTEREXAMPLE_MAY_DIFFER_NOTE = (
    "the counterexample may differ between runs or numbers of workers: the search for the least of several shortest "
    "ones ran out of time"
)


class BreadthFirstSearch:
    """A breadth-first search."""

    def __init__(
        self, protocol: Protocol, options: SearchRequest, workers: int | None = None, batch: int | None = None
    ) -> None:
        self.options = options
        self.expander = Expander.of(protocol, options, workers)
        self.checker = ViolationChecker(protocol, options, self.expander, lambda: self.states.visited.count)
        self.monitor = self.checker.monitor
        self.checkpoint: TablesCheckpoint | None = None
        folder = file = None
        if options.checkpoint is not None or options.resume is not None:
            from kraftcheck.explorer.tables.checkpoint import TablesCheckpoint  # few searches have one

            self.checkpoint = TablesCheckpoint(protocol, options, self.checker)
            folder, file = self.checkpoint.path, self.checkpoint.states
        self.states = SearchStates(self.expander, options.memory, batch, folder, file)
        self.levels = self.states.levels
        self.layout = LayoutPolicy(options, self.states, self.checker.python)
        self.witness = WitnessSearch(self.expander, self.levels, self.checker, options, self.states.chunk)
        if self.checker.python is not None:
            self.checker.python.least = lambda name: self.witness.to_violation(name, self.levels.depth - 1)
            for worker in self.expander.pool if self.checker.python.checks_pruned else ():
                worker.keep_pruned()
        self._interruption = InterruptHandler()
        self._position = 0  # number of expanded states of the last complete level
        self._expanded = 0  # number of states that this process has expanded
        self._at_batch_boundary = False  # whether the search is between two batches
        self._stop_requested = False  # whether the search ends after this batch

    def run(self) -> Result:
        """Run the search and return its result."""
        try:
            with self._interruption:
                return self.checker.result_of(self._search_and_finish)
        finally:
            self.close()

    def close(self) -> None:
        """Close every file."""
        self.states.close()
        if self.checkpoint is not None:
            self.checkpoint.close()

    def _search_and_finish(self) -> None:
        """Search to the end, and write the last checkpoint."""
        try:
            self._search()
        except SearchStopped:
            self._finish()
            raise
        except KeyboardInterrupt:
            self.monitor.record_limit(INTERRUPTED_LIMIT)
            if self._at_batch_boundary:
                self._finish()
            raise
        except RaisedError as error:
            raise self.witness.traced(error, self._position) from None
        else:
            self._finish()
        finally:
            self.monitor.result.depth = sum(1 for count in self.levels.counts if count)
            if self.witness.least.gave_up:
                self.monitor.result.notes.append(COUNTEREXAMPLE_MAY_DIFFER_NOTE)

    def _finish(self) -> None:
        """Merge pending candidates, and write or close the checkpoint."""
        self._append_new(self.states.visited.merge_candidates())
        if self._at_batch_boundary:
            self._save(finished=self.monitor.result.limit is None)
        elif self.monitor.result.limit is None and self.checkpoint is not None:
            self.checkpoint.finish()

    def _save(self, *, finished: bool = False) -> None:
        if self.checkpoint is not None:
            self.checkpoint.save(self.states, self._position, finished=finished)

    def _search(self) -> None:
        """Search level by level, from the initial states or a checkpoint."""
        if self.checkpoint is None or self.options.resume is None:
            self._start()
        else:
            self._position = self.checkpoint.restore(self.states, partial(self._poll, 0))
        levels = self.levels
        while True:
            while self._position < levels.count(levels.depth - 1):
                self._expand_batch()
                self._between_batches()
            self._merge_candidates()
            if not levels.count(levels.depth):
                break
            self.monitor.result.depth = levels.depth
            if self.options.max_depth is not None and levels.depth >= self.options.max_depth:
                self._at_batch_boundary = True
                self.monitor.stop_at("max_depth")
            levels.begin()
            self._position = 0
        self._at_batch_boundary = True
        if self.options.over_behaviours:
            self._save()
            pause = partial(self._poll, 0)
            check_graph_properties(self.states, self.checker, self.options, self.witness.to, pause)

    def _start(self) -> None:
        found = self.expander.load(self.checker.starting_rows())
        self.levels.begin()
        for rows in self.states.visited.add(found):
            self.levels.append(rows)
        self.checker.check_starts()
        self._save()
        self.checker.stop_at_max_states()

    # One batch

    def _expand_batch(self) -> None:
        """Expand a batch of the last complete level."""
        expander, level = self.expander, self.levels.depth - 1
        rows = self.levels.read(level, self._position, self.checker.batch_size(self.states.batch_size()))
        count, which = len(rows), expander.layout.order(rows)
        noted: list[ExpansionEvent] = []
        while len(which):
            most = max(FIRST_SLICE_STATES, count - len(which)) if level == 1 else len(which)
            rows, left = expander.expand(rows, which[:most], self.states.add_early)
            which = np.concatenate((left, which[most:]))
            pruned, events = [worker.take_collected() for worker in expander.pool], sorted(noted + expander.events())
            self._append_new(self.states.new())
            if expander.layout.is_outgrown:
                rows = expander.unflattened(rows)
                pruned = [np.hstack((one[:, :1], expander.unflattened(one[:, 1:]))) for one in pruned if len(one)]
                self._switch_layout(flat=False)
                events = self.witness.least.events_out_of(rows, self.monitor.violated)
            is_slice = level == 1 and len(which) > 0  # a violation ends the search after the whole batch
            noted = events if is_slice else []
            self._note([] if is_slice else events, pruned, rows)
            if is_slice:
                self.monitor.report(self.states.visited.count - count + len(which))
            else:
                self._stop_if_requested()
        self._position += count
        self._expanded += count

    def _note(self, events: list[ExpansionEvent], pruned: list[Rows], rows: Rows) -> None:
        """Note events of the last complete level; check the states that constraints excluded."""
        trace_to = partial(self._trace_to, rows)
        self.witness.note(events, self.levels.depth - 1, trace_to)
        for found in pruned:
            if len(found) and self.checker.python is not None:
                self.checker.python.check_collected(found, trace_to)

    def _append_new(self, found: Iterable[Rows]) -> None:
        """Append new states to the next level, after the checks in Python; evaluate the invariants of flat states."""
        if self.checker.python is not None:  # the search for a counterexample reuses the buffers
            found = [rows.copy() for rows in found]
        elif self.expander.is_flat:
            found = list(found)
        for rows in found:
            self.levels.append(self._satisfying(rows))
        judged = self.expander.is_flat and (self.options.keep_going or not self.monitor.violated)
        for rows in found if judged else ():
            events = self.expander.check_invariants(rows)
            self.witness.note(events, self.levels.depth - 1, partial(self._trace_before, rows))

    def _satisfying(self, rows: Rows) -> Rows:
        """Return the new states that satisfy the constraints; all new states once a violation ends the search."""
        python = self.checker.python
        if python is None or self._stop_requested:
            return rows
        try:
            return rows[python.check_new(rows, lambda row: self.witness.to(row, self.levels.depth))]
        except SearchStopped:
            self._stop_requested = True
            return rows

    def _merge_candidates(self) -> None:
        self._append_new(self.states.visited.merge_candidates())
        self._stop_if_requested()

    def _stop_if_requested(self) -> None:
        if self._stop_requested:
            raise SearchStopped

    # Between two batches

    def _between_batches(self) -> None:
        """Check the limits, divide memory, and switch the layout or save a checkpoint when due."""
        levels, visited = self.levels, self.states.visited
        if self.checker.has_max_states():
            self._merge_candidates()
        self._at_batch_boundary = True
        self.checker.stop_at_max_states()
        problem = self.states.divide_memory(self._expanded)
        if problem is not None:
            self.monitor.result.notes.append(problem)
            self.monitor.stop_at(MEMORY_LIMIT)
        if self.layout.wants_flat():
            self._switch_layout(flat=True)
        elif fields := self.layout.better_fields():
            self.states.reload(partial(self.expander.pack_together, fields))
        left = levels.count(levels.depth - 1) - self._position
        self._poll(left + levels.count(levels.depth) + visited.pending)
        self._at_batch_boundary = False
        if self.checkpoint is not None and self.checkpoint.is_due():
            self._merge_candidates()
            self._save()

    def _poll(self, frontier: int) -> None:
        """Report progress, and stop at the time limit or an interruption."""
        self.monitor.check_time_limit(frontier)
        if self._interruption.asked:
            raise KeyboardInterrupt

    def _switch_layout(self, *, flat: bool) -> None:
        """Convert all states to flat rows, or back to control rows."""
        self._append_new(self.states.visited.merge_candidates())
        self.states.switch_layout(flat=flat)
        self.witness.least.forget()
        self.layout.delay_clustering()

    # Behaviours

    def _trace_to(self, rows: Rows, index: int) -> Behaviour:
        """Return a shortest trace to a state of the batch."""
        return self.witness.to(rows[index], self.levels.depth - 1)

    def _trace_before(self, rows: Rows, index: int) -> Behaviour:
        """Return a shortest trace to a predecessor of a new state."""
        return self.witness.to(rows[index], self.levels.depth)[:-1]


def search(protocol: Protocol, options: SearchRequest) -> Result:
    """Search breadth first, by default with one thread per processor."""
    return BreadthFirstSearch(protocol, options).run()
