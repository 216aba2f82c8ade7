"""Replay of traces, and validation of clusters, in data frames of Spark, by the DataFrame API alone.

It runs in a notebook, under Spark Connect, and on PySpark 3.5 and newer. Spark's own readers and writers open the
files, so S3, HDFS, ABFS and Delta Lake work as the cluster is set up. `docs/pipeline.md` has an example, and
`docs/pipeline-schema.md` the columns.
"""

from __future__ import annotations

import json
import warnings
from argparse import Namespace
from collections.abc import Iterable, Mapping
from os import PathLike, fspath
from typing import TYPE_CHECKING

from kraftcheck.catalogue import find_model, locate_protocol_errors, model_of_class
from kraftcheck.explorer.spark_cluster import LEAST_REPLAY_VERSION, require_pyspark, task_with_code
from kraftcheck.jobs import leniently_bound_job
from kraftcheck.spec.errors import InputError, require_assertions_enabled, unknown_name_message
from kraftcheck.spec.language.protocol import Protocol
from kraftcheck.traces.parsing import DEFAULT_LIMIT_BYTES
from kraftcheck.traces.pipeline.driver import file_replayer_arguments
from kraftcheck.traces.pipeline.rows import SCHEMA_VERSION, TABLE_COLUMNS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["LEAST_SPARK", "SCHEMA_VERSION", "TABLES", "replay", "table", "validate"]

TABLES = tuple(TABLE_COLUMNS)
"""The names of the tables: traces, steps and errors."""

CLUSTER_COLUMNS = (
    "cluster string, result string, exit_code int, file string, line bigint, problem string, events bigint,"
    " explained bigint, seconds double, label string, report string"
)
"""The columns that `validate` returns, in Spark's DDL."""

LEAST_SPARK = LEAST_REPLAY_VERSION
"""The oldest version of PySpark that replays traces; a search needs a newer one."""


def replay(
    spark: SparkSession,
    files: DataFrame,
    *,
    model: str | type[Protocol],
    config: str | PathLike[str] | None = None,
    variant: str | None = None,
    constants: Mapping[str, object] | None = None,
    label: str | None = None,
    trace_time: float | None = None,
    trace_memory: int | None = None,
    max_size: int = DEFAULT_LIMIT_BYTES,
) -> DataFrame:
    """Replay the traces of files on the executors.

    Parameters
    ----------
    spark : pyspark.sql.SparkSession
        The session, of Spark or Spark Connect.
    files : pyspark.sql.DataFrame
        One row for each file, with the columns `path` and `content`, as `spark.read.format("binaryFile")` returns
        them. Without `content`, executors open the path in their file system. Other columns are ignored.
    model
        A name that `kraftcheck models` lists, `path/to/file.py:ClassName`, or a protocol class.
    config
        The name of one of the model's configurations, or a `.cfg` file. The default is that of `kraftcheck.load`.
    variant
        The name of a variant of the model.
    constants
        Other values for constants, written as in a `.cfg`.
    label
        The text of the column `label`, such as a commit.
    trace_time
        The seconds after which a trace is given up, with a row in `errors`.
    trace_memory
        The memory in bytes, beyond what the Python process has before, at which a trace is given up likewise.
    max_size
        The limit on the unpacked size of a file, in bytes.

    Returns
    -------
    pyspark.sql.DataFrame
        The rows of all tables. The column `record` names the table of a row. `table` selects one. Like every data
        frame it is computed at each use: write it, or persist it, before several are selected.

    Raises
    ------
    InputError
        The model, variant or configuration is unknown, a column has another type, or Spark is too old.
    """
    require_assertions_enabled()
    require_pyspark(LEAST_SPARK, spark.version)
    found = find_model(model, variant) if isinstance(model, str) else model_of_class(model, variant)
    if found.protocol.__module__ == "__main__":
        raise InputError(
            f"model: {found.protocol.__name__} is defined in a notebook; put it into a file, model='FILE.py'"
        )
    settings = [f"{name}={value}" for name, value in (constants or {}).items()]
    with locate_protocol_errors(found):
        job, notes = leniently_bound_job(found, Namespace(config=config and fspath(config), set=settings))
    for note in notes:
        warnings.warn(note, stacklevel=2)
    arguments = file_replayer_arguments(
        job.protocol, job.options, limit_bytes=max_size, seen_as=job.seen_as, seconds=trace_time, memory=trace_memory,
        label=label,
    )  # fmt: skip
    from kraftcheck.traces.pipeline.frames import replay_files_to_dataframe  # needs PySpark

    has_content = "content" in dict(files.dtypes)
    return replay_files_to_dataframe(
        _select_typed_columns(files, path="string", **({"content": "binary"} if has_content else {})),
        job.protocol,
        arguments,
    )


def validate(
    spark: SparkSession,
    files: DataFrame,
    *,
    pattern: str | None = None,
    without: Iterable[str] = (),
    monitors: bool = False,
    label: str | None = None,
) -> DataFrame:
    """Validate the logs and disks of many clusters on the executors, each cluster in one task.

    Parameters
    ----------
    spark : pyspark.sql.SparkSession
        The session, of Spark or Spark Connect.
    files : pyspark.sql.DataFrame
        One row for each file, with the columns `cluster`, a text, and `path` and `content`, as
        `spark.read.format("binaryFile")` returns them. Other columns are ignored.
    pattern
        The log4j pattern of the files. The default is Kafka's.
    without
        The known differences of Kafka that the model has not.
    monitors
        Whether logs of INFO alone, or disks alone, get exit code 0 if nothing is broken.
    label
        The text of the column `label`, such as a commit.

    Returns
    -------
    pyspark.sql.DataFrame
        One row for each cluster: `kraftcheck validate` has the same verdict and first divergence for a folder with
        its files.

    Raises
    ------
    InputError
        A column is missing or has another type, a known difference is unknown, or Spark is too old.
    """
    require_pyspark(LEAST_SPARK, spark.version)
    from kraftcheck.kraft_model.quorum import Quorum
    from kraftcheck.kraft_model.quorum.variants.kafka import known_difference_classes_by_name, require_known_differences
    from kraftcheck.validation.log4j import DEFAULT_PATTERN, line_regex_of_log4j_pattern

    without = list(without)
    require_known_differences(without, known_difference_classes_by_name(cluster=True), cluster=True)
    line_regex_of_log4j_pattern(pattern or DEFAULT_PATTERN)
    found = _select_typed_columns(files, cluster="string", path="string", content="binary")
    arguments = {"pattern": pattern, "without": without, "monitors": monitors, "label": label}
    task = task_with_code("kraftcheck.reporting.spark_validation:validate_clusters", json.dumps(arguments), Quorum)
    parts = int(str(spark.conf.get("spark.sql.shuffle.partitions")))  # by default Spark merges small partitions
    return found.repartition(parts, "cluster").sortWithinPartitions("cluster", "path").mapInArrow(task, CLUSTER_COLUMNS)


def _select_typed_columns(files: DataFrame, **wanted: str) -> DataFrame:
    """Return the columns that a task reads; raise InputError for a column of another type."""
    types = dict(files.dtypes)
    for name, kind in wanted.items():
        if types.get(name) != kind:
            raise InputError(f"files: expected a column {name} of type {kind}, found {types.get(name, 'none')}")
    return files.select(*wanted)


def table(rows: DataFrame, name: str) -> DataFrame:
    """Return the rows of one table, with its columns.

    Parameters
    ----------
    rows : pyspark.sql.DataFrame
        The result of `replay`, or a stored copy of it.
    name
        "traces", "steps" or "errors".

    Raises
    ------
    InputError
        There is no table of this name.
    """
    if name not in TABLES:
        raise InputError(unknown_name_message("table", name, TABLES))
    from kraftcheck.traces.pipeline.frames import select_table_rows  # needs PySpark

    return select_table_rows(rows, name)
