"""Sets within local states that are taken apart: they change nothing of what is found, but what it takes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import pytest

from kraftcheck import load
from kraftcheck.explorer.calls.proxies import SetProxy
from kraftcheck.explorer.reference import explore as explore_by_reference
from kraftcheck.explorer.result import SearchRequest
from kraftcheck.explorer.symbolic import variables
from kraftcheck.explorer.symbolic.engine import SymbolicSearch
from kraftcheck.explorer.symbolic.variables import OpaqueSetRequired, RefusingSetProxy
from kraftcheck.spec import Bag, Map, Protocol, Record, State, Step, bound, consume, internal, on, step_invariant
from kraftcheck.spec.examples.two_phase_commit import Phase, TransactionManager, TwoPhaseCommit
from kraftcheck.spec.language.state import Steps, become
from kraftcheck.spec.values import ModelValue
from tests.support.explorer.symbolic import SEARCHES, agree, found
from tests.support.sizes import sizes

pytestmark = pytest.mark.kernel


def managers(count: int) -> frozenset[ModelValue]:
    return frozenset(ModelValue(f"rm{number}", number) for number in range(count))


@pytest.fixture
def always_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take sets apart wherever that can be done, few as the local states may be."""
    for name, value in (
        ("FEWEST_VALUES_TO_EXPLODE", 1),
        ("FEWEST_SET_VALUES_TO_EXPLODE", 1),
        ("FEWEST_STATES_A_CORE", 0),
    ):
        monkeypatch.setattr(variables, name, value)


def searched(protocol: TwoPhaseCommit, **options: Any) -> SymbolicSearch:
    search = SymbolicSearch(protocol, SearchRequest(**{"deadlock": False, "search": "saturation"} | options))
    search.result = search.run()  # type: ignore[attr-defined]
    assert search.space is not None
    assert {field for _, field in search.space.variables.layout.exploded} == {"prepared"}
    return search


@pytest.mark.parametrize("count", sizes(5, 20))
def test_two_phase_commit_takes_the_time_of_its_managers(count: int) -> None:
    search = searched(TwoPhaseCommit(resource_managers=managers(count)))
    result = search.result  # type: ignore[attr-defined]
    assert result.distinct_states == 6**count + 4**count + 2**count
    assert search.nodes == 14 * count


@pytest.mark.slow
@pytest.mark.usefixtures("always_apart")
def test_a_search_with_sets_apart_is_gone_on_with(tmp_path: Path) -> None:
    protocol = TwoPhaseCommit(resource_managers=managers(6))
    stopped = searched(protocol, time_limit=1e-6, checkpoint=tmp_path).result  # type: ignore[attr-defined]
    assert (stopped.limit, stopped.distinct_states < 50_816) == ("time_limit", True)
    for _ in range(2):
        assert searched(protocol, resume=tmp_path).result.distinct_states == 50_816  # type: ignore[attr-defined]


class Hasty(TwoPhaseCommit):
    """The transaction manager commits when two are missing."""

    @internal
    def commit(self, me: TransactionManager) -> Steps:
        """Commit too early."""
        if me.phase is Phase.WORKING and len(self.resource_managers - me.prepared) <= 2:
            yield self._decide(me, Phase.COMMITTED)


class Forgetful(TwoPhaseCommit):
    """The transaction manager forgets who has prepared, and yields equal steps where nobody has."""

    @internal
    def forget(self, me: TransactionManager) -> Steps:
        """Forget all, or one."""
        if me.phase is not Phase.WORKING:
            return
        yield become(me.but(prepared=frozenset()))
        for one in self.resource_managers:
            yield become(me.but(prepared=me.prepared - {one}))


@pytest.mark.slow
@pytest.mark.usefixtures("always_apart")
@pytest.mark.parametrize("kind", [TwoPhaseCommit, Hasty, Forgetful])
def test_sets_apart_change_nothing(kind: type[TwoPhaseCommit]) -> None:
    protocol = kind(resource_managers=managers(3))
    properties = tuple(p for p in protocol.properties.values() if p.name in ("Consistent", "OutcomeIsFinal"))
    theirs = explore_by_reference(protocol, SearchRequest(properties=properties, deadlock=False, keep_going=True))
    for order in SEARCHES:
        ours = searched(protocol, properties=properties, search=order, keep_going=True).result  # type: ignore[attr-defined]
        assert found(ours, depth=order == "bfs") == found(theirs, depth=order == "bfs")


@pytest.mark.usefixtures("always_apart")
@pytest.mark.parametrize("count", sizes(None, 2, 40))
def test_random_protocols(count: int) -> None:
    assert agree(count, 5_000) == {"run": count}


def reads(random: Random) -> Iterator[Callable[[Any], object]]:
    """Yield what may be done with a set of numbers."""
    for _ in range(8):
        other = frozenset(random.sample(range(6), random.randrange(6)))
        yield from (
            lambda one, other=other: one | other,
            lambda one, other=other: other | one,
            lambda one, other=other: one - other,
            lambda one, other=other: other - one,
            lambda one, other=other: one & other,
            lambda one, other=other: other ^ one,
            lambda one, other=other: (one == other, one != other, other == one, one <= other, one >= other),
            lambda one, other=other: (one < other, one > other, other <= one, other < one, one == one | other),
            lambda one, other=other: (one.isdisjoint(other), other.issubset(one), one.issuperset(other)),
            lambda one, other=other: one.union(other, {7}).difference({1}).symmetric_difference(other),
            lambda one, other=other: (len(one), bool(one), sorted(one), hash(one), isinstance(one, frozenset)),
            lambda one, other=other: one == set(other) or one == tuple(other) or 3 in one,
            lambda one, other=other: {one: 1}.get(other),
        )


def test_a_reader_reads_like_the_set() -> None:
    random = Random(1)
    for _ in range(20):
        held = frozenset(random.sample(range(5), random.randrange(6)))
        for read in reads(random):
            reader = SetProxy(range(5), held.__contains__)
            more, less = frozenset({random.randrange(7)}), frozenset({random.randrange(5)})
            assert read(reader) == read(held)
            assert read((reader | more) - less) == read((held | more) - less)


def test_a_comparison_ends_with_what_decides_it() -> None:
    asked: list[int] = []

    def has(element: int) -> bool:
        asked.append(element)
        return element < 2

    assert SetProxy(range(20), has) != frozenset(range(20))
    assert asked == [0, 1, 2]


@pytest.mark.parametrize(
    "use", [len, list, hash, str, lambda one: one == one, lambda one: 1 in one, lambda one: one | {1}]
)
def test_what_cannot_be_followed_is_refused(use: Callable[[Any], object]) -> None:
    with pytest.raises(OpaqueSetRequired):
        use(RefusingSetProxy("prepared"))


class Holder(Record):
    """A replica with a set."""

    id: int
    votes: frozenset[int] | None = frozenset()
    seen: bool = False


class Ask(Record):
    """A message."""

    dest: int


class Wanted(Record):
    """Who is wanted."""

    names: Map[int, int] = Map({2: 0, 3: 0})


class Holders(Protocol):
    """A replica gathers votes, and does with them what a reader of sets must follow, or refuse."""

    once: int = bound("Once", default=1)
    network = Bag()

    def initial(self) -> Iterator[State]:
        """It has none."""
        yield self.start([Holder(0)], Wanted())

    def votes_of(self, me: Holder) -> frozenset[int]:
        """Return the votes, which are never None here."""
        assert me.votes is not None
        return me.votes

    @internal
    def gather(self, me: Holder) -> Steps:
        """One more vote."""
        if me.votes is not None:
            for vote in range(4):
                if vote not in me.votes:
                    yield become(me.but(votes=me.votes | {vote}))


class WithKeys(Holders):
    """A set is compared with the keys of a map."""

    @internal
    def find(self, me: Holder, shared: Wanted) -> Steps:
        """Exactly those wanted are there."""
        if me.votes == shared.names.keys() and not me.seen:
            yield become(me.but(seen=True))


class WithNone(Holders):
    """Something else than a set comes to stand in the field."""

    @internal
    def drop(self, me: Holder) -> Steps:
        """No set at all."""
        if me.votes is not None and len(me.votes) == 4:
            yield become(me.but(votes=None))


class WithReceives(Holders):
    """Who has a vote receives."""

    def receives(self, me: Any, message: Any) -> bool:
        """Only with vote 1."""
        return 1 in self.votes_of(me)

    @internal
    def ask(self, me: Holder) -> Steps:
        """A message to oneself."""
        yield Step().send(Ask(0)).spend("once")

    @on(Ask)
    def hear(self, me: Holder, message: Ask) -> Steps:
        """Take it."""
        yield consume(me)


class WithStep(Holders):
    """A property asks what a step makes of the replica."""

    @internal
    def idle(self, me: Holder) -> Steps:
        """Two steps with the same effect, written in two ways."""
        if 3 in self.votes_of(me):
            yield Step().send(Ask(0)).spend("once")
            yield become(me).send(Ask(0)).spend("once")

    @step_invariant
    def always_changes(self, before: Holder, step: Step) -> bool:
        """False of a step without a next state."""
        return step.me != ()


@cache
def larger(votes: frozenset[int], vote: int) -> frozenset[int]:
    """What is remembered outlives the call in which it was made."""
    return votes | {vote}


class WithCache(Holders):
    """A helper remembers sets."""

    @internal
    def gather(self, me: Holder) -> Steps:
        """One more vote."""
        for vote in range(4):
            if vote not in self.votes_of(me):
                yield become(me.but(votes=larger(self.votes_of(me), vote)))


@pytest.mark.sampled(5)
@pytest.mark.usefixtures("always_apart")
@pytest.mark.parametrize("model", [WithKeys, WithNone, WithReceives, WithStep, WithCache])
def test_whatever_is_done_with_a_set(model: type[Holders]) -> None:
    larger.cache_clear()
    results = [
        load(model).check(engine=engine, keep_going=True, deadlock=False) for engine in ("symbolic", "reference")
    ]
    told = [
        (one.distinct_states, one.generated_states, sorted((v.property, len(v.trace)) for v in one.violations))
        for one in results
    ]
    assert told[0] == told[1]
