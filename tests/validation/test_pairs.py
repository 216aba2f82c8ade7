"""Received requests are paired with the process of a restarted node that sent them."""

from __future__ import annotations

import pytest

from kraftcheck.validation.events import Event, EventKind, MessageBody, pair_receipts_with_sends

SENDER, RECEIVER, HOME = 3, 2, "localhost:1"


def fetches(kind: EventKind, processes: list[dict[int, int]]) -> list[Event]:
    """Return the events of fetches: by process, the offset of each correlation id."""
    found: list[Event] = []
    for incarnation, offsets in enumerate(processes):
        for correlation, offset in offsets.items():
            body = MessageBody("Fetch", ("fetchOffset",), (str(offset),))
            event = Event(SENDER, 0, kind, "log", len(found), body, correlation=correlation, seq=len(found))
            if kind is EventKind.SEND:
                event.address, event.incarnation = HOME, incarnation
            else:
                event.node, event.peer = RECEIVER, SENDER
            found.append(event)
    return found


@pytest.mark.parametrize("later", [{0: 13, 1: 14, 2: 15}, {0: 12, 1: 14, 2: 15}])
def test_a_process_that_was_killed_may_not_have_written_its_last_request(later: dict[int, int]) -> None:
    before = {80: 10, 81: 11}
    sent = fetches(EventKind.SEND, [before, later | {3: 16}])  # the last one is lost
    received = fetches(EventKind.REQUEST, [before | {82: 12}, later])
    pairs = pair_receipts_with_sends({SENDER: sent, RECEIVER: received}, {HOME: RECEIVER})
    assert not pairs.unpaired
    assert [id(received[place]) in pairs.sent for place in range(6)] == [True, True, False, True, True, True]


def test_a_process_that_goes_on_has_written_its_requests() -> None:
    whole = {number: number for number in range(80, 90)}
    sent = fetches(EventKind.SEND, [{number: offset for number, offset in whole.items() if number != 85}, {0: 1}])
    received = fetches(EventKind.REQUEST, [whole, {0: 1}])
    pairs = pair_receipts_with_sends({SENDER: sent, RECEIVER: received}, {HOME: RECEIVER})
    assert [event.correlation for event in pairs.unpaired] == [85]
