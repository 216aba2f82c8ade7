"""Membership of `prevote`: new servers, and voters that an administrator adds and removes."""

from __future__ import annotations

from kraftcheck.kraft_model.prevote.liveness import PrevoteLiveness, Seen
from kraftcheck.kraft_model.prevote.log import config_at
from kraftcheck.kraft_model.prevote.records import (
    AddedVoter,
    BeginQuorumEpochRequest,
    Command,
    Config,
    Entry,
    FirstFetchRequest,
    Identity,
    RemovedVoter,
    Server,
    ServerState,
    Shared,
)
from kraftcheck.spec import Map, Step, Steps, become, environment, internal, ordered, projection


class PrevoteMembership(PrevoteLiveness):
    """New servers, and voters added and removed."""

    @projection
    def leads(self, me: Server) -> Config:
        """The configuration of a server that leads; none of others. How a new server finds one is not modelled."""
        return me.config if me.state is ServerState.LEADER else Config()

    @environment(reads=leads)
    def start_new_server(self, shared: Shared, leads: Map[int, Config]) -> Steps:
        """A server starts on a blank disk with a leader's configuration and a fetch, of which it takes no note."""
        if len(leads) >= self.max_spawned_servers:
            return
        new = max(leads) + 1
        for leader in ordered(server for server, config in leads.items() if config.id):
            for host in ordered(self.hosts):
                server = Server(new, Identity(host, shared.disk_id_gen + 1), leads[leader])
                step = Step().write(server).put(disk_id_gen=shared.disk_id_gen + 1)
                yield self._send(step, shared, [FirstFetchRequest(0, 0, 0, new, leader)])

    @internal(reads=PrevoteLiveness.alive)
    def accept_add_voter_request(self, me: Server, shared: Shared, alive: Map[int, bool]) -> Steps:
        """A leader appends an AddVoterCommand, uses the new configuration at once, and announces itself."""
        if shared.counters.add_reconfig_ctr >= self.max_add_reconfigs or not self._may_change_voters(me):
            return
        if len(me.config.members) >= self.max_cluster_size:
            return
        for added in ordered(alive.keys() - me.config.members):
            if self._may_add(me, added, shared):
                step = become(self._append_config(me, Command.ADD_VOTER, added, me.config.members | {added}))
                step = self._send(step, shared, [BeginQuorumEpochRequest(me.current_epoch, me.id, added)])
                yield self._count(step, shared, "add_reconfig_ctr")

    @internal(reads=PrevoteLiveness.seen)
    def accept_remove_voter_request(self, me: Server, shared: Shared, seen: Map[int, Seen]) -> Steps:
        """A leader appends a RemoveVoterCommand; if it removes itself, it leads on until this is committed."""
        if shared.counters.remove_reconfig_ctr >= self.max_remove_reconfigs or not self._may_change_voters(me):
            return
        if len(me.config.members) <= self.min_cluster_size:
            return
        for removed in ordered(me.config.members):
            if self._may_remove(me, removed, shared, seen):
                after = self._append_config(me, Command.REMOVE_VOTER, removed, me.config.members - {removed})
                yield self._count(become(after), shared, "remove_reconfig_ctr")

    def _may_change_voters(self, me: Server) -> bool:
        """Whether this server leads and is ready for a change (`AddVoterCheck`, `RemoveVoterCheck`)."""
        return me.state is ServerState.LEADER and not self._has_pending_config(me) and self._is_ready(me)

    def _has_pending_config(self, me: Server) -> bool:
        """Whether a configuration of this leader's log is uncommitted (`HasPendingConfigCommand`)."""
        return not me.config.committed

    def _is_ready(self, me: Server) -> bool:
        """Whether something of the leader's epoch is committed (`LeaderHasCommittedOffsetsInCurrentEpoch`)."""
        return any(entry.epoch == me.current_epoch for entry in me.log[: me.hwm])

    def _append_config(self, me: Server, command: Command, changed: int, members: frozenset[int]) -> Server:
        kind = AddedVoter if command is Command.ADD_VOTER else RemovedVoter
        value = kind(me.config.id + 1, changed, members)
        log = (*me.log, Entry(command, me.current_epoch, value))
        offsets = Map((member, me.flwr_end_offset.get(member, 0)) for member in ordered(members))
        return me.but(log=log, config=config_at(len(log), value, me.hwm), flwr_end_offset=offsets)
