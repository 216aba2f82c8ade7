"""By sets, a violation is told before all states are known, with a shortest counterexample."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from kraftcheck.explorer.result import SearchRequest, Verdict
from kraftcheck.explorer.symbolic import engine, violations
from kraftcheck.explorer.symbolic.engine import SymbolicSearch, explore
from kraftcheck.spec import (
    MessageSet,
    Protocol,
    Record,
    State,
    Steps,
    become,
    bound,
    constraint,
    consume,
    internal,
    invariant,
    on,
)
from tests.support.explorer.symbolic import check_traces, described

pytestmark = pytest.mark.kernel
ORDERS = ("saturation", "chaining")


@pytest.mark.slow
@pytest.mark.parametrize("count", [14, pytest.param(25, marks=pytest.mark.exhaustive)])
@pytest.mark.parametrize("order", ORDERS)
def test_random_protocols_looked_at_early(order: str, count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "CLOCK_CHECK_SECONDS", 0.0)
    monkeypatch.setattr(violations, "FIRST_CHECK_NODES", 0)
    monkeypatch.setattr(violations, "URGENT_CHECK_NODES", 0)
    monkeypatch.setattr(violations, "CHECK_TIME_MULTIPLE", 0)
    early = 0
    for description, protocol, options, theirs in described(count, 2_000):
        ours = explore(protocol, replace(options, search=order, keep_going=False, deadlock=False))
        shortest = {one.property: len(one.trace) for one in theirs.violations if one.property != "Deadlock"}
        assert (ours.verdict is Verdict.VIOLATION) is bool(shortest), description
        assert all(len(one.trace) == shortest[one.property] for one in ours.violations), description
        assert bool(shortest) or ours.distinct_states == theirs.distinct_states, description
        check_traces(ours, protocol)
        early += bool(shortest) and ours.distinct_states < theirs.distinct_states
    assert early >= 1 + (count > 14), early


class Node(Record):
    """A replica."""

    id: int
    flag: bool | None = None
    beta: int = 0


class World(Record):
    """The shared record."""

    seen: frozenset[int] = frozenset()


class Ask(Record):
    """A message with any set of numbers."""

    source: int
    dest: int
    held: frozenset[int]


class Answer(Record):
    """What lets a replica add to what is shared."""

    source: int
    dest: int


class Asking(Protocol):
    """Of more than 10^9 states some of the first levels violate the invariant."""

    losses: int = bound("MaxLosses", default=2)
    network = MessageSet(loses="losses")

    def initial(self) -> Iterator[State]:
        """Nobody has asked."""
        yield self.start([Node(number) for number in (1, 2, 3)], World())

    @internal
    def ask(self, me: Node, shared: World) -> Steps:
        """Ask both others."""
        held = shared.seen | {me.beta}
        yield become(me.but(flag=me.beta == 0)).send(*[Ask(me.id, to, held) for to in (1, 2, 3) if to != me.id])

    @internal
    def answer(self, me: Node, shared: World) -> Steps:
        """Answer anyone."""
        for to in (1, 2, 3):
            yield become(me.but(flag=None, beta=(me.beta + len(shared.seen)) % 2)).send(Answer(me.id, to))

    @on(Ask)
    def asked(self, me: Node, message: Ask) -> Steps:
        """Ask anyone else."""
        for to in (1, 2, 3) if me.flag else ():
            yield become(me.but(beta=1 - me.beta)).send(Ask(me.id, to, message.held - {me.beta}))

    @on(Answer)
    def answered(self, me: Node, message: Answer, shared: World) -> Steps:
        """Add a number to what is seen, or take one out."""
        yield consume(me.but(flag=None)).put(seen=shared.seen | {0} if me.flag is not None else shared.seen - {me.beta})

    @invariant
    def nothing_seen(self, shared: World) -> bool:
        """It is violated soon."""
        return not shared.seen

    @constraint
    def quiet(self, me: Node) -> bool:
        """It rules out a replica in one state, so the search is by chaining."""
        return me.flag is not True or me.beta == 0


@pytest.mark.slow
@pytest.mark.sampled(2)
@pytest.mark.parametrize("constrained", [False, True])
def test_a_shallow_violation_among_very_many_states(*, constrained: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without an early look it takes all 131,072 nodes that there may be."""
    monkeypatch.setattr(violations, "FIRST_CHECK_SECONDS", 0.5)
    protocol = Asking()
    options = SearchRequest(properties=(protocol.properties["NothingSeen"],), deadlock=False, max_nodes=1 << 17)
    if constrained:
        options = replace(options, constraints=(protocol.properties["Quiet"],))
    search = SymbolicSearch(protocol, replace(options, search="saturation"))
    result = search.run()
    assert (result.verdict, result.limit) == (Verdict.VIOLATION, None)
    assert len(result.violations[0].trace) == len(explore(protocol, options).violations[0].trace)
    assert search.space is not None
    assert search.space.store.nodes_made < 1 << 17
