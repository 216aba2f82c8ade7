"""Other readings of the KIPs than that of `Quorum`, each a variant; their results are in `docs/findings.md`."""

from __future__ import annotations

from kraftcheck.kraft_model.quorum import Quorum
from kraftcheck.kraft_model.quorum.base import OtherReplicas
from kraftcheck.kraft_model.quorum.records import (
    ADMIN,
    AdminResponse,
    ApiVersionsRequest,
    ApiVersionsResponse,
    Batch,
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
    Change,
    Error,
    FetchResponse,
    FetchSnapshotResponse,
    Key,
    LogRecord,
    Mode,
    Nil,
    Operation,
    Replica,
    Shared,
    UpdateVoterRequest,
    Voter,
    VoterAdded,
    VoteRequest,
    VoterRemoved,
    Voters,
)
from kraftcheck.kraft_model.quorum.rules import (
    last_kraft_version,
    matching_voter,
    replica_keys,
    replica_with_disk_state_only,
)
from kraftcheck.kraft_model.quorum.voters import ChangeOutcome
from kraftcheck.spec import ModelValue, Record, Steps


class Kip853Draft(Quorum, variant="kip853-draft"):
    """KIP-853 before its acceptance: AddVoterRecord and RemoveVoterRecord, catching up first, other errors."""

    configuration = "reading.kip853-draft"

    def begin_adding(self, me: Replica, voter: Voter, client: ModelValue) -> ChangeOutcome:
        """Check AddVoter as in the draft; then start its step 1, the wait until the new replica has caught up."""
        if me.mode is not Mode.LEADER:
            return me, [], Error.NOT_LEADER_OR_FOLLOWER
        if self.has_pending_operation(me):
            return me, [], Error.REQUEST_TIMED_OUT
        if me.version < self.needed_version():
            return me, [], Error.UNSUPPORTED_VERSION
        if voter.key in replica_keys(me.voters):
            return me, [], Error.VOTER_ALREADY_ADDED
        if voter.key not in me.offsets:
            return me, [], Error.INVALID_REQUEST
        change = Change(Operation.ADD_VOTER, voter, False, 0, client)
        after, sends = self.add_if_caught_up(me.but(change=change))
        return after, sends, None

    def add_if_caught_up(self, me: Replica) -> tuple[Replica, list[Record]]:
        """Take steps 1 to 4 of the draft: once the replica has caught up and no change is pending, send ApiVersions."""
        change = me.change
        if not isinstance(change, Change) or not isinstance(change.voter, Voter) or change.offset > 0:
            return me, []
        if not self.has_caught_up(me, change.voter.key):
            return me, []
        if not self.is_established(me) or self.has_uncommitted_voters(me):
            return me, []
        return me, [ApiVersionsRequest(me.epoch, me.id, change.voter.key.id)]

    def handle_api_versions_response(self, me: Replica, response: ApiVersionsResponse, shared: Shared) -> Steps:
        """Take steps 5 to 7 of the draft: append AddVoterRecord, if version and pending changes allow it."""
        change = me.change
        ready = (
            isinstance(change, Change)
            and isinstance(change.voter, Voter)
            and change.offset == 0
            and (me.epoch, change.voter.key.id) == (response.of, response.source)
            and not self.has_uncommitted_voters(me)
        )
        if self.is_cut(me, response.source, shared):
            return
        if not ready or not isinstance(change, Change) or not isinstance(change.voter, Voter):
            yield self.taken(me, me)
        elif response.version < me.version:
            failed = me.but(change=Nil.NIL)
            yield self.taken(me, failed, *self.answer(me, change.operation, Error.INVALID_REQUEST, change.client))
        else:
            appended = self.append_voters(me, me.voters | {change.voter}, change)
            after, sends, puts = self.commits(appended, shared)
            yield self.taken(me, after, *sends).put(**puts)

    def change_record(self, me: Replica, voters: frozenset[Voter]) -> LogRecord:
        """Return AddVoterRecord or RemoveVoterRecord for a change of one voter, else VotersRecord."""
        added, removed = voters - me.voters, me.voters - voters
        if len(added) == 1 and not removed:
            return VoterAdded(next(iter(added)))
        if len(removed) == 1 and not added:
            return VoterRemoved(next(iter(removed)).key)
        return Voters(voters)

    def handle_begin_quorum_epoch_request(self, me: Replica, request: BeginQuorumEpochRequest, shared: Shared) -> Steps:
        """A replica outside its own voter set answers NOT_VOTER, and the leader has to repeat BeginQuorumEpoch."""
        if self.is_cut(me, request.source, shared) or self.is_foreign(me, request.source):
            yield from super().handle_begin_quorum_epoch_request(me, request, shared)
        elif request.epoch >= me.epoch and self.is_meant(request.voter, me) and me.key not in replica_keys(me.voters):
            refusal = BeginQuorumEpochResponse(
                me.epoch, me.leader, Error.NOT_VOTER, request.epoch, me.id, request.source
            )
            yield self.taken(me, me, refusal)
        else:
            yield from super().handle_begin_quorum_epoch_request(me, request, shared)


class DuplicateDirectoryAllowed(Quorum, variant="duplicate-directory-allowed"):
    """AddVoter accepts a second directory id of a voter's id (KIP-853, "Disk failure recovery")."""

    configuration = "reading.duplicate-directory-allowed"

    def is_duplicate(self, me: Replica, key: Key) -> bool:
        return key in replica_keys(me.voters)


class ChangesNeedVersionAboveOne(Quorum, variant="version-above-one"):
    """UNSUPPORTED_VERSION "when the kraft.version is not greater than 1", taken literally (KIP-853, "AddVoter")."""

    configuration = "reading.version-above-one"

    def needed_version(self) -> int:
        return 2


class UpdateVoterByKey(Quorum, variant="update-voter-by-key"):
    """UpdateVoter needs the exact replica key in the voter set; step 4 accepts an unknown directory id (KIP-853)."""

    configuration = "reading.update-voter-by-key"

    def voter_to_update(self, me: Replica, key: Key) -> Voter | None:
        return next((voter for voter in me.voters if voter.key == key), None)


class PreVoteUnlessFollower(Quorum, variant="pre-vote-unless-follower"):
    """Every replica but a follower grants a pre-vote, as KIP-853 quotes the rule of KIP-996 under "Vote"."""

    configuration = "reading.pre-vote-unless-follower"

    def grants_pre_vote(self, me: Replica, request: VoteRequest) -> bool:
        return me.mode is not Mode.FOLLOWER and self.log_suffices(me, request)


class AddVoterGivesUp(Quorum, variant="add-voter-gives-up"):
    """AddVoter answers REQUEST_TIMED_OUT at once if the new voter has not caught up, as in Kafka (KAFKA-17147)."""

    configuration = "reading.add-voter-gives-up"

    def add_if_caught_up(self, me: Replica) -> tuple[Replica, list[Record]]:
        change = me.change
        if isinstance(change, Change) and isinstance(change.voter, Voter) and change.checked and change.offset == 0:
            if self.has_caught_up(me, change.voter.key):
                return super().add_if_caught_up(me)
            answers = self.answer(me, change.operation, Error.REQUEST_TIMED_OUT, change.client)
            return me.but(change=Nil.NIL), answers
        return me, []


class CaughtUpWithinTheHour(Quorum, variant="caught-up-within-the-hour"):
    """AddVoter accepts a replica that was at the log end at some time in the last hour, or gives up.

    `AddVoterHandler.handleApiVersionsResponse`, `LeaderState.isReplicaCaughtUp`; KAFKA-17147. Without clocks, any
    replica that has fetched may have been at the log end. All versions.
    """

    configuration = "reading.caught-up-within-the-hour"

    def handle_api_versions_response(self, me: Replica, response: ApiVersionsResponse, shared: Shared) -> Steps:
        for step in super().handle_api_versions_response(me, response, shared):
            after = step.me
            assert isinstance(after, Replica)
            change = after.change
            if me.change == change or not isinstance(change, Change) or change.offset > 0:
                yield step
                continue
            assert isinstance(change.voter, Voter)
            if change.voter.key in me.offsets:
                appended = self.append_voters(me, self.voters_with(me, change.voter), change)
                later, sends, puts = self.commits(appended, shared)
                yield self.taken(me, later, *sends).put(**puts)
            answers = self.answer(me, change.operation, Error.REQUEST_TIMED_OUT, change.client)
            yield self.taken(me, me.but(change=Nil.NIL), *answers)


class UpdateVoterAnsweredAtOnce(Quorum, variant="update-voter-answered-at-once"):
    """UpdateVoter is answered once appended, and does not count as a pending change, as in Kafka (KAFKA-16534)."""

    configuration = "reading.update-voter-answered-at-once"

    def appended_update(self, me: Replica) -> ChangeOutcome:
        return me.but(change=Nil.NIL), [], Error.NONE


class JoinBlocksFetch(Quorum, variant="join-blocks-fetch"):
    """A joining controller does not fetch while its AddVoter is pending: Kafka's client has one request in flight."""

    configuration = "trap.join"

    def waits_to_join(self, me: Replica) -> Replica:
        return super().waits_to_join(me).but(pending=Nil.NIL)

    def next_request(self, me: Replica) -> tuple[Replica, tuple[Record, ...]]:
        return (me, ()) if me.joining else super().next_request(me)


class JoinersAnsweredWhenAppended(JoinBlocksFetch, variant="joiners-answered-when-appended"):
    """A joiner's AddVoter is answered once appended (KIP-1186), and blocks the joiner's fetches until then.

    `AddVoterHandler.handleApiVersionsResponse`; KAFKA-19400. The change is pending until it is committed. Since 4.2.
    """

    configuration = "trap.join"

    def handle_api_versions_response(self, me: Replica, response: ApiVersionsResponse, shared: Shared) -> Steps:
        for step in super().handle_api_versions_response(me, response, shared):
            after = step.me
            assert isinstance(after, Replica)
            change = after.change
            if isinstance(change, Change) and change.offset > 0 and change.client not in (ADMIN, me.id):
                told = AdminResponse(change.operation, Error.NONE, me.id, change.client)
                yield step.but(me=after.but(change=change.but(client=me.id))).send(told)
            else:
                yield step

    def answer(self, me: Replica, operation: Operation, error: Error, client: ModelValue) -> list[Record]:
        """Return the response to a change; none to a joiner that has its response: the leader is then the client."""
        return [] if client == me.id else super().answer(me, operation, error, client)


class WrongKeyIsInvalidRequest(Quorum, variant="invalid-request"):
    """A request to another replica key is rejected with INVALID_REQUEST, as in KIP-853; its sender fails."""

    configuration = "reading.invalid-request"

    def wrong_voter(self) -> Error:
        return Error.INVALID_REQUEST


class KnownLeaderFollowed(Quorum, variant="known-leader-followed"):
    """A restarted replica follows the leader that it knows, even if it voted for itself (KIP-996)."""

    configuration = "finding.own-vote"

    def after_restart(self, me: Replica) -> Replica:
        if isinstance(me.leader, Nil):
            return super().after_restart(me)
        back = super().after_restart(me.but(voted=Nil.NIL))
        return back.but(voted=replica_with_disk_state_only(me).voted) if back.epoch == me.epoch else back


class ResignsWhileAsked(Quorum, variant="resigns-while-asked"):
    """A removed leader resigns only if the request to remove it is still pending at the commit, as in Kafka."""

    configuration = "reading.resigns-while-asked"

    def resigns_after_commit(self, before: Replica, after: Replica) -> bool:
        return super().resigns_after_commit(before, after) and isinstance(before.change, Change)


class UpdateVoterBlocksFetch(Quorum, variant="update-voter-blocks-fetch"):
    """A voter does not fetch while its UpdateVoter is uncommitted (KAFKA-16534)."""

    configuration = "trap.update-voter"

    def waits_for_update(self, me: Replica, request: UpdateVoterRequest) -> Replica:
        return me.but(updating=True, pending=Nil.NIL)

    def next_request(self, me: Replica) -> tuple[Replica, tuple[Record, ...]]:
        return (me, ()) if me.updating else super().next_request(me)


class OutdatedEndpointUpdated(Quorum, variant="updates-what-differs"):
    """A voter sends UpdateVoter while the voter set in use has an outdated endpoint for it, as in Kafka.

    `KafkaRaftClient.shouldSendUpdateVoteRequest`; at kraft.version 0 as in the KIP. All versions.
    """

    configuration = "finding.late-update"

    def send_update_voter(self, me: Replica) -> Steps:
        known = matching_voter(me.voters, me.key)
        if me.version == 0:
            yield from super().send_update_voter(me)
        elif known is not None and known.endpoint != me.endpoint:
            yield from super().send_update_voter(me.but(updated=False))


class VersionUsedOnceCommitted(Quorum, variant="version-once-committed"):
    """kraft.version is upgraded only once KRaftVersionRecord is committed (KIP-853, "KRaftVersionRecord")."""

    configuration = "reading.version-once-committed"

    def committed_version(self, me: Replica) -> Replica:
        """Return the replica with the kraft.version of its committed log."""
        known = me.log[: me.high_watermark]
        return me.but(version=last_kraft_version(known, self.formatted_version(me.id, me.directory)))

    def with_log(self, me: Replica, log: tuple[Batch, ...], *, flushes: bool) -> Replica:
        return self.committed_version(super().with_log(me, log, flushes=flushes))

    def take_high_watermark(self, me: Replica, response: FetchResponse) -> Replica:
        return self.committed_version(super().take_high_watermark(me, response))

    def load(self, me: Replica, response: FetchSnapshotResponse) -> Replica:
        return self.committed_version(super().load(me, response))

    def commits(self, me: Replica, shared: Shared) -> tuple[Replica, list[Record], dict[str, object]]:
        after, sends, puts = super().commits(me, shared)
        return self.committed_version(after), sends, puts


class SilentLeaderForgotten(Quorum, variant="silent-leader-forgotten"):
    """A proposal: a follower whose request times out no longer counts as an active follower."""

    configuration = "finding.unaware-voter"

    def retry(self, me: Replica, shared: Shared, bystander: OtherReplicas) -> Steps:
        yield from super().retry(me.but(fetched=False), shared, bystander)


class RemovedVoterStands(Quorum, variant="removed-voter-stands"):
    """A proposal: a voter whose removal is in its log, but uncommitted, may still become candidate.

    It does not count itself. D. Ongaro: "Consensus: Bridging Theory and Practice" (2014), section 4.2.2.
    """

    configuration = "finding.own-removal"

    def may_stand(self, me: Replica) -> bool:
        sets = [(0, self.formatted_voters(me.id, me.directory)), *self.voter_sets(me.log)]
        committed = [voters for end, voters in sets if end <= me.high_watermark]
        later = [voters for end, voters in sets if end > me.high_watermark]
        return any(matching_voter(voters, me.key) is not None for voters in [committed[-1], *later])
