"""The set of visited states in memory: exact, compact, and able to grow one partition at a time.

A packed state is mixed by a bijection, and its partition and home place follow from the mixed bits. An entry need
not store these bits (quotienting). For a state of b bits in a partition of 2^20 places, b - 26 bits are left,
rounded up to bytes. A further byte holds the displacement from home. Entries are ordered by home (Robin Hood
hashing), which keeps displacements small at a load of 0.9. `kernel/hash_set.py` says why no two states are
confused.

Sources: J. Cleary, "Compact Hash Tables Using Bidirectional Linear Probing" (1984), for the quotient; P. Celis,
"Robin Hood Hashing" (1986).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kraftcheck.explorer.tables.kernel.hash_set import (
    BEHIND,
    CAPACITY,
    ENTRIES,
    HEAD,
    LAYOUT,
    MAX_LOAD,
    TABLE,
    entries,
    insert_found,
    insert_rows,
    move_all,
)
from kraftcheck.explorer.tables.kernel.packing import HOME_BITS, MIXED_BITS, PARTITION_BITS
from kraftcheck.explorer.tables.states.packed_rows import (
    PARTITIONS,
    Found,
    Packing,
    Rows,
    Words,
    entry_bytes,
    packing,
    repacked_words,
)
from kraftcheck.explorer.tables.states.virtual_memory import Spare, reserved, scattered
from kraftcheck.explorer.tables.states.worker_buffers import SERIAL, Threads

FIRST_CAPACITY = 1 << 10
SMALL, EARLY_GROWTH, GROWTH = 1 << 15, 4, 1.15  # small partitions grow fast; large ones little, to save memory
SPARE = 1.1  # room in a partition for more than its share
PAGE = 1 << 12  # bytes of a page of virtual memory
PIECE = 2  # partitions in a range that a thread takes
LAST = 4  # ranges at the end that are split into single partitions
TOGETHER = 1 << 16  # states that are repacked together, at least

NEVER = np.zeros(1, np.int64)

_NO_ROWS: Rows = np.zeros((0, 0), np.int32)


class Partition:
    """One partition of the visited set."""

    def __init__(
        self,
        packing: Packing,
        number: int | None = None,
        capacity: int = FIRST_CAPACITY,
        small: int = SMALL,
        spare: tuple[Spare, Spare] | None = None,
        table: NDArray[np.int64] | None = None,
    ) -> None:
        self.table = np.zeros(TABLE, np.int64) if table is None else table
        self._packing, self._number, self._small = packing, number, small
        self._spare = spare or (Spare(), Spare())
        self._allocate(capacity)

    def _allocate(self, capacity: int) -> None:
        """Allocate empty arrays for `capacity` homes."""
        bits, others = self._packing.bits, PARTITION_BITS if self._number is None else 0
        stride, scale = entry_bytes(bits, capacity, others) - 1, capacity.bit_length() - 1
        beside = min(max(0, bits - MIXED_BITS), 64 - (HOME_BITS - scale + others))
        self.layout[:] = capacity, stride, beside, scale, others, self._number or 0
        places = capacity + BEHIND
        keys = places * stride + HEAD
        self._bytes = self._spare[0].take(keys), self._spare[1].take(places)
        self._use_arrays(self._bytes[0][:keys], self._bytes[1][:places])
        self.keys[::PAGE] = 0  # a page read before its first write faults twice, and page faults stall all threads
        self.places[:] = 0

    def _use_arrays(self, keys: NDArray[np.uint8], places: NDArray[np.uint8]) -> None:
        """Use these arrays, and store their addresses for compiled code."""
        self.keys, self.places = keys, places
        self.table[LAYOUT:ENTRIES] = keys.ctypes.data, len(keys), places.ctypes.data, len(places)

    @property
    def layout(self) -> NDArray[np.int64]:
        """The layout of the partition's entries: see `kernel/hash_set.py`."""
        return self.table[:LAYOUT]

    @property
    def count(self) -> int:
        """Number of entries."""
        return int(self.table[ENTRIES])

    def _recycle(self, tables: tuple[Any, Any]) -> None:
        for spare, left in zip(self._spare, tables, strict=True):
            spare.leave(left)

    @property
    def nbytes(self) -> int:
        """Size of the partition's arrays in bytes."""
        return int(self.keys.nbytes + self.places.nbytes)

    def words(self) -> Words:
        """Return the packed words of every entry."""
        words = np.zeros((self.count, self._packing.words), np.uint64)
        entries(self.keys, self.places, self.layout, words)
        return words

    def grow(self) -> None:
        """Make room for more entries."""
        old, left = (self.keys, self.places, self.layout.copy()), self._bytes
        capacity, is_done = int(self.layout[CAPACITY]), False
        while not is_done:
            capacity = int(capacity * (EARLY_GROWTH if capacity < self._small else GROWTH)) + 1
            self._allocate(capacity)
            is_done = move_all(*old, self.keys, self.places, self.layout, self._packing.words)
            self._recycle(left if is_done else self._bytes)

    def insert(self, rows: Rows, words: Words, count: int, new: Rows, new_count: int) -> int:
        """Insert states, append new ones to `new`, and return its length."""
        done = 0
        while done < count:
            done, self.table[ENTRIES], new_count = insert_rows(
                rows, words, done, count, new.shape[1], self.count, self.keys, self.places, self.layout, new, new_count
            )
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
        self._bytes = reserved(0), reserved(0)

    def clear(self) -> None:
        """Remove every entry; the arrays stay."""
        self.places[:] = 0
        self.table[ENTRIES] = 0


class VisitedSet:
    """The visited states, in partitions; at most one thread at a time changes a partition."""

    def __init__(self, threads: Threads, small: int = SMALL) -> None:
        self.packing = packing([1])
        self._threads = threads
        self._small = small
        self._spare = Spare(), Spare()
        self._new = [np.empty(0, np.int32)] * threads.count
        self._tables = np.zeros((PARTITIONS, TABLE), np.int64)  # of each partition
        self.partitions: list[Partition] = []  # empty until the packing is known

    def _empty(self, capacities: list[int]) -> list[Partition]:
        self._tables = np.zeros((PARTITIONS, TABLE), np.int64)
        packing, small, spare = self.packing, self._small, self._spare
        each = enumerate(zip(capacities, self._tables, strict=True))
        return [Partition(packing, number, n, small, spare, table) for number, (n, table) in each]

    @property
    def count(self) -> int:
        """Number of states."""
        return int(self._tables[:, ENTRIES].sum())

    def replace(self, number: int, partition: Partition) -> None:
        """Replace the partition of this number."""
        self._tables[number] = partition.table
        partition.table = self._tables[number]
        self.partitions[number] = partition

    @property
    def nbytes(self) -> int:
        """Size of all partitions' arrays in bytes."""
        return sum(partition.nbytes for partition in self.partitions)

    def add(self, found: Found, *, beside: bool = False) -> list[Rows]:
        """Insert the workers' successors; return the rows of the new ones, valid until the next call.

        With `beside`, this thread inserts alone while another one works, and stops early once that one is done.
        """
        self.fit(found.packing)
        total = int(sum(part.counts.sum() for part in found.parts))
        owners = self._threads.count if total > SERIAL and not beside else 1
        new_rows: list[Rows] = []
        enough = self._threads.enough if beside else NEVER
        # A partition belongs to one thread at a time, so no insertion takes a lock. The number of threads changes the
        # order of the new rows, not which keys are new. Results that must not depend on it, like the choice of a
        # counterexample, order states by fingerprint (`witness.py`).
        pieces = iter(self.pieces_of(found) if owners > 1 else [(0, PARTITIONS)])

        def own(number: int) -> None:
            new, count = self._room(number, total, found.width), 0
            for first, end in pieces:
                for part in found.parts:
                    p, done = first, 0
                    while True:  # in compiled code without the GIL: miss handling may run Python at the same time
                        p, done, count = insert_found(part, self._tables, p, done, end, new, count, enough)
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

    def pieces_of(self, found: Found) -> list[tuple[int, int]]:
        """Divide the partitions into ranges (first, end), which the threads take in turn.

        Partitions that may grow come first, since growing takes longest. The last ranges are single partitions, so that
        the threads end at about the same time.
        """
        filled = sum((part.counts for part in found.parts), self._tables[:, ENTRIES])
        may_grow = (filled >= self._tables[:, CAPACITY] * MAX_LOAD).reshape(-1, PIECE).any(axis=1)
        firsts = (np.argsort(~may_grow, kind="stable") * PIECE).tolist()
        pieces = [(first, first + PIECE) for first in firsts[:-LAST]]
        return pieces + [(p, p + 1) for first in firsts[-LAST:] for p in range(first, first + PIECE)]

    def _room(self, owner: int, count: int, width: int) -> Rows:
        """Return an array for `count` new states of one thread, and one spare row."""
        if self._new[owner].size < (count + 1) * width:
            self._new[owner] = scattered((2 * (count + 1) * width,), np.int32)
        return self._new[owner][: (count + 1) * width].reshape(count + 1, width)

    def fit(self, new: Packing) -> None:
        """Repack all states for a new packing, some partitions at a time."""
        old, self.packing = self.packing, new
        if new is old and self.partitions:
            return
        states = self.count
        if not states:
            self.reserve(0, new)
            return
        before = self.partitions
        self.partitions = self._empty([max(FIRST_CAPACITY, int(p.count / MAX_LOAD) + 16) for p in before])
        locks = [Lock() for _ in self.partitions]
        owners = self._threads.count if states > SERIAL else 1
        left = iter(range(PARTITIONS))

        def own(_: int) -> None:
            while gathered := self._gathered(left, before, old):
                for q, mine in repacked_words(np.concatenate(gathered), old, new):
                    with locks[q]:
                        self.partitions[q].add_words(mine)

        self._threads.run(own, owners)

    def _gathered(self, left: Iterator[int], before: list[Partition], old: Packing) -> list[Words]:
        """Take the entries of further partitions until there are enough to repack at once; return the entries."""
        gathered: list[Words] = []
        for p in left:
            gathered.append(before[p].words())
            before[p] = Partition(old, capacity=1)
            if sum(map(len, gathered)) >= TOGETHER:
                break
        return gathered

    def reserve(self, states: int, packing: Packing) -> None:
        """Allocate an empty set for `states` states of this packing."""
        self.packing = packing
        capacity = max(FIRST_CAPACITY, int(states / PARTITIONS * SPARE / MAX_LOAD))
        self.partitions = self._empty([capacity] * PARTITIONS)

    def clear(self) -> None:
        """Remove every state; the arrays stay."""
        for partition in self.partitions:
            partition.clear()
