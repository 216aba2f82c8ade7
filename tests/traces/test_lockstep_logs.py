"""Lockstep walks as logs of Kafka's Raft clients: `validate` judges them without the walk."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.support.command_line import Outcome, Run

DATA = Path(__file__).parents[1] / "data" / "kafka"


def validated(run: Run, folder: Path, walk: str, *options: Any) -> tuple[Outcome, dict[str, Any]]:
    """Return the outcome of a walk, and the validation of its logs."""
    done = run("lockstep", "quorum", "--walk", DATA / f"{walk}.walk", "--logs", folder / "logs", "--quiet", *options)
    judged = run("validate", "quorum", folder / "logs", "--json", folder / "found.json", "--quiet")
    found = json.loads((folder / "found.json").read_text())
    assert judged.code == found["exit_code"], judged
    return done, found


@pytest.mark.kafka
@pytest.mark.slow
@pytest.mark.parametrize("version", ["4.1.0", "4.3.1", "4.4.0"])
def test_two_leaders(version: str, run: Run, tmp_path: Path) -> None:
    done, found = validated(run, tmp_path, "two-leaders", "--kafka", version)
    assert (done.code, found["exit_code"]) == (12, 1)
    divergence = found["divergence"]
    assert Path(divergence["file"]).name == "node1.log"
    assert "Completed transition to Leader(" in divergence["text"]
    assert "epoch=1, " in divergence["text"]  # epoch 1 has the leader n2
    assert {"field": "mode", "kafka": "Leader", "model": "Candidate"} in divergence["differences"]


@pytest.mark.kafka
@pytest.mark.slow
@pytest.mark.parametrize("version", ["4.1.0", "4.3.1", "4.4.0"])
def test_two_committed_logs(version: str, run: Run, tmp_path: Path) -> None:
    done, found = validated(run, tmp_path, "two-committed-logs", "--kafka", version)
    assert (done.code, found["exit_code"]) == (12, 1)
    divergence = found["divergence"]
    assert divergence["what"] == "is not followed by the lines of new voters or versions"
    lines = Path(divergence["file"]).read_text().splitlines()[: divergence["line"]]
    assert "Follower end offset updated" in lines[-2]  # with the voters that it does not read
    assert any("Truncated to offset 0 " in line for line in lines[-6:])


@pytest.mark.kafka
@pytest.mark.slow
@pytest.mark.parametrize(
    "walk",
    [
        "restarts-by-its-vote",
        "only-voter-loses-its-disk",
        "ends-before-its-first-record",
        "resigns-after-a-commit",
        "resigns-with-a-voter-change",
        "snapshot-and-deletion",
    ],
)
def test_a_walk_without_a_fault_conforms(walk: str, run: Run, tmp_path: Path) -> None:
    """A walk's network may answer a later request first, which Kafka's connections do not: that is left open."""
    done, found = validated(run, tmp_path, f"agrees/{walk}")
    assert (done.code, found["divergence"], found["broken"]) == (0, None, [])
    assert found["exit_code"] in (0, 20)
    assert sum(found["explained"].values()) == found["events"] > 70
    for path in sorted((tmp_path / "logs").iterdir()):
        text = path.read_text()
        starts = text.count(" Reading KRaft snapshot")
        assert text.count(" Sent outbound request: OutboundRequest(correlationId=0,") <= starts > 0
        changed = re.sub(r"(Leader appended .*offset=|Sent outbound .*lastOffset=)\d+", r"\g<1>99", text, count=1)
        if changed != text:
            path.write_text(changed)
            break
    assert run("validate", "quorum", tmp_path / "logs", "--quiet").code in (1, 20)


def test_options(run: Run, tmp_path: Path) -> None:
    done = run("lockstep", "quorum", "--kafka", "4.3.1", "--kafka", "4.4.0", "--logs", tmp_path / "logs")
    assert (done.code, done.out) == (2, "")
    assert "--logs: several versions of Kafka are given; give one" in done.err


@pytest.mark.kafka
@pytest.mark.slow
def test_a_folder_with_files_is_refused(run: Run, tmp_path: Path) -> None:
    (tmp_path / "kept").write_text("")
    done = run("lockstep", "quorum", "--walk", DATA / "two-leaders.walk", "--logs", tmp_path)
    assert done.code == 2
    assert f"--logs {tmp_path}: expected an empty folder" in done.err
