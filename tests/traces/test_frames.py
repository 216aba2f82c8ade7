"""Traces as data frames: the columns, the contents of files, and a replay under Spark Connect."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from kraftcheck.cli import main
from kraftcheck.explorer.spark_cluster import task_with_code
from kraftcheck.pipeline import CLUSTER_COLUMNS, SCHEMA_VERSION, TABLES, replay, table
from kraftcheck.spec.errors import InputError
from kraftcheck.spec.examples.two_phase_commit import TwoPhaseCommit
from kraftcheck.traces.pipeline.rows import COMBINED_COLUMNS, TABLE_COLUMNS, FileReplayer, PendingFileRows
from tests.support.corpora import BREAKAGE, corpus, tables
from tests.support.kills import ROOT
from tests.support.tlc import TLC

pytestmark = pytest.mark.kernel


def documented() -> dict[str, str]:
    """Return the columns of each table as the page has them, in Spark's DDL."""
    page = (ROOT / "docs" / "pipeline-schema.md").read_text().replace("&lt;", "<").replace("&gt;", ">")
    parts = re.findall(r"^## (\w+)\n(.*?)(?=^## )", page, re.S | re.M)
    return {name: ", ".join(map(" ".join, re.findall(r"^\| `(\w+)` \| (\S+) \|", text, re.M))) for name, text in parts}


def test_the_page_has_the_columns_of_this_version() -> None:
    found = documented()
    coverage = "file string, index int, action string, times bigint"
    tables = {name: f"file string, {columns}" for name, columns in TABLE_COLUMNS.items()}
    assert found == {**tables, "coverage": coverage, "clusters": CLUSTER_COLUMNS}
    page = (ROOT / "docs" / "pipeline-schema.md").read_text()
    assert f"This is version {SCHEMA_VERSION}, " in page
    assert set(COMBINED_COLUMNS.split(", ")) == {
        "record string",
        *", ".join(found[name] for name in TABLES).split(", "),
    }
    names = [column.split(" ")[0] for column in COMBINED_COLUMNS.split(", ")]
    assert len(set(names)) == len(names)  # a name has one type in all tables


def test_the_rows_of_a_command_have_the_types_of_the_page(tmp_path: Path) -> None:
    pq = pytest.importorskip("pyarrow.parquet")
    out = tmp_path / "out"
    joined = TLC / "counterexamples" / "joined.out.gz"
    words = ["replay", "reconfig", str(joined), "--config", str(joined.with_name("joined.cfg")), "--quiet"]
    assert main([*words, "--parquet", str(out)]) == 0
    spelled = {"int32": "int", "int64": "bigint", "list<element: string>": "array<string>"}
    for name, columns in documented().items():
        if name == "clusters":
            continue
        (file, *_) = (out / name).rglob("*.parquet")
        schema = pq.ParquetFile(file).schema_arrow
        types = (str(kind) for kind in schema.types)
        assert [f"{n} {spelled.get(t, t)}" for n, t in zip(schema.names, types, strict=True)] == columns.split(", ")


def lasting(found: list[PendingFileRows]) -> list[list[dict[str, Any]]]:
    return [[{**row, "seconds": None} for row in getattr(part, name)] for part in found for name in TABLE_COLUMNS]


@pytest.mark.parametrize(
    "change", [lambda data: data, *(change for _, change in BREAKAGE.values())], ids=range(len(BREAKAGE) + 1)
)
def test_contents_are_replayed_as_files_are(tmp_path: Path, change: Callable[[bytes], bytes]) -> None:
    path = tmp_path / "walk.tla"
    corpus(tmp_path / "in", 1, 0, 0)
    path.write_bytes(change((tmp_path / "in" / "walk_0.tla").read_bytes()))
    replayer = two_phase_replayer()
    by_path = lasting(list(replayer.rows(str(path))))
    assert lasting(list(replayer.rows(str(path), path.read_bytes()))) == by_path


def two_phase_replayer() -> FileReplayer:
    from kraftcheck.api import load

    return FileReplayer(load("two-phase-commit").protocol, "Init", None, 2**20, model="m", label="l")


def test_an_unexpected_error_names_the_row_of_the_data_frame(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(path: str, **_: object) -> None:
        raise RecursionError(f"{path} is too deep")

    monkeypatch.setattr("kraftcheck.traces.replay.replayer.stream_traces", broken)
    (rows,) = two_phase_replayer().rows("s3a://bucket/a", b"x")
    assert [error["message"] for error in rows.errors] == ["RecursionError: s3a://bucket/a is too deep"]


class Frame:
    """A data frame or a session that no task runs on."""

    version = "4.1.0"

    def __init__(self, *dtypes: tuple[str, str]) -> None:
        self.dtypes = list(dtypes)


@pytest.mark.parametrize(
    ("frame", "model", "problem"),
    [
        (Frame(), "two-phase-commit", "files: expected a column path of type string, found none"),
        (Frame(("path", "string"), ("content", "string")), "two-phase-commit", "content of type binary, found string"),
        (Frame(), "two-phase-comit", "two-phase-commit"),
    ],
)
def test_bad_arguments_are_refused_at_once(frame: Any, model: str, problem: str) -> None:
    pytest.importorskip("pyspark")
    with pytest.raises(InputError, match=problem):
        replay(frame, frame, model=model)


def test_an_old_spark_and_an_unknown_table_are_refused() -> None:
    pytest.importorskip("pyspark")
    old: Any = Frame()
    old.version = "3.4.2"
    with pytest.raises(InputError, match=r"PySpark 3\.5 or newer is needed, found 3\.4\.2"):
        replay(old, old, model="two-phase-commit")
    with pytest.raises(InputError, match="unknown table trace"):
        table(old, "trace")


@pytest.mark.slow
def test_a_task_is_loaded_where_kraftcheck_is_not_installed() -> None:
    cloudpickle = pytest.importorskip("pyspark.cloudpickle")
    task = cloudpickle.dumps(task_with_code("module:function", "{}", TwoPhaseCommit))
    load = "import pickle, sys; sys.modules['kraftcheck'] = None; pickle.load(sys.stdin.buffer)"
    subprocess.run([sys.executable, "-c", load], input=task, check=True, timeout=60)


# Under Spark Connect


@pytest.mark.spark
@pytest.mark.slow
def test_a_data_frame_under_spark_connect_has_the_rows_of_the_command(tmp_path: Path) -> None:
    """The model is a user's file, which executors get with the task."""
    if find_spec("grpc") is None:
        pytest.skip("Spark Connect needs grpcio")
    corpus(tmp_path / "in", 30, 3, 4)
    model = shutil.copy(ROOT / "spec" / "examples" / "two_phase_commit" / "__init__.py", tmp_path / "mine.py")
    (tmp_path / "mine.cfg").write_text("CONSTANTS RM = {rm1, rm2, rm3, rm4, rm5}\nINVARIANT Consistent\n")
    words = [str(tmp_path / "in"), f"{model}:TwoPhaseCommit", str(tmp_path / "rows")]
    about = {"PYSPARK_PYTHON": sys.executable, "SPARK_TESTING": "1"}  # the server takes a free port
    done = subprocess.run(
        [sys.executable, "-m", "tests.support.spark.connect", *words],
        capture_output=True, text=True, check=False, cwd=ROOT, env={**os.environ, **about}, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    out = tmp_path / "out"
    mine = ["--model", f"{model}:TwoPhaseCommit", "--label", "commit=abc", "--quiet", "--workers", "2"]
    assert main(["pipeline", str(tmp_path / "in"), "--out", str(out), *mine]) == 1
    expected = tables(out)
    for name in TABLES:
        assert sorted(map(_as_json, found[name])) == sorted(map(_as_json, expected[name])), name


def _as_json(row: dict[str, Any]) -> str:
    row = {name: value for name, value in row.items() if name not in ("seconds", "batch")}
    return json.dumps(row, sort_keys=True, default=lambda value: bytes(value).hex()).replace("file:/", "/")
