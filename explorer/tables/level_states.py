"""States of a breadth-first search: the visited set and the levels, their memory, and the layout of their rows.

`LayoutPolicy` decides when to switch to flat rows, and which columns to pack as a cluster. Columns form a cluster if
their joint contents are few for the bits of their own ids (`kernel/packing.py`). The bytes of each distinct content
are set against the bits saved in each state.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import chain, combinations, islice
from math import log
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kraftcheck.explorer.result import SearchRequest
from kraftcheck.explorer.tables.expander import Expander
from kraftcheck.explorer.tables.kernel import codes
from kraftcheck.explorer.tables.learning.learner import Learner
from kraftcheck.explorer.tables.python_checks import PythonChecks
from kraftcheck.explorer.tables.rows import STATES_A_BATCH, Rows, SpillingLevels, SuccessorsOfWorkers
from kraftcheck.explorer.tables.visited import SearchMemory, SpillingSet
from kraftcheck.persistence.stored_files import AppendOnlyFile

SAMPLED_VALUES = 64  # values in a sample
BYTES_OF_INTERNED_VALUE = 130  # bytes of a dictionary's entry for a value, and of its id
BYTES_OF_TREE_BRANCH = 100  # bytes, at most, of a decision tree's branch outside the tables
GIB, MIB = 1 << 30, 1 << 20

_TABLES_BY_KIND = {
    "control rows": ("rows", "row_table", "row_info", "row_items", "permuted_rows", "changed"),
    "inbox contents": (
        *("contents", "inbox_codes", "content_items", "content_table"),
        *("operated", "inbox_answers", "permuted_contents"),
    ),
    "replica states with an inbox": ("bundles", "bundle_items"),
    "replica states": ("local_answers", "permuted_locals"),
    "parts of states": ("cluster_table", "cluster_items"),
    "messages": ("messages", "operations", "network_operations", "permuted_messages"),
}
_HANDLER_CALLS_KIND = "handler calls"
_KIND_OF_TABLE = {table: name for name, tables in _TABLES_BY_KIND.items() for table in tables}


class MemoKindUsage(NamedTuple):
    """Memory usage of one kind of memoized data."""

    what: str  # name of the kind
    number: int
    nbytes: int

    def __str__(self) -> str:
        return f"{self.number:,} {self.what} {format_bytes(self.nbytes)}"


class MemoUsage:
    """Memory accounting of a learner."""

    def __init__(self, learner: Learner) -> None:
        self._learner = learner
        self._sampled: dict[str, tuple[int, float]] = {}

    def kinds(self) -> list[MemoKindUsage]:
        """Return the usage of each kind, the largest first."""
        learner, interner = self._learner, self._learner.interner
        tables = interner.tables
        taken = dict.fromkeys((*_TABLES_BY_KIND, _HANDLER_CALLS_KIND), 0)
        for name in tables.declared:
            taken[_KIND_OF_TABLE.get(name, _HANDLER_CALLS_KIND)] += int(getattr(tables, name).nbytes)
        meta = tables.meta.tolist()
        counts = {
            "control rows": meta[codes.META_ROWS],
            "inbox contents": meta[codes.META_CONTENTS],
            "replica states with an inbox": meta[codes.META_BUNDLES],
            "replica states": len(interner.locals),
            "parts of states": meta[codes.META_CLUSTERS],
            "messages": len(interner.inboxes.messages),
            _HANDLER_CALLS_KIND: sum(learner.calls.counts.values()),
        }
        taken["replica states"] += self._of_values("replica states", interner.locals)
        taken["messages"] += self._of_values("messages", interner.inboxes.messages)
        taken["inbox contents"] += self._of_values("inbox contents", interner.inboxes.content_values.values())
        taken["messages"] += BYTES_OF_INTERNED_VALUE * len(interner.inboxes.operations)
        taken[_HANDLER_CALLS_KIND] += BYTES_OF_TREE_BRANCH * meta[codes.META_BRANCHES] + BYTES_OF_INTERNED_VALUE * (
            meta[codes.META_ROOTS] + meta[codes.META_DELTAS]
        )
        found = [MemoKindUsage(name, counts[name], nbytes) for name, nbytes in taken.items()]
        return sorted(found, key=lambda one: -one.nbytes)

    def over_budget_note(self, kinds: list[MemoKindUsage], most: int) -> str:
        """Return the message for memo tables larger than `most` bytes, which `--memory` leaves them."""
        calls = self._learner.calls.counts.most_common(1)
        called = f"; most calls: {calls[0][0]}, {calls[0][1]:,} times" if calls else ""
        return (
            f"the model's memo tables take {format_bytes(sum(one.nbytes for one in kinds))}, and --memory leaves them "
            f"{format_bytes(most)}: {', '.join(map(str, kinds))}{called}; they stay in memory: "
            "raise --memory, or use smaller bounds"
        )

    def _of_values(self, what: str, values: Any) -> int:
        """Return the estimated bytes of values; their mean is sampled again whenever their number has doubled."""
        before, mean = self._sampled.get(what, (0, 0.0))
        if values and len(values) >= 2 * before:
            sample = list(islice(reversed(values), SAMPLED_VALUES))
            mean = deep_size_in_bytes(sample) / len(sample)
            self._sampled[what] = len(values), mean
        return int(len(values) * (mean + BYTES_OF_INTERNED_VALUE))


def deep_size_in_bytes(values: Iterable[Any]) -> int:
    """Return the bytes of values and all objects reachable from them, counted once, except classes and modules."""
    seen: set[int] = set()
    found, waiting = 0, [value for value in values if value is not None]
    while waiting:
        data = {id(one): one for one in waiting if not isinstance(one, type | ModuleType | FunctionType)}
        waiting = [one for number, one in data.items() if number not in seen]
        seen.update(map(id, waiting))
        found += sum(map(sys.getsizeof, waiting))
        waiting = list(chain.from_iterable(gc.get_referents(one) for one in waiting))
    return found


def format_bytes(nbytes: int) -> str:
    """Format a number of bytes.

    Examples
    --------
    >>> format_bytes(3 << 29), format_bytes(5 << 20)
    ('1.5 GiB', '5 MiB')
    """
    return f"{nbytes / GIB:.1f} GiB" if nbytes >= GIB else f"{-(-nbytes // MIB)} MiB"


MEMO_MEASURE_INTERVAL_STATES = 1 << 4
"""Number of expanded states after which the memo tables are measured again."""


class SearchStates:
    """All states of a search, as levels and as a set."""

    def __init__(
        self,
        expander: Expander,
        memory: int | None,
        batch: int | None,
        folder: Path | None,
        file: AppendOnlyFile | None,
    ) -> None:
        self.expander, self.folder, self.memory = expander, folder, SearchMemory(memory)
        self.chunk = batch or STATES_A_BATCH  # maximum number of states in one worker's batch
        self.visited = SpillingSet(self.memory.budget, expander.threads, expander.packed, folder)
        self.levels = SpillingLevels(self.memory.budget.rows, file, folder)
        self._size = MemoUsage(expander.learner)
        self._early: list[Rows] = []  # new states found during miss handling
        self._measure_at = 0  # number of expanded states at which the memo tables are measured again

    def batch_size(self) -> int:
        """Return the number of states to expand at once."""
        expander, workers = self.expander, self.expander.workers
        batch = self.memory.budget.batch(self.chunk, expander.width, workers, is_flat=expander.is_flat)
        return min(workers * batch, STATES_A_BATCH * max(1, workers // 2))

    def all_rows(self) -> Iterator[Rows]:
        """Yield the rows of all levels in chunks."""
        for level in range(1, self.levels.depth + 1):
            yield from self.levels.chunks(level, self.chunk)

    # Successors

    def add_early(self, found: SuccessorsOfWorkers) -> None:
        """Insert successors and write finished rows to disk, while another thread resolves cache misses."""
        self._early += self.visited.add_early(found)
        self.levels.flush_early()

    def new(self) -> Iterator[Rows]:
        """Insert the successors in the buffers; yield the rows of new states. The iterator must be exhausted."""
        early, self._early = self._early, []
        yield from early
        yield from self.visited.add(self.expander.found())

    # Memory

    def divide_memory(self, expanded: int) -> str | None:
        """Give the states all memory beside the memo tables; return an error message if the tables take too much.

        The tables are measured only after a number of further states; `expanded` are expanded so far.
        """
        if expanded < self._measure_at:
            return None
        self._measure_at, kinds = expanded + MEMO_MEASURE_INTERVAL_STATES, self._size.kinds()
        learned = sum(one.nbytes for one in kinds)
        if learned > self.memory.most_learned:
            return self._size.over_budget_note(kinds, self.memory.most_learned)
        if self.memory.divide(learned):
            self.visited.allow(self.memory.budget)
            self.levels.budget = self.memory.budget.rows
            self.expander.free_buffers()
        return None

    def left_memory(self) -> int:
        """Return the bytes of the memory that neither states nor memo tables use."""
        taken = sum(one.nbytes for one in self._size.kinds()) + self.levels.nbytes + self.visited.in_memory.nbytes
        return max(self.memory.total - taken, 0)

    # Layout

    def switch_layout(self, *, flat: bool) -> None:
        """Convert all states to flat rows, or back to control rows; no candidate may be left."""
        self.levels.rewrite(self.expander.flattened if flat else self.expander.unflattened, self.chunk)
        self.reload(partial(self.expander.switch_layout, flat=flat))

    def reload(self, change: Callable[[], None]) -> None:
        """Call `change`, which changes the layout or packing, and insert the states of all levels again."""
        change()
        self.visited.empty(self.expander.packing, sum(self.levels.counts))
        for rows in self.all_rows():
            self.visited.restore(self.expander.load(rows))
        self.visited.restored()

    def close(self) -> None:
        """Close every file."""
        self.visited.close()
        self.levels.close()


# The layout of rows


FLAT_FROM_STATES = 1 << 15
"""Minimum number of states for a switch to the flat layout; fewer do not show whether control rows repeat."""
FLAT_FROM_RATIO = 0.5
"""Ratio to states, of control rows beyond the values of their columns, above which a switch to the flat layout pays."""
CLUSTERING_FROM_STATES, CLUSTERING_TO_STATES = 1 << 17, 1 << 23
"""Range of the number of flat states in which clusters are chosen."""
UNCLUSTERED_BITS = 64
"""Bits of a packed state that needs no clusters."""
LEAST_SAVED_BITS_TO_REPACK = 16
"""Minimum number of bits saved per state that pays for repacking all states."""
SAMPLED_STATES = 1 << 17  # states in the sample
BITMAP_LOG2 = 20  # binary logarithm of the bitmap size for linear counting
BYTES_OF_CLUSTER_CONTENT = 24  # bytes of a content's hash-table entry and head
BYTES_OF_CLUSTER_COLUMN = 4  # bytes of each of its columns
SAVED_BYTES_WEIGHT = 0.7  # weight of bytes saved in states against bytes spent on contents


class LayoutPolicy:
    """Decides when a breadth-first search switches its layout or packing."""

    def __init__(self, options: SearchRequest, states: SearchStates, python: PythonChecks | None) -> None:
        # The numbers of states at the next decisions.
        self.flat_from, self.clusters_from = FLAT_FROM_STATES, CLUSTERING_FROM_STATES
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
        return max(0, interner.counts()[0] - values) > FLAT_FROM_RATIO * count

    def better_fields(self) -> list[list[int]] | None:
        """Return the columns of each field of a packing that saves enough bits, or None."""
        visited, expander, states = self._states.visited, self._states.expander, self._states.visited.count
        if not expander.is_flat or expander.layout.is_outgrown or states < self.clusters_from:
            return None
        self.clusters_from = 4 * states
        if visited.archive is not None or expander.packing.bits <= UNCLUSTERED_BITS or states > CLUSTERING_TO_STATES:
            return None
        clustering = self._clustering(states)
        return clustering.fields() if clustering.bits() + LEAST_SAVED_BITS_TO_REPACK <= expander.packing.bits else None

    def _clustering(self, states: int) -> ColumnClustering:
        """Return the clusters that a sample of the states suggests."""
        expander = self._states.expander
        interner, inboxes = expander.learner.interner, expander.layout.first_inbox
        base, widths = interner.base, [max(1, count.bit_length()) for count in interner.flat_counts()]
        for column in np.flatnonzero(interner.tables.hidden[:base]).tolist():
            widths[column] = 0
        clustering = ColumnClustering(sample_states(self._states.levels), states, widths)
        clustering.merge_all([*([base + s, inboxes + s] for s in range(inboxes - base)), list(range(base))])
        return clustering

    def delay_clustering(self) -> None:
        """Delay the next choice of clusters until `CLUSTERING_FROM_STATES` states, or the present number if larger."""
        self.clusters_from = max(CLUSTERING_FROM_STATES, self._states.visited.count)


class ColumnCluster(NamedTuple):
    """Columns that are packed as one field."""

    columns: list[int]
    bits: int  # of the field in a packed state
    cost: float  # estimated bytes of all distinct contents
    hashes: NDArray[np.uint64]  # hash of the contents in each state of the sample


class ColumnClustering:
    """Greedy choice of the columns of flat states to pack together."""

    def __init__(self, rows: Rows, states: int, widths: list[int]) -> None:
        factors = np.random.default_rng(len(widths)).integers(1, 1 << 63, len(widths), np.uint64) * np.uint64(2)
        hashes = rows.astype(np.uint64) * (factors + np.uint64(1))
        self._states, self._half = states, len(rows) // 2
        self._scale = states / max(1, len(rows))
        self.units = [ColumnCluster([c], width, 0.0, hashes[:, c].copy()) for c, width in enumerate(widths) if width]

    def merge_all(self, parts: list[list[int]]) -> None:
        """Merge column clusters greedily while that saves memory: first within each part, then any two clusters."""
        for part in parts:
            mine = [unit for unit in self.units if unit.columns[0] in part]
            while len(mine) > 1 and (merged := self._merged(mine[0], mine[1])) is not None:
                self._replace(mine[0], mine[1], merged)
                mine[:2] = [merged]
        known: dict[tuple[tuple[int, ...], tuple[int, ...]], ColumnCluster | None] = {}
        while True:
            found: list[tuple[float, ColumnCluster, ColumnCluster, ColumnCluster]] = []
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

    def _replace(self, a: ColumnCluster, b: ColumnCluster, merged: ColumnCluster) -> None:
        self.units = [unit for unit in self.units if unit is not a and unit is not b] + [merged]

    def _gain(self, a: ColumnCluster, b: ColumnCluster, merged: ColumnCluster) -> float:
        saved = (a.bits + b.bits - merged.bits) / 8 * self._states
        return SAVED_BYTES_WEIGHT * saved - (merged.cost - a.cost - b.cost)

    def _merged(self, a: ColumnCluster, b: ColumnCluster) -> ColumnCluster | None:
        """Return the union of two column clusters, or None if packing them as one field does not pay."""
        hashes = a.hashes + b.hashes
        contents = self._contents(hashes)
        columns = a.columns + b.columns
        cost = contents * (BYTES_OF_CLUSTER_CONTENT + BYTES_OF_CLUSTER_COLUMN * len(columns))
        merged = ColumnCluster(columns, int(contents).bit_length(), cost, hashes)
        return merged if self._gain(a, b, merged) > 0 else None

    def _contents(self, hashes: NDArray[np.uint64]) -> float:
        """Return the number of distinct contents in all states, extrapolated from the sample and its first half."""
        whole = estimate_distinct_hashes(hashes)
        more = max(0.0, log(whole / max(1.0, estimate_distinct_hashes(hashes[: self._half])), 2)) if self._half else 1.0
        return float(whole * self._scale**more)


def estimate_distinct_hashes(hashes: NDArray[np.uint64]) -> float:
    """Return the estimated number of distinct hashes, by linear counting."""
    places = (hashes ^ (hashes >> np.uint64(31))) * np.uint64(0x9E3779B97F4A7C15) >> np.uint64(64 - BITMAP_LOG2)
    flags = np.zeros(1 << BITMAP_LOG2, np.bool_)
    flags[places] = True
    return max(1.0, -len(flags) * log(1 - np.count_nonzero(flags) / len(flags)))


def sample_states(levels: SpillingLevels, most: int = SAMPLED_STATES) -> Rows:
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
