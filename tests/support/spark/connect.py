"""Replay the files of a folder under Spark Connect: `python -m tests.support.spark.connect SOURCE MODEL OUT`."""

from __future__ import annotations

import json
import sys

from pyspark.sql import SparkSession

from kraftcheck.pipeline import TABLES, replay, table


def main(source: str, model: str, out: str) -> None:
    """Write the rows of all tables to a folder, and print those of each as JSON."""
    spark = SparkSession.builder.config("spark.ui.enabled", "false").remote("local[2]").getOrCreate()
    assert type(spark).__module__.startswith("pyspark.sql.connect")
    files = spark.read.format("binaryFile").load(source)
    replay(spark, files, model=model, label="commit=abc").write.partitionBy("record").parquet(out)
    rows = {name: [row.asDict() for row in table(spark.read.parquet(out), name).collect()] for name in TABLES}
    print(json.dumps(rows, default=lambda value: bytes(value).hex()))
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
