"""Variants of `Recovery`: other readings of KIP-704, and seeded faults.

A reading follows another source than `Recovery`; `docs/findings.md` has its results. It violates the contracts that
contradict it: `BrokersComeBackAsTheyLeft`, or `ClientsAreServedByWhoMay`. A fault breaks one rule, and violates the
property that configuration `fault.<variant>` names. KAFKA-n is the issue of the rule in Apache Kafka's tracker. Three
faults break liveness alone. The last variants belong to public reports (`docs/operators.md`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kraftcheck.kraft_model.recovery import Recovery
from kraftcheck.kraft_model.recovery.base import change, from_isr, image
from kraftcheck.kraft_model.recovery.records import (
    RECOVERED,
    AlterPartitionRequest,
    AlterPartitionResponse,
    Broker,
    Controller,
    Error,
    Name,
    Nil,
    Partition,
    PartitionChangeRecord,
    RecoveryState,
    Shared,
)
from kraftcheck.spec import ModelValue, Record, State, Step, Steps, become, bound, constant, internal, on

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


class FlagLostOffline(Recovery, variant="flag-lost-offline"):
    """RECOVERING is lost when the leader goes offline (the rule of KAFKA-13587)."""

    def _after_leader_fenced(self, me: Controller) -> RecoveryState:
        return RECOVERED


class FlagLostByNewController(Recovery, variant="flag-lost-by-new-controller"):
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


class TransitionUnchecked(Recovery, variant="transition-unchecked"):
    """The controller accepts any requested recovery state."""

    def _checks_transition(self) -> bool:
        return False


class VersionZeroChangesNothing(Recovery, variant="version-zero-changes-nothing"):
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


class LateAnswerBelieved(Recovery, variant="late-answer-believed"):
    """A leader does not match responses to requests: one of an earlier epoch marks it as recovered."""

    def _is_awaited(self, me: Broker, response: AlterPartitionResponse) -> bool:
        return me.leads


class AnyErrorEndsWaiting(Recovery, variant="any-error-ends-waiting"):
    """A leader takes any error as proof that its request was not applied, although it may have been sent twice."""

    def _was_not_applied(self, error: Error) -> bool:
        return True


class FirstCopyAnswers(Recovery, variant="first-copy-answers"):
    """A leader takes the response to the first copy of a resent request as the response to the second."""

    def _is_awaited(self, me: Broker, response: AlterPartitionResponse) -> bool:
        if not me.leads or not isinstance(me.pending, AlterPartitionRequest):
            return False
        return response.asked[:2] == (me.pending.leader_epoch, me.pending.partition_epoch)


class GrowthNotWaitedFor(Recovery, variant="growth-not-waited-for"):
    """A leader commits without the replica that it has proposed for the ISR (the rule of KIP-497)."""

    def _counted(self, me: Broker) -> frozenset[ModelValue]:
        return me.partition.isr


class JoinsBehind(Recovery, variant="joins-behind"):
    """A follower joins the ISR at its first fetch, caught up or not (as in KAFKA-15221)."""

    def _enough(self, me: Broker, committed: int) -> int:
        return 0


class FetchesWithoutTruncating(Recovery, variant="fetches-without-truncating"):
    """A former leader fetches from its own log end without requesting its last epoch's end (KAFKA-6361)."""

    def _may_fetch(self, me: Broker) -> bool:
        return True


# Faults of liveness alone


class SameEpochIgnored(Recovery, variant="same-epoch-ignored"):
    """A follower ignores LeaderAndIsr of a known leader epoch, as brokers did before KIP-704."""

    configuration = "trap.zookeeper"

    def _is_old_news(self, me: Broker, partition: Partition) -> bool:
        return partition.leader_epoch <= me.partition.leader_epoch


class RecoveredNotTold(Recovery, variant="recovered-not-told"):
    """A ZooKeeper controller does not report the leader's recovery to the followers."""

    configuration = "trap.zookeeper"

    def _tells_followers(self) -> bool:
        return False


class RecoversWhereElected(Recovery, variant="recovers-where-elected"):
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


class Registrations(Recovery, variant="registrations"):
    """A broker starts and registers soon after a crash, and the controller takes it out of the ISR (KIP-966)."""

    configuration = "report.unclean-shutdown"
    registrations: int = bound("MaxRegistrations", default=0)

    @internal
    def start_and_register(self, me: Broker, shared: Shared) -> Steps:
        """A broker starts after a crash, before its session expires, and registers."""
        if not me.running:
            known = me.but(running=True, cursor=len(shared.metadata), partition=image(shared.metadata))
            yield become(known).send(Registration(me.id)).spend("registrations")

    @on(Registration)
    def handle_unclean_shutdown(self, me: Controller, request: Registration, shared: Shared) -> Steps:
        """The controller fences the broker, and takes it out of the ISR and the leadership."""
        fenced = me.but(fenced=me.fenced | {request.source})
        yield self._decide(fenced, self._after_unclean_shutdown(fenced, request.source), shared).but(consumes=True)

    def _after_unclean_shutdown(self, me: Controller, broker: ModelValue) -> PartitionChangeRecord:
        return self._without(me, broker)


class IsrShrunkWithoutElection(Registrations, variant="isr-shrunk-without-election"):
    """After an unclean shutdown the ISR shrinks without an election, even if the broker leads (KAFKA-18106)."""

    def _after_unclean_shutdown(self, me: Controller, broker: ModelValue) -> PartitionChangeRecord:
        return change(me.partition, isr=me.partition.isr - {broker} or me.partition.isr)


class EligibleController(Controller):
    """The controller with the eligible leader replicas (ELR)."""

    eligible: frozenset[ModelValue] = frozenset()


class EligibleLeaders(Recovery, variant="eligible-leaders"):
    """A replica that leaves an ISR below min.insync.replicas stays eligible as leader (KIP-966; KAFKA-16540).

    A leader acknowledges values only with an ISR of min.insync.replicas: 1 for a broker in LowMinIsr, else MinIsr.
    """

    configuration = "report.min-insync-replicas"
    min_isr: int = constant("MinIsr", default=1, at_least=1)
    low_min_isr: frozenset[ModelValue] = constant("LowMinIsr", default=frozenset())

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
        isr = after.partition.isr
        if after.partition.leader in me.eligible:  # a clean election
            step = step.put(unclean_epoch=shared.unclean_epoch, unrecovered=shared.unrecovered)
        eligible = (me.eligible | me.partition.isr) - isr if len(isr) < self.min_isr else frozenset()
        return step.but(me=after.but(eligible=eligible))

    def _without(self, me: Controller, broker: ModelValue) -> PartitionChangeRecord:
        """Return the change for a fenced broker: the ISR may become empty, and an eligible replica is elected."""
        assert isinstance(me, EligibleController)
        isr = me.partition.isr - {broker}
        if me.partition.leader != broker:
            return change(me.partition, isr=isr)
        leader = from_isr(isr, me.fenced)
        if isinstance(leader, Nil):
            leader = from_isr(me.eligible, me.fenced)
            isr = isr if isinstance(leader, Nil) else frozenset({leader})
        return change(me.partition, leader=leader, isr=isr)

    def _with(self, me: Controller, broker: ModelValue) -> PartitionChangeRecord:
        assert isinstance(me, EligibleController)
        if broker in me.eligible and not me.partition.isr:
            return change(me.partition, leader=broker, isr=frozenset({broker}))
        return super()._with(me, broker)

    def _acknowledge(self, me: Broker, shared: Shared) -> Step:
        enough = 1 if me.id in self.low_min_isr else self.min_isr
        return super()._acknowledge(me, shared) if len(me.partition.isr) >= enough else become(me)
