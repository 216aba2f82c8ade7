"""KRaft with reconfiguration: the TLA+ specification KRaftWithReconfig, action by action.

Source: KRaftWithReconfig.tla and MessagePassing.tla in repository Vanlightly/raft-tlaplus, which KIP-853 refers to.
The section named in each action's docstring is the specification's action of the same name. Where the specification
surprises, the surprise is kept, and named in `docs/conformance.md`; what was meant is a variant
(`kraftcheck.kraft_model.reconfig.variants`).
"""

from __future__ import annotations

from collections.abc import Iterator

from kraftcheck.kraft_model.reconfig.log import (
    config_at,
    end_offset_for_epoch,
    is_quorum,
    last_epoch,
    most_recent_config,
    truncated,
)
from kraftcheck.kraft_model.reconfig.records import (
    SYMBOLS,
    AddedMember,
    BeginQuorumRequest,
    Command,
    Config,
    Entry,
    Error,
    FetchDiverging,
    FetchRejected,
    FetchRequest,
    FetchResponse,
    FetchSucceeded,
    InitialMembers,
    JoinRequest,
    JoinResponse,
    Nil,
    RemovedMember,
    RequestVoteRequest,
    RequestVoteResponse,
    Result,
    Role,
    Server,
    ServerId,
    ServerState,
    Shared,
)
from kraftcheck.kraft_model.reconfig.starts import ReconfigScenarios
from kraftcheck.kraft_model.reconfig.transitions import (
    ILLEGAL,
    Outcome,
    handle_common_response,
    maybe_transition,
    unattached,
    unchanged,
)
from kraftcheck.spec import (
    BagWithMemory,
    ConstantError,
    Map,
    ModelValue,
    Protocol,
    Record,
    State,
    Step,
    Steps,
    become,
    bound,
    constant,
    consume,
    environment,
    hide,
    internal,
    invariant,
    on,
    ordered,
    projection,
)

OBSERVER_STATES = (ServerState.LEADER, ServerState.FOLLOWER, ServerState.UNATTACHED, ServerState.VOTED)


class Standing(Record):
    """What properties read of a server to compare leaders."""

    state: ServerState
    epoch: int
    values: frozenset[ModelValue]


class Membership(Record):
    """What a restart without state reads of every server."""

    state: ServerState
    role: Role
    members: frozenset[ServerId]


class Reconfig(ReconfigScenarios, Protocol):
    """KRaft with one-at-a-time reconfiguration and composite server identity."""

    hosts: frozenset[ModelValue] = constant("Hosts")
    values: frozenset[ModelValue] = constant("Value")
    init_cluster_size: int = constant("InitClusterSize", at_least=1)
    min_cluster_size: int = constant("MinClusterSize", at_least=0)
    max_cluster_size: int = constant("MaxClusterSize", at_least=0)
    max_values_per_epoch: int = constant("MaxValuesPerEpoch", at_least=0)
    max_spawned_servers: int = constant("MaxSpawnedServers", at_least=0)
    elections: int = bound("MaxElections", counter="_electionCtr")
    restarts: int = bound("MaxRestarts", counter="_restartCtr")
    add_reconfigs: int = bound("MaxAddReconfigs", counter="_addReconfigCtr")
    remove_reconfigs: int = bound("MaxRemoveReconfigs", counter="_removeReconfigCtr")

    network = BagWithMemory(
        once=(RequestVoteRequest, BeginQuorumRequest, JoinRequest),
        replies_once=(FetchResponse,),
    )
    symbols = SYMBOLS
    symmetries = {"symmHosts": ("hosts",), "symmHostsAndValues": ("hosts", "values")}
    views = {"view": hide("elections", "restarts", "add_reconfigs", "remove_reconfigs", "value_ctr", "disk_id_gen")}
    specifications = {"Spec": False, "LivenessSpec": True}
    temporal = ("ValuesNotStuck", "ReconfigurationNotStuck")
    variants_module = "kraftcheck.kraft_model.reconfig.variants"

    def check_constants(self) -> None:
        """Refuse cluster sizes that contradict each other."""
        if self.init_cluster_size > len(self.hosts):
            raise ConstantError(
                "InitClusterSize",
                f"expected at most {len(self.hosts)}, the number of Hosts, found {self.init_cluster_size}",
            )
        if self.min_cluster_size > self.init_cluster_size:
            raise ConstantError(
                "MinClusterSize",
                f"expected at most InitClusterSize = {self.init_cluster_size}, found {self.min_cluster_size}",
            )

    def initial(self) -> Iterator[State]:
        """Yield the one start: a cluster with an established leader, the first host by order (`Init`)."""
        members = frozenset(ServerId(host, 0) for host in ordered(self.hosts)[: self.init_cluster_size])
        leader = ordered(members)[0]
        first = Entry(Command.INIT_CLUSTER, 1, InitialMembers(1, members))
        servers = [
            Server(
                id=member,
                config=Config(1, members, True),
                current_epoch=1,
                role=Role.VOTER,
                state=ServerState.LEADER if member == leader else ServerState.FOLLOWER,
                leader=leader,
                log=(first,),
                high_watermark=1,
                end_offset=Map((peer, 1) for peer in ordered(members)),
            )
            for member in ordered(members)
        ]
        acked: Map[ModelValue, bool | Nil] = Map((value, Nil.NIL) for value in ordered(self.values))
        yield self.start(servers, Shared(members, acked, value_ctr=(0,) * (self.elections + 1)))

    def receives(self, me: Record, message: Record) -> bool:
        """A server that died without its state receives nothing (`ReceivableMessage`)."""
        return isinstance(me, Server) and me.state is not ServerState.DEAD_NO_STATE

    # Restarts

    @internal
    def restart_with_state(self, me: Server, shared: Shared) -> Steps:
        """Any running server restarts from stable storage: role, epoch, vote, leader and log survive.

        A leader cannot come back as leader of the same epoch: it resigns, or is unattached if an observer.
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
        """The state in which this server comes back."""
        if me.state is not ServerState.LEADER:
            return me.state
        return ServerState.RESIGNED if me.role is Role.VOTER else ServerState.UNATTACHED

    @projection
    def membership(self, me: Server) -> Membership:
        """State, role and configured members of every server."""
        return Membership(me.state, me.role, me.config.members)

    @internal(reads=membership)
    def restart_without_state(self, me: Server, shared: Shared, membership: Map[ServerId, Membership]) -> Steps:
        """A member of a configuration restarts with a blank disk, so with a new identity; the old one dies or not.

        As the specification has it, this is never enabled (see `_is_voter`), spends no restart, and leaves a zombie
        where it means to leave none.
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

    def _is_voter(self, peer: Membership) -> bool:
        """`state[j] = Voter`: Voter is a role, so no state is ever called that."""
        return peer.state.value == Role.VOTER.value

    def _without_state(self, me: Server, dead: Server, leave_zombie: bool) -> Step:
        """The branches on `leaveZombie` as the specification has them: the wrong way round."""
        return become(dead if leave_zombie else me).need("restarts")

    # Elections

    @internal
    def request_vote(self, me: Server) -> Steps:
        """A voter that is no leader times out, votes for itself and asks its peers for votes."""
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
        """Any server, an observer too (its configuration may lag), votes once an epoch, for a log not behind it."""
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
            now = Outcome(ServerState.VOTED, request.epoch, Nil.NIL)
        voter = now.of(me).but(
            voted_for=request.source if granted else me.voted_for,
            pending_fetch=me.pending_fetch if now.state is me.state else Nil.NIL,
        )
        response = RequestVoteResponse(request.epoch, now.leader, granted, Nil.NIL, me.id, request.source)
        yield consume(voter).reply(response)

    def _may_vote(self, me: Server, now: Outcome, request: RequestVoteRequest) -> bool:
        """Whether this epoch's vote is free, or was given to this candidate."""
        if now.state is ServerState.UNATTACHED:
            return True
        return now.state is ServerState.VOTED and me.voted_for == request.source

    def _log_is_current(self, me: Server, request: RequestVoteRequest) -> bool:
        """Whether the candidate's log is not behind ours."""
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

    # The leader

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
        """A leader tells a follower whose fetch position is not in its log where to truncate to."""
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
        """A leader serves a voter, notes how far it has fetched, and advances the high watermark if a majority has.

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
        """Whether the follower's log end is in our log (`ValidFetchPosition`)."""
        if request.fetch_offset == 0 and request.last_fetched_epoch == 0:
            return True
        common = end_offset_for_epoch(me.log, request.last_fetched_epoch)
        return request.fetch_offset <= common.offset and request.last_fetched_epoch == common.epoch

    def _new_high_watermark(self, me: Server, end_offset: Map[ServerId, int]) -> int:
        """The highest offset that a majority holds, if its entry is of the current epoch (`NewHighwaterMark`).

        A leader that is no member of its configuration does not count itself.
        """
        members = self._counted_members(me)
        for offset in range(len(me.log), 0, -1):
            agreeing = {peer for peer in members if peer == me.id or end_offset[peer] >= offset}
            if is_quorum(members, agreeing):
                return offset if self._may_commit(me, offset) else me.high_watermark
        return me.high_watermark

    def _counted_members(self, me: Server) -> frozenset[ServerId]:
        """The members over which the high watermark is counted."""
        return me.config.members

    def _may_commit(self, me: Server, offset: int) -> bool:
        """Only an entry of the leader's own epoch is committed by counting."""
        return me.log[offset - 1].epoch == me.current_epoch

    def _is_removed(self, me: Server, high_watermark: int) -> bool:
        """Whether the high watermark passes a command that removes this server (`IsRemovedFromCluster`)."""
        return any(
            isinstance(entry.value, RemovedMember) and me.id not in entry.value.members
            for entry in me.log[me.high_watermark : high_watermark]
        )

    # Followers and observers

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

        An unattached observer fetches from any member that it knows of, to hear who leads.
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
        """A follower truncates its log to what it shares with the leader, and may return to an older configuration."""
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

    def _switch_configuration(self, me: Server, outcome: Outcome, high_watermark: int, shared: Shared) -> Server:
        """Take the last configuration of the log, and the role that it gives (`MaybeSwitchConfigurations`)."""
        config = most_recent_config(me.log, high_watermark)
        role, state = me.role, outcome.state
        if me.role is Role.VOTER and me.id not in config.members:
            role, state = Role.OBSERVER, ServerState.FOLLOWER
        elif me.role is Role.OBSERVER and me.id in config.members:
            role, state = Role.VOTER, ServerState.FOLLOWER
        offsets = Map((server, me.end_offset.get(server, 0)) for server in ordered(shared.servers))
        return me.but(config=config, role=role, state=state, leader=outcome.leader, end_offset=offsets)

    # Reconfiguration

    @projection
    def leads(self, me: Server) -> bool:
        """Whether a server is leader; how a new server finds one is not modelled."""
        return me.state is ServerState.LEADER

    @environment(reads=leads)
    def start_new_server(self, shared: Shared, leads: Map[ServerId, bool]) -> Steps:
        """A server starts on a blank disk with a new identity, as observer, and fetches from a leader."""
        if len(shared.servers) >= self.max_spawned_servers:
            return
        disk_id = shared.disk_id_gen + 1
        for leader in ordered(server for server, is_leader in leads.items() if is_leader):
            for host in ordered(self.hosts):
                identity = ServerId(host, disk_id)
                fetch = FetchRequest(0, 0, 0, True, identity, leader)
                new = Server(identity, pending_fetch=fetch, end_offset=self._no_offsets(shared))
                yield Step().write(new).send(fetch).put(servers=shared.servers | {identity}, disk_id_gen=disk_id)

    @internal
    def send_join_request(self, me: Server) -> Steps:
        """An observer asks its leader to become a voter. MaxAddReconfigs switches this on; nothing counts it."""
        if me.role is not Role.OBSERVER or me.id in me.config.members:
            return
        if isinstance(me.leader, Nil) or me.leader == me.id:
            return
        yield become(me).send(JoinRequest(me.current_epoch, me.leader, me.id)).need("add_reconfigs")

    @on(JoinRequest)
    def accept_join_request(self, me: Server, request: JoinRequest) -> Steps:
        """A leader appends an AddServerCommand and uses the new configuration at once."""
        if len(me.config.members) >= self.max_cluster_size:
            return
        if self._reconfig_error(me, request.source, joins=True) is not None:
            return
        members = me.config.members | {request.source}
        entry = Entry(
            Command.ADD_SERVER, me.current_epoch, AddedMember(me.config.id + 1, request.source, members)
        )
        after = self._append_config(me, entry)
        if request.source not in me.end_offset:
            after = after.but(end_offset=me.end_offset.put(request.source, 0))
        yield consume(after).reply(
            JoinResponse(me.current_epoch, me.leader, Result.OK, Nil.NIL, request.source, me.id)
        )

    @on(JoinRequest)
    def reject_join_request(self, me: Server, request: JoinRequest) -> Steps:
        """A server that does not lead, or has the member already, refuses; other refusals wait unanswered."""
        error = self._reconfig_error(me, request.source, joins=True)
        if error not in (Error.NOT_LEADER, Error.ALREADY_MEMBER) or error is None:
            return
        yield consume(me).reply(
            JoinResponse(me.current_epoch, me.leader, Result.NOT_OK, error, request.source, me.id)
        )

    @on(JoinResponse)
    def handle_reject_join_response(self, me: Server, response: JoinResponse) -> Steps:
        """An observer drops a refusal.

        The specification means to follow the leader that a NotLeader names, but compares `mresult` with error names,
        so these cases never apply.
        """
        if me.role is not Role.OBSERVER:
            return
        if response.result is not Result.NOT_OK:
            return
        yield consume(me)

    @internal
    def handle_remove_request(self, me: Server, shared: Shared) -> Steps:
        """A leader appends an administrator's RemoveServerCommand; if it removes itself it leads on as observer."""
        if me.state is not ServerState.LEADER:
            return
        if len(me.config.members) <= self.min_cluster_size:
            return
        for removed in ordered(shared.servers):
            if self._reconfig_error(me, removed, joins=False) is not None:
                continue
            members = me.config.members - {removed}
            entry = Entry(
                Command.REMOVE_SERVER, me.current_epoch, RemovedMember(me.config.id + 1, removed, members)
            )
            after = self._append_config(me, entry)
            if removed == me.id:
                after = after.but(role=Role.OBSERVER)
            yield become(after).spend("remove_reconfigs")

    def _reconfig_error(self, me: Server, member: ServerId, *, joins: bool) -> Error | None:
        """What speaks against adding or removing a member, or None (`JoinCheck`, `RemoveCheck`)."""
        if me.state is not ServerState.LEADER:
            return Error.NOT_LEADER
        if joins == (member in me.config.members):
            return Error.ALREADY_MEMBER if joins else Error.UNKNOWN_MEMBER
        if self._has_pending_config(me):
            return Error.RECONFIG_IN_PROGRESS
        if not self._is_ready(me):
            return Error.LEADER_NOT_READY
        return None

    def _has_pending_config(self, me: Server) -> bool:
        """Whether a configuration of this leader's log is uncommitted (`HasPendingConfigCommand`)."""
        return not me.config.committed

    def _is_ready(self, me: Server) -> bool:
        """Whether something of the leader's epoch is committed (`LeaderHasCommittedOffsetsInCurrentEpoch`)."""
        return any(entry.epoch == me.current_epoch for entry in me.log[: me.high_watermark])

    def _append_config(self, me: Server, entry: Entry) -> Server:
        log = (*me.log, entry)
        return me.but(log=log, config=config_at(len(log), entry, me.high_watermark))

    def _peers(self, me: Server) -> list[ServerId]:
        return ordered(me.config.members - {me.id})

    def _no_offsets(self, shared: Shared) -> Map[ServerId, int]:
        return Map((server, 0) for server in ordered(shared.servers))

    # Invariants

    @invariant
    def no_illegal_state(self, me: Server) -> bool:
        """No server ever enters the illegal state."""
        return me.state is not ILLEGAL.state

    @invariant
    def no_log_divergence(self, me: Server, peer: Server) -> bool:
        """Two servers hold the same entries up to the lower of their high watermarks."""
        common = min(me.high_watermark, peer.high_watermark)
        return me.log[:common] == peer.log[:common]

    @invariant
    def states_match_roles(self, me: Server) -> bool:
        """An observer is never candidate or resigned, and an unattached server knows no leader."""
        if me.role is Role.OBSERVER and me.state not in OBSERVER_STATES:
            return False
        return me.state is not ServerState.UNATTACHED or me.leader is Nil.NIL

    @invariant
    def never_two_leaders_in_same_epoch(self, me: Server, peer: Server) -> bool:
        """Two servers of one epoch never name different leaders."""
        if me.leader is Nil.NIL or peer.leader is Nil.NIL:
            return True
        return me.leader == peer.leader or me.current_epoch != peer.current_epoch

    @projection
    def standing(self, me: Server) -> Standing:
        """State, epoch and client values of every server."""
        values = frozenset(entry.value for entry in me.log if isinstance(entry.value, ModelValue))
        return Standing(me.state, me.current_epoch, values)

    @invariant(reads=standing)
    def leader_has_all_acked_values(self, shared: Shared, standing: Map[ServerId, Standing]) -> bool:
        """The leader of the newest epoch holds every value whose commit a client was told of."""
        acked = {value for value, ack in shared.acked.items() if ack is True}
        newest = max(server.epoch for server in standing.values())
        return all(
            acked <= server.values
            for server in standing.values()
            if server.state is ServerState.LEADER and server.epoch == newest
        )


__all__ = ["Reconfig"]
