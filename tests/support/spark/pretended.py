"""A Spark that is none: tasks run here, in any order, some twice, each in any of a few pretended processes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from kraftcheck.explorer.result import Result, SearchRequest
from kraftcheck.explorer.spark import level_jobs, tasks
from kraftcheck.explorer.spark import shared_folder as folder
from kraftcheck.explorer.spark.checkpoint import SparkCheckpoint
from kraftcheck.explorer.spark.engine import SparkSearch
from kraftcheck.explorer.spark.shared_folder import SharedFolder
from kraftcheck.explorer.spark.task_expander import TaskStateExpander
from kraftcheck.explorer.spark.wire_records import RECORDS_SCHEMA
from kraftcheck.explorer.spark_cluster import TaskRaisedError
from kraftcheck.spec.errors import RaisedError
from kraftcheck.spec.language.protocol import Protocol

NUMBERS = pa.schema([pa.field("id", pa.int64())])


class Lost(Exception):  # noqa: N818 - the driver is killed
    """The pretended driver is killed."""


class Pretended:
    """Stands in for `kraftcheck.explorer.spark_cluster.SparkApplication`.

    `left` is how many jobs it does before the driver is killed, or None; `small` up to which size of a level the
    driver does it itself.
    """

    local = True

    def __init__(
        self, protocol: Protocol, options: SearchRequest, path: Path, random: Random, left: int | None, small: int
    ) -> None:
        self.small = small
        self.random = random
        self.parallelism = random.randint(1, 3)
        self.left = left
        self.path = path
        self._search = (protocol, options)
        self._expanders: list[TaskStateExpander | None] = [None] * 3

    def number(self, key: str, usual: int, *, least: int, most: int) -> int:
        return {"spark.kraftcheck.partitions": 3, "spark.kraftcheck.small": self.small}[key]

    def cancel(self) -> None:
        raise AssertionError("nobody interrupts this")

    def describe(self, text: str) -> None:
        assert text.startswith(("level", "counterexample"))

    def run(self, count: int, name: str, arguments: str, schema: str) -> Any:
        return pa.Table.from_batches(self._done(count, name, arguments))

    def exchange(self, count: int, first: tuple[str, str, str], reducers: int, second: tuple[str, str, str]) -> Any:
        sent = self._done(count, first[0], first[1])
        self.random.shuffle(sent)
        found = []
        for reducer in range(reducers):
            mine = [batch for batch in sent if batch.column(0).to_pylist() == [reducer]]
            found += self._twice(second[0], second[1], mine)
        assert sum(len(batch) for batch in sent) == sum(b.column(0)[0].as_py() < reducers for b in sent)
        return pa.Table.from_batches(found, schema=RECORDS_SCHEMA)

    def _done(self, count: int, name: str, arguments: str) -> list[Any]:
        if self.left is not None:
            self.left -= 1
            if self.left < 0:
                raise Lost
        numbers = list(range(count))
        self.random.shuffle(numbers)
        found = []
        for number in numbers:
            found += self._twice(name, arguments, [pa.RecordBatch.from_pydict({"id": [number]}, schema=NUMBERS)])
        return found

    def _twice(self, name: str, arguments: str, batches: list[Any]) -> list[Any]:
        """Do a task, and perhaps once more, as Spark does where an executor is lost."""
        for _ in range(self.random.choice((0, 0, 0, 1))):
            list(self._task(name, arguments, iter(batches)))
        return list(self._task(name, arguments, iter(batches)))

    def _task(self, name: str, arguments: str, batches: Iterator[Any]) -> Iterator[Any]:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(
                tasks, "_expander_of_run", lambda _: self._expander(self.random.randrange(len(self._expanders)))
            )
            try:
                yield from tasks.TASKS[name]({**json.loads(arguments), "user_files": ""}, batches)
            except RaisedError as error:
                self._expanders = [None] * 3  # a process in which something is raised ends
                raise TaskRaisedError(str(error)) from None

    def _expander(self, number: int) -> TaskStateExpander:
        found = self._expanders[number]
        if found is None or self.random.random() < 0.05:  # now and then one is new
            protocol, options = self._search
            found = self._expanders[number] = TaskStateExpander(protocol, options, SharedFolder(self.path))
        return found


def search(
    protocol: Protocol, options: SearchRequest, path: Path, random: Random, left: int | None = None, small: int = 0
) -> tuple[Result, SparkSearch]:
    """Search on a pretended Spark, with levels divided into many tasks however small they are."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(level_jobs, "SMALL_LEVEL_STATES", 20)
        patch.setattr(level_jobs, "STATES_A_TASK", 60)
        patch.setattr(folder, "STATES_A_ROW_GROUP", 16)
        patch.setattr(tasks, "STATES_A_ROW_GROUP", 16)
        patch.setattr(tasks, "MOST_BYTES_A_ROW", 50)
        checkpoint = SparkCheckpoint(protocol, options)
        try:
            cluster: Any = Pretended(protocol, options, path, random, left, small)
            found = SparkSearch(protocol, options, cluster, checkpoint)
            return found.run(), found
        finally:
            checkpoint.close()
