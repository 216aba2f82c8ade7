"""Conversion of Kafka's messages to the model's: one function for each kind of request and answer."""

from __future__ import annotations

import base64
from bisect import bisect_right
from collections.abc import Callable, Mapping
from functools import partialmethod
from typing import Any, NamedTuple

from kraftcheck.kraft_model.quorum.records import (
    AddVoterRequest,
    AdminResponse,
    ApiVersionsRequest,
    ApiVersionsResponse,
    Batch,
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
    Data,
    DescribeQuorumResponse,
    EndQuorumEpochRequest,
    EndQuorumEpochResponse,
    Error,
    FetchRequest,
    FetchResponse,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    Key,
    KRaftVersion,
    LeaderChange,
    LogRecord,
    Nil,
    NoOp,
    Operation,
    Position,
    RemoveVoterRequest,
    UpdateVoterRequest,
    UpdateVoterResponse,
    Voter,
    VoteRequest,
    VoteResponse,
    Voters,
)
from kraftcheck.spec import ModelValue, Record, ordered
from kraftcheck.spec.values import field_names

Json = dict[str, Any]


NO_OP_VALUE = "-1"
"""The value that stands for the first record of a controller."""


class ReplicaLog(NamedTuple):
    """A replica's whole log."""

    batches: tuple[Batch, ...] = ()  # as in the model, including those before the log start
    ends: tuple[int, ...] = ()  # end offset of each batch, in records

    def count(self, offset: int) -> int:
        """Return the number of batches up to a record offset; negative if no batch ends exactly at the offset."""
        found = bisect_right(self.ends, offset)
        return found if offset <= 0 or offset in self.ends[found - 1 : found] else -offset


class ReplicaLogs:
    """The logs of all replicas."""

    def __init__(self, hosts: Mapping[int, ModelValue]) -> None:
        self._hosts = hosts
        self._logs: dict[int, ReplicaLog] = {}
        self._up_to: dict[tuple[int, int], ReplicaLog] = {}  # by end offset and epoch

    def of(self, node: int) -> ReplicaLog:
        """Return a replica's log."""
        return self._logs.get(node, ReplicaLog())

    def up_to(self, offset: int, epoch: int) -> ReplicaLog:
        """Return the known log that ends at an offset with an epoch; an empty log if none is known."""
        return self._up_to.get((offset, epoch), ReplicaLog())

    def note(self, node: int, state: Json) -> ReplicaLog:
        """Update a replica's log from a report of the driver, and return it."""
        start = state["start"]
        held = self.of(node)
        if start == 0:
            held = ReplicaLog()
        else:
            kept = held.count(start)
            known = kept > 0 and held.ends[kept - 1] == start and held.batches[kept - 1].epoch == state["snapshotEpoch"]
            held = (
                ReplicaLog(held.batches[:kept], held.ends[:kept])
                if known
                else self.up_to(start, state["snapshotEpoch"])
            )
        for found in state["log"]:
            batch = self.batch(found)
            held = ReplicaLog((*held.batches, batch), (*held.ends, found["next"]))
            self._up_to[found["next"], found["epoch"]] = held
        self._logs[node] = held
        return held

    def batch(self, found: Json) -> Batch:
        """Convert a batch of Kafka to a batch of the model."""
        return Batch(found["epoch"], tuple(map(self._record, found["records"])))

    def _record(self, found: Json) -> LogRecord:
        if "leader" in found:
            return LeaderChange(self._hosts[found["leader"]])
        if "version" in found:
            return KRaftVersion(found["version"])
        if "voters" in found:
            return Voters(self.voters(found["voters"]))
        return NoOp() if found["data"] == NO_OP_VALUE else Data(int(found["data"]))

    def voters(self, found: list[list[int]]) -> frozenset[Voter]:
        """Return a voter set, given the id, the directory and the endpoint of each voter."""
        return frozenset(Voter(Key(self._hosts[node], directory), endpoint) for node, directory, endpoint in found)

    def key(self, found: list[int]) -> Key:
        """Return a replica key, given its id and directory."""
        return Key(self._hosts[found[0]], found[1])


FIRST_PORT = 9990
"""The port of endpoint 0; as in the driver."""

ERROR_OF_CODE = {
    0: Error.NONE,
    6: Error.NOT_LEADER_OR_FOLLOWER,
    7: Error.REQUEST_TIMED_OUT,
    8: Error.BROKER_NOT_AVAILABLE,
    35: Error.UNSUPPORTED_VERSION,
    42: Error.INVALID_REQUEST,
    74: Error.FENCED_LEADER_EPOCH,
    75: Error.UNKNOWN_LEADER_EPOCH,
    95: Error.INVALID_UPDATE_VERSION,
    98: Error.SNAPSHOT_NOT_FOUND,
    104: Error.INCONSISTENT_CLUSTER_ID,
    125: Error.INVALID_VOTER_KEY,
    126: Error.DUPLICATE_VOTER,
    127: Error.VOTER_NOT_FOUND,
}
"""Kafka's error codes that the model has."""


NO_LEADER_FIELDS = {"leaderEpoch": 0, "leaderId": -1}
"""Leader fields of an answer that refuses the whole request."""


class UnmappedMessage(Record):
    """A message of Kafka without a counterpart in the model."""

    api: str
    text: str
    source: ModelValue
    dest: ModelValue


def directory_number(node: int, text: str) -> int:
    """Return the number of a directory id: the lower half of its UUID, negative if it is another replica's.

    The upper half is the replica's id; only an unknown directory has none.
    """
    both = base64.urlsafe_b64decode(text + "==")
    owner, number = (int.from_bytes(half, "big") for half in (both[:8], both[8:]))
    return number if owner == (node if number else 0) else -1 - number


def canonical_message(message: Record) -> Record:
    """Return a message without the parts that Kafka leaves to chance, or does not show.

    These are the order of candidates that have fetched equally far, the committed voter set, and the subject of an
    answer to an administrator.
    """
    if isinstance(message, EndQuorumEpochRequest):
        return message.but(preferred=tuple(ordered(message.preferred)))
    if isinstance(message, DescribeQuorumResponse):
        return message.but(committed=frozenset())
    if isinstance(message, AdminResponse):
        return message.but(about=Nil.NIL)
    return message


class SnapshotPieceConverter:
    """Converts the byte positions of FetchSnapshot to numbers of batches; a batch has an equal share of the bytes."""

    def __init__(self, protocol: object) -> None:
        self._limit: int = getattr(protocol, "snapshot_limit", 0)
        self._kind: type[Any] | None = getattr(protocol, "piece_type", None)
        self._sizes: dict[tuple[ModelValue, int, int], int] = {}  # by sender, offset and epoch of a snapshot

    def request(self, plain: FetchSnapshotRequest, position: int) -> Record:
        """Return a request at a byte position."""
        if self._kind is None:
            return plain
        of = plain.snapshot
        size = self._sizes.get((plain.dest, of.offset, of.epoch), 0)
        asked = _batch_count_of_byte_position(position, size, of.offset) if position else 0
        piece: Record = self._kind(plain.epoch, of, plain.directory, plain.source, plain.dest, position=asked)
        return piece

    def content(
        self, request: FetchSnapshotRequest, whole: tuple[Batch, ...], part: dict[str, Any]
    ) -> tuple[Batch, ...]:
        """Return the batches in a response; `whole` are those of the snapshot, `part` are the fields of Kafka."""
        if self._kind is None or not whole:
            return whole
        of = request.snapshot
        self._sizes[request.dest, of.offset, of.epoch] = part["size"]
        end = part["position"] + part["unalignedRecordsSizeInBytes"]
        return whole[getattr(request, "position", 0) : _batch_count_of_byte_position(end, part["size"], of.offset)]

    def part_of(self, message: Record | None) -> dict[str, Any]:
        """Return the driver's arguments for the delivery of a FetchSnapshot: the end of the piece, of all batches."""
        if not self._limit or not isinstance(message, FetchSnapshotRequest):
            return {}
        end, all_of = getattr(message, "position", 0) + self._limit, message.snapshot.offset
        return {"part": [min(end, all_of), all_of]}


def _batch_count_of_byte_position(position: int, size: int, batches: int) -> int:
    """Return the number of batches before a byte position; -1 for a position without a known size."""
    return -(-position * batches // size) if size else -1


class MessageConverter:
    """Converts Kafka's messages."""

    def __init__(
        self,
        hosts: Mapping[int, ModelValue],
        book: ReplicaLogs,
        epochs: Callable[[int], int],
        pieces: SnapshotPieceConverter | None = None,
        fetch_type: type[Any] = FetchRequest,
    ) -> None:
        self._hosts = hosts
        self._fetch_type = fetch_type
        self._pieces = pieces or SnapshotPieceConverter(None)
        self._book = book
        self._epochs = epochs

    def read(self, found: Json, request: Record | None) -> Record:
        """Convert a message of Kafka to the model's; the caller applies `canonical_message`."""
        name = f"_{found['api'].lower()}_{'response' if found['answer'] else 'request'}"
        source, dest = self._hosts[found["from"]], self._hosts[found["to"]]
        read = getattr(self, name, lambda *_: None)
        try:
            message = read(found, request, source, dest)
        except KeyError:  # an error code that the model lacks
            message = None
        if message is None or names_other_sender_or_leader_endpoint(found):
            return UnmappedMessage(found["api"], str(found["data"]), source, dest)
        if "address" in found:
            message = message.but(address=found["address"])
        if "endpoint" in field_names(type(message)):
            names = isinstance(message, BeginQuorumEpochRequest) or not isinstance(message.leader, Nil)
            message = message.but(endpoint=leader_endpoint(found["data"]) if names else 1)
        assert isinstance(message, Record)
        return message

    def _leader(self, node: int) -> ModelValue | Nil:
        return self._hosts[node] if node >= 0 else Nil.NIL

    def _key(self, node: int, directory: str) -> Key:
        return Key(self._hosts[node], directory_number(node, directory))

    def _count(self, found: Json, offset: int) -> int:
        return self._book.of(found["from"]).count(offset)

    # Elections

    def _vote_request(self, found: Json, _: Any, source: ModelValue, dest: ModelValue) -> Record:
        data, part = found["data"], only_partition_in_body(found["data"])
        return VoteRequest(
            part["replicaEpoch"], part["preVote"], self._key(part["replicaId"], part["replicaDirectoryId"]),
            self._key(data["voterId"], part["voterDirectoryId"]), part["lastOffsetEpoch"],
            self._count(found, part["lastOffset"]), source, dest,
        )  # fmt: skip

    def _vote_response(self, found: Json, request: Any, source: ModelValue, dest: ModelValue) -> Record | None:
        part = only_partition_in_body(found["data"]) or {**NO_LEADER_FIELDS, "voteGranted": False, **found["data"]}
        return VoteResponse(
            part["leaderEpoch"], self._leader(part["leaderId"]), part["voteGranted"], error_of_answer(part),
            request.pre_vote, request.voter, request.epoch, source, dest,
        )  # fmt: skip

    def _begin_quorum_epoch_request(self, found: Json, _: Any, source: ModelValue, dest: ModelValue) -> Record:
        data, part = found["data"], only_partition_in_body(found["data"])
        voter = self._key(data["voterId"], part["voterDirectoryId"])
        return BeginQuorumEpochRequest(part["leaderEpoch"], voter, source, dest)

    def _end_quorum_epoch_request(self, found: Json, _: Any, source: ModelValue, dest: ModelValue) -> Record:
        part = only_partition_in_body(found["data"])
        preferred = [self._key(c["candidateId"], c["candidateDirectoryId"]) for c in part["preferredCandidates"]]
        return EndQuorumEpochRequest(part["leaderEpoch"], tuple(preferred), source, dest)

    def _acknowledgement(
        self, kind: Any, found: Json, request: Any, source: ModelValue, dest: ModelValue
    ) -> Record | None:
        part = only_partition_in_body(found["data"]) or {**NO_LEADER_FIELDS, **found["data"]}
        leader, problem = self._leader(part["leaderId"]), error_of_answer(part)
        answer: Record = kind(part["leaderEpoch"], leader, problem, request.epoch, source, dest)
        return answer

    _begin_quorum_epoch_response = partialmethod(_acknowledgement, BeginQuorumEpochResponse)
    _end_quorum_epoch_response = partialmethod(_acknowledgement, EndQuorumEpochResponse)

    # Replication

    def _fetch_request(self, found: Json, _: Any, source: ModelValue, dest: ModelValue) -> Record:
        part = only_partition_in_body(found["data"])
        offset = self._count(found, part["fetchOffset"])
        directory = directory_number(found["from"], part["replicaDirectoryId"])
        plain = part["currentLeaderEpoch"], offset, part["lastFetchedEpoch"], directory, source, dest
        if self._fetch_type is FetchRequest:
            return FetchRequest(*plain)
        fetch: Record = self._fetch_type(*plain, high_watermark=self._count(found, part["highWatermark"]))
        return fetch

    def _fetch_response(self, found: Json, request: Any, source: ModelValue, dest: ModelValue) -> Record | None:
        if not found["data"]["responses"]:  # the whole request is refused
            problem = error_of_answer(found["data"])
            return FetchResponse(0, Nil.NIL, problem, 0, (), Nil.NIL, Nil.NIL, request, source, dest)
        part = found["data"]["responses"][0]["partitions"][0]
        leader = part.get("currentLeader", {"leaderId": -1, "leaderEpoch": -1})
        diverging, snapshot = part.get("divergingEpoch"), part.get("snapshotId")
        parting: Position | Nil = Nil.NIL
        if diverging is not None and diverging["epoch"] >= 0:
            parting = Position(self._count(found, diverging["endOffset"]), diverging["epoch"])
        has_snapshot = snapshot is not None and snapshot["endOffset"] >= 0
        return FetchResponse(
            leader["leaderEpoch"], self._leader(leader["leaderId"]), error_of_answer(part),
            self._count(found, part["highWatermark"]), tuple(map(self._book.batch, found["batches"])), parting,
            self._position(snapshot) if has_snapshot else Nil.NIL, request, source, dest,
        )  # fmt: skip

    def _position(self, snapshot: Json) -> Position:
        return Position(len(self._book.up_to(snapshot["endOffset"], snapshot["epoch"]).batches), snapshot["epoch"])

    def _fetch_snapshot_request(self, found: Json, _: Any, source: ModelValue, dest: ModelValue) -> Record:
        part = only_partition_in_body(found["data"])
        snapshot = self._position(part["snapshotId"])
        directory = directory_number(found["from"], part["replicaDirectoryId"])
        plain = FetchSnapshotRequest(part["currentLeaderEpoch"], snapshot, directory, source, dest)
        return self._pieces.request(plain, part.get("position", 0))

    def _fetch_snapshot_response(
        self, found: Json, request: Any, source: ModelValue, dest: ModelValue
    ) -> Record | None:
        part = only_partition_in_body(found["data"])
        if part is None:  # the whole request is refused
            return FetchSnapshotResponse(0, Nil.NIL, error_of_answer(found["data"]), (), request, source, dest)
        leader, problem, snapshot = part["currentLeader"], error_of_answer(part), part["snapshotId"]
        whole = self._book.up_to(snapshot["endOffset"], snapshot["epoch"]).batches if problem is Error.NONE else ()
        content = self._pieces.content(request, whole, part)
        return FetchSnapshotResponse(
            leader["leaderEpoch"], self._leader(leader["leaderId"]), problem, content, request, source, dest
        )

    # Voter changes

    def _api_versions_request(self, found: Json, _: Any, source: ModelValue, dest: ModelValue) -> Record:
        return ApiVersionsRequest(self._epochs(found["from"]), source, dest)

    def _api_versions_response(self, found: Json, request: Any, source: ModelValue, dest: ModelValue) -> Record:
        (feature,) = found["data"]["supportedFeatures"]
        return ApiVersionsResponse(feature["maxVersion"], request.of, source, dest)

    def _add_raft_voter_request(self, found: Json, _: Any, source: ModelValue, dest: ModelValue) -> Record:
        data = found["data"]
        key = self._key(data["voterId"], data["voterDirectoryId"])
        return AddVoterRequest(Voter(key, data["listeners"][0]["port"] - FIRST_PORT), source, dest)

    def _remove_raft_voter_request(self, found: Json, _: Any, source: ModelValue, dest: ModelValue) -> Record:
        data = found["data"]
        return RemoveVoterRequest(self._key(data["voterId"], data["voterDirectoryId"]), source, dest)

    def _update_raft_voter_request(self, found: Json, _: Any, source: ModelValue, dest: ModelValue) -> Record:
        data = found["data"]
        voter = Voter(self._key(data["voterId"], data["voterDirectoryId"]), data["listeners"][0]["port"] - FIRST_PORT)
        version = data["kRaftVersionFeature"]["maxSupportedVersion"]
        return UpdateVoterRequest(data["currentLeaderEpoch"], voter, version, source, dest)

    def _admin_response(self, about: Operation, found: Json, _: Any, source: ModelValue, dest: ModelValue) -> Record:
        return AdminResponse(about, error_of_answer(found["data"]), source, dest)

    _add_raft_voter_response = partialmethod(_admin_response, Operation.ADD_VOTER)
    _remove_raft_voter_response = partialmethod(_admin_response, Operation.REMOVE_VOTER)
    _update_features_response = partialmethod(_admin_response, Operation.UPDATE_FEATURES)

    def _describe_quorum_response(self, found: Json, _: Any, source: ModelValue, dest: ModelValue) -> Record | None:
        part = only_partition_in_body(found["data"])
        if part is None:
            return None
        problem = error_of_answer(part)
        ports = {node["nodeId"]: node["listeners"][0]["port"] for node in found["data"]["nodes"] if node["listeners"]}
        keys = {
            kind: [(one["replicaId"], self._key(one["replicaId"], one["replicaDirectoryId"])) for one in part[kind]]
            for kind in ("currentVoters", "observers")
        }
        voters = frozenset(Voter(key, ports.get(node, FIRST_PORT) - FIRST_PORT) for node, key in keys["currentVoters"])
        observers = frozenset(key for _, key in keys["observers"] if key.id != source)
        high = self._count(found, part["highWatermark"])
        epoch = part["leaderEpoch"] if problem is Error.NONE else self._epochs(found["from"])  # an error names no epoch
        return DescribeQuorumResponse(problem, epoch, high, voters, frozenset(), observers, source, dest)

    def _update_raft_voter_response(self, found: Json, request: Any, source: ModelValue, dest: ModelValue) -> Record:
        data = found["data"]
        leader = data.get("currentLeader", {"leaderId": -1, "leaderEpoch": 0})
        return UpdateVoterResponse(
            leader["leaderEpoch"], self._leader(leader["leaderId"]), error_of_answer(data), request, source, dest
        )


def only_partition_in_body(data: Json) -> Any:
    """Return the only partition in a request or an answer; None if an answer contains no partition."""
    topics = data.get("topics")
    return topics[0]["partitions"][0] if topics and topics[0]["partitions"] else None


def error_of_answer(data: Json) -> Error:
    """Return the error of an answer."""
    return ERROR_OF_CODE[data["errorCode"]]


def leader_endpoint(data: Json) -> int:
    """Return the endpoint of the leader that a message names, or 0."""
    told = data.get("nodeEndpoints") or data.get("leaderEndpoints") or [data.get("currentLeader", {})]
    port: int = told[0].get("port", 0)
    return port - FIRST_PORT if port > 0 else 0


def names_other_sender_or_leader_endpoint(found: Json) -> bool:
    """Whether a message names another sender than its own, or another replica's endpoint for the leader.

    The model has one field for both.
    """
    data, part = found["data"], only_partition_in_body(found["data"]) or {}
    senders = [data.get("replicaId"), data.get("replicaState", {}).get("replicaId")]
    if not found["answer"] or (found["api"] == "DESCRIBE_QUORUM" and part.get("errorCode") == 0):
        senders.append(part.get("leaderId"))
    return not {*senders} <= {None, found["from"]} or _names_other_leader_endpoint(data, part)


def _names_other_leader_endpoint(data: Json, part: Json) -> bool:
    if data.get("responses"):  # of a fetch
        part = data["responses"][0]["partitions"][0]
    current = part.get("currentLeader") or data.get("currentLeader", {})
    leader = part.get("leaderId", current.get("leaderId"))
    endpoints = [*data.get("nodeEndpoints", ()), *data.get("leaderEndpoints", ()), data.get("currentLeader", {})]
    named = [one for one in endpoints if one.get("port", 0) > 0]
    return any(one["host"] != f"n{leader}" or one.get("nodeId", leader) != leader for one in named)


def is_message_absent_in_model(found: Json, *, plain_answers: bool) -> bool:
    """Whether the model leaves a message out.

    Unless `plain_answers`, it has no answers without an error to BeginQuorumEpoch and EndQuorumEpoch, and no answers to
    administrators.
    """
    if plain_answers or not found["answer"]:
        return False
    part = only_partition_in_body(found["data"])
    if found["api"] in ("BEGIN_QUORUM_EPOCH", "END_QUORUM_EPOCH"):
        return part is not None and part["errorCode"] == 0
    return bool(found["to"] == 0)
