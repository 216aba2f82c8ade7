"""Replays many traces on Spark, into tables of Parquet that grow with further runs.

The driver hands out file names. Executors read, parse and replay the files, and write their results to Parquet;
these never pass through the driver. A batch of files counts once its note is written, so a run continues where a killed
one was.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING

from kraftcheck.explorer.interruption import Interruption
from kraftcheck.explorer.result import Options
from kraftcheck.explorer.spark.description import as_text, describe
from kraftcheck.spec.language.formula import Fairness
from kraftcheck.spec.language.protocol import Protocol
from kraftcheck.traces.pipeline.output import COVERAGE, InputFile, PipelineFolder
from kraftcheck.traces.pipeline.rows import COLUMNS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from kraftcheck.explorer.spark.session import Cluster

FILES_A_BATCH = 4_000
"""Files that a killed run has to do again, at most."""

MOST_FILES_A_BATCH = 1_000_000

SHOWN = 10
"""Traces that diverge, and errors, that the summary shows of each."""

TASKS_A_CORE = 4
"""Tasks for each core, so that one with long traces does not keep the others waiting."""

_TASK = "kraftcheck.traces.pipeline.tasks:replay_files"
_RAW = "raw"
_RAW_COLUMNS = "file string, " + ", ".join(f"{name} array<struct<{columns}>>" for name, columns in COLUMNS.items())


@dataclass
class Summary:
    """Summary of the tables after a run."""

    files: int = 0  # files of all runs, and of this one
    new_files: int = 0
    traces: int = 0  # traces, and their transitions that conform
    steps: int = 0
    verdicts: dict[str, int] = field(default_factory=dict)  # number of traces for each verdict
    errors: int = 0  # rows in `errors`
    distinct_states: int = 0  # states that some trace takes and that conform
    actions: dict[str, int] = field(default_factory=dict)  # times that each action of the protocol was taken
    # some of the traces that diverge, or claim what is false (then step is None): file, index, step, reason
    diverging: list[tuple[str, int, int | None, str]] = field(default_factory=list)
    # some of the errors: file, line, column, message
    unreadable: list[tuple[str, int | None, int | None, str]] = field(default_factory=list)

    def keep(self, output: PipelineFolder) -> None:
        """Note the summary in the folder, so that a run in which nothing is new need not read the tables."""
        output.keep_summary(asdict(self))

    @classmethod
    def kept(cls, output: PipelineFolder) -> Summary | None:
        """Return the summary that the folder has of all its batches, if it has one, for a run without new files."""
        note = output.kept_summary()
        if note is None:
            return None
        shown = {name: [tuple(row) for row in note[name]] for name in ("diverging", "unreadable")}
        return cls(**{**note, **shown, "new_files": 0})

    @property
    def never_taken(self) -> list[str]:
        """Actions that no trace takes."""
        return [name for name, times in self.actions.items() if not times]


class Pipeline:
    """Replays files on a cluster."""

    def __init__(
        self, cluster: Cluster, protocol: Protocol, *, init: str, symmetry: str | None, limit_bytes: int,
        output: PipelineFolder, seen_as: str | None = None, fairness: Sequence[Fairness] = (),
    ) -> None:  # fmt: skip
        self._cluster = cluster
        self._protocol = protocol
        self._output = output
        description = describe(protocol, Options(init=init))
        made_under = {"symmetry": symmetry, "seen_as": seen_as, "fairness": [asdict(one) for one in fairness]}
        self._arguments = as_text({"description": description, **made_under, "limit_bytes": limit_bytes})

    def run(self, inputs: Iterable[InputFile], report: Callable[[int], None] | None = None) -> Summary:
        """Replay the files that are new since the last run, and summarise all."""
        with Interruption(self._cluster.cancel) as interruption:
            try:
                return self._run(inputs, report, interruption)
            except Exception:  # that of a job that was cancelled
                if interruption.asked:
                    raise KeyboardInterrupt from None
                raise

    def _run(
        self, inputs: Iterable[InputFile], report: Callable[[int], None] | None, interruption: Interruption
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
        summary = self._summary(len(done) + len(new), len(new))
        summary.keep(self._output)
        return summary

    def _replay(self, files: list[InputFile]) -> None:
        output, cluster, began = self._output, self._cluster, time.monotonic()
        batch = output.next_batch()
        cluster.describe(f"batch {batch}: replay {len(files):,} files")
        tasks = min(len(files), TASKS_A_CORE * cluster.parallelism)
        raw = output.staging(_RAW)
        self._dealt(files, tasks).mapInArrow(cluster.task(_TASK, self._arguments), _RAW_COLUMNS).write.parquet(raw)
        cluster.describe(f"batch {batch}: write the tables")
        found = cluster.spark.read.schema(_RAW_COLUMNS).parquet(raw)
        for table in COLUMNS:
            rows = found.selectExpr("file", f"inline({table})")
            rows.coalesce(cluster.parallelism if table == "steps" else 1).write.parquet(output.staging(table))
        output.accept(batch, files, time.monotonic() - began)

    def _dealt(self, files: list[InputFile], tasks: int) -> DataFrame:
        """Return a data frame of paths in so many partitions, each with its share of large and of small files."""
        by_size = sorted(files, key=lambda file: (-file.size, file.path))
        dealt = [(file.path,) for first in range(tasks) for file in by_size[first::tasks]]
        spark = self._cluster.spark
        return spark.createDataFrame(spark.sparkContext.parallelize(dealt, tasks), "path string")

    def _table(self, name: str) -> DataFrame:
        reader = self._cluster.spark.read.schema(f"file string, {COLUMNS[name]}, batch int")
        return reader.parquet(str((self._output.path / name).resolve()))

    def _summary(self, files: int, new_files: int) -> Summary:
        from pyspark.sql import functions as f

        protocol = self._protocol
        self._cluster.describe("coverage and summary")
        traces, steps, errors = map(self._table, COLUMNS)
        taken = steps.where("action is not null")
        by_trace = taken.groupBy("file", "index", "action").agg(f.count("*").alias("times"))
        totals: dict[str, int] = dict.fromkeys([*protocol.actions, *protocol.network.own_actions()], 0)
        for row in by_trace.groupBy("action").agg(f.sum("times").alias("times")).collect():
            totals[row["action"]] = row["times"]
        whole = self._cluster.spark.createDataFrame(
            [(None, None, name, times) for name, times in totals.items()],
            "file string, index int, action string, times bigint",
        )
        by_trace.unionByName(whole).coalesce(1).write.parquet(self._output.staging(COVERAGE))
        self._output.replace_coverage()
        verdicts = {row["verdict"]: row["count"] for row in traces.groupBy("verdict").count().collect()}
        wrong = traces.where("verdict in ('diverges', 'refuted')")
        diverging = wrong.select("file", "index", "diverged_step", "reason")
        unreadable = errors.orderBy("file", "index").select("file", "line", "column", "message")
        return Summary(
            files=files,
            new_files=new_files,
            traces=sum(verdicts.values()),
            steps=sum(totals.values()),
            verdicts=dict(sorted(verdicts.items())),
            errors=errors.count(),
            distinct_states=steps.select("state").distinct().count(),
            actions=totals,
            diverging=list(map(tuple, diverging.orderBy("file", "index").limit(SHOWN).collect())),
            unreadable=list(map(tuple, unreadable.limit(SHOWN).collect())),
        )

