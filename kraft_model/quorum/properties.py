"""Properties of `quorum`, with their sources; those of responses to administrators and voters come first."""

from __future__ import annotations

from itertools import pairwise

from kraftcheck.kraft_model.quorum.base import QuorumBase
from kraftcheck.kraft_model.quorum.records import (
    ENDED_MODES,
    Admin,
    AdminResponse,
    Answered,
    Change,
    DescribeQuorumResponse,
    Error,
    Key,
    Mode,
    Nil,
    Operation,
    Replica,
    Shared,
    Term,
    Told,
)
from kraftcheck.kraft_model.quorum.rules import (
    Log,
    VoterSet,
    last_kraft_version,
    matches_voter,
    normalized_replica_key_set_pair,
    replica_keys,
)
from kraftcheck.spec import Map, ModelValue, Record, constraint, invariant, projection, step_invariant

FIELDS_LOST_AT_STOP = ("fetched", "ended", "rejected", "offsets", "heard", "watched", "updating", "updated", "joining")
"""Fields that are empty in a newly started process."""

ELECTION_MODES = (Mode.PROSPECTIVE, Mode.CANDIDATE)


class KeyAndLog(Record):
    """Key and log of a replica, for the properties over all replicas."""

    key: Key
    log: Log


def are_prefix_comparable(one: Log, other: Log) -> bool:
    """Return whether one log is a prefix of the other."""
    common = min(len(one), len(other))
    return one[:common] == other[:common]


class QuorumProperties(QuorumBase):
    """Invariants, step invariants, and constraints for liveness searches."""

    @invariant(needs=["WatchAnswers"])
    def told_is_kept(self, me: Admin, shared: Shared) -> bool:
        """Every change reported to an administrator as completed is in the committed log.

        KIP-853, "AddVoter", steps 8 and 9; "RemoveVoter", steps 5 and 6; "UpdateFeatures", step 4. It needs
        WatchAnswers.
        """
        return all(self.is_kept(told, shared) for told in me.told)

    def is_kept(self, told: Told, shared: Shared) -> bool:
        """Whether the committed log contains a change reported as completed."""
        sets = [replica_keys(voters) for _, voters in self.voter_sets(shared.committed)]
        if told.operation is Operation.ADD_VOTER:
            return any(told.about in voters for voters in sets)
        if told.operation is Operation.REMOVE_VOTER:
            return any(told.about in old - new for old, new in pairwise(sets))
        if not isinstance(told.about, int):
            return False  # its subject is unknown
        return last_kraft_version(shared.committed, self.initial_version) >= told.about

    @invariant
    def updates_are_kept(self, me: Replica, shared: Shared) -> bool:
        """A voter whose UpdateVoter was acknowledged is in a committed VotersRecord with its endpoint.

        KIP-853, "UpdateVoter", steps 5 to 8. Kraft.version 0 has no such record.
        """
        if not me.updated or last_kraft_version(shared.committed, self.initial_version) == 0:
            return True
        sets = [voters for _, voters in self.voter_sets(shared.committed)]
        return any((voter.key, voter.endpoint) == (me.key, me.endpoint) for voters in sets for voter in voters)

    @invariant
    def voters_change_as_asked(self, me: Replica) -> bool:
        """The VotersRecord of a change adds or removes the requested voter alone, and never the last voter.

        KIP-853, "AddVoter", step 6; "RemoveVoter", step 3; "UpdateVoter", step 5; "UpdateFeatures", step 3.
        """
        change = me.change
        if me.mode is not Mode.LEADER or not isinstance(change, Change) or change.offset == 0:
            return True
        formatted = self.first_voters(me)
        sets = [(0, formatted), *self.voter_sets(me.log, formatted)]
        old, new = next(
            normalized_replica_key_set_pair(old, new) for (_, old), (end, new) in pairwise(sets) if end == change.offset
        )
        asked = frozenset({change.asked} if isinstance(change.asked, Key) else ())
        if change.operation is Operation.ADD_VOTER:
            return (new, asked & old) == (old | asked, frozenset())
        if change.operation is Operation.REMOVE_VOTER:
            return new == old - asked and asked <= old and bool(new)
        return new == old

    @invariant
    def new_voters_have_caught_up(self, me: Replica, peer: Replica) -> bool:
        """A replica has the leader's log before it becomes a voter (KIP-853, "AddVoter", steps 5 and 6)."""
        change = me.change
        if me.mode is not Mode.LEADER or not isinstance(change, Change) or change.offset == 0:
            return True
        if change.operation is not Operation.ADD_VOTER or peer.key != change.asked or peer.epoch != me.epoch:
            return True
        return peer.log[: change.offset - 1] == me.log[: change.offset - 1]

    @invariant(needs=["WatchAnswers"])
    def answers_are_true(self, message: AdminResponse) -> bool:
        """Each response to an administrator is justified (KIP-853, "AddVoter", "RemoveVoter", "UpdateFeatures")."""
        about = message.about
        if not isinstance(about, Answered):
            return True
        adds, removes = message.operation is Operation.ADD_VOTER, message.operation is Operation.REMOVE_VOTER
        serves = about.mode is Mode.LEADER and not about.busy
        reasons = {
            Error.NONE: about.mode is Mode.LEADER and about.subject is not Nil.NIL,
            Error.NOT_LEADER_OR_FOLLOWER: about.mode is not Mode.LEADER or about.busy,
            Error.REQUEST_TIMED_OUT: about.busy,
            Error.UNSUPPORTED_VERSION: about.version == 0,
            Error.DUPLICATE_VOTER: adds and serves,
            Error.VOTER_NOT_FOUND: removes and serves,
            Error.INVALID_REQUEST: serves and len(about.voters) == 1 if removes else adds,
            Error.INVALID_UPDATE_VERSION: serves and message.operation is Operation.UPDATE_FEATURES,
        }
        return reasons.get(message.error, False)

    @invariant(needs=["WatchAnswers"])
    def descriptions_are_true(self, me: Admin, peer: Replica, shared: Shared) -> bool:
        """DescribeQuorum reports committed voters, the voters in use and a committed high watermark.

        The two voter sets differ by at most one change, and no observer is a voter (KIP-853, "DescribeQuorum"). The
        responding replica is the leader of its epoch. The voters in use have the endpoints of a VotersRecord in its
        log, as long as it leads (KAFKA-17604). It needs WatchAnswers.
        """
        return all(self.is_true(told, shared) and self.is_held(told, peer) for told in me.described)

    def is_true(self, told: DescribeQuorumResponse, shared: Shared) -> bool:
        """Whether a response to DescribeQuorum matches the committed log and the elected leaders."""
        sets = {voters for _, voters in self.voter_sets(shared.committed)} | {self.formatted_voters(told.source, 1)}
        if told.committed not in sets or told.high_watermark > len(shared.committed):
            return False
        old, new = normalized_replica_key_set_pair(told.committed, told.current)
        observes = not any(matches_voter(voter.key, key) for voter in told.current for key in told.observers)
        return observes and len(old ^ new) <= 1 and Term(told.epoch, told.source) in shared.elected

    def is_held(self, told: DescribeQuorumResponse, peer: Replica) -> bool:
        """Whether the described voters in use are in the log of the responding leader; true of any other replica."""
        if (peer.id, peer.epoch, peer.mode) != (told.source, told.epoch, Mode.LEADER):
            return True
        first = self.first_voters(peer)
        return told.current == first or any(told.current == voters for _, voters in self.voter_sets(peer.log, first))

    # Elections

    @invariant
    def election_safety(self, shared: Shared) -> bool:
        """At most one leader per epoch is ever elected (Raft, figure 3; KIP-595)."""
        return len({term.epoch for term in shared.elected}) == len(shared.elected)

    @invariant
    def leaders_are_named_alike(self, me: Replica, peer: Replica) -> bool:
        """No two replicas of one epoch know different leaders (KIP-595, "Leader Election and Discovery")."""
        if me.epoch != peer.epoch or isinstance(me.leader, Nil) or isinstance(peer.leader, Nil):
            return True
        return me.leader == peer.leader

    @invariant
    def one_vote_per_epoch(self, me: Replica) -> bool:
        """A replica key votes for at most one candidate per epoch, across restarts (KIP-853, "Vote"; KIP-595).

        It can fail at kraft.version 0: KIP-853, "Quorum state".
        """
        return len(me.ballot) <= 1

    @step_invariant
    def epochs_only_grow(self, before: Replica, after: Replica) -> bool:
        """A replica's epoch never decreases, unless its disk is lost (Raft, 5.1)."""
        return after.epoch >= before.epoch or after.directory != before.directory

    @step_invariant
    def pre_vote_raises_no_epoch(self, before: Replica, after: Replica) -> bool:
        """Requesting pre-votes does not increase the requesting replica's epoch (KIP-996, "Motivation")."""
        return after.mode is not Mode.PROSPECTIVE or after.epoch == before.epoch

    @invariant
    def observers_never_stand(self, me: Replica) -> bool:
        """An observer is never prospective or candidate (KIP-853, "Key terms"; KAFKA-17067)."""
        return me.mode not in ELECTION_MODES or self.is_voter(me)

    @projection
    def watched(self, me: Replica | Admin) -> frozenset[ModelValue]:
        """Return the replicas that began a pre-vote round since this replica began to lead or actively follow."""
        return me.watched if isinstance(me, Replica) else frozenset()

    @invariant(reads=watched, needs=["WatchPreVotes"])
    def removed_voters_disturb_nobody(
        self, me: Replica, shared: Shared, watched: Map[ModelValue, frozenset[ModelValue]]
    ) -> bool:
        """A removed voter never wins a pre-vote round against a majority with a leader (KIP-853, "Vote").

        The majority consists of leaders and active followers throughout the round. It needs WatchPreVotes.
        """
        if me.mode is not Mode.CANDIDATE:
            return True
        voters = self.voters_in(shared.committed, frozenset())
        if not voters or any(matches_voter(voter.key, me.key) for voter in voters):
            return True
        return not self.is_majority(voters, {v.key for v in voters if me.id in watched.get(v.key.id, frozenset())})

    @invariant
    def nobody_follows_itself(self, me: Replica) -> bool:
        """A follower has another replica as leader, a leader itself, a candidate none (KIP-996; KAFKA-18379)."""
        if me.mode is Mode.FOLLOWER:
            return not isinstance(me.leader, Nil) and me.leader != me.id
        if me.mode in (Mode.LEADER, Mode.RESIGNED):
            return me.leader == me.id
        return me.mode is not Mode.CANDIDATE or isinstance(me.leader, Nil)

    @invariant
    def nobody_fails(self, me: Replica) -> bool:
        """No process ends in a state that Kafka treats as illegal."""
        return me.mode is not Mode.FAILED

    @invariant
    def successors_hold_what_is_committed(self, me: Replica, peer: Replica) -> bool:
        """A preferred successor has every batch that its resigned leader committed (KIP-595, "EndQuorumEpoch").

        After a restart, a resigned leader has no preferred successor and no high watermark.
        """
        if not me.ended or (peer.id, peer.epoch, peer.mode) != (me.leader, me.epoch, Mode.RESIGNED):
            return True
        known = self.advertised_high_watermark(peer)
        return me.log[:known] == peer.log[:known]

    # Logs

    @invariant
    def log_matching(self, me: Replica, peer: Replica) -> bool:
        """Two logs with batches of one epoch at one offset are equal up to that offset (Raft, figure 3)."""
        for end in range(min(len(me.log), len(peer.log)), 0, -1):
            if me.log[end - 1].epoch == peer.log[end - 1].epoch:
                return me.log[:end] == peer.log[:end]
        return True

    @invariant
    def leader_completeness(self, me: Replica, shared: Shared) -> bool:
        """A leader's log contains every batch committed in an earlier epoch (Raft, figure 3)."""
        if me.mode is not Mode.LEADER or not shared.committed:
            return True
        if me.epoch < shared.committed[-1].epoch:
            return True
        return me.log[: len(shared.committed)] == shared.committed

    @invariant
    def state_machine_safety(self, me: Replica, shared: Shared) -> bool:
        """Replicas agree on the committed log, which never changes (Raft, figure 3)."""
        return are_prefix_comparable(me.log[: me.high_watermark], shared.committed)

    @step_invariant
    def high_watermark_never_decreases(self, before: Replica, after: Replica) -> bool:
        """The high watermark never decreases while a process runs (KIP-595; KIP-853, "High watermark").

        A process that has just started knows its snapshot alone to be committed.
        """
        return after.high_watermark >= before.high_watermark or self.has_just_started(after)

    def has_just_started(self, me: Replica) -> bool:
        """Whether a process may have just started, or has ended: its volatile state is empty."""
        forgot = not any(getattr(me, name) for name in FIELDS_LOST_AT_STOP) and isinstance(me.change, Nil)
        return me.high_watermark <= me.start and (forgot or me.mode in ENDED_MODES)

    @step_invariant
    def committed_is_never_truncated(self, before: Replica, after: Replica) -> bool:
        """A running replica never truncates below its high watermark (KAFKA-12460).

        A newly started process has no high watermark; a broker may have lost its unflushed batches.
        """
        if before.directory != after.directory or self.has_just_started(after):
            return True
        return after.log[: before.high_watermark] == before.log[: before.high_watermark]

    @projection
    def held(self, me: Replica | Admin) -> KeyAndLog:
        """Return the key and log of a replica; an empty log for the administrator."""
        return KeyAndLog(me.key, me.log) if isinstance(me, Replica) else KeyAndLog(Key(me.id), ())

    @invariant(reads=held)
    def high_watermark_is_held(self, shared: Shared, held: Map[ModelValue, KeyAndLog]) -> bool:
        """A majority holds every committed batch (KIP-595; the oracle of Kafka's simulation test).

        Between the last committed voter set and an uncommitted one, either majority counts: the model cannot tell which
        set committed the batch (KAFKA-16580). A lost disk counts with its former log.
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
            self.is_majority(voters, {v.key for v in voters if any(matches_voter(v.key, key) for key in holders)})
            for voters in sets
        )

    # Voter sets

    def in_force(self, shared: Shared, held: Map[ModelValue, KeyAndLog]) -> set[VoterSet]:
        """Return the voter sets able to elect: the last committed, and later ones in logs with all committed data."""
        committed = shared.committed
        found: set[VoterSet] = set()
        for host, replica in held.items():
            if replica.log[: len(committed)] != committed:
                continue
            found |= self.sets_from(replica.log, committed, self.formatted_voters(host, replica.key.directory))
        return found

    def sets_from(self, log: Log, committed: Log, formatted: VoterSet) -> set[VoterSet]:
        """Return the last committed voter set, `formatted` if there is none, and the later voter sets of a log."""
        base = self.voters_in(committed, formatted)
        later = {voters for end, voters in self.voter_sets(log, formatted) if end > len(committed)}
        return later | {base} if base else later

    @invariant(reads=held)
    def majorities_overlap(self, shared: Shared, held: Map[ModelValue, KeyAndLog]) -> bool:
        """Every two voter sets in force have overlapping majorities (KIP-853, "Voter changes")."""
        sets = self.in_force(shared, held)
        return all(self.majorities_meet(one, other) for one in sets for other in sets)

    @invariant
    def voter_sets_differ_by_one(self, me: Replica) -> bool:
        """Consecutive VotersRecords differ by at most one added or removed voter (KIP-853, "VotersRecord")."""
        formatted = self.first_voters(me)
        sets = [formatted, *[voters for _, voters in self.voter_sets(me.log, formatted)]]
        pairs = [normalized_replica_key_set_pair(one, other) for one, other in pairwise(sets) if one]
        return all(len(one ^ other) <= 1 for one, other in pairs)

    @invariant
    def one_uncommitted_change(self, me: Replica, shared: Shared) -> bool:
        """A leader's log has at most one uncommitted voter change (KIP-853, "Adding voters")."""
        if me.mode is not Mode.LEADER:
            return True
        known = max(me.high_watermark, len(shared.committed))
        formatted = self.first_voters(me)
        sets = [(0, formatted), *self.voter_sets(me.log, formatted)]
        changes = [
            end for (_, old), (end, new) in pairwise(sets) if len(set(normalized_replica_key_set_pair(old, new))) > 1
        ]
        return sum(end > known for end in changes) <= 1

    @invariant
    def last_voter_set_is_used(self, me: Replica) -> bool:
        """The voter set in use is the last of the log or snapshot, committed or not (KIP-853, "VotersRecord")."""
        return me.voters == self.voters_in(me.log, self.first_voters(me))

    @invariant
    def removed_leaders_resign(self, me: Replica) -> bool:
        """A leader has resigned once a voter set without it is committed (KIP-853, "Removing voters")."""
        return me.mode is not Mode.LEADER or self.is_voter(me) or self.last_voters_record(me.log) > me.high_watermark

    # Snapshots

    @invariant
    def snapshots_are_committed(self, me: Replica, shared: Shared) -> bool:
        """A snapshot is committed, and ends at or below the high watermark (KIP-630)."""
        known = me.high_watermark == 0 or me.start <= me.high_watermark
        return known and me.start <= len(me.log) and me.log[: me.start] == shared.committed[: me.start]

    # Constraints

    @constraint
    def rounds_do_not_overlap(self, me: Replica, peer: Replica) -> bool:
        """A pre-vote round ends before the timer of another replica expires."""
        return me.id == peer.id or me.mode is not Mode.PROSPECTIVE or peer.mode is not Mode.PROSPECTIVE

    @constraint
    def links_stay_cut(self, shared: Shared) -> bool:
        """The number of cut links equals the bound on cuts, so no link heals."""
        return len(shared.cuts) == self.cuts
