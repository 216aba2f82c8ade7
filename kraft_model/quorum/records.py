"""The values that states and messages of `quorum` are made of: symbols, replica keys, voters, log records.

Sources: KIP-595 (log records), KIP-853 (replica directory ids, VotersRecord, KRaftVersionRecord) and KIP-996 (the
states). An offset counts batches, since Kafka appends, fetches, truncates and commits whole batches.
"""

from __future__ import annotations

from kraftcheck.spec import ModelValue, Record, Symbol


class Nil(Symbol):
    """Nothing: no leader known, no vote given, no request under way."""

    NIL = "Nil"


class Mode(Symbol):
    """The modes of a replica: its states in KIP-996, "Proposed Changes"; a crashed process is down for good."""

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
    """Operations that an administrator or a voter asks of the leader."""

    ADD_VOTER = "AddVoter"
    REMOVE_VOTER = "RemoveVoter"
    UPDATE_VOTER = "UpdateVoter"
    UPDATE_FEATURES = "UpdateFeatures"


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
    """A client's record."""

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
    """A batch of the log: what is appended at once, in one epoch."""

    epoch: int
    records: tuple[LogRecord, ...]


class Position(Record):
    """An end offset and the epoch of the batch before it; (0, 0) is the beginning of the log."""

    offset: int
    epoch: int
