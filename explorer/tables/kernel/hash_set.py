"""A set of packed words: Robin Hood hashing with quotients."""

from __future__ import annotations

from typing import Any

import numpy as np

from kraftcheck.explorer.tables.kernel.native import bare, inlined, jit, prefetch
from kraftcheck.explorer.tables.kernel.packing import hash_words

MAX_LOAD = 0.8
AHEAD = 32  # entries between asking for memory and reading it
MAX_DISPLACEMENT = 254


@inlined
def base_place(h: Any, capacity: Any) -> Any:
    """Return the place that a hash falls to."""
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


@inlined
def ask_for(keys: Any, places: Any, words: Any, place: Any) -> Any:
    """Ask for the memory where packed words belong; return that place."""
    home = home_of(words, place, len(places))
    prefetch(keys, home)
    prefetch(places, home)
    return home


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
    for i in range(first, min(first + AHEAD, last)):
        homes[i % AHEAD] = ask_for(keys, places, words, i)
    for i in range(first, last):
        if count >= limit:
            return i, count, new_n
        code = insert(keys, places, words, i, homes[i % AHEAD], MAX_DISPLACEMENT)
        if code == -2:
            return i, count, new_n
        if code >= 0:
            count += 1
            for c in range(columns):
                new[new_n, c] = rows[i, c]
            new_n += 1
        if i + AHEAD < last:
            homes[i % AHEAD] = ask_for(keys, places, words, i + AHEAD)
    return last, count, new_n


@inlined
def read_entry(keys: Any, places: Any, at: Any, words: Any, n: Any) -> None:
    """Write the packed words of the entry at a place, the rest included."""
    stored, capacity = words.shape[1] - 1, len(places)
    for w in range(stored):
        words[n, w] = keys[at, w]
    home = at - (np.int64(places[at]) - 1)
    if home < 0:
        home += capacity
    rest = home - base_place(hash_words(words, n), capacity)
    if rest < 0:
        rest += capacity
    words[n, stored] = np.uint64(rest)


@jit
def entries(keys: Any, places: Any, words: Any) -> Any:
    """Write the packed words of every entry of a partition, the rest included; return how many there are."""
    keys, places, words = bare(keys), bare(places), bare(words)
    n = 0
    for at in range(len(places)):
        if places[at] == 0:
            continue
        read_entry(keys, places, at, words, n)
        n += 1
    return n


@jit
def mark(keys: Any, places: Any, words: Any, known: Any) -> None:
    """Note which entries of a partition are among these packed words."""
    keys, places, words, known = bare(keys), bare(places), bare(words), bare(known)
    capacity = len(places)
    for i in range(len(words)):
        at = locate(keys, places, words, i, home_of(words, i, capacity))
        if at >= 0:
            known[at] = 1


@jit
def look_up(keys: Any, places: Any, words: Any, flags: Any, found: Any) -> None:
    """Write for each of these packed words, all of which are entries of a partition, the flag at its place."""
    keys, places, words, flags, found = bare(keys), bare(places), bare(words), bare(flags), bare(found)
    for i in range(len(words)):
        found[i] = flags[locate(keys, places, words, i, home_of(words, i, len(places)))]


@jit
def number(keys: Any, places: Any, words: Any, numbers: Any, noted: Any) -> None:
    """Note for each of these packed words, all of which are entries of a partition, its number at its place."""
    keys, places, words, numbers, noted = bare(keys), bare(places), bare(words), bare(numbers), bare(noted)
    for i in range(len(words)):
        noted[locate(keys, places, words, i, home_of(words, i, len(places)))] = numbers[i]
