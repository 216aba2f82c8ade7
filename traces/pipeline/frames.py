"""Traces as data frames of Spark: their replay by the DataFrame API alone, and the batches of the pipeline."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kraftcheck.explorer.cluster import Cluster, carried, spark_errors
from kraftcheck.files import real_path
from kraftcheck.spec.language.protocol import Protocol
from kraftcheck.traces.pipeline.driver import (
    COVERAGE,
    FILES_A_BATCH,
    MOST_FILES_A_BATCH,
    SHOWN,
    TASKS_A_CORE,
    InputFile,
    PipelineFolder,
    Summary,
    dealt,
)
from kraftcheck.traces.pipeline.rows import COLUMNS, FLAT

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_TASK = "kraftcheck.traces.pipeline.tables:replay_files"
_SHUFFLE, MOST_PARTITIONS = "spark.sql.shuffle.partitions", 100_000


def replayed(files: DataFrame, protocol: Protocol, arguments: str) -> DataFrame:
    """Return the rows of all tables for files: their paths, or names and contents. It needs no Spark context."""
    return files.mapInArrow(carried(_TASK, arguments, type(protocol)), FLAT)


def table_of(found: DataFrame, table: str) -> DataFrame:
    """Return the rows and columns of one table."""
    names = [column.split(" ")[0] for column in COLUMNS[table].split(", ")]
    return found.where(f"record = '{table}'").select("file", *names)


class SparkRunner:
    """Replays files on a Spark cluster. See `Runner`."""

    def __init__(self, cluster: Cluster, protocol: Protocol, arguments: str, output: PipelineFolder) -> None:
        self._cluster = cluster
        self._protocol = protocol
        self._arguments = arguments
        self._output = output
        self.cancel, self.require_running = cluster.cancel, cluster.require_running
        self.files_a_batch = cluster.number("spark.kraftcheck.files", FILES_A_BATCH, least=1, most=MOST_FILES_A_BATCH)
        # Spark's default, 200 partitions on any machine, takes the summary longer and the JVM more memory.
        partitions = cluster.number(_SHUFFLE, TASKS_A_CORE * cluster.parallelism, least=1, most=MOST_PARTITIONS)
        cluster.spark.conf.set(_SHUFFLE, str(partitions))

    def write(self, batch: int, files: list[InputFile]) -> None:
        """Write the tables of some files into the staging folders."""
        output, cluster = self._output, self._cluster
        cluster.describe(f"batch {batch}: replay {len(files):,} files")
        tasks = min(len(files), TASKS_A_CORE * cluster.parallelism)
        raw = _local(output.staging("raw"))
        with spark_errors():
            replayed(self._dealt(files, tasks), self._protocol, self._arguments).write.parquet(raw)
            cluster.describe(f"batch {batch}: write the tables")
            found = cluster.spark.read.schema(FLAT).parquet(raw)
            for table in COLUMNS:
                rows = table_of(found, table).coalesce(cluster.parallelism if table == "steps" else 1)
                rows.write.parquet(_local(output.staging(table)))

    def _dealt(self, files: list[InputFile], tasks: int) -> DataFrame:
        """Return a data frame of paths in `tasks` partitions, balanced by file size."""
        paths = [(path,) for some in dealt(files, tasks) for path in some]
        spark = self._cluster.spark
        return spark.createDataFrame(spark.sparkContext.parallelize(paths, tasks), "path string")

    def _table(self, name: str) -> DataFrame:
        """Return the rows of a table that count."""
        from pyspark.sql import functions as f

        spark = self._cluster.spark
        reader = spark.read.schema(f"file string, {COLUMNS[name]}, batch int")
        rows = reader.parquet(_local(str(real_path(self._output.path / name))))
        outdated = self._output.outdated()
        if not outdated:
            return rows
        pairs = f.broadcast(spark.createDataFrame(outdated, "file string, batch int"))
        return rows.join(pairs, ["file", "batch"], "left_anti")

    def summary(self, new_files: int) -> Summary:
        """Write the coverage table, and return the summary of all files that count."""
        with spark_errors():
            return self._summary(new_files)

    def _summary(self, new_files: int) -> Summary:
        from pyspark.sql import functions as f

        self._cluster.describe("coverage and summary")
        traces, steps, errors = map(self._table, COLUMNS)
        counts = {"files": self._output.counted(), "new_files": new_files}
        summary = summary_of(traces, steps, errors, self._protocol, **counts)
        by_trace = steps.where("action is not null").groupBy("file", "index", "action").agg(f.count("*").alias("times"))
        whole = self._cluster.spark.createDataFrame(
            [(None, None, name, times) for name, times in summary.actions.items()],
            "file string, index int, action string, times bigint",
        )
        by_trace.unionByName(whole).coalesce(1).write.parquet(_local(self._output.staging(COVERAGE)))
        self._output.replace_coverage()
        return summary


def summary_of(traces: DataFrame, steps: DataFrame, errors: DataFrame, protocol: Protocol, **counts: int) -> Summary:
    """Return the summary of tables."""
    totals: dict[str, int] = dict.fromkeys([*protocol.actions, *protocol.network.own_actions()], 0)
    for row in steps.where("action is not null").groupBy("action").count().collect():
        totals[row["action"]] = row["count"]
    verdicts = {row["verdict"]: row["count"] for row in traces.groupBy("verdict").count().collect()}
    wrong = traces.where("verdict in ('diverges', 'refuted')")
    diverging = wrong.select("file", "index", "diverged_step", "reason")
    unreadable = errors.orderBy("file", "index").select("file", "line", "column", "message")
    return Summary(
        traces=sum(verdicts.values()),
        steps=sum(totals.values()),
        verdicts=dict(sorted(verdicts.items())),
        errors=errors.count(),
        distinct_states=steps.select("state").distinct().count(),
        actions=totals,
        diverging=list(map(tuple, diverging.orderBy("file", "index").limit(SHOWN).collect())),
        unreadable=list(map(tuple, unreadable.limit(SHOWN).collect())),
        **counts,
    )


def _local(path: str) -> str:
    """Return the URI of a path of this machine, as Hadoop spells it: Spark's default file system may be another."""
    return f"file://{path}"
