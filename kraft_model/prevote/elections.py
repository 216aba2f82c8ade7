"""Elections of `prevote`: timeouts, pre-votes, votes, vote counts, and becoming leader."""

from __future__ import annotations

from collections.abc import Iterable

from kraftcheck.kraft_model.prevote.base import PrevoteBase, zero_end_offsets
from kraftcheck.kraft_model.prevote.records import (
    Command,
    ElectedLeaderRequest,
    Entry,
    Error,
    FetchRequest,
    FetchResponse,
    FetchState,
    LastFetch,
    Nil,
    RequestVoteRequest,
    RequestVoteResponse,
    Server,
    ServerState,
    Shared,
)
from kraftcheck.kraft_model.prevote.rules import (
    ServerTransition,
    handle_common_response,
    is_voter,
    no_transition,
    to_candidate,
    to_follower,
    to_leader,
    to_prospective,
    to_resigned,
    to_unattached,
    transition_with_vote,
)
from kraftcheck.kraft_model.reconfig.rules import is_quorum, last_epoch
from kraftcheck.spec import Map, Record, Step, Steps, become, consume, internal, on, ordered, projection


class ElectionSummary(Record):
    """State and epoch of a server, and whether it is a voter; the timeouts of other servers read them."""

    state: ServerState
    epoch: int
    votes: bool


class VoteUnderWay(Record):
    """A vote or pre-vote whose request or response is in flight: its candidate, and which of the two it is."""

    candidate: int
    pre_vote: bool


OPEN_TO_PRE_VOTES = (ServerState.UNATTACHED, ServerState.PROSPECTIVE, ServerState.CANDIDATE, ServerState.RESIGNED)


class PrevoteElections(PrevoteBase):
    @projection
    def standing(self, me: Server) -> ElectionSummary:
        """Return a server's state and epoch, and whether it is a voter."""
        return ElectionSummary(me.state, me.current_epoch, is_voter(me))

    @projection
    def votes_under_way(self, messages: tuple[Record, ...]) -> frozenset[VoteUnderWay]:
        """Return the votes and pre-votes whose request or response is in flight to a server."""
        return frozenset(
            VoteUnderWay(message.source if isinstance(message, RequestVoteRequest) else message.dest, message.pre_vote)
            for message in messages
            if isinstance(message, RequestVoteRequest | RequestVoteResponse)
        )

    @projection
    def fetches_under_way(self, messages: tuple[Record, ...]) -> frozenset[FetchRequest]:
        """Return the fetch requests in flight to a server, and the requests of fetch responses in flight to it."""
        return frozenset(
            message if isinstance(message, FetchRequest) else message.correlation
            for message in messages
            if isinstance(message, FetchRequest | FetchResponse)
        )

    @internal(reads=standing)
    def check_quorum_resign(self, me: Server, shared: Shared, standing: Map[int, ElectionSummary]) -> Steps:
        """A leader resigns because too few voters can fetch from it, or as a disruption."""
        if me.state is not ServerState.LEADER:
            return
        has_reason = self._has_lost_majority(me, shared, standing)
        if not has_reason and not self._may_disrupt(shared):
            return
        step = become(to_resigned(me).of(me).but(flwr_end_offset=zero_end_offsets(me.config.members)))
        step = self._fail_pending(step, me, shared)
        yield step if has_reason else self._count(step, shared, "disruptive_ctr")

    def _has_lost_majority(self, me: Server, shared: Shared, standing: Map[int, ElectionSummary]) -> bool:
        """Whether too few connected peers could fetch from this leader (`ShouldResign`)."""
        members = me.config.members
        could_fetch = sum(
            self._connected(shared, me.id, peer)
            and standing[peer].state is not ServerState.DEAD_NO_STATE
            and (not standing[peer].votes or me.current_epoch >= standing[peer].epoch)
            for peer in members
        )
        return could_fetch < len(members) // 2 + (me.id not in members)

    @internal(reads=fetches_under_way)
    def voter_fetch_timeout(
        self, me: Server, shared: Shared, fetches_under_way: Map[int, frozenset[FetchRequest]]
    ) -> Steps:
        """A follower becomes prospective after a rejected or lost fetch, or as a disruption."""
        if me.state is not ServerState.FOLLOWER or not is_voter(me):
            return
        has_reason = self._fetch_can_time_out(me, fetches_under_way)
        if has_reason or self._may_disrupt(shared):
            yield self._stand(me, shared, is_disruptive=not has_reason)

    @internal(reads=votes_under_way)
    def voter_election_timeout(
        self, me: Server, shared: Shared, votes_under_way: Map[int, frozenset[VoteUnderWay]]
    ) -> Steps:
        """An unattached voter, or a candidate that can get no further votes, becomes prospective.

        Any other candidate can do so as a disruption.
        """
        if me.state not in (ServerState.CANDIDATE, ServerState.UNATTACHED) or not is_voter(me):
            return
        is_stuck = len(me.votes_recv) <= len(me.config.members) // 2 and self._all_counted(me, False, votes_under_way)
        has_reason = me.state is ServerState.UNATTACHED or is_stuck
        if has_reason or self._may_disrupt(shared):
            yield self._stand(me, shared, is_disruptive=not has_reason)

    @internal
    def resigned_election_timeout(self, me: Server) -> Steps:
        """A resigned server becomes unattached in the next epoch."""
        if me.state is ServerState.RESIGNED:
            yield become(to_unattached(me, me.current_epoch + 1).of(me))

    def _may_disrupt(self, shared: Shared) -> bool:
        return shared.counters.disruptive_ctr < self.max_disruptions

    def _all_counted(self, me: Server, pre_vote: bool, votes_under_way: Map[int, frozenset[VoteUnderWay]]) -> bool:
        """Whether no vote request of this server, and no response to one, is in flight."""
        return not any(VoteUnderWay(me.id, pre_vote) in votes for votes in votes_under_way.values())

    def _fetch_can_time_out(self, me: Server, fetches_under_way: Map[int, frozenset[FetchRequest]]) -> bool:
        """Whether the leader rejected the last fetch, or the pending fetch is lost (`FetchCanTimeout`)."""
        last, pending = me.fetch_state.last_fetch_res, me.fetch_state.pending_fetch
        if isinstance(last, LastFetch) and last.error is not Nil.NIL and last.peer == me.leader:
            return True
        return pending is not Nil.NIL and not any(pending in fetches for fetches in fetches_under_way.values())

    def _stand(self, me: Server, shared: Shared, *, is_disruptive: bool) -> Step:
        """Return the step in which a server becomes prospective and requests pre-votes."""
        counters = shared.counters.but(
            prevote_ctr=shared.counters.prevote_ctr + self.test_liveness,
            disruptive_ctr=shared.counters.disruptive_ctr + is_disruptive,
        )
        step = become(to_prospective(me).of(me).but(fetch_state=FetchState())).put(counters=counters)
        return self._send(step, shared, self._vote_requests(me, me.current_epoch, pre_vote=True))

    def _vote_requests(self, me: Server, epoch: int, *, pre_vote: bool) -> Iterable[RequestVoteRequest]:
        """Return a vote or pre-vote request for each peer."""
        for peer in ordered(me.config.members - {me.id}):
            yield RequestVoteRequest(epoch, last_epoch(me.log), len(me.log), pre_vote, me.id, peer)

    @on(RequestVoteRequest)
    def handle_vote_request(self, me: Server, request: RequestVoteRequest, shared: Shared) -> Steps:
        """A server, voter or not, answers a vote request: its configuration may lag. A pre-vote does not bind it."""
        error = self._vote_error(me, request)
        if error is not Nil.NIL:
            refusal = RequestVoteResponse(
                me.current_epoch, me.leader, False, request.pre_vote, error, me.id, request.source
            )
            yield consume(me).reply(refusal)
            return
        now = (
            to_unattached(me, request.replica_epoch) if request.replica_epoch > me.current_epoch else no_transition(me)
        )
        grants = self._grants_pre_vote if request.pre_vote else self._grants_vote
        is_granted = grants(me, now, request)
        if is_granted and not request.pre_vote:
            now = transition_with_vote(now, request.replica_epoch, request.source)
        response = RequestVoteResponse(
            request.replica_epoch, now.leader, is_granted, request.pre_vote, Nil.NIL, me.id, request.source
        )
        step = consume(now.of(me)).reply(response)
        if now.state is not me.state:
            step = self._fail_pending(step.but(me=now.of(me).but(fetch_state=FetchState())), me, shared)
        yield step

    def _vote_error(self, me: Server, request: RequestVoteRequest) -> Error | Nil:
        if request.last_log_epoch > request.replica_epoch:
            return Error.INVALID_REQUEST
        return Error.FENCED_LEADER_EPOCH if request.replica_epoch < me.current_epoch else Nil.NIL

    def _grants_pre_vote(self, me: Server, now: ServerTransition, request: RequestVoteRequest) -> bool:
        """Whether a server grants a pre-vote: it has no leader with a successful fetch (`GrantPreVote`)."""
        if not self._log_is_current(me, request):
            return False
        return now.state in OPEN_TO_PRE_VOTES or self._never_fetched(me, now)

    def _never_fetched(self, me: Server, now: ServerTransition) -> bool:
        return now.state is ServerState.FOLLOWER and not me.fetch_state.has_fetch_success

    def _grants_vote(self, me: Server, now: ServerTransition, request: RequestVoteRequest) -> bool:
        """Whether a server grants a vote: its vote is free, or already this candidate's (`GrantVote`)."""
        if now.state not in (ServerState.UNATTACHED, ServerState.PROSPECTIVE):
            return False
        if now.voted_for is not Nil.NIL:
            return now.voted_for == request.source
        return now.leader is Nil.NIL and self._log_is_current(me, request)

    def _log_is_current(self, me: Server, request: RequestVoteRequest) -> bool:
        """Whether the candidate's log is at least as up to date as this server's."""
        return (request.last_log_epoch, request.last_log_offset) >= (last_epoch(me.log), len(me.log))

    @on(RequestVoteResponse)
    def handle_vote_response(self, me: Server, vote: RequestVoteResponse, shared: Shared) -> Steps:
        """A voter counts a granted vote; a newer epoch or a known leader ends its candidacy or leadership."""
        if not is_voter(me):
            return
        outcome = handle_common_response(me, vote.leader, vote.replica_epoch, vote.error)
        awaits = ServerState.PROSPECTIVE if vote.pre_vote else ServerState.CANDIDATE
        if not outcome.handled and outcome.state is awaits and vote.vote_granted:
            outcome = outcome._replace(votes_recv=outcome.votes_recv | {vote.source})
        step = consume(outcome.of(me))
        if me.state is ServerState.LEADER and outcome.state is not ServerState.LEADER:
            step = step.but(me=step.me.but(flwr_end_offset=zero_end_offsets(me.config.members)))
            step = self._fail_pending(step, me, shared)
        yield step

    @internal(reads=votes_under_way)
    def conclude_pre_vote(
        self, me: Server, shared: Shared, votes_under_way: Map[int, frozenset[VoteUnderWay]]
    ) -> Steps:
        """A prospective with a majority becomes candidate; a prospective that can get no further pre-votes gives up.

        It then follows its last known leader, or is unattached.
        """
        if me.state is not ServerState.PROSPECTIVE or not is_voter(me):
            return
        if me.current_epoch >= self.max_epoch and not self.test_liveness:
            return
        if is_quorum(me.config.members, me.votes_recv):
            outcome = to_candidate(me)
            requests = self._vote_requests(me, outcome.epoch, pre_vote=False)
            yield self._send(become(outcome.of(me)), shared, requests)
        elif self._all_counted(me, True, votes_under_way):
            known = me.leader is not Nil.NIL
            epoch = me.current_epoch
            yield become((to_follower(me, me.leader, epoch) if known else to_unattached(me, epoch)).of(me))

    @internal
    def become_leader(self, me: Server, shared: Shared) -> Steps:
        """A candidate with a majority of votes becomes leader, appends LeaderChange and announces itself.

        A single voter never does: the specification requires its high watermark to advance and to stay.
        """
        if me.state is not ServerState.CANDIDATE or not is_quorum(me.config.members, me.votes_recv):
            return
        log = (*me.log, Entry(Command.LEADER_CHANGE, me.current_epoch, Nil.NIL))
        if len(me.config.members) == 1 and me.hwm != len(log):
            return
        after = (
            to_leader(me)
            .of(me)
            .but(log=log, flwr_end_offset=zero_end_offsets(me.config.members), fetch_state=FetchState())
        )
        peers = ordered(me.config.members - {me.id})
        announcements = [ElectedLeaderRequest(me.current_epoch, me.id, peer, False) for peer in peers]
        yield self._send(become(after), shared, announcements)
