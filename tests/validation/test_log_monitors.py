"""Monitors on the INFO lines of a real cluster, and on changed ones."""

from __future__ import annotations

import gzip
import re
from dataclasses import replace
from pathlib import Path

import pytest

from kraftcheck.spec.errors import InputError
from kraftcheck.validation.findings import CheckReport
from kraftcheck.validation.log4j import events_of_lines
from kraftcheck.validation.monitors import LOG_CHECK_MEANINGS, check_events

DATA = Path(__file__).parents[1] / "data" / "cluster"


def lines_of(folder: Path) -> dict[int, list[str]]:
    return {
        node: gzip.decompress((folder / f"node{node}.info.log.gz").read_bytes()).decode().splitlines()
        for node in (1, 2, 3)
    }


def checked(lines: dict[int, list[str]]) -> CheckReport:
    events = [(node, event) for node, text in lines.items() for event in events_of_lines(text, f"node{node}.log")]
    return check_events(replace(event, node=node) for node, event in events)


def test_the_sample_breaks_nothing() -> None:
    report = checked(lines_of(DATA))
    assert report.findings == report.notes == []
    assert list(report.checks) == list(LOG_CHECK_MEANINGS)
    assert [check for check, count in report.checks.items() if not count] == ["truncations"]
    assert report.checks["restarts"] == 2


def test_a_vote_that_was_not_written_is_told() -> None:
    report = checked(lines_of(DATA / "vote-not-written"))
    (found,) = report.findings
    assert (found.check, found.file, found.where, found.nodes) == ("restarts", "node1.log", "line 35", (1,))
    assert "restarts in epoch 1 with no leader and no vote, but had stored epoch 1 with leader 1" in found.message


def test_a_start_that_ends_early_hides_no_lost_vote() -> None:
    lines = lines_of(DATA / "vote-not-written")
    start = [place for place, line in enumerate(lines[1]) if "Initialized snapshots" in line][1]
    (found,) = checked(lines | {1: [*lines[1][:start], *lines[1][start : start + 8], *lines[1][start:]]}).findings
    assert (found.check, found.where) == ("restarts", "line 43")


CHANGES = {
    "another leader": (3, r"(FollowerState\(fetchTimeoutMs=\d+, epoch=6, leader)=1", r"\1=2", "leaders"),
    "another vote": (
        2,
        r"(epoch=6, leaderId=OptionalInt.empty, votedKey=Optional\[ReplicaKey\(id)=1",
        r"\1=3",
        "votes",
    ),
    "an earlier epoch": (3, r"(to FollowerState\(fetchTimeoutMs=\d+, epoch)=6", r"\1=1", "epochs grow"),
    "no majority": (
        3,
        r"(from CandidateState.*2=VoterState\(replicaKey=ReplicaKey\([^)]*\), state)=GRANTED",
        r"\1=REJECTED",
        "votes",
    ),
    "an observer": (3, r"(to (?:Prospective|Candidate)State\(.*), 3=VoterState\(.*?\)\}", r"\1}", "observers"),
    "a leader behind": (1, r"(to Leader\(.*epoch=6, epochStartOffset)=211", r"\1=150", "leaders' logs"),
    "an epoch lost": (
        1,
        r"(to (?:Resigned|Unattached)State\((?:localId=1, )?epoch)=1(.* from null)",
        r"\1=0\2",
        "restarts",
    ),
    "a voter lost": (2, r"(set of voters.*), 3=VoterNode\(.*\)(\}\) at offset 69 )", r"\1\2", "voter sets by offset"),
    "two voters at once": (2, r"(.*set of voters.*VoterNode.*at offset 64 .*)", "", "voter sets by offset"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_changed_line_is_told(name: str) -> None:
    node, pattern, replacement, check = CHANGES[name]
    lines = lines_of(DATA)
    changed = [re.sub(pattern, replacement, line) for line in lines[node]]
    assert changed != lines[node]
    report = checked(lines | {node: changed})
    assert check in {found.check for found in report.findings}, report


def test_an_empty_log_checks_nothing() -> None:
    assert checked({1: []}).total == 0


def test_a_disk_that_was_replaced_is_a_note() -> None:
    """A voter that comes back in epoch 0 has another directory: it is another replica."""
    lines = lines_of(DATA)
    starts = [place for place, line in enumerate(lines[2]) if "Initialized snapshots" in line]
    again = lines[2][starts[0] : starts[0] + 12]
    report = checked(lines | {2: lines[2][: starts[1]] + again})
    assert report.findings == []
    assert [note.check for note in report.notes] == ["restarts"]


def test_truncations() -> None:
    """A truncation that is not done repeats, in the log of a client whose truncation an agent left out."""
    line = (
        "[2026-11-26 02:59:49,392] INFO [RaftManager id=3] Truncated to offset {} from Fetch response from leader 1 (x)"
    )
    lines = lines_of(DATA)

    def told(*offsets: int) -> list[str]:
        report = checked(lines | {3: [*lines[3], *(line.format(offset) for offset in offsets)]})
        assert report.checks["truncations"] == len(offsets)
        return [found.message.partition(";")[0] for found in report.findings]

    assert told(250, 249) == []
    assert told(*5 * [250]) == ["truncated to offset 250 again in epoch 6"]
    assert told(50)[0].startswith("truncated to offset 50, below its own high watermark ")


def test_a_number_that_is_too_long() -> None:
    lines = lines_of(DATA)
    place = next(place for place, line in enumerate(lines[1]) if "to Unattached" in line)
    lines[1][place] = lines[1][place].replace("epoch=0", f"epoch={5000 * '9'}")
    with pytest.raises(InputError, match=f"node1.log:{place + 1}: expected a line of Kafka, found a number"):
        checked(lines)
