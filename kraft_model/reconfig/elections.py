"""Restarts and elections of `reconfig`."""

from __future__ import annotations

from kraftcheck.kraft_model.reconfig.base import ReconfigBase
from kraftcheck.kraft_model.reconfig.records import (
    BeginQuorumRequest,
    Error,
    Nil,
    RequestVoteRequest,
    RequestVoteResponse,
    Role,
    Server,
    ServerId,
    ServerState,
    Shared,
)
from kraftcheck.kraft_model.reconfig.rules import (
    TransitionResult,
    handle_common_response,
    is_quorum,
    last_epoch,
    no_transition,
    transition_to_unattached,
)
from kraftcheck.spec import Map, Record, Step, Steps, become, consume, internal, on, projection


class MembershipSummary(Record):
    """State, role and configured members of a server, which a restart without state reads."""

    state: ServerState
    role: Role
    members: frozenset[ServerId]


class ReconfigElections(ReconfigBase):
    """Restarts with and without state; candidacy, votes, and becoming leader."""

    @internal
    def restart_with_state(self, me: Server, shared: Shared) -> Steps:
        """A running server restarts from stable storage: role, epoch, vote, leader and log survive.

        A leader does not lead the same epoch again: it is resigned, or unattached if it is an observer.
        """
        if me.state is ServerState.DEAD_NO_STATE:
            return
        restarted = me.but(
            state=self._state_after_restart(me),
            leader=Nil.NIL if me.state is ServerState.LEADER else me.leader,
            votes_granted=frozenset(),
            end_offset=self._no_offsets(shared),
            high_watermark=0,
            pending_fetch=Nil.NIL,
        )
        yield become(restarted).spend("restarts")

    def _state_after_restart(self, me: Server) -> ServerState:
        if me.state is not ServerState.LEADER:
            return me.state
        return ServerState.RESIGNED if me.role is Role.VOTER else ServerState.UNATTACHED

    @projection
    def membership(self, me: Server) -> MembershipSummary:
        """Return a server's state, role and configured members."""
        return MembershipSummary(me.state, me.role, me.config.members)

    @internal(reads=membership)
    def restart_without_state(self, me: Server, shared: Shared, membership: Map[ServerId, MembershipSummary]) -> Steps:
        """A member of a configuration restarts on a blank disk with a new identity; the old one may live on.

        As in the specification, this action is never enabled (see `_is_voter`), and counts no restart. It leaves a
        zombie exactly where the specification intends none.
        """
        if len(shared.servers) >= self.max_spawned_servers:
            return
        if not any(
            self._is_voter(peer) and me.id in peer.members and len(peer.members) > self.min_cluster_size
            for peer in membership.values()
        ):
            return
        if me.state is ServerState.DEAD_NO_STATE:
            return
        identity = ServerId(me.id.host, shared.disk_id_gen + 1)
        blank = Server(identity, end_offset=self._no_offsets(shared))
        dead = me.but(role=Role.DEAD_NO_STATE, state=ServerState.DEAD_NO_STATE)
        started = {"servers": shared.servers | {identity}, "disk_id_gen": shared.disk_id_gen + 1}
        for leave_zombie in (False, True):
            yield self._without_state(me, dead, leave_zombie).write(blank).put(**started)

    def _is_voter(self, peer: MembershipSummary) -> bool:
        """Whether `state[j] = Voter`: never true, since Voter is a role and not a state."""
        return peer.state.value == Role.VOTER.value

    def _without_state(self, me: Server, dead: Server, leave_zombie: bool) -> Step:
        """Return the old server's step when its host restarts without state: dead if `leave_zombie`, as specified."""
        return become(dead if leave_zombie else me).need("restarts")

    @internal
    def request_vote(self, me: Server) -> Steps:
        """A voter that is not leader times out, votes for itself and requests votes from its peers."""
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
        """Whether this server may become candidate: a voter, and a member of its configuration."""
        return me.role is Role.VOTER and me.id in me.config.members

    @on(RequestVoteRequest)
    def handle_request_vote_request(self, me: Server, request: RequestVoteRequest) -> Steps:
        """A server, voter or not, votes once per epoch for an up-to-date log: its configuration may lag."""
        if request.epoch < me.current_epoch:
            yield consume(me).reply(
                RequestVoteResponse(
                    me.current_epoch, me.leader, False, Error.FENCED_LEADER_EPOCH, me.id, request.source
                )
            )
            return
        now = transition_to_unattached(request.epoch) if request.epoch > me.current_epoch else no_transition(me)
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
        """Whether this server is unattached in the epoch, or has already voted for this candidate."""
        if now.state is ServerState.UNATTACHED:
            return True
        return now.state is ServerState.VOTED and me.voted_for == request.source

    def _log_is_current(self, me: Server, request: RequestVoteRequest) -> bool:
        """Whether the candidate's log is at least as up to date as this server's."""
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
        """A candidate with the votes of a majority becomes leader and announces itself to its peers."""
        if me.state is not ServerState.CANDIDATE:
            return
        if not is_quorum(me.config.members, me.votes_granted):
            return
        leader = me.but(state=ServerState.LEADER, leader=me.id, end_offset=self._no_offsets(shared))
        announcements = [BeginQuorumRequest(me.current_epoch, me.id, peer) for peer in self._peers(me)]
        yield become(leader).send_once(*announcements)
