"""Rules of `quorum` about logs and replica keys, and the transitions between a replica's modes.

Offsets count batches: the batch at offset n is `log[n]`, and an end offset of n covers `log[:n]`. Transitions are
functions of the replica (KIP-996, "Proposed Changes"; KIP-595). Each transition drops the fields of the old mode and
the requests in flight, as Kafka resets its connections. A vote lasts as long as its epoch (KAFKA-17641), even after the
replica learns the leader.
"""

from __future__ import annotations

from collections.abc import Iterable

from kraftcheck.kraft_model.quorum.records import (
    UNKNOWN_DIRECTORY,
    Batch,
    Key,
    KRaftVersion,
    Mode,
    Nil,
    Position,
    Replica,
    Voter,
)
from kraftcheck.spec import Map, ModelValue, ordered

Log = tuple[Batch, ...]
VoterSet = frozenset[Voter]


def last_epoch(log: Log) -> int:
    """Return the epoch of the last batch, 0 for an empty log."""
    return log[-1].epoch if log else 0


def end_position(log: Log) -> Position:
    return Position(len(log), last_epoch(log))


def epoch_start(log: Log, epoch: int) -> int:
    """Return the offset of the first batch in the given or a later epoch; the log end if there is no such batch."""
    return next((offset for offset, batch in enumerate(log) if batch.epoch >= epoch), len(log))


def end_offset_for_epoch(log: Log, epoch: int) -> Position:
    """Return the largest epoch of the log that is not above the given one, and its end offset (KIP-595, "Fetch")."""
    for offset in range(len(log), 0, -1):
        if log[offset - 1].epoch <= epoch:
            return Position(offset, log[offset - 1].epoch)
    return Position(0, 0)


def log_truncated_by_diverging_epoch(log: Log, diverging: Position) -> Log:
    """Return the log truncated to its longest prefix that can match the leader's log (KIP-595, "Fetch").

    `diverging` is the diverging epoch of the response, with its end offset.
    """
    ours = end_offset_for_epoch(log, diverging.epoch)
    end = min(ours.offset, diverging.offset) if ours.epoch == diverging.epoch else ours.offset
    return log[:end]


def last_kraft_version(log: Log, otherwise: int) -> int:
    """Return the kraft.version of the last KRaftVersionRecord of a log or snapshot, committed or not."""
    for batch in reversed(log):
        for record in reversed(batch.records):
            if isinstance(record, KRaftVersion):
                return record.version
    return otherwise


def matches_voter(voter: Key, key: Key) -> bool:
    """Return whether a voter is this replica: same id, and same directory id if the voter's is known."""
    return voter.id == key.id and voter.directory in (UNKNOWN_DIRECTORY, key.directory)


def matching_voter(voters: Iterable[Voter], key: Key) -> Voter | None:
    """Return the voter whose replica key matches this one, or None."""
    return next((voter for voter in voters if matches_voter(voter.key, key)), None)


def replica_keys(voters: Iterable[Voter]) -> frozenset[Key]:
    return frozenset(voter.key for voter in voters)


def normalized_voter_set_pair(one: VoterSet, other: VoterSet) -> tuple[VoterSet, VoterSet]:
    """Return both voter sets, without any directory ids if a voter of either set has no directory id."""
    if all(voter.key.directory != UNKNOWN_DIRECTORY for voter in one | other):
        return one, other
    return _without_directory_ids(one), _without_directory_ids(other)


def _without_directory_ids(voters: VoterSet) -> VoterSet:
    return frozenset(voter.but(key=Key(voter.key.id, UNKNOWN_DIRECTORY)) for voter in voters)


def normalized_replica_key_set_pair(one: VoterSet, other: VoterSet) -> tuple[frozenset[Key], frozenset[Key]]:
    """Return the replica keys of both voter sets, without any directory ids if a voter of either set has none."""
    first, second = normalized_voter_set_pair(one, other)
    return replica_keys(first), replica_keys(second)


VOLATILE_DEFAULTS = {
    "leader_endpoint": 1,
    "granted": frozenset(),
    "rejected": frozenset(),
    "fetched": False,
    "ended": False,
    "pending": Nil.NIL,
    "offsets": Map[Key, int](),
    "change": Nil.NIL,
    "heard": frozenset(),
    "updating": False,
    "updated": False,
    "joining": False,
    "watched": frozenset(),
}
"""Initial values of the fields that belong to one mode."""


def enter_mode(me: Replica, mode: Mode, epoch: int, leader: ModelValue | Nil) -> Replica:
    """Return the replica in a new mode, without its volatile state; it keeps its vote within the epoch."""
    kept = epoch == me.epoch
    return me.but(
        **{**VOLATILE_DEFAULTS, **me.volatile, "mode": mode, "epoch": epoch, "leader": leader},
        voted=me.voted if kept else Nil.NIL,
        ballot=me.ballot if kept else frozenset(),
    )


def unattached_replica(me: Replica, epoch: int, leader: ModelValue | Nil = Nil.NIL) -> Replica:
    """Return the replica as unattached in `epoch`; it may know the leader's id, but not the leader's endpoint."""
    return enter_mode(me, Mode.UNATTACHED, epoch, leader).but(leader_endpoint=1 if isinstance(leader, Nil) else 0)


def follower_replica(me: Replica, leader: ModelValue | Nil, epoch: int, endpoint: int) -> Replica:
    """Return the replica as follower of a leader at an endpoint, with no successful fetch yet."""
    return enter_mode(me, Mode.FOLLOWER, epoch, leader).but(leader_endpoint=endpoint)


def prospective_replica(me: Replica, own: frozenset[Key]) -> Replica:
    """Return the replica in a new pre-vote round of its epoch, with vote and leader kept; `own` is its pre-vote."""
    return enter_mode(me, Mode.PROSPECTIVE, me.epoch, me.leader).but(granted=own, leader_endpoint=me.leader_endpoint)


def candidate_replica(me: Replica, own: frozenset[Key]) -> Replica:
    """Return the replica as candidate of the next epoch, with a vote for itself; `own` is its counted vote."""
    after = enter_mode(me, Mode.CANDIDATE, me.epoch + 1, Nil.NIL)
    return after.but(voted=me.key, ballot=frozenset({me.key}), granted=own)


def replica_after_lost_pre_vote(me: Replica) -> Replica:
    """Return the replica after a lost pre-vote round: follower if it knows a leader's endpoint, else unattached."""
    if isinstance(me.leader, Nil) or me.leader == me.id or me.leader_endpoint == 0:
        return unattached_replica(me, me.epoch, me.leader)
    return follower_replica(me, me.leader, me.epoch, me.leader_endpoint)


def resigned_replica(me: Replica) -> Replica:
    """Return the leader as resigned; it remains the leader of its epoch."""
    return enter_mode(me, Mode.RESIGNED, me.epoch, me.id)


def replica_with_disk_state_only(me: Replica) -> Replica:
    """Return the replica with its state on disk alone (quorum-state, log, snapshot).

    At kraft.version 0 the quorum-state does not hold the directory id of the vote (KIP-853, "Quorum state").
    """
    voted = me.voted
    if me.version == 0 and isinstance(voted, Key):
        voted = Key(voted.id, UNKNOWN_DIRECTORY)
    return me.but(**VOLATILE_DEFAULTS, **me.volatile, voted=voted, high_watermark=0)


def permanently_down_replica(me: Replica) -> Replica:
    """Return the replica with its process down for good."""
    return replica_with_disk_state_only(me).but(mode=Mode.DOWN)


def replica_ended_by_exception(me: Replica) -> Replica:
    """Return the replica with its process ended by an illegal state, where Kafka throws an exception."""
    return replica_with_disk_state_only(me).but(mode=Mode.FAILED)


def restarted_replica(me: Replica, own: frozenset[Key]) -> Replica:
    """Return the replica after a restart, in its initial mode (KIP-996; KAFKA-10661 for the leader).

    As in Kafka (`QuorumState.initialize`), a leader restarts as resigned. A replica that voted for itself restarts as
    candidate with its `own` votes, even where it knows the leader. Any other replica follows the leader that it knows.
    Prospective is not persisted. A candidate that is not a voter cannot start. The only voter starts as unattached
    (`KafkaRaftClient.initialize`).
    """
    back = replica_with_disk_state_only(me)
    if last_epoch(back.log) > back.epoch:
        back = unattached_replica(back, last_epoch(back.log))
    elif back.leader == back.id:
        back = back.but(mode=Mode.RESIGNED)
    elif has_voted_for_itself(back):
        if not own:
            return replica_ended_by_exception(me)
        return back.but(mode=Mode.CANDIDATE, leader=Nil.NIL, voted=back.key, granted=own)
    elif voter_endpoint_of_host(back, back.leader):
        back = back.but(mode=Mode.FOLLOWER, leader_endpoint=voter_endpoint_of_host(back, back.leader))
    else:
        back = unattached_replica(back, back.epoch, back.leader)
    is_alone = own and len(back.voters) == 1
    return unattached_replica(back, back.epoch) if is_alone else back


def has_voted_for_itself(me: Replica) -> bool:
    """Return whether a replica voted for itself; a vote without a directory id matches every disk of its replica id."""
    voted = me.voted
    return isinstance(voted, Key) and voted.id == me.id and voted.directory in (UNKNOWN_DIRECTORY, me.directory)


def voter_endpoint_of_host(me: Replica, host: ModelValue | Nil) -> int:
    """Return the endpoint of a replica id in the voter set; 0 if the voter set lacks the id."""
    return next((voter.endpoint for voter in ordered(me.voters) if voter.key.id == host), 0)
