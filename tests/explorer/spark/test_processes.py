"""Ctrl-C within a level, what is left of Spark's processes then, and both commands under `spark-submit`."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.support.command_line import PING, heed_interrupts
from tests.support.tlc import COUNTS, TLC

pytestmark = [pytest.mark.kernel, pytest.mark.spark, pytest.mark.slow]

PROJECT = Path(__file__).parents[3]
QUIET = ("--conf", "spark.ui.enabled=false", "--quiet")
CONFIG = COUNTS / "grow-with-election.cfg"
SEARCH = ("check", "reconfig", "--config", str(CONFIG), "--engine", "spark", *QUIET)


def start(*words: object, session: bool = True) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*map(str, words)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=PROJECT,
        start_new_session=session, preexec_fn=heed_interrupts,
    )  # fmt: skip


def in_session(number: int) -> dict[int, str]:
    """Return the processes of a session that are not over, with their names."""
    found = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            head, _, rest = path.read_text().rpartition(")")
        except OSError:
            continue
        state, _, _, session = rest.split()[:4]
        if int(session) == number and state != "Z":
            found[int(path.parent.name)] = head.partition("(")[2]
    return found


def is_empty_soon(session: int) -> bool:
    until = time.monotonic() + 15
    while in_session(session) and time.monotonic() < until:
        time.sleep(0.1)
    return not in_session(session)


def await_manifest(process: subprocess.Popen[str], folder: Path) -> None:
    until = time.monotonic() + 150
    while not (folder / "manifest.json").exists():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < until
        time.sleep(0.05)


def test_interrupted_within_a_level(tmp_path: Path) -> None:
    """A level takes two minutes here, but nobody waits for its end."""
    path = tmp_path / "ping.py"
    slow = PING.replace("        number = me.pings + 1", "        time.sleep(120)\n        number = me.pings + 1")
    path.write_text(slow.replace("from kraftcheck import *", "import time\n\nfrom kraftcheck import *"))
    folder = tmp_path / "c"
    words = ["check", f"{path}:PingPong", "--engine", "spark", *QUIET, "--conf", "spark.kraftcheck.small=0"]
    process = start(sys.executable, "-m", "kraftcheck", *words, "--master", "local[2]", "--checkpoint", folder)
    await_manifest(process, folder)
    time.sleep(12)  # until an executor sleeps
    os.killpg(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert "To go on: kraftcheck check" in out
    assert "Traceback" not in err
    assert is_empty_soon(process.pid), in_session(process.pid)


def test_interrupted_and_resumed(tmp_path: Path) -> None:
    folder = tmp_path / "c"
    words = [*SEARCH, "--master", "local[2]", "--conf", "spark.kraftcheck.small=0"]
    process = start(sys.executable, "-m", "kraftcheck", *words, "--checkpoint", folder)
    await_manifest(process, folder)
    time.sleep(1)  # executors start and learn: the first level takes seconds
    assert "java" in in_session(process.pid).values()
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does it, to all of them
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert "INCOMPLETE: nothing is violated so far, interrupted; " in out
    assert "Traceback" not in err
    assert "WARN" not in err  # what Spark says while it starts
    assert is_empty_soon(process.pid), in_session(process.pid)
    levels = len(json.loads((folder / "manifest.json").read_bytes())["search"]["levels"])
    again = next(line.partition("To go on: kraftcheck ")[2] for line in out.splitlines() if "To go on: " in line)
    more = ("--verbose", "--json", tmp_path / "again.json")
    resumed = start(sys.executable, "-m", "kraftcheck", *shlex.split(again), *more)
    out, err = resumed.communicate(timeout=300)
    assert resumed.returncode == 0, err
    assert "WARN" in err
    found = json.loads((tmp_path / "again.json").read_text())
    expected = json.loads((COUNTS / "expected.json").read_text())[CONFIG.stem]
    assert found["distinct_states"] == expected["distinct_states"]
    assert found["depth"] == expected["depth"] > levels


def test_a_pipeline_is_interrupted(tmp_path: Path) -> None:
    source = tmp_path / "in"
    source.mkdir()
    for path in (TLC / "simulations").glob("*.tla.gz"):
        for number in range(3):
            (source / f"{number}_{path.name}").write_bytes(path.read_bytes())
    words = ["pipeline", source, "--out", tmp_path / "o", "--model", "reconfig", "--master", "local[2]", *QUIET]
    words += ["--config", TLC / "simulations" / "published.cfg", "--conf", "spark.kraftcheck.files=4"]
    process = start(sys.executable, "-m", "kraftcheck", *words)
    until = time.monotonic() + 150
    while not (tmp_path / "o" / "done" / "00001.json").exists():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < until
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert "finished files are saved; the same command replays the rest" in err
    assert "Traceback" not in err
    assert is_empty_soon(process.pid), in_session(process.pid)
    assert len(list((tmp_path / "o" / "done").glob("*.json"))) < 12


def test_a_driver_that_is_killed_takes_its_spark_with_it(tmp_path: Path) -> None:
    process = start(
        sys.executable, "-m", "kraftcheck", *SEARCH, "--master", "local[1]", "--checkpoint", tmp_path / "c",
        "--conf", "spark.kraftcheck.small=0",
    )  # fmt: skip
    await_manifest(process, tmp_path / "c")
    assert "java" in in_session(process.pid).values()
    process.kill()
    process.wait()
    assert is_empty_soon(process.pid), in_session(process.pid)


def submitted(*words: object) -> subprocess.CompletedProcess[str]:
    import pyspark

    submit = Path(pyspark.__file__).parent / "bin" / "spark-submit"
    environment = {**os.environ, "PYTHONPATH": str(PROJECT), "PYSPARK_PYTHON": sys.executable}
    options = ("--master", "local[2]", "--conf", "spark.ui.enabled=false", "--conf", "spark.driver.memory=512m")
    return subprocess.run(
        [str(submit), *options, str(PROJECT / "kraftcheck" / "__main__.py"), *map(str, words), "--quiet"],
        capture_output=True, text=True, env=environment, cwd=PROJECT, timeout=300, check=False,
    )  # fmt: skip


def test_check_is_submitted(tmp_path: Path) -> None:
    path = tmp_path / "found.json"
    done = submitted("check", "reconfig", "--config", CONFIG, "--engine", "spark", "--json", path)
    assert done.returncode == 0, done.stderr
    found = json.loads(path.read_text())
    expected = json.loads((COUNTS / "expected.json").read_text())[CONFIG.stem]
    assert found["distinct_states"] == expected["distinct_states"]
    assert found["workers"] == 2  # what spark-submit said


def test_pipeline_is_submitted(tmp_path: Path) -> None:
    simulations = TLC / "simulations"
    model = ("--model", "reconfig", "--config", simulations / "published.cfg")
    done = submitted(
        "pipeline", simulations / "t_0_0.tla.gz", simulations / "t_0_1.tla.gz", "--out", tmp_path / "o", *model
    )
    assert done.returncode == 0, done.stderr
    assert "2 traces: 2 conform" in done.stdout
