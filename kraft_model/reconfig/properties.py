"""The invariants of `reconfig`."""

from __future__ import annotations

from kraftcheck.kraft_model.reconfig.base import ReconfigBase
from kraftcheck.kraft_model.reconfig.records import Nil, Role, Server, ServerId, ServerState, Shared
from kraftcheck.kraft_model.reconfig.transitions import ILLEGAL
from kraftcheck.spec import Map, ModelValue, Record, invariant, projection

OBSERVER_STATES = (ServerState.LEADER, ServerState.FOLLOWER, ServerState.UNATTACHED, ServerState.VOTED)


class Standing(Record):
    """The part of a server that properties read to compare leaders."""

    state: ServerState
    epoch: int
    values: frozenset[ModelValue]


class ReconfigProperties(ReconfigBase):
    """The invariants."""

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
