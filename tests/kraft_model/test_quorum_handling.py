"""`quorum`, one step at a time: how each handler of an election treats what it receives, as the KIPs state it.

`docs/coverage.md` names these tests, and those of `test_quorum_replication` and `test_quorum_changes`, beside the
statements. A replica is made as it would be, one handler is called, and what it becomes and sends is compared. The
scenarios (`tests/scenarios/quorum-*.txt`) show the same in longer stories.
"""

from __future__ import annotations

import re
from typing import Any

import pytest

from kraftcheck.kraft_model.quorum import Quorum
from kraftcheck.kraft_model.quorum.records import (
    ADMIN,
    Admin,
    Answers,
    Batch,
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
    EndQuorumEpochRequest,
    EndQuorumEpochResponse,
    Error,
    FetchRequest,
    FetchResponse,
    Key,
    KRaftVersion,
    LeaderChange,
    Mode,
    Nil,
    PreVotes,
    Replica,
    Voter,
    VoteRequest,
    VoteResponse,
    Voters,
)
from kraftcheck.spec import Map, ModelValue, Step
from tests.support.kraft_model.quorum_steps import (
    ALL,
    BASE,
    BLANK,
    FIRST,
    N1,
    N2,
    N3,
    N4,
    QUIET,
    all_sent,
    answer_to,
    data,
    fetch,
    follower,
    leader,
    only,
    prospective,
    quorum,
    replica,
    sent,
    vote,
)

# Vote (KIP-595, KIP-853, KIP-996)


@pytest.mark.parametrize(
    ("request_", "error", "epoch"),
    [
        (vote(1), Error.FENCED_LEADER_EPOCH, 2),
        (vote(1, pre_vote=True), Error.FENCED_LEADER_EPOCH, 2),
        (vote(2, voter=Key(N2, 2)), Error.INVALID_VOTER_KEY, 2),
        (vote(3, voter=Key(N2, 2)), Error.INVALID_VOTER_KEY, 3),
        (vote(2, voter=Key(N1)), Error.INVALID_VOTER_KEY, 2),
        (vote(2, pre_vote=True, voter=Key(N2, 2)), Error.INVALID_VOTER_KEY, 2),
        (vote(2), Error.NONE, 2),
        (vote(2, voter=Key(N2, 0)), Error.NONE, 2),
    ],
)
def test_vote_errors(request_: VoteRequest, error: Error, epoch: int) -> None:
    me = replica(N2, Mode.UNATTACHED, epoch=2)
    step = only(BASE.handle_vote_request(me, request_, QUIET))
    answer = sent(step, VoteResponse)
    assert (answer.error, answer.epoch, answer.granted) == (error, epoch, error is Error.NONE)
    assert step.consumes
    assert step.me.epoch == epoch
    assert step.me.voted == (Key(N3) if error is Error.NONE else Nil.NIL)


def test_a_newer_epoch_comes_before_the_vote() -> None:
    for pre_vote in (False, True):
        step = only(BASE.handle_vote_request(leader(), vote(3, pre_vote=pre_vote, dest=N1, voter=Key(N1)), QUIET))
        assert (step.me.mode, step.me.epoch, step.me.leader) == (Mode.UNATTACHED, 3, Nil.NIL)
        assert sent(step, VoteResponse).granted
        assert step.me.voted == (Nil.NIL if pre_vote else Key(N3))


def test_candidates_and_electors_need_not_be_voters() -> None:
    stranger = vote(2, candidate=Key(N4), source=N4)
    assert sent(only(BASE.handle_vote_request(follower(), stranger, QUIET)), VoteResponse).granted
    asked = vote(2, voter=Key(N4), dest=N4)
    step = only(BASE.handle_vote_request(BLANK, asked, QUIET))
    assert sent(step, VoteResponse).granted
    assert step.me.voted == Key(N3)


@pytest.mark.parametrize(
    ("last_epoch", "last_offset", "granted"), [(1, 1, False), (1, 9, False), (2, 2, True), (3, 1, True)]
)
@pytest.mark.parametrize("pre_vote", [False, True])
def test_the_log_of_a_candidate_is_not_behind(last_epoch: int, last_offset: int, granted: bool, pre_vote: bool) -> None:
    me = replica(N2, Mode.UNATTACHED, epoch=4, log=(FIRST, data(2, 1)))
    asked = vote(4, pre_vote=pre_vote, last_epoch=last_epoch, last_offset=last_offset)
    assert sent(only(BASE.handle_vote_request(me, asked, QUIET)), VoteResponse).granted is granted


@pytest.mark.parametrize(
    ("me", "granted"),
    [
        (replica(N2, Mode.UNATTACHED), True),
        (replica(N2, Mode.UNATTACHED, voted=Key(N1)), True),
        (replica(N2, Mode.UNATTACHED, leader=N1), True),
        (replica(N2, Mode.PROSPECTIVE, voted=Key(N1), leader=N1), True),
        (replica(N2, Mode.CANDIDATE, voted=Key(N2)), True),
        (replica(N2, Mode.RESIGNED, leader=N2), True),
        (follower(), True),
        (follower(fetched=True), False),
        (replica(N2, Mode.LEADER, leader=N2), False),
    ],
)
def test_who_grants_a_pre_vote(me: Replica, granted: bool) -> None:
    step = only(BASE.handle_vote_request(me, vote(pre_vote=True), QUIET))
    assert sent(step, VoteResponse).granted is granted
    assert step.me.but(pending=me.pending) == me
    again = only(BASE.handle_vote_request(step.me, vote(pre_vote=True, candidate=Key(N4), source=N4), QUIET))
    assert sent(again, VoteResponse).granted is granted


@pytest.mark.parametrize(
    ("me", "granted"),
    [
        (replica(N2, Mode.UNATTACHED), True),
        (replica(N2, Mode.PROSPECTIVE, granted=frozenset({Key(N2)})), True),
        (replica(N2, Mode.UNATTACHED, voted=Key(N3)), True),
        (replica(N2, Mode.UNATTACHED, voted=Key(N3, 0)), True),
        (replica(N2, Mode.UNATTACHED, voted=Key(N3), log=(FIRST, data(1, 1))), True),
        (replica(N2, Mode.UNATTACHED, voted=Key(N3, 2)), False),
        (replica(N2, Mode.UNATTACHED, voted=Key(N1)), False),
        (replica(N2, Mode.UNATTACHED, leader=N1), False),
        (replica(N2, Mode.PROSPECTIVE, leader=N1), False),
        (replica(N2, Mode.CANDIDATE, voted=Key(N2)), False),
        (replica(N2, Mode.RESIGNED, leader=N2), False),
        (follower(), False),
        (replica(N2, Mode.LEADER, leader=N2), False),
    ],
)
def test_who_grants_a_vote(me: Replica, granted: bool) -> None:
    step = only(BASE.handle_vote_request(me.but(epoch=2), vote(2), QUIET))
    assert sent(step, VoteResponse).granted is granted
    assert (step.me.mode, step.me.epoch) == (me.mode, 2)
    assert (step.me.ballot == {Key(N3)}) is granted
    assert step.me.voted == (me.voted if isinstance(me.voted, Key) or not granted else Key(N3))


def test_votes_in_an_epoch_that_the_log_has_are_not_asked_for() -> None:
    """Kafka refuses such a request with an error that the sender does not survive."""
    me = replica(N2, Mode.UNATTACHED)
    for asked, error in ((vote(), Error.INVALID_REQUEST), (vote(pre_vote=True), Error.NONE)):
        assert sent(only(BASE.handle_vote_request(me, asked, QUIET)), VoteResponse).error is error
    candidate = standing()
    refused = answer_to(candidate, granted=False, error=Error.INVALID_REQUEST)
    assert only(BASE.handle_vote_response(candidate, refused, QUIET)).me.mode is Mode.FAILED


@pytest.mark.parametrize(("version", "granted"), [(1, False), (0, True)])
def test_what_is_written_of_a_vote(version: int, granted: bool) -> None:
    """At kraft.version 0 the directory id is kept in memory alone, and after a restart another disk gets the vote."""
    voted = only(BASE.handle_vote_request(replica(N2, Mode.UNATTACHED, version=version), vote(2), QUIET)).me
    other = vote(2, candidate=Key(N3, 2))
    assert not sent(only(BASE.handle_vote_request(voted, other, QUIET)), VoteResponse).granted
    back = only(BASE.restart(voted, QUIET)).me
    assert back.voted == Key(N3, version)
    assert sent(only(BASE.handle_vote_request(back, other, QUIET)), VoteResponse).granted is granted


def test_software_without_pre_vote() -> None:
    model = quorum(WithoutPreVote="{n2}")
    step = only(model.handle_vote_request(follower(), vote(7, pre_vote=True), QUIET))
    answer = sent(step, VoteResponse)
    assert (answer.error, answer.epoch, answer.leader) == (Error.UNSUPPORTED_VERSION, 0, Nil.NIL)
    assert step.me.epoch == 1
    asking = replica(N3, Mode.PROSPECTIVE, leader=N1, granted=frozenset({Key(N3)}))
    unsupported = VoteResponse(0, Nil.NIL, False, Error.UNSUPPORTED_VERSION, True, Key(N2), 1, N2, N3)
    stands = only(model.handle_vote_response(asking, unsupported, QUIET))
    assert (stands.me.mode, stands.me.epoch, stands.me.voted) == (Mode.CANDIDATE, 2, Key(N3))
    assert not any(request.pre_vote for request in all_sent(stands, VoteRequest))
    old = only(model.fetch_timeout(follower(), QUIET, Map()))
    assert old.me.mode is Mode.CANDIDATE
    assert {request.pre_vote for request in all_sent(old, VoteRequest)} == {False}


# Pre-vote rounds and candidates (KIP-996)


def test_a_pre_vote_round_begins() -> None:
    for me in (follower(N3), replica(N3, Mode.UNATTACHED, voted=Key(N1))):
        timeout = BASE.fetch_timeout if me.mode is Mode.FOLLOWER else BASE.election_timeout
        step = only(timeout(me, QUIET, Map()))
        assert (step.me.mode, step.me.epoch, step.me.leader, step.me.voted) == (
            Mode.PROSPECTIVE,
            1,
            me.leader,
            me.voted,
        )
        requests = all_sent(step, VoteRequest)
        assert [request.voter for request in requests] == [Key(N1), Key(N2)]
        assert {(r.pre_vote, r.epoch, r.last_epoch, r.last_offset) for r in requests} == {(True, 1, 1, 1)}
    loser = replica(N3, Mode.CANDIDATE, epoch=2, voted=Key(N3), granted=frozenset({Key(N3)}))
    step = only(BASE.election_timeout(loser, QUIET, Map()))
    assert (step.me.mode, step.me.epoch, step.me.voted) == (Mode.PROSPECTIVE, 2, Key(N3))


def test_observers_do_not_stand() -> None:
    observer = follower(N4, voters=ALL)
    assert list(BASE.fetch_timeout(observer, QUIET, Map())) == []
    voted = replica(N4, Mode.UNATTACHED, voted=Key(N3), voters=ALL)
    assert list(BASE.election_timeout(voted, QUIET, Map())) == []


def test_the_end_of_a_pre_vote_round() -> None:
    won = only(BASE.handle_vote_response(prospective(), answer_to(prospective()), QUIET))
    assert (won.me.mode, won.me.epoch, won.me.voted, won.me.granted) == (
        Mode.CANDIDATE, 2, Key(N3), frozenset({Key(N3)})
    )  # fmt: skip
    assert {(r.pre_vote, r.epoch) for r in all_sent(won, VoteRequest)} == {(False, 2)}
    for me, mode in ((prospective(leader=N1), Mode.FOLLOWER), (prospective(voted=Key(N2)), Mode.UNATTACHED)):
        for end in (
            only(BASE.pre_vote_timeout(me)),
            only(BASE.handle_vote_response(me.but(rejected=frozenset({Key(N1)})), answer_to(me, granted=False), QUIET)),
        ):
            assert (end.me.mode, end.me.epoch, end.me.leader, end.me.voted) == (mode, 1, me.leader, me.voted)
            assert not end.me.fetched
    once = only(BASE.handle_vote_response(prospective(), answer_to(prospective(), granted=False), QUIET))
    assert once.me.mode is Mode.PROSPECTIVE


def test_a_grant_names_a_leader() -> None:
    """Who knew of no leader follows the one that a granting follower names; who knew it counts the grant."""
    told = answer_to(prospective(), leader=N1)
    step = only(BASE.handle_vote_response(prospective(), told, QUIET))
    assert (step.me.mode, step.me.leader) == (Mode.FOLLOWER, N1)
    counted = only(BASE.handle_vote_response(prospective(leader=N1), told, QUIET))
    assert counted.me.mode is Mode.CANDIDATE


def test_newer_epochs_in_answers() -> None:
    refused = answer_to(prospective(), epoch=4, granted=False, error=Error.FENCED_LEADER_EPOCH)
    step = only(BASE.handle_vote_response(prospective(), refused, QUIET))
    assert (step.me.mode, step.me.epoch) == (Mode.UNATTACHED, 4)
    step = only(BASE.handle_vote_response(prospective(), refused.but(leader=N2), QUIET))
    assert (step.me.mode, step.me.epoch, step.me.leader) == (Mode.FOLLOWER, 4, N2)


def test_late_answers_are_ignored() -> None:
    candidate = replica(N3, Mode.CANDIDATE, epoch=2, voted=Key(N3), granted=frozenset({Key(N3)}))
    for late in (
        answer_to(candidate, pre_vote=True),
        answer_to(candidate, of=1, epoch=1),
        answer_to(candidate, voter=N3),
    ):
        assert only(BASE.handle_vote_response(candidate, late, QUIET)).me == candidate
    resigned = replica(N3, Mode.RESIGNED, leader=N3)
    assert only(BASE.handle_vote_response(resigned, answer_to(resigned), QUIET)).me == resigned


def test_resigned_leaves_its_epoch() -> None:
    resigned = leader(epoch=2).but(mode=Mode.RESIGNED)
    step = only(BASE.resigned_timeout(resigned))
    assert (step.me.mode, step.me.epoch, step.me.leader, step.me.voted) == (Mode.UNATTACHED, 3, Nil.NIL, Nil.NIL)
    told = BeginQuorumEpochRequest(2, Key(N1), N2, N1)
    assert only(BASE.handle_begin_quorum_epoch_request(resigned, told, QUIET)).me.mode is Mode.FAILED


@pytest.mark.parametrize(
    ("me", "mode"),
    [
        (leader(), Mode.RESIGNED),
        (leader().but(mode=Mode.RESIGNED), Mode.RESIGNED),
        (replica(N3, Mode.CANDIDATE, epoch=2, voted=Key(N3)), Mode.CANDIDATE),
        (replica(N3, Mode.PROSPECTIVE, epoch=2, voted=Key(N3)), Mode.CANDIDATE),
        (follower(), Mode.FOLLOWER),
        (replica(N3, Mode.PROSPECTIVE, leader=N1), Mode.FOLLOWER),
        (follower(leader=N4), Mode.UNATTACHED),
        (replica(N2, Mode.UNATTACHED, voted=Key(N3)), Mode.UNATTACHED),
        (replica(N2, Mode.UNATTACHED, epoch=0), Mode.UNATTACHED),
        (follower(N3, voted=Key(N3)), Mode.CANDIDATE),
        (follower(N3, voted=Key(N3), voters=frozenset({Voter(Key(N1))})), Mode.FAILED),
        (follower(voters=frozenset({Voter(Key(N2))})), Mode.UNATTACHED),
    ],
)
def test_what_a_restart_makes_of_a_replica(me: Replica, mode: Mode) -> None:
    step = only(BASE.restart(me, QUIET))
    assert step.me.mode is mode
    assert step.me.epoch == max(me.epoch, 1)
    assert step.me.voted == me.voted
    assert (step.me.log, step.me.voters, step.me.version) == (me.log, me.voters, me.version)
    stands = mode is Mode.CANDIDATE or me.voters == {Voter(me.key)}
    assert step.me.leader == (Nil.NIL if stands else me.leader)
    assert (step.me.high_watermark, step.me.offsets, step.me.change) == (0, Map(), Nil.NIL)
    farewells = all_sent(step, EndQuorumEpochRequest)
    assert {request.preferred for request in farewells} == ({()} if mode is Mode.RESIGNED else set())


def test_the_only_voter_that_voted_for_itself_leads_the_epoch_that_it_lost() -> None:
    """Kafka: `QuorumState.initialize`, `KafkaRaftClient.onBecomeCandidate`."""
    me = follower(N3, epoch=2, voted=Key(N3), voters=frozenset({Voter(Key(N3))}))
    steps = [step.me for step in BASE.restart(me, QUIET)]
    assert [(after.mode, after.epoch) for after in steps] == [(Mode.LEADER, 2), (Mode.UNATTACHED, 2)]
    kinder = quorum("known-leader-followed")
    assert only(kinder.restart(me, QUIET)).me.mode is Mode.UNATTACHED


# Taking office (KIP-595, "Leader Change Message"; KIP-853, "First leader")


def elected(me: Replica) -> Step:
    """The step in which the last vote that a candidate needs arrives and it does not fail."""
    steps = BASE.handle_vote_response(me, answer_to(me), QUIET)
    return next(step for step in steps if step.me.mode is Mode.LEADER)


def standing(**fields: Any) -> Replica:
    given = {"voted": Key(N3), "granted": frozenset({Key(N3)}), **fields}
    return replica(N3, Mode.CANDIDATE, epoch=2, **given)


def test_what_a_new_leader_writes() -> None:
    first = elected(standing(log=(), voters=ALL, version=1))
    assert first.me.log == (Batch(2, (LeaderChange(N3), KRaftVersion(1), Voters(ALL))),)
    later = elected(standing())
    assert later.me.log == (FIRST, Batch(2, (LeaderChange(N3),)))
    moved = elected(standing(endpoint=2))
    here = frozenset({Voter(Key(N1)), Voter(Key(N2)), Voter(Key(N3), 2)})
    assert moved.me.log == (FIRST, Batch(2, (LeaderChange(N3), Voters(here))))
    assert moved.me.voters == here
    static = frozenset(Voter(Key(host, 0)) for host in (N1, N2, N3))
    old = standing(log=(), granted=frozenset({Key(N3, 0)})).but(voters=static, version=0)
    answer = answer_to(old).but(voter=Key(N2, 0))
    at_zero = next(
        s for s in quorum(KRaftVersion=0).handle_vote_response(old, answer, QUIET) if s.me.mode is Mode.LEADER
    )
    assert at_zero.me.log == (Batch(2, (LeaderChange(N3),)),)
    for step in (first, later, moved):
        assert [r.voter for r in all_sent(step, BeginQuorumEpochRequest)] == [Key(N1), Key(N2)]


# BeginQuorumEpoch and EndQuorumEpoch (KIP-595, KIP-853)


@pytest.mark.parametrize(
    ("me", "request_", "error", "leads"),
    [
        (
            replica(N2, Mode.UNATTACHED, epoch=2),
            BeginQuorumEpochRequest(1, Key(N2), N1, N2),
            "FENCED_LEADER_EPOCH",
            Nil.NIL,
        ),
        (replica(N2, Mode.UNATTACHED), BeginQuorumEpochRequest(1, Key(N2), N1, N2), "NONE", N1),
        (replica(N2, Mode.UNATTACHED), BeginQuorumEpochRequest(2, Key(N2), N4, N2), "NONE", N4),
        (BLANK, BeginQuorumEpochRequest(1, Key(N4), N1, N4), "NONE", N1),
        (replica(N2, Mode.UNATTACHED), BeginQuorumEpochRequest(1, Key(N2, 0), N1, N2), "NONE", N1),
        (replica(N2, Mode.UNATTACHED), BeginQuorumEpochRequest(1, Key(N2, 2), N1, N2), "INVALID_VOTER_KEY", N1),
        (replica(N2, Mode.UNATTACHED), BeginQuorumEpochRequest(1, Key(N3), N1, N2), "INVALID_VOTER_KEY", N1),
    ],
)
def test_begin_quorum_epoch(
    me: Replica, request_: BeginQuorumEpochRequest, error: str, leads: ModelValue | Nil
) -> None:
    step = only(BASE.handle_begin_quorum_epoch_request(me, request_, QUIET))
    answer = sent(step, BeginQuorumEpochResponse)
    assert (answer.error, step.me.leader) == (Error(error), leads)
    assert (step.me.mode is Mode.FOLLOWER) == isinstance(leads, ModelValue)
    assert len(all_sent(step, FetchRequest)) == isinstance(leads, ModelValue)


def test_begin_quorum_epoch_is_repeated() -> None:
    """Also to a voter that has fetched before: its disk may be another one since ("Disk failure recovery")."""
    steps = list(BASE.repeat_begin_quorum_epoch(leader(offsets=Map({Key(N3): 1}))))
    assert [sent(step, BeginQuorumEpochRequest).voter for step in steps] == [Key(N2), Key(N3)]
    assert list(BASE.repeat_begin_quorum_epoch(follower())) == []


@pytest.mark.parametrize(
    ("me", "epoch", "error", "ended"),
    [
        (follower(epoch=2, leader=N3), 1, Error.FENCED_LEADER_EPOCH, False),
        (follower(fetched=True), 1, Error.NONE, True),
        (replica(N2, Mode.UNATTACHED), 1, Error.NONE, True),
        (replica(N2, Mode.UNATTACHED), 2, Error.NONE, True),
        (prospective(leader=N1), 1, Error.NONE, False),
    ],
)
def test_end_quorum_epoch(me: Replica, epoch: int, error: Error, ended: bool) -> None:
    request = EndQuorumEpochRequest(epoch, (Key(N2), Key(N3)), N1, me.id)
    step = only(BASE.handle_end_quorum_epoch_request(me, request, QUIET))
    assert (sent(step, EndQuorumEpochResponse).error, step.me.ended) == (error, ended)
    if ended:
        assert all("pre_votes" not in soon.spends for soon in BASE.fetch_timeout(step.me, QUIET, Map()))


def test_what_a_replica_hears_of_leaders_must_fit_to_what_it_knows() -> None:
    """Where Kafka throws the process ends: `maybeTransition`, `QuorumState.transitionToFollower`."""
    begins, ends = BASE.handle_begin_quorum_epoch_request, BASE.handle_end_quorum_epoch_request
    rival = BeginQuorumEpochRequest(1, Key(N2), N3, N2)
    assert only(begins(follower(), rival, QUIET)).me.mode is Mode.FAILED
    assert only(begins(leader(), rival.but(dest=N1), QUIET)).me.mode is Mode.FAILED
    stranger = EndQuorumEpochRequest(2, (), N4, N2)
    assert only(ends(follower(), stranger, QUIET)).me.mode is Mode.FAILED
    assert only(begins(follower(), rival.but(epoch=2, source=N4), QUIET)).me.leader == N4
    told = FetchResponse(2, N4, Error.FENCED_LEADER_EPOCH, 0, (), Nil.NIL, Nil.NIL, fetch(), N1, N2)
    me = follower(pending=fetch())
    assert only(BASE.handle_fetch_response(me, told, QUIET)).me.leader == N4
    assert only(BASE.handle_fetch_response(me, told.but(endpoint=0), QUIET)).me.mode is Mode.FAILED
    itself = answer_to(prospective(), leader=N3, granted=False)
    assert only(BASE.handle_vote_response(prospective(), itself, QUIET)).me.mode is Mode.FAILED
    assert only(begins(follower(epoch=2), rival, QUIET)).me.mode is Mode.FOLLOWER


def test_who_has_ended_does_nothing_and_breaks_a_property() -> None:
    (prop,) = (prop for prop in BASE.properties.values() if prop.name == "NobodyFails")
    rival = BeginQuorumEpochRequest(1, Key(N1), N2, N1)
    ended = only(BASE.handle_begin_quorum_epoch_request(leader(), rival, QUIET)).me
    assert not prop.function(BASE, me=ended)
    assert not BASE.receives(ended, vote(dest=N1))
    assert list(BASE.restart(ended, QUIET)) == []


@pytest.mark.parametrize(
    ("preferred", "first"),
    [
        ((Key(N2), Key(N3)), True),
        ((Key(N3), Key(N2)), False),
        ((Key(N2, 2), Key(N2)), False),
        ((Key(N2, 0), Key(N3, 0)), True),
        ((), True),
    ],
)
def test_the_first_of_the_preferred_candidates_does_not_wait(preferred: tuple[Key, ...], first: bool) -> None:
    request = EndQuorumEpochRequest(1, preferred, N1, N2)
    ended = only(BASE.handle_end_quorum_epoch_request(follower(fetched=True), request, QUIET)).me
    soon = only(BASE.fetch_timeout(ended, QUIET, Map()))
    assert ("pre_votes" not in soon.spends) is first


def test_a_leader_that_resigns_prefers_who_has_fetched_most() -> None:
    me = leader(offsets=Map({Key(N2): 0, Key(N3): 1}))
    requests = all_sent(only(BASE.resign(me)), EndQuorumEpochRequest)
    assert {request.preferred for request in requests} == {(Key(N3), Key(N2))}
    assert [request.dest for request in requests] == [N2, N3]


def test_acknowledgements_tell_of_newer_epochs() -> None:
    for kind in (BeginQuorumEpochResponse, EndQuorumEpochResponse):
        for error, epoch, mode in (
            (Error.FENCED_LEADER_EPOCH, 3, Mode.UNATTACHED),
            (Error.INVALID_VOTER_KEY, 1, Mode.LEADER),
            (Error.INVALID_REQUEST, 1, Mode.FAILED),
            (Error.NONE, 1, Mode.LEADER),
        ):
            answer = kind(epoch, Nil.NIL, error, 1, N2, N1)
            step = only(BASE.handle_acknowledgement(leader(), answer, QUIET))
            assert (step.me.mode, step.me.epoch) == (mode, epoch)
        stale = kind(3, Nil.NIL, Error.FENCED_LEADER_EPOCH, 0, N2, N1)
        assert only(BASE.handle_acknowledgement(leader(), stale, QUIET)).me == leader()
        stranger = kind(1, N1, Error.NONE, 1, N4, N1)
        dies = kind is BeginQuorumEpochResponse
        assert (only(BASE.handle_acknowledgement(leader(), stranger, QUIET)).me.mode is Mode.FAILED) is dies


# Connections are reset


def forgotten(step: Step) -> set[Any]:
    return {group for how, group in step.sends if how == "forget"}


def test_answers_to_a_state_that_is_left_are_dropped() -> None:
    asking, polling = follower(pending=BASE.fetch_from(follower(), N1, 1)), leader()
    told = BeginQuorumEpochRequest(2, Key(N3), N1, N3)
    for me, groups in (
        (standing(), {Answers("vote", N3)}),
        (prospective(), {Answers("pre-vote", N3)}),
        (follower(N3, pending=BASE.fetch_from(follower(N3), N1, 1)), {Answers("fetch", N3)}),
        (follower(N3, updating=True), {Answers("update", N3)}),
        (replica(N3, Mode.LEADER, leader=N3), {Answers("leader", N3)}),
        (replica(N3, Mode.RESIGNED, leader=N3), {Answers("leader", N3)}),
        (replica(N3, Mode.UNATTACHED), set()),
    ):
        newer = told.but(epoch=me.epoch + 1)
        assert forgotten(only(BASE.handle_begin_quorum_epoch_request(me, newer, QUIET))) == groups
    for me in (asking, polling):
        stays = only(BASE.handle_vote_request(me, vote(pre_vote=True, voter=me.key, dest=me.id), QUIET))
        assert forgotten(stays) == set()
        assert forgotten(only(BASE.restart(me, QUIET))) == {Answers("fetch" if me is asking else "leader", me.id)}
    early = quorum(LatePreVotes="FALSE")
    given_up = only(early.pre_vote_timeout(prospective()))
    assert forgotten(given_up) == {Answers("pre-vote", N3), PreVotes(N3, N1), PreVotes(N3, N2)}


def test_acknowledgements_without_an_error_stay_away_unless_answers_are_plain() -> None:
    told = BeginQuorumEpochRequest(1, Key(N2), N1, N2)
    quiet = quorum(PlainAnswers="FALSE")
    step = only(quiet.handle_begin_quorum_epoch_request(replica(N2, Mode.UNATTACHED), told, QUIET))
    assert all_sent(step, BeginQuorumEpochResponse) == []
    wrong = only(quiet.handle_begin_quorum_epoch_request(follower(), told.but(voter=Key(N2, 2)), QUIET))
    assert sent(wrong, BeginQuorumEpochResponse).error is Error.INVALID_VOTER_KEY


# What the properties watch


def test_who_watches_a_pre_vote_round() -> None:
    model = quorum(WatchPreVotes="TRUE")
    everyone = {N1: leader(), N2: follower(fetched=True), N3: follower(N3), N4: replica(N4, Mode.UNATTACHED)}
    seen = Map({host: model.bystander(peer) for host, peer in everyone.items()})
    step = only(model.fetch_timeout(everyone[N3], QUIET, seen))
    assert {peer.id: peer.watched for peer in step.writes} == {N1: frozenset({N3}), N2: frozenset({N3})}
    assert only(BASE.fetch_timeout(everyone[N3], QUIET, Map())).writes == ()
    assert BASE.bystander(leader()) == model.bystander(Admin(ADMIN)) == Nil.NIL


# Every handler says where it is from


OURS = {"RestartLosingUnflushed", "Crash", "Cut", "Heal"}
"""What happens to processes and links, of which no KIP tells."""


def test_every_action_names_its_source() -> None:
    unnamed = {
        name
        for name, action in Quorum.actions.items()
        if not re.search(r'(KIP-\d+( and KIP-\d+)?, "|KAFKA-\d+)', " ".join((action.function.__doc__ or "").split()))
    }
    assert unnamed == OURS
