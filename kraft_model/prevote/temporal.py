"""The temporal properties of `prevote` and its fairness, under the names of the specification kraft_kip_996.

With TestLiveness FALSE they are checked within the bounds of a configuration; with TRUE the state space is infinite.
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
from kraftcheck.kraft_model.prevote.transitions import is_voter
from kraftcheck.spec import (
    Formula,
    Map,
    ModelValue,
    Record,
    anywhere,
    at,
    every,
    infinitely_often,
    leads_to,
    ordered,
    predicate,
    projection,
    temporal,
    weak,
)

OF_SERVERS = (
    "CheckQuorumResign",
    "VoterFetchTimeout",
    "VoterElectionTimeout",
    "ResignedElectionTimeout",
    "ConcludePreVote",
    "BecomeLeader",
)
OF_PAIRS = (
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
FAIRNESS = (*(weak(name, each="replica") for name in OF_SERVERS), *(weak(name, each="pair") for name in OF_PAIRS))
"""The specification's Fairness: weak, for each server, and for each with each peer."""


class Standing(Record):
    """The part of a server that the properties read of others."""

    state: ServerState
    epoch: int
    votes: bool
    leader: int | Nil
    config: Config
    log: tuple[Entry, ...]
    hwm: int

    def has(self, config_id: int, offset: int | None = None) -> bool:
        """Return whether the configuration of an id is in its log, or in what of it is before an offset."""
        values = [entry.value for entry in self.log[:offset]]
        return any(
            isinstance(one, InitialMembers | AddedVoter | RemovedVoter) and one.id == config_id for one in values
        )


Servers = Map[int, Standing]


class PrevoteTemporal(PrevoteBase):
    """ValuesEventuallyAcked, ReconfigurationNotStuck, EventuallyLeaderElected, NotStuckInProspective."""

    specifications = {"Spec": False, "LivenessSpec": FAIRNESS}

    @projection
    def all_of(self, me: Server) -> Standing:
        """What the temporal properties read of every server."""
        return Standing(me.state, me.current_epoch, is_voter(me), me.leader, me.config, me.log, me.hwm)

    @predicate(given=["value"])
    def is_sent(self, shared: Shared, value: ModelValue) -> bool:
        """A client has sent a value."""
        return value in shared.sent

    @predicate(given=["value"])
    def is_acked(self, shared: Shared, value: ModelValue) -> bool:
        """A client was told what became of a value, and not twice."""
        return (value in shared.positively_acked) is not (value in shared.negatively_acked)

    @temporal
    def values_eventually_acked(self) -> Formula:
        """A client will be told what became of each value that it sent."""
        values = ordered(self.values)
        return every([leads_to(self.is_sent.of(value=one), self.is_acked.of(value=one)) for one in values])

    @predicate(reads=all_of, given=["config_id"])
    def everywhere_or_nowhere(self, shared: Shared, all_of: Servers, config_id: int) -> bool:
        """A current leader has committed a configuration, or none that it can reach has it (ConfigAllOrNothing)."""
        newest = max(server.epoch for server in all_of.values())
        for key, server in all_of.items():
            if server.state is not ServerState.LEADER or server.epoch < newest:
                continue
            cut_off = {
                member
                for member in server.config.members
                if not self._connected(shared, key, member) or all_of[member].state is ServerState.DEAD_NO_STATE
            }
            members = server.config.members - cut_off
            if not members or server.has(config_id, server.hwm):
                return True
            if not any(all_of[member].has(config_id) for member in members):
                return True
        return False

    @temporal
    def reconfiguration_not_stuck(self) -> Formula:
        """A change of the configuration is committed or gone, again and again."""
        changes = range(1, 1 + self.max_add_reconfigs + self.max_remove_reconfigs)
        return every([infinitely_often(self.everywhere_or_nowhere.of(config_id=number)) for number in changes])

    @predicate(reads=all_of)
    def is_functional(self, me: Server, all_of: Servers) -> bool:
        """A leader is followed by a majority of its members, itself included (FunctionalLeaderExists)."""
        following = [
            one for one in all_of.values() if one.votes and one.leader == me.id and me.id in one.config.members
        ]
        return me.state is ServerState.LEADER and len(following) > len(me.config.members) // 2

    @temporal
    def eventually_leader_elected(self) -> Formula:
        """Where no leader is followed by a majority, there will be one."""
        return leads_to(~anywhere(self.is_functional), anywhere(self.is_functional))

    @predicate
    def is_prospective(self, me: Server) -> bool:
        """A server asks for pre-votes."""
        return me.state is ServerState.PROSPECTIVE

    @predicate(reads=all_of)
    def hears_of_nobody(self, me: Server, shared: Shared, all_of: Servers) -> bool:
        """A server is connected to no member that is not prospective too."""
        return not any(
            self._connected(shared, me.id, member) and all_of[member].state is not ServerState.PROSPECTIVE
            for member in me.config.members
        )

    @temporal
    def not_stuck_in_prospective(self) -> Formula:
        """No server is prospective for ever, unless it is cut off from all that are not."""
        return every(
            [
                leads_to(at(one, self.is_prospective), ~at(one, self.is_prospective) | at(one, self.hears_of_nobody))
                for one in range(1, self.max_spawned_servers + 1)
            ]
        )
