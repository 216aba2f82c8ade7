"""Whether states are better flat, or have control rows: see `kernel/flat`."""

from __future__ import annotations

import numpy as np

from kraftcheck.explorer.result import Options
from kraftcheck.explorer.tables.clustering import Clustering, sampled
from kraftcheck.explorer.tables.expander import Expander
from kraftcheck.explorer.tables.python_checks import PythonChecks
from kraftcheck.explorer.tables.states.levels import Levels
from kraftcheck.explorer.tables.states.spilling import SpillingSet

FLAT_FROM = 1 << 15
"""States from which control rows are given up where they do not repeat; before, too little is known of that."""
FLAT_SHARE = 0.5
"""They do not repeat where there are more control rows than so many times the states."""
CLUSTERS_FROM, CLUSTERS_TO = 1 << 17, 1 << 23
"""Flat states among which columns are looked for that are better packed together."""
ONE_WORD = 64
"""Bits of a packed state that is small enough."""
SAVED = 16
"""Bits of a state that must be saved for all to be packed anew."""


def are_better_flat(options: Options, expander: Expander, python: PythonChecks | None, visited: SpillingSet) -> bool:
    """Return whether control rows do not repeat, and nothing in a breadth-first search needs them."""
    interner = expander.learner.interner
    needs = options.checkpoint is not None or options.resume is not None or bool(options.over_behaviours)
    needs |= python is not None and python.constrains
    needs |= visited.archive is not None or bool(interner.sets.elements)
    needs |= not interner.slots and bool(interner.tables.hidden[: interner.base].all())  # nothing tells states apart
    return not expander.is_flat and not needs and expander.learner.counts()[0] > FLAT_SHARE * visited.count


def better_fields(expander: Expander, visited: SpillingSet, levels: Levels) -> list[list[int]] | None:
    """Return which columns of flat states are better packed together, field by field; None where none are."""
    states, interner = visited.count, expander.learner.interner
    if visited.archive is not None or expander.packing.bits <= ONE_WORD or states > CLUSTERS_TO:
        return None
    base, inboxes = interner.base, expander.inboxes
    widths = [max(1, count.bit_length()) for count in interner.flat_counts()]
    for column in np.flatnonzero(interner.tables.hidden[:base]).tolist():
        widths[column] = 0
    clustering = Clustering(sampled(levels), states, widths)
    clustering.merge_all([*([base + s, inboxes + s] for s in range(inboxes - base)), list(range(base))])
    return clustering.fields() if clustering.bits() + SAVED <= expander.packing.bits else None
