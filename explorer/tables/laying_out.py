"""Whether states are better flat, or have control rows: see `kernel/flat`."""

from __future__ import annotations

from kraftcheck.explorer.result import Options
from kraftcheck.explorer.tables.expander import Expander
from kraftcheck.explorer.tables.python_checks import PythonChecks
from kraftcheck.explorer.tables.states.spilling import SpillingSet

FLAT_FROM = 1 << 15
"""States from which control rows are given up where they do not repeat; before, too little is known of that."""
FLAT_SHARE = 0.5
"""They do not repeat where there are more control rows than so many times the states."""


def are_better_flat(options: Options, expander: Expander, python: PythonChecks | None, visited: SpillingSet) -> bool:
    """Return whether control rows do not repeat, and nothing in a breadth-first search needs them."""
    interner = expander.learner.interner
    needs = options.checkpoint is not None or options.resume is not None or bool(options.over_behaviours)
    needs |= options.check_actions or (python is not None and python.constrains)
    needs |= visited.archive is not None or bool(interner.sets.elements) or interner.base + len(interner.slots) < 2
    return not expander.flat and not needs and expander.learner.counts()[0] > FLAT_SHARE * visited.count
