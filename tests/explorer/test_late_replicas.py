"""Replicas that appear after somebody asked for them, and methods that raise: where states are flat, too."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from kraftcheck.explorer.reference import ReferenceSearch
from kraftcheck.explorer.result import SearchRequest, Verdict
from kraftcheck.explorer.tables import level_states
from kraftcheck.explorer.tables.engine import explore
from kraftcheck.explorer.tables.searches.bfs import BreadthFirstSearch
from kraftcheck.spec import (
    Bag,
    Map,
    ModelValue,
    Protocol,
    Record,
    State,
    Step,
    Steps,
    become,
    constraint,
    environment,
    internal,
    invariant,
    on,
    projection,
    step_invariant,
)

pytestmark = pytest.mark.kernel

NODES = tuple(ModelValue(f"n{number}", number) for number in (1, 2, 3))
LATE = ModelValue("n4", 4)


class Node(Record):
    """A replica that counts."""

    id: ModelValue
    count: int = 0


class Stage(Record):
    """How far the environment is."""

    number: int = 0


class Ping(Record):
    """A message that says nothing."""

    dest: ModelValue


class Few(Protocol):
    """Three nodes, and a late one."""

    network = Bag()

    def initial(self) -> Iterator[State]:
        """Three nodes."""
        yield self.start([Node(node) for node in NODES], Stage())

    @projection
    def counts(self, me: Node) -> int:
        """How far each node is."""
        return me.count


class Counting(Few):
    """The three count."""

    @internal
    def up(self, me: Node) -> Steps:
        """Count."""
        if me.id != LATE and me.count < 3:
            yield become(me.but(count=me.count + 1))


class LateInAnInvariant(Counting):
    """An invariant of the late node, of which all is well while it is not there."""

    @environment
    def go(self, shared: Stage) -> Steps:
        """Go on; the late node appears at stage 4."""
        if shared.number < 6:
            late = [Node(LATE)] if shared.number == 4 else []
            yield Step().put(number=shared.number + 1).write(*late)

    @internal
    def late(self, me: Node, shared: Stage) -> Steps:
        """The late node counts at the end."""
        if me.id == LATE and shared.number == 6 and me.count < 4:
            yield become(me.but(count=me.count + 1))

    @invariant(reads=Few.counts)
    def low(self, me: Node, counts: Map[ModelValue, int]) -> bool:
        """The late node is low."""
        return me.id != NODES[0] or LATE not in counts or counts[LATE] < 2


class LateInAnAction(Few):
    """A handler that does nothing while the late node is not there."""

    @environment
    def go(self, shared: Stage) -> Steps:
        """Two equal pings, and then the late node."""
        if shared.number < 2:
            yield Step().put(number=shared.number + 1).send(Ping(NODES[0]))
        elif shared.number == 2:
            yield Step().put(number=3).write(Node(LATE))

    @on(Ping, reads=Few.counts)
    def hear(self, me: Node, ping: Ping, counts: Map[ModelValue, int]) -> Steps:
        """Take a ping once the late node is there."""
        if LATE in counts:
            yield become(me.but(count=9)).but(consumes=True)

    @invariant
    def low(self, me: Node) -> bool:
        """Nobody is high."""
        return me.count < 9


class InvariantAsserts(Counting):
    """An invariant with an assert."""

    @invariant
    def fine(self, me: Node, peer: Node) -> bool:
        """It says nothing."""
        assert me.count + peer.count < 5
        return True


class ConstraintAsserts(Counting):
    """A constraint with an assert."""

    @constraint
    def fine(self, me: Node, peer: Node) -> bool:
        """It says nothing."""
        assert me.count + peer.count < 5
        return True


class ActionAsserts(Counting):
    """An action with an assert, in a batch in which the late node appears."""

    @internal
    def make(self, me: Node) -> Steps:
        """Make the late node."""
        if me.count == 2 and me.id == NODES[0]:
            yield become(me).write(Node(LATE))

    @internal
    def fail(self, me: Node, shared: Stage) -> Steps:
        """It says nothing, and does nothing."""
        assert shared.number or me.count != 2 or me.id != NODES[0]
        return ()


class AnotherAsserts(Counting):
    """An action with an assert, and an invariant that is violated out of another state of the same level."""

    @internal
    def bad(self, me: Node, shared: Stage) -> Steps:
        """Count too far."""
        if shared.number == 0 and me.count == 2:
            yield become(me.but(count=7))

    @internal
    def fail(self, me: Node, shared: Stage) -> Steps:
        """It says nothing, and does nothing."""
        assert shared.number or me.count != 2 or me.id != NODES[1]
        return ()

    @invariant
    def low(self, me: Node) -> bool:
        """Nobody is high."""
        return me.count < 7


def options_of(protocol: Protocol, **more: object) -> SearchRequest:
    given = protocol.properties.values()
    invariants = tuple(prop for prop in given if prop.kind == "invariant")
    constraints = tuple(prop for prop in given if prop.kind == "constraint")
    return SearchRequest(properties=invariants, constraints=constraints, deadlock=False, **more)  # type: ignore[arg-type]


@pytest.fixture(params=[False, True], ids=["control rows", "flat"])
def layout(request: pytest.FixtureRequest, laid_out: list[bool], monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether states are flat, each time that is asked, or never."""
    is_flat: bool = request.param
    pause = BreadthFirstSearch._between_batches

    def asking(search: BreadthFirstSearch) -> None:
        search.layout.flat_from = 1 if is_flat else 1 << 30
        pause(search)

    monkeypatch.setattr(BreadthFirstSearch, "_between_batches", asking)
    return is_flat


@pytest.mark.parametrize("kind", [LateInAnInvariant, LateInAnAction])
@pytest.mark.parametrize("keep_going", [False, True])
def test_what_was_asked_of_a_replica_before_it_was_there(
    kind: type[Protocol], keep_going: bool, layout: bool, laid_out: list[bool]
) -> None:
    protocol = kind()
    options = options_of(protocol, keep_going=keep_going)
    expected, found = ReferenceSearch(protocol, options).run(), BreadthFirstSearch(protocol, options, 1).run()
    assert expected.verdict is Verdict.VIOLATION
    [first], [second] = expected.violations, found.violations
    assert (found.distinct_states, len(second.trace)) == (expected.distinct_states, len(first.trace))
    assert laid_out[:3] == ([True, False, True] if layout else [])
    assert explore(protocol, replace(options, search="dfs")).verdict is Verdict.VIOLATION


@pytest.mark.parametrize("kind", [InvariantAsserts, ConstraintAsserts, ActionAsserts])
@pytest.mark.parametrize("batch", [1, 1 << 16])
def test_a_failed_assert_is_told_with_the_way_there(
    kind: type[Protocol], batch: int, layout: bool, laid_out: list[bool]
) -> None:
    protocol = kind()
    expected = ReferenceSearch(protocol, options_of(protocol)).run()
    found = BreadthFirstSearch(protocol, options_of(protocol), 1, batch=batch).run()
    assert (found.verdict, expected.verdict) == (Verdict.ASSERTION, Verdict.ASSERTION)
    [first], [second] = expected.violations, found.violations
    assert (second.property, len(second.trace)) == (first.property, len(first.trace))
    assert (True in laid_out) == layout


@pytest.mark.parametrize("batch", [1, 2, 4, 1 << 16])
def test_an_assert_that_fails_while_the_least_violation_is_looked_for(batch: int, layout: bool) -> None:
    """Whichever comes first is told, with the way there."""
    protocol = AnotherAsserts()
    [found] = BreadthFirstSearch(protocol, options_of(protocol), 1, batch=batch).run().violations
    assert (found.property, len(found.trace)) in (("Fail", 3), ("Fail", 4), ("Low", 4))


class Counting(Record):
    """A replica that counts."""

    id: int
    count: int = 0


class Arrivals(Record):
    """Whether another one has appeared."""

    is_there: bool = False


class LateCount(Protocol):
    """A replica appears where two of three have counted to two, before which one of them may count too far."""

    network = Bag()

    @projection
    def counts(self, me: Counting) -> int:
        """How far it is."""
        return me.count

    def initial(self) -> Iterator[State]:
        """Three at 0."""
        yield self.start([Counting(1), Counting(2), Counting(3)], Arrivals())

    @internal
    def count(self, me: Counting) -> Steps:
        """Count."""
        if me.count < 5:
            yield become(me.but(count=me.count + 1))

    @environment(reads=counts)
    def appear(self, shared: Arrivals, counts: Map[int, int]) -> Steps:
        """Another one appears."""
        if not shared.is_there and tuple(counts[number] for number in (1, 2, 3)) == (0, 2, 2):
            yield Step().write(Counting(4)).put(is_there=True)

    @step_invariant
    def few(self, before: Counting, after: Counting) -> bool:
        """Nobody counts to five."""
        return after.count < 5


@pytest.mark.slow
def test_a_replica_that_appears_while_the_least_state_is_looked_for(
    laid_out: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Columns of states are packed together later on, where all of them have a place."""
    monkeypatch.setattr(level_states, "UNCLUSTERED_BITS", 0)
    protocol = LateCount()
    options = SearchRequest(properties=tuple(protocol.properties.values()), keep_going=True)
    expected = ReferenceSearch(protocol, options).run()
    assert expected.violations
    for states in (49, 50, 51):
        monkeypatch.setattr(level_states, "CLUSTERING_FROM_STATES", states)
        found = BreadthFirstSearch(protocol, options, 1, batch=1).run()
        assert (found.distinct_states, found.generated_states) == (expected.distinct_states, expected.generated_states)
    assert False in laid_out
