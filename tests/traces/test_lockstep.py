"""Walks beside the real Raft client of Kafka. They need Java and Maven, which fetches Kafka's jars once."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from kraftcheck.lockstep.driver_process import Driver, DriverDied
from kraftcheck.lockstep.jars import driver_classpath
from kraftcheck.lockstep.lockstep import Lockstep, LockstepFinding, StepChooser
from kraftcheck.lockstep.walks import StepChoice, read_walk
from tests.support.command_line import Run

pytestmark = [pytest.mark.kafka, pytest.mark.slow]
WALKS = Path(__file__).parents[1] / "data" / "kafka"
TRUNCATION = WALKS / "voters-after-truncation.walk"
CALM = ("--config", "lockstep-changes", "--set", "MaxAddVoters=0", "--set", "MaxRemoveVoters=0")


def test_elections_and_replication_agree(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    page = tmp_path / "result.md"
    asked = ("--runs", 20, "--depth", 40, "--seed", 3, "--json", path, "--report", page)
    done = run("lockstep", "quorum", *CALM, *asked, "--quiet")
    assert "agrees: the longest walk" in page.read_text()
    (found,) = json.loads(path.read_text())
    assert found["findings"] == []
    assert (done.code, found["walks"]) == (0, 20)
    assert found["steps"] > 700
    taken = found["actions"]
    assert {"HandleVoteResponse", "HandleFetchResponse", "HandleBeginQuorumEpochRequest", "ClientAppend"} <= set(taken)


def test_a_variant_is_told_from_kafka(run: Run, tmp_path: Path) -> None:
    path, page = tmp_path / "result.json", tmp_path / "result.html"
    fault = ("--variant", "followers-grant-pre-votes", "--json", path, "--report", page)
    done = run("lockstep", "quorum", *fault, *CALM, "--runs", 40, "--depth", 60, "--quiet")
    (found,) = json.loads(path.read_text())
    assert done.code == 1
    assert any(
        finding["summary"][0].startswith("after HandleVoteRequest: VoteResponse") for finding in found["findings"]
    )
    (shown,) = data_of(page.read_text())["runs"]
    assert (shown["result"], len(shown["traces"])) == ("differs", len(found["findings"]))
    for finding, trace in zip(found["findings"], shown["traces"], strict=True):
        assert trace["end"] == f"differs: {finding['summary'][0]}"
        steps = [step["action"] for step in trace["steps"] if step["action"] is not None]
        assert [text.split()[0] for text in finding["steps"]][-1] in steps[-2:]
        assert len(steps) >= finding["step"]
    assert "VoteResponse" in shown["details"]


def data_of(page: str) -> dict[str, Any]:
    """Return what a report holds."""
    found: dict[str, Any] = json.loads(page.split('id="data">')[1].split("</script>")[0])
    return found


@pytest.mark.parametrize("version", ["4.1.2", "4.2.1", "4.3.1", "4.4.0"])
def test_a_voter_set_is_not_read_after_a_truncation(version: str, run: Run, tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    done = run("lockstep", "quorum", "--kafka", version, "--walk", TRUNCATION, "--json", path)
    (found,) = json.loads(path.read_text())
    assert done.code == 12
    assert found["kafka"] == version
    (violation,) = [finding for finding in found["findings"] if finding["verdict"] == "violates"]
    assert violation["violated"] == ["LastVoterSetIsUsed"]
    assert "violated for me = n1: `me.voters == " in done.out
    assert f"VIOLATES: 1 walk, {violation['step']} steps beside Kafka {version}" in done.out


def test_versions_are_one_table(run: Run, tmp_path: Path) -> None:
    path, early, late = tmp_path / "result.json", tmp_path / "early.walk", tmp_path / "late.walk"
    text = TRUNCATION.read_text().splitlines()
    early.write_text("\n".join([*text[:30], "Resign by n4"]))
    late.write_text("\n".join([*text, "Resign by n4"]))
    versions = [word for version in ("4.3.1", "4.1.99", "4.4.0") for word in ("--kafka", version)]
    done = run("lockstep", "quorum", *versions, "--walk", early, late, TRUNCATION, "--json", path, "--quiet")
    assert done.code == 12
    assert [line.strip() for line in done.out.splitlines()] == [
        "|                         | 4.3.1          | 4.1.99   | 4.4.0          |",
        "|-------------------------|----------------|----------|----------------|",
        "| early                   | ends early (1) | none (2) | ends early (1) |",
        "| late                    | violates (3)   | none (2) | violates (3)   |",
        "| voters-after-truncation | violates (4)   | none (2) | violates (4)   |",
        "",
        f"1. {early}: line 31: Resign by n4 is not enabled there",
        "2. --kafka 4.1.99: Maven has no such version of kafka-raft with its test kit: "
        "there is no org.apache.kafka:kafka-raft:jar:4.1.99",
        f"3. LastVoterSetIsUsed; {late}: line {len(text) + 1}: Resign by n4 is not enabled there",
        "4. LastVoterSetIsUsed",
    ]
    steps = [(found["kafka"], found.get("steps")) for found in json.loads(path.read_text())]
    shown = [len(read_walk(early).steps) - 1, len(read_walk(late).steps) - 1, len(read_walk(TRUNCATION).steps)]
    expected = {"4.3.1": shown, "4.1.99": [None] * 3, "4.4.0": shown}
    assert steps == [(version, taken) for version, found in expected.items() for taken in found]


def test_a_step_that_is_not_enabled(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "wrong.walk"
    settings = ("Hosts = {n1, n2}", "InitialVoters = {n1, n2}", "MaxPreVotes = 1", "MaxElections = 1")
    path.write_text("\n".join(["model quorum", *(f"set {text}" for text in settings), "Resign by n1\n"]))
    done = run("lockstep", "quorum", "--walk", path)
    assert done.code == 2
    assert "Resign by n1 is not enabled there" in done.err


def test_a_version_that_does_not_exist(run: Run) -> None:
    done = run("lockstep", "quorum", "--kafka", "4.1.99")
    assert done.code == 2
    assert "--kafka 4.1.99: Maven has no such version of kafka-raft with its test kit" in done.err


def test_a_process_that_dies() -> None:
    path = driver_classpath("4.3.1")
    with Driver(path.java, path.text) as driver:
        driver.ask("cluster", nodes=[1], voters=[1])
        driver._process.kill()
        with pytest.raises(DriverDied, match="the Java process ended"):
            driver.ask("expire", node=1)


def test_a_process_that_gives_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    path = driver_classpath("4.3.1")
    with Driver(path.java, path.text) as driver:
        driver.ask("cluster", nodes=[1], voters=[1])
        monkeypatch.setattr("kraftcheck.lockstep.driver_process.ANSWER_TIMEOUT_SECONDS", 0.5)
        driver._process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, driver._process.pid, os.WSTOPPED | os.WNOWAIT)  # or it might answer yet
        with pytest.raises(DriverDied, match=r"gave no answer to `expire` within 0 s|within 1 s"):
            driver.ask("expire", node=1)
    assert driver._process.returncode is not None


def test_another_model(run: Run) -> None:
    done = run("lockstep", "reconfig", "--config", "smoke")
    assert done.code == 2
    assert "reconfig: not supported by lockstep; use the model quorum or a variant of it" in done.err


def test_ctrl_c_tells_what_was_found_until_then(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, walk, made = tmp_path / "result.json", Lockstep.walk, list[int]()

    def stops(self: Lockstep, choose: StepChooser, depth: int) -> tuple[list[StepChoice], list[LockstepFinding]]:
        made.append(depth)
        if len(made) == 3:
            raise KeyboardInterrupt
        return walk(self, choose, depth)

    monkeypatch.setattr(Lockstep, "walk", stops)
    done = run("lockstep", "quorum", *CALM, "--runs", 10, "--depth", 20, "--json", path)
    assert done.code == 130
    assert done.err.endswith("interrupted\n")
    assert "INCOMPLETE: 2 walks, 40 steps beside Kafka 4.3.1" in done.out
    (found,) = json.loads(path.read_text())
    assert found["walks"] == 2


@pytest.mark.parametrize(
    ("config", "walks"),
    [
        *(("lockstep", 20), ("lockstep-changes", 20), ("lockstep-upgrade", 10)),
        *(
            pytest.param(*case, marks=pytest.mark.exhaustive)
            for case in (("lockstep", 60), ("lockstep-changes", 60), ("lockstep-upgrade", 30))
        ),
    ],
)
def test_random_walks_agree_but_for_faults_that_are_known(config: str, walks: int, run: Run, tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    done = run("lockstep", "quorum", "--config", config, "--runs", walks, "--seed", 1, "--json", path, "--quiet")
    (found,) = json.loads(path.read_text())
    assert found["walks"] == walks
    known = (["LastVoterSetIsUsed"], ["RemovedLeadersResign"])
    assert [finding for finding in found["findings"] if finding["violated"] not in known] == []
    assert done.code == (12 if found["findings"] else 0)
    assert found["steps"] > 90 * walks
    assert {
        "HandleVoteResponse",
        "HandleFetchResponse",
        "Restart" if config != "lockstep-changes" else "RemoveVoter",
    } <= set(found["actions"])


def test_a_walk_is_made_short_and_simple(run: Run, tmp_path: Path) -> None:
    known = WALKS / "known" / "pre-votes-begin-anew.walk"
    longer = tmp_path / "longer.walk"
    head, blank, steps = known.read_text().partition("\n\n")
    longer.write_text(f"{head}\nset MaxCrashes = 1{blank}Crash by n4\n{steps}")
    assert run("lockstep", "quorum", "--walk", longer, "--out", tmp_path / "out", "--quiet").code == 1
    found = (tmp_path / "out" / "differs-1.walk").read_text()
    assert "set Hosts = {n1, n2, n3}\n" in found
    assert "Crash" not in found
    assert "Snapshots" not in found
    assert "without pre-votes-begin-anew\n" in found
    assert found.count(" by ") == steps.count(" by ")
    assert run("lockstep", "quorum", "--walk", tmp_path / "out" / "differs-1.walk", "--quiet").code == 1


@pytest.mark.parametrize("path", sorted((WALKS / "agrees").glob("*.walk")), ids=lambda path: path.stem)
def test_what_differed_before_agrees(path: Path, run: Run) -> None:
    done = run("lockstep", "quorum", "--walk", path, "--quiet")
    steps = path.read_text().partition("\n\n")[2].count("\n")
    assert (done.code, done.out) == (0, f"AGREES: 1 walk, {steps} steps beside Kafka 4.3.1\n")
