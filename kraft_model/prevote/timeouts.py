"""Timeouts of `prevote`: a leader that is not fetched from, followers that do not fetch, elections that do not end."""

from __future__ import annotations

from collections.abc import Iterable

from kraftcheck.kraft_model.prevote.base import zeros
from kraftcheck.kraft_model.prevote.liveness import PrevoteLiveness
from kraftcheck.kraft_model.prevote.records import (
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
from kraftcheck.kraft_model.prevote.transitions import is_voter, prospective, resigned, unattached
from kraftcheck.kraft_model.reconfig.log import last_epoch
from kraftcheck.spec import Map, Record, Step, Steps, become, internal, ordered, projection


class Standing(Record):
    """The part of a server that others' timeouts read."""

    state: ServerState
    epoch: int
    votes: bool


class VoteUnderWay(Record):
    """Who asked for the vote, or the pre-vote, that a message asks for or answers."""

    candidate: int
    pre_vote: bool


class PrevoteTimeouts(PrevoteLiveness):
    """Timeouts."""

    @projection
    def standing(self, me: Server) -> Standing:
        """State and epoch of a server, and whether it votes."""
        return Standing(me.state, me.current_epoch, is_voter(me))

    @projection
    def votes_under_way(self, messages: tuple[Record, ...]) -> frozenset[VoteUnderWay]:
        """The votes that messages to a server ask for or answer."""
        return frozenset(
            VoteUnderWay(message.source if isinstance(message, RequestVoteRequest) else message.dest, message.pre_vote)
            for message in messages
            if isinstance(message, RequestVoteRequest | RequestVoteResponse)
        )

    @projection
    def fetches_under_way(self, messages: tuple[Record, ...]) -> frozenset[FetchRequest]:
        """The fetches that are under way to a server, or answered to it."""
        return frozenset(
            message if isinstance(message, FetchRequest) else message.correlation
            for message in messages
            if isinstance(message, FetchRequest | FetchResponse)
        )

    @internal(reads=standing)
    def check_quorum_resign(self, me: Server, shared: Shared, standing: Map[int, Standing]) -> Steps:
        """A leader resigns because too few voters fetch from it, or for no reason: that is a disruption."""
        if me.state is not ServerState.LEADER:
            return
        has_reason = self._has_lost_majority(me, shared, standing)
        if not has_reason and not self._may_disrupt(shared):
            return
        step = become(resigned(me).of(me).but(flwr_end_offset=zeros(me.config.members)))
        step = self._fail_pending(step, me, shared)
        yield step if has_reason else self._count(step, shared, "disruptive_ctr")

    def _has_lost_majority(self, me: Server, shared: Shared, standing: Map[int, Standing]) -> bool:
        """Whether too few peers are connected that could fetch from this leader (`ShouldResign`)."""
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
        """A follower becomes prospective: its fetch was refused or is lost, or for no reason, which is a disruption."""
        if me.state is not ServerState.FOLLOWER or not is_voter(me):
            return
        has_reason = self._fetch_can_time_out(me, fetches_under_way)
        if has_reason or self._may_disrupt(shared):
            yield self._stand(me, shared, is_disruptive=not has_reason)

    @internal(reads=votes_under_way)
    def voter_election_timeout(
        self, me: Server, shared: Shared, votes_under_way: Map[int, frozenset[VoteUnderWay]]
    ) -> Steps:
        """A voter becomes prospective: it is unattached, or a candidate that no further vote can reach.

        Another candidate can do so for no reason, which is a disruption.
        """
        if me.state not in (ServerState.CANDIDATE, ServerState.UNATTACHED) or not is_voter(me):
            return
        is_stuck = len(me.votes_recv) <= len(me.config.members) // 2 and self._all_counted(me, False, votes_under_way)
        has_reason = me.state is ServerState.UNATTACHED or is_stuck
        if has_reason or self._may_disrupt(shared):
            yield self._stand(me, shared, is_disruptive=not has_reason)

    @internal
    def resigned_election_timeout(self, me: Server) -> Steps:
        """A server that has resigned becomes unattached in the next epoch."""
        if me.state is ServerState.RESIGNED:
            yield become(unattached(me, me.current_epoch + 1).of(me))

    def _may_disrupt(self, shared: Shared) -> bool:
        return shared.counters.disruptive_ctr < self.max_disruptions

    def _all_counted(self, me: Server, pre_vote: bool, votes_under_way: Map[int, frozenset[VoteUnderWay]]) -> bool:
        """Whether no request for this server's votes and no answer to one is under way."""
        return not any(VoteUnderWay(me.id, pre_vote) in votes for votes in votes_under_way.values())

    def _fetch_can_time_out(self, me: Server, fetches_under_way: Map[int, frozenset[FetchRequest]]) -> bool:
        """Whether the leader refused the last fetch, or the pending one or its answer is lost (`FetchCanTimeout`)."""
        last, pending = me.fetch_state.last_fetch_res, me.fetch_state.pending_fetch
        if isinstance(last, LastFetch) and last.error is not Nil.NIL and last.peer == me.leader:
            return True
        return pending is not Nil.NIL and not any(pending in fetches for fetches in fetches_under_way.values())

    def _stand(self, me: Server, shared: Shared, *, is_disruptive: bool) -> Step:
        """Return the step in which a server becomes prospective and asks its peers for pre-votes."""
        counters = shared.counters.but(
            prevote_ctr=shared.counters.prevote_ctr + self.test_liveness,
            disruptive_ctr=shared.counters.disruptive_ctr + is_disruptive,
        )
        step = become(prospective(me).of(me).but(fetch_state=FetchState())).put(counters=counters)
        return self._send(step, shared, self._vote_requests(me, me.current_epoch, pre_vote=True))

    def _vote_requests(self, me: Server, epoch: int, *, pre_vote: bool) -> Iterable[RequestVoteRequest]:
        """Return a request for its vote, or pre-vote, to each peer."""
        for peer in ordered(me.config.members - {me.id}):
            yield RequestVoteRequest(epoch, last_epoch(me.log), len(me.log), pre_vote, me.id, peer)
