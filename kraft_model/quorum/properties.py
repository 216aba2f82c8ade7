"""The properties of `quorum`. Each names its source."""

from __future__ import annotations

from itertools import pairwise

from kraftcheck.kraft_model.quorum.base import QuorumBase
from kraftcheck.kraft_model.quorum.log import Log, VoterSet, alike, matches
from kraftcheck.kraft_model.quorum.records import ENDED, Key, Mode, Nil
from kraftcheck.kraft_model.quorum.state import Admin, Replica, Shared
from kraftcheck.spec import Map, ModelValue, Record, constraint, invariant, projection, step_invariant

STANDS = (Mode.PROSPECTIVE, Mode.CANDIDATE)


class Held(Record):
    """The part of a replica that the properties over all replicas read."""

    key: Key
    log: Log


def agrees(one: Log, other: Log) -> bool:
    """Return whether one log is the beginning of the other."""
    common = min(len(one), len(other))
    return one[:common] == other[:common]


class QuorumProperties(QuorumBase):
    """Invariants, step invariants, and constraints for searches about progress."""

    # Elections

    @invariant
    def election_safety(self, shared: Shared) -> bool:
        """At most one leader is ever elected in an epoch (Raft, figure 3; KIP-595)."""
        return len({term.epoch for term in shared.elected}) == len(shared.elected)

    @invariant
    def leaders_are_named_alike(self, me: Replica, peer: Replica) -> bool:
        """No two replicas of one epoch name different leaders (KIP-595, "Leader Election and Discovery")."""
        if me.epoch != peer.epoch or isinstance(me.leader, Nil) or isinstance(peer.leader, Nil):
            return True
        return me.leader == peer.leader

    @invariant
    def one_vote_per_epoch(self, me: Replica) -> bool:
        """A replica key votes for one candidate in an epoch, whatever restarts (KIP-853, "Vote"; KIP-595).

        At kraft.version 0 it can break: KIP-853, "Quorum state".
        """
        return len(me.ballot) <= 1

    @step_invariant
    def epochs_only_grow(self, before: Replica, after: Replica) -> bool:
        """A replica never returns to an earlier epoch, unless its disk is lost (Raft, 5.1)."""
        return after.epoch >= before.epoch or after.directory != before.directory

    @step_invariant
    def pre_vote_raises_no_epoch(self, before: Replica, after: Replica) -> bool:
        """Asking for pre-votes does not raise the asking replica's epoch (KIP-996, "Motivation")."""
        return after.mode is not Mode.PROSPECTIVE or after.epoch == before.epoch

    @invariant
    def observers_never_stand(self, me: Replica) -> bool:
        """An observer is neither prospective nor candidate (KIP-853, "Key terms"; KAFKA-17067)."""
        return me.mode not in STANDS or self.is_voter(me)

    @projection
    def watched(self, me: Replica | Admin) -> frozenset[ModelValue]:
        """The replicas whose pre-vote rounds this one has watched from the beginning, as leader or active follower."""
        return me.watched if isinstance(me, Replica) else frozenset()

    @invariant(reads=watched, needs=["WatchPreVotes"])
    def removed_voters_disturb_nobody(
        self, me: Replica, shared: Shared, watched: Map[ModelValue, frozenset[ModelValue]]
    ) -> bool:
        """A removed voter is no candidate after a round throughout which a majority followed (KIP-853, "Vote").

        Only with WatchPreVotes is it checked.
        """
        if me.mode is not Mode.CANDIDATE:
            return True
        voters = self.voters_in(shared.committed, frozenset())
        if not voters or any(matches(voter.key, me.key) for voter in voters):
            return True
        return not self.is_majority(voters, {v.key for v in voters if me.id in watched.get(v.key.id, frozenset())})

    @invariant
    def nobody_follows_itself(self, me: Replica) -> bool:
        """A follower follows another replica, a leader names itself, and a candidate nobody (KIP-996; KAFKA-18379)."""
        if me.mode is Mode.FOLLOWER:
            return not isinstance(me.leader, Nil) and me.leader != me.id
        if me.mode in (Mode.LEADER, Mode.RESIGNED):
            return me.leader == me.id
        return me.mode is not Mode.CANDIDATE or isinstance(me.leader, Nil)

    @invariant
    def nobody_fails(self, me: Replica) -> bool:
        """No process ends since a message or its own disk is not what Kafka takes for possible."""
        return me.mode is not Mode.FAILED

    @invariant
    def successors_hold_what_is_committed(self, me: Replica, peer: Replica) -> bool:
        """Whom a resigned leader prefers has what it committed (KIP-595, "EndQuorumEpoch": by their offsets).

        A leader that has restarted prefers nobody, and does not know what is committed.
        """
        if not me.ended or (peer.id, peer.epoch, peer.mode) != (me.leader, me.epoch, Mode.RESIGNED):
            return True
        known = self.shown_high_watermark(peer)
        return me.log[:known] == peer.log[:known]

    # Logs

    @invariant
    def log_matching(self, me: Replica, peer: Replica) -> bool:
        """Two logs with a batch of the same epoch at the same offset agree up to there (Raft, figure 3)."""
        for end in range(min(len(me.log), len(peer.log)), 0, -1):
            if me.log[end - 1].epoch == peer.log[end - 1].epoch:
                return me.log[:end] == peer.log[:end]
        return True

    @invariant
    def leader_completeness(self, me: Replica, shared: Shared) -> bool:
        """A leader has everything that was committed before its epoch (Raft, figure 3)."""
        if me.mode is not Mode.LEADER or not shared.committed:
            return True
        if me.epoch < shared.committed[-1].epoch:
            return True
        return me.log[: len(shared.committed)] == shared.committed

    @invariant
    def state_machine_safety(self, me: Replica, shared: Shared) -> bool:
        """Replicas agree on what is committed, and it never changes (Raft, figure 3)."""
        return agrees(me.log[: me.high_watermark], shared.committed)

    @step_invariant
    def high_watermark_never_decreases(self, before: Replica, after: Replica) -> bool:
        """The high watermark grows as long as a process runs (KIP-595; KIP-853, "High watermark").

        A process that has just started knows no more than that its snapshot is committed.
        """
        return after.high_watermark >= before.high_watermark or self.has_just_started(after)

    def has_just_started(self, me: Replica) -> bool:
        """Whether a process may have just started, or has ended: it knows nothing but what is on disk."""
        forgot = not (me.fetched or me.ended or me.rejected or me.offsets or me.heard or me.watched)
        forgot = forgot and not (me.updating or me.updated or me.joining) and isinstance(me.change, Nil)
        return me.high_watermark <= me.start and (forgot or me.mode in ENDED)

    @step_invariant
    def committed_is_never_truncated(self, before: Replica, after: Replica) -> bool:
        """No replica that runs drops what it knows to be committed (KAFKA-12460).

        A process that has just started knows of nothing; a broker may have lost what it had not flushed.
        """
        if before.directory != after.directory or self.has_just_started(after):
            return True
        return after.log[: before.high_watermark] == before.log[: before.high_watermark]

    @projection
    def held(self, me: Replica | Admin) -> Held:
        """Key and log of every replica."""
        return Held(me.key, me.log) if isinstance(me, Replica) else Held(Key(me.id), ())

    @invariant(reads=held)
    def high_watermark_is_held(self, shared: Shared, held: Map[ModelValue, Held]) -> bool:
        """What is committed is in the logs of a majority (KIP-595; the oracle of Kafka's simulation test).

        Between the last committed voter set and an uncommitted one nobody can tell which set's majority counted, so a
        majority of either will do (KAFKA-16580). A lost disk counts with what it held.
        """
        committed = shared.committed
        if not committed:
            return True
        holders = {h.key for h in held.values() if h.log[: len(committed)] == committed}
        lost = {key: log for key, log in shared.lost.items() if log[: len(committed)] == committed}
        holders |= set(lost)
        sets = self.in_force(shared, held)
        for key, log in lost.items():
            sets |= self.sets_from(log, committed, self.formatted_voters(key.id, key.directory))
        return any(
            self.is_majority(voters, {v.key for v in voters if any(matches(v.key, key) for key in holders)})
            for voters in sets
        )

    # Voter sets

    def in_force(self, shared: Shared, held: Map[ModelValue, Held]) -> set[VoterSet]:
        """Return the voter sets that can elect leaders: the last committed one, and later ones in logs."""
        committed = shared.committed
        found: set[VoterSet] = set()
        for host, replica in held.items():
            if replica.log[: len(committed)] != committed:
                continue
            found |= self.sets_from(replica.log, committed, self.formatted_voters(host, replica.key.directory))
        return found

    def sets_from(self, log: Log, committed: Log, formatted: VoterSet) -> set[VoterSet]:
        """Return the last committed voter set, and later ones in a log, given the one from formatting."""
        base = self.voters_in(committed, formatted)
        later = {voters for end, voters in self.voter_sets(log, formatted) if end > len(committed)}
        return later | {base} if base else later

    @invariant(reads=held)
    def majorities_overlap(self, shared: Shared, held: Map[ModelValue, Held]) -> bool:
        """Every two voter sets in force have a common member in every pair of majorities (KIP-853, "Voter changes")."""
        sets = self.in_force(shared, held)
        return all(self.majorities_meet(one, other) for one in sets for other in sets)

    @invariant
    def voter_sets_differ_by_one(self, me: Replica) -> bool:
        """Consecutive VotersRecords differ by at most one addition or one removal (KIP-853, "VotersRecord")."""
        formatted = self.formatted_voters(me.id, me.directory)
        sets = [formatted, *[voters for _, voters in self.voter_sets(me.log, formatted)]]
        pairs = [alike(one, other) for one, other in pairwise(sets) if one]
        return all(len(one ^ other) <= 1 for one, other in pairs)

    @invariant
    def one_uncommitted_change(self, me: Replica, shared: Shared) -> bool:
        """A leader has at most one voter change in its log that is not committed (KIP-853, "Adding voters")."""
        if me.mode is not Mode.LEADER:
            return True
        known = max(me.high_watermark, len(shared.committed))
        formatted = self.formatted_voters(me.id, me.directory)
        sets = [(0, formatted), *self.voter_sets(me.log, formatted)]
        changes = [end for (_, old), (end, new) in pairwise(sets) if len(set(alike(old, new))) > 1]
        return sum(end > known for end in changes) <= 1

    @invariant
    def last_voter_set_is_used(self, me: Replica) -> bool:
        """The voter set in use is the last in the log or snapshot, committed or not (KIP-853, "VotersRecord")."""
        return me.voters == self.voters_in(me.log, self.formatted_voters(me.id, me.directory))

    @invariant
    def removed_leaders_resign(self, me: Replica) -> bool:
        """A leader no longer leads once a voter set without it is committed (KIP-853, "Removing voters")."""
        return me.mode is not Mode.LEADER or self.is_voter(me) or self.last_voters_record(me.log) > me.high_watermark

    # Snapshots

    @invariant
    def snapshots_are_committed(self, me: Replica, shared: Shared) -> bool:
        """A snapshot is committed, and ends no later than what the process knows to be committed (KIP-630)."""
        known = me.high_watermark == 0 or me.start <= me.high_watermark
        return known and me.start <= len(me.log) and me.log[: me.start] == shared.committed[: me.start]

    # Constraints

    @constraint
    def rounds_do_not_overlap(self, me: Replica, peer: Replica) -> bool:
        """Timers are so far apart that a pre-vote round ends before another replica's timer expires."""
        return me.id == peer.id or me.mode is not Mode.PROSPECTIVE or peer.mode is not Mode.PROSPECTIVE

    @constraint
    def links_stay_cut(self, shared: Shared) -> bool:
        """As many links are cut as the bound allows, and none heals."""
        return len(shared.cuts) == self.cuts
