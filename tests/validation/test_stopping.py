"""Logs of leaders whose process ends in good order, and of parked fetches whose response another thread writes."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.command_line import Outcome, Run

DATA = Path(__file__).parents[1] / "data" / "cluster"
STOPPING, STOPS_LATE, KILLED = DATA / "stopping", DATA / "stops-late", DATA / "killed"


@pytest.fixture
def validate(run: Run) -> Callable[..., Outcome]:
    return lambda *arguments: run("validate", "quorum", *arguments, "--quiet")


def changed(folder: Path, target: Path, node: int, change: Callable[[list[str]], None]) -> Path:
    """Write the logs of a folder to another one, with the lines of a node changed."""
    for path in sorted(folder.glob("*.trace.log.gz")):
        lines = gzip.decompress(path.read_bytes()).decode().splitlines(keepends=True)
        if path.name.startswith(f"node{node}."):
            change(lines)
        (target / path.stem).write_text("".join(lines))
    return target


def test_a_leader_that_stops_refuses_its_last_fetches(validate: Callable[..., Outcome]) -> None:
    assert validate(STOPPING).code == 0
    done = validate(STOPPING, "--without", "refuses-while-it-stops")
    assert done.code == 1, done
    assert "answer Fetch: is another response than the model's" in done.out
    assert "errorCode      8      0" in done.out


def stay(lines: list[str]) -> None:
    """Remove the transition to Resigned."""
    lines[:] = [line for line in lines if " to ResignedState(" not in line]


def test_a_leader_that_refuses_must_resign(validate: Callable[..., Outcome], tmp_path: Path) -> None:
    done = validate(changed(STOPPING, tmp_path, 2, stay))
    assert done.code == 1, done
    assert "send EndQuorumEpoch: is a request that the model does not send" in done.out


def test_a_leader_that_stops_may_receive_one_more_request(validate: Callable[..., Outcome], tmp_path: Path) -> None:
    assert validate(STOPS_LATE).code == 0
    done = validate(changed(STOPS_LATE, tmp_path, 2, stay))
    assert done.code == 1, done
    assert "answer Fetch: is another response than the model's" in done.out


def late(lines: list[str]) -> None:
    """Move the response of a parked fetch that times out behind the request that its receiver sends next."""
    own = [number for number, line in enumerate(lines) if "replicaId=2, " in line and "FetchRequest" in line]
    for asked, answered, again in zip(own, own[1:], own[2:], strict=False):
        seconds = [float(lines[number][18:24].replace(",", ".")) for number in (asked, answered)]
        is_answer = ["Sent response" in lines[number] for number in (asked, answered, again)]
        is_ended = "Completing delayed fetch" in lines[answered - 1]
        if is_answer == [False, True, False] and not is_ended and seconds[1] - seconds[0] > 0.45:
            lines.insert(again, lines.pop(answered))
            return
    raise AssertionError("no parked fetch")


@pytest.mark.slow
@pytest.mark.sampled(2)
@pytest.mark.parametrize("folder", ["conforms", "caught-up"])
def test_the_response_to_a_parked_fetch_may_be_written_late(
    folder: str, validate: Callable[..., Outcome], tmp_path: Path
) -> None:
    done = validate(changed(DATA / folder, tmp_path, 1, late))
    assert done.code == 0, done


def test_a_process_may_be_killed_before_it_handles_a_message(validate: Callable[..., Outcome], tmp_path: Path) -> None:
    """An observer is killed as it receives records, and starts again without them."""
    done = validate(KILLED)
    assert done.code == 12, done
    assert "broken: NobodyFails" in done.out

    def with_line(lines: list[str]) -> None:
        stored = next(line for line in reversed(lines) if "Follower end offset updated" in line)
        place = max(place for place, line in enumerate(lines) if "request manager with bootstrap servers" in line) - 2
        assert "Received inbound message" in lines[place]
        lines.insert(place + 1, stored.replace("offset=98", "offset=100"))

    done = validate(changed(KILLED, tmp_path, 9, with_line))
    assert done.code == 1, done
    assert "    fetchOffset  98     100" in done.out
