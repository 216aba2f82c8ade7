"""The records of `quorum`: symbols, voters, log records, messages, what each replica knows, what nobody owns.

Sources: KIP-595 (log records, Vote, BeginQuorumEpoch, EndQuorumEpoch, Fetch, quorum-state), KIP-630 (FetchSnapshot),
KIP-853 (replica directory ids, VotersRecord, KRaftVersionRecord, AddVoter, RemoveVoter, UpdateVoter, DescribeQuorum)
and KIP-996 (the states, PreVote); Kafka's handlers of voter changes. An offset counts batches, since Kafka appends,
fetches, truncates and commits whole batches.

In messages `of` is the epoch of the request that is answered: a replica drops answers to requests of its earlier
epochs. Kafka does so by resetting its connections at every transition. `address` is the endpoint to which a request
goes; where its receiver does not have that any more nobody receives it. 0 is the address of a bootstrap server, which
the operator keeps. `endpoint` is that of the leader which a message names, in the schemas of KIP-853; 0 where the
sender knows the leader and not the endpoint.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from kraftcheck.spec import Map, ModelValue, Record, Symbol
from kraftcheck.spec.values import Value


class Nil(Symbol):
    """Nothing: no leader known, no vote given, no request under way."""

    NIL = "Nil"


class Mode(Symbol):
    """The modes of a replica: its states in KIP-996, "Proposed Changes".

    A process that has crashed is down for good, and so is one that failed, since a handler of Kafka's threw.
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


class Operation(Symbol):
    """Operations that an administrator or a voter asks of the leader."""

    ADD_VOTER = "AddVoter"
    REMOVE_VOTER = "RemoveVoter"
    UPDATE_VOTER = "UpdateVoter"
    UPDATE_FEATURES = "UpdateFeatures"


ENDED = (Mode.DOWN, Mode.FAILED)
"""The modes of a process that has ended."""

SYMBOLS = (Nil, Mode, Error, Operation)

UNKNOWN_DIRECTORY = 0
"""The directory id of a voter of which only the replica id is known (kraft.version 0)."""


class Key(Record):
    """A replica key: replica id and directory id. A wiped disk comes back with the next directory id.

    KIP-853, "Replica directory ID". Directory id 0 stands for an unknown one.
    """

    id: ModelValue
    directory: int = 1

    def __str__(self) -> str:
        return f"{self.id}{'?' if self.directory == UNKNOWN_DIRECTORY else chr(39) * (self.directory - 1)}"


class Voter(Record):
    """An entry of a voter set: the replica key, and a number that stands for its endpoints.

    KIP-853, "VotersRecord". The supported range of kraft.version is left out: there are versions 0 and 1 only, and
    whoever is in a VotersRecord supports version 1.
    """

    key: Key
    endpoint: int = 1

    def __str__(self) -> str:
        return f"{self.key}{'' if self.endpoint == 1 else f':{self.endpoint}'}"


# Log records


class LogRecord(Record):
    """A record of the log. A design change adds a kind by a subclass; `QuorumMembership` says what it changes."""


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
    """AddVoterRecord of the draft of KIP-853: one voter more."""

    voter: Voter


class VoterRemoved(LogRecord):
    """RemoveVoterRecord of the draft of KIP-853: one voter less."""

    voter: Key


class Batch(Record):
    epoch: int
    records: tuple[LogRecord, ...]


class Position(Record):
    """An end offset and the epoch of the batch before it; (0, 0) is the beginning of the log."""

    offset: int
    epoch: int


class Message(Record):
    """What replicas and the administrator send."""


class ResponseHeader(Message, quiet=("endpoint",)):
    """The first fields of an answer that tells of an epoch and its leader."""

    epoch: int
    leader: ModelValue | Nil


class VoteRequest(Message, quiet=("address",)):
    """Vote; with `pre_vote` it asks whether a vote would be granted (KIP-996). `voter` is the replica key it is for."""

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
    """The answer to Vote; `voter` is the replica key that the request was for."""

    granted: bool
    error: Error
    pre_vote: bool
    voter: Key
    of: int
    source: ModelValue
    dest: ModelValue
    endpoint: int = 1


class BeginQuorumEpochRequest(Message, quiet=("address", "endpoint")):
    """A leader tells a voter that it leads."""

    epoch: int
    voter: Key
    source: ModelValue
    dest: ModelValue
    address: int = 1
    endpoint: int = 1


class Acknowledgement(ResponseHeader):
    """The answer to BeginQuorumEpoch or EndQuorumEpoch."""

    error: Error
    of: int
    source: ModelValue
    dest: ModelValue
    endpoint: int = 1


class BeginQuorumEpochResponse(Acknowledgement):
    """The answer to BeginQuorumEpoch."""


class EndQuorumEpochRequest(Message, quiet=("address",)):
    """A leader resigns, and says who should stand for election, the best first."""

    epoch: int
    preferred: tuple[Key, ...]
    source: ModelValue
    dest: ModelValue
    address: int = 1


class EndQuorumEpochResponse(Acknowledgement):
    """The answer to EndQuorumEpoch."""


class FetchRequest(Message, quiet=("address",)):
    """A follower or an observer asks for the batches behind its log end."""

    epoch: int
    offset: int
    last_epoch: int
    directory: int
    source: ModelValue
    dest: ModelValue
    address: int = 1


class FetchResponse(ResponseHeader):
    """The answer to a fetch: batches, where the logs diverge, the snapshot to load, or an error."""

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
    """A replica asks for a snapshot, which travels in one piece (KIP-630)."""

    epoch: int
    snapshot: Position
    directory: int
    source: ModelValue
    dest: ModelValue
    address: int = 1


class FetchSnapshotResponse(ResponseHeader):
    """The answer: the state up to the snapshot's end offset, or an error."""

    error: Error
    content: tuple[Batch, ...]
    request: FetchSnapshotRequest
    source: ModelValue
    dest: ModelValue
    endpoint: int = 1


class ApiVersionsRequest(Message, quiet=("address",)):
    """The leader asks a new voter which kraft.version it supports (KIP-853, "AddVoter", step 3)."""

    of: int
    source: ModelValue
    dest: ModelValue
    address: int = 1


class ApiVersionsResponse(Message):
    """The highest kraft.version that the replica supports."""

    version: int
    of: int
    source: ModelValue
    dest: ModelValue


class AddVoterRequest(Message, quiet=("address",)):
    """AddVoter of a controller that joins automatically. An administrator's request is a step of its receiver."""

    voter: Voter
    source: ModelValue
    dest: ModelValue
    address: int = 1


class RemoveVoterRequest(Message, quiet=("address",)):
    """RemoveVoter of a controller that joins automatically."""

    voter: Key
    source: ModelValue
    dest: ModelValue
    address: int = 1


class UpdateVoterRequest(Message, quiet=("address",)):
    """A voter tells the leader its endpoint, directory id and supported kraft.version."""

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
    """History, for properties only: what a change that is answered was about, and what its replica knew then.

    `subject` is the voter or the kraft.version; Nil where nothing was begun. `busy` says whether a leader had to wait.
    """

    subject: Key | int | UpdateVoterRequest | Nil
    mode: Mode
    version: int
    voters: frozenset[Key]
    busy: bool


class AdminResponse(Message):
    """The answer to AddVoter, RemoveVoter or UpdateFeatures, for an administrator or a joining controller.

    With WatchAnswers it has `about`.
    """

    operation: Operation
    error: Error
    source: ModelValue
    dest: ModelValue
    about: Answered | Nil = Nil.NIL


class DescribeQuorumResponse(Message):
    """The answer to DescribeQuorum (KIP-853, "DescribeQuorum"): current and committed voters, and observers."""

    error: Error
    epoch: int
    high_watermark: int
    current: frozenset[Voter]
    committed: frozenset[Voter]
    observers: frozenset[Key]
    source: ModelValue
    dest: ModelValue


Announcement = BeginQuorumEpochRequest | EndQuorumEpochRequest
LeaderResponse = VoteResponse | Acknowledgement | FetchResponse | FetchSnapshotResponse | UpdateVoterResponse
"""The answers that tell of an epoch and its leader."""

# Groups of messages that are dropped together


class Answers(Record):
    """Group: the answers of one kind under way to a replica."""

    kind: str
    dest: ModelValue


class PreVotes(Record):
    """Group: the pre-vote requests under way from a replica to another."""

    source: ModelValue
    dest: ModelValue


KINDS: dict[type[Record], str] = {
    FetchResponse: "fetch",
    FetchSnapshotResponse: "fetch",
    BeginQuorumEpochResponse: "leader",
    EndQuorumEpochResponse: "leader",
    ApiVersionsResponse: "leader",
    UpdateVoterResponse: "update",
}


def group_of(message: Record) -> Record | None:
    """Return the group that a message belongs to, or None."""
    if isinstance(message, VoteRequest):
        return PreVotes(message.source, message.dest) if message.pre_vote else None
    if isinstance(message, VoteResponse):
        return Answers("pre-vote" if message.pre_vote else "vote", message.dest)
    kind = KINDS.get(type(message))
    return None if kind is None else Answers(kind, message.dest)  # type: ignore[attr-defined]


class Change(Record):
    """A voter change or upgrade that a leader handles: Kafka keeps this in its handlers."""

    operation: Operation  # the kind of change
    voter: Voter | Nil  # the voter to add; Nil for other operations
    checked: bool  # whether the new voter's answer to ApiVersions has come
    offset: int  # the end offset of its batch in the log; 0 before it is appended
    client: ModelValue  # who gets the answer
    # the voter to add or to remove, the kraft.version to raise to, or the voter's request to update it
    asked: Key | int | UpdateVoterRequest | Nil = Nil.NIL


class Replica(Record):
    """Everything that one replica knows.

    On disk are directory, epoch, leader, voted, the flushed part of the log and its snapshot. The log stays whole: the
    part before `start` stands for the snapshot that ends there, and is not read as a log.
    """

    id: ModelValue  # its replica key, and a number that stands for its endpoints
    directory: int = 1
    endpoint: int = 1
    software: int = 1  # the highest kraft.version that its software supports (KIP-853, "Supported features")
    mode: Mode = Mode.UNATTACHED  # its mode and epoch, the leader of that epoch and the candidate that it voted for
    epoch: int = 0
    leader: ModelValue | Nil = Nil.NIL
    # the endpoint at which it reaches its leader; 0 where it knows a leader and no endpoint of it
    leader_endpoint: int = 1
    voted: Key | Nil = Nil.NIL
    # its log; the end offsets of its snapshot, of what is on disk, and of what it knows to be committed
    log: tuple[Batch, ...] = ()
    start: int = 0
    flushed: int = 0
    high_watermark: int = 0
    voters: frozenset[Voter] = frozenset()  # the voter set and the kraft.version in use
    version: int = 0
    # the voters that granted and refused it a vote (or pre-vote), itself included
    granted: frozenset[Key] = frozenset()
    rejected: frozenset[Key] = frozenset()
    fetched: bool = False  # follower: whether it has fetched since it began to follow
    ended: bool = False  # follower: whether its leader has resigned, and prefers nobody to it
    # the request whose answer it waits for: a fetch; in Kafka also UpdateVoter, AddVoter or RemoveVoter of its own
    pending: FetchRequest | FetchSnapshotRequest | UpdateVoterRequest | AddVoterRequest | RemoveVoterRequest | Nil = (
        Nil.NIL
    )
    offsets: Map[Key, int] = Map()  # leader: the end offset that each other replica has fetched to, by replica key
    change: Change | Nil = Nil.NIL  # leader: the voter change or upgrade under way
    # leader at kraft.version 0: the voters as they told in UpdateVoter, which the log does not hold then
    heard: frozenset[Voter] = frozenset()
    # follower: whether it waits for an answer to UpdateVoter, and whether its leader has acknowledged one
    updating: bool = False
    updated: bool = False
    joining: bool = False  # observer: whether it waits for an answer to AddVoter or RemoveVoter of its own
    # history, for properties only (WatchPreVotes): the replicas since whose pre-vote round began this replica has
    # led, or followed and fetched, all the time
    watched: frozenset[ModelValue] = frozenset()
    # history, for properties only: whom it voted for in this epoch, also if it has forgotten it since
    ballot: frozenset[Key] = frozenset()

    volatile: ClassVar[Mapping[str, Value]] = {}
    """Fields that a subclass adds and that belong to one mode, as they are when it begins."""

    @property
    def key(self) -> Key:
        """Its replica key."""
        return Key(self.id, self.directory)


class Told(Record):
    """What an administrator was told is done: the operation, and the voter or kraft.version that it asked for."""

    operation: Operation
    about: Key | int | UpdateVoterRequest | Nil


class Admin(Record):
    """The administrator: sends requests and reads answers.

    `told` and `described` are history, for properties only (WatchAnswers): what it was told is done, and how leaders
    described the quorum.
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
    cuts: frozenset[frozenset[ModelValue]] = frozenset()  # pairs of replicas between which nothing is delivered
    # history, for properties only: the longest log that a leader ever showed as committed
    committed: tuple[Batch, ...] = ()
    elected: frozenset[Term] = frozenset()  # history, for properties only: the leaders ever elected, by epoch
    lost: Map[Key, tuple[Batch, ...]] = Map()  # history, for properties only: the logs of lost disks, by replica key
