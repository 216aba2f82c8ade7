"""Random walks: legal, reproducible, fair, and honest about what they saw."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise

import pytest

from kraftcheck.explorer.random_walks import GOING, RandomWalks, WalkPlan, simulate
from kraftcheck.explorer.result import DEADLOCK, Behaviour, Interrupted, Result, SearchRequest, Verdict
from kraftcheck.explorer.transition_system import canonicalizer
from kraftcheck.kraft_model.reconfig.variants import SecondVoteInEpoch
from kraftcheck.spec import (
    Bag,
    Channels,
    MessageSet,
    Protocol,
    Record,
    State,
    Step,
    Steps,
    action_constraint,
    become,
    bound,
    constraint,
    consume,
    environment,
    internal,
    invariant,
    on,
    step_invariant,
)
from kraftcheck.spec.language.semantics import Semantics
from tests.support.explorer.random_protocols import sample
from tests.support.tlc import bound as bound_model

pytestmark = pytest.mark.kernel


class Node(Record):
    id: int
    place: int = 0
    heard: int = 0


class Note(Record):
    source: int
    dest: int
    number: int


class Shared(Record):
    started: int = 0


class Wander(Protocol):
    """Two nodes on a circle of five places; they may stay, go on and jump, write notes, and a third may appear."""

    notes: int = bound("Notes", default=2)
    starts: int = bound("Starts", default=1)
    network = Bag()

    def initial(self) -> Iterator[State]:
        yield self.start([Node(1), Node(2)], Shared())
        yield self.start([Node(1, 3), Node(2, 2)], Shared())

    @internal
    def move(self, me: Node) -> Steps:
        for distance in (0, 1, 2):
            yield become(me.but(place=(me.place + distance) % 5))

    @internal
    def write(self, me: Node) -> Steps:
        yield become(me).send(Note(me.id, 3 - me.id, me.place)).spend("notes")

    @on(Note)
    def read(self, me: Node, note: Note, shared: Shared) -> Steps:
        yield consume(me.but(heard=note.number + shared.started))

    @environment
    def start_another(self, shared: Shared) -> Steps:
        if not shared.started:
            yield Step().write(Node(0)).put(started=1).spend("starts")

    @invariant
    def never_heard_four(self, me: Node) -> bool:
        return me.heard < 4

    @invariant
    def never_apart(self, state: State) -> bool:
        return len({node.place for node in state.replicas.values()}) < 3

    @step_invariant
    def no_jump_from_two(self, before: Node, after: Node) -> bool:
        return (before.place, after.place) != (2, 4)

    @constraint
    def low(self, me: Node) -> bool:
        return me.place < 4

    @constraint
    def together(self, state: State) -> bool:
        return abs(state.replicas[1].place - state.replicas[2].place) < 3

    @action_constraint
    def no_jumps(self, before: Node, after: Node) -> bool:
        return (after.place - before.place) % 5 < 2


def walks_of(protocol: Protocol, options: SearchRequest, plan: WalkPlan) -> tuple[Result, list[Behaviour]]:
    kept: dict[int, Behaviour] = {}
    result = simulate(protocol, options, plan, kept.__setitem__)
    assert sorted(kept) == list(range(result.runs or 0))
    return result, [kept[number] for number in sorted(kept)]


def named(protocol: Protocol, *names: str) -> tuple:
    return tuple(protocol.properties[name] for name in names)


QUIET = SearchRequest(deadlock=False)


def check_walks(
    protocol: Protocol, options: SearchRequest, plan: WalkPlan, result: Result, walks: list[Behaviour]
) -> None:
    """Walk again by the reference semantics: every step is one of its transitions, and every end has its reason."""
    semantics = Semantics(protocol)
    identity = canonicalizer(protocol, options.symmetry, options.view)
    starts = semantics.initial()
    for walk in walks:
        assert walk[0].state in starts
        for before, after in pairwise(walk):
            found = [(t.action, t.actor, t.message, t.target) for t in semantics.transitions(before.state)]
            assert (after.action, after.actor, after.message, after.state) in found
            assert all(semantics.holds_over(c, before.state, after.state) for c in options.action_constraints)
            assert all(semantics.holds(c, after.state) for c in options.constraints)
        assert len(walk) <= plan.depth
        if len(walk) < plan.depth and not result.violations:
            last = walk[-1].state
            for transition in semantics.transitions(last):
                within = all(semantics.holds(c, transition.target) for c in options.constraints)
                allowed = all(semantics.holds_over(c, last, transition.target) for c in options.action_constraints)
                assert not (within and allowed)
    taken = Counter(step.action for walk in walks for step in walk[1:])
    assert result.actions == {name: taken[name] for name in result.actions}
    assert result.generated_states == sum(map(len, walks))
    assert result.depth == max(map(len, walks), default=0)
    assert result.distinct_states == len({identity(step.state) for walk in walks for step in walk})
    assert result.complete is False


@pytest.mark.slow
@pytest.mark.sampled(5)
@pytest.mark.parametrize(
    ("constraints", "action_constraints"),
    [((), ()), (("Low",), ()), ((), ("NoJumps",)), (("Together",), ()), (("Low", "Together"), ("NoJumps",))],
)
def test_walks_are_behaviours_within_the_constraints(constraints, action_constraints) -> None:
    protocol, plan = Wander(), WalkPlan(runs=60, depth=25, seed=5)
    options = replace(
        QUIET, constraints=named(protocol, *constraints), action_constraints=named(protocol, *action_constraints)
    )
    result, walks = walks_of(protocol, options, plan)
    assert (result.verdict, result.runs) == (Verdict.OK, 60)
    assert len({tuple(step.state for step in walk) for walk in walks}) > 50
    assert {walk[0].state for walk in walks} == set(protocol.initial())
    check_walks(protocol, options, plan, result, walks)


@pytest.mark.slow
def test_a_walk_depends_on_the_seed_and_its_number_alone() -> None:
    protocol = Wander()
    _, many = walks_of(protocol, QUIET, WalkPlan(40, 30, 1))
    _, few = walks_of(protocol, replace(QUIET, workers=1), WalkPlan(3, 30, 1))
    checked = replace(QUIET, workers=2, properties=named(protocol, "NeverHeardFour"))
    _, shorter = walks_of(protocol, checked, WalkPlan(40, 7, 1))
    _, others = walks_of(protocol, QUIET, WalkPlan(40, 30, 2))
    assert many[:3] == few
    assert [walk[:7] for walk in many][: len(shorter) - 1] == shorter[:-1]
    assert many != others


@pytest.mark.parametrize("name", ["two-voters", "grow-with-election"])
def test_walks_do_not_depend_on_what_was_learned_before(name) -> None:
    protocol = bound_model(f"counts/{name}").protocol
    plan = WalkPlan(30, 40, 11)
    result, walks = walks_of(protocol, QUIET, plan)
    check_walks(protocol, QUIET, plan, result, walks)
    for number in (7, 29):
        alone = RandomWalks(protocol, replace(QUIET, workers=1), plan)
        alone.begin()
        walk = alone.begun(number, 1)
        while walk.status[0] == GOING:
            alone.go_on(walk)
        assert alone.trace(walk, 0, int(walk.length[0])) == walks[number]


@pytest.mark.slow
@pytest.mark.parametrize("constrained", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_every_successor_is_as_likely_as_any_other(constrained) -> None:
    protocol = Wander(notes=0, starts=0)
    together = named(protocol, "Together") if constrained else ()
    result, walks = walks_of(protocol, replace(QUIET, constraints=together), WalkPlan(3000, 2, 3))
    assert result.runs == 3000
    starts = list(protocol.initial())
    for start in starts:
        steps = Counter(walk[1].state for walk in walks if walk[0].state == start)
        semantics = Semantics(protocol)
        weights = Counter(
            t.target for t in semantics.transitions(start) if all(semantics.holds(c, t.target) for c in together)
        )
        total = sum(steps.values())
        assert 1400 < total < 1600 or constrained
        assert set(steps) == set(weights)
        expected = {state: total * weight / sum(weights.values()) for state, weight in weights.items()}
        assert sum((steps[state] - n) ** 2 / n for state, n in expected.items()) < 25  # chi-square, at most 5 degrees


@pytest.mark.slow
def test_the_first_violation_ends_it() -> None:
    protocol = Wander()
    for name in ("NeverHeardFour", "NeverApart", "NoJumpFromTwo"):
        options = replace(QUIET, properties=named(protocol, name))
        result, walks = walks_of(protocol, options, WalkPlan(500, 40, 8))
        assert (result.verdict, [v.property for v in result.violations]) == (Verdict.VIOLATION, [name])
        assert result.violations[0].trace == walks[-1]
        assert result.runs == len(walks) < 500
        check_walks(protocol, options, WalkPlan(500, 40, 8), result, walks)
        semantics = Semantics(protocol)
        prop = protocol.properties[name]
        if prop.over_steps:
            shown = [not semantics.holds_over(prop, a.state, b.state) for w in walks for a, b in pairwise(w)]
        else:
            shown = [not semantics.holds(prop, step.state) for walk in walks for step in walk]
        assert shown[-1]
        assert sum(shown) == 1


@pytest.mark.slow
def test_it_goes_on_if_asked() -> None:
    protocol = Wander()
    names = ("NeverHeardFour", "NeverApart", "NoJumpFromTwo")
    options = replace(QUIET, properties=named(protocol, *names), keep_going=True)
    result, walks = walks_of(protocol, options, WalkPlan(300, 40, 8))
    assert result.runs == 300
    assert {v.property for v in result.violations} == set(names)
    assert result.verdict is Verdict.VIOLATION
    assert walks == walks_of(protocol, QUIET, WalkPlan(300, 40, 8))[1]
    assert result.notes[0].startswith("NeverApart reads whole states: it was evaluated ")


def test_deadlock() -> None:
    class Finite(Wander):
        def move(self, me: Node) -> Steps:
            if me.place < 3:
                yield become(me.but(place=me.place + 1))

    result, walks = walks_of(Finite(), SearchRequest(), WalkPlan(50, 100, 0))
    assert (result.verdict, result.runs) == (Verdict.DEADLOCK, 1)
    assert result.violations[0].property == DEADLOCK
    assert result.violations[0].trace == walks[0]
    assert list(Semantics(Finite()).transitions(walks[0][-1].state)) == []
    assert walks_of(Finite(), QUIET, WalkPlan(50, 100, 0))[0].verdict is Verdict.OK


@pytest.mark.parametrize("name", ["Low", "Together"])
def test_a_walk_that_can_only_leave_a_constraint_does_not_deadlock(name) -> None:
    class Onward(Wander):
        def move(self, me: Node) -> Steps:
            if me.id == 1:
                yield become(me.but(place=me.place + 1))

    protocol = Onward(notes=0, starts=0)
    result, walks = walks_of(protocol, SearchRequest(constraints=named(protocol, name)), WalkPlan(20, 100, 0))
    assert (result.verdict, result.runs) == (Verdict.OK, 20)
    assert {len(walk) for walk in walks} <= {1, 2, 3, 4}


def test_an_initial_state_that_violates() -> None:
    protocol = Wander()
    never = replace(QUIET, properties=named(protocol, "Low"))
    protocol.initial = lambda: [protocol.start([Node(1, 4), Node(2)], Shared())]  # type: ignore[method-assign]
    result, walks = walks_of(protocol, never, WalkPlan(5))
    assert (result.verdict, result.runs, len(result.violations[0].trace), walks) == (Verdict.VIOLATION, 0, 1, [])
    nothing = replace(QUIET, constraints=named(protocol, "Low"))
    assert walks_of(protocol, nothing, WalkPlan(5))[0].distinct_states == 0


@pytest.mark.slow
def test_limits_and_interrupts() -> None:
    protocol = Wander()
    result = simulate(protocol, replace(QUIET, max_states=50), WalkPlan(10**6, 20))
    assert (result.verdict, result.limit, result.distinct_states) == (Verdict.INCOMPLETE, "max_states", 50)
    result = simulate(protocol, replace(QUIET, time_limit=1.0), WalkPlan(10**9, 20))
    assert (result.verdict, result.limit) == (Verdict.INCOMPLETE, "time_limit")
    assert (result.runs or 0) > 0

    def interrupt(progress: object) -> None:
        raise KeyboardInterrupt

    def write(number: int, walk: object) -> None:
        if number == 7:
            raise KeyboardInterrupt

    with pytest.raises(Interrupted) as caught:
        simulate(protocol, QUIET, WalkPlan(100, 20), write)
    assert caught.value.result.runs == 7
    with pytest.raises(Interrupted) as caught:
        simulate(protocol, replace(QUIET, report=interrupt), WalkPlan(100))
    assert (caught.value.result.verdict, caught.value.result.complete) == (Verdict.INCOMPLETE, False)


@pytest.mark.slow
@pytest.mark.sampled(4)
@pytest.mark.parametrize("network", [MessageSet(), MessageSet(keeps=True), Bag(loses=True), Channels()])
def test_every_network(network) -> None:
    protocol, plan = type("Wander", (Wander,), {"network": network})(), WalkPlan(40, 30, 2)
    result, walks = walks_of(protocol, QUIET, plan)
    check_walks(protocol, QUIET, plan, result, walks)
    assert walks_of(protocol, replace(QUIET, workers=1), WalkPlan(7, 30, 2))[1] == walks[:7]


@pytest.mark.slow
def test_a_fault_is_found() -> None:
    found = bound_model("counts/three-voters", SecondVoteInEpoch)
    protocol = SecondVoteInEpoch(**{**vars_of(found.protocol), "elections": 2})
    options = replace(QUIET, properties=named(protocol, "NeverTwoLeadersInSameEpoch"))
    result = simulate(protocol, options, WalkPlan(20_000, 40, 1))
    assert result.verdict is Verdict.VIOLATION
    assert not Semantics(protocol).holds(options.properties[0], result.violations[0].trace[-1].state)


def vars_of(protocol: Protocol) -> dict:
    return {c.attribute: getattr(protocol, c.attribute) for c in protocol.constants.values()}


@pytest.mark.parametrize("number", [*range(4), *(pytest.param(n, marks=pytest.mark.slow) for n in range(4, 12))])
def test_random_protocols(number) -> None:
    found = next(sample(1, seed=number * 37, large=20, most=400))
    protocol, plan = found.protocol, WalkPlan(25, 20, number)
    options = replace(found.description.options(protocol), properties=(), deadlock=False)
    if options.symmetry and type(protocol.network) is Channels:
        options = replace(options, symmetry=None)
    result, walks = walks_of(protocol, options, plan)
    check_walks(protocol, options, plan, result, walks)



