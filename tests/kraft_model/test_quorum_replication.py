"""`quorum`, one step at a time: Fetch, FetchSnapshot, snapshots, and requests of other clusters."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from kraftcheck.kraft_model.quorum.records import (
    AddVoterRequest,
    AdminResponse,
    Batch,
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
    EndQuorumEpochRequest,
    EndQuorumEpochResponse,
    Error,
    FetchRequest,
    FetchResponse,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    Key,
    LeaderChange,
    Mode,
    Nil,
    Position,
    RemoveVoterRequest,
    Replica,
    Shared,
    UpdateVoterResponse,
    Voter,
    VoteResponse,
    Voters,
)
from kraftcheck.spec import Map, ModelValue, Record, Step
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
    data,
    fetch,
    follower,
    leader,
    only,
    prospective,
    quorum,
    replica,
    sent,
    snapshot_request,
    vote,
)

# Fetch (KIP-595, KIP-630, KIP-853)


@pytest.mark.parametrize(
    ("me", "request_", "error"),
    [
        (leader(epoch=2), fetch(epoch=1), Error.FENCED_LEADER_EPOCH),
        (leader(), fetch(epoch=2), Error.UNKNOWN_LEADER_EPOCH),
        (follower(N1, leader=N3), fetch(), Error.NOT_LEADER_OR_FOLLOWER),
        (replica(N1, Mode.RESIGNED, leader=N1), fetch(), Error.NOT_LEADER_OR_FOLLOWER),
        (leader(), fetch(), Error.NONE),
    ],
)
def test_fetch_errors(me: Replica, request_: FetchRequest, error: Error) -> None:
    step = only(BASE.handle_fetch_request(me, request_, QUIET))
    answer = sent(step, FetchResponse)
    assert (answer.error, answer.epoch, answer.leader) == (error, me.epoch, me.leader)
    if error is not Error.NONE:
        assert (step.me.but(pending=me.pending), answer.records, answer.high_watermark) == (me, (), 0)


def test_fetch_tells_what_follows_or_where_logs_diverge() -> None:
    me = leader(epoch=3, log=(FIRST, data(1, 1), data(3, 2)))
    served = only(BASE.handle_fetch_request(me, fetch(1, 1, epoch=3), QUIET))
    assert sent(served, FetchResponse).records == me.log[1:]
    assert served.me.offsets == Map({Key(N2): 1})
    for offset, last_epoch, diverging in ((3, 2, Position(2, 1)), (4, 1, Position(2, 1)), (4, 3, Position(3, 3))):
        step = only(BASE.handle_fetch_request(me, fetch(offset, last_epoch, epoch=3), QUIET))
        answer = sent(step, FetchResponse)
        assert (answer.diverging, answer.records, step.me.offsets) == (diverging, (), Map())


def test_who_fetches_is_known_by_id_and_directory_id() -> None:
    me = leader(epoch=2, log=(FIRST, Batch(2, (LeaderChange(N1),))), offsets=Map({Key(N3): 0}))
    wiped = only(BASE.handle_fetch_request(me, fetch(2, 2, epoch=2, directory=2), QUIET))
    assert wiped.me.offsets == Map({Key(N2, 2): 2, Key(N3): 0})
    assert wiped.me.high_watermark == 1
    voter = only(BASE.handle_fetch_request(me, fetch(2, 2, epoch=2), QUIET))
    assert voter.me.high_watermark == 2
    observer = only(BASE.handle_fetch_request(me, fetch(2, 2, epoch=2, source=N4), QUIET))
    assert (observer.me.offsets[Key(N4)], observer.me.high_watermark) == (2, 1)


def test_the_high_watermark_moves_with_the_epoch_and_only_forwards() -> None:
    me = leader(epoch=3, log=(FIRST, data(1, 1), Batch(3, (LeaderChange(N1),))))
    earlier = only(BASE.handle_fetch_request(me, fetch(2, 1, epoch=3), QUIET))
    assert (earlier.me.high_watermark, sent(earlier, FetchResponse).high_watermark) == (1, 0)
    own = only(BASE.handle_fetch_request(earlier.me, fetch(3, 3, epoch=3), QUIET))
    assert (own.me.high_watermark, sent(own, FetchResponse).high_watermark) == (3, 3)
    more = ALL | {Voter(Key(N4))}
    log = (FIRST, data(1, 1), Batch(1, (Voters(more),)))
    grown = leader(log=log, high_watermark=2, offsets=Map({Key(N3): 1, Key(N4): 1}))
    back = only(BASE.handle_fetch_request(grown, fetch(2), QUIET))
    assert (back.me.high_watermark, sent(back, FetchResponse).high_watermark) == (2, 2)


def test_a_removed_leader_serves_and_does_not_count_itself() -> None:
    without = frozenset({Voter(Key(N2)), Voter(Key(N3))})
    me = leader(log=(FIRST, Batch(1, (Voters(without),))))
    step = only(BASE.handle_fetch_request(me, fetch(2), QUIET))
    assert (step.me.mode, step.me.high_watermark) == (Mode.LEADER, 1)
    both = only(BASE.handle_fetch_request(step.me, fetch(2, source=N3), QUIET))
    assert (both.me.mode, dict(both.puts)["committed"]) == (Mode.RESIGNED, me.log)
    assert {request.dest for request in all_sent(both, EndQuorumEpochRequest)} == {N2, N3}
    removed = leader(log=(FIRST, Batch(1, (Voters(frozenset({Voter(Key(N1)), Voter(Key(N3))})),))))
    assert sent(only(BASE.handle_fetch_request(removed, fetch(1), QUIET)), FetchResponse).records == removed.log[1:]


def test_a_snapshot_instead_of_records() -> None:
    me = leader(epoch=2, log=(FIRST, data(1, 1), Batch(2, (LeaderChange(N1),))), start=2, high_watermark=3)
    for offset, last_epoch in ((0, 0), (1, 1), (2, 0)):
        answer = sent(only(BASE.handle_fetch_request(me, fetch(offset, last_epoch, epoch=2), QUIET)), FetchResponse)
        assert (answer.snapshot, answer.records, answer.error) == (Position(2, 1), (), Error.NONE)
    answer = sent(only(BASE.handle_fetch_request(me, fetch(2, 1, epoch=2), QUIET)), FetchResponse)
    assert (answer.snapshot, answer.records) == (Nil.NIL, me.log[2:])


def answered(me: Replica, **fields: Any) -> FetchResponse:
    request = me.pending
    assert isinstance(request, FetchRequest)
    return FetchResponse(1, N1, Error.NONE, 0, (), Nil.NIL, Nil.NIL, request, request.dest, me.id).but(**fields)


def fetching(**fields: Any) -> Replica:
    me = follower(**fields)
    return me.but(pending=BASE.fetch_from(me, N1, 1))


def test_what_a_follower_does_with_an_answer() -> None:
    me = fetching()
    records = (data(1, 1), data(1, 2))
    appended = only(BASE.handle_fetch_response(me, answered(me, records=records, high_watermark=2), QUIET))
    assert (appended.me.log, appended.me.flushed, appended.me.high_watermark) == ((FIRST, *records), 3, 2)
    assert appended.me.fetched
    assert sent(appended, FetchRequest).offset == 3
    known = only(BASE.handle_fetch_response(me, answered(me, high_watermark=9), QUIET))
    assert known.me.high_watermark == 1
    more = frozenset({*ALL, Voter(Key(N4))})
    long = fetching(log=(FIRST, data(1, 7), Batch(1, (Voters(more),))))
    assert long.voters == more
    cut = only(BASE.handle_fetch_response(long, answered(long, diverging=Position(1, 1), high_watermark=3), QUIET))
    assert (cut.me.log, cut.me.voters, cut.me.high_watermark, cut.me.fetched) == ((FIRST,), ALL, 1, True)
    turned = only(BASE.handle_fetch_response(me, answered(me, snapshot=Position(2, 1)), QUIET))
    assert sent(turned, FetchSnapshotRequest).snapshot == Position(2, 1)
    assert turned.me.fetched
    stale = answered(me, records=records).but(request=fetch(0, 0))
    assert only(BASE.handle_fetch_response(me, stale, QUIET)).me == me


@pytest.mark.parametrize(
    ("fields", "mode", "leads", "epoch"),
    [
        ({"error": Error.FENCED_LEADER_EPOCH, "epoch": 3, "leader": N3}, Mode.FOLLOWER, N3, 3),
        ({"error": Error.FENCED_LEADER_EPOCH, "epoch": 3, "leader": Nil.NIL}, Mode.UNATTACHED, Nil.NIL, 3),
        ({"error": Error.NOT_LEADER_OR_FOLLOWER, "epoch": 1, "leader": Nil.NIL}, Mode.FOLLOWER, N1, 1),
        ({"error": Error.UNKNOWN_LEADER_EPOCH, "epoch": 0, "leader": Nil.NIL}, Mode.FOLLOWER, N1, 1),
        ({"error": Error.INCONSISTENT_CLUSTER_ID, "epoch": 0, "leader": Nil.NIL}, Mode.FOLLOWER, N1, 1),
    ],
)
def test_what_a_follower_does_with_an_error(
    fields: dict[str, Any], mode: Mode, leads: ModelValue | Nil, epoch: int
) -> None:
    me = fetching()
    step = only(BASE.handle_fetch_response(me, answered(me, records=(data(1, 1),), **fields), QUIET))
    assert (step.me.mode, step.me.leader, step.me.epoch, step.me.log) == (mode, leads, epoch, (FIRST,))
    assert not step.me.fetched


def test_the_leader_is_found_through_bootstrap_servers() -> None:
    lost = replica(N3, Mode.UNATTACHED)
    assert [sent(step, FetchRequest).dest for step in BASE.fetch_from_bootstrap_server(lost)] == [N1, N2]
    assert [sent(step, FetchRequest).dest for step in BASE.fetch_from_bootstrap_server(BLANK)] == [N1, N2]
    asking = lost.but(pending=BASE.fetch_from(lost, N2, 1))
    told = answered(asking, error=Error.NOT_LEADER_OR_FOLLOWER, leader=N1)
    found = only(BASE.handle_fetch_response(asking, told, QUIET))
    assert (found.me.mode, found.me.leader) == (Mode.FOLLOWER, N1)
    assert sent(found, FetchRequest).dest == N1
    at_once = lost.but(pending=BASE.fetch_from(lost, N1, 1))
    served = only(BASE.handle_fetch_response(at_once, answered(at_once, records=(data(1, 1),)), QUIET))
    assert (served.me.mode, served.me.leader, len(served.me.log)) == (Mode.FOLLOWER, N1, 2)


# FetchSnapshot (KIP-630, KIP-853)


@pytest.mark.parametrize(
    ("me", "request_", "error"),
    [
        (leader(epoch=2, start=1), snapshot_request(1), Error.FENCED_LEADER_EPOCH),
        (leader(start=1), snapshot_request(1, 2), Error.UNKNOWN_LEADER_EPOCH),
        (follower(N1, leader=N3, start=1), snapshot_request(1), Error.NOT_LEADER_OR_FOLLOWER),
        (leader(log=(FIRST, data(1, 1)), start=2), snapshot_request(1), Error.SNAPSHOT_NOT_FOUND),
        (leader(start=1), snapshot_request(1), Error.NONE),
        (leader(start=1), snapshot_request(1, source=N4), Error.NONE),
        (leader(start=1, voters=frozenset({Voter(Key(N2))})), snapshot_request(1), Error.NONE),
    ],
)
def test_fetch_snapshot_errors(me: Replica, request_: FetchSnapshotRequest, error: Error) -> None:
    answer = sent(only(BASE.handle_fetch_snapshot_request(me, request_, QUIET)), FetchSnapshotResponse)
    assert (answer.error, answer.content) == (error, me.log[:1] if error is Error.NONE else ())
    assert (answer.epoch, answer.leader) == (me.epoch, me.leader)


def test_what_a_follower_does_with_a_snapshot() -> None:
    me = BLANK.but(mode=Mode.FOLLOWER, epoch=1, leader=N1, pending=snapshot_request(2, source=N4))
    content = (FIRST, data(1, 1))
    answer = FetchSnapshotResponse(1, N1, Error.NONE, content, me.pending, N1, N4)
    step = only(BASE.handle_fetch_snapshot_response(me, answer, QUIET))
    assert (step.me.log, step.me.start, step.me.high_watermark, step.me.flushed) == (content, 2, 2, 2)
    assert (step.me.voters, step.me.version, step.me.fetched) == (ALL, 1, True)
    assert sent(step, FetchRequest).offset == 2
    for error in (Error.SNAPSHOT_NOT_FOUND, Error.UNKNOWN_LEADER_EPOCH, Error.INCONSISTENT_CLUSTER_ID):
        held = me.but(log=(FIRST,))
        refused = only(BASE.handle_fetch_snapshot_response(held, answer.but(error=error, content=()), QUIET))
        assert (refused.me.log, sent(refused, FetchRequest).offset) == ((FIRST,), 1)
    newer = answer.but(error=Error.FENCED_LEADER_EPOCH, epoch=2, leader=N2, content=())
    assert only(BASE.handle_fetch_snapshot_response(me, newer, QUIET)).me.leader == N2


def test_what_is_committed_becomes_a_snapshot() -> None:
    me = leader(log=(FIRST, data(1, 1), data(1, 2)), high_watermark=2)
    step = only(BASE.take_snapshot(me))
    assert (step.me.start, step.me.voters) == (2, ALL)
    assert list(BASE.take_snapshot(step.me)) == []


def test_a_snapshot_outlasts_a_loss_of_power() -> None:
    model = quorum(Brokers="{n4}", MaxRestarts=1)
    me = follower(N4, log=(FIRST, data(1, 1), data(1, 2)), high_watermark=2, flushed=0)
    assert only(model.restart_losing_unflushed(me, QUIET)).me.log == ()
    snapshot = only(model.take_snapshot(me)).me
    back = only(model.restart_losing_unflushed(snapshot, QUIET)).me
    assert (back.start, back.log) == (2, me.log[:2])


# What happens to replicas


def test_a_leader_appends_and_flushes() -> None:
    step = only(BASE.client_append(leader(), QUIET))
    assert (step.me.log, step.me.flushed, dict(step.puts)["appended"]) == ((FIRST, data(1, 1)), 2, 1)
    assert step.me.high_watermark == 1
    alone = leader(log=(Batch(1, (LeaderChange(N1), Voters(frozenset({Voter(Key(N1))})))),))
    assert only(BASE.client_append(alone, QUIET)).me.high_watermark == 2
    assert list(BASE.client_append(follower(), QUIET)) == []


def test_what_is_not_flushed_is_lost() -> None:
    broker = quorum(Brokers="{n4}")
    me = follower(N4, flushed=1)
    me = me.but(pending=broker.fetch_from(me, N1, 1))
    appended = only(broker.handle_fetch_response(me, answered(me, records=(data(1, 1),)), QUIET)).me
    assert (len(appended.log), appended.flushed) == (2, 1)
    assert only(broker.restart(appended, QUIET)).me.log == (FIRST, data(1, 1))
    assert only(broker.restart_losing_unflushed(appended, QUIET)).me.log == (FIRST,)
    assert list(broker.restart_losing_unflushed(follower(), QUIET)) == []


def test_a_lost_disk_comes_back_as_another_replica() -> None:
    step = only(BASE.lose_disk(follower(voted=Key(N3)), QUIET))
    assert (step.me.key, step.me.log, step.me.voters, step.me.epoch) == (Key(N2, 2), (), frozenset(), 0)
    assert step.me.mode is Mode.UNATTACHED
    at_zero = only(quorum(KRaftVersion=0).lose_disk(follower(), QUIET))
    assert at_zero.me.voters == frozenset(Voter(Key(host, 0)) for host in (N1, N2, N3))


def test_other_listeners_need_a_restart() -> None:
    step = only(BASE.move_endpoint(follower(voted=Key(N3), fetched=True)))
    assert (step.me.endpoint, step.me.voted, step.me.fetched) == (2, Key(N3), False)
    assert step.me.voters == ALL
    assert all_sent(only(BASE.move_endpoint(leader())), EndQuorumEpochRequest)


def test_a_crashed_process_does_nothing() -> None:
    down = only(BASE.crash(leader())).me
    assert down.mode is Mode.DOWN
    assert not BASE.receives(down, fetch())
    for steps in (BASE.restart(down, QUIET), BASE.crash(down), BASE.resign(down), BASE.lose_disk(down, QUIET)):
        assert list(steps) == []


def test_nothing_comes_through_a_cut_link() -> None:
    model = quorum(MaxCuts=1)
    pair = frozenset({N1, N2})
    (cut,) = [step for step in model.cut(QUIET) if pair in dict(step.puts)["cuts"]]
    apart = Shared(cuts=dict(cut.puts)["cuts"])
    assert list(model.handle_fetch_request(leader(), fetch(), apart)) == []
    assert len(list(model.handle_fetch_request(leader(), fetch(source=N3), apart))) == 1
    assert dict(only(model.heal(apart)).puts)["cuts"] == frozenset()


def test_a_leader_that_no_majority_can_fetch_from_resigns() -> None:
    model = quorum()
    up = {host: Key(host) for host in (N1, N2, N3, N4)}
    down = Nil.NIL
    assert list(model.check_quorum(leader(), QUIET, Map(up))) == []
    assert list(model.check_quorum(leader(), QUIET, Map({**up, N2: down}))) == []
    step = only(model.check_quorum(leader(), QUIET, Map({**up, N2: down, N3: down})))
    assert step.me.mode is Mode.RESIGNED
    assert len(all_sent(step, EndQuorumEpochRequest)) == 2
    removed = leader(voters=frozenset({Voter(Key(N2)), Voter(Key(N3))}))
    assert only(model.check_quorum(removed, QUIET, Map({**up, N2: down}))).me.mode is Mode.RESIGNED
    new_disks = {**up, N2: Key(N2, 2), N3: Key(N3, 2)}
    assert only(model.check_quorum(leader(), QUIET, Map(new_disks))).me.mode is Mode.RESIGNED
    cut = Shared(cuts=frozenset({frozenset({N1, N2}), frozenset({N1, N3})}))
    assert only(model.check_quorum(leader(), cut, Map(up))).me.mode is Mode.RESIGNED
    alone = leader(voters=frozenset({Voter(Key(N1))}))
    assert list(model.check_quorum(alone, QUIET, Map({**up, N2: down, N3: down}))) == []


def test_a_request_is_sent_again() -> None:
    def retry(me: Replica) -> list[Step]:
        return list(BASE.retry(me, QUIET, Map()))

    me = fetching()
    step = only(retry(me))
    assert sent(step, FetchRequest) == me.pending
    assert retry(follower()) == []
    observer = follower(N4, voters=ALL).but(pending=fetch(source=N4))
    assert {sent(step, FetchRequest).dest for step in retry(observer)} == {N1, N2}
    (update,) = retry(follower(updating=True))
    assert (update.me.updating, update.spends) == (False, ("retries",))
    assert len(list(BASE.send_update_voter(update.me))) == 1
    (join,) = retry(follower(N4, joining=True, voters=ALL))
    assert len(list(quorum(AutoJoin="TRUE").join(join.me))) == 1


# Cluster ids (KIP-595, KIP-630, KIP-853)


def test_another_cluster_is_refused_and_learns_nothing() -> None:
    model = quorum(OtherCluster="{n2}")
    me = leader(start=1)
    asked = vote(5, source=N2, candidate=Key(N2), voter=Key(N1), dest=N1)
    begun, ended = BeginQuorumEpochRequest(5, Key(N1), N2, N1), EndQuorumEpochRequest(5, (), N2, N1)
    joins, leaves = AddVoterRequest(Voter(Key(N2)), N2, N1), RemoveVoterRequest(Key(N2), N2, N1)
    refusals: list[tuple[Iterator[Step], type[Record]]] = [
        (model.handle_vote_request(me, asked, QUIET), VoteResponse),
        (model.handle_begin_quorum_epoch_request(me, begun, QUIET), BeginQuorumEpochResponse),
        (model.handle_end_quorum_epoch_request(me, ended, QUIET), EndQuorumEpochResponse),
        (model.handle_fetch_request(me, fetch(0, 0), QUIET), FetchResponse),
        (model.handle_fetch_snapshot_request(me, snapshot_request(1), QUIET), FetchSnapshotResponse),
        (model.handle_update_voter_request(me, UPDATE, QUIET), UpdateVoterResponse),
        (model.handle_add_voter_request(me, joins, QUIET), AdminResponse),
        (model.handle_remove_voter_request(me, leaves, QUIET), AdminResponse),
    ]
    for steps, kind in refusals:
        step = only(steps)
        answer: Any = sent(step, kind)
        assert answer.error is Error.INCONSISTENT_CLUSTER_ID
        assert step.me == me
        if kind is not AdminResponse:
            assert (answer.epoch, answer.leader) == (0, Nil.NIL)
    told = sent(only(model.handle_vote_request(follower(), vote(5, pre_vote=True), QUIET)), VoteResponse)
    assert told.error is Error.INCONSISTENT_CLUSTER_ID
    assert only(model.handle_vote_response(prospective(epoch=5), told, QUIET)).me == prospective(epoch=5)
