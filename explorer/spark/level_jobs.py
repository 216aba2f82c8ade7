"""Jobs for the levels of a search: tasks on Spark, or for a small level in the driver's process, on the same files."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from operator import itemgetter
from os import PathLike
from typing import Any
from uuid import uuid4

import numpy as np
import pyarrow as pa

from kraftcheck.explorer.result import SearchRequest
from kraftcheck.explorer.search_spec import compact_json, to_spec
from kraftcheck.explorer.spark import tasks, wire_records
from kraftcheck.explorer.spark.checkpoint import SavedSearchProgress
from kraftcheck.explorer.spark.shared_folder import SharedFolder, StatePacking, StateRows, row_group_count
from kraftcheck.explorer.spark.task_expander import TaskStateExpander
from kraftcheck.explorer.spark.wire_records import RECORDS_DDL, WireRecord, WireRecordKind, wire_records_from_table
from kraftcheck.explorer.spark_cluster import SparkApplication
from kraftcheck.spec.language.protocol import Protocol

SMALL_LEVEL_STATES = 20_000  # states of a level that are not worth a second task, nor a job in a small search
DRIVER_VISITED_STATES = 1_000_000  # visited states up to which the driver runs a small level itself
STATES_A_TASK = 1 << 18  # approximate number of states that a task expands
PARTITIONS_A_CORE, LEAST_PARTITIONS = 4, 8
MOST_PARTITIONS = 1 << 15


class LevelJobs:
    """Runs the tasks of the levels of a search."""

    def __init__(
        self, protocol: Protocol, options: SearchRequest, cluster: SparkApplication, expander: TaskStateExpander
    ) -> None:
        self._cluster = cluster
        self._shared = expander.shared
        self._run_id = uuid4().hex
        self._driver = InProcessTasks(expander, self._run_id)
        self._small = cluster.number("spark.kraftcheck.small", SMALL_LEVEL_STATES, least=0, most=SMALL_LEVEL_STATES)
        self._description = to_spec(protocol, options)

    def partitions(self) -> int:
        """Return the number of partitions of a new search."""
        cores = PARTITIONS_A_CORE * self._cluster.parallelism
        usual = min(MOST_PARTITIONS, max(LEAST_PARTITIONS, 1 << (cores - 1).bit_length()))
        return self._cluster.number("spark.kraftcheck.partitions", usual, least=1, most=MOST_PARTITIONS)

    def discover(self, log: SavedSearchProgress) -> list[WireRecord]:
        """Expand the last level; return the firing counts, the violations and the new values."""
        level = len(log.levels)
        return self._run(log, level, f"level {level}: expanding {log.count(-1):,} states", tasks.EXPAND_AND_REPORT)

    def deduplicate(self, log: SavedSearchProgress, counts: list[int]) -> list[WireRecord]:
        """Compute the next level: write the unvisited successors of the last one; return the tasks' reports on them.

        Tasks expand the last level and send successors to their partitions, which keep the new ones.
        """
        began = time.monotonic()
        level, total = len(log.levels), log.count(-1)
        self._cluster.describe(f"level {level + 1}: new states among the successors of {total:,} states")
        shares = self._shares(log, level)
        reducers = 1 if total <= SMALL_LEVEL_STATES else min(log.parts, 2 * self._cluster.parallelism)
        self._shared.begin_level(level + 1)
        levels = list(enumerate(log.levels, start=1))
        files = {part: [number for number, parts in levels if part in parts] for part in range(log.parts)}
        first = tasks.EXPAND, self._arguments(log, tasks=shares, counts=counts, reducers=reducers), tasks.STATES_DDL
        second = tasks.DEDUPLICATE, self._arguments(log, level=level + 1, files=files, counts=counts), RECORDS_DDL
        runner = self._runner(log, total)
        rows = list(wire_records_from_table(runner.exchange(len(shares), first, reducers, second)))
        found = {row.column: row.numbers for row in rows if row.kind == WireRecordKind.NEW}
        new = {part: states for part, (states, _, _) in found.items() if states}
        self._shared.sync(level + 1, sorted(new))
        log.levels.append(new)
        sent = sum(received for _, _, received in found.values())
        figures = {
            "level": level + 1,
            "states": sum(new.values()),
            "sent": sent,
            "bytes_sent": sent * StatePacking(counts).bytes_a_state,
            "bytes_written": sum(size for _, size, _ in found.values()),
            "seconds": round(time.monotonic() - began, 3),
            "driver": runner is self._driver,
        }
        log.figures.append(figures)
        return [row for row in rows if row.kind != WireRecordKind.NEW]

    def predecessor(self, log: SavedSearchProgress, target: Any, level: int) -> StateRows:
        """Return the least state of a level with a step to `target`, or to an image of `target` under symmetry."""
        title = f"counterexample: predecessors in level {level}"
        leading = self._run(log, level, title, tasks.FIND_PREDECESSORS, target=target.tolist())
        return np.array(min(definition.numbers for definition in leading), np.int32)

    def _run(self, log: SavedSearchProgress, level: int, title: str, name: str, **more: Any) -> list[WireRecord]:
        """Run a level's tasks; return their reports."""
        self._cluster.describe(title)
        shares = self._shares(log, level)
        arguments = self._arguments(log, tasks=shares, **more)
        runner = self._runner(log, log.count(level))
        return list(wire_records_from_table(runner.run(len(shares), name, arguments, RECORDS_DDL)))

    def _runner(self, log: SavedSearchProgress, states: int) -> SparkApplication | InProcessTasks:
        """Return the runner of a level's tasks: Spark, or for a small level the driver itself."""
        return self._driver if states <= self._small and log.distinct <= DRIVER_VISITED_STATES else self._cluster

    def _shares(self, log: SavedSearchProgress, level: int) -> list[list[tuple[int, int, int]]]:
        """Divide a level among tasks; return the row groups of each, as (level, partition, group)."""
        parts, total = sorted(log.levels[level - 1].items()), log.count(level)
        wanted = 1 if total <= SMALL_LEVEL_STATES else max(-(-total // STATES_A_TASK), self._cluster.parallelism)
        groups = [(level, part, group) for part, rows in parts for group in range(row_group_count(rows))]
        ends = np.linspace(0, len(groups), min(wanted, len(groups)) + 1).astype(int).tolist()
        return [groups[first:last] for first, last in pairwise(ends)]

    def _arguments(self, log: SavedSearchProgress, **more: Any) -> str:
        arguments = {
            "run": self._run_id,
            "description": self._description,
            "folder": str(self._shared.path.resolve()),
            "named": log.named,
            "violated": sorted({violation.property for violation in log.violations}),
            "parts": log.parts,
        }
        return compact_json(arguments | more)


def cheaper_engine_notes(figures: Sequence[Mapping[str, Any]], start: float) -> list[str]:
    """Return a note if one process would need less time, given the statistics of levels and the seconds of the start.

    The rate is that of the largest level that the driver searched in this run, with the table engine's kernel.
    """
    own = max((level for level in figures if level["driver"]), key=itemgetter("states"), default=None)
    states, taken = sum(level["states"] for level in figures), start + sum(level["seconds"] for level in figures)
    if own is None or not own["states"] or (needed := states * own["seconds"] / own["states"]) >= taken:
        return []
    return [
        f"the driver alone found {own['states']:,} states of a level in {own['seconds']:.2f} s: at this rate --engine "
        f"tables would take about {needed:.1f} s for the whole search; Spark took {taken:.1f} s with its start"
    ]


class CachingSharedFolder(SharedFolder):
    """Shared folder that caches the states read by this process, since small levels are spread over many files."""

    def __init__(self, path: str | PathLike[str]) -> None:
        super().__init__(path)
        self._read_parts: dict[tuple[int, int], list[StateRows]] = {}

    def write_states(self, level: int, part: int, states: StateRows) -> int:
        """Write the states of a level that a partition owns; return the bytes of the file."""
        self._read_parts.pop((level, part), None)
        return super().write_states(level, part, states)

    def read_part(self, level: int, part: int) -> Iterator[StateRows]:
        """Yield all states of a level that a partition owns."""
        if (level, part) not in self._read_parts:
            self._read_parts[level, part] = list(super().read_part(level, part))
        yield from self._read_parts[level, part]


class InProcessTasks:
    """Runs tasks one after the other in this process, with the interface of `spark_cluster.SparkApplication`."""

    def __init__(self, expander: TaskStateExpander, run_id: str) -> None:
        self._expander = expander
        self._run_id = run_id

    def run(self, count: int, name: str, arguments: str, schema: str) -> Any:
        """Run tasks; return the table of their rows. Parameters as in `SparkApplication.run`."""
        batches = self._run(name, arguments, _task_number_batches(count))
        return pa.Table.from_batches(batches, wire_records.RECORDS_SCHEMA)

    def exchange(self, count: int, first: tuple[str, str, str], reducers: int, second: tuple[str, str, str]) -> Any:
        """Run tasks that send rows to a second task; return the second's rows, as `SparkApplication.exchange` does."""
        assert reducers == 1, "several reducers need a job"
        sent = self._run(first[0], first[1], _task_number_batches(count))
        return pa.Table.from_batches(self._run(second[0], second[1], sent), wire_records.RECORDS_SCHEMA)

    def _run(self, name: str, arguments: str, batches: Iterator[Any]) -> Iterator[Any]:
        tasks.install_expander(self._run_id, self._expander)
        return tasks.TASKS[name]({**json.loads(arguments), "user_files": ""}, batches)


def _task_number_batches(count: int) -> Iterator[Any]:
    return (pa.RecordBatch.from_pydict({"id": [number]}) for number in range(count))
