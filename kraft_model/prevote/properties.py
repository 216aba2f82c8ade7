"""The invariants and temporal properties of `prevote`, and its fairness, under the specification's names.

The specification's TestInv, which is TRUE, serves debugging and is omitted. With TestLiveness FALSE the temporal
properties are checked within the bounds of a configuration; with TRUE the state space is infinite.
"""

from __future__ import annotations

from kraftcheck.kraft_model.prevote.base import PrevoteBase
from kraftcheck.kraft_model.prevote.records import (
    AddedVoter,
    Config,
    Entry,
    InitialMembers,
    Nil,
    RemovedVoter,
    Server,
    ServerState,
    Shared,
)
from kraftcheck.kraft_model.prevote.rules import ILLEGAL_TRANSITION, is_voter
from kraftcheck.spec import (
    Formula,
    Map,
    ModelValue,
    Record,
    anywhere,
    at,
    every,
    infinitely_often,
    invariant,
    leads_to,
    ordered,
    predicate,
    projection,
    temporal,
    weak,
)

ACTIONS_FAIR_BY_SERVER = (
    "CheckQuorumResign",
    "VoterFetchTimeout",
    "VoterElectionTimeout",
    "ResignedElectionTimeout",
    "ConcludePreVote",
    "BecomeLeader",
)
ACTIONS_FAIR_BY_PAIR = (
    "HandleVoteRequest",
    "HandleVoteResponse",
    "RejectFetchRequest",
    "DivergingFetchRequest",
    "AcceptFetchRequest",
    "ResendBeginQuorumEpochRequest",
    "AcceptBeginQuorumRequest",
    "SendFetchRequest",
    "HandleFetchResponse",
)
FAIRNESS = (
    *(weak(name, each="replica") for name in ACTIONS_FAIR_BY_SERVER),
    *(weak(name, each="pair") for name in ACTIONS_FAIR_BY_PAIR),
)
"""The specification's Fairness: weak, for each server, and for each server with each peer."""


class TemporalSummary(Record):
    """State, epoch, leader, configuration and log of a server, for the temporal properties."""

    state: ServerState
    epoch: int
    votes: bool
    leader: int | Nil
    config: Config
    log: tuple[Entry, ...]
    hwm: int

    def has(self, config_id: int, offset: int | None = None) -> bool:
        """Return whether the log, up to `offset` if given, contains the configuration with id `config_id`."""
        values = [entry.value for entry in self.log[:offset]]
        return any(
            isinstance(one, InitialMembers | AddedVoter | RemovedVoter) and one.id == config_id for one in values
        )


TemporalSummaries = Map[int, TemporalSummary]


OBSERVER_STATES = (ServerState.LEADER, ServerState.FOLLOWER, ServerState.UNATTACHED, ServerState.RESIGNED)
ELECTION_STATES = (ServerState.PROSPECTIVE, ServerState.CANDIDATE)


class LogValuesSummary(Record):
    """Whether a server leads and is a voter, its epoch and its log's values, for properties of acknowledged values."""

    leads: bool
    votes: bool
    epoch: int
    values: frozenset[ModelValue]


class PrevoteProperties(PrevoteBase):
    specifications = {"Spec": False, "LivenessSpec": FAIRNESS}

    @projection
    def all_of(self, me: Server) -> TemporalSummary:
        """Return a server's state, epoch, leader, configuration, log and high watermark, and whether it is a voter."""
        return TemporalSummary(me.state, me.current_epoch, is_voter(me), me.leader, me.config, me.log, me.hwm)

    @predicate(given=["value"])
    def is_sent(self, shared: Shared, value: ModelValue) -> bool:
        """A client has sent a value."""
        return value in shared.sent

    @predicate(given=["value"])
    def is_acked(self, shared: Shared, value: ModelValue) -> bool:
        """A value is either acknowledged or rejected to its client."""
        return (value in shared.positively_acked) is not (value in shared.negatively_acked)

    @temporal
    def values_eventually_acked(self) -> Formula:
        """Every value that a client sends is eventually acknowledged or rejected."""
        values = ordered(self.values)
        return every([leads_to(self.is_sent.of(value=one), self.is_acked.of(value=one)) for one in values])

    @predicate(reads=all_of, given=["config_id"])
    def everywhere_or_nowhere(self, shared: Shared, all_of: TemporalSummaries, config_id: int) -> bool:
        """The newest leader has committed a configuration, or no member in reach has it (ConfigAllOrNothing)."""
        newest = max(server.epoch for server in all_of.values())
        return any(
            one.state is ServerState.LEADER
            and one.epoch == newest
            and self._all_or_none(shared, all_of, key, config_id)
            for key, one in all_of.items()
        )

    def _all_or_none(self, shared: Shared, all_of: TemporalSummaries, leader: int, config_id: int) -> bool:
        """Whether a leader has committed a configuration, or no member connected to it has it in its log."""
        me = all_of[leader]
        reached = [
            all_of[member]
            for member in me.config.members
            if self._connected(shared, leader, member) and all_of[member].state is not ServerState.DEAD_NO_STATE
        ]
        return not reached or me.has(config_id, me.hwm) or not any(one.has(config_id) for one in reached)

    @temporal
    def reconfiguration_not_stuck(self) -> Formula:
        """Infinitely often, every change of the configuration is committed or gone."""
        changes = range(1, 1 + self.max_add_reconfigs + self.max_remove_reconfigs)
        return every([infinitely_often(self.everywhere_or_nowhere.of(config_id=number)) for number in changes])

    @predicate(reads=all_of)
    def is_functional(self, me: Server, all_of: TemporalSummaries) -> bool:
        """A leader is followed by a majority of its members, itself included (FunctionalLeaderExists)."""
        following = [
            one for one in all_of.values() if one.votes and one.leader == me.id and me.id in one.config.members
        ]
        return me.state is ServerState.LEADER and len(following) > len(me.config.members) // 2

    @temporal
    def eventually_leader_elected(self) -> Formula:
        """If a majority follows no leader, then eventually a majority follows one."""
        return leads_to(~anywhere(self.is_functional), anywhere(self.is_functional))

    @predicate
    def is_prospective(self, me: Server) -> bool:
        """A server is prospective."""
        return me.state is ServerState.PROSPECTIVE

    @predicate(reads=all_of)
    def hears_of_nobody(self, me: Server, shared: Shared, all_of: TemporalSummaries) -> bool:
        """A server is connected only to prospective members."""
        return not any(
            self._connected(shared, me.id, member) and all_of[member].state is not ServerState.PROSPECTIVE
            for member in me.config.members
        )

    @temporal
    def not_stuck_in_prospective(self) -> Formula:
        """No server stays prospective forever, unless it is cut off from all other states."""
        return every(
            [
                leads_to(at(one, self.is_prospective), ~at(one, self.is_prospective) | at(one, self.hears_of_nobody))
                for one in range(1, self.max_spawned_servers + 1)
            ]
        )

    @invariant
    def no_illegal_state(self, me: Server) -> bool:
        """No server ever enters the illegal state."""
        return me.state is not ILLEGAL_TRANSITION.state

    @invariant
    def log_matching(self, me: Server, peer: Server) -> bool:
        """Two servers hold the same entries up to the lower of their high watermarks."""
        common = min(me.hwm, peer.hwm)
        return me.log[:common] == peer.log[:common]

    @invariant
    def election_safety(self, me: Server, peer: Server) -> bool:
        """Two servers of one epoch never know different leaders."""
        if me.leader is Nil.NIL or peer.leader is Nil.NIL:
            return True
        return me.leader == peer.leader or me.current_epoch != peer.current_epoch

    @projection
    def holding(self, me: Server) -> LogValuesSummary:
        """Return the leadership, membership, epoch and values of a server."""
        values = frozenset(entry.value for entry in me.log if isinstance(entry.value, ModelValue))
        return LogValuesSummary(me.state is ServerState.LEADER, is_voter(me), me.current_epoch, values)

    @invariant(reads=holding)
    def leader_completeness(self, shared: Shared, holding: Map[int, LogValuesSummary]) -> bool:
        """A leader of the newest epoch holds every acknowledged value."""
        newest = max(server.epoch for server in holding.values())
        return all(
            shared.positively_acked <= server.values
            for server in holding.values()
            if server.leads and server.epoch == newest
        )

    @invariant(reads=holding)
    def durability(self, shared: Shared, holding: Map[int, LogValuesSummary]) -> bool:
        """Every acknowledged value is in the log of a voter."""
        held = frozenset[ModelValue]().union(*(server.values for server in holding.values() if server.votes))
        return shared.positively_acked <= held

    @invariant
    def valid_roles_and_states(self, me: Server) -> bool:
        """A server's state is consistent with its membership, leader, pending values and votes."""
        return (
            (is_voter(me) or me.state in (*OBSERVER_STATES, ServerState.DEAD_NO_STATE))
            and (me.state is not ServerState.UNATTACHED or me.leader is Nil.NIL)
            and (me.state is ServerState.LEADER or not me.pending_ack)
            and (me.state in ELECTION_STATES or not me.votes_recv)
        )
