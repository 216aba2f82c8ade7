"""Where the real Kafka is known to throw, or to ask without end, when disks are lost: a class for each difference."""

# ruff: noqa: D102 - a method here overrides one that says what it is for
from __future__ import annotations

from kraftcheck.kraft_model.quorum import Quorum
from kraftcheck.kraft_model.quorum.messages import (
    BeginQuorumEpochRequest,
    EndQuorumEpochRequest,
    FetchResponse,
    FetchSnapshotResponse,
    UpdateVoterResponse,
    VoteResponse,
)
from kraftcheck.kraft_model.quorum.records import Error, Mode, Nil
from kraftcheck.kraft_model.quorum.state import Replica, Shared
from kraftcheck.kraft_model.quorum.transitions import stopped, voter_of_id
from kraftcheck.spec import ModelValue, Steps

TRANSITIONS = (Error.FENCED_LEADER_EPOCH, Error.NOT_LEADER_OR_FOLLOWER)


class VotersAreAskedAgain(Quorum):
    """A prospective or candidate asks a voter again, and at once, if its answer was an error that says nothing else.

    So with INVALID_VOTER_KEY of a voter with a new disk: `KafkaRaftClient.maybeHandleCommonResponse` counts the answer
    as handled, and `maybeSendVoteRequests` asks every voter whose answer is not recorded. All versions.
    """

    def handle_vote_response(self, me: Replica, response: VoteResponse, shared: Shared) -> Steps:
        for step in super().handle_vote_response(me, response, shared):
            after = step.me
            assert isinstance(after, Replica)
            awaited = self.awaits(me, response) and response.error is not Error.NONE
            if awaited and after == me and not self.majority_is_lost(me.voters, me.rejected):
                again = self.vote_requests(me, pre_vote=response.pre_vote)
                yield step.send(*(request for request in again if request.dest == response.source))  # type: ignore[attr-defined]
            else:
                yield step


class InconsistentLeaderKills(Quorum):
    """A replica dies when it hears that it leads, or of another leader of its epoch than the one that it knows.

    `KafkaRaftClient.maybeTransition` throws "inconsistent with current leader". So a leader that lost its disk dies as
    soon as another replica tells it of its own epoch. It also dies of an answer without error, to a fetch from a
    bootstrap server, of a leader that it knows and has no endpoints of: `quorum.followerStateOrThrow`. All versions.
    """

    def is_consistent(self, me: Replica, leader: ModelValue | Nil, epoch: int) -> bool:
        """Whether what is told of a leader fits to what a replica knows."""
        if leader == me.id:
            return me.mode is Mode.LEADER
        return epoch != me.epoch or isinstance(leader, Nil) or isinstance(me.leader, Nil) or leader == me.leader

    def common_response(self, me: Replica, error: Error, leader: ModelValue | Nil, epoch: int) -> tuple[Replica, bool]:
        if epoch < me.epoch or error is Error.UNKNOWN_LEADER_EPOCH:
            return me, True
        if epoch > me.epoch or error in TRANSITIONS:
            dies = not self.is_consistent(me, leader, epoch)
        elif isinstance(me.leader, Nil):
            dies = leader == me.id
        else:
            dies = me.mode is Mode.UNATTACHED
        return (stopped(me), True) if dies else super().common_response(me, error, leader, epoch)

    def handle_begin_quorum_epoch_request(self, me: Replica, request: BeginQuorumEpochRequest, shared: Shared) -> Steps:
        plain = self.is_cut(me, request.source, shared) or self.is_foreign(me, request.source)
        if plain or self.is_stale(me, request.epoch) or self.is_consistent(me, request.source, request.epoch):
            yield from super().handle_begin_quorum_epoch_request(me, request, shared)
        else:
            yield self.taken(me, stopped(me), starts=True)

    def handle_end_quorum_epoch_request(self, me: Replica, request: EndQuorumEpochRequest, shared: Shared) -> Steps:
        plain = self.is_cut(me, request.source, shared) or self.is_foreign(me, request.source)
        if plain or self.is_stale(me, request.epoch) or self.is_consistent(me, request.source, request.epoch):
            yield from super().handle_end_quorum_epoch_request(me, request, shared)
        else:
            yield self.taken(me, stopped(me), starts=True)


class UnknownEndpointsKill(Quorum):
    """A replica may die of an answer that names a leader that is not in its voter set.

    It does where the sender does not know the leader's endpoints either, as after a restart: `transitionToFollower`
    throws "Unknown leader endpoints". If the replica has heard of this leader before, and is unattached for want of its
    endpoints, it stays so (`maybeTransition`). What the sender knows the model does not say, so it may do either. All
    versions.
    """

    def or_dies(self, me: Replica, source: ModelValue, steps: Steps) -> Steps:
        """Yield steps, and one in which the replica dies where it would follow a leader without endpoints."""
        for step in steps:
            yield step
            after = step.me
            assert isinstance(after, Replica)
            news = (after.mode, after.epoch, after.leader) != (me.mode, me.epoch, me.leader)
            if not news or after.mode is not Mode.FOLLOWER or self.is_reachable(me, after.leader, source):
                continue
            if (me.mode, me.epoch, me.leader) == (Mode.UNATTACHED, after.epoch, after.leader):
                yield self.taken(me, me.but(pending=Nil.NIL))
            yield self.taken(me, stopped(me), starts=True)

    def is_reachable(self, me: Replica, leader: ModelValue | Nil, source: ModelValue) -> bool:
        """Whether a replica surely knows a leader's endpoints after an answer."""
        return isinstance(leader, Nil) or leader == source or voter_of_id(me, leader)

    def handle_fetch_response(self, me: Replica, response: FetchResponse, shared: Shared) -> Steps:
        yield from self.or_dies(me, response.source, super().handle_fetch_response(me, response, shared))

    def handle_fetch_snapshot_response(self, me: Replica, response: FetchSnapshotResponse, shared: Shared) -> Steps:
        yield from self.or_dies(me, response.source, super().handle_fetch_snapshot_response(me, response, shared))

    def handle_vote_response(self, me: Replica, response: VoteResponse, shared: Shared) -> Steps:
        yield from self.or_dies(me, response.source, super().handle_vote_response(me, response, shared))

    def handle_update_voter_response(self, me: Replica, response: UpdateVoterResponse, shared: Shared) -> Steps:
        yield from self.or_dies(me, response.source, super().handle_update_voter_response(me, response, shared))


class LostDiskAnswersNobody(Quorum):
    """A leader that loses its disk answers no administrator: its process has ended."""

    def lose_disk(self, me: Replica, shared: Shared) -> Steps:
        yield from super().lose_disk(me.but(change=Nil.NIL), shared)


DIFFERENCES: tuple[type[Quorum], ...] = (
    UnknownEndpointsKill,
    VotersAreAskedAgain,
    InconsistentLeaderKills,
    LostDiskAnswersNobody,
)
"""All of these; the first goes before the later ones where two change the same."""
