"""What a replica of `quorum` knows, and what replicas say to each other.

Sources: KIP-595 (schemas of Vote, BeginQuorumEpoch, EndQuorumEpoch, Fetch, quorum-state), KIP-630 (FetchSnapshot),
KIP-853 (replica directory ids, AddVoter, RemoveVoter, UpdateVoter, VotersRecord, KRaftVersionRecord) and KIP-996
(PreVote). An offset counts batches, since Kafka appends, fetches, truncates and commits whole batches.
"""

from __future__ import annotations

from kraftcheck.spec import Map, ModelValue, Record, Symbol


class Nil(Symbol):
    """Nothing: no leader known, no vote given, no request under way."""

    NIL = "Nil"


class Mode(Symbol):
    """The states of a replica (KIP-996, "Proposed Changes"); a crashed process is down for good."""

    UNATTACHED = "Unattached"
    PROSPECTIVE = "Prospective"
    CANDIDATE = "Candidate"
    LEADER = "Leader"
    FOLLOWER = "Follower"
    RESIGNED = "Resigned"
    DOWN = "Down"


class Error(Symbol):
    """Error codes of the RPCs."""

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
    """What an administrator or a voter asks of the leader."""

    ADD_VOTER = "AddVoter"
    REMOVE_VOTER = "RemoveVoter"
    UPDATE_VOTER = "UpdateVoter"
    UPDATE_FEATURES = "UpdateFeatures"


SYMBOLS = (Nil, Mode, Error, Operation)

UNKNOWN_DIRECTORY = 0
"""The directory id of a voter that is known by its replica id alone (kraft.version 0)."""


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


class Data(Record):
    """A client's record."""

    number: int


class LeaderChange(Record):
    """LeaderChangeMessage, the first record of an epoch (KIP-595, "Leader Change Message")."""

    leader: ModelValue


class Voters(Record):
    """VotersRecord: the entire set of voters from here on (KIP-853, "VotersRecord")."""

    voters: frozenset[Voter]


class KRaftVersion(Record):
    """KRaftVersionRecord (KIP-853, "KRaftVersionRecord")."""

    version: int


class VoterAdded(Record):
    """AddVoterRecord of the draft of KIP-853: one voter more."""

    voter: Voter


class VoterRemoved(Record):
    """RemoveVoterRecord of the draft of KIP-853: one voter less."""

    voter: Key


class Batch(Record):
    """A batch of the log: what is appended at once, in one epoch."""

    epoch: int
    records: tuple[LeaderChange | KRaftVersion | Voters | Data | VoterAdded | VoterRemoved, ...]


class Position(Record):
    """An end offset and the epoch of the batch before it; (0, 0) is the beginning of the log."""

    offset: int
    epoch: int


# Messages. `of` is the epoch in which the sender of the request was: a replica drops answers to requests of an earlier
# time of its own, as Kafka does by resetting its connections at every transition.


class VoteRequest(Record):
    """Vote; with `pre_vote` it asks whether a vote would be granted (KIP-996). `voter` is whom it is meant for."""

    epoch: int
    pre_vote: bool
    candidate: Key
    voter: Key
    last_epoch: int
    last_offset: int
    source: ModelValue
    dest: ModelValue


class VoteResponse(Record):
    """The answer to a vote or pre-vote, by whom the request was meant for."""

    epoch: int
    leader: ModelValue | Nil
    granted: bool
    error: Error
    pre_vote: bool
    voter: Key
    of: int
    source: ModelValue
    dest: ModelValue


class BeginQuorumEpochRequest(Record):
    """A leader tells a voter that it leads."""

    epoch: int
    voter: Key
    source: ModelValue
    dest: ModelValue


class BeginQuorumEpochResponse(Record):
    """The answer to BeginQuorumEpoch."""

    epoch: int
    leader: ModelValue | Nil
    error: Error
    of: int
    source: ModelValue
    dest: ModelValue


class EndQuorumEpochRequest(Record):
    """A leader resigns, and says who should stand for election, the best first."""

    epoch: int
    preferred: tuple[Key, ...]
    source: ModelValue
    dest: ModelValue


class EndQuorumEpochResponse(Record):
    """The answer to EndQuorumEpoch."""

    epoch: int
    leader: ModelValue | Nil
    error: Error
    of: int
    source: ModelValue
    dest: ModelValue


class FetchRequest(Record):
    """A follower or an observer asks for what follows its log end."""

    epoch: int
    offset: int
    last_epoch: int
    directory: int
    source: ModelValue
    dest: ModelValue


class FetchResponse(Record):
    """The answer to a fetch: records, or where the logs diverge, or the snapshot to load; or an error."""

    epoch: int
    leader: ModelValue | Nil
    error: Error
    high_watermark: int
    records: tuple[Batch, ...]
    diverging: Position | Nil
    snapshot: Position | Nil
    request: FetchRequest
    source: ModelValue
    dest: ModelValue


class FetchSnapshotRequest(Record):
    """A replica asks for a snapshot (KIP-630); it is sent in one piece here."""

    epoch: int
    snapshot: Position
    directory: int
    source: ModelValue
    dest: ModelValue


class FetchSnapshotResponse(Record):
    """The answer: the state up to the snapshot's end offset, or an error."""

    epoch: int
    leader: ModelValue | Nil
    error: Error
    content: tuple[Batch, ...]
    request: FetchSnapshotRequest
    source: ModelValue
    dest: ModelValue


class ApiVersionsRequest(Record):
    """The leader asks a new voter which kraft.version it supports (KIP-853, "AddVoter", step 3)."""

    of: int
    source: ModelValue
    dest: ModelValue


class ApiVersionsResponse(Record):
    """The highest kraft.version that the replica supports."""

    version: int
    of: int
    source: ModelValue
    dest: ModelValue


class AddVoterRequest(Record):
    """AddVoter from a controller that joins automatically; what an administrator sends is a step of who gets it."""

    voter: Voter
    source: ModelValue
    dest: ModelValue


class RemoveVoterRequest(Record):
    """RemoveVoter, sent by a controller that joins automatically."""

    voter: Key
    source: ModelValue
    dest: ModelValue


class UpdateVoterRequest(Record):
    """A voter tells the leader its endpoint, directory id and supported kraft.version."""

    epoch: int
    voter: Voter
    version: int
    source: ModelValue
    dest: ModelValue


class UpdateVoterResponse(Record):
    """The answer to UpdateVoter."""

    epoch: int
    leader: ModelValue | Nil
    error: Error
    of: int
    source: ModelValue
    dest: ModelValue


class AdminResponse(Record):
    """The answer to AddVoter, RemoveVoter or UpdateFeatures, to an administrator or to a controller that joins."""

    operation: Operation
    error: Error
    source: ModelValue
    dest: ModelValue


class DescribeQuorumResponse(Record):
    """The answer to DescribeQuorum (KIP-853, "DescribeQuorum"): current and committed voters, and observers."""

    error: Error
    epoch: int
    high_watermark: int
    current: frozenset[Voter]
    committed: frozenset[Voter]
    observers: frozenset[Key]
    source: ModelValue
    dest: ModelValue


# Groups of messages that are gone when who asked no longer waits for the answers.


class Answers(Record):
    """The answers of one kind under way to a replica."""

    kind: str
    dest: ModelValue


class PreVotes(Record):
    """The pre-vote requests under way from a replica to another."""

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
    """A voter change or upgrade that a leader handles: the state that Kafka keeps in its handlers.

    Attributes
    ----------
    operation
        Which one.
    voter
        Who is added; Nil otherwise.
    checked
        Whether the new voter's answer to ApiVersions has come.
    offset
        The end offset of its batch in the log; 0 before it is appended.
    client
        Who is to be answered.
    """

    operation: Operation
    voter: Voter | Nil
    checked: bool
    offset: int
    client: ModelValue


class Replica(Record):
    """Everything that one replica knows.

    On disk are directory, epoch, leader, voted, the flushed part of the log and its snapshot. The log is kept whole:
    what is before `start` stands for the snapshot that ends there, and nobody reads it as a log.

    Attributes
    ----------
    id, directory, endpoint
        Its replica key, and a number that stands for its endpoints.
    software
        The highest kraft.version that its software supports (KIP-853, "Supported features").
    mode, epoch, leader, voted
        Its state, epoch, the leader of the epoch and the candidate that it voted for in it.
    log, start, flushed, high_watermark
        Its log; where it begins behind the snapshot; how much is on disk; how much it knows to be committed.
    voters, version
        The voter set and the kraft.version in use.
    granted, rejected
        Who has granted and refused it a vote (or pre-vote), itself included.
    fetched
        Follower: whether it has fetched since it began to follow.
    ended
        Follower: whether its leader has resigned.
    pending
        The request to whose answer it waits.
    offsets
        Leader: the end offset that each other replica has fetched to, by replica key.
    change
        Leader: the voter change or upgrade under way.
    heard
        Leader at kraft.version 0: what voters have told of themselves in UpdateVoter, which is not in the log then.
    updating, updated
        Follower: whether it waits for an answer to UpdateVoter, and whether its leader has acknowledged one.
    joining
        Observer: whether it waits for an answer to AddVoter or RemoveVoter of its own.
    watched
        History, for properties only (WatchPreVotes): who has begun a pre-vote round since when this replica has led, or
        followed and fetched, all the time.
    ballot
        History, for properties only: whom it voted for in this epoch, whatever it has forgotten since.
    """

    id: ModelValue
    directory: int = 1
    endpoint: int = 1
    software: int = 1
    mode: Mode = Mode.UNATTACHED
    epoch: int = 0
    leader: ModelValue | Nil = Nil.NIL
    voted: Key | Nil = Nil.NIL
    log: tuple[Batch, ...] = ()
    start: int = 0
    flushed: int = 0
    high_watermark: int = 0
    voters: frozenset[Voter] = frozenset()
    version: int = 0
    granted: frozenset[Key] = frozenset()
    rejected: frozenset[Key] = frozenset()
    fetched: bool = False
    ended: bool = False
    pending: FetchRequest | FetchSnapshotRequest | Nil = Nil.NIL
    offsets: Map[Key, int] = Map()
    change: Change | Nil = Nil.NIL
    heard: frozenset[Voter] = frozenset()
    updating: bool = False
    updated: bool = False
    joining: bool = False
    watched: frozenset[ModelValue] = frozenset()
    ballot: Key | Nil = Nil.NIL

    @property
    def key(self) -> Key:
        """Its replica key."""
        return Key(self.id, self.directory)


class Admin(Record):
    """Who sends what an administrator asks for, and reads the answers."""

    id: ModelValue


class Term(Record):
    """An epoch and who was elected to lead it."""

    epoch: int
    leader: ModelValue


class Shared(Record):
    """What is nobody's own.

    Attributes
    ----------
    appended
        How many client records were ever appended; the next one has the next number.
    cuts
        Pairs of replicas between which nothing is delivered.
    committed
        History, for properties only: the longest log that a leader ever showed as committed.
    elected
        History, for properties only: who was ever elected, in which epoch.
    lost
        History, for properties only: the replica keys of lost disks, with how much each log held.
    """

    appended: int = 0
    cuts: frozenset[frozenset[ModelValue]] = frozenset()
    committed: tuple[Batch, ...] = ()
    elected: frozenset[Term] = frozenset()
    lost: Map[Key, tuple[Batch, ...]] = Map()
