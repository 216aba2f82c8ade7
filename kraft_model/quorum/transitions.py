"""The transitions between a replica's modes, as functions of the replica (KIP-996, "Proposed Changes"; KIP-595).

Every transition drops what belongs to the old mode, and its requests under way: Kafka resets its connections. A vote
stays as long as the epoch does (KAFKA-17641), also when the replica knows the leader.
"""

from __future__ import annotations

from kraftcheck.kraft_model.quorum.log import last_epoch
from kraftcheck.kraft_model.quorum.records import UNKNOWN_DIRECTORY, Key, Mode, Nil
from kraftcheck.kraft_model.quorum.state import Replica
from kraftcheck.spec import Map, ModelValue

VOLATILE = {
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
"""Fields that belong to one mode, as they are when it begins."""


def enter(me: Replica, mode: Mode, epoch: int, leader: ModelValue | Nil) -> Replica:
    """Return the replica in a new mode; its vote stays if the epoch does."""
    kept = epoch == me.epoch
    return me.but(
        **{**VOLATILE, **me.volatile, "mode": mode, "epoch": epoch, "leader": leader},
        voted=me.voted if kept else Nil.NIL,
        ballot=me.ballot if kept else Nil.NIL,
    )


def unattached(me: Replica, epoch: int, leader: ModelValue | Nil = Nil.NIL) -> Replica:
    """Return the replica without a leader to fetch from."""
    return enter(me, Mode.UNATTACHED, epoch, leader)


def following(me: Replica, leader: ModelValue | Nil, epoch: int) -> Replica:
    """Return the replica as follower of a leader, from which it has fetched nothing yet."""
    return enter(me, Mode.FOLLOWER, epoch, leader)


def prospective(me: Replica, own: frozenset[Key]) -> Replica:
    """Return the replica at the start of a pre-vote round: same epoch, vote and leader; it grants itself `own`."""
    return enter(me, Mode.PROSPECTIVE, me.epoch, me.leader).but(granted=own)


def candidate(me: Replica, own: frozenset[Key]) -> Replica:
    """Return the replica as candidate of the next epoch; it votes for itself, and counts that as `own`."""
    after = enter(me, Mode.CANDIDATE, me.epoch + 1, Nil.NIL)
    return after.but(voted=me.key, ballot=me.key, granted=own)


def after_lost_pre_vote(me: Replica) -> Replica:
    """Return the replica after its pre-vote round: it follows the leader that it still knows, if any."""
    if isinstance(me.leader, Nil) or me.leader == me.id:
        return unattached(me, me.epoch, me.leader)
    return following(me, me.leader, me.epoch)


def resigned(me: Replica) -> Replica:
    """Return the leader as Resigned; it still counts as the leader of its epoch."""
    return enter(me, Mode.RESIGNED, me.epoch, me.id)


def remembered(me: Replica) -> Replica:
    """Return the replica with what is on disk alone (quorum-state, log, snapshot).

    At kraft.version 0 the quorum-state does not hold the directory id of the vote (KIP-853, "Quorum state").
    """
    voted = me.voted
    if me.version == 0 and isinstance(voted, Key):
        voted = Key(voted.id, UNKNOWN_DIRECTORY)
    return me.but(**VOLATILE, **me.volatile, voted=voted, high_watermark=0)


def stopped(me: Replica) -> Replica:
    """Return the replica whose process has ended for good."""
    return remembered(me).but(mode=Mode.DOWN)


def restarted(me: Replica, own: frozenset[Key]) -> Replica:
    """Return the replica in the mode in which it comes back (KIP-996; KAFKA-10661 for the leader).

    A leader resigns, a candidate is candidate again, with its `own` votes, and a known leader is followed. Prospective
    does not come back: it is not written.
    """
    back = remembered(me)
    if last_epoch(back.log) > back.epoch:
        return unattached(back, last_epoch(back.log))
    if back.leader == back.id:
        return back.but(mode=Mode.RESIGNED)
    if isinstance(back.voted, Key) and back.voted.id == back.id and own and isinstance(back.leader, Nil):
        return back.but(mode=Mode.CANDIDATE, granted=own)
    if not isinstance(back.leader, Nil) and voter_of_id(back, back.leader):
        return back.but(mode=Mode.FOLLOWER)
    return back.but(mode=Mode.UNATTACHED)


def voter_of_id(me: Replica, leader: ModelValue) -> bool:
    """Return whether the voter set has an endpoint for this replica id."""
    return any(voter.key.id == leader for voter in me.voters)


__all__ = [
    "after_lost_pre_vote",
    "candidate",
    "enter",
    "following",
    "prospective",
    "remembered",
    "resigned",
    "restarted",
    "stopped",
    "unattached",
]
