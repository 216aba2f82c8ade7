"""The symbolic engine beside the reference engine, on random protocols."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from random import Random

from kraftcheck.explorer.reference import explore as explore_by_reference
from kraftcheck.explorer.result import Result, Search, SearchRequest
from kraftcheck.explorer.symbolic.engine import explore
from kraftcheck.spec.errors import InputError
from kraftcheck.spec.language.protocol import Protocol
from tests.support.explorer.random_protocols import LADDER, Description, describe

SEARCHES = ("saturation", "chaining", "bfs")
MOST = 300  # distinct states of a random protocol


def found(result: Result, *, depth: bool) -> dict[str, object]:
    """Return all that engines must agree on."""
    return {
        "verdict": result.verdict,
        "distinct": result.distinct_states,
        "generated": result.generated_states,
        "actions": result.actions,
        "violations": {violation.property: len(violation.trace) for violation in result.violations},
        "depth": result.depth if depth else None,
    }


def described(count: int, first: int) -> Iterator[tuple[Description, Protocol, SearchRequest, Result]]:
    """Yield random protocols without symmetry, with what the reference engine finds."""
    seed = first
    while count:
        description = replace(describe(Random(seed)), symmetric=False, limits=LADDER[seed % 3])
        seed += 1
        protocol = description.build()
        options = description.options(protocol)
        result = explore_by_reference(protocol, replace(options, max_states=MOST + 1))
        if result.limit is None:
            count -= 1
            yield description, protocol, options, result


def agree(count: int, first: int = 0) -> Counter[str]:
    """Compare the engines on random protocols; return how many run, and how many are refused for which reason."""
    seen: Counter[str] = Counter()
    for description, protocol, options, result in described(count, first):
        try:
            for order in SEARCHES:
                ours = explore(protocol, replace(options, search=order))
                is_bfs = order == Search.BFS
                assert found(ours, depth=is_bfs) == found(result, depth=is_bfs), (order, description)
                check_traces(ours, protocol)
            seen["run"] += 1
        except InputError as error:
            seen[str(error).partition("the engine symbolic ")[2]] += 1
    return seen


def check_traces(result: Result, protocol: Protocol) -> None:
    """Check that counterexamples begin at a start."""
    starts = protocol.checked_initial()
    assert all(violation.trace[0].state in starts for violation in result.violations)
