"""Rules of `quorum` about logs, voter sets and majorities.

Offsets count batches: the batch at offset n is `log[n]`, and an end offset of n covers `log[:n]`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from kraftcheck.kraft_model.quorum.records import (
    UNKNOWN_DIRECTORY,
    Batch,
    Key,
    KRaftVersion,
    Position,
    Voter,
    VoterAdded,
    VoterRemoved,
    Voters,
)
from kraftcheck.kraft_model.quorum.state import Replica
from kraftcheck.spec import ordered

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


def voters_in(log: Log, otherwise: VoterSet) -> VoterSet:
    """Return the voter set of the last VotersRecord of a log or snapshot, committed or not."""
    sets = voter_sets(log, otherwise)
    return sets[-1][1] if sets else otherwise


def last_voters_record(log: Log) -> int:
    """Return the end offset of the last batch that says who the voters are; 0 where there is none."""
    sets = voter_sets(log)
    return sets[-1][0] if sets else 0


def voter_sets(log: Log, otherwise: VoterSet = frozenset()) -> list[tuple[int, VoterSet]]:
    """Return every voter set that a log goes through: the end offset of the batch that makes it, and the set.

    A VotersRecord holds the entire set; a record of the draft changes the set before it, at first `otherwise`.
    """
    found: list[tuple[int, VoterSet]] = []
    current = otherwise
    for offset, batch in enumerate(log, start=1):
        for record in batch.records:
            if isinstance(record, Voters):
                current = record.voters
            elif isinstance(record, VoterAdded):
                current |= {record.voter}
            elif isinstance(record, VoterRemoved):
                current = frozenset(voter for voter in current if voter.key != record.voter)
            else:
                continue
            found.append((offset, current))
    return found


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


def is_voter(me: Replica) -> bool:
    """Return whether a replica is in the voter set that it uses."""
    return voter_of(me.voters, me.key) is not None


def others(me: Replica) -> list[Key]:
    """Return the voters besides this replica, in canonical order."""
    return [voter.key for voter in ordered(me.voters) if not matches(voter.key, me.key)]


def own_votes(me: Replica) -> frozenset[Key]:
    """Return the voter that this replica is, which grants itself its vote; empty for an observer."""
    return frozenset(voter.key for voter in me.voters if matches(voter.key, me.key))


def keys(voters: Iterable[Voter]) -> frozenset[Key]:
    """Return the replica keys of a voter set."""
    return frozenset(voter.key for voter in voters)


def is_majority(voters: Collection[Voter], group: Collection[Key]) -> bool:
    """Return whether the voters in a group are a majority."""
    return 2 * sum(voter.key in group for voter in voters) > len(voters)


def majority_is_lost(voters: Collection[Voter], rejected: Collection[Key]) -> bool:
    """Return whether so many have refused that no majority can grant."""
    return 2 * sum(voter.key not in rejected for voter in voters) <= len(voters)


def alike(one: VoterSet, other: VoterSet) -> tuple[frozenset[Key], frozenset[Key]]:
    """Return the replica keys of two voter sets, without directory ids if one of the sets lacks them."""
    first, second = keys(one), keys(other)
    if all(key.directory != UNKNOWN_DIRECTORY for key in first | second):
        return first, second
    by_id = [frozenset(Key(key.id, UNKNOWN_DIRECTORY) for key in group) for group in (first, second)]
    return by_id[0], by_id[1]


def majorities_meet(one: VoterSet, other: VoterSet) -> bool:
    """Return whether every majority of one voter set has a member in common with every majority of the other."""
    first, second = alike(one, other)
    common = len(first & second)
    # Two majorities avoid each other if both can do with few of the common members, and share these out.
    need_first = max(0, len(first) // 2 + 1 - len(first - second))
    need_second = max(0, len(second) // 2 + 1 - len(second - first))
    return need_first + need_second > common
