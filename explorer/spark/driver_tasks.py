"""Small levels, done in the driver's process: the same tasks, on the same files, without a job of Spark's."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pyarrow as pa

from kraftcheck.explorer.result import Options
from kraftcheck.explorer.spark import tasks
from kraftcheck.explorer.spark.definitions import SCHEMA
from kraftcheck.explorer.spark.process import Process
from kraftcheck.explorer.spark.shared_folder import Shared, States
from kraftcheck.spec.language.protocol import Protocol

_NUMBERS = pa.schema([pa.field("id", pa.int64())])


class Remembering(Shared):
    """The folder, of which this process remembers what it has read: a few states in very many files."""

    def __init__(self, shared: Shared) -> None:
        super().__init__(shared.path)
        self._read: dict[tuple[int, int], list[States]] = {}

    def write_states(self, level: int, part: int, states: States) -> int:
        """Write the states of a level that a partition owns; return the bytes of the file."""
        self._read.pop((level, part), None)
        return super().write_states(level, part, states)

    def read_part(self, level: int, part: int) -> Iterator[States]:
        """Yield all states of a level that a partition owns."""
        if (level, part) not in self._read:
            self._read[level, part] = list(super().read_part(level, part))
        yield from self._read[level, part]


class Here:
    """Does tasks as `kraftcheck.explorer.spark.session.Cluster` does, one after the other, in this process.

    Parameters
    ----------
    protocol, options
        The search.
    shared
        The folder that all share.
    run_id
        What the run is called in the tasks' arguments.
    """

    def __init__(self, protocol: Protocol, options: Options, shared: Shared, run_id: str) -> None:
        self._search = protocol, replace(options, keep_going=True, report=None)
        self._shared = Remembering(shared)
        self._run_id = run_id
        self._process: Process | None = None

    def run(self, count: int, name: str, arguments: str, schema: str) -> Any:
        """Do tasks; return the table that they make. Parameters as those of `Cluster.run`."""
        numbers = [pa.RecordBatch.from_pydict({"id": [number]}, schema=_NUMBERS) for number in range(count)]
        return pa.Table.from_batches(self._done(name, arguments, iter(numbers)), SCHEMA)

    def exchange(self, count: int, first: tuple[str, str, str], reducers: int, second: tuple[str, str, str]) -> Any:
        """Do tasks whose rows go to others; return the table that those make. Parameters as those of `Cluster`."""
        assert reducers == 1, "what is worth several tasks is worth a job"
        numbers = [pa.RecordBatch.from_pydict({"id": [number]}, schema=_NUMBERS) for number in range(count)]
        sent = self._done(first[0], first[1], iter(numbers))
        return pa.Table.from_batches(self._done(second[0], second[1], sent), SCHEMA)

    def _done(self, name: str, arguments: str, batches: Iterator[Any]) -> Iterator[Any]:
        if self._process is None:
            protocol, options = self._search
            self._process = Process(protocol, options, self._shared)
        tasks.lend(self._run_id, self._process)
        return tasks.TASKS[name]({**json.loads(arguments), "user_files": ""}, batches)
