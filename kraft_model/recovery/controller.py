"""The controller of `recovery`: sessions, elections, AlterPartition, and updates to brokers."""

from __future__ import annotations

from collections.abc import Iterable

from kraftcheck.kraft_model.recovery.base import (
    RecoveryBase,
    clean_election_leader,
    partition_after_record,
    record_of_changed_partition_fields,
)
from kraftcheck.kraft_model.recovery.records import (
    RECOVERED,
    RECOVERING,
    AlterPartitionRequest,
    AlterPartitionResponse,
    Broker,
    Controller,
    Error,
    LeaderAndIsrRequest,
    Mode,
    Nil,
    Partition,
    PartitionChangeRecord,
    RecoveryState,
    Shared,
)
from kraftcheck.spec import Map, ModelValue, Record, Step, Steps, become, consume, internal, on, ordered, projection


class RecoveryController(RecoveryBase):
    # Sessions

    @internal
    def fence_broker(self, me: Controller, shared: Shared) -> Steps:
        """The controller fences a broker whose session expires, whether it is stopped or cut off.

        The broker leaves the ISR, unless it is the last member. If it was leader, the first unfenced member of the ISR
        leads, or no broker does. Source: KIP-704, Topic Partition Leader ("if the leader changes while a partition is
        still recovering"); Kafka, ReplicationControlManager.handleBrokerFenced.
        """
        for broker in ordered(self.brokers - me.fenced):
            fenced = me.but(fenced=me.fenced | {broker})
            yield self._decide(fenced, self._without(fenced, broker), shared).spend("fences")

    def _without(self, me: Controller, broker: ModelValue) -> PartitionChangeRecord:
        """Return the change that takes a fenced broker out of the ISR, and elects another leader if it leads."""
        isr = me.partition.isr - {broker} or me.partition.isr
        if me.partition.leader != broker:
            return record_of_changed_partition_fields(me.partition, isr=isr)
        return record_of_changed_partition_fields(
            me.partition, leader=clean_election_leader(isr, me.fenced), isr=isr, recovery=self._after_leader_fenced(me)
        )

    def _after_leader_fenced(self, me: Controller) -> RecoveryState:
        """Return the recovery state after the leader is fenced, which is the same as before."""
        return me.partition.recovery

    @projection
    def applied(self, me: Record) -> int:
        """Number of metadata records applied by a running broker; -1 for other processes."""
        return me.cursor if isinstance(me, Broker) and me.running else -1

    @internal(reads=applied)
    def unfence_broker(self, me: Controller, shared: Shared, applied: Map[ModelValue, int]) -> Steps:
        """The controller unfences a running broker that knows the metadata.

        If the partition has no leader and the broker is in the ISR, it is elected, cleanly. RECOVERING stays: only the
        leader itself can report its recovery. Source: Kafka, ReplicationControlManager.handleBrokerUnfenced.
        """
        for broker in ordered(me.fenced):
            if applied[broker] < len(shared.metadata):
                continue
            record = self._with(me, broker) if me.partition.leader is Nil.NO_LEADER else PartitionChangeRecord()
            yield self._decide(me.but(fenced=me.fenced - {broker}), record, shared, also=[broker])

    def _with(self, me: Controller, broker: ModelValue) -> PartitionChangeRecord:
        """Return the change that elects an unfenced broker of the ISR where no broker leads."""
        if broker not in me.partition.isr:
            return PartitionChangeRecord()
        return record_of_changed_partition_fields(me.partition, leader=broker, recovery=self._after_clean_election(me))

    def _after_clean_election(self, me: Controller) -> RecoveryState:
        """Return the recovery state after a clean election from the ISR: unchanged."""
        return me.partition.recovery

    # Unclean leader election

    @internal
    def elect_uncleanly(self, me: Controller, shared: Shared) -> Steps:
        """The controller elects a broker outside the ISR, since the whole ISR is fenced.

        The ISR becomes that broker alone, and the recovery state RECOVERING, if the controller supports it. Source:
        KIP-704, Proposed Changes ("the ISR size is 1 and the leader recovery state field will be RECOVERING").
        """
        if me.partition.leader is not Nil.NO_LEADER:
            return
        if me.partition.isr - me.fenced:
            return
        for broker in ordered(self.brokers - me.fenced):
            record = record_of_changed_partition_fields(
                me.partition,
                leader=broker,
                isr=self._isr_after_unclean_election(me, broker),
                recovery=RECOVERING if self.controller_recovers else RECOVERED,
            )
            yield self._decide(me, record, shared).spend("unclean_elections")

    def _isr_after_unclean_election(self, me: Controller, leader: ModelValue) -> frozenset[ModelValue]:
        return frozenset({leader})

    # AlterPartition

    @on(AlterPartitionRequest)
    def refuse_alter_partition(self, me: Controller, request: AlterPartitionRequest) -> Steps:
        """The controller rejects a stale or invalid request with an error.

        Source: KIP-704, AlterPartition RPC, Request Handling 1 and 2; KIP-497 for the epochs; KIP-841 for ineligible
        replicas; in the order of Kafka's ReplicationControlManager.validateAlterPartitionData.
        """
        error = self._refusal(me, request)
        if error is Error.NONE:
            return
        yield consume(me).reply(_alter_partition_response(request, error, me.partition))

    @on(AlterPartitionRequest)
    def accept_alter_partition(self, me: Controller, request: AlterPartitionRequest, shared: Shared) -> Steps:
        """The controller persists the leader's new ISR and recovery state, and updates the brokers.

        A request of version 0 implies that the leader has recovered. Source: KIP-704, AlterPartition RPC, Request
        Handling and Response Schema.
        """
        if self._refusal(me, request) is not Error.NONE:
            return
        recovery = self._requested_recovery(me, request)
        record = record_of_changed_partition_fields(me.partition, isr=request.isr, recovery=recovery)
        recovers = record.recovery is not Nil.UNCHANGED
        others = self.brokers - me.fenced - {request.source} if recovers and self._tells_followers() else ()
        step = self._decide(me, record, shared, others)
        after = me.partition if record == PartitionChangeRecord() else partition_after_record(me.partition, record)
        if request.version == 0 or request.leader_epoch in shared.finished:  # the leader did recover
            step = step.put(unrecovered=shared.unrecovered - {request.leader_epoch})
        yield step.reply(_alter_partition_response(request, Error.NONE, after))

    def _refusal(self, me: Controller, request: AlterPartitionRequest) -> Error:
        """Return the error that rejects a request; NONE if it is accepted."""
        partition = me.partition
        if self._is_stale_leader(me, request):
            return Error.FENCED_LEADER_EPOCH
        if self._is_stale_partition(me, request):
            return Error.INVALID_UPDATE_VERSION
        if request.source not in request.isr:
            return Error.INVALID_REQUEST
        if request.recovery is RECOVERING and self._too_many_in_sync(request):
            return Error.INVALID_REQUEST
        if request.recovery is RECOVERING and partition.recovery is RECOVERED and self._checks_transition():
            return Error.INVALID_REQUEST
        if request.isr & me.fenced:
            return Error.INELIGIBLE_REPLICA
        return Error.NONE

    def _is_stale_leader(self, me: Controller, request: AlterPartitionRequest) -> bool:
        return request.leader_epoch < me.partition.leader_epoch

    def _is_stale_partition(self, me: Controller, request: AlterPartitionRequest) -> bool:
        """Whether the partition epoch is stale; with ZooKeeper a change already made may be requested again."""
        if request.partition_epoch == me.partition.partition_epoch:
            return False
        repeated = (request.isr, self._requested_recovery(me, request)) == (me.partition.isr, me.partition.recovery)
        return self.mode is Mode.KRAFT or not repeated

    def _too_many_in_sync(self, request: AlterPartitionRequest) -> bool:
        """Whether Request Handling 1 applies: "The size of the ISR is greater than 1"."""
        return len(request.isr) > 1

    def _checks_transition(self) -> bool:
        """Whether Request Handling 2 applies: a change from RECOVERED to RECOVERING is rejected."""
        return True

    def _requested_recovery(self, me: Controller, request: AlterPartitionRequest) -> RecoveryState:
        """Return the requested recovery state; a request of version 0 has no such field, and implies RECOVERED."""
        return RECOVERED if isinstance(request.recovery, Nil) else request.recovery

    def _tells_followers(self) -> bool:
        """Whether a ZooKeeper controller reports the leader's recovery to the followers."""
        return True

    # A new controller

    @internal
    def change_controller(self, me: Controller) -> Steps:
        """A new controller takes over, reads the partition's state, and sends it to every broker.

        In KRaft it has replayed the same records, so nothing changes. Source: KIP-704, ZooKeeper Controller and
        ZooKeeper State.
        """
        if self.mode is Mode.KRAFT:
            return
        new = me.but(epoch=me.epoch + 1, partition=self._as_read_from_zookeeper(me))
        yield become(new).send(*self._leader_and_isr(new, self.brokers - me.fenced)).spend("controller_changes")

    def _as_read_from_zookeeper(self, me: Controller) -> Partition:
        return me.partition

    # Persisting changes and updating brokers

    def _decide(
        self, me: Controller, record: PartitionChangeRecord, shared: Shared, also: Iterable[ModelValue] = ()
    ) -> Step:
        """Return the step that persists a change and updates the brokers.

        In KRaft the change is a record of the metadata log. With ZooKeeper an election goes to every unfenced broker,
        another change to the brokers in `also`.
        """
        if record == PartitionChangeRecord():
            step = become(me)
        else:
            before, after = me.partition, partition_after_record(me.partition, record)
            history = self._history(before, after, shared, self._candidates(me))
            me = me.but(partition=after)
            step = become(me).put(**history)
            if self.mode is Mode.KRAFT:
                return step.put(metadata=(*shared.metadata, record))
            if after.leader_epoch > before.leader_epoch:
                also = self.brokers - me.fenced
        return step.send(*self._leader_and_isr(me, also)) if self.mode is Mode.ZOOKEEPER else step

    def _leader_and_isr(self, me: Controller, brokers: Iterable[ModelValue]) -> Iterable[LeaderAndIsrRequest]:
        partition = me.partition
        state = partition.leader, partition.leader_epoch, partition.partition_epoch, partition.isr
        version, recovery = (6, partition.recovery) if self.controller_recovers else (5, Nil.ABSENT)
        for broker in ordered(brokers):
            yield LeaderAndIsrRequest(version, me.epoch, *state, recovery, broker)

    def _candidates(self, me: Controller) -> frozenset[ModelValue]:
        """Return the brokers whose election is clean: they hold all acknowledged values."""
        return me.partition.isr

    def _history(
        self, before: Partition, after: Partition, shared: Shared, candidates: frozenset[ModelValue]
    ) -> dict[str, object]:
        """Return the history fields after an election, for properties: unclean elections, epochs without a recovery."""
        if after.leader_epoch == before.leader_epoch:
            return {}
        history: dict[str, object] = {}
        unclean = after.leader is not Nil.NO_LEADER and after.leader not in candidates
        if unclean:
            history["unclean_epoch"] = after.leader_epoch
        if self.controller_recovers and (unclean or before.leader_epoch in shared.unrecovered):
            history["unrecovered"] = shared.unrecovered | {after.leader_epoch}
        if after.leader is not Nil.NO_LEADER:
            history["last_leader"] = after.leader
        return history


def _alter_partition_response(
    request: AlterPartitionRequest, error: Error, partition: Partition
) -> AlterPartitionResponse:
    """Return the response to AlterPartition in the version of the request, with the current partition state."""
    recovery = partition.recovery if request.version >= 1 else Nil.ABSENT
    asked = request.leader_epoch, request.partition_epoch, request.attempt
    state = partition.leader_epoch, partition.partition_epoch, partition.isr, recovery
    return AlterPartitionResponse(error, asked, *state, request.source)
