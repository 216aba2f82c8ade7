"""What should stay reachable: the engines find the states that have no way out, as a graph library does."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from random import Random
from typing import Any

import networkx as nx
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from kraftcheck.explorer import graph as graphs
from kraftcheck.explorer import reference
from kraftcheck.explorer.bytecode import engine as bytecode
from kraftcheck.explorer.result import Result, SearchRequest, Verdict
from kraftcheck.explorer.symbolic import engine as symbolic
from kraftcheck.explorer.tables import engine as tables
from kraftcheck.explorer.tables import level_states, table_system
from kraftcheck.spec import (
    InputError,
    Map,
    Protocol,
    Record,
    State,
    Steps,
    become,
    bound,
    constraint,
    hide,
    internal,
    projection,
    reachable,
)
from kraftcheck.spec.language.declarations import Property
from tests.support.explorer.random_protocols import Node, Ping, Sample, sample
from tests.support.sizes import sizes

ENGINES = [
    pytest.param(reference.explore, id="reference"),
    pytest.param(tables.explore, id="tables", marks=pytest.mark.kernel),
]

ALL = [*ENGINES, pytest.param(symbolic.explore, id="symbolic", marks=pytest.mark.kernel)]
WITHOUT_VIEWS = [*ALL, pytest.param(bytecode.explore, id="bytecode", marks=pytest.mark.kernel)]
SETS = ("saturation", "chaining", "bfs")


class Walker(Record):
    id: int
    at: int


class Nothing(Record):
    pass


class Maze(Protocol):
    """0 leads to 1 and 4; 1, 2 and 3 form a circle with an operator's exit to 5; 4 goes nowhere."""

    def initial(self) -> Iterator[State]:
        yield self.start([Walker(1, 0)], Nothing())

    @internal
    def walk(self, me: Walker) -> Steps:
        for place in {0: (1, 4), 1: (2,), 2: (3,), 3: (1,)}.get(me.at, ()):
            yield become(me.but(at=place))

    @internal
    def rescue(self, me: Walker) -> Steps:
        if me.at == 2:
            yield become(me.but(at=5))

    @internal
    def rest(self, me: Walker) -> Steps:
        yield become(me)

    @constraint
    def near(self, me: Walker) -> bool:
        return me.at < 4

    @constraint
    def near_as_a_whole(self, state: State) -> bool:
        return state.replicas[1].at < 4

    @reachable
    def out(self, me: Walker) -> bool:
        return me.at == 5

    @reachable
    def out_as_a_whole(self, state: State) -> bool:
        return state.replicas[1].at == 5

    @reachable(without=["Rescue"])
    def out_alone(self, me: Walker) -> bool:
        return me.at == 5

    @reachable
    def third(self, me: Walker) -> bool:
        return me.at == 3

    @reachable
    def nowhere(self, me: Walker) -> bool:
        return False

    @reachable
    def anywhere(self, me: Walker) -> bool:
        return True

    @reachable(without=["Rescu"])
    def misspelt(self, me: Walker) -> bool:
        return me.at == 5


def of(*names: str, **more) -> SearchRequest:
    return SearchRequest(reachable=tuple(Maze.properties[name] for name in names), deadlock=False, **more)


def places(found: Result) -> list[list[int]]:
    return [[step.state.replicas[1].at for step in one.trace] for one in found.violations]


@pytest.mark.parametrize("explore", WITHOUT_VIEWS)
@pytest.mark.parametrize(
    ("name", "states", "trace"),
    [
        ("Out", 1, [0, 4]),
        ("OutAsAWhole", 1, [0, 4]),
        ("OutAlone", 5, [0]),
        ("Nowhere", 6, [0]),
        ("Anywhere", 0, []),
    ],
)
def test_the_states_that_have_no_way_out(explore, name: str, states: int, trace: list[int]) -> None:
    found = explore(Maze(), of(name))
    assert found.complete
    if not states:
        assert (found.verdict, found.violations) == (Verdict.OK, [])
        return
    assert (found.verdict, found.only_of_behaviours) == (Verdict.VIOLATION, True)
    assert [(one.property, one.trap) for one in found.violations] == [(name, (states, 6))]
    assert places(found) == [trace]


@pytest.mark.parametrize("explore", WITHOUT_VIEWS)
@pytest.mark.parametrize("name", ["Near", "NearAsAWhole"])
def test_what_lies_beyond_a_constraint_is_no_way_out(explore, name: str) -> None:
    constraints = (Maze.properties[name],)
    assert explore(Maze(), of("Third", constraints=constraints)).verdict is Verdict.OK
    found = explore(Maze(), of("Out", constraints=constraints))
    assert [one.trap for one in found.violations] == [(4, 4)]


@pytest.mark.parametrize("explore", WITHOUT_VIEWS)
def test_all_that_does_not_stay_reachable_is_found_with_continue(explore) -> None:
    found = explore(Maze(), of("Out", "Anywhere", "OutAlone", keep_going=True))
    assert {one.property: one.trap for one in found.violations} == {"Out": (1, 6), "OutAlone": (5, 6)}


@pytest.mark.parametrize("explore", WITHOUT_VIEWS)
@pytest.mark.parametrize("limit", [{"max_states": 2}, {"max_depth": 2}])
def test_a_search_that_is_not_complete_says_neither_the_one_nor_the_other(explore, limit: dict[str, int]) -> None:
    found = explore(Maze(), of("Nowhere", "Anywhere", **limit))
    assert (found.verdict, found.complete, found.violations) == (Verdict.INCOMPLETE, False, [])
    assert "Nowhere, Anywhere: reachability was not checked, since" in found.notes[-1]


@pytest.mark.parametrize("explore", ENGINES)
@pytest.mark.parametrize(
    ("options", "message"),
    [
        (of("Misspelt"), "Misspelt, without=: unknown action Rescu"),
        (of("Out", search="dfs"), "@reachable Out: not supported by --search dfs; expected --search bfs"),
    ],
)
def test_what_cannot_be_checked_is_refused(explore, options: SearchRequest, message: str) -> None:
    with pytest.raises(InputError, match=message):
        explore(Maze(), options)


class Climber(Protocol):
    """Goes up at the expense of a bound, which a view may leave out."""

    steps: int = bound("MaxSteps")
    views = {"endless": hide("steps"), "blind": hide("flag")}

    class Flag(Record):
        flag: bool = False

    def initial(self) -> Iterator[State]:
        yield self.start([Walker(1, 0)], self.Flag())

    @internal
    def climb(self, me: Walker) -> Steps:
        yield become(me.but(at=(me.at + 1) % 3)).spend("steps")

    @reachable
    def top(self, me: Walker) -> bool:
        return me.at == 2

    @reachable
    def top_or_no_more_steps(self, me: Walker, spent: Map[str, int]) -> bool:
        return me.at == 2 or spent["steps"] == self.steps


@pytest.mark.parametrize("explore", ALL)
def test_a_bound_that_is_used_up_ends_the_ways_out_unless_the_property_says_otherwise(explore) -> None:
    for name, trap in (("Top", (1, 7)), ("TopOrNoMoreSteps", None)):
        found = explore(Climber(steps=6), SearchRequest(reachable=(Climber.properties[name],), deadlock=False))
        assert [one.trap for one in found.violations] == ([trap] if trap else [])


@pytest.mark.parametrize("explore", ALL)
def test_a_view_may_leave_out_a_bound_that_is_not_used_up(explore) -> None:
    asked = SearchRequest(reachable=(Climber.properties["Top"],), deadlock=False, view="endless")
    found = explore(Climber(steps=6), asked)
    assert (found.verdict, found.distinct_states) == (Verdict.OK, 3)
    with pytest.raises(InputError, match=r"leaves out MaxSteps, and a state has (nothing|too little) of it left"):
        explore(Climber(steps=2), asked)
    with pytest.raises(InputError, match="VIEW blind leaves out flag, on which reachability may depend"):
        explore(Climber(steps=6), replace(asked, view="blind"))


class Wide(Protocol):
    """Goes from one place to many others, and from there nowhere."""

    def initial(self) -> Iterator[State]:
        yield self.start([Walker(1, 0)], Nothing())

    @internal
    def walk(self, me: Walker) -> Steps:
        if me.at == 0:
            yield from (become(me.but(at=place)) for place in range(1, 2_000))

    @reachable
    def end(self, me: Walker) -> bool:
        return me.at == 1


@pytest.mark.slow
@pytest.mark.kernel
@pytest.mark.parametrize("memory", [1, 200_000])
def test_a_state_graph_that_does_not_fit_in_memory_goes_to_disk(memory: int) -> None:
    asked = SearchRequest(reachable=(Wide.properties["End"],), deadlock=False, memory=memory)
    (violation,) = tables.explore(Wide(), asked).violations
    assert violation.trap == tables.explore(Wide(), replace(asked, memory=None)).violations[0].trap


# Random protocols


@projection
def phase(self: Any, me: Record) -> int:
    return me.phase  # type: ignore[attr-defined]


def each(self: Any, me: Node) -> bool:
    return me.phase == 2


def some(self: Any, phase: Map[Any, int]) -> bool:
    return 2 in phase.values()


def spending(self: Any, phase: Map[Any, int], spent: Map[str, int]) -> bool:
    return 1 in phase.values() and spent["launches"] == self.launches


def empty(self: Any, state: State) -> bool:
    return not state.inboxes


def low(self: Any, me: Node, message: Ping) -> bool:
    return message.level + me.phase < 2


def drawn(random: Random, protocol: Protocol) -> tuple[Property, ...]:
    actions = list(protocol.actions)
    return tuple(
        Property(
            function.__name__,
            "reachable",
            function,
            (phase.projection,) if "phase" in function.__code__.co_varnames else (),  # type: ignore[attr-defined]
            tuple(random.sample(actions, random.choice((0, 0, 1)))),
        )
        for function in (each, some, spending, empty, low)
    )


def expected(found: Sample, options: SearchRequest) -> dict[str, tuple[tuple[int, int], int]]:
    """Return the states that have no way out, and the length of a shortest way to one, by networkx."""
    search = reference.ReferenceSearch(found.protocol, replace(options, reachable=()))
    search.run()
    graph, states = graphs.graph_of_search(search), list(search.states())
    starts = [number for number, node in graph.nodes(data=True) if node["initial"]]
    depths = nx.multi_source_dijkstra_path_length(graph, starts, weight=None)
    result = {}
    for prop in options.reachable:
        ways = nx.DiGraph((a, b) for a, b, edge in graph.edges(data=True) if edge["action"] not in prop.without)
        ways.add_nodes_from(graph)
        goals = [number for number in graph if search.semantics.holds(prop, states[number - 1])]
        stuck = set(graph) - set(goals).union(*(nx.ancestors(ways, goal) for goal in goals))
        if stuck:
            result[prop.name] = ((len(stuck), len(states)), 1 + min(depths[number] for number in stuck))
    return result


@pytest.mark.kernel
@pytest.mark.parametrize("examples", sizes(2, 12))
def test_all_engines_find_in_random_protocols_what_networkx_finds(
    examples: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(level_states, "STATES_A_BATCH", 50)
    monkeypatch.setattr(table_system, "MOST_SERIAL_STATES", 5)

    @settings(
        max_examples=examples,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.explicit, Phase.generate],  # a seed does not shrink
    )
    @given(seed=st.integers(0, 10**9), workers=st.integers(1, 2))
    def check(seed: int, workers: int) -> None:
        for found in sample(1, seed=seed, large=50, most=300):
            options = replace(found.description.options(found.protocol), properties=(), workers=workers)
            options = replace(options, reachable=drawn(Random(seed), found.protocol))
            wanted = expected(found, options)
            asked = [(reference.explore, options), (tables.explore, options)]
            if options.symmetry is None:
                asked += [(symbolic.explore, replace(options, search=order)) for order in SETS]
            for explore, one in asked:
                result = explore(found.protocol, one)
                ours = {one.property: (one.trap, len(one.trace)) for one in result.violations if one.trap}
                assert ours == wanted, found.description

    check()
