"""The symbolic engine finds what the reference engine finds, on random protocols and on the shipped ones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from random import Random

import pytest

from kraftcheck.explorer.reference import explore as explore_by_reference
from kraftcheck.explorer.result import Search, SearchRequest, Verdict
from kraftcheck.explorer.symbolic.diagram_store import DiagramStore
from kraftcheck.explorer.symbolic.engine import SymbolicSearch, explore
from kraftcheck.explorer.symbolic.kernel.diagram import CALL_AT_TICK, META_STACK_TOP, find_or_add_node
from kraftcheck.kraft_model.reconfig import Reconfig
from kraftcheck.spec import Record, State, Step, Steps, become, hide, internal, step_invariant
from kraftcheck.spec.errors import InputError
from kraftcheck.spec.language.protocol import Protocol
from tests.support.explorer.random_protocols import describe
from tests.support.explorer.symbolic import MOST, SEARCHES, agree, found
from tests.support.kraft_model.searches import bound as configured
from tests.support.tlc import bound, expected

pytestmark = pytest.mark.kernel


@pytest.mark.slow
def test_random_protocols() -> None:
    seen = agree(2)
    assert seen == {"run": 2}


@pytest.mark.slow
def test_what_is_learned_in_a_level_is_not_forgotten_in_the_next() -> None:
    """Here a breadth-first search that kept products of the level before missed states."""
    assert agree(1, 1_133) == {"run": 1}


@pytest.mark.parametrize(
    "count", [pytest.param(10, marks=pytest.mark.slow(minutes=True)), pytest.param(300, marks=pytest.mark.exhaustive)]
)
def test_many_random_protocols(count: int) -> None:
    assert agree(count, 1_000) == {"run": count}


@pytest.mark.slow
def test_a_view_that_leaves_out_bounds() -> None:
    """It is equal to the reference engine's, or refused where what is left of a bound matters."""
    seen: Counter[str] = Counter()
    for seed in range(90):
        description = replace(describe(Random(seed)), symmetric=False, limits=(4, 4))
        protocol = description.build()
        options = replace(description.options(protocol), view="patient")
        theirs = explore_by_reference(protocol, replace(options, max_states=MOST // 3 + 1))
        if theirs.limit is None:
            try:
                ours = explore(protocol, options)
                assert found(ours, depth=True) == found(theirs, depth=True), description
                more = replace(options, view=None, max_states=theirs.distinct_states + 1)
                seen["smaller" if explore_by_reference(protocol, more).limit else "equal"] += 1
            except InputError as error:
                seen["refused"] += "has too little of it left" in str(error)
    assert all(seen[what] >= least for what, least in {"smaller": 2, "equal": 15, "refused": 5}.items()), seen


@pytest.mark.parametrize(
    ("view", "order", "named"),
    [
        ("less", "bfs", "VIEW less, which hides round: not supported by the engine symbolic; expected --engine tables"),
        ("patient", "saturation", "VIEW patient, which hides .*: not supported by --search saturation; "),
    ],
)
def test_a_view_that_cannot_be_seen_is_refused(view: str, order: str, named: str) -> None:
    protocol = describe(Random(1)).build()
    with pytest.raises(InputError, match=named):
        explore(protocol, SearchRequest(view=view, search=order))


def test_a_view_of_what_there_is_not() -> None:
    protocol = describe(Random(1)).build()
    protocol.views = {"far": hide("zz")}  # type: ignore[misc]
    with pytest.raises(InputError, match=r"views\['far'\]: unknown bound or shared field zz; "):
        explore(protocol, SearchRequest(view="far", search="bfs"))


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", ["two-voters", "two-voters-restart", "grow-one-to-two"])
@pytest.mark.parametrize("order", SEARCHES)
def test_counts_of_tlc(name: str, order: str) -> None:
    theirs = expected()[name]
    result = explore(bound(f"counts/{name}").protocol, SearchRequest(search=order, deadlock=False))
    assert result.verdict is Verdict.OK
    assert result.distinct_states == theirs["distinct_states"]
    assert result.depth == (theirs["depth"] if order == Search.BFS else None)


@pytest.mark.slow
def test_successors_that_are_there_make_no_nodes() -> None:
    """Made as sets of their own they were 11 nodes for each node of the result."""
    protocol = bound("counts/two-voters-two-elections").protocol
    search = SymbolicSearch(protocol, SearchRequest(search="saturation", deadlock=False))
    assert search.run().distinct_states == 10_634
    assert search.space is not None
    assert search.space.store.nodes_made < 9 * search.nodes


@pytest.mark.slow
@pytest.mark.parametrize(
    ("settings", "states"),
    [
        ((), 1_501_534),
        pytest.param(("Value={v1, v2}",), 24_147_385, marks=pytest.mark.exhaustive),
        (("MaxRestarts=1",), 46_201_166),
    ],
)
def test_three_voters(settings: tuple[str, ...], states: int) -> None:
    protocol = bound("counts/three-voters", Reconfig, *settings).protocol
    assert explore(protocol, SearchRequest(search="saturation", deadlock=False)).distinct_states == states


@pytest.mark.slow
def test_three_voters_breadth_first() -> None:
    result = explore(bound("counts/three-voters").protocol, SearchRequest(deadlock=False))
    assert (result.distinct_states, result.depth) == (1_501_534, 42)


@pytest.mark.slow
@pytest.mark.parametrize(("model", "states"), [("prevote", 60_972), ("registration", 44_685)])
def test_handlers_that_read_what_others_hold(model: str, states: int) -> None:
    given = configured(model, "default")
    assert explore(given.protocol, SearchRequest(search="saturation", deadlock=False)).distinct_states == states


@pytest.mark.slow
def test_garbage_collection_keeps_sets() -> None:
    store = DiagramStore(3, 1 << 26, lambda kind, a, b: 0 if kind == CALL_AT_TICK else -1)
    random = Random(1)
    vectors = {tuple(random.randrange(4) for _ in range(3)) for _ in range(40)}
    some = set(list(vectors)[:20])
    whole, part = store.set_of(vectors), store.set_of(some)
    store.set_of((a, 7, c) for a in range(50) for c in range(50))
    before = store.nodes
    store.roots["part"] = part
    whole, part = store.collect_garbage([whole, part])
    assert store.nodes < before
    assert store.roots == {"part": part}
    assert set(store.vectors(whole, (0, 1, 2))) == vectors
    assert store.count(store.difference(whole, part)) == len(vectors) - 20
    assert store.intersection(whole, part) == part
    assert store.union(part, store.difference(whole, part)) == whole


def test_counts_of_any_size() -> None:
    store = DiagramStore(60, 1 << 26, lambda kind, a, b: 0)
    node = 1
    for level in range(59, -1, -1):
        top = int(store.arrays.meta[META_STACK_TOP])
        store.arrays.scratch[top : top + 1000] = [value << 32 | node for value in range(1000)]
        node = int(find_or_add_node(store.arrays, level, top, 1000))
    assert store.count(node) == 1000**60


@pytest.mark.parametrize(
    ("asked", "named"),
    [
        ({"symmetry": "symmHosts"}, "symmHosts"),
        ({"max_states": 10}, "--max-states"),
        ({"max_depth": 10}, "--max-depth"),
    ],
)
def test_what_it_does_not_do_is_refused(asked: dict[str, object], named: str) -> None:
    options = replace(SearchRequest(search="saturation"), **asked)  # type: ignore[arg-type]
    with pytest.raises(InputError, match=named):
        explore(bound("counts/two-voters").protocol, options)


class Idler(Record):
    id: int
    woken: int = 0


class Nothing(Record):
    pass


class Idling(Protocol):
    """Two idlers that wake up twice; two of an idler's steps differ and change nothing."""

    def initial(self) -> Iterator[State]:
        yield self.start([Idler(1), Idler(2)], Nothing())

    @internal
    def idle(self, me: Idler) -> Steps:
        yield become(me)
        yield Step()

    @internal
    def wake(self, me: Idler) -> Steps:
        if me.woken < 2:
            yield become(me.but(woken=me.woken + 1))


@pytest.mark.parametrize("order", SEARCHES)
def test_steps_that_differ_and_do_the_same_are_counted_each(order: str) -> None:
    ours, theirs = explore(Idling(), SearchRequest(search=order)), explore_by_reference(Idling(), SearchRequest())
    assert found(ours, depth=False) == found(theirs, depth=False)
    assert ours.actions == {"Idle": 36, "Wake": 12}


class Player(Record):
    id: int
    moves: int = 0


class Board(Record):
    low: int = 0
    high: int = 0


class Playing(Protocol):
    """Two players move twice, each notes it on the board, and rest."""

    def initial(self) -> Iterator[State]:
        yield self.start([Player(1), Player(2)], Board())

    @internal
    def move(self, me: Player, shared: Board) -> Steps:
        if me.moves < 2:
            noted = {"low": shared.low + 1} if me.id == 1 else {"high": shared.high + 1}
            yield become(me.but(moves=me.moves + 1)).put(**noted)

    @internal
    def rest(self, me: Player) -> Steps:
        if me.moves == 2:
            yield become(me.but(moves=3))

    @step_invariant
    def rests_alone(self, before: Player, after: Player, shared: Board) -> bool:
        return after.moves < 3 or (shared.low, shared.high) != (2, 1)

    @step_invariant
    def rests_after_moving(self, before: Player, after: Player, shared: Board) -> bool:
        return after.moves < 3 or (shared.low if after.id == 1 else shared.high) == 2


@pytest.mark.parametrize("order", SEARCHES)
def test_steps_are_judged_by_what_is_shared_then(order: str) -> None:
    options = SearchRequest(properties=tuple(Playing().properties.values()), deadlock=False)
    ours, theirs = explore(Playing(), replace(options, search=order)), explore_by_reference(Playing(), options)
    assert found(ours, depth=False)["violations"] == found(theirs, depth=False)["violations"] == {"RestsAlone": 5}
