"""Elections of `reconfig`."""

from __future__ import annotations

from kraftcheck.kraft_model.reconfig.base import ReconfigBase
from kraftcheck.kraft_model.reconfig.log import is_quorum, last_epoch
from kraftcheck.kraft_model.reconfig.records import (
    BeginQuorumRequest,
    Error,
    Nil,
    RequestVoteRequest,
    RequestVoteResponse,
    Role,
    Server,
    ServerState,
    Shared,
)
from kraftcheck.kraft_model.reconfig.transitions import TransitionResult, handle_common_response, unattached, unchanged
from kraftcheck.spec import Steps, become, consume, internal, on


class ReconfigElections(ReconfigBase):
    """Standing for election, voting, and taking office."""

    @internal
    def request_vote(self, me: Server) -> Steps:
        """A voter that does not lead times out, votes for itself and asks its peers for votes."""
        if not self._may_stand(me):
            return
        if me.state not in (ServerState.FOLLOWER, ServerState.CANDIDATE, ServerState.UNATTACHED):
            return
        candidate = me.but(
            state=ServerState.CANDIDATE,
            current_epoch=me.current_epoch + 1,
            leader=Nil.NIL,
            voted_for=me.id,
            votes_granted=frozenset({me.id}),
            pending_fetch=Nil.NIL,
        )
        requests = [
            RequestVoteRequest(candidate.current_epoch, last_epoch(me.log), len(me.log), me.id, peer)
            for peer in self._peers(me)
        ]
        yield become(candidate).send_once(*requests).spend("elections")

    def _may_stand(self, me: Server) -> bool:
        """Whether this server may stand for election: a voter, and a member of the configuration that it uses."""
        return me.role is Role.VOTER and me.id in me.config.members

    @on(RequestVoteRequest)
    def handle_request_vote_request(self, me: Server, request: RequestVoteRequest) -> Steps:
        """Any server votes once an epoch, for a log not behind its own; an observer too: its configuration may lag."""
        if request.epoch < me.current_epoch:
            yield consume(me).reply(
                RequestVoteResponse(
                    me.current_epoch, me.leader, False, Error.FENCED_LEADER_EPOCH, me.id, request.source
                )
            )
            return
        now = unattached(request.epoch) if request.epoch > me.current_epoch else unchanged(me)
        granted = self._may_vote(me, now, request) and self._log_is_current(me, request)
        if granted and now.state is ServerState.UNATTACHED:
            now = TransitionResult(ServerState.VOTED, request.epoch, Nil.NIL)
        voter = now.of(me).but(
            voted_for=request.source if granted else me.voted_for,
            pending_fetch=me.pending_fetch if now.state is me.state else Nil.NIL,
        )
        response = RequestVoteResponse(request.epoch, now.leader, granted, Nil.NIL, me.id, request.source)
        yield consume(voter).reply(response)

    def _may_vote(self, me: Server, now: TransitionResult, request: RequestVoteRequest) -> bool:
        """Whether this epoch's vote is free, or was given to this candidate."""
        if now.state is ServerState.UNATTACHED:
            return True
        return now.state is ServerState.VOTED and me.voted_for == request.source

    def _log_is_current(self, me: Server, request: RequestVoteRequest) -> bool:
        """Whether the candidate's log is not behind this server's."""
        return (request.last_log_epoch, request.last_log_offset) >= (last_epoch(me.log), len(me.log))

    @on(RequestVoteResponse)
    def handle_request_vote_response(self, me: Server, vote: RequestVoteResponse) -> Steps:
        """A voter counts a granted vote while it is candidate; a newer epoch or a known leader ends the candidacy."""
        if me.role is not Role.VOTER:
            return
        outcome = handle_common_response(me, vote.leader, vote.epoch, vote.error)
        if outcome.handled:
            yield consume(outcome.of(me))
            return
        if me.state is not ServerState.CANDIDATE:
            return
        granted = me.votes_granted | {vote.source} if vote.vote_granted else me.votes_granted
        yield consume(me.but(votes_granted=granted))

    @internal
    def become_leader(self, me: Server, shared: Shared) -> Steps:
        """A candidate with the votes of a majority becomes leader and tells its peers."""
        if me.state is not ServerState.CANDIDATE:
            return
        if not is_quorum(me.config.members, me.votes_granted):
            return
        leader = me.but(state=ServerState.LEADER, leader=me.id, end_offset=self._no_offsets(shared))
        announcements = [BeginQuorumRequest(me.current_epoch, me.id, peer) for peer in self._peers(me)]
        yield become(leader).send_once(*announcements)
