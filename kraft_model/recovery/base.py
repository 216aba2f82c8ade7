"""The constants of `recovery`, how it starts, who is served, and when a value is acknowledged."""

from __future__ import annotations

from collections.abc import Iterator

from kraftcheck.kraft_model.recovery.partition import high_watermark, merged
from kraftcheck.kraft_model.recovery.records import (
    RECOVERING,
    SYMBOLS,
    UNTOLD,
    AlterPartitionRequest,
    Api,
    Broker,
    Client,
    ClientResponse,
    Controller,
    Error,
    Mode,
    PartitionRecord,
    Shared,
)
from kraftcheck.spec import Bag, ConstantError, ModelValue, Protocol, State, Step, become, bound, constant, ordered


class RecoveryBase(Protocol):
    """Constants, bounds, the start, and what several modules use."""

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

    # Serving

    def _is_recovering(self, me: Broker) -> bool:
        """Whether a broker, leader or follower, refuses because the leader is recovering.

        It refuses until the controller has confirmed that the leader has recovered: it goes by the recovery state that
        it was told.
        """
        return me.partition.recovery is RECOVERING

    def _serves(self, me: Broker, api: Api) -> bool:
        """Whether a broker serves clients' requests of this kind."""
        may_serve = me.leads or (me.follows and api is Api.FETCH)
        return may_serve and not self._is_recovering(me)

    # Committing

    def _acknowledge(self, me: Broker, shared: Shared) -> Step:
        """Return the step in which a leader answers PRODUCE requests whose values all in-sync replicas have.

        While a request to change the ISR is under way, the replicas of both the old and the new one count (KIP-497).
        """
        if not me.leads or not me.waiting:
            return become(me)
        end = high_watermark(me, self._counted(me))
        done = sorted(offset for offset in me.waiting if offset <= end)
        if not done:
            return become(me)
        told = [(me.partition.leader_epoch, me.log[offset - 1].value) for offset in done]
        responses = [ClientResponse(Api.PRODUCE, value, Error.NONE, epoch, me.id) for epoch, value in told]
        left = me.but(waiting=me.waiting - set(done))
        return become(left).put(acknowledged=shared.acknowledged | set(told)).send(*responses)

    def _counted(self, me: Broker) -> frozenset[ModelValue]:
        """Return the replicas that must have a value before it is committed."""
        return me.partition.isr | (me.pending.isr if isinstance(me.pending, AlterPartitionRequest) else frozenset())
