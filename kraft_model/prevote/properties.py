"""The invariants of `prevote`. The specification's TestInv, which is TRUE, is for debugging, and left out."""

from __future__ import annotations

from kraftcheck.kraft_model.prevote.base import PrevoteBase
from kraftcheck.kraft_model.prevote.records import Nil, Server, ServerState, Shared
from kraftcheck.kraft_model.prevote.transitions import ILLEGAL, is_voter
from kraftcheck.spec import Map, ModelValue, Record, invariant, projection

OBSERVER_STATES = (ServerState.LEADER, ServerState.FOLLOWER, ServerState.UNATTACHED, ServerState.RESIGNED)
STANDS = (ServerState.PROSPECTIVE, ServerState.CANDIDATE)


class Holding(Record):
    """The part of a server that properties read about what was acknowledged."""

    leads: bool
    votes: bool
    epoch: int
    values: frozenset[ModelValue]


class PrevoteProperties(PrevoteBase):
    """The invariants."""

    @invariant
    def no_illegal_state(self, me: Server) -> bool:
        """No server ever enters the illegal state."""
        return me.state is not ILLEGAL.state

    @invariant
    def log_matching(self, me: Server, peer: Server) -> bool:
        """Two servers hold the same entries up to the lower of their high watermarks."""
        common = min(me.hwm, peer.hwm)
        return me.log[:common] == peer.log[:common]

    @invariant
    def election_safety(self, me: Server, peer: Server) -> bool:
        """Two servers of one epoch never name different leaders."""
        if me.leader is Nil.NIL or peer.leader is Nil.NIL:
            return True
        return me.leader == peer.leader or me.current_epoch != peer.current_epoch

    @projection
    def holding(self, me: Server) -> Holding:
        """What every server is and holds."""
        values = frozenset(entry.value for entry in me.log if isinstance(entry.value, ModelValue))
        return Holding(me.state is ServerState.LEADER, is_voter(me), me.current_epoch, values)

    @invariant(reads=holding)
    def leader_completeness(self, shared: Shared, holding: Map[int, Holding]) -> bool:
        """A leader that no server is ahead of holds every value whose commit a client was told of."""
        newest = max(server.epoch for server in holding.values())
        return all(
            shared.positively_acked <= server.values
            for server in holding.values()
            if server.leads and server.epoch == newest
        )

    @invariant(reads=holding)
    def durability(self, shared: Shared, holding: Map[int, Holding]) -> bool:
        """A voter holds every value whose commit a client was told of."""
        held = frozenset[ModelValue]().union(*(server.values for server in holding.values() if server.votes))
        return shared.positively_acked <= held

    @invariant
    def valid_roles_and_states(self, me: Server) -> bool:
        """A server's state fits its role, its leader, what it has pending, and the votes that it has."""
        return (
            (is_voter(me) or me.state in (*OBSERVER_STATES, ServerState.DEAD_NO_STATE))
            and (me.state is not ServerState.UNATTACHED or me.leader is Nil.NIL)
            and (me.state is ServerState.LEADER or not me.pending_ack)
            and (me.state in STANDS or not me.votes_recv)
        )
