"""Reader of Kafka's log4j files: the lines of `org.apache.kafka.raft`, as events."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from functools import cache
from sys import intern
from typing import Any

from kraftcheck.spec.errors import InputError
from kraftcheck.validation.events import Event, EventKind, MessageBody

DEFAULT_PATTERN = "[%d] %p %m (%c)%n"
"""Kafka's own pattern."""

CONVERSION_REGEX = {
    "d": r"(?P<d>\d.{0,60}?)",
    "p": r"(?P<p>[A-Z]+)",
    "m": r"(?P<m>.*)",
    "c": r"(?P<c>[\w.$]+)",
    "n": "",
}


@cache
def line_regex_of_log4j_pattern(pattern: str) -> re.Pattern[str]:
    """Return the regular expression of a log4j pattern layout; raise InputError unless it has %d, %p and %m."""
    text, position = "", 0
    for found in re.finditer(r"%-?(?:\d+)?(?:\.-?\d+)?([a-zA-Z]+)(?:\{[^}]*\})*", pattern):
        text += re.escape(pattern[position : found.start()])
        name = {"date": "d", "level": "p", "msg": "m", "message": "m", "logger": "c"}.get(found[1], found[1])
        text += CONVERSION_REGEX.get(name, r".{0,1000}?") + (r"\s*" if name == "p" else "")
        position = found.end()
    try:
        made = re.compile(text + re.escape(pattern[position:]) + "$")
    except re.error:
        made = re.compile("$.")
    missing = [f"%{name}" for name in "dpm" if name not in made.groupindex]
    if missing:
        raise InputError(
            f"--pattern {pattern!r}: found no {missing[0]}; expected a log4j pattern such as {DEFAULT_PATTERN}"
        )
    return made


# Lines come from strangers: no expression takes more than linear time. A name begins at a word's boundary, and a part
# that may begin anywhere has a bound.
# A match without an end is not a field.
SCALAR_FIELD_PATTERN = re.compile(r"\b(\w+)=('[^']*'(?=[,)\]}])|[^\s,()\[\]{}']++)([,)\]}]?)")
RECORDS_FIELD_PATTERN = re.compile(
    r", (?:unalignedRecords=null|(?:unalignedR|r)ecords=(?:[\w.$]+@[0-9a-f]+|\w+\(size=(\d+)[^)]{0,500}\)))"
)
MESSAGE_API_PATTERN = re.compile(r"data=(\w+?)(Request|Response)Data\(")
VOTER_PATTERN = re.compile(
    r"voterKey=ReplicaKey\(id=(\d+), directoryId=([\w<>-]+)\), listeners=Endpoints\(endpoints=\{([^}]{0,4000})\}\)"
    r"(?:, supportedKRaftVersion=SupportedVersionRange\[min_version:(\d+), max_version:(\d+)\])?"
)
ENDPOINT_PATTERN = re.compile(r"ListenerName\([^)]{0,300}\)=([^,/]{0,300})(?:/([^:,]{0,100}))?:(\d+)")
OFFSET_FIELD_PATTERN = re.compile(r"offset=(\d+)")
OFFSET_PATTERN, OFFSET_AND_EPOCH_PATTERN = r"(?:offset=|to offset |to )(\d+)", r"offset=(\d+), epoch=(\d+)"
NODE_PREFIX_PATTERN = re.compile(r"\[\w+ (?:nodeI|i)d=(\d+)\] ")
CREATED_TIME_PATTERN = re.compile(r"createdTimeMs=(\d+)\)?$")
DESTINATION_PATTERN = re.compile(r"createdTimeMs=(\d+), destination=(\S+) ")
SERVER_PATTERN = re.compile(r"(:\d+) \(id: (-?\d+)")
REPLICA_KEY_PATTERN = re.compile(r"ReplicaKey\(id=(\d+), directoryId=([\w<>-]+)\)")
ELECTION_VOTER_PATTERN = re.compile(
    r"\b(\d+)=VoterState\(replicaKey=ReplicaKey\(id=\d+, directoryId=[\w<>-]+\), state=(\w+)\)"
)
VOTER_KEY_PATTERN = re.compile(r"\b\d+=\w+State\(replicaKey=ReplicaKey\(id=(\d+), directoryId=([\w<>-]+)\)")
LOCAL_KEY_PATTERN = re.compile(r"local(?:Id=|VoterNode=VoterNode\(voterKey=ReplicaKey\(id=)(\d+)(?:, \w+=([\w<>-]+))?")
LEADER_VOTER_PATTERN = re.compile(r"\b(\d+)=ReplicaState\(replicaKey=ReplicaKey\(id=\d+, directoryId=([\w<>-]+)\)")

DROPPED_FIELDS = frozenset({"topic", "pos", "lim", "cap", "file", "start", "end", "createdTimeMs", "correlationId"})
"""Fields that the sender and the receiver of a message show differently."""


@cache
def _intern_names(names: tuple[str, ...]) -> tuple[str, ...]:
    return names


def parse_message_body(api: str, text: str) -> MessageBody:
    """Return the body of a request or a response from its text, without the contents of records."""
    text = RECORDS_FIELD_PATTERN.sub(lambda found: f", size={found[1]}" if found[0][2] == "r" else "", text)
    pairs = [
        (name, value) for name, value, end in SCALAR_FIELD_PATTERN.findall(text) if end and name not in DROPPED_FIELDS
    ]
    return MessageBody(
        api, _intern_names(tuple(intern(name) for name, _ in pairs)), tuple(intern(value) for _, value in pairs)
    )


def parse_first_offset(text: str) -> int:
    """Return the first offset in a text, -1 without one."""
    found = OFFSET_FIELD_PATTERN.search(text)
    return int(found[1]) if found else -1


def _address_of_endpoint(endpoint: tuple[str, str, str]) -> str:
    """Return host and port of an endpoint; its host may be resolved, unresolved, or an address without a name."""
    name, address, port = endpoint
    return f"{name or address}:{port}"


def parse_voters(text: str) -> tuple[tuple[int, str, str, int], ...]:
    """Return the voters of a VoterSet's text: id, directory id, host and port, highest kraft.version."""
    return tuple(
        (int(node), directory, ",".join(map(_address_of_endpoint, ENDPOINT_PATTERN.findall(endpoints))), int(high or 0))
        for node, directory, endpoints, _, high in VOTER_PATTERN.findall(text)
    )


STATE_NAME_PATTERN = re.compile(r"(\w+?)(?:State)?\(")
EPOCH_FIELD_PATTERN = re.compile(r"[( ]epoch=(\d+)")


def parse_epoch_state(text: str) -> dict[str, Any] | None:
    """Return the fields of an epoch state, by the names of `STATE_FIELD_PARSERS`; None for another text."""
    named, epoch = STATE_NAME_PATTERN.match(text), EPOCH_FIELD_PATTERN.search(text)
    if named is None or epoch is None:
        return None
    fields = {name: read(text) for name, (modes, read) in STATE_FIELD_PARSERS.items() if named[1] in modes}
    return {"mode": named[1], "epoch": int(epoch[1]), **fields}


def _parse_leader(text: str) -> int | None:
    found = re.search(r"leader(?:Id)?=(?:OptionalInt\[)?(\d+)", text)
    return int(found[1]) if found else None


def _parse_voted(text: str) -> tuple[int, str] | None:
    voted = re.search(r"votedKey=Optional\[(.{0,300}?)\]", text)
    key = REPLICA_KEY_PATTERN.search(voted[1]) if voted else None
    return (int(key[1]), key[2]) if key else None


def _voters_with_state_parser(wanted: str) -> Callable[[str], frozenset[int]]:
    return lambda text: frozenset(
        int(node) for node, state in ELECTION_VOTER_PATTERN.findall(text) if wanted in ("", state)
    )


def _parse_epoch_start_offset(text: str) -> int:
    found = re.search(r"epochStartOffset=(\d+)", text)
    return int(found[1]) if found else -1


def _parse_voter_ids(text: str) -> frozenset[int] | None:
    ids = re.search(r"[( ]voters=[\[{]([\d, ]*)[\]}]", text)
    return frozenset(map(int, filter(None, ids[1].split(", ")))) if ids else None


def _parse_leader_address(text: str) -> str | None:
    told = ENDPOINT_PATTERN.findall(text.partition("votedKey=")[0])
    return _address_of_endpoint(told[0]) if told else None


def _parse_high_watermark(text: str) -> int:
    high = text.partition("ighWatermark=")[2]
    return parse_first_offset(high.partition(", ")[0]) if high.startswith("Optional[") else 0


ELECTION_STATES = ("Prospective", "Candidate")
STATE_FIELD_PARSERS: dict[str, tuple[tuple[str, ...], Callable[[str], Any]]] = {
    "leader": (("Unattached", "Prospective", "Follower"), _parse_leader),
    "voted": (("Unattached", "Prospective", "Follower"), _parse_voted),
    "granted": (ELECTION_STATES, _voters_with_state_parser("GRANTED")),
    "rejected": (ELECTION_STATES, _voters_with_state_parser("REJECTED")),
    "candidates": (ELECTION_STATES, _voters_with_state_parser("")),
    "voters": (("Unattached", "Resigned"), _parse_voter_ids),
    "update voters": (("Follower",), _parse_voter_ids),
    "keys": (("Leader", *ELECTION_STATES), lambda text: frozenset(VOTER_KEY_PATTERN.findall(text))),
    "local key": (("Leader", "Candidate", "Resigned"), lambda text: LOCAL_KEY_PATTERN.findall(text)),
    "leader voters": (("Leader",), lambda text: frozenset(int(node) for node, _ in LEADER_VOTER_PATTERN.findall(text))),
    "start": (("Leader",), _parse_epoch_start_offset),
    "address": (("Follower",), _parse_leader_address),
    "high": (("Unattached", *ELECTION_STATES, "Follower"), _parse_high_watermark),
}
"""The fields of an epoch state: the modes that show them, and their readers."""


# Parsers by the first characters of a message


def _fill_message_event(kind: EventKind, event: Event, text: str) -> bool:
    api = MESSAGE_API_PATTERN.search(text)
    if api is None:
        return False
    event.kind, head = kind, text[: api.start()]
    correlation = re.search(r"correlationId=(\d+)", head)
    event.correlation = int(correlation[1]) if correlation else -1
    event.body = parse_message_body(api[1], text[api.end() :])
    return True


def _fill_received_message_event(event: Event, text: str) -> None:
    kind = EventKind.REQUEST if "InboundRequest(" in text[:45] else EventKind.RESPONSE
    if _fill_message_event(kind, event, text):
        created = re.search(r"createdTimeMs=(\d+)", text[-40:])
        event.created = int(created[1]) if created else -1
        event.peer = sender_of_request(event.body) if kind is EventKind.REQUEST else None


def _fill_sent_request_event(event: Event, text: str) -> None:
    if _fill_message_event(EventKind.SEND, event, text):
        found = DESTINATION_PATTERN.search(text)
        if found:
            event.created, event.address = int(found[1]), found[2]


def _fill_sent_response_event(event: Event, text: str) -> None:
    answer, _, request = text.partition(" to inbound request ")
    if _fill_message_event(EventKind.ANSWER, event, answer):
        found = CREATED_TIME_PATTERN.search(request)
        event.created = int(found[1]) if found else -1
        api = MESSAGE_API_PATTERN.search(request)
        event.peer = sender_of_request(parse_message_body(api[1], request[api.end() :])) if api else None


def _fill_ignored_response_event(event: Event, text: str) -> None:
    _fill_message_event(EventKind.IGNORED, event, text.partition(" since it is no longer")[0])


def _transition_parser(kind: EventKind) -> Callable[[Event, str], None]:
    def parse(event: Event, text: str) -> None:
        after, _, before = text.partition(" to ")[2].partition(" from ")
        state = parse_epoch_state(after)
        if state is not None:
            event.kind, event.body = kind, (state, None if before == "null" else parse_epoch_state(before))

    return parse


def _number_parser(kind: EventKind, pattern: str) -> Callable[[Event, str], None]:
    """Return a parser of lines that fit a pattern: its numbers are the event's body, a single one not in a tuple."""

    def parse(event: Event, text: str) -> None:
        found = re.search(pattern, text)
        if found:
            numbers = tuple(map(int, found.groups()))
            event.kind, event.body = kind, numbers if len(numbers) > 1 else numbers[0]

    return parse


def _fill_first_high_watermark_event(event: Event, text: str) -> None:
    """The first high watermark of an epoch; INFO shows no others."""
    if " for the first time " in text:
        _number_parser(EventKind.FIRST_HIGH_WATERMARK, OFFSET_PATTERN)(event, text)


def _fill_voter_set_event(event: Event, text: str) -> None:
    found = re.search(r" at offset (-?\d+)$", text)
    if found:
        event.kind, event.body = EventKind.VOTERS, (parse_voters(text), int(found[1]))


def _fill_starting_voters_event(event: Event, text: str) -> None:
    event.kind, event.body = EventKind.STARTING_VOTERS, parse_voters(text)


def _fill_boot_event(event: Event, text: str) -> None:
    event.kind = EventKind.BOOT


def _fill_disk_snapshots_event(event: Event, text: str) -> None:
    event.kind = EventKind.DISK
    event.body = tuple((int(a), int(b)) for a, b in re.findall(OFFSET_AND_EPOCH_PATTERN, text))


def _fill_bootstrap_servers_event(event: Event, text: str) -> None:
    event.kind = EventKind.BOOTSTRAP
    ends = [(text.rfind(" ", 0, found.start()) + 1, found) for found in SERVER_PATTERN.finditer(text)]
    event.body = tuple((text[start : found.end(1)].rpartition("[")[2], int(found[2])) for start, found in ends)


def _parked_fetch_parser(kind: EventKind) -> Callable[[Event, str], None]:
    def parse(event: Event, text: str) -> None:
        found = re.search(r"ReplicaKey\(id=(\d+), directoryId=([\w<>-]+)\) (?:starting at offset|at) (\d+)", text)
        if found:
            event.kind, event.peer, event.body = kind, int(found[1]), (int(found[3]), found[2])

    return parse


PARSER_OF_LINE: dict[str, Callable[[Event, str], None]] = {
    "Received inbound mes": _fill_received_message_event,
    "Sent outbound reques": _fill_sent_request_event,
    "Sent response Outbou": _fill_sent_response_event,
    "Ignoring response In": _fill_ignored_response_event,
    "Attempting durable t": _transition_parser(EventKind.ATTEMPT),
    "Completed transition": _transition_parser(EventKind.TRANSITION),
    "Leader appended reco": _number_parser(
        EventKind.APPEND, rf"base offset (\d+), new end offset is OffsetAndEpoch[\[(]{OFFSET_AND_EPOCH_PATTERN}"
    ),
    "Follower end offset ": _number_parser(EventKind.STORED, OFFSET_AND_EPOCH_PATTERN),
    "High watermark set t": _fill_first_high_watermark_event,
    "Leader high watermar": _number_parser(EventKind.LEADER_HIGH_WATERMARK, OFFSET_PATTERN),
    "Follower high waterm": _number_parser(EventKind.FOLLOWER_HIGH_WATERMARK, OFFSET_PATTERN),
    "Latest set of voters": _fill_voter_set_event,
    "Latest kraft.version": _number_parser(EventKind.VERSION, r"KRAFT_VERSION_(\d+) at offset (-?\d+)$"),
    "Starting voters are ": _fill_starting_voters_event,
    "Reading KRaft snapsh": _fill_boot_event,
    "Initialized snapshot": _fill_disk_snapshots_event,
    "Starting request man": _fill_bootstrap_servers_event,
    "Loading snapshot (Of": _number_parser(EventKind.LOADED, OFFSET_AND_EPOCH_PATTERN),
    "Truncated to offset ": _number_parser(EventKind.TRUNCATED, OFFSET_PATTERN),
    "Fully truncated the ": _number_parser(EventKind.REPLACED, OFFSET_PATTERN),
    "Fetching snapshot Of": _number_parser(EventKind.FETCHING, OFFSET_AND_EPOCH_PATTERN),
    "Completing delayed f": _parked_fetch_parser(EventKind.PARKED),
    "Failed to handle fet": _parked_fetch_parser(EventKind.REJECTED),
}
"""Parser of a message by its first 20 characters; other lines are no events."""


SENDER_FIELDS = {
    "Fetch": ("replicaId", 1),
    "FetchSnapshot": ("replicaId", 0),
    "Vote": ("replicaId", 0),
    "BeginQuorumEpoch": ("leaderId", 0),
    "EndQuorumEpoch": ("leaderId", 0),
    "UpdateRaftVoter": ("voterId", 0),
}
"""The field of a request that names its sender."""


def sender_of_request(body: MessageBody) -> int | None:
    """Return the node that sent a request; None for an administrator."""
    if body.api in ("AddRaftVoter", "RemoveRaftVoter"):  # a joining controller does not wait for the commit
        return body.number("voterId") if body.get("ackWhenCommitted") == "false" else None
    field = SENDER_FIELDS.get(body.api)
    node = body.number(*field) if field else -1
    return node if node >= 0 else None


def parse_timestamp_ms(text: str) -> int:
    """Return a time of a log line in milliseconds, 0 if it is in an unknown form."""
    try:
        return int(datetime.fromisoformat(text.replace(",", ".")).replace(tzinfo=UTC).timestamp() * 1000)
    except ValueError:
        return 0


def text_behind_nul(line: str) -> str:
    """Return a line without the block of NUL before it, which a file may have where the machine lost power."""
    return line.rpartition("\0")[2]


def events_of_lines(lines: Iterable[str], file: str, pattern: str = DEFAULT_PATTERN) -> Iterator[Event]:
    """Yield the events of a log file; node -1 stands for the node of the file."""
    match = line_regex_of_log4j_pattern(pattern).match
    last_text, last_time = "", 0
    for number, line in enumerate(lines, start=1):
        found = match(text_behind_nul(line.rstrip("\r\n")))
        if found is None:
            continue
        text = found["m"]
        node = NODE_PREFIX_PATTERN.match(text)
        start = node.end() if node else text.find("] ") + 2 if text.startswith("[") else 0
        parse = PARSER_OF_LINE.get(text[start : start + 20])
        if parse is None:
            continue
        if found["d"] != last_text:
            last_text, last_time = found["d"], parse_timestamp_ms(found["d"])
        try:
            event = Event(int(node[1]) if node else -1, last_time, EventKind.THREW, file, number, level=found["p"])
            parse(event, text[start:])
        except ValueError:  # Python converts no number of more than 4,300 digits
            problem = "expected a line of Kafka, found a number that is too long; remove the line"
            raise InputError(f"{file}:{number}: {problem}") from None
        if event.kind is not EventKind.THREW:
            yield event
