"""No verdict is printed before everything that can change it is done. Kafka's side is stubbed."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Self

import pytest

from kraftcheck.commands._lockstep import lockstep_tasks
from kraftcheck.kraft_model.quorum.variants.kafka import UpgradesAtOnce
from kraftcheck.lockstep.cover import UntakenReason
from kraftcheck.lockstep.driver_process import DriverDied
from kraftcheck.lockstep.lockstep import Lockstep
from kraftcheck.spec.errors import InputError
from tests.support.command_line import Run

WALK = Path(__file__).parents[1] / "data" / "kafka" / "voters-after-truncation.walk"
DISABLED = InputError("a step is not enabled")
DIED = DriverDied("the Java process ended (SIGKILL): it said nothing")


class Process:
    """Stands for the Java process."""

    died: DriverDied | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass


Stub = Callable[..., Process]


@pytest.fixture
def stub(monkeypatch: pytest.MonkeyPatch) -> Stub:
    """Return a function that says what each walk raises, None where Kafka agrees."""

    def make(*ends: BaseException | None) -> Process:
        process, left = Process(), iter(ends)

        def walk(self: Lockstep, choose: Callable[[object], object], _: int) -> tuple[list[Any], list[Any]]:
            end = next(left)
            if end is DISABLED:
                choose(SimpleNamespace(all=(), enabled=list))
                return [], []
            if end is not None:
                process.died = end if isinstance(end, DriverDied) else None
                raise end
            return [], []

        path = SimpleNamespace(java=Path("java"), text="", options=(), version="4.3.1")
        monkeypatch.setattr("kraftcheck.lockstep.jars.driver_classpath", lambda *_, **__: path)
        monkeypatch.setattr("kraftcheck.commands.lockstep.Driver", lambda *_, **__: process)
        monkeypatch.setattr(Lockstep, "walk", walk)
        return process

    return make


@pytest.mark.parametrize(
    ("end", "code"), [(InputError("line 3: not enabled"), 2), (DIED, 2), (KeyboardInterrupt(), 130)], ids=str
)
def test_random_walks_that_end_early(end: BaseException, code: int, stub: Stub, run: Run, tmp_path: Path) -> None:
    stub(None, None, end)
    result, page = tmp_path / "result.json", tmp_path / "page.md"
    done = run("lockstep", "quorum", "--runs", 5, "--json", result, "--report", page, "--quiet")
    assert (done.code, done.out) == (code, "INCOMPLETE: 2 walks, 0 steps beside Kafka 4.3.1\n")
    assert str(end or "interrupted") in done.err
    assert json.loads(result.read_text())[0]["verdict"] == "incomplete"
    assert "agrees" not in page.read_text()


def test_a_given_walk_with_a_step_that_is_not_enabled(stub: Stub, run: Run) -> None:
    stub(DISABLED)
    done = run("lockstep", "quorum", "--walk", WALK, "--quiet")
    assert (done.code, done.out) == (2, "INCOMPLETE: 1 walk, 0 steps beside Kafka 4.3.1\n")
    assert "is not enabled there" in done.err
    stub(None, DISABLED)
    done = run("lockstep", "quorum", "--walk", WALK, WALK, "--quiet")
    assert [line.partition(":")[0] for line in done.out.splitlines()[1::2]] == ["AGREES", "INCOMPLETE"]


@pytest.mark.parametrize("end", [InputError("line 3: not enabled"), DIED], ids=str)
def test_a_later_walk_of_several(end: BaseException, stub: Stub, run: Run) -> None:
    stub(None, end)
    done = run("lockstep", "quorum", "--walk", WALK, WALK, "--quiet")
    assert done.code == 2
    assert done.out.count("AGREES") == 1  # of the first walk, under its name
    assert str(end) in done.err


def test_a_later_walk_beside_several_builds_of_one_version(stub: Stub, run: Run) -> None:
    stub(None, InputError("line 3: not enabled"), None, None)
    done = run("lockstep", "quorum", "--walk", WALK, WALK, "--kafka", "one", "--kafka", "other", "--quiet")
    assert done.code == 2
    rows = [[cell.strip() for cell in line.split("|")[2:-1]] for line in done.out.splitlines() if "|" in line]
    assert [rows[0], *rows[2:]] == [["one", "other"], ["agrees", "agrees"], ["ends early (1)", "agrees"]]


def test_java_that_ends_while_walks_are_made_short(
    stub: Stub, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    process = stub(None)

    def write(*_: object) -> tuple[()]:
        process.died = DIED
        return ()

    monkeypatch.setattr("kraftcheck.lockstep.campaign.LockstepCampaign.write", write)
    done = run("lockstep", "quorum", "--runs", 1, "--out", tmp_path, "--quiet")
    assert done.code == 2
    assert done.out.startswith("INCOMPLETE: 1 walk")


@pytest.mark.parametrize("option", ["json", "report", "out", "reach"])
def test_a_file_that_cannot_be_written(
    option: str, stub: Stub, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The result is told all the same, once everything is done: the walks are whole."""

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    stub(None)
    monkeypatch.setattr("kraftcheck.reporting.output.write_json", fail)
    monkeypatch.setattr("kraftcheck.commands.lockstep.write_report", fail)
    monkeypatch.setattr("kraftcheck.lockstep.campaign.LockstepCampaign.write", fail)
    monkeypatch.setattr("kraftcheck.lockstep.code_coverage.CoverageRecorder", Counting)
    path = tmp_path / ("page.md" if option == "report" else "found")
    done = run("lockstep", "quorum", "--runs", 1, f"--{option}", path, "--quiet")
    assert (done.code, done.out) == (2, "AGREES: 1 walk, 0 steps beside Kafka 4.3.1\n")
    assert len(done.err.splitlines()) == 1
    assert f"--{option}" in done.err


class Counting(Process):
    """Stands for JaCoCo, which has no counts."""

    options = ()

    def __init__(self, _: object) -> None:
        pass

    def classes(self) -> list[Any]:
        raise InputError("--reach: the Java process left no counts behind")


def test_a_cover_with_missing_steps(stub: Stub, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    stub()
    cover = SimpleNamespace(untaken=lambda: [(None, UntakenReason.MISSING, True)])
    monkeypatch.setattr("kraftcheck.lockstep.cover.build_state_graph", lambda *_: None)

    def made(campaign: Any, _: object) -> object:
        campaign.walks = 1
        return cover

    monkeypatch.setattr("kraftcheck.lockstep.campaign.LockstepCampaign.cover", made)
    monkeypatch.setattr("kraftcheck.commands.lockstep.edge_cover_lines", lambda _: [])
    monkeypatch.setattr("kraftcheck.commands.lockstep.edge_cover_as_json", lambda _: {})
    done = run("lockstep", "quorum", "--cover", "--quiet")
    assert (done.code, done.out) == (1, "INCOMPLETE: 1 walk, 0 steps beside Kafka 4.3.1\n")


def test_a_walk_without_steps(run: Run, tmp_path: Path) -> None:
    """Random walks were made in its place."""
    path = tmp_path / "a.walk"
    path.write_text("model quorum\n")
    done = run("lockstep", "quorum", "--walk", path)
    assert (done.code, done.out) == (2, "")
    assert f"{path}: expected steps, found none" in done.err


def test_a_walk_file_also_leaves_out_what_the_command_line_names(stub: Stub, run: Run, tmp_path: Path) -> None:
    """`--without` and `--go-on` were ignored where the walk came from a file."""
    stub()
    path = tmp_path / "a.walk"
    path.write_text(WALK.read_text() + "\n")
    asked = argparse.Namespace(
        cover=False, walk=[path], runs=None, without=["upgrades-at-once"], go_on=True, disk=False, known=True
    )
    (task,) = lockstep_tasks(asked)
    assert task.file.without == ("upgrades-at-once",)
    assert task.file.go_on
    assert UpgradesAtOnce not in task.kind().__mro__
    done = run("lockstep", "quorum", "--walk", path, "--without", "upgrade")
    assert done.code == 2
    assert "upgrades-at-once" in done.err
    assert str(path) not in done.err
