"""Every search order finds what the reference engine finds breadth first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from itertools import count, product
from pathlib import Path
from random import Random
from typing import NamedTuple

import pytest

from kraftcheck.engines import ENGINES
from kraftcheck.explorer import reference
from kraftcheck.explorer.request import CAPABILITIES, Feature, needed_features_with_texts, supported_features
from kraftcheck.explorer.result import DEADLOCK, Result, SearchRequest, Violation
from kraftcheck.explorer.tables import engine as tables
from kraftcheck.explorer.tables.kernel import depth_first
from kraftcheck.spec import (
    Bag,
    InputError,
    Map,
    Protocol,
    Record,
    State,
    Steps,
    become,
    bound,
    constraint,
    consume,
    environment,
    hide,
    internal,
    on,
    projection,
)
from kraftcheck.spec.language.state import Step
from tests.support.explorer.random_protocols import LADDER, MAPPINGS, Description, Effect, describe

pytestmark = pytest.mark.kernel
DEEP = ("dfs", "iddfs")


class Node(Record):
    id: int
    at: int = 0


class Note(Record):
    dest: int


class Diary(Record):
    page: int = 0


class Noted(Protocol):
    """Two nodes send notes, of which few may be under way; the environment writes a diary that nothing reads."""

    notes: int = bound("MaxNotes", default=4)
    network = Bag(duplicates=True)
    views = {"without": hide("page")}

    def initial(self) -> Iterator[State]:
        for page in (0, 1):
            yield self.start([Node(1), Node(2)], Diary(page))

    @projection
    def waiting(self, inbox: Map[Note, int]) -> int:
        return sum(inbox.values())

    @internal
    def send(self, me: Node) -> Steps:
        for page in (1, 2):
            yield become(me).send(Note(3 - me.id)).spend("notes").put(page=page)

    @on(Note)
    def take(self, me: Node, note: Note) -> Steps:
        yield consume(me.but(at=(me.at + 1) % 3)).put(page=me.at)

    @environment
    def write(self) -> Steps:
        yield Step().put(page=3)

    @constraint(reads=waiting)
    def few(self, waiting: Map[int, int]) -> bool:
        return sum(waiting.values()) <= 2


@pytest.mark.parametrize("search", DEEP)
def test_a_state_beyond_a_constraint_that_is_met_again_nearer_is_one(search: str) -> None:
    """It may be another of the states that are one under the VIEW."""
    protocol = Noted()
    options = SearchRequest(deadlock=False, view="without", constraints=(protocol.properties["Few"],))
    expected = reference.explore(protocol, options)
    result = tables.explore(protocol, replace(options, search=search))
    assert result.complete
    assert result.distinct_states == expected.distinct_states
    if search == "dfs":
        assert (result.generated_states, result.actions) == (expected.generated_states, expected.actions)


@pytest.mark.parametrize("search", DEEP)
@pytest.mark.parametrize("view", [None, "without"])
def test_of_initial_states_that_are_one_the_first_is_expanded(search: str, view: str | None) -> None:
    protocol = Noted(notes=0)
    options = SearchRequest(deadlock=False, view=view)
    expected = reference.explore(protocol, options)
    result = tables.explore(protocol, replace(options, search=search))
    assert (result.distinct_states, result.generated_states) == (expected.distinct_states, expected.generated_states)
    assert result.actions == expected.actions


class Place(Record):
    id: int
    at: str = "start"


class Branching(Protocol):
    """`far` is met first at the end of a longer path."""

    ways = {"start": ("a", "b"), "a": ("c",), "c": ("far",), "b": ("far",)}

    def initial(self) -> Iterator[State]:
        yield self.start([Place(1)], Diary())

    @internal
    def go(self, me: Place) -> Steps:
        for place in self.ways.get(me.at, ()):
            yield become(me.but(at=place))


@pytest.mark.parametrize("explore", [reference.explore, tables.explore])
def test_a_limit_of_depth_that_cuts_nothing_off(explore: object) -> None:
    for depth, complete in ((3, False), (4, True)):
        for search in ("bfs", "dfs"):
            result = explore(Branching(), SearchRequest(search=search, deadlock=False, max_depth=depth))  # type: ignore[operator]
            assert (result.complete, result.distinct_states) == (complete, 5)


class Counters(Protocol):
    """Nearly every state has a control row of its own."""

    def initial(self) -> Iterator[State]:
        yield self.start([Node(1), Node(2), Node(3)], Diary())

    @internal
    def count(self, me: Node) -> Steps:
        if me.at < 11:
            yield become(me.but(at=me.at + 1))


def test_depth_first_search_asks_python_for_outcomes_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    def noting(*given: object) -> int:
        runs.append(given)
        return search(*given)  # type: ignore[no-any-return]

    runs, search = list[object](), depth_first.search_depth_first
    monkeypatch.setattr(depth_first, "search_depth_first", noting)
    options = SearchRequest(search="dfs", deadlock=False)
    result, expected = tables.explore(Counters(), options), reference.explore(Counters(), options)
    same(result, expected, options, by_level=False)
    assert (result.distinct_states, result.generated_states) == (12**3, 1 + 3 * 11 * 12**2)
    assert 36 < len(runs) < 100  # the calls of the handler, and tables that are full


MOST = 150  # states of a random protocol


class Combination(NamedTuple):
    """What a search is asked for together."""

    symmetric: bool
    view: str | None
    constraint: str | None
    action_constraint: bool
    limit: str | None


COMBINATIONS = [
    asked_for
    for asked_for in map(
        Combination._make,
        product(
            (False, True),
            (None, "unnoted", "unmarked", "plain"),
            (None, "only_while", "only_small"),
            (False, True),
            (None, "max_states", "max_depth"),
        ),
    )
    if asked_for.limit != "max_states" or (asked_for.view in (None, "plain") and not asked_for.action_constraint)
]


def noting(effect: Effect, random: Random, view: str | None) -> Effect:
    """Return an effect that may also write, or spend, what the view hides."""
    marks = ("marks",) if view in ("unmarked", "plain") and random.random() < 0.5 else ()
    noted = ("noted",) if random.random() < 0.5 else ()
    return replace(effect, puts=effect.puts + noted, spends=effect.spends + marks)


def drawn(combination: Combination, seed: int, *, refining: bool = False) -> tuple[Description, SearchRequest, Result]:
    """Return a random protocol for a combination, its options without limits, and what the reference engine finds."""
    for number in count(seed * 1_000):
        random = Random(number)
        description = describe(random)
        if description.symmetric != combination.symmetric:
            continue
        rules = [
            replace(rule, effects=tuple(noting(effect, random, combination.view) for effect in rule.effects))
            if rule.kind != "environment"
            else rule
            for rule in description.rules
        ]
        description = replace(
            description,
            rules=tuple(rules),
            constraints=((combination.constraint, random.randint(2, 3)),) if combination.constraint else (),
            action_constraints=(("only_steps", 0),) if combination.action_constraint else (),
            several_starts=random.random() < 0.5,
            limits=random.choice(LADDER[:3]),
            refinements=tuple((name, random.choice((1, 2, 3))) for name in MAPPINGS) if refining else (),
        )
        options = replace(description.options(description.build()), view=combination.view)
        result = reference.explore(description.build(), replace(options, max_states=MOST))
        if result.complete and result.distinct_states > 20:
            return description, options, result
    raise AssertionError


def limited(options: SearchRequest, limit: str | None, whole: Result) -> SearchRequest:
    """Return options with a limit that ends the search early."""
    if limit == "max_states":
        return replace(options, max_states=whole.distinct_states // 2)
    return replace(options, max_depth=max(1, (whole.depth or 0) // 2)) if limit == "max_depth" else options


def same(result: Result, expected: Result, options: SearchRequest, *, by_level: bool) -> None:
    """Fail unless a result has all that its search order promises."""
    assert result.complete == expected.complete
    if options.max_states is not None:  # which states these are depends on the order
        states = result.distinct_states
        assert states >= options.max_states if by_level else states == options.max_states
        return
    assert result.distinct_states == expected.distinct_states
    assert result.verdict is expected.verdict
    assert {one.property for one in result.violations} == {one.property for one in expected.violations}
    if options.search in ("bfs", "iddfs"):
        lengths = [{one.property: len(one.trace) for one in each.violations} for each in (result, expected)]
        assert lengths[0] == lengths[1]
    expands_once = options.search == "bfs" or (options.search != "iddfs" and options.max_depth is None)
    if expands_once and result.generated_states:  # sets need not count steps
        assert (result.generated_states, result.actions) == (expected.generated_states, expected.actions)
    if options.search == "bfs":
        assert result.depth == expected.depth


def features_of(options: SearchRequest, description: Description) -> set[Feature]:
    return {feature for feature, _ in needed_features_with_texts(description.build(), options)}


Run = Callable[[Protocol, SearchRequest], Result]


def compare(
    combination: Combination,
    seed: int,
    engines: Mapping[str, Run],
    seen: Counter[tuple[str, str]],
    *,
    refining: bool = False,
) -> None:
    """Search a random protocol in every order, or see it refused."""
    description, options, whole = drawn(combination, seed, refining=refining)
    options = limited(options, combination.limit, whole)
    expected = whole
    for first_only in (False, True):
        if first_only and not expected.violations:
            break
        options = replace(options, keep_going=not first_only)
        expected = reference.explore(description.build(), replace(options, search="bfs"))
        for engine, run in engines.items():
            for order in CAPABILITIES[engine]:
                asking = replace(options, search=order)
                try:
                    if features_of(options, description) <= supported_features(engine, order):
                        result = run(description.build(), asking)
                        if first_only:
                            same_violation(result, expected, asking)
                        else:
                            same(result, expected, asking, by_level=engine in ("symbolic", "spark"))
                        seen[engine, order] += 1
                    else:
                        with pytest.raises(InputError, match="not supported by"):
                            ENGINES[engine].run(description.build(), asking)
                except BaseException as error:
                    error.add_note(f"{engine} {order}: {asking}\n{description}")
                    raise


def level(violation: Violation) -> int:
    """Return the level of which a state was expanded when a violation was found."""
    return len(violation.trace) - (violation.property != DEADLOCK)


def same_violation(result: Result, expected: Result, options: SearchRequest) -> None:
    """Fail unless a search that ends at the first violation found one where there is one: in order a shortest one."""
    if options.max_states is not None:
        return
    assert bool(result.violations) == bool(expected.violations)
    if options.search in ("bfs", "iddfs") and expected.violations:
        assert level(result.violations[0]) == level(expected.violations[0])


def test_the_documentation_has_the_same_table() -> None:
    lines = (Path(__file__).parents[2] / "docs" / "design.md").read_text().splitlines()
    first = next(number for number, line in enumerate(lines) if line.startswith("| | tables bfs"))
    header, _, *rows = [
        [cell.strip() for cell in line.split("|")[1:-1]] for line in lines[first : first + len(Feature) + 2]
    ]
    assert [row[0] for row in rows] == list(Feature)
    told = {}
    for column, name in enumerate(header[1:], start=1):
        engine, _, orders = name.partition(" ")
        for order in orders.split(", "):
            told[engine, order] = {row[0] for row in rows if row[column] == "yes"}
    assert told == {(engine, order): set(has) for engine, found in CAPABILITIES.items() for order, has in found.items()}


def require_all(seen: Counter[tuple[str, str]], engines: Mapping[str, Run], examples: int) -> None:
    """Fail if an engine searched nothing, or a search order where there were enough examples."""
    assert {engine for engine, _ in seen} == set(engines)
    if examples > 5:
        assert set(seen) == {(engine, order) for engine in engines for order in CAPABILITIES[engine]}


@pytest.mark.slow
@pytest.mark.parametrize(
    "numbers",
    [
        range(2, 5),
        pytest.param(range(len(COMBINATIONS) // 5), marks=pytest.mark.slow),
        pytest.param(range(1_000), marks=pytest.mark.exhaustive),
    ],
    ids=len,
)
def test_every_combination_that_an_order_supports(numbers: range) -> None:
    seen: Counter[tuple[str, str]] = Counter()
    chosen = Random(207).sample(COMBINATIONS, len(COMBINATIONS))
    engines = {engine: ENGINES[engine].run for engine in ("tables", "reference", "symbolic")}
    for number in numbers:
        compare(chosen[number % len(chosen)], number, engines, seen)
    require_all(seen, engines, len(numbers))


TELLING = [one for one in COMBINATIONS if one.view in (None, "unmarked") and not one.symmetric]


@pytest.mark.slow
@pytest.mark.parametrize("examples", [len(TELLING) // 2, pytest.param(1_000, marks=pytest.mark.exhaustive)])
def test_every_order_checks_refinements(examples: int) -> None:
    seen: Counter[tuple[str, str]] = Counter()
    chosen = Random(9).sample(TELLING, len(TELLING))
    engines = {engine: ENGINES[engine].run for engine in ("tables", "reference", "symbolic")}
    for number in range(examples):
        compare(chosen[number % len(chosen)], number, engines, seen, refining=True)
    require_all(seen, engines, examples)


@pytest.mark.slow
def test_combinations_that_spark_supports(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    from tests.support.spark.pretended import search

    seen: Counter[tuple[str, str]] = Counter()
    folders = (tmp_path / str(number) for number in count())

    def run(protocol: Protocol, options: SearchRequest) -> Result:
        folder = next(folders)
        result, _ = search(protocol, replace(options, checkpoint=folder), folder, Random(len(seen)))
        return result

    for number, combination in enumerate(Random(3).sample(COMBINATIONS, 24)):
        compare(combination, number, {"spark": run}, seen)
    assert seen["spark", "bfs"] > 20
    for number, combination in enumerate(Random(3).sample(TELLING, 12)):
        compare(combination, number, {"spark": run}, seen, refining=True)
    assert seen["spark", "bfs"] > 30
