"""Compares the table engine with the reference engine."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from kraftcheck.explorer.result import Result, Search
from kraftcheck.explorer.tables.engine import explore
from kraftcheck.explorer.tables.searches.bfs import BreadthFirstSearch
from kraftcheck.explorer.transition_system import canonicalizer
from tests.support.explorer.random_protocols import Sample


def compared(result: Result) -> dict[str, object]:
    """Return what all engines must agree on."""
    return {
        "verdict": result.verdict,
        "distinct": result.distinct_states,
        "generated": result.generated_states,
        "actions": result.actions,
        "violated": sorted((v.property) for v in result.violations),
    }


def check_agreement(found: Sample, workers: int) -> None:
    """Compare the engines on one protocol: the set of states, the counts, the verdict, the shortest counterexamples."""
    protocol = found.protocol
    options = found.description.options(protocol)
    reference, expected = found.reference, found.result
    search = BreadthFirstSearch(protocol, options, workers)
    result = search.run()
    assert compared(result) == compared(expected), found.description
    assert result.depth == expected.depth, found.description
    shortest = {v.property: len(v.trace) for v in expected.violations}
    assert {v.property: len(v.trace) for v in result.violations} == shortest, found.description
    identity = canonicalizer(protocol, options.symmetry, options.view)
    decode = search.expander.learner.interner.decode_state
    states = [decode(row) for level in search.levels for rows in level for row in rows]
    ours = Counter(map(identity, states))
    assert max(ours.values()) == 1, found.description
    assert set(ours) == set(reference.numbers), found.description
    deep = explore(protocol, replace(options, search=Search.DFS))
    assert compared(deep) == compared(expected), found.description
