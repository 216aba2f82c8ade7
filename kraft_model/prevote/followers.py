"""Followers and observers of `prevote`: they follow a leader and fetch from it."""

from __future__ import annotations

from kraftcheck.kraft_model.prevote.liveness import Refusal, Seen
from kraftcheck.kraft_model.prevote.log import most_recent_config
from kraftcheck.kraft_model.prevote.records import (
    BeginQuorumEpochRequest,
    FetchDiverging,
    FetchRequest,
    FetchResponse,
    FetchState,
    FetchSucceeded,
    LastFetch,
    Nil,
    Server,
    ServerState,
    Shared,
)
from kraftcheck.kraft_model.prevote.timeouts import PrevoteTimeouts
from kraftcheck.kraft_model.prevote.transitions import Transition, handle_common_response, is_voter, maybe_transition
from kraftcheck.kraft_model.reconfig.log import last_epoch, truncated
from kraftcheck.spec import Map, Steps, become, consume, internal, on, ordered

Fetches = Map[int, frozenset[FetchRequest]]
Refusals = Map[int, frozenset[Refusal]]


class PrevoteFollowers(PrevoteTimeouts):
    """Following, fetching, and what responses change."""

    @on(BeginQuorumEpochRequest)
    def accept_begin_quorum_request(self, me: Server, request: BeginQuorumEpochRequest, shared: Shared) -> Steps:
        """A server follows the leader that announces itself, unless the announcement is stale: then it stays."""
        if request.replica_epoch < me.current_epoch:
            return
        outcome = maybe_transition(me, request.source, request.replica_epoch)
        yield self._fail_pending(consume(outcome.of(me).but(fetch_state=FetchState())), me, shared)

    @internal(reads=(PrevoteTimeouts.seen, PrevoteTimeouts.fetches_under_way, PrevoteTimeouts.refusals))
    def send_fetch_request(
        self, me: Server, shared: Shared, seen: Map[int, Seen], fetches_under_way: Fetches, refusals: Refusals
    ) -> Steps:
        """A follower fetches from its leader, and an unattached voter from anyone, to hear who leads.

        An observer whose fetch timed out fetches from anyone too. The request is noted also where it is lost at once.
        """
        can_time_out = self._fetch_can_time_out(me, fetches_under_way)
        for peer in ordered(seen.keys()):
            if peer == me.id:
                continue
            if not (
                self._is_free_to_fetch(me, peer, shared, seen, refusals)
                or (self._is_lost_observer(me, can_time_out) and self._is_another_peer(me, peer))
            ):
                continue
            fetch = FetchRequest(me.current_epoch, len(me.log) + 1, last_epoch(me.log), me.id, peer)
            after = me.but(fetch_state=me.fetch_state.but(pending_fetch=fetch))
            yield self._send(become(after), shared, [fetch])

    def _is_free_to_fetch(
        self, me: Server, peer: int, shared: Shared, seen: Map[int, Seen], refusals: Refusals
    ) -> bool:
        """Whether nothing is pending, and this peer leads or might know who does."""
        if me.fetch_state.pending_fetch is not Nil.NIL:
            return False
        if me.state is ServerState.FOLLOWER:
            return (
                me.leader == peer
                and self._helps(me, peer, seen)
                and not self._is_in_prevote_cycle(me, peer, shared, refusals)
            )
        return me.state is ServerState.UNATTACHED and is_voter(me) and self._is_valid_peer(me, peer, shared, seen)

    def _is_lost_observer(self, me: Server, can_time_out: bool) -> bool:
        return can_time_out and me.state is ServerState.FOLLOWER and not is_voter(me)

    @on(FetchResponse)
    def handle_fetch_response(self, me: Server, response: FetchResponse) -> Steps:
        """A follower appends what it fetched or truncates, or takes on a newer epoch or another leader.

        With its log changes the configuration that it uses, and with that whether it votes. An answer to anything but
        the fetch that it waits for stays where it is.
        """
        if me.fetch_state.pending_fetch != response.correlation:
            return
        outcome = handle_common_response(me, response.leader, response.replica_epoch, response.error)
        after = outcome.of(me) if outcome.handled else self._follow(me, outcome, response)
        fetch_state = FetchState(
            last_fetch_res=LastFetch(response.source, response.error),
            has_fetch_success=me.fetch_state.has_fetch_success or response.error is Nil.NIL,
        )
        yield consume(after.but(fetch_state=fetch_state))

    def _follow(self, me: Server, outcome: Transition, response: FetchResponse) -> Server:
        """Return the server with the log that a response leaves, and with that log's last configuration.

        This is `MaybeSwitchConfigurations`, and what HandleFetchResponse does around it.
        """
        log, hwm = me.log, me.hwm
        if isinstance(response, FetchSucceeded):
            log, hwm = log + response.entries, response.hwm
        elif isinstance(response, FetchDiverging):
            log = truncated(log, response.diverging_end_offset - 1, response.diverging_epoch)
        config = most_recent_config(log, response.hwm)
        if is_voter(me) != (me.id in config.members):
            outcome = outcome._replace(state=ServerState.FOLLOWER, votes_recv=frozenset())
        offsets = Map((member, me.flwr_end_offset.get(member, 0)) for member in ordered(config.members))
        return (
            outcome._replace(voted_for=me.voted_for)
            .of(me)
            .but(log=log, hwm=hwm, config=config, flwr_end_offset=offsets)
        )
