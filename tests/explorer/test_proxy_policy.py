"""A property of one replica is memoized by the fields that it reads, while that serves many replicas."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast

import pytest

from kraftcheck import check
from kraftcheck.explorer.result import Verdict
from kraftcheck.explorer.tables.learning.decision_trees import CALLS_TO_JUDGE_PROXIES, ReadProxyPolicy
from kraftcheck.spec import Protocol, Record, State, Steps, become, internal, invariant

pytestmark = pytest.mark.kernel

MOST = 6 * CALLS_TO_JUDGE_PROXIES


class Counter(Record):
    """Something that counts."""

    id: int
    count: int = 0
    is_high: bool = False


class World(Record):
    """Nothing is shared."""

    day: int = 0


class Counting(Protocol):
    """One replica counts."""

    least_bad: int = 2 * MOST

    def initial(self) -> Iterator[State]:
        """It begins at 0."""
        yield self.start([Counter(1)], World())

    @internal
    def count(self, me: Counter) -> Steps:
        """Count."""
        if me.count < MOST:
            yield become(me.but(count=me.count + 1, is_high=me.count > CALLS_TO_JUDGE_PROXIES))

    @invariant
    def few_fields_matter(self, me: Counter) -> bool:
        given["one field"].append(me)
        return me.is_high in (False, True)

    @invariant
    def every_number_matters(self, me: Counter) -> bool:
        given["the number"].append(me)
        return me.count < self.least_bad

    @invariant
    def one_field_and_the_world(self, me: Counter, shared: World) -> bool:
        return shared.day == 0 and me.is_high in (False, True)


given: dict[str, list[Any]] = {}


@pytest.fixture(autouse=True)
def nothing_given() -> None:
    given.update({"one field": [], "the number": []})


def test_a_property_that_reads_one_field_is_asked_once_for_each_of_its_values() -> None:
    result = check(Counting(), deadlock=False, engine="tables")
    assert (result.verdict, result.distinct_states) == (Verdict.OK, MOST + 1)
    assert len(given["one field"]) == 1 + 2  # first of the state at the start, as it is


def test_a_property_that_differs_everywhere_is_given_whole_replicas() -> None:
    check(Counting(), deadlock=False, engine="tables")
    kinds = [type(one) is Counter for one in given["the number"]]
    assert not any(kinds[1:CALLS_TO_JUDGE_PROXIES])
    assert all(kinds[-CALLS_TO_JUDGE_PROXIES:])
    assert len(kinds) <= MOST + 1 + 2 * CALLS_TO_JUDGE_PROXIES  # hardly any number is asked about again


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    "least_bad",
    [
        1,
        CALLS_TO_JUDGE_PROXIES - 1,
        CALLS_TO_JUDGE_PROXIES,
        CALLS_TO_JUDGE_PROXIES + 1,
        CALLS_TO_JUDGE_PROXIES + 2,
        3 * CALLS_TO_JUDGE_PROXIES,
        MOST,
    ],
)
def test_what_it_says_is_the_same(least_bad: int) -> None:
    class Bad(Counting):
        pass

    Bad.least_bad = least_bad
    results = [check(Bad(), deadlock=False, engine=engine) for engine in ("tables", "reference")]
    assert [one.violations[0].property for one in results] == ["EveryNumberMatters"] * 2
    assert [len(one.violations[0].trace) for one in results] == [least_bad + 1] * 2


def test_what_is_given_whole_stays_so_when_there_are_many_more_replicas() -> None:
    """Else fields would be asked about where the whole replica was, which looks as if the property were not pure."""
    known, forgotten = SimpleNamespace(locals=[None], protocol=Counting()), []
    how = ReadProxyPolicy(cast(Any, known), cast(Any, SimpleNamespace(forget=forgotten.append)))
    how.misses[7], matters = 0, cast(Any, SimpleNamespace(name="matters", method_name="matters"))
    assert [how.of(7, matters) for _ in range(CALLS_TO_JUDGE_PROXIES)] == [(True, True)] * CALLS_TO_JUDGE_PROXIES
    assert how.of(7, matters) == (True, False)
    known.locals *= 8 * CALLS_TO_JUDGE_PROXIES
    assert how.of(7, matters) == (True, False)
    assert forgotten == [7]
    how.opaque.add("matters")
    assert how.of(7, matters) == (False, False)
    assert forgotten == [7, 7]
