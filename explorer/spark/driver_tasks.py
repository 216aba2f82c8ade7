"""Runs the tasks of small levels in the driver's process, on the same files, without a job of Spark's."""

from __future__ import annotations

import json
from collections.abc import Iterator
from os import PathLike
from typing import Any

import pyarrow as pa

from kraftcheck.explorer.spark import tasks
from kraftcheck.explorer.spark.definitions import SCHEMA
from kraftcheck.explorer.spark.shared_folder import SharedFolder, States
from kraftcheck.explorer.spark.task_expander import TaskExpander


class CachedFolder(SharedFolder):
    """Keeps in memory the states that this process has read: small levels are a few states in very many files."""

    def __init__(self, path: str | PathLike[str]) -> None:
        super().__init__(path)
        self._read_parts: dict[tuple[int, int], list[States]] = {}

    def write_states(self, level: int, part: int, states: States) -> int:
        """Write the states of a level that a partition owns; return the bytes of the file."""
        self._read_parts.pop((level, part), None)
        return super().write_states(level, part, states)

    def read_part(self, level: int, part: int) -> Iterator[States]:
        """Yield all states of a level that a partition owns."""
        if (level, part) not in self._read_parts:
            self._read_parts[level, part] = list(super().read_part(level, part))
        yield from self._read_parts[level, part]


class DriverTasks:
    """Runs tasks as `kraftcheck.explorer.spark.session.Cluster` does, one after the other, in this process."""

    def __init__(self, expander: TaskExpander, run_id: str) -> None:
        self._expander = expander
        self._run_id = run_id

    def run(self, count: int, name: str, arguments: str, schema: str) -> Any:
        """Run tasks; return the table that they make. Parameters as those of `Cluster.run`."""
        return pa.Table.from_batches(self._run(name, arguments, _numbers(count)), SCHEMA)

    def exchange(self, count: int, first: tuple[str, str, str], reducers: int, second: tuple[str, str, str]) -> Any:
        """Run tasks whose rows go to others; return the table that those make. Parameters as those of `Cluster`."""
        assert reducers == 1, "what is worth several tasks is worth a job"
        sent = self._run(first[0], first[1], _numbers(count))
        return pa.Table.from_batches(self._run(second[0], second[1], sent), SCHEMA)

    def _run(self, name: str, arguments: str, batches: Iterator[Any]) -> Iterator[Any]:
        tasks.lend(self._run_id, self._expander)
        return tasks.TASKS[name]({**json.loads(arguments), "user_files": ""}, batches)


def _numbers(count: int) -> Iterator[Any]:
    return (pa.RecordBatch.from_pydict({"id": [number]}) for number in range(count))
