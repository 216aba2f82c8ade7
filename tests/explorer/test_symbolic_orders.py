"""Another order of variables is found where it brings together what events are about; it changes no result."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path

import pytest

from kraftcheck.explorer.result import SearchRequest
from kraftcheck.explorer.symbolic import engine, variable_orders
from kraftcheck.explorer.symbolic.engine import SymbolicSearch
from kraftcheck.explorer.symbolic.relations import GENERAL_EDGES, VariableChange
from kraftcheck.explorer.symbolic.variable_orders import VariableOrder, anneal_order, cheapest_order, shared_first_order
from kraftcheck.explorer.symbolic.variables import VariableKey, VariableKind
from tests.support.explorer.symbolic import agree
from tests.support.sizes import sizes
from tests.support.tlc import bound, expected

pytestmark = pytest.mark.kernel
NAME = "two-voters"


@pytest.fixture
def eager(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look for another order early, and take it whatever it is."""
    looks = (30, 1 << 13), (60, 1 << 14)
    monkeypatch.setattr(variable_orders, "TRIAL_NODE_BUDGETS", looks)
    monkeypatch.setattr(engine, "CLOCK_CHECK_SECONDS", 0.0)
    monkeypatch.setattr(variable_orders, "LEAST_SPAN_REDUCTION", 0)


def test_what_events_are_about_is_brought_together() -> None:
    keys = [VariableKey(VariableKind.BOUND, name) for name in "abcdefgh"]
    events = [
        tuple((level, VariableChange(GENERAL_EDGES, 1)) for level in pair)
        for pair in ((0, 7), (1, 6), (2, 5), (3, 4), (3, 7))
    ]
    order = anneal_order(keys, events)
    assert order is not None
    assert sorted(order) == keys
    places = {key: place for place, key in enumerate(order)}
    assert [abs(places[keys[a]] - places[keys[b]]) for (a, _), (b, _) in events] == [1] * 5
    assert anneal_order(order, [tuple((level, VariableChange(GENERAL_EDGES, 1)) for level in (0, 1))]) is None


def test_the_order_that_makes_clearly_fewer_nodes_is_taken() -> None:
    kinds = VariableKind.LOCAL, VariableKind.BOUND, VariableKind.SHARED
    keys = tuple(map(VariableKey, kinds, "abc"))
    first = shared_first_order(keys)
    assert first == (keys[2], *keys[:2])
    tried: list[tuple[int, int]] = []

    def made(order: VariableOrder, limits: Mapping[str, int], most: int, times: int) -> int | None:
        nodes = sum(limits.values()) * 2_500 // (1 if order == keys else times)
        tried.append((sum(limits.values()), nodes))
        return nodes if nodes <= most else None

    for times, best in ((2, first), (1, keys)):
        assert cheapest_order([keys, first], {"b": 10, "d": 2}, partial(made, times=times), 1 << 13) == best
    assert max(tried) == (4, 10_000)
    assert tried[-1] == (3, 7_500)


@pytest.mark.slow
@pytest.mark.usefixtures("eager")
def test_another_order_counts_the_same(tmp_path: Path) -> None:
    protocol = bound(f"counts/{NAME}").protocol
    search = SymbolicSearch(protocol, SearchRequest(search="saturation", deadlock=False, checkpoint=tmp_path))
    assert search.run().distinct_states == expected()[NAME]["distinct_states"]
    assert search.space is not None
    order = search.space.variables.layout.order
    assert order == tuple(search.space.variables.keys)
    resumed = SymbolicSearch(protocol, SearchRequest(search="saturation", deadlock=False, resume=tmp_path))
    assert resumed.run().distinct_states == expected()[NAME]["distinct_states"]
    assert resumed.space is not None
    assert tuple(resumed.space.variables.keys) == order


@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize("count", sizes(None, 5, 30))
def test_random_protocols(count: int) -> None:
    assert agree(count, 7_000) == {"run": count}
