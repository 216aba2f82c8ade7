"""The reference engine: what is counted, where it stops, what it reports."""

from __future__ import annotations

import gc
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise, product
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from kraftcheck.engines import search as search_by
from kraftcheck.explorer.reference import ReferenceSearch, explore
from kraftcheck.explorer.result import (
    DEADLOCK,
    NoSuchPathError,
    Progress,
    Result,
    Search,
    SearchRequest,
    TraceStep,
    Verdict,
)
from kraftcheck.explorer.transition_system import canonicalizer
from kraftcheck.kraft_model.reconfig import Reconfig
from kraftcheck.spec import (
    ActionError,
    MessageSet,
    ModelValue,
    Protocol,
    ProtocolError,
    Record,
    State,
    Step,
    Steps,
    action_constraint,
    become,
    bound,
    constant,
    constraint,
    consume,
    internal,
    invariant,
    on,
    ordered,
    step_invariant,
)
from kraftcheck.spec.encoding import encode
from kraftcheck.spec.examples.two_phase_commit import TwoPhaseCommit
from kraftcheck.spec.language import state as states
from kraftcheck.spec.language.semantics import Semantics, Take, Transition, call_action, scenario, take
from kraftcheck.spec.language.state import permutation_group, permute_model_values
from tests.support.explorer.random_protocols import FEATURES, Description, describe, sample, search
from tests.support.explorer.voting import HOSTS, Voting
from tests.support.sizes import sizes
from tests.support.tlc import bound as bound_model

n1, n2, n3 = (ModelValue(f"n{number}", number) for number in (1, 2, 3))


class Gauge(Record):
    id: int
    value: int = 0


class Shared(Record):
    noise: int = 0


class Counting(Protocol):
    """A counter that goes up to a limit, and two steps back where it may."""

    most: int = constant("Most", default=5)
    falls: int = bound("MaxFalls", default=0)

    def initial(self) -> Iterator[State]:
        yield self.start([Gauge(1)], Shared())

    @internal
    def up(self, me: Gauge) -> Steps:
        if me.value < self.most:
            yield become(me.but(value=me.value + 1))

    @internal
    def back(self, me: Gauge) -> Steps:
        if me.value >= 2:
            yield become(me.but(value=me.value - 2)).spend("falls")

    @internal
    def never(self, me: Gauge) -> Steps:
        if me.value > self.most:
            yield become(me)

    @invariant
    def not_three(self, me: Gauge) -> bool:
        return me.value != 3

    @invariant
    def not_four(self, me: Gauge) -> bool:
        return me.value != 4

    @invariant
    def not_zero(self, me: Gauge) -> bool:
        return me.value != 0

    @step_invariant
    def only_up(self, before: Gauge, after: Gauge) -> bool:
        return after.value > before.value

    @constraint
    def below_three(self, me: Gauge) -> bool:
        return me.value < 3

    @action_constraint
    def to_below_three(self, before: Gauge, after: Gauge) -> bool:
        return after.value < 3

    @scenario
    def from_two(self) -> Iterator[Take]:
        yield take("Up")
        yield take("Up")


def run(protocol: Protocol | None = None, *names: str, **options: Any) -> Result:
    """Search with the named properties, and without deadlock unless it is asked for."""
    protocol = Counting() if protocol is None else protocol
    properties = tuple(protocol.properties[name] for name in names)
    return explore(protocol, SearchRequest(**{"properties": properties, "deadlock": False, **options}))


def values(trace: tuple[TraceStep, ...]) -> list[int]:
    return [step.state.replicas[1].value for step in trace]


# What is counted


def test_counts() -> None:
    result = run(Counting(falls=1))
    assert result.verdict is Verdict.OK
    assert result.complete
    assert (result.distinct_states, result.generated_states, result.depth) == (12, 15, 9)
    assert result.actions == {"Up": 10, "Back": 4, "Never": 0}
    assert result.generated_states == 1 + sum(result.actions.values())
    assert result.never_enabled == ["Never"]
    assert result.handler_calls == {"Up": 6, "Back": 6, "Never": 6}  # once for each value of the counter


def test_outcomes_are_kept_only_where_inputs_repeat(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = explore(TwoPhaseCommit(resource_managers=HOSTS))
    monkeypatch.setattr(states, "MEMO_CHECK_INTERVAL", 8)
    outcomes = states.SelfDisablingMemo()
    for number in range(20):
        outcomes.keep(number, ())
        outcomes.hits += number < 7
    assert outcomes.is_useless
    assert not outcomes
    interned, values = states.SelfDisablingMemo(), [(number,) for number in range(17)]
    assert interned.intern((0,)) is interned.intern((0,))
    assert type(interned.intern((False,))[0]) is bool
    assert all(interned.intern(value) is value for value in values[1:])
    assert interned.is_useless
    found = explore(TwoPhaseCommit(resource_managers=HOSTS))
    assert (found.distinct_states, found.actions) == (expected.distinct_states, expected.actions)


def test_a_self_loop_is_generated_and_not_distinct() -> None:
    class Looping(Counting):
        @internal
        def stay(self, me: Gauge) -> Steps:
            yield become(me)

    result = run(Looping())
    assert (result.distinct_states, result.generated_states, result.actions["Stay"]) == (6, 12, 6)


def test_several_initial_states() -> None:
    class Starting(Counting):
        def initial(self) -> Iterator[State]:
            for value in (0, 4, 4, 1):
                yield self.start([Gauge(1, value)], Shared())

    result = run(Starting())
    assert (result.distinct_states, result.generated_states, result.depth) == (6, 3 + 5, 3)


# Violations and deadlock


def test_a_violation_stops_the_search() -> None:
    result = run(None, "NotThree", "NotFour")
    assert result.verdict is Verdict.VIOLATION
    assert not result.complete
    (violation,) = result.violations
    assert violation.property == "NotThree"
    assert values(violation.trace) == [0, 1, 2, 3]
    assert [step.action for step in violation.trace] == [None, "Up", "Up", "Up"]
    assert [step.actor for step in violation.trace] == [None, 1, 1, 1]
    assert (result.distinct_states, result.depth) == (4, 4)


def test_keep_going_notes_every_property_once() -> None:
    result = run(Counting(falls=1), "NotThree", "NotFour", "NotZero", "OnlyUp", keep_going=True, deadlock=True)
    assert result.complete
    assert result.verdict is Verdict.VIOLATION
    assert result.distinct_states == 12
    found = {violation.property: values(violation.trace) for violation in result.violations}
    stuck = found.pop(DEADLOCK)
    assert (len(stuck), stuck[-1]) == (9, 5)
    assert found == {
        "NotZero": [0],
        "OnlyUp": [0, 1, 2, 0],
        "NotThree": [0, 1, 2, 3],
        "NotFour": [0, 1, 2, 3, 4],
    }


def test_deadlock() -> None:
    result = run(deadlock=True)
    assert result.verdict is Verdict.DEADLOCK
    (violation,) = result.violations
    assert violation.property == DEADLOCK
    assert values(violation.trace) == [0, 1, 2, 3, 4, 5]
    assert run(Counting(most=0), deadlock=True).violations[0].trace[0].state.replicas[1] == Gauge(1)
    assert run(deadlock=False).verdict is Verdict.OK


def test_a_violated_property_counts_for_more_than_a_deadlock() -> None:
    assert run(None, "NotFour", deadlock=True, keep_going=True).verdict is Verdict.VIOLATION
    assert run(None, deadlock=True, keep_going=True).verdict is Verdict.DEADLOCK


def test_step_invariants() -> None:
    (violation,) = run(Counting(falls=1), "OnlyUp").violations
    assert (violation.property, values(violation.trace)) == ("OnlyUp", [0, 1, 2, 0])
    assert run(Counting(falls=0), "OnlyUp").verdict is Verdict.OK


def test_where_a_search_starts() -> None:
    result = run(None, "NotThree", init="FromTwo")
    assert values(result.violations[0].trace) == [2, 3]
    assert run(init="FromTwo").distinct_states == 4


# Constraints, as TLC has them: a counter that goes up to 5, cut off at 3


def constrained(kind: str, *names: str, **more: Any) -> Result:
    by_kind = {"constraint": "BelowThree", "action_constraint": "ToBelowThree"}
    return run(None, *names, **{f"{kind}s": (Counting.properties[by_kind[kind]],)}, **more)


@pytest.mark.parametrize("kind", ["constraint", "action_constraint"])
@pytest.mark.parametrize("search", [Search.BFS, Search.DFS])
def test_what_a_constraint_prunes_is_generated_and_not_distinct(kind: str, search: Search) -> None:
    result = constrained(kind, search=search, deadlock=True)
    assert (result.distinct_states, result.generated_states) == (3, 4)
    assert result.depth == (3 if search is Search.BFS else None)
    assert result.verdict is Verdict.OK  # a state of which all successors are pruned is no deadlock


@pytest.mark.parametrize("kind", ["constraint", "action_constraint"])
def test_the_invariants_of_what_is_pruned_are_checked(kind: str) -> None:
    """TLC 2.15 reports a behaviour of four states for both, with 4 states generated and 3 distinct, at depth 3."""
    result = constrained(kind, "NotThree")
    assert result.verdict is Verdict.VIOLATION
    assert values(result.violations[0].trace) == [0, 1, 2, 3]
    assert (result.distinct_states, result.generated_states, result.depth) == (3, 4, 3)


class Clerk(Record):
    id: ModelValue
    done: bool = False


class Order(Record):
    source: ModelValue
    dest: ModelValue


class Receipt(Record):
    source: ModelValue
    dest: ModelValue


class Orders(Protocol):
    """A clerk takes an order, and answers it or not; nothing of this changes a clerk."""

    network = MessageSet(keeps=False)

    answers: int = constant("Answers", default=1)

    def initial(self) -> Iterator[State]:
        yield self.start([Clerk(n1), Clerk(n2)], Shared(), [Order(n1, n2)])

    @on(Order)
    def take_order(self, me: Clerk, order: Order) -> Steps:
        yield consume(me).send(*[Receipt(me.id, order.source)] * self.answers)

    @internal
    def rest(self, me: Clerk) -> Steps:
        yield become(me)

    @step_invariant
    def orders_are_answered(self, before: Clerk, message: Order, step: Step) -> bool:
        return step.consumes and [one.dest for one in step.sent] == [message.source]

    @step_invariant
    def receipts_follow_orders(self, before: Clerk, after: Clerk, step: Step, shared: Shared) -> bool:
        return step.consumes or not step.sent


@pytest.mark.parametrize("engine", ["reference", "tables"])
def test_step_invariants_of_what_a_replica_does(engine: str) -> None:
    for answers, verdict in ((1, Verdict.OK), (0, Verdict.VIOLATION), (2, Verdict.VIOLATION)):
        options = SearchRequest(properties=tuple(Orders.properties.values()))
        result = search_by(engine, Orders(answers=answers), options)
        assert (result.verdict, [one.property for one in result.violations]) == (
            verdict, [] if verdict is Verdict.OK else ["OrdersAreAnswered"]
        )  # fmt: skip
        assert all(len(one.trace) == 2 for one in result.violations)


def test_a_property_of_steps_asks_for_what_there_is() -> None:
    class Odd(Orders):
        @step_invariant
        def odd(self, after: Clerk, step: Step) -> bool:
            return True

    with pytest.raises(ProtocolError, match=r"Odd is about steps: it takes \(self, before, after\)"):
        search_by("reference", Odd(), SearchRequest(properties=(Odd.properties["Odd"],)))


def test_step_invariants_of_what_is_pruned_are_checked() -> None:
    class Jumping(Counting):
        @step_invariant
        def not_to_three(self, before: Gauge, after: Gauge) -> bool:
            return after.value != 3

    chosen = (Jumping.properties["ToBelowThree"],)
    assert run(Jumping(), "NotToThree", action_constraints=chosen).verdict is Verdict.VIOLATION


# Limits


@pytest.mark.parametrize("search", [Search.BFS, Search.DFS])
def test_a_limit_on_states(search: Search) -> None:
    result = run(search=search, max_states=4)
    assert (result.verdict, result.limit, result.complete) == (Verdict.INCOMPLETE, "max_states", False)
    assert result.distinct_states == 4


@pytest.mark.parametrize("search", [Search.BFS, Search.DFS])
@pytest.mark.parametrize("depth", [1, 2, 4])
def test_a_limit_on_depth(search: Search, depth: int) -> None:
    result = run(Counting(falls=1), search=search, max_depth=depth)
    assert (result.verdict, result.limit, result.complete) == (Verdict.INCOMPLETE, "max_depth", False)
    assert result.distinct_states == {1: 1, 2: 2, 4: 5}[depth]
    assert result.depth == (depth if search is Search.BFS else None)


def test_a_bounded_depth_first_search_finds_the_nearest_way() -> None:
    """The long way is met first; what lies behind its end is found by the short one."""
    ways = Ways()
    for depth in range(2, 11):
        breadth = run(ways, max_depth=depth)
        deep = run(ways, search=Search.DFS, max_depth=depth)
        assert breadth.distinct_states == deep.distinct_states, depth
        found = run(ways, "NotFour", search=Search.DFS, max_depth=depth).verdict
        assert found is (Verdict.VIOLATION if depth >= 5 else Verdict.INCOMPLETE)


class Ways(Protocol):
    """From 0 to 2, either by 10, 11, 12 and 13 or by 1; then on to 5."""

    def initial(self) -> Iterator[State]:
        yield self.start([Gauge(1)], Shared())

    @internal
    def around(self, me: Gauge) -> Steps:
        following = {0: 10, 10: 11, 11: 12, 12: 13, 13: 2}
        if me.value in following:
            yield become(me.but(value=following[me.value]))

    @internal
    def straight(self, me: Gauge) -> Steps:
        if me.value < 5:
            yield become(me.but(value=me.value + 1))

    @invariant
    def not_four(self, me: Gauge) -> bool:
        return me.value != 4


@pytest.mark.slow
def test_steps_are_found_again_instead_of_kept() -> None:
    def kept() -> int:
        return sum(type(one) is Transition for one in gc.get_objects())

    before, search = kept(), ReferenceSearch(Ways(), SearchRequest(properties=(Ways.properties["NotFour"],)))
    (violation,) = search.run().violations
    assert kept() <= before + 1  # the last one
    assert values(violation.trace) == [0, 1, 2, 3, 4]
    assert [step.action for step in violation.trace] == [None, *["Straight"] * 4]


def test_a_step_that_is_not_found_again_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    """An action is impure: it takes no step after the search."""
    search = ReferenceSearch(Ways(), SearchRequest(deadlock=False))
    search.run()
    monkeypatch.setattr(search._again.semantics, "call", lambda *_: ())
    with pytest.raises(NoSuchPathError, match="cannot be replayed"):
        search.path_to(list(search.states())[-1])


@pytest.mark.slow
@pytest.mark.parametrize("order", [Search.BFS, Search.DFS])
def test_ways_under_symmetry_are_behaviours(order: Search) -> None:
    for most in (None, 6):
        search = ReferenceSearch(
            Voting(hosts=frozenset({n1, n2})),
            SearchRequest(deadlock=False, symmetry="symm", search=order, max_depth=most),
        )
        search.run()
        for state in search.states():
            way = search.path_to(state)
            assert_behaviour(search.protocol, way)
            assert search.identity(way[-1].state) == search.identity(state)


class Putting(Protocol):
    """Some steps are equal, and some differ only as 1 and True do."""

    initial = Counting.initial
    noises: tuple[int, ...] = (1, True, 1)

    @internal
    def put(self, me: Gauge) -> Steps:
        for noise in self.noises:
            yield Step().put(noise=noise)


@pytest.mark.parametrize("few", [0, 4])
def test_equal_steps_are_one(few: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kraftcheck.spec.language.state.MAX_COMPARED_STEPS", few)
    (action,) = Putting.actions.values()
    for noises, kinds in (((1, True, 1), [int, bool]), ((1, 2, 1), [int, int]), ((1, True), [int, bool])):
        monkeypatch.setattr(Putting, "noises", noises)
        steps = call_action(Putting(), action, Gauge(1), None, {})
        assert [step.puts[0][1] for step in steps] == list(noises[:2])
        assert [type(step.puts[0][1]) for step in steps] == kinds


def test_a_limit_on_time() -> None:
    began = time.monotonic()
    result = run(Counting(most=10**9), time_limit=0.2, max_states=500_000)
    assert (result.verdict, result.limit) == (Verdict.INCOMPLETE, "time_limit")
    assert 0.2 <= time.monotonic() - began < 20
    assert result.seconds >= 0.2


def test_a_limit_that_is_not_met_is_no_limit() -> None:
    result = run(max_states=100, time_limit=1000.0)
    assert (result.verdict, result.limit, result.complete) == (Verdict.OK, None, True)


def test_a_violation_before_the_limit_is_a_violation() -> None:
    result = run(None, "NotThree", max_states=5, keep_going=True)
    assert (result.verdict, result.limit, result.complete) == (Verdict.VIOLATION, "max_states", False)


def test_progress_is_reported() -> None:
    seen: list[Progress] = []
    run(Counting(most=2500), report=seen.append)
    assert len(seen) > 2
    assert [p.distinct_states for p in seen] == sorted(p.distinct_states for p in seen)
    assert (seen[-1].distinct_states, seen[-1].frontier) == (2501, 0)


# Symmetry and view


def orbits(protocol: Protocol, name: str) -> int:
    """Count the orbits of all states under a symmetry, with nothing but permutations."""
    plain = ReferenceSearch(protocol, SearchRequest(deadlock=False))
    plain.run()
    group = permutation_group(protocol.symmetry_sets(name))
    waiting = {encode(state): state for state in plain.states()}
    count = 0
    while waiting:
        count += 1
        state = next(iter(waiting.values()))
        for permutation in group:
            waiting.pop(encode(permute_model_values(state, permutation)), None)
    return count


@pytest.mark.parametrize(
    ("protocol", "name"),
    [
        pytest.param(Voting(hosts=HOSTS), "symm", marks=pytest.mark.slow),
        (Voting(hosts=frozenset({n1})), "symm"),
        (TwoPhaseCommit(resource_managers=HOSTS), "symmRM"),
    ],
)
def test_symmetry_counts_orbits(protocol: Protocol, name: str) -> None:
    plain = run(protocol)
    for order in (Search.BFS, Search.DFS):
        result = run(protocol, symmetry=name, search=order)
        assert result.distinct_states == orbits(protocol, name)
        assert result.distinct_states <= plain.distinct_states
        assert result.depth == (plain.depth if order is Search.BFS else None)


@pytest.mark.parametrize(
    ("model", "settings", "name"),
    [
        pytest.param("three-voters", ("MaxElections=0",), "symmHosts", marks=pytest.mark.slow),
        ("two-voters", ("MaxElections=0", "MaxValuesPerEpoch=2", "Value={v1, v2}"), "symmHostsAndValues"),
    ],
)
def test_symmetry_counts_orbits_of_reconfig(model: str, settings: tuple[str, ...], name: str) -> None:
    protocol = bound_model(f"counts/{model}", Reconfig, *settings).protocol
    count = run(protocol, symmetry=name).distinct_states
    assert count == orbits(protocol, name)
    assert count < run(protocol).distinct_states


def test_a_counterexample_under_symmetry_is_a_behaviour() -> None:
    protocol = Voting(hosts=HOSTS)
    result = run(protocol, "NoMajority", symmetry="symm")
    (violation,) = result.violations
    assert len(violation.trace) == len(run(protocol, "NoMajority").violations[0].trace) == 4
    assert_behaviour(protocol, violation.trace)


@pytest.mark.slow
def test_a_view_hides_what_does_not_count() -> None:
    protocol = Voting(hosts=HOSTS)
    seen = ReferenceSearch(protocol, SearchRequest(deadlock=False))
    seen.run()
    distinct = {encode(state.replicas) for state in seen.states()}
    assert run(protocol, view="votes").distinct_states == len(distinct) < seen.result.distinct_states
    assert run(protocol, "NoMajority", view="votes").verdict is Verdict.VIOLATION


def assert_behaviour(protocol: Protocol, trace: tuple[TraceStep, ...]) -> None:
    semantics = Semantics(protocol)
    assert trace[0].state in semantics.initial()
    assert trace[0].action is None
    for before, after in pairwise(trace):
        fitting = [
            t
            for t in semantics.transitions(before.state)
            if (t.action, t.actor, t.message, t.target) == (after.action, after.actor, after.message, after.state)
        ]
        assert fitting


# Purity


class Impure(Counting):
    def __init__(self, **constants: Any) -> None:
        super().__init__(**constants)
        self.calls = [0]


def impure(kind: str) -> type[Impure]:
    def up(self: Any, me: Gauge) -> Steps:
        if kind == "clock":
            yield become(me.but(value=time.perf_counter_ns()))
        elif kind == "keeps state":
            self.calls[0] += 1
            yield become(me.but(value=min(self.calls[0], 20)))
        elif kind == "its order":
            self.calls[0] += 1
            steps = [become(me.but(value=1)), become(me.but(value=2))]
            yield from steps[self.calls[0] % 2 :]
        elif kind == "mutates":
            if me.value == 0:
                me.__dict__["value"] = 1
            yield become(Gauge(1, 1))

    up.__annotations__["me"] = Gauge
    cls: type[Impure] = type("Impure", (Impure,), {"up": up})
    return cls


@pytest.mark.parametrize("kind", ["clock", "keeps state", "its order"])
def test_an_action_that_is_not_a_function_of_its_input(kind: str) -> None:
    with pytest.raises(ActionError, match="action Up of Impure is not pure: ") as raised:
        run(impure(kind)(), check_actions=True, max_states=100)
    assert "test_reference.py:" in str(raised.value)


def test_an_action_that_changes_its_input() -> None:
    with pytest.raises(ActionError, match="action Up of Impure changes its input"):
        run(impure("mutates")(), check_actions=True, max_states=100)


@pytest.mark.slow
def test_pure_actions_pass() -> None:
    plain, checked = run(Counting(falls=1)), run(Counting(falls=1), check_actions=True)
    assert (checked.distinct_states, checked.actions) == (plain.distinct_states, plain.actions)
    assert run(bound_model("counts/grow-one-to-two").protocol, check_actions=True).distinct_states == 338


# Random protocols


def found(description: Description, order: Search, **more: Any) -> tuple[ReferenceSearch, Result]:
    protocol = description.build()
    engine = ReferenceSearch(protocol, replace(description.options(protocol, order), **more))
    return engine, engine.run()


def transitions_one_by_one(semantics: Semantics, state: State) -> Counter[tuple[Any, ...]]:
    """Return the transitions of a state, with nothing remembered: every candidate is called."""
    taken: Counter[tuple[Any, ...]] = Counter()
    for action, actor, message in semantics.candidates(state):
        me = state.replicas[actor] if actor is not None else None
        for step in call_action(semantics.protocol, action, me, message, semantics.context(state, action, {})):
            target = semantics.apply(state, actor, message, step)
            if isinstance(target, State):
                taken[action.name, actor, message, encode(target)] += 1
    for key, inbox in state.inboxes.items():
        for step in semantics.network.own_steps(inbox):
            spent = semantics.apply(state, None, None, Step(spends=step.spends))
            if isinstance(spent, State):
                after = spent.but(
                    inboxes=state.inboxes.without(key)
                    if step.inbox == semantics.network.empty
                    else state.inboxes.put(key, step.inbox)
                )
                taken[step.action, key, step.message, encode(after)] += 1
    return taken


def as_counted(transitions: Iterator[Transition]) -> Counter[tuple[Any, ...]]:
    return Counter((t.action, t.actor, t.message, encode(t.target)) for t in transitions)


@pytest.mark.parametrize("examples", sizes(3, 25))
def test_breadth_and_depth_first_agree(examples: int) -> None:
    @settings(max_examples=examples, suppress_health_check=list(HealthCheck))
    @given(st.randoms(use_true_random=False), st.sampled_from([(0, 0), (1, 0), (1, 1)]))
    def check(random: Random, limits: tuple[int, int]) -> None:
        description = replace(describe(random), limits=limits)
        assume(search(description, 400) is not None)
        wide, breadth = found(description, Search.BFS)
        deep, depth = found(description, Search.DFS)
        assert breadth.complete
        assert depth.complete
        assert depth.distinct_states == breadth.distinct_states
        assert depth.generated_states == breadth.generated_states
        assert depth.actions == breadth.actions
        assert deep.numbers.keys() == wide.numbers.keys()
        assert {v.property for v in depth.violations} == {v.property for v in breadth.violations}
        shortest = {v.property: len(v.trace) for v in breadth.violations}
        for engine, result in ((wide, breadth), (deep, depth)):
            for violation in result.violations:
                assert_behaviour(engine.protocol, violation.trace)
                assert len(violation.trace) >= shortest[violation.property]
        semantics = Semantics(wide.protocol)
        for state in list(wide.states())[:40]:
            assert as_counted(semantics.transitions(state)) == transitions_one_by_one(semantics, state)

    check()


@pytest.mark.slow
@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.randoms(use_true_random=False))
def test_symmetry_of_random_protocols_counts_orbits(random: Random) -> None:
    description = replace(describe(random), limits=(1, 0), constraints=(), action_constraints=())
    assume(description.symmetric)
    assume(search(replace(description, symmetric=True), 150) is not None)
    plain = replace(description, properties=())
    engine, result = found(plain, Search.BFS)
    assert result.distinct_states == orbits(engine.protocol, "everyone")


def test_a_description_makes_the_same_protocol_again() -> None:
    assert describe(Random(7)) == describe(Random(7))
    first, second = (list(sample(3, seed=40, large=50, most=500)) for _ in range(2))
    assert [(s.description, s.result.distinct_states) for s in first] == [
        (s.description, s.result.distinct_states) for s in second
    ]


@pytest.mark.exhaustive
def test_random_protocols_exercise_the_language() -> None:
    samples = [(taken.result.distinct_states, taken.features) for taken in sample(300)]
    sizes = [size for size, _ in samples]
    assert sum(size >= 1000 for size in sizes) >= 150
    assert max(sizes) <= 6000
    times = Counter(feature for _, features in samples for feature in features)
    assert {feature: times[feature] for feature in FEATURES if times[feature] < 30} == {}


@pytest.mark.slow
def test_a_small_search_leaves_frozen_what_was() -> None:
    """Else each later garbage collection traverses all that a process froze before."""
    gc.freeze()
    frozen = gc.get_freeze_count()
    assert explore(TwoPhaseCommit(resource_managers=HOSTS)).distinct_states > 100
    assert gc.get_freeze_count() > frozen / 2


class Lamp(Record):
    id: int
    is_on: bool = False


class Lamps(Protocol):
    """Each assignment of lamps is an initial state."""

    def initial(self) -> Iterator[State]:
        for lit in product((False, True), repeat=5):
            yield self.start(map(Lamp, range(5), lit))

    @internal
    def switch(self, me: Lamp) -> Steps:
        yield become(me.but(is_on=not me.is_on))


def test_what_initial_states_have_in_common_is_noted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The time to check the initial states is in proportion to their number."""
    protocol, looked = Lamps(), list[Any]()
    monkeypatch.setattr(Lamps, "_check_views", lambda _, shared: looked.append(shared))
    assert len(protocol.checked_initial()) == 32
    assert protocol.id_types == (int,)
    assert protocol.replica_types == {number: {Lamp} for number in range(5)}
    assert len(looked) == 1


class Peer(Record):
    id: ModelValue
    seen: frozenset[ModelValue] = frozenset()
    last: ModelValue | None = None


class Common(Record):
    value: bool | int | None = None
    last: ModelValue | None = None


class Peers(Protocol):
    peers: frozenset[ModelValue] = constant("Peers")
    symmetries = {"Symmetry": ("peers",)}
    network = None

    def initial(self) -> Iterator[State]:
        yield self.start(map(Peer, ordered(self.peers)), Common())


def test_the_key_of_an_orbit_tells_apart_what_no_permutation_maps_to_each_other() -> None:
    """Keys are put together from memoized parts: equal where the least encodings are, for each order of the asking."""
    names = [ModelValue(f"n{number}", number) for number in range(3)]
    protocol = Peers(peers=frozenset(names))
    group = permutation_group(protocol.symmetry_sets("Symmetry"))
    (start,) = protocol.initial()
    sets = [frozenset[ModelValue](), frozenset(names[:1]), frozenset(names[1:])]
    states = [
        start.but(replicas=start.replicas.put(name, Peer(name, seen, last)), shared=Common(value, other))
        for name, seen, last in product(names, sets, [None, names[0]])
        for value, other in product((None, True, 1, False, 0), [None, names[2]])
    ]
    identity = canonicalizer(protocol, "Symmetry", None)
    least = [min(encode(permute_model_values(state, one)) for one in group) for state in states]
    keys = [identity(state) for state in states]
    assert len(set(keys)) == len(set(least)) == len(set(zip(keys, least, strict=True)))
    again = canonicalizer(protocol, "Symmetry", None)
    assert [again(state) for state in reversed(states)] == keys[::-1]
