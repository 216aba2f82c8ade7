"""Rules of `quorum` about logs and replica keys.

Offsets count batches: the batch at offset n is `log[n]`, and an end offset of n covers `log[:n]`.
"""

from __future__ import annotations

from collections.abc import Iterable

from kraftcheck.kraft_model.quorum.records import (
    UNKNOWN_DIRECTORY,
    Batch,
    Key,
    KRaftVersion,
    Position,
    Voter,
)

Log = tuple[Batch, ...]
VoterSet = frozenset[Voter]


def last_epoch(log: Log) -> int:
    """Return the epoch of the last batch, 0 for an empty log."""
    return log[-1].epoch if log else 0


def end_of(log: Log) -> Position:
    """Return the log end."""
    return Position(len(log), last_epoch(log))


def epoch_start(log: Log, epoch: int) -> int:
    """Return the offset of the first batch of an epoch; the log end where there is none."""
    return next((offset for offset, batch in enumerate(log) if batch.epoch >= epoch), len(log))


def end_offset_for_epoch(log: Log, epoch: int) -> Position:
    """Return the largest epoch of the log that is not above the given one, and its end offset (KIP-595, "Fetch")."""
    for offset in range(len(log), 0, -1):
        if log[offset - 1].epoch <= epoch:
            return Position(offset, log[offset - 1].epoch)
    return Position(0, 0)


def truncated(log: Log, diverging: Position) -> Log:
    """Return the log up to where it can agree with the leader's, given the divergence it names (KIP-595, "Fetch")."""
    ours = end_offset_for_epoch(log, diverging.epoch)
    end = min(ours.offset, diverging.offset) if ours.epoch == diverging.epoch else ours.offset
    return log[:end]


def version_in(log: Log, otherwise: int) -> int:
    """Return the kraft.version of the last KRaftVersionRecord of a log or snapshot, committed or not."""
    for batch in reversed(log):
        for record in reversed(batch.records):
            if isinstance(record, KRaftVersion):
                return record.version
    return otherwise


def matches(voter: Key, key: Key) -> bool:
    """Return whether a voter is this replica: same id, and same directory id if the voter's is known."""
    return voter.id == key.id and voter.directory in (UNKNOWN_DIRECTORY, key.directory)


def voter_of(voters: Iterable[Voter], key: Key) -> Voter | None:
    """Return the voter that this replica is, or None."""
    return next((voter for voter in voters if matches(voter.key, key)), None)


def keys(voters: Iterable[Voter]) -> frozenset[Key]:
    """Return the replica keys of a voter set."""
    return frozenset(voter.key for voter in voters)


def without_directories(one: VoterSet, other: VoterSet) -> tuple[VoterSet, VoterSet]:
    """Return two voter sets, without directory ids if one of the sets lacks them."""
    if all(voter.key.directory != UNKNOWN_DIRECTORY for voter in one | other):
        return one, other
    return _by_id(one), _by_id(other)


def _by_id(voters: VoterSet) -> VoterSet:
    return frozenset(voter.but(key=Key(voter.key.id, UNKNOWN_DIRECTORY)) for voter in voters)


def alike(one: VoterSet, other: VoterSet) -> tuple[frozenset[Key], frozenset[Key]]:
    """Return the replica keys of two voter sets, without directory ids if one of the sets lacks them."""
    first, second = without_directories(one, other)
    return keys(first), keys(second)
