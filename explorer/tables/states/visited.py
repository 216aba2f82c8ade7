"""The set of visited states: exact, packed, and able to grow a piece at a time.

A state's ids are packed into `W` whole words and a rest of a few bits. The words are stored; the rest is not: it is
added to the place that the words hash to, so that it follows from where the entry stands (quotienting). An entry is
8 W bytes and one byte for its displacement from its home place, which also tells free places. Entries are kept in
the order of their homes (Robin Hood hashing), which keeps displacements small in tables that are four fifths full.

Sources: J. Cleary, "Compact Hash Tables Using Bidirectional Linear Probing" (1984), for the quotient; P. Celis,
"Robin Hood Hashing" (1986).
"""

# ruff: noqa: D103
from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kraftcheck.explorer.tables.kernel.expand import PARTITION_BITS, hash_words, owner_of, put_bits
from kraftcheck.explorer.tables.kernel.layout import Ints
from kraftcheck.explorer.tables.kernel.native import bare, inlined, jit

PARTITIONS = 1 << PARTITION_BITS
FIRST_CAPACITY = 1 << 10
MAX_LOAD = 0.8
SMALL, EARLY_GROWTH, GROWTH = 1 << 15, 4, 1.35  # small partitions grow fast; large ones little, to save memory
AHEAD = 16  # entries looked up together
MAX_DISPLACEMENT = 254


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


@inlined
def take_bits(words: Any, place: Any, position: Any, width: Any) -> Any:
    w, s = position >> 6, position & 63
    value = words[place, w] >> np.uint64(s)
    if s + width > 64:
        value |= words[place, w + 1] << np.uint64(64 - s)
    return value & ((np.uint64(1) << np.uint64(width)) - np.uint64(1))


@inlined
def base_place(h: Any, capacity: Any) -> Any:
    return np.int64(((h & np.uint64(0xFFFFFFFF)) * np.uint64(capacity)) >> np.uint64(32))


@inlined
def home_of(words: Any, place: Any, capacity: Any) -> Any:
    """Return where packed words belong in a partition of a capacity, if it is free."""
    home = base_place(hash_words(words, place), capacity) + np.int64(words[place, words.shape[1] - 1])
    return home - capacity if home >= capacity else home


@inlined
def holds(keys: Any, at: Any, words: Any, place: Any) -> Any:
    """Whether an entry has these words; that its rest is theirs follows from where it stands."""
    same = True
    for w in range(words.shape[1] - 1):
        same &= keys[at, w] == words[place, w]
    return same


@inlined
def locate(keys: Any, places: Any, words: Any, place: Any, home: Any) -> Any:
    """Return where packed words stand, or -1."""
    at, distance, result = home, np.int64(1), np.int64(-1)
    while True:
        found = np.int64(places[at])
        if found < distance:
            break
        if found == distance and holds(keys, at, words, place):
            result = at
            break
        distance += 1
        at += 1
        if at == len(places):
            at = 0
    return result


@inlined
def insert(keys: Any, places: Any, words: Any, place: Any, home: Any, most: Any) -> Any:
    """Insert packed words; return their place, -1 where they are there, -2 where a displacement exceeds `most`.

    An entry may have further columns behind its words; they move with it, and are the caller's to set.
    """
    capacity = len(places)
    at, distance, result = home, np.int64(1), np.int64(0)
    while True:
        found = np.int64(places[at])
        if found < distance:
            break
        if found == distance and holds(keys, at, words, place):
            result = np.int64(-1)
            break
        distance += 1
        at += 1
        if at == capacity:
            at = 0
    if result == 0 and distance > most:
        result = np.int64(-2)
    if result == 0:
        end = at  # everything from here to the next free place moves by one
        while places[end] != 0:
            if places[end] >= most:
                result = np.int64(-2)
                break
            end += 1
            if end == capacity:
                end = 0
        if result == 0:
            while end != at:
                before = end - 1 if end > 0 else capacity - 1
                for w in range(keys.shape[1]):
                    keys[end, w] = keys[before, w]
                places[end] = places[before] + 1
                end = before
            for w in range(words.shape[1] - 1):
                keys[at, w] = words[place, w]
            places[at] = distance
            result = at
    return result


@jit
def insert_rows(
    rows: Any, words: Any, first: Any, last: Any, columns: Any, count: Any, keys: Any, places: Any, new: Any, new_n: Any
) -> Any:
    """Insert the packed words of states; copy the first columns of those that are new to `new`.

    Returns how far it came (less than `last` where the partition must grow first), the entries and the new ones.
    """
    rows, words, keys, places, new = bare(rows), bare(words), bare(keys), bare(places), bare(new)
    own_homes = np.zeros(AHEAD, np.int64)
    homes = bare(own_homes)
    capacity = len(places)
    limit = np.int64(capacity * MAX_LOAD)
    start = np.int64(first)
    touched = np.uint64(0)
    while start < last:
        end = min(start + AHEAD, last)
        for i in range(start, end):  # these reads do not wait for one another: what they fetch is there afterwards
            home = home_of(words, i, capacity)
            homes[i - start] = home
            touched |= keys[home, 0] | np.uint64(places[home])
        for i in range(start, end):
            if count >= limit:
                return i, count, new_n, touched
            code = insert(keys, places, words, i, homes[i - start], MAX_DISPLACEMENT)
            if code == -2:
                return i, count, new_n, touched
            if code >= 0:
                count += 1
                for c in range(columns):
                    new[new_n, c] = rows[i, c]
                new_n += 1
        start = end
    return last, count, new_n, touched


@jit
def entries(keys: Any, places: Any, words: Any) -> Any:
    """Write the packed words of every entry of a partition, the rest included; return how many there are."""
    keys, places, words = bare(keys), bare(places), bare(words)
    stored, capacity, n = words.shape[1] - 1, len(places), 0
    for at in range(capacity):
        if places[at] == 0:
            continue
        for w in range(stored):
            words[n, w] = keys[at, w]
        home = at - (np.int64(places[at]) - 1)
        if home < 0:
            home += capacity
        rest = home - base_place(hash_words(words, n), capacity)
        if rest < 0:
            rest += capacity
        words[n, stored] = np.uint64(rest)
        n += 1
    return n


@jit
def repack(words: Any, position: Any, width: Any, again: Any, new_position: Any, new_width: Any, owner: Any) -> None:
    """Write packed words anew with other fields, and the partition that owns each."""
    words, again, owner = bare(words), bare(again), bare(owner)
    position, width, new_position, new_width = bare(position), bare(width), bare(new_position), bare(new_width)
    for i in range(len(words)):
        for f in range(len(position)):
            put_bits(again, i, new_position[f], new_width[f], take_bits(words, i, position[f], width[f]))
        owner[i] = owner_of(again, i)


@jit
def insert_words(keys: Any, places: Any, words: Any, first: Any, count: Any) -> Any:
    """Insert packed words from `first` on; return how far it came, less than all where there is no room."""
    keys, places, words = bare(keys), bare(places), bare(words)
    capacity = len(places)
    limit = np.int64(capacity * MAX_LOAD)
    for i in range(first, len(words)):
        if count + i - first >= limit:
            return i
        if insert(keys, places, words, i, home_of(words, i, capacity), MAX_DISPLACEMENT) == -2:
            return i
    return len(words)


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
