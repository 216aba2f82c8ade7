"""The set of visited states in memory: exact, compact, and able to grow a piece at a time.

A packed state of b bits is mixed, and what the mixed bits say of the partition and of the home of an entry is not
stored (quotienting). An entry has seven bits for its displacement from its home, which also tell free places, and what
is left of the state, in whole bytes: for a partition of 2^20 places b - 25 bits together. Entries are kept in the
order of their homes (Robin Hood hashing), which keeps displacements small in tables that are nine tenths full.

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
from kraftcheck.explorer.tables.states.packing import (
    PARTITIONS,
    Found,
    Packing,
    Rows,
    Words,
    entry_bytes,
    packing,
    repacked_words,
)
from kraftcheck.explorer.tables.states.pages import Spare, reserved, scattered
from kraftcheck.explorer.tables.threads import SERIAL, Threads

FIRST_CAPACITY = 1 << 10
SMALL, EARLY_GROWTH, GROWTH = 1 << 15, 4, 1.15  # small partitions grow fast; large ones little, to save memory
SPARE = 1.1  # room in a partition for more than its share
PAGE = 1 << 12  # bytes that the system gives at a time
PIECE = 2  # partitions that a thread takes at a time, to insert states
LAST = 4  # pieces of which it takes one partition at a time
TOGETHER = 1 << 16  # states that are packed anew together, at least

NEVER = np.zeros(1, np.int64)

_NO_ROWS: Rows = np.zeros((0, 0), np.int32)


class Partition:
    """One part of the visited set."""

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
        self._take(capacity)

    def _take(self, capacity: int) -> None:
        """Take empty tables with so many homes."""
        bits, others = self._packing.bits, PARTITION_BITS if self._number is None else 0
        stride, scale = entry_bytes(bits, capacity, others) - 1, capacity.bit_length() - 1
        beside = min(max(0, bits - MIXED_BITS), 64 - (HOME_BITS - scale + others))
        self.layout[:] = capacity, stride, beside, scale, others, self._number or 0
        places = capacity + BEHIND
        keys = places * stride + HEAD
        self._bytes = self._spare[0].take(keys), self._spare[1].take(places)
        self._stand(self._bytes[0][:keys], self._bytes[1][:places])
        self.keys[::PAGE] = 0  # a page that is read before it is written is looked for twice, and all threads wait
        self.places[:] = 0

    def _stand(self, keys: NDArray[np.uint8], places: NDArray[np.uint8]) -> None:
        self.keys, self.places = keys, places
        self.table[LAYOUT:ENTRIES] = keys.ctypes.data, len(keys), places.ctypes.data, len(places)

    @property
    def layout(self) -> NDArray[np.int64]:
        """How its entries are laid out."""
        return self.table[:LAYOUT]

    @property
    def count(self) -> int:
        """How many entries it has."""
        return int(self.table[ENTRIES])

    def _leave(self, tables: tuple[Any, Any]) -> None:
        for spare, left in zip(self._spare, tables, strict=True):
            spare.leave(left)

    @property
    def nbytes(self) -> int:
        """Memory of its arrays, in bytes."""
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
            self._take(capacity)
            is_done = move_all(*old, self.keys, self.places, self.layout, self._packing.words)
            self._leave(left if is_done else self._bytes)

    def insert(self, rows: Rows, words: Words, count: int, new: Rows, new_count: int) -> int:
        """Insert states; copy those that are new to `new`, and return how many stand there then."""
        done = 0
        while done < count:
            done, self.table[ENTRIES], new_count = insert_rows(
                rows, words, done, count, new.shape[1], self.count, self.keys, self.places, self.layout, new, new_count
            )
            if done < count:
                self.grow()
        return new_count

    def add_words(self, words: Words) -> None:
        """Insert packed words that may be there already."""
        self.insert(_NO_ROWS, words, len(words), _NO_ROWS, 0)

    def move(self, place: Callable[[int, Any], NDArray[Any]]) -> None:
        """Move its arrays to others, made given their length and the type of their numbers."""
        keys, places = place(len(self.keys), np.uint8), place(len(self.places), np.uint8)
        keys[:], places[:] = self.keys, self.places
        self._stand(keys, places)
        self._bytes = reserved(0), reserved(0)

    def clear(self) -> None:
        """Take every entry out; the room stays."""
        self.places[:] = 0
        self.table[ENTRIES] = 0


class VisitedSet:
    """The visited states, in partitions of which each has one thread at a time."""

    def __init__(self, threads: Threads, small: int = SMALL) -> None:
        self.packing = packing([1])
        self._threads = threads
        self._small = small
        self._spare = Spare(), Spare()
        self._new = [np.empty(0, np.int32)] * threads.count
        self._tables = np.zeros((PARTITIONS, TABLE), np.int64)  # of each partition
        self.partitions: list[Partition] = []  # none until it is known how states are packed

    def _empty(self, capacities: list[int]) -> list[Partition]:
        self._tables = np.zeros((PARTITIONS, TABLE), np.int64)
        packing, small, spare = self.packing, self._small, self._spare
        each = enumerate(zip(capacities, self._tables, strict=True))
        return [Partition(packing, number, n, small, spare, table) for number, (n, table) in each]

    @property
    def count(self) -> int:
        """How many states it has."""
        return int(self._tables[:, ENTRIES].sum())

    def replace(self, number: int, partition: Partition) -> None:
        """Take another partition for the one of that number."""
        self._tables[number] = partition.table
        partition.table = self._tables[number]
        self.partitions[number] = partition

    @property
    def nbytes(self) -> int:
        """Memory of its arrays, in bytes."""
        return sum(partition.nbytes for partition in self.partitions)

    def add(self, found: Found, *, beside: bool = False) -> list[Rows]:
        """Insert what the workers have found; return the rows of those states that are new, until the next call.

        With `beside` this thread does it alone, beside another, until that has done its own work.
        """
        self.fit(found.packing)
        total = int(sum(part.counts.sum() for part in found.parts))
        owners = self._threads.count if total > SERIAL and not beside else 1
        new_rows: list[Rows] = []
        enough = self._threads.enough if beside else NEVER
        pieces = iter(self.pieces_of(found) if owners > 1 else [(0, PARTITIONS)])  # each has one thread at a time

        def own(number: int) -> None:
            new, count = self._room(number, total, found.width), 0
            for first, end in pieces:
                for part in found.parts:
                    p, done = first, 0
                    while True:  # without Python's lock, which what is learned meanwhile may need
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
        """Return ranges of partitions, of which each thread takes the next one when it is ready.

        Those come first that may grow, which takes longest, and small ones last: so the threads end together.
        """
        filled = sum((part.counts for part in found.parts), self._tables[:, ENTRIES])
        may_grow = (filled >= self._tables[:, CAPACITY] * MAX_LOAD).reshape(-1, PIECE).any(axis=1)
        firsts = (np.argsort(~may_grow, kind="stable") * PIECE).tolist()
        pieces = [(first, first + PIECE) for first in firsts[:-LAST]]
        return pieces + [(p, p + 1) for first in firsts[-LAST:] for p in range(first, first + PIECE)]

    def _room(self, owner: int, count: int, width: int) -> Rows:
        """Return an array for the new states of one thread, with room for one more than there may be."""
        if self._new[owner].size < (count + 1) * width:
            self._new[owner] = scattered((2 * (count + 1) * width,), np.int32)
        return self._new[owner][: (count + 1) * width].reshape(count + 1, width)

    def fit(self, new: Packing) -> None:
        """Pack the states anew where they shall be packed in another way, those of some partitions at a time."""
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
        """Take partitions until there is enough to pack anew together; return their entries."""
        gathered: list[Words] = []
        for p in left:
            gathered.append(before[p].words())
            before[p] = Partition(old, capacity=1)
            if sum(map(len, gathered)) >= TOGETHER:
                break
        return gathered

    def reserve(self, states: int, packing: Packing) -> None:
        """Make room for so many states, packed in this way; the set must be empty."""
        self.packing = packing
        capacity = max(FIRST_CAPACITY, int(states / PARTITIONS * SPARE / MAX_LOAD))
        self.partitions = self._empty([capacity] * PARTITIONS)

    def clear(self) -> None:
        """Take every state out; the room stays."""
        for partition in self.partitions:
            partition.clear()
