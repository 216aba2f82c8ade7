"""Seeded faults of `Quorum`: each breaks one rule, and violates one of the properties.

Configuration `fault.<variant>` names the property and sets the bounds. The last faults break liveness alone, and each
names its configuration: `live.*` for a temporal property, `trap.*` for a reachability goal (AG EF). KAFKA-n is the
issue in Apache Kafka's tracker of the fault in Kafka, or of the rule.
"""

from __future__ import annotations

from kraftcheck.kraft_model.quorum import Quorum
from kraftcheck.kraft_model.quorum.records import (
    BeginQuorumEpochRequest,
    Change,
    Error,
    FetchRequest,
    FetchResponse,
    FetchSnapshotResponse,
    Key,
    LogRecord,
    Mode,
    Nil,
    Operation,
    Position,
    Replica,
    Shared,
    UpdateVoterResponse,
    Voter,
    VoteRequest,
    VoteResponse,
)
from kraftcheck.kraft_model.quorum.rules import epoch_start, follower_replica, prospective_replica, unattached_replica
from kraftcheck.kraft_model.quorum.voters import ChangeOutcome
from kraftcheck.spec import Map, ModelValue, Record, Step, Steps, become, ordered

# Elections


class VotesWithoutLogComparison(Quorum, variant="votes-without-log-comparison"):
    """Votes are granted without comparing logs: a candidate without committed batches can win."""

    def log_suffices(self, me: Replica, request: VoteRequest) -> bool:
        return True


class VoteDroppedByProspective(Quorum, variant="vote-dropped-on-canvass"):
    """A voter that becomes prospective drops its vote of the epoch, and votes again (KAFKA-17641, KAFKA-17642)."""

    def asks_for_pre_votes(self, me: Replica) -> Replica:
        return prospective_replica(me, self.own_votes(me)).but(voted=Nil.NIL)


class SecondVoteInEpoch(Quorum, variant="second-vote-in-epoch"):
    """A replica that has voted also votes for another candidate of the same epoch."""

    def voted_for(self, voted: Key, key: Key) -> bool:
        return True


class VoteNotWritten(Quorum, variant="vote-not-written"):
    """A vote is answered before it is persisted, so a restart loses it (KIP-595, "Quorum state")."""

    def after_restart(self, me: Replica) -> Replica:
        return super().after_restart(me.but(voted=Nil.NIL))


class PreVoteGrantCounted(Quorum, variant="pre-vote-grant-counted"):
    """A candidate counts a late pre-vote as a vote, as if the response did not distinguish them (KIP-996)."""

    def awaits(self, me: Replica, response: VoteResponse) -> bool:
        if me.mode not in (Mode.PROSPECTIVE, Mode.CANDIDATE) or me.epoch != response.of:
            return False
        return response.voter not in me.granted | me.rejected

    def dropped_with_mode(self, me: Replica) -> list[Record]:
        return []


class RestartedLeaderUnattached(Quorum, variant="restarted-leader-unattached"):
    """A restarted leader forgets that it led, and votes for another candidate of the same epoch (KAFKA-10661)."""

    def after_restart(self, me: Replica) -> Replica:
        back = super().after_restart(me)
        return unattached_replica(back.but(voted=Nil.NIL), back.epoch) if back.mode is Mode.RESIGNED else back


class RestartedLeaderLeads(Quorum, variant="restarted-leader-leads"):
    """A restarted leader continues in its epoch, even after losing its unflushed log suffix (KAFKA-10527)."""

    def after_restart(self, me: Replica) -> Replica:
        back = super().after_restart(me)
        return back.but(mode=Mode.LEADER) if back.mode is Mode.RESIGNED and len(back.log) > 0 else back

    def flushes_as_leader(self) -> bool:
        return False


class ResignedStaysInEpoch(Quorum, variant="resigned-stays-in-epoch"):
    """A resigned leader stays in its epoch, where a peer names it as the leader to follow (KAFKA-18379)."""

    def after_resigning(self, me: Replica) -> Replica:
        return unattached_replica(me, me.epoch)

    def is_consistent(self, me: Replica, leader: ModelValue | Nil, epoch: int) -> bool:
        return leader == me.id or super().is_consistent(me, leader, epoch)

    def follow(self, me: Replica, leader: ModelValue, epoch: int, endpoint: int) -> Replica:
        return follower_replica(me, leader, epoch, endpoint or me.endpoint)


class ObserverStands(Quorum, variant="observer-stands"):
    """An observer that has voted becomes prospective once its timer expires (KAFKA-17067)."""

    def may_stand(self, me: Replica) -> bool:
        return self.is_voter(me) or isinstance(me.voted, Key)


class StaleLeaderAccepted(Quorum, variant="stale-leader-accepted"):
    """A replica follows any leader that announces itself, even of an older epoch (KIP-595, "BeginQuorumEpoch")."""

    def is_stale(self, me: Replica, epoch: int) -> bool:
        return False

    def learn(self, me: Replica, leader: ModelValue | Nil, epoch: int, endpoint: int) -> Replica:
        if epoch < me.epoch and me.mode is not Mode.LEADER:
            return follower_replica(me, leader, epoch, endpoint)
        return super().learn(me, leader, epoch, endpoint)


class PreVoteRaisesEpoch(Quorum, variant="pre-vote-raises-epoch"):
    """A replica increments its epoch before requesting pre-votes, as in an early draft of KIP-996."""

    def asks_for_pre_votes(self, me: Replica) -> Replica:
        raised = me.but(epoch=me.epoch + 1, voted=Nil.NIL, ballot=frozenset(), leader=Nil.NIL)
        return prospective_replica(raised, self.own_votes(me))


class ProspectiveKeepsRoleInNewEpoch(Quorum, variant="prospective-goes-on"):
    """A prospective replica stays prospective in a newer epoch, instead of becoming unattached (KIP-996)."""

    def learn(self, me: Replica, leader: ModelValue | Nil, epoch: int, endpoint: int) -> Replica:
        if me.mode is Mode.PROSPECTIVE and epoch > me.epoch and isinstance(leader, Nil):
            return me.but(epoch=epoch, voted=Nil.NIL, ballot=frozenset(), leader=Nil.NIL)
        return super().learn(me, leader, epoch, endpoint)


class FollowersGrantPreVotes(Quorum, variant="followers-grant-pre-votes"):
    """A follower of an active leader grants pre-votes, so a removed voter disrupts the quorum (KIP-996)."""

    def follows_actively(self, me: Replica) -> bool:
        return False


class SuccessorsById(Quorum, variant="successors-by-id"):
    """A resigning leader orders its preferred successors by replica id instead of fetch offset (KIP-595)."""

    def resignation_requests(self, me: Replica) -> list[Record]:
        return super().resignation_requests(me.but(offsets=Map[Key, int]()))


# Replication


class CommitsEarlierEpochs(Quorum, variant="commits-earlier-epochs"):
    """A new leader commits batches of earlier epochs before a batch of its own, off by one (KAFKA-12619)."""

    def may_commit(self, me: Replica, end: int) -> bool:
        return end >= epoch_start(me.log, me.epoch)

    def is_established(self, me: Replica) -> bool:
        return self.may_commit(me, me.high_watermark)


class AppendNotFlushed(Quorum, variant="append-not-flushed"):
    """A follower fetches again before it flushes its appended batches (KAFKA-10533)."""

    def flushes(self, me: Replica) -> bool:
        return False


class NewVoterDoesNotFlush(Quorum, variant="new-voter-does-not-flush"):
    """Only voters flush, and membership is read before the batch that makes the replica a voter (KAFKA-17332)."""

    def append(self, me: Replica, response: FetchResponse) -> Replica:
        return self.with_log(me, me.log + response.records, flushes=self.is_voter(me))


class DivergingFetchCounted(Quorum, variant="diverging-fetch-counted"):
    """A leader records the offset of a fetch that it finds to be diverging (KAFKA-13141)."""

    def diverges(self, me: Replica, request: FetchRequest, common: Position, shared: Shared) -> Step:
        after, sends, puts = self.commits(self.note_fetch(me, request), shared)
        return self.taken(me, after, self.fetch_answer(me, request, Error.NONE, diverging=common), *sends).put(**puts)


class LateAnswersTaken(Quorum, variant="late-answers-taken"):
    """A follower accepts the response to an earlier request equal to its pending one (no correlation ids)."""

    def responses_to_pending(self, me: Replica) -> list[Record]:
        return []

    def keeps_committed(self, before: Replica, after: Replica) -> bool:
        return True


class HighWatermarkBeforeDivergence(Quorum, variant="high-watermark-before-divergence"):
    """A follower applies the high watermark of a diverging response before it truncates (KAFKA-14704)."""

    def handle_fetch_response(self, me: Replica, response: FetchResponse, shared: Shared) -> Steps:
        known = min(response.high_watermark, len(me.log))
        if isinstance(response.diverging, Position) and me.pending == response.request and known > me.high_watermark:
            yield become(me.but(high_watermark=known))
        else:
            yield from super().handle_fetch_response(me, response, shared)


class LateDivergenceApplied(Quorum, variant="late-divergence-applied"):
    """A follower applies a diverging response to any request, not only to its pending one (KAFKA-18991)."""

    def is_expected(self, me: Replica, response: FetchResponse) -> bool:
        if isinstance(response.diverging, Position) and me.mode is Mode.FOLLOWER and response.epoch == me.epoch:
            return True
        return super().is_expected(me, response)

    def keeps_committed(self, before: Replica, after: Replica) -> bool:
        return True


class HighWatermarkBeyondLog(Quorum, variant="high-watermark-beyond-log"):
    """A follower adopts a high watermark beyond its own log end (KIP-595, "Fetch")."""

    def take_high_watermark(self, me: Replica, response: FetchResponse) -> Replica:
        after = super().take_high_watermark(me, response)
        return after if after == me else after.but(high_watermark=response.high_watermark)


class DivergenceWithoutEpoch(Quorum, variant="divergence-without-epoch"):
    """A leader detects divergence by offset alone, without the epoch of the preceding batch (KAFKA-6361)."""

    def is_valid_position(self, request: FetchRequest, common: Position) -> bool:
        return request.offset <= common.offset


class FetchPositionUnchecked(Quorum, variant="fetch-position-unchecked"):
    """A leader serves every fetch at its offset, without checking the preceding epoch (KIP-595, "Fetch")."""

    def is_valid_position(self, request: FetchRequest, common: Position) -> bool:
        return True


class ReplicasComparedById(Quorum, variant="ids-alone"):
    """Replicas are identified by id alone, so a wiped disk counts with its former log (KAFKA-14077)."""

    def is_same(self, voter: Key, key: Key) -> bool:
        return voter.id == key.id

    def is_meant(self, voter: Key, me: Replica) -> bool:
        return voter.id == me.id


# Voter changes


class PendingChangeIgnored(Quorum, variant="pending-change-ignored"):
    """A leader accepts a voter change while another one is uncommitted (KAFKA-20740)."""

    def has_pending_operation(self, me: Replica) -> bool:
        return False

    def has_uncommitted_voters(self, me: Replica) -> bool:
        return False


class ChangeForgottenByTimeout(Quorum, variant="change-forgotten-by-timeout"):
    """The pending operation alone blocks the next voter change, and a timeout clears it (KAFKA-20740)."""

    def has_uncommitted_voters(self, me: Replica) -> bool:
        return False


class LeaderNotReady(Quorum, variant="leader-not-ready"):
    """A leader accepts a voter change before it has committed a batch of its epoch (KAFKA-16535, KAFKA-16537)."""

    def is_established(self, me: Replica) -> bool:
        return True


class RemovedLeaderCountsItself(Quorum, variant="removed-leader-counts-itself"):
    """A leader that has removed itself still counts its own log for the high watermark (KAFKA-16530)."""

    def replicated(self, me: Replica) -> int:
        ends = [me.offsets.get(voter.key, 0) for voter in me.voters if voter.key.id != me.id]
        return sorted([*ends, len(me.log)], reverse=True)[len(me.voters) // 2]


class HighWatermarkFollowsVoterSet(Quorum, variant="high-watermark-follows-voter-set"):
    """A leader lowers its high watermark if a voter change lowers the computed one (KAFKA-16530)."""

    def moves_high_watermark(self, me: Replica, end: int) -> bool:
        return end != me.high_watermark


class OldVoterSetCounted(Quorum, variant="old-voter-set-counted"):
    """The high watermark is computed over the last committed voter set, not over the last one (KIP-853)."""

    def replicated(self, me: Replica) -> int:
        known = self.with_log(me, me.log[: max(me.high_watermark, 1)], flushes=False).voters
        return super().replicated(me.but(voters=known))


class VoterSetNotTruncated(Quorum, variant="voter-set-not-truncated"):
    """A follower keeps a voter set that it has truncated from its log (KAFKA-16207)."""

    def truncate(self, me: Replica, response: FetchResponse, diverging: Position) -> Replica:
        return super().truncate(me, response, diverging).but(voters=me.voters)


class SnapshotWithoutVoters(Quorum, variant="snapshot-without-voters"):
    """A replica that loads a snapshot ignores the snapshot's voter set (KIP-853, "Snapshots")."""

    def load(self, me: Replica, response: FetchSnapshotResponse) -> Replica:
        return super().load(me, response).but(voters=me.voters)


class VoterDirectoryReplaced(Quorum, variant="directory-replaced"):
    """AddVoter replaces a voter with a lost disk in one record (KIP-853 allows one change at a time)."""

    def is_duplicate(self, me: Replica, key: Key) -> bool:
        return any(voter.key == key for voter in me.voters)

    def voters_with(self, me: Replica, voter: Voter) -> frozenset[Voter]:
        return frozenset(old for old in me.voters if old.key.id != voter.key.id) | {voter}


class SnapshotOfUncommitted(Quorum, variant="snapshot-of-uncommitted"):
    """A snapshot ends at the log end, not at the high watermark (KIP-630; an inclusive offset in KAFKA-14618)."""

    def snapshot_end(self, me: Replica) -> int:
        return len(me.log)


class EpochNotWritten(Quorum, variant="epoch-not-written"):
    """A restart loses the vote, and any epoch beyond the last one in the log (KIP-595, "Quorum state")."""

    def after_restart(self, me: Replica) -> Replica:
        last = me.log[-1].epoch if me.log else 0
        return unattached_replica(super().after_restart(me).but(voted=Nil.NIL, ballot=frozenset()), last)


# Responses


class AnsweredOnceAppended(Quorum, variant="answered-once-appended"):
    """AddVoter is answered once its record is appended, before it is committed (KIP-853, "AddVoter", step 8)."""

    def add_if_caught_up(self, me: Replica) -> tuple[Replica, list[Record]]:
        after, sends = super().add_if_caught_up(me)
        if not isinstance(after.change, Change) or after.change == me.change:
            return after, sends
        return after, [*sends, *self.answer(after, Operation.ADD_VOTER, Error.NONE, after.change.client)]


class BusyLeaderRefuses(Quorum, variant="busy-leader-refuses"):
    """A leader that must defer a request answers INVALID_REQUEST, a final error (KIP-853, "RemoveVoter")."""

    def change_error(self, me: Replica) -> Error | None:
        error = super().change_error(me)
        return Error.INVALID_REQUEST if error is Error.REQUEST_TIMED_OUT else error


class EndpointsNotUpdated(Quorum, variant="endpoints-not-updated"):
    """A leader acknowledges UpdateVoter with a record of the old endpoints (KIP-853, "UpdateVoter", step 5)."""

    def append_voters(self, me: Replica, voters: frozenset[Voter], change: Change, *before: LogRecord) -> Replica:
        kept = me.voters if change.operation is Operation.UPDATE_VOTER else voters
        return super().append_voters(me, kept, change, *before)


class RemovedById(Quorum, variant="removed-by-id"):
    """RemoveVoter compares replica ids alone, and removes a voter with another disk (KIP-853, "RemoveVoter")."""

    def begin_removing(self, me: Replica, key: Key, client: ModelValue) -> ChangeOutcome:
        meant = next((voter.key for voter in ordered(me.voters) if voter.key.id == key.id), key)
        after, sends, error = super().begin_removing(me, meant, client)
        change = after.change
        return after.but(change=change.but(asked=key)) if isinstance(change, Change) else after, sends, error


class UncommittedDescribed(Quorum, variant="uncommitted-described"):
    """DescribeQuorum reports the voters in use as the committed voters (KIP-853, "DescribeQuorum")."""

    def committed_voters(self, me: Replica) -> frozenset[Voter]:
        return me.voters


class LeaderEndpointNotTold(Quorum, variant="endpoint-not-told"):
    """BeginQuorumEpoch omits the leader's endpoint, so voters fetch from the old one (KIP-853)."""

    configuration = "trap.endpoints"

    def announcement(self, me: Replica, key: Key) -> BeginQuorumEpochRequest:
        return super().announcement(me, key).but(endpoint=0)


class FollowersNeverGrant(Quorum, variant="followers-never-grant"):
    """A follower never grants a pre-vote, so two followers of a dead leader block each other (KAFKA-16164)."""

    configuration = "trap.dead-leader"

    def follows_actively(self, me: Replica) -> bool:
        return True


class NoCheckQuorum(Quorum, variant="no-check-quorum"):
    """A leader that no majority can fetch from does not resign (KAFKA-13621, KAFKA-15489)."""

    configuration = "trap.check-quorum"

    def has_quorum(self, me: Replica, fetching: frozenset[Key | Nil]) -> bool:
        return True


class RemovedVoterRefused(Quorum, variant="removed-voter-refused"):
    """A leader rejects fetches of a removed voter, which never learns of its removal (KAFKA-14094)."""

    configuration = "trap.removed-voter"

    def handle_fetch_request(self, me: Replica, request: FetchRequest, shared: Shared) -> Steps:
        key = Key(request.source, request.directory)
        if me.mode is Mode.LEADER and not any(self.is_same(voter.key, key) for voter in me.voters):
            yield self.taken(me, me, self.fetch_answer(me, request, Error.NOT_LEADER_OR_FOLLOWER))
        else:
            yield from super().handle_fetch_request(me, request, shared)


class ProspectiveForEver(Quorum, variant="prospective-for-ever"):
    """A pre-vote round without a majority never ends, for want of a timer (KIP-996, "Proposed Changes")."""

    configuration = "live.dead-leader"

    def pre_vote_timeout(self, me: Replica) -> Steps:
        yield from ()


class OperationsNeverExpire(Quorum, variant="operations-never-expire"):
    """A leader waits for a new voter to catch up without a timeout (KIP-853, "AddVoter", step 8)."""

    configuration = "live.answers"

    def expire_operation(self, me: Replica) -> Steps:
        yield from ()


class ExpiryUnanswered(Quorum, variant="answer-forgotten"):
    """A leader drops an operation that times out, without a response (KIP-853, "AddVoter", step 8)."""

    configuration = "live.answers"

    def expire_operation(self, me: Replica) -> Steps:
        for step in super().expire_operation(me):
            yield step.but(sends=())


class AnyUpdateResponseAccepted(Quorum, variant="update-told-once"):
    """A voter takes any response to UpdateVoter as an acknowledgement (KIP-853, "UpdateVoter")."""

    configuration = "live.update-refused"

    def handle_update_voter_response(self, me: Replica, response: UpdateVoterResponse, shared: Shared) -> Steps:
        told = response.but(error=Error.NONE)
        yield from super().handle_update_voter_response(me, told, shared)


class DivergenceIgnored(Quorum, variant="divergence-ignored"):
    """A follower ignores a diverging response: it fetches again without truncating (KIP-595, "Fetch")."""

    configuration = "live.divergence"

    def truncate(self, me: Replica, response: FetchResponse, diverging: Position) -> Replica:
        return me


class CaughtUpNotNoted(Quorum, variant="caught-up-not-noted"):
    """A leader ignores the offset of a fetch at its log end, so it never sees a voter caught up (KIP-595)."""

    configuration = "live.loss"

    def note_fetch(self, me: Replica, request: FetchRequest) -> Replica:
        return me if request.offset == len(me.log) else super().note_fetch(me, request)
