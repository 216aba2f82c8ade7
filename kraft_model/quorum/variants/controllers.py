"""The controller above the Raft client: its first write as leader, which may fail, and its resignation.

Source: Kafka's `KafkaRaftClient.ListenerContext.maybeFireLeaderChange` and `QuorumController` (`claim`,
`completeActivation`, `handleEventException`, `renounce`), KAFKA-13148. Faults: AutoMQ 2057, KAFKA-18345.

Elections may follow each other without end here: the configurations hide their bound and identify states by
`relative_epochs`. Progress then needs timely elections as well as timely fetches (`TimelyElections`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from kraftcheck.kraft_model.quorum import Quorum
from kraftcheck.kraft_model.quorum.base import OtherReplicas
from kraftcheck.kraft_model.quorum.epochs import QuorumEpochRenaming
from kraftcheck.kraft_model.quorum.liveness import FAIRNESS, TemporalSummaries
from kraftcheck.kraft_model.quorum.records import (
    ENDED_MODES,
    Admin,
    Batch,
    EndQuorumEpochRequest,
    LeaderChange,
    Mode,
    Nil,
    NoOp,
    Replica,
    Shared,
)
from kraftcheck.kraft_model.quorum.rules import matches_voter, resigned_replica
from kraftcheck.spec import (
    Formula,
    ModelValue,
    Step,
    Steps,
    anywhere,
    bound,
    constant,
    eventually_always,
    hide,
    internal,
    invariant,
    predicate,
    projection,
    step_invariant,
    strong,
    temporal,
    weak,
)
from kraftcheck.spec.values import Value


class ControllerReplica(Replica):
    """A replica with a controller above it."""

    active: bool = False  # leader: whether its controller has written its first batch
    volatile: ClassVar[Mapping[str, Value]] = {"active": False}


ELECTION_MODES = (Mode.PROSPECTIVE, Mode.CANDIDATE)


class QuorumWithControllers(Quorum, QuorumEpochRenaming, variant="controllers"):
    """Each leader's controller writes its first batch, or fails to and resigns; elections are without end."""

    configuration = "endless.controllers"
    timely_elections: bool = constant("TimelyElections", default=False)
    epoch_spread: int = constant("EpochSpread", default=2, at_least=1)
    old_epochs: int = constant("OldEpochs", default=0, at_least=0)
    failed_writes: int = bound("MaxFailedWrites", default=0)
    replica_type = ControllerReplica
    fillers = (LeaderChange, NoOp)
    views: ClassVar = {**Quorum.views, "endless": hide("pre_votes", "retries", "elections", by="relative_epochs")}

    # The controller

    @internal
    def activate(self, me: ControllerReplica, shared: Shared) -> Steps:
        """The controller of a leader writes its first batch, or fails to and resigns (`QuorumController.claim`).

        The client tells it that it leads once LeaderChangeMessage is committed. A failure other than an error of the
        request makes it renounce (KAFKA-13148), and the leader resigns with EndQuorumEpoch.
        """
        if me.mode is not Mode.LEADER or me.active or not self.is_established(me):
            return
        if self.can_write(me):
            after = self.with_log(me, (*me.log, Batch(me.epoch, (NoOp(),))), flushes=True).but(active=True)
            after, sends, puts = self.commits(after, shared)
            yield self.taken(me, after, *sends, consumes=False).put(**puts)
        failure = self.taken(me, resigned_replica(me), *self.resignation_requests(me), consumes=False)
        yield failure.spend("failed_writes") if self.can_write(me) else failure

    def can_write(self, me: ControllerReplica) -> bool:
        """Whether the first batch of a controller can be written: the log accepts it."""
        return True

    @step_invariant
    def controllers_write_once(self, before: ControllerReplica, after: ControllerReplica, step: Step) -> bool:
        """A leader's controller writes one batch, once a batch of its epoch is committed (`QuorumController.claim`)."""
        wrote = not step.consumes and any(NoOp() in batch.records for batch in after.log[len(before.log) :])
        if after.active == before.active or after.mode is not Mode.LEADER or before.mode is not Mode.LEADER:
            return not wrote
        log = (*before.log, Batch(before.epoch, (NoOp(),)))
        return _awaits_first_write(before) and wrote and not step.sent and (after.log, after.flushed) == (log, len(log))

    @step_invariant
    def failed_writes_resign(
        self, before: ControllerReplica, after: ControllerReplica, step: Step, shared: Shared
    ) -> bool:
        """A failed write is counted, and its leader resigns with EndQuorumEpoch to the other voters (KAFKA-13148)."""
        if step.spends != ("failed_writes",):
            return (
                bool(step.spends or shared.cuts) or not _awaits_first_write(before) or after != resigned_replica(before)
            )
        told = {one.dest for one in step.sent if isinstance(one, EndQuorumEpochRequest)}
        others = {voter.key.id for voter in before.voters} - {before.id}
        return (
            _awaits_first_write(before) and after == resigned_replica(before) and told == others and not step.consumes
        )

    # Timers

    @projection
    def contest(self, me: Replica | Admin) -> Replica | Nil:
        """Return what others' timers depend on of a running replica: its id, endpoint, mode and epoch."""
        if not isinstance(me, Replica) or me.mode in ENDED_MODES or not self.timely_elections:
            return Nil.NIL
        return self.replica_type(me.id, endpoint=me.endpoint, mode=me.mode, epoch=me.epoch)

    @internal(reads=(Quorum.bystander, contest))
    def fetch_timeout(  # type: ignore[override]
        self, me: Replica, shared: Shared, bystander: OtherReplicas, contest: OtherReplicas
    ) -> Steps:
        if not self.waits_for_others(me, shared, contest):
            yield from super().fetch_timeout(me, shared, bystander)

    @internal(reads=(Quorum.bystander, contest))
    def election_timeout(  # type: ignore[override]
        self, me: Replica, shared: Shared, bystander: OtherReplicas, contest: OtherReplicas
    ) -> Steps:
        if not self.waits_for_answers(me, shared, contest) and not self.waits_for_others(me, shared, contest):
            yield from super().election_timeout(me, shared, bystander)

    @internal(reads=contest)
    def pre_vote_timeout(self, me: Replica, shared: Shared, contest: OtherReplicas) -> Steps:  # type: ignore[override]
        if not self.waits_for_answers(me, shared, contest):
            yield from super().pre_vote_timeout(me)

    def waits_for_answers(self, me: Replica, shared: Shared, others: OtherReplicas) -> bool:
        """Whether a round awaits an answer that must arrive: with TimelyElections, its timer does not expire before."""
        if not self.timely_elections or self.losses or me.mode not in ELECTION_MODES:
            return False
        asked = [voter for voter in me.voters if not matches_voter(voter.key, me.key)]
        open_ = [voter for voter in asked if voter.key not in me.granted | me.rejected]
        return any(self.is_reached(me, voter.key.id, voter.endpoint, shared, others) for voter in open_)

    def waits_for_others(self, me: Replica, shared: Shared, others: OtherReplicas) -> bool:
        """Whether another replica that can be reached leads, or is in a round: with TimelyElections, it may go on."""
        if not self.timely_elections or me.mode is Mode.CANDIDATE:
            return False
        heard = [one for one in others.values() if isinstance(one, Replica) and one.id != me.id]
        return any(
            self.is_reached(me, one.id, 0, shared, others)
            and (one.mode in ELECTION_MODES or (one.mode is Mode.LEADER and one.epoch >= me.epoch))
            for one in heard
        )

    @invariant(reads=(Quorum.bystander, contest), needs=["TimelyElections"])
    def timers_leave_time(
        self, me: ControllerReplica, shared: Shared, bystander: OtherReplicas, contest: OtherReplicas
    ) -> bool:
        """No timer of a round expires before the answers, and no other one during a round or a term of a leader.

        Raft's timing requirement ("In Search of an Understandable Consensus Algorithm", 5.6); KIP-595,
        `quorum.election.timeout.ms`, `quorum.fetch.timeout.ms`. With TimelyElections it holds of processes that run
        and links that are up.
        """
        heard = {
            host: one
            for host, one in contest.items()
            if isinstance(one, Replica) and host != me.id and frozenset({me.id, host}) not in shared.cuts
        }
        waits = self.timely_elections and (
            _has_reachable_voter_without_response(me, heard, self.losses)
            if me.mode in ELECTION_MODES
            else _has_reachable_leader_or_candidate(me, heard)
        )
        timers = (
            self.fetch_timeout(me, shared, bystander, contest),
            self.election_timeout(me, shared, bystander, contest),
            self.pre_vote_timeout(me, shared, contest),
        )
        return not waits or not any(map(list, timers))

    # Properties

    @predicate(reads=Quorum.standing)
    def leads_and_commits(self, me: ControllerReplica, shared: Shared, standing: TemporalSummaries) -> bool:
        """A leader that a majority follows has an active controller, and its whole log is committed."""
        leads = me.mode is Mode.LEADER and me.active and me.high_watermark == len(me.log)
        return leads and self.has_followers(me, shared, standing)

    @temporal(
        fairness=(
            *FAIRNESS,
            weak("Activate", each="replica"),
            strong("FetchTimeout", each="replica"),
            strong("ElectionTimeout", each="replica"),
        )
    )
    def leadership_settles(self) -> Formula:
        """From some point on, one replica leads and has committed its controller's first batch (AutoMQ 2057)."""
        return eventually_always(anywhere(self.leads_and_commits))


def _awaits_first_write(me: ControllerReplica) -> bool:
    """Whether a replica leads with a commit in its epoch, and its controller has not written."""
    starts = next((end for end, batch in enumerate(me.log, 1) if batch.epoch == me.epoch), 0)
    return me.mode is Mode.LEADER and not me.active and 0 < starts <= me.high_watermark


def _has_reachable_voter_without_response(me: Replica, heard: Mapping[ModelValue, Replica], losses: int) -> bool:
    """Whether a voter that can be reached has not answered in a round."""
    silent = {v.key.id: v.endpoint for v in me.voters if v.key not in me.granted and v.key not in me.rejected}
    return not losses and any(silent.get(host) == one.endpoint for host, one in heard.items())


def _has_reachable_leader_or_candidate(me: Replica, heard: Mapping[ModelValue, Replica]) -> bool:
    """Whether a replica that can be reached leads, or is in a round."""
    leads = [one for one in heard.values() if one.mode is Mode.LEADER and one.epoch >= me.epoch]
    return bool(leads) or any(one.mode in ELECTION_MODES for one in heard.values())


class ActivationFails(QuorumWithControllers, variant="activation-fails"):
    """The first write of every new controller fails, as each new leader takes over the request (AutoMQ 2057)."""

    configuration = "endless.activation"

    def can_write(self, me: ControllerReplica) -> bool:
        return False


class ElectionTimersInStep(QuorumWithControllers, variant="candidates-in-step"):
    """The timers of two replicas run in step, as a backoff without jitter lets them (KAFKA-18345)."""

    configuration = "endless.activation"

    def waits_for_others(self, me: Replica, shared: Shared, others: OtherReplicas) -> bool:
        return False


__all__ = ["ActivationFails", "ElectionTimersInStep", "QuorumWithControllers"]
