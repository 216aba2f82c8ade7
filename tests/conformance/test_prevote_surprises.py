"""What surprises in kraft_kip_996: the port does the same. Each test is an entry of `docs/conformance.md`."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from kraftcheck.explorer.reference import ReferenceSearch
from kraftcheck.explorer.result import SearchRequest
from kraftcheck.kraft_model.prevote import Prevote
from kraftcheck.kraft_model.prevote.records import (
    Command,
    Config,
    Entry,
    FetchRejected,
    FetchRequest,
    FirstFetchRequest,
    Identity,
    InitialMembers,
    RequestVoteRequest,
    Server,
    ServerState,
    Shared,
)
from kraftcheck.spec import Map, ModelValue, Step
from tests.support.tlc import bound

SHARED = Shared(Map({frozenset({1, 2}): True}))
VALUE = ModelValue("v1")


def prevote(name: str = "two-voters-cut", *settings: str) -> Prevote:
    protocol = bound(f"prevote/counts/{name}", Prevote, *settings).protocol
    assert isinstance(protocol, Prevote)
    return protocol


def server(state: ServerState, members: Iterable[int] = (1, 2), **changes: object) -> Server:
    """Return server 1 in epoch 1, with the first entry of a log that is committed."""
    first = Entry(Command.INIT_CLUSTER, 1, InitialMembers(1, frozenset(members)))
    blank = Server(1, Identity(ModelValue("h1"), 0), Config(1, frozenset(members), True), 1, state)
    offsets = Map((member, 1) for member in members)
    return blank.but(log=(first,), hwm=1, flwr_end_offset=offsets).but(**changes)


def fetches(me: Server, request: FetchRequest) -> list[Step]:
    protocol = prevote()
    return [
        *protocol.reject_fetch_request(me, request),
        *protocol.diverging_fetch_request(me, request),
        *protocol.accept_fetch_request(me, request, SHARED),
    ]


def test_a_voter_that_is_alone_is_never_elected() -> None:
    alone = server(ServerState.CANDIDATE, (1,), votes_recv=frozenset({1}))
    assert list(prevote().become_leader(alone, SHARED)) == []
    both = server(ServerState.CANDIDATE, votes_recv=frozenset({1, 2}))
    assert [step.me.state for step in prevote().become_leader(both, SHARED)] == [ServerState.LEADER]


def test_a_leader_that_is_alone_acknowledges_nothing() -> None:
    (step,) = prevote().handle_client_request(server(ServerState.LEADER, (1,), leader=1), SHARED)
    assert (step.me.hwm, step.me.pending_ack) == (2, {VALUE})
    assert "positively_acked" not in dict(step.puts)


@pytest.mark.parametrize(("source", "served"), [(2, 1), (3, 0)])
def test_an_observers_fetch_is_neither_served_nor_refused(source: int, served: int) -> None:
    assert len(fetches(server(ServerState.LEADER, leader=1), FetchRequest(1, 2, 1, source, 1))) == served


def test_a_new_server_never_handles_the_answer_to_its_first_fetch() -> None:
    search = ReferenceSearch(prevote("one-voter-grows"), SearchRequest(deadlock=False))
    search.run()
    answers = 0
    for state in search.states():
        for action, _, message, _, _ in search.semantics.transitions(state):
            assert action != "HandleFetchResponse" or not isinstance(message.correlation, FirstFetchRequest)
        answers += any(
            isinstance(message, FetchRejected) and isinstance(message.correlation, FirstFetchRequest)
            for inbox in state.inboxes.values()
            for message in inbox[0]
        )
    assert answers > 0


def test_a_dead_server_can_be_added() -> None:
    (step,) = prevote("two-voters-grow").accept_add_voter_request(
        server(ServerState.LEADER, leader=1), SHARED, Map({1: True, 2: True, 3: False})
    )
    assert step.me.config.members == {1, 2, 3}
    assert step.sends == ()


def test_a_candidate_that_restarts_keeps_its_votes() -> None:
    candidate = server(ServerState.CANDIDATE, votes_recv=frozenset({1, 2}))
    (step,) = prevote("two-voters-restart").restart_with_state(candidate, SHARED)
    assert (step.me.state, step.me.votes_recv, step.me.hwm) == (ServerState.CANDIDATE, {1, 2}, 0)


def test_a_vote_granted_twice_is_illegal() -> None:
    me = server(ServerState.UNATTACHED, voted_for=2)
    (step,) = prevote().handle_vote_request(me, RequestVoteRequest(1, 1, 1, False, 2, 1), SHARED)
    assert step.me.state is ServerState.ILLEGAL


@pytest.mark.parametrize(("setting", "steps"), [("MaxEpoch=2", 1), ("MaxEpoch=1", 0)])
def test_at_max_epoch_a_prospective_stays_one(setting: str, steps: int) -> None:
    me = server(ServerState.PROSPECTIVE, votes_recv=frozenset({1}))
    empty: Map[int, frozenset[object]] = Map({1: frozenset(), 2: frozenset()})
    assert len(list(prevote("two-voters-cut", setting).conclude_pre_vote(me, SHARED, empty))) == steps


def test_a_fetch_over_a_cut_connection_is_pending() -> None:
    me = server(ServerState.UNATTACHED)
    seen: Map[int, object] = Map({1: None, 2: None})
    nothing: Map[int, frozenset[object]] = Map({1: frozenset(), 2: frozenset()})
    cut = SHARED.but(connectivity=Map({frozenset({1, 2}): False}))
    (step,) = prevote().send_fetch_request(me, cut, seen, nothing, nothing)
    assert (step.me.fetch_state.pending_fetch, step.sends) == (FetchRequest(1, 2, 1, 1, 2), ())
