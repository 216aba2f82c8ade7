"""Runs a level's tasks: on Spark, or for a small level in the driver's process."""

from __future__ import annotations

import time
from itertools import pairwise
from typing import Any
from uuid import uuid4

import numpy as np

from kraftcheck.explorer.result import Options
from kraftcheck.explorer.spark.definitions import DDL, Definition, Kind, from_table
from kraftcheck.explorer.spark.description import as_text, describe
from kraftcheck.explorer.spark.driver_tasks import DriverTasks
from kraftcheck.explorer.spark.journal import Journal
from kraftcheck.explorer.spark.packed_states import StatePacking
from kraftcheck.explorer.spark.session import Cluster
from kraftcheck.explorer.spark.shared_folder import States, groups_of
from kraftcheck.explorer.spark.task_expander import TaskExpander
from kraftcheck.explorer.spark.tasks import STATES_DDL
from kraftcheck.spec.language.protocol import Protocol

SMALL = 20_000  # states of a level that are not worth a second task, and no job while few states are visited
FEW = 1_000_000  # visited states up to which the driver does a small level itself
TASK = 1 << 18  # states that a task expands, about
PARTITIONS_A_CORE, LEAST_PARTITIONS = 4, 8
MOST_PARTITIONS = 1 << 15


class Jobs:
    """Runs the tasks of the levels of a search."""

    def __init__(self, protocol: Protocol, options: Options, cluster: Cluster, expander: TaskExpander) -> None:
        self._cluster = cluster
        self._shared = expander.shared
        self._run_id = uuid4().hex
        self._driver = DriverTasks(expander, self._run_id)
        self._small = cluster.number("spark.kraftcheck.small", SMALL, least=0, most=SMALL)
        self._description = describe(protocol, options)

    def partitions(self) -> int:
        """Return how many partitions a new search has."""
        cores = PARTITIONS_A_CORE * self._cluster.parallelism
        usual = min(MOST_PARTITIONS, max(LEAST_PARTITIONS, 1 << (cores - 1).bit_length()))
        return self._cluster.number("spark.kraftcheck.partitions", usual, least=1, most=MOST_PARTITIONS)

    def discover(self, journal: Journal) -> list[Definition]:
        """Expand the last level; return how often actions fired, what is violated, and which values are new."""
        level = len(journal.levels)
        return self._run(journal, level, f"level {level}: {journal.count(-1):,} states, what they lead to", "discover")

    def settle(self, journal: Journal, counts: list[int]) -> list[Definition]:
        """Find the next level, and note it; return what the tasks discovered of its states.

        The tasks expand the last level and send the successors to their partitions, which keep those that are new.
        """
        began = time.monotonic()
        level, total = len(journal.levels), journal.count(-1)
        self._cluster.describe(f"level {level + 1}: the new ones among the successors of {total:,} states")
        tasks = self._tasks(journal, level)
        reducers = 1 if total <= SMALL else min(journal.parts, 2 * self._cluster.parallelism)
        self._shared.begin_level(level + 1)
        files = {
            part: [number for number, parts in enumerate(journal.levels, start=1) if part in parts]
            for part in range(journal.parts)
        }
        first = "expand", self._arguments(journal, tasks=tasks, counts=counts, reducers=reducers), STATES_DDL
        second = "settle", self._arguments(journal, level=level + 1, files=files, counts=counts), DDL
        table = self._runner(journal, total).exchange(len(tasks), first, reducers, second)
        rows = list(from_table(table))
        settled = {row.column: row.numbers for row in rows if row.kind == Kind.SETTLED}
        new = {part: states for part, (states, _, _) in settled.items() if states}
        self._shared.sync(level + 1, sorted(new))
        journal.levels.append(new)
        sent = sum(received for _, _, received in settled.values())
        journal.figures.append(
            {
                "level": level + 1,
                "states": sum(new.values()),
                "sent": sent,
                "bytes_sent": sent * StatePacking(counts).bytes_a_state,
                "bytes_written": sum(size for _, size, _ in settled.values()),
                "seconds": round(time.monotonic() - began, 3),
            }
        )
        return [row for row in rows if row.kind != Kind.SETTLED]

    def predecessor(self, journal: Journal, target: Any, level: int) -> States:
        """Return the least state of a level that leads to another, or to an image of it."""
        title = f"counterexample: what leads to it in level {level}"
        leading = self._run(journal, level, title, "precede", target=target.tolist())
        return np.array(min(definition.numbers for definition in leading), np.int32)

    def _run(self, journal: Journal, level: int, title: str, name: str, **more: Any) -> list[Definition]:
        """Run a level's tasks; return what they report."""
        self._cluster.describe(title)
        tasks = self._tasks(journal, level)
        arguments = self._arguments(journal, tasks=tasks, **more)
        runner = self._runner(journal, journal.count(level))
        return list(from_table(runner.run(len(tasks), name, arguments, DDL)))

    def _runner(self, journal: Journal, states: int) -> Cluster | DriverTasks:
        """Return who runs the tasks of a level with so many states: Spark, or for a small one the driver itself."""
        return self._driver if states <= self._small and journal.distinct <= FEW else self._cluster

    def _tasks(self, journal: Journal, level: int) -> list[list[tuple[int, int, int]]]:
        """Divide a level among tasks: return the level, partition and number of each one's row groups."""
        parts = journal.levels[level - 1]
        total = journal.count(level)
        wanted = 1 if total <= SMALL else max(-(-total // TASK), self._cluster.parallelism)
        groups = [(level, part, group) for part, rows in sorted(parts.items()) for group in range(groups_of(rows))]
        ends = np.linspace(0, len(groups), min(wanted, len(groups)) + 1).astype(int).tolist()
        return [groups[first:last] for first, last in pairwise(ends)]

    def _arguments(self, journal: Journal, **more: Any) -> str:
        return as_text(
            {
                "run": self._run_id,
                "description": self._description,
                "folder": str(self._shared.path.resolve()),
                "named": journal.named,
                "violated": sorted({violation.property for violation in journal.violations}),
                "parts": journal.parts,
                **more,
            }
        )
