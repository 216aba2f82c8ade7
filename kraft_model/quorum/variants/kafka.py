"""Where the real Kafka is known to do something else than `Quorum`: a class for each difference.

Walks beside Kafka (`kraftcheck lockstep`) put these classes under the model or its variant, so that both sides agree
exactly and every other difference shows. Each says what Kafka does, and where. `docs/kafka.md` has the walks.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from re import sub

from kraftcheck.kraft_model.quorum import Quorum
from kraftcheck.kraft_model.quorum.base import ADMIN, Bystanders
from kraftcheck.kraft_model.quorum.records import (
    AddVoterRequest,
    AdminResponse,
    Answers,
    Error,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    Key,
    KRaftVersion,
    LeaderChange,
    LogRecord,
    Mode,
    Nil,
    Operation,
    RemoveVoterRequest,
    Replica,
    Shared,
    UpdateVoterRequest,
    UpdateVoterResponse,
    VoteRequest,
    VoteResponse,
    Voters,
)
from kraftcheck.kraft_model.quorum.rules import keys, last_epoch, stopped, voter_of
from kraftcheck.kraft_model.quorum.variants.readings import (
    CaughtUpWithinTheHour,
    JoinersAnsweredWhenAppended,
    ResignsWhileAsked,
    UpdateVoterAnsweredAtOnce,
)
from kraftcheck.kraft_model.quorum.voters import ChangeOutcome
from kraftcheck.spec import ModelValue, Record, Step, Steps, ordered
from kraftcheck.spec.errors import InputError, unknown

OwnRequest = UpdateVoterRequest | AddVoterRequest | RemoveVoterRequest


class OneRequestAtATime(Quorum):
    """A follower sends UpdateVoter, and AddVoter or RemoveVoter of its own, in the place of its next fetch.

    A timer says that one is due (`updating` here); it goes out when no request to the leader is under way
    (`KafkaRaftClient.pollFollowerAsVoter`, `pollFollowerAsObserver`). At kraft.version 1 a voter sends UpdateVoter as
    long as its entry in the voter set differs from what it is; at version 0 until the leader has answered
    (`shouldSendUpdateVoteRequest`). All versions; joining since 4.2.
    """

    def send_update_voter(self, me: Replica) -> Steps:
        """The timer expires."""
        if me.mode is not Mode.FOLLOWER or isinstance(me.leader, Nil):
            return
        if self.is_due(me) or not self.is_voter(me) or not self.needs_update(me):
            return
        yield self.taken(me, me.but(updating=True), consumes=False).spend("updated_voters")

    def join(self, me: Replica) -> Steps:
        """The timer expires."""
        if me.mode is not Mode.FOLLOWER or isinstance(me.leader, Nil):
            return
        if self.is_due(me) or self.is_voter(me) or not self.may_join(me):
            return
        request = self.joining_request(me, me.leader)
        allowance = "removed_voters" if isinstance(request, RemoveVoterRequest) else "added_voters"
        yield self.taken(me, me.but(updating=True), consumes=False).spend(allowance)

    def is_due(self, me: Replica) -> bool:
        """Whether the timer has expired since the last such request, or the answer to that is still open."""
        return me.updating or isinstance(me.pending, OwnRequest)

    def needs_update(self, me: Replica) -> bool:
        """Whether a voter has something to tell its leader."""
        if me.version == 0:
            return not me.updated
        own = voter_of(me.voters, me.key)
        return own is not None and (own.endpoint != me.endpoint or me.software < me.version)

    def may_join(self, me: Replica) -> bool:
        """Whether an observer adds itself."""
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

    def sends(self, me: Replica, request: OwnRequest) -> tuple[Replica, tuple[Record, ...]]:
        """Return the replica and the request of its own that it sends; the timer begins anew."""
        return me.but(pending=request, updating=False), (request,)

    def no_longer_awaited(self, me: Replica) -> list[Record]:
        return super().no_longer_awaited(me.but(updating=False))

    def answers_to(self, me: Replica) -> list[Record]:
        return [Answers("update" if isinstance(me.pending, UpdateVoterRequest) else "fetch", me.id)]

    def handle_update_voter_response(self, me: Replica, response: UpdateVoterResponse, shared: Shared) -> Steps:
        """A voter that hears that all is well also counts as one that has fetched from this leader.

        `KafkaRaftClient.handleUpdateVoterResponse` calls `FollowerState.resetFetchTimeoutForSuccessfulFetch`. What else
        the answer says is ignored, but INVALID_REQUEST: there it throws.
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
        """An observer hears how its request ended: unless that is a surprise, the timer begins anew."""
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
    """UpdateVoter is answered once its record is appended, and does not count as pending.

    `UpdateVoterHandler.storeUpdatedVoters`; KAFKA-16534. Software that does not know the kraft.version is refused with
    INVALID_REQUEST (`UpdateVoterHandler.handleUpdateVoterRequest`). All versions.
    """

    def update_error(self, me: Replica, request: UpdateVoterRequest) -> Error | None:
        error = super().update_error(me, request)
        return Error.INVALID_REQUEST if error is Error.INVALID_UPDATE else error


class UpgradesAtOnce(Quorum):
    """A leader upgrades kraft.version whatever is committed, and does not count that as a pending change.

    `LeaderState.maybeAppendUpgradedKRaftVersion` looks at neither the high watermark nor at voter changes under way.
    Since 4.1.
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
    """A new leader whose endpoints or software have changed writes a KRaftVersionRecord again, beside the VotersRecord.

    `LeaderState.appendStartOfEpochControlRecords`. All versions.
    """

    def first_records(self, me: Replica) -> tuple[LogRecord, ...]:
        found = super().first_records(me)
        if not found and me.version > me.software:
            found = (Voters(me.voters),)
        return found if len(found) != 1 else (KRaftVersion(me.version), *found)


class ReadsAnyVersion(Quorum):
    """A Raft client whose software does not support the kraft.version of its log goes on.

    Only what stands on top of the client looks at it. As a voter it tells its leader so, who refuses that with
    INVALID_REQUEST, of which it dies (`OneRequestAtATime`). All versions.
    """

    def can_read(self, me: Replica) -> bool:
        return True


class OnlyVoterIsNotFound(Quorum):
    """RemoveVoter of the only voter is refused with VOTER_NOT_FOUND, not INVALID_REQUEST.

    `VoterSet.removeVoter`, `RemoveVoterHandler.handleRemoveVoterRequest`. All versions.
    """

    def begin_removing(self, me: Replica, key: Key, client: ModelValue) -> ChangeOutcome:
        after, sends, error = super().begin_removing(me, key, client)
        is_only = error is Error.INVALID_REQUEST and keys(me.voters) == {key}
        return after, sends, Error.VOTER_NOT_FOUND if is_only else error


class AsksForTheSnapshotAgain(Quorum):
    """A follower whose leader refuses FetchSnapshot asks for the snapshot again, as long as it follows this leader.

    `FollowerState.fetchingSnapshot` stays until the leader says that it has no such snapshot
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
    """A follower whose request times out turns to a bootstrap server, a voter too, and then to its leader again.

    `KafkaRaftClient.maybeSendFetchToBestNode`. Whom it asked last is not modelled, so it may do either. That a
    request for a snapshot times out is not driven: the follower would go on with the snapshot later. All versions.
    """

    def retry(self, me: Replica, shared: Shared, bystander: Bystanders) -> Steps:
        if isinstance(me.pending, Nil | FetchSnapshotRequest) or self.is_answered(me, shared, bystander):
            return
        if me.mode is not Mode.FOLLOWER or isinstance(me.leader, Nil):
            yield self.taken(me, me.but(pending=Nil.NIL), consumes=False).spend("retries")
            return
        servers = [(me.leader, me.leader_endpoint), *((host, 0) for host in ordered(self.bootstrap_servers - {me.id}))]
        for server, address in servers:
            fetch = self.fetch_from(me, server, address)
            yield self.taken(me, me.but(pending=fetch), fetch, consumes=False).spend("retries")


TRANSITIONS = (Error.FENCED_LEADER_EPOCH, Error.NOT_LEADER_OR_FOLLOWER)


class VotersAreAskedAgain(Quorum):
    """A prospective or candidate asks a voter again, and at once, if its answer was an error that says nothing else.

    So with INVALID_VOTER_KEY of a voter with a new disk: `KafkaRaftClient.maybeHandleCommonResponse` counts the answer
    as handled, and `maybeSendVoteRequests` asks every voter whose answer is not recorded. All versions.
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
    """A replica that restarts takes its log's start for the high watermark; the model's knows of none.

    `UnifiedLog` begins with the log start, which a snapshot has raised. What is before a snapshot is committed, so no
    harm is in it. From 4.3 on, in kafka-raft; before that `KafkaMetadataLog` of the server does the same.
    """

    def after_restart(self, me: Replica) -> Replica:
        back = super().after_restart(me)
        return back.but(high_watermark=back.start)


class PreVotesBeginAnew(Quorum):
    """A prospective that grants a vote begins its round anew, since the vote makes a new `ProspectiveState`.

    It forgets who has answered, and asks these again (`QuorumState.prospectiveAddVotedState`). From 4.0 on.
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
        """Whether a prospective has heard from the voter that a request is for."""
        return isinstance(request, VoteRequest) and request.voter in me.granted | me.rejected


class AddVoterNeedsFreeConnection(Quorum):
    """A leader refuses AddVoter while it waits for another answer of the new voter, or has lost one.

    `AddVoterHandler.handleAddVoterRequest`: "New voter ... is not ready to receive requests". The answer is
    REQUEST_TIMED_OUT. What was lost the model does not know, so it may do either. All versions.
    """

    def asked(
        self, me: Replica, shared: Shared, outcome: ChangeOutcome, operation: Operation, allowance: str
    ) -> Iterator[Step]:
        yield from super().asked(me, shared, outcome, operation, allowance)
        if outcome[2] is None and operation is Operation.ADD_VOTER:
            busy = (me, list[Record](), Error.REQUEST_TIMED_OUT)
            yield self.finished(me, shared, busy, operation, ADMIN, consumes=False).spend(allowance)

    def handle_add_voter_request(self, me: Replica, request: AddVoterRequest, shared: Shared) -> Steps:
        for step in super().handle_add_voter_request(me, request, shared):
            yield step
            if isinstance(step.me, Replica) and step.me.change != me.change:
                busy = (me, list[Record](), Error.REQUEST_TIMED_OUT)
                yield self.finished(me, shared, busy, Operation.ADD_VOTER, request.source, consumes=True)


class VotersAreWrittenAgain(Quorum):
    """A new leader may write KRaftVersionRecord and VotersRecord although its log has them.

    It does so where it truncated its log since it started and never read them: see docs/kafka.md, "A replica that
    truncated its log". What it has read the model does not say, so it may do either.
    """

    def take_office(self, me: Replica, shared: Shared, *, consumes: bool) -> Iterator[Step]:
        yield from super().take_office(me, shared, consumes=consumes)
        if me.version > 0 and self.last_voters_record(me.log) > 0:
            yield from self.unread(me, shared, consumes=consumes)

    def unread(self, me: Replica, shared: Shared, *, consumes: bool) -> Iterator[Step]:
        """Yield the steps of a leader that knows of no voters in its log."""
        for step in super().take_office(me, shared, consumes=consumes):
            after = step.me
            if isinstance(after, Replica) and after.mode is Mode.LEADER:
                *before, batch = after.log
                records = (LeaderChange(me.id), KRaftVersion(me.version), Voters(me.voters))
                yield step.but(me=after.but(log=(*before, batch.but(records=records))))


class EmptyMockLogKills(Quorum):
    """A replica whose log is empty behind its own snapshot may die of a newer snapshot of the same epoch, with mocks.

    The test kit's `MockLog` then takes the end of what it has just stored for its log end; `truncateToLatestSnapshot`
    has nothing to do, and `KafkaRaftClient` throws "Full log truncation expected". Kafka's log on disk is right.
    """

    def handle_fetch_snapshot_response(self, me: Replica, response: FetchSnapshotResponse, shared: Shared) -> Steps:
        is_empty = 0 < me.start == len(me.log) and me.pending == response.request
        same = response.content[-1:] and response.content[-1].epoch == last_epoch(me.log)
        if is_empty and same and response.epoch == me.epoch and not self.is_cut(me, response.source, shared):
            yield self.taken(me, stopped(me), starts=True)
        yield from super().handle_fetch_snapshot_response(me, response, shared)


MOCK_DIFFERENCES: tuple[type[Quorum], ...] = (EmptyMockLogKills,)
"""Differences of the test kit, which Kafka itself does not have."""

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
"""All known differences; the first goes before the later ones where two change the same."""


def known_differences(*, disk: bool = False) -> dict[str, type[Quorum]]:
    """Return all known differences, by name: `PreVotesBeginAnew` is `pre-votes-begin-anew`."""
    own = DISK_DIFFERENCES if disk else MOCK_DIFFERENCES
    return {sub(r"(?<!^)(?=[A-Z])", "-", part.__name__).lower(): part for part in (*own, *DIFFERENCES)}


def as_kafka(protocol: type[Quorum], *, disk: bool = False, without: Collection[str] = ()) -> type[Quorum]:
    """Return a model with all known differences."""
    known = known_differences(disk=disk)
    for name in without:
        if name not in known:
            raise InputError(unknown("difference", name, known))
    parts = [part for name, part in known.items() if name not in without and not issubclass(protocol, part)]
    bases = (*parts, Quorum) if protocol is Quorum else (protocol, *parts)
    return type(protocol.__name__, bases, {"__doc__": protocol.__doc__})
