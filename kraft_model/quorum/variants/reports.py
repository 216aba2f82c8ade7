"""Variants of `Quorum` after public reports: faults of Kafka, and configurations with which operators lost a quorum.

Each names its report, and its configuration `report.*`, in which the model without it holds. `docs/operators.md` has
the results, and the reports that need no variant.
"""

from __future__ import annotations

from kraftcheck.kraft_model.quorum import Quorum
from kraftcheck.kraft_model.quorum.contracts.steps import ends_or_starts_process
from kraftcheck.kraft_model.quorum.records import (
    ENDED_MODES,
    UNKNOWN_DIRECTORY,
    Admin,
    Batch,
    BeginQuorumEpochRequest,
    DescribeQuorumResponse,
    DiskReplica,
    Error,
    FetchRequest,
    FetchResponse,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    Key,
    Mode,
    Nil,
    Operation,
    Position,
    Replica,
    Shared,
    Term,
    Voter,
)
from kraftcheck.kraft_model.quorum.rules import VoterSet, epoch_start, last_kraft_version, replica_keys
from kraftcheck.kraft_model.quorum.variants.kafka import SeveralSnapshots
from kraftcheck.spec import Map, ModelValue, Record, Step, Steps, bound, constant, internal, invariant, step_invariant

LOCAL_ENDPOINT = 99
"""The number of an endpoint that is in no voter set, and at which no replica listens."""


class LocalListenerAnnounced(Quorum, variant="local-listener-announced"):
    """A leader of a static quorum announces its local listener, not its endpoint among the voters (KAFKA-20380)."""

    configuration = "report.local-listener"

    def announcement(self, me: Replica, key: Key) -> BeginQuorumEpochRequest:
        return super().announcement(me, key).but(endpoint=self.endpoint_shown(me))

    def endpoint_shown(self, me: Replica) -> int:
        return LOCAL_ENDPOINT if me.leader == me.id and me.version == 0 else super().endpoint_shown(me)


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
    piece_type = PieceRequest
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

    @step_invariant
    def pieces_come_from_the_leader(self, before: PieceReplica, after: PieceReplica, step: Step) -> bool:
        """FetchSnapshot goes to the leader's endpoint, for the piece after those that the replica has (KIP-630)."""
        asked = [one for one in step.sent if isinstance(one, PieceRequest)]
        held = len(after.pieces) if asked and after.loading == asked[0].snapshot else 0
        return all(
            (one.dest, one.address, one.position) == (after.leader, after.leader_endpoint, held) for one in asked
        )


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
    def lose_disk(self, me: Replica, shared: Shared) -> Steps:
        """A new disk leaves the settings of its controller as they are."""
        for step in super().lose_disk(me, shared):
            assert isinstance(step.me, StaticReplica)
            assert isinstance(me, StaticReplica)
            yield step.but(me=self.with_log(step.me.but(listed=me.listed), (), flushes=False))

    @internal
    def list_voters(self, me: Replica) -> Steps:
        """A controller restarts with another `controller.quorum.voters`."""
        if me.mode not in ENDED_MODES:
            listed = self.with_log(me.but(listed=self.listed), me.log, flushes=False)
            after = self.after_restart(listed)
            sends = self.messages_after_restart(after)
            yield self.taken(me, after, *sends, consumes=False, starts=True).spend("listings")

    @step_invariant
    def lists_change_in_a_restart(self, before: StaticReplica, after: StaticReplica, step: Step) -> bool:
        """A restart takes the list `Listed`; the listed hosts are the voters (KIP-595, `controller.quorum.voters`)."""
        if step.spends != ("listings",):
            return after.listed == before.listed
        return after.listed == self.listed == frozenset(voter.key.id for voter in after.voters)


class VotersDiffer(StaticVoters, variant="voters-differ"):
    """A controller restarts with a list of voters that the others do not have (discussion of KIP-1262)."""

    configuration = "report.voters-differ"


class EndpointsNotDescribed(Quorum, variant="endpoints-not-described"):
    """DescribeQuorum omits the endpoint of a voter that its leader has added as an observer (KAFKA-17604)."""

    configuration = "report.endpoints-not-described"

    def describe_quorum(self, me: Replica) -> Steps:
        first = self.with_log(me, me.log[: epoch_start(me.log, me.epoch) + 1], flushes=False).voters
        for step in super().describe_quorum(me):
            (told,) = step.sent
            assert isinstance(told, DescribeQuorumResponse)
            shown = (v if v.key in replica_keys(first) else v.but(endpoint=0) for v in told.current)
            yield step.but(sends=()).send(told.but(current=frozenset(shown)))


# FinalizedVersionReports


class Report(Record):
    """A kraft.version that a replica reported as finalized, and the replica's high watermark; for properties only."""

    version: int
    high_watermark: int


class Reports(Shared):
    """The shared state with the reported versions; history, for properties only."""

    reports: frozenset[Report] = frozenset()


class FinalizedVersionReports(Quorum, variant="features"):
    """A replica with a high watermark reports the kraft.version of its committed log (KIP-584; KAFKA-19998)."""

    configuration = "report.features"
    shared_type = Reports
    report_type = Report
    feature_descriptions: int = bound("MaxFeatureDescriptions", default=0)

    @internal
    def describe_features(self, me: Replica, shared: Reports) -> Steps:
        """An administrator asks a replica for the finalized kraft.version."""
        version = self.finalized_version(me)
        if me.mode not in ENDED_MODES and version is not None:
            reports = shared.reports | {Report(version, me.high_watermark)}
            yield self.taken(me, me, consumes=False).put(reports=reports).spend("feature_descriptions")

    def finalized_version(self, me: Replica) -> int | None:
        return self.committed_version(me)

    def committed_version(self, me: Replica) -> int | None:
        """Return the kraft.version of the log up to the high watermark; None without one."""
        known = me.log[: me.high_watermark]
        return self.with_log(me, known, flushes=False).version if known else None

    @invariant
    def finalized_is_committed(self, shared: Reports) -> bool:
        """A kraft.version reported as finalized is that of the log committed at that time (KIP-584; KIP-853)."""
        known = {report: shared.committed[: report.high_watermark] for report in shared.reports}
        return all(
            log and last_kraft_version(log, self.initial_version) == report.version for report, log in known.items()
        )

    @step_invariant
    def descriptions_are_reported(self, before: Replica, step: Step, shared: Reports) -> bool:
        """A question for the finalized version is answered with that of the log up to the high watermark (KIP-584)."""
        told = dict(step.puts).get("reports", shared.reports)
        due = {
            Report(last_kraft_version(before.log[: before.high_watermark], self.initial_version), before.high_watermark)
        }
        return step.spends != ("feature_descriptions",) or told == shared.reports | due


class UncommittedVersionReported(FinalizedVersionReports, variant="uncommitted-version-reported"):
    """A replica reports the kraft.version in use, possibly uncommitted (review of KAFKA-16538; KAFKA-19998).

    So does Kafka: `KRaftMetadataCache.features` and `FeatureControlManager` take `KafkaRaftClient.kraftVersion`. All
    versions.
    """

    def finalized_version(self, me: Replica) -> int | None:
        return None if super().finalized_version(me) is None else me.version


class VersionZeroReported(FinalizedVersionReports, variant="version-zero-reported"):
    """A replica always reports kraft.version 0 (KAFKA-18920, KAFKA-18979)."""

    def finalized_version(self, me: Replica) -> int | None:
        return None if super().finalized_version(me) is None else 0


class VersionReportedUnknown(FinalizedVersionReports, variant="version-reported-unknown"):
    """A replica without a high watermark reports the lowest version as finalized (KAFKA-19964)."""

    def finalized_version(self, me: Replica) -> int | None:
        return super().finalized_version(me) or 0


# A log that begins before its newest snapshot


class LogBeforeSnapshot(SeveralSnapshots, Quorum, variant="log-before-snapshot"):
    """A log may begin before its newest snapshot; a fetch at offset 0 loads the snapshot (KAFKA-15078)."""

    configuration = "report.log-before-snapshot"
    variants = Quorum.variants  # not those of SeveralSnapshots

    @step_invariant
    def empty_followers_load_the_snapshot(self, before: DiskReplica, message: FetchRequest, step: Step) -> bool:
        """A replica with an empty log gets the newest snapshot, where there is one, and no records (KIP-630)."""
        newest = max((0, *before.snapshots))
        answers = [one for one in step.sent if isinstance(one, FetchResponse) and one.error is Error.NONE]
        if message.offset or not newest:
            return True
        return all(isinstance(one.snapshot, Position) and one.snapshot.offset == newest for one in answers)


class EmptyFollowerReadsLog(LogBeforeSnapshot, variant="empty-follower-reads-log"):
    """A fetch at offset 0 reads the whole log, although a snapshot exists (KAFKA-15078)."""

    def needs_snapshot(self, me: Replica, request: FetchRequest) -> bool:
        return super().needs_snapshot(me, request) and (request.offset > 0 or me.start > 0)


# A listener


class ReplicaWithListener(Replica):
    """A replica with a listener: whether it is registered, and the last leader that it learned of."""

    registered: bool = False
    heard_of: Term | Nil = Nil.NIL


class QuorumWithListeners(Quorum, variant="listeners"):
    """A listener of the Raft client registers at any time, and learns of every leader (KAFKA-16286)."""

    configuration = "report.listeners"
    replica_type = ReplicaWithListener
    registrations: int = bound("MaxListeners", default=0)

    @internal
    def register_listener(self, me: ReplicaWithListener) -> Steps:
        """A listener registers, and learns of the leader that the replica knows."""
        if me.mode not in ENDED_MODES and not me.registered:
            step = self.taken(me, self.registers(me.but(registered=True)), consumes=False)
            yield step.spend("registrations")

    def registers(self, me: Replica) -> Replica:
        return self.notifies(me)

    def notifies(self, me: Replica) -> Replica:
        return me.but(heard_of=self.known(me))

    def known(self, me: Replica) -> Term | Nil:
        if isinstance(me.leader, Nil) or (me.mode is Mode.RESIGNED and self.hides_resigned()):
            return Nil.NIL
        return Term(me.epoch, me.leader)

    def hides_resigned(self) -> bool:
        return True

    def taken(
        self, before: Replica, after: Replica, *messages: Record, consumes: bool = True, starts: bool = False
    ) -> Step:
        assert isinstance(after, ReplicaWithListener)
        if starts or after.mode in ENDED_MODES:
            after = after.but(registered=False, heard_of=Nil.NIL)
        elif after.registered and self.known(before) != self.known(after):
            after = self.notifies(after)
        return super().taken(before, after, *messages, consumes=consumes, starts=starts)

    @invariant
    def listeners_know_the_leader(self, me: ReplicaWithListener) -> bool:
        """A follower's listener knows its leader and epoch; any other knows no leader but one that leads.

        KIP-595, `handleLeaderChange` of a listener; KAFKA-16286, KAFKA-17333.
        """
        if me.registered and me.mode is Mode.FOLLOWER:
            return isinstance(me.leader, ModelValue) and me.heard_of == Term(me.epoch, me.leader)
        return me.mode is Mode.LEADER or me.heard_of != Term(me.epoch, me.id)

    @step_invariant
    def listeners_register_once(self, before: ReplicaWithListener, after: ReplicaWithListener, step: Step) -> bool:
        """A listener registers once in the life of its process, and learns of nothing before (KIP-595)."""
        if step.spends == ("registrations",):
            return (
                before.mode not in ENDED_MODES
                and not before.registered
                and after == before.but(registered=True, heard_of=after.heard_of)
            )
        if after.mode in ENDED_MODES or ends_or_starts_process(step):
            return not after.registered and after.heard_of is Nil.NIL
        return after.registered == before.registered and (after.registered or after.heard_of is Nil.NIL)


class ResignedLeaderNotifies(QuorumWithListeners, variant="resigned-leader-notifies"):
    """The listener of a leader that has restarted or resigned learns that the replica leads (KAFKA-17333)."""

    def hides_resigned(self) -> bool:
        return False


class LateListenerNotNotified(QuorumWithListeners, variant="late-listener-not-notified"):
    """A listener that registers after its replica has found the leader does not learn of it (KAFKA-16286)."""

    def registers(self, me: Replica) -> Replica:
        return me


class UpdateVoterNotSent(Quorum, variant="update-voter-not-sent"):
    """A voter cannot send UpdateVoter, since its network layer does not know the request (KAFKA-18001)."""

    configuration = "report.update-voter"

    def send_update_voter(self, me: Replica) -> Steps:
        yield from ()


# Observers


class ObserverStaysAtBootstrap(Quorum, variant="observer-stays-at-bootstrap"):
    """An observer that learns of its leader from a bootstrap server fetches from that server again (KAFKA-19354)."""

    configuration = "report.bootstrap"

    def handle_fetch_response(self, me: Replica, response: FetchResponse, shared: Shared) -> Steps:
        refused = me.pending == response.request and response.error is Error.NOT_LEADER_OR_FOLLOWER
        stays = refused and me.mode is Mode.FOLLOWER and me.leader == response.leader and not self.is_voter(me)
        if stays and not self.is_cut(me, response.source, shared):
            yield self.taken(me, me, response.request)
        else:
            yield from super().handle_fetch_response(me, response, shared)


class RemovedVotersStayOut(Quorum, variant="removed-voters-stay-out"):
    """The model with the property that a removed voter is not added again unasked (KAFKA-19850)."""

    configuration = "report.auto-join"

    def add_voter(self, me: Replica, shared: Shared, identity: Map[ModelValue, Voter | Nil]) -> Steps:
        """No administrator adds a voter here."""
        yield from ()

    @invariant(needs=["WatchAnswers"])
    def removed_voters_stay_out(self, me: Admin, shared: Shared) -> bool:
        """The last committed voter set has no voter that an administrator has removed (KIP-853, "RemoveVoter")."""
        removed = {told.about for told in me.told if told.operation is Operation.REMOVE_VOTER}
        return not removed & replica_keys(self.voters_in(shared.committed, frozenset()))


# Mixed versions of RPCs


class MixedFetchVersions(Quorum, variant="mixed-versions"):
    """Hosts in `OldRpcs` know Fetch without a directory id, which newer ones leave out for them (KAFKA-17276)."""

    configuration = "report.mixed-versions"
    old_rpcs: frozenset[ModelValue] = constant("OldRpcs", default=frozenset())

    def fetch_from(self, me: Replica, server: ModelValue, address: int) -> FetchRequest:
        fetch = super().fetch_from(me, server, address)
        return fetch.but(directory=UNKNOWN_DIRECTORY) if {me.id, server} & self.old_rpcs else fetch

    @invariant
    def old_hosts_see_no_directory(self, message: FetchRequest) -> bool:
        """Fetch has the directory id unless a host with old RPCs sends or receives it (KAFKA-17276)."""
        return (message.directory == UNKNOWN_DIRECTORY) == bool({message.source, message.dest} & self.old_rpcs)


class DirectoryNotIgnorable(MixedFetchVersions, variant="directory-not-ignorable"):
    """A newer replica cannot send Fetch to a host that does not know the directory id (KAFKA-17276)."""

    def handle_fetch_request(self, me: Replica, request: FetchRequest, shared: Shared) -> Steps:
        if me.id in self.old_rpcs and request.source not in self.old_rpcs:
            yield self.taken(me, me)
        else:
            yield from super().handle_fetch_request(me, request, shared)
