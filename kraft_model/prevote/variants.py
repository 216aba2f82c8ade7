"""Variants of `Prevote`: seeded faults. Configuration `fault.<variant>` names the violated invariant."""

from __future__ import annotations

from kraftcheck.kraft_model.prevote import Prevote
from kraftcheck.kraft_model.prevote.records import Nil, RequestVoteRequest, Server, Shared
from kraftcheck.kraft_model.prevote.rules import ServerTransition
from kraftcheck.spec import Step


class VotesWithoutLogComparison(Prevote, variant="votes-without-log-comparison"):
    """Votes and pre-votes are granted without comparing logs, so a leader may lack an acknowledged value."""

    def _log_is_current(self, me: Server, request: RequestVoteRequest) -> bool:
        return True


class SecondVoteInEpoch(Prevote, variant="second-vote-in-epoch"):
    """A server that has voted also votes for another candidate of the same epoch (the danger of KAFKA-17641)."""

    def _grants_vote(self, me: Server, now: ServerTransition, request: RequestVoteRequest) -> bool:
        return super()._grants_vote(me, now._replace(voted_for=Nil.NIL), request)


class ClientsNotTold(Prevote, variant="clients-not-told"):
    """A leader that resigns, restarts or is deposed does not reject its uncommitted values to clients."""

    def _fail_pending(self, step: Step, me: Server, shared: Shared) -> Step:
        return step
