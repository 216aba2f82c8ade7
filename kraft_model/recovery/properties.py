"""The properties of `recovery`. Each names its source."""

from __future__ import annotations

from kraftcheck.kraft_model.recovery.base import RecoveryBase
from kraftcheck.kraft_model.recovery.partition import values
from kraftcheck.kraft_model.recovery.records import RECOVERED, RECOVERING, Api, Broker, Controller, Nil, Shared
from kraftcheck.spec import invariant, reachable, step_invariant


class RecoveryProperties(RecoveryBase):
    """Invariants, step invariants and what should stay reachable."""

    @invariant
    def recovering_has_one_in_sync(self, me: Controller) -> bool:
        """RECOVERING implies one in-sync replica. KIP-704, Topic Partition Leader ("an important invariant")."""
        return me.partition.recovery is RECOVERED or len(me.partition.isr) == 1

    @step_invariant
    def alter_partition_never_unrecovers(self, before: Controller, after: Controller) -> bool:
        """Within a leader epoch nothing leads from RECOVERED to RECOVERING. KIP-704, AlterPartition RPC, 2."""
        old, new = before.partition, after.partition
        return old.leader_epoch != new.leader_epoch or old.recovery is RECOVERING or new.recovery is RECOVERED

    @step_invariant
    def successor_elected_uncleanly(self, before: Controller, after: Controller, shared: Shared) -> bool:
        """The successor of a leader that has not recovered is elected uncleanly, and has to recover.

        KIP-704, Topic Partition Leader ("if the leader changes while a partition is still recovering, the new leader
        must be elected using the unclean leader election strategy"). The same broker coming back is no change.
        """
        old, new = before.partition, after.partition
        if old.leader_epoch not in shared.unrecovered or new.leader in (Nil.NO_LEADER, shared.last_leader):
            return True
        return new.leader not in old.isr and new.recovery is RECOVERING

    @invariant
    def no_client_served_while_recovering(self, shared: Shared) -> bool:
        """No client is served in a leader epoch whose leader has not recovered.

        KIP-704, Topic Partition Leader and Follower. A broker that does not know the recovery state is exempt: it
        "behaves as it currently does" (Compatibility).
        """
        return not shared.served & shared.unrecovered

    @invariant
    def leader_has_acknowledged(self, me: Controller, peer: Broker, shared: Shared) -> bool:
        """The leader has all that was acknowledged to clients since the last unclean election. KIP-497, KIP-101."""
        kept = {value for epoch, value in shared.acknowledged if epoch >= shared.unclean_epoch}
        return peer.id != me.partition.leader or kept <= values(peer.log)

    @invariant
    def log_matching(self, me: Broker, peer: Broker) -> bool:
        """Where two logs have an entry of one epoch at one offset, they are the same up to there. KIP-101, KIP-279."""
        return all(
            me.log[: place + 1] == peer.log[: place + 1]
            for place, (mine, theirs) in enumerate(zip(me.log, peer.log, strict=False))
            if mine.epoch == theirs.epoch
        )

    @reachable
    def everyone_can_serve(self, me: Broker) -> bool:
        """Every broker can come to serve consumers again. KIP-704, Topic Partition Follower ("until ... RECOVERED")."""
        return self._serves(me, Api.FETCH)

    # Properties that the KIP's own design breaks: see docs/findings.md

    @invariant
    def nobody_serves_while_recovering(self, me: Controller, peer: Broker) -> bool:
        """While the partition is RECOVERING no broker would serve a FETCH, not even one that has not heard of it."""
        return me.partition.recovery is RECOVERED or not self._serves(peer, Api.FETCH)

    @invariant
    def nothing_acknowledged_is_lost(self, me: Controller, peer: Broker, shared: Shared) -> bool:
        """The leader has all that was ever acknowledged to clients. KIP-704, Motivation, says that it may not."""
        kept = {value for _, value in shared.acknowledged}
        return peer.id != me.partition.leader or kept <= values(peer.log)
