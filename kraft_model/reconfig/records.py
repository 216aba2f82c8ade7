"""Records of `reconfig`: identities, log entries, messages, the state of a server, the shared state.

Source: the section "Constants and variables" of the TLA+ specification KRaftWithReconfig and its module MessagePassing.
Field names are the specification's in snake case; `tla_prefix`, `tla_names` and `tla_constants` map those that differ.
"""

from __future__ import annotations

from typing import ClassVar

from kraftcheck.spec import Map, ModelValue, Record, Symbol


class Nil(Symbol):
    NIL = "Nil"


class Role(Symbol):
    """The role of a server in the configuration that it uses."""

    VOTER = "Voter"
    OBSERVER = "Observer"
    DEAD_NO_STATE = "DeadNoState"


class ServerState(Symbol):
    """The state of a server, as in Kafka's QuorumState."""

    UNATTACHED = "Unattached"
    FOLLOWER = "Follower"
    CANDIDATE = "Candidate"
    LEADER = "Leader"
    VOTED = "Voted"
    RESIGNED = "Resigned"
    DEAD_NO_STATE = "DeadNoState"
    ILLEGAL = "IllegalState"


class Command(Symbol):
    APPEND = "AppendCommand"
    INIT_CLUSTER = "InitClusterCommand"
    ADD_SERVER = "AddServerCommand"
    REMOVE_SERVER = "RemoveServerCommand"


class Result(Symbol):
    OK = "Ok"
    NOT_OK = "NotOk"
    DIVERGING = "Diverging"


class Error(Symbol):
    """Error codes of responses and checks."""

    UNKNOWN_MEMBER = "UnknownMember"
    ALREADY_MEMBER = "AlreadyMember"
    RECONFIG_IN_PROGRESS = "ReconfigInProgress"
    LEADER_NOT_READY = "LeaderNotReady"
    FENCED_LEADER_EPOCH = "FencedLeaderEpoch"
    NOT_LEADER = "NotLeader"
    UNKNOWN_LEADER = "UnknownLeader"


class MessageType(Symbol):
    REQUEST_VOTE_REQUEST = "RequestVoteRequest"
    REQUEST_VOTE_RESPONSE = "RequestVoteResponse"
    BEGIN_QUORUM_REQUEST = "BeginQuorumRequest"
    FETCH_REQUEST = "FetchRequest"
    FETCH_RESPONSE = "FetchResponse"
    JOIN_REQUEST = "JoinRequest"
    JOIN_RESPONSE = "JoinResponse"


class EpochMatch(Symbol):
    """The epochs of messages that the specification accepts: equal or any; its `.cfg` files name these values."""

    EQUAL_EPOCH = "EqualEpoch"
    ANY_EPOCH = "AnyEpoch"


SYMBOL_TYPES = (Role, ServerState, Command, Result, Error, MessageType, EpochMatch, Nil)


class ServerId(Record):
    """A server's identity: its host and the disk id that it generates when it starts without state."""

    host: ModelValue
    disk_id: int

    def __str__(self) -> str:
        return f"{self.host}/{self.disk_id}" if self.disk_id else str(self.host)


class Config(Record):
    """A configuration cached by a server; `id` 0 stands for none."""

    id: int = 0
    members: frozenset[ServerId] = frozenset()
    committed: bool = False


class InitialMembers(Record):
    """The value of an InitClusterCommand."""

    id: int
    members: frozenset[ServerId]


class AddedMember(Record):
    """The value of an AddServerCommand."""

    id: int
    new: ServerId
    members: frozenset[ServerId]


class RemovedMember(Record):
    """The value of a RemoveServerCommand."""

    id: int
    old: ServerId
    members: frozenset[ServerId]


class Entry(Record):
    """An entry of the log: a client's value or a configuration."""

    command: Command
    epoch: int
    value: ModelValue | InitialMembers | AddedMember | RemovedMember


class RequestVoteRequest(Record):
    """Vote request of a candidate."""

    tla_prefix: ClassVar[str] = "m"
    tla_constants: ClassVar[dict[str, Symbol]] = {"mtype": MessageType.REQUEST_VOTE_REQUEST}
    epoch: int
    last_log_epoch: int
    last_log_offset: int
    source: ServerId
    dest: ServerId


class RequestVoteResponse(Record):
    """Response to a vote request."""

    tla_prefix: ClassVar[str] = "m"
    tla_constants: ClassVar[dict[str, Symbol]] = {"mtype": MessageType.REQUEST_VOTE_RESPONSE}
    epoch: int
    leader: ServerId | Nil
    vote_granted: bool
    error: Error | Nil
    source: ServerId
    dest: ServerId


class BeginQuorumRequest(Record):
    """Announcement of a new leader."""

    tla_prefix: ClassVar[str] = "m"
    tla_constants: ClassVar[dict[str, Symbol]] = {"mtype": MessageType.BEGIN_QUORUM_REQUEST}
    epoch: int
    source: ServerId
    dest: ServerId


class FetchRequest(Record):
    """A fetch of the entry after the log end, by a follower or an observer."""

    tla_prefix: ClassVar[str] = "m"
    tla_constants: ClassVar[dict[str, Symbol]] = {"mtype": MessageType.FETCH_REQUEST}
    epoch: int
    fetch_offset: int
    last_fetched_epoch: int
    observer: bool
    source: ServerId
    dest: ServerId


class FetchResponse(Record):
    """The common fields of fetch responses; `correlation` is the request."""

    tla_prefix: ClassVar[str] = "m"
    tla_names: ClassVar[dict[str, str]] = {"correlation": "correlation"}
    tla_constants: ClassVar[dict[str, Symbol]] = {"mtype": MessageType.FETCH_RESPONSE}
    epoch: int
    leader: ServerId | Nil
    result: Result
    error: Error | Nil
    hwm: int
    source: ServerId
    dest: ServerId
    correlation: FetchRequest


class FetchRejected(FetchResponse):
    """A rejected fetch, with its error."""


class FetchDiverging(FetchResponse):
    """The fetch position is not in the leader's log; the follower truncates to the given offset and epoch."""

    diverging_epoch: int
    diverging_end_offset: int


class FetchSucceeded(FetchResponse):
    """A served fetch, with at most one entry."""

    entries: tuple[Entry, ...]


class JoinRequest(Record):
    """Request of an observer to become a voter."""

    tla_prefix: ClassVar[str] = "m"
    tla_constants: ClassVar[dict[str, Symbol]] = {"mtype": MessageType.JOIN_REQUEST}
    epoch: int
    dest: ServerId
    source: ServerId


class JoinResponse(Record):
    """Response to a join request."""

    tla_prefix: ClassVar[str] = "m"
    tla_constants: ClassVar[dict[str, Symbol]] = {"mtype": MessageType.JOIN_RESPONSE}
    epoch: int
    leader: ServerId | Nil
    result: Result
    error: Error | Nil
    dest: ServerId
    source: ServerId


class Server(Record):
    """The state of a server; each field is a variable of the specification, a function over servers."""

    id: ServerId
    config: Config = Config()
    current_epoch: int = 0
    role: Role = Role.OBSERVER
    state: ServerState = ServerState.UNATTACHED
    voted_for: ServerId | Nil = Nil.NIL
    leader: ServerId | Nil = Nil.NIL
    pending_fetch: FetchRequest | Nil = Nil.NIL
    log: tuple[Entry, ...] = ()
    high_watermark: int = 0
    votes_granted: frozenset[ServerId] = frozenset()
    end_offset: Map[ServerId, int] = Map()


class Shared(Record):
    """The state that belongs to no server: the servers ever started, and the specification's counters and history."""

    tla_prefix: ClassVar[str] = "_"
    tla_names: ClassVar[dict[str, str]] = {"servers": "servers"}
    servers: frozenset[ServerId]
    acked: Map[ModelValue, bool | Nil]
    value_ctr: tuple[int, ...]
    disk_id_gen: int = 0
