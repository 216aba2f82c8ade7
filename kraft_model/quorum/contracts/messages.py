"""Contracts of messages: effect on the receiver, and response (KIP-595, KIP-630, KIP-853, KIP-996)."""

from __future__ import annotations

from kraftcheck.kraft_model.quorum.base import QuorumBase
from kraftcheck.kraft_model.quorum.contracts.kip_rules import (
    EpochState,
    add_voter_error,
    advertised_high_watermark,
    becomes_candidate,
    begins_admin_change,
    begins_kraft_version_upgrade,
    begins_voter_change,
    counts_grant_or_wins,
    counts_refusal_or_gives_up,
    end_offset_and_last_epoch_up_to,
    endpoint_of_voter_id,
    enters_or_stays_in_epoch_state,
    epoch_state,
    epoch_state_after_message,
    expected_leader_fields_of_response,
    failed_epoch_state,
    has_committed_own_removal,
    high_watermark_by_majority,
    holds_fetch_position,
    is_same_replica,
    kraft_version_in_log,
    last_epoch_and_end_offset,
    needs_snapshot,
    neither_changes_nor_sends,
    prefix_before_divergence,
    remove_voter_error,
    response_epoch_state_and_whether_handled,
    sends_next_fetch,
    sent_messages_of_type,
    sent_messages_without_history,
    supporting_voters_after_update,
    update_features_error,
    update_voter_error,
    voter_change_error,
    voters_in_log,
    with_advanced_high_watermark,
    with_appended_voters,
    with_caught_up_voter_appended,
)
from kraftcheck.kraft_model.quorum.records import (
    ADMIN,
    ENDED_MODES,
    Acknowledgement,
    AddVoterRequest,
    Admin,
    AdminResponse,
    Answered,
    ApiVersionsRequest,
    ApiVersionsResponse,
    Batch,
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
    Change,
    DescribeQuorumResponse,
    EndQuorumEpochRequest,
    EndQuorumEpochResponse,
    Error,
    FetchRequest,
    FetchResponse,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    Key,
    Mode,
    Nil,
    Operation,
    Position,
    QuorumEpochRequest,
    RemoveVoterRequest,
    Replica,
    Told,
    UpdateVoterRequest,
    UpdateVoterResponse,
    Voter,
    VoteRequest,
    VoteResponse,
)
from kraftcheck.spec import ModelValue, Step, step_invariant


class MessageContracts(QuorumBase):
    """Step invariants of message handling, and of adding, removing and updating voters."""

    def comes_from_elsewhere(self, me: Replica, source: ModelValue) -> bool:
        """Whether a request is from another cluster (KIP-595, INCONSISTENT_CLUSTER_ID)."""
        return len({me.id, source} & self.other_cluster) == 1

    # Vote

    def vote_error(self, me: Replica, request: VoteRequest) -> Error:
        """Return the error of Vote (KIP-595, KIP-996, KIP-853, "Vote"; INVALID_VOTER_KEY as in Kafka)."""
        newest = request.epoch if request.pre_vote else request.epoch - 1
        errors = {
            Error.UNSUPPORTED_VERSION: request.pre_vote and me.id in self.without_pre_vote,
            Error.INCONSISTENT_CLUSTER_ID: self.comes_from_elsewhere(me, request.source),
            Error.FENCED_LEADER_EPOCH: request.epoch < me.epoch,
            Error.INVALID_REQUEST: request.last_epoch > newest,
            Error.INVALID_VOTER_KEY: not is_same_replica(request.voter, me.key),
        }
        return next((error for error, holds in errors.items() if holds), Error.NONE)

    def deserves_vote(self, me: Replica, request: VoteRequest) -> bool:
        """Whether a replica in the request's epoch grants a vote or pre-vote.

        A leader and an active follower reject pre-votes. A vote goes to one candidate per epoch, while the leader is
        unknown. Both require an up-to-date log.
        """
        is_behind = (request.last_epoch, request.last_offset) < last_epoch_and_end_offset(me.log)
        if request.pre_vote:
            return not is_behind and not (me.mode is Mode.LEADER or (me.mode is Mode.FOLLOWER and me.fetched))
        if me.mode not in (Mode.UNATTACHED, Mode.PROSPECTIVE):
            return False
        if not isinstance(me.voted, Nil):
            return is_same_replica(me.voted, request.candidate)
        return isinstance(me.leader, Nil) and not is_behind

    @step_invariant
    def votes_are_answered(self, before: Replica, after: Replica, message: VoteRequest, step: Step) -> bool:
        """A replica answers Vote exactly once, with its epoch and leader and the error that applies, if any.

        KIP-595, "Vote", Response Handling and Request Handling; KIP-853, "Vote"; KIP-996.
        """
        answers, error = sent_messages_of_type(step, VoteResponse), self.vote_error(before, message)
        epoch, leader, endpoint = expected_leader_fields_of_response(after, error)
        granted = len(answers) == 1 and answers[0].granted
        asked = message.pre_vote, message.voter, message.epoch, before.id, message.source
        return answers == [VoteResponse(epoch, leader, granted, error, *asked, endpoint)]

    @step_invariant
    def votes_are_granted_as_due(self, before: Replica, after: Replica, message: VoteRequest, step: Step) -> bool:
        """A vote is granted exactly when its conditions hold; unlike a pre-vote, it is persisted (KIP-595, "Vote").

        KIP-996, "Proposed Changes". A newer epoch is entered first; apart from that, the vote alone changes.
        """
        error = self.vote_error(before, message)
        takes_over = message.epoch > before.epoch and error in (Error.NONE, Error.INVALID_VOTER_KEY)
        if takes_over:
            fresh = {"mode": Mode.UNATTACHED, "epoch": message.epoch, "leader": Nil.NIL, "voted": Nil.NIL}
            now = before.but(**fresh, ballot=frozenset())
        else:
            now = before
        due = error is Error.NONE and self.deserves_vote(now, message)
        if any(answer.granted != due for answer in sent_messages_of_type(step, VoteResponse)):
            return False
        if due and not message.pre_vote:
            voted = message.candidate if isinstance(now.voted, Nil) else now.voted
            now = now.but(voted=voted, ballot=now.ballot | {message.candidate})
        if takes_over:
            return (after.mode, after.epoch, after.leader, after.voted, after.ballot) == (
                now.mode, now.epoch, now.leader, now.voted, now.ballot
            )  # fmt: skip
        return after == now

    @step_invariant
    def votes_are_counted(self, before: Replica, after: Replica, message: VoteResponse, step: Step) -> bool:
        """A round counts one response per voter; a majority of grants, or of rejected pre-votes, ends it.

        KIP-595, "Vote", Response Handling; KIP-996, "Proposed Changes". Responses of other rounds change nothing.
        """
        stands = Mode.PROSPECTIVE if message.pre_vote else Mode.CANDIDATE
        is_counted = message.voter in before.granted or message.voter in before.rejected
        if before.mode is not stands or message.of != before.epoch or is_counted:
            return neither_changes_nor_sends(before, after, step)
        if message.error is Error.UNSUPPORTED_VERSION:
            return becomes_candidate(before, after)
        expected, is_over = response_epoch_state_and_whether_handled(before, message)
        if is_over or expected != epoch_state(before):
            return enters_or_stays_in_epoch_state(before, after, expected)
        return (counts_grant_or_wins if message.granted else counts_refusal_or_gives_up)(before, after, message, step)

    # BeginQuorumEpoch and EndQuorumEpoch

    def acknowledges(
        self, before: Replica, after: Replica, request: QuorumEpochRequest, error: Error, step: Step
    ) -> bool:
        """Whether a replica answers an announcement with `error`; without PlainAnswers, only errors are sent."""
        answers = sent_messages_of_type(step, Acknowledgement)
        if after.mode in ENDED_MODES or (error is Error.NONE and not self.plain_answers):
            return not answers
        epoch, leader, place = expected_leader_fields_of_response(after, error)
        kind = BeginQuorumEpochResponse if isinstance(request, BeginQuorumEpochRequest) else EndQuorumEpochResponse
        return answers == [kind(epoch, leader, error, request.epoch, before.id, request.source, place)]

    @step_invariant
    def leaders_are_followed(
        self, before: Replica, after: Replica, message: BeginQuorumEpochRequest, step: Step
    ) -> bool:
        """A replica, voter or not, follows the leader of an epoch that is not older than its own.

        KIP-853, "BeginQuorumEpoch"; KIP-595, "BeginQuorumEpoch", Request Handling. It fetches from the endpoint in the
        request. A request to its former disk counts too.
        """
        is_meant = is_same_replica(message.voter, before.key)
        error = Error.NONE if is_meant else Error.INVALID_VOTER_KEY
        expected = epoch_state_after_message(before, message.source, message.epoch, message.endpoint)
        if message.epoch < before.epoch:
            error = Error.FENCED_LEADER_EPOCH
        if self.comes_from_elsewhere(before, message.source):
            error, expected = Error.INCONSISTENT_CLUSTER_ID, epoch_state(before)
        return enters_or_stays_in_epoch_state(before, after, expected) and self.acknowledges(
            before, after, message, error, step
        )

    @step_invariant
    def resignations_are_heard(
        self, before: Replica, after: Replica, message: EndQuorumEpochRequest, step: Step
    ) -> bool:
        """A follower whose leader resigns stops waiting for its timer if it is the first preferred successor.

        KIP-595, "EndQuorumEpoch", Request Handling; KIP-853, "EndQuorumEpoch": by replica key. A replica that did not
        know the leader follows it first. With no preferred successors, every follower ends its wait.
        """
        error = Error.FENCED_LEADER_EPOCH if message.epoch < before.epoch else Error.NONE
        expected = epoch_state_after_message(before, message.source, message.epoch, 0)
        if self.comes_from_elsewhere(before, message.source):
            error, expected = Error.INCONSISTENT_CLUSTER_ID, epoch_state(before)
        if not self.acknowledges(before, after, message, error, step):
            return False
        if error is Error.NONE and (expected.mode, expected.leader) == (Mode.FOLLOWER, message.source):
            is_first = not message.preferred or is_same_replica(message.preferred[0], before.key)
            return after.ended == is_first and enters_or_stays_in_epoch_state(
                before, after.but(ended=before.ended), expected
            )
        return enters_or_stays_in_epoch_state(before, after, expected)

    @step_invariant
    def acknowledgements_are_heard(self, before: Replica, after: Replica, message: Acknowledgement, step: Step) -> bool:
        """A leader or resigned leader enters a newer epoch found in a response; else its state is unchanged.

        KIP-595, "BeginQuorumEpoch", "EndQuorumEpoch", Response Handling. It fails if the acknowledging replica is not a
        voter (`LeaderState.addAcknowledgementFrom`).
        """
        if message.of != before.epoch or before.mode not in (Mode.LEADER, Mode.RESIGNED):
            return neither_changes_nor_sends(before, after, step)
        expected, is_over = response_epoch_state_and_whether_handled(before, message)
        is_counted = before.mode is Mode.LEADER and isinstance(message, BeginQuorumEpochResponse) and not is_over
        if is_counted and endpoint_of_voter_id(before, message.source) == 0:
            expected = failed_epoch_state(before)
        return enters_or_stays_in_epoch_state(before, after, expected) and (
            epoch_state(before) != expected or not step.sent
        )

    def leaders_error(self, me: Replica, request: FetchRequest | FetchSnapshotRequest | UpdateVoterRequest) -> Error:
        """Return the error of a request from another cluster or epoch, or to a replica that does not lead, or NONE."""
        if self.comes_from_elsewhere(me, request.source):
            return Error.INCONSISTENT_CLUSTER_ID
        if request.epoch != me.epoch:
            return Error.FENCED_LEADER_EPOCH if request.epoch < me.epoch else Error.UNKNOWN_LEADER_EPOCH
        return Error.NONE if me.mode is Mode.LEADER else Error.NOT_LEADER_OR_FOLLOWER

    # Fetch

    @step_invariant
    def fetches_are_answered(self, before: Replica, after: Replica, message: FetchRequest, step: Step) -> bool:
        """A leader answers a fetch once: with batches, a diverging epoch, or the snapshot to load.

        KIP-595, "Fetch", Request Handling; KIP-630, "Fetch", for the snapshot. Each of these responses carries the high
        watermark; an error response carries none.
        """
        error = self.leaders_error(before, message)
        records: tuple[Batch, ...] = ()
        parts: Position | Nil = Nil.NIL
        snapshot: Position | Nil = Nil.NIL
        if error is Error.NONE and needs_snapshot(before, message):
            snapshot = Position(before.start, before.log[before.start - 1].epoch)
        elif error is Error.NONE and not holds_fetch_position(before, message):
            parts = Position(*end_offset_and_last_epoch_up_to(before.log, message.last_epoch))
        elif error is Error.NONE:
            most = self.fetch_limit or len(before.log)
            records = before.log[message.offset :][:most]
        epoch, leader, place = expected_leader_fields_of_response(before, error)
        known = advertised_high_watermark(after) if error is Error.NONE else 0
        answer = FetchResponse(
            epoch, leader, error, known, records, parts, snapshot, message, before.id, message.source, place
        )
        return sent_messages_of_type(step, FetchResponse) == [answer]

    @step_invariant
    def fetches_are_noted(self, before: Replica, after: Replica, message: FetchRequest, step: Step) -> bool:
        """A leader records the fetch offset of a replica by replica key, if the position is valid.

        KIP-853, "Fetch"; KIP-595, "Fetch". It may then commit and resign. It may append the voter set with a new voter
        that has caught up (KIP-853, "AddVoter", steps 5 and 6), and no other record.
        """
        is_noted = self.leaders_error(before, message) is Error.NONE
        if not is_noted or needs_snapshot(before, message) or not holds_fetch_position(before, message):
            return after == before and len(step.sent) == 1
        key = Key(message.source, message.directory)
        key = next((voter.key for voter in before.voters if is_same_replica(voter.key, key)), key)
        noted = before.but(offsets=before.offsets.put(key, message.offset))
        noted = noted.but(high_watermark=high_watermark_by_majority(noted))
        if has_committed_own_removal(before, noted):
            return (after.mode, after.high_watermark) == (Mode.RESIGNED, noted.high_watermark)
        change = before.change
        if not isinstance(change, Change):
            return after == noted
        if 0 < change.offset <= noted.high_watermark:
            return after == noted.but(change=Nil.NIL)
        return after == with_caught_up_voter_appended(noted)

    @step_invariant
    def fetched_is_stored(self, before: Replica, after: Replica, message: FetchResponse, step: Step) -> bool:
        """A follower appends, truncates, or requests a snapshot, and updates its high watermark.

        KIP-595, "Fetch", Response Handling; KIP-630. Only the response to its pending request counts. It fails if it
        would fall below its high watermark, and stops if its software cannot read a record (KIP-853). Brokers do not
        flush fetched batches (KAFKA-10533).
        """
        if before.pending != message.request:
            return neither_changes_nor_sends(before, after, step)
        free = before.but(pending=Nil.NIL)
        expected, is_over = response_epoch_state_and_whether_handled(free, message)
        if is_over or expected.mode in ENDED_MODES:
            return sends_next_fetch(before, after, step) and enters_or_stays_in_epoch_state(
                free, after.but(pending=Nil.NIL), expected
            )
        if expected.mode is not Mode.FOLLOWER:
            return after.mode is Mode.FAILED
        if isinstance(message.snapshot, Position):
            place = expected.endpoint
            request = FetchSnapshotRequest(
                expected.epoch, message.snapshot, before.directory, before.id, message.source, place
            )
            kept = (after.log, after.high_watermark, after.pending) == (before.log, before.high_watermark, request)
            return step.sent == (request,) and kept and after.fetched
        return self.stores(before, after, message, expected, step)

    def stores(self, before: Replica, after: Replica, message: FetchResponse, expected: EpochState, step: Step) -> bool:
        """Whether a follower appends or truncates, updates its high watermark and fetches again, or fails."""
        log = before.log + message.records
        known = min(message.high_watermark, len(log)) or before.high_watermark
        if isinstance(message.diverging, Position):
            log, known = prefix_before_divergence(before.log, message.diverging), before.high_watermark
        if kraft_version_in_log(log, before.version) > before.software:
            return after.mode is Mode.DOWN
        if known < before.high_watermark or len(log) < before.high_watermark:
            return after.mode is Mode.FAILED
        stored = (after.log, after.high_watermark, after.start, after.fetched) == (log, known, before.start, True)
        flushed = after.flushed == (min(before.flushed, len(log)) if before.id in self.brokers else len(log))
        return stored and flushed and epoch_state(after) == expected and sends_next_fetch(before, after, step)

    # FetchSnapshot

    @step_invariant
    def snapshots_are_sent(self, before: Replica, after: Replica, message: FetchSnapshotRequest, step: Step) -> bool:
        """A leader answers FetchSnapshot once, with its snapshot or an error, and is otherwise unchanged.

        KIP-630, "FetchSnapshot", Request Handling; KIP-853, "FetchSnapshot".
        """
        error = self.leaders_error(before, message)
        if error is Error.NONE and message.snapshot.offset != before.start:
            error = Error.SNAPSHOT_NOT_FOUND
        content = before.log[: before.start] if error is Error.NONE else ()
        epoch, leader, place = expected_leader_fields_of_response(before, error)
        answer = FetchSnapshotResponse(epoch, leader, error, content, message, before.id, message.source, place)
        return after == before and step.sent == (answer,)

    @step_invariant
    def snapshots_are_loaded(self, before: Replica, after: Replica, message: FetchSnapshotResponse, step: Step) -> bool:
        """A follower replaces its log by the requested snapshot, all of it committed, and fetches from its end.

        KIP-630, "FetchSnapshot", Response Handling. After an error it fetches again.
        """
        if before.pending != message.request:
            return neither_changes_nor_sends(before, after, step)
        free = before.but(pending=Nil.NIL)
        expected, is_over = response_epoch_state_and_whether_handled(free, message)
        if is_over or expected.mode is not Mode.FOLLOWER or message.error is not Error.NONE:
            return sends_next_fetch(before, after, step) and enters_or_stays_in_epoch_state(
                free, after.but(pending=Nil.NIL), expected
            )
        if kraft_version_in_log(message.content, before.version) > before.software:
            return after.mode is Mode.DOWN
        size = len(message.content)
        loaded = (after.log, after.start, after.flushed, after.fetched) == (message.content, size, size, True)
        known = after.high_watermark == max(size, before.high_watermark)
        return loaded and known and epoch_state(after) == expected and sends_next_fetch(before, after, step)

    # AddVoter and RemoveVoter

    @step_invariant
    def joiners_are_served(
        self, before: Replica, after: Replica, message: AddVoterRequest | RemoveVoterRequest, step: Step
    ) -> bool:
        """A leader starts the change that a joining controller requests, or answers at once with an error.

        KIP-853, "AddVoter", "RemoveVoter"; "Controller auto joining".
        """
        wanted = message.voter
        adds = isinstance(wanted, Voter)
        error = add_voter_error(before, wanted) if isinstance(wanted, Voter) else remove_voter_error(before, wanted)
        if self.comes_from_elsewhere(before, message.source):
            error = Error.INCONSISTENT_CLUSTER_ID
        if error is not None:
            operation = Operation.ADD_VOTER if adds else Operation.REMOVE_VOTER
            return after == before and step.sent == (AdminResponse(operation, error, before.id, message.source),)
        return begins_voter_change(before, after, wanted, message.source, step)

    @step_invariant
    def administrators_are_served(self, before: Replica, after: Replica, step: Step) -> bool:
        """A replica starts the change that an administrator requests, or answers with an error that applies.

        KIP-853, "AddVoter", "RemoveVoter", "UpdateFeatures". A started change is not rejected, and a rejected one not
        started.
        """
        if step.consumes:
            return True
        for name, operation in (("added_voters", Operation.ADD_VOTER), ("removed_voters", Operation.REMOVE_VOTER)):
            if name in step.spends and before.mode is not Mode.FOLLOWER:
                return begins_admin_change(before, after, operation, step)
        if "upgrades" in step.spends and sent_messages_of_type(step, AdminResponse) == []:
            return begins_kraft_version_upgrade(self.old_brokers(), before, after)
        if "refusals" not in step.spends:
            return True
        refusals = [m for m in sent_messages_of_type(step, AdminResponse) if m.dest == ADMIN]
        refuses = (after, [*step.sent], len(refusals)) == (before, refusals, 1)
        return refuses and self.is_error_due(before, refusals[0])

    def old_brokers(self) -> bool:
        """Whether a registered broker does not support the newest kraft.version."""
        return not self.old_software.isdisjoint(self.brokers)

    def is_error_due(self, me: Replica, answer: AdminResponse) -> bool:
        """Whether a replica would answer some request for the operation of `answer` with the error of `answer`."""
        error = voter_change_error(me)
        if answer.operation is Operation.UPDATE_FEATURES:
            return answer.error in (update_features_error(self.old_brokers(), me, one) for one in (0, 1))
        if error is not None:
            return answer.error is error
        if answer.operation is Operation.ADD_VOTER:
            return answer.error is Error.DUPLICATE_VOTER
        return answer.error is Error.VOTER_NOT_FOUND or (answer.error is Error.INVALID_REQUEST and len(me.voters) == 1)

    # ApiVersions

    @step_invariant
    def versions_are_told(self, before: Replica, after: Replica, message: ApiVersionsRequest, step: Step) -> bool:
        """A replica answers ApiVersions once, with its supported kraft.version (KIP-853, "Supported features")."""
        answer = ApiVersionsResponse(before.software, message.of, before.id, message.source)
        return after == before and step.sent == (answer,)

    @step_invariant
    def new_voters_are_checked(self, before: Replica, after: Replica, message: ApiVersionsResponse, step: Step) -> bool:
        """A leader rejects a new voter that does not support its kraft.version; another one is added once caught up.

        KIP-853, "AddVoter", steps 4 to 6. An unexpected response changes nothing.
        """
        change = before.change
        asked = change.voter if isinstance(change, Change) and not change.checked else Nil.NIL
        is_awaited = isinstance(asked, Voter) and (asked.key.id, before.epoch) == (message.source, message.of)
        if not isinstance(change, Change) or not is_awaited:
            return neither_changes_nor_sends(before, after, step)
        if message.version < before.version:
            refusal = self.answers_due(before, change, Error.INVALID_REQUEST)
            return after == before.but(change=Nil.NIL) and sent_messages_without_history(step) == refusal
        waiting = with_caught_up_voter_appended(before.but(change=change.but(checked=True)))
        return after == waiting.but(high_watermark=high_watermark_by_majority(waiting)) and not step.sent

    def answers_due(self, me: Replica, change: Change, error: Error) -> list[AdminResponse | UpdateVoterResponse]:
        """Return the response that ends a change, if any; an administrator receives one only with PlainAnswers."""
        if isinstance(change.asked, UpdateVoterRequest):
            return [self.update_answer_due(me, error, change.asked)]
        if change.client == ADMIN and not self.plain_answers:
            return []
        return [AdminResponse(change.operation, error, me.id, change.client)]

    # UpdateVoter

    def update_answer_due(self, me: Replica, error: Error, request: UpdateVoterRequest) -> UpdateVoterResponse:
        epoch, leader, place = expected_leader_fields_of_response(me, error)
        return UpdateVoterResponse(epoch, leader, error, request, me.id, request.source, place)

    @step_invariant
    def updates_are_noted(self, before: Replica, after: Replica, message: UpdateVoterRequest, step: Step) -> bool:
        """A leader appends a voter's update, keeps it in memory at kraft.version 0, or answers with an error.

        KIP-853, "UpdateVoter", steps 1 to 8. The response follows the commit of the record.
        """
        told = message.voter
        known = [voter for voter in before.voters if is_same_replica(voter.key, told.key)]
        error = self.leaders_error(before, message)
        if error is Error.NONE:
            error = update_voter_error(before, message.version, is_known=bool(known))
        if error is not Error.NONE or before.version == 0:
            heard_of = before.heard if error is not Error.NONE else supporting_voters_after_update(before, message)
            answer = self.update_answer_due(before, error, message)
            return after == before.but(heard=heard_of) and step.sent == (answer,)
        voters = (before.voters - set(known)) | {Voter(told.key, told.endpoint)}
        change = Change(Operation.UPDATE_VOTER, Nil.NIL, True, 0, message.source, message)
        expected = with_appended_voters(before, voters, change)
        done = high_watermark_by_majority(expected) >= len(expected.log)
        answers = [self.update_answer_due(after, Error.NONE, message)] if done else []
        return (
            with_advanced_high_watermark(expected) == after
            and sent_messages_of_type(step, UpdateVoterResponse) == answers
        )

    @step_invariant
    def updates_are_acknowledged(
        self, before: Replica, after: Replica, message: UpdateVoterResponse, step: Step
    ) -> bool:
        """A voter repeats UpdateVoter until its leader acknowledges its current state (KIP-853, "UpdateVoter")."""
        own = UpdateVoterRequest(
            before.epoch, Voter(before.key, before.endpoint), before.software, before.id, message.source,
            before.leader_endpoint,
        )  # fmt: skip
        if before.mode is not Mode.FOLLOWER or message.request != own:
            return neither_changes_nor_sends(before, after, step)
        expected, _ = response_epoch_state_and_whether_handled(before, message)
        if (expected.mode, expected.epoch) != (Mode.FOLLOWER, before.epoch):
            return enters_or_stays_in_epoch_state(before, after, expected)
        done = message.error is Error.NONE
        return after == before.but(updating=False, updated=done) and not step.sent

    # Answers

    @step_invariant
    def joiners_go_on(self, before: Replica, after: Replica, message: AdminResponse, step: Step) -> bool:
        """A joining controller may send its next request after a response (KIP-853, "Controller auto joining")."""
        return after == before.but(joining=False) and not step.sent

    @step_invariant
    def administrators_remember(
        self, before: Admin, after: Admin, message: AdminResponse | DescribeQuorumResponse, step: Step
    ) -> bool:
        """With WatchAnswers an administrator records completed operations and no errors (KIP-853, "Admin client")."""
        if step.sent or not self.watch_answers or message.error is not Error.NONE:
            return after == before and not step.sent
        if isinstance(message, DescribeQuorumResponse):
            return after == before.but(described=before.described | {message})
        about = message.about
        what = Told(message.operation, about.subject if isinstance(about, Answered) else Nil.NIL)
        return after == before.but(told=before.told | {what})

    @step_invariant
    def quorums_are_described(self, before: Replica, after: Replica, step: Step) -> bool:
        """A leader reports the voters in use, the committed voters and the observers; another replica, an error.

        KIP-853, "DescribeQuorum"; KIP-595, "DescribeQuorum".
        """
        told = sent_messages_of_type(step, DescribeQuorumResponse)
        if not told:
            return "descriptions" not in step.spends
        error = Error.NONE if before.mode is Mode.LEADER else Error.NOT_LEADER_OR_FOLLOWER
        none: frozenset[Voter] = frozenset()
        answer = DescribeQuorumResponse(error, before.epoch, 0, none, none, frozenset(), before.id, ADMIN)
        if error is Error.NONE:
            fetching = {key for key in before.offsets if key.directory != 0}
            answer = answer.but(
                high_watermark=advertised_high_watermark(before),
                current=before.voters,
                committed=voters_in_log(before.log[: before.high_watermark], self.formatted_set(before)),
                observers=frozenset(
                    key for key in fetching if not any(is_same_replica(v.key, key) for v in before.voters)
                ),
            )
        return after == before and list(step.sent) == told == [answer]

    # Formatted disks

    def formatted_set(self, me: Replica) -> frozenset[Voter]:
        """Return the voter set of a newly formatted disk (KIP-853, "Bootstrapping with multiple voters").

        At kraft.version 0 it is `controller.quorum.voters`, without directory ids. A replaced disk has none.
        """
        if self.initial_version == 0:
            return frozenset(Voter(Key(host, 0)) for host in self.initial_voters)
        if me.directory > 1 or me.id not in self.initial_voters:
            return frozenset()
        alone = {me.id} if me.id in self.standalone else self.initial_voters
        return frozenset(Voter(Key(host)) for host in alone)

    @step_invariant
    def voters_follow_the_log(self, before: Replica, after: Replica, step: Step) -> bool:
        """Voter set and kraft.version are the last of log and snapshot, committed or not (KIP-853, "VotersRecord").

        KIP-853, "KRaftVersionRecord". The flushed offset lies within the log.
        """
        formatted = self.formatted_set(after)
        version = kraft_version_in_log(after.log, self.initial_version if formatted else 0)
        follows = (after.voters, after.version) == (voters_in_log(after.log, formatted), version)
        return follows and after.start <= after.flushed <= len(after.log)
