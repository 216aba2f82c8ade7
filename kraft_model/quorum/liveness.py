"""What should stay reachable in `quorum`, and what every fair behaviour does in the end. Each names its source.

A bound that is used up ends what a quorum can do: where elections are left out of the count, no more can follow.

Crashes, cuts, lost messages and requests of administrators are never fair: they are bounded, and come to an end. Fair
is what replicas do by themselves: messages are delivered (strong: an answer may be dropped at a timeout, but not for
ever), timers expire and requests are sent again (weak). A configuration has TimelyFetches, and hides the bounds of what
repeats by VIEW, since a fair action that only its bound keeps from being taken excuses a behaviour.
"""

from __future__ import annotations

from kraftcheck.kraft_model.quorum.base import ADMIN, QuorumBase
from kraftcheck.kraft_model.quorum.records import ENDED, Admin, Batch, Change, Data, Key, Mode, Nil, Replica, Shared
from kraftcheck.kraft_model.quorum.rules import VoterSet, matches, voter_of
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
from kraftcheck.spec.language.formula import Claim


class Office(Record):
    """A leader, as far as the properties here read it: its epoch, whether all is committed, how many voters it has."""

    epoch: int
    committed: bool
    voters: int


Offices = Map[ModelValue, Office | Nil]


def leaders(office: Offices) -> list[Office]:
    return [one for one in office.values() if isinstance(one, Office)]


OF_PAIRS = ("HandleVoteRequest", "HandleVoteResponse", "HandleFetchRequest", "HandleBeginQuorumEpochRequest")
OF_RECEIVERS = (
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
TIMERS = ("FetchTimeout", "ElectionTimeout", "PreVoteTimeout", "CheckQuorum", "Retry", "RepeatBeginQuorumEpoch")
DELIVERED = (
    *(strong(name, each="pair") for name in OF_PAIRS),
    *(strong(name, each="replica") for name in OF_RECEIVERS),
    weak("ResignedTimeout", each="replica"),
    strong("FetchFromBootstrapServer", each="pair"),
)
"""What is sent is delivered, and a replica does at last what waits for nothing."""

FAIR = (*DELIVERED, *(weak(name, each="replica") for name in TIMERS))
"""And timers expire."""


class Standing(Record):
    """The part of a replica that temporal properties read of others."""

    mode: Mode
    epoch: int
    leader: ModelValue | Nil
    key: Key
    log: tuple[Batch, ...]


Standings = Map[ModelValue, Standing | Nil]


class QuorumLiveness(QuorumBase):
    @projection
    def standing(self, me: Replica | Admin) -> Standing | Nil:
        """What the temporal properties read of every replica that runs."""
        if not isinstance(me, Replica) or me.mode in ENDED:
            return Nil.NIL
        return Standing(me.mode, me.epoch, me.leader, me.key, me.log)

    def ends(self, condition: Claim) -> Formula:
        """Return that a condition of a replica never lasts for ever, for each by itself."""
        return every([leads_to(at(host, condition), ~at(host, condition)) for host in ordered(self.hosts)])

    # Elections

    @predicate(reads=standing)
    def is_followed(self, me: Replica, shared: Shared, standing: Standings) -> bool:
        """A leader is followed by a majority of its voters that can reach it, itself included if it is one."""
        followers = {
            one.key
            for host, one in standing.items()
            if isinstance(one, Standing) and one.mode is Mode.FOLLOWER and (one.leader, one.epoch) == (me.id, me.epoch)
            if frozenset({me.id, host}) not in shared.cuts
        }
        return me.mode is Mode.LEADER and self.is_majority(me.voters, self.followers_counted(me, followers))

    def followers_counted(self, me: Replica, followers: set[Key]) -> set[Key]:
        """Return the voters among a leader's followers, and the voter that it is itself."""
        return {v.key for v in me.voters if any(matches(v.key, key) for key in followers)} | self.own_votes(me)

    @temporal(fairness=FAIR)
    def leaders_are_elected(self) -> Formula:
        """Again and again a leader is followed by a majority (KIP-595, "Leader Election and Discovery")."""
        return infinitely_often(anywhere(self.is_followed))

    @predicate
    def is_prospective(self, me: Replica) -> bool:
        """A replica asks for pre-votes."""
        return me.mode is Mode.PROSPECTIVE

    @temporal(fairness=[weak("PreVoteTimeout", each="replica")])
    def prospectives_end(self) -> Formula:
        """No replica stays prospective for ever (KIP-996, "Proposed Changes")."""
        return self.ends(self.is_prospective)

    @predicate(reads=standing)
    def leads_unheard(self, me: Replica, shared: Shared, standing: Standings) -> bool:
        """A leader of several voters is one that no majority of them can fetch from."""
        reached = {
            one.key
            for host, one in standing.items()
            if isinstance(one, Standing) and host != me.id and frozenset({me.id, host}) not in shared.cuts
        }
        heard = self.followers_counted(me, reached)
        return me.mode is Mode.LEADER and len(me.voters) > 1 and not self.is_majority(me.voters, heard)

    @temporal(fairness=[weak("CheckQuorum", each="replica")])
    def unheard_leaders_step_down(self) -> Formula:
        """A leader that no majority can fetch from steps down (KAFKA-13621, KAFKA-15489; KIP-853, "Fetch")."""
        return self.ends(self.leads_unheard)

    # Replication

    @predicate(reads=standing, given=["number"])
    def is_settled(self, shared: Shared, standing: Standings, number: int) -> bool:
        """A client's record is committed, or in the log of no replica that runs."""
        logs = [shared.committed, *(one.log for one in standing.values() if isinstance(one, Standing))]
        found = [any(Data(number) in batch.records for batch in log) for log in logs]
        return found[0] or not any(found)

    @temporal(fairness=FAIR)
    def records_are_settled(self) -> Formula:
        """What a client appended is committed, or gone from every log of a replica that runs (KIP-595, "Fetch")."""
        return every([infinitely_often(self.is_settled.of(number=n)) for n in range(1, self.appends + 1)])

    @predicate
    def leads_uncommitted(self, me: Replica) -> bool:
        """A leader has batches that are not committed."""
        return me.mode is Mode.LEADER and me.high_watermark < len(me.log)

    @temporal(fairness=FAIR)
    def leaders_commit_or_leave(self) -> Formula:
        """A leader commits what it has, or leads no more (KIP-595, "Fetch")."""
        return self.ends(self.leads_uncommitted)

    # Voters

    @predicate(reads=standing)
    def voters_are_committed(self, shared: Shared, standing: Standings) -> bool:
        """Every voter set in the log of a replica that runs is committed."""
        logs = [one.log for one in standing.values() if isinstance(one, Standing)]
        ends = [self.last_voters_record(log) for log in logs]
        return all(log[:end] == shared.committed[:end] for log, end in zip(logs, ends, strict=True))

    @temporal(fairness=FAIR)
    def voter_changes_are_settled(self) -> Formula:
        """A voter change is committed, or gone from every log of a replica that runs (KIP-853, "Voter changes")."""
        return infinitely_often(self.voters_are_committed)

    @predicate
    def leads_as_observer(self, me: Replica) -> bool:
        """A leader is no voter."""
        return me.mode is Mode.LEADER and voter_of(me.voters, me.key) is None

    @temporal(fairness=FAIR)
    def removed_leaders_step_down(self) -> Formula:
        """A leader that is not a voter any more leads no more in the end (KIP-853, "RemoveVoter", step 7)."""
        return self.ends(self.leads_as_observer)

    @predicate
    def is_removed_unaware(self, me: Replica, shared: Shared) -> bool:
        """A replica that runs takes itself for a voter, and its removal is committed."""
        voters = self.voters_in(shared.committed, frozenset())
        gone = bool(voters) and voter_of(voters, me.key) is None
        return me.mode not in ENDED and gone and voter_of(me.voters, me.key) is not None and self.was_voter(me, shared)

    def was_voter(self, me: Replica, shared: Shared) -> bool:
        """Whether a replica was ever a voter of what is committed."""
        sets: list[VoterSet] = [self.formatted_voters(me.id, me.directory)]
        sets += [voters for _, voters in self.voter_sets(shared.committed)]
        return any(voter_of(voters, me.key) is not None for voters in sets)

    @temporal(fairness=FAIR)
    def removed_voters_learn_of_it(self) -> Formula:
        """A removed voter that runs comes to know that it is none (KIP-853, "Removing voters")."""
        return self.ends(self.is_removed_unaware)

    @predicate(reads=standing)
    def follows_nobody_who_leads(self, me: Replica, standing: Standings) -> bool:
        """An observer that runs does not follow the leader of the newest epoch in which there is one."""
        leads = [one for one in standing.values() if isinstance(one, Standing) and one.mode is Mode.LEADER]
        newest = max((one.epoch for one in leads), default=0)
        if me.mode in ENDED or me.mode is Mode.LEADER or voter_of(me.voters, me.key) is not None or not newest:
            return False
        return (me.mode, me.epoch) != (Mode.FOLLOWER, newest)

    @temporal(fairness=(*DELIVERED, weak("CheckQuorum", each="replica")))
    def observers_follow(self) -> Formula:
        """An observer comes to follow the leader of the newest epoch (KIP-595, "Observers"; KIP-853)."""
        return self.ends(self.follows_nobody_who_leads)

    # Operations

    @predicate
    def is_asked(self, me: Replica) -> bool:
        """A leader has an operation of an administrator in its hands."""
        return isinstance(me.change, Change) and me.change.client == ADMIN

    @predicate
    def is_down(self, me: Replica) -> bool:
        """A replica's process has ended."""
        return me.mode in ENDED

    @temporal(fairness=(*FAIR, weak("ExpireOperation", each="replica")))
    def operations_are_answered(self) -> Formula:
        """Who asks for an operation is answered, or its replica is down (KIP-853, "AddVoter", "RemoveVoter").

        At the latest when it expires. With PlainAnswers the administrator reads the answer.
        """
        read = [taken("ReadAnswer")] if self.plain_answers else []
        asked = self.is_asked
        ends = [self.ends(asked)]
        told = [leads_to(at(h, asked), one | at(h, self.is_down)) for h in ordered(self.hosts) for one in read]
        return every([*ends, *told])

    @temporal(fairness=FAIR)
    def who_is_added_becomes_a_voter(self) -> Formula:
        """A replica that is asked for once becomes a voter (KIP-853, "AddVoter")."""
        return leads_to(taken("AddVoter"), anywhere(self.knows_a_new_voter))

    @predicate
    def knows_a_new_voter(self, me: Replica) -> bool:
        """A replica knows a voter that was none at first."""
        return any(voter.key.id not in self.initial_voters for voter in me.voters)

    # Endpoints

    @predicate
    def is_misplaced(self, me: Replica, shared: Shared) -> bool:
        """A voter that runs has other endpoints than the committed voter set has for it."""
        voters = self.voters_in(shared.committed, frozenset())
        known = voter_of(voters, me.key)
        return me.mode not in ENDED and known is not None and known.endpoint != me.endpoint

    @temporal(fairness=(*FAIR, weak("SendUpdateVoter", each="replica")))
    def endpoints_become_known(self) -> Formula:
        """Other endpoints of a voter come to be in the committed voter set (KIP-853, "UpdateVoter")."""
        return self.ends(self.is_misplaced)

    @projection
    def office(self, me: Replica | Admin) -> Office | Nil:
        """The office of a leader; Nil for everyone else."""
        if not isinstance(me, Replica) or me.mode is not Mode.LEADER:
            return Nil.NIL
        return Office(me.epoch, me.high_watermark == len(me.log), len(me.voters))

    @reachable(reads=office)
    def somebody_can_lead(self, office: Offices, spent: Map[str, int]) -> bool:
        """A leader can be elected (KIP-595, "Leader Election and Discovery"), unless all elections are used up."""
        return bool(leaders(office)) or spent["elections"] == self.elections

    @reachable(reads=office)
    def somebody_can_commit(self, office: Offices, spent: Map[str, int]) -> bool:
        """A leader can commit all that it has (KIP-595), unless nobody leads and all elections are used up."""
        found = leaders(office)
        return any(one.committed for one in found) if found else spent["elections"] == self.elections

    @reachable(reads=office, without=["FetchTimeout"])
    def fetches_commit(self, office: Offices) -> bool:
        """A leader can commit all that it has without waiting for a follower's fetch timer (KIP-595, "Fetch")."""
        return any(one.committed for one in leaders(office))

    @projection
    def voter_count(self, me: Replica | Admin) -> int:
        """How many voters a replica knows."""
        return len(me.voters) if isinstance(me, Replica) else 0

    @reachable(reads=(office, voter_count))
    def lost_disks_block_nobody(self, office: Offices, voter_count: Map[ModelValue, int]) -> bool:
        """A leader can commit though two lost disks are voters beside all hosts (KIP-853, "Disk failure recovery")."""
        return max(voter_count.values()) < len(self.hosts) + 2 or any(one.committed for one in leaders(office))

    @reachable(reads=office)
    def observers_find_the_leader(self, me: Replica, office: Offices) -> bool:
        """An observer can come to follow the leader of the newest epoch (KIP-595, "Observers"; KIP-853)."""
        newest = max((one.epoch for one in leaders(office)), default=0)
        if self.is_voter(me) or not newest:
            return True
        found = next((one for host, one in office.items() if host == me.leader), Nil.NIL)
        return isinstance(found, Office) and found.epoch == newest

    @reachable
    def removed_voters_hear_of_it(self, me: Replica, shared: Shared) -> bool:
        """A voter whose removal is committed can come to know that it is none (KIP-853, "Removing voters")."""
        voters = self.voters_in(shared.committed, frozenset())
        return not self.is_voter(me) or not voters or any(matches(voter.key, me.key) for voter in voters)

    @projection
    def has_grown(self, me: Replica | Admin) -> bool:
        """Whether a replica uses a voter set with somebody who was no voter at first."""
        return isinstance(me, Replica) and any(voter.key.id not in self.initial_voters for voter in me.voters)

    @reachable(reads=has_grown)
    def voters_can_be_added(self, has_grown: Map[ModelValue, bool]) -> bool:
        """A replica that is asked for once can become a voter (KIP-853, "AddVoter")."""
        return any(has_grown.values())
