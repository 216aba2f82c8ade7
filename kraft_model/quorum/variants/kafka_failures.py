"""Where the real Kafka is known to throw, or to ask without end, when disks are lost: a class for each difference."""

# ruff: noqa: D102 - a method here overrides one that says what it is for
from __future__ import annotations

from kraftcheck.kraft_model.quorum import Quorum
from kraftcheck.kraft_model.quorum.messages import (
    VoteResponse,
)
from kraftcheck.kraft_model.quorum.records import Error
from kraftcheck.kraft_model.quorum.state import Replica, Shared
from kraftcheck.spec import Steps

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


DIFFERENCES: tuple[type[Quorum], ...] = (VotersAreAskedAgain,)
"""All of these; the first goes before the later ones where two change the same."""
