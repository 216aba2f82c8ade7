"""Clusters in data frames: a task gives each the verdict and the first divergence of the command."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kraftcheck.pipeline import CLUSTER_COLUMNS, validate
from kraftcheck.spec.errors import InputError
from tests.support.command_line import Run

ROOT = Path(__file__).parents[2]
DATA = ROOT / "tests" / "data" / "cluster"
SAMPLES = ("agent", "caught-up", "conforms", "faults", "followers-grant-pre-votes", "stopping", "vote-not-written")
ARGUMENTS = {"pattern": None, "without": [], "monitors": False, "label": "commit=abc"}


def rows_of(files: list[tuple[str, str, bytes]], **arguments: Any) -> list[dict[str, Any]]:
    """Return the rows of a task that gets its files in small batches."""
    pa = pytest.importorskip("pyarrow")
    from kraftcheck.reporting.spark_validation import validate_clusters

    def batches() -> Iterator[Any]:
        for some in (files[at : at + 2] for at in range(0, len(files), 2)):
            yield pa.RecordBatch.from_pydict(
                dict(zip(("cluster", "path", "content"), map(list, zip(*some, strict=True)), strict=True))
            )

    return [row for batch in validate_clusters({**ARGUMENTS, **arguments}, batches()) for row in batch.to_pylist()]


def files_of(*names: str) -> list[tuple[str, str, bytes]]:
    return [
        (name, f"file:{path}", path.read_bytes())
        for name in names
        for path in sorted((DATA / name).rglob("*"))
        if path.is_file()
    ]


def same(row: dict[str, Any], name: str, run: Run, out: Path, *options: object) -> None:
    """Fail unless a row has the verdict, the first divergence and the whole report of the command for a folder."""
    done = run("validate", "quorum", DATA / name, "--quiet", "--json", out, *options)
    expected = json.loads(out.read_text().replace(str(DATA), str(DATA)[1:]))
    found = json.loads(row["report"])
    for report in (expected, found):
        del report["seconds"], report["events_per_second"]
    assert found == expected
    assert (row["cluster"], row["exit_code"], row["label"]) == (name, done.code, "commit=abc")
    assert (row["result"], row["events"]) == (expected["result"], expected["events"])
    if divergence := expected["divergence"]:
        assert [row["file"], row["line"], row["problem"]] == [divergence[key] for key in ("file", "line", "what")]


@pytest.mark.slow
def test_each_cluster_has_the_verdict_of_the_command(run: Run, tmp_path: Path) -> None:
    rows = rows_of(files_of(*SAMPLES))
    assert {row["result"] for row in rows} >= {"conforms", "diverges"}
    for name, row in zip(SAMPLES, rows, strict=True):
        same(row, name, run, tmp_path / "found.json")


@pytest.mark.slow
def test_options_reach_the_tasks(run: Run, tmp_path: Path) -> None:
    files = [("info", str(path), path.read_bytes()) for path in sorted(DATA.glob("*.info.log.gz"))]
    assert [row["result"] for monitors in (False, True) for row in rows_of(files, monitors=monitors)] == [
        "inconclusive",
        "nothing-broken",
    ]
    (row,) = rows_of(files_of("stopping"), without=["refuses-while-it-stops"])
    same(row, "stopping", run, tmp_path / "found.json", "--without", "refuses-while-it-stops")
    assert row["result"] == "diverges"


@pytest.mark.slow
def test_an_observer_alone_diverges_where_the_cluster_does() -> None:
    files = files_of("conforms")
    *voters, (_, path, content) = files
    lines = gzip.decompress(content).splitlines(keepends=True)
    doubled = gzip.compress(b"".join([*lines[:300], lines[299], *lines[300:]]))
    groups = [("voters", path, content) for _, path, content in voters]
    first, alone = rows_of([*groups, ("observer", path, content)])
    assert (first["result"], alone["result"]) == ("conforms", "inconclusive")
    assert alone["explained"] == alone["events"] > 0
    assert alone["file"] is None
    whole, alone = rows_of([*voters, ("conforms", path, doubled), ("observer", path, doubled)])
    assert whole["file"] is not None
    assert all(whole[name] == alone[name] for name in ("file", "line", "problem"))


@pytest.mark.slow
def test_a_cluster_that_cannot_be_read_ends_no_other() -> None:
    cut_off = (DATA / "stopping" / "node1.trace.log.gz").read_bytes()[:999]
    rows = rows_of(
        [
            ("cut", "s3a://bucket/cut/node1.log.gz", cut_off),
            ("foreign", "s3a://bucket/foreign/readme.txt", b"hello"),
            ("outside", "s3a://bucket/../../../outside/readme.txt", b"hello"),
            *files_of("stopping"),
        ]
    )
    assert [row["result"] for row in rows] == ["unreadable", "unreadable", "unreadable", "conforms"]
    assert rows[0]["problem"].startswith("bucket/cut/node1.log.gz: cannot be read: its gzip stream ends too early")
    assert rows[1]["problem"].startswith("foreign: expected lines of org.apache.kafka.raft, ")
    assert [row["exit_code"] for row in rows] == [2, 2, 2, 0]


class Frame:
    """A data frame or a session that no task runs on."""

    version = "4.1.0"

    def __init__(self, *dtypes: tuple[str, str]) -> None:
        self.dtypes = list(dtypes)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({}, "files: expected a column cluster of type string, found none"),
        ({"without": ["sleeps"]}, "unknown difference sleeps"),
        ({"pattern": "%m"}, "found no %d"),
    ],
)
def test_bad_arguments_are_refused_at_once(options: dict[str, Any], problem: str) -> None:
    pytest.importorskip("pyspark")
    frame: Any = Frame(("path", "string"), ("content", "binary"))
    with pytest.raises(InputError, match=problem):
        validate(frame, frame, **options)


ON_SPARK = """
import sys
from pyspark.sql import SparkSession, functions as f
from kraftcheck.pipeline import validate
spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
files = spark.read.format("binaryFile").option("recursiveFileLookup", "true").load(sys.argv[1])
runs = files.withColumn("cluster", f.regexp_extract("path", "/cluster/([^/]+)/", 1))
runs = runs.where(f.col("cluster").isin(sys.argv[3:]))
validate(spark, runs, label="commit=abc").write.json(sys.argv[2])
"""


@pytest.mark.spark
@pytest.mark.slow
def test_the_rows_of_spark_are_those_of_the_tasks(tmp_path: Path) -> None:
    words = [sys.executable, "-c", ON_SPARK, DATA.as_uri(), str(tmp_path / "out"), *SAMPLES]
    subprocess.run(words, check=True, cwd=ROOT, env={**os.environ, "PYSPARK_PYTHON": sys.executable}, timeout=300)
    lines = [line for path in (tmp_path / "out").glob("*.json") for line in path.read_text().splitlines()]
    found = {row["cluster"]: row for row in map(json.loads, lines)}
    assert set(found) == set(SAMPLES)
    names = {column.split(" ")[0] for column in CLUSTER_COLUMNS.split(", ")}
    for row in rows_of(files_of(*SAMPLES)):
        other = found[row["cluster"]]
        assert set(other) <= names
        assert all(other.get(name) == row[name] for name in names - {"seconds", "report"})
