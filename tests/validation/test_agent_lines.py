"""The agent's files: their lines and states replay, and a changed state is found."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kraftcheck.validation.cluster import prepare_log_replay
from kraftcheck.validation.event_stream import read_event_stream
from kraftcheck.validation.events import Event, EventKind
from kraftcheck.validation.replay import ClusterReplay

FOLDER = Path(__file__).parents[1] / "data" / "cluster" / "agent"
Lines = dict[int, list[str]]


def recorded() -> Lines:
    return {node: gzip.open(FOLDER / f"node{node}.ndjson.gz", "rt").read().splitlines() for node in (1, 2, 3)}


def replayed(lines: Lines) -> ClusterReplay:
    logs: dict[int, list[Event]] = {}
    for node, text in lines.items():
        logs[node] = list(read_event_stream(text, f"node{node}.ndjson"))
        for event in logs[node]:
            event.node = node
    replay = prepare_log_replay(logs)
    for _ in replay.run():
        pass
    return replay


@pytest.mark.slow
def test_recorded_lines_and_states_conform() -> None:
    replay = replayed(recorded())
    assert replay.divergence is None
    assert not replay.pairs.unpaired
    assert replay.explained[EventKind.STATE] == 187
    assert replay.explained[EventKind.REQUEST] > 200


@pytest.mark.slow
def test_an_unfinished_line_is_left_out() -> None:
    lines = recorded()
    lines[3][-1] = lines[3][-1][:40]
    assert replayed(lines).divergence is None


CHANGES: dict[str, Callable[[Any], Any]] = {
    "mode": lambda mode: "Unattached" if mode != "Unattached" else "Follower",
    "epoch": lambda epoch: epoch + 1,
    "leader": lambda leader: 3 if leader != 3 else 2,
    "end": lambda end: end + 1,
    "last": lambda last: last + 1,
    "high_watermark": lambda high: (high or 0) + 1,
    "version": lambda version: 1 - version,
    "voters": lambda voters: dict(list(voters.items())[1:]) or {"2": "AAAAAAAAAAAAAAAAAAAAAQ"},
    "voted": lambda voted: {"id": 3, "directory": "AAAAAAAAAAAAAAAAAAAAAQ"} if voted else {"id": 1, "directory": "x"},
    "start": lambda start: start + 777,
    "voters_offset": lambda offset: offset + 1,
}


@pytest.mark.sampled(9)
@pytest.mark.parametrize("field", CHANGES)
def test_a_changed_state_is_found_at_its_line(field: str) -> None:
    lines = recorded()
    states = [number for number, line in enumerate(lines[2]) if '"event":"state"' in line]
    place = states[len(states) // 2]
    entry = json.loads(lines[2][place])
    lines[2][place] = json.dumps({**entry, field: CHANGES[field](entry[field])}, separators=(",", ":"))
    divergence = replayed(lines).divergence
    assert divergence is not None
    assert divergence.event.place == f"node2.ndjson:{place + 1}"
    assert divergence.differences[0].field == field.replace("_", " ")
