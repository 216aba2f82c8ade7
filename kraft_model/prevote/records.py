"""Records of `prevote`: log entries, messages, the state of a server, the shared state.

Source: module kraft_kip_996_types of the TLA+ specification kraft_kip_996. Fields have the specification's names;
`tla_names` maps those that differ. A server's id is a number, as in the specification.
"""

from __future__ import annotations

from typing import ClassVar

from kraftcheck.kraft_model.reconfig.records import EpochMatch as EpochMatch
from kraftcheck.kraft_model.reconfig.records import Nil as Nil
from kraftcheck.kraft_model.reconfig.records import Result as Result
from kraftcheck.spec import Map, ModelValue, Record, Symbol


class ServerState(Symbol):
    """The state of a server, as in Kafka's QuorumState."""

    UNATTACHED = "Unattached"
    FOLLOWER = "Follower"
    PROSPECTIVE = "Prospective"
    CANDIDATE = "Candidate"
    LEADER = "Leader"
    RESIGNED = "Resigned"
    DEAD_NO_STATE = "DeadNoState"
    ILLEGAL = "IllegalState"


class Command(Symbol):
    APPEND = "AppendCommand"
    INIT_CLUSTER = "InitClusterCommand"
    ADD_VOTER = "AddVoterCommand"
    REMOVE_VOTER = "RemoveVoterCommand"
    LEADER_CHANGE = "LeaderChangeRecord"


class Error(Symbol):
    """Error codes of responses and checks."""

    UNKNOWN_MEMBER = "UnknownMember"
    ALREADY_MEMBER = "AlreadyMember"
    RECONFIG_IN_PROGRESS = "ReconfigInProgress"
    LEADER_NOT_READY = "LeaderNotReady"
    FENCED_LEADER_EPOCH = "FencedLeaderEpoch"
    NOT_LEADER = "NotLeader"
    UNKNOWN_LEADER = "UnknownLeader"
    INVALID_REQUEST = "InvalidRequest"


class MessageType(Symbol):
    REQUEST_VOTE_REQUEST = "RequestVoteRequest"
    REQUEST_VOTE_RESPONSE = "RequestVoteResponse"
    BEGIN_QUORUM_EPOCH_REQUEST = "BeginQuorumEpochRequest"
    FETCH_REQUEST = "FetchRequest"
    FETCH_RESPONSE = "FetchResponse"


SYMBOL_TYPES = (ServerState, Command, Result, Error, MessageType, EpochMatch, Nil)


class SnakeCaseRecord(Record):
    """A record whose fields keep their snake_case names in TLA+."""

    tla_snake_case: ClassVar[bool] = True


class Identity(SnakeCaseRecord):
    """A server's host, and the disk id that it generated when it started on a blank disk."""

    host: ModelValue
    disk_id: int

    def __str__(self) -> str:
        return f"{self.host}/{self.disk_id}" if self.disk_id else str(self.host)


class Config(SnakeCaseRecord):
    """A configuration cached by a server; `id` 0 stands for none."""

    id: int = 0
    members: frozenset[int] = frozenset()
    committed: bool = False


class InitialMembers(SnakeCaseRecord):
    """The value of an InitClusterCommand."""

    id: int
    members: frozenset[int]


class AddedVoter(SnakeCaseRecord):
    """The value of an AddVoterCommand."""

    id: int
    new: int
    members: frozenset[int]


class RemovedVoter(SnakeCaseRecord):
    """The value of a RemoveVoterCommand."""

    id: int
    old: int
    members: frozenset[int]


class Entry(SnakeCaseRecord):
    """A log entry: a client's value, a configuration, or the LeaderChange of a new leader."""

    command: Command
    epoch: int
    value: ModelValue | InitialMembers | AddedVoter | RemovedVoter | Nil


class RequestVoteRequest(SnakeCaseRecord):
    """A pre-vote request of a prospective, or a vote request of a candidate."""

    tla_constants: ClassVar[dict[str, Symbol]] = {"type": MessageType.REQUEST_VOTE_REQUEST}
    replica_epoch: int
    last_log_epoch: int
    last_log_offset: int
    pre_vote: bool
    source: int
    dest: int


class RequestVoteResponse(SnakeCaseRecord):
    """Response to a vote or pre-vote request."""

    tla_constants: ClassVar[dict[str, Symbol]] = {"type": MessageType.REQUEST_VOTE_RESPONSE}
    replica_epoch: int
    leader: int | Nil
    vote_granted: bool
    pre_vote: bool
    error: Error | Nil
    source: int
    dest: int


class BeginQuorumEpochRequest(SnakeCaseRecord):
    """A leader announces itself to a voter that it adds."""

    tla_constants: ClassVar[dict[str, Symbol]] = {"type": MessageType.BEGIN_QUORUM_EPOCH_REQUEST}
    replica_epoch: int
    source: int
    dest: int


class ElectedLeaderRequest(BeginQuorumEpochRequest):
    """A leader announces itself after its election, or again; the specification has one type for all announcements."""

    resend: bool


class FetchRequest(SnakeCaseRecord):
    """A fetch of the entry at an offset, one after the log end."""

    tla_constants: ClassVar[dict[str, Symbol | bool]] = {"type": MessageType.FETCH_REQUEST}
    replica_epoch: int
    fetch_offset: int
    last_fetched_epoch: int
    source: int
    dest: int


class FirstFetchRequest(FetchRequest):
    """The fetch of a server that starts on a blank disk, the only one marked as an observer's."""

    tla_constants: ClassVar[dict[str, Symbol | bool]] = {"type": MessageType.FETCH_REQUEST, "observer": True}


class FetchResponse(SnakeCaseRecord):
    """The common fields of fetch responses; `correlation` is the request."""

    tla_constants: ClassVar[dict[str, Symbol]] = {"type": MessageType.FETCH_RESPONSE}
    replica_epoch: int
    leader: int | Nil
    result: Result
    error: Error | Nil
    hwm: int
    source: int
    dest: int
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


class Connection(Record):
    """The messages from one server to another, which a network partition loses together."""

    source: int
    dest: int


class LastFetch(SnakeCaseRecord):
    """The server that answered the last fetch, and its error."""

    peer: int
    error: Error | Nil


class FetchState(SnakeCaseRecord):
    pending_fetch: FetchRequest | Nil = Nil.NIL
    last_fetch_res: LastFetch | Nil = Nil.NIL
    has_fetch_success: bool = False


class Server(SnakeCaseRecord):
    """The state of a server; each field is a variable of the specification, a function over servers."""

    tla_names: ClassVar[dict[str, str]] = {"identity": "server_ids"}
    id: int
    identity: Identity
    config: Config = Config()
    current_epoch: int = 0
    state: ServerState = ServerState.UNATTACHED
    voted_for: int | Nil = Nil.NIL
    leader: int | Nil = Nil.NIL
    fetch_state: FetchState = FetchState()
    pending_ack: frozenset[ModelValue] = frozenset()
    log: tuple[Entry, ...] = ()
    hwm: int = 0
    votes_recv: frozenset[int] = frozenset()
    flwr_end_offset: Map[int, int] = Map()


class Counters(SnakeCaseRecord):
    """Numbers of past events, each with a limit in the specification; no action increments `election_ctr`."""

    prevote_ctr: int = 0
    election_ctr: int = 0
    disruptive_ctr: int = 0
    crash_ctr: int = 0
    restart_ctr: int = 0
    add_reconfig_ctr: int = 0
    remove_reconfig_ctr: int = 0


class Shared(Record):
    """The state that belongs to no server: connected pairs, responses to clients, and counters."""

    tla_names: ClassVar[dict[str, str]] = {
        "connectivity": "net_connectivity",
        "connectivity_ctr": "net_connectivity_ctr",
        "sent": "inv_sent",
        "positively_acked": "inv_pos_acked",
        "negatively_acked": "inv_neg_acked",
        "counters": "aux_ctrs",
        "disk_id_gen": "aux_disk_id_gen",
    }
    connectivity: Map[frozenset[int], bool]
    connectivity_ctr: int = 0
    sent: frozenset[ModelValue] = frozenset()
    positively_acked: frozenset[ModelValue] = frozenset()
    negatively_acked: frozenset[ModelValue] = frozenset()
    counters: Counters = Counters()
    disk_id_gen: int = 0
