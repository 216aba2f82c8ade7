"""The pipeline: many traces, broken ones among them, replayed on Spark into tables."""

from __future__ import annotations

import gc
import gzip
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import tracemalloc
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import pytest

from kraftcheck.cli import main
from kraftcheck.explorer.result import SearchRequest
from kraftcheck.explorer.search_spec import to_spec
from kraftcheck.explorer.spark_cluster import redirect_stderr_into
from kraftcheck.spec.errors import InputError
from kraftcheck.spec.examples.lock_service import LockService
from kraftcheck.spec.examples.two_phase_commit import TwoPhaseCommit
from kraftcheck.spec.language.semantics import Semantics
from kraftcheck.spec.values import Map, ModelValue
from kraftcheck.traces.parsing import DEFAULT_LIMIT_BYTES
from kraftcheck.traces.pipeline.driver import InputFile, PipelineFolder, find_input_files, poll_unchanged_input_files
from kraftcheck.traces.pipeline.rows import FileReplayer, PendingFileRows, changed_state_part_names, state_hash
from kraftcheck.traces.pipeline.spark_tables import SparkTableRunnerAndStore
from kraftcheck.traces.replay.replayer import Replayer
from tests.support.corpora import BREAKAGE, corpus, tables, tamper
from tests.support.kills import ROOT
from tests.support.tampering import tampered_walk
from tests.support.tlc import TLC, MCReconfig, bound

pytestmark = pytest.mark.kernel
PAGE = (ROOT / "docs" / "pipeline.md").read_text()

# The rows of one file


def reporter() -> FileReplayer:
    return FileReplayer(bound("counterexamples/joined", MCReconfig).protocol, "Init", None, DEFAULT_LIMIT_BYTES)


def rows_of(path: Path) -> PendingFileRows:
    (found,) = reporter().rows(str(path))
    return found


def test_a_trace_that_conforms() -> None:
    found = rows_of(TLC / "counterexamples" / "joined.out.gz")
    (trace,) = found.traces
    assert (trace["verdict"], trace["index"], trace["diverged_step"], trace["reason"]) == ("conforms", 0, None, None)
    assert trace["format"] == "tlc-log" or trace["format"]
    assert found.errors == []
    assert [step["step"] for step in found.steps] == list(range(trace["steps"] + 1))
    assert found.steps[0]["action"] is None
    assert found.steps[0]["changed"] == []
    assert all(step["action"] for step in found.steps[1:])
    assert any(step["actor"] == "n1" for step in found.steps)
    assert len({step["state"] for step in found.steps}) == len(found.steps)
    assert "n1.log" in {name for step in found.steps for name in step["changed"]}


def test_a_state_has_one_name_in_every_file_and_process() -> None:
    one = [step["state"] for step in rows_of(TLC / "counterexamples" / "joined.out.gz").steps]
    other = [step["state"] for step in rows_of(TLC / "counterexamples" / "joined.json.gz").steps]
    assert one == other


def test_a_trace_that_diverges(tmp_path: Path) -> None:
    text = gzip.decompress((TLC / "counterexamples" / "joined.out.gz").read_bytes()).decode()
    at = text.index("State 4:")
    path = tmp_path / "changed.out"
    path.write_text(text[:at] + text[at:].replace("currentEpoch |-> 1", "currentEpoch |-> 7", 1).replace(
        "/\\ _electionCtr = ", "/\\ _electionCtr = 7", 1))  # fmt: skip
    found = rows_of(path)
    (trace,) = found.traces
    assert trace["verdict"] == "diverges"
    assert trace["diverged_step"] in (3, 4)
    assert len(found.steps) == trace["diverged_step"]
    assert found.errors == []


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "expected a trace"),
        (b"State 1: <Initial predicate>\n/\\ x = [", "expected"),
        (b"\x1f\x8b\x08broken", "gzip"),
        (b"\xff\xfe\x00", "expected"),
    ],
)
def test_a_broken_file_is_a_row(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "broken.out"
    path.write_bytes(content)
    found = rows_of(path)
    assert [trace["verdict"] for trace in found.traces] == ["unreadable"]
    (error,) = found.errors
    assert message in error["message"]
    assert str(path) not in error["message"]


def test_whatever_a_file_does_the_next_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    found = reporter()
    path = str(TLC / "counterexamples" / "joined.out.gz")

    def broken(*_: object, **__: object) -> None:
        raise RecursionError("too deep")

    with monkeypatch.context() as patch:
        patch.setattr("kraftcheck.traces.replay.replayer.stream_traces", broken)
        (rows,) = found.rows(path)
    assert [error["message"] for error in rows.errors] == ["RecursionError: too deep"]
    (rows,) = found.rows(path)
    assert [trace["verdict"] for trace in rows.traces] == ["conforms"]


def test_a_long_trace_is_handed_on_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kraftcheck.traces.pipeline.rows.STEPS_A_CHUNK", 10)
    corpus(tmp_path / "in", 1, 0, 0)
    protocol = TwoPhaseCommit(resource_managers=frozenset(ModelValue(f"rm{n}", n) for n in range(1, 6)))
    parts = list(FileReplayer(protocol, "Init", None, DEFAULT_LIMIT_BYTES).rows(str(tmp_path / "in" / "walk_0.tla")))
    assert [len(part.steps) for part in parts] == [10, 10, 10, 0]
    assert [step["step"] for part in parts for step in part.steps] == list(range(sum(len(p.steps) for p in parts)))
    (trace,) = [trace for part in parts for trace in part.traces]
    assert (trace["verdict"], trace["steps"] + 1) == ("conforms", sum(len(part.steps) for part in parts))


def test_what_a_step_changes_is_named() -> None:
    protocol = LockService(clients=frozenset({ModelValue("c1", 1), ModelValue("c2", 2)}), losses=1)
    semantics = Semantics(protocol)
    (start,) = semantics.initial()
    named = {
        transition.action: set(changed_state_part_names(start, transition.target))
        for transition in semantics.transitions(start)
    }
    assert named
    for names in named.values():
        assert any("." in name for name in names)
        assert any(name.startswith("messages to ") for name in names)
    assert list(changed_state_part_names(start, start)) == []


def test_what_changes_does_not_depend_on_the_way_to_a_state() -> None:
    """Equal states may have maps whose keys are in another order."""
    protocol = LockService(clients=frozenset({ModelValue("c1", 1), ModelValue("c2", 2)}), losses=1)
    semantics = Semantics(protocol)
    (start,) = semantics.initial()
    for step in semantics.transitions(start):
        for after in (other.target for other in semantics.transitions(step.target)):
            turned = [
                state.but(**{name: Map(reversed(getattr(state, name).items())) for name in ("replicas", "inboxes")})
                for state in (start, after)
            ]
            assert turned == [start, after]
            assert list(changed_state_part_names(*turned)) == list(changed_state_part_names(start, after))


def test_the_task_of_an_executor(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    from kraftcheck.traces.pipeline.tables import replay_files_to_rows

    (tmp_path / "broken").write_text("")
    paths = [str(TLC / "counterexamples" / "joined.out.gz"), str(tmp_path / "broken")]
    description = to_spec(bound("counterexamples/joined", MCReconfig).protocol, SearchRequest())
    arguments = {"description": description, "symmetry": None, "limit_bytes": DEFAULT_LIMIT_BYTES, "user_files": "none"}
    batches = replay_files_to_rows(arguments, iter([pa.RecordBatch.from_pydict({"path": paths})]))
    found = pa.Table.from_batches(batches).to_pylist()
    steps, traces, errors = ([row for row in found if row["record"] == name] for name in ("steps", "traces", "errors"))
    expected = rows_of(TLC / "counterexamples" / "joined.out.gz")
    assert [{name: row[name] for name in expected.steps[0]} for row in steps] == expected.steps
    assert [(row["file"], row["verdict"]) for row in traces] == [(paths[0], "conforms"), (paths[1], "unreadable")]
    assert [(row["file"], row["line"]) for row in errors] == [(paths[1], 1)]


# The folder


def test_inputs_are_files_folders_and_patterns(tmp_path: Path) -> None:
    (tmp_path / "in" / "deep").mkdir(parents=True)
    for name in ("a.out", "deep/b.out", ".hidden"):
        (tmp_path / "in" / name).write_text(name)
    found = find_input_files([str(tmp_path / "in")], tmp_path / "out")
    assert [Path(file.path).name for file in found] == ["a.out", "b.out"]
    assert (
        find_input_files([str(tmp_path / "in" / "**" / "*.out"), str(tmp_path / "in" / "a.out")], tmp_path / "o")
        == found
    )
    assert [Path(file.path).name for file in find_input_files([str(tmp_path / "in")], tmp_path / "in" / "deep")] == [
        "a.out"
    ]
    with pytest.raises(InputError, match=r"none\.out: no files; give a file, a folder, or a glob pattern"):
        find_input_files([str(tmp_path / "none.out")], tmp_path / "out")


def test_inputs_are_the_files_that_links_lead_to(tmp_path: Path) -> None:
    """A link in a folder is resolved, and a folder is not entered through one."""
    place, other = tmp_path / "in", tmp_path / "other"
    (place / "deep").mkdir(parents=True)
    (other / "runs").mkdir(parents=True)
    for path in (place / "a.out", place / "deep" / "b.out", other / "c.out", other / "runs" / "d.out"):
        path.write_text(path.name)
    (place / "deep" / "linked.out").symlink_to("../../other/c.out")
    (place / "again.out").symlink_to("a.out")
    (place / "runs").symlink_to(other / "runs")
    (place / "gone.out").symlink_to("none")
    (place / "through.out").symlink_to("a.out/none")
    (place / "loop.out").symlink_to("loop.out")
    os.mkfifo(place / "pipe.out")
    (tmp_path / "short").symlink_to(place)
    (tmp_path / "out").symlink_to(other)
    names = [str(tmp_path / "short"), str(place / "runs" / "*.out"), str(place / "deep" / ".." / "again.out")]
    found = find_input_files(names, tmp_path / "none")
    expected = [place / "a.out", place / "deep" / "b.out", other / "c.out", other / "runs" / "d.out"]
    errors = [str(place / f"{name}.out") for name in ("gone", "loop", "pipe", "through")]
    assert [file.path for file in found] == sorted([*map(os.path.realpath, expected), *errors])
    assert [file.size for file in found if file.path not in errors] == [5, 5, 5, 5]
    within = [Path(file.path).name for file in find_input_files(names, tmp_path / "out") if file.path not in errors]
    assert within == ["a.out", "b.out"]
    assert [file.path for file in find_input_files([str(place / "*.out")], tmp_path / "none")][1:] == errors


@pytest.mark.slow
def test_a_link_to_no_file_and_a_pipe_are_errors_until_they_are_mended(tmp_path: Path) -> None:
    corpus(tmp_path / "in", 2, 0, 0)
    link = tmp_path / "in" / "link.tla"
    link.symlink_to(tmp_path / "late.tla")
    os.mkfifo(tmp_path / "in" / "pipe.tla")
    words = (tmp_path / "in", tmp_path / "out", "--workers", "1")
    for _ in range(2):
        code, summary = pipeline(*words)
        assert (code, summary["files"], summary["conforms"], summary["unreadable"]) == (1, 4, 2, 2)
    found = {Path(row["file"]).name: row["message"] for row in tables(tmp_path / "out")["errors"]}
    assert "No such file or directory" in found["link.tla"]
    assert "a pipe or a device" in found["pipe.tla"]
    assert main(["replay", "two-phase-commit", str(link), "--parquet", str(tmp_path / "alone")]) == 2
    assert [row["file"] for row in tables(tmp_path / "alone")["errors"]] == [str(link)]
    (tmp_path / "late.tla").write_bytes(next((tmp_path / "in").glob("walk*.tla")).read_bytes())
    (tmp_path / "in" / "pipe.tla").unlink()
    code, summary = pipeline(*words)
    assert (code, summary["files"], summary["new_files"], summary["conforms"], summary["errors"]) == (0, 3, 1, 3, 0)


@pytest.mark.slow
def test_a_name_that_is_not_utf_8_is_escaped(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    corpus(tmp_path / "in", 2, 0, 0)
    bad = tmp_path / "in" / os.fsdecode(b"bad\xff.tla")
    next((tmp_path / "in").glob("walk*.tla")).rename(bad)
    escaped = str(tmp_path / "in" / "bad\\udcff.tla")
    words = (tmp_path / "in", tmp_path / "out", "--workers", "1")
    for content, conforms in ((bad.read_bytes(), 2), (b"", 1)):
        bad.write_bytes(content)
        _, summary = pipeline(*words)
        assert (summary["files"], summary["conforms"]) == (2, conforms)
    found = tables(tmp_path / "out")
    assert [row["file"] for row in found["errors"]] == [escaped]
    assert [row["verdict"] for row in found["traces"] if row["file"] == escaped] == ["conforms", "unreadable"]
    assert main(["replay", "two-phase-commit", str(bad), "--parquet", str(tmp_path / "alone")]) == 2
    assert [row["file"] for row in tables(tmp_path / "alone")["errors"]] == [escaped]
    capsys.readouterr()
    out = tmp_path / os.fsdecode(b"d\xff") / "out"
    for words in (["pipeline", str(bad), "--model", "two-phase-commit", "--workers", "1", "--out", str(out)],
                  ["replay", "two-phase-commit", str(bad), "--parquet", str(out)]):  # fmt: skip
        assert main(words) == 2
        assert "d\\udcff/out: expected a path in UTF-8" in capsys.readouterr().err
    assert not out.parent.exists()


def test_a_file_takes_little_memory_of_the_driver(tmp_path: Path) -> None:
    """The driver needs 310 bytes for each file, 100 of them for the path; `Path` objects would double that."""
    (tmp_path / "in").mkdir()
    for number in range(1000):
        (tmp_path / "in" / f"walk_{number}.tla").touch()
    tracemalloc.start()
    try:
        inputs = find_input_files([str(tmp_path / "in")], tmp_path / "out")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(inputs) == 1000
    assert peak < 450 * len(inputs)


def test_the_folder_keeps_what_is_done_and_forgets_the_rest(tmp_path: Path) -> None:
    identity = {"model": "m", "constants": {"N": ["1", "01"]}}
    file = InputFile("/a", 1, 2)
    with PipelineFolder(tmp_path / "out", identity) as output:
        assert (output.done(), output.next_batch()) == (set(), 1)
        output.claim()
        for table in ("traces", "steps", "errors"):
            Path(output.staging(table)).mkdir(parents=True)
        output.accept(1, [file], 0.5)
        with pytest.raises(InputError, match=r"in use by another run \(process \d+\)"):
            PipelineFolder(tmp_path / "out", identity)
    (tmp_path / "out" / "traces" / "batch=00002").mkdir()
    (tmp_path / "out" / "staging" / "raw").mkdir(parents=True)
    with PipelineFolder(tmp_path / "out", identity) as output:
        assert (output.done(), output.next_batch()) == ({file}, 2)
    assert not (tmp_path / "out" / "traces" / "batch=00002").exists()
    assert not (tmp_path / "out" / "staging").exists()
    assert (tmp_path / "out" / "traces" / "batch=00001").exists()
    problem = r"it belongs to another run \(choose another folder\): the constant N: 1 there, now 2"
    with pytest.raises(InputError, match=problem):
        PipelineFolder(tmp_path / "out", {"model": "m", "constants": {"N": ["2", "02"]}})
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "letter").write_text("")
    with pytest.raises(InputError, match="not a folder of an earlier run: it holds letter; give a new folder"):
        PipelineFolder(tmp_path / "other", identity)


# Without Spark


JOINED = str(TLC / "counterexamples" / "joined.out.gz")
WITH = ("--config", str(TLC / "counterexamples" / "joined.cfg"))


def test_tables_of_a_replay_and_a_corpus_with_nothing_new(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    broken = tmp_path / "broken.out"
    broken.write_text("State 1: <Initial predicate>\n/\\ x = [")
    out = str(tmp_path / "out")
    assert main(["replay", "reconfig", JOINED, str(broken), JOINED, *WITH, "--parquet", out, "--quiet"]) == 1
    found = tables(tmp_path / "out")
    expected = rows_of(Path(JOINED))
    assert [{**row, "file": None} for row in found["steps"]] == [{**row, "file": None} for row in expected.steps]
    assert [(Path(row["file"]).name, row["verdict"]) for row in found["traces"]] == [
        ("joined.out.gz", "conforms"),
        ("broken.out", "unreadable"),
    ]
    assert [row["line"] for row in found["errors"]] == [2]
    totals = {row["action"]: row["times"] for row in found["coverage"] if row["file"] is None}
    taken = Counter(row["action"] for row in expected.steps if row["action"])
    assert {name: times for name, times in totals.items() if times} == taken
    assert main(["replay", "reconfig", JOINED, *WITH, "--parquet", out, "--quiet"]) == 0
    assert main(["replay", "reconfig", JOINED, str(tmp_path / "gone"), *WITH, "--parquet", out, "--quiet"]) == 1
    assert len(tables(tmp_path / "out")["traces"]) == 2
    capsys.readouterr()

    def no_jvm(*_: object, **__: object) -> None:
        raise AssertionError("a JVM is started")

    monkeypatch.setattr("kraftcheck.explorer.spark_cluster.SparkApplication.__init__", no_jvm)
    words = ["pipeline", JOINED, str(broken), "--model", "reconfig", "--out", out, *WITH]
    assert main(words) == 1
    printed = capsys.readouterr().out
    assert "unreadable: " in printed
    assert "2 traces: 1 conform, 1 cannot be read; " in printed
    assert printed.endswith("1 errors; 0 of 2 files are new\n")
    with pytest.raises(AssertionError, match="a JVM is started"):
        main([*words[:2], str(TLC / "counterexamples" / "joined.json.gz"), *words[3:]])


def test_parquet_needs_pyarrow(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("kraftcheck.commands.replay.find_spec", lambda name: None)
    assert main(["replay", "reconfig", JOINED, *WITH, "--parquet", str(tmp_path / "out")]) == 2
    assert "--parquet needs the package pyarrow: pip install 'kraftcheck[parquet]'" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_what_a_process_says_goes_to_a_file(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with redirect_stderr_into(tmp_path / "said"):
        later = subprocess.Popen(["sh", "-c", "echo now >&2; read x; echo later >&2"], stdin=subprocess.PIPE)
    sys.stderr.write("ours\n")
    later.communicate(b"\n")
    assert (tmp_path / "said").read_text() == "now\nlater\n"
    assert capfd.readouterr().err == "ours\n"


# By worker processes


@pytest.mark.slow
def test_a_file_counts_as_it_was_last_replayed(tmp_path: Path) -> None:
    """A file that is touched, made wrong, mended or removed is counted once."""
    corpus(tmp_path / "in", 4, 0, 0)
    chosen = tmp_path / "in" / "walk_1.tla"
    right = chosen.read_text()

    def counts() -> tuple[int, int, int, int]:
        code, found = pipeline(tmp_path / "in", tmp_path / "out", "--workers", "2")
        return code, found["conforms"], found["diverges"], found["new_files"]

    assert counts() == (0, 4, 0, 4)
    os.utime(chosen, (1, 1))
    assert counts() == (0, 4, 0, 1)
    tamper(chosen)
    assert counts() == (1, 3, 1, 1)
    chosen.write_text(right)
    assert counts() == (0, 4, 0, 1)
    chosen.unlink()
    assert counts() == (0, 3, 0, 0)
    assert len(tables(tmp_path / "out")["traces"]) == 7


@pytest.mark.slow
def test_worker_processes_write_the_tables_of_replay(tmp_path: Path) -> None:
    broken, tampered = corpus(tmp_path / "in", 30, 3, 4)
    code, summary = pipeline(tmp_path / "in", tmp_path / "out", "--workers", "2", "--label", "commit=abc")
    assert (code, summary["unreadable"], summary["diverges"]) == (1, 3, 4)
    words = ["replay", "two-phase-commit", *map(str, sorted((tmp_path / "in").glob("*.tla*"))), "--quiet"]
    assert main([*words, "--parquet", str(tmp_path / "alone")]) == 1
    found, alone = tables(tmp_path / "out"), tables(tmp_path / "alone")
    assert {row.pop("label") for row in found["traces"]} == {"commit=abc"}
    assert {row.pop("label") for row in alone["traces"]} == {None}
    for name, rows in found.items():
        assert sorted(map(_lasting, rows)) == sorted(map(_lasting, alone[name])), name
    wrong = [row for row in found["traces"] if row["verdict"] == "diverges"]
    assert {Path(row["file"]).name for row in wrong} == tampered
    assert all(row["kind"] == "step" and row["action"] and row["differs"] for row in wrong)
    assert {Path(row["file"]).name for row in found["errors"]} == broken


def test_the_guard_of_a_divergence_has_columns_of_its_own(tmp_path: Path) -> None:
    corpus(tmp_path / "in", 1, 0, 0)
    path = tmp_path / "in" / "walk_0.tla"
    path.write_text(re.sub(r"<(?!Initial)\w+>", "<Commit>", path.read_text(), count=1))
    pipeline(tmp_path / "in", tmp_path / "out", "--workers", "1")
    (row,) = tables(tmp_path / "out")["traces"]
    assert (row["verdict"], row["action"], row["guard_file"]) == ("diverges", "Commit", "two_phase_commit/__init__.py")
    assert row["guard_line"] > 1
    assert "prepared" in row["guard"]


@pytest.mark.slow
def test_the_queries_of_the_page(tmp_path: Path) -> None:
    duckdb = pytest.importorskip("duckdb")
    corpus(tmp_path / "in", 3, 0, 0, "smoke")
    path = tmp_path / "in" / "walk_0.tla"
    alone = ("--workers", "1", "--config", "smoke")
    right = path.read_text()
    path.write_text(re.sub(r"<(?!Initial)\w+>", "<Commit>", right, count=1))
    pipeline(tmp_path / "in", tmp_path / "out", *alone, "--label", "one")
    page = PAGE.replace("DIR/", f"{tmp_path}/out/")
    page = page.replace("BEFORE/", f"{tmp_path}/before/")
    view, guards, slowest, actions, changes, seen, coverage = re.findall(r"```sql\n(.*?)```", page, re.S)
    duckdb.sql(view)
    ((label, file, line, guard, times),) = duckdb.sql(guards).fetchall()
    assert (label, file, times) == ("one", "two_phase_commit/__init__.py", 1)
    assert line > 1
    assert "prepared" in guard
    assert len(duckdb.sql(slowest).fetchall()) == 3
    path.write_text(right)
    shutil.copytree(tmp_path / "out", tmp_path / "before")
    _, summary = pipeline(tmp_path / "in", tmp_path / "out", *alone, "--label", "two")
    assert duckdb.sql(guards).fetchall() == []
    assert len(duckdb.sql(slowest).fetchall()) == 3
    assert duckdb.sql(changes).fetchall() == [(str(path), 0, "diverges", "conforms")]
    taken = duckdb.sql(actions).fetchall()
    assert {label for label, *_ in taken} == {"one", "two"}
    assert sum(times for *_, times in taken) == summary["steps"]
    model = [
        "check",
        "two-phase-commit",
        "--config",
        "smoke",
        "--graph",
        str(tmp_path / "out" / "model.parquet"),
        "--quiet",
    ]
    assert main(model) == 0
    duckdb.sql(seen)
    ((states, of_states, steps, of_steps),) = duckdb.sql(coverage).fetchall()
    assert (states, of_states) == (summary["distinct_states"], 288)
    pipeline(tmp_path / "in", tmp_path / "again", *alone)
    rows = sorted(tables(tmp_path / "again")["steps"], key=lambda row: (row["file"], row["step"]))
    assert steps == len({(a["state"], b["action"], b["state"]) for a, b in pairwise(rows) if b["action"]})
    assert of_steps > steps


@pytest.mark.slow
def test_a_table_of_the_model_has_its_steps(tmp_path: Path) -> None:
    pq = pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "model.parquet"
    assert main(["check", "two-phase-commit", "--config", "smoke", "--graph", str(path), "--quiet"]) == 0
    semantics = Semantics(TwoPhaseCommit(resource_managers=frozenset(ModelValue(f"rm{n}", n) for n in range(1, 4))))
    waiting = list(semantics.initial())
    expected = [(None, None, None, state_hash(state)) for state in waiting]
    known = set(waiting)
    while waiting:
        state = waiting.pop()
        for step in semantics.transitions(state):
            actor = None if step.actor is None else str(step.actor)
            expected.append((state_hash(state), step.action, actor, state_hash(step.target)))
            waiting += [step.target] if step.target not in known else []
            known.add(step.target)
    found = [
        tuple(row[name] for name in ("source", "action", "actor", "target")) for row in pq.read_table(path).to_pylist()
    ]
    assert Counter(found) == Counter(expected)
    assert len(known) == 288


def test_a_table_of_the_model_needs_states_as_in_traces(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["check", "lock-service", "--graph", str(tmp_path / "model.parquet"), "--symmetry"]
    assert main(words) == 2
    assert "states under SYMMETRY or a VIEW are not those of traces" in capsys.readouterr().err


@pytest.mark.slow
def test_rows_that_are_lost_or_damaged_are_noticed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    corpus(tmp_path / "in", 3, 0, 0)
    assert pipeline(tmp_path / "in", tmp_path / "out", "--workers", "1")[0] == 0
    words = ["pipeline", str(tmp_path / "in"), "--out", str(tmp_path / "out"), "--model", "two-phase-commit"]
    part = next((tmp_path / "out" / "steps" / "batch=00001").glob("*.parquet"))
    data = part.read_bytes()
    part.write_bytes(data[:40] + bytes(len(data) - 80) + data[-40:])
    assert main([*words, "--verify"]) == 2
    note = f"remove {tmp_path}/out/done/00001.json to replay the files of the batch"
    assert note in capsys.readouterr().err
    shutil.rmtree(part.parent)
    assert main(words) == 2
    printed = capsys.readouterr().err
    assert "steps, batch 1: expected " in printed
    assert note in printed
    (tmp_path / "out" / "done" / "00001.json").unlink()
    assert pipeline(tmp_path / "in", tmp_path / "out", "--workers", "1")[0] == 0


def test_verify_reads_the_rows_and_not_the_footer_alone(tmp_path: Path) -> None:
    pq = pytest.importorskip("pyarrow.parquet")
    corpus(tmp_path / "in", 3, 0, 0)
    assert pipeline(tmp_path / "in", tmp_path / "out", "--workers", "1")[0] == 0
    words = ["pipeline", str(tmp_path / "in"), "--out", str(tmp_path / "out"), "--model", "two-phase-commit"]
    part = next((tmp_path / "out" / "steps" / "batch=00001").glob("*.parquet"))
    column = pq.read_metadata(part).row_group(0).column(0)
    data, start = part.read_bytes(), column.dictionary_page_offset or column.data_page_offset
    size = column.total_compressed_size
    part.write_bytes(data[:start] + b"\xff" * size + data[start + size :])
    assert main(words) == 0
    assert main([*words, "--verify"]) == 2


@pytest.mark.slow
def test_a_start_that_fails_leaves_the_folder_free(tmp_path: Path) -> None:
    corpus(tmp_path / "in", 2, 0, 0)
    words = ["pipeline", str(tmp_path / "in"), "--out", str(tmp_path / "out"), "--quiet", "--model"]
    assert main([*words, "lock-service", "--master", "databricks"]) == 2
    assert main([*words, "two-phase-commit", "--workers", "1"]) == 0
    assert main([*words, "lock-service", "--workers", "1"]) == 2


@pytest.mark.parametrize("name", ["s3a://bucket/data", "hdfs:/data", "file:///tmp/data"])
def test_a_uri_is_refused(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", "lock-service", "--out", name, "--quiet"]) == 2
    assert main(["replay", "lock-service", str(tmp_path), "--parquet", name, "--quiet"]) == 2
    assert capsys.readouterr().err.count("expected a path in the file system of this machine, found a URI") == 2


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["s3a://b/in", "--out", "out"], "out: expected a URI, as another argument is one; write file:///"),
        (["in", "--out", "s3a://b/out"], "in: expected a URI, as another argument is one; write file:///"),
        (["s3a://b/in", "--out", "s3a://b/out", "--follow"], "--follow: expected paths of this machine, found a URI"),
        (["s3a://b/in", "--out", "s3a://b/out", "--workers", "2"], "--workers: expected paths of this machine, found"),
        (["in", "--out", "out", "--table-format", "delta"], "--table-format: expected a URI in --out, found out"),
    ],
)
def test_uris_and_paths_are_not_mixed(words: list[str], problem: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["pipeline", *words, "--model", "lock-service"]) == 2
    assert problem in capsys.readouterr().err


@pytest.mark.slow
def test_a_trace_that_takes_too_long_is_an_error_of_its_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    corpus(tmp_path / "in", 3, 0, 0)
    slow = tmp_path / "in" / "walk_0.tla"
    keep = Replayer.replay_in_parts

    def replay(self: Replayer, path: str, states: int) -> Any:
        if path == str(slow):
            time.sleep(60)
        yield from keep(self, path, states)

    monkeypatch.setattr(Replayer, "replay_in_parts", replay)
    code, summary = pipeline(tmp_path / "in", tmp_path / "out", "--workers", "1", "--trace-time", "1")
    assert (code, summary["conforms"], summary["errors"]) == (1, 2, 1)
    found = tables(tmp_path / "out")
    (row,) = found["errors"]
    assert row["file"] == str(slow)
    assert row["message"].startswith("a trace took more than 1 s")
    assert {Path(row["file"]).name for row in found["steps"]} == {"walk_1.tla", "walk_2.tla"}


@pytest.mark.slow
@pytest.mark.parametrize("limit", [None, "8M"])
def test_a_trace_that_takes_too_much_memory_is_an_error_of_its_file(tmp_path: Path, limit: str | None) -> None:
    """Without the limit it is unreadable; the other traces conform in either case."""
    corpus(tmp_path / "in", 3, 0, 0)
    (tmp_path / "in" / "large.json").write_text(f'{{"states": [{"1," * 4_000_000}1]}}')
    words = ["--trace-memory", limit] if limit else []
    # In a process of its own: memory that this one has freed would not count.
    command = [sys.executable, "-m", "kraftcheck", "pipeline", str(tmp_path / "in"), "--out", str(tmp_path / "out")]
    command += ["--model", "two-phase-commit", "--json", str(tmp_path / "found.json"), "--workers", "1", *words]
    subprocess.run(command, check=False, timeout=120)
    summary = json.loads((tmp_path / "found.json").read_text())
    assert (summary["conforms"], summary["errors"]) == (3, 1)
    (error,) = tables(tmp_path / "out")["errors"]
    took_more = error["message"].startswith("a trace took more than 8,388,608 bytes of memory, the limit of --trace-")
    assert took_more == bool(limit), error


@pytest.mark.slow
def test_a_killed_worker_ends_the_run_with_code_3(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    corpus(tmp_path / "in", 3, 0, 0)
    with monkeypatch.context() as patch:
        patch.setattr(Replayer, "replay_in_parts", lambda *_: os.kill(os.getpid(), signal.SIGKILL))
        assert pipeline_code(tmp_path, "--workers", "2") == 3
    assert "batch 1: a worker process was killed, or ran out of memory" in capsys.readouterr().err
    assert pipeline_code(tmp_path, "--workers", "2") == 0


@pytest.mark.slow
def test_a_worker_looks_for_cycles_as_often_as_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A command does so rarely, and memos that a worker drops would stay in memory."""
    corpus(tmp_path / "in", 1, 0, 0)
    rare, keep, frozen = (50_000, 20, 10), Replayer.replay_in_parts, gc.get_freeze_count()

    def replay(self: Replayer, path: str, states: int) -> Any:
        assert gc.get_threshold() != rare
        assert gc.get_freeze_count() > frozen  # what it inherits is not looked at
        return keep(self, path, states)

    monkeypatch.setattr(Replayer, "replay_in_parts", replay)
    before = gc.get_threshold()
    gc.set_threshold(*rare)
    try:
        assert pipeline_code(tmp_path, "--workers", "1") == 0
    finally:
        gc.set_threshold(*before)


@pytest.mark.slow
def test_a_killed_worker_leaves_none_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker that was killed may hold a lock for which another one waits, whatever signal ends it otherwise."""
    corpus(tmp_path / "in", 2, 0, 0)

    def replay(_: Replayer, path: str, *__: object) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        if Path(path).name == "walk_1.tla":
            time.sleep(1)
            os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(60)

    monkeypatch.setattr(Replayer, "replay_in_parts", replay)
    began = time.monotonic()
    assert pipeline_code(tmp_path, "--workers", "2") == 3
    assert time.monotonic() - began < 40, "it waited for the other worker"


# As files arrive


def follower(folder: Path) -> subprocess.Popen[bytes]:
    words = [sys.executable, "-m", "kraftcheck", "pipeline", str(folder / "in"), "--out", str(folder / "out")]
    more = ["--model", "two-phase-commit", "--workers", "2", "--quiet", "--follow"]
    return subprocess.Popen([*words, *more], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def wait_for(folder: Path, files: int) -> None:
    """Wait until finished batches have a number of files."""
    until = time.monotonic() + 120
    while time.monotonic() < until:
        notes = [json.loads(path.read_text()) for path in (folder / "out" / "done").glob("*.json")]
        if sum(len(note["files"]) for note in notes) >= files:
            return
        time.sleep(0.1)
    raise AssertionError(f"{files} files are not replayed")


@pytest.mark.slow
def test_a_worker_that_is_killed_while_no_file_arrives_ends_the_command(tmp_path: Path) -> None:
    corpus(tmp_path / "in", 2, 0, 0)
    following = follower(tmp_path)
    wait_for(tmp_path, 2)
    time.sleep(1)
    worker, *_ = Path(f"/proc/{following.pid}/task/{following.pid}/children").read_text().split()
    os.kill(int(worker), signal.SIGKILL)
    try:
        _, said = following.communicate(timeout=60)
    finally:
        following.kill()
    assert (following.returncode, said.count(b"\n")) == (3, 1), said
    assert b"a worker process was killed" in said


def test_an_interruption_within_the_summary_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else `--follow` would go on."""
    from kraftcheck.traces.pipeline.tables import PoolRunner

    corpus(tmp_path / "in", 1, 0, 0)
    summarise = PoolRunner.summary

    def interrupted(self: PoolRunner, new_files: int) -> Any:
        os.kill(os.getpid(), signal.SIGINT)
        return summarise(self, new_files)

    with monkeypatch.context() as patch:
        patch.setattr(PoolRunner, "summary", interrupted)
        assert pipeline_code(tmp_path, "--workers", "1") == 130
    assert pipeline(tmp_path / "in", tmp_path / "out", "--workers", "1")[1]["new_files"] == 0


def _handler_of(number: signal.Signals) -> str:
    return str(signal.getsignal(number))


def test_workers_end_at_sigterm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They inherit the handler of the command, which asks a search to stop."""
    from kraftcheck.traces.pipeline.tables import PoolRunner

    corpus(tmp_path / "in", 1, 0, 0)
    write, found = PoolRunner.write, list[str]()

    def asking(self: PoolRunner, batch: int, files: list[InputFile]) -> None:
        write(self, batch, files)
        assert self._pool is not None
        found.extend(self._pool.submit(_handler_of, one).result() for one in (signal.SIGTERM, signal.SIGINT))

    with monkeypatch.context() as patch:
        patch.setattr(PoolRunner, "write", asking)
        assert pipeline_code(tmp_path, "--workers", "1") == 0
    assert found == [str(signal.SIG_DFL), str(signal.SIG_IGN)]


@pytest.mark.slow
def test_arriving_files_are_counted_once_however_the_command_ends(tmp_path: Path) -> None:
    """Files arrive, one in two halves, while the command is ended by signals and started again."""
    corpus(tmp_path / "all", 24, 2, 2)
    files = sorted((tmp_path / "all").glob("*.tla"))
    (tmp_path / "in").mkdir()
    random = Random(3)
    for number, signal_number in enumerate((signal.SIGTERM, signal.SIGKILL, signal.SIGINT)):
        following = follower(tmp_path)
        for path in files[number * 8 : number * 8 + 8]:
            shutil.copy(path, tmp_path / "in" / path.name)
        whole = (tmp_path / "in" / path.name).read_bytes()
        (tmp_path / "in" / path.name).write_bytes(whole[: len(whole) // 2])
        wait_for(tmp_path, number * 8 + 1)
        time.sleep(random.uniform(0, 4))
        (tmp_path / "in" / path.name).write_bytes(whole)
        following.send_signal(signal_number)
        _, said = following.communicate(timeout=60)
        assert following.returncode == (-9 if signal_number == signal.SIGKILL else 130), said
    following = follower(tmp_path)
    wait_for(tmp_path, 24)
    following.send_signal(signal.SIGTERM)
    _, said = following.communicate(timeout=60)
    assert following.returncode == 130, said
    code, counted = pipeline(tmp_path / "in", tmp_path / "out", "--workers", "2")
    alone_code, alone = pipeline(tmp_path / "all", tmp_path / "alone", "--workers", "2")
    assert (code, {**counted, "new_files": 24}) == (alone_code, alone) == (1, alone)
    assert (counted["conforms"], counted["diverges"], counted["unreadable"]) == (20, 2, 2)


def test_only_a_folder_can_be_followed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["pipeline", str(tmp_path / "no"), "--out", str(tmp_path / "out"), "--model", "lock-service", "--follow"]
    assert main(words) == 2
    assert "--follow: expected a folder, found " in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_a_file_arrives_once_it_stays_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kraftcheck.traces.pipeline.driver.POLL_SECONDS", 0.0)
    path = tmp_path / "in" / "a.tla"
    path.parent.mkdir()
    rounds = poll_unchanged_input_files([str(path.parent)], tmp_path / "out")
    assert next(rounds) == []
    path.write_text("half")
    assert next(rounds) == []
    path.write_text("the whole")
    assert next(rounds) == []
    assert [file.size for file in next(rounds)] == [9]
    path.unlink()
    assert next(rounds) == []


def pipeline_code(folder: Path, *more: str) -> int:
    return main(["pipeline", str(folder / "in"), "--out", str(folder / "out"), "--model", "two-phase-commit", *more])


# On Spark


def pipeline(source: Path, out: Path, *more: str) -> tuple[int, dict[str, Any]]:
    report = out.with_suffix(".json")
    code = main(
        ["pipeline", str(source), "--out", str(out), "--model", "two-phase-commit", "--json", str(report), "--quiet",
         *more]
    )  # fmt: skip
    return code, json.loads(report.read_text())


@pytest.mark.spark
@pytest.mark.slow
def test_a_corpus_with_broken_and_tampered_files(tmp_path: Path) -> None:
    broken, tampered = corpus(tmp_path / "in", 60, 6, 5)
    code, summary = pipeline(tmp_path / "in", tmp_path / "out", "--master", "local[2]")
    assert code == 1
    found = tables(tmp_path / "out")
    assert {Path(row["file"]).name for row in found["errors"]} == broken
    assert len(found["errors"]) == len(broken)
    assert all(row["message"] for row in found["errors"])
    verdicts = {Path(row["file"]).name: row["verdict"] for row in found["traces"]}
    assert {name for name, verdict in verdicts.items() if verdict == "diverges"} == tampered
    assert Counter(verdicts.values()) == {"conforms": 49, "diverges": 5, "unreadable": 6}
    assert (summary["conforms"], summary["diverges"], summary["unreadable"]) == (49, 5, 6)
    taken = Counter(row["action"] for row in found["steps"] if row["action"] is not None)
    totals = {row["action"]: row["times"] for row in found["coverage"] if row["file"] is None}
    assert {name: times for name, times in totals.items() if times} == taken
    assert totals == summary["actions"]
    assert summary["steps"] == sum(taken.values())
    assert summary["distinct_states"] == len({row["state"] for row in found["steps"]})
    # the same tables without Spark
    words = ["replay", "two-phase-commit", *map(str, sorted((tmp_path / "in").iterdir())), "--quiet"]
    assert main([*words, "--parquet", str(tmp_path / "alone")]) == 1
    alone = tables(tmp_path / "alone")
    for name, rows in found.items():
        assert sorted(map(_lasting, rows)) == sorted(map(_lasting, alone[name])), name
    assert pipeline(tmp_path / "in", tmp_path / "alone") == (1, {**summary, "new_files": 0})
    # a second run: new and changed files alone
    mended, *others = (tmp_path / "in" / name for name in sorted(tampered))
    path = next(path for path in (tmp_path / "in").glob("*.tla") if verdicts[path.name] == "conforms")
    shutil.copy(path, mended)
    os.utime(others[0], (1, 1))
    others[1].unlink()
    shutil.copy(path, tmp_path / "in" / f"new_{path.name}")
    code, again = pipeline(tmp_path / "in", tmp_path / "out", "--master", "local[2]")
    assert (again["new_files"], again["files"], again["traces"]) == (3, 60, 60)
    assert (again["conforms"], again["diverges"], again["unreadable"]) == (51, 3, 6)
    assert len(tables(tmp_path / "out")["traces"]) == 63


def _lasting(row: dict[str, Any]) -> list[str]:
    return [f"{name}: {value}" for name, value in sorted(row.items()) if name != "seconds"]


SMALL_SPARK = ("--master", "local[1]", "--conf", "spark.ui.enabled=false")


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.parametrize("file_system", ["hdfs://127.0.0.1:1", "none://x"])
def test_paths_are_local_whatever_the_default_file_system_is(tmp_path: Path, file_system: str) -> None:
    folder = tmp_path / "with space, 100%25"
    folder.mkdir()
    corpus(folder / "in", 5, 1, 1)
    set_to = ("--conf", f"spark.hadoop.fs.defaultFS={file_system}")
    code, summary = pipeline(folder / "in", folder / "out", *SMALL_SPARK, *set_to)
    assert (code, summary["conforms"], summary["diverges"], summary["unreadable"]) == (1, 3, 1, 1)
    assert len(tables(folder / "out")["traces"]) == 5
    assert [path.name for path in tmp_path.iterdir()] == [folder.name]


@pytest.fixture
def session() -> Iterator[Any]:
    """A session of Spark that several commands share."""
    from pyspark.sql import SparkSession

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    settings = {
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.ui.showConsoleProgress": "false",
    }
    found = SparkSession.builder.master("local[1]").config(map=settings).getOrCreate()
    yield found
    found.stop()


@pytest.mark.spark
@pytest.mark.slow
def test_tables_at_a_uri_have_each_file_once(
    session: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Files are touched, made wrong, mended and removed, and runs end before a batch counts."""
    folder = tmp_path / "with space, 100%25 [1]"
    folder.mkdir()
    broken, (wrong,) = corpus(folder / "in", 6, 1, 1)
    (folder / "in" / "empty 100%25.tla").touch()  # Spark's readers skip it
    broken.add("empty 100%25.tla")
    source = "file://" + str(folder / "in").replace("[", r"\[")
    words = [source, "--out", f"file://{folder}/out", "--model", "two-phase-commit", "--quiet"]
    report = tmp_path / "report.json"

    def run(*more: str) -> tuple[Any, ...]:
        code = main(["pipeline", *words, "--json", str(report), *more])
        found = json.loads(report.read_text())
        return code, *(found[name] for name in ("new_files", "conforms", "diverges", "unreadable"))

    with monkeypatch.context() as patch:
        patch.setattr(SparkTableRunnerAndStore, "accept", lambda *_: (_ for _ in ()).throw(InputError("killed")))
        assert main(["pipeline", *words]) == 2
    assert run("--label", "one") == (1, 7, 4, 1, 2)
    alone, expected = pipeline(folder / "in", tmp_path / "alone", "--workers", "1")
    assert (alone, json.loads(report.read_text())) == (1, expected)
    first, second, *_ = sorted(p for p in (folder / "in").glob("*.tla") if p.name not in {wrong, *broken})
    right = first.read_text()
    os.utime(second, (1, 1))
    tamper(first)
    assert run("--label", "one") == (1, 2, 3, 2, 2)
    first.write_text(right)
    (folder / "in" / wrong).unlink()
    for name in broken:
        (folder / "in" / name).unlink()
    assert run("--label", "one") == (0, 1, 4, 0, 0)
    assert run("--label", "one") == (0, 0, 4, 0, 0)
    assert run("--label", "two") == (0, 4, 4, 0, 0)
    (example,) = re.findall(r"```python\n(.*?)```", PAGE.split("## URIs")[1].split("\n## ")[0], re.S)
    scope: dict[str, Any] = {"spark": session}
    exec(example.replace("s3a://bucket/tables", "file://" + str(folder / "out").replace("[", r"\\[")), scope)
    counted = scope["traces"].groupBy("label").count().collect()
    assert {row["label"]: row["count"] for row in counted} == {"one": 7, "two": 4}  # with three files that are gone
    first_batch, *_, last_batch = sorted((folder / "out" / "rows").iterdir())
    shutil.rmtree(first_batch)
    capsys.readouterr()
    assert main(["pipeline", *words, "--label", "one"]) == 0  # it did not count
    shutil.rmtree(last_batch / "record=traces")
    assert main(["pipeline", *words, "--label", "two"]) == 2
    assert "the tables are damaged: expected " in capsys.readouterr().err


@pytest.mark.spark
@pytest.mark.slow
def test_problems_with_a_uri_are_one_line(session: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--out", f"file://{tmp_path}/out", "--model", "lock-service", "--quiet"]
    assert main(["pipeline", f"file://{tmp_path}/none", *words]) == 2
    assert capsys.readouterr().err.endswith("/none: no files; give the URI of a file, of a folder, or a glob pattern\n")
    assert main(["pipeline", "none://bucket/in", *words]) == 3
    printed = capsys.readouterr().err
    assert printed.count("\n") == 1
    assert 'No FileSystem for scheme "none"' in printed


@pytest.mark.spark
@pytest.mark.slow
def test_executors_without_a_package_are_a_failure_of_the_platform(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    corpus(tmp_path / "in", 3, 0, 0)
    bare = tmp_path / "python"
    bare.write_text(f'#!/bin/sh\nexec {sys.executable} -S "$@"\n')
    bare.chmod(0o755)
    monkeypatch.setenv("PYSPARK_PYTHON", str(bare))
    assert pipeline_code(tmp_path, *SMALL_SPARK, "--quiet") == 3
    printed = capsys.readouterr().err
    assert "pyarrow" in printed.lower()
    assert "Traceback" not in printed
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    assert pipeline_code(tmp_path, "--workers", "1") == 0


@pytest.mark.spark
@pytest.mark.slow
def test_50_broken_files_among_1000(tmp_path: Path) -> None:
    source = tmp_path / "in"
    assert main(
        ["simulate", "two-phase-commit", "--runs", "1050", "--depth", "15", "--seed", "5", "--out", str(source),
         "--engine", "tables", "--quiet"]
    ) == 0  # fmt: skip
    random = Random(9)
    chosen = random.sample(sorted(source.glob("*.tla")), 60)
    broken = {}
    for number, path in enumerate(chosen[:50]):
        message = list(BREAKAGE)[number % len(BREAKAGE)]
        ending, breaks = BREAKAGE[message]
        path.with_name(path.name + ending).write_bytes(breaks(path.read_bytes()))
        broken[path.name + ending] = message
        if ending:
            path.unlink()
    for path in chosen[50:]:
        path.write_text(tampered_walk(path.read_text(), ["phase", "prepared"], random)[0])
    code, summary = pipeline(source, tmp_path / "out", "--master", "local[2]")
    found = tables(tmp_path / "out")
    assert code == 1
    assert (summary["conforms"], summary["diverges"], summary["unreadable"], summary["errors"]) == (990, 10, 50, 50)
    assert {Path(row["file"]).name for row in found["traces"] if row["verdict"] == "diverges"} == {
        path.name for path in chosen[50:]
    }
    errors = {Path(row["file"]).name: row for row in found["errors"]}
    assert errors.keys() == broken.keys()
    for name, row in errors.items():
        assert broken[name] in row["message"]
        assert row["line"] >= 1
        assert row["column"] >= 1


def test_inputs_that_are_not_there(tmp_path: Path) -> None:
    assert main(["pipeline", str(tmp_path / "none"), "--out", str(tmp_path / "o"), "--model", "lock-service"]) == 2


@pytest.mark.spark
@pytest.mark.slow
def test_bad_usage(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.out").write_text("x")
    words = ["pipeline", str(tmp_path / "a.out"), "--out", str(tmp_path / "o"), "--model", "lock-service"]
    assert main([*words, "--master", "nonsense"]) == 2
    assert "--master nonsense: expected local[N]" in capsys.readouterr().err
    assert main([*words, "--master", "local[1]", "--quiet"]) == 2  # nothing could be read
