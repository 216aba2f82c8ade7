"""Distinct states, depth and times each action fired, against what TLC counted of the TLA+ specification."""

from __future__ import annotations

from collections import Counter

import pytest

from kraftcheck.explorer.reference import ReferenceSearch, explore
from kraftcheck.explorer.result import Search, SearchRequest, Verdict
from kraftcheck.kraft_model.reconfig import Reconfig
from kraftcheck.kraft_model.reconfig.records import FetchRequest
from kraftcheck.kraft_model.reconfig.rules import end_offset_for_epoch
from tests.support.tlc import LARGE, MODELS, bound, expected

OBSERVER = "AcceptFetchRequestFromObserver"
COUNTED_TWICE = {"grow-one-to-two": 14, "grow-with-election": 14, "grow-and-shrink-with-election": 14}
"""Steps of that action that TLC counts twice: where both disjuncts of ValidFetchPosition hold (docs/conformance.md)."""

LONGEST = (*LARGE, "two-voters-two-values-remove")
"""Minutes by the reference engine; by the table engine, in CI, seconds (test_tables.py)."""
MARKS = dict.fromkeys(LONGEST, pytest.mark.exhaustive) | {"grow-and-shrink-with-election": pytest.mark.slow}
ALL = [pytest.param(name, marks=MARKS.get(name, ())) for name in MODELS]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", ALL)
def test_counts_are_those_of_tlc(name: str) -> None:
    theirs = expected()[name]
    result = explore(bound(f"counts/{name}").protocol, SearchRequest(deadlock=False))
    assert (result.distinct_states, result.depth) == (theirs["distinct_states"], theirs["depth"])
    times = dict(theirs["actions"])
    times[OBSERVER] -= COUNTED_TWICE.get(name, 0)
    assert result.actions == times
    assert result.generated_states == theirs["generated_states"] - COUNTED_TWICE.get(name, 0)
    assert result.generated_states == 1 + sum(result.actions.values())


@pytest.mark.parametrize(
    "name", ["grow-one-to-two", "grow-with-election", pytest.param("two-voters-remove", marks=pytest.mark.slow)]
)
def test_what_tlc_counts_twice_are_first_fetches(name: str) -> None:
    protocol = bound(f"counts/{name}").protocol
    assert isinstance(protocol, Reconfig)
    search = ReferenceSearch(protocol, SearchRequest(deadlock=False))
    search.run()
    taken: Counter[str] = Counter()
    for state in search.states():
        for action, leader, request, _, _ in search.semantics.transitions(state):
            if isinstance(request, FetchRequest) and action.startswith(("AcceptFetchRequest", "Diverging")):
                first = request.fetch_offset == 0 and request.last_fetched_epoch == 0
                common = end_offset_for_epoch(state.replicas[leader].log, request.last_fetched_epoch)
                if first and request.fetch_offset <= common.offset and request.last_fetched_epoch == common.epoch:
                    taken[action] += 1
    assert taken == ({OBSERVER: COUNTED_TWICE[name]} if name in COUNTED_TWICE else {})


def test_all_ten_models_are_here() -> None:
    assert sorted(expected()) == MODELS
    assert len(MODELS) == 10
    assert set(LARGE) < set(MODELS)


@pytest.mark.parametrize(
    "name",
    [
        *("two-voters", "grow-one-to-two"),
        *(pytest.param(name, marks=pytest.mark.slow) for name in ("two-voters-restart", "grow-with-election")),
    ],
)
def test_depth_first_search_counts_the_same(name: str) -> None:
    protocol = bound(f"counts/{name}").protocol
    breadth = explore(protocol, SearchRequest(deadlock=False))
    depth = explore(protocol, SearchRequest(deadlock=False, search=Search.DFS))
    assert depth.distinct_states == breadth.distinct_states
    assert depth.generated_states == breadth.generated_states
    assert depth.actions == breadth.actions
    assert depth.depth is None


@pytest.mark.parametrize(
    ("name", "settings", "symmetry", "counts"),
    [
        ("three-voters", ("MaxElections=0", "MaxValuesPerEpoch=2"), None, (792, 458, 22)),
        pytest.param(
            *("three-voters", ("MaxElections=0", "MaxValuesPerEpoch=2"), "symmHosts", (418, 240, 22)),
            marks=pytest.mark.slow,
        ),
        ("two-voters", ("Value={v1, v2}", "MaxValuesPerEpoch=2"), None, (4213, 3140, 29)),
        pytest.param(
            *("two-voters", ("Value={v1, v2}", "MaxValuesPerEpoch=2"), "symmHostsAndValues", (2213, 1608, 29)),
            marks=pytest.mark.slow,
        ),
        ("two-voters", ("MaxElections=0", "Value={v1, v2}", "MaxValuesPerEpoch=2"), "symmHosts", (153, 121, 19)),
    ],
)
def test_symmetry_counts_what_tlc_counts(
    name: str, settings: tuple[str, ...], symmetry: str | None, counts: tuple[int, int, int]
) -> None:
    """The numbers are what TLC 2.15 printed for the same `.cfg` with a SYMMETRY; the leader's host is never moved."""
    protocol = bound(f"counts/{name}", Reconfig, *settings).protocol
    result = explore(protocol, SearchRequest(deadlock=False, symmetry=symmetry))
    assert (result.generated_states, result.distinct_states, result.depth) == counts


def test_two_voters_deadlocks_where_it_does_in_tlc() -> None:
    result = explore(bound("counts/two-voters").protocol, SearchRequest(deadlock=True))
    assert result.verdict is Verdict.DEADLOCK
    assert result.depth == 6
    assert (result.distinct_states, result.generated_states) == (31, 38)
    assert len(result.violations[0].trace) == 5
