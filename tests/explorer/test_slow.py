"""Properties and constraints that read whole states: the table engine evaluates them as the reference engine does."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

import pytest

from kraftcheck.explorer import reference
from kraftcheck.explorer.result import Result, Search, SearchRequest, Verdict
from kraftcheck.explorer.tables import engine, python_checks, violation_checker
from kraftcheck.explorer.tables.python_checks import non_local_reason, partition_properties
from kraftcheck.explorer.tables.violation_checker import CallGrowthWarnings
from kraftcheck.spec import (
    Bag,
    Protocol,
    Record,
    State,
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
    projection,
)
from kraftcheck.spec.errors import RaisedError
from kraftcheck.spec.values import field_names

pytestmark = pytest.mark.kernel


class Node(Record):
    id: int
    place: int = 0
    heard: frozenset[int] = frozenset()


class Note(Record):
    source: int
    dest: int
    number: int


class Shared(Record):
    pass


class Notes(Protocol):
    """Three nodes go round a circle, and write to the next one where they are."""

    notes: int = bound("Notes", default=1)
    network = Bag()

    def initial(self) -> Iterator[State]:
        yield self.start([Node(1), Node(2), Node(3)], Shared())

    @internal
    def move(self, me: Node) -> Steps:
        yield become(me.but(place=(me.place + 1) % 4))

    @internal
    def write(self, me: Node) -> Steps:
        yield become(me).send(Note(me.id, me.id % 3 + 1, me.place)).spend("notes")

    @on(Note)
    def read(self, me: Node, note: Note) -> Steps:
        yield consume(me.but(heard=me.heard | {note.number}))

    @projection
    def waiting(self, messages: tuple[Note, ...]) -> int:
        return len(messages)

    @invariant
    def of_state(self, state: State) -> bool:
        return len(state.inboxes) < 9 and sum(node.place for node in state.replicas.values()) < 9

    @invariant
    def of_message_and_me(self, me: Node, message: Note) -> bool:
        return message.number != 3 or me.place != 3 or not me.heard

    @invariant(reads=waiting)
    def of_inboxes(self, waiting: dict[int, int]) -> bool:
        return sum(waiting.values()) < 2

    @invariant
    def of_message(self, message: Note) -> bool:
        return message.number < 3

    @invariant
    def of_replica(self, me: Node) -> bool:
        return len(me.heard) < 2

    @constraint
    def few_away(self, state: State) -> bool:
        return len(state.inboxes) < 9 and sum(node.place for node in state.replicas.values()) < 5

    @constraint
    def not_far(self, me: Node) -> bool:
        return me.place < 3

    @action_constraint
    def not_back(self, before: Node, after: Node) -> bool:
        return after.place >= before.place


PROTOCOL = Notes()
SLOW = ("OfState", "OfMessageAndMe", "OfInboxes")
CONSTRAINED = [
    ((), ()),
    (("FewAway",), ()),
    (("NotFar",), ()),
    ((), ("NotBack",)),
    (("FewAway", "NotFar"), ("NotBack",)),
]


def named(*names: str) -> tuple:
    return tuple(PROTOCOL.properties[name] for name in names)


def both(options: SearchRequest, protocol: Protocol = PROTOCOL) -> tuple[Result, Result]:
    return reference.explore(protocol, options), engine.explore(protocol, options)


def test_what_is_slow_and_why() -> None:
    reasons = {name: non_local_reason(prop) for name, prop in PROTOCOL.properties.items()}
    assert reasons == {
        "OfState": "whole states",
        "OfMessageAndMe": "messages together with me",
        "OfInboxes": "whole inboxes",
        "OfMessage": None,
        "OfReplica": None,
        "FewAway": "whole states",
        "NotFar": None,
        "NotBack": None,
    }
    many = named("OfReplica") * 50 + named("OfMessage") * 50
    assert partition_properties(SearchRequest(properties=many)).non_local  # the tables have no room for all of them


@pytest.mark.sampled(3)
@pytest.mark.parametrize("search", [Search.BFS, Search.DFS])
@pytest.mark.parametrize(("constraints", "action_constraints"), CONSTRAINED)
def test_counts_and_violations(search, constraints, action_constraints) -> None:
    options = SearchRequest(
        search, named(*SLOW, "OfMessage", "OfReplica"), named(*constraints), named(*action_constraints),
        deadlock=False, keep_going=True,
    )  # fmt: skip
    expected, found = both(options)
    for key in ("verdict", "distinct_states", "generated_states", "depth", "actions", "complete"):
        assert getattr(found, key) == getattr(expected, key), key
    assert {v.property for v in found.violations} == {v.property for v in expected.violations}
    if search is Search.BFS:
        lengths = [{v.property: len(v.trace) for v in result.violations} for result in (found, expected)]
        assert lengths[0] == lengths[1]
    for violation in found.violations:
        semantics = reference.ReferenceSearch(PROTOCOL, options).semantics
        assert not semantics.holds(PROTOCOL.properties[violation.property], violation.trace[-1].state)
        for before, after in zip(violation.trace, violation.trace[1:], strict=False):
            taken = [(t.action, t.actor, t.message, t.target) for t in semantics.transitions(before.state)]
            assert (after.action, after.actor, after.message, after.state) in taken


class Pairs(Notes):
    """The invariant raises an error for one pair, where `raises` says so."""

    raises: bool = constant("Raises", default=False)

    @invariant
    def of_pair(self, me: Node, message: Note) -> bool:
        evaluated.append((me, message))
        return 1 // (3 - message.number * self.raises) >= 0


evaluated: list[tuple[Node, Note]] = []


@pytest.mark.slow
@pytest.mark.parametrize("most", [1 << 20, pytest.param(1, marks=pytest.mark.slow)])
def test_a_pair_of_a_replica_and_a_message_is_evaluated_once(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(python_checks, "MOST_CACHED_PAIRS", most)
    protocol = Pairs(notes=2)
    options = SearchRequest(properties=(protocol.properties["OfPair"],), deadlock=False)
    evaluated.clear()
    found = engine.explore(protocol, options)
    of_tables = Counter(evaluated)
    evaluated.clear()
    assert found.distinct_states == reference.explore(protocol, options).distinct_states
    assert set(of_tables) == set(evaluated)
    assert (max(of_tables.values()) == 1) is (most > 1)
    times = of_tables.total() + 1  # and in the initial state, which has no message
    assert f"OfPair reads messages together with me: it was evaluated {times:,} times" in found.notes


def test_a_single_pair_violates_a_property_of_pairs() -> None:
    expected, found = both(SearchRequest(properties=named("OfMessageAndMe"), deadlock=False), Notes(notes=2))
    assert [len(one.trace) for one in found.violations] == [len(one.trace) for one in expected.violations] != []


def test_an_error_for_a_pair_of_a_replica_and_a_message_has_its_path() -> None:
    protocol = Pairs(notes=2, raises=True)
    options = SearchRequest(properties=(protocol.properties["OfPair"],), deadlock=False)
    paths = []
    for explore in (reference.explore, engine.explore):
        with pytest.raises(RaisedError, match="property OfPair raised ZeroDivisionError") as raised:
            explore(protocol, options)
        assert raised.value.trace is not None
        paths.append(len(raised.value.trace))
    assert paths[0] == paths[1]


class FalseThenRaising(Notes):
    """One message violates the invariant with node 1, and raises an error with node 3."""

    def initial(self) -> Iterator[State]:
        yield self.start([Node(1, 1), Node(2), Node(3)], Shared())

    @invariant
    def of_pair(self, me: Node, message: Note) -> bool:
        if me.id == 1 and message.number == 1:
            return False
        return 1 // (1 - (me.id == 3 and message.number == 1)) >= 0


def test_a_violation_before_an_error_is_reported() -> None:
    protocol = FalseThenRaising(notes=1)
    expected, found = both(SearchRequest(properties=(protocol.properties["OfPair"],), deadlock=False), protocol)
    assert [len(one.trace) for one in found.violations] == [len(one.trace) for one in expected.violations] == [2]


@pytest.mark.slow
@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", SLOW)
def test_the_counterexample_is_a_shortest_one(name) -> None:
    protocol = Notes(notes=2)
    expected, found = both(SearchRequest(properties=named(name), deadlock=False), protocol)
    assert found.verdict is Verdict.VIOLATION
    (violation,), (shown,) = found.violations, expected.violations
    assert (violation.property, len(violation.trace)) == (name, len(shown.trace))
    assert found.depth == expected.depth
    deepening = engine.explore(protocol, SearchRequest(Search.IDDFS, named(name), deadlock=False))
    assert len(deepening.violations[0].trace) == len(expected.violations[0].trace)


def test_bounded_depth_first_search_with_a_slow_constraint() -> None:
    for depth in (3, 6, 9):
        options = SearchRequest(Search.DFS, constraints=named("FewAway"), deadlock=False, max_depth=depth)
        expected, found = both(options)
        assert found.distinct_states == expected.distinct_states


def test_the_note_says_how_often() -> None:
    found = engine.explore(
        PROTOCOL, SearchRequest(properties=named("OfState"), deadlock=False, keep_going=True, max_depth=4)
    )
    (note,) = found.notes
    assert note.startswith("OfState reads whole states: it was evaluated ")
    evaluated = int(note.split()[-2])
    assert 0 <= evaluated - found.distinct_states <= len(field_names(State))  # again where it reads another part
    assert (
        engine.explore(PROTOCOL, SearchRequest(properties=named("OfReplica"), deadlock=False, max_depth=4)).notes == []
    )


@pytest.mark.slow
def test_the_limit_on_states_is_met_exactly() -> None:
    for search in (Search.BFS, Search.DFS):
        for number in (1, 2, 50, 1234):
            for checked in ((), ("OfState",)):
                options = SearchRequest(search, named(*checked), deadlock=False, keep_going=True, max_states=number)
                expected, found = both(options)
                assert (found.distinct_states, found.limit) == (number, "max_states")
                assert found.distinct_states == expected.distinct_states


def test_calls_that_grow_with_the_states_are_noted() -> None:
    growth = CallGrowthWarnings()
    for states in (1_000, 1_500, 2_000, 64_000):
        growth.sample(states, {"Grows": states, "Settles": 5_000, "Few": states // 1_000})
    assert growth.notes(128_000, {"Grows": 128_000, "Settles": 5_001, "Few": 128}) == [
        "Grows: 128,000 calls in Python, which grow with the number of states, since its inputs hardly repeat; "
        "see docs/fast.md"
    ]
    assert growth.notes(1_000, {"Grows": 9_000}) == []
    assert replace(SearchRequest(), workers=1).workers == 1


def test_a_note_names_the_calls_that_more_workers_do_not_shorten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(violation_checker, "LONG_LEARNING_SECONDS", 0.001)
    searches = [replace(SearchRequest(), deadlock=False, workers=workers) for workers in (1, 2)]
    alone, together = [engine.explore(PROTOCOL, options).notes for options in searches]
    assert alone == []
    assert re.fullmatch(r"learning \(most calls: \w+\) took \d+% of the time; more workers do not .*", *together)
