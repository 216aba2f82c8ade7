"""The pipeline's tables under a URI, read and written by Spark: in Delta Lake, or as plain Parquet.

    rows     the rows of all tables, partitioned by batch and by `record`, the name of a row's table
    files    one row for each file of a finished batch

A batch counts once its files are in `files`, which happens last. Of the batches of a file in one run, the latest
counts. A run is a model with its configuration, and a label. Concurrent runs use batches of their own.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from kraftcheck.explorer.spark_cluster import SparkApplication, convert_spark_errors
from kraftcheck.persistence.folder import BatchNote
from kraftcheck.spec.errors import InputError
from kraftcheck.spec.language.protocol import Protocol
from kraftcheck.traces.pipeline.driver import (
    FILES_A_BATCH,
    MOST_FILES_A_BATCH,
    MOST_SHOWN_PROBLEMS,
    InputFile,
    PipelineSummary,
)
from kraftcheck.traces.pipeline.frames import replay_files_to_dataframe, select_table_rows
from kraftcheck.traces.pipeline.rows import COMBINED_COLUMNS, TABLE_COLUMNS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

DELTA, PARQUET = "delta", "parquet"
DELTA_SETTINGS = (
    ("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension"),
    ("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog"),
)
"""Settings without which Delta Lake refuses to write."""

FILES_COLUMNS = "batch bigint, model string, label string, file string, length bigint, modified bigint, rows bigint"
SCHEMAS = {"rows": f"{COMBINED_COLUMNS}, batch bigint", "files": FILES_COLUMNS}
"""The columns of the two tables, in Spark's DDL."""


class SparkTableRunnerAndStore:
    """Tables under a URI, and what fills them. See `BatchRunner` and `BatchStore`."""

    def __init__(self, cluster: SparkApplication, protocol: Protocol, arguments: str, out: str, form: str) -> None:
        self._cluster = cluster
        self._protocol = protocol
        self._arguments = arguments
        self._out = out.rstrip("/")
        self._run = tuple(json.loads(arguments)[name] for name in ("model", "label"))
        self._present: set[str] = set()
        self.cancel, self.require_running = cluster.cancel, cluster.require_running
        self.files_a_batch = cluster.number("spark.kraftcheck.files", FILES_A_BATCH, least=1, most=MOST_FILES_A_BATCH)
        with convert_spark_errors():
            is_delta = self._exists("files/_delta_log")
            self._form = DELTA if is_delta or (form == DELTA and not self._exists("files")) else PARQUET
            notes = self._read("files").collect() if is_delta or self._exists("files") else []
        self._noted = [note.asDict() for note in notes]

    def _exists(self, name: str) -> bool:
        context: Any = self._cluster.spark.sparkContext
        path = context._jvm.org.apache.hadoop.fs.Path(f"{self._out}/{name}")
        return bool(path.getFileSystem(context._jsc.hadoopConfiguration()).exists(path))

    def _read(self, name: str) -> DataFrame:
        reader, folder = self._cluster.spark.read.format(self._form), f"{self._out}/{name}"
        return reader.load(folder) if self._form == DELTA else reader.schema(SCHEMAS[name]).load(_literal_glob(folder))

    def _write(self, rows: DataFrame, name: str, batch: int, *partitions: str) -> None:
        """Write the rows of a batch. As Parquet, a batch has a folder of its own, which no other run touches."""
        from pyspark.sql import functions as f

        writer = rows.write.format(self._form)
        if self._form == PARQUET:
            writer.partitionBy(*partitions).save(f"{self._out}/{name}/batch={batch}")
            return
        with_batch = rows.withColumn("batch", f.lit(batch).cast("bigint"))
        with_batch.write.format(DELTA).mode("append").partitionBy("batch", *partitions).save(f"{self._out}/{name}")

    def inputs(self, names: Iterable[str]) -> list[InputFile]:
        """Return the files under URIs, which may be patterns, except those of the tables."""
        found: dict[str, InputFile] = {}
        own = _normalized_uri(self._out) + "/"
        self._cluster.describe("list the files")
        for name in names:
            files = [file for file in self._listed(name) if not _normalized_uri(file.path).startswith(own)]
            if not files:
                raise InputError(f"{name}: no files; give the URI of a file, of a folder, or a glob pattern")
            found |= {file.path: file for file in files}
        self._present = set(found)
        return [found[path] for path in sorted(found)]

    def _listed(self, name: str) -> list[InputFile]:
        from pyspark.errors import AnalysisException

        columns = "path", "length", "unix_micros(modificationTime)"
        reader = self._cluster.spark.read.format("binaryFile").option("recursiveFileLookup", "true")
        try:
            with convert_spark_errors():
                listed = reader.load(name)
                files = {_normalized_uri(row["path"]): InputFile(*row) for row in listed.selectExpr(*columns).collect()}
                empty = {_normalized_uri(unquote(uri)) for uri in listed.inputFiles()} - set(
                    files
                )  # Spark reads no empty files
                return [*files.values(), *(InputFile(path, 0, 0) for path in empty)]
        except InputError as error:
            if isinstance(error.__cause__, AnalysisException) and "PATH_NOT_FOUND" in str(error.__cause__):
                return []
            raise

    def _newest(self) -> dict[str, Any]:
        """Return the newest note of each file in this run."""
        mine = (note for note in self._noted if (note["model"], note["label"]) == self._run)
        return {note["file"]: note for note in sorted(mine, key=lambda note: int(note["batch"]))}

    def done(self) -> set[InputFile]:
        """Return the files of finished batches, as they were when they were last replayed."""
        return {InputFile(note["file"], note["length"], note["modified"]) for note in self._newest().values()}

    def claim(self) -> None:
        """Do nothing: many runs share the tables."""

    def next_batch(self) -> int:
        """Return the number of the next batch: the time in nanoseconds, or one more than the last."""
        return max([time.time_ns(), *(1 + int(note["batch"]) for note in self._noted)])

    def write(self, batch: int, files: list[InputFile]) -> None:
        """Replay some files and write their rows, which do not count yet."""
        self._cluster.describe(f"replay {len(files):,} files")
        spark = self._cluster.spark
        with convert_spark_errors():
            empty = [(file.path, bytearray()) for file in files if not file.size]
            contents = spark.createDataFrame(empty, "path string, content binary")
            if paths := [_literal_glob(file.path) for file in files if file.size]:
                contents = contents.union(spark.read.format("binaryFile").load(paths).select("path", "content"))
            self._write(replay_files_to_dataframe(contents, self._protocol, self._arguments), "rows", batch, "record")

    def accept(self, batch: int, files: Iterable[InputFile], seconds: float) -> None:
        """Note the files of a batch with the number of their rows, so that it counts."""
        model, label = self._run
        with convert_spark_errors():
            written = self._read("rows").where(f"batch = {batch}").groupBy("file").count().collect()
            rows = {row["file"]: row["count"] for row in written}
            noted = [(model, label, *file, rows[file.path]) for file in files if file.path in rows]
            columns = FILES_COLUMNS.removeprefix("batch bigint, ")
            self._write(self._cluster.spark.createDataFrame(noted, columns).coalesce(1), "files", batch)
        names = [column.split(" ")[0] for column in columns.split(", ")]
        self._noted += [{"batch": batch, **dict(zip(names, note, strict=True))} for note in noted]

    def summary(self, new_files: int) -> PipelineSummary:
        """Return the summary of the inputs, each as it was last replayed."""
        from pyspark.sql import functions as f

        self._cluster.describe("summary")
        notes = [note for path, note in self._newest().items() if path in self._present]
        pairs = [(note["file"], note["batch"]) for note in notes]
        with convert_spark_errors():
            newest = self._cluster.spark.createDataFrame(pairs, "file string, batch bigint")
            rows = self._read("rows").join(f.broadcast(newest), ["file", "batch"], "left_semi")
            expected, found = sum(note["rows"] for note in notes), rows.count()
            if found != expected:
                problem = f"expected {expected:,} rows, found {found:,}; replay into another folder"
                raise InputError(f"--out {self._out}: the tables are damaged: {problem}")
            counts = {"files": len(notes), "new_files": new_files}
            traces, steps, errors = (select_table_rows(rows, table) for table in TABLE_COLUMNS)
            return _summary_of_tables(traces, steps, errors, self._protocol, **counts)

    def keep_summary(self, summary: BatchNote) -> None:
        """Do nothing: the summary is computed by each run."""


def _summary_of_tables(
    traces: DataFrame, steps: DataFrame, errors: DataFrame, protocol: Protocol, **counts: int
) -> PipelineSummary:
    """Return the summary of tables."""
    totals: dict[str, int] = dict.fromkeys([*protocol.actions, *protocol.network.own_actions()], 0)
    for row in steps.where("action is not null").groupBy("action").count().collect():
        totals[row["action"]] = row["count"]
    verdicts = {row["verdict"]: row["count"] for row in traces.groupBy("verdict").count().collect()}
    wrong = traces.where("verdict in ('diverges', 'refuted')")
    diverging = wrong.select("file", "index", "diverged_step", "reason")
    unreadable = errors.orderBy("file", "index").select("file", "line", "column", "message")
    return PipelineSummary(
        traces=sum(verdicts.values()),
        steps=sum(totals.values()),
        verdicts=dict(sorted(verdicts.items())),
        errors=errors.count(),
        distinct_states=steps.select("state").distinct().count(),
        actions=totals,
        diverging=list(map(tuple, diverging.orderBy("file", "index").limit(MOST_SHOWN_PROBLEMS).collect())),
        unreadable=list(map(tuple, unreadable.limit(MOST_SHOWN_PROBLEMS).collect())),
        **counts,
    )


def _literal_glob(path: str) -> str:
    """Return the pattern that matches a path alone."""
    return re.sub(r"([\\\[\]{}*?^])", r"\\\1", path)


def _normalized_uri(uri: str) -> str:
    """Return a URI with one spelling of an empty host: Hadoop writes `file:/tmp` for `file:///tmp`."""
    return uri.replace(":///", ":/")
