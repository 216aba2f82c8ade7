"""Events of the logs of a cluster: one for each line of a raft client, and the pairing of the two ends of a message.

Requests are paired by correlation ids, responses by the sender's own id. Two ends of a request have different
correlation ids: handshakes of the connection take some of the receiver's ids. The difference never falls within an
incarnation of the sender. The order of the pairs uses no clock.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import chain
from math import inf
from typing import Any, NamedTuple


class EventKind(StrEnum):
    """Kinds of events."""

    DISK = "disk"  # the snapshots that a starting process finds on its disk
    BOOTSTRAP = "bootstrap"  # the bootstrap servers or static voters of a starting process
    BOOT = "boot"  # a process begins to read its snapshot and log
    STARTING_VOTERS = "starting voters"
    REQUEST = "request"  # a request is received
    RESPONSE = "response"  # a response is received
    IGNORED = "ignored"  # a response is received that is no longer awaited
    SEND = "send"  # a request is sent
    ANSWER = "answer"  # a response is sent
    ATTEMPT = "attempt"  # a transition begins to write quorum-state
    TRANSITION = "transition"
    APPEND = "append"  # a leader appends a batch
    STORED = "stored"  # a follower appends batches
    FIRST_HIGH_WATERMARK = "first high watermark"
    LEADER_HIGH_WATERMARK = "leader high watermark"
    FOLLOWER_HIGH_WATERMARK = "follower high watermark"
    VOTERS = "voters"
    VERSION = "version"
    TRUNCATED = "truncated"
    REPLACED = "replaced"  # a snapshot replaces the log
    LOADED = "loaded"  # a snapshot is read
    FETCHING = "fetching"  # a follower begins to fetch a snapshot
    PARKED = "parked"  # a parked fetch ends, since the log has grown
    REJECTED = "rejected"  # a parked fetch ends with an error
    STATE = "state"  # the agent's: the whole state between two steps
    THREW = "threw"  # the process throws an exception


class MessageBody(NamedTuple):
    """A request or response: its API, and the names and values of its scalar fields in the order of its text."""

    api: str
    names: tuple[str, ...]
    values: tuple[str, ...]

    def get(self, name: str, occurrence: int = 0) -> str | None:
        """Return the value of a field; `occurrence` counts the fields of this name. None if the body lacks it."""
        position = -1
        for _ in range(occurrence + 1):
            try:
                position = self.names.index(name, position + 1)
            except ValueError:
                return None
        return self.values[position]

    def number(self, name: str, occurrence: int = 0) -> int:
        """Return the integer value of a field, -1 if the body lacks it."""
        found = self.get(name, occurrence)
        try:
            return -1 if found is None else int(found)
        except ValueError:
            return -1

    def all(self, name: str) -> list[str]:
        """Return the values of all fields of a name."""
        return [value for field, value in zip(self.names, self.values, strict=True) if field == name]

    def after(self, name: str, value: str) -> MessageBody:
        """Return the fields after the first field of this name and value."""
        pairs = list(zip(self.names, self.values, strict=True))
        start = pairs.index((name, value)) + 1 if (name, value) in pairs else len(pairs)
        return MessageBody(self.api, self.names[start:], self.values[start:])


@dataclass(slots=True)
class Event:
    """An event of a node; `time` is a hint in milliseconds, and `seq` the order within the node's log."""

    node: int
    time: int
    kind: EventKind
    file: str
    line: int
    body: Any = None
    level: str = ""
    incarnation: int = 0
    seq: int = 0
    correlation: int = -1
    created: int = -1  # of a request: the time at which its raft client created it, in milliseconds
    peer: int | None = None  # the sender of a request, or the receiver of an answer
    address: str = ""  # of a sent request: host and port of its receiver

    @property
    def place(self) -> str:
        """Return file and line."""
        return f"{self.file}:{self.line}"


USUAL_CORRELATION_RISE = 3
LARGEST_CORRELATION_RISE = 200
"""Rises of the difference between two receipts: each handshake of a connection adds one."""

RESTART_PENALTY = 1.5
"""Score of ids that restart within one incarnation: more than the likelihood of a request in it."""

MOST_ALIGNMENTS = 8
"""Alignments of equal requests that are kept until later requests decide between them."""


MOST_UNWRITTEN_SENDINGS = 2
"""Requests of a killed process that it may have sent without writing their lines."""


class SendReceivePairs(NamedTuple):
    """The pairs of a stream, by the identity of their events.

    A killed process may have sent its last messages without their lines: their receipts are not unpaired.
    """

    sent: dict[int, Event]  # the sending of a received request, by id() of the receipt
    answered: dict[int, Event]  # the sending of a received response, by id() of the receipt
    unpaired: list[Event]  # receipts whose sender has a log that lacks the sending
    unanswered: list[tuple[Event, Event]]  # requests without a response, with that to a later request to the same node


def pair_receipts_with_sends(logs: dict[int, Sequence[Event]], homes: dict[str, int]) -> SendReceivePairs:
    """Pair the receipts of all nodes with the sendings of the nodes that have a log."""
    pairs = SendReceivePairs({}, {}, [], [])
    answers = _answers_by_id_of_receipt(logs)
    _set_remove_voter_senders(logs)
    receipts: dict[int, list[list[Event]]] = defaultdict(list)
    for log in logs.values():
        of_sender: dict[int, list[Event]] = defaultdict(list)
        for event in log:
            if event.kind is EventKind.REQUEST and event.peer in logs:
                of_sender[event.peer].append(event)
        for sender, found in of_sender.items():
            receipts[sender].append(found)
    for sender, log in logs.items():
        _pair_receipts_of_sender(log, receipts[sender], answers, homes, logs, pairs)
    return pairs


def _set_remove_voter_senders(logs: dict[int, Sequence[Event]]) -> None:
    """Set the sender of each RemoveVoter that a joining controller has sent; others are an administrator's."""
    sent = {
        event.body: node
        for node, log in logs.items()
        for event in log
        if event.kind is EventKind.SEND and event.body.api == "RemoveRaftVoter"
    }
    for event in chain.from_iterable(logs.values()) if sent else ():
        if event.kind is EventKind.REQUEST and event.body in sent:
            event.peer = sent[event.body]


def nodes_by_address(logs: dict[int, Sequence[Event]]) -> dict[str, int]:
    """Return the node behind each host and port that voter sets, responses or joining voters name."""
    found: dict[str, int] = {}
    bodies: set[tuple[str, ...]] = set()
    for event in chain.from_iterable(logs.values()):
        if event.kind in (EventKind.VOTERS, EventKind.STARTING_VOTERS):
            voters = event.body[0] if event.kind is EventKind.VOTERS else event.body
            found.update((address, node) for node, _, told, _ in voters for address in told.split(","))
        elif event.kind in (EventKind.ANSWER, EventKind.RESPONSE) and event.body.values[-4:] not in bodies:
            bodies.add(event.body.values[-4:])
            found.update(_endpoints_in_response(event.body))
        elif event.kind in (EventKind.SEND, EventKind.REQUEST):
            found.update(_listeners_in_voter_request(event.body))
    return found


def _endpoints_in_response(body: MessageBody) -> Iterator[tuple[str, int]]:
    """Yield the addresses in a response, with their nodes."""
    for node, host, port in zip(body.all("nodeId"), body.all("host"), body.all("port"), strict=False):
        if re.fullmatch(r"\d{1,9}", node):
            yield f"{host[1:-1]}:{port}", int(node)


def _listeners_in_voter_request(body: MessageBody) -> Iterator[tuple[str, int]]:
    """Yield the listeners of a voter in its AddVoter or UpdateVoter, each with the node."""
    if body.api in ("AddRaftVoter", "UpdateRaftVoter"):
        for host, port in zip(body.all("host"), body.all("port"), strict=False):
            yield f"{host[1:-1]}:{port}", body.number("voterId")


def _answers_by_id_of_receipt(logs: dict[int, Sequence[Event]]) -> dict[int, Event]:
    """Return the answer to each received request, by id() of the receipt."""
    found: dict[int, Event] = {}
    for log in logs.values():
        waiting: dict[tuple[int, int, str, int | None], list[Event]] = defaultdict(list)
        for event in log:
            if event.kind is EventKind.BOOT:
                waiting.clear()
            elif event.kind is EventKind.REQUEST:
                waiting[request_pairing_key(event)].append(event)
            elif event.kind is EventKind.ANSWER and waiting.get(request_pairing_key(event)):
                found[id(waiting[request_pairing_key(event)].pop(0))] = event
    return found


def request_pairing_key(event: Event) -> tuple[int, int, str, int | None]:
    """Return the key that pairs a received request with its answer. A removal does not name its sender."""
    peer = None if event.body.api == "RemoveRaftVoter" else event.peer
    return event.correlation, event.created, event.body.api, peer


def _pair_receipts_of_sender(
    log: Sequence[Event],
    receipts: list[list[Event]],
    answers: dict[int, Event],
    homes: dict[str, int],
    nodes: Collection[int],
    pairs: SendReceivePairs,
) -> None:
    """Pair the receipts of one sender: find its incarnation for each, then align those of each incarnation."""
    sends: dict[int, dict[int, Event]] = defaultdict(dict)
    responses: dict[int, dict[int, Event]] = defaultdict(dict)
    for event in log:
        if event.kind is EventKind.SEND and event.body.api != "ApiVersions":
            sends[event.incarnation][event.correlation] = event
        elif event.kind in (EventKind.RESPONSE, EventKind.IGNORED):
            responses[event.incarnation][event.correlation] = event
    alignments = {number: _ReceiptAligner(sent, responses[number], answers, homes) for number, sent in sends.items()}
    assigned: dict[int, list[Event]] = defaultdict(list)
    for of_receiver in receipts:
        if not alignments:
            pairs.unpaired.extend(of_receiver)
            continue
        for receipt, incarnation in zip(
            of_receiver, _sender_incarnation_of_each_receipt(of_receiver, alignments), strict=True
        ):
            assigned[incarnation].append(receipt)
    for incarnation, alignment in alignments.items():
        for receipt in sorted(assigned[incarnation], key=lambda event: event.correlation):
            alignment.add(receipt)
        alignment.pair(pairs)
        pairs.unpaired.extend(alignment.unpaired_responses(pairs, nodes))
        pairs.unanswered.extend(alignment.unanswered())


def _sender_incarnation_of_each_receipt(receipts: list[Event], alignments: dict[int, _ReceiptAligner]) -> list[int]:
    """Return the sender's incarnation for each receipt of one node: the most likely ones, which never fall.

    An incarnation is likely if it has sent the request with a similar id, and unlikely to go on where the ids restart.
    """
    numbers = sorted(alignments)
    if len(numbers) < 2:
        return numbers * len(receipts)
    scores, steps = dict.fromkeys(numbers, 0.0), list[dict[int, int]]()
    before = -1
    for receipt in receipts:
        restarts = receipt.correlation < before - USUAL_CORRELATION_RISE
        found: dict[int, float] = {}
        step: dict[int, int] = {}
        best, comes = -1, -inf  # the likeliest incarnation before this one, with its score
        for number in numbers:
            stays = scores[number] - (RESTART_PENALTY if restarts else 0)
            step[number] = best if comes > stays else number
            found[number] = max(stays, comes) + alignments[number].likelihood(receipt)
            if comes <= scores[number]:
                best, comes = number, scores[number]
        scores, before = found, receipt.correlation
        steps.append(step)
    last = max(numbers, key=lambda number: scores[number])
    chosen = list[int]()
    for step in reversed(steps):
        chosen.append(last)
        last = step[last]
    return chosen[::-1]


class _ReceiptAligner:
    """Alignments of the receipts of an incarnation's requests with their sendings, the best first."""

    def __init__(
        self, sends: dict[int, Event], responses: dict[int, Event], answers: dict[int, Event], homes: dict[str, int]
    ) -> None:
        self.sends = sends
        self.responses = responses
        self.answers = answers
        self.homes = homes
        self.least = min(sends, default=0)
        self.ids: dict[Any, list[int]] = defaultdict(list)
        for number, sent in sends.items():
            self.ids[sent.body].append(number)
        self.receipts: dict[int, Event] = {}  # of paired requests, by id
        answered = {
            number: response
            for number, response in responses.items()
            if number in sends and sends[number].address in homes and not is_transport_error(response)
        }
        self.answered = dict(sorted(answered.items()))
        self.order = list(self.answered)
        # By difference of ids: the score, the number of answered requests up to the last pair, its id, and the pairs as
        # a list linked backwards.
        self.paths: dict[int, tuple[float, int, int, Any]] = {0: (0.0, 0, -1, None)}

    def likelihood(self, receipt: Event) -> float:
        """Rate whether this incarnation has sent a request with the contents of a receipt, and with a similar id.

        One with the response that the receiver sent is the most likely one.
        """
        ids = self.ids[receipt.body]
        end = bisect_right(ids, receipt.correlation)
        begin = bisect_left(ids, receipt.correlation - LARGEST_CORRELATION_RISE)
        best = 0.0
        for number in reversed(ids[begin:end]):
            if self.fits(receipt, receipt.correlation - number):
                if number in self.answered:
                    return 1.0
                best = 0.9
        return best

    def fits(self, receipt: Event, difference: int) -> bool:
        """Return whether a receipt and the sending at a difference of ids have equal contents and responses."""
        sent = self.sends.get(receipt.correlation - difference)
        if sent is None or sent.body != receipt.body or self.homes.get(sent.address, receipt.node) != receipt.node:
            return False
        to_itself = sent.node == receipt.node
        if to_itself and sent.seq > receipt.seq:
            return False
        answer, response = self.answers.get(id(receipt)), self.responses.get(sent.correlation)
        if answer is None or response is None or is_transport_error(response):
            return True
        return bool(answer.body == response.body) and not (to_itself and answer.seq > response.seq)

    def rises(self, receipt: Event, difference: int) -> list[int]:
        """Return the differences at which a receipt pairs: those within the usual rise, else higher ones."""
        most = min(receipt.correlation - self.least, difference + LARGEST_CORRELATION_RISE)
        usual = difference + USUAL_CORRELATION_RISE
        found = [d for d in range(difference, min(most, usual) + 1) if self.fits(receipt, d)]
        return found or [d for d in range(usual + 1, most + 1) if self.fits(receipt, d)][:USUAL_CORRELATION_RISE]

    def add(self, receipt: Event) -> None:
        """Extend the alignments by a receipt. Skipping an answered request costs more than a rise."""
        found: dict[int, tuple[float, int, int, Any]] = {}
        for difference, (score, passed, last, link) in self.paths.items():
            skip = (score - 1, passed, last, (receipt, None, link))
            if difference not in found or skip[0] > found[difference][0]:
                found[difference] = skip
            for rise in self.rises(receipt, difference):
                number = receipt.correlation - rise
                if number <= last:
                    continue
                now = bisect_right(self.order, number)
                skipped = max(0, now - passed - (number in self.answered))
                gained = score + 1 - 2 * skipped - 0.1 * (rise - difference)
                if rise not in found or gained > found[rise][0]:
                    found[rise] = (gained, now, number, (receipt, self.sends[number], link))
        best = sorted(found, key=lambda difference: -found[difference][0])[:MOST_ALIGNMENTS]
        self.paths = {difference: found[difference] for difference in best}

    def pair(self, pairs: SendReceivePairs) -> None:
        """Add the pairs of the best alignment."""
        link = max(self.paths.values(), key=lambda path: path[0])[3]
        unpaired = list[Event]()
        while link is not None:
            receipt, sent, link = link
            if sent is None:
                unpaired.append(receipt)
                continue
            self.receipts[sent.correlation] = receipt
            pairs.sent[id(receipt)] = sent
            answer, response = self.answers.get(id(receipt)), self.responses.get(sent.correlation)
            if answer is not None and response is not None and not is_transport_error(response):
                pairs.answered[id(response)] = answer
        if not self._are_unwritten(unpaired):
            pairs.unpaired.extend(unpaired)

    def _are_unwritten(self, receipts: Sequence[Event]) -> bool:
        """Whether some receipts are of the last requests of a process, those that it was killed before it wrote."""
        last = max(self.receipts, default=-1)
        end = self.receipts[last].correlation if self.receipts else -1
        left = {self.homes.get(sent.address) for number, sent in self.sends.items() if number > last}
        return len(receipts) <= MOST_UNWRITTEN_SENDINGS and all(
            one.correlation > end and one.node not in left for one in receipts
        )

    def unpaired_responses(self, pairs: SendReceivePairs, nodes: Collection[int]) -> Iterator[Event]:
        """Yield the responses that a node with a log has not written. A killed process may leave out the last one."""
        lives = {(one.node, one.incarnation): self.sends[number].seq for number, one in sorted(self.receipts.items())}
        for number, response in self.answered.items():
            sent, receipt = self.sends[number], self.receipts.get(number)
            if id(response) in pairs.answered or self.homes[sent.address] not in nodes:
                continue
            if receipt is None or lives[receipt.node, receipt.incarnation] > response.seq:
                yield response

    def unanswered(self) -> Iterator[tuple[Event, Event]]:
        """Yield the requests without a response, with that to a later request to the same node.

        Each request has one: from its receiver, or from the raft client as the connection fails.
        """
        later: dict[str, Event] = {}
        for number, sent in sorted(self.sends.items(), reverse=True):
            response = self.responses.get(number)
            if response is None and sent.address in later:
                yield sent, later[sent.address]
            elif response is not None and not is_transport_error(response):
                later[sent.address] = response


TRANSPORT_ERRORS = frozenset({"7", "8", "13"})
"""Errors that a raft client creates for a request without response: timed out, not available, disconnected."""


def is_transport_error(response: Event) -> bool:
    """Whether a response stands for a request whose connection failed or timed out."""
    body = response.body
    return body.get("errorCode") in TRANSPORT_ERRORS and not body.get("partitionIndex") and not body.get("index")


def assign_sequence_numbers(events: Sequence[Event]) -> None:
    """Number the events of a node in order, and its incarnations; note which responses it has ignored.

    A raft client logs a response as received, and then perhaps as ignored.
    """
    incarnation, started = 0, False
    for seq, event in enumerate(events):
        starts = event.kind in (EventKind.DISK, EventKind.BOOTSTRAP, EventKind.BOOT)
        if starts and not started and seq:
            incarnation += 1
        started = starts
        event.seq, event.incarnation = seq, incarnation
        before = events[seq - 1] if seq else event
        if (
            event.kind is EventKind.IGNORED
            and before.kind is EventKind.RESPONSE
            and before.correlation == event.correlation
        ):
            before.kind = EventKind.IGNORED
