"""Leaders of `reconfig`: they append, serve fetches, and commit."""

from __future__ import annotations

from kraftcheck.kraft_model.reconfig.base import ReconfigBase
from kraftcheck.kraft_model.reconfig.log import end_offset_for_epoch, is_quorum, most_recent_config
from kraftcheck.kraft_model.reconfig.records import (
    Command,
    Entry,
    Error,
    FetchDiverging,
    FetchRejected,
    FetchRequest,
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
from kraftcheck.spec import Map, Steps, become, consume, internal, on, ordered


class ReconfigLeader(ReconfigBase):
    """Appending, serving fetches, and the high watermark."""

    @internal
    def client_request(self, me: Server, shared: Shared) -> Steps:
        """A leader appends a client's value that nobody submitted before."""
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
        """Any server refuses a fetch that it cannot serve: it does not lead, or the epochs differ."""
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
        """A leader whose log does not have a follower's fetch position tells it where to truncate."""
        if request.epoch != me.current_epoch or me.state is not ServerState.LEADER:
            return
        if self._valid_position(me, request):
            return
        common = end_offset_for_epoch(me.log, request.last_fetched_epoch)
        yield consume(me).reply(
            FetchDiverging(
                me.current_epoch,
                me.leader,
                Result.DIVERGING,
                Nil.NIL,
                me.high_watermark,
                me.id,
                request.source,
                request,
                common.epoch,
                common.offset,
            )
        )

    @on(FetchRequest)
    def accept_fetch_request_from_voter(self, me: Server, request: FetchRequest, shared: Shared) -> Steps:
        """A leader serves a voter, notes its log end, and advances the high watermark with a majority.

        A leader that commits its own removal resigns to an unattached observer.
        """
        if request.epoch != me.current_epoch or me.state is not ServerState.LEADER:
            return
        if request.observer:
            return
        if not self._valid_position(me, request):
            return
        end_offset = me.end_offset
        if request.source in end_offset:
            end_offset = end_offset.put(request.source, request.fetch_offset)
        high_watermark = self._new_high_watermark(me, end_offset)
        leaves = self._is_removed(me, high_watermark)
        after = me.but(end_offset=end_offset)
        acked = shared.acked if high_watermark > me.high_watermark else None
        if high_watermark > me.high_watermark:
            after = after.but(config=most_recent_config(me.log, high_watermark), high_watermark=high_watermark)
        if leaves:
            after = after.but(
                role=Role.OBSERVER,
                state=ServerState.UNATTACHED,
                leader=Nil.NIL,
                votes_granted=frozenset(),
                end_offset=self._no_offsets(shared),
                high_watermark=0,
            )
        step = consume(after).reply(self._success(me, request, high_watermark, Nil.NIL if leaves else me.leader))
        if acked is not None:
            committed = {entry.value for entry in me.log[me.high_watermark : high_watermark]}
            step = step.put(acked=Map((v, v in committed if ack is False else ack) for v, ack in acked.items()))
        yield step

    @on(FetchRequest)
    def accept_fetch_request_from_observer(self, me: Server, request: FetchRequest) -> Steps:
        """A leader serves an observer; nothing of its own changes."""
        if request.epoch != me.current_epoch or me.state is not ServerState.LEADER:
            return
        if not request.observer:
            return
        if not self._valid_position(me, request):
            return
        yield consume(me).reply(self._success(me, request, me.high_watermark, me.leader))

    def _success(
        self, me: Server, request: FetchRequest, high_watermark: int, leader: ServerId | Nil
    ) -> FetchSucceeded:
        return FetchSucceeded(
            me.current_epoch,
            leader,
            Result.OK,
            Nil.NIL,
            min(high_watermark, request.fetch_offset + 1),
            me.id,
            request.source,
            request,
            me.log[request.fetch_offset : request.fetch_offset + 1],
        )

    def _valid_position(self, me: Server, request: FetchRequest) -> bool:
        """Whether this server's log holds the follower's log end (`ValidFetchPosition`)."""
        if request.fetch_offset == 0 and request.last_fetched_epoch == 0:
            return True
        common = end_offset_for_epoch(me.log, request.last_fetched_epoch)
        return request.fetch_offset <= common.offset and request.last_fetched_epoch == common.epoch

    def _new_high_watermark(self, me: Server, end_offset: Map[ServerId, int]) -> int:
        """Return the highest offset that a majority holds, if its entry is of the current epoch (`NewHighwaterMark`).

        A leader that is no member of its configuration does not count itself.
        """
        members = self._counted_members(me)
        for offset in range(len(me.log), 0, -1):
            agreeing = {peer for peer in members if peer == me.id or end_offset[peer] >= offset}
            if is_quorum(members, agreeing):
                return offset if self._may_commit(me, offset) else me.high_watermark
        return me.high_watermark

    def _counted_members(self, me: Server) -> frozenset[ServerId]:
        """Return the members over which the high watermark is counted."""
        return me.config.members

    def _may_commit(self, me: Server, offset: int) -> bool:
        """Whether counting commits an entry: only one of the leader's own epoch."""
        return me.log[offset - 1].epoch == me.current_epoch

    def _is_removed(self, me: Server, high_watermark: int) -> bool:
        """Whether the high watermark passes a command that removes this server (`IsRemovedFromCluster`)."""
        return any(
            isinstance(entry.value, RemovedMember) and me.id not in entry.value.members
            for entry in me.log[me.high_watermark : high_watermark]
        )
