"""The set of visited states: in memory, then on disk when the search outgrows memory; the division of the memory.

A packed state is mixed by a bijection, and its partition and home place follow from the mixed bits. An entry need
not store these bits (quotienting). For a state of b bits in a partition of 2^20 places, b - 26 bits are left,
rounded up to bytes. A further byte holds the displacement from home. Entries are ordered by home (Robin Hood
hashing), which keeps displacements small at a load of 0.9. `kernel/hash_set.py` says why no two states are
confused. The set grows one partition at a time.

While memory lasts, each state is looked up at once. Later, duplicates are detected with a delay. The set in memory
then holds *candidates*: states found since the last merge, which may be on disk already. A merge reads the archive
on disk once; candidates that it contains are duplicates, the others are new. This sequential pass is put off until
memory is full of candidates, or the level ends.

Sources: J. Cleary, "Compact Hash Tables Using Bidirectional Linear Probing" (1984), for the quotient; P. Celis,
"Robin Hood Hashing" (1986); U. Stern and D. Dill, "Using Magnetic Disk Instead of Main Memory in the Murphi Verifier"
(1998).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kraftcheck.explorer.native.arrays import ThreadSpareArray, reserve_zeroed_bytes, zeros_in_small_pages
from kraftcheck.explorer.tables.kernel.hash_set import (
    CAPACITY,
    ENTRIES,
    HEAD_BYTES,
    LAYOUT_NUMBERS,
    MAX_HASH_SET_LOAD,
    PLACES_BEHIND_HOMES,
    TABLE_RECORD_SIZE,
    copy_entries_to_larger,
    insert_rows,
    insert_successors,
    look_up_entry_flags,
    mark_entries_of_words,
    write_words_of_entries,
)
from kraftcheck.explorer.tables.kernel.packing import HOME_BITS, MIXED_BITS, PARTITION_BITS
from kraftcheck.explorer.tables.rows import (
    MOST_SERIAL_STATES,
    PARTITION_COUNT,
    SUCCESSOR_ROOM_A_STATE,
    BitPacking,
    Rows,
    SpillingLevels,
    SuccessorsOfWorkers,
    ThreadPool,
    Words,
    indices_by_owner_partition,
    packing_of_widths,
    repacked_words_by_partition,
    visited_entry_bytes,
)
from kraftcheck.persistence.stored_files import AppendOnlyFile, RowIndex
from kraftcheck.processes import default_memory_bytes

FIRST_PARTITION_CAPACITY = 1 << 10
SMALL_PARTITION, EARLY_GROWTH, GROWTH = 1 << 15, 4, 1.15  # small ones grow fast; large ones little, to save memory
SPARE_PARTITION_FACTOR = 1.1  # room in a partition for more than its share
PAGE_BYTES = 1 << 12  # bytes of a page of virtual memory
PARTITIONS_A_RANGE = 2  # partitions in a range that a thread takes
SPLIT_LAST_RANGES = 4  # ranges at the end that are split into single partitions
LEAST_STATES_A_REPACKING = 1 << 16  # states that are repacked together, at least

UNSET_STOP_FLAG = np.zeros(1, np.int64)

_NO_ROWS: Rows = np.zeros((0, 0), np.int32)


class VisitedSetPartition:
    """One partition of the visited set."""

    def __init__(
        self,
        packing: BitPacking,
        number: int | None = None,
        capacity: int = FIRST_PARTITION_CAPACITY,
        small: int = SMALL_PARTITION,
        spare: tuple[ThreadSpareArray, ThreadSpareArray] | None = None,
        table: NDArray[np.int64] | None = None,
    ) -> None:
        self.table = np.zeros(TABLE_RECORD_SIZE, np.int64) if table is None else table
        self._packing, self._number, self._small = packing, number, small
        self._spare = spare or (ThreadSpareArray(), ThreadSpareArray())
        self._allocate(capacity)

    def _allocate(self, capacity: int) -> None:
        """Allocate empty arrays for `capacity` homes."""
        bits, others = self._packing.bits, PARTITION_BITS if self._number is None else 0
        stride, scale = visited_entry_bytes(bits, capacity, others) - 1, capacity.bit_length() - 1
        beside = min(max(0, bits - MIXED_BITS), 64 - (HOME_BITS - scale + others))
        self.layout[:] = capacity, stride, beside, scale, others, self._number or 0
        places = capacity + PLACES_BEHIND_HOMES
        keys = places * stride + HEAD_BYTES
        self._bytes = self._spare[0].take(keys), self._spare[1].take(places)
        self._use_arrays(self._bytes[0][:keys], self._bytes[1][:places])
        self.keys[::PAGE_BYTES] = 0  # a page read before its first write faults twice; page faults stall all threads
        self.places[:] = 0

    def _use_arrays(self, keys: NDArray[np.uint8], places: NDArray[np.uint8]) -> None:
        """Use these arrays, and store their addresses for compiled code."""
        self.keys, self.places = keys, places
        self.table[LAYOUT_NUMBERS:ENTRIES] = keys.ctypes.data, len(keys), places.ctypes.data, len(places)

    @property
    def layout(self) -> NDArray[np.int64]:
        """The layout of the partition's entries: see `kernel/hash_set.py`."""
        return self.table[:LAYOUT_NUMBERS]

    @property
    def count(self) -> int:
        """Number of entries."""
        return int(self.table[ENTRIES])

    @property
    def nbytes(self) -> int:
        """Size of the partition's arrays in bytes."""
        return int(self.keys.nbytes + self.places.nbytes)

    def words(self) -> Words:
        """Return the packed words of every entry."""
        words = np.zeros((self.count, self._packing.words), np.uint64)
        write_words_of_entries(self.keys, self.places, self.layout, words)
        return words

    def grow(self) -> None:
        """Make room for more entries."""
        old, left = (self.keys, self.places, self.layout.copy()), self._bytes
        capacity, is_done = int(self.layout[CAPACITY]), False
        while not is_done:
            capacity = int(capacity * (EARLY_GROWTH if capacity < self._small else GROWTH)) + 1
            self._allocate(capacity)
            is_done = copy_entries_to_larger(*old, self.keys, self.places, self.layout, self._packing.words)
            for spare, unused in zip(self._spare, left if is_done else self._bytes, strict=True):
                spare.leave(unused)

    def insert(self, rows: Rows, words: Words, count: int, new: Rows, new_count: int) -> int:
        """Insert states, append new ones to `new`, and return its length."""
        done = 0
        while done < count:
            before = new_count
            done, new_count = insert_rows(rows, words, done, count, self.keys, self.places, self.table, new, new_count)
            self.table[ENTRIES] += new_count - before
            if done < count:
                self.grow()
        return new_count

    def add_words(self, words: Words) -> None:
        """Insert packed words; duplicates are ignored."""
        self.insert(_NO_ROWS, words, len(words), _NO_ROWS, 0)

    def move(self, place: Callable[[int, Any], NDArray[Any]]) -> None:
        """Move the partition's arrays to memory allocated by `place(length, type)`."""
        keys, places = place(len(self.keys), np.uint8), place(len(self.places), np.uint8)
        keys[:], places[:] = self.keys, self.places
        self._use_arrays(keys, places)
        self._bytes = reserve_zeroed_bytes(0), reserve_zeroed_bytes(0)

    def clear(self) -> None:
        """Remove every entry; the arrays stay."""
        self.places[:] = 0
        self.table[ENTRIES] = 0


class VisitedSet:
    """The visited states, in partitions; at most one thread at a time changes a partition."""

    def __init__(self, threads: ThreadPool, small: int = SMALL_PARTITION) -> None:
        self.packing = packing_of_widths([1])
        self._threads = threads
        self._small = small
        self._spare = ThreadSpareArray(), ThreadSpareArray()
        self._new = [np.empty(0, np.int32)] * threads.count
        self._tables = np.zeros((PARTITION_COUNT, TABLE_RECORD_SIZE), np.int64)  # of each partition
        self.partitions: list[VisitedSetPartition] = []  # empty until the packing is known

    def _empty(self, capacities: list[int]) -> list[VisitedSetPartition]:
        self._tables = np.zeros((PARTITION_COUNT, TABLE_RECORD_SIZE), np.int64)
        packing, small, spare = self.packing, self._small, self._spare
        each = enumerate(zip(capacities, self._tables, strict=True))
        least = FIRST_PARTITION_CAPACITY
        return [VisitedSetPartition(packing, number, max(n, least), small, spare, table) for number, (n, table) in each]

    @property
    def count(self) -> int:
        """Number of states."""
        return int(self._tables[:, ENTRIES].sum())

    def replace(self, number: int, partition: VisitedSetPartition) -> None:
        """Replace the partition of this number."""
        self._tables[number] = partition.table
        partition.table = self._tables[number]
        self.partitions[number] = partition

    @property
    def nbytes(self) -> int:
        """Size of all partitions' arrays in bytes."""
        return sum(partition.nbytes for partition in self.partitions)

    def add(self, found: SuccessorsOfWorkers, *, beside: bool = False) -> list[Rows]:
        """Insert the workers' successors; return the rows of the new ones, valid until the next call.

        With `beside`, this thread inserts alone while another one works, and stops early once that one is done.
        """
        self.fit(found.packing)
        total = int(sum(part.counts.sum() for part in found.parts))
        owners = self._threads.count if total > MOST_SERIAL_STATES and not beside else 1
        new_rows: list[Rows] = []
        enough = self._threads.enough if beside else UNSET_STOP_FLAG
        # A partition belongs to one thread at a time, so no insertion takes a lock. The number of threads changes the
        # order of the new rows, not which keys are new. Results that must not depend on it, like the choice of a
        # counterexample, order states by fingerprint (`witness.py`).
        pieces = iter(self.pieces_of(found) if owners > 1 else [(0, PARTITION_COUNT)])

        def own(number: int) -> None:
            new, count = self._room(number, total, found.width), 0
            for first, end in pieces:
                for part in found.parts:
                    p, done = first, 0
                    while True:  # in compiled code without the GIL: miss handling may run Python at the same time
                        p, done, count = insert_successors(part, self._tables, p, done, end, new, count, enough)
                        if p >= end or enough[0]:
                            break
                        self.partitions[p].grow()
            if count:
                new_rows.append(new[:count])

        if beside:
            own(0)
        else:
            self._threads.run(own, owners)
        return new_rows

    def pieces_of(self, found: SuccessorsOfWorkers) -> list[tuple[int, int]]:
        """Divide the partitions into ranges (first, end), which the threads take in turn.

        Partitions that may grow come first, since growing takes longest. The last ranges are single partitions, so that
        the threads end at about the same time.
        """
        filled = sum((part.counts for part in found.parts), self._tables[:, ENTRIES])
        may_grow = (filled >= self._tables[:, CAPACITY] * MAX_HASH_SET_LOAD).reshape(-1, PARTITIONS_A_RANGE).any(axis=1)
        firsts = (np.argsort(~may_grow, kind="stable") * PARTITIONS_A_RANGE).tolist()
        pieces = [(first, first + PARTITIONS_A_RANGE) for first in firsts[:-SPLIT_LAST_RANGES]]
        return pieces + [
            (p, p + 1) for first in firsts[-SPLIT_LAST_RANGES:] for p in range(first, first + PARTITIONS_A_RANGE)
        ]

    def _room(self, owner: int, count: int, width: int) -> Rows:
        """Return an array for `count` new states of one thread, and one spare row."""
        if self._new[owner].size < (count + 1) * width:
            self._new[owner] = zeros_in_small_pages((2 * (count + 1) * width,), np.int32)
        return self._new[owner][: (count + 1) * width].reshape(count + 1, width)

    def fit(self, new: BitPacking) -> None:
        """Repack all states for a new packing, some partitions at a time."""
        old, self.packing = self.packing, new
        if new is old and self.partitions:
            return
        states = self.count
        if not states:
            self.reserve(0, new)
            return
        before = self.partitions
        self.partitions = self._empty([int(p.count / MAX_HASH_SET_LOAD) + 16 for p in before])
        locks = [Lock() for _ in self.partitions]
        owners = self._threads.count if states > MOST_SERIAL_STATES else 1
        left = iter(range(PARTITION_COUNT))

        def own(_: int) -> None:
            while gathered := self._gathered(left, before, old):
                for q, mine in repacked_words_by_partition(np.concatenate(gathered), old, new):
                    with locks[q]:
                        self.partitions[q].add_words(mine)

        self._threads.run(own, owners)

    def _gathered(self, left: Iterator[int], before: list[VisitedSetPartition], old: BitPacking) -> list[Words]:
        """Take the entries of further partitions until there are enough to repack at once; return the entries."""
        gathered: list[Words] = []
        for p in left:
            gathered.append(before[p].words())
            before[p] = VisitedSetPartition(old, capacity=1)
            if sum(map(len, gathered)) >= LEAST_STATES_A_REPACKING:
                break
        return gathered

    def reserve(self, states: int, packing: BitPacking) -> None:
        """Allocate an empty set for `states` states of this packing."""
        self.packing = packing
        capacity = int(states / PARTITION_COUNT * SPARE_PARTITION_FACTOR / MAX_HASH_SET_LOAD)
        self.partitions = self._empty([capacity] * PARTITION_COUNT)

    def clear(self) -> None:
        """Remove every state; the arrays stay."""
        for partition in self.partitions:
            partition.clear()


MOST_ROW_BYTES_IN_MEMORY = 1 << 25  # maximum bytes of rows in memory: old levels are seldom read
MOST_FLAT_BUFFER_BYTES = 1 << 24  # maximum bytes of a worker's flat successors, which should stay in its cache
LEAST_BATCH_STATES = 1 << 12  # minimum number of states in a batch
LEAST_STATE_SHARE_DIVISOR = 8  # states get at least an eighth of the memory
LEAST_MEMO_BYTES = 1 << 25  # minimum bytes for memo tables
FAST_GROWTH_BUDGET_DIVISOR = 1 << 14  # bytes of the visited set per place below which a partition grows fast


class MemoryBudget(NamedTuple):
    """Bytes for each use of memory."""

    visited: int  # the visited set, or the set of candidates once visited states are on disk
    rows: int  # rows of levels not yet on disk; the same again for rows of candidates
    buffers: int  # successors of the current batch

    @classmethod
    def of(cls, memory: int | None) -> MemoryBudget:
        """Divide `memory` bytes among the visited set, the rows of levels, and the successor buffers."""
        total = memory or default_memory_bytes()
        return cls(total // 2, min(total // 8, MOST_ROW_BYTES_IN_MEMORY), total // 4)

    def entries(self, bits: int) -> int:
        """Return the number of packed states of `bits` bits that the visited set can hold in its memory."""
        return max(1 << 10, int(self.visited * 0.65) // visited_entry_bytes(bits, FIRST_PARTITION_CAPACITY))

    @property
    def small(self) -> int:
        """Number of places below which a partition grows by a larger factor; lower if memory is small."""
        return min(SMALL_PARTITION, self.visited // FAST_GROWTH_BUDGET_DIVISOR)

    def batch(self, most: int, columns: int, workers: int, *, is_flat: bool = False) -> int:
        """Return the number of states of a worker's batch: as many as the buffers have room for, at most `most`."""
        room = self.buffers // workers
        fitting = (min(room, MOST_FLAT_BUFFER_BYTES) if is_flat else room) // (2 * SUCCESSOR_ROOM_A_STATE * 4 * columns)
        return max(min(fitting, most), min(LEAST_BATCH_STATES, most))


class SearchMemory:
    """The memory of a search: memo tables take their need, and states share the rest."""

    def __init__(self, memory: int | None) -> None:
        self.total = memory or default_memory_bytes()
        self.budget = MemoryBudget.of(self.total)
        self._learned = 0

    @property
    def most_learned(self) -> int:
        """Bytes that the memo tables may take."""
        return max(self.total - self.total // LEAST_STATE_SHARE_DIVISOR, LEAST_MEMO_BYTES)

    def divide(self, learned: int) -> bool:
        """Divide the memory again if the memo tables have grown or shrunk enough; return whether they have."""
        if abs(learned - self._learned) <= self.total // (2 * LEAST_STATE_SHARE_DIVISOR):
            return False
        self._learned = learned
        self.budget = MemoryBudget.of(max(self.total - learned, self.total // LEAST_STATE_SHARE_DIVISOR, 1))
        return True


FlagArray = NDArray[np.uint8]
ENTRIES_A_READ = 1 << 14  # entries read at a time
LEAST_ENTRIES_A_WRITE = 1 << 12  # entries of a partition in one write, at least
CANDIDATES_A_CHUNK = 1 << 14  # candidates in one chunk of a merge

PackRows = Callable[[Rows, BitPacking], tuple[Words, NDArray[np.int64]]]


class VisitedArchive:
    """Packed words of visited states in an unnamed file, by partition; read sequentially only."""

    def __init__(self, packing: BitPacking, folder: Path | None = None) -> None:
        self.count = 0
        self._packing = packing
        self._folder = folder
        self._file = AppendOnlyFile.temporary(folder)
        self._parts = [RowIndex(np.uint64) for _ in range(PARTITION_COUNT)]
        self._waiting: list[list[Words]] = [[] for _ in range(PARTITION_COUNT)]  # to be written

    def append(self, partition: int, words: Words) -> None:
        """Append entries of a partition; the array must not change afterwards."""
        waiting = self._waiting[partition]
        waiting.append(words)
        self.count += len(words)
        if sum(map(len, waiting)) >= LEAST_ENTRIES_A_WRITE:
            self._parts[partition].append(self._file, np.concatenate(waiting))
            waiting.clear()

    def chunks(self, partition: int) -> Iterator[Words]:
        """Yield the entries of a partition in chunks; threads may read different partitions at the same time."""
        yield from self._parts[partition].chunks(self._file, ENTRIES_A_READ)
        yield from self._waiting[partition]

    def known(self, number: int, partition: VisitedSetPartition) -> FlagArray:
        """Return a flag for each place of a partition in memory: whether its entry is in the archive."""
        known = np.zeros(len(partition.places), np.uint8)
        if partition.count:
            for words in self.chunks(number):
                mark_entries_of_words(partition.keys, partition.places, partition.layout, words, known)
        return known

    def partition(self, number: int) -> VisitedSetPartition:
        """Load the entries of a partition into memory."""
        count = self._parts[number].count + sum(map(len, self._waiting[number]))
        found = VisitedSetPartition(self._packing, number, int(count / MAX_HASH_SET_LOAD) + 16)
        for words in self.chunks(number):
            found.add_words(words)
        return found

    def repacked(self, old: BitPacking, new: BitPacking) -> VisitedArchive:
        """Convert the archive to a new packing, which may change the partitions of states; close the old archive."""
        fresh = VisitedArchive(new, self._folder)
        for number in range(PARTITION_COUNT):
            for words in self.chunks(number):
                for p, again in repacked_words_by_partition(words, old, new):
                    fresh.append(p, again)
        self.close()
        return fresh

    def close(self) -> None:
        """Close the file, which frees its disk space."""
        self._file.close()


class SpillingSet:
    """The visited states, in memory or on disk."""

    def __init__(self, budget: MemoryBudget, threads: ThreadPool, pack: PackRows, folder: Path | None = None) -> None:
        self.in_memory = VisitedSet(threads, budget.small)
        self.archive: VisitedArchive | None = None
        self.candidates = SpillingLevels(budget.rows, folder=folder)
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

    def allow(self, budget: MemoryBudget) -> None:
        """Set the memory budget."""
        self._budget = budget
        self.candidates.budget = budget.rows

    def add(self, found: SuccessorsOfWorkers) -> Iterator[Rows]:
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

    def add_early(self, found: SuccessorsOfWorkers) -> list[Rows]:
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
        known: dict[int, FlagArray] = {}

        def own(number: int) -> None:
            for p in range(number, PARTITION_COUNT, self._threads.count):
                known[p] = archive.known(p, partitions[p])

        self._threads.run(own, self._threads.count)
        for rows in self.candidates.chunks(1, CANDIDATES_A_CHUNK):
            yield self._archive_new(rows, known, archive)
        self._clear_memory()
        self.candidates.clear()
        self.candidates.begin()

    def _archive_new(self, rows: Rows, known: dict[int, FlagArray], archive: VisitedArchive) -> Rows:
        """Append the candidates not marked as known to the archive; return the appended rows."""
        words, owner = self._pack(rows, self.in_memory.packing)
        fresh = []
        for p, mine in indices_by_owner_partition(owner):
            partition, flags = self.in_memory.partitions[p], np.zeros(len(mine), np.uint8)
            look_up_entry_flags(partition.keys, partition.places, partition.layout, words[mine], known[p], flags)
            fresh.append(mine[flags == 0])
            archive.append(p, words[fresh[-1]])
        new: Rows = rows[np.concatenate(fresh)]
        return new

    def spill(self) -> None:
        """Move the states in memory to the archive, which must contain none of them."""
        if self.archive is None:
            self.archive = VisitedArchive(self.in_memory.packing, self._folder)
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

    def _insert(self, found: SuccessorsOfWorkers) -> list[Rows]:
        old = self.in_memory.packing
        new = self.in_memory.add(found)
        if self.archive is not None and self.in_memory.packing is not old:
            self.archive = self.archive.repacked(old, self.in_memory.packing)
        return new

    # Restoring from a checkpoint, or after a change of layout

    def empty(self, packing: BitPacking, states: int) -> None:
        """Remove every state, and make room for `states` states of a new packing; no candidate may be left."""
        if self.archive is not None:
            self.archive.close()
            self.archive = None
            self.candidates.clear()
        self.in_memory = VisitedSet(self._threads, self._budget.small)
        self.reserve(states, packing)

    def reserve(self, states: int, packing: BitPacking) -> None:
        """Make room in memory for `states` states, as far as the budget allows; the set must be empty."""
        self.in_memory.reserve(min(states, self._budget.entries(packing.bits)), packing)

    def restore(self, found: SuccessorsOfWorkers) -> None:
        """Insert states that are known to be new; call `restored` after the last states."""
        self._insert(found)
        if self._is_full():
            self.spill()

    def restored(self) -> None:
        """End a series of `restore` calls; if states are on disk, move those in memory there too."""
        if self.archive is not None:
            self.spill()

    # After the search

    def hand_over(self, packing: BitPacking, place: Callable[[int, Any], NDArray[Any]]) -> VisitedSet:
        """Move all visited states to a `VisitedSet` for lookups; keep only their number."""
        whole, archive = self.in_memory, self.archive
        self._handed_over, self.in_memory, self.archive = self.count, VisitedSet(self._threads), None
        old = whole.packing
        whole.fit(packing)
        if archive is not None:
            archive = archive if old is packing else archive.repacked(old, packing)
            for number in range(PARTITION_COUNT):
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
