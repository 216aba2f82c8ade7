"""Pairing of the two ends of each message: requests by correlation ids, responses by the sender's own id.

Two ends of a request have different correlation ids: handshakes of the connection take some of the receiver's ids. The
difference never falls within an incarnation of the sender. The order of the pairs uses no clock.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from itertools import chain, count
from typing import NamedTuple

from kraftcheck.validation.events import Event, Kind

LOOKAHEAD = 12
"""Receipts that decide to which value the difference of correlation ids rises."""

LARGEST_RISE = 200
"""The largest rise of the difference between two receipts; each handshake or failed request adds one."""


class Pairs(NamedTuple):
    """The pairs of a stream, by the identity of their events."""

    sent: dict[int, Event]  # the sending of a received request, by id() of the receipt
    answered: dict[int, Event]  # the sending of a received response, by id() of the receipt
    unpaired: list[Event]  # receipts whose sender has a log that lacks the sending


def pair(logs: dict[int, Sequence[Event]]) -> Pairs:
    """Pair the receipts of all nodes with the sendings of the nodes that have a log."""
    pairs = Pairs({}, {}, [])
    answers, homes = _answers(logs), addresses(logs)
    receipts: dict[int, list[list[Event]]] = defaultdict(list)
    for log in logs.values():
        of_sender: dict[int, list[list[Event]]] = defaultdict(list)
        for event in log:
            if event.kind is Kind.REQUEST and event.peer in logs:
                runs = of_sender[event.peer]
                if not runs or event.correlation <= runs[-1][-1].correlation:
                    runs.append([])
                runs[-1].append(event)
        for sender, runs in of_sender.items():
            receipts[sender] += runs
    for sender, runs in receipts.items():
        _pair_sender(logs[sender], runs, answers, homes, pairs)
    return pairs


def addresses(logs: dict[int, Sequence[Event]]) -> dict[str, int]:
    """Return the node behind each host and port that voter sets or responses name."""
    found: dict[str, int] = {}
    bodies: set[tuple[str, ...]] = set()
    for event in chain.from_iterable(logs.values()):
        if event.kind in (Kind.VOTERS, Kind.STARTING_VOTERS):
            voters = event.body[0] if event.kind is Kind.VOTERS else event.body
            found.update((address, node) for node, _, told, _ in voters for address in told.split(","))
        elif event.kind in (Kind.ANSWER, Kind.RESPONSE) and event.body.values[-4:] not in bodies:
            bodies.add(event.body.values[-4:])
            ends = zip(event.body.all("nodeId"), event.body.all("host"), event.body.all("port"), strict=False)
            found.update((f"{host[1:-1]}:{port}", int(node)) for node, host, port in ends)
    return found


def _answers(logs: dict[int, Sequence[Event]]) -> dict[int, Event]:
    """Return the answer to each received request, by id() of the receipt."""
    found: dict[int, Event] = {}
    for log in logs.values():
        waiting: dict[tuple[int, int, str, int | None], list[Event]] = defaultdict(list)
        for event in log:
            if event.kind is Kind.BOOT:
                waiting.clear()
            elif event.kind is Kind.REQUEST:
                waiting[request_key(event)].append(event)
            elif event.kind is Kind.ANSWER and waiting.get(request_key(event)):
                found[id(waiting[request_key(event)].pop(0))] = event
    return found


def request_key(event: Event) -> tuple[int, int, str, int | None]:
    """Return the key that pairs a received request with its answer."""
    return event.correlation, event.created, event.body.api, event.peer


def _pair_sender(
    log: Sequence[Event], runs: list[list[Event]], answers: dict[int, Event], homes: dict[str, int], pairs: Pairs
) -> None:
    """Pair the receipts of one sender; each run of receipts belongs to one incarnation of the sender."""
    sends: dict[int, dict[int, Event]] = defaultdict(dict)
    responses: dict[int, dict[int, Event]] = defaultdict(dict)
    for event in log:
        if event.kind is Kind.SEND and event.body.api != "ApiVersions":
            sends[event.incarnation][event.correlation] = event
        elif event.kind in (Kind.RESPONSE, Kind.IGNORED):
            responses[event.incarnation][event.correlation] = event
    assigned: dict[int, list[Event]] = defaultdict(list)
    for run in runs:
        best = max(sends, key=lambda incarnation: _score(run, sends[incarnation]), default=None)
        if best is None or not _score(run, sends[best]):
            pairs.unpaired.extend(run)
        else:
            assigned[best] += run
    for incarnation, found in assigned.items():
        found.sort(key=lambda event: event.correlation)
        _align(found, sends[incarnation], responses[incarnation], answers, homes, pairs)


def _score(run: list[Event], sends: dict[int, Event]) -> int:
    """Return how many of a run's first requests were sent in an incarnation."""
    bodies = {event.body for event in sends.values()}
    return sum(event.body in bodies for event in run[:LOOKAHEAD])


def _align(
    receipts: list[Event],
    sends: dict[int, Event],
    responses: dict[int, Event],
    answers: dict[int, Event],
    homes: dict[str, int],
    pairs: Pairs,
) -> None:
    """Pair the receipts of an incarnation's requests at differences of correlation ids that never fall."""

    def fits(receipt: Event, difference: int) -> bool:
        sent = sends.get(receipt.correlation - difference)
        if sent is None or sent.body != receipt.body or homes.get(sent.address, receipt.node) != receipt.node:
            return False
        answer, response = answers.get(id(receipt)), responses.get(sent.correlation)
        return answer is None or response is None or is_lost(response) or answer.body == response.body

    least = min(sends, default=0)

    def raised(receipt: Event, difference: int) -> list[int]:
        most = min(receipt.correlation - least, difference + LARGEST_RISE)
        return [higher for higher in range(difference + 1, most + 1) if fits(receipt, higher)]

    def paired(position: int, difference: int) -> int:
        """Return how many of the next receipts pair at this difference, raised where that is necessary."""
        count = 0
        for receipt in receipts[position : position + LOOKAHEAD]:
            if not fits(receipt, difference):
                higher = raised(receipt, difference)
                if not higher:
                    continue
                difference = higher[0]
            count += 1
        return count

    difference = 0
    for position, receipt in enumerate(receipts):
        if not fits(receipt, difference):
            higher = raised(receipt, difference)
            if not higher:
                pairs.unpaired.append(receipt)
                continue
            difference = max(higher, key=lambda rise: (paired(position, rise), -rise))
        sent = sends[receipt.correlation - difference]
        pairs.sent[id(receipt)] = sent
        answer, response = answers.get(id(receipt)), responses.get(sent.correlation)
        if answer is not None and response is not None and not is_lost(response):
            pairs.answered[id(response)] = answer


TRANSPORT = frozenset({"7", "8", "13"})
"""Errors that a raft client creates for a request without response: timed out, not available, disconnected."""


def is_lost(response: Event) -> bool:
    """Whether a response stands for a request whose connection failed or timed out."""
    body = response.body
    return body.get("errorCode") in TRANSPORT and not body.get("partitionIndex") and not body.get("index")


def numbered(events: Sequence[Event]) -> None:
    """Number the events of a node in order, and its incarnations."""
    incarnation, started = 0, False
    for seq, event in zip(count(), events, strict=False):
        starts = event.kind in (Kind.DISK, Kind.BOOTSTRAP, Kind.BOOT)
        if starts and not started and seq:
            incarnation += 1
        started = starts
        event.seq, event.incarnation = seq, incarnation
