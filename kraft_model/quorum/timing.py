"""What timers of `quorum` go by where fetches are timely.

There are no clocks: a timer may expire whenever it runs, and safety must not depend on it. Progress does: where every
answer comes too late, nobody ever gets anywhere. With TimelyFetches a fetch timer expires only where the leader is gone
or cut off, and a request is sent again only where nobody gets it, or where messages are lost (MaxLosses).
"""

from __future__ import annotations

from kraftcheck.kraft_model.quorum.base import QuorumBase
from kraftcheck.kraft_model.quorum.records import ENDED, Mode, Nil
from kraftcheck.kraft_model.quorum.state import Admin, Replica, Shared
from kraftcheck.spec import Map, ModelValue, projection

Bystanders = Map[ModelValue, Replica | Nil]


class QuorumTiming(QuorumBase):
    """Whether what a replica waits for can still come."""

    @projection
    def bystander(self, me: Replica | Admin) -> Replica | Nil:
        """With WatchPreVotes, every replica: a pre-vote round notes who watches it.

        With TimelyFetches, of every replica that runs where it is reached, and whether it leads.
        """
        if not isinstance(me, Replica):
            return Nil.NIL
        if self.watch_pre_votes or not self.timely_fetches:
            return me if self.watch_pre_votes else Nil.NIL
        if me.mode in ENDED:
            return Nil.NIL
        seen = self.replica_type(me.id, endpoint=me.endpoint)
        return seen.but(mode=me.mode, epoch=me.epoch) if me.mode is Mode.LEADER else seen

    def is_reached(self, me: Replica, server: ModelValue, address: int, shared: Shared, seen: Bystanders) -> bool:
        """Whether a replica that runs is at an address, and the link to it is not cut; 0 is always right."""
        found = seen.get(server, Nil.NIL)
        if not isinstance(found, Replica) or self.is_cut(me, server, shared):
            return False
        return address in (0, found.endpoint)

    def is_served(self, me: Replica, shared: Shared, seen: Bystanders) -> bool:
        """Whether the leader that a follower fetches from still leads its epoch, and can be reached."""
        if not self.timely_fetches or isinstance(me.leader, Nil):
            return False
        if not self.is_reached(me, me.leader, me.leader_endpoint, shared, seen):
            return False
        leader = seen[me.leader]
        return isinstance(leader, Replica) and (leader.mode, leader.epoch) == (Mode.LEADER, me.epoch)

    def is_answered(self, me: Replica, shared: Shared, seen: Bystanders) -> bool:
        """Whether what a replica waits for will come: its request reaches who runs, and no message is ever lost."""
        request = me.pending
        if not self.timely_fetches or self.losses or isinstance(request, Nil):
            return False
        return self.is_reached(me, request.dest, request.address, shared, seen)

    def is_worked_for(self, me: Replica, shared: Shared, seen: Bystanders) -> bool:
        """Whether the leader will answer a replica's own UpdateVoter, AddVoter or RemoveVoter."""
        return not self.losses and self.is_served(me, shared, seen)


__all__ = ["Bystanders", "QuorumTiming"]
