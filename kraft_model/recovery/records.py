"""The records of `recovery`: partition states, metadata records, messages, what each process knows.

Source: KIP-704, "Changed Public Interfaces". Left out are fields that the KIP does not touch and that change nothing
here: topic ids, broker epochs, throttle times, adding and removing replicas.
"""

from __future__ import annotations

from kraftcheck.spec import Map, ModelValue, Record, Symbol


class Mode(Symbol):
    """Where the controller keeps its decisions: in the metadata log or in ZooKeeper."""

    KRAFT = "KRaft"
    ZOOKEEPER = "ZooKeeper"


class RecoveryState(Symbol):
    """LeaderRecoveryState: RECOVERED (0) or RECOVERING (1)."""

    RECOVERED = "RECOVERED"
    RECOVERING = "RECOVERING"


class Nil(Symbol):
    """Values for nothing: no leader (-1), no change (-1, -2 or null), no such field, nothing else."""

    NO_LEADER = "NoLeader"
    UNCHANGED = "Unchanged"
    ABSENT = "Absent"
    NIL = "Nil"


class Api(Symbol):
    """The requests of clients that a recovering leader refuses."""

    FETCH = "FETCH"
    PRODUCE = "PRODUCE"
    LIST_OFFSETS = "LIST_OFFSETS"
    DELETE_RECORDS = "DELETE_RECORDS"
    OFFSET_FOR_LEADER_EPOCH = "OFFSET_FOR_LEADER_EPOCH"


class Error(Symbol):
    """Error codes; DISCONNECTED: the broker is down."""

    NONE = "NONE"
    NOT_LEADER_OR_FOLLOWER = "NOT_LEADER_OR_FOLLOWER"
    FENCED_LEADER_EPOCH = "FENCED_LEADER_EPOCH"
    UNKNOWN_LEADER_EPOCH = "UNKNOWN_LEADER_EPOCH"
    INVALID_UPDATE_VERSION = "INVALID_UPDATE_VERSION"
    INVALID_REQUEST = "INVALID_REQUEST"
    INELIGIBLE_REPLICA = "INELIGIBLE_REPLICA"
    DISCONNECTED = "DISCONNECTED"


class Name(Symbol):
    """Ids that are not brokers'."""

    CONTROLLER = "controller"
    CLIENT = "client"


SYMBOLS = (Mode, RecoveryState, Nil, Api, Error, Name)
Leader = ModelValue | Nil
RECOVERED, RECOVERING = RecoveryState.RECOVERED, RecoveryState.RECOVERING


# The partition


class Partition(Record):
    """A partition's state: the ZooKeeper node `state`, or what the metadata records add up to."""

    leader: Leader
    leader_epoch: int
    partition_epoch: int
    isr: frozenset[ModelValue]
    recovery: RecoveryState = RECOVERED


UNTOLD = Partition(Nil.NO_LEADER, -1, -1, frozenset())
"""The partition as a broker knows it that was told nothing."""


class PartitionRecord(Record):
    """PartitionRecord: the partition is created."""

    leader: Leader
    isr: frozenset[ModelValue]
    leader_epoch: int
    partition_epoch: int
    recovery: RecoveryState = RECOVERED


class PartitionChangeRecord(Record):
    """PartitionChangeRecord: what is changed; Unchanged stands for null (ISR), -2 (leader) and -1 (recovery state)."""

    leader: Leader = Nil.UNCHANGED
    isr: frozenset[ModelValue] | Nil = Nil.UNCHANGED
    recovery: RecoveryState | Nil = Nil.UNCHANGED


MetadataLog = tuple[PartitionRecord | PartitionChangeRecord, ...]


# Messages between controller and brokers


class LeaderAndIsrRequest(Record):
    """LeaderAndIsr of the ZooKeeper controller; version 6 has the recovery state, version 5 has not."""

    version: int
    controller_epoch: int
    leader: Leader
    leader_epoch: int
    partition_epoch: int
    isr: frozenset[ModelValue]
    recovery: RecoveryState | Nil
    dest: ModelValue


class AlterPartitionRequest(Record):
    """AlterPartition; version 1 has the recovery state, version 0 (AlterIsr) has not. `attempt` tells copies apart."""

    version: int
    leader_epoch: int
    partition_epoch: int
    isr: frozenset[ModelValue]
    recovery: RecoveryState | Nil
    attempt: int
    source: ModelValue
    dest: Name = Name.CONTROLLER


class AlterPartitionResponse(Record):
    """The answer; `asked` identifies the request: its two epochs and its attempt."""

    error: Error
    asked: tuple[int, int, int]
    leader_epoch: int
    partition_epoch: int
    isr: frozenset[ModelValue]
    recovery: RecoveryState | Nil
    dest: ModelValue


# Messages between replicas


class EpochEndRequest(Record):
    """OFFSET_FOR_LEADER_EPOCH from a follower: where does the epoch end that my log ends with?"""

    leader_epoch: int
    asked_epoch: int
    source: ModelValue
    dest: ModelValue


class EpochEndResponse(Record):
    """The largest epoch in the leader's log that is not above the one asked for, and its end offset."""

    error: Error
    leader_epoch: int
    epoch: int
    end_offset: int
    dest: ModelValue


class ReplicaFetch(Record):
    """FETCH from a follower, which has all entries before `offset`."""

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
    """The leader's entries from that offset on, or an error."""

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
    """The answer, with the leader epoch that the broker knew when it gave it."""

    api: Api
    value: int
    error: Error
    leader_epoch: int
    source: ModelValue
    dest: Name = Name.CLIENT


# Processes


class Controller(Record):
    id: Name = Name.CONTROLLER
    epoch: int = 0  # the controller epoch, which a new ZooKeeper controller raises
    partition: Partition = UNTOLD  # the partition as it has decided; persistent
    fenced: frozenset[ModelValue] = frozenset()  # the brokers whose session has expired


class Broker(Record):
    """A broker with its replica of the partition."""

    id: ModelValue
    running: bool = True  # whether the process is up
    controller_epoch: int = 0  # the newest controller epoch heard of (ZooKeeper)
    cursor: int = 0  # how many metadata records it has applied (KRaft)
    partition: Partition = UNTOLD  # the partition as it was told
    recovered: bool = False  # whether it has finished recovering as leader of this epoch, told to the controller or not
    # as leader of this epoch: its log's end when it became leader, how far each follower has fetched, and the
    # offsets of produced values that it has not acknowledged
    epoch_start: int = 0
    ends: Map[ModelValue, int] = Map()
    waiting: frozenset[int] = frozenset()
    pending: AlterPartitionRequest | Nil = Nil.NIL  # its AlterPartition request under way, at most one
    # as follower of this epoch: whether its log is known to be a prefix of the leader's, and whether it waits for
    # an answer
    truncated: bool = False
    fetching: bool = False
    log: tuple[Entry, ...] = ()  # the log, on disk

    @property
    def leads(self) -> bool:
        """Whether it takes itself for the leader."""
        return self.running and self.partition.leader == self.id

    @property
    def follows(self) -> bool:
        """Whether it knows another broker as leader."""
        return self.running and self.partition.leader not in (self.id, Nil.NO_LEADER)


class Client(Record):
    """A client with at most one request under way, and whether it was refused and will try again."""

    id: Name = Name.CLIENT
    waiting: Api | Nil = Nil.NIL
    refused: bool = False


class Shared(Record):
    """The state that belongs to no process, and history for properties."""

    # the committed records of the cluster metadata log (KRaft), which brokers read through their cursors
    metadata: MetadataLog = ()
    values: int = 0  # the number of values that clients have sent
    # history: acknowledged values, each with the leader epoch of the acknowledgement
    acknowledged: frozenset[tuple[int, int]] = frozenset()
    last_leader: Leader = Nil.NO_LEADER  # history: the last leader
    unclean_epoch: int = 0  # history: the leader epoch of the last unclean election, 0 where there was none
    # history: leader epochs since an unclean election for which no leader has recovered and said so
    unrecovered: frozenset[int] = frozenset()
    finished: frozenset[int] = frozenset()  # history: leader epochs in which the leader really has recovered
    # history: leader epochs in which a broker that knows the recovery state has served a client
    served: frozenset[int] = frozenset()
