"""TLC's counts, by the table engine."""

from __future__ import annotations

import pytest

from kraftcheck.explorer.result import Search, SearchRequest
from kraftcheck.explorer.tables.engine import explore
from tests.support.tlc import LARGE, MODELS, bound, expected

pytestmark = pytest.mark.kernel

OURS_ONCE = {"AcceptFetchRequestFromObserver": 14}  # TLC counts these steps twice: see docs/conformance.md
SLOW = {
    Search.BFS: LARGE,
    Search.DFS: (*LARGE, "two-voters-two-values-remove", "grow-and-shrink-with-election"),
}
MARKED = [
    pytest.param(name, search, marks=[pytest.mark.slow] * (name in SLOW[search]))
    for search in (Search.BFS, Search.DFS)
    for name in MODELS
]


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("name", "search"), MARKED)
def test_counts_are_tlcs(name: str, search: Search) -> None:
    model = bound(f"counts/{name}")
    options = SearchRequest(search=search, properties=model.properties, deadlock=model.deadlock)
    result = explore(model.protocol, options)
    wanted = expected()[name]
    assert result.distinct_states == wanted["distinct_states"]
    assert search is not Search.BFS or result.depth == wanted["depth"]
    less = OURS_ONCE if name.startswith("grow") else {}
    assert result.actions == {action: n - less.get(action, 0) for action, n in wanted["actions"].items()}
