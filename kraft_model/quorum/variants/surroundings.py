"""The parts of a server around the Raft client, for walks beside Kafka, and the fetches that a leader delays.

Walks of `kraftcheck lockstep --variant server` have them all at once. A controller writes first or resigns. A listener
registers late. A log has several snapshots, which travel in pieces. Each host has static voters of its own. A leader
delays fetches, and replicas report kraft.version.
"""

from __future__ import annotations

from typing import ClassVar

from kraftcheck.kraft_model.quorum import Quorum
from kraftcheck.kraft_model.quorum.contracts.steps import ends_or_starts_process
from kraftcheck.kraft_model.quorum.records import (
    ENDED_MODES,
    DiskReplica,
    Error,
    FetchRequest,
    FetchResponse,
    FetchSnapshotResponse,
    Mode,
    Nil,
    Replica,
    Shared,
    Term,
)
from kraftcheck.kraft_model.quorum.variants.controllers import ControllerReplica, QuorumWithControllers
from kraftcheck.kraft_model.quorum.variants.reports import (
    FinalizedVersionReports,
    LogBeforeSnapshot,
    PieceReplica,
    QuorumWithListeners,
    ReplicaWithListener,
    SnapshotPieces,
    StaticReplica,
    StaticVoters,
    UncommittedVersionReported,
)
from kraftcheck.spec import ModelValue, Record, Step, Steps, bound, internal, invariant, ordered, step_invariant


class InformedFetch(FetchRequest):
    """Fetch with the high watermark of its sender, 0 if it knows none (KIP-1166)."""

    high_watermark: int = 0


class DelayingReplica(Replica):
    """A replica with the fetches that it delays: the response that each gets once its maximum wait has passed.

    `forgot`: whether the client does not know the high watermark of its log (`HighWatermarkIsForgotten`).
    """

    delayed: frozenset[FetchResponse] = frozenset()
    forgot: bool = False


class DelayedFetches(Quorum, variant="delayed-fetches"):
    """A leader delays the response to a fetch that has nothing new (KIP-595, "Fetch"; KIP-1166).

    `KafkaRaftClient.handleFetchRequest`, since 4.1. Each commit and each append ends the delays, as does the end of
    leadership by resigning or by following another leader. A leader that hears of a higher epoch without a leader keeps
    them.
    """

    configuration = "report.delayed-fetches"
    replica_type = DelayingReplica
    fetch_type = InformedFetch
    fetch_expirations: int = bound("MaxFetchExpirations", default=0)

    def fetch_from(self, me: Replica, server: ModelValue, address: int) -> FetchRequest:
        assert isinstance(me, DelayingReplica)
        fetch = super().fetch_from(me, server, address)
        plain = fetch.epoch, fetch.offset, fetch.last_epoch, fetch.directory, fetch.source, fetch.dest, fetch.address
        return InformedFetch(*plain, 0 if me.forgot else me.high_watermark)

    def handle_fetch_request(self, me: Replica, request: FetchRequest, shared: Shared) -> Steps:
        for step in super().handle_fetch_request(me, request, shared):
            answers = [one for one in step.sent if isinstance(one, FetchResponse) and one.request == request]
            if answers and self.waits(step.me, answers[0]):
                others = tuple(send for send in step.sends if send[1] not in answers)
                yield step.but(me=step.me.but(delayed=step.me.delayed | {answers[0]}), sends=others)
            else:
                yield step

    def waits(self, me: Replica, answer: FetchResponse) -> bool:
        """Whether a leader delays a response: it has no error and nothing to read, to truncate or to load."""
        if me.mode is not Mode.LEADER or answer.error is not Error.NONE:
            return False
        is_empty = (answer.records, answer.diverging, answer.snapshot) == ((), Nil.NIL, Nil.NIL)
        return is_empty and answer.request.offset == len(me.log) and self.is_informed(answer)

    def is_informed(self, answer: FetchResponse) -> bool:
        """Whether the sender of a fetch knows the high watermark of the response (KIP-1166)."""
        assert isinstance(answer.request, InformedFetch)
        return answer.high_watermark <= answer.request.high_watermark

    def taken(
        self, before: Replica, after: Replica, *messages: Record, consumes: bool = True, starts: bool = False
    ) -> Step:
        assert isinstance(before, DelayingReplica)
        assert isinstance(after, DelayingReplica)
        if starts or after.mode in ENDED_MODES:
            after = after.but(delayed=frozenset())
        elif (after.high_watermark, len(after.log)) != (before.high_watermark, len(before.log)):
            after, answers = self.handled_again(after)
            messages = (*messages, *answers)
        elif after.mode in (Mode.RESIGNED, Mode.FOLLOWER):
            shown = before if after.mode is Mode.RESIGNED else after
            refusals = [self.fetch_answer(shown, one.request, Error.NOT_LEADER_OR_FOLLOWER) for one in after.delayed]
            messages, after = (*messages, *ordered(refusals)), after.but(delayed=frozenset())
        return super().taken(before, after, *messages, consumes=consumes, starts=starts)

    def handled_again(self, me: DelayingReplica) -> tuple[DelayingReplica, list[FetchResponse]]:
        """Return the replica without delayed fetches, and their responses, now that it has committed or appended."""
        answers, after = list[FetchResponse](), me.but(delayed=frozenset())
        for one in ordered(me.delayed):
            if one.request.epoch == me.epoch:
                after = after.but(offsets=self.note_fetch(after, one.request).offsets)
                answers.append(self.served(after, after, one.request))
            else:
                answers.append(self.fetch_answer(me, one.request, Error.FENCED_LEADER_EPOCH))
        return after, answers

    @internal
    def expire_fetch(self, me: DelayingReplica) -> Steps:
        """The maximum wait of a delayed fetch passes: its sender gets the first response (KIP-595, "Fetch")."""
        for answer in ordered(me.delayed):
            step = self.taken(me, me.but(delayed=me.delayed - {answer}), answer, consumes=False)
            yield step.spend("fetch_expirations")

    @invariant
    def delayed_fetches_learn_nothing(self, me: DelayingReplica) -> bool:
        """A leader delays only fetches at its log end whose senders know its high watermark (KIP-595; KIP-1166)."""
        if me.mode is not Mode.LEADER:
            return True
        known, end = self.advertised_high_watermark(me), len(me.log)
        asked = [one.request for one in me.delayed if isinstance(one.request, InformedFetch)]
        return all(r.offset == end and r.high_watermark >= known for r in asked if r.epoch == me.epoch)

    @step_invariant
    def fetches_are_answered(self, before: Replica, after: Replica, message: FetchRequest, step: Step) -> bool:
        """A leader answers a fetch once, at once or when its delay ends, as the model without delays does."""
        assert isinstance(after, DelayingReplica)
        now = [one for one in step.sent if isinstance(one, FetchResponse) and one.request == message]
        later = [one for one in after.delayed if one.request == message]
        answered = step.but(sends=tuple(("send", one) for one in [*{*now}, *later]))
        return super().fetches_are_answered(before, after, message, answered)

    @step_invariant
    def fetches_are_noted(self, before: Replica, after: Replica, message: FetchRequest, step: Step) -> bool:
        """A leader notes a fetch when it arrives, whether it delays the response or not."""
        assert isinstance(before, DelayingReplica)
        return super().fetches_are_noted(before, after.but(delayed=before.delayed), message, step)

    @step_invariant
    def fetches_wait_for_news(self, before: Replica, after: Replica, message: FetchRequest, step: Step) -> bool:
        """A leader answers a fetch on arrival only with an error, records, a place to go, or a newer high watermark.

        KIP-595, "Fetch"; KIP-1166.
        """
        assert isinstance(message, InformedFetch)
        now = [one for one in step.sent if isinstance(one, FetchResponse) and one.request == message]
        told = [one for one in now if one.high_watermark <= message.high_watermark]
        empty = Error.NONE, (), Nil.NIL, Nil.NIL
        parts = [(one.error, one.records, one.diverging, one.snapshot) for one in told]
        return len(after.log) > message.offset or empty not in parts

    @step_invariant
    def fetches_tell_the_high_watermark(self, before: Replica, after: Replica, step: Step) -> bool:
        """A fetch carries the high watermark of its sender (KIP-1166)."""
        sent = [one for one in step.sent if isinstance(one, InformedFetch)]
        return all((one.source, one.high_watermark) == (after.id, after.high_watermark) for one in sent)

    @step_invariant
    def delays_end_with_a_response(self, before: DelayingReplica, after: DelayingReplica, step: Step) -> bool:
        """A delayed fetch is answered at the end of its delay, unless the process ends (KIP-595, "Fetch").

        If its maximum wait has passed, no other delay ends.
        """
        if after.mode in ENDED_MODES or ends_or_starts_process(step):
            return not after.delayed
        ended, answers = before.delayed - after.delayed, [one for one in step.sent if isinstance(one, FetchResponse)]
        if step.spends == ("fetch_expirations",):
            return len(ended) == 1 and set(answers) == ended and after == before.but(delayed=before.delayed - ended)
        return {one.request for one in ended} <= {one.request for one in answers}


class HighWatermarkDelayed(DelayedFetches, variant="high-watermark-delayed"):
    """A leader delays the response to a fetch at its log end despite a newer high watermark (before KIP-1166)."""

    def is_informed(self, answer: FetchResponse) -> bool:
        return True


class ServerReplica(ControllerReplica, ReplicaWithListener, PieceReplica, StaticReplica, DelayingReplica, DiskReplica):
    """A replica with the fields of all parts of a server."""

    volatile = {**ControllerReplica.volatile, **PieceReplica.volatile}


class HighWatermarkIsForgotten(DelayedFetches):
    """A client forgets its high watermark when it resigns, or loses office before a commit of its epoch.

    `ResignedState` and a new `LeaderState` have none, while the log keeps it. So its next fetches say that it knows
    none, and are answered at once. A log on disk has one after a restart, and the client none. All versions.
    """

    def taken(
        self, before: Replica, after: Replica, *messages: Record, consumes: bool = True, starts: bool = False
    ) -> Step:
        assert isinstance(after, DelayingReplica)
        if starts:
            after = after.but(forgot=True)
        elif before.mode is Mode.LEADER is not after.mode:
            after = after.but(forgot=after.mode is Mode.RESIGNED or not self.advertised_high_watermark(before))
        return super().taken(before, after, *messages, consumes=consumes, starts=starts)

    def take_high_watermark(self, me: Replica, response: FetchResponse) -> Replica:
        after = super().take_high_watermark(me, response)
        assert isinstance(after, DelayingReplica)
        is_carried = response.high_watermark > 0 and isinstance(response.diverging, Nil)
        return after.but(forgot=False) if is_carried else after

    def load(self, me: Replica, response: FetchSnapshotResponse) -> Replica:
        loaded = super().load(me, response)
        assert isinstance(loaded, DelayingReplica)
        return loaded.but(forgot=False)


class ListenersLearnByEpoch(QuorumWithListeners):
    """A listener learns at most of one leader an epoch, and not that this leader has resigned.

    `KafkaRaftClient.ListenerContext.shouldFireLeaderChange` waits for the next epoch, although the listener's interface
    promises a call when a leader steps down. A new leader's listener learns of it once its LeaderChangeMessage is
    committed (`maybeFireLeaderChange`). All versions.
    """

    def notifies(self, me: Replica) -> Replica:
        assert isinstance(me, ReplicaWithListener)
        if me.mode is Mode.LEADER and not self.is_established(me):
            return me
        is_new = not isinstance(me.heard_of, Term) or me.heard_of.epoch < me.epoch
        return super().notifies(me) if is_new else me

    def taken(
        self, before: Replica, after: Replica, *messages: Record, consumes: bool = True, starts: bool = False
    ) -> Step:
        assert isinstance(after, ReplicaWithListener)
        if after.registered and not starts and after.mode not in ENDED_MODES:
            after = self.notifies(after)
        return super().taken(before, after, *messages, consumes=consumes, starts=starts)


class QuorumOfServers(
    QuorumWithControllers,
    QuorumWithListeners,
    SnapshotPieces,
    StaticVoters,
    LogBeforeSnapshot,
    DelayedFetches,
    FinalizedVersionReports,
    variant="server",
):
    """Controllers, listeners, snapshots in pieces, static voters, delayed fetches and features, all at once."""

    configuration = "lockstep-server"
    replica_type = ServerReplica  # type: ignore[assignment]
    differences: ClassVar = (ListenersLearnByEpoch, UncommittedVersionReported, HighWatermarkIsForgotten)

    def formatted(self, host: ModelValue, directory: int, endpoint: int = 1) -> Replica:
        """Formatting at kraft.version 1 writes a snapshot that ends at 0 (KIP-853, "Bootstrap snapshot")."""
        blank = super().formatted(host, directory, endpoint)
        return blank.but(snapshots=(0,)) if self.initial_version > 0 else blank


__all__ = ["DelayedFetches", "HighWatermarkDelayed", "QuorumOfServers"]
