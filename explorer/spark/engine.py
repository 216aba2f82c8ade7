"""Searches breadth first on Spark: the driver's part. It handles counts, global ids and counterexamples, not levels."""

from __future__ import annotations

from typing import Any

import numpy as np

from kraftcheck.explorer.identity import identity_of
from kraftcheck.explorer.interruption import Interruption
from kraftcheck.explorer.result import DEADLOCK, Options, Result, TraceStep
from kraftcheck.explorer.spark.checkpoint import SparkCheckpoint
from kraftcheck.explorer.spark.definitions import CALLS, COUNTS, EVENT, Definition
from kraftcheck.explorer.spark.id_assigner import IdAssigner
from kraftcheck.explorer.spark.id_report import undefined
from kraftcheck.explorer.spark.jobs import Jobs
from kraftcheck.explorer.spark.journal import Journal
from kraftcheck.explorer.spark.session import Cluster
from kraftcheck.explorer.spark.task_expander import global_ids_of, without_view
from kraftcheck.explorer.tables.engine import Rows, Stop, TableSearch
from kraftcheck.explorer.tables.kernel.packing import owners
from kraftcheck.explorer.tables.python_checks import reason, split
from kraftcheck.spec.errors import InputError
from kraftcheck.spec.language.protocol import Protocol


def explore(protocol: Protocol, options: Options) -> Result:
    """Search the reachable states of a protocol on Spark, breadth first.

    Parameters
    ----------
    protocol
        The protocol, with its constants.
    options
        What to check and where to stop. `master` and `conf` say which Spark; `checkpoint` or `resume` is the folder
        that driver and executors share. Limits are checked between two levels.

    Returns
    -------
    Result
        What the table engine finds, except that a level in which something is violated is searched to its end.

    Raises
    ------
    Interrupted
        Where the user interrupts it; the exception has what was found until then.
    InputError
        Where Spark cannot be had, the engine cannot do what is asked, or the folder cannot be used.
    """
    _require_able(options)
    cluster: Cluster | None = None
    checkpoint: SparkCheckpoint | None = None
    try:
        checkpoint = SparkCheckpoint(protocol, options)
        cluster = Cluster(f"kraftcheck {protocol.name()}", options.master, options.conf, type(protocol))
        if checkpoint.temporary and not cluster.local:
            raise InputError("--checkpoint: expected a folder that the driver and all executors share")
        return SparkSearch(protocol, options, cluster, checkpoint).run()
    finally:
        if cluster is not None:
            cluster.close()
        if checkpoint is not None:
            checkpoint.close()


def _require_able(options: Options) -> None:
    """Raise InputError for what this engine does not do."""
    parts = split(options)
    for prop in (*parts.slow, *parts.slow_constraints):
        why = reason(prop) or "what the tables have no room for"
        raise InputError(f"{prop.name} reads {why}: the engine spark cannot check it; expected --engine tables")


class SparkSearch(TableSearch):
    """The driver's part of a search.

    Parameters
    ----------
    protocol, options
        The search.
    cluster
        The Spark application.
    checkpoint
        The checkpoint, in the folder that driver and executors share.
    """

    def __init__(self, protocol: Protocol, options: Options, cluster: Cluster, checkpoint: SparkCheckpoint) -> None:
        super().__init__(protocol, without_view(options), 1)
        self.options = options  # with the view, which the global ids heed, not the tables
        self.cluster = cluster
        self.checkpoint = checkpoint
        self.shared = checkpoint.shared
        self.journal = Journal(violations=self.result.violations)
        self.earlier = 0.0
        self.interruption = Interruption(cluster.cancel)
        self.jobs = Jobs(protocol, options, cluster, self.shared, self._heed)

    def run(self) -> Result:
        """Search, and return what was found. A job that is under way where the user interrupts it is cancelled."""
        with self.interruption:
            return super().run()

    def search(self) -> None:
        """Search level by level."""
        first = self.begin()
        self.ids = global_ids_of(self, self.options.view)
        self.assigner = IdAssigner(len(self.learner.bounds) + len(self.learner.shared_names))
        if self.options.resume is not None:
            self._resume()
        else:
            self._start(first)
        journal = self.journal
        discovered: list[Definition] = []
        while journal.levels[-1]:
            self._look_around()
            self.result.depth = depth = len(journal.levels)
            if depth == self.options.max_depth:
                self.stop_at("max_depth")
            events = self._take(discovered or self.jobs.discover(journal))
            discovered = self.jobs.settle(journal, self.ids.counts)
            try:
                self._take_events(events, depth)
            except Stop:
                self._save(finished=True)
                raise
            self._save(finished=not journal.levels[-1])

    def _look_around(self) -> None:
        self.report(self.journal.count(-1))
        self._heed()
        self.stop_at_max_states()

    def _heed(self) -> None:
        if self.interruption.asked:
            raise KeyboardInterrupt

    def _save(self, *, finished: bool) -> None:
        self.tally()
        self.journal.actions, self.journal.seconds = self.result.actions, self.result.seconds
        self.checkpoint.save(self.journal, finished=finished)

    def _start(self, first: Rows) -> None:
        journal = self.journal
        journal.parts = self.jobs.partitions()
        self.shared.clear()
        self.identified(first)  # which learns the images under symmetry
        controls: set[int] = set()
        contents: set[int] = set()
        self.ids.unknown(first, controls, contents)
        self._define(1, [list(undefined(self.ids, controls, contents))])
        states = np.unique(self.ids.to_global(first), axis=0)
        looks, least = np.unique(self.ids.compared(states), axis=0, return_index=True)
        states = states[least]
        owner = np.empty(len(states), np.int64)
        owners(np.ascontiguousarray(looks), journal.parts, owner)
        self.shared.begin_level(1)
        journal.levels.append({})
        for part in np.unique(owner).tolist():
            mine = states[owner == part]
            self.shared.write_states(1, part, mine)
            journal.levels[0][part] = len(mine)
        self.check_starts()
        self._save(finished=False)

    def _resume(self) -> None:
        journal = self.journal = self.checkpoint.restore(self.ids, self.assigner)
        self.earlier = journal.seconds
        self.result.violations = journal.violations
        self.violated = {violation.property for violation in journal.violations}
        for name, times in journal.actions.items():
            self.pool[0].fired[self.learner.action_index[name]] = times

    def _define(self, level: int, reports: list[list[Definition]]) -> None:
        """Give global ids to what tasks report as new in a level."""
        new = self.assigner.merge(reports)
        if new:
            self.shared.write_definitions(level, new)
            self.ids.load(new)
            self.journal.defined.append(level)

    def _take(self, discovered: list[Definition]) -> list[Definition]:
        """Take in what the states of the last level lead to; return what is violated."""
        reports: list[list[Definition]] = []
        events: list[Definition] = []
        fired = self.pool[0].fired
        for definition in discovered:
            if definition.kind == COUNTS:
                fired += np.array(definition.numbers, np.int64)
                reports.append([])
            elif definition.kind == CALLS:
                self.journal.calls.update(dict(zip(self.learner.action_names, definition.numbers, strict=True)))
            elif definition.kind == EVENT:
                events.append(definition)
            else:
                reports[-1].append(definition)
        self._define(len(self.journal.levels) + 1, reports)
        return events

    # Counts

    @property
    def distinct(self) -> int:
        """States found."""
        return self.journal.distinct

    def depth(self) -> int:
        """Return the number of levels in which there are states."""
        return self.journal.depth

    def tally(self) -> None:
        """Bring the result's counts up to date."""
        super().tally()
        self.result.handler_calls = dict(self.journal.calls)
        self.result.seconds += self.earlier

    def conclude(self) -> Result:
        """Return the result of a search that is over."""
        result = super().conclude()
        result.workers = self.cluster.parallelism
        return result

    # What is violated

    def _take_events(self, events: list[Definition], level: int) -> None:
        """Turn what tasks report into violations: of several, that of the least state first."""
        for _, kind, _, (mask, *state) in sorted(events, key=lambda event: (event.numbers[1:], event.column)):
            if not self._names(kind, mask) <= self.violated:
                self._level = level
                self._event(np.array([state], np.int32), 0, kind, mask)

    def _names(self, kind: int, mask: int) -> set[str]:
        """Return what an event says is violated."""
        if kind == 0:
            return {DEADLOCK}
        properties = self.learner.step_judged if kind == 2 else self.learner.in_order
        return {prop.name for bit, prop in enumerate(properties) if mask >> bit & 1}

    def trace_to(self, rows: Rows, index: int) -> tuple[TraceStep, ...]:
        """Return a shortest behaviour to a state, given with global ids: each level is asked for a predecessor."""
        chain = [rows[index]]
        for level in range(self._level - 1, 0, -1):
            chain.append(self.jobs.predecessor(self.journal, chain[-1], level))
        return self._behaviour([self.ids.to_own(state[None])[0] for state in chain[::-1]])

    def _behaviour(self, chain: list[Any]) -> tuple[TraceStep, ...]:
        """Return a real behaviour through images of states, each of which leads to an image of the next."""
        canonical = identity_of(self.protocol, self.options.symmetry, None)
        orbits = [canonical(self.learner.decode_state(row)) for row in chain]
        steps = [TraceStep(next(state for state in self.starts if canonical(state) == orbits[0]))]
        for orbit in orbits[1:]:
            step = next(t for t in self.semantics.transitions(steps[-1].state) if canonical(t.target) == orbit)
            steps.append(TraceStep(step.target, step.action, step.actor, step.message))
        return tuple(steps)


__all__ = ["SparkSearch", "explore"]
