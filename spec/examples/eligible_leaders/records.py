"""Records of `eligible-leaders`: metadata records, messages, the state of the controller and of brokers."""

from __future__ import annotations

import enum

from kraftcheck.spec import Map, MessageSetWithMemory, Record

CONTROLLER = 0
"""The controller's id; brokers have the numbers from 1 on."""
NOBODY = 0
"""The leader of a partition without one."""
Members = frozenset[int]


class Status(enum.Enum):
    """Whether a broker runs, and how it stopped."""

    STARTING = "STARTING"
    RUNNING = "RUNNING"
    CLEAN = "OFFLINE_CLEAN"
    DIRTY = "OFFLINE_DIRTY"


OFFLINE_STATUSES = (Status.CLEAN, Status.DIRTY)


class Role(enum.Enum):
    """The role of a broker's replica."""

    LEADER = "Leader"
    FOLLOWER = "Follower"


class Error(enum.Enum):
    """Error codes of AlterPartition and Fetch."""

    INELIGIBLE_REPLICA = "IneligibleReplica"
    FENCED_LEADER_EPOCH = "FencedLeaderEpoch"
    UNKNOWN_LEADER_EPOCH = "UnknownLeaderEpoch"
    NOT_LEADER_OR_FOLLOWER = "NotLeaderOrFollower"


class Change(Record):
    """PartitionChangeRecord, with all fields of the partition."""

    isr: Members
    elr: Members
    last_known_elr: Members
    leader: int
    leader_epoch: int
    partition_epoch: int


class Entry(Record):
    """A record of the partition; its offset is its place in the log, from 1 on."""

    epoch: int
    value: int


class Position(Record):
    """An epoch, and an offset after its records."""

    epoch: int
    offset: int


# Messages


class RegistrationRequest(Record):
    """BrokerRegistration; broker epoch 0 after an unclean shutdown (KIP-966)."""

    broker_epoch: int
    incarnation: int
    source: int
    dest: int = CONTROLLER


class RegistrationResponse(Record):
    """The broker epoch, and the end of the metadata log before the registration."""

    broker_epoch: int
    incarnation: int
    metadata_end: int
    dest: int


class AlterPartitionRequest(Record):
    """AlterPartition: the proposed ISR, with the broker epochs of new members; 0 for members of the ISR (KIP-903)."""

    isr: Map[int, int]
    leader_epoch: int
    partition_epoch: int
    broker_epoch: int
    source: int
    dest: int = CONTROLLER


class AlterPartitionResponse(Record):
    """Response to AlterPartition: an error, or the partition after it."""

    request: AlterPartitionRequest
    dest: int
    error: Error | None = None
    isr: Members = frozenset()
    leader: int = NOBODY
    leader_epoch: int = 0
    partition_epoch: int = 0


class FetchRequest(Record):
    """FETCH of a follower."""

    broker_epoch: int
    leader_epoch: int
    offset: int
    last_epoch: int
    source: int
    dest: int


class FetchResponse(Record):
    """An error, the position at which the logs diverge, or at most one entry."""

    leader_epoch: int
    offset: int
    high_watermark: int
    source: int
    dest: int
    error: Error | None = None
    diverging: Position | None = None
    entries: tuple[Entry, ...] = ()


class Session(Record):
    """The fetch messages from one broker to another, a group of messages."""

    source: int
    dest: int


def fetch_session_of_message(message: Record) -> Session | None:
    """Return the fetch session of a message, if it has one."""
    return Session(message.source, message.dest) if isinstance(message, FetchRequest | FetchResponse) else None


Inbox = tuple[frozenset[Record], frozenset[Record]]


class FetchSessionNetwork(MessageSetWithMemory):
    """Messages with memory; the messages of a dropped fetch session count as processed."""

    def forget(self, inbox: Inbox, group: Record) -> Inbox:
        """Move the messages of a session to the processed messages."""
        dropped = frozenset(message for message in inbox[0] if self.group(message) == group)
        return inbox[0] - dropped, inbox[1] | dropped


# Processes


class Registration(Record):
    """A broker's registration at the controller."""

    fenced: bool
    broker_epoch: int
    incarnation: int


class Controller(Record):
    """The controller; the partition's state is the last record of the metadata log."""

    registrations: Map[int, Registration]
    id: int = CONTROLLER

    @property
    def unfenced(self) -> Members:
        """The brokers that are not fenced."""
        return frozenset(broker for broker, one in self.registrations.items() if not one.fenced)

    def marked(self, broker: int, *, fenced: bool) -> Controller:
        """Return the controller once it has fenced or unfenced a broker."""
        return self.but(registrations=self.registrations.put(broker, self.registrations[broker].but(fenced=fenced)))


class Known(Record):
    """The partition as a broker knows it; leader epoch 0 if it knows nothing."""

    isr: Members = frozenset()
    maximal_isr: Members = frozenset()
    leader: int = NOBODY
    leader_epoch: int = 0
    partition_epoch: int = 0


class Fetcher(Record):
    """A fetcher of a broker: the end and the last epoch of its log as it fetches, and whether a request is pending."""

    position: Position | None = None
    delayed: bool = False
    pending: bool = False


class Progress(Record):
    """The progress of a follower as its leader knows it: its log end, 0 if unknown, and its broker epoch."""

    end: int = 0
    broker_epoch: int = 0


class Pending(Record):
    """The pending AlterPartition request, and the partition epoch that it leads to."""

    partition_epoch: int = 0
    request: AlterPartitionRequest | None = None


class Broker(Record):
    """A broker with its replica of the partition; offsets begin at 1."""

    id: int
    broker_epoch: int
    incarnation: int
    fetchers: Map[int, Fetcher]
    followers: Map[int, Progress]
    cursor: int
    known: Known
    status: Status = Status.RUNNING
    registered: bool = True
    role: Role | None = None
    log: tuple[Entry, ...] = ()
    high_watermark: int = 1
    epoch_start: int = 0  # leader: the log end at its election
    pending: Pending = Pending()
    floor: int = 0  # leader: the lowest offset that it has written in an unbroken row of its epochs

    @property
    def end(self) -> int:
        """The offset after the log."""
        return len(self.log) + 1

    @property
    def last_epoch(self) -> int:
        """The epoch of the last entry; 0 for an empty log."""
        return self.log[-1].epoch if self.log else 0

    @property
    def awaits_isr(self) -> bool:
        """Whether a response to AlterPartition is awaited."""
        return self.pending.partition_epoch > self.known.partition_epoch


class History(Record):
    """The values sent, acknowledged and rejected, and the records that consumers have read; for properties."""

    sent: Members = frozenset()
    acknowledged: Members = frozenset()
    rejected: Members = frozenset()
    high_watermark: int = 1
    consumed: tuple[Entry, ...] = ()


class World(Record):
    """The metadata log, the last broker epoch, the next incarnation, and the history."""

    metadata: tuple[Change, ...]
    broker_epochs: int
    incarnations: int
    history: History = History()
