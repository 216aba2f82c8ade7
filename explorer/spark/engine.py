"""Breadth first on Spark: the driver of the search. It handles counts, names and one counterexample, never a level."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from typing import Any
from uuid import uuid4

import numpy as np

from kraftcheck.explorer.identity import identity_of
from kraftcheck.explorer.interruption import Interruption
from kraftcheck.explorer.result import DEADLOCK, Options, Result, TraceStep
from kraftcheck.explorer.spark.checkpoint import Keeper
from kraftcheck.explorer.spark.definitions import CALLS, COUNTS, DDL, EVENT, SETTLED, Definition, from_table
from kraftcheck.explorer.spark.description import as_text, describe
from kraftcheck.explorer.spark.driver_tasks import Here
from kraftcheck.explorer.spark.id_registry import Registry
from kraftcheck.explorer.spark.process import names_of, without_view
from kraftcheck.explorer.spark.rows import bytes_a_state, packing_of
from kraftcheck.explorer.spark.session import Cluster
from kraftcheck.explorer.spark.shared_folder import Piece, Shared, States, groups_of
from kraftcheck.explorer.spark.tasks import STATES_DDL
from kraftcheck.explorer.tables.engine import Rows, Stop, TableSearch
from kraftcheck.explorer.tables.kernel.packing import owners
from kraftcheck.explorer.tables.python_checks import reason, split
from kraftcheck.spec.errors import InputError
from kraftcheck.spec.language.protocol import Protocol

SMALL = 20_000  # states of a level that are not worth a second task, and no job while few states are visited
FEW = 1_000_000  # visited states up to which the driver does a small level itself
TASK = 1 << 18  # states that a task expands, about
PARTITIONS_A_CORE, LEAST_PARTITIONS = 4, 8
MOST_PARTITIONS = 1 << 15


def explore(protocol: Protocol, options: Options) -> Result:
    """Search the reachable states of a protocol on Spark, breadth first.

    Parameters
    ----------
    protocol
        The protocol, with its constants.
    options
        What to check and where to stop. `master` and `conf` say which Spark; `checkpoint` or `resume` is the folder
        that driver and executors share. Limits are looked at between two levels.

    Returns
    -------
    Result
        As the table engine finds it, but that a level in which something is violated is brought to its end.

    Raises
    ------
    Interrupted
        Where the user interrupts it; the exception has what was found until then.
    InputError
        Where Spark cannot be had, the engine cannot do what is asked, or the folder cannot be used.
    """
    _require_able(options)
    cluster: Cluster | None = None
    keeper: Keeper | None = None
    try:
        keeper = Keeper(protocol, options)
        cluster = Cluster(f"kraftcheck {protocol.name()}", options.master, options.conf, type(protocol))
        if keeper.temporary and not cluster.local:
            raise InputError("--checkpoint: expected a folder that the driver and all executors share")
        return SparkSearch(protocol, options, cluster, keeper).run()
    finally:
        if cluster is not None:
            cluster.close()
        if keeper is not None:
            keeper.close()


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
        What to search, and how far.
    cluster
        Spark.
    keeper
        The folder with the levels and the checkpoint.
    """

    def __init__(self, protocol: Protocol, options: Options, cluster: Cluster, keeper: Keeper) -> None:
        super().__init__(protocol, without_view(options), 1)
        self.options = options  # with the view, which the dictionary heeds in the tables' place
        self.cluster = cluster
        self.keeper = keeper
        self.shared: Shared = keeper.shared
        self.levels: list[dict[int, int]] = []  # states of each partition, by level
        self.named: list[int] = []  # levels for which there are names
        self.parts = 0
        self.calls: Counter[str] = Counter()
        self.figures: list[dict[str, Any]] = []
        self.earlier = 0.0
        self.interruption = Interruption(cluster.cancel)
        self.run_id = uuid4().hex
        self.here = Here(protocol, options, self.shared, self.run_id)
        self.small = cluster.number("spark.kraftcheck.small", SMALL, least=0, most=SMALL)
        self._discovered: list[Definition] = []  # what the states of the last level lead to, not taken yet
        self._description = describe(protocol, options)

    def run(self) -> Result:
        """Search, and return what was found. A job that is under way where the user interrupts it is cancelled."""
        with self.interruption:
            return super().run()

    def search(self) -> None:
        """Search level by level."""
        first = self.begin()
        self.names = names_of(self, self.options.view)
        self.registry = Registry(len(self.learner.bounds) + len(self.learner.shared_names))
        if self.options.resume is not None:
            self.keeper.restore(self)
        else:
            self._start(first)
        while self.levels[-1]:
            self._look_around()
            self.result.depth = depth = len(self.levels)
            if depth == self.options.max_depth:
                self.stop_at("max_depth")
            events = self._take(self._discovered or self._discover(depth))
            self._discovered = self._settle(depth)
            try:
                self._take_events(events, depth)
            except Stop:
                self.keeper.save(self, finished=True)
                raise
            self.keeper.save(self, finished=not self.levels[-1])

    def _look_around(self) -> None:
        self.report(sum(self.levels[-1].values()))
        self._heed()
        self.stop_at_max_states()

    def _heed(self) -> None:
        if self.interruption.asked:
            raise KeyboardInterrupt

    @contextmanager
    def _cancellable(self) -> Iterator[None]:
        """Within it a job is done; one that fails since it was cancelled is an interruption."""
        self._heed()
        try:
            yield
        except InputError:
            self._heed()
            raise

    # Levels

    def _start(self, first: Rows) -> None:
        cores = PARTITIONS_A_CORE * self.cluster.parallelism
        usual = min(MOST_PARTITIONS, max(LEAST_PARTITIONS, 1 << (cores - 1).bit_length()))
        self.parts = self.cluster.number("spark.kraftcheck.partitions", usual, least=1, most=MOST_PARTITIONS)
        self.shared.clear()
        self.identified(first)  # which learns the images under symmetry
        controls: set[int] = set()
        contents: set[int] = set()
        self.names.unknown(first, controls, contents)
        self._name(1, [list(self.names.definitions(controls, contents))])
        states = np.unique(self.names.to_common(first), axis=0)
        looks, least = np.unique(self.names.compared(states), axis=0, return_index=True)
        states = states[least]
        owner = np.empty(len(states), np.int64)
        owners(np.ascontiguousarray(looks), self.parts, owner)
        self.shared.begin_level(1)
        self.levels.append({})
        for part in np.unique(owner).tolist():
            mine = states[owner == part]
            self.shared.write_states(1, part, mine)
            self.levels[0][part] = len(mine)
        self.check_starts()
        self.keeper.save(self, finished=False)

    def _name(self, level: int, reports: list[list[Definition]]) -> None:
        """Merge what tasks report as new into the dictionary, as of a level."""
        new = self.registry.merge(reports)
        if new:
            self.shared.write_names(level, new)
            self.names.load(new)
            self.named.append(level)

    def _who(self, states: int) -> Cluster | Here:
        """Return who does the tasks of a level with so many states: Spark, or for a small one the driver itself."""
        return self.here if states <= self.small and self.distinct <= FEW else self.cluster

    def _tasks(self, level: int) -> list[list[Piece]]:
        """Divide a level among tasks."""
        parts = self.levels[level - 1]
        total = sum(parts.values())
        wanted = 1 if total <= SMALL else max(-(-total // TASK), self.cluster.parallelism)
        pieces = [
            Piece(level, part, group, 1) for part, rows in sorted(parts.items()) for group in range(groups_of(rows))
        ]
        ends = np.linspace(0, len(pieces), min(wanted, len(pieces)) + 1).astype(int).tolist()
        return [pieces[first:last] for first, last in pairwise(ends)]

    def _arguments(self, **more: Any) -> str:
        return as_text(
            {
                "run": self.run_id,
                "description": self._description,
                "folder": str(self.shared.path.resolve()),
                "names": self.named,
                "violated": sorted(self.violated),
                "parts": self.parts,
                **more,
            }
        )

    def _discover(self, level: int) -> list[Definition]:
        """Expand a level to count, to check, and to find out which values are new."""
        total = sum(self.levels[level - 1].values())
        self.cluster.describe(f"level {level}: {total:,} states, what they lead to")
        tasks = self._tasks(level)
        with self._cancellable():
            return list(from_table(self._who(total).run(len(tasks), "discover", self._arguments(tasks=tasks), DDL)))

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
                self.calls.update(dict(zip(self.learner.action_names, definition.numbers, strict=True)))
            elif definition.kind == EVENT:
                events.append(definition)
            else:
                reports[-1].append(definition)
        self._name(len(self.levels) + 1, reports)
        return events

    def _settle(self, level: int) -> list[Definition]:
        """Expand a level, send the successors to their partitions, keep those that are new, and discover on these."""
        began = time.monotonic()
        total = sum(self.levels[level - 1].values())
        self.cluster.describe(f"level {level + 1}: the new ones among the successors of {total:,} states")
        tasks = self._tasks(level)
        reducers = 1 if total <= SMALL else min(self.parts, 2 * self.cluster.parallelism)
        counts = self.names.counts
        self.shared.begin_level(level + 1)
        files = {
            part: [number for number, parts in enumerate(self.levels, start=1) if part in parts]
            for part in range(self.parts)
        }
        first = "expand", self._arguments(tasks=tasks, counts=counts, reducers=reducers), STATES_DDL
        second = "settle", self._arguments(level=level + 1, files=files, counts=counts), DDL
        with self._cancellable():
            table = self._who(total).exchange(len(tasks), first, reducers, second)
        found = list(from_table(table))
        settled = {row.column: row.numbers for row in found if row.kind == SETTLED}
        self.levels.append({part: states for part, (states, _, _) in settled.items() if states})
        self.shared.sync(level + 1, sorted(self.levels[-1]))
        sent = sum(received for _, _, received in settled.values())
        self.figures.append(
            {
                "level": level + 1,
                "states": sum(self.levels[-1].values()),
                "sent": sent,
                "bytes_sent": sent * bytes_a_state(packing_of(counts)),
                "bytes_written": sum(size for _, size, _ in settled.values()),
                "seconds": round(time.monotonic() - began, 3),
            }
        )
        return [row for row in found if row.kind != SETTLED]

    # Counts

    @property
    def distinct(self) -> int:
        """States found."""
        return sum(sum(parts.values()) for parts in self.levels)

    def depth(self) -> int:
        """Return the number of levels in which there are states."""
        return sum(1 for parts in self.levels if parts)

    def tally(self) -> None:
        """Bring the result's counts up to date."""
        super().tally()
        self.result.handler_calls = dict(self.calls)
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
        """Return a shortest behaviour to a state, given with common ids: each level is asked for a predecessor."""
        chain = [rows[index]]
        for level in range(self._level - 1, 0, -1):
            chain.append(self._predecessor(chain[-1], level))
        own = [self.names.to_own(state[None])[0] for state in chain[::-1]]
        return self.behaviour(own) if self.options.symmetry is None else self._unfolded(own)

    def _unfolded(self, chain: list[Any]) -> tuple[TraceStep, ...]:
        """Return a real behaviour through images of states, each of which leads to an image of the next."""
        canonical = identity_of(self.protocol, self.options.symmetry, None)
        orbits = [canonical(self.learner.decode_state(row)) for row in chain]
        steps = [TraceStep(next(state for state in self.starts if canonical(state) == orbits[0]))]
        for orbit in orbits[1:]:
            step = next(t for t in self.semantics.transitions(steps[-1].state) if canonical(t.target) == orbit)
            steps.append(TraceStep(step.target, step.action, step.actor, step.message))
        return tuple(steps)

    def _predecessor(self, target: Any, level: int) -> States:
        self.cluster.describe(f"counterexample: what leads to it in level {level}")
        tasks = self._tasks(level)
        arguments = self._arguments(tasks=tasks, target=target.tolist())
        who = self._who(sum(self.levels[level - 1].values()))
        found = from_table(who.run(len(tasks), "precede", arguments, DDL))
        return np.array(min(definition.numbers for definition in found), np.int32)


__all__ = ["SparkSearch", "explore"]
