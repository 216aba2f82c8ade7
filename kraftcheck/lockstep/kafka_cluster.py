"""Kafka's replicas and messages in the model's terms, and their differences from a state of the model.

The parts of a server around the Raft client are in the terms of the variant `server`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from operator import attrgetter
from typing import Any, NamedTuple

from kraftcheck.kraft_model.quorum.base import QuorumBase
from kraftcheck.kraft_model.quorum.records import (
    ADMIN,
    ENDED_MODES,
    Admin,
    AdminResponse,
    Change,
    DiskReplica,
    EndQuorumEpochRequest,
    Error,
    FetchRequest,
    FetchResponse,
    Key,
    Mode,
    Nil,
    Operation,
    Replica,
    Shared,
    Term,
    Voter,
)
from kraftcheck.kraft_model.quorum.rules import epoch_start, matches_voter, replica_ended_by_exception
from kraftcheck.lockstep.driver_process import Driver, DriverAnswer
from kraftcheck.lockstep.messages import (
    Json,
    MessageConverter,
    ReplicaLog,
    ReplicaLogs,
    SnapshotPieceConverter,
    canonical_message,
    is_message_absent_in_model,
)
from kraftcheck.spec import Map, ModelValue, Record, State, ordered
from kraftcheck.spec.errors import InputError
from kraftcheck.spec.values import field_names


class KafkaServerState(NamedTuple):
    """The compared parts of a server: the fields of a listener and of snapshots, under the names of the model."""

    registered: bool
    heard_of: Term | Nil
    claims: bool  # of a leader: whether its controller has learned that it leads
    snapshots: tuple[int, ...]
    told: tuple[int, int]  # the kraft.version that the client returns, and the high watermark of its log
    read: int | None  # the kraft.version in the committed records that its controller has read; None without one
    delayed: tuple[int, ...]  # the driver's numbers of the fetches whose responses it delays


def server_fields_in_model_and_kafka(
    model: Replica, kafka: KafkaServerState, delayed: frozenset[FetchRequest], protocol: QuorumBase
) -> Iterator[tuple[str, Any, Any]]:
    """Yield the compared parts of a server that the model has: name, the model's value, Kafka's value.

    `delayed` are the fetches that Kafka delays.
    """
    known = field_names(type(model))
    committed = getattr(protocol, "committed_version", None)
    if committed is not None and not getattr(model, "forgot", False):
        yield "read_version", committed(model), kafka.read
    if "delayed" in known:
        yield "delayed", frozenset(answer.request for answer in getattr(model, "delayed")), delayed  # noqa: B009
    if "registered" in known:
        for field in ("registered", "heard_of"):
            yield field, getattr(model, field), getattr(kafka, field)
    if "active" in known and model.mode is Mode.LEADER:
        yield "claims", model.high_watermark > epoch_start(model.log, model.epoch), kafka.claims
    if isinstance(model, DiskReplica):
        yield "snapshots", model.snapshots, kafka.snapshots


ReportedVersions = frozenset[tuple[int, int]]
"""The versions that replicas reported as finalized, each with the replica's high watermark."""


def reported_versions_as_field(protocol: QuorumBase, reported: ReportedVersions) -> dict[str, Any]:
    """Return what Kafka's replicas reported as a field of the model's shared state, if the model has it."""
    report = getattr(protocol, "report_type", None)
    return {} if report is None else {"reports": frozenset(report(*one) for one in reported)}


def reported_versions_in_model_and_kafka(shared: Shared, reported: ReportedVersions) -> Iterator[tuple[str, Any, Any]]:
    """Yield what replicas reported in the model, if it has that, and in Kafka."""
    told = getattr(shared, "reports", None)
    if told is not None:
        yield "reports", frozenset((one.version, one.high_watermark) for one in told), reported


def high_watermark_of_fetch(fetch: FetchRequest) -> int:
    """Return the high watermark that a fetch carries."""
    high: int = getattr(fetch, "high_watermark", 0)
    return high


def model_fields_of_server(was: Replica, kafka: KafkaServerState, delayed: frozenset[FetchRequest]) -> dict[str, Any]:
    """Return the parts of a Kafka server as fields of the model's replica."""
    known = field_names(type(was))
    parts = (), Nil.NIL, Nil.NIL  # records, a place to truncate to, a snapshot
    answers = frozenset(
        FetchResponse(
            r.epoch, was.id, Error.NONE, high_watermark_of_fetch(r), *parts, r, was.id, r.source, was.endpoint
        )
        for r in delayed
    )
    return {name: value for name, value in (kafka._asdict() | {"delayed": answers}).items() if name in known}


class PendingVoterChange(NamedTuple):
    """A leader's unfinished voter change: operation, voter to add, end offset of its record (0 before the append)."""

    operation: Operation
    voter: Voter | Nil
    offset: int


class KafkaReplicaState(NamedTuple):
    """The compared fields of a Kafka replica, under the names of the model's `Replica`."""

    mode: Mode
    epoch: int
    leader: ModelValue | Nil
    leader_endpoint: int
    voted: Key | Nil
    log: tuple[Any, ...]
    start: int
    high_watermark: int  # of a leader, the value that it shows; else that of its log; 0 without one
    voters: frozenset[Voter]
    version: int
    granted: frozenset[ModelValue]  # ids only: Kafka keeps no directory ids of votes
    rejected: frozenset[ModelValue]
    fetched: bool
    offsets: dict[Key, int]
    ends: tuple[int, ...]
    pending: tuple[Record, ...]  # the requests whose answers it awaits
    held: bool  # whether it would fetch from a bootstrap server; the driver withholds the fetch until the model fetches
    due: bool  # whether a follower wants to send UpdateVoter, or its own AddVoter or RemoveVoter, as soon as it can
    updated: bool
    # of a leader: the unfinished voter change; at kraft.version 0, the voters that support the next version
    change: PendingVoterChange | Nil
    heard: frozenset[Voter]
    server: KafkaServerState


class MessageNotInFlight(Exception):  # noqa: N818 - an event of a walk
    """The model delivers or sends a message that is not in flight in Kafka."""


class KafkaThrew(Exception):  # noqa: N818 - an event of a walk
    """A command made Kafka throw an exception."""

    def __init__(self, problem: str, place: str) -> None:
        super().__init__(problem)
        self.place = place


class KafkaCluster:
    """Kafka's side of a lockstep walk: its replicas, logs and messages in flight."""

    def __init__(self, driver: Driver, protocol: QuorumBase) -> None:
        self._driver = driver
        self.protocol = protocol
        self._hosts = {kafka_id(host): host for host in protocol.hosts} | {0: ADMIN}
        self._book = ReplicaLogs(self._hosts)
        self._pieces = SnapshotPieceConverter(protocol)
        epochs = lambda node: self.replicas[self._hosts[node]].epoch  # noqa: E731
        fetch_type = getattr(protocol, "fetch_type", FetchRequest)
        self._reader = MessageConverter(self._hosts, self._book, epochs, self._pieces, fetch_type)
        self.reported: ReportedVersions = frozenset()
        self.replicas: dict[ModelValue, KafkaReplicaState] = {}
        self.in_flight: dict[int, Record] = {}
        self._answers: set[int] = set()  # the answers among them
        self._stale: list[int] = []
        self._requests: dict[int, Record] = {}
        self._preferred: dict[int, tuple[Key, ...]] = {}  # candidates of each EndQuorumEpoch, in Kafka's order

    def start(self) -> None:
        """Format the disks, and start every process."""
        p = self.protocol
        if p.without_pre_vote:
            raise InputError("WithoutPreVote: every supported version of Kafka has pre-votes (KIP-996)")
        logs, self._driver.logs = self._driver.logs, None
        self._take(
            self._driver.ask(
                "cluster",
                nodes=kafka_ids(p.hosts),
                voters=kafka_ids(p.initial_voters),
                brokers=kafka_ids(p.brokers),
                bootstrap=kafka_ids(p.bootstrap_servers),
                old=kafka_ids(p.old_software),
                foreign=kafka_ids(p.other_cluster),
                version=p.initial_version,
                autoJoin=p.auto_join,
                fetchLimit=p.fetch_limit,
                delays=hasattr(p, "fetch_type"),
                **({} if logs is None else {"logs": logs}),
            )
        )

    def do(self, command: str, **arguments: Any) -> None:
        """Execute a driver command; see `LockstepDriver.handle`."""
        self._take(self._driver.ask(command, **arguments))

    def find(self, message: Record) -> int | None:
        """Return the driver's number of a message in flight, the youngest of several equal messages, or None."""
        return max((number for number, found in self.in_flight.items() if found == message), default=None)

    def delayed(self, host: ModelValue, fetch: Record | None = None) -> dict[int, FetchRequest]:
        """Return the fetches whose responses a replica delays, or those equal to one, by the driver's numbers."""
        found = {number: self._requests[number] for number in self.replicas[host].server.delayed}
        return {n: one for n, one in found.items() if isinstance(one, FetchRequest) and fetch in (None, one)}

    def preferred(self, message: Record) -> tuple[Key, ...]:
        """Return the successors in an EndQuorumEpoch, in Kafka's order; empty if the message is not in flight."""
        return self._preferred.get(self.find(message) or 0, ())

    def deliver(self, number: int, *, fails: bool = False) -> None:
        """Deliver a message; with `fails`, its receiver becomes leader and ends before writing its first record."""
        part = self._pieces.part_of(self.in_flight.pop(number))
        self._answers.discard(number)
        self.do("deliver", message=number, fails=fails, **part)

    def drop(self, number: int) -> None:
        """Drop a message in flight."""
        self.in_flight.pop(number, None)
        self._answers.discard(number)
        self._driver.ask("drop", message=number)

    def merge(self, messages: Iterable[Record]) -> None:
        """Drop the answers to administrators that equal other answers and that the model has merged with them."""
        left = Counter[Record](message for message in messages if isinstance(message, AdminResponse))
        for number, message in sorted(self.in_flight.items(), reverse=True):
            if message in left:
                left[message] -= 1
                if left[message] < 0:
                    self.drop(number)

    def stale_answers(self) -> Iterator[Record]:
        """Deliver and yield the answers that Kafka no longer awaits; they must have no effect."""
        while self._stale:
            number = self._stale[0]
            message = self.in_flight[number]
            before = dict(self.replicas), set(self.in_flight) - {number}
            self.deliver(number)
            if (self.replicas, set(self.in_flight)) != before:
                raise KafkaThrew(f"a stale answer has an effect: {message}", "KafkaRaftClient.handleInboundMessage")
            yield message

    def offset_of(self, host: ModelValue, batches: int) -> tuple[int, int]:
        """Return the end offset, in records, and the last epoch of a replica's first `batches` batches."""
        held = self._book.of(kafka_id(host))
        return held.ends[batches - 1], held.batches[batches - 1].epoch

    def is_answer(self, number: int) -> bool:
        """Whether a message in flight is an answer."""
        return number in self._answers

    # Answers of the driver

    def _take(self, answer: DriverAnswer) -> None:
        """Record the result of a driver command; deliver or drop the messages that the model leaves out."""
        threw = [found for found in self._settled(answer) if found is not None]
        if threw:
            raise threw[0]

    def _settled(self, answer: DriverAnswer) -> Iterator[KafkaThrew | None]:
        """Yield the exception of a command, and those of the commands that deliver or drop left-out messages."""
        for node, state in answer.get("states", {}).items():
            self._note(int(node), state)
        silent = [number for found in answer.get("sent", ()) if (number := self._sent(found)) is not None]
        self._stale = [number for number in answer.get("stale", ()) if number in self.in_flight]
        for node, state in answer.get("states", {}).items():  # a state may await an answer to a request sent just now
            waits = tuple(self._requests[number] for number in state["waits"] if number in self._requests)
            host = self._hosts[int(node)]
            self.replicas[host] = self.replicas[host]._replace(pending=waits)
        yield exception_in_answer(answer)
        for number in silent:
            is_answer = number in self._answers
            self._answers.discard(number)
            yield from self._settled(self._driver.ask("deliver" if is_answer else "drop", message=number))

    def _sent(self, found: Json) -> int | None:
        """Record a message in flight; return its number if the model leaves it out."""
        number: int = found["id"]
        p = self.protocol
        if found["answer"]:
            self._answers.add(number)
        if is_message_absent_in_model(found, plain_answers=p.plain_answers):
            if not found["answer"]:
                self._requests[number] = self._reader.read(found, None)
            return number
        message = self._reader.read(found, self._requests.get(found.get("request", 0)))
        if isinstance(message, EndQuorumEpochRequest):
            self._preferred[number] = message.preferred
        message = canonical_message(message)
        if not found["answer"]:
            self._requests[number] = message
        older = self.find(message)
        if older is not None and not isinstance(message, AdminResponse):  # the model merges equal messages
            self.drop(older)
        self.in_flight[number] = message
        return None

    def _note(self, node: int, state: Json) -> None:
        held, hosts = self._book.note(node, state), self._hosts
        leads = state["mode"] == "Leader"
        self.replicas[hosts[node]] = KafkaReplicaState(
            mode=Mode(state["mode"]),
            epoch=state["epoch"],
            leader=hosts[state["leader"]] if state["leader"] >= 0 else Nil.NIL,
            leader_endpoint=state["leaderEndpoint"] if knows_other_leader(state, node) else 1,
            voted=self._book.key(state["voted"]) if "voted" in state else Nil.NIL,
            log=held.batches,
            start=held.count(state["start"]),
            high_watermark=held.count(state["high" if leads else "logHigh"]),
            voters=self._book.voters(state["voters"]),
            version=state["version"],
            granted=frozenset(hosts[voter] for voter in state.get("granted", ())),
            rejected=frozenset(hosts[voter] for voter in state.get("rejected", ())),
            fetched=state.get("fetched", False),
            offsets={
                self._book.key(entry["key"]): held.count(entry["end"])
                for entry in state.get("offsets", ())
                if entry["end"] >= 0
            },
            ends=held.ends,
            pending=(),
            held=state.get("held", False),
            due=state.get("due", False),
            updated=state.get("updated", False),
            change=self._change(held, state),
            heard=self._book.voters(state.get("heard", [])),
            server=self._server(held, state),
        )

    def _server(self, held: ReplicaLog, state: Json) -> KafkaServerState:
        leader, epoch = state.get("heardOf", (-1, 0))
        heard = Term(epoch, self._hosts[leader]) if leader >= 0 else Nil.NIL
        snapshots = tuple(held.count(end) for end in state.get("snapshots", ()))
        told = state.get("told", 0), held.count(state["logHigh"])
        delayed = tuple(state.get("delayed", ()))
        claims = state.get("claims", False)
        return KafkaServerState("heardOf" in state, heard, claims, snapshots, told, state.get("read"), delayed)

    def _change(self, held: ReplicaLog, state: Json) -> PendingVoterChange | Nil:
        if "adding" in state:
            found = state["adding"]
            voter = Voter(self._book.key(found["key"]), found["endpoint"])
            return PendingVoterChange(Operation.ADD_VOTER, voter, held.count(found["last"] + 1))
        if "removing" in state:
            return PendingVoterChange(Operation.REMOVE_VOTER, Nil.NIL, held.count(state["removing"]["last"] + 1))
        return Nil.NIL


def knows_other_leader(state: Json, node: int) -> bool:
    """Whether a replica knows another replica as the leader."""
    return state["leader"] not in (-1, node)


def exception_in_answer(answer: DriverAnswer) -> KafkaThrew | None:
    """Return the exception that Kafka threw, or None; its place is the innermost of Kafka's own methods."""
    if "error" not in answer:
        return None
    own = (line for line in answer["trace"] if "org.apache.kafka" in line and "Lockstep" not in line)
    return KafkaThrew(answer["error"], next(own, ""))


def kafka_id(host: ModelValue) -> int:
    """Return Kafka's id of a host: the digits of its name, else its place in the order of model values."""
    digits = "".join(filter(str.isdigit, host.name))
    return int(digits) if digits else host.index + 1


def kafka_ids(hosts: frozenset[ModelValue]) -> list[int]:
    """Return Kafka's ids of hosts, in canonical order."""
    return [kafka_id(host) for host in ordered(hosts)]


GET_ID = attrgetter("id")
ELECTION_MODES = (Mode.PROSPECTIVE, Mode.CANDIDATE)
WAITING_MODES = (Mode.FOLLOWER, Mode.UNATTACHED)
MODES_THAT_HIDE_VOTE = (Mode.LEADER, Mode.RESIGNED)  # Kafka's state does not show its vote, which matters no more


class ModelKafkaDifference(NamedTuple):
    """A difference between a state of the model and Kafka's."""

    where: ModelValue | None  # the replica, or None for messages
    field: str  # a field of the model's `Replica`, or the name of a message's type
    model: Any  # values of the model and of Kafka; None for a message that one side lacks
    kafka: Any


def canonical_messages_in_flight(state: State) -> set[Record]:
    """Return the messages in flight in a state of the model."""
    return {shown for shown, _ in canonical_and_model_messages(state)}


def canonical_and_model_messages(state: State) -> Iterator[tuple[Record, Record]]:
    """Yield each message in flight in a state of the model, in canonical form and as the model has it."""
    return ((canonical_message(message), message) for inbox in state.inboxes.values() for message in inbox)


def state_differences(state: State, cluster: KafkaCluster) -> Iterator[ModelKafkaDifference]:
    """Yield the differences between a state of the model and Kafka's, replicas first."""
    for host, replica in state.replicas.items():
        if not isinstance(replica, Admin):
            yield from replica_differences(replica, cluster.replicas[host])
            if replica.mode not in ENDED_MODES:
                delayed = frozenset(cluster.delayed(host).values())
                parts = server_fields_in_model_and_kafka(
                    replica, cluster.replicas[host].server, delayed, cluster.protocol
                )
                yield from _differing_fields(host, parts)
    yield from _differing_fields(None, reported_versions_in_model_and_kafka(state.shared, cluster.reported))
    ours, theirs = canonical_messages_in_flight(state), set(cluster.in_flight.values())
    if ours != theirs:
        for message in ours - theirs:
            yield ModelKafkaDifference(None, type(message).__name__, message, None)
        for message in theirs - ours:
            yield ModelKafkaDifference(None, type(message).__name__, None, message)


def replica_differences(model: Replica, kafka: KafkaReplicaState) -> Iterator[ModelKafkaDifference]:
    """Yield the differences between a replica of the model and Kafka's."""
    has_ended = model.mode in ENDED_MODES, kafka.mode is Mode.DOWN
    if any(has_ended):  # its other fields no longer matter
        if not all(has_ended):
            yield ModelKafkaDifference(model.id, "mode", model.mode, kafka.mode)
        return
    yield from _differing_fields(model.id, _replica_fields_in_model_and_kafka(model, kafka))


def _differing_fields(
    where: ModelValue | None, parts: Iterable[tuple[str, Any, Any]]
) -> Iterator[ModelKafkaDifference]:
    return (ModelKafkaDifference(where, field, ours, theirs) for field, ours, theirs in parts if ours != theirs)


def _replica_fields_in_model_and_kafka(model: Replica, kafka: KafkaReplicaState) -> Iterator[tuple[str, Any, Any]]:
    """Yield the compared fields of a replica in its mode: name, the model's value, Kafka's value."""
    for field in ("mode", "epoch", "leader", "leader_endpoint", "log", "start", "voters", "version"):
        yield field, getattr(model, field), getattr(kafka, field)
    if model.mode not in MODES_THAT_HIDE_VOTE:
        yield "voted", model.voted, kafka.voted
    if model.mode in ELECTION_MODES:
        yield "granted", frozenset(map(GET_ID, model.granted)), kafka.granted
        yield "rejected", frozenset(map(GET_ID, model.rejected)), kafka.rejected
    if model.mode in WAITING_MODES:
        yield "pending", () if model.pending is Nil.NIL else (model.pending,), kafka.pending
    if model.mode is Mode.LEADER:
        yield from _leader_fields_in_model_and_kafka(model, kafka)
    else:
        yield "high_watermark", model.high_watermark, kafka.high_watermark
    if model.mode is Mode.FOLLOWER:
        yield "fetched", model.fetched, kafka.fetched
        yield "updating", model.updating, kafka.due
        yield "updated", model.updated, kafka.updated if model.version == 0 else model.updated


def _leader_fields_in_model_and_kafka(model: Replica, kafka: KafkaReplicaState) -> Iterator[tuple[str, Any, Any]]:
    """Yield the fields that are compared for leaders only."""
    is_known = model.high_watermark > epoch_start(model.log, model.epoch)
    yield "high_watermark", model.high_watermark if is_known else 0, kafka.high_watermark
    yield (
        "offsets",
        model.offsets,
        Map({key: end for key, end in kafka.offsets.items() if not matches_voter(key, model.key)}),
    )
    yield "change", exposed_part_of_change(model.change), kafka.change
    if model.version == 0:
        yield "heard", model.heard, frozenset(voter for voter in kafka.heard if voter.key.id != model.id)


def exposed_part_of_change(change: Change | Nil) -> PendingVoterChange | Nil:
    """Return the part of a model's voter change that Kafka exposes."""
    return Nil.NIL if isinstance(change, Nil) else PendingVoterChange(change.operation, change.voter, change.offset)


def _kafka_voter_change_as_model_change(was: Replica, kafka: KafkaReplicaState) -> Change | Nil:
    """Convert Kafka's voter change to the model's; its client comes from the model, since Kafka does not expose it."""
    found = kafka.change
    if isinstance(found, Nil) or found == exposed_part_of_change(was.change):
        return Nil.NIL if isinstance(found, Nil) else was.change
    client, asked = (ADMIN, Nil.NIL) if isinstance(was.change, Nil) else (was.change.client, was.change.asked)
    if isinstance(was.change, Nil):  # the model has refused the change
        moved = {voter.key for voter in was.voters ^ kafka.voters}
        asked = found.voter.key if isinstance(found.voter, Voter) else next(iter(ordered(moved)), Nil.NIL)
    return Change(found.operation, found.voter, found.offset > 0, found.offset, client, asked)


def state_without_message(state: State, message: Record) -> State:
    """Return a state without a message in flight."""
    inbox = state.inboxes.get(message.dest, Map())  # type: ignore[attr-defined]
    kept = Map((found, copies) for found, copies in inbox.items() if canonical_message(found) != message)
    dest = message.dest  # type: ignore[attr-defined]
    return state.but(inboxes=state.inboxes.put(dest, kept) if kept else state.inboxes.without(dest))


def model_state_of(guess: State, cluster: KafkaCluster) -> State:
    """Return Kafka's state as a state of the model."""
    replicas = dict(guess.replicas.items())
    committed, elected = guess.shared.committed, guess.shared.elected
    for host, kafka in cluster.replicas.items():
        was: Replica = guess.replicas[host]
        if was.mode in ENDED_MODES:
            continue
        delayed = frozenset(cluster.delayed(host).values())
        replicas[host] = (
            replica_ended_by_exception(was) if kafka.mode is Mode.DOWN else _model_replica_of(was, kafka, delayed)
        )
        if kafka.mode is Mode.LEADER:
            elected |= {Term(kafka.epoch, host)}
            if kafka.high_watermark > len(committed):
                committed = kafka.log[: kafka.high_watermark]
    inboxes: dict[ModelValue, dict[Record, int]] = {}
    known_of = dict(canonical_and_model_messages(guess))
    for message in cluster.in_flight.values():
        inboxes.setdefault(message.dest, {})[known_of.get(message, message)] = 1  # type: ignore[attr-defined]
    return guess.but(
        replicas=Map(replicas),
        inboxes=Map({dest: Map(inbox) for dest, inbox in inboxes.items()}),
        shared=guess.shared.but(
            committed=committed, elected=elected, **reported_versions_as_field(cluster.protocol, cluster.reported)
        ),
    )


def _model_replica_of(was: Replica, kafka: KafkaReplicaState, delayed: frozenset[FetchRequest]) -> Replica:
    """Convert a Kafka replica to the model's; fields that Kafka does not expose come from `was`."""
    high = max(0, kafka.high_watermark)  # negative if no batch ends there
    same = ("mode", "epoch", "leader", "leader_endpoint", "log", "voters", "version", "fetched", "updated")
    return was.but(
        **{field: getattr(kafka, field) for field in same},
        **_votes_as_model_fields(was, kafka),
        **model_fields_of_server(was, kafka.server, delayed),
        start=max(0, kafka.start),
        high_watermark=was.high_watermark if kafka.mode is Mode.LEADER and not high else high,
        offsets=Map({key: max(0, end) for key, end in kafka.offsets.items() if not matches_voter(key, was.key)}),
        pending=kafka.pending[0] if kafka.mode in WAITING_MODES and kafka.pending else Nil.NIL,
        change=_kafka_voter_change_as_model_change(was, kafka),
        heard=frozenset(voter for voter in kafka.heard if voter.key.id != was.id),
        updating=kafka.due,
    )


def _votes_as_model_fields(was: Replica, kafka: KafkaReplicaState) -> dict[str, Any]:
    """Return the vote of a replica and the votes that it received, as fields of the model."""
    keys = {voter.key.id: voter.key for voter in kafka.voters}
    granted, rejected = (frozenset(keys[v] for v in votes if v in keys) for votes in (kafka.granted, kafka.rejected))
    is_same_epoch = was.epoch == kafka.epoch
    voted = was.voted if kafka.mode in MODES_THAT_HIDE_VOTE and is_same_epoch else kafka.voted
    ballot: frozenset[Key] = was.ballot if is_same_epoch else frozenset()
    if isinstance(voted, Key) and voted.directory > 0:
        ballot |= {voted}
    return {"voted": voted, "ballot": ballot, "granted": granted, "rejected": rejected}
