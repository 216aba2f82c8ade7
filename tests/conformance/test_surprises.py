"""What surprises in the specification, as docs/conformance.md has it: each is shown to happen, or not to."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

from kraftcheck.explorer.reference import ReferenceSearch, explore
from kraftcheck.explorer.result import SearchRequest
from kraftcheck.kraft_model.reconfig import Reconfig
from kraftcheck.kraft_model.reconfig.records import (
    FetchRequest,
    FetchResponse,
    JoinRequest,
    JoinResponse,
    Nil,
    RequestVoteRequest,
    RequestVoteResponse,
    Result,
    Role,
    Server,
    ServerId,
    ServerState,
)
from kraftcheck.spec import State, invariant, ordered, step_invariant
from kraftcheck.spec.diagnosis.action_explanation import explain_action
from kraftcheck.spec.language.semantics import Semantics
from tests.support.tlc import bound


class Expected(Reconfig):
    """What one would expect, and what does not hold."""

    @step_invariant
    def high_watermark_never_falls(self, before: Server, after: Server) -> bool:
        return after.high_watermark >= before.high_watermark or after.high_watermark == 0

    @invariant
    def candidate_votes_for_itself(self, me: Server) -> bool:
        return me.state is not ServerState.CANDIDATE or me.id in me.votes_granted

    @step_invariant
    def leader_steps_back_in_a_new_epoch_only(self, before: Server, after: Server) -> bool:
        left = before.state is ServerState.LEADER and after.state is ServerState.UNATTACHED
        return not left or after.current_epoch > before.current_epoch

    @invariant
    def committed_configuration_is_below_the_high_watermark(self, me: Server) -> bool:
        return not me.config.committed or me.high_watermark > 0


@pytest.mark.parametrize(
    ("model", "name", "states", "last"),
    [
        ("two-voters", "HighWatermarkNeverFalls", 15, "HandleSuccessFetchResponse"),
        ("two-voters-restart", "CandidateVotesForItself", 3, "RestartWithState"),
        ("two-voters-remove", "LeaderStepsBackInANewEpochOnly", 7, "AcceptFetchRequestFromVoter"),
        ("two-voters-remove", "CommittedConfigurationIsBelowTheHighWatermark", 7, "AcceptFetchRequestFromVoter"),
    ],
)
def test_what_one_would_expect_does_not_hold(model: str, name: str, states: int, last: str) -> None:
    protocol = bound(f"counts/{model}", Expected).protocol
    result = explore(protocol, SearchRequest(properties=(protocol.properties[name],), deadlock=False))
    (violation,) = result.violations
    assert (len(violation.trace), violation.trace[-1].action) == (states, last)


@cache
def searched(model: str) -> ReferenceSearch:
    search = ReferenceSearch(bound(f"counts/{model}").protocol, SearchRequest(deadlock=False))
    search.run()
    return search


def with_bounds(model: str, **changes: Any) -> Semantics:
    protocol = bound(f"counts/{model}").protocol
    values = {c.attribute: getattr(protocol, c.attribute) for c in protocol.constants.values()}
    return Semantics(type(protocol)(**{**values, **changes}))


@pytest.mark.slow
def test_a_restart_without_state_is_never_enabled() -> None:
    """Every bound allows it, and `state[j] = Voter` does not: in all states, the same condition says no."""
    semantics = with_bounds("two-voters-restart", max_spawned_servers=9)
    for state in list(searched("two-voters-restart").states())[::10]:
        for reason in explain_action(semantics, state, "RestartWithoutState"):
            assert reason.kind == "guard"
            assert "_is_voter" in reason.text


def test_joining_is_never_counted() -> None:
    search = searched("grow-one-to-two")
    assert search.result.actions["SendJoinRequest"] > 0
    assert {state.spent["add_reconfigs"] for state in search.states()} == {0}


def test_servers_appear_whatever_the_number_of_joins_allowed() -> None:
    semantics = with_bounds("two-voters", max_spawned_servers=3)
    (start,) = semantics.initial()
    assert sum(t.action == "StartNewServer" for t in semantics.transitions(start)) == 2


@pytest.mark.slow
def test_the_first_fetch_of_a_new_server_is_always_rejected() -> None:
    search = searched("grow-with-election")
    by = {
        transition.action
        for state in search.states()
        for transition in search.semantics.transitions(state)
        if isinstance(transition.message, FetchRequest) and transition.message.epoch == 0
    }
    assert by == {"RejectFetchRequest"}


def test_nobody_takes_an_accepted_join() -> None:
    search = searched("grow-one-to-two")
    responses = [
        (message, copies)
        for state in search.states()
        for inbox in state.inboxes.values()
        for message, copies in inbox.items()
        if isinstance(message, JoinResponse)
    ]
    assert responses
    assert {(message.result, copies) for message, copies in responses} == {(Result.OK, 1)}


def test_a_response_that_nobody_waits_for_is_never_taken() -> None:
    search = searched("two-voters")
    stuck = 0
    for state in search.states():
        taken = {t.message for t in search.semantics.transitions(state)}
        for key, inbox in state.inboxes.items():
            late = [m for m, n in inbox.items() if n and isinstance(m, FetchResponse)]
            stuck += sum(m.correlation != state.replicas[key].pending_fetch and m not in taken for m in late)
    assert stuck > 0


def start(model: str = "two-voters", **changes: Any) -> tuple[Semantics, State, Server, Server]:
    """Return a start in which the follower, the second server, is changed."""
    semantics = with_bounds(model)
    (state,) = semantics.initial()
    leader, follower = (state.replicas[key] for key in ordered(state.replicas))
    follower = follower.but(**changes)
    return semantics, state.but(replicas=state.replicas.put(follower.id, follower)), leader, follower


@pytest.mark.parametrize("state", [ServerState.VOTED, ServerState.RESIGNED])
def test_who_voted_or_resigned_never_stands_for_election(state: ServerState) -> None:
    semantics, now, _, follower = start(state=state, leader=Nil.NIL)
    assert follower.role is Role.VOTER
    (reason,) = explain_action(semantics, now, "RequestVote", follower.id)
    assert reason.kind == "guard"
    assert "me.state not in (ServerState.FOLLOWER, ServerState.CANDIDATE, ServerState.UNATTACHED)" in reason.text
    assert {r.kind for r in explain_action(semantics, now, "SendFetchRequest", follower.id)} == {"guard"}


def delivered(semantics: Semantics, state: State, message: Any) -> State:
    """Return the state after the one action that takes a message."""
    inbox = semantics.network.send(semantics.network.empty, message)
    sent = state.but(inboxes=state.inboxes.put(message.dest, inbox))
    (after,) = [t.target for t in semantics.transitions(sent) if t.message == message]
    return after


def test_a_candidate_ignores_the_leader_that_a_vote_names() -> None:
    semantics, now, leader, candidate = start(state=ServerState.CANDIDATE, leader=Nil.NIL, current_epoch=2)
    refused = RequestVoteResponse(2, leader.id, False, Nil.NIL, leader.id, candidate.id)
    assert delivered(semantics, now, refused).replicas[candidate.id] == candidate


def test_an_unattached_server_votes_again_in_its_epoch() -> None:
    semantics, now, leader, voter = start(state=ServerState.UNATTACHED, leader=Nil.NIL, current_epoch=2)
    voter = voter.but(voted_for=voter.id)
    now = now.but(replicas=now.replicas.put(voter.id, voter))
    after = delivered(semantics, now, RequestVoteRequest(2, 1, 1, leader.id, voter.id)).replicas[voter.id]
    assert (voter.voted_for, after.voted_for, after.current_epoch) == (voter.id, leader.id, 2)


def test_an_old_join_request_is_accepted() -> None:
    """JoinCheck compares no epochs; nothing else does."""
    semantics, now, leader, _ = start()
    joining = ServerId(leader.id.host, 5)
    after = delivered(semantics, now, JoinRequest(0, leader.id, joining)).replicas[leader.id]
    assert joining in after.config.members


def test_a_join_that_finds_the_cluster_full_is_never_answered() -> None:
    semantics = with_bounds("two-voters", max_cluster_size=2)
    (state,) = semantics.initial()
    leader = ordered(state.replicas)[0]
    request = JoinRequest(1, leader, ServerId(leader.host, 5))
    inbox = semantics.network.send(semantics.network.empty, request)
    assert inbox is not None
    full = state.but(inboxes=state.inboxes.put(leader, inbox))
    assert not [t for t in semantics.transitions(full) if t.message == request]


def test_a_log_shorter_than_its_high_watermark_diverges() -> None:
    """Truncating leaves the high watermark alone; TLC stops with an error there, we report the violation."""
    protocol = bound("counts/two-voters").protocol
    semantics = Semantics(protocol)
    (state,) = semantics.initial()
    truncated = state.replicas[ordered(state.replicas)[0]].but(log=())
    broken = state.but(replicas=state.replicas.put(truncated.id, truncated))
    assert truncated.high_watermark == 1
    assert not semantics.holds(protocol.properties["NoLogDivergence"], broken)
