"""Known differences between Kafka and `Quorum`, one class each.

Walks beside Kafka (`kraftcheck lockstep`) add these classes to the model or its variant, so that any other difference
shows. Each class describes Kafka's behaviour, and cites its code. `docs/kafka.md` describes the walks.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from re import sub
from typing import ClassVar

from kraftcheck.kraft_model.quorum import Quorum
from kraftcheck.kraft_model.quorum.base import OtherReplicas
from kraftcheck.kraft_model.quorum.records import (
    ADMIN,
    AddVoterRequest,
    AdminResponse,
    Answers,
    DiskReplica,
    Error,
    FetchRequest,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    Key,
    KRaftVersion,
    LeaderChange,
    LogRecord,
    Mode,
    Nil,
    Operation,
    Position,
    RemoveVoterRequest,
    Replica,
    Shared,
    UpdateVoterRequest,
    UpdateVoterResponse,
    VoteRequest,
    VoteResponse,
    Voters,
)
from kraftcheck.kraft_model.quorum.rules import (
    last_epoch,
    matching_voter,
    permanently_down_replica,
    replica_keys,
    resigned_replica,
)
from kraftcheck.kraft_model.quorum.variants.readings import (
    CaughtUpWithinTheHour,
    JoinersAnsweredWhenAppended,
    ResignsWhileAsked,
    UpdateVoterAnsweredAtOnce,
)
from kraftcheck.kraft_model.quorum.voters import ChangeOutcome
from kraftcheck.spec import ModelValue, Record, Step, Steps, ordered
from kraftcheck.spec.errors import InputError, unknown_name_message


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
        for step in handle(resigned_replica(me), request, shared):
            refusals = [one for one in step.sent if getattr(one, "error", None) is Error.NOT_LEADER_OR_FOLLOWER]
            answers = [one.but(error=Error.BROKER_NOT_AVAILABLE) for one in refusals]
            if answers:
                yield self.taken(me, resigned_replica(me), *answers, *self.resignation_requests(me)).spend(
                    "resignations"
                )


VoterChangeRequest = UpdateVoterRequest | AddVoterRequest | RemoveVoterRequest


class OneRequestAtATime(Quorum):
    """A follower sends its own UpdateVoter, AddVoter or RemoveVoter in place of its next fetch.

    An expired timer (`updating` here) makes the request due. It is sent when no request to the leader is in flight
    (`KafkaRaftClient.pollFollowerAsVoter`, `pollFollowerAsObserver`). At kraft.version 1 a voter sends UpdateVoter
    while its entry in the voter set is out of date. At version 0 it does so until the leader has answered
    (`shouldSendUpdateVoteRequest`). All versions; joining since 4.2.
    """

    def send_update_voter(self, me: Replica) -> Steps:
        """The update timer of a voter expires, and its UpdateVoter is due."""
        if me.mode is not Mode.FOLLOWER or isinstance(me.leader, Nil):
            return
        if self.is_due(me) or not self.is_voter(me) or not self.needs_update(me):
            return
        yield self.taken(me, me.but(updating=True), consumes=False).spend("updated_voters")

    def join(self, me: Replica) -> Steps:
        """The join timer of an observer expires, and its AddVoter or RemoveVoter is due."""
        if me.mode is not Mode.FOLLOWER or isinstance(me.leader, Nil):
            return
        if self.is_due(me) or self.is_voter(me) or not self.may_join(me):
            return
        request = self.joining_request(me, me.leader)
        allowance = "removed_voters" if isinstance(request, RemoveVoterRequest) else "added_voters"
        yield self.taken(me, me.but(updating=True), consumes=False).spend(allowance)

    def is_due(self, me: Replica) -> bool:
        """Whether the replica's own UpdateVoter, AddVoter or RemoveVoter is due or pending."""
        return me.updating or isinstance(me.pending, VoterChangeRequest)

    def needs_update(self, me: Replica) -> bool:
        """Whether a voter must send UpdateVoter to its leader."""
        if me.version == 0:
            return not me.updated
        own = matching_voter(me.voters, me.key)
        return own is not None and (own.endpoint != me.endpoint or me.software < me.version)

    def may_join(self, me: Replica) -> bool:
        """Whether an observer may request to join the voters."""
        return self.auto_join and me.id not in self.brokers and me.version > 0

    def next_request(self, me: Replica) -> tuple[Replica, tuple[Record, ...]]:
        if not me.updating or me.mode is not Mode.FOLLOWER:
            return super().next_request(me)
        if not isinstance(me.pending, Nil) or isinstance(me.leader, Nil):
            return me, ()
        if not self.is_voter(me):
            if not self.may_join(me):
                return super().next_request(me)
            return self.sends(me, self.joining_request(me, me.leader))
        if not self.needs_update(me):
            return super().next_request(me.but(updating=False))
        return self.sends(me, self.update_request(me, me.leader))

    def sends(self, me: Replica, request: VoterChangeRequest) -> tuple[Replica, tuple[Record, ...]]:
        """Return the replica with UpdateVoter, AddVoter or RemoveVoter pending, and the request; the timer restarts."""
        return me.but(pending=request, updating=False), (request,)

    def dropped_with_mode(self, me: Replica) -> list[Record]:
        return super().dropped_with_mode(me.but(updating=False))

    def responses_to_pending(self, me: Replica) -> list[Record]:
        return [Answers("update" if isinstance(me.pending, UpdateVoterRequest) else "fetch", me.id)]

    def handle_update_voter_response(self, me: Replica, response: UpdateVoterResponse, shared: Shared) -> Steps:
        """A response to UpdateVoter without an error also counts as a successful fetch from this leader.

        `KafkaRaftClient.handleUpdateVoterResponse` calls `FollowerState.resetFetchTimeoutForSuccessfulFetch`. Other
        errors are ignored, except INVALID_REQUEST, on which Kafka throws an exception.
        """
        if self.is_cut(me, response.source, shared):
            return
        asked = me.pending
        if not isinstance(asked, UpdateVoterRequest) or asked != response.request:
            yield self.taken(me, me)
            return
        free = me.but(pending=Nil.NIL)
        after, done = self.common_response(free, response)
        if not done and after.mode is Mode.FOLLOWER:
            after = after.but(updated=True, fetched=True)
        yield self.taken(me, after)

    def handle_join_response(self, me: Replica, response: AdminResponse, shared: Shared) -> Steps:
        """A joining observer receives its response; unless the error is unexpected, its timer restarts."""
        if self.is_cut(me, response.source, shared):
            return
        asked = me.pending
        if not isinstance(asked, AddVoterRequest | RemoveVoterRequest) or asked.dest != response.source:
            yield self.taken(me, me)
            return
        expected = Error.DUPLICATE_VOTER if isinstance(asked, AddVoterRequest) else Error.VOTER_NOT_FOUND
        dealt = response.error in (Error.NONE, Error.REQUEST_TIMED_OUT, expected)
        yield self.taken(me, me.but(pending=Nil.NIL, updating=me.updating and not dealt))


class UpdateVoterWithoutError(UpdateVoterAnsweredAtOnce):
    """UpdateVoter is answered once its record is appended, and does not count as a pending change.

    `UpdateVoterHandler.storeUpdatedVoters`; KAFKA-16534. A voter whose software lacks the kraft.version is rejected
    with INVALID_REQUEST (`UpdateVoterHandler.handleUpdateVoterRequest`). All versions.
    """

    def update_error(self, me: Replica, request: UpdateVoterRequest) -> Error | None:
        error = super().update_error(me, request)
        return Error.INVALID_REQUEST if error is Error.INVALID_UPDATE else error


class UpgradesAtOnce(Quorum):
    """A leader upgrades kraft.version without waiting for any commit, and does not count it as a pending change.

    `LeaderState.maybeAppendUpgradedKRaftVersion` checks neither the high watermark nor pending voter changes. Since
    4.1.
    """

    def begin_upgrade(self, me: Replica, version: int) -> ChangeOutcome:
        if me.mode is not Mode.LEADER:
            return super().begin_upgrade(me, version)
        established = me.but(change=Nil.NIL, high_watermark=len(me.log))
        after, sends, error = super().begin_upgrade(established, version)
        if error is not None:
            return me, sends, error
        sends = [*sends, *self.answer(after, Operation.UPDATE_FEATURES, Error.NONE, ADMIN)]
        return after.but(change=me.change, high_watermark=me.high_watermark), sends, None


class VersionIsWrittenAgain(Quorum):
    """A new leader with new endpoints or software appends KRaftVersionRecord again, beside VotersRecord.

    `LeaderState.appendStartOfEpochControlRecords`. All versions.
    """

    def first_records(self, me: Replica) -> tuple[LogRecord, ...]:
        found = super().first_records(me)
        if not found and me.version > me.software:
            found = (Voters(me.voters),)
        return found if len(found) != 1 else (KRaftVersion(me.version), *found)


class ReadsAnyVersion(Quorum):
    """A Raft client keeps running although its software does not support the kraft.version of its log.

    The layers above the client check it. As a voter it reports its version to the leader, which rejects it with
    INVALID_REQUEST, on which the voter fails (`OneRequestAtATime`). All versions.
    """

    def can_read(self, me: Replica) -> bool:
        return True


class OnlyVoterIsNotFound(Quorum):
    """RemoveVoter of the only voter is rejected with VOTER_NOT_FOUND, not INVALID_REQUEST.

    `VoterSet.removeVoter`, `RemoveVoterHandler.handleRemoveVoterRequest`. All versions.
    """

    def begin_removing(self, me: Replica, key: Key, client: ModelValue) -> ChangeOutcome:
        after, sends, error = super().begin_removing(me, key, client)
        is_only = error is Error.INVALID_REQUEST and replica_keys(me.voters) == {key}
        return after, sends, Error.VOTER_NOT_FOUND if is_only else error


class AsksForTheSnapshotAgain(Quorum):
    """A follower repeats a rejected FetchSnapshot for as long as it follows the same leader.

    `FollowerState.fetchingSnapshot` stays set until the leader answers SNAPSHOT_NOT_FOUND
    (`KafkaRaftClient.handleFetchSnapshotResponse`, `maybeSendFetchOrFetchSnapshot`). All versions.
    """

    def handle_fetch_snapshot_response(self, me: Replica, response: FetchSnapshotResponse, shared: Shared) -> Steps:
        for step in super().handle_fetch_snapshot_response(me, response, shared):
            after = step.me
            assert isinstance(after, Replica)
            same = (after.mode, after.epoch, after.leader) == (me.mode, me.epoch, me.leader)
            refused = me.pending == response.request and response.error not in (Error.NONE, Error.SNAPSHOT_NOT_FOUND)
            yield self.taken(me, me, response.request) if same and refused else step


class RetriesAtBootstrapServers(Quorum):
    """A follower whose request times out fetches from a bootstrap server, even as a voter, then from its leader.

    `KafkaRaftClient.maybeSendFetchToBestNode`. The model does not store the last receiver, so either may come next. The
    timeout of FetchSnapshot is not driven: the follower would resume the snapshot later. All versions.
    """

    def retry(self, me: Replica, shared: Shared, bystander: OtherReplicas) -> Steps:
        if isinstance(me.pending, Nil | FetchSnapshotRequest) or self.is_answered(me, shared, bystander):
            return
        if me.mode is not Mode.FOLLOWER or isinstance(me.leader, Nil):
            yield self.taken(me, me.but(pending=Nil.NIL), consumes=False).spend("retries")
            return
        servers = [(me.leader, me.leader_endpoint), *((host, 0) for host in ordered(self.servers(me)))]
        for server, address in servers:
            fetch = self.fetch_from(me, server, address)
            yield self.taken(me, me.but(pending=fetch), fetch, consumes=False).spend("retries")


STALE_LEADER_ERRORS = (Error.FENCED_LEADER_EPOCH, Error.NOT_LEADER_OR_FOLLOWER)


class VotersAreAskedAgain(Quorum):
    """A prospective or candidate replica repeats Vote at once after a response with an unrecorded error.

    An example is INVALID_VOTER_KEY of a voter with a new disk. `KafkaRaftClient.maybeHandleCommonResponse` treats the
    response as handled. `maybeSendVoteRequests` then asks every voter without a recorded response. All versions.
    """

    def handle_vote_response(self, me: Replica, response: VoteResponse, shared: Shared) -> Steps:
        for step in super().handle_vote_response(me, response, shared):
            after = step.me
            assert isinstance(after, Replica)
            awaited = self.awaits(me, response) and response.error is not Error.NONE
            if awaited and after == me and not self.majority_is_lost(me.voters, me.rejected):
                again = self.vote_requests(me, pre_vote=response.pre_vote)
                yield step.send(*(request for request in again if request.dest == response.source))  # type: ignore[attr-defined]
            else:
                yield step


class HighWatermarkStartsAtSnapshot(Quorum):
    """A restarted replica takes its log start as high watermark; in the model it has none.

    `UnifiedLog` starts at the log start offset, which a snapshot has raised. This is safe: the snapshot is committed.
    Since 4.3 in kafka-raft; before that `KafkaMetadataLog` of the server does the same.
    """

    def after_restart(self, me: Replica) -> Replica:
        back = super().after_restart(me)
        return back.but(high_watermark=back.start)


class PreVotesBeginAnew(Quorum):
    """A prospective that grants a vote restarts its round, since the vote creates a new `ProspectiveState`.

    It drops its recorded responses, and asks their senders again (`QuorumState.prospectiveAddVotedState`). Since 4.0.
    """

    def handle_vote_request(self, me: Replica, request: VoteRequest, shared: Shared) -> Steps:
        for step in super().handle_vote_request(me, request, shared):
            after = step.me
            assert isinstance(after, Replica)
            if me.mode is Mode.PROSPECTIVE is after.mode and after.epoch == me.epoch and after.voted != me.voted:
                asked = [r for r in self.vote_requests(after, pre_vote=True) if self.has_answered(me, r)]
                yield step.but(me=after.but(granted=self.own_votes(me), rejected=frozenset())).send(*asked)
            else:
                yield step

    def has_answered(self, me: Replica, request: Record) -> bool:
        """Whether a prospective replica has recorded a response from the voter to which a vote request goes."""
        return isinstance(request, VoteRequest) and request.voter in me.granted | me.rejected


class AddVoterNeedsFreeConnection(Quorum):
    """A leader rejects AddVoter while another response of the new voter is pending or lost.

    `AddVoterHandler.handleAddVoterRequest`: "New voter ... is not ready to receive requests". The error is
    REQUEST_TIMED_OUT. The model does not store lost responses, so it allows both outcomes. All versions.
    """

    def administrator_step(
        self, me: Replica, shared: Shared, outcome: ChangeOutcome, operation: Operation, allowance: str
    ) -> Iterator[Step]:
        yield from super().administrator_step(me, shared, outcome, operation, allowance)
        if outcome[2] is None and operation is Operation.ADD_VOTER:
            busy = (me, list[Record](), Error.REQUEST_TIMED_OUT)
            yield self.outcome_step(me, shared, busy, operation, ADMIN, consumes=False).spend(allowance)

    def handle_add_voter_request(self, me: Replica, request: AddVoterRequest, shared: Shared) -> Steps:
        for step in super().handle_add_voter_request(me, request, shared):
            yield step
            if isinstance(step.me, Replica) and step.me.change != me.change:
                busy = (me, list[Record](), Error.REQUEST_TIMED_OUT)
                yield self.outcome_step(me, shared, busy, Operation.ADD_VOTER, request.source, consumes=True)


class VotersAreWrittenAgain(Quorum):
    """A new leader may append KRaftVersionRecord and VotersRecord although its log has them.

    It does so if it truncated its log since its start and never read them: see docs/kafka.md, "Two different
    committed logs". The model does not store how far it has read, so it allows both outcomes.
    """

    def take_office(self, me: Replica, shared: Shared, *, consumes: bool) -> Iterator[Step]:
        yield from super().take_office(me, shared, consumes=consumes)
        if me.version > 0 and self.last_voters_record(me.log) > 0:
            yield from self.unread(me, shared, consumes=consumes)

    def unread(self, me: Replica, shared: Shared, *, consumes: bool) -> Iterator[Step]:
        """Yield the steps in which a new leader appends the voters again, since it has not read them in its log."""
        for step in super().take_office(me, shared, consumes=consumes):
            after = step.me
            if isinstance(after, Replica) and after.mode is Mode.LEADER:
                *before, batch = after.log
                records = (LeaderChange(me.id), KRaftVersion(me.version), Voters(me.voters))
                yield step.but(me=after.but(log=(*before, batch.but(records=records))))


class EmptyMockLogKills(Quorum):
    """With mocks, a newer snapshot of the same epoch may kill a replica whose log ends at its own snapshot.

    `MockLog` of the test kit then takes the end of the stored snapshot for its log end. `truncateToLatestSnapshot` does
    nothing, and `KafkaRaftClient` throws "Full log truncation expected". Kafka's log on disk is correct.
    """

    def handle_fetch_snapshot_response(self, me: Replica, response: FetchSnapshotResponse, shared: Shared) -> Steps:
        is_empty = 0 < me.start == len(me.log) and me.pending == response.request
        same = response.content[-1:] and response.content[-1].epoch == last_epoch(me.log)
        if is_empty and same and response.epoch == me.epoch and not self.is_cut(me, response.source, shared):
            yield self.taken(me, permanently_down_replica(me), starts=True)
        yield from super().handle_fetch_snapshot_response(me, response, shared)


CLUSTER_DIFFERENCES: tuple[type[Quorum], ...] = (
    SeveralSnapshots,
    FetchesFromItself,
    ParkedFetches,
    RefusesWhileItStops,
)
"""Differences of a whole server, for logs of a cluster."""

MOCK_DIFFERENCES: tuple[type[Quorum], ...] = (EmptyMockLogKills,)
"""Differences of the log of Kafka's own tests, for walks without `--disk`."""

DISK_DIFFERENCES: tuple[type[Quorum], ...] = (HighWatermarkStartsAtSnapshot,)
"""Differences of Kafka's log on disk, for walks with `--disk`."""

DIFFERENCES: tuple[type[Quorum], ...] = (
    OneRequestAtATime,
    UpdateVoterWithoutError,
    UpgradesAtOnce,
    JoinersAnsweredWhenAppended,
    VersionIsWrittenAgain,
    ReadsAnyVersion,
    OnlyVoterIsNotFound,
    AsksForTheSnapshotAgain,
    RetriesAtBootstrapServers,
    VotersAreAskedAgain,
    PreVotesBeginAnew,
    CaughtUpWithinTheHour,
    AddVoterNeedsFreeConnection,
    VotersAreWrittenAgain,
    ResignsWhileAsked,
)
"""All known differences; an earlier class overrides the later ones."""


UNSEEN_IN_LOGS = {
    "high-watermark-starts-at-snapshot": "a process shows no high watermark before that of its leader",
    "upgrades-at-once": "UpdateFeatures is answered above the Raft client",
    "voters-are-written-again": "the log diverges before, at the voters that the leader does not read",
}
"""Known differences that no log of a cluster can show, each with the reason; `validate` has none of them."""


def known_difference_classes_by_name(*, disk: bool = False, cluster: bool = False) -> dict[str, type[Quorum]]:
    """Return the class of each known difference by name; for a cluster, without those that no log can show."""
    own = CLUSTER_DIFFERENCES if cluster else DISK_DIFFERENCES if disk else MOCK_DIFFERENCES
    found = classes_by_kebab_case_name((*own, *DIFFERENCES))
    return {name: part for name, part in found.items() if not (cluster and name in UNSEEN_IN_LOGS)}


def classes_by_kebab_case_name(parts: Iterable[type[Quorum]]) -> dict[str, type[Quorum]]:
    """Return classes by their names, for example `pre-votes-begin-anew` for `PreVotesBeginAnew`."""
    return {sub(r"(?<!^)(?=[A-Z])", "-", part.__name__).lower(): part for part in parts}


def require_known_differences(names: Iterable[str], known: Collection[str], *, cluster: bool = False) -> None:
    """Raise InputError at the first name that is no known difference."""
    for name in names:
        if cluster and name in UNSEEN_IN_LOGS:
            raise InputError(
                f"{name}: no log shows this difference, since {UNSEEN_IN_LOGS[name]}; leave out the option"
            )
        if name not in known:
            raise InputError(unknown_name_message("difference", name, known))


def with_known_kafka_differences(
    protocol: type[Quorum], *, disk: bool = False, cluster: bool = False, without: Collection[str] = ()
) -> type[Quorum]:
    """Return a subclass of `protocol` with all known differences of Kafka from the model but those in `without`.

    A variant names further ones in `differences`.
    """
    own: Iterable[type[Quorum]] = getattr(protocol, "differences", ())
    known = classes_by_kebab_case_name(own) | known_difference_classes_by_name(disk=disk, cluster=cluster)
    require_known_differences(without, known, cluster=cluster)
    parts = [part for name, part in known.items() if name not in without and not issubclass(protocol, part)]
    bases = (*parts, Quorum) if protocol is Quorum else (protocol, *parts)
    return type(protocol.__name__, bases, {"__doc__": protocol.__doc__})
