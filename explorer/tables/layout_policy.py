"""Policy for the layout of states: when to switch to flat rows, and which columns to pack as a cluster.

Columns form a cluster if their joint contents are few for the bits of their own ids (`kernel/flat/clusters.py`). The
bytes of each distinct content are set against the bits saved in each state.
"""

from __future__ import annotations

from itertools import combinations
from math import log
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kraftcheck.explorer.result import SearchRequest
from kraftcheck.explorer.tables.level_states import LevelStates
from kraftcheck.explorer.tables.python_checks import PythonChecks
from kraftcheck.explorer.tables.states.levels import Levels
from kraftcheck.explorer.tables.states.packed_rows import Rows

FLAT_FROM = 1 << 15
"""Minimum number of states for a switch to the flat layout; fewer do not show whether control rows repeat."""
FLAT_SHARE = 0.5
"""Ratio to states, of control rows beyond the values of their columns, above which a switch to the flat layout pays."""
CLUSTERS_FROM, CLUSTERS_TO = 1 << 17, 1 << 23
"""Range of the number of flat states in which clusters are chosen."""
ONE_WORD = 64
"""Bits of a packed state that needs no clusters."""
SAVED = 16
"""Minimum number of bits saved per state that pays for repacking all states."""
SAMPLE = 1 << 17  # states in the sample
FLAG_BITS = 20  # binary logarithm of the bitmap size for linear counting
ENTRY, ITEM = 24, 4  # bytes of a content: its hash-table entry and head; each column
WORTH = 0.7  # weight of bytes saved in states against bytes spent on contents


class LayoutPolicy:
    """Decides when a breadth-first search switches its layout or packing."""

    def __init__(self, options: SearchRequest, states: LevelStates, python: PythonChecks | None) -> None:
        self.flat_from, self.clusters_from = FLAT_FROM, CLUSTERS_FROM  # number of states at the next decision
        self._options, self._states, self._python = options, states, python

    def wants_flat(self) -> bool:
        """Return whether to switch to flat rows: control rows hardly repeat, and no option needs them."""
        count = self._states.visited.count
        if count < self.flat_from or not self._are_better_flat(count):
            return False
        self.flat_from = 2 * count
        return True

    def _are_better_flat(self, count: int) -> bool:
        options, visited, expander = self._options, self._states.visited, self._states.expander
        interner = expander.learner.interner
        needs = options.checkpoint is not None or options.resume is not None or bool(options.over_behaviours)
        needs |= self._python is not None and self._python.constrains
        needs |= visited.archive is not None or bool(interner.shared.sets.elements)
        all_hidden = bool(interner.tables.hidden[: interner.base].all())
        needs |= not interner.slots and all_hidden  # a flat row needs at least one visible column
        if expander.is_flat or needs:
            return False
        values = sum(interner.flat_counts()[: interner.base + len(interner.slots)])
        return max(0, expander.learner.counts()[0] - values) > FLAT_SHARE * count

    def better_fields(self) -> list[list[int]] | None:
        """Return the columns of each field of a packing that saves enough bits, or None."""
        visited, expander, states = self._states.visited, self._states.expander, self._states.visited.count
        if not expander.is_flat or expander.layout.is_outgrown or states < self.clusters_from:
            return None
        self.clusters_from = 4 * states
        if visited.archive is not None or expander.packing.bits <= ONE_WORD or states > CLUSTERS_TO:
            return None
        clustering = self._clustering(states)
        return clustering.fields() if clustering.bits() + SAVED <= expander.packing.bits else None

    def _clustering(self, states: int) -> Clustering:
        """Return the clusters that a sample of the states suggests."""
        expander = self._states.expander
        interner, inboxes = expander.learner.interner, expander.layout.first_inbox
        base, widths = interner.base, [max(1, count.bit_length()) for count in interner.flat_counts()]
        for column in np.flatnonzero(interner.tables.hidden[:base]).tolist():
            widths[column] = 0
        clustering = Clustering(sample_states(self._states.levels), states, widths)
        clustering.merge_all([*([base + s, inboxes + s] for s in range(inboxes - base)), list(range(base))])
        return clustering

    def delay_clustering(self) -> None:
        """Delay the next choice of clusters until `CLUSTERS_FROM` states, or to the present number if larger."""
        self.clusters_from = max(CLUSTERS_FROM, self._states.visited.count)


class ColumnGroup(NamedTuple):
    """Columns that are packed as one field."""

    columns: list[int]
    bits: int  # of the field in a packed state
    cost: float  # estimated bytes of all distinct contents
    hashes: NDArray[np.uint64]  # hash of the contents in each state of the sample


class Clustering:
    """Greedy choice of the columns of flat states to pack together."""

    def __init__(self, rows: Rows, states: int, widths: list[int]) -> None:
        factors = np.random.default_rng(len(widths)).integers(1, 1 << 63, len(widths), np.uint64) * np.uint64(2)
        hashes = rows.astype(np.uint64) * (factors + np.uint64(1))
        self._states, self._half = states, len(rows) // 2
        self._scale = states / max(1, len(rows))
        self.units = [ColumnGroup([c], width, 0.0, hashes[:, c].copy()) for c, width in enumerate(widths) if width]

    def merge_all(self, parts: list[list[int]]) -> None:
        """Merge column groups greedily while that saves memory: first within each part, then any two groups."""
        for part in parts:
            mine = [unit for unit in self.units if unit.columns[0] in part]
            while len(mine) > 1 and (merged := self._merged(mine[0], mine[1])) is not None:
                self._replace(mine[0], mine[1], merged)
                mine[:2] = [merged]
        known: dict[tuple[tuple[int, ...], tuple[int, ...]], ColumnGroup | None] = {}
        while True:
            found: list[tuple[float, ColumnGroup, ColumnGroup, ColumnGroup]] = []
            for a, b in combinations(self.units, 2):
                key = tuple(a.columns), tuple(b.columns)
                if key not in known:
                    known[key] = self._merged(a, b)
                merged = known[key]
                if merged is not None:
                    found.append((self._gain(a, b, merged), a, b, merged))
            if not found:
                return
            self._replace(*max(found, key=lambda one: one[0])[1:])

    def fields(self) -> list[list[int]]:
        """Return the columns of each field, clusters first."""
        return sorted((sorted(unit.columns) for unit in self.units), key=lambda columns: (len(columns) == 1, columns))

    def bits(self) -> int:
        """Return the bits of a packed state."""
        return sum(unit.bits for unit in self.units)

    def _replace(self, a: ColumnGroup, b: ColumnGroup, merged: ColumnGroup) -> None:
        self.units = [unit for unit in self.units if unit is not a and unit is not b] + [merged]

    def _gain(self, a: ColumnGroup, b: ColumnGroup, merged: ColumnGroup) -> float:
        saved = (a.bits + b.bits - merged.bits) / 8 * self._states
        return WORTH * saved - (merged.cost - a.cost - b.cost)

    def _merged(self, a: ColumnGroup, b: ColumnGroup) -> ColumnGroup | None:
        """Return the union of two column groups, or None if packing them as one field does not pay."""
        hashes = a.hashes + b.hashes
        contents = self._contents(hashes)
        columns = a.columns + b.columns
        cost = contents * (ENTRY + ITEM * len(columns))
        merged = ColumnGroup(columns, int(contents).bit_length(), cost, hashes)
        return merged if self._gain(a, b, merged) > 0 else None

    def _contents(self, hashes: NDArray[np.uint64]) -> float:
        """Return the number of distinct contents in all states, extrapolated from the sample and its first half."""
        whole = linear_count(hashes)
        more = max(0.0, log(whole / max(1.0, linear_count(hashes[: self._half])), 2)) if self._half else 1.0
        return float(whole * self._scale**more)


def linear_count(hashes: NDArray[np.uint64]) -> float:
    """Return the estimated number of distinct hashes, by linear counting."""
    places = (hashes ^ (hashes >> np.uint64(31))) * np.uint64(0x9E3779B97F4A7C15) >> np.uint64(64 - FLAG_BITS)
    flags = np.zeros(1 << FLAG_BITS, np.bool_)
    flags[places] = True
    return max(1.0, -len(flags) * log(1 - np.count_nonzero(flags) / len(flags)))


def sample_states(levels: Levels, most: int = SAMPLE) -> Rows:
    """Return a random sample of at most `most` states from all levels, in random order."""
    share = min(1.0, most / max(1, sum(levels.counts)))
    found: list[Rows] = []
    for level, count in enumerate(levels.counts, start=1):
        pieces = max(1, int(count * share) >> 12)
        for piece in range(pieces):
            first, wanted = count * piece // pieces, int(count * share / pieces) + 1
            while wanted > 0 and first < count:
                rows = levels.read(level, first, wanted)
                found.append(rows)
                first, wanted = first + len(rows), wanted - len(rows)
    rows = np.concatenate(found)
    return rows[np.random.default_rng(len(rows)).permutation(len(rows))[:most]]
