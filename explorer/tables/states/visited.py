"""The set of visited states in memory: exact, packed, and able to grow a piece at a time.

A state's ids are packed into `W` whole words and a rest of a few bits. The words are stored; the rest is not: it is
added to the place that the words hash to, so that it follows from where the entry stands (quotienting). An entry is
8 W bytes and one byte for its displacement from its home place, which also tells free places. Entries are kept in
the order of their homes (Robin Hood hashing), which keeps displacements small in tables that are four fifths full.

Sources: J. Cleary, "Compact Hash Tables Using Bidirectional Linear Probing" (1984), for the quotient; P. Celis,
"Robin Hood Hashing" (1986).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kraftcheck.explorer.tables.kernel.hash_set import MAX_LOAD, entries, insert_rows
from kraftcheck.explorer.tables.states.packing import (
    CAPACITY_BITS,
    PARTITIONS,
    Packing,
    Rows,
    Words,
    packing,
    repacked_words,
)
from kraftcheck.explorer.tables.states.successors import Found
from kraftcheck.explorer.tables.threads import SERIAL, Threads

FIRST_CAPACITY = 1 << CAPACITY_BITS
SMALL, EARLY_GROWTH, GROWTH = 1 << 15, 4, 1.35  # small partitions grow fast; large ones little, to save memory
SPARE = 1.1  # room in a partition for more than its share

_NO_ROWS: Rows = np.zeros((0, 0), np.int32)


class Partition:
    """One part of the visited set.

    Parameters
    ----------
    words
        Whole words of an entry.
    capacity
        Entries for which there are places at first.
    small
        Up to how many places it grows fast.
    """

    def __init__(self, words: int, capacity: int = FIRST_CAPACITY, small: int = SMALL) -> None:
        self.small = small
        self.keys: Words = np.zeros((capacity, words), np.uint64)
        self.places: Any = np.zeros(capacity, np.uint8)
        self.count = 0

    @property
    def nbytes(self) -> int:
        """Memory of its arrays, in bytes."""
        return self.keys.nbytes + int(self.places.nbytes)

    def words(self) -> Words:
        """Return the packed words of every entry, the rest last."""
        words = np.zeros((self.count, self.keys.shape[1] + 1), np.uint64)
        entries(self.keys, self.places, words)
        return words

    def grow(self) -> None:
        """Make room for more entries."""
        words, capacity = self.words(), len(self.places)
        while True:
            capacity = int(capacity * (EARLY_GROWTH if capacity < self.small else GROWTH)) + 1
            self.keys = np.zeros((capacity, self.keys.shape[1]), np.uint64)
            self.places = np.zeros(capacity, np.uint8)
            done, _, _ = insert_rows(_NO_ROWS, words, 0, len(words), 0, 0, self.keys, self.places, _NO_ROWS, 0)
            if done == len(words):
                return

    def insert(self, rows: Rows, words: Words, count: int, new: Rows, new_count: int) -> int:
        """Insert states; copy those that are new to `new`, and return how many stand there then.

        Parameters
        ----------
        rows, words, count
            How many states, their rows and their packed words.
        new, new_count
            An array with as many columns as should be copied, and how many rows of it are taken.
        """
        done = 0
        while done < count:
            done, self.count, new_count = insert_rows(
                rows, words, done, count, new.shape[1], self.count, self.keys, self.places, new, new_count
            )
            if done < count:
                self.grow()
        return new_count

    def add_words(self, words: Words) -> None:
        """Insert packed words that may be there already."""
        self.insert(_NO_ROWS, words, len(words), _NO_ROWS, 0)

    def move(self, place: Callable[[int, Any], NDArray[Any]]) -> None:
        """Move its arrays to others, made given their length and the type of their numbers."""
        keys, places = place(self.keys.size, np.uint64).reshape(self.keys.shape), place(len(self.places), np.uint8)
        keys[:], places[:] = self.keys, self.places
        self.keys, self.places = keys, places

    def clear(self) -> None:
        """Take every entry out; the room stays."""
        self.places[:] = 0
        self.count = 0


class VisitedSet:
    """The visited states, in partitions of which each has one thread at a time.

    Parameters
    ----------
    threads
        The threads that insert states.
    small
        Up to how many places a partition grows fast.
    """

    def __init__(self, threads: Threads, small: int = SMALL) -> None:
        self.packing = packing([1])
        self._threads = threads
        self._small = small
        self.partitions = [Partition(1, small=small) for _ in range(PARTITIONS)]

    @property
    def count(self) -> int:
        """How many states it has."""
        return sum(partition.count for partition in self.partitions)

    @property
    def nbytes(self) -> int:
        """Memory of its arrays, in bytes."""
        return sum(partition.nbytes for partition in self.partitions)

    def add(self, found: Found) -> list[Rows]:
        """Insert what the workers have found; return the rows of those states that are new."""
        self.fit(found.packing)
        total = np.sum([part.counts for part in found.parts], axis=0)
        owners = self._threads.count if int(total.sum()) > SERIAL else 1
        new_rows: list[Rows] = []

        def own(number: int) -> None:
            new, count = np.empty((int(total[number::owners].sum()), found.width), np.int32), 0
            for p in range(number, PARTITIONS, owners):
                for part in found.parts:
                    if part.counts[p]:
                        rows, words, n = part.rows[p], part.words[p], int(part.counts[p])
                        count = self.partitions[p].insert(rows, words, n, new, count)
            if count:
                new_rows.append(new[:count])

        self._threads.run(own, owners)
        for part in found.parts:
            part.clear()
        return new_rows

    def fit(self, new: Packing) -> None:
        """Pack the states anew where they shall be packed in another way, one partition after the other."""
        old, self.packing = self.packing, new
        if new is old:
            return
        if not self.count:
            self.reserve(0)
            return
        before = self.partitions
        self.partitions = [
            Partition(new.words, max(FIRST_CAPACITY, int(p.count / MAX_LOAD) + 16), self._small) for p in before
        ]
        for number, partition in enumerate(before):
            words = partition.words()
            before[number] = Partition(old.words, 1)
            for p, mine in repacked_words(words, old, new):
                self.partitions[p].add_words(mine)

    def reserve(self, states: int) -> None:
        """Make room for so many states; the set must be empty."""
        capacity = max(FIRST_CAPACITY, int(states / PARTITIONS * SPARE / MAX_LOAD))
        self.partitions = [Partition(self.packing.words, capacity, self._small) for _ in range(PARTITIONS)]

    def clear(self) -> None:
        """Take every state out; the room stays."""
        for partition in self.partitions:
            partition.clear()
