"""Seeded faults of `Quorum` that break no safety, only progress: something never happens, or cannot any more.

Each names the configuration in which it shows: `live.*` by a temporal property, `trap.*` by states without a way out.
"""

# ruff: noqa: D102 - a method here overrides one that says what it is for
from __future__ import annotations

from kraftcheck.kraft_model.quorum import Quorum
from kraftcheck.kraft_model.quorum.messages import (
    BeginQuorumEpochRequest,
    FetchRequest,
    FetchResponse,
    UpdateVoterResponse,
)
from kraftcheck.kraft_model.quorum.records import Error, Key, Mode, Nil, Position
from kraftcheck.kraft_model.quorum.state import Replica, Shared
from kraftcheck.spec import Steps


class EndpointNotTold(Quorum, variant="endpoint-not-told"):
    """A leader does not tell its endpoint in BeginQuorumEpoch, and voters fetch from where they know it (KIP-853)."""

    configuration = "trap.endpoints"

    def announcement(self, me: Replica, key: Key) -> BeginQuorumEpochRequest:
        return super().announcement(me, key).but(endpoint=0)


class FollowersNeverGrant(Quorum, variant="followers-never-grant"):
    """A follower never grants a pre-vote, so that two followers of a dead leader block each other (KAFKA-16164)."""

    configuration = "trap.dead-leader"

    def follows_actively(self, me: Replica) -> bool:
        return True


class NoCheckQuorum(Quorum, variant="no-check-quorum"):
    """A leader that no majority can fetch from goes on leading those that can (KAFKA-13621, KAFKA-15489)."""

    configuration = "trap.check-quorum"

    def has_quorum(self, me: Replica, fetching: frozenset[Key | Nil]) -> bool:
        return True


class RemovedVoterRefused(Quorum, variant="removed-voter-refused"):
    """A leader does not serve a voter that it has removed, which never hears of its removal (KAFKA-14094)."""

    configuration = "trap.removed-voter"

    def handle_fetch_request(self, me: Replica, request: FetchRequest, shared: Shared) -> Steps:
        key = Key(request.source, request.directory)
        if me.mode is Mode.LEADER and not any(self.is_same(voter.key, key) for voter in me.voters):
            yield self.taken(me, me, self.fetch_answer(me, request, Error.NOT_LEADER_OR_FOLLOWER))
        else:
            yield from super().handle_fetch_request(me, request, shared)


class ProspectiveForEver(Quorum, variant="prospective-for-ever"):
    """A pre-vote round that gets no majority has no end: no timer runs for it (KIP-996, "Proposed Changes")."""

    configuration = "live.dead-leader"

    def pre_vote_timeout(self, me: Replica) -> Steps:
        yield from ()


class OperationsNeverExpire(Quorum, variant="operations-never-expire"):
    """A leader waits for a new voter to catch up without any limit (KIP-853, "AddVoter", step 8)."""

    configuration = "live.answers"

    def expire_operation(self, me: Replica) -> Steps:
        yield from ()


class AnswerForgotten(Quorum, variant="answer-forgotten"):
    """A leader whose operation expires forgets it, and does not answer (KIP-853, "AddVoter", step 8)."""

    configuration = "live.answers"

    def expire_operation(self, me: Replica) -> Steps:
        for step in super().expire_operation(me):
            yield step.but(sends=())


class UpdateToldOnce(Quorum, variant="update-told-once"):
    """A voter that sent UpdateVoter takes any answer for an acknowledgement (KIP-853, "UpdateVoter")."""

    configuration = "live.update-refused"

    def handle_update_voter_response(self, me: Replica, response: UpdateVoterResponse, shared: Shared) -> Steps:
        told = response.but(error=Error.NONE)
        yield from super().handle_update_voter_response(me, told, shared)


class DivergenceIgnored(Quorum, variant="divergence-ignored"):
    """A follower that is told where its log diverges fetches again, and truncates nothing (KIP-595, "Fetch")."""

    configuration = "live.divergence"

    def truncate(self, me: Replica, response: FetchResponse, diverging: Position) -> Replica:
        return me


class CaughtUpNotNoted(Quorum, variant="caught-up-not-noted"):
    """A leader notes the fetches that it has records for, not the one that says that a voter has them all (KIP-595)."""

    configuration = "live.loss"

    def note_fetch(self, me: Replica, request: FetchRequest) -> Replica:
        return me if request.offset == len(me.log) else super().note_fetch(me, request)
