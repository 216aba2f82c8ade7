"""Counterexamples of a search on Spark: jobs find a shortest behaviour backwards, level by level."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from functools import partial
from typing import Any

import numpy as np

from kraftcheck.explorer.result import DEADLOCK, Behaviour, SearchRequest, behaviour_along
from kraftcheck.explorer.spark.checkpoint import SavedSearchProgress
from kraftcheck.explorer.spark.level_jobs import LevelJobs
from kraftcheck.explorer.spark.shared_folder import SharedFolder
from kraftcheck.explorer.spark.task_expander import PRUNED_VIOLATION, TaskStateExpander
from kraftcheck.explorer.spark.wire_records import WireRecord
from kraftcheck.explorer.spark_cluster import TaskRaisedError
from kraftcheck.explorer.tables.kernel.codes import EVENT_DEADLOCK
from kraftcheck.explorer.tables.level_graph import check_graph_properties
from kraftcheck.explorer.tables.level_states import SearchStates
from kraftcheck.explorer.tables.violation_checker import ViolationChecker
from kraftcheck.explorer.transition_system import canonicalizer
from kraftcheck.spec.errors import InputError, RaisedError


class SparkCounterexamples:
    """Reports the violations and errors that the tasks of a search find, each with a behaviour."""

    def __init__(
        self, options: SearchRequest, tasks: TaskStateExpander, jobs: LevelJobs, checker: ViolationChecker
    ) -> None:
        self._options, self._tasks, self._jobs, self._checker = options, tasks, jobs, checker
        self._class_of = canonicalizer(checker.semantics.protocol, options.symmetry, None)

    def check_behaviours(self, log: SavedSearchProgress, pause: Callable[[], None]) -> None:
        """Check AG EF and temporal properties in this process, on the state graph of all levels."""
        folder = SharedFolder(self._tasks.shared.path)  # unlike the driver's, it caches no states
        tasks = TaskStateExpander(self._checker.semantics.protocol, self._options, folder, for_graph=True)
        tasks.load(log.named)
        states = SearchStates(tasks.table_expander, None, None, folder.path, None)
        with closing(tasks.table_expander), closing(states):
            for level in range(1, log.depth + 1):
                states.levels.begin()
                for found in folder.read_level(level):
                    pause()
                    states.divide_memory(sum(states.levels.counts))
                    states.levels.append(tasks.ids.to_own(found))
                    tasks.learn(found)
            states.reload(lambda: None)

            def path_to(row: Any, level: int) -> Behaviour:
                return self._behaviour(log, tasks.ids.to_global(row[None])[0], level)

            check_graph_properties(states, self._checker, self._options, path_to, pause)

    def take_events(self, log: SavedSearchProgress, events: list[WireRecord], level: int) -> None:
        """Record the violations that tasks report for a level, in ascending order of their states."""
        for _, kind, _, (mask, *state) in sorted(events, key=lambda event: (event.numbers[1:], event.column)):
            found = [] if kind == EVENT_DEADLOCK else self._tasks.properties_in(kind, mask)
            if ({one.name for one in found} or {DEADLOCK}) <= self._checker.monitor.violated:
                continue
            trace = self._behaviour(log, np.array(state, np.int32), level)
            if kind == PRUNED_VIOLATION:
                self._checker.report_step(found, trace, over_steps=False)
            else:
                self._checker.report_event(kind, mask, trace)

    def take_violations(self, log: SavedSearchProgress, found: list[WireRecord], level: int) -> None:
        """Record the violations of non-local properties by new states of a level, in ascending order of the states."""
        for _, number, _, state in sorted(found, key=lambda one: one.numbers):
            name = self._tasks.non_local[number][0].name
            if name not in self._checker.monitor.violated:
                self._checker.monitor.violation(name, self._behaviour(log, np.array(state, np.int32), level))

    def traced(self, log: SavedSearchProgress, error: InputError) -> InputError:
        """Return the error of a task together with the behaviour that leads to it; return any other error unchanged.

        A task has only the reads of a call, not the state. So the driver expands the level again, and the part of the
        next level that exists. It uses tables of its own, since an error may leave tables incomplete.
        """
        if not isinstance(error, TaskRaisedError):
            return error
        again = TaskStateExpander(self._checker.semantics.protocol, self._options, self._tasks.shared)
        again.load(log.named)
        level = len(log.levels)
        for number in (level, level + 1):
            for states in self._tasks.shared.read_level(number):
                for index in range(len(states) if again.non_local or again.constraints else 0):
                    try:
                        again.check(states[index : index + 1])
                        again.within(states[index : index + 1])
                    except RaisedError as found:
                        found.trace = self._behaviour(log, states[index], number)
                        return found
                try:
                    for _ in again.successors(states):
                        pass
                except RaisedError as found:
                    rows = self._tasks.ids.to_own(states)
                    return self._checker.traced(found, rows, partial(self._behaviour_to, log, states, number))
        return error

    def _behaviour_to(self, log: SavedSearchProgress, states: Any, level: int, index: int) -> Behaviour:
        return self._behaviour(log, states[index], level)

    def _behaviour(self, log: SavedSearchProgress, state: Any, level: int) -> Behaviour:
        """Return a shortest behaviour to `state`, a row of global ids in the level `level`."""
        path = [state]
        for before in range(level - 1, 0, -1):
            path.append(self._jobs.predecessor(log, path[-1], before))
        decode = self._tasks.table_expander.learner.interner.decode_state
        classes = [self._class_of(decode(self._tasks.ids.to_own(row[None])[0])) for row in reversed(path)]
        semantics, starts = self._checker.semantics, self._checker.starts
        return behaviour_along(semantics, classes, starts=starts, class_of=self._class_of)
