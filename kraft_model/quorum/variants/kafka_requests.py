"""Where the real Kafka is known to do something else than `Quorum` with UpdateVoter, upgrades, joining and retries.

As in `kafka`, there is a class for each difference.
"""

# ruff: noqa: D102 - a method here overrides one that says what it is for
from __future__ import annotations

from kraftcheck.kraft_model.quorum import Quorum
from kraftcheck.kraft_model.quorum.base import ADMIN
from kraftcheck.kraft_model.quorum.log import keys, voter_of
from kraftcheck.kraft_model.quorum.messages import (
    AddVoterRequest,
    AdminResponse,
    Answers,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    RemoveVoterRequest,
    UpdateVoterRequest,
    UpdateVoterResponse,
)
from kraftcheck.kraft_model.quorum.records import (
    Error,
    Key,
    KRaftVersion,
    LogRecord,
    Mode,
    Nil,
    Operation,
    Voter,
    Voters,
)
from kraftcheck.kraft_model.quorum.state import Replica, Shared
from kraftcheck.kraft_model.quorum.timing import Bystanders
from kraftcheck.kraft_model.quorum.variants.readings import JoinersAnsweredWhenAppended, UpdateVoterAnsweredAtOnce
from kraftcheck.kraft_model.quorum.voters import ChangeOutcome
from kraftcheck.spec import ModelValue, Record, Steps, ordered

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

    def joining_request(self, me: Replica, leader: ModelValue) -> AddVoterRequest | RemoveVoterRequest:
        """Return RemoveVoter for the voter with this replica's id, or else AddVoter."""
        former = [voter.key for voter in ordered(me.voters) if voter.key.id == me.id]
        if former:
            return RemoveVoterRequest(former[0], me.id, leader, me.leader_endpoint)
        return AddVoterRequest(Voter(me.key, me.endpoint), me.id, leader, me.leader_endpoint)

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
)
"""All of these; the first goes before the later ones where two change the same."""
