"""One cluster of several versions of Kafka: refused input, walks that agree, rolls, a request that does not fit."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kraftcheck.lockstep.driver_process import MixedVersionDriver, is_mixed_version_text
from tests.support.command_line import Run

WALKS = Path(__file__).parents[1] / "data" / "kafka"
JOINS = WALKS / "mixed" / "joins-older-leader.walk"
ROLLS = WALKS / "mixed" / "rolls-every-voter.walk"
ROLL = [word for node in (1, 2, 3) for word in ("--kafka", f"n{node}=4.1.2:4.3.1")]
TWO_LOGS = WALKS / "two-committed-logs.walk"


@pytest.mark.parametrize(
    ("kafka", "expected"), [("4.3.1", False), ("/a/folder", False), ("n1=4.3.1", True), ("4.3.1,n1=4.4.0", True)]
)
def test_a_name_and_a_version_make_a_mixed_cluster(kafka: str, expected: bool) -> None:
    assert is_mixed_version_text(kafka) is expected


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        (["one=4.3.1"], "--kafka one=4.3.1: expected a replica with a number in its name"),
        (["n1=4.3.1", "x1=4.4.0"], "--kafka x1=4.4.0: expected one version for a replica"),
        (["n1=4.3.1", "4.3.1:4.4.0"], "expected versions such as n1=4.1.2:4.3.1; name a replica and its versions"),
        (["n1=4.3.1:"], "--kafka n1=4.3.1:: expected versions such as n1=4.1.2:4.3.1"),
        (["n1=4.3.1", "4.3.1", "4.4.0"], "--kafka 4.4.0: expected one version for a replica, and one for the others"),
    ],
)
def test_versions_that_do_not_fit(given: list[str], problem: str, run: Run) -> None:
    done = run("lockstep", "quorum", "--runs", 1, *(word for kafka in given for word in ("--kafka", kafka)))
    assert done.code == 2
    assert problem in done.err


@pytest.mark.parametrize("option", ["--disk", "--reach", "--logs", "--junit-test"])
def test_options_of_one_version(option: str, run: Run, tmp_path: Path) -> None:
    values = [] if option == "--disk" else [tmp_path / "new"]
    done = run("lockstep", "quorum", "--walk", TWO_LOGS, "--kafka", "n1=4.3.1", option, *values)
    assert done.code == 2
    assert f"{option}: not supported with --kafka NAME=VERSION" in done.err


@pytest.mark.kafka
@pytest.mark.slow
def test_a_replica_that_the_model_lacks(run: Run) -> None:
    done = run("lockstep", "quorum", "--walk", TWO_LOGS, "--kafka", "n9=4.4.0", "--quiet")
    assert done.code == 2
    assert "--kafka: expected replicas 1, 2, 3, found 9" in done.err


@pytest.mark.kafka
@pytest.mark.slow
def test_random_walks_of_mixed_versions_agree(run: Run, tmp_path: Path) -> None:
    result = tmp_path / "result.json"
    versions = ("--kafka", "n1=4.2.1", "--kafka", "4.3.1", "--kafka", "n3=4.4.0")
    run("lockstep", "quorum", "--runs", 5, "--depth", 60, "--seed", 8, *versions, "--json", result, "--quiet")
    (found,) = json.loads(result.read_text())
    assert found["kafka"] == "n1=4.2.1,4.3.1,n3=4.4.0"
    assert found["walks"] == 5
    assert not [finding for finding in found["findings"] if finding["verdict"] in ("differs", "fails")]


@pytest.mark.kafka
@pytest.mark.slow
def test_a_fault_of_one_version_shows_beside_others(run: Run) -> None:
    versions = ("--kafka", "n1=4.1.2", "--kafka", "4.3.1", "--kafka", "n3=4.4.0")
    done = run("lockstep", "quorum", "--walk", TWO_LOGS, *versions, "--quiet")
    assert done.code == 12
    assert "VIOLATES: 1 walk, 40 steps beside Kafka n1=4.1.2,4.3.1,n3=4.4.0" in done.out


@pytest.mark.kafka
@pytest.mark.slow
def test_a_request_that_an_older_version_does_not_know_is_refused(run: Run, tmp_path: Path) -> None:
    result = tmp_path / "result.json"
    done = run("lockstep", "quorum", "--walk", JOINS, "--kafka", "n1=4.1.2", "--json", result, "--quiet")
    assert done.code == 1
    (finding,) = json.loads(result.read_text())[0]["findings"]
    assert {found["field"] for found in finding["differences"]} == {"pending", "AddVoterRequest", "AdminResponse"}
    assert run("lockstep", "quorum", "--walk", JOINS, "--kafka", "n1=4.2.1", "--quiet").code == 0


@pytest.mark.kafka
@pytest.mark.slow
def test_a_roll_restarts_every_voter_into_another_version(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    moved, move = list[tuple[int, int, int]](), MixedVersionDriver._move

    def watched(self: MixedVersionDriver, node: int, new: int, *, whole: bool) -> None:
        moved.append((node, self._of(node), new))
        move(self, node, new, whole=whole)

    monkeypatch.setattr(MixedVersionDriver, "_move", watched)
    done = run("lockstep", "quorum", "--walk", ROLLS, *ROLL, "--quiet")
    assert done.code == 0
    assert "AGREES: 1 walk, 84 steps beside Kafka n1=4.1.2:4.3.1,n2=4.1.2:4.3.1,n3=4.1.2:4.3.1" in done.out
    assert moved == [(3, 1, 0), (2, 1, 0), (1, 1, 0)]  # 4.3.1, the newest, is the first process


@pytest.mark.kafka
@pytest.mark.slow
@pytest.mark.parametrize(("lost", "field"), [("log", "log"), ("ballot", "leader")])
def test_a_disk_that_does_not_move_shows(lost: str, field: str, run: Run, tmp_path: Path, monkeypatch: Any) -> None:
    taken, result = MixedVersionDriver._taken, tmp_path / "result.json"

    def loses(self: MixedVersionDriver, there: int, command: str, **arguments: Any) -> None:
        taken(self, there, command, **{name: value for name, value in arguments.items() if name != lost})

    monkeypatch.setattr(MixedVersionDriver, "_taken", loses)
    assert run("lockstep", "quorum", "--walk", ROLLS, *ROLL, "--quiet", "--json", result).code == 1
    (finding,) = json.loads(result.read_text())[0]["findings"]
    assert finding["steps"][-1] == "Restart by n3"
    assert field in {found["field"] for found in finding["differences"]}


@pytest.mark.kafka
@pytest.mark.slow
def test_random_walks_of_a_roll_agree(run: Run, tmp_path: Path) -> None:
    result = tmp_path / "result.json"
    versions = ("--kafka", "n1=4.2.1:4.3.1:4.4.0", "--kafka", "n2=4.4.0:4.2.1", "--kafka", "4.3.1")
    more = ("--config", "lockstep-changes", "--set", "MaxRestarts=10", "--set", "MaxSnapshots=10")
    run("lockstep", "quorum", "--runs", 6, "--depth", 60, *more, *versions, "--json", result, "--quiet")
    (found,) = json.loads(result.read_text())
    assert not [finding for finding in found["findings"] if finding["verdict"] in ("differs", "fails")]
    assert found["actions"]["Restart"] > 5
