"""Replication of `prevote`: repeated announcements, appends, fetches and the high watermark."""

from __future__ import annotations

from kraftcheck.kraft_model.prevote.base import RejectedPreVote, ServerSummary, zero_end_offsets
from kraftcheck.kraft_model.prevote.elections import ElectionSummary, PrevoteElections
from kraftcheck.kraft_model.prevote.records import (
    BeginQuorumEpochRequest,
    Command,
    ElectedLeaderRequest,
    Entry,
    Error,
    FetchDiverging,
    FetchRejected,
    FetchRequest,
    FetchResponse,
    FetchState,
    FetchSucceeded,
    LastFetch,
    Nil,
    RemovedVoter,
    Result,
    Server,
    ServerState,
    Shared,
)
from kraftcheck.kraft_model.prevote.rules import (
    ServerTransition,
    count_values_of_epoch,
    handle_common_response,
    is_voter,
    maybe_transition,
    most_recent_config,
    to_resigned,
)
from kraftcheck.kraft_model.reconfig.rules import end_offset_for_epoch, is_quorum, last_epoch, log_truncated_to_position
from kraftcheck.spec import Map, Record, Steps, become, consume, internal, on, ordered, projection

FetchesInFlight = Map[int, frozenset[FetchRequest]]
RejectedPreVotes = Map[int, frozenset[RejectedPreVote]]


class PrevoteReplication(PrevoteElections):
    """Announcements, appends and fetch requests of a leader; following, fetches and their responses."""

    @projection
    def announced(self, inbox: tuple[frozenset[Record], frozenset[Record]]) -> frozenset[tuple[int, int]]:
        """Return the leader and epoch of each announcement that is in flight to a server or processed by it."""
        messages = inbox[0] | inbox[1]
        return frozenset((m.source, m.replica_epoch) for m in messages if isinstance(m, BeginQuorumEpochRequest))

    @internal(reads=(PrevoteElections.standing, announced))
    def resend_begin_quorum_epoch_request(
        self,
        me: Server,
        shared: Shared,
        standing: Map[int, ElectionSummary],
        announced: Map[int, frozenset[tuple[int, int]]],
    ) -> Steps:
        """A leader repeats its announcement to a peer that lost the first announcement and does not follow."""
        if me.state is not ServerState.LEADER or me.current_epoch == 1:
            return
        for peer in ordered(me.config.members - {me.id}):
            if (me.id, me.current_epoch) in announced[peer] or not self._connected(shared, me.id, peer):
                continue
            other = standing[peer]
            follows = other.epoch == me.current_epoch and other.state is ServerState.FOLLOWER
            if me.current_epoch >= other.epoch and not follows:
                yield become(me).send(ElectedLeaderRequest(me.current_epoch, me.id, peer, True))

    @internal
    def handle_client_request(self, me: Server, shared: Shared) -> Steps:
        """A leader appends a new value of a client; a single voter also advances its high watermark."""
        if (
            me.state is not ServerState.LEADER
            or count_values_of_epoch(me.log, me.current_epoch) >= self.max_values_per_epoch
        ):
            return
        for value in ordered(self.values - shared.sent):
            log = (*me.log, Entry(Command.APPEND, me.current_epoch, value))
            hwm = len(log) if len(me.config.members) == 1 else me.hwm
            after = me.but(log=log, hwm=hwm, pending_ack=me.pending_ack | {value})
            yield become(after).put(sent=shared.sent | {value})

    @on(FetchRequest)
    def reject_fetch_request(self, me: Server, request: FetchRequest) -> Steps:
        """A server rejects a fetch if it is not leader, or if the epochs differ."""
        if me.state is not ServerState.LEADER:
            error = Error.NOT_LEADER
        elif request.replica_epoch < me.current_epoch:
            error = Error.FENCED_LEADER_EPOCH
        elif request.replica_epoch > me.current_epoch:
            error = Error.UNKNOWN_LEADER
        else:
            return
        yield consume(me).reply(
            FetchRejected(me.current_epoch, me.leader, Result.NOT_OK, error, me.hwm, me.id, request.source, request)
        )

    @on(FetchRequest)
    def diverging_fetch_request(self, me: Server, request: FetchRequest) -> Steps:
        """A leader whose log lacks a follower's fetch position answers with the diverging epoch and offset."""
        if me.state is not ServerState.LEADER or request.replica_epoch != me.current_epoch:
            return
        if self._valid_position(me, request):
            return
        common = end_offset_for_epoch(me.log, request.last_fetched_epoch)
        answer = FetchDiverging(
            me.current_epoch, me.leader, Result.DIVERGING, Nil.NIL, me.hwm, me.id, request.source, request,
            common.epoch, common.offset + 1,
        )  # fmt: skip
        yield consume(me).reply(answer)

    @on(FetchRequest)
    def accept_fetch_request(self, me: Server, request: FetchRequest, shared: Shared) -> Steps:
        """A leader serves a voter, records its end offset, and advances the high watermark with a majority.

        A leader that commits its own removal resigns. It serves no fetch of an observer.
        """
        if not self._serves(me, request):
            return
        offsets = me.flwr_end_offset
        if request.source in offsets:
            offsets = offsets.put(request.source, request.fetch_offset - 1)
        hwm = self._new_high_watermark(me, offsets)
        after, told = me.but(flwr_end_offset=offsets), {}
        leaves = self._is_removed(me, hwm)
        if hwm > me.hwm:
            config = most_recent_config(me.log, hwm)
            acked = me.pending_ack & {entry.value for entry in me.log[me.hwm : hwm]}
            after = me.but(config=config, pending_ack=me.pending_ack - acked, hwm=hwm)
            after = after.but(flwr_end_offset=Map((m, offsets.get(m, 0)) for m in ordered(config.members)))
            if acked:
                told["positively_acked"] = shared.positively_acked | acked
            if leaves:
                after = (
                    to_resigned(me).of(after).but(hwm=0, pending_ack=frozenset(), flwr_end_offset=zero_end_offsets(()))
                )
                told["negatively_acked"] = shared.negatively_acked | (me.pending_ack - acked)
        response = FetchSucceeded(
            me.current_epoch, Nil.NIL if leaves else me.leader, Result.OK, Nil.NIL, min(hwm, request.fetch_offset),
            me.id, request.source, request, me.log[request.fetch_offset - 1 : request.fetch_offset],
        )  # fmt: skip
        yield consume(after).reply(response).put(**told)

    def _serves(self, me: Server, request: FetchRequest) -> bool:
        """Whether this server leads the epoch of a member's fetch, and its log contains the position."""
        if me.state is not ServerState.LEADER or request.replica_epoch != me.current_epoch:
            return False
        return request.source in me.config.members and self._valid_position(me, request)

    def _valid_position(self, me: Server, request: FetchRequest) -> bool:
        """Whether this server's log continues the follower's (`ValidFetchPosition`)."""
        if request.fetch_offset == 1:
            return True
        common = end_offset_for_epoch(me.log, request.last_fetched_epoch)
        return request.fetch_offset <= common.offset + 1 and request.last_fetched_epoch == common.epoch

    def _new_high_watermark(self, me: Server, offsets: Map[int, int]) -> int:
        """Return the highest offset that a majority holds, if its entry is of the current epoch (`NewHighwaterMark`).

        A leader outside its configuration does not count itself.
        """
        members = me.config.members
        for offset in range(len(me.log), 0, -1):
            if is_quorum(members, {peer for peer in members if peer == me.id or offsets[peer] >= offset}):
                return offset if self._may_commit(me, offset) else me.hwm
        return me.hwm

    def _may_commit(self, me: Server, offset: int) -> bool:
        """Whether the entry at `offset` has the leader's current epoch, as its commit requires."""
        return me.log[offset - 1].epoch == me.current_epoch

    def _is_removed(self, me: Server, hwm: int) -> bool:
        """Whether the high watermark passes the removal of this server (`EntryRemovesServerFromCluster`)."""
        return any(
            isinstance(entry.value, RemovedVoter) and me.id not in entry.value.members for entry in me.log[me.hwm : hwm]
        )

    @on(BeginQuorumEpochRequest)
    def accept_begin_quorum_request(self, me: Server, request: BeginQuorumEpochRequest, shared: Shared) -> Steps:
        """A server follows the leader that announces itself; a stale announcement stays in flight."""
        if request.replica_epoch < me.current_epoch:
            return
        outcome = maybe_transition(me, request.source, request.replica_epoch)
        yield self._fail_pending(consume(outcome.of(me).but(fetch_state=FetchState())), me, shared)

    @internal(reads=(PrevoteElections.seen, PrevoteElections.fetches_under_way, PrevoteElections.refusals))
    def send_fetch_request(
        self,
        me: Server,
        shared: Shared,
        seen: Map[int, ServerSummary],
        fetches_under_way: FetchesInFlight,
        refusals: RejectedPreVotes,
    ) -> Steps:
        """A follower fetches from its leader, and an unattached voter from any server, to learn the leader.

        An observer whose fetch timed out may fetch from any server too. A fetch that is lost at once is still pending.
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
        self, me: Server, peer: int, shared: Shared, seen: Map[int, ServerSummary], refusals: RejectedPreVotes
    ) -> bool:
        """Whether no fetch is pending, and this peer leads or might know the leader."""
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
        """A follower appends the fetched entries or truncates, or enters a newer epoch or follows another leader.

        Its configuration follows its log, and with that its membership. A response to any other fetch than the pending
        one stays in flight.
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

    def _follow(self, me: Server, outcome: ServerTransition, response: FetchResponse) -> Server:
        """Return the server after a fetch response, with the appended or truncated log and its last configuration.

        This is `MaybeSwitchConfigurations`, with the surrounding part of HandleFetchResponse.
        """
        log, hwm = me.log, me.hwm
        if isinstance(response, FetchSucceeded):
            log, hwm = log + response.entries, response.hwm
        elif isinstance(response, FetchDiverging):
            log = log_truncated_to_position(log, response.diverging_end_offset - 1, response.diverging_epoch)
        config = most_recent_config(log, response.hwm)
        if is_voter(me) != (me.id in config.members):
            outcome = outcome._replace(state=ServerState.FOLLOWER, votes_recv=frozenset())
        offsets = Map((member, me.flwr_end_offset.get(member, 0)) for member in ordered(config.members))
        return (
            outcome._replace(voted_for=me.voted_for)
            .of(me)
            .but(log=log, hwm=hwm, config=config, flwr_end_offset=offsets)
        )
