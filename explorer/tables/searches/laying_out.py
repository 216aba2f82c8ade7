"""Whether states are better flat, or have control rows: see `kernel/flat`."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kraftcheck.explorer.tables.searches.bfs import BreadthFirst

FLAT_FROM = 1 << 15
"""States from which control rows are given up where they do not repeat; before, too little is known of that."""
FLAT_SHARE = 0.5
"""They do not repeat where there are more control rows than so many times the states."""


def is_better_flat(search: BreadthFirst) -> bool:
    """Return whether control rows do not repeat, and nothing needs them."""
    options, learner, python = search.options, search.expander.learner, search.checker.python
    needs = search.checkpoint is not None or bool(options.over_behaviours) or options.check_actions
    beyond = python is not None and python.constrains
    narrow = learner.interner.base + len(learner.interner.slots) < 2
    if needs or beyond or narrow or learner.interner.sets.elements or search.visited.archive is not None:
        return False
    return not search.expander.flat and learner.counts()[0] > FLAT_SHARE * search.visited.count
