"""`validate_step`: the events of a sample one step at a time, and steps that the model does not allow."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from kraftcheck import InputError, ValidationState, validate_step
from kraftcheck.validation.cluster import prepare_log_replay
from kraftcheck.validation.event_stream import event_as_json
from kraftcheck.validation.sources import read_cluster_logs

SAMPLE = Path(__file__).parents[1] / "data" / "cluster" / "caught-up"
Step = tuple[list[dict[str, Any]], bool]


@cache
def steps() -> tuple[Step, ...]:
    """Return the steps of a sample in causal order, each with whether it is the last one of a process."""
    replay = prepare_log_replay(dict(read_cluster_logs([SAMPLE]).logs))
    begun, found = dict.fromkeys(replay.nodes, 0), []
    for node in replay.run():
        events, begun[node.number] = node.events[begun[node.number] : node.position], node.position
        is_last = node.is_done or node.events[node.position].incarnation != events[0].incarnation
        found.append(([event_as_json(event) for event in events], is_last))
    return tuple(found)


def changed(events: list[dict[str, Any]], event: str, change: Callable[[dict[str, Any]], bool]) -> Any:
    """Return a step whose first event of a name is changed; None if `change` finds nothing to change."""
    if all(one["event"] != event for one in events):
        return None
    copy: list[dict[str, Any]] = json.loads(json.dumps(events))
    return copy if any(change(one) for one in copy if one["event"] == event) else None


def put(name: str, value: Any, api: str = "") -> Callable[[dict[str, Any]], bool]:
    """Return a change of a field of an event, or of its message."""

    def change(one: dict[str, Any]) -> bool:
        for inner in one["fields"] if api and one["api"] == api else [] if api else [one]:
            if name in inner and inner[name] != value:
                inner[name] = value
                return True
        return False

    return change


CHANGES: dict[str, tuple[str, Callable[[dict[str, Any]], bool], str]] = {
    "another vote": ("answer", put("voteGranted", False, "Vote"), "answer Vote is another response than the model's"),
    "another epoch": ("send", put("lastFetchedEpoch", 9, "Fetch"), "send Fetch is a fetch that the model does"),
    "another append": ("append", put("base", 55), "append is another append than the model's"),
    "another log end": ("stored", put("epoch", 9), "stored "),
    "not sent": ("request", put("lastOffset", 5, "Vote"), "request Vote is received, and node "),
    "not answered": ("response", put("highWatermark", 3, "Fetch"), "response Fetch is received, and node "),
}


@pytest.mark.slow
def test_a_sample_is_allowed_and_changed_steps_are_refused() -> None:
    state, left = ValidationState(), dict(CHANGES)
    for events, is_last in steps():
        for title, (name, change, guard) in list(left.items()):
            other = changed(events, name, change)
            if other is not None and not is_last:
                refused = validate_step(state, other)
                assert refused is not None, title
                assert refused.guard.startswith(guard), refused
                assert refused.event.kind == name
                assert title != "another vote" or refused.guard.endswith(": voteGranted: false, model true")
                del left[title]
        assert validate_step(state, events, is_last=is_last) is None
    assert not left
    assert state.broken == ()
    assert {number: str(me.mode) for number, me in state.replicas.items()}


@pytest.mark.slow
def test_an_administrator_may_add_an_unknown_node() -> None:
    state = ValidationState()
    for events, is_last in steps():
        other = changed(events, "request", put("voterId", 99, "AddRaftVoter"))
        assert validate_step(state, other or events, is_last=is_last) is None
        if other is not None:
            break


@pytest.mark.slow
def test_a_known_difference_may_be_left_out() -> None:
    state = ValidationState(without=["caught-up-within-the-hour"])
    refused = next(filter(None, (validate_step(state, events, is_last=last) for events, last in steps())))
    assert refused.guard.startswith("voters shows another value than the model's: voters: ")
    with pytest.raises(InputError, match="unknown difference nothing"):
        ValidationState(without=["nothing"])


@pytest.mark.parametrize(
    ("step", "message"),
    [
        ([], "expected events of one node, found those of none"),
        ({"event": "boot", "time": 1}, "found those of -1; give each its node"),
        ([{"event": "boot", "time": 1, "node": n} for n in (1, 2)], "found those of 1, 2"),
        ({"event": "boots", "time": 1}, "step:1: expected an object with the name of an event"),
        ({"event": "append", "time": 1, "node": 1, "base": 0, "end": "x", "epoch": 1}, "step:1: expected an integer"),
    ],
)
def test_bad_steps(step: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        validate_step(ValidationState(), step)


def test_the_example_of_the_page(capsys: pytest.CaptureFixture[str]) -> None:
    page = (Path(__file__).parents[2] / "docs" / "validate.md").read_text()
    (block,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    exec(block, {})
    assert capsys.readouterr().out == block.rpartition("# ")[2]
