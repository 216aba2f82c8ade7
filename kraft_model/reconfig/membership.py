"""Membership of `reconfig`: new servers, join requests, and removal."""

from __future__ import annotations

from kraftcheck.kraft_model.reconfig.base import ReconfigBase
from kraftcheck.kraft_model.reconfig.records import (
    AddedMember,
    Command,
    Entry,
    Error,
    FetchRequest,
    JoinRequest,
    JoinResponse,
    Nil,
    RemovedMember,
    Result,
    Role,
    Server,
    ServerId,
    ServerState,
    Shared,
)
from kraftcheck.kraft_model.reconfig.rules import entry_config
from kraftcheck.spec import (
    Map,
    ModelValue,
    Step,
    Steps,
    become,
    consume,
    environment,
    internal,
    on,
    ordered,
    projection,
)


class ReconfigMembership(ReconfigBase):
    @projection
    def leads(self, me: Server) -> bool:
        """Whether a server leads. The model omits how a new server finds a leader."""
        return me.state is ServerState.LEADER

    @environment(reads=leads)
    def start_new_server(self, shared: Shared, leads: Map[ServerId, bool]) -> Steps:
        """A server starts on a blank disk with a new identity, as observer, and fetches from a leader."""
        if len(shared.servers) >= self.max_spawned_servers:
            return
        disk_id = shared.disk_id_gen + 1
        for leader in ordered(server for server, is_leader in leads.items() if is_leader):
            for host in self._hosts_of_new_servers():
                identity = ServerId(host, disk_id)
                fetch = FetchRequest(0, 0, 0, True, identity, leader)
                new = Server(identity, pending_fetch=fetch, end_offset=self._no_offsets(shared))
                yield Step().write(new).send(fetch).put(servers=shared.servers | {identity}, disk_id_gen=disk_id)

    def _hosts_of_new_servers(self) -> list[ModelValue]:
        return ordered(self.hosts)

    @internal
    def send_join_request(self, me: Server) -> Steps:
        """An observer requests to join from its leader. MaxAddReconfigs enables the action; no step uses it up."""
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
        entry = Entry(Command.ADD_SERVER, me.current_epoch, AddedMember(me.config.id + 1, request.source, members))
        after = self._append_config(me, entry)
        if request.source not in me.end_offset:
            after = after.but(end_offset=me.end_offset.put(request.source, 0))
        yield consume(after).reply(JoinResponse(me.current_epoch, me.leader, Result.OK, Nil.NIL, request.source, me.id))

    @on(JoinRequest)
    def reject_join_request(self, me: Server, request: JoinRequest) -> Steps:
        """A server that is no leader, or has the member, rejects a join request; another error leaves it in flight."""
        error = self._reconfig_error(me, request.source, joins=True)
        if error not in (Error.NOT_LEADER, Error.ALREADY_MEMBER) or error is None:
            return
        yield consume(me).reply(JoinResponse(me.current_epoch, me.leader, Result.NOT_OK, error, request.source, me.id))

    @on(JoinResponse)
    def handle_reject_join_response(self, me: Server, response: JoinResponse) -> Steps:
        """An observer drops a rejection.

        The specification intends to follow the leader in a NotLeader response, but compares `mresult` with error names,
        so these cases never apply.
        """
        if me.role is not Role.OBSERVER:
            return
        if response.result is not Result.NOT_OK:
            return
        yield consume(me)

    @internal
    def handle_remove_request(self, me: Server, shared: Shared) -> Steps:
        """A leader appends RemoveServerCommand for an administrator; if it removes itself, it leads on as observer."""
        if me.state is not ServerState.LEADER:
            return
        if len(me.config.members) <= self.min_cluster_size:
            return
        for removed in ordered(shared.servers):
            if self._reconfig_error(me, removed, joins=False) is not None:
                continue
            members = me.config.members - {removed}
            entry = Entry(Command.REMOVE_SERVER, me.current_epoch, RemovedMember(me.config.id + 1, removed, members))
            after = self._append_config(me, entry)
            if removed == me.id:
                after = after.but(role=Role.OBSERVER)
            yield become(after).spend("remove_reconfigs")

    def _reconfig_error(self, me: Server, member: ServerId, *, joins: bool) -> Error | None:
        """Return the error of adding or removing a member, or None (`JoinCheck`, `RemoveCheck`)."""
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
        """Whether an entry of the leader's epoch is committed (`LeaderHasCommittedOffsetsInCurrentEpoch`)."""
        return any(entry.epoch == me.current_epoch for entry in me.log[: me.high_watermark])

    def _append_config(self, me: Server, entry: Entry) -> Server:
        log = (*me.log, entry)
        return me.but(log=log, config=entry_config(len(log), entry, me.high_watermark))
