"""Restarts of `reconfig`: with the server's state, or on a blank disk with a new identity."""

from __future__ import annotations

from kraftcheck.kraft_model.reconfig.base import ReconfigBase
from kraftcheck.kraft_model.reconfig.records import Nil, Role, Server, ServerId, ServerState, Shared
from kraftcheck.spec import Map, Record, Step, Steps, become, internal, projection


class Membership(Record):
    """The part of every server that a restart without state reads."""

    state: ServerState
    role: Role
    members: frozenset[ServerId]


class ReconfigRestarts(ReconfigBase):
    """Restarts with and without state."""

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
        """Return the state in which this server comes back."""
        if me.state is not ServerState.LEADER:
            return me.state
        return ServerState.RESIGNED if me.role is Role.VOTER else ServerState.UNATTACHED

    @projection
    def membership(self, me: Server) -> Membership:
        """State, role and configured members of every server."""
        return Membership(me.state, me.role, me.config.members)

    @internal(reads=membership)
    def restart_without_state(self, me: Server, shared: Shared, membership: Map[ServerId, Membership]) -> Steps:
        """A member of a configuration restarts on a blank disk with a new identity; the old one may live on.

        As in the specification, this is never enabled (see `_is_voter`), spends no restart, and leaves a zombie where
        it means to leave none.
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
        """Whether `state[j] = Voter`: never, since Voter is a role and no state."""
        return peer.state.value == Role.VOTER.value

    def _without_state(self, me: Server, dead: Server, leave_zombie: bool) -> Step:
        """Return the step for a value of `leaveZombie`: the wrong way round, as in the specification."""
        return become(dead if leave_zombie else me).need("restarts")
