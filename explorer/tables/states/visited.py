"""The set of visited states: exact, packed, and able to grow a piece at a time.

A state's ids are packed into `W` whole words and a rest of a few bits. The words are stored; the rest is not: it is
added to the place that the words hash to, so that it follows from where the entry stands (quotienting). An entry is
8 W bytes and one byte for its displacement from its home place, which also tells free places. Entries are kept in
the order of their homes (Robin Hood hashing), which keeps displacements small in tables that are four fifths full.

Sources: J. Cleary, "Compact Hash Tables Using Bidirectional Linear Probing" (1984), for the quotient; P. Celis,
"Robin Hood Hashing" (1986).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kraftcheck.explorer.tables.kernel.hash_set import MAX_LOAD, entries, insert_words
from kraftcheck.explorer.tables.kernel.layout import Ints
from kraftcheck.explorer.tables.kernel.packing import PARTITION_BITS, repack

PARTITIONS = 1 << PARTITION_BITS
FIRST_CAPACITY = 1 << 10
SMALL, EARLY_GROWTH, GROWTH = 1 << 15, 4, 1.35  # small partitions grow fast; large ones little, to save memory


class Packing(NamedTuple):
    """Where the bits of each field of a state's identity stand.

    Attributes
    ----------
    position
        First bit of each field; the control row comes last, so that its high bits are what is left over.
    width
        Bits of each field.
    words
        Whole words that are stored; what lies beyond them is the rest.
    """

    position: Ints
    width: Ints
    words: int


def packing(widths: list[int], rest_bits: int) -> Packing:
    """Return a packing of fields (the control row first) whose rest takes at most `rest_bits` bits."""
    order = [*range(1, len(widths)), 0]
    position, at = np.zeros(len(widths), np.int32), 0
    for field in order:
        position[field] = at
        at += widths[field]
    words = max(1, -(-(at - rest_bits) // 64))
    return Packing(position, np.array(widths, np.int32), words)


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
        self.keys: NDArray[np.uint64] = np.zeros((capacity, words), np.uint64)
        self.places: NDArray[np.uint8] = np.zeros(capacity, np.uint8)
        self.count = 0

    @property
    def nbytes(self) -> int:
        """Memory of its arrays, in bytes."""
        return self.keys.nbytes + self.places.nbytes

    def words(self) -> NDArray[np.uint64]:
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
            if insert_words(self.keys, self.places, words, 0, 0) == len(words):
                return

    def add_words(self, words: NDArray[np.uint64]) -> None:
        """Insert packed words that are not there yet."""
        done = 0
        while done < len(words):
            came = int(insert_words(self.keys, self.places, words, done, self.count))
            self.count += came - done
            done = came
            if done < len(words):
                self.grow()


def repacked(partitions: list[Partition], old: Packing, new: Packing) -> list[Partition]:
    """Return the visited set packed anew; partitions are emptied one after the other on the way.

    Parameters
    ----------
    partitions
        The visited set.
    old, new
        How it is packed and how it shall be.
    """
    fresh = [Partition(new.words, max(FIRST_CAPACITY, int(p.count / MAX_LOAD) + 16), p.small) for p in partitions]
    fields = len(old.position)  # fields that are new are empty: their bits are 0
    for index in range(len(partitions)):
        words = partitions[index].words()
        partitions[index] = Partition(old.words, 1)
        again = np.zeros((len(words), new.words + 1), np.uint64)
        owner = np.zeros(len(words), np.int64)
        repack(words, old.position, old.width, again, new.position[:fields], new.width[:fields], owner)
        order = np.argsort(owner, kind="stable")
        ends = np.searchsorted(owner[order], np.arange(len(partitions) + 1))
        for p in range(len(partitions)):
            if ends[p] < ends[p + 1]:
                fresh[p].add_words(again[order[ends[p] : ends[p + 1]]])
    return fresh
