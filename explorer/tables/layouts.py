"""The two layouts of a state's row behind one interface: factored, with a control row, and flat columns.

In the factored layout a step is one lookup from control row and delta to the next control row with its verdict.
This pays while states are combinations of few control rows and inboxes. Where nearly every state has its own
control row, each lookup is a miss and each row an entry. Flat rows then need no interning: steps are looked up by
replica, and invariants are evaluated once for each state. `LayoutPolicy` chooses; `docs/decisions/two-layouts.md`
has figures.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from kraftcheck.explorer.tables.kernel.arrays import MissResolver
from kraftcheck.explorer.tables.kernel.expand import expand_batch, order_by_control_row
from kraftcheck.explorer.tables.kernel.flat import facts
from kraftcheck.explorer.tables.kernel.flat.batches import (
    QUEUE_PLACES,
    expand_flat_batch,
    pack_flat_rows,
    resolve_flat_misses,
)
from kraftcheck.explorer.tables.kernel.flat.facts import evaluate_flat_batch_invariants, resolve_evaluation_misses
from kraftcheck.explorer.tables.kernel.packing import SPARE_CLUSTER_ROOM_STATES, pack_canonical_rows
from kraftcheck.explorer.tables.learning.interner import Interner
from kraftcheck.explorer.tables.rows import BitPacking, Indices, Rows, Words, WorkerBuffers, packing_for_id_counts

ROW_SORT_KEY_BITS = 14  # high bits of a control row's id that `order` compares


class FactoredLayout:
    """The factored layout: a control row's id, then an inbox content for each replica."""

    is_flat, is_outgrown, first_inbox = False, False, 1
    slots: int | None = None
    fields: Sequence[list[int]] = ()  # empty: each field is one column

    def __init__(self, interner: Interner) -> None:
        self._interner = interner

    @property
    def width(self) -> int:
        """Number of columns of a state, for all current replicas."""
        return self._interner.width

    def fit(self, worker: WorkerBuffers, packing: BitPacking) -> None:
        """Do nothing: only flat states need additional buffers."""

    def expand(self, worker: WorkerBuffers, packing: BitPacking, which: Indices, deadlock: bool) -> None:
        """Expand the worker's states with these indices as far as the buffers have room."""
        images, columns = None, worker.states.shape[1]
        if len(self._interner.group) > 1:
            images = np.zeros((len(worker.succ) + 1, columns), np.int32)
        expand_batch(self._interner.tables, worker, worker.successors, packing, which, deadlock, images)

    def resolver(self, packing: BitPacking) -> MissResolver | None:
        """Return None: the learner then resolves cache misses with its default, `resolve_misses_of_states`."""
        return None

    def order(self, rows: Rows) -> Indices:
        """Return the indices of the states ordered by control row, so that consecutive states share cached entries."""
        order = np.arange(len(rows), dtype=np.int64)
        most = self._interner.counts()[0]
        shift = max(0, most.bit_length() - ROW_SORT_KEY_BITS)
        order_by_control_row(rows, shift, np.zeros((most >> shift) + 2, np.int32), order)
        return order

    def counts(self, pool: Sequence[WorkerBuffers]) -> list[int]:
        """Return the number of ids of each field."""
        return self._interner.counts()

    def packing(self, counts: list[int], before: Sequence[int]) -> BitPacking:
        """Return a packing for `counts` ids in each field; `before` has earlier counts, to predict growth."""
        return packing_for_id_counts(counts, before)

    def pack(self, worker: WorkerBuffers, packing: BitPacking, rows: Rows, words: Words, owner: Indices) -> None:
        """Write the packed words of canonical states, and the partition that owns each."""
        pack_canonical_rows(self._interner.tables, packing, rows, words, owner)

    def decode(self, rows: Rows) -> Rows:
        """Return the rows themselves, which have control rows."""
        return rows


class FlatLayout:
    """The flat layout: the columns of the control row, then an inbox content for each replica."""

    is_flat = True

    def __init__(self, interner: Interner, pool: Sequence[WorkerBuffers]) -> None:
        self._interner, self.slots = interner, len(interner.slots)
        self.first_inbox = interner.base + self.slots
        hidden = np.flatnonzero(interner.tables.hidden[: interner.base]).tolist()
        self.packed = [column for column in range(self.width) if column not in hidden]
        self.fields = [[column] for column in self.packed]
        sources = np.argsort(interner.tables.permuted_slots[: len(interner.group), : self.slots], axis=1)
        for worker in pool:
            worker.sources = sources.astype(np.int32)
            worker.sources_of = np.bitwise_or.reduce(np.int64(1) << (sources.astype(np.int64) & 63), axis=0)
            allocate_empty_fact_memo(worker, interner.base - len(interner.bounds))

    @property
    def width(self) -> int:
        """Number of columns of a flat state: those of the replicas known at the switch to the flat layout."""
        return self.first_inbox + self.slots

    @property
    def is_outgrown(self) -> bool:
        """Whether a replica has appeared that has no column."""
        return self.slots != len(self._interner.slots)

    def fit(self, worker: WorkerBuffers, packing: BitPacking) -> None:
        """Resize the worker's buffers for this packing."""
        columns, clusters = worker.succ.shape[1] - 2, int(packing.clusters[0])
        enlarge_crowded_fact_memo(worker)
        if worker.words.shape != (len(worker.succ) + 1, packing.words):
            worker.words = np.zeros((len(worker.succ) + 1, packing.words), np.uint64)
            worker.waiting_words = np.zeros((QUEUE_PLACES, packing.words), np.uint64)
            worker.touched, worker.least = np.zeros(len(worker.succ), np.uint8), np.zeros(len(worker.succ), np.int64)
            worker.pieces = np.zeros(len(worker.succ), np.int32)
        if worker.waiting_rows.shape != (QUEUE_PLACES, columns):
            worker.waiting_rows, worker.waiting_images = np.zeros((2, QUEUE_PLACES, columns), np.int32)
        if worker.waiting_hashes.shape != (QUEUE_PLACES, clusters):
            worker.waiting_hashes = np.zeros((QUEUE_PLACES, clusters), np.int64)

    def expand(self, worker: WorkerBuffers, packing: BitPacking, which: Indices, deadlock: bool) -> None:
        """Expand the worker's states with these indices as far as the buffers have room."""
        expand_flat_batch(self._interner.tables, worker, worker.successors, packing, which, deadlock)

    def resolver(self, packing: BitPacking) -> MissResolver | None:
        """Return the compiled function that resolves cache misses of flat states."""
        return partial(resolve_flat_misses, packing)

    def evaluate(self, worker: WorkerBuffers, which: Indices) -> None:
        """Evaluate the invariants in the worker's states with these indices."""
        evaluate_flat_batch_invariants(self._interner.tables, worker, which)

    evaluation_resolver: MissResolver = staticmethod(resolve_evaluation_misses)
    """The compiled function that resolves cache misses of `evaluate`."""

    def order(self, rows: Rows) -> Indices:
        """Return the indices of the states in the order of expansion, here the order of the rows."""
        return np.arange(len(rows), dtype=np.int64)

    def counts(self, pool: Sequence[WorkerBuffers]) -> list[int]:
        """Return the number of ids of each field, with room for those of the next batch."""
        of_columns, of_clusters = self._interner.flat_counts(), self._interner.tables.cluster_counts
        more = 2 * SPARE_CLUSTER_ROOM_STATES + sum(len(worker.succ) + QUEUE_PLACES for worker in pool)
        fields = enumerate(self.fields)
        return [of_columns[field[0]] if len(field) == 1 else int(of_clusters[f]) + more for f, field in fields]

    def packing(self, counts: list[int], before: Sequence[int]) -> BitPacking:
        """Return a packing for `counts` ids in each field; `before` has earlier counts, to predict growth."""
        return packing_for_id_counts(counts, before).of(self.fields, self.width)

    def pack(self, worker: WorkerBuffers, packing: BitPacking, rows: Rows, words: Words, owner: Indices) -> None:
        """Write the packed words of states, and the partition that owns each."""
        worker.fit(rows.shape[1])
        self.fit(worker, packing)
        tables = self._interner.tables
        tables.call_with_room(lambda: pack_flat_rows(tables, packing, worker, rows, words, owner))

    def decode(self, rows: Rows) -> Rows:
        """Convert flat states to control rows."""
        return self._interner.control_rows_of(rows, self.slots)


Layout = FactoredLayout | FlatLayout


def enlarge_crowded_fact_memo(worker: WorkerBuffers) -> None:
    """Enlarge a worker's memo of facts if many entries overwrite each other."""
    if 4 * worker.fact_counts[facts.AT_REPLACED_FACTS] > len(worker.facts) < facts.MOST_MEMO_PLACES:
        more: Any = np.zeros((4 * len(worker.facts), 2), np.int64)
        facts.copy_facts(worker.facts, more)
        worker.facts, worker.fact_counts[facts.AT_REPLACED_FACTS] = more, 0


def allocate_empty_fact_memo(worker: WorkerBuffers, shared: int) -> None:
    """Clear a worker's memo of facts, for `shared` shared fields."""
    worker.fact_counts = np.zeros(facts.FACT_COUNTER_PLACES, np.int64)
    worker.facts = np.zeros((facts.LEAST_MEMO_PLACES, 2), np.int64)
    worker.safe_pairs = np.zeros(facts.SAFE_PAIR_LOCALS**2, np.uint8)
    worker.listed = np.zeros(facts.LISTED_NODES_CAPACITY, np.int32)
    worker.shared_contents = np.zeros((facts.MOST_SHARED_CONTENT_NUMBERS, shared), np.int32)
    worker.shared_places = np.zeros(2 * facts.MOST_SHARED_CONTENT_NUMBERS, np.int32)
