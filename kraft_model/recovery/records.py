"""Records of `recovery`: partition states, metadata records, messages, the state of each process.

Source: KIP-704, "Changed Public Interfaces". The model omits fields without effect here: topic ids, broker epochs,
throttle times, adding and removing replicas.
"""

from __future__ import annotations

from kraftcheck.spec import Map, ModelValue, Record, Symbol


class Mode(Symbol):
    """The store of the controller's decisions: the metadata log or ZooKeeper."""

    KRAFT = "KRaft"
    ZOOKEEPER = "ZooKeeper"


class RecoveryState(Symbol):
    """LeaderRecoveryState: RECOVERED (0) or RECOVERING (1)."""

    RECOVERED = "RECOVERED"
    RECOVERING = "RECOVERING"


class Nil(Symbol):
    """Null values: no leader (-1), no change (-1, -2 or null), absent field, none."""

    NO_LEADER = "NoLeader"
    UNCHANGED = "Unchanged"
    ABSENT = "Absent"
    NIL = "Nil"


class Api(Symbol):
    """The client requests that a recovering leader rejects."""

    FETCH = "FETCH"
    PRODUCE = "PRODUCE"
    LIST_OFFSETS = "LIST_OFFSETS"
    DELETE_RECORDS = "DELETE_RECORDS"
    OFFSET_FOR_LEADER_EPOCH = "OFFSET_FOR_LEADER_EPOCH"


class Error(Symbol):
    """Error codes; DISCONNECTED stands for a stopped broker."""

    NONE = "NONE"
    NOT_LEADER_OR_FOLLOWER = "NOT_LEADER_OR_FOLLOWER"
    FENCED_LEADER_EPOCH = "FENCED_LEADER_EPOCH"
    UNKNOWN_LEADER_EPOCH = "UNKNOWN_LEADER_EPOCH"
    INVALID_UPDATE_VERSION = "INVALID_UPDATE_VERSION"
    INVALID_REQUEST = "INVALID_REQUEST"
    INELIGIBLE_REPLICA = "INELIGIBLE_REPLICA"
    DISCONNECTED = "DISCONNECTED"


class Name(Symbol):
    """Ids of processes other than brokers."""

    CONTROLLER = "controller"
    CLIENT = "client"


SYMBOL_TYPES = (Mode, RecoveryState, Nil, Api, Error, Name)
LeaderOrNil = ModelValue | Nil
RECOVERED, RECOVERING = RecoveryState.RECOVERED, RecoveryState.RECOVERING


# The partition


class Partition(Record):
    """A partition's state: the ZooKeeper node `state`, or the state after the metadata records."""

    leader: LeaderOrNil
    leader_epoch: int
    partition_epoch: int
    isr: frozenset[ModelValue]
    recovery: RecoveryState = RECOVERED


UNKNOWN_PARTITION = Partition(Nil.NO_LEADER, -1, -1, frozenset())
"""The initial partition state of a broker."""


class PartitionRecord(Record):
    """PartitionRecord: creates the partition."""

    leader: LeaderOrNil
    isr: frozenset[ModelValue]
    leader_epoch: int
    partition_epoch: int
    recovery: RecoveryState = RECOVERED


class PartitionChangeRecord(Record):
    """PartitionChangeRecord; Unchanged stands for null (ISR), -2 (leader) and -1 (recovery state)."""

    leader: LeaderOrNil = Nil.UNCHANGED
    isr: frozenset[ModelValue] | Nil = Nil.UNCHANGED
    recovery: RecoveryState | Nil = Nil.UNCHANGED


class ConfigRecord(Record):
    """ConfigRecord: min.insync.replicas of the cluster (KIP-966). It changes no partition."""

    min_isr: int


MetadataLog = tuple[PartitionRecord | PartitionChangeRecord | ConfigRecord, ...]


# Messages between controller and brokers


class LeaderAndIsrRequest(Record):
    """LeaderAndIsr of the ZooKeeper controller; version 6 has the recovery state, version 5 does not."""

    version: int
    controller_epoch: int
    leader: LeaderOrNil
    leader_epoch: int
    partition_epoch: int
    isr: frozenset[ModelValue]
    recovery: RecoveryState | Nil
    dest: ModelValue


class AlterPartitionRequest(Record):
    """AlterPartition; version 1 has the recovery state, version 0 (AlterIsr) does not. `attempt` counts copies."""

    version: int
    leader_epoch: int
    partition_epoch: int
    isr: frozenset[ModelValue]
    recovery: RecoveryState | Nil
    attempt: int
    source: ModelValue
    dest: Name = Name.CONTROLLER


class AlterPartitionResponse(Record):
    """Response to AlterPartition; `asked` identifies the request by its two epochs and its attempt."""

    error: Error
    asked: tuple[int, int, int]
    leader_epoch: int
    partition_epoch: int
    isr: frozenset[ModelValue]
    recovery: RecoveryState | Nil
    dest: ModelValue


# Messages between replicas


class EpochEndRequest(Record):
    """OFFSET_FOR_LEADER_EPOCH of a follower, for the end offset of the last epoch in its log."""

    leader_epoch: int
    asked_epoch: int
    source: ModelValue
    dest: ModelValue


class EpochEndResponse(Record):
    """The largest epoch of the leader's log not above the requested one, and its end offset."""

    error: Error
    leader_epoch: int
    epoch: int
    end_offset: int
    dest: ModelValue


class ReplicaFetch(Record):
    """FETCH of a follower, which holds all entries before `offset`."""

    leader_epoch: int
    offset: int
    source: ModelValue
    dest: ModelValue


class Entry(Record):
    """A record of the partition, and the epoch of the leader that appended it."""

    epoch: int
    value: int

    def __str__(self) -> str:
        return f"{self.value} of epoch {self.epoch}"


class ReplicaFetchResponse(Record):
    """The leader's entries from the fetch offset on, or an error."""

    error: Error
    leader_epoch: int
    offset: int
    entries: tuple[Entry, ...]
    dest: ModelValue


# Messages of clients


class ClientRequest(Record):
    """A request of a client; `value` is the value to append for PRODUCE, else 0."""

    api: Api
    value: int
    dest: ModelValue


class ClientResponse(Record):
    """Response to a client, with the leader epoch known to the broker."""

    api: Api
    value: int
    error: Error
    leader_epoch: int
    source: ModelValue
    dest: Name = Name.CLIENT


# Processes


class Controller(Record):
    id: Name = Name.CONTROLLER
    epoch: int = 0  # the controller epoch, incremented by each new ZooKeeper controller
    partition: Partition = UNKNOWN_PARTITION  # the persistent partition state
    fenced: frozenset[ModelValue] = frozenset()  # the brokers with an expired session


class Broker(Record):
    """A broker with its replica of the partition."""

    id: ModelValue
    running: bool = True  # whether the process is up
    controller_epoch: int = 0  # the newest known controller epoch (ZooKeeper)
    cursor: int = 0  # the number of applied metadata records (KRaft)
    partition: Partition = UNKNOWN_PARTITION  # the known partition state
    recovered: bool = False  # whether it has recovered as leader of this epoch, reported or not
    # as leader of this epoch: the log end at its election, the fetch offset of each follower, and the offsets of values
    # without an acknowledgement
    epoch_start: int = 0
    ends: Map[ModelValue, int] = Map()
    waiting: frozenset[int] = frozenset()
    pending: AlterPartitionRequest | Nil = Nil.NIL  # its pending AlterPartition request, if any
    # as follower of this epoch: whether its log is known to be a prefix of the leader's, and whether a request is
    # pending
    truncated: bool = False
    fetching: bool = False
    log: tuple[Entry, ...] = ()  # the log, on disk

    @property
    def leads(self) -> bool:
        """Whether the broker runs and knows itself as leader."""
        return self.running and self.partition.leader == self.id

    @property
    def follows(self) -> bool:
        """Whether the broker runs and knows another broker as leader."""
        return self.running and self.partition.leader not in (self.id, Nil.NO_LEADER)


class Client(Record):
    """A client with at most one pending request, possibly rejected and due for a retry."""

    id: Name = Name.CLIENT
    waiting: Api | Nil = Nil.NIL
    refused: bool = False


class Shared(Record):
    """The state that belongs to no process, and history for properties."""

    # the committed records of the cluster metadata log (KRaft), which brokers read by their cursors
    metadata: MetadataLog = ()
    values: int = 0  # the number of values that clients have sent
    # history: acknowledged values, each with the leader epoch of the acknowledgement
    acknowledged: frozenset[tuple[int, int]] = frozenset()
    last_leader: LeaderOrNil = Nil.NO_LEADER  # history: the last leader
    unclean_epoch: int = 0  # history: the leader epoch of the last unclean election, or 0
    # history: leader epochs since an unclean election without a reported recovery
    unrecovered: frozenset[int] = frozenset()
    finished: frozenset[int] = frozenset()  # history: leader epochs in which the leader has in fact recovered
    # history: leader epochs in which a broker with the recovery state has served a client
    served: frozenset[int] = frozenset()
