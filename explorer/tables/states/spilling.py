"""The visited set of a search that outgrows memory, in memory first, then on disk; the division of the memory.

While memory lasts, each state is looked up at once. Later, duplicates are detected with a delay. The set in memory
then holds *candidates*: states found since the last merge, which may be on disk already. A merge reads the archive
on disk once; candidates that it contains are duplicates, the others are new. This sequential pass is put off until
memory is full of candidates, or the level ends.

Source: U. Stern and D. Dill, "Using Magnetic Disk Instead of Main Memory in the Murphi Verifier" (1998).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kraftcheck.explorer.tables.kernel.hash_set import MAX_LOAD, look_up, mark_known
from kraftcheck.explorer.tables.states.levels import Levels
from kraftcheck.explorer.tables.states.packed_rows import (
    PARTITIONS,
    SUCCESSORS_PER_STATE,
    Found,
    Packing,
    Rows,
    Words,
    by_owner,
    entry_bytes,
    repacked_words,
)
from kraftcheck.explorer.tables.states.visited import FIRST_CAPACITY, SMALL, Partition, VisitedSet
from kraftcheck.explorer.tables.states.worker_buffers import Threads
from kraftcheck.persistence.stored_files import GrowingFile, RowsInFile
from kraftcheck.processes import default_memory

MOST_ROWS = 1 << 25  # maximum bytes of rows in memory: old levels are seldom read
MOST_FLAT = 1 << 24  # maximum bytes of a worker's flat successors, which should stay in its cache
LEAST_BATCH = 1 << 12  # minimum number of states in a batch
LEAST_SHARE = 8  # states get at least an eighth of the memory
LEAST_LEARNED = 1 << 25  # minimum bytes for memo tables
FAST_SHARE = 1 << 14  # bytes of the visited set per place below which a partition grows fast


class Budget(NamedTuple):
    """Bytes for each use of memory."""

    visited: int  # the visited set, or the set of candidates once visited states are on disk
    rows: int  # rows of levels not yet on disk; the same again for rows of candidates
    buffers: int  # successors of the current batch

    @classmethod
    def of(cls, memory: int | None) -> Budget:
        """Divide `memory` bytes among the visited set, the rows of levels, and the successor buffers."""
        total = memory or default_memory()
        return cls(total // 2, min(total // 8, MOST_ROWS), total // 4)

    def entries(self, bits: int) -> int:
        """Return the number of packed states of `bits` bits that the visited set can hold in its memory."""
        return max(1 << 10, int(self.visited * 0.65) // entry_bytes(bits, FIRST_CAPACITY))

    @property
    def small(self) -> int:
        """Number of places below which a partition grows by a larger factor; lower if memory is small."""
        return min(SMALL, self.visited // FAST_SHARE)

    def batch(self, most: int, columns: int, workers: int, *, is_flat: bool = False) -> int:
        """Return the number of states of a worker's batch: as many as the buffers have room for, at most `most`."""
        room = self.buffers // workers
        fitting = (min(room, MOST_FLAT) if is_flat else room) // (2 * SUCCESSORS_PER_STATE * 4 * columns)
        return max(min(fitting, most), min(LEAST_BATCH, most))


class Memory:
    """The memory of a search: memo tables take their need, and states share the rest."""

    def __init__(self, memory: int | None) -> None:
        self.total = memory or default_memory()
        self.budget = Budget.of(self.total)
        self._learned = 0

    @property
    def most_learned(self) -> int:
        """Bytes that the memo tables may take."""
        return max(self.total - self.total // LEAST_SHARE, LEAST_LEARNED)

    def divide(self, learned: int) -> bool:
        """Divide the memory again if the memo tables have grown or shrunk enough; return whether they have."""
        if abs(learned - self._learned) <= self.total // (2 * LEAST_SHARE):
            return False
        self._learned = learned
        self.budget = Budget.of(max(self.total - learned, self.total // LEAST_SHARE, 1))
        return True


Flags = NDArray[np.uint8]
CHUNK = 1 << 14  # entries read at a time
TOGETHER = 1 << 12  # entries of a partition in one write, at least
SETTLED = 1 << 14  # candidates in one chunk of a merge

Pack = Callable[[Rows, Packing], tuple[Words, NDArray[np.int64]]]


class Archive:
    """Packed words of visited states in an unnamed file, by partition; read sequentially only."""

    def __init__(self, packing: Packing, folder: Path | None = None) -> None:
        self.count = 0
        self._packing = packing
        self._folder = folder
        self._file = GrowingFile.temporary(folder)
        self._parts = [RowsInFile(np.uint64) for _ in range(PARTITIONS)]
        self._waiting: list[list[Words]] = [[] for _ in range(PARTITIONS)]  # to be written

    def append(self, partition: int, words: Words) -> None:
        """Append entries of a partition; the array must not change afterwards."""
        waiting = self._waiting[partition]
        waiting.append(words)
        self.count += len(words)
        if sum(map(len, waiting)) >= TOGETHER:
            self._parts[partition].append(self._file, np.concatenate(waiting))
            waiting.clear()

    def chunks(self, partition: int) -> Iterator[Words]:
        """Yield the entries of a partition in chunks; threads may read different partitions at the same time."""
        yield from self._parts[partition].chunks(self._file, CHUNK)
        yield from self._waiting[partition]

    def known(self, number: int, partition: Partition) -> Flags:
        """Return a flag for each place of a partition in memory: whether its entry is in the archive."""
        known = np.zeros(len(partition.places), np.uint8)
        if partition.count:
            for words in self.chunks(number):
                mark_known(partition.keys, partition.places, partition.layout, words, known)
        return known

    def partition(self, number: int) -> Partition:
        """Load the entries of a partition into memory."""
        count = self._parts[number].count + sum(map(len, self._waiting[number]))
        found = Partition(self._packing, number, int(count / MAX_LOAD) + 16)
        for words in self.chunks(number):
            found.add_words(words)
        return found

    def repacked(self, old: Packing, new: Packing) -> Archive:
        """Convert the archive to a new packing, which may change the partitions of states; close the old archive."""
        fresh = Archive(new, self._folder)
        for number in range(PARTITIONS):
            for words in self.chunks(number):
                for p, again in repacked_words(words, old, new):
                    fresh.append(p, again)
        self.close()
        return fresh

    def close(self) -> None:
        """Close the file, which frees its disk space."""
        self._file.close()


class SpillingSet:
    """The visited states, in memory or on disk."""

    def __init__(self, budget: Budget, threads: Threads, pack: Pack, folder: Path | None = None) -> None:
        self.in_memory = VisitedSet(threads, budget.small)
        self.archive: Archive | None = None
        self.candidates = Levels(budget.rows, folder=folder)
        self._budget = budget
        self._threads = threads
        self._pack = pack
        self._folder = folder
        self._handed_over = 0

    @property
    def count(self) -> int:
        """Number of states visited; candidates count as new until the next merge."""
        return self._handed_over + self.in_memory.count + (0 if self.archive is None else self.archive.count)

    @property
    def pending(self) -> int:
        """Number of candidates: states found since the last merge, which may be on disk already."""
        return sum(self.candidates.counts)

    def allow(self, budget: Budget) -> None:
        """Set the memory budget."""
        self._budget = budget
        self.candidates.budget = budget.rows

    def add(self, found: Found) -> Iterator[Rows]:
        """Insert the workers' successors; yield the rows of the successors that are certainly new.

        The iterator must be exhausted. Once states are on disk, successors become candidates: see `merge_candidates`.
        """
        new = self._insert(found)
        if self.archive is None:
            yield from new
        else:
            for rows in new:
                self.candidates.append(rows)
        if self._is_full():
            if self.archive is None:
                self.spill()
            else:
                yield from self.merge_candidates()

    def add_early(self, found: Found) -> list[Rows]:
        """Insert successors during miss handling, if memory has room; return the rows of new states."""
        if self.archive is not None or self.in_memory.packing is not found.packing or self._is_full():
            return []
        return [rows.copy() for rows in self.in_memory.add(found, beside=True)]

    def merge_candidates(self) -> Iterator[Rows]:
        """Merge the candidates with the archive; yield the rows of new ones. The iterator must be exhausted."""
        archive = self.archive
        if archive is None or not self.pending:
            return
        partitions = self.in_memory.partitions
        known: dict[int, Flags] = {}

        def own(number: int) -> None:
            for p in range(number, PARTITIONS, self._threads.count):
                known[p] = archive.known(p, partitions[p])

        self._threads.run(own, self._threads.count)
        for rows in self.candidates.chunks(1, SETTLED):
            yield self._archive_new(rows, known, archive)
        self._clear_memory()
        self.candidates.clear()
        self.candidates.begin()

    def _archive_new(self, rows: Rows, known: dict[int, Flags], archive: Archive) -> Rows:
        """Append the candidates not marked as known to the archive; return the appended rows."""
        words, owner = self._pack(rows, self.in_memory.packing)
        fresh = []
        for p, mine in by_owner(owner):
            partition, flags = self.in_memory.partitions[p], np.zeros(len(mine), np.uint8)
            look_up(partition.keys, partition.places, partition.layout, words[mine], known[p], flags)
            fresh.append(mine[flags == 0])
            archive.append(p, words[fresh[-1]])
        new: Rows = rows[np.concatenate(fresh)]
        return new

    def spill(self) -> None:
        """Move the states in memory to the archive, which must contain none of them."""
        if self.archive is None:
            self.archive = Archive(self.in_memory.packing, self._folder)
            self.candidates.begin()
        for number, partition in enumerate(self.in_memory.partitions):
            self.archive.append(number, partition.words())
        self._clear_memory()

    def _clear_memory(self) -> None:
        self.in_memory.clear()
        if self.in_memory.nbytes > self._budget.visited:  # the budget has shrunk
            self.in_memory.reserve(0, self.in_memory.packing)

    def _is_full(self) -> bool:
        return self.in_memory.count > self._budget.entries(self.in_memory.packing.bits)

    def _insert(self, found: Found) -> list[Rows]:
        old = self.in_memory.packing
        new = self.in_memory.add(found)
        if self.archive is not None and self.in_memory.packing is not old:
            self.archive = self.archive.repacked(old, self.in_memory.packing)
        return new

    # Restoring from a checkpoint, or after a change of layout

    def empty(self, packing: Packing, states: int) -> None:
        """Remove every state, and make room for `states` states of a new packing; no candidate may be left."""
        if self.archive is not None:
            self.archive.close()
            self.archive = None
            self.candidates.clear()
        self.in_memory = VisitedSet(self._threads, self._budget.small)
        self.reserve(states, packing)

    def reserve(self, states: int, packing: Packing) -> None:
        """Make room in memory for `states` states, as far as the budget allows; the set must be empty."""
        self.in_memory.reserve(min(states, self._budget.entries(packing.bits)), packing)

    def restore(self, found: Found) -> None:
        """Insert states that are known to be new; call `restored` after the last states."""
        self._insert(found)
        if self._is_full():
            self.spill()

    def restored(self) -> None:
        """End a series of `restore` calls; if states are on disk, move those in memory there too."""
        if self.archive is not None:
            self.spill()

    # After the search

    def hand_over(self, packing: Packing, place: Callable[[int, Any], NDArray[Any]]) -> VisitedSet:
        """Move all visited states to a `VisitedSet` for lookups; keep only their number."""
        whole, archive = self.in_memory, self.archive
        self._handed_over, self.in_memory, self.archive = self.count, VisitedSet(self._threads), None
        old = whole.packing
        whole.fit(packing)
        if archive is not None:
            archive = archive if old is packing else archive.repacked(old, packing)
            for number in range(PARTITIONS):
                partition = archive.partition(number)
                partition.move(place)
                whole.replace(number, partition)
            archive.close()
        return whole

    def close(self) -> None:
        """Close the files, which frees their disk space."""
        self.candidates.close()
        if self.archive is not None:
            self.archive.close()
