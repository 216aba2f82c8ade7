"""Small protocols on which searches by sets once said something else than the reference engine, or ended."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from kraftcheck.cli import main
from kraftcheck.explorer.reference import ReferenceSearch
from kraftcheck.explorer.result import DEADLOCK, Result, SearchRequest, Verdict
from kraftcheck.explorer.symbolic import engine, property_checks, variable_orders
from kraftcheck.explorer.symbolic.checkpoint import SymbolicCheckpoint
from kraftcheck.explorer.symbolic.diagram_store import DiagramStore
from kraftcheck.explorer.symbolic.engine import explore
from kraftcheck.explorer.symbolic.variable_orders import replicas_met_by_walks
from kraftcheck.explorer.symbolic.violations import ViolationFinder
from kraftcheck.spec import (
    Bag,
    Map,
    Protocol,
    Record,
    State,
    Step,
    Steps,
    action_constraint,
    become,
    bound,
    constraint,
    consume,
    environment,
    hide,
    internal,
    invariant,
    on,
    projection,
    reachable,
    step_invariant,
)
from kraftcheck.spec.errors import InputError
from kraftcheck.spec.language.semantics import Semantics, initial_states
from tests.support.tlc import bound as configured

pytestmark = pytest.mark.kernel
SCHEMA = json.loads((Path(__file__).parents[2] / "docs" / "check.schema.json").read_text())
ORDERS = ("bfs", "saturation", "chaining")


class Node(Record):
    """A replica that counts."""

    id: int
    count: int = 0


class Nothing(Record):
    """No shared state."""


class Ping(Record):
    """A message that says nothing."""

    dest: int


class Two(Protocol):
    """Two nodes that count to six."""

    network = Bag()
    most = 6

    def initial(self) -> Iterator[State]:
        """Both at 0."""
        yield self.start([Node(1), Node(2)], Nothing())

    @internal
    def up(self, me: Node) -> Steps:
        """Count."""
        if me.count < self.most:
            yield become(me.but(count=me.count + 1))


class Boxes(Two):
    """Only what should stay reachable reads inboxes."""

    most = 0

    @projection
    def waiting(self, messages: tuple[Ping, ...]) -> int:
        """Messages under way."""
        return len(messages)

    @internal
    def send(self, me: Node) -> Steps:
        """Send one."""
        if me.count < 2:
            yield become(me.but(count=me.count + 1)).send(Ping(3 - me.id))

    @on(Ping)
    def take(self, me: Node, ping: Ping) -> Steps:
        """Take one."""
        yield consume(me)

    @reachable(reads=waiting)
    def full(self, waiting: Map[int, int]) -> bool:
        """Somebody has two messages."""
        return max(waiting.values()) == 2


class Whole(Two):
    """A property reads whole states."""

    @invariant
    def two(self, state: State) -> bool:
        """There are two."""
        return len(state.replicas) == 2


class TooFar(Two):
    """Violates an invariant and a property of steps, and ends."""

    @invariant
    def few(self, me: Node, peer: Node) -> bool:
        """No more than ten together."""
        return me.count + peer.count < 11

    @step_invariant
    def short(self, before: Node, after: Node) -> bool:
        """Nobody comes to six."""
        return after.count < 6


class Constrained(Two):
    """All that is new at last is beyond a constraint."""

    @constraint
    def few(self, me: Node) -> bool:
        """No more than two."""
        return me.count < 3


class Raising(Two):
    """An action that raises beyond an action constraint."""

    most = 60

    @internal
    def up(self, me: Node) -> Steps:
        """Count, but never from 50."""
        if me.count == 50:
            raise ValueError
        yield become(me.but(count=me.count + 1))

    @action_constraint
    def few(self, before: Node, after: Node) -> bool:
        """No more than 49."""
        return after.count < 50


class Dawning(Two):
    """A step of the environment, which is known before any is taken."""

    @environment
    def dawn(self) -> Steps:
        """Nothing is different."""
        yield Step()


class Low(Two):
    """An invariant that is violated, and a deadlock far beyond."""

    @invariant
    def low(self, me: Node) -> bool:
        """No more than two."""
        return me.count < 3


class Seen(Protocol):
    """A VIEW that leaves out what a property reads."""

    views = {"unspent": hide("ticks")}
    ticks: int = bound("Ticks")

    def initial(self) -> Iterator[State]:
        """One node."""
        yield self.start([Node(1)], Nothing())

    @internal
    def up(self, me: Node) -> Steps:
        """Count once, for a tick."""
        if me.count < 1:
            yield become(me.but(count=1)).spend("ticks")

    @reachable
    def spends(self, spent: Map[str, int]) -> bool:
        """A tick is spent."""
        return spent["ticks"] >= 1


class Jumping(Two):
    """A node might jump to where it can only go back from, or ends; but it may not jump."""

    def initial(self) -> Iterator[State]:
        """One at 0."""
        yield self.start([Node(1)], Nothing())

    @internal
    def jump(self, me: Node) -> Steps:
        """Go from 0 to the end."""
        if me.count == 0:
            yield become(me.but(count=self.most))

    @action_constraint
    def slow(self, before: Node, after: Node) -> bool:
        """Nobody goes on by more than one."""
        return after.count - before.count <= 1

    @reachable
    def low(self, me: Node) -> bool:
        """It is not at the end."""
        return me.count < self.most


class Falling(Jumping):
    """The same, where one step leads back."""

    @internal
    def fall(self, me: Node) -> Steps:
        """Go back from the end."""
        if me.count == self.most:
            yield become(me.but(count=me.count - 1))

    @step_invariant
    def never_back(self, before: Node, after: Node) -> bool:
        """Nobody goes back."""
        return after.count >= before.count


def options_of(protocol: Protocol, **more: Any) -> SearchRequest:
    given: dict[str, tuple[Any, ...]] = dict.fromkeys(("invariant", "constraint", "action_constraint", "reachable"), ())
    for prop in protocol.properties.values():
        given[{"step_invariant": "invariant"}.get(prop.kind, prop.kind)] += (prop,)
    kinds = {"properties": "invariant", "constraints": "constraint", "action_constraints": "action_constraint"}
    found = {name: given[kind] for name, kind in kinds.items()} | {"reachable": given["reachable"], "deadlock": False}
    return SearchRequest(**{**found, **more})


def told(result: Result) -> tuple[object, ...]:
    lengths = {violation.property: (len(violation.trace), violation.trap) for violation in result.violations}
    return result.verdict, result.distinct_states, result.generated_states, result.actions, lengths


@pytest.mark.parametrize("order", ORDERS)
def test_only_what_should_stay_reachable_reads_inboxes(order: str) -> None:
    protocol = Boxes()
    expected = ReferenceSearch(protocol, options_of(protocol)).run()
    assert expected.violations
    assert told(explore(protocol, options_of(protocol, search=order))) == told(expected)


@pytest.mark.parametrize(
    ("protocol", "ways"), [(Jumping(), {("Deadlock", 7), ("Low", 7)}), (Falling(), {("NeverBack", 8)})]
)
@pytest.mark.parametrize("order", ORDERS)
def test_only_invariants_are_evaluated_beyond_action_constraints(
    order: str, protocol: Protocol, ways: set[tuple[str, int]]
) -> None:
    """The way to a deadlock, a trap or a wrong step took a step that they do not allow, as it was shorter."""
    options = options_of(protocol, deadlock=True, keep_going=True)
    expected = ReferenceSearch(protocol, options).run()
    assert {(one.property, len(one.trace)) for one in expected.violations} == ways
    assert told(explore(protocol, replace(options, search=order))) == told(expected)


def test_the_depth_after_a_resume_where_all_that_is_new_is_beyond_a_constraint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    protocol = Constrained()
    options = options_of(protocol, search="bfs")
    monkeypatch.setattr(SymbolicCheckpoint, "is_due", lambda *_: True)
    expected = explore(protocol, replace(options, checkpoint=tmp_path))
    found = explore(protocol, replace(options, resume=tmp_path))
    assert (found.depth, *told(found)) == (expected.depth, *told(expected))
    assert expected.depth == 5


def test_orders_are_compared_within_action_constraints(monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[object] = []
    made = variable_orders.OrderTrials._nodes_made

    def counted(trials: variable_orders.OrderTrials, *given: Any) -> int | None:
        looks.append(given)
        return made(trials, *given)

    monkeypatch.setattr(variable_orders.OrderTrials, "_nodes_made", counted)
    monkeypatch.setattr(variable_orders, "TRIAL_NODE_BUDGETS", ((4, 5_000),))
    monkeypatch.setattr(engine, "CLOCK_CHECK_SECONDS", 0.0)
    protocol = Raising()
    found = explore(protocol, options_of(protocol, search="saturation"))
    assert (found.verdict, found.distinct_states) == (Verdict.OK, 2_500)
    assert looks


@pytest.mark.parametrize("order", ORDERS)
def test_a_search_that_ended_with_a_violation_ends_with_it_again(order: str, tmp_path: Path) -> None:
    protocol = Low()
    options = options_of(protocol, search=order, deadlock=True)
    first = explore(protocol, replace(options, checkpoint=tmp_path))
    assert [violation.property for violation in first.violations] == ["Low"]
    assert told(explore(protocol, replace(options, resume=tmp_path))) == told(first)


def test_a_limit_of_few_nodes_is_called_so() -> None:
    protocol = configured("counts/two-voters-two-elections").protocol
    found = explore(protocol, SearchRequest(search="bfs", deadlock=False, max_nodes=500))
    assert found.limit == "max_nodes"


def test_what_a_view_leaves_out_is_not_read_as_nothing() -> None:
    protocol = Seen(ticks=4)
    assert ReferenceSearch(protocol, options_of(protocol)).run().verdict is Verdict.OK
    with pytest.raises(InputError, match="reads ticks, which VIEW unspent leaves out: it is evaluated on the view"):
        explore(protocol, options_of(protocol, search="bfs", view="unspent"))


def test_a_collection_of_garbage_is_told() -> None:
    """What is kept by the numbers of sets is forgotten then."""
    store = DiagramStore(2, 1 << 22, lambda *_: 0)
    before = store.collections
    store.collect_garbage([])
    assert store.collections == before + 1


@pytest.mark.parametrize("order", ["saturation", "chaining"])
def test_how_many_states_are_wrong_is_told(order: str) -> None:
    protocol = TooFar()
    result = explore(protocol, options_of(protocol, search=order, deadlock=True, keep_going=True))
    assert {violation.property for violation in result.violations} == {"Few", "Short", DEADLOCK}
    assert result.distinct_states == 49
    assert result.notes[1:] == [
        "3 states have Few violated",
        "13 states have Short violated",
        "1 states have no next state",
    ]


def test_replicas_that_appear_late_are_met_by_random_walks() -> None:
    class Growing(Two):
        @internal
        def grow(self, me: Node) -> Steps:
            assert me.id < 4
            if me.count == 2 and me.id > 1:
                yield become(me).write(Node(me.id + 1))

    semantics = Semantics(Growing())
    assert replicas_met_by_walks(semantics, list(initial_states(semantics, "Init"))) == [1, 2, 3, 4]


def test_what_cannot_be_checked_at_a_limit_loses_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(property_checks, "MOST_WHOLE_STATES", 0)
    protocol = Whole()
    with pytest.raises(InputError, match="Two reads whole states, and there are 49"):
        explore(protocol, options_of(protocol, search="saturation"))
    result = explore(protocol, options_of(protocol, search="saturation", time_limit=1e-9))
    assert (result.verdict, result.limit) == (Verdict.INCOMPLETE, "time_limit")
    assert result.notes[0].startswith("properties were not checked on the states found so far: Two reads whole")


@pytest.mark.parametrize("order", ["saturation", "chaining"])
def test_an_interrupt_while_properties_are_evaluated_at_a_limit(order: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **__: object) -> dict[str, int]:
        raise KeyboardInterrupt

    monkeypatch.setattr(ViolationFinder, "of", interrupted)
    protocol = TooFar()
    result = explore(protocol, options_of(protocol, search=order, time_limit=1e-9))
    assert (result.verdict, result.limit) == (Verdict.INCOMPLETE, "time_limit")


def test_no_step_is_taken_in_the_initial_states_alone() -> None:
    protocol = Dawning()
    options = options_of(protocol, search="bfs", max_depth=1)
    found = explore(protocol, options)
    assert found.uncounted == []
    assert told(found) == told(ReferenceSearch(protocol, options).run())


@pytest.mark.slow
def test_steps_that_were_not_counted_are_null_in_json(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "MOST_NODES_TO_COUNT_STEPS", 0)
    path = tmp_path / "found.json"
    words = ["check", "quorum", "--config", "smoke", "--engine", "symbolic", "--max-nodes", "1024", "--json", str(path)]
    assert main(words) == 20
    content = json.loads(path.read_text())
    jsonschema.validate(content, SCHEMA)
    assert content["generated_states"] is None
    assert content["actions"]["ElectionTimeout"] is None
    assert content["actions"]["Upgrade"] == 0
    assert "ElectionTimeout" not in content["never_enabled"]
    assert "steps were not counted" in content["notes"]
