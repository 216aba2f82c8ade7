"""Rules of `reconfig` about logs and majorities, and the transitions of a server's state.

Source: the sections "Helper formulae" and "Transition helpers" of the TLA+ specification KRaftWithReconfig, which
follows Kafka 3.2.0. Offsets count from 1, as there. `prevote` uses the rules about logs too.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple, Protocol, TypeVar

from kraftcheck.kraft_model.reconfig.records import (
    Command,
    Config,
    Entry,
    Error,
    Nil,
    Role,
    Server,
    ServerId,
    ServerState,
)
from kraftcheck.spec import ModelValue


class HasEpoch(Protocol):
    """The interface of log entries with an epoch, for any model."""

    @property
    def epoch(self) -> int:
        """The epoch of the leader that appended the entry."""


Log = tuple[Entry, ...]
EntryT = TypeVar("EntryT", bound=HasEpoch)
MemberT = TypeVar("MemberT")


class Position(NamedTuple):
    """An offset with the epoch of its entry; (0, 0) is the position before the first entry."""

    offset: int
    epoch: int


def last_epoch(log: Sequence[HasEpoch]) -> int:
    """Return the epoch of the last entry, 0 for an empty log (`LastEpoch`)."""
    return log[-1].epoch if log else 0


def end_offset_for_epoch(log: Sequence[HasEpoch], epoch: int) -> Position:
    """Return the highest position whose epoch is not above the given one (`EndOffsetForEpoch`)."""
    for offset in range(len(log), 0, -1):
        if log[offset - 1].epoch <= epoch:
            return Position(offset, log[offset - 1].epoch)
    return Position(0, 0)


def log_truncated_to_position(log: tuple[EntryT, ...], end_offset: int, epoch: int) -> tuple[EntryT, ...]:
    """Return the log up to its last entry at or before the given position (`TruncateLog`)."""
    for offset in range(len(log), 0, -1):
        if (log[offset - 1].epoch, offset) <= (epoch, end_offset):
            return log[:offset]
    return ()


def most_recent_config(log: Log, high_watermark: int) -> Config:
    """Return the last configuration of a log as cached by a server (`MostRecentReconfigEntry`, `ConfigFor`)."""
    for offset in range(len(log), 0, -1):
        if log[offset - 1].command is not Command.APPEND:
            return entry_config(offset, log[offset - 1], high_watermark)
    raise ValueError("the log holds no configuration")


def entry_config(offset: int, entry: Entry, high_watermark: int) -> Config:
    """Return the configuration of an entry; it is committed once the high watermark covers it (`ConfigFor`)."""
    value = entry.value
    assert not isinstance(value, ModelValue)
    return Config(value.id, value.members, high_watermark >= offset)


def is_quorum(members: frozenset[MemberT], group: Collection[MemberT]) -> bool:
    """Return whether a group consists of members, and is a majority of them (`Quorum`)."""
    return members.issuperset(group) and 2 * len(group) > len(members)


class TransitionResult(NamedTuple):
    """The state, epoch and leader after a transition, and whether the response is fully handled."""

    state: ServerState
    epoch: int
    leader: ServerId | Nil
    handled: bool = False

    def of(self, me: Server) -> Server:
        """Return `me` with the state, epoch and leader of the transition result."""
        return me.but(state=self.state, current_epoch=self.epoch, leader=self.leader)


ILLEGAL_TRANSITION = TransitionResult(ServerState.ILLEGAL, 0, Nil.NIL)


def no_transition(me: Server) -> TransitionResult:
    """Return the transition result that changes nothing (`NoTransition`)."""
    return TransitionResult(me.state, me.current_epoch, me.leader)


def transition_to_unattached(epoch: int) -> TransitionResult:
    """Return the transition result of entering an epoch without a leader (`TransitionToUnattached`)."""
    return TransitionResult(ServerState.UNATTACHED, epoch, Nil.NIL)


def transition_to_follower(me: Server, leader: ServerId | Nil, epoch: int) -> TransitionResult:
    """Return the transition result of following a leader (`TransitionToFollower`)."""
    if me.current_epoch == epoch and me.state in (ServerState.FOLLOWER, ServerState.LEADER):
        return ILLEGAL_TRANSITION
    return TransitionResult(ServerState.FOLLOWER, epoch, leader)


def has_consistent_leader(me: Server, leader: ServerId | Nil, epoch: int) -> bool:
    """Return whether the leader in a message is consistent with the server's own (`HasConsistentLeader`)."""
    if leader == me.id:
        resigned = me.role is Role.OBSERVER or me.state is ServerState.RESIGNED
        return (me.current_epoch == epoch and resigned) or me.state is ServerState.LEADER
    return epoch != me.current_epoch or leader is Nil.NIL or me.leader is Nil.NIL or me.leader == leader


def maybe_transition(me: Server, leader: ServerId | Nil, epoch: int) -> TransitionResult:
    """Return the transition result for the leader and epoch in a message (`MaybeTransition`)."""
    if not has_consistent_leader(me, leader, epoch):
        return ILLEGAL_TRANSITION
    if epoch > me.current_epoch:
        return transition_to_unattached(epoch) if leader is Nil.NIL else transition_to_follower(me, leader, epoch)
    if leader is not Nil.NIL and me.leader is Nil.NIL and leader != me.id:
        return transition_to_follower(me, leader, epoch)
    return no_transition(me)


def handle_common_response(me: Server, leader: ServerId | Nil, epoch: int, error: Error | Nil) -> TransitionResult:
    """Return the transition result for the common fields of responses (`MaybeHandleCommonResponse`)."""
    if epoch < me.current_epoch:
        return no_transition(me)._replace(handled=True)
    if epoch > me.current_epoch or error in (Error.FENCED_LEADER_EPOCH, Error.NOT_LEADER):
        return maybe_transition(me, leader, epoch)._replace(handled=True)
    if leader is not Nil.NIL and me.leader is Nil.NIL:
        return TransitionResult(ServerState.FOLLOWER, me.current_epoch, leader, error is not Nil.NIL)
    return no_transition(me)
