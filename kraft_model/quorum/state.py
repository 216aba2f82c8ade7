"""The state of a replica of `quorum`, and the state that belongs to no replica.

Sources: quorum-state of KIP-595, KIP-853 and KIP-996; the handlers of voter changes in Kafka.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from kraftcheck.kraft_model.quorum.messages import (
    AddVoterRequest,
    DescribeQuorumResponse,
    FetchRequest,
    FetchSnapshotRequest,
    RemoveVoterRequest,
    UpdateVoterRequest,
)
from kraftcheck.kraft_model.quorum.records import Batch, Key, Mode, Nil, Operation, Voter
from kraftcheck.spec import Map, ModelValue, Record
from kraftcheck.spec.values import Value


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
    """An epoch and the leader elected in it."""

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
