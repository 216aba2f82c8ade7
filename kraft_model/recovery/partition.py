"""Rules of `recovery` about a partition: changes and their records, clean elections, ends of logs."""

from __future__ import annotations

from kraftcheck.kraft_model.recovery.records import (
    UNTOLD,
    Broker,
    Entry,
    Leader,
    MetadataLog,
    Nil,
    Partition,
    PartitionChangeRecord,
    PartitionRecord,
    RecoveryState,
)
from kraftcheck.spec import ModelValue, ordered


def change(
    before: Partition,
    *,
    leader: Leader = Nil.UNCHANGED,
    isr: frozenset[ModelValue] | None = None,
    recovery: RecoveryState | None = None,
) -> PartitionChangeRecord:
    """Return the record of a change; fields that stay have the value for unchanged (KIP-704)."""
    return PartitionChangeRecord(
        leader,
        Nil.UNCHANGED if isr is None or isr == before.isr else isr,
        Nil.UNCHANGED if recovery is None or recovery is before.recovery else recovery,
    )


def merged(before: Partition, record: PartitionRecord | PartitionChangeRecord) -> Partition:
    """Return the partition after a record: the partition epoch rises with each, the leader epoch with the leader."""
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


def image(metadata: MetadataLog) -> Partition:
    """Return what metadata records add up to."""
    partition = UNTOLD
    for record in metadata:
        partition = merged(partition, record)
    return partition


def from_isr(isr: frozenset[ModelValue], fenced: frozenset[ModelValue]) -> Leader:
    """Return the leader that a clean election chooses: the first of the ISR that is not fenced."""
    eligible = ordered(isr - fenced)
    return eligible[0] if eligible else Nil.NO_LEADER


# Logs


def last_epoch(log: tuple[Entry, ...]) -> int:
    """Return the epoch of the last entry; -1 for an empty log."""
    return log[-1].epoch if log else -1


def epoch_end(log: tuple[Entry, ...], epoch: int) -> tuple[int, int]:
    """Return the largest epoch in a log that is not above the given one, and its end offset (KIP-279).

    It is (-1, 0) if there is none.
    """
    upto = [entry for entry in log if entry.epoch <= epoch]
    return (upto[-1].epoch, len(upto)) if upto else (-1, 0)


def values(log: tuple[Entry, ...]) -> frozenset[int]:
    """Return the values in a log."""
    return frozenset(entry.value for entry in log)


def high_watermark(me: Broker, isr: frozenset[ModelValue]) -> int:
    """Return the end offset up to which every replica of an ISR holds the leader's log, as the leader knows it."""
    return min([len(me.log), *[me.ends.get(member, 0) for member in isr if member != me.id]])
