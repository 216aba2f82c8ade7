"""Variants of `Recovery`: other readings of KIP-704, and seeded faults.

A reading follows another source than `Recovery`; `docs/findings.md` has its results. It violates the contracts that
contradict it: `BrokersComeBackAsTheyLeft`, or `ClientsAreServedByWhoMay`. A fault breaks one rule, and violates the
property that configuration `fault.<variant>` names. KAFKA-n is the issue of the rule in Apache Kafka's tracker. Three
faults break liveness alone. The last variants belong to public reports (`docs/operators.md`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kraftcheck.kraft_model.recovery import Recovery
from kraftcheck.kraft_model.recovery.base import (
    clean_election_leader,
    partition_after_record,
    partition_from_metadata,
    record_of_changed_partition_fields,
)
from kraftcheck.kraft_model.recovery.contracts import expected_partition_from_metadata
from kraftcheck.kraft_model.recovery.records import (
    RECOVERED,
    AlterPartitionRequest,
    AlterPartitionResponse,
    Broker,
    ConfigRecord,
    Controller,
    Error,
    MetadataLog,
    Name,
    Nil,
    Partition,
    PartitionChangeRecord,
    RecoveryState,
    Shared,
)
from kraftcheck.spec import (
    ModelValue,
    Record,
    State,
    Step,
    Steps,
    become,
    bound,
    constant,
    internal,
    on,
    ordered,
    reachable,
    step_invariant,
)

# Readings


class RecoveredWhereElectedFromIsr(Recovery, variant="recovered-where-elected-from-isr"):
    """PartitionChangeRecord taken literally: "0 if the leader was elected from the ISR"."""

    configuration = "reading.recovered-where-elected-from-isr"

    def _after_clean_election(self, me: Controller) -> RecoveryState:
        return RECOVERED


class RecoveredAtOnce(Recovery, variant="recovered-at-once"):
    """As in Kafka's code: a leader elected as RECOVERING treats itself as recovered, and serves."""

    configuration = "reading.recovered-at-once"

    def _is_recovering(self, me: Broker) -> bool:
        return super()._is_recovering(me) and not me.leads


class ServedBeforeConfirmed(Recovery, variant="served-before-confirmed"):
    """A leader serves once it has recovered, before the controller has confirmed it."""

    configuration = "reading.served-before-confirmed"

    def _is_recovering(self, me: Broker) -> bool:
        return super()._is_recovering(me) and not (me.leads and me.recovered)


# Faults of the controller


class RecoveringLostOffline(Recovery, variant="flag-lost-offline"):
    """RECOVERING is lost when the leader goes offline (the rule of KAFKA-13587)."""

    def _after_leader_fenced(self, me: Controller) -> RecoveryState:
        return RECOVERED


class RecoveringLostByNewController(Recovery, variant="flag-lost-by-new-controller"):
    """A ZooKeeper controller without leader_recovery_state takes over, and drops the property."""

    def _as_read_from_zookeeper(self, me: Controller) -> Partition:
        return me.partition.but(recovery=RECOVERED)


class IsrKeptByUncleanElection(Recovery, variant="isr-kept-by-unclean-election"):
    """An unclean election keeps the old ISR, so its members return as in-sync replicas."""

    def _isr_after_unclean_election(self, me: Controller, leader: ModelValue) -> frozenset[ModelValue]:
        return me.partition.isr


class IsrSizeUnchecked(Recovery, variant="isr-size-unchecked"):
    """The controller accepts an ISR of more than one replica while RECOVERING (KAFKA-13587)."""

    def _too_many_in_sync(self, request: AlterPartitionRequest) -> bool:
        return False


class RecoveryStateUnchecked(Recovery, variant="transition-unchecked"):
    """The controller accepts any requested recovery state."""

    def _checks_transition(self) -> bool:
        return False


class VersionZeroKeepsRecoveryState(Recovery, variant="version-zero-changes-nothing"):
    """A request of version 0 keeps the recovery state, as is usual for a missing field."""

    def _requested_recovery(self, me: Controller, request: AlterPartitionRequest) -> RecoveryState:
        return me.partition.recovery if isinstance(request.recovery, Nil) else request.recovery


class StaleLeaderEpochAccepted(Recovery, variant="stale-leader-epoch-accepted"):
    """The controller compares no epochs: it credits a former leader's late report to the current leader."""

    def _is_stale_leader(self, me: Controller, request: AlterPartitionRequest) -> bool:
        return False

    def _is_stale_partition(self, me: Controller, request: AlterPartitionRequest) -> bool:
        return False


class StalePartitionEpochAccepted(Recovery, variant="stale-partition-epoch-accepted"):
    """The controller compares leader epochs alone: a late request restores an ISR that has shrunk since."""

    def _is_stale_partition(self, me: Controller, request: AlterPartitionRequest) -> bool:
        return False


# Faults of brokers


class LateResponseAccepted(Recovery, variant="late-answer-believed"):
    """A leader does not match responses to requests: one of an earlier epoch marks it as recovered."""

    def _is_awaited(self, me: Broker, response: AlterPartitionResponse) -> bool:
        return me.leads


class AnyErrorEndsWaiting(Recovery, variant="any-error-ends-waiting"):
    """A leader takes any error as proof that its request was not applied, although it may have been sent twice."""

    def _was_not_applied(self, error: Error) -> bool:
        return True


class ResponseToFirstCopyAccepted(Recovery, variant="first-copy-answers"):
    """A leader takes the response to the first copy of a resent request as the response to the second."""

    def _is_awaited(self, me: Broker, response: AlterPartitionResponse) -> bool:
        if not me.leads or not isinstance(me.pending, AlterPartitionRequest):
            return False
        return response.asked[:2] == (me.pending.leader_epoch, me.pending.partition_epoch)


class CommitsWithoutProposedReplica(Recovery, variant="growth-not-waited-for"):
    """A leader commits without the replica that it has proposed for the ISR (the rule of KIP-497)."""

    def _counted(self, me: Broker) -> frozenset[ModelValue]:
        return me.partition.isr


class JoinsIsrBehind(Recovery, variant="joins-behind"):
    """A follower joins the ISR at its first fetch, caught up or not (as in KAFKA-15221)."""

    def _enough(self, me: Broker, committed: int) -> int:
        return 0


class FetchesWithoutTruncating(Recovery, variant="fetches-without-truncating"):
    """A former leader fetches from its own log end without requesting its last epoch's end (KAFKA-6361)."""

    def _may_fetch(self, me: Broker) -> bool:
        return True


# Faults of liveness alone


class KnownLeaderEpochIgnored(Recovery, variant="same-epoch-ignored"):
    """A follower ignores LeaderAndIsr of a known leader epoch, as brokers did before KIP-704."""

    configuration = "trap.zookeeper"

    def _is_old_news(self, me: Broker, partition: Partition) -> bool:
        return partition.leader_epoch <= me.partition.leader_epoch


class FollowersNotToldOfRecovery(Recovery, variant="recovered-not-told"):
    """A ZooKeeper controller does not report the leader's recovery to the followers."""

    configuration = "trap.zookeeper"

    def _tells_followers(self) -> bool:
        return False


class RecoversOnlyInElectionEpoch(Recovery, variant="recovers-where-elected"):
    """A leader recovers only in the epoch of its unclean election, not if it is elected again before it recovers."""

    configuration = "live.comes-back"

    def recover(self, me: Broker, shared: Shared) -> Steps:
        """Recover only in the epoch of the unclean election."""
        if me.partition.leader_epoch == shared.unclean_epoch:
            yield from super().recover(me, shared)


# Reports


class Registration(Record):
    """BrokerRegistration after an unclean shutdown: without the broker epoch of a clean one (KIP-966)."""

    source: ModelValue
    dest: Name = Name.CONTROLLER


class RegistersAfterUncleanShutdown(Recovery, variant="registrations"):
    """A broker starts and registers soon after a crash, and the controller takes it out of the ISR (KIP-966)."""

    configuration = "report.unclean-shutdown"
    registrations: int = bound("MaxRegistrations", default=0)

    @internal
    def start_and_register(self, me: Broker, shared: Shared) -> Steps:
        """A broker starts after a crash, before its session expires, and registers."""
        if not me.running:
            known = me.but(
                running=True, cursor=len(shared.metadata), partition=partition_from_metadata(shared.metadata)
            )
            yield become(known).send(Registration(me.id)).spend("registrations")

    @on(Registration)
    def handle_unclean_shutdown(self, me: Controller, request: Registration, shared: Shared) -> Steps:
        """The controller fences the broker, and takes it out of the ISR and the leadership."""
        fenced = me.but(fenced=me.fenced | {request.source})
        yield self._decide(fenced, self._after_unclean_shutdown(fenced, request.source), shared).but(consumes=True)

    def _after_unclean_shutdown(self, me: Controller, broker: ModelValue) -> PartitionChangeRecord:
        return self._without(me, broker)

    @step_invariant
    def brokers_that_start_register(self, before: Broker, after: Broker, step: Step, shared: Shared) -> bool:
        """A stopped broker registers once, with its log, and the metadata up to its end (KIP-631; KIP-966)."""
        if step.spends != ("registrations",):
            return not any(isinstance(one, Registration) for one in step.sent)
        known = (after.cursor, after.partition) == (
            len(shared.metadata),
            expected_partition_from_metadata(shared.metadata),
        )
        started = not before.running and after.but(cursor=0, partition=before.partition) == before.but(
            running=True, cursor=0
        )
        return started and known and step.sent == (Registration(before.id),)

    @step_invariant
    def unclean_brokers_leave_the_isr(
        self, before: Controller, after: Controller, message: Registration, step: Step
    ) -> bool:
        """The registration is taken, and fences its broker, which leaves the ISR unless it is the last member."""
        gone, old, new = message.source, before.partition, after.partition
        left = old.isr - {gone} or old.isr
        leader = next(iter(ordered(left - after.fenced)), Nil.NO_LEADER) if old.leader == gone else old.leader
        taken = step.consumes and not step.sent and after.fenced == before.fenced | {gone}
        return taken and (new.leader, new.isr, new.recovery) == (leader, left, old.recovery)


class IsrShrunkWithoutElection(RegistersAfterUncleanShutdown, variant="isr-shrunk-without-election"):
    """After an unclean shutdown the ISR shrinks without an election, even if the broker leads (KAFKA-18106)."""

    def _after_unclean_shutdown(self, me: Controller, broker: ModelValue) -> PartitionChangeRecord:
        return record_of_changed_partition_fields(me.partition, isr=me.partition.isr - {broker} or me.partition.isr)


class EligibleController(Controller):
    """The controller with the eligible leader replicas (ELR)."""

    eligible: frozenset[ModelValue] = frozenset()


class EligibleLeaders(Recovery, variant="eligible-leaders"):
    """A replica that leaves an ISR below min.insync.replicas stays eligible as leader (KIP-966).

    A leader acknowledges values only with an ISR of MinIsr members.
    """

    configuration = "report.min-insync-replicas"
    min_isr: int = constant("MinIsr", default=1, at_least=1)

    def initial(self) -> Iterator[State]:
        for state in super().initial():
            others = [one for one in state.replicas.values() if not isinstance(one, Controller)]
            partition = state.replicas[Name.CONTROLLER].partition
            yield self.start([*others, EligibleController(partition=partition)], state.shared)

    def _decide(
        self, me: Controller, record: PartitionChangeRecord, shared: Shared, also: Iterable[ModelValue] = ()
    ) -> Step:
        step = super()._decide(me, record, shared, also)
        after = step.me
        assert isinstance(me, EligibleController)
        assert isinstance(after, EligibleController)
        isr, clean = after.partition.isr, after.partition.leader in {*self._candidates(me), Nil.NO_LEADER}
        few = len(isr) < self._min_isr_in(shared.metadata) and clean
        return step.but(me=after.but(eligible=(me.eligible | me.partition.isr) - isr if few else frozenset()))

    def _min_isr_in(self, metadata: MetadataLog) -> int:
        """Return the cluster's min.insync.replicas after the records of a metadata log."""
        return self.min_isr

    def _candidates(self, me: Controller) -> frozenset[ModelValue]:
        assert isinstance(me, EligibleController)
        return me.partition.isr | me.eligible

    def _without(self, me: Controller, broker: ModelValue) -> PartitionChangeRecord:
        """Return the change for a fenced broker: the ISR may become empty, and an eligible replica is elected."""
        assert isinstance(me, EligibleController)
        isr = me.partition.isr - {broker}
        if me.partition.leader != broker:
            return record_of_changed_partition_fields(me.partition, isr=isr)
        leader = clean_election_leader(isr, me.fenced)
        if isinstance(leader, Nil):
            leader = clean_election_leader(me.eligible, me.fenced)
            isr = isr if isinstance(leader, Nil) else frozenset({leader})
        return record_of_changed_partition_fields(me.partition, leader=leader, isr=isr)

    def _with(self, me: Controller, broker: ModelValue) -> PartitionChangeRecord:
        assert isinstance(me, EligibleController)
        if broker in me.eligible and not me.partition.isr:
            return record_of_changed_partition_fields(me.partition, leader=broker, isr=frozenset({broker}))
        return super()._with(me, broker)

    def _min_isr_of(self, me: Broker, shared: Shared) -> int:
        """Return min.insync.replicas as a leader knows it."""
        return self._min_isr_in(shared.metadata[: me.cursor])

    def _acknowledge(self, me: Broker, shared: Shared) -> Step:
        return super()._acknowledge(me, shared) if len(me.partition.isr) >= self._min_isr_of(me, shared) else become(me)

    @step_invariant
    def eligible_replicas_are_tracked(
        self, before: EligibleController, after: EligibleController, step: Step, shared: Shared
    ) -> bool:
        """A broker that leaves an ISR below its minimum is eligible, until it is in the ISR or that has its minimum.

        An unclean election ends it too, and a change of the minimum (KIP-966).
        """
        ends = step.spends in (("unclean_elections",), ("min_isr_changes",))
        few = len(after.partition.isr) < _min_insync_replicas(shared.metadata, self.min_isr) and not ends
        left = (before.eligible | before.partition.isr) - after.partition.isr
        return after.eligible == (left if few else frozenset())

    @step_invariant
    def fenced_brokers_leave_the_isr(self, before: EligibleController, after: EligibleController, step: Step) -> bool:
        """A fenced broker leaves the ISR; a member of the ISR, else an eligible replica, leads (KIP-966)."""
        gone = after.fenced - before.fenced
        if step.spends != ("fences",):
            return not gone
        old, new = before.partition, after.partition
        left, leader = old.isr - gone, old.leader
        if old.leader in gone:
            chosen = ordered(left - after.fenced) or ordered(before.eligible - after.fenced)
            leader = next(iter(chosen), Nil.NO_LEADER)
            left = left or frozenset(chosen[:1])
        return len(gone) == 1 and (new.leader, new.isr, new.recovery) == (leader, left, old.recovery)

    @step_invariant
    def eligible_replicas_lead_at_once(self, before: EligibleController, after: EligibleController, step: Step) -> bool:
        """Of a partition without leader and ISR, an eligible replica leads when it is unfenced (KIP-966)."""
        back = before.fenced - after.fenced
        if step.spends or step.consumes:
            return not back
        old, new = before.partition, after.partition
        due = (old.leader, old.isr)
        if old.leader is Nil.NO_LEADER and back <= (old.isr or before.eligible):
            due = (next(iter(back), Nil.NO_LEADER), old.isr or back)
        return len(back) == 1 and (new.leader, new.isr, new.recovery) == (*due, old.recovery)

    @step_invariant
    def too_few_in_sync_acknowledge_nothing(self, before: Broker, after: Broker, step: Step, shared: Shared) -> bool:
        """A leader acknowledges a value only with its min.insync.replicas in sync (KIP-966, high watermark)."""
        told = dict(step.puts).get("acknowledged", shared.acknowledged)
        known = _min_insync_replicas(shared.metadata[: after.cursor], self.min_isr)
        return told == shared.acknowledged or len(after.partition.isr) >= known

    def _safe_leaders(self, before: Controller) -> frozenset[ModelValue]:
        assert isinstance(before, EligibleController)
        return before.partition.isr | before.eligible


def _min_insync_replicas(metadata: MetadataLog, first: int) -> int:
    """Return min.insync.replicas after the records of a metadata log, for contracts."""
    return [first, *(record.min_isr for record in metadata if isinstance(record, ConfigRecord))][-1]


class MinIsrDiffers(EligibleLeaders, variant="min-isr-differs"):
    """The first broker has min.insync.replicas 1, although the controller has another value (KAFKA-16540)."""

    def _min_isr_of(self, me: Broker, shared: Shared) -> int:
        return 1 if me.id == ordered(self.brokers)[0] else super()._min_isr_of(me, shared)


class MinIsrChanged(EligibleLeaders, variant="min-isr-changed"):
    """An operator sets min.insync.replicas of the cluster to WantedMinIsr, which empties the ELR (KIP-966)."""

    configuration = "report.min-isr-changed"
    wanted_min_isr: int = constant("WantedMinIsr", default=1, at_least=1)
    min_isr_changes: int = bound("MaxMinIsrChanges", default=0)

    def _min_isr_in(self, metadata: MetadataLog) -> int:
        given = (record.min_isr for record in reversed(metadata) if isinstance(record, ConfigRecord))
        return next(given, super()._min_isr_in(metadata))

    @internal
    def change_min_isr(self, me: EligibleController, shared: Shared) -> Steps:
        """The operator alters the value of the cluster; a partition with an ELR changes too."""
        if not self._accepts_change() or self._min_isr_in(shared.metadata) == self.wanted_min_isr:
            return
        changes = (PartitionChangeRecord(),) if me.eligible else ()
        after = me.but(eligible=frozenset())
        for one in changes:
            after = after.but(partition=partition_after_record(after.partition, one))
        metadata = (*shared.metadata, ConfigRecord(self.wanted_min_isr), *changes)
        yield become(after).put(metadata=metadata).spend("min_isr_changes")

    def _accepts_change(self) -> bool:
        """Whether the controller accepts the operator's request."""
        return True

    @reachable
    def new_min_isr_is_known(self, me: Broker, shared: Shared) -> bool:
        """A running broker can come to know WantedMinIsr, or its operator restarts it for ever (Strimzi 11685)."""
        return not me.running or _min_insync_replicas(shared.metadata[: me.cursor], self.min_isr) == self.wanted_min_isr

    @step_invariant
    def operators_change_the_minimum(
        self, before: EligibleController, after: EligibleController, step: Step, shared: Shared
    ) -> bool:
        """An alteration writes the record of another value, and changes neither leader nor ISR (KIP-966)."""
        told = dict(step.puts).get("metadata", shared.metadata)
        values = [_min_insync_replicas(one, self.min_isr) for one in (shared.metadata, told)]
        if step.spends != ("min_isr_changes",):
            return values[0] == values[1]
        epoch = before.partition.partition_epoch + bool(before.eligible)
        kept = after == before.but(eligible=frozenset(), partition=before.partition.but(partition_epoch=epoch))
        is_told = expected_partition_from_metadata(told) == after.partition
        return kept and is_told and values[0] != values[1] == self.wanted_min_isr and not step.consumes


class MinIsrAlteredPerBroker(MinIsrChanged, variant="min-isr-altered-per-broker"):
    """The operator alters the value of each broker: the controller rejects it, since the cluster has an ELR.

    A restart, which the operator then tries, changes nothing (Strimzi 11685).
    """

    def _accepts_change(self) -> bool:
        return False
