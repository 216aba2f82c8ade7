"""What should stay reachable in `quorum`, whatever has happened. Each names its source.

A bound that is used up ends what a quorum can do: where elections are left out of the count, no more can follow.
"""

from __future__ import annotations

from kraftcheck.kraft_model.quorum.base import QuorumBase
from kraftcheck.kraft_model.quorum.log import matches
from kraftcheck.kraft_model.quorum.records import Mode, Nil
from kraftcheck.kraft_model.quorum.state import Admin, Replica, Shared
from kraftcheck.spec import Map, ModelValue, Record, projection, reachable


class Office(Record):
    """A leader, as far as the properties here read it: its epoch, whether all is committed, how many voters it has."""

    epoch: int
    committed: bool
    voters: int


Offices = Map[ModelValue, Office | Nil]


def leaders(office: Offices) -> list[Office]:
    """Return the leaders' offices."""
    return [one for one in office.values() if isinstance(one, Office)]


class QuorumProgress(QuorumBase):
    """What should stay reachable."""

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
