"""Traces as data frames of Spark: their replay by the DataFrame API alone, and the batches of the pipeline."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kraftcheck.explorer.spark_cluster import SparkApplication, convert_spark_errors, task_with_code
from kraftcheck.spec.language.protocol import Protocol
from kraftcheck.traces.pipeline.driver import (
    FILES_A_BATCH,
    MOST_FILES_A_BATCH,
    TASKS_A_CORE,
    InputFile,
    PipelineFolder,
    PipelineSummary,
    partition_by_size,
)
from kraftcheck.traces.pipeline.rows import COMBINED_COLUMNS, TABLE_COLUMNS
from kraftcheck.traces.pipeline.tables import write_coverage_and_summarise

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_REPLAY_TASK = "kraftcheck.traces.pipeline.tables:replay_files_to_rows"


def replay_files_to_dataframe(files: DataFrame, protocol: Protocol, arguments: str) -> DataFrame:
    """Return the rows of all tables for files: their paths, or names and contents. It needs no Spark context."""
    return files.mapInArrow(task_with_code(_REPLAY_TASK, arguments, type(protocol)), COMBINED_COLUMNS)


def select_table_rows(found: DataFrame, table: str) -> DataFrame:
    """Return the rows and columns of one table."""
    names = [column.split(" ")[0] for column in TABLE_COLUMNS[table].split(", ")]
    return found.where(f"record = '{table}'").select("file", *names)


class SparkRunner:
    """Replays files on a Spark cluster. See `BatchRunner`."""

    def __init__(self, cluster: SparkApplication, protocol: Protocol, arguments: str, output: PipelineFolder) -> None:
        self._cluster = cluster
        self._protocol = protocol
        self._arguments = arguments
        self._output = output
        self.cancel, self.require_running = cluster.cancel, cluster.require_running
        self.files_a_batch = cluster.number("spark.kraftcheck.files", FILES_A_BATCH, least=1, most=MOST_FILES_A_BATCH)

    def write(self, batch: int, files: list[InputFile]) -> None:
        """Write the tables of some files into the staging folders."""
        output, cluster = self._output, self._cluster
        cluster.describe(f"batch {batch}: replay {len(files):,} files")
        tasks = min(len(files), TASKS_A_CORE * cluster.parallelism)
        raw = _file_uri(output.staging("raw"))
        with convert_spark_errors():
            replay_files_to_dataframe(self._dealt(files, tasks), self._protocol, self._arguments).write.parquet(raw)
            cluster.describe(f"batch {batch}: write the tables")
            found = cluster.spark.read.schema(COMBINED_COLUMNS).parquet(raw)
            for table in TABLE_COLUMNS:
                rows = select_table_rows(found, table).coalesce(cluster.parallelism if table == "steps" else 1)
                rows.write.parquet(_file_uri(output.staging(table)))

    def _dealt(self, files: list[InputFile], tasks: int) -> DataFrame:
        """Return a data frame of paths in `tasks` partitions, balanced by file size."""
        paths = [(path,) for some in partition_by_size(files, tasks) for path in some]
        spark = self._cluster.spark
        return spark.createDataFrame(spark.sparkContext.parallelize(paths, tasks), "path string")

    def summary(self, new_files: int) -> PipelineSummary:
        """Write the coverage table, and return the summary of all files that count."""
        return write_coverage_and_summarise(self._output, self._protocol, new_files)


def _file_uri(path: str) -> str:
    """Return the URI of a path of this machine, as Hadoop spells it: Spark's default file system may be another."""
    return f"file://{path}"
