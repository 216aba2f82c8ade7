"""Brokers of `recovery`: partition states, recovery, ISR changes, crashes and restarts."""

from __future__ import annotations

from kraftcheck.kraft_model.recovery.base import RecoveryBase, high_watermark, partition_from_metadata
from kraftcheck.kraft_model.recovery.records import (
    RECOVERED,
    RECOVERING,
    UNKNOWN_PARTITION,
    AlterPartitionRequest,
    AlterPartitionResponse,
    Api,
    Broker,
    ClientRequest,
    ClientResponse,
    Controller,
    EpochEndRequest,
    EpochEndResponse,
    Error,
    LeaderAndIsrRequest,
    Mode,
    Name,
    Nil,
    Partition,
    RecoveryState,
    ReplicaFetch,
    ReplicaFetchResponse,
    Shared,
)
from kraftcheck.spec import Map, ModelValue, Record, Step, Steps, become, consume, internal, on, ordered, projection


class RecoveryBrokers(RecoveryBase):
    # Learning the partition's state

    @internal
    def apply_metadata(self, me: Broker, shared: Shared) -> Steps:
        """A broker applies the next record of the metadata log.

        A leader may know the state already, from the response to its AlterPartition request. Source: KIP-704, KRaft
        Controller; Kafka, Partition.makeLeader and makeFollower (the partition epoch).
        """
        if not me.running or me.cursor >= len(shared.metadata):
            return
        applied = me.but(cursor=me.cursor + 1)
        partition = partition_from_metadata(shared.metadata[: applied.cursor])
        if self._is_old_news(me, partition):
            yield become(applied)
            return
        yield self._told(applied, self._as_understood(me, partition), shared)

    @on(LeaderAndIsrRequest)
    def handle_leader_and_isr(self, me: Broker, request: LeaderAndIsrRequest, shared: Shared) -> Steps:
        """A broker accepts a controller and a partition state that are not older than the known ones.

        A request of the same leader epoch counts: it may report that the leader has recovered. Source: KIP-704, Topic
        Partition Follower; LeaderAndIsr RPC, Request Handling.
        """
        if not me.running:
            return
        partition = Partition(
            request.leader,
            request.leader_epoch,
            request.partition_epoch,
            request.isr,
            RECOVERED if isinstance(request.recovery, Nil) else request.recovery,
        )
        if request.controller_epoch < me.controller_epoch or self._is_old_news(me, partition):
            yield consume(me)
            return
        heard = me.but(controller_epoch=request.controller_epoch)
        yield self._told(heard, self._as_understood(me, partition), shared).but(consumes=True)

    def _is_old_news(self, me: Broker, partition: Partition) -> bool:
        """Whether a partition state is older than the broker's known state."""
        return partition.partition_epoch < me.partition.partition_epoch

    def _as_understood(self, me: Broker, partition: Partition) -> Partition:
        """Return a partition as a broker reads it: an old broker ignores the recovery state.

        Source: KIP-704, Compatibility, Controller ("the LeaderRecoveryState field ... will be ignored").
        """
        return partition.but(recovery=RECOVERED) if me.id in self.old_brokers else partition

    def _told(self, me: Broker, partition: Partition, shared: Shared) -> Step:
        """Return the step in which a broker adopts a partition state.

        In a new leader epoch it becomes leader or follower, and rejects the values that wait for acknowledgement. In
        the same epoch it continues with the new ISR and recovery state.
        """
        if partition.leader_epoch > me.partition.leader_epoch:
            now = me.but(
                partition=partition,
                recovered=False,
                epoch_start=len(me.log) if partition.leader == me.id else 0,
                ends=Map(),
                waiting=frozenset(),
                pending=Nil.NIL,
                truncated=False,
                fetching=False,
            )
            return become(now).send(*_rejections_of_waiting_clients(me))
        moved_on = partition.partition_epoch > me.partition.partition_epoch
        return self._acknowledge(me.but(partition=partition, pending=Nil.NIL if moved_on else me.pending), shared)

    # Recovery

    @internal
    def recover(self, me: Broker, shared: Shared) -> Steps:
        """A leader recovers the partition, for example by aborting pending transactions, at any IBP.

        Source: KIP-704, Proposed Changes; LeaderAndIsr RPC, Request Handling ("irrespective of the leader's IBP").
        """
        if not me.leads or me.partition.recovery is not RECOVERING:
            return
        if me.recovered:
            return
        finished = shared.finished | {me.partition.leader_epoch}
        yield become(me.but(recovered=True)).put(finished=finished)

    @internal
    def report_recovered(self, me: Broker) -> Steps:
        """A leader reports its recovery to the controller, in AlterPartition of its IBP's version.

        Source: KIP-704, Topic Partition Leader; Compatibility, Controller ("matches the current IBP").
        """
        if not me.leads or me.partition.recovery is not RECOVERING or not me.recovered:
            return
        if me.pending is not Nil.NIL:
            return
        yield self._propose(me, frozenset({me.id}), RECOVERED)

    def _propose(self, me: Broker, isr: frozenset[ModelValue], recovery: RecoveryState) -> Step:
        """Return the step in which a leader sends AlterPartition, with the request pending."""
        version = 0 if me.id in self.old_brokers | self.old_ibp else 1
        epochs = me.partition.leader_epoch, me.partition.partition_epoch
        request = AlterPartitionRequest(version, *epochs, isr, recovery if version else Nil.ABSENT, 1, me.id)
        return become(me.but(pending=request)).send(request)

    # The ISR

    @internal
    def expand_isr(self, me: Broker) -> Steps:
        """A recovered leader proposes a caught-up follower for the ISR.

        A follower has caught up if it holds the leader's log at its election and all values committed since. Source:
        KIP-704, Topic Partition Leader; KIP-497; Kafka, Partition.maybeExpandIsr.
        """
        if not me.leads or me.pending is not Nil.NIL:
            return
        if not self._may_grow(me):
            return
        committed = high_watermark(me, me.partition.isr)
        for follower in ordered(self.brokers - me.partition.isr):
            if me.ends.get(follower, -1) >= self._enough(me, committed):
                yield self._propose(me, me.partition.isr | {follower}, me.partition.recovery).spend("isr_changes")

    def _may_grow(self, me: Broker) -> bool:
        """Whether followers may join the ISR: only once the recovery state is RECOVERED."""
        return me.partition.recovery is RECOVERED

    def _enough(self, me: Broker, committed: int) -> int:
        """Return the end offset to which a follower must have fetched to join the ISR."""
        return max(me.epoch_start, committed)

    @internal
    def shrink_isr(self, me: Broker) -> Steps:
        """A leader proposes to remove a lagging follower from the ISR. Source: KIP-497."""
        if not me.leads or me.pending is not Nil.NIL:
            return
        if me.partition.recovery is not RECOVERED:
            return
        for follower in ordered(me.partition.isr - {me.id}):
            yield self._propose(me, me.partition.isr - {follower}, RECOVERED).spend("isr_changes")

    @projection
    def requested(self, messages: tuple[Record, ...]) -> frozenset[ModelValue]:
        """Brokers whose AlterPartition requests to the controller are in flight."""
        return frozenset(message.source for message in messages if isinstance(message, AlterPartitionRequest))

    @internal(reads=requested)
    def resend_alter_partition(self, me: Broker, requested: Map[ModelValue | Name, frozenset[ModelValue]]) -> Steps:
        """A leader resends its pending request once no copy is in flight.

        A response to the first copy is then too late. Source: Kafka, AlterPartitionManager (requests time out, and the
        connection is closed).
        """
        if not me.leads or not isinstance(me.pending, AlterPartitionRequest):
            return
        if me.id in requested[Name.CONTROLLER]:
            return
        again = me.pending.but(attempt=me.pending.attempt + 1)
        yield become(me.but(pending=again)).send(again).spend("resends")

    @internal
    def send_invalid_alter_partition(self, me: Broker) -> Steps:
        """A faulty leader sends an AlterPartition request with one of two faults, which the controller must reject.

        Source: KIP-704, AlterPartition RPC, Request Handling: an ISR of more than one replica while RECOVERING; a
        change from RECOVERED to RECOVERING.
        """
        if not me.leads or me.pending is not Nil.NIL or me.id in self.old_brokers | self.old_ibp:
            return
        if me.partition.recovery is RECOVERING:
            for follower in ordered(self.brokers - {me.id}):
                yield self._propose(me, frozenset({me.id, follower}), RECOVERING).spend("invalid_requests")
        else:
            yield self._propose(me, frozenset({me.id}), RECOVERING).spend("invalid_requests")

    @on(AlterPartitionResponse)
    def handle_alter_partition_response(self, me: Broker, response: AlterPartitionResponse, shared: Shared) -> Steps:
        """A leader accepts the response to its pending request, and ignores any other.

        It adopts the recovery state, and never starts to recover because of it. After an error the request may have
        been applied, since it may have been sent twice: the leader waits for a newer partition epoch. Source: KIP-704,
        AlterPartition RPC, Response Schema; KIP-497; Kafka, Partition.handleAlterPartitionError.
        """
        if not me.running:
            return
        if not self._is_awaited(me, response):
            yield consume(me)
            return
        if response.error is not Error.NONE:
            yield consume(me.but(pending=Nil.NIL) if self._was_not_applied(response.error) else me)
            return
        partition = me.partition.but(
            partition_epoch=response.partition_epoch,
            isr=response.isr,
            recovery=RECOVERED if isinstance(response.recovery, Nil) else response.recovery,
        )
        settled = me.but(partition=partition, pending=Nil.NIL)
        yield self._acknowledge(settled, shared).but(consumes=True)

    def _is_awaited(self, me: Broker, response: AlterPartitionResponse) -> bool:
        """Whether a response answers the leader's pending AlterPartition request."""
        pending = me.pending
        if not me.leads or not isinstance(pending, AlterPartitionRequest):
            return False
        return response.asked == (pending.leader_epoch, pending.partition_epoch, pending.attempt)

    def _was_not_applied(self, error: Error) -> bool:
        """Whether an error proves that the controller applied no copy of the request."""
        return error is Error.INELIGIBLE_REPLICA

    # Crashes and restarts

    @internal
    def crash(self, me: Broker) -> Steps:
        """A broker crashes and keeps its log."""
        if not me.running:
            return
        yield become(Broker(me.id, running=False, log=me.log)).spend("crashes")

    @projection
    def fenced(self, me: Record) -> frozenset[ModelValue]:
        """Brokers that the controller has fenced."""
        return me.fenced if isinstance(me, Controller) else frozenset()

    @internal(reads=fenced)
    def restart(self, me: Broker, shared: Shared, fenced: Map[ModelValue | Name, frozenset[ModelValue]]) -> Steps:
        """A broker restarts once it is fenced. In KRaft it reads the metadata log before it registers.

        Source: Kafka, a broker id is registered again only after the broker of that id is fenced.
        """
        if me.running or me.id not in fenced[Name.CONTROLLER]:
            return
        known = partition_from_metadata(shared.metadata) if self.mode is Mode.KRAFT else UNKNOWN_PARTITION
        partition = self._as_understood(me, known)
        yield become(me.but(running=True, cursor=len(shared.metadata), partition=partition))

    @on(
        LeaderAndIsrRequest,
        AlterPartitionResponse,
        EpochEndRequest,
        EpochEndResponse,
        ReplicaFetch,
        ReplicaFetchResponse,
        ClientRequest,
    )
    def break_connection(self, me: Broker, message: Record) -> Steps:
        """A message to a stopped broker is lost, and the waiting client or replica sees its connection break."""
        if me.running:
            return
        if isinstance(message, ClientRequest):
            answer: Record = ClientResponse(message.api, message.value, Error.DISCONNECTED, -1, me.id)
        elif isinstance(message, ReplicaFetch):
            answer = ReplicaFetchResponse(Error.DISCONNECTED, message.leader_epoch, message.offset, (), message.source)
        elif isinstance(message, EpochEndRequest):
            answer = EpochEndResponse(Error.DISCONNECTED, message.leader_epoch, -1, 0, message.source)
        else:
            yield consume(me)
            return
        yield consume(me).reply(answer)


def _rejections_of_waiting_clients(me: Broker) -> list[ClientResponse]:
    """Return the responses that reject the produced values which a former leader can no longer acknowledge."""
    return [
        ClientResponse(
            Api.PRODUCE, me.log[offset - 1].value, Error.NOT_LEADER_OR_FOLLOWER, me.partition.leader_epoch, me.id
        )
        for offset in sorted(me.waiting)
    ]
