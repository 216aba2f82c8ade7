"""`quorum`, one step at a time: voter changes, kraft.version, what administrators ask; and the draft of KIP-853."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kraftcheck.kraft_model.quorum.records import (
    ADMIN,
    AddVoterRequest,
    Admin,
    AdminResponse,
    ApiVersionsRequest,
    ApiVersionsResponse,
    Batch,
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
    Change,
    DescribeQuorumResponse,
    Error,
    FetchRequest,
    FetchResponse,
    FetchSnapshotResponse,
    Key,
    KRaftVersion,
    LeaderChange,
    Mode,
    Nil,
    Operation,
    Position,
    RemoveVoterRequest,
    Replica,
    Shared,
    UpdateVoterRequest,
    UpdateVoterResponse,
    Voter,
    VoterAdded,
    VoterRemoved,
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
    UPDATE,
    all_sent,
    fetch,
    follower,
    leader,
    only,
    quorum,
    replica,
    sent,
    snapshot_request,
    vote,
)

# AddVoter, RemoveVoter (KIP-853)

NEW = Voter(Key(N4))
OTHER_DISK = Voter(Key(N3, 2))
UNCOMMITTED = (FIRST, Batch(1, (Voters(frozenset({Voter(Key(N1)), Voter(Key(N2))})),)))
PENDING = Change(Operation.ADD_VOTER, NEW, False, 0, N4)


def known(*voters: Voter) -> Map[ModelValue, Voter]:
    return Map({voter.key.id: voter for voter in voters})


def asks(steps: Iterator[Step]) -> AdminResponse | None:
    """The answer that an administrator gets at once, if any."""
    found = all_sent(only(steps), AdminResponse)
    return found[0] if found else None


BUSY = [
    (follower(), Error.NOT_LEADER_OR_FOLLOWER),
    (replica(N1, Mode.RESIGNED, leader=N1), Error.NOT_LEADER_OR_FOLLOWER),
    (leader(log=UNCOMMITTED), Error.REQUEST_TIMED_OUT),
    (leader(change=PENDING), Error.REQUEST_TIMED_OUT),
    (leader(epoch=2, log=(FIRST, Batch(2, (LeaderChange(N1),)))), Error.REQUEST_TIMED_OUT),
    (leader(version=0), Error.UNSUPPORTED_VERSION),
]


DUPLICATES = [
    (leader(), OTHER_DISK, Error.DUPLICATE_VOTER),
    (leader(), Voter(Key(N3)), Error.DUPLICATE_VOTER),
]


@pytest.mark.parametrize(("me", "voter", "error"), [*((me, NEW, error) for me, error in BUSY), *DUPLICATES])
def test_add_voter_errors(me: Replica, voter: Voter, error: Error) -> None:
    model = quorum(MaxAddVoters=1)
    (step,) = model.add_voter(me, QUIET, known(voter))
    assert sent(step, AdminResponse) == AdminResponse(Operation.ADD_VOTER, error, me.id, ADMIN)
    assert step.me.but(pending=me.pending) == me
    assert (step.spends, step.needs) == (("refusals",), ("added_voters",))
    assert list(quorum(MaxAddVoters=1, PlainAnswers="FALSE").add_voter(me, QUIET, known(voter))) == []
    request = AddVoterRequest(voter, voter.key.id, me.id)
    answer = sent(only(model.handle_add_voter_request(me, request, QUIET)), AdminResponse)
    assert (answer.error, answer.dest) == (error, voter.key.id)


def test_the_steps_of_add_voter() -> None:
    model = quorum(MaxAddVoters=1)
    asked = only(model.add_voter(leader(), QUIET, known(NEW)))
    assert sent(asked, ApiVersionsRequest).dest == N4
    assert (all_sent(asked, AdminResponse), asked.spends) == ([], ("added_voters",))
    assert asked.me.change == Change(Operation.ADD_VOTER, NEW, False, 0, ADMIN, NEW.key)
    question = sent(asked, ApiVersionsRequest)
    versions = sent(only(model.handle_api_versions_request(BLANK, question, QUIET)), ApiVersionsResponse)
    assert versions.version == 1
    old = sent(only(model.handle_api_versions_request(BLANK.but(software=0), question, QUIET)), ApiVersionsResponse)
    refused = only(model.handle_api_versions_response(asked.me, old, QUIET))
    assert (sent(refused, AdminResponse).error, refused.me.change) == (Error.INVALID_REQUEST, Nil.NIL)
    assert refused.me.log == (FIRST,)
    waits = only(model.handle_api_versions_response(asked.me, versions, QUIET))
    assert (waits.me.log, waits.me.voters) == ((FIRST,), ALL)
    behind = only(model.handle_fetch_request(waits.me, fetch(0, 0, source=N4), QUIET))
    assert behind.me.log == (FIRST,)
    other = only(model.handle_fetch_request(waits.me, fetch(1, source=N4, directory=2), QUIET))
    assert other.me.log == (FIRST,)
    caught_up = only(model.handle_fetch_request(behind.me, fetch(1, source=N4), QUIET))
    assert caught_up.me.log == (FIRST, Batch(1, (Voters(ALL | {NEW}),)))
    assert (caught_up.me.voters, all_sent(caught_up, AdminResponse)) == (ALL | {NEW}, [])
    onwards = only(model.handle_fetch_request(caught_up.me, fetch(1), QUIET))
    assert sent(onwards, FetchResponse).records == caught_up.me.log[1:]
    assert Key(N4) in [sent(s, BeginQuorumEpochRequest).voter for s in model.repeat_begin_quorum_epoch(caught_up.me)]
    one = only(model.handle_fetch_request(caught_up.me, fetch(2), QUIET))
    assert (one.me.high_watermark, all_sent(one, AdminResponse)) == (1, [])
    two = only(model.handle_fetch_request(one.me, fetch(2, source=N4), QUIET))
    assert (two.me.high_watermark, two.me.change) == (2, Nil.NIL)
    assert sent(two, AdminResponse) == AdminResponse(Operation.ADD_VOTER, Error.NONE, N1, ADMIN)


def test_answers_about_versions_that_nobody_waits_for() -> None:
    versions = ApiVersionsResponse(1, 1, N4, N1)
    for me in (leader(), leader(epoch=2, change=PENDING), leader(change=PENDING.but(checked=True))):
        assert only(BASE.handle_api_versions_response(me, versions, QUIET)).me == me
    from_another = versions.but(source=N3)
    assert only(BASE.handle_api_versions_response(leader(change=PENDING), from_another, QUIET)).me.change == PENDING


@pytest.mark.parametrize(
    ("me", "key", "error"),
    [
        *((me, Key(N3), error) for me, error in BUSY),
        (leader(), Key(N4), Error.VOTER_NOT_FOUND),
        (leader(), Key(N3, 2), Error.VOTER_NOT_FOUND),
        (leader(voters=frozenset({Voter(Key(N3))})), Key(N3), Error.INVALID_REQUEST),
    ],
)
def test_remove_voter_errors(me: Replica, key: Key, error: Error) -> None:
    model = quorum(MaxRemoveVoters=1)
    answers = [
        sent(step, AdminResponse)
        for step in model.remove_voter(me, QUIET, known(Voter(key)))
        if all_sent(step, AdminResponse)
    ]
    assert AdminResponse(Operation.REMOVE_VOTER, error, me.id, ADMIN) in answers
    request = RemoveVoterRequest(key, N4, me.id)
    step = only(model.handle_remove_voter_request(me, request, QUIET))
    assert sent(step, AdminResponse) == AdminResponse(Operation.REMOVE_VOTER, error, me.id, N4)
    assert step.me.but(pending=me.pending) == me


def test_the_steps_of_remove_voter() -> None:
    model = quorum(MaxRemoveVoters=1)
    removals = {step.me.voters: step for step in model.remove_voter(leader(), QUIET, Map())}
    assert len(removals) == 3
    rest = frozenset({Voter(Key(N1)), Voter(Key(N2))})
    begun = removals[rest]
    assert begun.me.log == (FIRST, Batch(1, (Voters(rest),)))
    assert (all_sent(begun, AdminResponse), begun.me.high_watermark) == ([], 1)
    away = only(model.handle_fetch_request(begun.me, fetch(2, source=N3), QUIET))
    assert away.me.high_watermark == 1
    done = only(model.handle_fetch_request(begun.me, fetch(2), QUIET))
    assert (done.me.mode, done.me.high_watermark, done.me.change) == (Mode.LEADER, 2, Nil.NIL)
    assert sent(done, AdminResponse) == AdminResponse(Operation.REMOVE_VOTER, Error.NONE, N1, ADMIN)


def test_whom_an_administrator_can_add() -> None:
    model = quorum(Brokers="{n4}")
    assert model.identity(follower(N3, endpoint=2)) == Voter(Key(N3), 2)
    assert model.identity(follower(N4)) == model.identity(Admin(ADMIN)) == Nil.NIL


def test_an_operation_takes_too_long() -> None:
    for operation in (Operation.ADD_VOTER, Operation.REMOVE_VOTER):
        me = leader(log=UNCOMMITTED, change=Change(operation, Nil.NIL, True, 2, ADMIN))
        step = only(BASE.expire_operation(me))
        assert (sent(step, AdminResponse).error, step.me.change) == (Error.REQUEST_TIMED_OUT, Nil.NIL)
        assert step.me.log == UNCOMMITTED
    updated = leader(log=UNCOMMITTED, change=Change(Operation.UPDATE_VOTER, Nil.NIL, True, 2, N2, UPDATE))
    assert sent(only(BASE.expire_operation(updated)), UpdateVoterResponse).error is Error.REQUEST_TIMED_OUT
    assert list(BASE.expire_operation(leader())) == []


def test_a_leader_that_leaves_office_answers_who_waits() -> None:
    me = leader(change=PENDING)
    for step in (
        only(BASE.resign(me)),
        only(BASE.handle_vote_request(me, vote(2, voter=Key(N1), dest=N1), QUIET)),
        only(
            BASE.handle_acknowledgement(
                me, BeginQuorumEpochResponse(2, N2, Error.FENCED_LEADER_EPOCH, 1, N2, N1), QUIET
            )
        ),
    ):
        assert sent(step, AdminResponse) == AdminResponse(Operation.ADD_VOTER, Error.NOT_LEADER_OR_FOLLOWER, N1, N4)
    assert all_sent(only(BASE.restart(me, QUIET)), AdminResponse) == []
    without = frozenset({Voter(Key(N2)), Voter(Key(N3))})
    log = (FIRST, Batch(1, (Voters(without),)))
    removal = leader(log=log, offsets=Map({Key(N3): 2}), change=Change(Operation.REMOVE_VOTER, Nil.NIL, True, 2, N4))
    done = only(BASE.handle_fetch_request(removal, fetch(2), QUIET))
    assert done.me.mode is Mode.RESIGNED
    assert sent(done, AdminResponse) == AdminResponse(Operation.REMOVE_VOTER, Error.NONE, N1, N4)


def test_brokers_answer_no_administrator() -> None:
    model = quorum(Brokers="{n4}", MaxAddVoters=1, MaxRemoveVoters=1, MaxUpgrades=1)
    broker = follower(N4, voters=ALL)
    for steps in (
        model.add_voter(broker, QUIET, known(NEW)),
        model.remove_voter(broker, QUIET, known()),
        model.upgrade(broker, QUIET),
        model.downgrade(broker, QUIET),
        model.describe_quorum(broker),
    ):
        assert list(steps) == []
    assert list(quorum(Brokers="{n4}", AutoJoin="TRUE").join(broker)) == []


# Controller auto joining (KIP-853)


def test_a_controller_joins() -> None:
    model = quorum(AutoJoin="TRUE")
    new_disk = BASE.formatted(N3, 2).but(mode=Mode.FOLLOWER, epoch=1, leader=N1, voters=ALL)
    first = only(model.join(new_disk))
    assert sent(first, RemoveVoterRequest).voter == Key(N3)
    assert list(model.join(first.me)) == []
    removed = only(
        model.handle_join_response(first.me, AdminResponse(Operation.REMOVE_VOTER, Error.NONE, N1, N3), QUIET)
    )
    gone = removed.me.but(voters=ALL - {Voter(Key(N3))})
    second = only(model.join(gone))
    assert sent(second, AddVoterRequest).voter == Voter(Key(N3, 2))
    assert list(model.join(follower())) == []
    assert list(quorum().join(gone)) == []


# UpdateVoter (KIP-853)

STATIC = frozenset(Voter(Key(host, 0)) for host in (N1, N2, N3))
AT_ZERO = leader(log=(Batch(1, (LeaderChange(N1),)),), voters=STATIC, version=0)


@pytest.mark.parametrize(
    ("me", "request_", "error"),
    [
        (follower(N1, leader=N3), UPDATE, Error.NOT_LEADER_OR_FOLLOWER),
        (leader(epoch=2), UPDATE, Error.FENCED_LEADER_EPOCH),
        (leader(), UPDATE.but(epoch=2), Error.UNKNOWN_LEADER_EPOCH),
        (leader(change=PENDING), UPDATE, Error.REQUEST_TIMED_OUT),
        (leader(log=UNCOMMITTED), UPDATE, Error.REQUEST_TIMED_OUT),
        (leader(epoch=2, log=(FIRST, Batch(2, (LeaderChange(N1),)))), UPDATE.but(epoch=2), Error.REQUEST_TIMED_OUT),
        (leader(), UPDATE.but(version=0), Error.INVALID_UPDATE),
        (leader(), UPDATE.but(voter=Voter(Key(N2, 2))), Error.VOTER_NOT_FOUND),
        (leader(), UPDATE.but(voter=NEW, source=N4), Error.VOTER_NOT_FOUND),
        (AT_ZERO, UPDATE.but(voter=NEW, source=N4), Error.VOTER_NOT_FOUND),
    ],
)
def test_update_voter_errors(me: Replica, request_: UpdateVoterRequest, error: Error) -> None:
    step = only(BASE.handle_update_voter_request(me, request_, QUIET))
    assert (sent(step, UpdateVoterResponse).error, step.me.but(pending=me.pending)) == (error, me)


def test_the_steps_of_update_voter() -> None:
    begun = only(BASE.handle_update_voter_request(leader(), UPDATE, QUIET))
    moved = frozenset({Voter(Key(N1)), Voter(Key(N2), 2), Voter(Key(N3))})
    assert begun.me.log == (FIRST, Batch(1, (Voters(moved),)))
    assert (begun.me.voters, all_sent(begun, UpdateVoterResponse)) == (moved, [])
    done = only(BASE.handle_fetch_request(begun.me, fetch(2, source=N3), QUIET))
    assert sent(done, UpdateVoterResponse) == UpdateVoterResponse(1, N1, Error.NONE, UPDATE, N1, N2)
    unnamed = leader(voters=ALL - {Voter(Key(N2))} | {Voter(Key(N2, 0))})
    named = only(BASE.handle_update_voter_request(unnamed, UPDATE, QUIET))
    assert named.me.voters == moved
    heard = only(BASE.handle_update_voter_request(AT_ZERO, UPDATE, QUIET))
    assert (heard.me.heard, heard.me.log) == (frozenset({UPDATE.voter}), AT_ZERO.log)
    assert sent(heard, UpdateVoterResponse).error is Error.NONE
    unable = only(BASE.handle_update_voter_request(heard.me, UPDATE.but(version=0), QUIET))
    assert unable.me.heard == frozenset()


def test_when_update_voter_is_sent() -> None:
    for version in (0, 1):
        me = follower(version=version, endpoint=3)
        step = only(BASE.send_update_voter(me))
        request_ = UpdateVoterRequest(1, Voter(Key(N2), 3), 1, N2, N1)
        assert sent(step, UpdateVoterRequest) == request_
        assert list(BASE.send_update_voter(step.me)) == []
        for error in (
            Error.REQUEST_TIMED_OUT,
            Error.VOTER_NOT_FOUND,
            Error.INVALID_UPDATE,
            Error.NOT_LEADER_OR_FOLLOWER,
        ):
            answer = UpdateVoterResponse(1, N1, error, request_, N1, N2)
            again = only(BASE.handle_update_voter_response(step.me, answer, QUIET)).me
            assert len(list(BASE.send_update_voter(again))) == 1
        done = UpdateVoterResponse(1, N1, Error.NONE, request_, N1, N2)
        for former in (request_.but(voter=Voter(Key(N2))), request_.but(version=0), request_.but(epoch=0)):
            ignored = only(BASE.handle_update_voter_response(step.me, done.but(request=former), QUIET)).me
            assert (ignored.updating, ignored.updated) == (True, False)
        heard = only(BASE.handle_update_voter_response(step.me, done, QUIET)).me
        assert list(BASE.send_update_voter(heard)) == []
        assert len(list(BASE.send_update_voter(only(BASE.restart(heard, QUIET)).me))) == 1
        told = BeginQuorumEpochRequest(2, Key(N2), N3, N2)
        other = only(BASE.handle_begin_quorum_epoch_request(heard, told, QUIET)).me
        assert sent(only(BASE.send_update_voter(other)), UpdateVoterRequest).dest == N3
    assert list(BASE.send_update_voter(follower(N4, voters=ALL))) == []
    assert list(BASE.send_update_voter(leader())) == []
    own = UpdateVoterRequest(1, Voter(Key(N2)), 1, N2, N1)
    late = UpdateVoterResponse(1, N1, Error.NONE, own.but(epoch=0), N1, N2)
    for me in (follower(updating=True), replica(N2, Mode.UNATTACHED, epoch=1)):
        assert only(BASE.handle_update_voter_response(me, late, QUIET)).me.updated is False
    assert only(BASE.handle_update_voter_response(leader(), late.but(request=own), QUIET)).me == leader()
    newer = UpdateVoterResponse(2, N3, Error.FENCED_LEADER_EPOCH, own, N1, N2)
    assert only(BASE.handle_update_voter_response(follower(updating=True), newer, QUIET)).me.leader == N3


# UpdateFeatures and kraft.version (KIP-853)

HEARD = frozenset({Voter(Key(N2)), Voter(Key(N3))})


@pytest.mark.parametrize(
    ("me", "version", "error"),
    [
        (follower(), 1, Error.NOT_LEADER_OR_FOLLOWER),
        (follower(), 0, Error.NOT_LEADER_OR_FOLLOWER),
        (leader(), 0, Error.INVALID_UPDATE_VERSION),
        (leader(), 1, Error.NONE),
        (AT_ZERO, 0, Error.NONE),
        (AT_ZERO, 1, Error.INVALID_UPDATE_VERSION),
        (AT_ZERO.but(heard=frozenset({Voter(Key(N2))})), 1, Error.INVALID_UPDATE_VERSION),
        (AT_ZERO.but(heard=HEARD, software=0), 1, Error.INVALID_UPDATE_VERSION),
        (AT_ZERO.but(heard=HEARD, high_watermark=0), 1, Error.REQUEST_TIMED_OUT),
        (AT_ZERO.but(heard=HEARD, change=PENDING), 1, Error.REQUEST_TIMED_OUT),
        (leader(high_watermark=1, log=(FIRST, Batch(1, (KRaftVersion(1), Voters(ALL))))), 1, Error.REQUEST_TIMED_OUT),
        (leader(high_watermark=1, log=(FIRST, Batch(1, (KRaftVersion(1), Voters(ALL))))), 0, Error.REQUEST_TIMED_OUT),
    ],
)
def test_update_features_errors(me: Replica, version: int, error: Error) -> None:
    model = quorum(MaxUpgrades=1, KRaftVersion=0)
    step = only((model.upgrade if version else model.downgrade)(me, QUIET))
    assert sent(step, AdminResponse) == AdminResponse(Operation.UPDATE_FEATURES, error, me.id, ADMIN)
    assert step.me.but(pending=me.pending) == me


def test_the_upgrade_of_kraft_version() -> None:
    model = quorum(MaxUpgrades=1, KRaftVersion=0)
    me = AT_ZERO.but(heard=frozenset({Voter(Key(N2), 5), Voter(Key(N3, 2))}))
    begun = only(model.upgrade(me, QUIET))
    voters = frozenset({Voter(Key(N1)), Voter(Key(N2), 5), Voter(Key(N3, 2))})
    assert begun.me.log == (*me.log, Batch(1, (KRaftVersion(1), Voters(voters))))
    assert (begun.me.version, begun.me.voters, all_sent(begun, AdminResponse)) == (1, voters, [])
    done = only(model.handle_fetch_request(begun.me, fetch(2), QUIET))
    assert sent(done, AdminResponse) == AdminResponse(Operation.UPDATE_FEATURES, Error.NONE, N1, ADMIN)
    blocked = quorum(MaxUpgrades=1, KRaftVersion=0, Brokers="{n4}", OldSoftware="{n4}")
    assert sent(only(blocked.upgrade(me, QUIET)), AdminResponse).error is Error.INVALID_UPDATE_VERSION


def test_the_version_goes_back_with_the_log() -> None:
    model = quorum(KRaftVersion=0)
    me = model.with_log(
        model.formatted(N2, 1), (Batch(1, (LeaderChange(N1),)), Batch(1, (KRaftVersion(1), Voters(ALL)))), flushes=True
    )
    assert (me.version, me.voters) == (1, ALL)
    me = me.but(mode=Mode.FOLLOWER, epoch=2, leader=N1, pending=fetch(2, 1, epoch=2))
    answer = FetchResponse(2, N1, Error.NONE, 0, (), Position(1, 1), Nil.NIL, me.pending, N1, N2)
    step = only(model.handle_fetch_response(me, answer, QUIET))
    assert (step.me.version, step.me.voters) == (0, STATIC)


def test_other_software() -> None:
    changed = only(BASE.change_software(follower(version=0)))
    assert (changed.me.software, changed.me.mode) == (0, Mode.FOLLOWER)
    assert only(BASE.change_software(changed.me)).me.software == 1
    assert list(BASE.change_software(follower())) == []
    assert sent(only(BASE.send_update_voter(changed.me)), UpdateVoterRequest).version == 0
    assert only(BASE.lose_disk(changed.me, QUIET)).me.software == 0
    old = changed.me.but(log=(), pending=fetch(0, 0))
    records = FetchResponse(1, N1, Error.NONE, 1, (FIRST,), Nil.NIL, Nil.NIL, old.pending, N1, N2)
    failed = only(BASE.handle_fetch_response(old, records, QUIET))
    assert (failed.me.mode, failed.me.log) == (Mode.DOWN, ())
    assert all_sent(failed, FetchRequest) == []
    loading = old.but(pending=snapshot_request(1))
    snapshot = FetchSnapshotResponse(1, N1, Error.NONE, (FIRST,), loading.pending, N1, N2)
    assert only(BASE.handle_fetch_snapshot_response(loading, snapshot, QUIET)).me.mode is Mode.DOWN


# DescribeQuorum (KIP-595, KIP-853)


def test_describe_quorum() -> None:
    me = leader(log=UNCOMMITTED, offsets=Map({Key(N2): 2, Key(N3): 1, Key(N4): 0}))
    answer = sent(only(BASE.describe_quorum(me)), DescribeQuorumResponse)
    assert (answer.error, answer.epoch, answer.high_watermark) == (Error.NONE, 1, 1)
    assert answer.current == frozenset({Voter(Key(N1)), Voter(Key(N2))})
    assert answer.committed == ALL
    assert answer.observers == frozenset({Key(N3), Key(N4)})
    refused = sent(only(BASE.describe_quorum(follower())), DescribeQuorumResponse)
    assert (refused.error, refused.current, refused.high_watermark) == (Error.NOT_LEADER_OR_FOLLOWER, frozenset(), 0)
    assert only(BASE.read_answer(Admin(ADMIN), answer)).consumes


# The draft of KIP-853


def test_add_voter_in_the_draft() -> None:
    model = quorum("kip853-draft", MaxAddVoters=1)
    ready = leader(offsets=Map({Key(N4): 0, Key(N3, 2): 0}))
    for me, voter, error in (
        (follower(), NEW, Error.NOT_LEADER_OR_FOLLOWER),
        (ready, Voter(Key(N3)), Error.VOTER_ALREADY_ADDED),
        (ready.but(version=0), NEW, Error.UNSUPPORTED_VERSION),
        (leader(), NEW, Error.INVALID_REQUEST),
        (ready.but(change=PENDING), NEW, Error.REQUEST_TIMED_OUT),
    ):
        assert sent(only(model.add_voter(me, QUIET, known(voter))), AdminResponse).error is error
    twin = only(model.add_voter(ready, QUIET, known(OTHER_DISK)))
    assert twin.me.change == Change(Operation.ADD_VOTER, OTHER_DISK, False, 0, ADMIN)
    waits = only(model.add_voter(ready, QUIET, known(NEW)))
    assert all_sent(waits, ApiVersionsRequest) == []
    caught_up = only(model.handle_fetch_request(waits.me, fetch(1, source=N4), QUIET))
    assert sent(caught_up, ApiVersionsRequest).dest == N4
    old = only(model.handle_api_versions_response(caught_up.me, ApiVersionsResponse(0, 1, N4, N1), QUIET))
    assert sent(old, AdminResponse).error is Error.INVALID_REQUEST
    added = only(model.handle_api_versions_response(caught_up.me, ApiVersionsResponse(1, 1, N4, N1), QUIET))
    assert added.me.log == (FIRST, Batch(1, (VoterAdded(NEW),)))
    assert added.me.voters == ALL | {NEW}
    one = only(model.handle_fetch_request(added.me, fetch(2), QUIET))
    done = only(model.handle_fetch_request(one.me, fetch(2, source=N4), QUIET))
    assert sent(done, AdminResponse).error is Error.NONE
    uncommitted = leader(log=(FIRST, Batch(1, (VoterRemoved(Key(N3)),))), offsets=Map({Key(N4): 2}))
    held = only(model.add_voter(uncommitted, QUIET, known(NEW)))
    assert (all_sent(held, ApiVersionsRequest), held.me.log) == ([], uncommitted.log)
    unready = ready.but(epoch=2, log=(FIRST, Batch(2, (LeaderChange(N1),))), offsets=Map({Key(N4): 2}))
    assert all_sent(only(model.add_voter(unready, QUIET, known(NEW))), ApiVersionsRequest) == []


def test_remove_voter_in_the_draft() -> None:
    model = quorum("kip853-draft", MaxRemoveVoters=1)
    steps = {step.me.voters: step for step in model.remove_voter(leader(), QUIET, Map())}
    itself = steps[frozenset({Voter(Key(N2)), Voter(Key(N3))})]
    assert itself.me.log == (FIRST, Batch(1, (VoterRemoved(Key(N1)),)))
    assert itself.me.mode is Mode.LEADER
    served = only(model.handle_fetch_request(itself.me, fetch(2), QUIET))
    assert (served.me.mode, served.me.high_watermark) == (Mode.LEADER, 1)
    gone = only(model.handle_fetch_request(served.me, fetch(2, source=N3), QUIET))
    assert gone.me.mode is Mode.RESIGNED


def test_begin_quorum_epoch_in_the_draft() -> None:
    model = quorum("kip853-draft")
    told = BeginQuorumEpochRequest(1, Key(N4), N1, N4)
    refused = only(model.handle_begin_quorum_epoch_request(BLANK, told, QUIET))
    assert (sent(refused, BeginQuorumEpochResponse).error, refused.me) == (Error.NOT_VOTER, BLANK)
    leads = only(
        model.handle_acknowledgement(leader(), BeginQuorumEpochResponse(0, Nil.NIL, Error.NOT_VOTER, 1, N4, N1), QUIET)
    )
    assert leads.me == leader()
    wrong = only(model.handle_begin_quorum_epoch_request(BLANK, told.but(voter=Key(N4, 2)), QUIET))
    assert sent(wrong, BeginQuorumEpochResponse).error is Error.INVALID_VOTER_KEY
    voter = only(
        model.handle_begin_quorum_epoch_request(
            replica(N2, Mode.UNATTACHED), BeginQuorumEpochRequest(1, Key(N2), N1, N2), QUIET
        )
    )
    assert voter.me.mode is Mode.FOLLOWER
    apart = Shared(cuts=frozenset({frozenset({N1, N4})}))
    assert list(quorum("kip853-draft", MaxCuts=1).handle_begin_quorum_epoch_request(BLANK, told, apart)) == []
