"""Logs that begin in the life of a process: they are replayed from a transition on that resets the replica."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from kraftcheck.validation.events import EventKind
from kraftcheck.validation.log4j import events_of_lines
from kraftcheck.validation.process_starts import merge_shown_and_requested_log_ends
from kraftcheck.validation.replay_state import count_events_before_replay
from tests.support.command_line import Outcome, Run

DATA = Path(__file__).parents[1] / "data" / "cluster"


@pytest.fixture
def validate(run: Run) -> Callable[..., Outcome]:
    return lambda *arguments: run("validate", "quorum", *arguments)


def lines_of(name: str, node: int) -> list[str]:
    return gzip.decompress((DATA / name / f"node{node}.trace.log.gz").read_bytes()).decode().splitlines()


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("name", "since", "least"),
    [
        ("caught-up", "2026-11-25T13:42:51", 1000),
        ("caught-up", "2026-11-25T13:43:20", 150),
        ("conforms", "2026-11-25T13:20:15", 480),
        ("stopping", "2026-11-26T10:50:48.8", 220),
    ],
)
def test_what_follows_a_transition_is_explained(
    name: str, since: str, least: int, validate: Callable[..., Outcome], tmp_path: Path
) -> None:
    path = tmp_path / "found.json"
    done = validate(DATA / name, "--from", since, "--json", path)
    assert done.code == 20, done
    assert "in the life of a process" in done.out
    found = json.loads(path.read_text())
    assert found["divergence"] is None
    assert sum(found["explained"].values()) == found["events"] > least
    assert any("its log begins in the life of a process" in one for one in found["open"])


CHANGES = {
    "vote": ("Sent response.*VoteResponse.*voteGranted=true", "voteGranted=true", "voteGranted=false", "answer Vote"),
    "mode": ("Completed transition to Follower", " to FollowerState", " to UnattachedState", "transition"),
    "fetch": ("Sent outbound request.*FetchRequest", "lastFetchedEpoch=2", "lastFetchedEpoch=1", "send Fetch"),
    "commit": ("Follower high watermark updated", "updated to 1", "updated to 2", "follower high watermark"),
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("change", CHANGES)
def test_a_change_behind_the_transition_is_found(change: str, validate: Callable[..., Outcome], tmp_path: Path) -> None:
    line, old, new, event = CHANGES[change]
    for node in (1, 2, 3):
        lines = lines_of("caught-up", node)
        if node == 3:
            at = max(place for place, text in enumerate(lines) if re.search(line, text))
            assert old in lines[at]
            lines[at] = lines[at].replace(old, new)
        (tmp_path / f"node{node}.log").write_text("\n".join([*lines, ""]))
    done = validate(tmp_path, "--from", "2026-11-25T13:43:20", "--quiet")
    assert done.code == 20, done
    assert f"node3.log:{at + 1}," in done.out
    assert f"  {event}" in done.out


def test_where_a_log_begins() -> None:
    events = list(events_of_lines(lines_of("conforms", 2), "node2.log"))
    assert count_events_before_replay(events) == 0
    late = events[200:]
    place = count_events_before_replay(late)
    assert late[place - 1].kind is EventKind.TRANSITION
    assert late[place - 1].body[0]["mode"] in ("Follower", "Unattached")
    steady = [event for event in late if event.kind is not EventKind.TRANSITION]
    assert count_events_before_replay(steady) == len(steady)


def test_lineage() -> None:
    assert merge_shown_and_requested_log_ends([(5, 1), (9, 2), (12, 2)], []) == [(5, 1), (12, 2)]
    assert merge_shown_and_requested_log_ends([(5, 1), (12, 2)], [(7, 1)]) == [(7, 1)]
    assert merge_shown_and_requested_log_ends([(5, 1), (12, 2)], [(12, 2), (5, 1)]) == [(5, 1), (12, 2)]
    assert merge_shown_and_requested_log_ends([], []) == []
