"""Successor generator of the table engine: from rows of states to rows of their successors.

A batch of rows is divided among the workers. Each worker runs the kernel, which records cache misses. The learner
resolves the misses, with calls to user code where the tables do not suffice, and the states concerned are expanded
again. Successors stay packed in the workers' buffers until the visited set takes them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import pairwise
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from kraftcheck.explorer.result import DEADLOCK, SearchRequest
from kraftcheck.explorer.tables.kernel import codes
from kraftcheck.explorer.tables.kernel.expand import find_predecessor
from kraftcheck.explorer.tables.kernel.symmetry import write_least_images
from kraftcheck.explorer.tables.layouts import FactoredLayout, FlatLayout, Layout, enlarge_crowded_fact_memo
from kraftcheck.explorer.tables.learning.learner import Learner
from kraftcheck.explorer.tables.python_checks import PropertyPartition, RefinementChecks, partition_properties
from kraftcheck.explorer.tables.rows import (
    MOST_SERIAL_STATES,
    PARTITION_COUNT,
    SUCCESSOR_ROOM_A_STATE,
    BitPacking,
    Indices,
    Rows,
    SuccessorBuffers,
    SuccessorsOfWorkers,
    ThreadPool,
    Words,
    WorkerBuffers,
    packing_of_widths,
)
from kraftcheck.processes import default_worker_count
from kraftcheck.spec.language.declarations import Property
from kraftcheck.spec.language.protocol import Protocol
from kraftcheck.spec.language.state import State

SHARE_DIVISOR_OF_PIECE = 4  # a piece is this fraction of a worker's share of the remaining states
SMALLEST_PIECE_DIVISOR = 8  # the smallest piece is this fraction of a batch that pays for a second thread


class ExpansionEvent(NamedTuple):
    """A deadlock or violation that the kernel recorded while it expanded a state."""

    state: int  # index of the expanded state, whose successor may be the bad one
    kind: int  # EVENT_DEADLOCK, EVENT_BAD_STATE or EVENT_BAD_STEP of `kernel.codes`
    mask: int  # violated properties: see `Expander.properties_in`


def index_pieces_for_workers(which: Indices, workers: int) -> Iterator[Indices]:
    """Divide the indices of states into ever smaller pieces, which workers take from a shared iterator.

    Large pieces first cost little overhead; small ones at the end let all workers finish at about the same time.
    """
    ends, count, least = [0], len(which), max(1, MOST_SERIAL_STATES // SMALLEST_PIECE_DIVISOR)
    while workers > 1 and count - ends[-1] > least:
        ends.append(ends[-1] + max(least, (count - ends[-1]) // (SHARE_DIVISOR_OF_PIECE * workers)))
    return iter([which[first:end] for first, end in pairwise([*ends, count])])


class Expander:
    """Generates the successors of states."""

    def __init__(self, learner: Learner, parts: PropertyPartition, workers: int, *, deadlock: bool) -> None:
        self.learner = learner
        self.parts = parts
        self.threads = ThreadPool(workers)
        self.pool = [WorkerBuffers(learner.labels) for _ in range(workers)]
        for worker in self.pool:
            worker.left = np.zeros(learner.permutations, np.int64)
        self.packing = packing_of_widths([1])
        self.layout: Layout = FactoredLayout(learner.interner)
        self._own: Layout = self.layout  # the search's layout, which `with_control_rows` does not change
        self._packed_counts: list[int] = []
        self._deadlock = deadlock
        self._noted: list[ExpansionEvent] = []  # violations of refinements
        self.step_checks = RefinementChecks(learner.interner, learner.refinements) if learner.refinements else None
        for worker in self.pool if self.step_checks else ():
            worker.collect()

    @classmethod
    def of(cls, protocol: Protocol, options: SearchRequest, workers: int | None = None) -> Self:
        """Return an expander that evaluates the local properties of a search; one thread per processor by default."""
        parts = partition_properties(options)
        learner = Learner(
            protocol,
            parts.properties,
            parts.constraints,
            tuple(p for p in options.properties if p.over_steps),
            options.action_constraints,
            parts.about_messages,
            options.view,
            options.symmetry,
            options.check_actions,
        )
        if options.temporal:
            learner.follow(options.all_fairness)
        threads = workers or options.workers or default_worker_count()
        return cls(learner, parts, threads, deadlock=options.deadlock)

    @property
    def workers(self) -> int:
        """Number of threads."""
        return self.threads.count

    @property
    def is_flat(self) -> bool:
        """Whether states are in the flat layout."""
        return self.layout.is_flat

    @property
    def width(self) -> int:
        """Number of columns of a state."""
        return self.layout.width

    # Rows

    def encode(self, states: Iterable[State]) -> Rows:
        """Return states as rows of ids."""
        encoded = [self.learner.interner.encode_state(state) for state in states]
        rows = [row + [0] * (self.width - len(row)) for row in encoded]
        return np.array(rows, np.int32).reshape(-1, self.width)

    def with_columns(self, rows: Rows) -> Rows:
        """Return rows widened to all replicas: an empty inbox for each missing one."""
        missing = self.width - rows.shape[1]
        return np.pad(rows, ((0, 0), (0, missing))) if missing else rows

    def canonical_rows(self, rows: Rows) -> Rows:
        """Return the canonical rows of states: under symmetry their least images, else the rows themselves."""
        rows = np.ascontiguousarray(self.with_columns(rows))
        if self.learner.permutations == 1 or self.is_flat:
            return rows
        worker = self.pool[0]
        images = np.zeros(rows.shape, np.int32)
        while True:
            worker.stats[codes.STATS_MISSES] = 0
            if not write_least_images(self.learner.tables, worker, rows, images):
                return images
            self.learner.resolve([worker])

    def images(self, row: Rows) -> Rows:
        """Return the images of one state, an array of one row, under the symmetry group."""
        if self.learner.permutations == 1:
            return row
        self.canonical_rows(row)  # caches them
        return self.learner.interner.images_of_state(row[0])

    def packed(self, rows: Rows, packing: BitPacking) -> tuple[Words, Indices]:
        """Return the packed canonical keys of states, and the partitions that own them."""
        words, owner = np.zeros((len(rows), packing.words), np.uint64), np.zeros(len(rows), np.int64)
        rows = self.with_columns(self.canonical_rows(rows))
        self.layout.pack(self.pool[0], packing, rows, words, owner)
        return words, owner

    # Successors

    def expand(
        self, rows: Rows, which: Indices, meanwhile: Callable[[SuccessorsOfWorkers], None] = lambda _: None
    ) -> tuple[Rows, Indices]:
        """Expand rows[which] as far as the buffers have room.

        Returns the rows (wider where a replica appeared) and the indices of `which` left to expand. While misses are
        resolved, another thread calls `meanwhile` with the successors found so far.
        """
        # A round expands all states in parallel with read-only tables, then resolves the misses of all workers in one
        # thread. Misses are rare after the first levels, so rounds are few, and the parallel part needs no locks. A
        # large batch also resolves a miss once that many of its states share.
        rest: list[Indices] = []
        is_large = len(which) > MOST_SERIAL_STATES
        while len(which) and not rest and not self.layout.is_outgrown:
            rows = self.with_columns(rows)
            workers = self.pool[: 1 if len(which) <= MOST_SERIAL_STATES else self.workers]
            self.fit_packing()
            for worker in workers:
                worker.begin(rows, len(which))
                self.layout.fit(worker, self.packing)
                share = len(which) // len(workers) + 1
                room = max(len(worker.succ) + 1, share * SUCCESSOR_ROOM_A_STATE // PARTITION_COUNT + 64)
                worker.successors.fit(room, self.width, self.packing.words)
            pieces = index_pieces_for_workers(which, len(workers))
            self.threads.run(partial(self._run_kernel, pieces, rest), len(workers))
            self.check_steps(workers)
            rest += pieces  # left over if every worker's buffers are full
            which = np.concatenate([worker.missed_states() for worker in workers])
            learn = partial(self.learner.resolve, workers, self.layout.resolver(self.packing))
            if len(which) and is_large:
                self.threads.beside(partial(meanwhile, self.found()), learn)
            else:
                learn()
            self._make_room(workers)
        return rows, np.concatenate([which, *rest])

    def check_steps(self, workers: Iterable[WorkerBuffers]) -> None:
        """Evaluate refinements on the steps that the kernel collected; record an event for each new violation."""
        checks = self.step_checks
        for worker in workers if checks is not None else ():
            sources, targets = worker.take_steps()
            seen = int(worker.stats[codes.STATS_STEP_SEEN])
            for source, mask in checks.violated_by(worker.states, targets, sources, seen) if checks else ():
                self._noted.append(ExpansionEvent(source, codes.EVENT_BAD_STEP, mask))
                worker.stats[codes.STATS_STEP_SEEN] |= mask

    def _make_room(self, workers: Iterable[WorkerBuffers]) -> None:
        """Grow the buffers or tables that a worker found full."""
        for worker in workers:
            if worker.stats[codes.STATS_CODE] == codes.MANY_SUCCESSORS:
                worker.make_room()
            elif worker.stats[codes.STATS_CODE] == codes.MANY_CLUSTERS:
                self.learner.interner.tables.grow()

    def _run_kernel(self, pieces: Iterator[Indices], rest: list[Indices], number: int) -> None:
        """Let a worker expand pieces until its buffers are full; append the remaining states to `rest`."""
        worker = self.pool[number]
        for piece in pieces:
            self.layout.expand(worker, self.packing, piece, self._deadlock)
            if worker.stats[codes.STATS_CODE] != codes.OK:
                rest.append(piece[worker.stats[codes.STATS_DONE] :])
                break

    # Layouts

    def switch_layout(self, *, flat: bool) -> None:
        """Switch to the flat layout, and clear all control rows, or back to control rows; the buffers must be empty."""
        interner = self.learner.interner
        interner.shared.sets.is_allowed &= not flat
        if flat:
            interner.tables.forget_control_rows()
        self._own = FlatLayout(interner, self.pool) if flat else FactoredLayout(interner)
        self._set_layout(self._own, packing_of_widths([1]))
        self._reset_packing()

    def pack_together(self, fields: list[list[int]]) -> None:
        """Set the groups of columns that packed flat states store as one field each; the buffers must be empty."""
        layout = self.layout
        assert isinstance(layout, FlatLayout)
        if sorted(column for field in fields for column in field) != layout.packed:
            raise AssertionError(f"expected each packed column in exactly one field, found {fields}")
        layout.fields = fields
        self._reset_packing()

    def _reset_packing(self) -> None:
        self.learner.interner.tables.forget_clusters(len(self.layout.fields))
        self.packing, self._packed_counts = packing_of_widths([1]), []
        self.fit_packing()

    def _set_layout(self, layout: Layout, packed: BitPacking) -> None:
        """Set the layout of rows of states, and the packing of their canonical keys."""
        self.layout, self.packing = layout, packed
        self.learner.interner.flat_slots = layout.slots

    @contextmanager
    def with_control_rows(self) -> Iterator[None]:
        """Return a context in which states have control rows; at its end the search's layout is restored."""
        before, packed = self.layout, self.packing
        if before.is_flat:
            self._set_layout(FactoredLayout(self.learner.interner), packing_of_widths([1]))
        try:
            yield
        finally:
            if before.is_flat:
                self._set_layout(before, packed)

    def flattened(self, rows: Rows) -> Rows:
        """Convert states to the flat layout."""
        return np.hstack(self.learner.interner.parts_of(self.with_columns(rows)))

    def unflattened(self, rows: Rows) -> Rows:
        """Convert rows of the search's layout to control rows."""
        return self._own.decode(rows)

    def check_invariants(self, rows: Rows) -> list[ExpansionEvent]:
        """Evaluate the invariants of new flat states; return events for properties not violated before."""
        layout, which = self.layout, np.arange(len(rows), dtype=np.int64)
        assert isinstance(layout, FlatLayout)
        while len(which):
            workers = self.pool[: 1 if len(which) <= MOST_SERIAL_STATES else self.workers]
            for worker in workers:
                worker.begin(rows, len(which))
                enlarge_crowded_fact_memo(worker)
            pieces = index_pieces_for_workers(which, len(workers))
            self.threads.run(partial(self._evaluate, layout, pieces), len(workers))
            which = np.concatenate([worker.missed_states() for worker in workers])
            self.learner.resolve(workers, layout.evaluation_resolver, evaluates=True)
        return self.events()

    def _evaluate(self, layout: FlatLayout, pieces: Iterator[Indices], number: int) -> None:
        for piece in pieces:
            layout.evaluate(self.pool[number], piece)

    def load(self, rows: Rows) -> SuccessorsOfWorkers:
        """Put states into the buffers, as if they had been found as successors."""
        self.canonical_rows(rows)  # caches their images, which adds ids
        words, owner = self.packed(rows, self.packing)
        while self.fit_packing():  # packing flat states may intern new cluster contents
            words, owner = self.packed(rows, self.packing)
        self.pool[0].successors.put(self.with_columns(rows), words, owner)
        return self.found()

    def found(self) -> SuccessorsOfWorkers:
        """Return the successors in the buffers."""
        return SuccessorsOfWorkers([worker.successors for worker in self.pool], self.packing, self.width)

    # The packing

    def fit_packing(self) -> bool:
        """Widen the packing if an id no longer fits its field; return whether that was needed."""
        counts = self.layout.counts(self.pool)
        bits = [max(1, count.bit_length()) for count in counts]
        if self.packing.has_room_for(bits):
            return False
        new, self._packed_counts = self.layout.packing(counts, self._packed_counts), counts
        for worker in self.pool:
            if worker.successors.counts.any():
                rows = self.with_columns(worker.successors.all_rows())
                worker.successors.put(rows, *self.packed(rows, new))
        self.packing = new
        return True

    def free_buffers(self) -> None:
        """Free the buffers, which must be empty."""
        for worker in self.pool:
            assert not worker.successors.counts.any()
            worker.successors = SuccessorBuffers()

    # Counts and events

    @property
    def fired(self) -> NDArray[np.int64]:
        """Number of steps generated by each action."""
        by_label = np.sum([worker.fired for worker in self.pool], axis=0)
        names = self.learner.action_names
        fired: Indices = by_label[: len(names)].copy()
        for number, label in enumerate(self.learner.book.labels[len(names) :], start=len(names)):
            fired[names.index(label.action)] += by_label[number]
        return fired

    def note_fired(self, times: NDArray[np.int64]) -> None:
        """Add `times` to the numbers of generated steps, one for each action."""
        self.pool[0].fired[: len(times)] += times

    def events(self) -> list[ExpansionEvent]:
        """Return the events since the last call, ordered by state."""
        noted, self._noted = self._noted, []
        for worker in self.pool:
            noted += [ExpansionEvent(*event) for event in worker.events[: worker.stats[codes.STATS_EVENTS]].tolist()]
            worker.stats[codes.STATS_EVENTS] = 0
        return sorted(noted)

    def properties_in(self, kind: int, mask: int) -> list[Property]:
        """Return the violated properties of an event, given its kind and mask."""
        return self.learner.properties_in(mask, over_steps=kind == codes.EVENT_BAD_STEP)

    def suppress_events(self, violated: Iterable[str]) -> None:
        """Suppress the events of the named properties; the name DEADLOCK suppresses deadlock events."""
        names = set(violated)
        for worker in self.pool:
            worker.stats[codes.STATS_SEEN] = self.learner.mask_of(names, over_steps=False)
            worker.stats[codes.STATS_STEP_SEEN] = self.learner.mask_of(names, over_steps=True)
            worker.stats[codes.STATS_DEADLOCK] = int(DEADLOCK in names)

    def restart(self, violated: Iterable[str] = ()) -> None:
        """Clear successors, counts and events; suppress events for properties already violated."""
        self._noted = []
        for worker in self.pool:
            worker.fired[:] = 0
            worker.stats[:] = 0
            worker.successors.clear()
        self.suppress_events(violated)

    # Predecessors

    def predecessor(self, rows: Rows, targets: Rows) -> int | None:
        """Return the index of the first row with one of the targets as a successor, or None."""
        worker, which = self.pool[0], np.arange(len(rows))
        while len(which):
            rows, targets = self.with_columns(rows), self.with_columns(targets)
            worker.begin(rows[which], len(which))
            found = int(find_predecessor(self.learner.tables, worker, np.ascontiguousarray(targets)))
            if found >= 0:
                return int(which[found])
            if worker.stats[codes.STATS_CODE] == codes.MANY_SUCCESSORS:
                worker.make_room()
            which = which[worker.missed_states()]
            self.learner.resolve([worker])
        return None

    def close(self) -> None:
        """Shut down the threads."""
        self.threads.close()
