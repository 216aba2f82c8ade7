"""Records of `quorum`: symbols, voters, log records, messages, the state of a replica, the shared state.

Sources: KIP-595 (log records, Vote, BeginQuorumEpoch, EndQuorumEpoch, Fetch, quorum-state), KIP-630 (FetchSnapshot),
KIP-853 (replica directory ids, VotersRecord, KRaftVersionRecord, AddVoter, RemoveVoter, UpdateVoter, DescribeQuorum)
and KIP-996 (the states, PreVote); Kafka's handlers of voter changes. An offset counts batches, since Kafka appends,
fetches, truncates and commits whole batches.

In a response, `of` is the epoch of its request. A replica drops responses to requests of its earlier epochs. Kafka does
so by resetting its connections at every transition. In a request, `address` is the endpoint of its receiver. A request
to an endpoint that its receiver has left is never received. Address 0 is a bootstrap server, whose address the operator
keeps up to date. In a message that names the leader, `endpoint` is its endpoint (the schemas of KIP-853). It is 0 where
the sender knows the leader but not its endpoint.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from kraftcheck.spec import Map, ModelValue, Record, Symbol
from kraftcheck.spec.values import Value


class Nil(Symbol):
    """No value: no known leader, no vote, no pending request."""

    NIL = "Nil"


class Mode(Symbol):
    """The states of a replica (KIP-996, "Proposed Changes"), and two states of a process that has ended.

    `DOWN` is a process that crashed for good; `FAILED` is one in which a handler of Kafka's threw an exception.
    """

    UNATTACHED = "Unattached"
    PROSPECTIVE = "Prospective"
    CANDIDATE = "Candidate"
    LEADER = "Leader"
    FOLLOWER = "Follower"
    RESIGNED = "Resigned"
    DOWN = "Down"
    FAILED = "Failed"


class Error(Symbol):
    NONE = "NONE"
    FENCED_LEADER_EPOCH = "FENCED_LEADER_EPOCH"
    UNKNOWN_LEADER_EPOCH = "UNKNOWN_LEADER_EPOCH"
    NOT_LEADER_OR_FOLLOWER = "NOT_LEADER_OR_FOLLOWER"
    INVALID_REQUEST = "INVALID_REQUEST"
    NOT_VOTER = "NOT_VOTER"
    INCONSISTENT_CLUSTER_ID = "INCONSISTENT_CLUSTER_ID"
    INVALID_VOTER_KEY = "INVALID_VOTER_KEY"
    INVALID_UPDATE = "INVALID_UPDATE"
    INVALID_UPDATE_VERSION = "INVALID_UPDATE_VERSION"
    UNSUPPORTED_VERSION = "UNSUPPORTED_VERSION"
    DUPLICATE_VOTER = "DUPLICATE_VOTER"
    VOTER_ALREADY_ADDED = "VOTER_ALREADY_ADDED"
    VOTER_NOT_FOUND = "VOTER_NOT_FOUND"
    REQUEST_TIMED_OUT = "REQUEST_TIMED_OUT"
    SNAPSHOT_NOT_FOUND = "SNAPSHOT_NOT_FOUND"
    BROKER_NOT_AVAILABLE = "BROKER_NOT_AVAILABLE"


class Operation(Symbol):
    """Operations that an administrator or a voter requests from the leader."""

    ADD_VOTER = "AddVoter"
    REMOVE_VOTER = "RemoveVoter"
    UPDATE_VOTER = "UpdateVoter"
    UPDATE_FEATURES = "UpdateFeatures"


ENDED_MODES = (Mode.DOWN, Mode.FAILED)
"""The modes of a process that has ended."""

SYMBOL_TYPES = (Nil, Mode, Error, Operation)

UNKNOWN_DIRECTORY = 0
"""The directory id of a voter whose replica id alone is known (kraft.version 0)."""


class Key(Record):
    """A replica key: replica id and directory id. A wiped disk starts with the next directory id.

    KIP-853, "Replica directory ID". Directory id 0 stands for an unknown one.
    """

    id: ModelValue
    directory: int = 1

    def __str__(self) -> str:
        return f"{self.id}{'?' if self.directory == UNKNOWN_DIRECTORY else chr(39) * (self.directory - 1)}"


class Voter(Record):
    """An entry of a voter set: the replica key, and a number that stands for its endpoints.

    KIP-853, "VotersRecord". The supported range of kraft.version is omitted: every voter of a VotersRecord supports
    version 1, and versions 0 and 1 are the only ones.
    """

    key: Key
    endpoint: int = 1

    def __str__(self) -> str:
        return f"{self.key}{'' if self.endpoint == 1 else f':{self.endpoint}'}"


# Log records


class LogRecord(Record):
    """A record of the log. `QuorumVoterSets.voters_after` gives its effect on the voter set."""


class NoOp(LogRecord):
    """NoOpRecord (KIP-835): stands for the first batch of a controller; no rule reads it."""


class Data(LogRecord):
    number: int


class LeaderChange(LogRecord):
    """LeaderChangeMessage, the first record of an epoch (KIP-595, "Leader Change Message")."""

    leader: ModelValue


class Voters(LogRecord):
    """VotersRecord: the entire set of voters from here on (KIP-853, "VotersRecord")."""

    voters: frozenset[Voter]


class KRaftVersion(LogRecord):
    """KRaftVersionRecord (KIP-853, "KRaftVersionRecord")."""

    version: int


class VoterAdded(LogRecord):
    """AddVoterRecord of the draft of KIP-853: adds one voter to the voter set."""

    voter: Voter


class VoterRemoved(LogRecord):
    """RemoveVoterRecord of the draft of KIP-853: removes one voter from the voter set."""

    voter: Key


class Batch(Record):
    epoch: int
    records: tuple[LogRecord, ...]


class Position(Record):
    """An end offset and the epoch of the batch before it; (0, 0) is the beginning of the log."""

    offset: int
    epoch: int


class Message(Record):
    """A message of a replica or of the administrator."""


class ResponseHeader(Message, quiet=("endpoint",)):
    """Epoch of the responding replica and id of its known leader, the first fields of responses between replicas."""

    epoch: int
    leader: ModelValue | Nil


class VoteRequest(Message, quiet=("address",)):
    """Vote request; with `pre_vote`, a pre-vote request (KIP-996). `voter` is the replica key of the receiver."""

    epoch: int
    pre_vote: bool
    candidate: Key
    voter: Key
    last_epoch: int
    last_offset: int
    source: ModelValue
    dest: ModelValue
    address: int = 1


class VoteResponse(ResponseHeader):
    """Vote response; `voter` is the replica key that the request was sent to."""

    granted: bool
    error: Error
    pre_vote: bool
    voter: Key
    of: int
    source: ModelValue
    dest: ModelValue
    endpoint: int = 1


class BeginQuorumEpochRequest(Message, quiet=("address", "endpoint")):
    """BeginQuorumEpoch request: a leader announces itself to a voter."""

    epoch: int
    voter: Key
    source: ModelValue
    dest: ModelValue
    address: int = 1
    endpoint: int = 1


class Acknowledgement(ResponseHeader):
    """Response to BeginQuorumEpoch or EndQuorumEpoch."""

    error: Error
    of: int
    source: ModelValue
    dest: ModelValue
    endpoint: int = 1


class BeginQuorumEpochResponse(Acknowledgement):
    """Response to BeginQuorumEpoch."""


class EndQuorumEpochRequest(Message, quiet=("address",)):
    """EndQuorumEpoch request of a resigning leader, with the preferred successors, the best first."""

    epoch: int
    preferred: tuple[Key, ...]
    source: ModelValue
    dest: ModelValue
    address: int = 1


class EndQuorumEpochResponse(Acknowledgement):
    """Response to EndQuorumEpoch."""


class FetchRequest(Message, quiet=("address",)):
    """Fetch request of a follower or an observer for the batches after its log end."""

    epoch: int
    offset: int
    last_epoch: int
    directory: int
    source: ModelValue
    dest: ModelValue
    address: int = 1


class FetchResponse(ResponseHeader):
    """Fetch response: batches, the diverging epoch and offset, the id of the snapshot to load, or an error."""

    error: Error
    high_watermark: int
    records: tuple[Batch, ...]
    diverging: Position | Nil
    snapshot: Position | Nil
    request: FetchRequest
    source: ModelValue
    dest: ModelValue
    endpoint: int = 1


class FetchSnapshotRequest(Message, quiet=("address",)):
    """FetchSnapshot request; the whole snapshot travels in one response (KIP-630)."""

    epoch: int
    snapshot: Position
    directory: int
    source: ModelValue
    dest: ModelValue
    address: int = 1


class FetchSnapshotResponse(ResponseHeader):
    """FetchSnapshot response: the batches that the snapshot covers, or an error."""

    error: Error
    content: tuple[Batch, ...]
    request: FetchSnapshotRequest
    source: ModelValue
    dest: ModelValue
    endpoint: int = 1


class ApiVersionsRequest(Message, quiet=("address",)):
    """ApiVersions request of the leader to a new voter, for its kraft.version (KIP-853, "AddVoter", step 3)."""

    of: int
    source: ModelValue
    dest: ModelValue
    address: int = 1


class ApiVersionsResponse(Message):
    """ApiVersions response: the highest kraft.version that the replica supports."""

    version: int
    of: int
    source: ModelValue
    dest: ModelValue


class AddVoterRequest(Message, quiet=("address",)):
    """AddVoter request of a controller that joins automatically. An administrator sends no message: see `add_voter`."""

    voter: Voter
    source: ModelValue
    dest: ModelValue
    address: int = 1


class RemoveVoterRequest(Message, quiet=("address",)):
    """RemoveVoter request of a controller that joins automatically."""

    voter: Key
    source: ModelValue
    dest: ModelValue
    address: int = 1


class UpdateVoterRequest(Message, quiet=("address",)):
    """UpdateVoter request: a voter reports its endpoint, directory id and supported kraft.version to the leader."""

    epoch: int
    voter: Voter
    version: int
    source: ModelValue
    dest: ModelValue
    address: int = 1


class UpdateVoterResponse(ResponseHeader):
    error: Error
    request: UpdateVoterRequest
    source: ModelValue
    dest: ModelValue
    endpoint: int = 1


class Answered(Record):
    """History, for properties only: the subject of an answered change, and the state of the answering replica.

    `subject` is the voter or the kraft.version; Nil where no change was begun. `busy`: the leader had to defer changes.
    """

    subject: Key | int | UpdateVoterRequest | Nil
    mode: Mode
    version: int
    voters: frozenset[Key]
    busy: bool


class AdminResponse(Message):
    """Response to AddVoter, RemoveVoter or UpdateFeatures, for an administrator or a joining controller.

    With WatchAnswers, the response to an administrator carries `about`.
    """

    operation: Operation
    error: Error
    source: ModelValue
    dest: ModelValue
    about: Answered | Nil = Nil.NIL


class DescribeQuorumResponse(Message):
    """Response to DescribeQuorum (KIP-853, "DescribeQuorum"): current and committed voters, and observers."""

    error: Error
    epoch: int
    high_watermark: int
    current: frozenset[Voter]
    committed: frozenset[Voter]
    observers: frozenset[Key]
    source: ModelValue
    dest: ModelValue


QuorumEpochRequest = BeginQuorumEpochRequest | EndQuorumEpochRequest
LeaderResponse = VoteResponse | Acknowledgement | FetchResponse | FetchSnapshotResponse | UpdateVoterResponse
"""The responses that carry an epoch and its leader."""

# Message groups: the messages that one step drops together


class Answers(Record):
    """Message group: the responses of one kind in flight to a replica."""

    kind: str
    dest: ModelValue


class PreVotes(Record):
    """Message group: the pre-vote requests in flight from one replica to another."""

    source: ModelValue
    dest: ModelValue


KIND_BY_RESPONSE_TYPE: dict[type[Record], str] = {
    FetchResponse: "fetch",
    FetchSnapshotResponse: "fetch",
    BeginQuorumEpochResponse: "leader",
    EndQuorumEpochResponse: "leader",
    ApiVersionsResponse: "leader",
    UpdateVoterResponse: "update",
}


def message_group_of(message: Record) -> Record | None:
    """Return the message group of a message, whose members are dropped together; None if it has no group."""
    if isinstance(message, VoteRequest):
        return PreVotes(message.source, message.dest) if message.pre_vote else None
    if isinstance(message, VoteResponse):
        return Answers("pre-vote" if message.pre_vote else "vote", message.dest)
    kind = KIND_BY_RESPONSE_TYPE.get(type(message))
    return None if kind is None else Answers(kind, message.dest)  # type: ignore[attr-defined]


class Change(Record):
    """A pending voter change or upgrade of a leader: its subject, its progress, and the client to answer."""

    operation: Operation  # the kind of change
    voter: Voter | Nil  # the voter to add; Nil for other operations
    checked: bool  # whether the response to ApiVersions of the new voter has arrived
    offset: int  # the end offset of its batch in the log; 0 before it is appended
    client: ModelValue  # the receiver of the response
    # the voter to add or remove, the kraft.version to upgrade to, or the UpdateVoter request
    asked: Key | int | UpdateVoterRequest | Nil = Nil.NIL


class Replica(Record):
    """The local state of a replica.

    Directory, epoch, leader, vote, the flushed part of the log and the snapshot are on disk. The log stays whole: its
    part before `start` stands for the snapshot that ends there, and is not read as a log.
    """

    id: ModelValue  # the replica key, and a number that stands for the endpoints
    directory: int = 1
    endpoint: int = 1
    software: int = 1  # the highest kraft.version that the software supports (KIP-853, "Supported features")
    mode: Mode = Mode.UNATTACHED  # the mode, the epoch, the leader of the epoch and the candidate voted for
    epoch: int = 0
    leader: ModelValue | Nil = Nil.NIL
    # the endpoint of the leader; 0 where the leader is known but not its endpoint
    leader_endpoint: int = 1
    voted: Key | Nil = Nil.NIL
    # the log; the end offset of its snapshot; the flushed offset; the high watermark
    log: tuple[Batch, ...] = ()
    start: int = 0
    flushed: int = 0
    high_watermark: int = 0
    voters: frozenset[Voter] = frozenset()  # the voter set and the kraft.version in use
    version: int = 0
    # the voters that granted and rejected the vote (or pre-vote), the replica itself included
    granted: frozenset[Key] = frozenset()
    rejected: frozenset[Key] = frozenset()
    fetched: bool = False  # follower: whether it has fetched successfully since it became follower
    ended: bool = False  # follower: whether its leader resigned and prefers no other successor
    # the pending request: a fetch; in models of Kafka also the replica's own UpdateVoter, AddVoter or RemoveVoter
    pending: FetchRequest | FetchSnapshotRequest | UpdateVoterRequest | AddVoterRequest | RemoveVoterRequest | Nil = (
        Nil.NIL
    )
    offsets: Map[Key, int] = Map()  # leader: the log end offset of each other replica that fetches
    change: Change | Nil = Nil.NIL  # leader: the pending voter change or upgrade
    # leader at kraft.version 0: the voters that UpdateVoter reported, which the log does not hold at that version
    heard: frozenset[Voter] = frozenset()
    # follower: whether an UpdateVoter is pending, and whether the leader has acknowledged one
    updating: bool = False
    updated: bool = False
    joining: bool = False  # observer: whether its own AddVoter or RemoveVoter is pending
    # history, for properties only (WatchPreVotes): the replicas whose current pre-vote round this replica has led, or
    # followed and fetched, from its start on
    watched: frozenset[ModelValue] = frozenset()
    # history, for properties only: the candidates that it voted for in this epoch, even where the vote was lost since
    ballot: frozenset[Key] = frozenset()

    volatile: ClassVar[Mapping[str, Value]] = {}
    """Initial values of the mode-specific fields that a subclass adds."""

    @property
    def key(self) -> Key:
        """The replica key: the replica id, and the directory id of the current disk."""
        return Key(self.id, self.directory)


class DiskReplica(Replica):
    """A replica with the snapshots beside its log, by end offset, oldest first; its log may begin before them.

    The snapshot that formatting writes ends at 0.
    """

    snapshots: tuple[int, ...] = ()


class Told(Record):
    """History, for properties only: a completed operation that an administrator learned of, with its subject."""

    operation: Operation
    about: Key | int | UpdateVoterRequest | Nil


ADMIN = ModelValue("admin", 1 << 20)
"""The administrator's id: it sends requests and receives the answers."""


class Admin(Record):
    """The administrator, who sends requests and reads responses.

    `told` and `described` are history, for properties only (WatchAnswers): the operations reported as completed, and
    the responses to DescribeQuorum.
    """

    id: ModelValue
    told: frozenset[Told] = frozenset()
    described: frozenset[DescribeQuorumResponse] = frozenset()


class Term(Record):
    epoch: int
    leader: ModelValue


class Shared(Record):
    """The state that belongs to no replica."""

    appended: int = 0  # the number of client records ever appended
    cuts: frozenset[frozenset[ModelValue]] = frozenset()  # pairs of replicas whose link is cut
    # history, for properties only: the longest log prefix that a leader ever took as committed
    committed: tuple[Batch, ...] = ()
    elected: frozenset[Term] = frozenset()  # history, for properties only: the leaders ever elected, by epoch
    lost: Map[Key, tuple[Batch, ...]] = Map()  # history, for properties only: the logs of lost disks, by replica key
