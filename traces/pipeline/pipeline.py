"""Many traces replayed on Spark, into tables of Parquet that grow as more traces come.

The driver hands out file names; executors read, parse and replay; what they find goes to Parquet and never through the
driver. A batch of files counts once its note is written, so that a run that was killed goes on where it was.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from kraftcheck.explorer.interruption import Interruption
from kraftcheck.explorer.result import Options
from kraftcheck.explorer.spark.description import as_text, describe
from kraftcheck.spec.language.protocol import Protocol
from kraftcheck.traces.pipeline.folder import COVERAGE, TABLES, Input, Output
from kraftcheck.traces.pipeline.rows import DDL

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from kraftcheck.explorer.spark.session import Cluster

FILES_A_BATCH = 4_000
"""Files that a killed run has to do again, at most."""

MOST_FILES_A_BATCH = 1_000_000

TASKS_A_CORE = 4
"""Tasks for each core, so that one with long traces does not keep the others waiting."""

_TASK = "kraftcheck.traces.pipeline.tasks:replay_files"
_RAW = "raw"


@dataclass
class Summary:
    """What is in the tables after a run.

    Attributes
    ----------
    files, new_files
        Files of all runs, and of this one.
    traces, steps
        Traces, and their transitions that conform.
    verdicts
        How many traces conform, diverge, are unreadable.
    errors
        Rows in `errors`.
    distinct_states
        States that some trace takes and that conform.
    actions
        How often each action of the protocol was taken.
    diverging
        Some of the traces that diverge: file, index, step, reason.
    unreadable
        Some of the errors: file, line, column, message.
    """

    files: int = 0
    new_files: int = 0
    traces: int = 0
    steps: int = 0
    verdicts: dict[str, int] = field(default_factory=dict)
    errors: int = 0
    distinct_states: int = 0
    actions: dict[str, int] = field(default_factory=dict)
    diverging: list[tuple[str, int, int | None, str]] = field(default_factory=list)
    unreadable: list[tuple[str, int | None, int | None, str]] = field(default_factory=list)

    @property
    def never_taken(self) -> list[str]:
        """Actions that no trace takes."""
        return [name for name, times in self.actions.items() if not times]


class Pipeline:
    """Replays files on a cluster.

    Parameters
    ----------
    cluster
        Where.
    protocol
        The protocol, with its constants.
    init, symmetry
        Where traces begin, and the symmetry under which they were made.
    limit_bytes
        What a file may unpack to.
    output
        The output folder.
    """

    def __init__(
        self,
        cluster: Cluster,
        protocol: Protocol,
        *,
        init: str,
        symmetry: str | None,
        limit_bytes: int,
        output: Output,
    ) -> None:
        self._cluster = cluster
        self._protocol = protocol
        self._output = output
        self._arguments = as_text(
            {
                "description": describe(protocol, Options(init=init)),
                "symmetry": symmetry,
                "limit_bytes": limit_bytes,
            }
        )

    def run(self, inputs: Iterable[Input], report: Callable[[int], None] | None = None) -> Summary:
        """Replay the files that are new since the last run, and summarise all.

        Parameters
        ----------
        inputs
            The files.
        report
            Called with the number of files that this run has done.

        Raises
        ------
        KeyboardInterrupt
            Where the user interrupts it; the batches that are done count.
        """
        with Interruption(self._cluster.cancel) as interruption:
            try:
                return self._run(inputs, report, interruption)
            except Exception:  # that of a job that was cancelled
                if interruption.asked:
                    raise KeyboardInterrupt from None
                raise

    def _run(
        self, inputs: Iterable[Input], report: Callable[[int], None] | None, interruption: Interruption
    ) -> Summary:
        done = self._output.done()
        new = [file for file in inputs if file not in done]
        at_once = self._cluster.number("spark.kraftcheck.files", FILES_A_BATCH, least=1, most=MOST_FILES_A_BATCH)
        for first in range(0, len(new), at_once):
            batch = new[first : first + at_once]
            self._replay(batch)
            if report is not None:
                report(first + len(batch))
            if interruption.asked:
                raise KeyboardInterrupt
        return self._summary(len(done) + len(new), len(new))

    def _replay(self, files: list[Input]) -> None:
        output, cluster, began = self._output, self._cluster, time.monotonic()
        batch = output.next_batch()
        cluster.describe(f"batch {batch}: replay {len(files):,} files")
        tasks = min(len(files), TASKS_A_CORE * cluster.parallelism)
        raw = output.staging(_RAW)
        self._dealt(files, tasks).mapInArrow(cluster.task(_TASK, self._arguments), _raw_ddl()).write.parquet(raw)
        cluster.describe(f"batch {batch}: write the tables")
        found = cluster.spark.read.schema(_raw_ddl()).parquet(raw)
        for table in TABLES:
            rows = found.selectExpr("file", f"inline({table})")
            rows.coalesce(cluster.parallelism if table == "steps" else 1).write.parquet(output.staging(table))
        output.accept(batch, files, time.monotonic() - began)

    def _dealt(self, files: list[Input], tasks: int) -> DataFrame:
        """Return a data frame of paths in so many partitions, each with its share of large and of small files."""
        by_size = sorted(files, key=lambda file: (-file.size, file.path))
        dealt = [(file.path,) for first in range(tasks) for file in by_size[first::tasks]]
        spark = self._cluster.spark
        return spark.createDataFrame(spark.sparkContext.parallelize(dealt, tasks), "path string")

    def _table(self, name: str) -> DataFrame:
        spark = self._cluster.spark
        folder = self._output.folder / name
        ddl = f"file string, {DDL[name]}"
        if not folder.is_dir():
            return spark.createDataFrame([], ddl)
        return spark.read.schema(f"{ddl}, batch int").parquet(str(folder.resolve()))

    def _summary(self, files: int, new_files: int) -> Summary:
        from pyspark.sql import functions as f

        self._cluster.describe("coverage and summary")
        traces, steps, errors = map(self._table, TABLES)
        taken = steps.where("action is not null")
        by_trace = taken.groupBy("file", "index", "action").agg(f.count("*").alias("times"))
        totals: dict[str, int] = dict.fromkeys(self._names(), 0)
        for row in by_trace.groupBy("action").agg(f.sum("times").alias("times")).collect():
            totals[row["action"]] = row["times"]
        whole = self._cluster.spark.createDataFrame(
            [(None, None, name, times) for name, times in totals.items()],
            "file string, index int, action string, times bigint",
        )
        by_trace.unionByName(whole).coalesce(1).write.parquet(self._output.staging(COVERAGE))
        self._output.replace_coverage()
        verdicts = {row["verdict"]: row["count"] for row in traces.groupBy("verdict").count().collect()}
        diverging = traces.where("verdict = 'diverges'").orderBy("file", "index").limit(10).collect()
        unreadable = errors.orderBy("file", "index").limit(10).collect()
        return Summary(
            files,
            new_files,
            sum(verdicts.values()),
            sum(totals.values()),
            dict(sorted(verdicts.items())),
            errors.count(),
            steps.select("state").distinct().count(),
            totals,
            [(row["file"], row["index"], row["diverged_step"], row["reason"]) for row in diverging],
            [(row["file"], row["line"], row["column"], row["message"]) for row in unreadable],
        )

    def _names(self) -> Iterable[str]:
        protocol = self._protocol
        return [*protocol.actions, *protocol.network.own_actions()]


def _raw_ddl() -> str:
    tables: dict[str, Any] = {}
    for name in TABLES:
        columns = [column.strip().split(" ", 1) for column in DDL[name].split(", ")]
        tables[name] = "array<struct<" + ", ".join(f"{column}: {kind}" for column, kind in columns) + ">>"
    return "file string, " + ", ".join(f"{name} {kind}" for name, kind in tables.items())
