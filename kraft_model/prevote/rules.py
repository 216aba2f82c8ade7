"""Rules of `prevote` about configurations in logs, and the transitions of a server's state.

Source: module kraft_kip_996_functions of the TLA+ specification kraft_kip_996. Offsets count from 1, as there.
`kraftcheck.kraft_model.reconfig.rules` has the rules of logs in general.
"""

from __future__ import annotations

from typing import NamedTuple

from kraftcheck.kraft_model.prevote.records import (
    AddedVoter,
    Command,
    Config,
    Entry,
    Error,
    InitialMembers,
    Nil,
    RemovedVoter,
    Server,
    ServerState,
)

Log = tuple[Entry, ...]


def config_of_entry_value(offset: int, value: InitialMembers | AddedVoter | RemovedVoter, hwm: int) -> Config:
    """Return a configuration; it is committed once the high watermark covers its offset (`ConfigFor`)."""
    return Config(value.id, value.members, hwm >= offset)


def most_recent_config(log: Log, hwm: int) -> Config:
    """Return the last configuration of a log as cached by a server (`MostRecentReconfigEntry`, `ConfigFor`)."""
    for offset in range(len(log), 0, -1):
        value = log[offset - 1].value
        if isinstance(value, InitialMembers | AddedVoter | RemovedVoter):
            return config_of_entry_value(offset, value, hwm)
    raise ValueError("the log holds no configuration")


def count_values_of_epoch(log: Log, epoch: int) -> int:
    """Return the number of client values of an epoch in a log."""
    return sum(entry.epoch == epoch and entry.command is Command.APPEND for entry in log)


STATES_OF_FORMER_LEADERS = (ServerState.RESIGNED, ServerState.PROSPECTIVE, ServerState.UNATTACHED)


class ServerTransition(NamedTuple):
    """State, epoch, leader and votes of a server after a transition, and whether a response is fully handled by it."""

    state: ServerState
    epoch: int
    leader: int | Nil
    votes_recv: frozenset[int] = frozenset()
    voted_for: int | Nil = Nil.NIL
    handled: bool = False

    def of(self, me: Server) -> Server:
        """Return `me` with the state, epoch, leader and votes of the transition (`ApplyState`)."""
        return me.but(
            state=self.state,
            current_epoch=self.epoch,
            leader=self.leader,
            votes_recv=self.votes_recv,
            voted_for=self.voted_for,
        )


ILLEGAL_TRANSITION = ServerTransition(ServerState.ILLEGAL, 0, Nil.NIL)


def no_transition(me: Server) -> ServerTransition:
    """Return the transition that changes nothing (`NoTransition`)."""
    return ServerTransition(me.state, me.current_epoch, me.leader, me.votes_recv, me.voted_for)


def transition_with_vote(me: ServerTransition, epoch: int, candidate: int) -> ServerTransition:
    """Return `me` with a vote for `candidate` (`TransitionToUnattachedAddVote`, `TransitionToProspectiveAddVote`).

    A prospective keeps the pre-votes that it received.
    """
    if me.epoch != epoch or me.voted_for is not Nil.NIL:
        return ILLEGAL_TRANSITION
    keeps = me.votes_recv if me.state is ServerState.PROSPECTIVE else frozenset()
    return me._replace(votes_recv=keeps, voted_for=candidate)


def to_unattached_at_boot(me: Server) -> ServerTransition:
    """Return the transition of a restart without a leader, which keeps the vote (`BootTimeUnattached`)."""
    return ServerTransition(ServerState.UNATTACHED, me.current_epoch, Nil.NIL, voted_for=me.voted_for)


def _vote_kept_in(me: Server, epoch: int) -> int | Nil:
    """Return the vote that a server keeps in an epoch: none in a new one."""
    return Nil.NIL if epoch > me.current_epoch else me.voted_for


def to_unattached(me: Server, epoch: int, leader: int | Nil = Nil.NIL) -> ServerTransition:
    """Return the transition to unattached: in a newer epoch, or from prospective (`TransitionToUnattached`)."""
    if epoch < me.current_epoch or (epoch == me.current_epoch and me.state is not ServerState.PROSPECTIVE):
        return ILLEGAL_TRANSITION
    return ServerTransition(ServerState.UNATTACHED, epoch, leader, voted_for=_vote_kept_in(me, epoch))


def to_follower(me: Server, leader: int | Nil, epoch: int) -> ServerTransition:
    """Return the transition to the follower of a leader (`TransitionToFollower`)."""
    if leader == me.id or epoch < me.current_epoch:
        return ILLEGAL_TRANSITION
    if epoch == me.current_epoch and me.state in (ServerState.LEADER, ServerState.FOLLOWER):
        return ILLEGAL_TRANSITION
    return ServerTransition(ServerState.FOLLOWER, epoch, leader, voted_for=_vote_kept_in(me, epoch))


def to_prospective(me: Server) -> ServerTransition:
    """Return the transition to prospective, which keeps epoch, leader and vote (`TransitionToProspective`)."""
    if me.state in (ServerState.LEADER, ServerState.PROSPECTIVE):
        return ILLEGAL_TRANSITION
    return ServerTransition(ServerState.PROSPECTIVE, me.current_epoch, me.leader, frozenset({me.id}), me.voted_for)


def to_candidate(me: Server) -> ServerTransition:
    """Return the transition to candidate of the next epoch, with its own vote (`TransitionToCandidate`)."""
    if me.state is not ServerState.PROSPECTIVE:
        return ILLEGAL_TRANSITION
    return ServerTransition(ServerState.CANDIDATE, me.current_epoch + 1, Nil.NIL, frozenset({me.id}), me.id)


def to_leader(me: Server) -> ServerTransition:
    """Return the transition of a candidate to leader, which drops its vote (`TransitionToLeader`)."""
    return (
        ServerTransition(ServerState.LEADER, me.current_epoch, me.id)
        if me.state is ServerState.CANDIDATE
        else ILLEGAL_TRANSITION
    )


def to_resigned(me: Server) -> ServerTransition:
    """Return the transition of a leader to resigned, with itself as leader (`TransitionToResigned`)."""
    return (
        ServerTransition(ServerState.RESIGNED, me.current_epoch, me.id)
        if me.state is ServerState.LEADER
        else ILLEGAL_TRANSITION
    )


def is_voter(me: Server) -> bool:
    """Return whether a server is alive and in the configuration in use (`IsVoter`)."""
    return me.state is not ServerState.DEAD_NO_STATE and me.id in me.config.members


def has_consistent_leader(me: Server, named: int | Nil, epoch: int) -> bool:
    """Return whether the leader in a message is consistent with the server's own (`HasConsistentLeader`)."""
    if named == me.id:
        out_of_office = me.state in STATES_OF_FORMER_LEADERS or not is_voter(me)
        return (me.current_epoch == epoch and out_of_office) or me.state is ServerState.LEADER
    return epoch != me.current_epoch or named is Nil.NIL or me.leader is Nil.NIL or me.leader == named


def maybe_transition(me: Server, named: int | Nil, epoch: int) -> ServerTransition:
    """Return the transition of a server that learns of the leader `named` and of `epoch` (`MaybeTransition`)."""
    if not has_consistent_leader(me, named, epoch):
        return ILLEGAL_TRANSITION
    if epoch > me.current_epoch:
        return to_unattached(me, epoch) if named is Nil.NIL else to_follower(me, named, epoch)
    if named is not Nil.NIL and me.leader is Nil.NIL:
        return to_follower(me, named, epoch)
    return no_transition(me)


def handle_common_response(me: Server, named: int | Nil, epoch: int, error: Error | Nil) -> ServerTransition:
    """Return the transition by the leader, epoch and error in a response (`MaybeHandleCommonResponse`)."""
    if epoch < me.current_epoch:
        return no_transition(me)._replace(handled=True)
    if epoch > me.current_epoch or error in (Error.FENCED_LEADER_EPOCH, Error.NOT_LEADER):
        return maybe_transition(me, named, epoch)._replace(handled=True)
    if named is not Nil.NIL and me.leader is Nil.NIL:
        return to_follower(me, named, epoch)._replace(handled=error is not Nil.NIL)
    return no_transition(me)
