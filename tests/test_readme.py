"""Every command of README.md and docs/commands.md runs, and prints the lines that the page shows."""

from __future__ import annotations

import re
import shlex
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.support.command_line import Run, start
from tests.support.readme import CONSOLE, README, ROOT, SHELL, TABLE, lacking, write_program

pytestmark = pytest.mark.kernel

DIVERGING = "tests/data/tlc/counterexamples/diverging"
DUMP = "tests/data/tlc/dumps/two-voters"
RUNS = {  # commands of the README's table, with arguments and the exit code
    "check MODEL": ("check lock-service --config smoke", 0),
    "simulate MODEL": ("simulate lock-service --config smoke --runs 10", 0),
    "compare MODEL VARIANT": ("compare lock-service impatient-server --config smoke", 12),
    "mutate MODEL": ("mutate lock-service --config smoke --sample 2", 0),
    "replay MODEL TRACE": (f"replay reconfig {DIVERGING}.out.gz --config {DIVERGING}.cfg", 0),
    "crosscheck MODEL --dump FILE": (f"crosscheck reconfig --dump {DUMP}.dot.gz --config {DUMP}.cfg", 0),
    "lockstep quorum": ("lockstep quorum --runs 2 --depth 10", 0),
    "validate quorum PATH": ("validate quorum tests/data/cluster/conforms", 0),
    "pipeline TRACES --model MODEL": (
        f"pipeline {DIVERGING}.tla.gz --model reconfig --config {DIVERGING}.cfg --out corpus",
        0,
    ),
}
SLOW = {
    "mutate": [pytest.mark.slow],
    "lockstep": [pytest.mark.slow, pytest.mark.kafka],
    "pipeline": [pytest.mark.slow, pytest.mark.spark],
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Enter a folder that has the README's protocol and the tests' data."""
    write_program(tmp_path)
    (tmp_path / "tests").symlink_to(Path(__file__).parent)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "110")
    return tmp_path


def case(command: str, *more: Any) -> Any:
    return pytest.param(command, *more, id=command, marks=SLOW.get(command.split()[0], []))


@pytest.mark.parametrize(
    ("command", "shown"), [case(command.removeprefix("kraftcheck "), shown) for command, shown in CONSOLE]
)
def test_prints_the_lines_that_the_page_shows(command: str, shown: str, folder: Path, run: Run) -> None:
    done = run(*shlex.split(command))
    assert lacking(shown, done.out) == [], done


@pytest.mark.parametrize(("named", "command", "code"), [case(named, *rest) for named, rest in RUNS.items()])
def test_each_command_of_the_table_runs(named: str, command: str, code: int, folder: Path, run: Run) -> None:
    assert named in TABLE
    done = run(*shlex.split(command))
    assert done.code == code, done


@pytest.mark.slow
def test_explore_runs_until_it_is_interrupted() -> None:
    assert {*RUNS, "explore MODEL"} == set(TABLE)
    process = start("explore", "lock-service", "--no-browser")
    assert process.stdout is not None
    assert "http://127.0.0.1:" in process.stdout.readline()
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=20)
    assert process.returncode == 0


@pytest.mark.kafka
@pytest.mark.slow
def test_the_walk_to_two_committed_logs_violates_a_property(folder: Path, run: Run) -> None:
    (command,) = [block for block in SHELL if "lockstep" in block]
    done = run(*shlex.split(command.removeprefix("kraftcheck ")))
    assert done.code == 12, done
    part = "are_prefix_comparable(me.log[:me.high_watermark], shared.committed)"
    assert f"violated for me = n1: `{part}` is false" in done.out
    logs = [line.split(maxsplit=2)[2] for line in done.out.splitlines() if line.startswith("    n1.log ")]
    assert len(logs) == len(set(logs)) == 2, "a cut hides the difference"


def test_the_readme_is_short_and_its_example_too() -> None:
    assert len(README.splitlines()) <= 130
    program = (ROOT / "README.md").read_text().partition("```python\n")[2].partition("```")[0]
    assert len([line for line in program.splitlines() if line.strip()]) <= 25
    assert "prefers-color-scheme: dark" in README


def test_pictures_exist_and_are_small() -> None:
    named = re.findall(r'(?:src|srcset)="([^"]+)"', README)
    assert len(named) == 4
    for name in named:
        assert (ROOT / name).stat().st_size < 200_000, name
