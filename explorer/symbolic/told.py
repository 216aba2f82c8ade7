"""What the user is told of how a search by sets went."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from kraftcheck.explorer.result import DEADLOCK, Result
from kraftcheck.explorer.symbolic.search import Space
from kraftcheck.explorer.symbolic.store import EMPTY
from kraftcheck.explorer.symbolic.ways import VIOLATING

SLOW_SECONDS, TABLES_RATE = 5.0, 100_000
"""What the table engine takes for a search at most, more or less: seconds to learn, and states a second."""
MOST_NAMED, FEWEST_NAMED = 3, 1_000  # variables that a note names, where the first has so many nodes


def notes(space: Space, result: Result, traps: Collection[str]) -> Iterator[str]:
    """Tell what is worth to know of a search."""
    yield from _about_diagram(space)
    yield from _about_violations(space, traps)
    if result.uncounted:
        yield "steps were not counted"
    if result.limit is None and result.seconds > SLOW_SECONDS + result.distinct_states / TABLES_RATE:
        yield f"{result.distinct_states:,} states are few for so long a search: --engine tables may be faster"


def _about_diagram(space: Space) -> Iterator[str]:
    """Tell how large the diagram is, and which variables have most of it."""
    store, reached = space.store, space.store.roots.get("reached", EMPTY)
    size, variables = store.size(reached), len(space.variables.keys)
    yield f"a diagram of {size:,} nodes over {variables:,} variables; {store.nodes_made:,} nodes were made for it"
    levels = store.sizes(reached).most_common(MOST_NAMED)
    if levels and levels[0][1] >= FEWEST_NAMED:
        names = [f"{space.variables.name(level)} ({nodes:,})" for level, nodes in levels]
        yield f"most nodes are of {', '.join(names)}"


def _about_violations(space: Space, traps: Collection[str]) -> Iterator[str]:
    """Tell how many states violate what; of traps a counterexample tells it."""
    for root, states in space.store.roots.items():
        name = root.removeprefix(VIOLATING)
        if name != root and name not in traps:
            what = "no next state" if name == DEADLOCK else f"{name} violated"
            yield f"{space.store.count(states):,} states have {what}"

