"""`kraftcheck simulate`: exit codes, the report, the files."""

from __future__ import annotations

import errno
import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

from kraftcheck.catalogue import find_config_name_and_content, find_model
from kraftcheck.kraft_model.reconfig import Reconfig
from kraftcheck.spec.cfg.binding import bind
from kraftcheck.spec.language.semantics import Semantics
from kraftcheck.spec.tla.state_conversion import TlaStateConverter
from kraftcheck.traces import TraceFormat, read_traces
from kraftcheck.traces.corpus import WalkWriter

pytestmark = pytest.mark.kernel

SMOKE = ("reconfig", "--config", "smoke")
WALKS = ("--runs", 12, "--depth", 15, "--seed", 4)


def result_of(run, *arguments, code: int, tmp_path: Path) -> dict:
    path = tmp_path / "result.json"
    outcome = run("simulate", *arguments, "--json", path)
    assert outcome.code == code, outcome
    assert outcome.err == ""
    content: dict = json.loads(path.read_text())
    return content


@pytest.mark.slow
def test_result(run, tmp_path) -> None:
    found = result_of(run, *SMOKE, *WALKS, code=0, tmp_path=tmp_path)
    assert (found["result"], found["complete"], found["runs"], found["violations"]) == ("ok", False, 12, [])
    assert (found["search"], found["engine"], found["seed"], found["depth_limit"]) == ("random", "tables", 4, 15)
    assert found["generated_states"] == 12 + sum(found["actions"].values())
    assert 2 < found["depth"] <= 15
    assert 12 < found["distinct_states"] < found["generated_states"]
    assert found["never_enabled"] == [name for name, times in found["actions"].items() if times == 0]
    again = result_of(run, *SMOKE, *WALKS, "--workers", 1, code=0, tmp_path=tmp_path)
    for key in ("distinct_states", "generated_states", "actions", "depth"):
        assert again[key] == found[key]
    other = result_of(run, *SMOKE, "--runs", 12, "--depth", 15, "--seed", -4, code=0, tmp_path=tmp_path)
    assert other["actions"] != found["actions"]


def test_report(run) -> None:
    lines = run("simulate", *SMOKE, *WALKS, "--calls").out.splitlines()
    assert lines[0] == "reconfig, configuration smoke, engine tables, 12 random walks, seed 4"
    assert "action                          taken  handler calls" in lines
    assert lines[-2].startswith("Note: never taken on these walks: RestartWithoutState, ")
    assert lines[-1].startswith("OK: nothing is violated on 12 walks; ")


@pytest.mark.slow
def test_walks_as_files_of_tlc(run, tmp_path) -> None:
    folder = tmp_path / "new" / "walks"
    found = result_of(run, *SMOKE, *WALKS, "--out", folder, code=0, tmp_path=tmp_path)
    assert sorted(path.name for path in folder.glob("[!.]*")) == sorted(f"walk_{number}.tla" for number in range(12))
    config = find_config_name_and_content(find_model("reconfig"), "smoke")[1]
    protocol = bind(Reconfig, config).protocol
    view, semantics, steps = TlaStateConverter(protocol), Semantics(protocol), 0
    for path in folder.glob("walk_*.tla"):
        (trace,) = read_traces(path)
        assert (trace.format, trace.complete) == (TraceFormat.TLC_SIMULATION, True)
        assert trace.states[0].action is None
        states = [view.state(trace_state.variables) for trace_state in trace.states]
        assert states[0] in semantics.initial()
        for before, after, written in zip(states, states[1:], trace.states[1:], strict=False):
            assert (written.action, after) in [(t.action, t.target) for t in semantics.transitions(before)]
        steps += len(states)
    assert steps == found["generated_states"]


def test_a_violation_ends_it(run, ping, tmp_path) -> None:
    folder, trace = tmp_path / "walks", tmp_path / "trace.out"
    arguments = (ping, "--no-deadlock", "--set", "MaxPings=4", *WALKS, "--out", folder, "--trace", trace)
    found = result_of(run, *arguments, code=12, tmp_path=tmp_path)
    assert found["result"] == "violation"
    assert found["violated"] in ("FewPings", "ShortLog")
    assert len(list(folder.glob("walk_*.tla"))) == found["runs"]
    (written,) = read_traces(trace)
    assert len(written.states) == found["trace_length"]
    (last,) = read_traces(folder / f"walk_{found['runs'] - 1}.tla")
    assert [state.variables for state in last.states] == [state.variables for state in written.states]
    more = result_of(run, *arguments[:4], "--continue", *WALKS, code=12, tmp_path=tmp_path)
    assert set(more["violations"]) == {"FewPings", "ShortLog"}
    assert more["runs"] == 12


@pytest.mark.slow
def test_the_same_command_goes_on(run, ping, tmp_path) -> None:
    folder = tmp_path / "walks"
    arguments = (*SMOKE, *WALKS, "--out", folder)
    whole = result_of(run, *arguments, code=0, tmp_path=tmp_path)
    paths = sorted(folder.glob("walk_*.tla"))
    texts = [path.read_text() for path in paths]
    lost, left = paths[::3], folder / f".walk_3.tla.{'0' * 32}.new"
    for path in lost:
        path.unlink()
    left.write_text("half a walk")
    before = {path: path.stat().st_mtime_ns for path in paths if path not in lost}
    again = result_of(run, *arguments, code=0, tmp_path=tmp_path)
    assert [path.read_text() for path in paths] == texts
    assert {path: path.stat().st_mtime_ns for path in before} == before
    assert not left.exists()
    assert again["notes"] == [*whole["notes"], f"--out: {len(before)} walks existed already and were kept"]
    for name in ("runs", "generated_states", "distinct_states", "actions", "depth"):
        assert again[name] == whole[name]
    outcome = run("simulate", *arguments, "--seed", "5")
    assert outcome.code == 2
    assert f"--out {folder}: it holds other walks: --seed" in outcome.err


def test_a_time_limit_with_many_runs_ends_between_two_walks(run, ping, tmp_path, monkeypatch) -> None:
    write, folder = WalkWriter.__call__, tmp_path / "walks"

    def slow(self, number, walk) -> None:
        time.sleep(0.01)
        write(self, number, walk)

    monkeypatch.setattr(WalkWriter, "__call__", slow)
    words = (ping, "--set", "MaxPings=1", "--no-deadlock", "--runs", 2 * 10**10, "--time-limit", 0.5, "--out", folder)
    found = result_of(run, *words, code=20, tmp_path=tmp_path)
    assert found["limit"] == "time_limit"
    assert 0 < found["runs"] == len(list(folder.glob("walk_*.tla"))) < 500
    again = result_of(run, *words, code=20, tmp_path=tmp_path)
    assert again["runs"] > found["runs"]
    assert f"--out: {found['runs']} walks existed already and were kept" in again["notes"]


@pytest.mark.slow
def test_a_full_disk_names_the_walk(ping, tmp_path) -> None:
    """The limit on the size of a file stands for a full disk. With `-B`, no bytecode is cut at it for other tests."""
    words = 'exec "$0" -B -m kraftcheck simulate "$1" --set MaxPings=99 --continue --runs 4 --depth 300 --out "$2"'
    command = ["bash", "-c", f"ulimit -f 20; {words} 2>&1 >/dev/null | cat", sys.executable, ping, tmp_path / "walks"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    path = tmp_path / "walks" / "walk_0.tla"
    assert done.stdout.endswith(f"kraftcheck: error: --out {path}: cannot be written: File too large\n")


@pytest.mark.parametrize(("going", "fits"), [(["--continue"], 1), ([], 0)])
def test_a_full_disk_loses_no_finding(run, ping, tmp_path, monkeypatch, going, fits) -> None:
    write, report, folder = WalkWriter.__call__, tmp_path / "found.json", tmp_path / "walks"

    def full(self, number, walk) -> None:
        if number == fits:
            raise OSError(errno.ENOSPC, "No space left on device")
        write(self, number, walk)

    monkeypatch.setattr(WalkWriter, "__call__", full)
    words = (ping, "--no-deadlock", "--set", "MaxPings=4", *WALKS, *going, "--out", folder, "--json", report)
    outcome = run("simulate", *words)
    assert outcome.code == 2
    path = folder / f"walk_{fits}.tla"
    assert outcome.err == f"kraftcheck: error: --out {path}: cannot be written: No space left on device\n"
    assert "VIOLATION: violated: " in outcome.out
    found = json.loads(report.read_text())
    assert (found["result"], found["runs"], found["limit"]) == ("violation", fits, "error")
    assert len(found["violations"]) == 1 + fits
    outcome = run("simulate", ping, "--no-deadlock", "--set", "MaxPings=1", *WALKS, "--out", tmp_path / "more")
    assert outcome.code == 2
    assert f"INCOMPLETE: nothing is violated so far on {fits} walk" in outcome.out


def test_deadlock_and_limits(run, ping, tmp_path) -> None:
    (tmp_path / "ping.cfg").write_text("CONSTANT MaxPings = 1")
    found = result_of(run, ping, *WALKS, code=11, tmp_path=tmp_path)
    assert (found["result"], found["violated"], found["runs"]) == ("deadlock", "Deadlock", 1)
    found = result_of(run, ping, "--no-deadlock", "--runs", 10**6, "--max-states", 3, code=20, tmp_path=tmp_path)
    assert (found["result"], found["limit"], found["distinct_states"]) == ("incomplete", "max_states", 3)


def test_constraints_and_properties_of_a_configuration(run, ping, tmp_path) -> None:
    (tmp_path / "ping.cfg").write_text("CONSTRAINT AtMostOne\nPROPERTY LogGrows\nCHECK_DEADLOCK FALSE")
    found = result_of(run, ping, "--runs", 50, "--set", "MaxPings=4", code=0, tmp_path=tmp_path)
    assert found["actions"]["SendPing"] == 100  # each peer once


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--runs", "0"], "argument --runs: expected a number of at least 1, found '0'"),
        (["--depth", "x"], "argument --depth: expected a number of at least 1, found 'x'"),
        (["--runs", 10**18], "expected a number of at least 1 and at most 999,999,999,999,999,999, found '1000"),
        (["--depth", 10**7], "expected at most 1,000,000 states along a walk, found 10,000,000"),
        (["--seed", "x"], "argument --seed: expected a whole number of at most 1000 digits, found 'x'"),
        (["--engine", "reference"], "--engine reference: not supported for random walks; use tables or spark"),
        (["--search", "dfs"], "unrecognized arguments: --search dfs"),
        (["--graph", "x.dot"], "unrecognized arguments: --graph x.dot"),
        (["--out", "file"], "--out file: expected a folder, found a file"),
        (["--out", "full"], "--out full: not a folder of an earlier run: it holds here; give a new folder"),
        (["--out", "file/x"], "--out file/x: expected a folder that can be written to: Not a directory"),
        (["--json", "nowhere/x"], "--json nowhere/x: cannot be written"),
    ],
)
def test_bad_input(run, tmp_path, monkeypatch, arguments, message) -> None:
    monkeypatch.chdir(tmp_path)
    Path("file").touch()
    Path("full").mkdir()
    Path("full/here").touch()
    outcome = run("simulate", *SMOKE, *arguments)
    assert outcome.code == 2
    assert message in outcome.err


def test_a_fault_of_the_users_is_named_by_its_line(run, ping) -> None:
    path = Path(ping.rpartition(":")[0])
    path.write_text(path.read_text().replace("number = me.pings + 1", "number = me.pings / 0"))
    outcome = run("simulate", ping)
    assert outcome.code == 2
    assert outcome.err.startswith(f"kraftcheck: error: {path}:")
    assert "action SendPing of PingPong raised ZeroDivisionError" in outcome.err
