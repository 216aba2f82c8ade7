"""Replication of `reconfig`: appends, fetches and commits of a leader; fetches of followers and observers."""

from __future__ import annotations

from kraftcheck.kraft_model.reconfig.base import ReconfigBase
from kraftcheck.kraft_model.reconfig.records import (
    BeginQuorumRequest,
    Command,
    Entry,
    Error,
    FetchDiverging,
    FetchRejected,
    FetchRequest,
    FetchResponse,
    FetchSucceeded,
    Nil,
    RemovedMember,
    Result,
    Role,
    Server,
    ServerId,
    ServerState,
    Shared,
)
from kraftcheck.kraft_model.reconfig.rules import (
    TransitionResult,
    end_offset_for_epoch,
    handle_common_response,
    is_quorum,
    last_epoch,
    log_truncated_to_position,
    maybe_transition,
    most_recent_config,
)
from kraftcheck.spec import Map, Steps, become, consume, internal, on, ordered


class ReconfigReplication(ReconfigBase):
    """Appends, fetch requests and the high watermark of a leader; following, fetches and their responses."""

    @internal
    def client_request(self, me: Server, shared: Shared) -> Steps:
        """A leader appends a new value of a client."""
        if me.state is not ServerState.LEADER:
            return
        if shared.value_ctr[me.current_epoch - 1] >= self.max_values_per_epoch:
            return
        appended = shared.value_ctr[me.current_epoch - 1] + 1
        counts = (*shared.value_ctr[: me.current_epoch - 1], appended, *shared.value_ctr[me.current_epoch :])
        for value in ordered(self.values):
            if shared.acked[value] is Nil.NIL:
                entry = Entry(Command.APPEND, me.current_epoch, value)
                yield become(me.but(log=(*me.log, entry))).put(acked=shared.acked.put(value, False), value_ctr=counts)

    @on(FetchRequest)
    def reject_fetch_request(self, me: Server, request: FetchRequest) -> Steps:
        """A server rejects a fetch if it is not leader, or if the epochs differ."""
        if me.state is not ServerState.LEADER:
            error = Error.NOT_LEADER
        elif request.epoch < me.current_epoch:
            error = Error.FENCED_LEADER_EPOCH
        elif request.epoch > me.current_epoch:
            error = Error.UNKNOWN_LEADER
        else:
            return
        yield consume(me).reply(
            FetchRejected(
                me.current_epoch, me.leader, Result.NOT_OK, error, me.high_watermark, me.id, request.source, request
            )
        )

    @on(FetchRequest)
    def diverging_fetch_request(self, me: Server, request: FetchRequest) -> Steps:
        """A leader whose log lacks a follower's fetch position answers with the diverging epoch and offset."""
        if request.epoch != me.current_epoch or me.state is not ServerState.LEADER:
            return
        if self._valid_position(me, request):
            return
        common = end_offset_for_epoch(me.log, request.last_fetched_epoch)
        answer = FetchDiverging(
            me.current_epoch, me.leader, Result.DIVERGING, Nil.NIL, me.high_watermark, me.id, request.source, request,
            common.epoch, common.offset,
        )  # fmt: skip
        yield consume(me).reply(answer)

    @on(FetchRequest)
    def accept_fetch_request_from_voter(self, me: Server, request: FetchRequest, shared: Shared) -> Steps:
        """A leader serves a voter, records its end offset, and advances the high watermark with a majority.

        A leader that commits its own removal resigns, as an unattached observer.
        """
        if not self._serves(me, request, observer=False):
            return
        end_offset = me.end_offset
        if request.source in end_offset:
            end_offset = end_offset.put(request.source, request.fetch_offset)
        high_watermark = self._new_high_watermark(me, end_offset)
        after, puts = me.but(end_offset=end_offset), {}
        if high_watermark > me.high_watermark:
            after = after.but(config=most_recent_config(me.log, high_watermark), high_watermark=high_watermark)
            committed = {entry.value for entry in me.log[me.high_watermark : high_watermark]}
            puts["acked"] = Map((v, v in committed if ack is False else ack) for v, ack in shared.acked.items())
        if self._is_removed(me, high_watermark):
            after = after.but(
                role=Role.OBSERVER,
                state=ServerState.UNATTACHED,
                leader=Nil.NIL,
                votes_granted=frozenset(),
                end_offset=self._no_offsets(shared),
                high_watermark=0,
            )
        yield consume(after).reply(self._success(me, request, high_watermark, after.leader)).put(**puts)

    @on(FetchRequest)
    def accept_fetch_request_from_observer(self, me: Server, request: FetchRequest) -> Steps:
        """A leader serves an observer, and is itself unchanged."""
        if self._serves(me, request, observer=True):
            yield consume(me).reply(self._success(me, request, me.high_watermark, me.leader))

    def _serves(self, me: Server, request: FetchRequest, *, observer: bool) -> bool:
        """Whether this server leads the epoch of a voter's or observer's fetch, and its log contains the position."""
        if request.epoch != me.current_epoch or me.state is not ServerState.LEADER:
            return False
        return request.observer is observer and self._valid_position(me, request)

    def _success(
        self, me: Server, request: FetchRequest, high_watermark: int, leader: ServerId | Nil
    ) -> FetchSucceeded:
        return FetchSucceeded(
            me.current_epoch, leader, Result.OK, Nil.NIL, min(high_watermark, request.fetch_offset + 1),
            me.id, request.source, request, me.log[request.fetch_offset : request.fetch_offset + 1],
        )  # fmt: skip

    def _valid_position(self, me: Server, request: FetchRequest) -> bool:
        """Whether this server's log contains the follower's log end (`ValidFetchPosition`)."""
        if request.fetch_offset == 0 and request.last_fetched_epoch == 0:
            return True
        common = end_offset_for_epoch(me.log, request.last_fetched_epoch)
        return request.fetch_offset <= common.offset and request.last_fetched_epoch == common.epoch

    def _new_high_watermark(self, me: Server, end_offset: Map[ServerId, int]) -> int:
        """Return the highest offset that a majority holds, if its entry is of the current epoch (`NewHighwaterMark`).

        A leader outside its configuration does not count itself.
        """
        members = self._counted_members(me)
        for offset in range(len(me.log), 0, -1):
            agreeing = {peer for peer in members if peer == me.id or end_offset[peer] >= offset}
            if is_quorum(members, agreeing):
                return offset if self._may_commit(me, offset) else me.high_watermark
        return me.high_watermark

    def _counted_members(self, me: Server) -> frozenset[ServerId]:
        """Return the members that count towards the majority for a commit."""
        return me.config.members

    def _may_commit(self, me: Server, offset: int) -> bool:
        """Whether an entry is of the leader's own epoch, as a commit requires."""
        return me.log[offset - 1].epoch == me.current_epoch

    def _is_removed(self, me: Server, high_watermark: int) -> bool:
        """Whether the high watermark passes the removal of this server (`IsRemovedFromCluster`)."""
        return any(
            isinstance(entry.value, RemovedMember) and me.id not in entry.value.members
            for entry in me.log[me.high_watermark : high_watermark]
        )

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
        """A follower fetches from its leader, even if its configuration has removed the leader.

        An unattached observer fetches from any member of its configuration, to learn the leader.
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
        """A follower appends the fetched entry, updates its high watermark, and switches to the last configuration."""
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
        """A follower truncates its log to the leader's, and switches to the last configuration that remains."""
        if not isinstance(response, FetchDiverging):
            return
        outcome = handle_common_response(me, response.leader, response.epoch, response.error)
        if outcome.handled:
            return
        if me.pending_fetch != response.correlation:
            return
        log = log_truncated_to_position(me.log, response.diverging_end_offset, response.diverging_epoch)
        after = self._switch_configuration(me.but(log=log), outcome, response.hwm, shared)
        yield consume(after.but(pending_fetch=Nil.NIL))

    @on(FetchResponse)
    def handle_non_success_fetch_response(self, me: Server, response: FetchResponse) -> Steps:
        """A follower enters a newer epoch or follows another leader, or drops a stale response."""
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
