"""Where the real Kafka is known to do something else than `Quorum`: a class for each difference.

Walks beside Kafka (`kraftcheck lockstep`) put these classes under the model or its variant, so that both sides agree
exactly and every other difference shows. Each says what Kafka does, and where. `docs/kafka.md` has the walks.
"""

# ruff: noqa: D102 - a method here overrides one that says what it is for
from __future__ import annotations

from kraftcheck.kraft_model.quorum import Quorum
from kraftcheck.kraft_model.quorum.log import is_voter, last_epoch, own_votes
from kraftcheck.kraft_model.quorum.messages import (
    ApiVersionsResponse,
    BeginQuorumEpochResponse,
    EndQuorumEpochResponse,
    VoteRequest,
)
from kraftcheck.kraft_model.quorum.records import Error, Key, Mode, Nil, Voter
from kraftcheck.kraft_model.quorum.state import Change, Replica, Shared
from kraftcheck.kraft_model.quorum.transitions import remembered, stopped, unattached, voter_of_id
from kraftcheck.kraft_model.quorum.variants.readings import InvalidVoterKey, ResignsWhileAsked
from kraftcheck.spec import Record, Step, Steps


class RestartsByItsVote(Quorum):
    """`QuorumState.initialize` asks whether the stored vote is its own before it asks for a leader.

    So a candidate that lost stands again in the epoch of the winner; an own vote of a replica that is no voter any more
    makes `CandidateState` throw, and the process cannot start. The only voter stands at once
    (`KafkaRaftClient.initialize`). All versions.
    """

    def after_restart(self, me: Replica) -> Replica:
        back = remembered(me)
        if last_epoch(back.log) > back.epoch:
            back = unattached(back, last_epoch(back.log))
        elif back.leader == back.id:
            back = back.but(mode=Mode.RESIGNED)
        elif isinstance(back.voted, Key) and self.voted_for(back.voted, back.key):
            stands = back.but(mode=Mode.CANDIDATE, granted=own_votes(back), leader=Nil.NIL)
            return stands if is_voter(back) else stopped(me)
        elif not isinstance(back.leader, Nil) and voter_of_id(back, back.leader):
            back = back.but(mode=Mode.FOLLOWER)
        else:
            back = back.but(mode=Mode.UNATTACHED)
        alone = is_voter(back) and len(back.voters) == 1
        return back.but(mode=Mode.UNATTACHED, leader=Nil.NIL) if alone else back


class PreVotesBeginAnew(Quorum):
    """A prospective that grants a vote begins its round anew, since the vote makes a new `ProspectiveState`.

    It forgets who has answered, and asks these again (`QuorumState.prospectiveAddVotedState`). From 4.0 on.
    """

    def handle_vote_request(self, me: Replica, request: VoteRequest, shared: Shared) -> Steps:
        for step in super().handle_vote_request(me, request, shared):
            after = step.me
            assert isinstance(after, Replica)
            if me.mode is Mode.PROSPECTIVE is after.mode and after.epoch == me.epoch and after.voted != me.voted:
                asked = [r for r in self.vote_requests(after, pre_vote=True) if self.has_answered(me, r)]
                yield step.but(me=after.but(granted=own_votes(me), rejected=frozenset())).send(*asked)
            else:
                yield step

    def has_answered(self, me: Replica, request: Record) -> bool:
        """Whether a prospective has heard from the voter that a request is for."""
        return isinstance(request, VoteRequest) and request.voter in me.granted | me.rejected


class CaughtUpWithinTheHour(Quorum):
    """AddVoter takes a replica that was at the log end at some time in the last hour, or gives up.

    `AddVoterHandler.handleApiVersionsResponse`, `LeaderState.isReplicaCaughtUp`; KAFKA-17147. Without clocks a
    replica that has fetched may have been there. All versions.
    """

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


class AcknowledgementOfNonVoterKills(Quorum):
    """A leader dies of an answer to BeginQuorumEpoch from a voter that it has removed since it asked.

    `LeaderState.addAcknowledgementFrom` throws "Unexpected acknowledgement from non-voter". All versions.
    """

    def handle_acknowledgement(
        self, me: Replica, response: BeginQuorumEpochResponse | EndQuorumEpochResponse, shared: Shared
    ) -> Steps:
        counted = isinstance(response, BeginQuorumEpochResponse) and response.error is Error.NONE
        counted = counted and me.mode is Mode.LEADER and response.of == me.epoch == response.epoch
        if counted and not self.is_cut(me, response.source, shared) and not voter_of_id(me, response.source):
            yield self.dies(me)
        else:
            yield from super().handle_acknowledgement(me, response, shared)

    def dies(self, me: Replica) -> Step:
        """Return the step in which the process ends."""
        return self.taken(me, stopped(me), starts=True)


DIFFERENCES: tuple[type[Quorum], ...] = (
    RestartsByItsVote,
    PreVotesBeginAnew,
    CaughtUpWithinTheHour,
    AcknowledgementOfNonVoterKills,
    InvalidVoterKey,
    ResignsWhileAsked,
)
"""All known differences; the first goes before the later ones where two change the same."""


def as_kafka(protocol: type[Quorum]) -> type[Quorum]:
    """Return a model with all known differences.

    Parameters
    ----------
    protocol
        The model or a variant; what it changes goes before the differences.
    """
    parts = [part for part in DIFFERENCES if not issubclass(protocol, part)]
    bases = (*parts, Quorum) if protocol is Quorum else (protocol, *parts)
    return type(protocol.__name__, bases, {"__doc__": protocol.__doc__})
