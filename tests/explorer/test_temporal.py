"""Temporal properties under fairness: both engines find what the definitions say."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations, product
from pathlib import Path
from random import Random
from typing import Any, Literal

import networkx as nx
import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from kraftcheck.explorer import reference
from kraftcheck.explorer.bytecode import engine as bytecode
from kraftcheck.explorer.result import Result, SearchRequest, Verdict
from kraftcheck.explorer.tables import engine as tables
from kraftcheck.explorer.tables import level_states, table_system
from kraftcheck.explorer.temporal.checking import automaton_of
from kraftcheck.persistence.stored_files import SpillArena
from kraftcheck.spec import (
    Fairness,
    Formula,
    InputError,
    Protocol,
    ProtocolError,
    Record,
    State,
    Steps,
    always,
    anywhere,
    at,
    become,
    bound,
    constraint,
    enabled,
    eventually,
    eventually_always,
    everywhere,
    hide,
    implies,
    infinitely_often,
    internal,
    leads_to,
    predicate,
    strong,
    taken,
    temporal,
    weak,
)
from kraftcheck.spec.language.declarations import Property
from kraftcheck.spec.language.formula import BooleanConstant, StatePredicate, Taken
from kraftcheck.spec.language.semantics import Semantics
from kraftcheck.traces.replay.claims import LassoFormulaEvaluator
from tests.support.explorer.lassos import require_counterexample
from tests.support.explorer.random_protocols import sample
from tests.support.sizes import sizes

ENGINES = [
    pytest.param(reference.explore, id="reference"),
    pytest.param(tables.explore, id="tables", marks=pytest.mark.kernel),
]
WITHOUT_BOUNDS = [*ENGINES, pytest.param(bytecode.explore, id="bytecode", marks=pytest.mark.kernel)]
Edge = tuple[int, str, int]


class Walker(Record):
    id: int
    at: int = 0


class Nothing(Record):
    pass


class Walk(Protocol):
    """One walker on a graph: `edges` are given to an instance."""

    edges: tuple[Edge, ...] = ()
    p_states: frozenset[int] = frozenset()
    q_states: frozenset[int] = frozenset()

    def initial(self) -> Iterator[State]:
        yield self.start([Walker(1)], Nothing())

    def follow(self, me: Walker, action: str) -> Steps:
        for source, name, target in self.edges:
            if (source, name) == (me.at, action):
                yield become(me.but(at=target))

    @internal
    def a(self, me: Walker) -> Steps:
        yield from self.follow(me, "A")

    @internal
    def b(self, me: Walker) -> Steps:
        yield from self.follow(me, "B")

    @predicate
    def p(self, me: Walker) -> bool:
        return me.at in self.p_states

    @predicate
    def q(self, me: Walker) -> bool:
        return me.at in self.q_states


def walk(edges: tuple[Edge, ...], p: frozenset[int] = frozenset(), q: frozenset[int] = frozenset()) -> Walk:
    found = Walk()
    found.edges, found.p_states, found.q_states = edges, p, q
    return found


def claim(formula: Formula, *fairness: Fairness, name: str = "Claim") -> Property:
    return Property(name, "temporal", lambda protocol: formula, (), fairness=fairness)


def checked(explore: Any, protocol: Protocol, formula: Formula, *fairness: Fairness, **more: Any) -> Result:
    options = SearchRequest(deadlock=False, temporal=(claim(formula, *fairness),), **more)
    result: Result = explore(protocol, options)
    for violation in result.violations:
        require_counterexample(protocol, options, violation)
    return result


CIRCLE = ((0, "A", 1), (1, "A", 0))
EXIT = (*CIRCLE, (1, "B", 2))


@pytest.mark.parametrize("explore", WITHOUT_BOUNDS)
@pytest.mark.parametrize(
    ("edges", "fairness", "holds"),
    [
        (CIRCLE, (), False),  # nobody need move
        (CIRCLE, (weak("A"),), False),  # it goes around for ever
        (EXIT, (weak("Next"),), False),
        (EXIT, (weak("B"),), False),  # which is not enabled all the time
        (EXIT, (strong("B"),), False),  # it may stay where it is
        (EXIT, (strong("B"), weak("A")), True),
        (EXIT, (weak("A", "B"),), False),  # one of them is taken
        (EXIT, (strong("Next"),), False),
    ],
)
def test_fairness_decides(explore: Any, edges: tuple[Edge, ...], fairness: tuple[Fairness, ...], holds: bool) -> None:
    protocol = walk(edges, p=frozenset({2}))
    found = checked(explore, protocol, eventually(anywhere(protocol.p)), *fairness)
    assert found.verdict is (Verdict.OK if holds else Verdict.VIOLATION)
    assert found.only_of_behaviours is not holds


@pytest.mark.parametrize("explore", WITHOUT_BOUNDS)
def test_a_counterexample_is_a_shortest_lasso(explore: Any) -> None:
    protocol = walk(((0, "A", 1), (1, "A", 2), (2, "A", 3), (3, "B", 2)), p=frozenset({1}))
    found = checked(explore, protocol, infinitely_often(anywhere(protocol.p)), weak("Next"))
    (violation,) = found.violations
    assert violation.loop is not None
    assert violation.loop.again is not None
    assert ([step.state.replicas[1].at for step in violation.trace], violation.loop.back_to) == ([0, 1, 2, 3], 3)
    assert violation.loop.kept == ("WF(Next) is taken",)
    stuck = checked(explore, protocol, infinitely_often(anywhere(protocol.p)))
    assert [len(one.trace) for one in stuck.violations] == [1]
    assert stuck.violations[0].loop == (1, None, (), ("A can be taken all the time, and need not be",))


@pytest.mark.parametrize("explore", WITHOUT_BOUNDS)
def test_what_never_happens_is_told_with_the_reason(explore: Any) -> None:
    protocol = walk((*CIRCLE, (1, "B", 2), (3, "C", 2)), p=frozenset({2}))
    found = checked(explore, protocol, eventually(anywhere(protocol.p)), weak("A"))
    assert [one.loop.never for one in found.violations if one.loop] == [
        ("B can be taken in state 2, and A by 1 undoes that",)
    ]
    other = walk(((0, "A", 1), (0, "B", 2)), p=frozenset({1}))
    (lost,) = checked(explore, other, infinitely_often(anywhere(other.p)), weak("Next")).violations
    assert lost.loop is not None
    assert [one.partition(":")[0] for one in lost.loop.never] == ["A is not enabled in state 2"]


@pytest.mark.parametrize("explore", WITHOUT_BOUNDS)
def test_what_some_versions_of_tlc_get_wrong(explore: Any) -> None:
    """Issues 201, 971 and 1037 of tlaplus."""
    turning = walk((*((n, "A", (n + 1) % 3) for n in range(3)), *((n, "B", m) for n in range(3) for m in range(3))))
    assert checked(explore, turning, infinitely_often(taken("A")), weak("A")).verdict is Verdict.OK
    either = walk(((0, "A", 1), (1, "B", 0)), p=frozenset({1}))
    is_true = anywhere(either.p)
    at_most_once = always(implies(is_true, always(implies(~is_true, always(~is_true)))))
    (violation,) = checked(explore, either, at_most_once).violations
    assert [step.state.replicas[1].at for step in violation.trace] == [0, 1, 0, 1]
    climbing = walk(((0, "B", 1), *((n, "A", n + 1) for n in range(1, 5))), frozenset({0}), frozenset({5}))
    settles = implies(anywhere(climbing.p), eventually_always(anywhere(climbing.q)))
    assert checked(explore, climbing, settles, weak("Next")).verdict is Verdict.OK


@pytest.mark.parametrize("explore", WITHOUT_BOUNDS)
def test_a_step_that_changes_nothing_is_none(explore: Any) -> None:
    protocol = walk(((0, "A", 0), (0, "B", 1)), p=frozenset({1}))
    assert checked(explore, protocol, eventually(anywhere(protocol.p)), weak("B")).verdict is Verdict.OK
    assert checked(explore, protocol, eventually(taken("A")), weak("A")).verdict is Verdict.VIOLATION
    assert checked(explore, protocol, eventually(enabled("A"))).verdict is Verdict.VIOLATION
    assert checked(explore, protocol, eventually(enabled("B"))).verdict is Verdict.OK


class Bounded(Protocol):
    """Tries, as often as a bound allows, and may win at any try; a counter of tries is all that grows."""

    tries: int = bound("MaxTries", default=3)
    views = {"again": hide("tries")}

    def initial(self) -> Iterator[State]:
        yield self.start([Walker(1)], Nothing())

    @internal(fair="weak")
    def retry(self, me: Walker) -> Steps:
        if me.at < 2:
            yield become(me.but(at=1 - me.at)).spend("tries")

    @internal(fair="strong")
    def win(self, me: Walker) -> Steps:
        if me.at == 1:
            yield become(me.but(at=2))

    @predicate
    def has_won(self, me: Walker) -> bool:
        return me.at == 2

    @temporal
    def somebody_wins(self) -> Formula:
        """Somebody wins."""
        return eventually(everywhere(self.has_won))

    @constraint
    def within(self, me: Walker) -> bool:
        return me.at == 0


def options_of(protocol: Protocol, **more: Any) -> SearchRequest:
    temporal = tuple(p for p in protocol.properties.values() if p.kind == "temporal")
    fairness = tuple(action.fairness for action in protocol.actions.values() if action.fairness)
    return SearchRequest(**{"deadlock": False, "temporal": temporal, "fairness": fairness} | more)


@pytest.mark.parametrize("explore", ENGINES)
def test_a_bound_alone_ends_no_fair_behaviour(explore: Any) -> None:
    protocol = Bounded(tries=2)
    assert explore(protocol, options_of(protocol)).verdict is Verdict.OK
    strict = explore(protocol, options_of(protocol, strict_bounds=True))
    (violation,) = strict.violations
    assert violation.loop is not None
    assert (len(violation.trace), violation.loop[:2]) == (3, (3, None))
    assert violation.loop.kept == ("WF(Retry) is never enabled", "SF(Win) is never enabled")
    (never,) = violation.loop.never
    assert never.startswith("Win is not enabled in state 3: 1: me.at != 1 (me.at = 0)")
    unfair = explore(protocol, options_of(protocol, fairness=()))
    assert [len(one.trace) for one in unfair.violations] == [1]


@pytest.mark.parametrize("explore", ENGINES)
def test_a_view_makes_a_cycle_of_what_a_counter_tells_apart(explore: Any) -> None:
    protocol = Bounded(tries=9)
    weak_only = (weak("Retry"),)
    apart = explore(protocol, options_of(protocol, fairness=weak_only))
    assert apart.verdict is Verdict.OK  # where nothing is left, a bound alone ends it
    (violation,) = explore(protocol, options_of(protocol, fairness=weak_only, view="again")).violations
    assert violation.loop is not None
    assert violation.loop.again is not None
    assert (len(violation.trace), violation.loop.back_to, violation.loop.again.action) == (2, 1, "Retry")


@pytest.mark.parametrize("explore", ENGINES)
def test_a_view_that_leaves_out_a_bound_that_is_used_up_is_refused(explore: Any) -> None:
    protocol = Bounded(tries=1)
    with pytest.raises(InputError, match="leaves out MaxTries, and a state has nothing of it left"):
        explore(protocol, options_of(protocol, view="again"))


@pytest.mark.parametrize("explore", ENGINES)
def test_a_behaviour_that_a_constraint_cuts_off_breaks_nothing(explore: Any) -> None:
    protocol = Bounded(tries=9)
    within = (protocol.properties["Within"],)
    found = explore(protocol, options_of(protocol, constraints=within))
    assert (found.verdict, found.distinct_states) == (Verdict.OK, 1)
    assert "1 states have steps beyond a constraint" in found.notes[0]


@pytest.mark.parametrize("explore", WITHOUT_BOUNDS)
def test_a_step_beyond_a_constraint_keeps_its_action_enabled(explore: Any) -> None:
    protocol = walk(EXIT, p=frozenset({0, 1}), q=frozenset({2}))
    within = (replace(protocol.properties["P"], kind="constraint"),)
    won = eventually(anywhere(protocol.q))
    assert checked(explore, protocol, won, strong("A")).verdict is Verdict.VIOLATION
    found = checked(explore, protocol, won, strong("A"), strong("B"), constraints=within)
    assert (found.verdict, found.distinct_states) == (Verdict.OK, 2)
    assert "1 states have steps beyond a constraint" in found.notes[0]
    assert checked(explore, protocol, won, strong("A"), constraints=within).verdict is Verdict.VIOLATION


class TwoStarts(Protocol):
    """Walkers 2 and 3 are only in the second initial state, and only walker 2 has a place where it can stay."""

    network = None

    def initial(self) -> Iterator[State]:
        yield self.start([Walker(1)], Nothing())
        yield self.start([Walker(2), Walker(3)], Nothing())

    @internal(fair="weak", each="replica")
    def move(self, me: Walker) -> Steps:
        yield become(me.but(at=1 - me.at))

    @predicate
    def moved(self, me: Walker) -> bool:
        return str(me.at).zfill(2) == "01"

    @predicate
    def exists(self, me: Walker) -> bool:
        return True

    @temporal
    def third_moves(self) -> Formula:
        return implies(at(3, self.exists), infinitely_often(at(3, self.moved)))


@pytest.mark.parametrize("explore", WITHOUT_BOUNDS)
def test_fairness_of_each_replica_distinguishes_those_of_later_initial_states(explore: Any) -> None:
    protocol = TwoStarts()
    assert explore(protocol, options_of(protocol)).verdict is Verdict.OK
    assert explore(protocol, options_of(protocol, fairness=())).verdict is Verdict.VIOLATION


class Word(Record):
    word: str = "x"


class Words(Protocol):
    """The predicate has an expression that the bytecode engine lets Python evaluate."""

    network = None

    def initial(self) -> Iterator[State]:
        yield self.start([Walker(1)], Word())

    @internal(fair="weak")
    def turn(self, me: Walker, shared: Word) -> Steps:
        yield become(me).put(word="x" if shared.word == "y" else "y")

    @predicate
    def is_x(self, shared: Word) -> bool:
        return shared.word.upper() == "X"

    @temporal
    def often_x(self) -> Formula:
        return infinitely_often(self.is_x)


@pytest.mark.parametrize("explore", WITHOUT_BOUNDS)
def test_a_predicate_may_ask_python(explore: Any) -> None:
    protocol = Words()
    assert explore(protocol, options_of(protocol)).verdict is Verdict.OK


class ChoosyWalk(Walk):
    def is_inside(self, me: Walker, message: None) -> bool:
        return me.at < 2


def test_what_the_bytecode_engine_cannot_decide_is_refused() -> None:
    bounded, choosy = Bounded(tries=2), ChoosyWalk()
    with pytest.raises(InputError, match="temporal properties with bounds"):
        bytecode.explore(bounded, options_of(bounded))
    assert bytecode.explore(bounded, options_of(bounded, strict_bounds=True)).verdict is Verdict.VIOLATION
    with pytest.raises(InputError, match="fairness with when="):
        checked(bytecode.explore, choosy, eventually(anywhere(choosy.p)), weak("A", when="is_inside"))


@pytest.mark.parametrize("explore", WITHOUT_BOUNDS)
def test_what_no_behaviour_could_break_is_noted(explore: Any) -> None:
    protocol = walk(CIRCLE, p=frozenset({7}))
    found = checked(explore, protocol, eventually(anywhere(protocol.p)) | ~eventually(anywhere(protocol.p)))
    assert found.notes == ["Claim: no behaviour of any protocol could violate it"]
    never = checked(explore, protocol, leads_to(anywhere(protocol.p), anywhere(protocol.q)), weak("Next"))
    assert "Claim: not P was never false" in never.notes


@pytest.mark.parametrize("explore", WITHOUT_BOUNDS)
@pytest.mark.parametrize(
    ("prop", "expected"),
    [
        (claim(eventually(enabled("C"))), "Claim: unknown action C; Walk has Next, A, B"),
        (claim(eventually(taken("A")), weak("C")), r"Claim, WF\(C\): unknown action C; Walk has Next, A, B"),
    ],
)
def test_actions_that_do_not_exist_are_named(explore: Any, prop: Property, expected: str) -> None:
    with pytest.raises(InputError, match=expected):
        explore(walk(CIRCLE), SearchRequest(temporal=(prop,)))


@pytest.mark.parametrize("explore", WITHOUT_BOUNDS)
def test_what_a_stutter_would_change_is_refused(explore: Any) -> None:
    for formula in (
        taken("A"),
        taken("A") & enabled("B"),
        always(taken("A")),
        always(taken("A") | enabled("B")),
        eventually(~taken("A")),
        always(implies(enabled("A"), taken("A"))),
    ):
        with pytest.raises(InputError, match=r"Claim: taken\(A\) is sensitive to stuttering here"):
            explore(walk(CIRCLE), SearchRequest(temporal=(claim(formula),)))
    for formula in (infinitely_often(taken("A")), always(~taken("A")), always(implies(taken("A"), enabled("B")))):
        explore(walk(CIRCLE), SearchRequest(temporal=(claim(formula),)))


def test_what_is_no_formula_is_named() -> None:
    protocol = walk(CIRCLE)
    wrong = Property("Claim", "temporal", lambda protocol: True, ())
    with pytest.raises(ProtocolError, match=r"test_temporal.py:\d+: temporal property Claim returned True; expected"):
        wrong.formula(protocol)
    for make, expected in (
        (lambda: always(len), "len is no formula"),
        (lambda: at(1, taken("A")), r"at\(...\) takes a @predicate"),
        (lambda: weak(), r"weak\(...\) takes the names of actions"),
        (lambda: weak("A", each="day"), 'expected "replica", "pair" or "message", found \'day\''),  # type: ignore[arg-type]
        (lambda: bool(taken("A")), "neither true nor false"),
        (lambda: protocol.p(Walker(1)), "predicate P belongs to formulas; here, call a method without a decorator"),
    ):
        with pytest.raises(ProtocolError, match=expected):
            make()


# Random graphs, straight from the definition

ATOMS = ("p", "q", "enabled", "taken")


def atom(protocol: Walk, name: str) -> Formula:
    known = {"p": lambda: anywhere(protocol.p), "q": lambda: anywhere(protocol.q)}
    return known[name]() if name in known else enabled("A") if name == "enabled" else taken("A")


def drawn_walk(random: Random) -> Walk:
    places = range(random.choice((2, 3)))
    every = list(product(places, "AB", places))
    edges = tuple(random.sample(every, random.randint(1, 5)))
    p, q = (frozenset(place for place in places if random.random() < 0.5) for _ in "pq")
    return walk(edges, p, q)


def drawn_fairness(random: Random, actions: tuple[str, ...] = ("A", "B", "Next")) -> tuple[Fairness, ...]:
    kinds: tuple[Literal["weak", "strong"], ...] = ("weak", "strong")
    return tuple(
        Fairness(random.choice(kinds), tuple(random.sample(actions, random.choice((1, 1, 2)))))
        for _ in range(random.choice((0, 1, 1, 2)))
    )


def is_violated(protocol: Walk, parts: list[tuple[str, str]], fairness: tuple[Fairness, ...]) -> bool:
    """Whether a fair run breaks a disjunction of "infinitely often" and "eventually always", over sets of edges.

    What is taken infinitely often is a strongly connected set of edges that can be reached; it decides both.
    """
    edges = {*protocol.edges, *((place, "", place) for place in range(4))}
    graph = nx.DiGraph((source, target) for source, _, target in edges)
    known = {0, *nx.descendants(graph, 0)}
    edges = {edge for edge in edges if edge[0] in known}
    moves = [edge for edge in edges if edge[0] != edge[2]]

    def ready(place: int, actions: tuple[str, ...]) -> bool:
        return any(e[0] == place and (e[1] in actions or "Next" in actions) for e in moves)

    def true(name: str, edge: Edge) -> bool:
        if name in ("enabled", "taken"):
            return ready(edge[0], ("A",)) if name == "enabled" else edge in moves and edge[1] == "A"
        return edge[0] in (protocol.p_states if name == "p" else protocol.q_states)

    for size in range(1, len(edges) + 1):
        for chosen in combinations(sorted(edges), size):
            if not nx.is_strongly_connected(nx.DiGraph((e[0], e[2]) for e in chosen)):
                continue
            places = {e[0] for e in chosen}
            if not all(
                any(e in moves and (e[1] in f.actions or "Next" in f.actions) for e in chosen)
                or not (all if f.kind == "weak" else any)(ready(place, f.actions) for place in places)
                for f in fairness
            ):
                continue
            if not any((any if when == "often" else all)(true(n, e) for e in chosen) for when, n in parts):
                return True
    return False


@pytest.mark.kernel
@pytest.mark.parametrize("examples", sizes(15, 250, 600))
def test_verdicts_are_those_of_the_definition(examples: int) -> None:
    seen = set()
    for seed in range(examples):
        random = Random(seed)
        protocol, fairness = drawn_walk(random), drawn_fairness(random)
        parts = [(random.choice(("often", "at last")), random.choice(ATOMS)) for _ in range(random.choice((1, 2)))]
        parts = [(when, name) for when, name in parts if (when, name) != ("at last", "taken")]  # a stutter breaks it
        formula: Formula = BooleanConstant(False)
        for when, name in parts:
            formula |= (infinitely_often if when == "often" else eventually_always)(atom(protocol, name))
        wanted = is_violated(protocol, parts, fairness)
        for explore in (reference.explore, tables.explore, bytecode.explore):
            found = checked(explore, protocol, formula, *fairness)
            assert (found.verdict is Verdict.VIOLATION) is wanted, (seed, protocol.edges, parts, fairness)
        seen.add((wanted, bool(found.violations) and found.violations[0].loop.again is None))  # type: ignore[union-attr]
    assert seen == {(False, False), (True, False), (True, True)}


def drawn_formula(random: Random, protocol: Walk, depth: int) -> Formula:
    if depth == 0:
        return atom(protocol, random.choice(ATOMS[:3]))
    one = drawn_formula(random, protocol, depth - 1)
    other = drawn_formula(random, protocol, random.randrange(depth))
    return random.choice(
        (
            lambda: always(one),
            lambda: eventually(one),
            lambda: leads_to(one, other),
            lambda: implies(one, other),
            lambda: one & other,
            lambda: ~one,
        )
    )()


def words(protocol: Walk, length: int) -> Iterator[tuple[list[int], int]]:
    """Yield the lassos of a walk, by the places on it and the one to which it comes back."""
    moves = {(e[0], e[2]) for e in protocol.edges} | {(place, place) for place in range(4)}
    waiting = [[0]]
    for way in waiting:
        yield from ((way, back) for back, place in enumerate(way) if (way[-1], place) in moves)
        if len(way) < length:
            waiting += [[*way, target] for source, target in sorted(moves) if source == way[-1]]


@pytest.mark.kernel
@pytest.mark.parametrize("examples", sizes(20, 100, 400))
def test_a_formula_holds_where_no_lasso_breaks_it(examples: int) -> None:
    verdicts = set()
    for seed in range(examples):
        random = Random(seed)
        protocol = drawn_walk(random)
        formula = drawn_formula(random, protocol, random.choice((1, 2, 3)))
        if automaton_of(~formula).states > 12 or any(isinstance(one, Taken) for one in formula.atoms()):
            continue
        semantics = Semantics(protocol)
        broken = any(
            not LassoFormulaEvaluator(
                semantics,
                [protocol.start([Walker(1, place)], Nothing()) for place in way],
                [None] * len(way),
                back,
            ).holds(formula)
            for way, back in words(protocol, 5)
        )
        for explore in (reference.explore, tables.explore, bytecode.explore):
            found = checked(explore, protocol, formula)
            assert (found.verdict is Verdict.VIOLATION) is broken, (seed, protocol.edges, formula)
        verdicts.add(broken)
    assert verdicts == {False, True}


class Counting(Protocol):
    """Counts up, and begins again from any number."""

    def initial(self) -> Iterator[State]:
        yield self.start([Walker(1)], Nothing())

    @internal
    def count(self, me: Walker) -> Steps:
        yield become(me.but(at=me.at + 1)) if me.at < 30 else become(me)

    @internal
    def begin(self, me: Walker) -> Steps:
        yield become(me.but(at=0))

    @predicate
    def first(self, me: Walker) -> bool:
        return me.at == 0


@pytest.mark.kernel
def test_a_state_graph_that_does_not_fit_in_memory_goes_to_disk() -> None:
    protocol = Counting()
    formula = infinitely_often(anywhere(protocol.first))
    for fairness, holds in (((weak("Begin"),), True), ((weak("Count"),), False)):
        whole, little = (checked(tables.explore, protocol, formula, *fairness, memory=memory) for memory in (None, 1))
        assert little.violations == whole.violations
        assert little.verdict is (Verdict.OK if holds else Verdict.VIOLATION)
        assert any("of the state graph went to disk" in note for note in little.notes)
        assert not any("disk" in note for note in whole.notes)


# Random protocols


def low(self: Any, me: Record) -> bool:
    return me.phase < 2  # type: ignore[attr-defined]


def calm(self: Any, state: State) -> bool:
    return not state.inboxes


LOW, CALM = (Property(function.__name__, "predicate", function, ()) for function in (low, calm))


@pytest.mark.kernel
@pytest.mark.parametrize("examples", sizes(3, 15, 60))
def test_both_engines_agree_on_random_protocols(examples: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(level_states, "STATES_A_BATCH", 50)
    monkeypatch.setattr(table_system, "MOST_SERIAL_STATES", 5)

    @settings(
        max_examples=examples,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.explicit, Phase.generate],  # a seed does not shrink
    )
    @given(
        seed=st.integers(0, 10**9),
        workers=st.integers(1, 2),
        memory=st.sampled_from((None, 1) if examples > 3 else (None,)),
    )
    def check(seed: int, workers: int, memory: int | None) -> None:
        for found in sample(1, seed=seed, large=50, most=300):
            random, actions = Random(seed), tuple(found.protocol.actions)
            low_now, calm_now = StatePredicate(LOW), StatePredicate(CALM)
            claims = (infinitely_often(low_now), leads_to(~low_now, calm_now), eventually_always(low_now | calm_now))
            options = replace(
                found.description.options(found.protocol),
                properties=(),
                symmetry=None,
                view=None,
                workers=workers,
                keep_going=True,
                strict_bounds=random.random() < 0.5,
                temporal=tuple(
                    claim(formula, *drawn_fairness(random, (*actions, "Next")), name=f"Claim{number}")
                    for number, formula in enumerate(claims)
                ),
                fairness=(weak(random.choice(actions), each=random.choice(("", "replica", "pair", "message"))),),
            )
            results = [
                reference.explore(found.protocol, options),
                tables.explore(found.protocol, replace(options, memory=memory)),
            ]
            told = [
                {one.property: (len(one.trace), one.loop and one.loop.back_to) for one in result.violations}
                for result in results
            ]
            assert told[0].keys() == told[1].keys(), found.description
            for result in results:
                for violation in result.violations:
                    if violation.loop is not None:
                        require_counterexample(found.protocol, options, violation)

    check()


def test_a_full_disk_is_said_before_it_is_written_to(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("os.posix_fallocate", full)
    with pytest.raises(OSError, match=f"No space left on device: '{tmp_path}'"):
        SpillArena(0, tmp_path).array(1_000, np.int64)
