"""KIP-704: leaders that are elected uncleanly recover the partition before anyone is served.

A controller, brokers with one partition, and a client. Source: KIP-704, "Send a hint to the partition leader to recover
the partition" (KAFKA-13587). What the KIP leaves open is as in Kafka: KIP-497 for the ISR, KIP-101 and KIP-279 for
truncation, KIP-392 for followers that serve consumers, KIP-841 for replicas that may not join the ISR. Every action
says which section it comes from; `docs/coverage.md` has the statements one by one, `docs/findings.md` where they
disagree.

What is not here: broker epochs, reassignment, transactions (what recovering does is a step of its own), and what
answers to clients contain.
"""

from __future__ import annotations

from collections.abc import Iterator

from kraftcheck.kraft_model.recovery.brokers import BrokerActions
from kraftcheck.kraft_model.recovery.controller import ControllerActions
from kraftcheck.kraft_model.recovery.partition import merged, values
from kraftcheck.kraft_model.recovery.records import (
    RECOVERED,
    RECOVERING,
    SYMBOLS,
    UNTOLD,
    Api,
    Broker,
    Client,
    Controller,
    Mode,
    Nil,
    PartitionRecord,
    Shared,
)
from kraftcheck.kraft_model.recovery.replication import ClientActions, ReplicationActions
from kraftcheck.spec import (
    Bag,
    ConstantError,
    ModelValue,
    Protocol,
    State,
    bound,
    constant,
    invariant,
    ordered,
    step_invariant,
)


class Recovery(ReplicationActions, ClientActions, BrokerActions, ControllerActions, Protocol):
    """KIP-704: a leader that is elected uncleanly recovers before anyone is served."""

    mode: Mode = constant("Mode", default=Mode.KRAFT)
    brokers: frozenset[ModelValue] = constant("Brokers")
    initial_isr: frozenset[ModelValue] = constant("InitialIsr")
    old_brokers: frozenset[ModelValue] = constant("OldBrokers", default=frozenset())
    old_ibp: frozenset[ModelValue] = constant("OldIbp", default=frozenset())
    controller_recovers: bool = constant("ControllerRecovers", default=True)
    apis: frozenset[Api] = constant("Apis", default=frozenset(Api))
    fences: int = bound("MaxFences")
    unclean_elections: int = bound("MaxUncleanElections")
    crashes: int = bound("MaxCrashes", default=0)
    fetches: int = bound("MaxFetches", default=0)
    isr_changes: int = bound("MaxIsrChanges", default=0)
    requests: int = bound("MaxRequests", default=0)
    resends: int = bound("MaxResends", default=0)
    losses: int = bound("MaxLosses", default=0)
    invalid_requests: int = bound("MaxInvalidRequests", default=0)
    controller_changes: int = bound("MaxControllerChanges", default=0)

    network = Bag(loses="losses")
    symbols = SYMBOLS

    def check_constants(self) -> None:
        """Refuse sets of brokers that are not among the brokers."""
        for name, chosen in (
            ("InitialIsr", self.initial_isr),
            ("OldBrokers", self.old_brokers),
            ("OldIbp", self.old_ibp),
        ):
            if not chosen <= self.brokers:
                strangers = ", ".join(map(str, ordered(chosen - self.brokers)))
                raise ConstantError(name, f"expected brokers, found {strangers}, not in Brokers")
        if not self.initial_isr:
            raise ConstantError("InitialIsr", "expected at least one broker, found the empty set")

    def initial(self) -> Iterator[State]:
        """Yield the one start: the first of the ISR leads, and everyone knows it."""
        leader = ordered(self.initial_isr)[0]
        created = PartitionRecord(leader, self.initial_isr, 0, 0)
        partition = merged(UNTOLD, created)
        kraft = self.mode is Mode.KRAFT
        brokers = [
            Broker(broker, cursor=int(kraft), partition=partition, truncated=broker != leader)
            for broker in ordered(self.brokers)
        ]
        shared = Shared(metadata=(created,) if kraft else (), last_leader=leader)
        yield self.start([*brokers, Controller(partition=partition), Client()], shared)

    # Properties

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
        """Who follows on a leader that has not recovered is elected uncleanly, and has to recover.

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

        KIP-704, Topic Partition Leader and Follower. A broker that does not know of recovering is exempt: it "behaves
        as it currently does" (Compatibility).
        """
        return not shared.served & shared.unrecovered

    @invariant
    def leader_has_acknowledged(self, me: Controller, peer: Broker, shared: Shared) -> bool:
        """The leader has all that clients were told is committed since the last unclean election. KIP-497, KIP-101."""
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

    # Properties that the KIP's own design breaks: see docs/findings.md

    @invariant
    def nobody_serves_while_recovering(self, me: Controller, peer: Broker) -> bool:
        """While the partition is RECOVERING no broker would serve a FETCH, not even one that has not heard of it."""
        return me.partition.recovery is RECOVERED or not self._serves(peer, Api.FETCH)

    @invariant
    def nothing_acknowledged_is_lost(self, me: Controller, peer: Broker, shared: Shared) -> bool:
        """The leader has all that clients were ever told is committed. KIP-704, Motivation, says that it may not."""
        kept = {value for _, value in shared.acknowledged}
        return peer.id != me.partition.leader or kept <= values(peer.log)
