"""Walks as JUnit tests for Kafka: the files of a project, refused input, and the failure on Kafka."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from kraftcheck.lockstep.junit import (
    CLAIM_OF_PROPERTY,
    GENERATED_MARK,
    JAVA_CALL_OF_COMMAND,
    PROJECT_FILES,
    PROJECT_TEMPLATE_FOLDER,
    DriverCall,
    java_class_name,
    java_comment_of_step,
    java_statement_of_driver_command,
)
from kraftcheck.lockstep.walks import StepChoice
from kraftcheck.spec.errors import InputError
from tests.support.command_line import Run
from tests.support.kafka_reports import FIXES, REPORTS, VERSION, generate, outcomes
from tests.support.sizes import some_slow

WALKS = Path(__file__).parents[1] / "data" / "kafka"
TWO_LOGS = WALKS / "two-committed-logs.walk"


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("two-committed-logs", "TwoCommittedLogs"),
        ("../../etc/x", "EtcX"),
        ("3 lögs\n*/", "Walk3LGs"),
        ("*/", "Walk"),
        ("a" * 500, "A" + "a" * 59),
    ],
)
def test_a_class_name_is_made_of_letters_and_digits(name: str, expected: str) -> None:
    assert java_class_name(name) == expected


@pytest.mark.parametrize("text", ["\n}", "\\u000a}", "\u2028}", "\x00", "é"])
def test_a_comment_ends_no_line_and_holds_no_escape(text: str) -> None:
    shown = java_comment_of_step(StepChoice(f"Resign{text}", "n1", None))
    assert re.fullmatch(r"[ -\[\]-~]+", shown)


def test_a_long_comment_is_cut() -> None:
    assert len(java_comment_of_step(StepChoice("Resign" * 100, "n1", None))) == 90


def test_java_has_a_method_for_every_command_and_a_check_for_every_property() -> None:
    replica, properties = (
        (PROJECT_TEMPLATE_FOLDER / f"Walk{name}.java").read_text() for name in ("Replica", "Properties")
    )
    call: Any = type("Call", (), {"arguments": dict.fromkeys(("value", "version", "offset", "epoch", "directory"), 1)})
    methods = {statement(call).partition("(")[0] for statement in JAVA_CALL_OF_COMMAND.values()}
    assert {name for name in methods if f"void {name}(" not in replica} == set()
    assert {name for name in CLAIM_OF_PROPERTY if f'violated("{name}"' not in properties} == set()
    assert {path.name for path in PROJECT_TEMPLATE_FOLDER.iterdir()} == {*PROJECT_FILES, "pom.xml"}


def test_a_command_without_a_method_is_refused() -> None:
    with pytest.raises(InputError, match="no method in Java for the command listen"):
        java_statement_of_driver_command(DriverCall("listen", {"node": 1}, {}, 0))


@pytest.mark.parametrize(
    "options",
    [
        ("--runs", "1"),
        ("--walk", TWO_LOGS, WALKS / "two-leaders.walk"),
        ("--walk", TWO_LOGS, "--runs", "1"),
        ("--walk", TWO_LOGS, "--kafka", "4.3.1", "--kafka", "4.4.0"),
    ],
    ids=str,
)
def test_one_walk_and_one_version_are_expected(options: tuple[object, ...], run: Run, tmp_path: Path) -> None:
    done = run("lockstep", "quorum", *options, "--junit-test", tmp_path / "new")
    assert done.code == 2
    assert "--junit-test: expected one walk and one version of Kafka" in done.err


def test_kafkas_log_on_disk_is_refused(run: Run, tmp_path: Path) -> None:
    done = run("lockstep", "quorum", "--walk", TWO_LOGS, "--disk", "--junit-test", tmp_path / "new")
    assert done.code == 2
    assert "leave --disk out" in done.err


@pytest.mark.parametrize("foreign", ["notes.txt", "pom.xml"])
def test_a_foreign_folder_is_left_alone(foreign: str, run: Run, tmp_path: Path) -> None:
    (tmp_path / foreign).write_text("<project/>")
    done = run("lockstep", "quorum", "--walk", TWO_LOGS, "--junit-test", tmp_path)
    assert done.code == 2
    assert "expected no such folder, or a project of this option" in done.err
    assert [path.name for path in tmp_path.iterdir()] == [foreign]


@pytest.mark.kafka
@pytest.mark.slow
def test_a_walk_without_a_violation_is_no_test(run: Run, tmp_path: Path) -> None:
    walk = tmp_path / "short.walk"
    lines = TWO_LOGS.read_text().splitlines()
    walk.write_text("\n".join(lines[: lines.index("") + 5]))
    done = run("lockstep", "quorum", "--walk", walk, "--junit-test", tmp_path / "new", "--quiet")
    assert done.code == 2
    assert "violates no property on this walk" in done.err
    assert not (tmp_path / "new").exists()


@pytest.mark.kafka
@pytest.mark.slow
def test_maven_runs_the_test_and_it_fails_as_the_walk_does(run: Run, tmp_path: Path) -> None:
    folder = tmp_path / "project"
    assert run("lockstep", "quorum", "--walk", TWO_LOGS, "--junit-test", folder, "--quiet").code == 12
    assert GENERATED_MARK in (folder / "pom.xml").read_text()
    maven = shutil.which("mvn")
    assert maven is not None
    done = subprocess.run(
        [maven, "-q", "-B", "test"], cwd=folder, capture_output=True, text=True, timeout=300, check=False
    )
    assert "Tests run: 1, Failures: 1, Errors: 0, Skipped: 0" in done.stdout
    steps = {"StateMachineSafety": 40, "LeaderCompleteness": 36, "LastVoterSetIsUsed": 29}
    assert "; ".join(re.findall(r"step \d+ violates \w+", done.stdout)[:3]) == "; ".join(
        f"step {step} violates {name}" for name, step in steps.items()
    )


@pytest.fixture(scope="module")
def failures() -> dict[str, str]:
    """Return the failure of each report's test on one version of Kafka."""
    return outcomes(VERSION, FIXES)


@pytest.mark.kafka
@pytest.mark.slow
@pytest.mark.parametrize("name", some_slow(FIXES))
def test_a_report_has_the_generated_project_and_its_failure(
    name: str, failures: dict[str, str], tmp_path: Path
) -> None:
    generate(name, tmp_path)
    generated = {path.relative_to(tmp_path): path.read_text() for path in tmp_path.rglob("*") if path.is_file()}
    committed = (path for path in (REPORTS / name).rglob("*") if path.is_file() and "target" not in path.parts)
    kept = {path.relative_to(REPORTS / name): path.read_text() for path in committed}
    report = kept.pop(Path("README.md"))
    assert kept == generated
    quoted = " ".join(report.split("```text\n")[1].split("\n```")[0].split())
    assert failures[name].startswith(quoted.removesuffix("...").rstrip())


@pytest.mark.kafka
@pytest.mark.slow
def test_each_fix_mends_its_report() -> None:
    names = [name for name, fix in FIXES.items() if fix]
    assert outcomes(VERSION, names, FIXES) == dict.fromkeys(names, "")


@pytest.mark.kafka
@pytest.mark.slow
def test_a_walk_that_ends_before_its_fault_is_skipped(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    name = "removed-leader-stays"
    shutil.copytree(REPORTS / name, tmp_path / name)
    (test,) = (tmp_path / name).rglob("*Test.java")
    test.write_text(test.read_text().replace("n3.receives(VOTE, n1)", "n3.receives(FETCH, n1)", 1))
    monkeypatch.setattr("tests.support.kafka_reports.REPORTS", tmp_path)
    said = outcomes(VERSION, [name])[name]
    assert "step 2 is not possible: n1 has sent no FETCH request to n3" in said
    assert "1 tests aborted" in said
