"""Transitions of a server's state in `reconfig` when it hears of an epoch or a leader.

Source: the section "Transition helpers" of the TLA+ specification KRaftWithReconfig, which follows Kafka 3.2.0.
"""

from __future__ import annotations

from typing import NamedTuple

from kraftcheck.kraft_model.reconfig.records import Error, Nil, Role, Server, ServerId, ServerState


class TransitionResult(NamedTuple):
    """The state, epoch and leader that a server takes on, and whether this deals with the response."""

    state: ServerState
    epoch: int
    leader: ServerId | Nil
    handled: bool = False

    def of(self, me: Server) -> Server:
        """Return the server with this state, epoch and leader."""
        return me.but(state=self.state, current_epoch=self.epoch, leader=self.leader)


ILLEGAL = TransitionResult(ServerState.ILLEGAL, 0, Nil.NIL)


def unchanged(me: Server) -> TransitionResult:
    """Return the result that changes nothing (`NoTransition`)."""
    return TransitionResult(me.state, me.current_epoch, me.leader)


def unattached(epoch: int) -> TransitionResult:
    """Return the result of hearing of an epoch without a leader (`TransitionToUnattached`)."""
    return TransitionResult(ServerState.UNATTACHED, epoch, Nil.NIL)


def follower(me: Server, leader: ServerId | Nil, epoch: int) -> TransitionResult:
    """Return the result of following a leader (`TransitionToFollower`)."""
    if me.current_epoch == epoch and me.state in (ServerState.FOLLOWER, ServerState.LEADER):
        return ILLEGAL
    return TransitionResult(ServerState.FOLLOWER, epoch, leader)


def has_consistent_leader(me: Server, leader: ServerId | Nil, epoch: int) -> bool:
    """Return whether the leader that a peer names is consistent with the server's own (`HasConsistentLeader`)."""
    if leader == me.id:
        resigned = me.role is Role.OBSERVER or me.state is ServerState.RESIGNED
        return (me.current_epoch == epoch and resigned) or me.state is ServerState.LEADER
    return epoch != me.current_epoch or leader is Nil.NIL or me.leader is Nil.NIL or me.leader == leader


def maybe_transition(me: Server, leader: ServerId | Nil, epoch: int) -> TransitionResult:
    """Return the result of hearing of this leader and epoch (`MaybeTransition`)."""
    if not has_consistent_leader(me, leader, epoch):
        return ILLEGAL
    if epoch > me.current_epoch:
        return unattached(epoch) if leader is Nil.NIL else follower(me, leader, epoch)
    if leader is not Nil.NIL and me.leader is Nil.NIL and leader != me.id:
        return follower(me, leader, epoch)
    return unchanged(me)


def handle_common_response(me: Server, leader: ServerId | Nil, epoch: int, error: Error | Nil) -> TransitionResult:
    """Return the result of the fields that all responses share (`MaybeHandleCommonResponse`)."""
    if epoch < me.current_epoch:
        return unchanged(me)._replace(handled=True)
    if epoch > me.current_epoch or error in (Error.FENCED_LEADER_EPOCH, Error.NOT_LEADER):
        return maybe_transition(me, leader, epoch)._replace(handled=True)
    if leader is not Nil.NIL and me.leader is Nil.NIL:
        return TransitionResult(ServerState.FOLLOWER, me.current_epoch, leader, error is not Nil.NIL)
    return unchanged(me)
