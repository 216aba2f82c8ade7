"""Deep and narrow state spaces: a level costs the same, however many there are."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from kraftcheck import MessageSet, Protocol, Record, State, Steps, become, constant, internal, invariant
from kraftcheck.explorer.result import SearchRequest
from kraftcheck.explorer.tables import level_states
from kraftcheck.explorer.tables.searches.bfs import BreadthFirstSearch

pytestmark = pytest.mark.kernel


class Counter(Record):
    id: int
    count: int = 0


class Chain(Protocol):
    """Each state has one successor; every value is new."""

    network = MessageSet()
    most: int = constant("Most", default=0)

    def initial(self) -> Iterator[State]:
        yield self.start([Counter(1)])

    @internal
    def increase(self, me: Counter) -> Steps:
        if me.count < self.most:
            yield become(me.but(count=me.count + 1))

    @invariant
    def below(self, me: Counter) -> bool:
        return me.count < self.most


def levels(most: int, *, checked: bool = False) -> tuple[BreadthFirstSearch, float]:
    """Search a chain; return the search and its processor time for each level."""
    protocol = Chain(most=most)
    options = SearchRequest(properties=tuple(protocol.properties.values()) if checked else (), deadlock=False)
    search, began = BreadthFirstSearch(protocol, options, 2), time.process_time()
    result = search.run()
    assert (result.depth, result.distinct_states, len(result.violations)) == (most + 1, most + 1, int(checked))
    return search, (time.process_time() - began) / most


def test_a_chain_has_a_level_for_each_state(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(level_states, "FLAT_FROM_STATES", 100)
    search, _ = levels(400)
    assert not search.expander.is_flat  # its control rows do not repeat, and neither do their columns


def test_the_violation_at_the_end_of_a_chain_has_the_whole_trace() -> None:
    search, _ = levels(400, checked=True)
    (violation,) = search.monitor.result.violations
    assert [len(violation.trace), violation.trace[-1].state.replicas[1]] == [401, Counter(1, 400)]


@pytest.mark.slow
def test_a_level_costs_the_same_at_any_depth() -> None:
    """A cost that grows with the depth is twenty times as much here."""
    levels(100)
    short, long = (min(levels(most)[1] for _ in range(2)) for most in (1_000, 20_000))
    assert long < 4 * short
