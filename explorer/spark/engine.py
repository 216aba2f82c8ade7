"""Driver of a breadth-first search on Spark: levels, counts and global ids."""

from __future__ import annotations

import time
from contextlib import closing

import numpy as np

from kraftcheck.explorer import request
from kraftcheck.explorer.result import Result, SearchRequest, SearchStopped
from kraftcheck.explorer.spark.checkpoint import CheckpointSampleRecheck, SavedSearchProgress, SparkCheckpoint
from kraftcheck.explorer.spark.counterexamples import SparkCounterexamples
from kraftcheck.explorer.spark.level_jobs import CachingSharedFolder, LevelJobs, cheaper_engine_notes
from kraftcheck.explorer.spark.shared_folder import state_indices_by_partition
from kraftcheck.explorer.spark.task_expander import TaskStateExpander
from kraftcheck.explorer.spark.wire_records import GlobalIdAssigner, WireRecord, WireRecordKind
from kraftcheck.explorer.spark_cluster import SparkApplication
from kraftcheck.explorer.tables.violation_checker import ViolationChecker
from kraftcheck.processes import InterruptHandler
from kraftcheck.spec.errors import InputError
from kraftcheck.spec.language.protocol import Protocol


def explore(protocol: Protocol, options: SearchRequest) -> Result:
    """Search the reachable states of a protocol on Spark, breadth first.

    `options.master` and `options.conf` choose and configure Spark. `options.checkpoint` or `options.resume` is the
    folder that driver and executors share. Limits are checked between two levels.
    """
    request.require_supported("spark", protocol, options)
    options, notes = request.drop_unsound_symmetry_with_notes(options)
    with closing(SparkCheckpoint(protocol, options)) as checkpoint:
        title, began = f"kraftcheck {protocol.name()}", time.monotonic()
        with SparkApplication(title, options, type(protocol)) as cluster:
            if checkpoint.temporary and not cluster.local:
                raise InputError("--checkpoint: expected a folder that the driver and all executors share")
            start = time.monotonic() - began
            search = SparkSearch(protocol, options, cluster, checkpoint)
            result = search.run()
            result.notes += [*notes, *cheaper_engine_notes(search.log.figures[search.restored_levels :], start)]
            return result


class SparkSearch:
    """The driver's part of a search."""

    def __init__(
        self, protocol: Protocol, options: SearchRequest, cluster: SparkApplication, checkpoint: SparkCheckpoint
    ) -> None:
        self.options = options
        self.log = SavedSearchProgress()
        self.restored_levels = 0
        self._checkpoint = checkpoint
        self._interruption = InterruptHandler(cluster.cancel)
        self.tasks = TaskStateExpander(protocol, options, CachingSharedFolder(checkpoint.path))
        self.shared, self.ids = self.tasks.shared, self.tasks.ids
        self.expander = self.tasks.table_expander
        learner = self.expander.learner
        self._assigner = GlobalIdAssigner(learner.interner.base)
        self._jobs = LevelJobs(protocol, options, cluster, self.tasks)
        self._checker = ViolationChecker(protocol, options, self.expander, lambda: self.log.distinct, self._tallies)
        self._checker.python = None  # tasks evaluate non-local properties
        self._monitor = self._checker.monitor
        self._monitor.result.workers = cluster.parallelism
        self._counterexamples = SparkCounterexamples(options, self.tasks, self._jobs, self._checker)
        self.log.actions.update(dict.fromkeys(learner.action_names, 0))
        self.log.violations = self._monitor.result.violations

    def run(self) -> Result:
        """Search, and return the result; an interruption cancels the running job."""
        with self._interruption:
            return self._checker.result_of(self._search_unless_cancelled)

    def _search_unless_cancelled(self) -> None:
        try:
            self._search()
            if self.options.over_behaviours:
                self._check_graph()
        except InputError as error:
            self._heed()  # a job that fails because it was cancelled is an interruption
            raise self._counterexamples.traced(self.log, error) from error
        finally:
            self._monitor.result.depth = self.log.depth

    def _search(self) -> None:
        if self.options.resume is not None:
            self._resume()
        else:
            self._start()
        log, monitor = self.log, self._monitor
        discovered: list[WireRecord] = []
        while log.levels[-1]:
            monitor.result.depth = depth = len(log.levels)
            monitor.check_time_limit(log.count(-1))
            self._heed()
            self._checker.stop_at_max_states()
            if self.options.max_depth is not None and depth >= self.options.max_depth:
                monitor.stop_at("max_depth")
            events = self._take(discovered or self._jobs.discover(log))
            reported = self._jobs.deduplicate(log, self.ids.counts)
            discovered = [one for one in reported if one.kind != WireRecordKind.VIOLATED]
            try:
                self._counterexamples.take_events(log, events, depth)
                violations = [one for one in reported if one.kind == WireRecordKind.VIOLATED]
                self._counterexamples.take_violations(log, violations, depth + 1)
            except SearchStopped:
                self._save(finished=True)
                raise
            self._save(finished=not log.levels[-1] and not self.options.over_behaviours)

    def _heed(self) -> None:
        if self._interruption.asked:
            raise KeyboardInterrupt

    def _start(self) -> None:
        log = self.log
        log.parts = self._jobs.partitions()
        self.shared.clear()
        first = self._checker.starting_rows()
        self.expander.canonical_rows(first)  # this learns the images under symmetry
        report = self.ids.report()
        report.note(first)
        self._define(1, [list(report.definitions())])
        states = np.unique(self.ids.to_global(first), axis=0)
        compared, least = np.unique(self.ids.compared(states), axis=0, return_index=True)
        self.shared.begin_level(1)
        log.levels.append({})
        for part, mine in state_indices_by_partition(compared, log.parts):
            self.shared.write_states(1, part, states[least[mine]])
            log.levels[0][part] = len(mine)
        self._checker.check_starts()
        self._save(finished=False)

    def _resume(self) -> None:
        first = self._checker.starting_rows()
        self.log = self._checkpoint.restore(self._load)
        self.restored_levels = len(self.log.figures)
        with self._checkpoint.rejecting():
            self.expander.canonical_rows(first)
            CheckpointSampleRecheck(self.tasks, self.log).require_same(first)
        self._monitor.restore(self.log.violations, self.log.seconds)
        self._checker.restored = self._checker.distinct

    def _load(self, levels: list[int]) -> None:
        self.tasks.load(levels)
        for level in levels:
            self._assigner.load(self.shared.read_definitions(level))

    def _save(self, *, finished: bool) -> None:
        self._monitor.tally()
        self.log.seconds = self._monitor.result.seconds
        self._checkpoint.save(self.log, finished=finished)

    def _define(self, level: int, reports: list[list[WireRecord]]) -> None:
        """Assign global ids to the new definitions in the tasks' reports on a level; write and load them."""
        new = self._assigner.merge(reports)
        if new:
            self.shared.write_definitions(level, new)
            self.log.named.append(level)
            self.tasks.load(self.log.named)

    def _take(self, discovered: list[WireRecord]) -> list[WireRecord]:
        """Process the tasks' reports on the successors of the last level; return the records of violations."""
        log, names = self.log, self.expander.learner.action_names
        reports: list[list[WireRecord]] = []
        events: list[WireRecord] = []
        for definition in discovered:
            if definition.kind == WireRecordKind.COUNTS:
                reports.append([])
                log.actions.update(dict(zip(names, definition.numbers, strict=True)))
            elif definition.kind == WireRecordKind.CALLS:
                log.calls.update(dict(zip(names, definition.numbers, strict=True)))
            elif definition.kind == WireRecordKind.EVENT:
                events.append(definition)
            elif definition.kind == WireRecordKind.READ and self._monitor.reads is not None:
                name, _, reader = definition.encoding.decode().partition(" ")
                self._monitor.reads.note(reader, [name])
            else:
                reports[-1].append(definition)
        self._define(len(log.levels) + 1, reports)
        return events

    def _tallies(self) -> tuple[dict[str, int], dict[str, int]]:
        return dict(self.log.actions), dict(self.log.calls)

    def _check_graph(self) -> None:
        try:
            self._counterexamples.check_behaviours(self.log, self._pause)
        except SearchStopped:
            self._save(finished=self._monitor.result.limit is None)
            raise
        self._save(finished=True)

    def _pause(self) -> None:
        """Stop at the time limit or an interruption."""
        self._monitor.check_time_limit(0)
        self._heed()
