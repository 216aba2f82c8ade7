"""Scenarios, counterexamples and covers beside the real Raft client of Kafka."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.command_line import Run

pytestmark = [pytest.mark.kafka, pytest.mark.slow]
SCENARIOS = Path(__file__).parents[1] / "scenarios"


@pytest.mark.parametrize("name", ["bootstrap", "election", "resign", "snapshot", "unflushed"])
def test_a_scenario_agrees(name: str, run: Run) -> None:
    done = run("lockstep", "quorum", "--walk", SCENARIOS / f"quorum-{name}.txt", "--quiet")
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith("AGREES: 1 walk")


def test_a_fault_of_the_design_is_not_in_kafka(run: Run, tmp_path: Path) -> None:
    fault, path = "followers-grant-pre-votes", tmp_path / "fault.out"
    chosen = ("quorum", "--variant", fault)
    assert run("check", *chosen, "--config", f"fault.{fault}", "--engine", "reference", "--trace", path).code == 12
    done = run("lockstep", *chosen, "--walk", path, "--quiet")
    assert done.code == 1
    assert "differs: after HandleVoteRequest: VoteResponse" in done.out


def test_several_files_of_which_one_cannot_be_walked(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "story.txt"
    path.write_text("start quorum\nResign by n1\n----\n")
    result = tmp_path / "result.json"
    done = run("lockstep", "quorum", "--walk", path, "--json", result)
    assert done.code == 2
    assert "story.txt:2:1: Resign by n1: no such step; me.mode is not Mode.LEADER" in done.err


def test_a_cover_to_a_depth(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    done = run("lockstep", "quorum", "--cover", "--depth", 9, "--json", path, "--quiet")
    ((found,),) = (json.loads(path.read_text()),)
    cover = found["cover"]
    assert (done.code, found["findings"]) == (0, [])
    assert (cover["whole"], cover["depth"]) == (False, 9)
    assert cover["taken"] + sum(cover["untaken"].values()) == cover["labelled steps"]
    assert cover["taken"] > 200
    assert cover["untaken"]["missing"] == 0
    assert cover["untaken"]["behind a difference"] == 0


def test_what_an_administrator_asks_is_not_taken_for_another_request(run: Run) -> None:
    """The reading has Kafka add a second directory id, which Kafka refuses; the model would refuse another voter so."""
    done = run("lockstep", "quorum", "--walk", SCENARIOS / "quorum-disk-failure-as-told.txt", "--quiet")
    assert done.code == 1
    assert "differs: after AddVoter: AdminResponse, ApiVersionsRequest, change" in done.out
