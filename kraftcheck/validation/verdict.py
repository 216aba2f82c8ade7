"""The verdict on the logs and disks of a cluster, with open questions, gaps, and storms of requests."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import Any, NamedTuple

from kraftcheck.validation.disks import ReplicaDisk
from kraftcheck.validation.events import MOST_UNWRITTEN_SENDINGS, Event, EventKind, is_transport_error
from kraftcheck.validation.findings import CheckReport
from kraftcheck.validation.replay_state import EventRefusal
from kraftcheck.validation.sources import ClusterLogs, voter_ids_in_logs

STORM_REQUESTS_A_SECOND = 300
"""Equal requests within a second, from which they are a storm."""


ClusterReplayLike = Any
"""A `ClusterReplay`."""


class ValidationVerdict(StrEnum):
    """Verdicts on a cluster."""

    CONFORMS = "conforms"
    DIVERGES = "diverges"
    VIOLATES = "violates"
    INCONCLUSIVE = "inconclusive"
    UNBROKEN = "nothing broken"


EXIT_CODES = {
    ValidationVerdict.CONFORMS: 0,
    ValidationVerdict.UNBROKEN: 0,
    ValidationVerdict.DIVERGES: 1,
    ValidationVerdict.VIOLATES: 12,
    ValidationVerdict.INCONCLUSIVE: 20,
}


class LogGap(NamedTuple):
    """Messages that were received, and that the log of their sender lacks."""

    node: int  # the sender
    after: Event | None  # the last message to this receiver before the gap that the sender's log has
    before: Event | None  # the first one behind it
    receipts: list[Event]

    @property
    def where(self) -> str:
        """Return the place of the gap in the sender's log."""
        if self.after is not None and self.before is not None:
            return f"between {self.after.place} and {self.before.place}"
        return f"after {self.after.place}" if self.after else f"before {self.before.place}" if self.before else ""


class RequestStorm(NamedTuple):
    """Equal requests in rapid succession."""

    event: Event  # the first one
    requests: int
    seconds: float

    @property
    def rate(self) -> float:
        """Requests a second."""
        return self.requests / self.seconds


@dataclass
class Validation:
    """The inputs and the outcome of a validation."""

    sources: ClusterLogs
    disks: list[ReplicaDisk]
    version: str = ""  # Kafka's, as given
    without: tuple[str, ...] = ()
    accepts_monitors: bool = False
    replay: ClusterReplayLike | None = None
    monitored: CheckReport | None = None  # checks of the logs
    disk_report: CheckReport | None = None
    gaps: list[LogGap] = field(default_factory=list)
    storms: list[RequestStorm] = field(default_factory=list)
    limit: str = ""  # the limit that stopped the replay
    seconds: float = 0.0  # of the replay
    line: str = ""  # the text of the line at which the logs diverge

    @property
    def total(self) -> int:
        """The number of events to replay."""
        return sum(map(len, self.sources.logs.values()))

    @property
    def divergence(self) -> EventRefusal | None:
        """The first divergence."""
        found: EventRefusal | None = None if self.replay is None else self.replay.divergence
        return found

    @property
    def explained(self) -> int:
        """The number of events that the model explains."""
        return 0 if self.replay is None else sum(self.replay.explained.values())

    @property
    def broken(self) -> dict[str, Event]:
        """The properties that the replayed states violate, each with the event that leads there.

        They need the states of all voters from the start; without one of these none is broken.
        """
        return {} if self.replay is None or not self.is_whole else dict(self.replay.broken)

    @property
    def is_whole(self) -> bool:
        """Whether every voter has a log, and every log begins with its disk."""
        is_late = any(node in self.voters for node in self.sources.late)
        return not (is_late or any(self.missing.values()) or self.older)

    @property
    def older(self) -> list[int]:
        """The nodes whose disks are older than their logs, so that their first states are not known exactly."""
        return [] if self.replay is None else [n.number for n in self.replay.nodes.values() if n.is_old]

    @property
    def known_used(self) -> Mapping[str, int] | None:
        """Units that the model does not take without a known difference, by its name; None without a replay."""
        return None if self.replay is None else self.replay.known.counts

    @property
    def reports(self) -> list[CheckReport]:
        """The reports of the monitors of logs and disks."""
        return [report for report in (self.monitored, self.disk_report) if report is not None]

    @property
    def missing(self) -> dict[int, bool]:
        """The nodes without a log that shows messages; True for voters."""
        sources = self.sources
        seen = {event.peer for events in sources.logs.values() for event in events if event.peer is not None}
        return {node: node in self.voters for node in sorted((self.voters | seen) - set(sources.logs))}

    @cached_property
    def voters(self) -> set[int]:
        """The nodes that some voter set of the logs has."""
        return voter_ids_in_logs(self.sources.every) | voter_ids_in_logs(self.sources.logs)

    @property
    def open_questions(self) -> list[str]:
        """Why the logs cannot conform although nothing in them diverges."""
        unread = [f"a log was left out: {problem}" for problem in self.sources.unread]
        if self.replay is None and not self.sources.late:
            return [*unread, "no log shows messages (TRACE), so there are no steps to compare with the model"]
        late = self.sources.late
        found = unread + [
            f"node {node}, a voter: no log of it shows messages, so its steps are unknown"
            for node, is_voter in self.missing.items()
            if is_voter and node not in late
        ]
        found += [
            f"node {node}, a voter: its log begins in the life of a process, at {events[0].place};"
            f" {len(events):,} events up to {events[-1].place} are not replayed"
            for node, events in late.items()
            if node in self.voters
        ]
        found += [
            f"node {gap.node}: lines are missing or changed {gap.where}: another node received"
            f" {len(gap.receipts):,} messages that it did not write, the first at {gap.receipts[0].place}"
            for gap in self.gaps
        ]
        found += [
            f"node {sent.node}: the response to {sent.place} is missing, but a later request to the same node has one"
            f" at {later.place}"
            for sent, later in (self.replay.pairs.unanswered if self.replay is not None else ())
        ]
        found += [
            f"{name} is broken after {event.place}, but lines of a node before it are missing"
            for name, event in (self.replay.check.doubtful.items() if self.replay is not None else ())
        ]
        if self.divergence is not None:
            found += [
                f"node {node}: its disk is older than its log, so its first state is unknown" for node in self.older
            ]
        return found + ([f"{self.limit} stopped the replay"] if self.limit else [])

    @property
    def are_checks_enough(self) -> bool:
        """Whether the user accepts checks alone, and they have seen each log."""
        return self.accepts_monitors and not self.sources.unread

    @property
    def result(self) -> ValidationVerdict:
        """The verdict."""
        if self.broken or any(report.findings for report in self.reports):
            return ValidationVerdict.VIOLATES
        if self.divergence is not None:
            is_open = not self.is_whole or self.lacking(self.divergence.event) is not None
            return ValidationVerdict.INCONCLUSIVE if is_open else ValidationVerdict.DIVERGES
        if self.replay is None:
            return ValidationVerdict.UNBROKEN if self.are_checks_enough else ValidationVerdict.INCONCLUSIVE
        return ValidationVerdict.INCONCLUSIVE if self.open_questions else ValidationVerdict.CONFORMS

    def lacking(self, event: Event) -> int | None:
        """Return a node whose lines are missing, so that an event need not follow from the others; else None.

        For a message that was received, these are lines of any node: the other messages tell which sending is its own.
        The last lines of its sender's process may be missing too.
        """
        lost = [gap for gap in self.gaps if len(gap.receipts) > MOST_UNWRITTEN_SENDINGS]
        sender: int | None = None if self.replay is None else self.replay.check.unwritten.get(id(event))
        if sender is None:
            lost = [gap for gap in lost if gap.node == event.node and (gap.after is None or gap.after.seq < event.seq)]
        elif any(gap.before for gap in self.gaps if event in gap.receipts):
            sender = None
        return lost[0].node if lost else sender

    @property
    def exit_code(self) -> int:
        """The exit code of the command."""
        return EXIT_CODES[self.result]


def find_log_gaps(replay: ClusterReplayLike, late: Collection[int] = (), *, ends: bool = False) -> list[LogGap]:
    """Return the gaps in the senders' logs, but for the beginnings of `late` nodes, and for logs that are cut."""
    found: list[LogGap] = []
    missing = {id(event) for event in replay.pairs.unpaired}
    for node in replay.nodes.values() if missing else ():
        of_sender: dict[tuple[int, bool], list[Event]] = defaultdict(list)
        for sender, event in _received_messages_with_senders(node.events, replay):
            of_sender[sender, event.kind is EventKind.REQUEST].append(event)
        for (sender, _), receipts in of_sender.items():
            found += _log_gaps_of_sender(sender, receipts, replay, missing)
    return [gap for gap in found if (gap.after or gap.node not in late) and (gap.before or not ends)]


def sender_by_unlogged_receipt_id(replay: ClusterReplayLike) -> dict[int, int]:
    """Return the senders of the received messages that their logs lack, by id() of the receipt."""
    paired = replay.pairs.sent.keys() | replay.pairs.answered.keys()
    return {
        id(event): sender
        for node in replay.nodes.values()
        for sender, event in _received_messages_with_senders(node.events, replay)
        if event.kind is not EventKind.IGNORED and event.body.api != "ApiVersions" and id(event) not in paired
    }


def _received_messages_with_senders(events: Sequence[Event], replay: ClusterReplayLike) -> Iterator[tuple[int, Event]]:
    """Yield the messages that a node received, with their senders, for senders that have a log."""
    asked: dict[tuple[int, int], int | None] = {}
    for event in events:
        if event.kind is EventKind.SEND:
            asked[event.incarnation, event.correlation] = replay.homes.get(event.address)
        sender = event.peer if event.kind is EventKind.REQUEST else asked.get((event.incarnation, event.correlation))
        is_receipt = event.kind in (
            EventKind.REQUEST,
            EventKind.RESPONSE,
            EventKind.IGNORED,
        ) and not is_transport_error(event)
        if is_receipt and sender is not None and sender in replay.nodes:
            yield sender, event


def _log_gaps_of_sender(
    sender: int, receipts: Sequence[Event], replay: ClusterReplayLike, missing: Collection[int]
) -> Iterator[LogGap]:
    last, unpaired = None, list[Event]()
    for receipt in receipts:
        origin = replay.pairs.sent.get(id(receipt)) or replay.pairs.answered.get(id(receipt))
        if origin is not None:
            if unpaired:
                yield LogGap(sender, last, origin, unpaired)
            last, unpaired = origin, []
        elif id(receipt) in missing:
            unpaired.append(receipt)
    if unpaired:
        yield LogGap(sender, last, None, unpaired)


def find_request_storms(sources: ClusterLogs) -> list[RequestStorm]:
    """Return the storms of equal requests, as their receivers saw them."""
    found: list[RequestStorm] = []
    for events in sources.logs.values():
        runs: dict[Any, list[Event]] = {}
        for event in events:
            if event.kind is not EventKind.REQUEST:
                continue
            key = event.peer, event.body.api
            run = runs.get(key)
            if run is None or event.body != run[0].body or event.time - run[-1].time > 100:
                found += _storm_of_equal_requests(run)
                runs[key] = [event]
            else:
                run.append(event)
        for run in runs.values():
            found += _storm_of_equal_requests(run)
    return sorted(found, key=lambda storm: -storm.requests)


def _storm_of_equal_requests(run: Sequence[Event] | None) -> Iterator[RequestStorm]:
    """Yield a run of equal requests if it is a storm: of at least half a second, at a high rate."""
    if run and len(run) >= STORM_REQUESTS_A_SECOND // 2:
        seconds = (run[-1].time - run[0].time) / 1000
        if seconds >= 0.5 and len(run) / seconds >= STORM_REQUESTS_A_SECOND:
            yield RequestStorm(run[0], len(run), seconds)
