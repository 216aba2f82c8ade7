"""Variants of `Quorum` after public reports: faults of Kafka, and configurations with which operators lost a quorum.

Each names its report, and its configuration `report.*`, in which the model without it holds. `docs/operators.md` has
the results, and the reports that need no variant.
"""

from __future__ import annotations

from kraftcheck.kraft_model.quorum import Quorum
from kraftcheck.kraft_model.quorum.records import (
    ENDED,
    UNKNOWN_DIRECTORY,
    Batch,
    BeginQuorumEpochRequest,
    Error,
    FetchResponse,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    Key,
    Nil,
    Position,
    Replica,
    Shared,
    Voter,
)
from kraftcheck.kraft_model.quorum.rules import VoterSet
from kraftcheck.spec import ModelValue, Steps, bound, constant, internal

LOCAL = 99
"""The number of an endpoint that is in no voter set, and at which no replica listens."""


class LocalListenerAnnounced(Quorum, variant="local-listener-announced"):
    """A leader of a static quorum announces its local listener, not its endpoint among the voters (KAFKA-20380)."""

    configuration = "report.local-listener"

    def announcement(self, me: Replica, key: Key) -> BeginQuorumEpochRequest:
        return super().announcement(me, key).but(endpoint=self.endpoint_shown(me))

    def endpoint_shown(self, me: Replica) -> int:
        return LOCAL if me.leader == me.id and me.version == 0 else super().endpoint_shown(me)


class SlowLink(Quorum, variant="slow-link"):
    """A response with more than one batch arrives after its request has timed out, and is dropped (KAFKA-19541)."""

    configuration = "report.slow-link"

    def is_expected(self, me: Replica, response: FetchResponse) -> bool:
        return len(response.records) <= 1 and super().is_expected(me, response)


class PieceRequest(FetchSnapshotRequest):
    """FetchSnapshot for the piece at a position, a number of batches (KIP-630, "FetchSnapshot")."""

    position: int = 0


class PieceReplica(Replica):
    """A replica with the pieces of the snapshot that it is loading."""

    loading: Position | Nil = Nil.NIL
    pieces: tuple[Batch, ...] = ()
    volatile = {"loading": Nil.NIL, "pieces": ()}


class SnapshotPieces(Quorum, variant="snapshot-pieces"):
    """A snapshot travels in pieces of `SnapshotLimit` batches, each asked for by its position (KIP-630)."""

    configuration = "report.slow-snapshots"
    replica_type = PieceReplica
    snapshot_limit: int = constant("SnapshotLimit", default=0, at_least=0)

    def received(self, me: Replica, snapshot: Position) -> tuple[Batch, ...]:
        assert isinstance(me, PieceReplica)
        return me.pieces if me.loading == snapshot else ()

    def snapshot_request(self, me: Replica, snapshot: Position, source: ModelValue) -> FetchSnapshotRequest:
        position, address = len(self.received(me, snapshot)), me.leader_endpoint
        return PieceRequest(me.epoch, snapshot, me.directory, me.id, source, address, position)

    def snapshot_answer(self, me: Replica, request: FetchSnapshotRequest, error: Error) -> FetchSnapshotResponse:
        answer = super().snapshot_answer(me, request, error)
        assert isinstance(request, PieceRequest)
        end = request.position + self.snapshot_limit if self.snapshot_limit else request.snapshot.offset
        return answer.but(content=answer.content[request.position : end])

    def handle_fetch_snapshot_response(self, me: Replica, response: FetchSnapshotResponse, shared: Shared) -> Steps:
        of, content = response.request.snapshot, self.received(me, response.request.snapshot) + response.content
        missing = me.pending == response.request and response.error is Error.NONE and len(content) < of.offset
        if missing and not self.is_cut(me, response.source, shared):
            after = me.but(loading=of, pieces=content)
            request = self.snapshot_request(after, of, response.source)
            yield self.taken(me, after.but(pending=request), request)
        else:
            yield from super().handle_fetch_snapshot_response(me, response.but(content=content), shared)

    def load(self, me: Replica, response: FetchSnapshotResponse) -> Replica:
        return super().load(me, response).but(loading=Nil.NIL, pieces=())


class SlowSnapshots(SnapshotPieces, variant="slow-snapshots"):
    """A response to FetchSnapshot with more than one batch arrives too late, and is dropped (KAFKA-19541)."""

    def handle_fetch_snapshot_response(self, me: Replica, response: FetchSnapshotResponse, shared: Shared) -> Steps:
        if len(response.content) > 1:
            yield self.taken(me, me)
        else:
            yield from super().handle_fetch_snapshot_response(me, response, shared)


class StaticReplica(Replica):
    """A replica with its `controller.quorum.voters`; Nil for InitialVoters."""

    listed: frozenset[ModelValue] | Nil = Nil.NIL


class StaticVoters(Quorum, variant="static-voters"):
    """At kraft.version 0 a controller restarts with the voters `Listed`, by default none (bitnami/charts 34015)."""

    configuration = "report.static-voters"
    replica_type = StaticReplica
    listed: frozenset[ModelValue] = constant("Listed", default=frozenset())
    listings: int = bound("MaxListings", default=0)

    def first_voters(self, me: Replica) -> VoterSet:
        assert isinstance(me, StaticReplica)
        if isinstance(me.listed, Nil):
            return super().first_voters(me)
        return frozenset(Voter(Key(host, UNKNOWN_DIRECTORY)) for host in me.listed)

    @internal
    def list_voters(self, me: Replica) -> Steps:
        """A controller restarts with another `controller.quorum.voters`."""
        if me.mode not in ENDED:
            listed = self.with_log(me.but(listed=self.listed), me.log, flushes=False)
            after = self.after_restart(listed)
            sends = self.messages_after_restart(after)
            yield self.taken(me, after, *sends, consumes=False, starts=True).spend("listings")
