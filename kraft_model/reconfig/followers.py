"""Followers and observers of `reconfig`: they follow a leader and fetch from it."""

from __future__ import annotations

from kraftcheck.kraft_model.reconfig.base import ReconfigBase
from kraftcheck.kraft_model.reconfig.log import last_epoch, most_recent_config, truncated
from kraftcheck.kraft_model.reconfig.records import (
    BeginQuorumRequest,
    Error,
    FetchDiverging,
    FetchRequest,
    FetchResponse,
    FetchSucceeded,
    Nil,
    Role,
    Server,
    ServerState,
    Shared,
)
from kraftcheck.kraft_model.reconfig.transitions import TransitionResult, handle_common_response, maybe_transition
from kraftcheck.spec import Map, Steps, become, consume, internal, on, ordered


class ReconfigFollowers(ReconfigBase):
    """Following, fetching, and what responses change."""

    @on(BeginQuorumRequest)
    def accept_begin_quorum_request(self, me: Server, request: BeginQuorumRequest) -> Steps:
        """A voter follows the leader that announces itself, unless the announcement is stale."""
        if request.epoch < me.current_epoch:
            return
        if me.role is not Role.VOTER:
            return
        outcome = maybe_transition(me, request.source, request.epoch)
        yield consume(outcome.of(me).but(pending_fetch=Nil.NIL))

    @internal
    def send_fetch_request(self, me: Server) -> Steps:
        """A follower fetches from its leader, even from one that its configuration has removed.

        An unattached observer fetches from any member that it knows, to hear who leads.
        """
        if me.pending_fetch is not Nil.NIL:
            return
        if me.state is ServerState.FOLLOWER:
            peers = [] if isinstance(me.leader, Nil) else [me.leader]
        elif me.role is Role.OBSERVER and me.state is ServerState.UNATTACHED:
            peers = ordered(me.config.members)
        else:
            return
        for peer in peers:
            if peer != me.id:
                fetch = FetchRequest(
                    me.current_epoch, len(me.log), last_epoch(me.log), me.role is Role.OBSERVER, me.id, peer
                )
                yield become(me.but(pending_fetch=fetch)).send(fetch)

    @on(FetchResponse)
    def handle_success_fetch_response(self, me: Server, response: FetchResponse, shared: Shared) -> Steps:
        """A follower appends what it fetched, takes the high watermark, and switches to the last configuration."""
        if not isinstance(response, FetchSucceeded):
            return
        outcome = handle_common_response(me, response.leader, response.epoch, response.error)
        if outcome.handled:
            return
        if me.pending_fetch != response.correlation:
            return
        log = me.log + response.entries[:1]
        after = self._switch_configuration(me.but(log=log), outcome, response.hwm, shared)
        yield consume(after.but(high_watermark=response.hwm, pending_fetch=Nil.NIL))

    @on(FetchResponse)
    def handle_diverging_fetch_response(self, me: Server, response: FetchResponse, shared: Shared) -> Steps:
        """A follower truncates its log to what it shares with the leader, and takes the last configuration left."""
        if not isinstance(response, FetchDiverging):
            return
        outcome = handle_common_response(me, response.leader, response.epoch, response.error)
        if outcome.handled:
            return
        if me.pending_fetch != response.correlation:
            return
        log = truncated(me.log, response.diverging_end_offset, response.diverging_epoch)
        after = self._switch_configuration(me.but(log=log), outcome, response.hwm, shared)
        yield consume(after.but(pending_fetch=Nil.NIL))

    @on(FetchResponse)
    def handle_non_success_fetch_response(self, me: Server, response: FetchResponse) -> Steps:
        """A follower takes on a newer epoch or another leader, or drops a stale response."""
        outcome = handle_common_response(me, response.leader, response.epoch, response.error)
        if not outcome.handled:
            return
        if me.pending_fetch != response.correlation:
            return
        role = Role.OBSERVER if response.error is Error.UNKNOWN_MEMBER else me.role
        yield consume(outcome.of(me).but(role=role, pending_fetch=Nil.NIL))

    def _switch_configuration(
        self, me: Server, outcome: TransitionResult, high_watermark: int, shared: Shared
    ) -> Server:
        """Return the server with its log's last configuration, and its role there (`MaybeSwitchConfigurations`)."""
        config = most_recent_config(me.log, high_watermark)
        role, state = me.role, outcome.state
        if me.role is Role.VOTER and me.id not in config.members:
            role, state = Role.OBSERVER, ServerState.FOLLOWER
        elif me.role is Role.OBSERVER and me.id in config.members:
            role, state = Role.VOTER, ServerState.FOLLOWER
        offsets = Map((server, me.end_offset.get(server, 0)) for server in ordered(shared.servers))
        return me.but(config=config, role=role, state=state, leader=outcome.leader, end_offset=offsets)
