"""Variants of `Recovery`: other readings of KIP-704, and seeded faults.

A reading follows another source than `Recovery` does; `docs/findings.md` tells what it leads to. Where the contracts
are checked it breaks those that say otherwise: `BrokersComeBackAsTheyLeft`, or `ClientsAreServedByWhoMay`. A fault
breaks one rule, and is caught by the property that configuration `fault.<variant>` names. KAFKA-n is the issue in
Apache Kafka's tracker where the rule comes from. The last three faults break no safety, only progress.
"""

from __future__ import annotations

from kraftcheck.kraft_model.recovery import Recovery
from kraftcheck.kraft_model.recovery.records import (
    RECOVERED,
    AlterPartitionRequest,
    AlterPartitionResponse,
    Broker,
    Controller,
    Error,
    Nil,
    Partition,
    RecoveryState,
    Shared,
)
from kraftcheck.spec import ModelValue, Steps

# Readings


class RecoveredWhereElectedFromIsr(Recovery, variant="recovered-where-elected-from-isr"):
    """PartitionChangeRecord read to the letter: "0 if the leader was elected from the ISR"."""

    configuration = "reading.recovered-where-elected-from-isr"

    def _after_clean_election(self, me: Controller) -> RecoveryState:
        return RECOVERED


class RecoveredAtOnce(Recovery, variant="recovered-at-once"):
    """As in Kafka's code: a leader that is told RECOVERING takes itself for recovered, and serves."""

    configuration = "reading.recovered-at-once"

    def _is_recovering(self, me: Broker) -> bool:
        return super()._is_recovering(me) and not me.leads


class ServedBeforeConfirmed(Recovery, variant="served-before-confirmed"):
    """A leader serves as soon as it has recovered, before the controller has confirmed that."""

    configuration = "reading.served-before-confirmed"

    def _is_recovering(self, me: Broker) -> bool:
        return super()._is_recovering(me) and not (me.leads and me.recovered)


# Faults of the controller


class FlagLostOffline(Recovery, variant="flag-lost-offline"):
    """RECOVERING is forgotten when the leader goes offline (the rule of KAFKA-13587)."""

    def _after_leader_fenced(self, me: Controller) -> RecoveryState:
        return RECOVERED


class FlagLostByNewController(Recovery, variant="flag-lost-by-new-controller"):
    """A ZooKeeper controller that does not know leader_recovery_state takes over, and the property is gone."""

    def _as_read_from_zookeeper(self, me: Controller) -> Partition:
        return me.partition.but(recovery=RECOVERED)


class IsrKeptByUncleanElection(Recovery, variant="isr-kept-by-unclean-election"):
    """An unclean election leaves the old ISR as it is, so that its leader comes back as if it were in sync."""

    def _isr_after_unclean_election(self, me: Controller, leader: ModelValue) -> frozenset[ModelValue]:
        return me.partition.isr


class IsrSizeUnchecked(Recovery, variant="isr-size-unchecked"):
    """The controller accepts an ISR of more than one replica while RECOVERING (KAFKA-13587)."""

    def _too_many_in_sync(self, request: AlterPartitionRequest) -> bool:
        return False


class TransitionUnchecked(Recovery, variant="transition-unchecked"):
    """The controller takes the recovery state from the request, whatever it was before."""

    def _checks_transition(self) -> bool:
        return False


class VersionZeroChangesNothing(Recovery, variant="version-zero-changes-nothing"):
    """A request without the recovery state leaves it as it is, as is usual for a field that is missing."""

    def _requested_recovery(self, me: Controller, request: AlterPartitionRequest) -> RecoveryState:
        return me.partition.recovery if isinstance(request.recovery, Nil) else request.recovery


class StaleLeaderEpochAccepted(Recovery, variant="stale-leader-epoch-accepted"):
    """The controller compares no epochs: it takes a former leader's late report for the present leader's."""

    def _is_stale_leader(self, me: Controller, request: AlterPartitionRequest) -> bool:
        return False

    def _is_stale_partition(self, me: Controller, request: AlterPartitionRequest) -> bool:
        return False


class StalePartitionEpochAccepted(Recovery, variant="stale-partition-epoch-accepted"):
    """The controller compares the leader epoch only: a late request brings back an ISR that has shrunk since."""

    def _is_stale_partition(self, me: Controller, request: AlterPartitionRequest) -> bool:
        return False


# Faults of brokers


class LateAnswerBelieved(Recovery, variant="late-answer-believed"):
    """A leader does not match answers to requests: one from an earlier epoch tells it that it has recovered."""

    def _is_awaited(self, me: Broker, response: AlterPartitionResponse) -> bool:
        return me.leads


class AnyErrorEndsWaiting(Recovery, variant="any-error-ends-waiting"):
    """A leader takes any error as proof that its request was not applied, though it may have been sent twice."""

    def _was_not_applied(self, error: Error) -> bool:
        return True


class FirstCopyAnswers(Recovery, variant="first-copy-answers"):
    """A leader that has sent a request again takes the answer to the first copy for the answer to the second."""

    def _is_awaited(self, me: Broker, response: AlterPartitionResponse) -> bool:
        if not me.leads or not isinstance(me.pending, AlterPartitionRequest):
            return False
        return response.asked[:2] == (me.pending.leader_epoch, me.pending.partition_epoch)


class GrowthNotWaitedFor(Recovery, variant="growth-not-waited-for"):
    """A leader commits without the replica that it has proposed for the ISR (the rule of KIP-497)."""

    def _counted(self, me: Broker) -> frozenset[ModelValue]:
        return me.partition.isr


class JoinsBehind(Recovery, variant="joins-behind"):
    """A follower joins the ISR as soon as it fetches, caught up or not (as in KAFKA-15221)."""

    def _enough(self, me: Broker, committed: int) -> int:
        return 0


class FetchesWithoutTruncating(Recovery, variant="fetches-without-truncating"):
    """A former leader fetches from the end of its own log without asking where its last epoch ends (KAFKA-6361)."""

    def _may_fetch(self, me: Broker) -> bool:
        return True


# Faults that break progress alone


class SameEpochIgnored(Recovery, variant="same-epoch-ignored"):
    """A follower ignores a LeaderAndIsr request of the leader epoch that it knows, as brokers did before KIP-704."""

    configuration = "trap.zookeeper"

    def _is_old_news(self, me: Broker, partition: Partition) -> bool:
        return partition.leader_epoch <= me.partition.leader_epoch


class RecoveredNotTold(Recovery, variant="recovered-not-told"):
    """A ZooKeeper controller tells no follower that the leader has recovered."""

    configuration = "trap.zookeeper"

    def _tells_followers(self) -> bool:
        return False


class RecoversWhereElected(Recovery, variant="recovers-where-elected"):
    """A leader recovers only in the epoch of its unclean election, not where it comes back before it has recovered."""

    configuration = "live.comes-back"

    def recover(self, me: Broker, shared: Shared) -> Steps:
        """Recover in that epoch alone."""
        if me.partition.leader_epoch == shared.unclean_epoch:
            yield from super().recover(me, shared)
