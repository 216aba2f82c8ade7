"""Known differences between a whole Kafka server and `Quorum`, one class each; `kafka.py` has those of its client."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import ClassVar

from kraftcheck.kraft_model.quorum import Quorum
from kraftcheck.kraft_model.quorum.records import (
    AddVoterRequest,
    DiskReplica,
    Error,
    FetchRequest,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    Mode,
    Position,
    RemoveVoterRequest,
    Replica,
    Shared,
    UpdateVoterRequest,
)
from kraftcheck.kraft_model.quorum.rules import resigned
from kraftcheck.spec import ModelValue, Record, Step, Steps


class SeveralSnapshots(Quorum):
    """A replica keeps several snapshots beside a log that begins earlier, and deletes them and the log later.

    `KafkaRaftLog.maybeClean`, `ReplicatedLog.validateOffsetAndEpoch`; in the model a snapshot replaces the log before
    it. A restarted replica deletes none before it knows a high watermark (`UnifiedLog.maybeIncrementLogStartOffset`
    throws, and the cleaner logs that). A fetch at offset 0 loads the latest snapshot, even if the log begins at 0
    (`KafkaRaftClient.tryCompleteFetchRequest`). All versions.
    """

    replica_type = DiskReplica

    def take_snapshot(self, me: Replica) -> Steps:
        assert isinstance(me, DiskReplica)
        for end in range(max((0, *me.snapshots)) + 1, me.high_watermark + 1):
            yield self.taken(me, me.but(snapshots=(*me.snapshots, end)), consumes=False).spend("snapshots")
        for kept, end in enumerate(me.snapshots):
            if me.start < end <= me.high_watermark:
                trimmed = me.but(start=end, snapshots=me.snapshots[kept:])
                yield self.taken(me, trimmed, consumes=False).spend("snapshots")

    def needs_snapshot(self, me: Replica, request: FetchRequest) -> bool:
        """Whether the fetch begins at 0, before the log, or in an epoch before that of the earliest snapshot."""
        assert isinstance(me, DiskReplica)
        if not me.snapshots:
            return False
        if request.offset == 0 and me.snapshots != (0,):
            return True
        earliest = me.log[me.snapshots[0] - 1].epoch if me.snapshots[0] > 0 else 0
        starts = request.offset == me.start and request.last_epoch != earliest and request.offset > 0
        return request.offset < me.start or starts or request.last_epoch < earliest

    def latest_snapshot(self, me: Replica) -> Position:
        assert isinstance(me, DiskReplica)
        end = max(me.snapshots, default=me.start)
        return Position(end, me.log[end - 1].epoch)

    def holds_snapshot(self, me: Replica, snapshot: Position) -> bool:
        assert isinstance(me, DiskReplica)
        return snapshot.offset in me.snapshots

    def load(self, me: Replica, response: FetchSnapshotResponse) -> Replica:
        loaded = super().load(me, response)
        return loaded.but(snapshots=(loaded.start,))


class FetchesFromItself(Quorum):
    """A replica that is one of its bootstrap servers fetches from itself too.

    `KafkaRaftClient.maybeSendFetchToAnyBootstrap` does not leave out the local node. All versions.
    """

    def servers(self, me: Replica) -> frozenset[ModelValue]:
        return self.bootstrap_servers


class ParkedFetches(Quorum):
    """A leader delays the response to a fetch while it has nothing to send, and handles the fetch again at its end.

    `KafkaRaftClient.handleFetchRequest`. The first response is lost where the log has grown since. Since 4.1 a leader
    does not delay it for a follower whose high watermark is lower than its own (KIP-1166). All versions.
    """

    parks_fetches: ClassVar[bool] = True


class RefusesWhileItStops(Quorum):
    """A leader whose process ends in good order rejects requests with BROKER_NOT_AVAILABLE, then resigns.

    `KafkaRaftClient.validateLeaderOnlyRequest` sees that `shutdown` was called. At the next poll
    `pollLeader` resigns; in the model both are one step. All versions.
    """

    def handle_fetch_request(self, me: Replica, request: FetchRequest, shared: Shared) -> Steps:
        yield from super().handle_fetch_request(me, request, shared)
        yield from self.stopped_by(super().handle_fetch_request, me, request, shared)

    def handle_fetch_snapshot_request(self, me: Replica, request: FetchSnapshotRequest, shared: Shared) -> Steps:
        yield from super().handle_fetch_snapshot_request(me, request, shared)
        yield from self.stopped_by(super().handle_fetch_snapshot_request, me, request, shared)

    def handle_update_voter_request(self, me: Replica, request: UpdateVoterRequest, shared: Shared) -> Steps:
        yield from super().handle_update_voter_request(me, request, shared)
        yield from self.stopped_by(super().handle_update_voter_request, me, request, shared)

    def handle_add_voter_request(self, me: Replica, request: AddVoterRequest, shared: Shared) -> Steps:
        yield from super().handle_add_voter_request(me, request, shared)
        yield from self.stopped_by(super().handle_add_voter_request, me, request, shared)

    def handle_remove_voter_request(self, me: Replica, request: RemoveVoterRequest, shared: Shared) -> Steps:
        yield from super().handle_remove_voter_request(me, request, shared)
        yield from self.stopped_by(super().handle_remove_voter_request, me, request, shared)

    def stopped_by(self, handle: Callable[..., Steps], me: Replica, request: Record, shared: Shared) -> Iterator[Step]:
        """Yield the step of a leader that resigns: where it rejects the request as resigned, the error is another."""
        if me.mode is not Mode.LEADER:
            return
        for step in handle(resigned(me), request, shared):
            refusals = [one for one in step.sent if getattr(one, "error", None) is Error.NOT_LEADER_OR_FOLLOWER]
            answers = [one.but(error=Error.BROKER_NOT_AVAILABLE) for one in refusals]
            if answers:
                yield self.taken(me, resigned(me), *answers, *self.resignation_requests(me)).spend("resignations")
