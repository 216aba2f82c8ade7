"""The port of the specification of KIP-966, statement by statement (docs/coverage.md)."""

from __future__ import annotations

from typing import Any

from kraftcheck.spec import Map, Record, State, Step
from kraftcheck.spec.examples.eligible_leaders import EligibleLeaders
from kraftcheck.spec.examples.eligible_leaders.records import (
    CONTROLLER,
    NOBODY,
    AlterPartitionRequest,
    AlterPartitionResponse,
    Broker,
    Controller,
    Entry,
    Error,
    Fetcher,
    FetchRequest,
    FetchResponse,
    Known,
    Position,
    Progress,
    RegistrationRequest,
    RegistrationResponse,
    Role,
    Status,
    World,
)

MODEL = EligibleLeaders(broker_count=3, min_isr=2, isr_size=2, fences=3)
ENTRY = Entry(1, 1)


def start() -> tuple[State, Controller, World]:
    (state,) = MODEL.initial()
    controller = state.replicas[CONTROLLER]
    assert isinstance(controller, Controller)
    assert isinstance(state.shared, World)
    return state, controller, state.shared


def broker(number: int) -> Broker:
    found = start()[0].replicas[number]
    assert isinstance(found, Broker)
    return found


def whole(*changed: Record) -> Map[Any, Record]:
    """Return the processes at the start, with some of them changed."""
    return Map({**dict(start()[0].replicas), **{getattr(one, "id"): one for one in changed}})  # noqa: B009


def put(step: Step, name: str) -> Any:
    return dict(step.puts)[name]


def after_fencing(*numbers: int) -> tuple[Controller, World]:
    """Return controller and world once brokers are fenced, one after the other."""
    _, me, world = start()
    for number in numbers:
        (step,) = [one for one in MODEL.fence_broker(me, world) if number not in unfenced(one)]
        assert isinstance(step.me, Controller)
        me, world = step.me, world.but(metadata=put(step, "metadata"))
    return me, world


def unfenced(step: Step) -> frozenset[int]:
    assert isinstance(step.me, Controller)
    return step.me.unfenced


def test_a_replica_that_leaves_a_small_isr_is_eligible() -> None:
    _, me, world = start()
    (step,) = [one for one in MODEL.fence_broker(me, world) if 2 not in unfenced(one)]
    now = put(step, "metadata")[-1]
    assert (now.isr, now.elr, now.leader) == ({1}, {2}, 1)
    me, world = after_fencing(2, 1)
    now = world.metadata[-1]
    assert (now.isr, now.elr, now.leader) == (frozenset(), {1, 2}, NOBODY)
    (step,) = [one for one in MODEL.unfence_broker(me, world, whole()) if 2 in unfenced(one)]
    now = put(step, "metadata")[-1]
    assert (now.isr, now.elr, now.leader, now.last_known_elr) == ({2}, {1}, 2, {2})


def test_a_broker_without_its_epoch_leaves_isr_and_elr() -> None:
    me, world = after_fencing(2, 1)
    (step,) = MODEL.receive_broker_reg_request(me, RegistrationRequest(0, 9, 2), world)
    now = put(step, "metadata")[-1]
    assert (now.isr, now.elr, now.leader, now.last_known_elr) == (frozenset(), {1}, NOBODY, {2})
    (step,) = MODEL.receive_broker_reg_request(me, RegistrationRequest(2, 9, 2), world)
    assert put(step, "metadata")[-1].leader == 2
    assert step.sent == (RegistrationResponse(4, 9, 3, 2),)
    assert not [*MODEL.receive_broker_reg_request(start()[1], RegistrationRequest(2, 9, 2), world)]  # another runs


def test_a_clean_shutdown_keeps_the_broker_epoch() -> None:
    _, _, world = start()
    steps = [*MODEL.no_data_loss_shutdown(broker(2), world, whole())]
    assert {one.me.broker_epoch for one in steps if isinstance(one.me, Broker)} == {0, 2}
    (step,) = MODEL.data_loss_shutdown(broker(2).but(log=(ENTRY,)), world, whole())
    assert isinstance(step.me, Broker)
    assert (step.me.log, step.me.broker_epoch, put(step, "metadata")[-1].isr) == ((), 0, {1})
    (begun,) = MODEL.broker_start(step.me, world)
    assert begun.sent == (RegistrationRequest(0, 4, 2),)
    assert isinstance(begun.me, Broker)
    (run,) = MODEL.receive_broker_reg_response(begun.me, RegistrationResponse(4, 4, 2, 2))
    assert isinstance(run.me, Broker)
    assert (run.me.status, run.me.broker_epoch, run.me.cursor, run.me.known) == (Status.RUNNING, 4, 1, Known())


def test_only_current_unfenced_replicas_join_the_isr() -> None:
    def answer(isr: dict[int, int], epoch: int = 2, own: int = 1) -> Error | None:
        request = AlterPartitionRequest(Map(isr), 1, epoch, own, 1)
        (step,) = MODEL.receive_alter_partition_request(me.marked(3, fenced=False), request, world)
        (found,) = step.sent
        assert isinstance(found, AlterPartitionResponse)
        return found.error

    _, me, world = start()
    assert answer({1: 1, 2: 0, 3: 3}) is None
    assert answer({1: 1, 2: 0, 3: 2}) is Error.INELIGIBLE_REPLICA
    assert answer({1: 1, 2: 0}, epoch=1) is answer({1: 1, 2: 0}, own=9) is Error.FENCED_LEADER_EPOCH
    request = AlterPartitionRequest(Map({1: 1, 2: 0, 3: 3}), 1, 2, 1, 1)
    (step,) = MODEL.receive_alter_partition_request(me, request, world)  # broker 3 is fenced
    assert step.sent == (AlterPartitionResponse(request, 1, Error.INELIGIBLE_REPLICA),)


def test_a_leader_proposes_followers_that_have_caught_up() -> None:
    _, _, world = start()
    heard = broker(1).but(followers=broker(1).followers.put(3, Progress(1, 3)))
    step, *_ = MODEL.send_alter_partition_request(heard, world, whole(), Map({CONTROLLER: frozenset()}))
    (request,) = step.sent
    assert isinstance(request, AlterPartitionRequest)
    assert request.isr == Map({1: 1, 2: 0, 3: 3})
    assert isinstance(step.me, Broker)
    assert step.me.known.maximal_isr == {1, 2, 3}
    refused = AlterPartitionResponse(request, 1, Error.INELIGIBLE_REPLICA)
    (step,) = MODEL.receive_alter_partition_response(step.me, refused, world)
    assert isinstance(step.me, Broker)
    assert (step.me.known.maximal_isr, step.me.awaits_isr) == ({1, 2}, False)


def test_the_high_watermark_waits_for_an_isr_of_min_isr() -> None:
    _, _, world = start()
    (step,) = MODEL.write_record_to_leader(broker(1), world)
    assert isinstance(step.me, Broker)
    leader, past = step.me, put(step, "history")
    fetch = FetchRequest(2, 1, 2, 1, 2, 1)
    (step,) = MODEL.receive_fetch_request(leader, fetch, world.but(history=past))
    assert put(step, "history").acknowledged == {1}
    few = leader.but(known=leader.known.but(isr=frozenset({1})))
    (step,) = MODEL.receive_fetch_request(few, fetch, world.but(history=past))
    assert put(step, "history").acknowledged == frozenset()
    alone = broker(1).but(known=Known(frozenset({1}), frozenset({1}), 1, 1, 2))
    assert not [*MODEL.write_record_to_leader(alone, world)]


def test_followers_fetch_truncate_and_append() -> None:
    leader = broker(1).but(log=(ENTRY,))
    (step,) = MODEL.send_fetch_request(broker(2), whole(leader))
    assert step.sent == (FetchRequest(2, 1, 1, 0, 2, 1),)
    assert isinstance(step.me, Broker)
    (got,) = MODEL.receive_fetch_response(step.me, FetchResponse(1, 1, 1, 1, 2, entries=(ENTRY,)))
    assert isinstance(got.me, Broker)
    assert (got.me.log, got.me.fetchers[1]) == ((ENTRY,), Fetcher(Position(1, 2)))
    asking = got.me.but(fetchers=got.me.fetchers.put(1, Fetcher(Position(1, 2), pending=True)))
    (back,) = MODEL.receive_fetch_response(asking, FetchResponse(1, 2, 1, 1, 2, diverging=Position(0, 1)))
    assert isinstance(back.me, Broker)
    assert back.me.log == ()


def test_a_former_leader_rejects_what_waits() -> None:
    _, world = after_fencing(2, 1)
    leader = broker(1).but(log=(ENTRY,), floor=1)
    history = world.history.but(sent=frozenset({1}))
    steps = [*MODEL.receive_metadata_update(leader, world.but(history=history))]
    assert isinstance(steps[-1].me, Broker)
    assert (steps[-1].me.role, put(steps[-1], "history").rejected) == (None, {1})
    (elected,) = [*MODEL.receive_metadata_update(broker(2), world)][-1:]
    assert isinstance(elected.me, Broker)
    assert elected.me.role is not Role.LEADER
