"""The fairness and the temporal properties of `tests/data/tlc/liveness`; nobody claims that they hold."""

from __future__ import annotations

from kraftcheck.kraft_model.reconfig import Reconfig
from kraftcheck.kraft_model.reconfig.records import Nil, Server, ServerState
from kraftcheck.spec import (
    Fairness,
    Formula,
    always,
    anywhere,
    eventually,
    eventually_always,
    everywhere,
    infinitely_often,
    leads_to,
    predicate,
    strong,
    temporal,
    weak,
)


def each(*actions: str) -> tuple[Fairness, ...]:
    return tuple(map(weak, actions))


DELIVERS = each("HandleRequestVoteRequest", "HandleRequestVoteResponse", "BecomeLeader", "AcceptBeginQuorumRequest")
FETCHES = each(
    "SendFetchRequest",
    "AcceptFetchRequestFromVoter",
    "RejectFetchRequest",
    "HandleSuccessFetchResponse",
    "HandleNonSuccessFetchResponse",
    "DivergingFetchRequest",
    "HandleDivergingFetchResponse",
)
STRONG = tuple(
    map(
        strong,
        (
            "BecomeLeader",
            "HandleRequestVoteRequest",
            "HandleRequestVoteResponse",
            "HandleSuccessFetchResponse",
            "AcceptFetchRequestFromVoter",
            "SendFetchRequest",
            "AcceptBeginQuorumRequest",
        ),
    )
)


class MCLive(Reconfig):
    """The module MCLive."""

    specifications = {
        **Reconfig.specifications,
        "SpecDelivers": DELIVERS,
        "SpecFetches": DELIVERS + FETCHES,
        "SpecStrong": STRONG,
    }

    @predicate
    def leads(self, me: Server) -> bool:
        return me.state is ServerState.LEADER

    @predicate
    def stands(self, me: Server) -> bool:
        return me.state is ServerState.CANDIDATE

    @predicate
    def fetches(self, me: Server) -> bool:
        return me.pending_fetch is not Nil.NIL

    @predicate
    def has_two_entries(self, me: Server) -> bool:
        return len(me.log) >= 2

    @predicate
    def has_committed_two(self, me: Server) -> bool:
        return me.high_watermark >= 2

    @temporal
    def always_again_a_leader(self) -> Formula:
        return infinitely_often(anywhere(self.leads))

    @temporal
    def for_ever_a_leader(self) -> Formula:
        return eventually_always(anywhere(self.leads))

    @temporal
    def candidacies_end(self) -> Formula:
        return leads_to(anywhere(self.stands), ~anywhere(self.stands))

    @temporal
    def candidate_wins(self) -> Formula:
        return leads_to(anywhere(self.stands), anywhere(self.leads))

    @temporal
    def fetches_answered(self) -> Formula:
        return leads_to(anywhere(self.fetches), ~anywhere(self.fetches))

    @temporal
    def appended_commits(self) -> Formula:
        return leads_to(anywhere(self.has_two_entries), anywhere(self.has_committed_two))

    @temporal
    def everything_everywhere(self) -> Formula:
        return eventually(everywhere(self.has_committed_two))

    @temporal
    def steady_or_silent(self) -> Formula:
        return infinitely_often(anywhere(self.leads)) | eventually(always(~anywhere(self.leads)))
