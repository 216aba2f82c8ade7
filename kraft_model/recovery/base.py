"""The constants of `recovery`, its initial state, its rules of partitions, serving, and acknowledgements."""

from __future__ import annotations

from collections.abc import Iterator

from kraftcheck.kraft_model.recovery.records import (
    RECOVERING,
    SYMBOL_TYPES,
    UNKNOWN_PARTITION,
    AlterPartitionRequest,
    Api,
    Broker,
    Client,
    ClientResponse,
    ConfigRecord,
    Controller,
    Entry,
    Error,
    LeaderOrNil,
    MetadataLog,
    Mode,
    Nil,
    Partition,
    PartitionChangeRecord,
    PartitionRecord,
    RecoveryState,
    Shared,
)
from kraftcheck.spec import Bag, ConstantError, ModelValue, Protocol, State, Step, become, bound, constant, ordered


def record_of_changed_partition_fields(
    before: Partition,
    *,
    leader: LeaderOrNil = Nil.UNCHANGED,
    isr: frozenset[ModelValue] | None = None,
    recovery: RecoveryState | None = None,
) -> PartitionChangeRecord:
    """Return the record of a partition change; an unchanged field has the value for "no change" (KIP-704)."""
    return PartitionChangeRecord(
        leader,
        Nil.UNCHANGED if isr is None or isr == before.isr else isr,
        Nil.UNCHANGED if recovery is None or recovery is before.recovery else recovery,
    )


def partition_after_record(
    before: Partition, record: PartitionRecord | PartitionChangeRecord | ConfigRecord
) -> Partition:
    """Return the partition after a record: a change raises the partition epoch, a new leader also the leader epoch."""
    if isinstance(record, ConfigRecord):
        return before
    if isinstance(record, PartitionRecord):
        return Partition(record.leader, record.leader_epoch, record.partition_epoch, record.isr, record.recovery)
    elects = record.leader is not Nil.UNCHANGED
    return Partition(
        record.leader if elects else before.leader,
        before.leader_epoch + elects,
        before.partition_epoch + 1,
        before.isr if isinstance(record.isr, Nil) else record.isr,
        before.recovery if isinstance(record.recovery, Nil) else record.recovery,
    )


def partition_from_metadata(metadata: MetadataLog) -> Partition:
    """Return the partition after all records of a metadata log."""
    partition = UNKNOWN_PARTITION
    for record in metadata:
        partition = partition_after_record(partition, record)
    return partition


def clean_election_leader(isr: frozenset[ModelValue], fenced: frozenset[ModelValue]) -> LeaderOrNil:
    """Return the leader chosen by a clean election: the first unfenced member of the ISR."""
    eligible = ordered(isr - fenced)
    return eligible[0] if eligible else Nil.NO_LEADER


# Logs


def last_epoch(log: tuple[Entry, ...]) -> int:
    """Return the epoch of the last entry; -1 for an empty log."""
    return log[-1].epoch if log else -1


def epoch_and_end_offset_up_to_epoch(log: tuple[Entry, ...], epoch: int) -> tuple[int, int]:
    """Return the largest epoch of a log not above the given one, and its end offset; (-1, 0) if none (KIP-279)."""
    upto = [entry for entry in log if entry.epoch <= epoch]
    return (upto[-1].epoch, len(upto)) if upto else (-1, 0)


def log_values(log: tuple[Entry, ...]) -> frozenset[int]:
    return frozenset(entry.value for entry in log)


def high_watermark(me: Broker, isr: frozenset[ModelValue]) -> int:
    """Return the end offset up to which every ISR member is known to hold the leader's log."""
    return min([len(me.log), *[me.ends.get(member, 0) for member in isr if member != me.id]])


class RecoveryBase(Protocol):
    mode: Mode = constant("Mode", default=Mode.KRAFT)
    brokers: frozenset[ModelValue] = constant("Brokers")
    initial_isr: frozenset[ModelValue] = constant("InitialIsr")
    old_brokers: frozenset[ModelValue] = constant("OldBrokers", default=frozenset())
    old_ibp: frozenset[ModelValue] = constant("OldIbp", default=frozenset())
    controller_recovers: bool = constant("ControllerRecovers", default=True)
    apis: frozenset[Api] = constant("Apis", default=frozenset(Api))
    fences: int = bound("MaxFences")
    unclean_elections: int = bound("MaxUncleanElections")
    crashes: int = bound("MaxCrashes", default=0)
    fetches: int = bound("MaxFetches", default=0)
    isr_changes: int = bound("MaxIsrChanges", default=0)
    requests: int = bound("MaxRequests", default=0)
    resends: int = bound("MaxResends", default=0)
    losses: int = bound("MaxLosses", default=0)
    invalid_requests: int = bound("MaxInvalidRequests", default=0)
    controller_changes: int = bound("MaxControllerChanges", default=0)

    network = Bag(loses="losses")
    symbols = SYMBOL_TYPES

    def check_constants(self) -> None:
        """Reject sets that contain nodes outside Brokers."""
        for name, chosen in (
            ("InitialIsr", self.initial_isr),
            ("OldBrokers", self.old_brokers),
            ("OldIbp", self.old_ibp),
        ):
            if not chosen <= self.brokers:
                strangers = ", ".join(map(str, ordered(chosen - self.brokers)))
                raise ConstantError(name, f"expected brokers, found {strangers}, not in Brokers")
        if not self.initial_isr:
            raise ConstantError("InitialIsr", "expected at least one broker, found the empty set")

    def initial(self) -> Iterator[State]:
        """Yield the initial state: the first member of the ISR leads, and every broker knows it."""
        leader = ordered(self.initial_isr)[0]
        created = PartitionRecord(leader, self.initial_isr, 0, 0)
        partition = partition_after_record(UNKNOWN_PARTITION, created)
        kraft = self.mode is Mode.KRAFT
        brokers = [
            Broker(broker, cursor=int(kraft), partition=partition, truncated=broker != leader)
            for broker in ordered(self.brokers)
        ]
        shared = Shared(metadata=(created,) if kraft else (), last_leader=leader)
        yield self.start([*brokers, Controller(partition=partition), Client()], shared)

    # Serving

    def _is_recovering(self, me: Broker) -> bool:
        """Whether a broker, leader or follower, rejects requests because the leader is recovering.

        The broker goes by its known recovery state, until the controller confirms the recovery.
        """
        return me.partition.recovery is RECOVERING

    def _serves(self, me: Broker, api: Api) -> bool:
        may_serve = me.leads or (me.follows and api is Api.FETCH)
        return may_serve and not self._is_recovering(me)

    # Committing

    def _acknowledge(self, me: Broker, shared: Shared) -> Step:
        """Return the step in which a leader acknowledges the produced values that all in-sync replicas hold.

        While a change of the ISR is pending, the replicas of both the old and the new ISR count (KIP-497).
        """
        if not me.leads or not me.waiting:
            return become(me)
        end = high_watermark(me, self._counted(me))
        done = sorted(offset for offset in me.waiting if offset <= end)
        if not done:
            return become(me)
        told = [(me.partition.leader_epoch, me.log[offset - 1].value) for offset in done]
        responses = [ClientResponse(Api.PRODUCE, value, Error.NONE, epoch, me.id) for epoch, value in told]
        left = me.but(waiting=me.waiting - set(done))
        return become(left).put(acknowledged=shared.acknowledged | set(told)).send(*responses)

    def _counted(self, me: Broker) -> frozenset[ModelValue]:
        """Return the replicas that must hold a value before it is committed."""
        return me.partition.isr | (me.pending.isr if isinstance(me.pending, AlterPartitionRequest) else frozenset())
