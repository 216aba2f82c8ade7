"""The controller of `eligible-leaders`: registrations, fencing, and the partition's ISR, ELR and leader."""

from __future__ import annotations

from collections.abc import Iterator

from kraftcheck.spec import (
    ConstantError,
    Map,
    Protocol,
    Record,
    State,
    Steps,
    become,
    bound,
    constant,
    internal,
    on,
    ordered,
    projection,
)
from kraftcheck.spec.examples.eligible_leaders.records import (
    NOBODY,
    AlterPartitionRequest,
    AlterPartitionResponse,
    Broker,
    Change,
    Controller,
    Error,
    Fetcher,
    FetchSessionNetwork,
    Known,
    Members,
    Position,
    Progress,
    Registration,
    RegistrationRequest,
    RegistrationResponse,
    Role,
    Status,
    World,
    fetch_session_of_message,
)

ReplicasById = Map[int, Record]


def broker_view_after_change(change: Change) -> Known:
    """Return the partition as a broker knows it after a record."""
    return Known(change.isr, change.isr, change.leader, change.leader_epoch, change.partition_epoch)


class EligibleController(Protocol):
    """The constants, the initial state, and the controller's actions."""

    broker_count: int = constant("BrokerCount", at_least=1)
    values: int = constant("Values", default=1, at_least=0)
    min_isr: int = constant("MinISR", at_least=1)
    isr_size: int = constant("InitIsrSize", at_least=1)
    clean_shutdowns: int = bound("NoDataLossShutdownLimit", default=0)
    unclean_shutdowns: int = bound("DataLossShutdownLimit", default=0)
    fences: int = bound("FenceBrokerLimit", default=0)
    shrinks: int = bound("LeaderShrinkIsrLimit", default=0)

    network = FetchSessionNetwork(groups=fetch_session_of_message)

    def check_constants(self) -> None:
        """Reject an ISR that is larger than the set of brokers or smaller than MinISR."""
        if not self.min_isr <= self.isr_size <= self.broker_count:
            raise ConstantError("InitIsrSize", f"expected {self.min_isr} to {self.broker_count}, found {self.isr_size}")

    def initial(self) -> Iterator[State]:
        """Yield the initial state: broker 1 leads; brokers beyond the ISR are fenced, and know an older partition."""
        brokers = range(1, self.broker_count + 1)
        isr = frozenset(brokers[: self.isr_size])
        created = Change(isr, frozenset(), frozenset(), 1, 1, 1 if len(isr) == len(brokers) else 2)
        older = Known(frozenset(brokers), frozenset(brokers), 1, 1, 1)
        replicas = [
            Broker(
                id=one,
                broker_epoch=one,
                incarnation=one,
                fetchers=Map((peer, Fetcher(Position(0, 1) if peer == 1 else None)) for peer in brokers if peer != one),
                followers=self._unknown(one),
                cursor=int(one in isr),
                known=broker_view_after_change(created) if one in isr else older,
                role=Role.LEADER if one == 1 else Role.FOLLOWER,
                epoch_start=int(one == 1),
            )
            for one in brokers
        ]
        controller = Controller(Map((one, Registration(one not in isr, one, one)) for one in brokers))
        yield self.start([controller, *replicas], World((created,), len(brokers), len(brokers) + 1))

    def _unknown(self, broker: int) -> Map[int, Progress]:
        return Map((peer, Progress()) for peer in range(1, self.broker_count + 1) if peer != broker)

    @projection
    def whole(self, me: Record) -> Record:
        """Return a process, for steps that change several of them."""
        return me

    # The controller

    def _elr(self, before: Change, isr: Members) -> Members:
        """Return the eligible leader replicas for a proposed ISR."""
        return frozenset() if len(isr) >= self.min_isr else before.elr | (before.isr - isr)

    def _change(self, before: Change, leader: int, isr: Members, elr: Members) -> Change:
        """Return the record of a change; a new leader, or the loss of one, begins a leader epoch."""
        gone = before.elr - elr
        last = frozenset() if len(isr) >= self.min_isr else before.last_known_elr | gone
        epoch = before.leader_epoch + 1
        return Change(isr, elr, last, leader, epoch, before.partition_epoch + 1)

    def _changes(
        self, before: Change, isr: Members, elr: Members, unfenced: Members
    ) -> Iterator[tuple[Change, ...]]:
        """Yield the records, at most one each, with which the controller may follow a change of brokers."""
        electable = elr & unfenced
        if before.leader in isr or (before.leader == NOBODY and not isr and not electable):
            same = (isr, elr) == (before.isr, before.elr)
            changed = self._change(before, before.leader, isr, elr).but(leader_epoch=before.leader_epoch)
            yield () if same else (changed,)
        elif isr:
            for leader in ordered(isr):
                yield (self._change(before, leader, isr, elr),)
        elif electable:
            for leader in ordered(electable):
                yield (self._change(before, leader, isr | {leader}, elr - {leader}),)
        else:
            yield (self._change(before, NOBODY, isr, elr),)

    def _fenced(self, me: Controller, broker: int, before: Change) -> Iterator[tuple[Change, ...]]:
        """Yield the records after a broker is fenced: it leaves the ISR, which may become empty."""
        isr = before.isr - {broker}
        yield from self._changes(before, isr, self._elr(before, isr), me.unfenced - {broker})

    def _unfenced(self, me: Controller, broker: int, before: Change) -> Iterator[tuple[Change, ...]]:
        """Yield the records after a broker is unfenced: an eligible one leads a partition without a leader."""
        if before.leader == NOBODY:
            yield from self._changes(before, before.isr, before.elr, me.unfenced | {broker})
        else:
            yield ()

    @internal
    def fence_broker(self, me: Controller, shared: World) -> Steps:
        """The session of a broker expires."""
        for broker in ordered(me.unfenced):
            for records in self._fenced(me, broker, shared.metadata[-1]):
                yield become(me.marked(broker, fenced=True)).put(metadata=shared.metadata + records).spend("fences")

    @internal(reads=whole)
    def unfence_broker(self, me: Controller, shared: World, whole: ReplicasById) -> Steps:
        """The controller hears a running broker again."""
        for broker in ordered(set(me.registrations) - me.unfenced):
            one = whole[broker]
            assert isinstance(one, Broker)
            if one.status is Status.RUNNING:
                for records in self._unfenced(me, broker, shared.metadata[-1]):
                    yield become(me.marked(broker, fenced=False)).put(metadata=shared.metadata + records)

    def _is_unclean(self, request: RegistrationRequest) -> bool:
        """Whether a broker has lost its broker epoch, and with it perhaps records."""
        return request.broker_epoch == 0

    @on(RegistrationRequest)
    def receive_broker_reg_request(self, me: Controller, request: RegistrationRequest, shared: World) -> Steps:
        """A broker gets a new broker epoch; one without its former epoch leaves ISR and ELR."""
        broker, registered, before = request.source, me.registrations[request.source], shared.metadata[-1]
        if not registered.fenced and registered.incarnation != request.incarnation:
            return
        epoch = shared.broker_epochs + 1
        after = me.but(registrations=me.registrations.put(broker, Registration(False, epoch, request.incarnation)))
        left = {broker} if self._is_unclean(request) else set[int]()
        unclean = self._changes(before, before.isr - left, before.elr - left, me.unfenced | {broker})
        answer = RegistrationResponse(epoch, request.incarnation, len(shared.metadata), broker)
        for records in unclean if left else self._unfenced(me, broker, before):
            yield become(after).put(metadata=shared.metadata + records, broker_epochs=epoch).reply(answer)

    def _alter_error(self, me: Controller, request: AlterPartitionRequest, before: Change) -> Error | None:
        """Return the error for AlterPartition, if any."""
        asked = (request.source, request.broker_epoch, request.partition_epoch)
        if asked != (before.leader, me.registrations[request.source].broker_epoch, before.partition_epoch):
            return Error.FENCED_LEADER_EPOCH
        for member, epoch in request.isr.items():
            one = me.registrations[member]
            if one.fenced or epoch not in (0, one.broker_epoch):
                return Error.INELIGIBLE_REPLICA
        return None

    @on(AlterPartitionRequest)
    def receive_alter_partition_request(self, me: Controller, request: AlterPartitionRequest, shared: World) -> Steps:
        """The controller takes or rejects the ISR that a leader proposes."""
        before, isr = shared.metadata[-1], frozenset(request.isr)
        error = self._alter_error(me, request, before)
        if error is not None:
            yield become(me).reply(AlterPartitionResponse(request, request.source, error))
            return
        changed = self._change(before, before.leader, isr, self._elr(before, isr)).but(leader_epoch=before.leader_epoch)
        told = (changed.isr, changed.leader, changed.leader_epoch, changed.partition_epoch)
        answer = AlterPartitionResponse(request, request.source, None, *told)
        yield become(me).put(metadata=(*shared.metadata, changed)).reply(answer)
