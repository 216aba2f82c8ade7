"""What every fair behaviour of `recovery` does in the end, once disturbances stop. Each property names its source.

Fair is what brokers and the controller do by themselves, each by itself. Crashes, fences, unclean elections, changes
of the ISR and restarts are not.
"""

from __future__ import annotations

from kraftcheck.kraft_model.recovery.base import RecoveryBase
from kraftcheck.kraft_model.recovery.records import RECOVERING, Api, Broker, Controller, Name
from kraftcheck.spec import (
    Formula,
    Map,
    ModelValue,
    Record,
    at,
    every,
    leads_to,
    ordered,
    predicate,
    projection,
    temporal,
    weak,
)

FAIR = tuple(
    weak(name, each="replica")
    for name in (
        "ApplyMetadata",
        "HandleLeaderAndIsr",
        "Recover",
        "ReportRecovered",
        "RefuseAlterPartition",
        "AcceptAlterPartition",
        "HandleAlterPartitionResponse",
        "BreakConnection",
    )
)
"""What brokers and the controller do by themselves."""


class Decided(Record):
    """Whether the controller has a leader that recovers or has recovered, and which brokers have a session."""

    leader: ModelValue | None
    recovering: bool
    sessions: frozenset[ModelValue]


class RecoveryLiveness(RecoveryBase):
    """What happens in the end."""

    @projection
    def decided(self, me: Record) -> Decided | None:
        """What the controller has decided; None of other processes."""
        if not isinstance(me, Controller):
            return None
        leader, recovering = me.partition.leader, me.partition.recovery is RECOVERING
        return Decided(leader if isinstance(leader, ModelValue) else None, recovering, self.brokers - me.fenced)

    @projection
    def is_up(self, me: Record) -> bool:
        """Whether a broker runs."""
        return isinstance(me, Broker) and me.running

    @predicate(reads=(decided, is_up))
    def is_being_recovered(
        self, decided: Map[ModelValue | Name, Decided | None], is_up: Map[ModelValue | Name, bool]
    ) -> bool:
        """The partition is RECOVERING, and has a leader that runs."""
        known = decided[Name.CONTROLLER]
        return known is not None and known.recovering and known.leader is not None and is_up[known.leader]

    @temporal(fairness=FAIR)
    def recovering_ends(self) -> Formula:
        """RECOVERING with a leader that runs ends (KIP-704, Topic Partition Leader)."""
        recovering = self.is_being_recovered
        return leads_to(recovering, ~recovering)

    @predicate(reads=(decided, is_up))
    def refuses(
        self, me: Broker, decided: Map[ModelValue | Name, Decided | None], is_up: Map[ModelValue | Name, bool]
    ) -> bool:
        """A broker with a session refuses consumers, though the partition has a leader that runs and has recovered."""
        known = decided[Name.CONTROLLER]
        if known is None or known.recovering or known.leader is None or not is_up[known.leader]:
            return False
        return me.running and me.id in known.sessions and not self._serves(me, Api.FETCH)

    @temporal(fairness=FAIR)
    def everyone_serves(self) -> Formula:
        """Once the leader has recovered, it and its followers serve consumers (KIP-704, Topic Partition Follower)."""
        return every([leads_to(at(one, self.refuses), ~at(one, self.refuses)) for one in ordered(self.brokers)])


__all__ = ["RecoveryLiveness"]
