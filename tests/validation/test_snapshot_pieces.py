"""Logs of a follower that receives a snapshot in pieces of 120 bytes (`controller.quorum.fetch.snapshot.max.bytes`)."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.command_line import Run

PIECES = Path(__file__).parents[1] / "data" / "cluster" / "pieces"
SENT, RECEIVED = "Sent outbound request: OutboundRequest", "Received inbound message InboundResponse"

Change = Callable[[list[str]], object]


def lines_of(lines: list[str], text: str) -> list[int]:
    """Return the places of the lines on FetchSnapshot with a text."""
    return [place for place, line in enumerate(lines) if text in line and "FetchSnapshot" in line]


def test_the_pieces_are_one_snapshot(run: Run) -> None:
    lines = gzip.decompress((PIECES / "node2.trace.log.gz").read_bytes()).decode().splitlines()
    assert len(lines_of(lines, SENT)) == 7
    assert run("validate", "quorum", PIECES, "--quiet").code == 0


def at_position(position: int) -> Change:
    """Return the change that moves the third piece, in requests and responses."""

    def change(lines: list[str]) -> None:
        lines[:] = [line.replace("position=240", f"position={position}") for line in lines]

    return change


def a_piece_is_not_received(lines: list[str]) -> None:
    del lines[lines_of(lines, RECEIVED)[2]]


def the_log_is_not_replaced(lines: list[str]) -> None:
    del lines[next(place for place, line in enumerate(lines) if "Fully truncated the log" in line)]


def the_log_is_replaced_early(lines: list[str]) -> None:
    place = next(place for place, line in enumerate(lines) if "Fully truncated the log" in line)
    lines.insert(lines_of(lines, RECEIVED)[2] + 1, lines.pop(place))


NOT_SENT = "send FetchSnapshot: is not the request that the model sends"
BEHIND_THE_SECOND = "more than 120, less than 795"
FAULTS: dict[str, tuple[set[int], Change, tuple[str, ...]]] = {
    "a piece that was received": ({1, 2}, at_position(120), (NOT_SENT, f"120    {BEHIND_THE_SECOND}")),
    "a piece behind the end": ({1, 2}, at_position(795), (NOT_SENT, f"795    {BEHIND_THE_SECOND}")),
    "a piece without a response": ({2}, a_piece_is_not_received, (NOT_SENT, "position  360    240")),
    "no new log": ({2}, the_log_is_not_replaced, ("voters: shows another value",)),
    "an early log": (
        {2},
        the_log_is_replaced_early,
        ("send FetchSnapshot: is a request for a snapshot that no response named",),
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_in_a_piece_is_found(name: str, run: Run, tmp_path: Path) -> None:
    nodes, change, says = FAULTS[name]
    for path in PIECES.iterdir():
        lines = gzip.decompress(path.read_bytes()).decode().splitlines()
        if int(path.name[4]) in nodes:
            change(lines)
        (tmp_path / path.stem).write_text("\n".join([*lines, ""]))
    done = run("validate", "quorum", tmp_path, "--quiet")
    assert done.code == 1, done
    assert [text for text in says if text not in done.out] == [], done.out
