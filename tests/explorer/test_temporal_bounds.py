"""Temporal properties where bounds end behaviours, or a VIEW leaves bounds out: no wrong "holds", no traceback."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from kraftcheck.explorer import reference
from kraftcheck.explorer.graph import search_with_graph
from kraftcheck.explorer.result import Result, SearchRequest, Verdict
from kraftcheck.explorer.tables import engine as tables
from kraftcheck.spec import (
    Fairness,
    Formula,
    InputError,
    Map,
    Protocol,
    Record,
    State,
    Step,
    Steps,
    always,
    anywhere,
    at,
    become,
    bound,
    enabled,
    eventually,
    everywhere,
    hide,
    infinitely_often,
    internal,
    predicate,
    projection,
    reachable,
    strong,
    taken,
    temporal,
    weak,
)
from kraftcheck.spec.language.declarations import Property

ENGINES = [
    pytest.param(reference.explore, id="reference"),
    pytest.param(tables.explore, id="tables", marks=pytest.mark.kernel),
]


class Walker(Record):
    id: int | str
    at: int = 0


class Nothing(Record):
    pass


class Rounds(Protocol):
    """A walker goes round and round; each step is counted, and nothing else grows."""

    tries: int = bound("MaxTries", default=11)
    views = {"again": hide("tries")}

    def initial(self) -> Iterator[State]:
        yield self.start([Walker(1)], Nothing())

    @internal
    def go(self, me: Walker) -> Steps:
        yield become(me.but(at=(me.at + 1) % 10)).spend("tries")

    @predicate
    def at_five(self, me: Walker) -> bool:
        return me.at == 5

    @predicate
    def at_nine(self, me: Walker) -> bool:
        return me.at == 9

    @predicate
    def seldom_at_nought(self, me: Walker, spent: Map[str, int]) -> bool:
        return me.at != 0 or spent["tries"] == 0

    @predicate
    def seldom_in_the_end(self, state: State) -> bool:
        return state.replicas[1].at != 0 or state.spent["tries"] == 0

    @predicate
    def seldom_by_default(self, me: Walker, spent: Map[str, int]) -> bool:
        return me.at != 0 or spent.get("tries", 0) == 0

    @predicate
    def seldom_in_sum(self, me: Walker, spent: Map[str, int]) -> bool:
        return me.at != 0 or sum(spent.values()) == 0


def checked(explore: Any, protocol: Protocol, formula: Formula, *fairness: Fairness, **more: Any) -> Result:
    prop = Property("Claim", "temporal", lambda protocol: formula, (), fairness=fairness)
    found: Result = explore(protocol, SearchRequest(deadlock=False, temporal=(prop,), **more))
    return found


@pytest.mark.parametrize("explore", ENGINES)
def test_a_counterexample_that_spends_more_than_there_is_says_so(explore: Any) -> None:
    protocol = Rounds()
    nine, five = anywhere(protocol.at_nine), anywhere(protocol.at_five)
    twice_round = ~eventually(nine & eventually(five & eventually(nine & infinitely_often(five))))
    with pytest.raises(InputError, match=r"Claim is violated, but its behaviour spends .* more than MaxTries = 11"):
        checked(explore, protocol, twice_round, weak("Go"), view="again")
    found = checked(explore, Rounds(tries=40), twice_round, weak("Go"), view="again")
    assert found.verdict is Verdict.VIOLATION


@pytest.mark.parametrize("explore", ENGINES)
def test_a_bound_that_is_used_up_is_seen_without_a_predicate(explore: Any) -> None:
    for formula in (always(~taken("Go")), infinitely_often(taken("Go")), eventually(enabled("Go"))):
        with pytest.raises(InputError, match="VIEW again leaves out MaxTries, and a state has nothing of it left"):
            checked(explore, Rounds(tries=2), formula, weak("Go"), view="again")


@pytest.mark.parametrize("explore", ENGINES)
def test_a_predicate_that_reads_what_a_view_leaves_out_is_refused(explore: Any) -> None:
    protocol = Rounds()
    for prop in (
        protocol.seldom_at_nought,
        protocol.seldom_in_the_end,
        protocol.seldom_by_default,
        protocol.seldom_in_sum,
    ):
        assert checked(explore, protocol, always(prop)).verdict is Verdict.VIOLATION
        with pytest.raises(InputError, match="reads tries, which VIEW again leaves out: it is evaluated"):
            checked(explore, protocol, always(prop), view="again")


class Leaping(Rounds):
    """Leaves the round by a step that is counted twice."""

    @internal
    def leave(self, me: Walker) -> Steps:
        if me.at == 1:
            yield become(me.but(at=42)).spend("tries", "tries")

    @reachable
    def may_be_outside(self, me: Walker) -> bool:
        return me.at != 1


@pytest.mark.parametrize("explore", ENGINES)
def test_less_is_left_than_a_step_spends(explore: Any) -> None:
    class Short(Leaping):
        @internal
        def go(self, me: Walker) -> Steps:
            if me.at < 6:
                yield become(me.but(at=(me.at + 1) % 2)).spend(*["tries"] * (me.at == 0))

    seen = always(~anywhere(Short().at_nine) & enabled("Go"))
    assert checked(explore, Short(tries=3), seen).verdict is Verdict.VIOLATION
    assert checked(explore, Short(tries=5), seen, view="again").verdict is Verdict.VIOLATION
    message = r"leaves out MaxTries, and a state has less than a step spends \(2\) of it left"
    with pytest.raises(InputError, match=message):
        checked(explore, Short(tries=2), seen, view="again")
    prop = Short().properties["MayBeOutside"]
    with pytest.raises(InputError, match=message):
        explore(Short(tries=2), SearchRequest(deadlock=False, reachable=(prop,), view="again"))


class Crashing(Protocol):
    """Works, or does not after a crash, and never stands still."""

    crashes: int = bound("MaxCrashes", default=1)
    specifications = {"Spec": (weak("Next"),)}

    def initial(self) -> Iterator[State]:
        yield self.start([Walker(1)], Nothing())

    @internal
    def work(self, me: Walker) -> Steps:
        if me.at < 2:
            yield become(me.but(at=1 - me.at))

    @internal
    def wander(self, me: Walker) -> Steps:
        if me.at >= 2:
            yield become(me.but(at=5 - me.at))

    @internal
    def crash(self, me: Walker) -> Steps:
        if me.at < 3:
            yield become(me.but(at=2 if me.at < 2 else 0)).spend("crashes")

    @predicate
    def works(self, me: Walker) -> bool:
        return me.at < 2


@pytest.mark.parametrize("explore", ENGINES)
@pytest.mark.parametrize("crashes", [1, 2])
def test_what_a_bound_alone_keeps_back_is_enabled(explore: Any, crashes: int) -> None:
    protocol = Crashing(crashes=crashes)
    works = infinitely_often(anywhere(protocol.works))
    (violation,) = checked(explore, protocol, works, weak("Next")).violations
    assert violation.loop is not None
    assert [step.action for step in violation.trace] == [None, "Crash", "Wander"]
    assert violation.loop.kept == ("WF(Next) is taken",)
    # not enabled in every other state without bounds either, so weak fairness asks for nothing, and strong does
    for fair, verdict in ((weak("Crash"), Verdict.VIOLATION), (strong("Crash"), Verdict.OK)):
        again = checked(explore, protocol, works, weak("Wander"), fair)
        assert again.verdict is verdict


class Resetting(Protocol):
    """A walker, and another that may set it back."""

    resets: int = bound("MaxResets")

    def initial(self) -> Iterator[State]:
        yield self.start([Walker(1), Walker(2, 5)], Nothing())

    @projection
    def walkers(self, me: Walker) -> Walker:
        return me

    @internal
    def walk(self, me: Walker) -> Steps:
        if me.at < 2:
            yield become(me.but(at=1 - me.at))

    @internal(reads=walkers)
    def reset(self, me: Walker, walkers: Map[int, Walker]) -> Steps:
        if me.at == 5:
            yield Step().write(walkers[1].but(at=0)).spend("resets")


@pytest.mark.parametrize("explore", ENGINES)
def test_a_write_of_the_old_value_is_no_step_that_a_bound_keeps_back(explore: Any) -> None:
    protocol = Resetting(resets=1)
    for formula, verdict in ((eventually(enabled("Reset")), Verdict.OK), (always(enabled("Reset")), Verdict.VIOLATION)):
        assert checked(explore, protocol, formula, weak("Walk")).verdict is verdict


class Alike(Protocol):
    """Two walkers whose ids are written in the same way, and predicates given values that are."""

    def initial(self) -> Iterator[State]:
        yield self.start([Walker(1, 0), Walker("1", 1)], Nothing())

    @predicate
    def is_up(self, me: Walker) -> bool:
        return me.at == 1

    @predicate(given=["who"])
    def is_up_if_it_is(self, me: Walker, who: int | str) -> bool:
        return me.at == 1 or me.id != who

    @predicate(given=["first", "second"])
    def is_x(self, first: str, second: str) -> bool:
        return first == "x" and second != ""

    @internal
    def rest(self, me: Walker) -> Steps:
        yield become(me)


@pytest.mark.parametrize("explore", ENGINES)
def test_values_that_are_written_alike_are_told_apart(explore: Any) -> None:
    protocol = Alike()
    for true, false in (
        (at("1", protocol.is_up), at(1, protocol.is_up)),
        (protocol.is_up_if_it_is.of(who="1"), protocol.is_up_if_it_is.of(who=1)),
        (protocol.is_x.of(first="x", second="y, z"), protocol.is_x.of(first="x, y", second="z")),
    ):
        assert checked(explore, protocol, always(true) & always(false)).verdict is Verdict.VIOLATION
        assert checked(explore, protocol, always(false) | always(~true)).verdict is Verdict.VIOLATION
        assert checked(explore, protocol, always(true) & always(~false)).verdict is Verdict.OK


@pytest.mark.parametrize("explore", ENGINES)
def test_fairness_may_come_one_by_one(explore: Any) -> None:
    class Busy(Rounds):
        @temporal(fairness=(weak(name) for name in ("Go",)))
        def moves_on(self) -> Formula:
            return eventually(~everywhere(self.at_nine) & enabled("Go") & taken("Go"))

    protocol = Busy()
    found = explore(protocol, SearchRequest(deadlock=False, temporal=(protocol.properties["MovesOn"],)))
    assert found.verdict is Verdict.OK


class Failing(Rounds):
    """A predicate fails in one state."""

    @predicate
    def never_seven(self, me: Walker) -> bool:
        assert me.at != 7
        return True

    @predicate
    def never_seven_in_all(self, state: State) -> bool:
        assert state.replicas[1].at != 7
        return True


@pytest.mark.parametrize("explore", ENGINES)
@pytest.mark.parametrize("name", ["never_seven", "never_seven_in_all"])
def test_an_assert_that_fails_in_a_predicate_comes_with_the_behaviour_that_leads_there(explore: Any, name: str) -> None:
    protocol = Failing()
    found = checked(explore, protocol, always(getattr(protocol, name)))
    assert found.verdict is Verdict.ASSERTION
    (violation,) = found.violations
    assert [step.state.replicas[1].at for step in violation.trace] == list(range(8))
    if name == "never_seven":
        (violation,) = checked(explore, protocol, always(~anywhere(protocol.never_seven))).violations
        assert violation.property == "not NeverSeven"


def test_a_search_that_an_assert_ends_still_has_a_graph() -> None:
    class Stopping(Rounds):
        @internal
        def stop(self, me: Walker) -> Steps:
            assert me.at != 3
            yield become(me)

    result, graph = search_with_graph(Stopping(), SearchRequest(deadlock=False))
    assert (result.verdict, graph.number_of_nodes()) == (Verdict.ASSERTION, 4)
    assert [(v, w) for v, w in graph.edges() if v != w] == [(1, 2), (2, 3), (3, 4)]
