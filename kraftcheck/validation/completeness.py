"""Checks that no line of a log is missing, doubled or out of place."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Any

from kraftcheck.kraft_model.quorum.records import (
    Batch,
    DiskReplica,
    FetchSnapshotRequest,
    KRaftVersion,
    Mode,
    Replica,
    Voters,
)
from kraftcheck.validation.events import Event, EventKind, request_pairing_key
from kraftcheck.validation.replay_state import BOOT_KINDS, EventRefusal, NodeHypothesis
from kraftcheck.validation.translation import (
    LoggedFieldDifference,
    batch_count_covering_offset,
    batch_end_offset,
    record_offset_of_batch,
)

DURABLE_MODES = ("Unattached", "Candidate", "Leader", "Follower")
"""Modes that a replica writes to quorum-state before it enters them."""

OTHER_THREAD_LINE_KINDS = (EventKind.ANSWER, EventKind.PARKED, EventKind.REJECTED)
"""Lines of delayed fetches, which another thread may write."""

FOLLOWER_LINE_RANKS = {
    EventKind.REPLACED: 0,
    EventKind.TRUNCATED: 0,
    EventKind.LOADED: 1,
    EventKind.VERSION: 2,
    EventKind.VOTERS: 2,
    EventKind.STORED: 3,
    EventKind.FOLLOWER_HIGH_WATERMARK: 4,
    EventKind.FETCHING: 5,
    EventKind.SEND: 6,
}
"""The order of the lines of a follower that handles a response."""

CONTROL_KINDS = (EventKind.VERSION, EventKind.VOTERS)

UNDELAYED_APIS = ("Vote", "BeginQuorumEpoch", "EndQuorumEpoch", "FetchSnapshot", "DescribeQuorum")
"""Requests whose responses are never delayed."""


ABOVE_ALL_CORRELATIONS = 1 << 62
"""A number that no correlation id reaches."""


class LineOrderChecker:
    """The order and the numbers of a node's lines, unit by unit."""

    def __init__(self, head: Sequence[Event] = ()) -> None:
        """Begin behind the events that are not replayed; later responses to their requests are ignored ones."""
        self.state: tuple[str, int] | None = None  # mode and epoch
        self.last_request: int | None = None if head else -1
        self.open: dict[int, tuple[str, int] | None] = {}  # requests without response, with the state that sent them
        self.received: Event | None = None  # the last response
        self.first = -1  # the first request whose line is there; an earlier one may have a response, which is ignored
        if head:
            self.first = next(
                (event.correlation for event in head if event.kind is EventKind.SEND), ABOVE_ALL_CORRELATIONS
            )
        for event in head:
            if event.kind is EventKind.TRANSITION:
                self.state = (event.body[0]["mode"], event.body[0]["epoch"])
            elif event.kind is EventKind.SEND:
                self.last_request = event.correlation
                self.open[event.correlation] = None
            elif event.kind in (EventKind.RESPONSE, EventKind.IGNORED):
                self.open.pop(event.correlation, None)
                self.received = event

    def check(self, unit: Sequence[Event], *, is_last: bool) -> None:
        """Raise EventRefusal at the first line of a unit that comes too early, twice, or without the line before it."""
        if unit[0].kind in BOOT_KINDS:
            self.__init__()  # type: ignore[misc]
            _check_process_start(unit, is_last=is_last)
        self._check_received(unit[0])
        _require_attempts_before_transitions(unit, is_last=is_last)
        _require_parked_fetch_responses(unit, is_last=is_last)
        _check_line_order(unit)
        _require_rising_offsets(unit)
        for event in unit:
            if event.kind is EventKind.TRANSITION:
                self.state = (event.body[0]["mode"], event.body[0]["epoch"])
            elif event.kind is EventKind.SEND:
                if self.last_request is None:  # the first one behind a head without requests
                    self.last_request, self.first = event.correlation - 1, min(self.first, event.correlation)
                self.last_request += 1
                if event.correlation != self.last_request:
                    found = LoggedFieldDifference("correlationId", event.correlation, self.last_request)
                    raise EventRefusal(event, "is not the next request of its process", [found])
                self.open[event.correlation] = self.state

    def _is_awaited(self, event: Event, received: Event | None) -> bool:
        """Whether a response answers an open request, or one before the first line of the log."""
        is_second = received is not None and received.correlation == event.correlation
        return event.correlation in self.open or (event.correlation < self.first and not is_second)

    def _check_received(self, event: Event) -> None:
        """A response comes once, and is ignored if mode or epoch have changed since its request.

        Both lines of an ignored response are events of that kind.
        """
        received, self.received = self.received, None
        if event.kind not in (EventKind.RESPONSE, EventKind.IGNORED):
            return
        if self._is_awaited(event, received):
            is_late = self.open.pop(event.correlation, None) != self.state
            if is_late and event.kind is EventKind.RESPONSE:
                raise EventRefusal(event, "is a response to an earlier mode or epoch, and is not ignored")
            self.received = event
        elif received is None or event.kind is EventKind.RESPONSE or received.kind is EventKind.RESPONSE:
            raise EventRefusal(event, "answers no open request of this process")
        elif (received.correlation, received.body) != (event.correlation, event.body):
            raise EventRefusal(event, "is not the response that was received")


def _check_process_start(unit: Sequence[Event], *, is_last: bool) -> None:
    """A start has one line of each kind, and starts with the voters that it has read."""
    seen: dict[EventKind, Event] = {}
    for event in unit:
        if event.kind in (*BOOT_KINDS, EventKind.STARTING_VOTERS) and seen.setdefault(event.kind, event) is not event:
            raise EventRefusal(event, "comes twice in one start of a process")
    boot, starting = seen.get(EventKind.BOOT), seen.get(EventKind.STARTING_VOTERS)
    if starting is None:
        if boot is not None and not is_last:
            raise EventRefusal(boot, "is not followed by the voters that the process starts with")
        return
    if boot is None:
        raise EventRefusal(starting, "comes before the process reads its log")
    _require_starting_voters_match(starting, unit)


def _require_starting_voters_match(starting: Event, unit: Sequence[Event]) -> None:
    read = [event.body[0] for event in unit if event.kind is EventKind.VOTERS and event.seq < starting.seq]
    if read and set(read[-1]) != set(starting.body):  # static voters are not read
        raise EventRefusal(
            starting, "shows other voters than the log", [LoggedFieldDifference("voters", starting.body, read[-1])]
        )


def _require_attempts_before_transitions(unit: Sequence[Event], *, is_last: bool) -> None:
    """A durable transition is attempted, then completed."""
    attempt: Event | None = None
    for event in unit:
        if event.kind is EventKind.TRANSITION:
            _check_transition_attempted(attempt, event)
            attempt = None
        elif event.kind not in OTHER_THREAD_LINE_KINDS:
            if attempt is not None:
                raise EventRefusal(event, "comes in place of the transition that was attempted")
            attempt = event if event.kind is EventKind.ATTEMPT else None
    if attempt is not None and not is_last:
        raise EventRefusal(attempt, "is not followed by its transition")


def _check_transition_attempted(attempt: Event | None, event: Event) -> None:
    if attempt is None:
        if event.body[0]["mode"] in DURABLE_MODES:
            raise EventRefusal(event, "is a durable transition that was not attempted")
    elif event.body != attempt.body:
        raise EventRefusal(event, "is another transition than the one that was attempted")


def _require_parked_fetch_responses(unit: Sequence[Event], *, is_last: bool) -> None:
    """The end of a parked fetch is followed by its response. Another thread writes those of fetches that time out."""
    ended: Event | None = None
    for event in unit:
        if ended is not None and event.kind is not EventKind.ANSWER:
            raise EventRefusal(event, f"comes in place of the response to the fetch that ends at {ended.place}")
        if event.kind in (EventKind.PARKED, EventKind.REJECTED):
            ended = event
        elif ended is not None and event.body.api == "Fetch" and event.peer == ended.peer:
            ended = None
    if ended is not None and not is_last:
        raise EventRefusal(ended, "is not followed by the response to its fetch")


def _check_line_order(unit: Sequence[Event]) -> None:
    """A message is handled before requests are sent; a follower's lines have one order."""
    before, kinds = unit[0], set[EventKind]()
    for event in unit[1:]:
        if (before.kind is EventKind.SEND or EventKind.APPEND in kinds) and _is_undelayed_response(event, unit[0]):
            raise EventRefusal(event, "comes after a request that is sent later, or a later append")
        kinds.add(event.kind)
        if event.kind in FOLLOWER_LINE_RANKS:
            if FOLLOWER_LINE_RANKS[event.kind] < FOLLOWER_LINE_RANKS.get(before.kind, 0) and not (
                event.kind in CONTROL_KINDS and before.kind is EventKind.SEND
            ):
                raise EventRefusal(event, f"comes after the line {before.place} that is written later")
            before = event


RISING_OFFSET_READERS: dict[EventKind, Callable[[Event], int]] = {
    EventKind.VERSION: lambda event: int(event.body[1]),
    EventKind.VOTERS: lambda event: int(event.body[1]),
    EventKind.APPEND: lambda event: int(event.body[0]),
    EventKind.FIRST_HIGH_WATERMARK: lambda event: int(event.body),
    EventKind.LEADER_HIGH_WATERMARK: lambda event: int(event.body),
    EventKind.FOLLOWER_HIGH_WATERMARK: lambda event: int(event.body),
}
"""The offset of a line that is behind that of the line before it of the same kind."""


def _require_rising_offsets(unit: Sequence[Event]) -> None:
    """The offsets of voters, versions, appends and high watermarks rise."""
    for kind, offset in RISING_OFFSET_READERS.items():
        for before, event in pairwise([event for event in unit if event.kind is kind]):
            if offset(event) <= offset(before):
                raise EventRefusal(event, "is not behind the one before it")


def _is_undelayed_response(event: Event, first: Event) -> bool:
    """Whether a line is the response to a unit's request that is never delayed."""
    is_own = (
        event.kind is EventKind.ANSWER
        and first.kind is EventKind.REQUEST
        and request_pairing_key(event) == request_pairing_key(first)
    )
    return is_own and event.body.api in UNDELAYED_APIS


# Changes of the model that a line shows


def require_lines_for_changes(before: NodeHypothesis, after: NodeHypothesis, unit: Sequence[Event]) -> None:
    """Raise EventRefusal unless each change of the model in a unit has its line."""
    old, new = before.me, after.me
    if before.stops and new.mode is Mode.LEADER:
        found = LoggedFieldDifference("mode", Mode.LEADER, Mode.RESIGNED)
        raise EventRefusal(unit[-1], "is not followed by the transition that the model takes", [found])
    if after.appended > unit[-1].seq:
        raise EventRefusal(unit[-1], "is not followed by the line of an append")
    _require_line_of_new_high_watermark(old, after, unit)
    ends = [event for event in unit if event.kind in (EventKind.STORED, EventKind.REPLACED, EventKind.TRUNCATED)]
    if len(ends) > 1:
        raise EventRefusal(ends[1], "is a second change of the log by one response")
    if (len(new.log), record_offset_of_batch(new.log, len(new.log))) != (
        len(old.log),
        record_offset_of_batch(old.log, len(old.log)),
    ):
        if not ends and Mode.LEADER not in (old.mode, new.mode) and not _leads_within_unit(unit):
            raise EventRefusal(unit[-1], "is not followed by the line of the log's new end")
        _require_lines_of_new_control_records(old.log, new.log, unit)
    _require_line_of_new_snapshot_fetch(old, new, unit)


def _require_line_of_new_high_watermark(old: Replica, after: NodeHypothesis, unit: Sequence[Event]) -> None:
    """A new high watermark has its line; a leader that resigns shows none afterwards."""
    new = after.me
    high = record_offset_of_batch(new.log, new.high_watermark)
    lines = [
        event.body
        for event in unit
        if event.kind in (EventKind.LEADER_HIGH_WATERMARK, EventKind.FOLLOWER_HIGH_WATERMARK)
    ]
    if new.mode is not Mode.RESIGNED and high not in (
        after.high,
        record_offset_of_batch(old.log, old.high_watermark),
        *lines,
    ):
        found = LoggedFieldDifference("high watermark", "not shown", high)
        raise EventRefusal(unit[-1], "is not followed by the line of the high watermark", [found])


def _leads_within_unit(unit: Sequence[Event]) -> bool:
    """Whether a replica leads within a unit, at whose end it may have resigned."""
    return any(event.kind is EventKind.TRANSITION and event.body[0]["mode"] == "Leader" for event in unit)


def require_control_lines_at_process_start(me: Replica, unit: Sequence[Event]) -> None:
    """Raise EventRefusal unless a starting process shows the voters and versions of its snapshot and its log.

    Voters come with a version. Those of a formatted disk are at offset -1, and not in the model's log.
    """
    lines = [event for event in unit if event.kind in CONTROL_KINDS]
    snapshot = max(me.snapshots, default=0) if isinstance(me, DiskReplica) else 0
    first = [event.kind for event in lines if event.body[1] < record_offset_of_batch(me.log, snapshot)]
    kept = dict(_control_kinds_with_batch_counts(me.log[:snapshot], 0))
    allowed = (
        [[kind for kind in CONTROL_KINDS if kind in kept]] if kept else [[], [EventKind.VERSION], list(CONTROL_KINDS)]
    )
    shown: list[Any] = [
        (event.kind, batch_count_covering_offset(me.log, event.body[1] + 1)) for event in lines[len(first) :]
    ]
    wanted: list[Any] = list(_control_kinds_with_batch_counts(me.log, snapshot))
    if first not in allowed or shown != wanted:
        found = LoggedFieldDifference("voters and versions", [*first, *shown], [*allowed[-1], *wanted])
        raise EventRefusal(unit[-1], "is not behind the lines of the voters and versions that are on the disk", [found])


def _require_line_of_new_snapshot_fetch(old: Replica, new: Replica, unit: Sequence[Event]) -> None:
    """A follower that begins to fetch a snapshot shows its id."""
    wanted = []
    if isinstance(new.pending, FetchSnapshotRequest) and new.pending != old.pending:
        wanted = [(new.pending.snapshot.offset, new.pending.snapshot.epoch)]
    shown = [event.body for event in unit if event.kind is EventKind.FETCHING]
    if shown != wanted:
        found = LoggedFieldDifference("snapshot", shown, wanted)
        raise EventRefusal(unit[-1], "is not followed by the line of the snapshot to fetch", [found])


def _require_lines_of_new_control_records(
    old: tuple[Batch, ...], new: tuple[Batch, ...], unit: Sequence[Event]
) -> None:
    """The lines of voters and versions are those of the new batches; of a new snapshot, the latest."""
    lines = [event for event in unit if event.kind in CONTROL_KINDS]
    shown: list[Any] = [(event.kind, batch_count_covering_offset(new, event.body[1] + 1)) for event in lines]
    wanted: list[Any] = list(_control_kinds_with_batch_counts(new, len(old)))
    replaced = [event.body for event in unit if event.kind is EventKind.REPLACED]
    if replaced:
        loaded = [event.body[0] for event in unit if event.kind is EventKind.LOADED]
        if loaded != replaced:
            found = LoggedFieldDifference("snapshot", loaded, replaced)
            raise EventRefusal(unit[-1], "is not followed by the line of a new snapshot that is read", [found])
        shown = [event.kind for event in lines]
        wanted = [kind for kind in CONTROL_KINDS if kind in dict(_control_kinds_with_batch_counts(new, 0))]
    if shown != wanted:
        found = LoggedFieldDifference("voters and versions", shown, wanted)
        raise EventRefusal(unit[-1], "is not followed by the lines of new voters or versions", [found])


def _control_kinds_with_batch_counts(log: tuple[Batch, ...], start: int) -> Iterator[tuple[EventKind, int]]:
    """Yield the voters and versions behind the first `start` batches, with the number of batches up to them.

    A bootstrap snapshot is a batch that ends at offset 0; the first leader writes its contents again.
    """
    for count in range(start if start > 1 else 0, len(log)):
        place = count + 1 if batch_end_offset(log[count]) else 2
        for record in log[count].records if place > start else ():
            if isinstance(record, KRaftVersion | Voters):
                yield EventKind.VOTERS if isinstance(record, Voters) else EventKind.VERSION, place
