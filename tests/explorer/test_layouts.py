"""Every path of a search before and after each change of layout, with no, one, many and late replicas."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from kraftcheck.explorer.random_walks import WalkPlan, simulate
from kraftcheck.explorer.reference import ReferenceSearch
from kraftcheck.explorer.result import Behaviour, Result, SearchRequest
from kraftcheck.explorer.tables import expander as expanding
from kraftcheck.explorer.tables import level_states
from kraftcheck.explorer.tables import visited as visiting
from kraftcheck.explorer.tables.searches.bfs import BreadthFirstSearch
from kraftcheck.explorer.tables.visited import SpillingSet
from kraftcheck.explorer.transition_system import canonicalizer
from kraftcheck.spec import (
    Bag,
    Formula,
    Map,
    ModelValue,
    Protocol,
    Record,
    State,
    Step,
    Steps,
    become,
    bound,
    constant,
    constraint,
    consume,
    environment,
    eventually,
    hide,
    internal,
    invariant,
    on,
    ordered,
    predicate,
    projection,
    reachable,
    step_invariant,
    temporal,
    weak,
)
from kraftcheck.spec.language.semantics import Semantics
from tests.support.explorer.comparison import found
from tests.support.explorer.lassos import require_counterexample

pytestmark = pytest.mark.kernel

NODES = tuple(ModelValue(f"n{number}", number) for number in range(1, 5))
COLOURS = frozenset(ModelValue(name, 10 + number) for number, name in enumerate(("red", "blue")))


class Node(Record):
    id: ModelValue
    count: int = 0
    heard: int = 0


class Ping(Record):
    source: ModelValue
    dest: ModelValue


class World(Record):
    trail: tuple[ModelValue, ...] = ()
    total: int = 0
    noise: int = 0


class Number(Record):
    number: int = 0


class Trail(Protocol):
    """The environment adds colours to a trail, in any order; nodes count and ping; late nodes appear at length 2."""

    nodes: frozenset[ModelValue] = constant("Nodes")
    late: frozenset[ModelValue] = constant("Late")
    colours: frozenset[ModelValue] = constant("Colours")
    most: int = constant("MaxCount")
    adds: int = bound("MaxAdds")
    network = Bag()
    symmetries = {"alike": ("nodes", "colours")}
    views = {"quiet": hide("noise")}

    def initial(self) -> Iterator[State]:
        yield self.start([Node(node) for node in ordered(self.nodes)], World())

    @projection
    def counts(self, me: Node) -> int:
        return me.count

    @environment
    def add(self, shared: World) -> Steps:
        for colour in ordered(self.colours):
            for noise in (shared.noise,) if shared.trail else (0, 1):
                longer = (*shared.trail, colour)
                yield Step().put(trail=longer, total=(shared.total + len(longer)) % 3, noise=noise).spend("adds")

    @environment(reads=counts)
    def appear(self, shared: World, counts: Map[ModelValue, int]) -> Steps:
        missing = [Node(node) for node in ordered(self.late) if node not in counts]
        if len(shared.trail) == 2 and missing:
            yield Step().write(*missing)

    @internal
    def count(self, me: Node, shared: World) -> Steps:
        if me.count < min(len(shared.trail), self.most):
            counted, others = become(me.but(count=me.count + 1)), ordered(self.nodes - {me.id})
            yield from [counted.send(Ping(me.id, node)) for node in others] or [counted]

    @on(Ping)
    def hear(self, me: Node, ping: Ping) -> Steps:
        yield consume(me.but(heard=1))

    @invariant
    def short(self, shared: World) -> bool:
        return len(shared.trail) < 4

    @invariant
    def low(self, me: Node, shared: World) -> bool:
        return me.count < self.most or shared.total != 1

    @invariant(reads=counts)
    def few(self, counts: Map[ModelValue, int]) -> bool:
        return sum(counts.values()) < 2

    @invariant
    def quiet(self, message: Ping, shared: World) -> bool:
        return shared.total != 2

    @step_invariant
    def slow(self, before: World, after: World) -> bool:
        return before.total < 2 or after.total > 0

    @constraint
    def bounded(self, me: Node, shared: World) -> bool:
        return me.count + me.heard + len(shared.trail) < 4

    @constraint
    def bounded_messages(self, message: Ping, shared: World) -> bool:
        return len(shared.trail) < 2

    @reachable
    def stays_red(self, shared: World) -> bool:
        return not shared.trail or shared.trail[-1] == ordered(self.colours)[0]

    @predicate
    def is_long(self, shared: World) -> bool:
        return len(shared.trail) > 1

    @temporal(fairness=[weak("Add")])
    def gets_long(self) -> Formula:
        return eventually(self.is_long)

    @temporal
    def gets_long_by_itself(self) -> Formula:
        return eventually(self.is_long)


MODELS = {"none": (0, 0, 0, 5), "one": (1, 0, 2, 4), "many": (3, 0, 1, 1), "late": (1, 1, 1, 3)}
"""By name: nodes, late nodes, how far they count, and how long the trail gets."""


def model(name: str) -> Trail:
    nodes, late, most, adds = MODELS[name]
    there, later = frozenset(NODES[:nodes]), frozenset(NODES[3 : 3 + late])
    return Trail(nodes=there, late=later, colours=COLOURS, most=most, adds=adds)


LAYOUTS = {"control rows": (1 << 30, 1 << 30), "flat": (1, 1 << 30), "flat midway": (4, 1 << 30), "packed": (5, 11)}
"""By name: the states from which they are flat, and from which columns are packed together."""


MARKS = dict.fromkeys(("control rows", "flat midway"), pytest.mark.slow) | {"flat": pytest.mark.exhaustive}


@pytest.fixture(params=[pytest.param(name, marks=MARKS.get(name, ())) for name in LAYOUTS])
def layout(
    request: pytest.FixtureRequest,
    laid_out: list[bool],
    packed_together: list[list[list[int]]],
    monkeypatch: pytest.MonkeyPatch,
) -> str:
    """Change the layout early; each change is noted in `laid_out` and `packed_together`."""
    name: str = request.param
    flat_from, clusters_from = LAYOUTS[name]
    monkeypatch.setattr(level_states, "FLAT_FROM_STATES", flat_from)
    monkeypatch.setattr(level_states, "CLUSTERING_FROM_STATES", clusters_from)
    return name


def safety(protocol: Protocol, *, constraints: tuple[str, ...] = ()) -> SearchRequest:
    properties = tuple(p for p in protocol.properties.values() if p.kind in ("invariant", "step_invariant"))
    within = tuple(protocol.properties[name] for name in constraints)
    return SearchRequest(properties=properties, constraints=within, deadlock=False, keep_going=True)


def require_behaviour(protocol: Protocol, trace: Behaviour) -> None:
    """Fail unless a behaviour is one of the protocol."""
    semantics = Semantics(protocol)
    assert trace[0].state in protocol.checked_initial()
    for before, after in pairwise(trace):
        steps = [(one.target, one.action) for one in semantics.transitions(before.state)]
        assert (after.state, after.action) in steps


def agree(protocol: Protocol, options: SearchRequest, result: Result, search: BreadthFirstSearch) -> None:
    """Fail unless a search found what the reference engine finds: each state once, all counts, true behaviours."""
    reference = ReferenceSearch(protocol, options)
    expected = reference.run()
    assert found(result) == found(expected)
    assert result.complete == expected.complete
    for violation in result.violations:
        if violation.loop is None:
            require_behaviour(protocol, violation.trace)
        else:
            require_counterexample(protocol, options, violation)
    if search.checkpoint is not None:
        return  # its file of states is closed
    identity = canonicalizer(protocol, options.symmetry, options.view)
    decode = search.expander.learner.interner.decode_state
    states = Counter(identity(decode(row)) for level in search.levels for rows in level for row in rows)
    assert set(states) == set(reference.numbers)
    assert max(states.values()) == 1


def whole(protocol: Protocol, options: SearchRequest, *, workers: int = 1, resume: Path | None = None) -> None:
    search = BreadthFirstSearch(protocol, replace(options, resume=resume), workers, batch=7)
    agree(protocol, options, search.run(), search)


def counterexamples(protocol: Protocol, **given: Any) -> None:
    """The search ends at the first violation, of each property in turn."""
    for prop in safety(protocol).properties:
        options = replace(safety(protocol), properties=(prop,), keep_going=False)
        expected, result = (
            ReferenceSearch(protocol, options).run(),
            BreadthFirstSearch(protocol, options, 1, batch=7).run(),
        )
        assert result.verdict is expected.verdict
        lengths = [[len(violation.trace) for violation in one.violations] for one in (result, expected)]
        assert lengths[0] == lengths[1]
        for violation in result.violations:
            require_behaviour(protocol, violation.trace)


def resumed(protocol: Protocol, folder: Path, **given: Any) -> None:
    options = safety(protocol)
    begun = BreadthFirstSearch(protocol, replace(options, checkpoint=folder, max_states=20), 1, batch=3).run()
    assert not begun.complete
    whole(protocol, options, resume=folder)


def spilled(at: int, workers: int = 1) -> Callable[..., None]:
    """Return a path on which states go to disk, from so many in memory on."""

    def run(protocol: Protocol, monkeypatch: pytest.MonkeyPatch, **given: Any) -> None:
        monkeypatch.setattr(SpillingSet, "_is_full", lambda visited: visited.in_memory.count > at)
        whole(protocol, safety(protocol), workers=workers)

    return run


def side_by_side(protocol: Protocol, monkeypatch: pytest.MonkeyPatch, **given: Any) -> None:
    """Several workers share each batch."""
    for module in (expanding, visiting):
        monkeypatch.setattr(module, "MOST_SERIAL_STATES", 2)
    for symmetry in (None, "alike"):
        whole(protocol, replace(safety(protocol), symmetry=symmetry), workers=3)


def for_ever(kind: str) -> Callable[..., None]:
    """Return a path on which the state graph is followed."""

    def run(protocol: Protocol, **given: Any) -> None:
        properties = tuple(prop for prop in protocol.properties.values() if prop.kind == kind)
        assert properties
        whole(protocol, SearchRequest(deadlock=False, keep_going=True, **{kind: properties}))  # type: ignore[arg-type]

    return run


def under(**more: Any) -> Callable[..., None]:
    """Return a path with some more options."""
    return lambda protocol, **given: whole(protocol, replace(safety(protocol), **more))


PATHS: dict[str, Callable[..., None]] = {
    "counterexamples": counterexamples,
    "continue": under(),
    "workers": side_by_side,
    "symmetry": under(symmetry="alike"),
    "view": under(view="quiet"),
    "symmetry and view": under(symmetry="alike", view="quiet"),
    "constraint": lambda protocol, **given: whole(protocol, safety(protocol, constraints=("Bounded",))),
    "non-local": lambda protocol, **given: whole(protocol, safety(protocol, constraints=("BoundedMessages",))),
    "depth": under(max_depth=4),
    "spilled early": spilled(3),
    "spilled late": spilled(60, workers=2),
    "resumed": resumed,
    "reachable": for_ever("reachable"),
    "temporal": for_ever("temporal"),
}


NEVER_FLAT = ("non-local", "resumed", "reachable", "temporal")


@pytest.mark.sampled(9)
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("path", PATHS)
def test_every_path_in_every_layout(
    path: str,
    name: str,
    layout: str,
    laid_out: list[bool],
    packed_together: list[list[list[int]]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    PATHS[path](model(name), folder=tmp_path / "checkpoint", monkeypatch=monkeypatch)
    if path in NEVER_FLAT or layout == "control rows":
        assert laid_out == []
    elif path != "spilled early":  # states on disk are not laid out anew
        assert True in laid_out
        assert (False in laid_out) == (name == "late")
        assert any(len(field) > 1 for fields in packed_together for field in fields) == (layout == "packed")


class Sixty(Protocol):
    """A state is one column: a shared field."""

    views = {"nothing": hide("number")}

    def initial(self) -> Iterator[State]:
        yield self.start([], Number())

    @environment
    def add(self, shared: Number) -> Steps:
        for more in (1, 2):
            if shared.number < 60:
                yield Step().put(number=shared.number + more)

    @invariant
    def low(self, shared: Number) -> bool:
        return shared.number < 50


@pytest.mark.parametrize("view", [None, "nothing"])
def test_a_state_is_one_column_or_none(
    view: str | None, laid_out: list[bool], packed_together: list[list[list[int]]]
) -> None:
    options = safety(Sixty())
    whole(Sixty(), replace(options, view=view, properties=options.properties if view is None else ()))
    assert laid_out == ([True] if view is None else [])


@pytest.mark.parametrize("name", MODELS)
def test_random_walks(name: str) -> None:
    protocol = model(name)
    walks: list[Behaviour] = []
    plan = WalkPlan(runs=20, depth=8, seed=1)
    result = simulate(protocol, replace(safety(protocol), workers=2), plan, lambda number, walk: walks.append(walk))
    assert result.runs == len(walks) == 20
    for walk in (*walks, *(violation.trace for violation in result.violations)):
        require_behaviour(protocol, walk)
    assert result.distinct_states == len({step.state for walk in walks for step in walk})
    assert {one.property for one in result.violations} <= {one.name for one in safety(protocol).properties}
    assert result.violations
