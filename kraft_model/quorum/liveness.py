"""Reachability goals (AG EF) and liveness properties of `quorum`, with their sources and fairness.

An exhausted bound stops the quorum. A goal that may need an election therefore holds once MaxElections is exhausted.

Crashes, cuts, lost messages and requests of administrators are never fair: their number is bounded. The steps of
replicas are fair. Deliveries have strong fairness: a timeout may drop a response, but not every time. Timers and
retries have weak fairness. A configuration sets TimelyFetches and hides the bounds of repeating actions by VIEW.
Otherwise an exhausted bound of a fair action would excuse a behaviour from the property.
"""

from __future__ import annotations

from kraftcheck.kraft_model.quorum.base import QuorumBase
from kraftcheck.kraft_model.quorum.records import (
    ADMIN,
    ENDED_MODES,
    Admin,
    Batch,
    Change,
    Data,
    Key,
    Mode,
    Nil,
    Replica,
    Shared,
)
from kraftcheck.kraft_model.quorum.rules import VoterSet, matches_voter, matching_voter
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
    reachable,
    strong,
    taken,
    temporal,
    weak,
)
from kraftcheck.spec.language.formula import FormulaOrPredicate


class LeaderSummary(Record):
    """The epoch and voter count of a leader, and whether its whole log is committed."""

    epoch: int
    committed: bool
    voters: int


LeaderSummaries = Map[ModelValue, LeaderSummary | Nil]


def summaries_of_leaders(office: LeaderSummaries) -> list[LeaderSummary]:
    return [one for one in office.values() if isinstance(one, LeaderSummary)]


ACTIONS_FAIR_BY_PAIR = (
    "HandleVoteRequest",
    "HandleVoteResponse",
    "HandleFetchRequest",
    "HandleBeginQuorumEpochRequest",
)
ACTIONS_FAIR_BY_REPLICA = (
    "HandleEndQuorumEpochRequest",
    "HandleAcknowledgement",
    "HandleFetchResponse",
    "HandleApiVersionsRequest",
    "HandleApiVersionsResponse",
    "HandleAddVoterRequest",
    "HandleRemoveVoterRequest",
    "HandleJoinResponse",
    "HandleUpdateVoterRequest",
    "HandleUpdateVoterResponse",
    "ReadAnswer",
)
TIMER_ACTIONS = ("FetchTimeout", "ElectionTimeout", "PreVoteTimeout", "CheckQuorum", "Retry", "RepeatBeginQuorumEpoch")
DELIVERY_FAIRNESS = (
    *(strong(name, each="pair") for name in ACTIONS_FAIR_BY_PAIR),
    *(strong(name, each="replica") for name in ACTIONS_FAIR_BY_REPLICA),
    weak("ResignedTimeout", each="replica"),
    strong("FetchFromBootstrapServer", each="pair"),
)
"""Fairness of message delivery, and of actions that wait for no timer."""

FAIRNESS = (*DELIVERY_FAIRNESS, *(weak(name, each="replica") for name in TIMER_ACTIONS))
"""Fairness of deliveries and timers."""


class TemporalSummary(Record):
    """Mode, epoch, leader, replica key and log of a replica, for the temporal properties."""

    mode: Mode
    epoch: int
    leader: ModelValue | Nil
    key: Key
    log: tuple[Batch, ...]


TemporalSummaries = Map[ModelValue, TemporalSummary | Nil]


class QuorumLiveness(QuorumBase):
    @projection
    def standing(self, me: Replica | Admin) -> TemporalSummary | Nil:
        """Return a running replica's mode, epoch, leader, replica key and log; Nil for any other process."""
        if not isinstance(me, Replica) or me.mode in ENDED_MODES:
            return Nil.NIL
        return TemporalSummary(me.mode, me.epoch, me.leader, me.key, me.log)

    def ends(self, condition: FormulaOrPredicate) -> Formula:
        """Return the formula which states that no replica satisfies `condition` forever."""
        return every([leads_to(at(host, condition), ~at(host, condition)) for host in ordered(self.hosts)])

    # Elections

    @predicate(reads=standing)
    def is_followed(self, me: Replica, shared: Shared, standing: TemporalSummaries) -> bool:
        """A leader is followed by a majority of its voters over links that are up; as a voter, it counts itself."""
        return self.has_followers(me, shared, standing)

    def has_followers(self, me: Replica, shared: Shared, standing: TemporalSummaries) -> bool:
        followers = {
            one.key
            for host, one in standing.items()
            if isinstance(one, TemporalSummary)
            and one.mode is Mode.FOLLOWER
            and (one.leader, one.epoch) == (me.id, me.epoch)
            if frozenset({me.id, host}) not in shared.cuts
        }
        return me.mode is Mode.LEADER and self.is_majority(me.voters, self.followers_counted(me, followers))

    def followers_counted(self, me: Replica, followers: set[Key]) -> set[Key]:
        """Return the voters that follow a leader, and the leader itself if it is a voter."""
        return {v.key for v in me.voters if any(matches_voter(v.key, key) for key in followers)} | self.own_votes(me)

    @temporal(fairness=FAIRNESS)
    def leaders_are_elected(self) -> Formula:
        """Infinitely often, a majority follows a leader (KIP-595, "Leader Election and Discovery")."""
        return infinitely_often(anywhere(self.is_followed))

    @predicate
    def is_prospective(self, me: Replica) -> bool:
        """A replica is prospective."""
        return me.mode is Mode.PROSPECTIVE

    @temporal(fairness=[weak("PreVoteTimeout", each="replica")])
    def prospectives_end(self) -> Formula:
        """No replica stays prospective forever (KIP-996, "Proposed Changes")."""
        return self.ends(self.is_prospective)

    @predicate(reads=standing)
    def leads_unheard(self, me: Replica, shared: Shared, standing: TemporalSummaries) -> bool:
        """A leader of several voters is cut off from a majority of them."""
        reached = {
            one.key
            for host, one in standing.items()
            if isinstance(one, TemporalSummary) and host != me.id and frozenset({me.id, host}) not in shared.cuts
        }
        heard = self.followers_counted(me, reached)
        return me.mode is Mode.LEADER and len(me.voters) > 1 and not self.is_majority(me.voters, heard)

    @temporal(fairness=[weak("CheckQuorum", each="replica")])
    def unheard_leaders_step_down(self) -> Formula:
        """A leader cut off from every majority eventually steps down (KAFKA-13621, KAFKA-15489; KIP-853, "Fetch")."""
        return self.ends(self.leads_unheard)

    # Replication

    @predicate(reads=standing, given=["number"])
    def is_settled(self, shared: Shared, standing: TemporalSummaries, number: int) -> bool:
        """A client's record is committed, or in no log of a running replica."""
        logs = [shared.committed, *(one.log for one in standing.values() if isinstance(one, TemporalSummary))]
        found = [any(Data(number) in batch.records for batch in log) for log in logs]
        return found[0] or not any(found)

    @temporal(fairness=FAIRNESS)
    def records_are_settled(self) -> Formula:
        """Every client record is eventually committed, or gone from all logs of running replicas (KIP-595, "Fetch")."""
        return every([infinitely_often(self.is_settled.of(number=n)) for n in range(1, self.appends + 1)])

    @predicate
    def leads_uncommitted(self, me: Replica) -> bool:
        """A leader has uncommitted batches."""
        return me.mode is Mode.LEADER and me.high_watermark < len(me.log)

    @temporal(fairness=FAIRNESS)
    def leaders_commit_or_leave(self) -> Formula:
        """A leader eventually commits its log, or loses leadership (KIP-595, "Fetch")."""
        return self.ends(self.leads_uncommitted)

    # Voters

    @predicate(reads=standing)
    def voters_are_committed(self, shared: Shared, standing: TemporalSummaries) -> bool:
        """The last voter set in the log of every running replica is committed."""
        logs = [one.log for one in standing.values() if isinstance(one, TemporalSummary)]
        ends = [self.last_voters_record(log) for log in logs]
        return all(log[:end] == shared.committed[:end] for log, end in zip(logs, ends, strict=True))

    @temporal(fairness=FAIRNESS)
    def voter_changes_are_settled(self) -> Formula:
        """A voter change is eventually committed, or gone from the log of every running replica (KIP-853)."""
        return infinitely_often(self.voters_are_committed)

    @predicate
    def leads_as_observer(self, me: Replica) -> bool:
        """A leader is not a voter."""
        return me.mode is Mode.LEADER and matching_voter(me.voters, me.key) is None

    @temporal(fairness=FAIRNESS)
    def removed_leaders_step_down(self) -> Formula:
        """A leader outside its voter set eventually loses leadership (KIP-853, "RemoveVoter", step 7)."""
        return self.ends(self.leads_as_observer)

    @predicate
    def is_removed_unaware(self, me: Replica, shared: Shared) -> bool:
        """A running replica is a voter by its own log, although its removal is committed."""
        voters = self.voters_in(shared.committed, frozenset())
        gone = bool(voters) and matching_voter(voters, me.key) is None
        return (
            me.mode not in ENDED_MODES
            and gone
            and matching_voter(me.voters, me.key) is not None
            and self.was_voter(me, shared)
        )

    def was_voter(self, me: Replica, shared: Shared) -> bool:
        """Whether a replica is in any committed voter set, or in its formatted one."""
        sets: list[VoterSet] = [self.formatted_voters(me.id, me.directory)]
        sets += [voters for _, voters in self.voter_sets(shared.committed)]
        return any(matching_voter(voters, me.key) is not None for voters in sets)

    @temporal(fairness=FAIRNESS)
    def removed_voters_learn_of_it(self) -> Formula:
        """A removed voter that runs eventually learns of its removal (KIP-853, "Removing voters")."""
        return self.ends(self.is_removed_unaware)

    @predicate(reads=standing)
    def follows_nobody_who_leads(self, me: Replica, standing: TemporalSummaries) -> bool:
        """A running observer does not follow the leader of the newest epoch with a leader."""
        leads = [one for one in standing.values() if isinstance(one, TemporalSummary) and one.mode is Mode.LEADER]
        newest = max((one.epoch for one in leads), default=0)
        if (
            me.mode in ENDED_MODES
            or me.mode is Mode.LEADER
            or matching_voter(me.voters, me.key) is not None
            or not newest
        ):
            return False
        return (me.mode, me.epoch) != (Mode.FOLLOWER, newest)

    @temporal(fairness=(*DELIVERY_FAIRNESS, weak("CheckQuorum", each="replica")))
    def observers_follow(self) -> Formula:
        """An observer eventually follows the leader of the newest epoch (KIP-595, "Observers"; KIP-853)."""
        return self.ends(self.follows_nobody_who_leads)

    # Operations

    @predicate
    def is_asked(self, me: Replica) -> bool:
        """A leader has a pending operation of an administrator."""
        return isinstance(me.change, Change) and me.change.client == ADMIN

    @predicate
    def is_down(self, me: Replica) -> bool:
        """A replica's process has ended."""
        return me.mode in ENDED_MODES

    @temporal(fairness=(*FAIRNESS, weak("ExpireOperation", each="replica")))
    def operations_are_answered(self) -> Formula:
        """Every operation is eventually answered, or its replica has ended (KIP-853, "AddVoter", "RemoveVoter").

        At the latest it is answered at its timeout. With PlainAnswers the administrator receives the response.
        """
        read = [taken("ReadAnswer")] if self.plain_answers else []
        asked = self.is_asked
        ends = [self.ends(asked)]
        told = [leads_to(at(h, asked), one | at(h, self.is_down)) for h in ordered(self.hosts) for one in read]
        return every([*ends, *told])

    @temporal(fairness=FAIRNESS)
    def who_is_added_becomes_a_voter(self) -> Formula:
        """After AddVoter, a replica eventually knows a voter that is not an initial one (KIP-853, "AddVoter")."""
        return leads_to(taken("AddVoter"), anywhere(self.knows_a_new_voter))

    @predicate
    def knows_a_new_voter(self, me: Replica) -> bool:
        """The voter set in use by a replica has a voter that is not an initial one."""
        return any(voter.key.id not in self.initial_voters for voter in me.voters)

    # Endpoints

    @predicate
    def is_misplaced(self, me: Replica, shared: Shared) -> bool:
        """A running voter has another endpoint than in the committed voter set."""
        voters = self.voters_in(shared.committed, frozenset())
        known = matching_voter(voters, me.key)
        return me.mode not in ENDED_MODES and known is not None and known.endpoint != me.endpoint

    @temporal(fairness=(*FAIRNESS, weak("SendUpdateVoter", each="replica")))
    def endpoints_become_known(self) -> Formula:
        """A voter's new endpoint eventually appears in the committed voter set (KIP-853, "UpdateVoter")."""
        return self.ends(self.is_misplaced)

    @projection
    def office(self, me: Replica | Admin) -> LeaderSummary | Nil:
        """Return a leader's epoch and voter count, and whether its whole log is committed; Nil for others."""
        if not isinstance(me, Replica) or me.mode is not Mode.LEADER:
            return Nil.NIL
        return LeaderSummary(me.epoch, me.high_watermark == len(me.log), len(me.voters))

    @reachable(reads=office)
    def somebody_can_lead(self, office: LeaderSummaries, spent: Map[str, int]) -> bool:
        """A leader can be elected (KIP-595, "Leader Election and Discovery"), unless MaxElections is exhausted."""
        return bool(summaries_of_leaders(office)) or spent["elections"] == self.elections

    @reachable(reads=office)
    def somebody_can_commit(self, office: LeaderSummaries, spent: Map[str, int]) -> bool:
        """A leader can commit its whole log (KIP-595), unless no leader is left and MaxElections is exhausted."""
        found = summaries_of_leaders(office)
        return any(one.committed for one in found) if found else spent["elections"] == self.elections

    @reachable(reads=office, without=["FetchTimeout"])
    def fetches_commit(self, office: LeaderSummaries) -> bool:
        """A leader can commit its whole log without any fetch timeout (KIP-595, "Fetch")."""
        return any(one.committed for one in summaries_of_leaders(office))

    @projection
    def voter_count(self, me: Replica | Admin) -> int:
        """Number of voters in a replica's voter set."""
        return len(me.voters) if isinstance(me, Replica) else 0

    @reachable(reads=(office, voter_count))
    def lost_disks_block_nobody(self, office: LeaderSummaries, voter_count: Map[ModelValue, int]) -> bool:
        """A leader can commit with two lost disks still among the voters (KIP-853, "Disk failure recovery")."""
        return max(voter_count.values()) < len(self.hosts) + 2 or any(
            one.committed for one in summaries_of_leaders(office)
        )

    @reachable(reads=office)
    def observers_find_the_leader(self, me: Replica, office: LeaderSummaries) -> bool:
        """An observer can come to follow the leader of the newest epoch (KIP-595, "Observers"; KIP-853)."""
        newest = max((one.epoch for one in summaries_of_leaders(office)), default=0)
        if self.is_voter(me) or not newest:
            return True
        found = next((one for host, one in office.items() if host == me.leader), Nil.NIL)
        return isinstance(found, LeaderSummary) and found.epoch == newest

    @reachable
    def replicas_can_catch_up(self, me: Replica, shared: Shared) -> bool:
        """A running replica can come to hold the committed log (KIP-595, "Fetch")."""
        return me.mode in ENDED_MODES or me.log[: len(shared.committed)] == shared.committed

    @reachable
    def removed_voters_hear_of_it(self, me: Replica, shared: Shared) -> bool:
        """A voter can learn of its committed removal (KIP-853, "Removing voters")."""
        voters = self.voters_in(shared.committed, frozenset())
        return not self.is_voter(me) or not voters or any(matches_voter(voter.key, me.key) for voter in voters)

    @projection
    def has_grown(self, me: Replica | Admin) -> bool:
        """Whether the voter set in use by a replica has a voter that is not an initial one."""
        return isinstance(me, Replica) and any(voter.key.id not in self.initial_voters for voter in me.voters)

    @reachable(reads=has_grown)
    def voters_can_be_added(self, has_grown: Map[ModelValue, bool]) -> bool:
        """A voter that is not an initial one can be added (KIP-853, "AddVoter")."""
        return any(has_grown.values())
