"""The properties of `reconfig`: the specification's five invariants and two temporal properties, and more invariants.

Mutation testing showed the gaps that the additional invariants close (`docs/mutation.md`).
"""

from __future__ import annotations

from itertools import pairwise

from kraftcheck.kraft_model.reconfig.base import ReconfigBase
from kraftcheck.kraft_model.reconfig.records import (
    AddedMember,
    Config,
    Entry,
    Error,
    FetchDiverging,
    FetchRejected,
    FetchRequest,
    FetchResponse,
    FetchSucceeded,
    InitialMembers,
    Nil,
    RemovedMember,
    RequestVoteResponse,
    Result,
    Role,
    Server,
    ServerId,
    ServerState,
    Shared,
)
from kraftcheck.kraft_model.reconfig.rules import ILLEGAL_TRANSITION, last_epoch
from kraftcheck.spec import (
    Formula,
    Map,
    ModelValue,
    Record,
    every,
    infinitely_often,
    invariant,
    ordered,
    predicate,
    projection,
    step_invariant,
    temporal,
)


class LogSummary(Record):
    """State, epoch, log, high watermark and configuration of a server, for properties of values and configurations."""

    state: ServerState
    epoch: int
    log: tuple[Entry, ...]
    high_watermark: int
    config: Config

    def has(self, what: ModelValue | int) -> bool:
        """Return whether the log contains a client's value, or a configuration by its id."""
        return any(_entry_has_value_or_config_id(entry, what) for entry in self.log)

    def has_committed(self, what: ModelValue | int) -> bool:
        """Return whether the committed log contains a client's value, or a configuration by its id."""
        return any(_entry_has_value_or_config_id(entry, what) for entry in self.log[: self.high_watermark])


def _entry_has_value_or_config_id(entry: Entry, what: ModelValue | int) -> bool:
    if isinstance(entry.value, (InitialMembers, AddedMember, RemovedMember)):
        return entry.value.id == what
    return entry.value == what


def _is_committed_by_all_or_absent(members: list[LogSummary], what: ModelValue | int) -> bool:
    """Return whether all members have committed an entry, or no member has it in its log."""
    return all(one.has_committed(what) for one in members) or not any(one.has(what) for one in members)


OBSERVER_STATES = (ServerState.LEADER, ServerState.FOLLOWER, ServerState.UNATTACHED, ServerState.VOTED)


class LeaderSummary(Record):
    """State and epoch of a server, and the client values in its log, by which properties compare leaders."""

    state: ServerState
    epoch: int
    values: frozenset[ModelValue]


ENDED_STATES = (ServerState.DEAD_NO_STATE, ServerState.ILLEGAL)


class ReconfigProperties(ReconfigBase):
    """The specification's own temporal properties, under WF_vars(Next) in LivenessSpec, and its five invariants."""

    @projection
    def holding(self, me: Server) -> LogSummary:
        """Return a server's state, epoch, log, high watermark and configuration."""
        return LogSummary(me.state, me.current_epoch, me.log, me.high_watermark, me.config)

    @predicate(reads=holding, given=["what"])
    def committed_or_nothing(
        self, spent: Map[str, int], holding: Map[ServerId, LogSummary], what: ModelValue | int
    ) -> bool:
        """All members of the newest leader's configuration have committed an entry, or none has it in its log.

        It holds too with all elections used up. NoProgressPossible requires only that, since it looks for a server
        whose `state` is Voter, which is a role (CommittedValueOrNothing, ConfigAllOrNothing).
        """
        if spent["elections"] == self.elections:
            return True
        newest = max(server.epoch for server in holding.values())
        leaders = [one for one in holding.values() if one.state is ServerState.LEADER and one.epoch == newest]
        return any(
            _is_committed_by_all_or_absent([holding[one] for one in leader.config.members], what) for leader in leaders
        )

    @temporal
    def values_not_stuck(self) -> Formula:
        """Infinitely often, a client's value is committed everywhere or truncated everywhere."""
        return every([infinitely_often(self.committed_or_nothing.of(what=value)) for value in ordered(self.values)])

    @temporal
    def reconfiguration_not_stuck(self) -> Formula:
        """Infinitely often, a configuration change is committed everywhere or truncated everywhere."""
        changes = self.add_reconfigs + self.remove_reconfigs
        return every([infinitely_often(self.committed_or_nothing.of(what=number + 1)) for number in range(changes)])

    @invariant
    def no_illegal_state(self, me: Server) -> bool:
        """No server ever enters the illegal state."""
        return me.state is not ILLEGAL_TRANSITION.state

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
        """Two servers of one epoch never know different leaders."""
        if me.leader is Nil.NIL or peer.leader is Nil.NIL:
            return True
        return me.leader == peer.leader or me.current_epoch != peer.current_epoch

    @projection
    def standing(self, me: Server) -> LeaderSummary:
        """Return a server's state and epoch, and the client values in its log."""
        values = frozenset(entry.value for entry in me.log if isinstance(entry.value, ModelValue))
        return LeaderSummary(me.state, me.current_epoch, values)

    @invariant(reads=standing)
    def leader_has_all_acked_values(self, shared: Shared, standing: Map[ServerId, LeaderSummary]) -> bool:
        """A leader of the newest epoch holds every acknowledged value."""
        acked = {value for value, ack in shared.acked.items() if ack is True}
        newest = max(server.epoch for server in standing.values())
        return all(
            acked <= server.values
            for server in standing.values()
            if server.state is ServerState.LEADER and server.epoch == newest
        )


class ReconfigDetails(ReconfigProperties):
    """Further invariants, of the states, requests and responses of servers."""

    # Servers

    @invariant
    def states_match_leaders(self, me: Server) -> bool:
        """A leader knows itself as leader, a follower another server, and a candidate has its own vote. KIP-595."""
        if me.state is ServerState.LEADER:
            return me.leader == me.id
        if me.state is ServerState.FOLLOWER:
            return me.leader not in (Nil.NIL, me.id)
        if me.state is ServerState.CANDIDATE:
            return me.voted_for == me.id and me.leader is Nil.NIL
        return me.state is not ServerState.VOTED or me.voted_for not in (Nil.NIL, me.id)

    @invariant
    def logs_hold_what_is_committed(self, me: Server) -> bool:
        """A log reaches its high watermark, its epochs never decrease, and none exceeds the server's. KIP-595."""
        epochs = [entry.epoch for entry in me.log]
        return me.high_watermark <= len(me.log) and epochs == sorted(epochs) and last_epoch(me.log) <= me.current_epoch

    @invariant
    def newest_configuration_is_used(self, me: Server) -> bool:
        """A server uses the last configuration in its log, committed or not. KIP-853, Reconfiguration."""
        changes = [entry.value for entry in me.log if not isinstance(entry.value, ModelValue)]
        if not changes or me.state in ENDED_STATES:
            return True
        return (me.config.id, me.config.members) == (changes[-1].id, changes[-1].members)

    @invariant
    def changes_change_one_member(self, me: Server) -> bool:
        """A configuration differs from the previous one in the log by exactly the changed member. KIP-853."""
        changes = [entry.value for entry in me.log if not isinstance(entry.value, ModelValue)]
        for before, after in pairwise(changes):
            if isinstance(after, AddedMember) and before.members | {after.new} != after.members:
                return False
            if isinstance(after, RemovedMember) and before.members - {after.old} != after.members:
                return False
            if len(before.members ^ after.members) != 1 or after.id != before.id + 1:
                return False
        return True

    @step_invariant
    def epochs_only_grow(self, before: Server, after: Server) -> bool:
        """Epochs never decrease; within one, a server votes once and follows one leader. KIP-595, Vote.

        The vote of an unattached server is of an older epoch: the specification never clears it.
        """
        if after.state in ENDED_STATES or before.state in ENDED_STATES:
            return True
        if before.current_epoch != after.current_epoch:
            return before.current_epoch < after.current_epoch
        voted = (
            before.state is ServerState.UNATTACHED
            or before.voted_for is Nil.NIL
            or after.voted_for in (before.voted_for, Nil.NIL)
        )
        led = before.leader is Nil.NIL or after.leader in (before.leader, Nil.NIL)
        return voted and led

    @step_invariant
    def committed_stays(self, before: Server, after: Server) -> bool:
        """A server never truncates below its high watermark. KIP-595, Log Reconciliation."""
        return after.state in ENDED_STATES or before.log[: before.high_watermark] == after.log[: before.high_watermark]

    @step_invariant
    def commits_with_majorities(self, before: Server, after: Server) -> bool:
        """A leader commits the offset that a majority of its members holds, in its own epoch. KIP-595; KIP-853."""
        if before.state is not ServerState.LEADER or after.high_watermark <= before.high_watermark:
            return True
        members = before.config.members
        holding = {
            peer for peer in members if peer == before.id or after.end_offset.get(peer, 0) >= after.high_watermark
        }
        return 2 * len(holding) > len(members) and before.log[after.high_watermark - 1].epoch == before.current_epoch

    @invariant
    def leaders_know_their_followers(self, me: Server, peer: Server) -> bool:
        """A leader's end offset of a follower is within the follower's log, and counted votes were given. KIP-595."""
        if me.current_epoch != peer.current_epoch or peer.state in ENDED_STATES:
            return True
        if me.state is ServerState.CANDIDATE and peer.id in me.votes_granted and peer.voted_for != me.id:
            return False
        return me.state is not ServerState.LEADER or me.end_offset.get(peer.id, 0) <= len(peer.log)

    @invariant
    def values_are_clients(self, me: Server, shared: Shared) -> bool:
        """Every value in a log was sent by a client, and every server was started. The specification's history."""
        values = [entry.value for entry in me.log if isinstance(entry.value, ModelValue)]
        return me.id in shared.servers and all(shared.acked[value] is not Nil.NIL for value in values)

    # Messages

    @invariant
    def fetches_have_positions(self, message: FetchRequest) -> bool:
        """A fetch goes to another server, at a possible log position. KIP-595, Fetch."""
        empty = message.fetch_offset == 0
        return (
            message.source != message.dest
            and empty == (message.last_fetched_epoch == 0)
            and message.last_fetched_epoch <= message.epoch
        )

    @invariant
    def fetches_are_answered_as_asked(self, message: FetchResponse) -> bool:
        """A fetch response matches its request: receiver, error, diverging position. KIP-595, Fetch."""
        asked = message.correlation
        if (asked.source, asked.dest) != (message.dest, message.source):
            return False
        if isinstance(message, FetchRejected):
            return message.result is Result.NOT_OK and self._is_refusal(message, asked)
        by_leader = message.leader in (message.source, Nil.NIL)  # Nil once the leader has removed itself
        if not by_leader or (message.epoch, message.error) != (asked.epoch, Nil.NIL):
            return False
        if isinstance(message, FetchDiverging):
            position = (message.diverging_epoch, message.diverging_end_offset)
            return position < (asked.last_fetched_epoch, asked.fetch_offset) and message.result is Result.DIVERGING
        assert isinstance(message, FetchSucceeded)
        return message.result is Result.OK and len(message.entries) <= 1

    def _is_refusal(self, message: FetchRejected, asked: FetchRequest) -> bool:
        """Whether the error of a rejected fetch applies to the fetch request `asked`."""
        if message.error is Error.FENCED_LEADER_EPOCH:
            return asked.epoch < message.epoch
        if message.error is Error.UNKNOWN_LEADER:
            return asked.epoch > message.epoch
        if message.error is Error.NOT_LEADER:
            return message.leader != message.source
        return message.error is Error.UNKNOWN_MEMBER

    @invariant
    def votes_are_granted_without_error(self, message: RequestVoteResponse) -> bool:
        """A granted vote has no error and no leader; no server answers itself. KIP-595, Vote."""
        alone = message.error is Nil.NIL and message.leader is Nil.NIL
        return message.source != message.dest and (alone or not message.vote_granted)
