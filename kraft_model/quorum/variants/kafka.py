"""Where the real Kafka is known to do something else than `Quorum`: a class for each difference.

Walks beside Kafka (`kraftcheck lockstep`) put these classes under the model or its variant, so that both sides agree
exactly and every other difference shows. Each says what Kafka does, and where. `docs/kafka.md` has the walks.
"""

# ruff: noqa: D102 - a method here overrides one that says what it is for
from __future__ import annotations

from collections.abc import Collection, Iterator
from re import sub

from kraftcheck.kraft_model.quorum import Quorum
from kraftcheck.kraft_model.quorum.base import ADMIN
from kraftcheck.kraft_model.quorum.log import last_epoch
from kraftcheck.kraft_model.quorum.messages import (
    AddVoterRequest,
    FetchSnapshotResponse,
    VoteRequest,
)
from kraftcheck.kraft_model.quorum.records import (
    Error,
    KRaftVersion,
    LeaderChange,
    Mode,
    Operation,
    Voters,
)
from kraftcheck.kraft_model.quorum.state import Replica, Shared
from kraftcheck.kraft_model.quorum.transitions import stopped
from kraftcheck.kraft_model.quorum.variants import kafka_disk, kafka_failures, kafka_requests
from kraftcheck.kraft_model.quorum.variants.readings import CaughtUpWithinTheHour, ResignsWhileAsked
from kraftcheck.kraft_model.quorum.voters import ChangeOutcome
from kraftcheck.spec import Record, Step, Steps
from kraftcheck.spec.errors import InputError, unknown


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

DIFFERENCES: tuple[type[Quorum], ...] = (
    *kafka_requests.DIFFERENCES,
    *kafka_failures.DIFFERENCES,
    PreVotesBeginAnew,
    CaughtUpWithinTheHour,
    AddVoterNeedsFreeConnection,
    VotersAreWrittenAgain,
    ResignsWhileAsked,
)
"""All known differences; the first goes before the later ones where two change the same."""


def known_differences(*, disk: bool = False) -> dict[str, type[Quorum]]:
    """Return all known differences, by name: `PreVotesBeginAnew` is `pre-votes-begin-anew`."""
    own = kafka_disk.DIFFERENCES if disk else MOCK_DIFFERENCES
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
