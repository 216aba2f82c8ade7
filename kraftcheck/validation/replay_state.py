"""State of the replay of a node, and the comparison of transitions with the model."""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping, Sequence
from typing import Any, NamedTuple

from kraftcheck.kraft_model.quorum.records import (
    ApiVersionsRequest,
    Batch,
    EndQuorumEpochRequest,
    Key,
    Mode,
    Nil,
    Replica,
)
from kraftcheck.spec import ModelValue, Record
from kraftcheck.validation.events import Event, EventKind
from kraftcheck.validation.translation import (
    UNSET_DIRECTORY_IDS,
    FieldTexts,
    LoggedFieldDifference,
    ModelTranslator,
    body_differences,
)

FIRST_POSITION = range(1)
MODES_THAT_HIDE_VOTE = (Mode.LEADER, Mode.RESIGNED, Mode.CANDIDATE)


class DueResponse(NamedTuple):
    """A response that the model has sent, and whose line is still to come."""

    api: str
    key: tuple[int, int, str, int | None] | None  # the request's; None for the client of an earlier change
    expected: FieldTexts
    records: tuple[Batch, ...]


class WaitingRequest(NamedTuple):
    """A received request without a response: a parked fetch with its first response, or a voter change."""

    event: Event
    first: DueResponse | None
    is_late: bool = False  # whether it was received before the replay of its node begins

    def is_timed_out_by(self, answer: Event) -> bool:
        """Whether a response is the first one of a parked fetch, which carries nothing."""
        return self.first is not None and not self.differences(answer) and answer.body.number("size") <= 0

    def differences(self, answer: Event) -> list[LoggedFieldDifference]:
        """Return the fields in which a response differs from the first one."""
        return body_differences(answer.body, self.first.expected) if self.first is not None else []


class NodeHypothesis(NamedTuple):
    """A replica of the model, and the part of the log's lines that it has explained."""

    me: Replica
    shown: dict[str, Any] | None = None  # the last transition
    sent: int | None = None  # the correlation id of the pending request, once it is sent
    waiting: dict[Any, WaitingRequest] = {}
    due: tuple[DueResponse, ...] = ()
    ends: tuple[EndQuorumEpochRequest, ...] = ()  # the EndQuorumEpoch requests of a resigned leader
    puts: tuple[tuple[str, Any], ...] = ()
    appended: int = -1  # position of the last append line that the log of the model contains
    actions: tuple[str, ...] = ()
    high: int = 0  # the high watermark of Kafka's epoch state: a leader starts without one, and loses it as it resigns
    ended: int | None = None  # the sender of the parked fetch that ends
    stops: bool = False  # whether its process stops: a leader resigns with the next message
    origin: Replica | None = None  # the replica at its last transition or at the start of the unit
    votes: Mapping[ModelValue, int | None] = {}  # the Vote request to each voter in this round; None once answered
    needs: tuple[str, ...] = ()  # the known differences that a step of this unit needs
    owed: ApiVersionsRequest | None = None  # the question to a new voter that the model has sent
    loaded: int = -1  # the end offset of the snapshot that the process has read last
    next_positions: range = FIRST_POSITION  # of the next FetchSnapshot request, in the bytes of the snapshot
    voter_sets: tuple[int, ...] | None = ()  # the offsets of the voter sets that it has read; None if some are unknown

    def without(self, key: Any) -> NodeHypothesis:
        """Return the state without a received request."""
        return self._replace(waiting={known: value for known, value in self.waiting.items() if known != key})


class EventRefusal(Exception):  # noqa: N818 - the model's, not a fault of the program
    """The model does not allow an event: the fields that differ, with the action that came nearest."""

    def __init__(
        self, event: Event, what: str, differences: Sequence[LoggedFieldDifference] = (), action: str = ""
    ) -> None:
        super().__init__(what)
        self.event = event
        self.what = what
        self.differences = tuple(differences)
        self.action = action


class NodeProgress:
    """The events of a node, and how far they are replayed."""

    def __init__(self, number: int, events: Sequence[Event], position: int = 0) -> None:
        self.number = number
        self.events = events
        self.position = position
        self.state: NodeHypothesis | None = None
        self.alternatives: list[NodeHypothesis] = []
        self.asked: MutableMapping[int, Record] = {}  # requests of this incarnation, by correlation id
        self.diverged = False
        self.is_old = False  # whether its disk is older than its events
        self.is_released = False  # whether its process may start with a log end that no other node has

    def end_at(self, incarnation: int) -> int:
        """Return the end offset of the log at the start of an incarnation, 0 if no event shows it."""
        return self.known_end(incarnation)[0]

    def known_end(self, incarnation: int) -> tuple[int, int]:
        """Return the end offset and last epoch of the log at a start, (0, 0) if no event shows them."""
        return self.shown_end(incarnation) or (0, 0)

    def shown_end(self, incarnation: int | None = None) -> tuple[int, int] | None:
        """Return the end offset and last epoch of the log at a start, from the first event that shows them.

        Without an incarnation, a later process may show them.
        """
        for event in self.events[self.position :]:
            is_over = incarnation is not None and event.incarnation != incarnation
            if is_over or event.kind in (EventKind.STORED, EventKind.REPLACED, EventKind.TRUNCATED):
                break
            if event.kind is EventKind.SEND and event.body.api == "Fetch":
                return event.body.number("fetchOffset"), event.body.number("lastFetchedEpoch")
            if event.kind is EventKind.SEND and event.body.api == "Vote":
                return event.body.number("lastOffset"), event.body.number("lastOffsetEpoch")
            if event.kind is EventKind.APPEND:
                return event.body[0], max(event.body[2] - 1, 0)
        return None

    @property
    def is_done(self) -> bool:
        """Whether all events are replayed, or the node has diverged."""
        return self.diverged or self.position >= len(self.events)


def next_unit_events(node: NodeProgress) -> Sequence[Event]:
    """Return the events of a node's next unit."""
    events, start = node.events, node.position
    first, end = events[start], start + 1
    boots = first.kind in BOOT_KINDS
    while end < len(events):
        event = events[end]
        if (
            event.incarnation != first.incarnation
            or event.kind in RECEIVED_MESSAGE_KINDS
            or (event.kind in BOOT_KINDS and not boots)
        ):
            break
        end += 1
    return events[start:end]


BOOT_KINDS = (EventKind.DISK, EventKind.BOOTSTRAP, EventKind.BOOT)
RECEIVED_MESSAGE_KINDS = (EventKind.REQUEST, EventKind.RESPONSE, EventKind.IGNORED)


def position_of_next_append(node: NodeProgress, start: int) -> int:
    """Return the position of a node's next append line; one behind all events if none comes in this incarnation."""
    incarnation = node.events[min(start, len(node.events) - 1)].incarnation
    for position in range(start, len(node.events)):
        event = node.events[position]
        if event.incarnation != incarnation:
            break
        if event.kind is EventKind.APPEND:
            return position
    return len(node.events)


def transition_differences(
    me: Replica, shown: dict[str, Any], terms: ModelTranslator, high: int
) -> list[LoggedFieldDifference]:
    """Return the fields of a shown state that differ from a replica of the model and the known high watermark."""
    found = [
        LoggedFieldDifference("mode", shown["mode"], str(me.mode)),
        LoggedFieldDifference("epoch", shown["epoch"], me.epoch),
    ]
    leader = None if isinstance(me.leader, Nil) else terms.nodes[me.leader]
    if "leader" in shown:
        found.append(LoggedFieldDifference("leader", shown["leader"], leader))
    if "voted" in shown and me.mode not in MODES_THAT_HIDE_VOTE:
        found.append(compare_vote_with_model(shown["voted"], me.voted, terms))
    for name in ("granted", "rejected"):
        if name in shown:
            ids = frozenset(terms.nodes[key.id] for key in getattr(me, name))
            found.append(LoggedFieldDifference(name, shown[name], ids))
    voters = frozenset(terms.nodes[voter.key.id] for voter in me.voters)
    found += [
        LoggedFieldDifference("voters", shown[name], voters)
        for name in ("voters", "candidates", "leader voters")
        if shown.get(name) is not None
    ]
    if "high" in shown:
        found.append(LoggedFieldDifference("high watermark", shown["high"], high))
    return [one for one in found if one.kafka != one.model]


def compare_vote_with_model(
    shown: tuple[int, str] | None, voted: Key | Nil, terms: ModelTranslator
) -> LoggedFieldDifference:
    """Return a shown vote beside that of the model; an unset directory id has several texts."""
    ours = None
    if isinstance(voted, Key):
        ours = (terms.nodes[voted.id], terms.directory_text(voted.id, voted.directory))
    if shown is not None and shown[1] in UNSET_DIRECTORY_IDS:
        shown = (shown[0], UNSET_DIRECTORY_IDS[0])
    return LoggedFieldDifference("voted", shown, ours)


# The first event that can be replayed

LOG_GROWTH_KINDS = (EventKind.STORED, EventKind.REPLACED, EventKind.APPEND)
"""Lines of a log that grows."""

RESET_MODES = ("Follower", "Unattached")
"""Modes that a replica enters without volatile state."""

KINDS_IN_TRANSITION_UNIT = (
    *LOG_GROWTH_KINDS,
    EventKind.TRUNCATED,
    EventKind.LOADED,
    EventKind.FOLLOWER_HIGH_WATERMARK,
    EventKind.TRANSITION,
)
"""Lines of further changes in the unit of a transition."""


def count_events_before_replay(events: Sequence[Event]) -> int:
    """Return the number of a node's events before those that can be replayed."""
    start = next((place for place, event in enumerate(events) if event.kind in BOOT_KINDS), len(events))
    whole = next(
        (place for place, event in enumerate(events) if event.kind in RECEIVED_MESSAGE_KINDS), start
    )  # the first whole unit
    found = None
    for place, event in enumerate(events[whole:start], whole):
        if event.kind in RECEIVED_MESSAGE_KINDS and found is not None:
            break
        if event.kind is EventKind.TRANSITION and _resets_volatile_state(event, again=found is not None):
            found = place + 1
        elif event.kind in KINDS_IN_TRANSITION_UNIT:
            found = None
    return start if found is None else found


def _resets_volatile_state(event: Event, *, again: bool) -> bool:
    """Whether a transition drops the volatile state of its replica, or keeps it dropped."""
    after, before = event.body
    changes = before is not None and (before["mode"], before["epoch"]) != (after["mode"], after["epoch"])
    return (changes or again) and after["mode"] in RESET_MODES
