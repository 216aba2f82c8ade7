"""The search on a pretended Spark finds what the table engine finds, on random protocols, killed and resumed or not."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from itertools import count, pairwise
from pathlib import Path
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kraftcheck.explorer.request import drop_unsound_symmetry_with_notes
from kraftcheck.explorer.result import Result, SearchRequest, Verdict
from kraftcheck.explorer.tables.python_checks import partition_properties
from kraftcheck.explorer.tables.searches.bfs import BreadthFirstSearch
from kraftcheck.explorer.transition_system import canonicalizer
from kraftcheck.spec.discovery import load_protocol
from kraftcheck.spec.errors import InputError
from kraftcheck.spec.language.protocol import Protocol
from kraftcheck.spec.language.semantics import Semantics, initial_states
from kraftcheck.spec.language.state import State
from kraftcheck.spec.values import Value
from tests.support.command_line import PING
from tests.support.explorer.comparison import found
from tests.support.explorer.random_protocols import Sample, sample
from tests.support.explorer.voting import HOSTS, Voting
from tests.support.kraft_model.searches import bound as model_bound
from tests.support.tlc import TLC, bound

pytest.importorskip("pyarrow")
from kraftcheck.explorer.spark.engine import SparkSearch
from kraftcheck.explorer.spark.level_jobs import cheaper_engine_notes
from kraftcheck.explorer.spark_cluster import TaskRaisedError, input_error_from_spark_text
from tests.support.spark.pretended import Lost, search

pytestmark = pytest.mark.kernel

ORBITS = json.loads((TLC / "symmetry" / "expected.json").read_text())


def in_pieces(protocol: Protocol, options: SearchRequest, folder: Path, random: Random) -> Result:
    """Search with a driver that is killed again and again, each time somewhat later."""
    left, kills = 2, 0
    options = replace(options, checkpoint=folder)
    while True:
        try:
            result, _ = search(protocol, options, folder, random, left)
            return result
        except Lost:
            kills += 1
            left = random.randint(3, 9) + 2 * kills  # at least one level, and in the end any counterexample
            options = replace(options, checkpoint=None, resume=folder)


@pytest.mark.slow
def test_a_random_protocol(tmp_path_factory: pytest.TempPathFactory) -> None:
    assert_alike(tmp_path_factory, 4)


@pytest.mark.slow
@settings(max_examples=6, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.integers(0, 10**9))
def test_random_protocols(tmp_path_factory: pytest.TempPathFactory, seed: int) -> None:
    assert_alike(tmp_path_factory, seed)


def assert_alike(tmp_path_factory: pytest.TempPathFactory, seed: int) -> None:
    """A search on the pretended Spark, in one go and in pieces, finds what the table engine finds."""
    random = Random(seed)
    for drawn in sample(1, seed=seed, large=200, most=600):
        options = replace(drawn.description.options(drawn.protocol), keep_going=True)
        expected = BreadthFirstSearch(drawn.protocol, options, 1).run()
        folder = tmp_path_factory.mktemp("search")
        result, driver = search(drawn.protocol, replace(options, checkpoint=folder / "a"), folder / "a", random)
        assert found(result) == found(expected), drawn.description
        states = Counter(state for level in levels_of(driver) for state in level)
        assert len(states) == result.distinct_states == states.total(), drawn.description
        again = in_pieces(drawn.protocol, options, folder / "b", random)
        assert found(again) == found(expected), drawn.description
        assert_same_files(driver, folder / "a", folder / "b")


def assert_same_files(driver: SparkSearch, one: Path, other: Path) -> None:
    """What is in a file follows from the search alone."""
    for level, parts in enumerate(driver.log.levels, start=1):
        for part in parts:
            name = f"levels/{level:05d}/part-{part:05d}.parquet"
            assert (one / name).read_bytes() == (other / name).read_bytes()


def levels_of(driver: SparkSearch) -> list[list[State]]:
    """Return the states of each level."""
    return [
        [
            driver.expander.learner.interner.decode_state(row)
            for part in parts
            for rows in driver.shared.read_part(level, part)
            for row in driver.ids.to_own(rows)
        ]
        for level, parts in enumerate(driver.log.levels, start=1)
    ]


def assert_classes_level_by_level(driver: SparkSearch, options: SearchRequest) -> None:
    """Of the states that count as one there is one, in the first level that has any; and it is really led to."""
    protocol = driver.expander.learner.protocol
    identity = canonicalizer(protocol, options.symmetry, options.view)
    exact = canonicalizer(protocol, options.symmetry, None)
    semantics = Semantics(protocol)
    targets = list(initial_states(semantics, options.init))
    before: set[Value] = set()
    for states in levels_of(driver):
        classes = set(map(identity, states))
        assert len(states) == len(classes)
        assert classes == set(map(identity, targets)) - before
        assert set(map(exact, states)) <= set(map(exact, targets))
        before |= classes
        targets = [step.target for state in states for step in semantics.transitions(state)]
    assert set(map(identity, targets)) <= before


@pytest.mark.parametrize(
    ("seed", "symmetry"),
    [pytest.param(*more, marks=pytest.mark.slow) for more in ((12, False), (3, False), (3, True), (12, True))],
)
def test_a_view(tmp_path: Path, seed: int, *, symmetry: bool) -> None:
    """The table engine may find others: which of the states that look the same it takes depends on the order."""
    drawn = symmetric(seed)
    options = replace(drawn.description.options(drawn.protocol), keep_going=True, constraints=())
    options = replace(options, action_constraints=(), symmetry=options.symmetry if symmetry else None)
    whole = BreadthFirstSearch(drawn.protocol, options, 1).run()
    options = replace(options, view="less")
    result, driver = search(drawn.protocol, replace(options, checkpoint=tmp_path / "a"), tmp_path / "a", Random(seed))
    assert 1 < result.distinct_states < whole.distinct_states
    assert_classes_level_by_level(driver, options)
    again = in_pieces(drawn.protocol, options, tmp_path / "b", Random(seed + 1))
    assert found(again) == found(result), drawn.description
    assert_same_files(driver, tmp_path / "a", tmp_path / "b")


@pytest.mark.slow
def test_a_view_that_hides_what_nothing_depends_on(tmp_path: Path) -> None:
    protocol = Voting(hosts=HOSTS)
    for number, options in enumerate((SearchRequest(deadlock=False), SearchRequest(deadlock=False, symmetry="symm"))):
        options = replace(options, view="votes", checkpoint=tmp_path / str(number))
        result, _ = search(protocol, options, tmp_path / str(number), Random(number))
        expected = BreadthFirstSearch(protocol, replace(options, checkpoint=None), 1).run()
        assert found(result) == found(expected)


def symmetric(seed: int) -> Sample:
    """Return a random protocol with a symmetry."""
    return next(
        drawn
        for number in count(seed)
        for drawn in sample(1, seed=1000 * number, large=200, most=600)
        if drawn.description.symmetric
    )


@pytest.mark.parametrize(
    "seed",  # six permutations; queues and violations; a deadlock
    [pytest.param(seed, marks=pytest.mark.slow) for seed in (12, 24, 31)],
)
def test_random_symmetric_protocols(tmp_path: Path, seed: int) -> None:
    drawn = symmetric(seed)
    options = replace(drawn.description.options(drawn.protocol), keep_going=True)
    expected = BreadthFirstSearch(drawn.protocol, options, 1).run()
    without = BreadthFirstSearch(drawn.protocol, replace(options, symmetry=None), 1).run()
    assert expected.distinct_states < without.distinct_states
    result, driver = search(drawn.protocol, replace(options, checkpoint=tmp_path / "a"), tmp_path / "a", Random(seed))
    assert found(result) == found(expected), drawn.description
    again = in_pieces(drawn.protocol, options, tmp_path / "b", Random(seed + 1))
    assert found(again) == found(expected), drawn.description
    assert_same_files(driver, tmp_path / "a", tmp_path / "b")
    semantics = Semantics(drawn.protocol)
    for violation in result.violations:  # a real behaviour, not one of states that stand for others
        states = [step.state for step in violation.trace]
        assert states[0] in list(initial_states(semantics, options.init))
        for source, target in pairwise(states):
            assert any(transition.target == target for transition in semantics.transitions(source))


@pytest.mark.parametrize("where", ["        number = me.pings + 1", "        return len(me.log) < 2"])
def test_an_assert_that_fails_in_a_task(tmp_path: Path, where: str) -> None:
    path = tmp_path / "ping.py"
    path.write_text(PING.replace(where, f"        assert me.pings < 2 and not me.log\n{where}"))
    protocol = load_protocol(path, "PingPong")()
    options = SearchRequest(deadlock=False, properties=(protocol.properties["ShortLog"],))
    expected = BreadthFirstSearch(protocol, options, 1).run()
    assert expected.verdict is Verdict.ASSERTION
    result, _ = search(protocol, replace(options, checkpoint=tmp_path / "c"), tmp_path / "c", Random(1))
    assert result.verdict is Verdict.ASSERTION
    assert result.violations[0].property == expected.violations[0].property
    assert len(result.violations[0].trace) == len(expected.violations[0].trace)
    semantics = Semantics(protocol)
    for source, target in pairwise(step.state for step in result.violations[0].trace):
        assert any(transition.target == target for transition in semantics.transitions(source))


WHOLE = """    @invariant
    def whole(self, state: State) -> bool:
        assert {0}
        return {1}

"""


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("asserted", "held"), [("True", "{}"), ("{}", "True"), ("True", "True")])
@pytest.mark.parametrize("depth", [None, 2, 3])
def test_an_invariant_of_whole_states(tmp_path: Path, asserted: str, held: str, depth: int | None) -> None:
    few = "sum(node.pings for node in state.replicas.values()) < 2"
    path = tmp_path / "ping.py"
    whole = WHOLE.format(asserted.format(few), held.format(few))
    path.write_text(PING.replace("    @step_invariant\n", f"{whole}    @step_invariant\n"))
    protocol = load_protocol(path, "PingPong")()
    options = SearchRequest(deadlock=False, properties=(protocol.properties["Whole"],), max_depth=depth)
    assert partition_properties(options).non_local == options.properties
    expected = BreadthFirstSearch(protocol, options, 1).run()
    folder = tmp_path / "c"
    result, _ = search(protocol, replace(options, checkpoint=folder), folder, Random(1))
    assert (result.verdict, result.depth, result.complete) == (expected.verdict, expected.depth, expected.complete)
    lengths = [[(one.property, len(one.trace)) for one in each.violations] for each in (result, expected)]
    assert lengths[0] == lengths[1]
    assert bool(lengths[0]) == ("sum" in whole and depth != 2)
    if not lengths[0]:
        assert result.distinct_states == expected.distinct_states


@pytest.mark.parametrize("asserted", [False, True])
def test_a_constraint_of_whole_states(tmp_path: Path, *, asserted: bool) -> None:
    few = "sum(node.pings for node in state.replicas.values()) < 2"
    path = tmp_path / "ping.py"
    whole = WHOLE.replace("@invariant", "@constraint").format(few if asserted else "True", few)
    path.write_text(PING.replace("    @step_invariant\n", f"{whole}    @step_invariant\n"))
    protocol = load_protocol(path, "PingPong")()
    options = SearchRequest(deadlock=False, constraints=(protocol.properties["Whole"],))
    assert partition_properties(options).non_local_constraints == options.constraints
    expected = BreadthFirstSearch(protocol, options, 1).run()
    result, driver = search(protocol, replace(options, checkpoint=tmp_path / "a"), tmp_path / "a", Random(1))
    assert result.verdict is expected.verdict is (Verdict.ASSERTION if asserted else Verdict.OK)
    if asserted:
        assert len(result.violations[0].trace) == len(expected.violations[0].trace)
    else:
        assert found(result) == found(expected)
        assert found(in_pieces(protocol, options, tmp_path / "b", Random(2))) == found(expected)
        assert_same_files(driver, tmp_path / "a", tmp_path / "b")


def test_an_invariant_of_whole_states_beyond_a_constraint(tmp_path: Path) -> None:
    """The violation is in a state that the constraint leaves out."""
    few = "max(node.pings for node in state.replicas.values()) < 2"
    path = tmp_path / "ping.py"
    low = "    @constraint\n    def low(self, me: Peer) -> bool:\n        return me.pings < 2\n\n"
    whole = WHOLE.format("True", few) + low
    path.write_text(PING.replace("    @step_invariant\n", f"{whole}    @step_invariant\n"))
    protocol = load_protocol(path, "PingPong")()
    whole, low = (protocol.properties[name] for name in ("Whole", "Low"))
    options = SearchRequest(deadlock=False, properties=(whole,), constraints=(low,), keep_going=True)
    expected = BreadthFirstSearch(protocol, options, 1).run()
    result, _ = search(protocol, replace(options, checkpoint=tmp_path / "c"), tmp_path / "c", Random(1))
    assert expected.verdict is Verdict.VIOLATION
    assert found(result) == found(expected)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "config", "variant"),
    [
        ("recovery", "trap.zookeeper", "same-epoch-ignored"),  # @reachable
        ("quorum", "finding.never-settled", None),  # @temporal
        pytest.param("quorum", "finding.never-elected-unaware", None, marks=pytest.mark.slow),  # under a VIEW
        pytest.param("chang-roberts", "live", None, marks=pytest.mark.slow),
        pytest.param("ewd998", "default", None, marks=pytest.mark.slow),  # a constraint of whole inboxes
    ],
)
def test_the_graph_of_a_shipped_model(tmp_path: Path, model: str, config: str, variant: str | None) -> None:
    given = model_bound(model, config, variant)
    options, _ = drop_unsound_symmetry_with_notes(SearchRequest.of(given))
    expected = BreadthFirstSearch(given.protocol, options, 1).run()
    result, _ = search(given.protocol, replace(options, checkpoint=tmp_path / "c"), tmp_path / "c", Random(1), small=20)
    assert found(result) == found(expected)
    assert [one.trap for one in result.violations] == [one.trap for one in expected.violations]
    assert [one.loop is None for one in result.violations] == [one.loop is None for one in expected.violations]
    if model == "recovery":
        assert found(in_pieces(given.protocol, options, tmp_path / "d", Random(2))) == found(expected)


def test_a_search_says_which_engine_is_cheaper() -> None:
    def level(states: int, seconds: float, *, driver: bool) -> dict[str, object]:
        return {"states": states, "seconds": seconds, "driver": driver}

    small, large = level(1_000, 0.5, driver=True), level(8_991, 6.0, driver=False)
    assert cheaper_engine_notes([level(9, 0.5, driver=True), small, large], 4.0) == [
        "the driver alone found 1,000 states of a level in 0.50 s: at this rate --engine tables would take about 5.0 s "
        "for the whole search; Spark took 11.0 s with its start"
    ]
    assert (
        cheaper_engine_notes([small, level(90_000, 6.0, driver=False)], 4.0) == []
    )  # jobs are faster than this process
    assert cheaper_engine_notes([large], 4.0) == []  # nothing is measured
    assert cheaper_engine_notes([], 4.0) == []


def test_what_a_task_of_spark_raises_is_told_from_what_else_goes_wrong() -> None:
    text = 'Traceback:\n  File "x.py", line 1, in f\nspec.errors.{}: x.py:1: it\n  me = 1\n\tat java'
    found = input_error_from_spark_text(text.format("ActionError"))
    assert isinstance(found, TaskRaisedError)
    assert str(found) == "x.py:1: it\n  me = 1"
    assert type(input_error_from_spark_text(text.format("InputError"))) is InputError


@pytest.mark.slow
def test_orbits_of_tlc(tmp_path: Path) -> None:
    name = "grow-with-election-hosts"
    model = bound(f"symmetry/{name}")
    options = SearchRequest(properties=model.properties, deadlock=model.deadlock, symmetry=model.symmetry)
    result, _ = search(model.protocol, replace(options, checkpoint=tmp_path / "c"), tmp_path / "c", Random(1))
    assert (result.distinct_states, result.depth) == (ORBITS[name]["distinct_states"], ORBITS[name]["depth"])


@pytest.mark.slow
def test_a_violation_ends_the_search_with_the_shortest_behaviour(tmp_path: Path) -> None:
    for drawn in sample(6, seed=5, large=200, most=600):
        options = drawn.description.options(drawn.protocol)
        options = replace(options, keep_going=False)
        expected = BreadthFirstSearch(drawn.protocol, options, 1).run()
        folder = tmp_path / str(drawn.description.__hash__())
        result, _ = search(drawn.protocol, replace(options, checkpoint=folder), folder, Random(1))
        assert (result.verdict, result.depth, result.complete) == (expected.verdict, expected.depth, expected.complete)
        lengths = [[len(violation.trace) for violation in r.violations] for r in (result, expected)]
        assert lengths[0] == lengths[1]


@pytest.mark.slow
def test_limits(tmp_path: Path) -> None:
    protocol = bound("counts/two-voters").protocol
    options = SearchRequest(deadlock=False)
    for number, limited in enumerate((replace(options, max_depth=7), replace(options, max_states=100))):
        folder = tmp_path / str(number)
        result, _ = search(protocol, replace(limited, checkpoint=folder), folder, Random(1))
        expected = BreadthFirstSearch(protocol, limited, 1).run()
        assert (result.limit, result.distinct_states) == (expected.limit, expected.distinct_states)
        result, _ = search(protocol, replace(options, resume=folder), folder, Random(1))
        assert found(result) == found(BreadthFirstSearch(protocol, options, 1).run())
