"""Hosts, directory ids, endpoints, offsets and messages of a cluster, in the terms of the model and back."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple

from kraftcheck.kraft_model.quorum.records import (
    ADMIN,
    AddVoterRequest,
    AdminResponse,
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
    Nil,
    Operation,
    Position,
    RemoveVoterRequest,
    Replica,
    UpdateVoterRequest,
    UpdateVoterResponse,
    Voter,
    VoteRequest,
    VoteResponse,
)
from kraftcheck.lockstep.messages import ERROR_OF_CODE
from kraftcheck.spec import ModelValue, Record
from kraftcheck.validation.events import Event, EventKind, MessageBody

ERROR_CODES = {error: code for code, error in ERROR_OF_CODE.items()}
"""Kafka's code of each error of the model."""

UNSET_DIRECTORY_IDS = ("AAAAAAAAAAAAAAAAAAAAAA", "<undefined>")

Log = tuple[Batch, ...]


class OffsetBatch(Batch):
    """A batch with its end offset in records; data batches of one epoch in a row may be one of them."""

    end: int


def data_batch_of_unknown_contents(epoch: int, end: int) -> OffsetBatch:
    """Return a batch of unknown contents."""
    return OffsetBatch(epoch, (Data(end),), end)


LogEnd = tuple[int, int]
"""End offset of a part of a log, and its epoch."""


def make_log_from_ends(
    start: int, ends: Sequence[LogEnd], records: Mapping[int, Sequence[Record]], marks: Iterable[int]
) -> Log:
    """Return batches of unknown contents from an offset on: with these ends and epochs, records, and further ends.

    Control records are given by their offsets; each is at the end of a batch.
    """
    found, last = list[Batch](), max((end for end, _ in ends), default=0)
    for cut in sorted({*marks, *(end for end, _ in ends), *records, *(offset + 1 for offset in records)}):
        if start < cut <= last:
            batch = data_batch_of_unknown_contents(next(epoch for end, epoch in ends if end >= cut), cut)
            found.append(batch.but(records=(*records.get(cut - 1, ()), *batch.records)))
    return tuple(found)


def batch_end_offset(batch: Batch) -> int:
    """Return the end offset of a batch, in records."""
    return batch.end  # type: ignore[attr-defined, no-any-return]


def record_offset_of_batch(log: Log, count: int) -> int:
    """Return the record offset up to which the first `count` batches of a log reach."""
    return batch_end_offset(log[count - 1]) if count > 0 else 0


def batch_count_covering_offset(log: Log, offset: int) -> int:
    """Return the number of batches up to a record offset, rounded up; one more than the log has if it lies behind."""
    return 0 if offset <= 0 else bisect_left(log, offset, key=batch_end_offset) + 1


class LoggedFieldDifference(NamedTuple):
    """A field whose value in the log differs from the model's."""

    field: str
    kafka: Any
    model: Any


# Fields with one value in a whole cluster: its id, and the topic and partition of the metadata. The model has one
# partition. A request of another cluster comes from a host of its own, so that the model's rule answers it.

OTHER_CLUSTER = ModelValue("other cluster", (1 << 20) + 1)
"""The sender of requests of another cluster."""

NO_NODE = -1
"""The id in a request of a client that is no node, such as a shell that fetches the metadata."""

METADATA_TOPIC = "'__cluster_metadata'"
PARTITION_FIELDS = {
    "topicId": "AAAAAAAAAAAAAAAAAAAAAQ",
    "topicName": METADATA_TOPIC,
    "partition": "0",
    "partitionIndex": "0",
    "index": "0",
}
"""The fields of all messages that name the partition of the metadata."""

SNAPSHOT_FIELDS = {**PARTITION_FIELDS, "name": METADATA_TOPIC}
"""Those of FetchSnapshot; `name` is that of a listener in other messages."""

CLUSTER_ID = "clusterId"
OPTIONAL_FIELDS = frozenset({*SNAPSHOT_FIELDS, CLUSTER_ID, "nodeId"})
"""Fields that a message may lack, or have as null."""

ERROR_OF_OTHER_PARTITION = {"FetchSnapshot": ("errorCode", 1), "DescribeQuorum": ("errorCode", 1)}
INVALID_REQUEST, UNKNOWN_TOPIC_OR_PARTITION = "42", "3"


def expected_metadata_partition_fields(api: str) -> Mapping[str, str]:
    """Return the fields that name the partition of the metadata in a message."""
    return SNAPSHOT_FIELDS if api == "FetchSnapshot" else PARTITION_FIELDS


def names_other_partition(body: MessageBody) -> bool:
    """Whether a request names another topic or partition than that of the metadata."""
    constants = expected_metadata_partition_fields(body.api)
    return any(constants.get(name, value) != value for name, value in zip(body.names, body.values, strict=True))


def expected_refusal_of_other_partition(api: str) -> dict[tuple[str, int], str]:
    """Return the expected fields of the response to a request for another partition, as Kafka refuses it."""
    field = ERROR_OF_OTHER_PARTITION.get(api)
    return {("errorCode", 0): INVALID_REQUEST} if field is None else {field: UNKNOWN_TOPIC_OR_PARTITION}


class ClusterIdsByProcess:
    """The cluster id of each process: the one that most of its requests carry."""

    def __init__(self, logs: Mapping[int, Sequence[Event]]) -> None:
        of_process: dict[tuple[int, int], Counter[str]] = defaultdict(Counter)
        of_cluster: Counter[str] = Counter()
        for event in chain.from_iterable(logs.values()):
            shown = cluster_id_in_request(event)
            if shown is not None:
                of_cluster[shown] += 1
                if event.kind is EventKind.SEND:
                    of_process[event.node, event.incarnation][shown] += 1
        self._of_process = {process: ids.most_common(1)[0][0] for process, ids in of_process.items()}
        self._of_cluster = of_cluster.most_common(1)[0][0] if of_cluster else None

    def of(self, event: Event) -> str | None:
        """Return the cluster id of an event's process, that of most requests if it sends none; None without any."""
        return self._of_process.get((event.node, event.incarnation), self._of_cluster)

    def is_other(self, request: Event) -> bool:
        """Whether a received request carries the id of another cluster than the receiver's."""
        return cluster_id_in_request(request) not in (None, self.of(request))


def cluster_id_in_request(event: Event) -> str | None:
    """Return the cluster id that a request carries, None without one."""
    if event.kind not in (EventKind.SEND, EventKind.REQUEST):
        return None
    shown: str | None = event.body.get(CLUSTER_ID)
    return None if shown == "null" else shown


class ModelTranslator:
    """The names of a cluster. Directory ids and endpoints are numbered by node, in the order of their appearance."""

    def __init__(
        self, nodes: Iterable[int], voters: Iterable[int] = (), ids: ClusterIdsByProcess | None = None
    ) -> None:
        self.cluster_ids = ids or ClusterIdsByProcess({})
        self.hosts = {node: ModelValue(f"n{node}", node) for node in sorted(nodes)}
        self.nodes = {ADMIN: NO_NODE} | {host: node for node, host in self.hosts.items()}
        self.voters_seen = frozenset(voters)  # the nodes that are voters at any time
        self._directories: dict[int, list[str]] = {}
        self._endpoints: dict[int, list[str]] = {}

    def host(self, node: int) -> ModelValue | Nil:
        """Return a node's name in the model; Nil for a negative id."""
        return self.hosts.get(node, Nil.NIL)

    def directory(self, node: int, text: str | None) -> int:
        """Return the number of a node's directory id, 0 for an unknown one."""
        if text is None or text in UNSET_DIRECTORY_IDS:
            return 0
        known = self._directories.setdefault(node, [])
        if text not in known:
            known.append(text)
        return known.index(text) + 1

    def endpoint(self, node: int, address: str) -> int:
        """Return the number of a node's endpoint."""
        known = self._endpoints.setdefault(node, [])
        if address not in known:
            known.append(address)
        return known.index(address) + 1

    def key(self, node: int, directory: str | None) -> Key:
        """Return a replica key; a message may name a node that no event shows."""
        host = self.hosts.setdefault(node, ModelValue(f"n{node}", node))
        self.nodes[host] = node
        return Key(host, self.directory(node, directory))

    def voters(self, found: Iterable[tuple[int, str, str, int]]) -> frozenset[Voter]:
        """Return a voter set."""
        return frozenset(
            Voter(self.key(node, directory), self.endpoint(node, address)) for node, directory, address, _ in found
        )

    def directory_text(self, host: ModelValue, number: int) -> str:
        """Return the directory id with a number."""
        known = self._directories.get(self.nodes[host], [])
        return known[number - 1] if 0 < number <= len(known) else UNSET_DIRECTORY_IDS[0]

    def address(self, host: ModelValue, number: int) -> tuple[str, str] | None:
        """Return host and port of an endpoint, as in a message; None if no event shows them."""
        known = self._endpoints.get(self.nodes[host], [])
        if not 0 < number <= len(known):
            return None
        name, _, port = known[number - 1].split(",")[0].rpartition(":")
        return f"'{name}'", port

    # From a log to the model; `log` is that of the replica which receives the message

    def request(self, body: MessageBody, source: int | None, dest: int, log: Log) -> Record | None:
        """Return the model's request; None if the model lacks it."""
        read = REQUEST_MAKERS.get(body.api)
        sender = ADMIN if source is None else self.hosts[source]
        return None if read is None else read(self, body, sender, self.hosts[dest], log)

    def position(self, body: MessageBody, offset: tuple[str, int], epoch: tuple[str, int], log: Log) -> Position | Nil:
        """Return the position in two fields of a body, Nil where they are -1."""
        found = body.number(*offset)
        return Nil.NIL if found < 0 else Position(batch_count_covering_offset(log, found), body.number(*epoch))

    def response(
        self, body: MessageBody, request: Record, me: Replica, source: ModelValue, records: Sequence[Batch]
    ) -> Record | None:
        """Return the model's response to a request of a replica, with the records that it carries."""
        error = ERROR_OF_CODE.get(body.number("errorCode", 1 if body.get("errorCode", 1) is not None else 0))
        make = RESPONSE_MAKERS.get(type(request))
        if error is None or make is None:
            return None
        leader = self.host(body.number("leaderId"))
        common = CommonResponseFields(
            max(body.number("leaderEpoch"), 0), leader, error, source, me.id, self._told(body, leader)
        )
        return make(self, body, request, common, me.log, tuple(records))

    def _told(self, body: MessageBody, leader: ModelValue | Nil) -> int:
        """Return the endpoint that a response names for the leader, 0 without one."""
        if isinstance(leader, Nil):
            return 1
        host, port = body.get("host"), body.get("port")
        if host in (None, "''") or port in (None, "0", "-1"):
            return 0
        return self.endpoint(self.nodes[leader], f"{host[1:-1]}:{port}")

    def snapshot(self, body: MessageBody) -> Position | Nil:
        """Return the id of the snapshot that a fetch response names, with its end offset in records."""
        end = body.number("endOffset", 1)
        return Nil.NIL if end < 0 else Position(end, body.number("epoch", 1))  # in records: its batches are unknown

    def versions(self, body: MessageBody, epoch: int, source: ModelValue, dest: ModelValue) -> ApiVersionsResponse:
        """Return a response to ApiVersions; kraft.version 0 where it does not list the feature."""
        after = body.after("name", "'kraft.version'")
        return ApiVersionsResponse(max(after.number("maxVersion"), 0), epoch, source, dest)

    # From the model to a log: the expected value of each field, by name and occurrence

    def leader_fields(self, message: Any) -> dict[tuple[str, int], str]:
        """Return the expected epoch, leader and endpoint of a response."""
        leader = message.leader
        node = -1 if isinstance(leader, Nil) else self.nodes[leader]
        found = {("leaderId", 0): str(node), ("leaderEpoch", 0): str(message.epoch), ("nodeId", 0): str(node)}
        return found if isinstance(leader, Nil) else found | self.endpoint_fields(leader, message.endpoint)

    def endpoint_fields(self, host: ModelValue, number: int) -> FieldTexts:
        """Return the expected host and port of an endpoint; none if no event shows them."""
        address = self.address(host, number)
        return {} if address is None else {("host", 0): address[0], ("port", 0): address[1]}

    def expected(self, message: Record, log: Log, start: int) -> dict[tuple[str, int], str] | None:
        """Return the expected fields of a message that a replica with this log sends; None if none is known."""
        show = FIELD_TEXT_MAKERS.get(type(message))
        if show is None:
            return None
        is_of_snapshot = isinstance(message, FetchSnapshotRequest | FetchSnapshotResponse)
        constants = SNAPSHOT_FIELDS if is_of_snapshot else PARTITION_FIELDS
        return {(name, 0): value for name, value in constants.items()} | show(self, message, log, start)

    def cluster_fields(self, send: Event) -> FieldTexts:
        """Return the expected cluster id of a sent request: that of its process."""
        known = self.cluster_ids.of(send)
        return {} if known is None else {(CLUSTER_ID, 0): known}

    def key_fields(self, key: Key, node: str, directory: str, occurrence: int = 0) -> dict[tuple[str, int], str]:
        """Return the expected fields of a replica key."""
        return {
            (node, occurrence): str(self.nodes[key.id]),
            (directory, occurrence): self.directory_text(key.id, key.directory),
        }


def _whole_batch_count_up_to_offset(log: Log, offset: int) -> int:
    """Return the number of whole batches of a log up to a record offset; one more if the offset lies behind it."""
    if log and offset > batch_end_offset(log[-1]):
        return len(log) + 1
    found = bisect_left(log, offset, key=batch_end_offset)
    return found + 1 if found < len(log) and batch_end_offset(log[found]) == offset else found


# Responses, from a log


class CommonResponseFields(NamedTuple):
    """The fields of every response between replicas."""

    epoch: int
    leader: ModelValue | Nil
    error: Error
    source: ModelValue
    dest: ModelValue
    endpoint: int


def _fetch_response_from_log_body(
    terms: ModelTranslator, body: MessageBody, request: Any, c: CommonResponseFields, log: Log, records: Log
) -> Record:
    high = body.number("highWatermark")
    return FetchResponse(
        c.epoch, c.leader, c.error, 0 if high < 0 else _whole_batch_count_up_to_offset((*log, *records), high), records,
        terms.position(body, ("endOffset", 0), ("epoch", 0), log), terms.snapshot(body), request,
        c.source, c.dest, c.endpoint,
    )  # fmt: skip


def _fetch_snapshot_response_from_log_body(
    terms: ModelTranslator, body: MessageBody, request: Any, c: CommonResponseFields, log: Log, records: Log
) -> Record:
    return FetchSnapshotResponse(c.epoch, c.leader, c.error, records, request, c.source, c.dest, c.endpoint)


def _vote_response_from_log_body(
    terms: ModelTranslator, body: MessageBody, request: Any, c: CommonResponseFields, log: Log, records: Log
) -> Record:
    granted = body.get("voteGranted") == "true"
    return VoteResponse(
        c.epoch, c.leader, granted, c.error, request.pre_vote, request.voter, request.epoch, c.source, c.dest,
        c.endpoint,
    )  # fmt: skip


def _begin_epoch_response_from_log_body(
    terms: ModelTranslator, body: MessageBody, request: Any, c: CommonResponseFields, log: Log, records: Log
) -> Record:
    return BeginQuorumEpochResponse(c.epoch, c.leader, c.error, request.epoch, c.source, c.dest, c.endpoint)


def _end_epoch_response_from_log_body(
    terms: ModelTranslator, body: MessageBody, request: Any, c: CommonResponseFields, log: Log, records: Log
) -> Record:
    return EndQuorumEpochResponse(c.epoch, c.leader, c.error, request.epoch, c.source, c.dest, c.endpoint)


def _update_voter_response_from_log_body(
    terms: ModelTranslator, body: MessageBody, request: Any, c: CommonResponseFields, log: Log, records: Log
) -> Record:
    return UpdateVoterResponse(c.epoch, c.leader, c.error, request, c.source, c.dest, c.endpoint)


def _admin_response_from_log_body(
    terms: ModelTranslator, body: MessageBody, request: Any, c: CommonResponseFields, log: Log, records: Log
) -> Record:
    operation = Operation.ADD_VOTER if isinstance(request, AddVoterRequest) else Operation.REMOVE_VOTER
    return AdminResponse(operation, c.error, c.source, c.dest)


RESPONSE_MAKERS: dict[type[Record], Callable[..., Record]] = {
    FetchRequest: _fetch_response_from_log_body,
    FetchSnapshotRequest: _fetch_snapshot_response_from_log_body,
    VoteRequest: _vote_response_from_log_body,
    BeginQuorumEpochRequest: _begin_epoch_response_from_log_body,
    EndQuorumEpochRequest: _end_epoch_response_from_log_body,
    UpdateVoterRequest: _update_voter_response_from_log_body,
    AddVoterRequest: _admin_response_from_log_body,
    RemoveVoterRequest: _admin_response_from_log_body,
}
"""The model's response by the type of its request."""


# Requests, from a log


def _fetch_request_from_log_body(
    terms: ModelTranslator, body: MessageBody, source: ModelValue, dest: ModelValue, log: Log
) -> Record:
    offset, directory = body.number("fetchOffset"), body.get("replicaDirectoryId")
    return FetchRequest(
        body.number("currentLeaderEpoch"), batch_count_covering_offset(log, offset), body.number("lastFetchedEpoch"),
        terms.directory(terms.nodes[source], directory), source, dest,
    )  # fmt: skip


def _fetch_snapshot_request_from_log_body(
    terms: ModelTranslator, body: MessageBody, source: ModelValue, dest: ModelValue, log: Log
) -> Record:
    wanted = Position(batch_count_covering_offset(log, body.number("endOffset")), body.number("epoch"))
    directory = terms.directory(terms.nodes[source], body.get("replicaDirectoryId"))
    return FetchSnapshotRequest(body.number("currentLeaderEpoch"), wanted, directory, source, dest)


def _vote_request_from_log_body(
    terms: ModelTranslator, body: MessageBody, source: ModelValue, dest: ModelValue, log: Log
) -> Record:
    return VoteRequest(
        body.number("replicaEpoch"), body.get("preVote") == "true",
        terms.key(terms.nodes[source], body.get("replicaDirectoryId")),
        terms.key(body.number("voterId"), body.get("voterDirectoryId")), body.number("lastOffsetEpoch"),
        batch_count_covering_offset(log, body.number("lastOffset")), source, dest,
    )  # fmt: skip


def _begin_epoch_request_from_log_body(
    terms: ModelTranslator, body: MessageBody, source: ModelValue, dest: ModelValue, log: Log
) -> Record:
    voter = terms.key(body.number("voterId"), body.get("voterDirectoryId"))
    host, port = body.get("host"), body.get("port")
    endpoint = 0 if host is None else terms.endpoint(terms.nodes[source], f"{host[1:-1]}:{port}")
    return BeginQuorumEpochRequest(body.number("leaderEpoch"), voter, source, dest, endpoint=endpoint)


def _end_epoch_request_from_log_body(
    terms: ModelTranslator, body: MessageBody, source: ModelValue, dest: ModelValue, log: Log
) -> Record:
    named = zip(body.all("candidateId"), body.all("candidateDirectoryId"), strict=False)
    preferred = tuple(terms.key(int(node), directory) for node, directory in named)
    return EndQuorumEpochRequest(body.number("leaderEpoch"), preferred, source, dest)


def _voter_from_log_body(terms: ModelTranslator, body: MessageBody) -> Voter:
    node = body.number("voterId")
    addresses = zip(body.all("host"), body.all("port"), strict=False)
    address = ",".join(f"{host[1:-1]}:{port}" for host, port in addresses)
    return Voter(terms.key(node, body.get("voterDirectoryId")), terms.endpoint(node, address))


def _add_voter_request_from_log_body(
    terms: ModelTranslator, body: MessageBody, source: ModelValue, dest: ModelValue, log: Log
) -> Record:
    return AddVoterRequest(_voter_from_log_body(terms, body), source, dest)


def _remove_voter_request_from_log_body(
    terms: ModelTranslator, body: MessageBody, source: ModelValue, dest: ModelValue, log: Log
) -> Record:
    return RemoveVoterRequest(terms.key(body.number("voterId"), body.get("voterDirectoryId")), source, dest)


def _update_voter_request_from_log_body(
    terms: ModelTranslator, body: MessageBody, source: ModelValue, dest: ModelValue, log: Log
) -> Record:
    epoch, version = body.number("currentLeaderEpoch"), body.number("maxSupportedVersion")
    return UpdateVoterRequest(epoch, _voter_from_log_body(terms, body), version, source, dest)


REQUEST_MAKERS: dict[str, Callable[[ModelTranslator, MessageBody, ModelValue, ModelValue, Log], Record]] = {
    "Fetch": _fetch_request_from_log_body,
    "FetchSnapshot": _fetch_snapshot_request_from_log_body,
    "Vote": _vote_request_from_log_body,
    "BeginQuorumEpoch": _begin_epoch_request_from_log_body,
    "EndQuorumEpoch": _end_epoch_request_from_log_body,
    "AddRaftVoter": _add_voter_request_from_log_body,
    "RemoveRaftVoter": _remove_voter_request_from_log_body,
    "UpdateRaftVoter": _update_voter_request_from_log_body,
}


# Messages, to a log

FieldTexts = dict[tuple[str, int], str]


def _expected_fetch_request_field_texts(terms: ModelTranslator, r: FetchRequest, log: Log, start: int) -> FieldTexts:
    return {
        ("replicaId", 1): str(terms.nodes[r.source]),
        ("currentLeaderEpoch", 0): str(r.epoch),
        ("fetchOffset", 0): str(record_offset_of_batch(log, r.offset)),
        ("lastFetchedEpoch", 0): str(r.last_epoch),
        ("replicaDirectoryId", 0): terms.directory_text(r.source, r.directory),
    }


def _expected_fetch_snapshot_request_field_texts(
    terms: ModelTranslator, r: FetchSnapshotRequest, log: Log, start: int
) -> FieldTexts:
    return {
        ("replicaId", 0): str(terms.nodes[r.source]),
        ("currentLeaderEpoch", 0): str(r.epoch),
        ("endOffset", 0): str(r.snapshot.offset),  # in records: see ModelTranslator.snapshot
        ("epoch", 0): str(r.snapshot.epoch),
        ("replicaDirectoryId", 0): terms.directory_text(r.source, r.directory),
    }


def _expected_vote_request_field_texts(terms: ModelTranslator, r: VoteRequest, log: Log, start: int) -> FieldTexts:
    return {
        ("replicaEpoch", 0): str(r.epoch),
        ("lastOffsetEpoch", 0): str(r.last_epoch),
        ("lastOffset", 0): str(record_offset_of_batch(log, r.last_offset)),
        ("preVote", 0): str(r.pre_vote).lower(),
        **terms.key_fields(r.candidate, "replicaId", "replicaDirectoryId"),
        **terms.key_fields(r.voter, "voterId", "voterDirectoryId"),
    }


def _expected_begin_quorum_epoch_field_texts(
    terms: ModelTranslator, r: BeginQuorumEpochRequest, log: Log, start: int
) -> FieldTexts:
    leader = {("leaderId", 0): str(terms.nodes[r.source]), ("leaderEpoch", 0): str(r.epoch)}
    endpoint = terms.endpoint_fields(r.source, r.endpoint)
    return leader | endpoint | terms.key_fields(r.voter, "voterId", "voterDirectoryId")


def _expected_end_quorum_epoch_field_texts(
    terms: ModelTranslator, r: EndQuorumEpochRequest, log: Log, start: int
) -> FieldTexts:
    shown = {("leaderId", 0): str(terms.nodes[r.source]), ("leaderEpoch", 0): str(r.epoch)}
    for place, key in enumerate(r.preferred):
        shown |= terms.key_fields(key, "candidateId", "candidateDirectoryId", place)
    return shown


def _expected_voter_request_field_texts(
    terms: ModelTranslator, r: AddVoterRequest | UpdateVoterRequest, log: Log, start: int
) -> FieldTexts:
    shown = terms.key_fields(r.voter.key, "voterId", "voterDirectoryId")
    shown |= terms.endpoint_fields(r.voter.key.id, r.voter.endpoint)
    return shown | ({("currentLeaderEpoch", 0): str(r.epoch)} if isinstance(r, UpdateVoterRequest) else {})


def _expected_remove_voter_field_texts(
    terms: ModelTranslator, r: RemoveVoterRequest, log: Log, start: int
) -> FieldTexts:
    return terms.key_fields(r.voter, "voterId", "voterDirectoryId")


def _expected_field_texts_if_request_refused(error: Error) -> FieldTexts | None:
    """Return the fields of a response that refuses the whole request; None if the error is that of a partition."""
    if error in (Error.INCONSISTENT_CLUSTER_ID, Error.UNSUPPORTED_VERSION):
        return {("errorCode", 0): str(ERROR_CODES[error])}
    return None


def _expected_fetch_response_field_texts(terms: ModelTranslator, r: FetchResponse, log: Log, start: int) -> FieldTexts:
    refused = _expected_field_texts_if_request_refused(r.error)
    if refused is not None:
        return refused
    parting, snapshot = r.diverging, r.snapshot
    return {
        ("errorCode", 0): "0",
        ("errorCode", 1): str(ERROR_CODES[r.error]),
        ("highWatermark", 0): str(record_offset_of_batch(log, r.high_watermark) or -1),
        ("logStartOffset", 0): str(record_offset_of_batch(log, start)),
        ("epoch", 0): "-1" if isinstance(parting, Nil) else str(parting.epoch),
        ("endOffset", 0): "-1" if isinstance(parting, Nil) else str(record_offset_of_batch(log, parting.offset)),
        ("endOffset", 1): "-1" if isinstance(snapshot, Nil) else str(record_offset_of_batch(log, snapshot.offset)),
        ("epoch", 1): "-1" if isinstance(snapshot, Nil) else str(snapshot.epoch),
        **({("size", 0): "0"} if not r.records else {}),
        **terms.leader_fields(r),
    }


def _expected_fetch_snapshot_response_field_texts(
    terms: ModelTranslator, r: FetchSnapshotResponse, log: Log, start: int
) -> FieldTexts:
    refused = _expected_field_texts_if_request_refused(r.error)
    if refused is not None:
        return refused
    shown = {("errorCode", 0): "0", ("errorCode", 1): str(ERROR_CODES[r.error]), **terms.leader_fields(r)}
    if r.error is Error.NONE:
        wanted = r.request.snapshot
        shown |= {("endOffset", 0): str(record_offset_of_batch(log, wanted.offset)), ("epoch", 0): str(wanted.epoch)}
    return shown


def _expected_vote_response_field_texts(terms: ModelTranslator, r: VoteResponse, log: Log, start: int) -> FieldTexts:
    refused = _expected_field_texts_if_request_refused(r.error)
    if refused is not None:
        return refused
    granted = {("voteGranted", 0): str(r.granted).lower()}
    return {("errorCode", 0): "0", ("errorCode", 1): str(ERROR_CODES[r.error])} | granted | terms.leader_fields(r)


def _expected_quorum_epoch_response_field_texts(
    terms: ModelTranslator, r: BeginQuorumEpochResponse | EndQuorumEpochResponse, log: Log, start: int
) -> FieldTexts:
    refused = _expected_field_texts_if_request_refused(r.error)
    if refused is not None:
        return refused
    return {("errorCode", 0): "0", ("errorCode", 1): str(ERROR_CODES[r.error]), **terms.leader_fields(r)}


def _expected_update_voter_response_field_texts(
    terms: ModelTranslator, r: UpdateVoterResponse, log: Log, start: int
) -> FieldTexts:
    return {("errorCode", 0): str(ERROR_CODES[r.error]), **terms.leader_fields(r)}


def _expected_admin_response_field_texts(terms: ModelTranslator, r: AdminResponse, log: Log, start: int) -> FieldTexts:
    return {("errorCode", 0): str(ERROR_CODES[r.error])}


def _expected_describe_quorum_response_field_texts(
    terms: ModelTranslator, r: DescribeQuorumResponse, log: Log, start: int
) -> FieldTexts:
    if r.error is not Error.NONE:
        return {("errorCode", 1): str(ERROR_CODES[r.error])}
    return {
        ("errorCode", 0): "0",
        ("errorCode", 1): "0",
        ("leaderId", 0): str(terms.nodes[r.source]),
        ("leaderEpoch", 0): str(r.epoch),
        ("highWatermark", 0): str(record_offset_of_batch(log, r.high_watermark) or -1),
    }


FIELD_TEXT_MAKERS: dict[type[Record], Callable[..., FieldTexts]] = {
    FetchRequest: _expected_fetch_request_field_texts,
    FetchSnapshotRequest: _expected_fetch_snapshot_request_field_texts,
    VoteRequest: _expected_vote_request_field_texts,
    BeginQuorumEpochRequest: _expected_begin_quorum_epoch_field_texts,
    EndQuorumEpochRequest: _expected_end_quorum_epoch_field_texts,
    AddVoterRequest: _expected_voter_request_field_texts,
    UpdateVoterRequest: _expected_voter_request_field_texts,
    RemoveVoterRequest: _expected_remove_voter_field_texts,
    FetchResponse: _expected_fetch_response_field_texts,
    FetchSnapshotResponse: _expected_fetch_snapshot_response_field_texts,
    VoteResponse: _expected_vote_response_field_texts,
    BeginQuorumEpochResponse: _expected_quorum_epoch_response_field_texts,
    EndQuorumEpochResponse: _expected_quorum_epoch_response_field_texts,
    UpdateVoterResponse: _expected_update_voter_response_field_texts,
    AdminResponse: _expected_admin_response_field_texts,
    DescribeQuorumResponse: _expected_describe_quorum_response_field_texts,
}


def body_differences(body: MessageBody, expected: FieldTexts) -> list[LoggedFieldDifference]:
    """Return the fields of a body that differ from their expected values."""
    found = []
    for (name, occurrence), value in expected.items():
        shown = body.get(name, occurrence)
        is_left_out = (shown is None and value == "-1") or (shown in (None, "null") and name in OPTIONAL_FIELDS)
        if shown != value and not is_left_out:
            found.append(LoggedFieldDifference(name, shown, value))
    return found
