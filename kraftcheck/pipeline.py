"""Replay of traces in data frames of Spark, by the DataFrame API alone.

It runs in a notebook, under Spark Connect, and on PySpark 3.5 and newer. Spark's own readers and writers open the
files, so S3, HDFS, ABFS and Delta Lake work as the cluster is set up. `docs/pipeline.md` has an example, and
`docs/pipeline-schema.md` the columns.
"""

from __future__ import annotations

import warnings
from argparse import Namespace
from collections.abc import Mapping
from os import PathLike, fspath
from typing import TYPE_CHECKING

from kraftcheck.catalogue import blaming, find_model, model_of
from kraftcheck.explorer.cluster import require_pyspark
from kraftcheck.jobs import lenient_job
from kraftcheck.spec.errors import InputError, require_assertions, unknown
from kraftcheck.spec.language.protocol import Protocol
from kraftcheck.traces.parsing import DEFAULT_LIMIT
from kraftcheck.traces.pipeline.driver import task_arguments
from kraftcheck.traces.pipeline.rows import COLUMNS, SCHEMA_VERSION

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["LEAST_SPARK", "SCHEMA_VERSION", "TABLES", "replay", "table"]

TABLES = tuple(COLUMNS)
"""The names of the tables: traces, steps and errors."""

LEAST_SPARK = (3, 5)
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
    max_size: int = DEFAULT_LIMIT,
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
    require_assertions()
    require_pyspark(LEAST_SPARK, spark.version)
    found = find_model(model, variant) if isinstance(model, str) else model_of(model, variant)
    if found.protocol.__module__ == "__main__":
        raise InputError(
            f"model: {found.protocol.__name__} is defined in a notebook; put it into a file, model='FILE.py'"
        )
    settings = [f"{name}={value}" for name, value in (constants or {}).items()]
    with blaming(found):
        job, notes = lenient_job(found, Namespace(config=config and fspath(config), set=settings))
    for note in notes:
        warnings.warn(note, stacklevel=2)
    arguments = task_arguments(
        job.protocol, job.options, limit_bytes=max_size, seen_as=job.seen_as, seconds=trace_time, label=label
    )
    from kraftcheck.traces.pipeline.frames import replayed  # needs PySpark

    return replayed(_inputs(files), job.protocol, arguments)


def _inputs(files: DataFrame) -> DataFrame:
    """Return the columns that a task reads; raise InputError for a column of another type."""
    types = dict(files.dtypes)
    wanted = {"path": "string", **({"content": "binary"} if "content" in types else {})}
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
        raise InputError(unknown("table", name, TABLES))
    from kraftcheck.traces.pipeline.frames import table_of  # needs PySpark

    return table_of(rows, name)
