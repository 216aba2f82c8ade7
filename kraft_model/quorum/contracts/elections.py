"""Contracts of elections: Vote, BeginQuorumEpoch, EndQuorumEpoch and their answers (KIP-595, KIP-853, KIP-996)."""

from __future__ import annotations

from kraftcheck.kraft_model.quorum.base import QuorumBase
from kraftcheck.kraft_model.quorum.contracts.rules import (
    UNNAMED,
    are_most,
    end,
    failure,
    heard,
    is_same,
    is_silent,
    known_endpoint,
    role,
    role_after,
    seats,
    sent,
    takes_role,
)
from kraftcheck.kraft_model.quorum.messages import (
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
    EndQuorumEpochRequest,
    EndQuorumEpochResponse,
    VoteRequest,
    VoteResponse,
)
from kraftcheck.kraft_model.quorum.records import ENDED, Error, Key, Mode, Nil
from kraftcheck.kraft_model.quorum.state import Replica
from kraftcheck.spec import ModelValue, Step, step_invariant


class ElectionContracts(QuorumBase):
    """What replicas make of the messages of elections, and how they answer them."""

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
            Error.INVALID_VOTER_KEY: not is_same(request.voter, me.key),
        }
        return next((error for error, holds in errors.items() if holds), Error.NONE)

    def deserves_vote(self, me: Replica, request: VoteRequest) -> bool:
        """Whether a replica of the request's epoch grants it: a pre-vote, unless it leads or follows actively.

        A vote goes to one candidate an epoch, while no leader is known; both go to a log that is not behind.
        """
        is_behind = (request.last_epoch, request.last_offset) < end(me.log)
        if request.pre_vote:
            return not is_behind and not (me.mode is Mode.LEADER or (me.mode is Mode.FOLLOWER and me.fetched))
        if me.mode not in (Mode.UNATTACHED, Mode.PROSPECTIVE):
            return False
        if not isinstance(me.voted, Nil):
            return is_same(me.voted, request.candidate)
        return isinstance(me.leader, Nil) and not is_behind

    @step_invariant
    def votes_are_answered(self, before: Replica, after: Replica, message: VoteRequest, step: Step) -> bool:
        """Whoever is asked for its vote answers once, with its epoch and leader and the error that holds, if any.

        KIP-595, "Vote", Response Handling and Request Handling; KIP-853, "Vote"; KIP-996.
        """
        answers, error = sent(step, VoteResponse), self.vote_error(before, message)
        hides = error in (Error.UNSUPPORTED_VERSION, Error.INCONSISTENT_CLUSTER_ID)
        epoch, leader, endpoint = UNNAMED if hides else (after.epoch, after.leader, place_of_leader(after))
        granted = len(answers) == 1 and answers[0].granted
        asked = message.pre_vote, message.voter, message.epoch, before.id, message.source
        return answers == [VoteResponse(epoch, leader, granted, error, *asked, endpoint)]

    @step_invariant
    def votes_are_granted_as_due(self, before: Replica, after: Replica, message: VoteRequest, step: Step) -> bool:
        """A vote is granted if, and only if, it is due, and then it is written; a pre-vote is not (KIP-595, "Vote").

        KIP-996, "Proposed Changes". A newer epoch is taken over first; else nothing but the vote changes.
        """
        error = self.vote_error(before, message)
        takes_over = message.epoch > before.epoch and error in (Error.NONE, Error.INVALID_VOTER_KEY)
        if takes_over:
            fresh = {"mode": Mode.UNATTACHED, "epoch": message.epoch, "leader": Nil.NIL, "voted": Nil.NIL}
            now = before.but(**fresh, ballot=frozenset())
        else:
            now = before
        due = error is Error.NONE and self.deserves_vote(now, message)
        if any(answer.granted != due for answer in sent(step, VoteResponse)):
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
        """A round counts each voter's answer once; most grants end it, and so do too many refusals of a pre-vote.

        KIP-595, "Vote", Response Handling; KIP-996, "Proposed Changes". Answers to other rounds change nothing.
        """
        stands = Mode.PROSPECTIVE if message.pre_vote else Mode.CANDIDATE
        is_counted = message.voter in before.granted or message.voter in before.rejected
        if before.mode is not stands or message.of != before.epoch or is_counted:
            return is_silent(before, after, step)
        if message.error is Error.UNSUPPORTED_VERSION:
            return stood(before, after)
        expected, is_over = heard(before, message)
        if is_over or expected != role(before):
            return takes_role(before, after, expected)
        if message.granted:
            granted = before.granted | {message.voter}
            if are_most(granted, before.voters):
                return stood(before, after) if message.pre_vote else won(before, after)
            return after == before.but(granted=granted) and not step.sent
        rejected = before.rejected | {message.voter}
        rest = {voter.key for voter in before.voters} - rejected
        if message.pre_vote and not are_most(rest, before.voters):
            return gave_up(before, after)
        return after == before.but(rejected=rejected) and not step.sent

    # BeginQuorumEpoch and EndQuorumEpoch

    def acknowledges(
        self,
        before: Replica,
        after: Replica,
        request: BeginQuorumEpochRequest | EndQuorumEpochRequest,
        error: Error,
        step: Step,
    ) -> bool:
        """Whether a replica answers with its epoch and leader, and with this error.

        Without PlainAnswers only errors are told.
        """
        answers = [m for m in step.sent if isinstance(m, BeginQuorumEpochResponse | EndQuorumEpochResponse)]
        if after.mode in ENDED or (error is Error.NONE and not self.plain_answers):
            return not answers
        hides = error is Error.INCONSISTENT_CLUSTER_ID
        epoch, leader, place = UNNAMED if hides else (after.epoch, after.leader, place_of_leader(after))
        kind = BeginQuorumEpochResponse if isinstance(request, BeginQuorumEpochRequest) else EndQuorumEpochResponse
        return answers == [kind(epoch, leader, error, request.epoch, before.id, request.source, place)]

    @step_invariant
    def leaders_are_followed(
        self, before: Replica, after: Replica, message: BeginQuorumEpochRequest, step: Step
    ) -> bool:
        """A replica, voter or not, follows whoever leads an epoch that is not older than its own.

        KIP-853, "BeginQuorumEpoch"; KIP-595, "BeginQuorumEpoch", Request Handling. It fetches from the endpoint that
        the request names. It follows also where the request was meant for its former disk.
        """
        is_meant = is_same(message.voter, before.key)
        error = Error.NONE if is_meant else Error.INVALID_VOTER_KEY
        expected = role_after(before, message.source, message.epoch, message.endpoint)
        if message.epoch < before.epoch:
            error = Error.FENCED_LEADER_EPOCH
        if self.comes_from_elsewhere(before, message.source):
            error, expected = Error.INCONSISTENT_CLUSTER_ID, role(before)
        return takes_role(before, after, expected) and self.acknowledges(before, after, message, error, step)

    @step_invariant
    def resignations_are_heard(
        self, before: Replica, after: Replica, message: EndQuorumEpochRequest, step: Step
    ) -> bool:
        """A follower of the leader that resigns need not wait any more if it is the first of those preferred.

        KIP-595, "EndQuorumEpoch", Request Handling; KIP-853, "EndQuorumEpoch": by replica key. Whoever did not know
        the leader follows it first. Where nobody is preferred, nobody waits.
        """
        error = Error.FENCED_LEADER_EPOCH if message.epoch < before.epoch else Error.NONE
        expected = role_after(before, message.source, message.epoch, 0)
        if self.comes_from_elsewhere(before, message.source):
            error, expected = Error.INCONSISTENT_CLUSTER_ID, role(before)
        if not self.acknowledges(before, after, message, error, step):
            return False
        if error is Error.NONE and (expected.mode, expected.leader) == (Mode.FOLLOWER, message.source):
            is_first = not message.preferred or is_same(message.preferred[0], before.key)
            return after.ended == is_first and takes_role(before, after.but(ended=before.ended), expected)
        return takes_role(before, after, expected)

    @step_invariant
    def acknowledgements_are_heard(
        self, before: Replica, after: Replica, message: BeginQuorumEpochResponse | EndQuorumEpochResponse, step: Step
    ) -> bool:
        """A leader, or one that resigned, takes over a newer epoch that an answer tells; else nothing changes.

        KIP-595, "BeginQuorumEpoch", "EndQuorumEpoch", Response Handling. It fails if somebody acknowledges that is no
        voter (`LeaderState.addAcknowledgementFrom`).
        """
        if message.of != before.epoch or before.mode not in (Mode.LEADER, Mode.RESIGNED):
            return is_silent(before, after, step)
        expected, is_over = heard(before, message)
        is_counted = before.mode is Mode.LEADER and isinstance(message, BeginQuorumEpochResponse) and not is_over
        if is_counted and known_endpoint(before, message.source) == 0:
            expected = failure(before)
        return takes_role(before, after, expected) and (role(before) != expected or not step.sent)


def place_of_leader(me: Replica) -> int:
    """Return the endpoint that a replica names: its own where it leads, else where it reaches its leader."""
    return me.endpoint if me.leader == me.id else me.leader_endpoint


def stood(before: Replica, after: Replica) -> bool:
    """Whether a replica stands for election: next epoch, its own vote, nobody's follower (KIP-595, "Vote").

    The only voter wins at once.
    """
    if after.epoch != before.epoch + 1:
        return False
    if len(after.voters) == 1:
        return won(before.but(epoch=after.epoch), after)
    own: Key = after.key
    return (after.mode, after.leader, after.voted, after.granted) == (Mode.CANDIDATE, Nil.NIL, own, seats(before))


def won(before: Replica, after: Replica) -> bool:
    """Whether a replica leads its epoch now, or failed after it wrote that, and comes back as one that resigned."""
    if (after.epoch, after.leader) == (before.epoch, before.id):
        return after.mode in (Mode.LEADER, Mode.RESIGNED)
    return len(before.voters) == 1 and after.mode is Mode.UNATTACHED and after.epoch == before.epoch


def gave_up(before: Replica, after: Replica) -> bool:
    """Whether a replica is back after a lost pre-vote round: it follows the leader that it can reach, if any."""
    reaches = not isinstance(before.leader, Nil) and before.leader != before.id and before.leader_endpoint > 0
    mode = Mode.FOLLOWER if reaches else Mode.UNATTACHED
    return (after.mode, after.epoch, after.leader, after.voted) == (mode, before.epoch, before.leader, before.voted)


__all__ = ["ElectionContracts"]
