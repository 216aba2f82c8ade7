"""With SYMMETRY and no VIEW, the counts are TLC's: orbits of states.

The numbers in `symmetry/expected.json` are those of a build of TLC's current source, run on these `.cfg` files.
"""

from __future__ import annotations

import json

import pytest

from kraftcheck.explorer.result import Search, SearchRequest
from kraftcheck.explorer.tables.engine import explore
from tests.support.tlc import TLC, bound

pytestmark = pytest.mark.kernel

EXPECTED = json.loads((TLC / "symmetry" / "expected.json").read_text())
TWICE = 14  # fetches of a new server at position (0, 0), which TLC counts twice: see docs/conformance.md


QUICK_DFS = ("three-voters-remove-hosts",)
CASES = [
    pytest.param(name, search, marks=[pytest.mark.slow] * (search is Search.DFS and name not in QUICK_DFS))
    for name in sorted(EXPECTED)
    for search in (Search.BFS, Search.DFS)
]


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("name", "search"), CASES)
def test_counts_orbits_as_tlc_does(name: str, search: Search) -> None:
    model = bound(f"symmetry/{name}")
    assert model.symmetry is not None
    options = SearchRequest(
        search=search, properties=model.properties, deadlock=model.deadlock, symmetry=model.symmetry
    )
    result = explore(model.protocol, options)
    expected = EXPECTED[name]
    assert result.distinct_states == expected["distinct_states"]
    assert result.generated_states == expected["generated_states"] - (TWICE if name.startswith("grow") else 0)
    if search is Search.BFS:
        assert result.depth == expected["depth"]
