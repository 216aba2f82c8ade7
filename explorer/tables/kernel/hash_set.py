"""A set of packed words in little memory: compact Robin Hood hashing.

`hash_words` mixes the first bits of packed words with a hash of the others, such that these and the result give the
words back. Where an entry belongs, its *home*, is the result scaled to the capacity. So the key of an entry need not
hold what its place says: the lowest bits of a key are the others, and above them stands the *rest*, what the result has
below the home. Another array has for each place how far the entry stands from its home. Entries stand in the order of
what was scaled, so that a larger table is filled by going through a smaller one once. The last homes have places behind
them, so that no entry stands before its home.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kraftcheck.explorer.tables.kernel.codes import NONE, larger, smaller
from kraftcheck.explorer.tables.kernel.native import (
    bare,
    bytes_from,
    inlined,
    jit,
    load64,
    move_bytes,
    on_stack,
    prefetch,
    store64,
)
from kraftcheck.explorer.tables.kernel.packing import HOME_BITS, MIXED_BITS, hash_words, unmix

MAX_LOAD = 0.9
AHEAD = 32  # entries between asking for memory and reading it
SLICE = 256  # entries between two looks at whether it is enough
MOST = 255  # displacement; the home itself counts as 1, and 0 is a free place
BEHIND = MOST + 7  # places behind the homes; eight are read at a time
HEAD = 8  # bytes of a key that have its rest
CAPACITY, STRIDE, SHIFT, SCALE, OTHERS, OWNER = range(6)  # of a layout
LAYOUT = 6  # numbers of a layout; after these, of a table: where its bytes stand, and how many entries it has
KEYS, KEYS_COUNT, PLACES, PLACES_COUNT, ENTRIES = range(LAYOUT, LAYOUT + 5)
TABLE = LAYOUT + 5
KNOWN = np.int64(-1)  # instead of a place: it is an entry
CROWDED = np.int64(-2)  # the same: a displacement would be too large

_LOW = np.uint64((1 << HOME_BITS) - 1)
_ONES, _HIGH = np.uint64(0x0101010101010101), np.uint64(0x8080808080808080)


@inlined
def shape_of(layout: Any) -> Any:
    """Return a layout as a tuple.

    It has: the homes; the bytes of a key; the bit where its rest begins; how many bits the rest lacks; those bits
    of it that tell which partition owns an entry; which one does where there are none.
    """
    return layout[CAPACITY], layout[STRIDE], layout[SHIFT], layout[SCALE], layout[OTHERS], layout[OWNER]


@inlined
def ones(bits: Any) -> Any:
    """Return a number with so many of its lowest bits set, less than 64."""
    return (np.uint64(1) << np.uint64(bits)) - np.uint64(1)


@inlined
def first_bytes(shape: Any, offset: Any) -> Any:
    """Return which of eight bytes are a key's, from an offset of it on, as a mask."""
    return ~np.uint64(0) >> np.uint64(64 - 8 * smaller(shape[STRIDE] - offset, HEAD))


@inlined
def scaled(shape: Any, mixed: Any) -> Any:
    """Return a home and, below `HOME_BITS`, what is left."""
    return (mixed & _LOW) * np.uint64(shape[CAPACITY])


@inlined
def home_of(shape: Any, mixed: Any) -> Any:
    """Return where packed words belong, given what `hash_words` made of them."""
    return np.int64(scaled(shape, mixed) >> np.uint64(HOME_BITS))


@inlined
def bits_from(words: Any, place: Any, position: Any) -> Any:
    """Return 64 bits of packed words from a position on; 0 where there are none."""
    w, s = position >> 6, position & 63
    value = words[place, w] >> np.uint64(s)
    if s != 0 and w + 1 < words.shape[1]:
        value |= words[place, w + 1] << np.uint64(64 - s)
    return value


@inlined
def head_of(shape: Any, words: Any, place: Any, mixed: Any) -> Any:
    """Return the first bytes of the key of packed words, given what `hash_words` made of them."""
    rest = (scaled(shape, mixed) & _LOW) >> np.uint64(shape[SCALE])
    rest = (rest << np.uint64(shape[OTHERS])) | ((mixed >> np.uint64(HOME_BITS)) & ones(shape[OTHERS]))
    return (rest << np.uint64(shape[SHIFT])) | (bits_from(words, place, MIXED_BITS) & ones(shape[SHIFT]))


@inlined
def head_at(keys: Any, shape: Any, at: Any) -> Any:
    """Return the first bytes of the key at a place."""
    return load64(keys, at * shape[STRIDE]) & first_bytes(shape, 0)


@inlined
def position_of(shape: Any, offset: Any) -> Any:
    """Return the position in packed words of what a key has from an offset behind its head on."""
    return MIXED_BITS + shape[SHIFT] + 8 * (offset - HEAD)


@inlined
def agrees(keys: Any, shape: Any, at: Any, words: Any, place: Any) -> Any:
    """Whether a key whose head is that of packed words is theirs."""
    same = True
    for offset in range(HEAD, shape[STRIDE], 8):
        held = load64(keys, at * shape[STRIDE] + offset)
        same &= (held ^ bits_from(words, place, position_of(shape, offset))) & first_bytes(shape, offset) == 0
    return same


@inlined
def write(keys: Any, shape: Any, at: Any, words: Any, place: Any, head: Any) -> None:
    """Write a key."""
    for offset in range(0, shape[STRIDE], 8):
        value = head if offset == 0 else bits_from(words, place, position_of(shape, offset))
        mask, to = first_bytes(shape, offset), at * shape[STRIDE] + offset
        store64(keys, to, (load64(keys, to) & ~mask) | (value & mask))


@inlined
def read(keys: Any, places: Any, shape: Any, at: Any, words: Any, n: Any) -> Any:
    """Write the packed words of the entry at a place but for the bits that are mixed; return what these became."""
    head = head_at(keys, shape, at)
    for w in range(words.shape[1]):
        words[n, w] = np.uint64(0)
    set_bits(words, n, MIXED_BITS, head & ones(shape[SHIFT]))
    for offset in range(HEAD, shape[STRIDE], 8):
        value = load64(keys, at * shape[STRIDE] + offset) & first_bytes(shape, offset)
        set_bits(words, n, position_of(shape, offset), value)
    rest = head >> np.uint64(shape[SHIFT])
    owner = rest & ones(shape[OTHERS]) if shape[OTHERS] != 0 else np.uint64(shape[OWNER])
    home = np.uint64(at - np.int64(places[at]) + 1)
    least = (home << np.uint64(HOME_BITS)) | (rest >> np.uint64(shape[OTHERS]) << np.uint64(shape[SCALE]))
    return (owner << np.uint64(HOME_BITS)) | first_scaled_to(least, np.uint64(shape[CAPACITY]))


@inlined
def set_bits(words: Any, n: Any, position: Any, value: Any) -> None:
    """Set bits of packed words, which are 0, from a position on."""
    w, s = position >> 6, position & 63
    words[n, w] |= value << np.uint64(s)
    if s != 0 and w + 1 < words.shape[1]:
        words[n, w + 1] |= value >> np.uint64(64 - s)


@inlined
def first_scaled_to(least: Any, capacity: Any) -> Any:
    """Return the least number that times the capacity is this at least; it is the one of which the rest is left."""
    x = np.uint64(np.float64(least) / np.float64(capacity))  # it may be off by one
    if x * capacity < least:
        x += np.uint64(1)
    elif x > 0 and (x - np.uint64(1)) * capacity >= least:
        x -= np.uint64(1)
    return x


@inlined
def locate(keys: Any, places: Any, shape: Any, words: Any, place: Any) -> Any:
    """Return where packed words stand, or NONE."""
    mixed = hash_words(words, place)
    at, distance, result = home_of(shape, mixed), np.int64(1), NONE
    head = head_of(shape, words, place, mixed)
    while True:
        found = np.int64(places[at])
        if found < distance:
            break
        if found == distance and head_at(keys, shape, at) == head and agrees(keys, shape, at, words, place):
            result = at
            break
        distance += 1
        at += 1
    return result


@inlined
def insert(keys: Any, places: Any, shape: Any, words: Any, place: Any, mixed: Any) -> Any:
    """Insert packed words; return their place, KNOWN where they are there, or CROWDED."""
    head = head_of(shape, words, place, mixed)
    at, distance, result = home_of(shape, mixed), np.int64(1), np.int64(0)
    # Look where they would stand, behind all that come before them in the order of what was scaled.
    while True:
        found = np.int64(places[at])
        if found < distance:
            break
        if found == distance:
            held = head_at(keys, shape, at)
            if held == head and agrees(keys, shape, at, words, place):
                result = KNOWN
                break
            if held >> np.uint64(shape[SHIFT]) > head >> np.uint64(shape[SHIFT]):
                break
        distance += 1
        at += 1
    # Move what stands there, up to the next free place, by one place.
    if result == 0:
        end = free_from(places, at) if distance <= MOST else NONE
        if end < 0:
            result = CROWDED
        else:
            result = at
            move_bytes(keys, at * shape[STRIDE], (at + 1) * shape[STRIDE], (end - at) * shape[STRIDE])
            move_places(places, at, end)
            write(keys, shape, at, words, place, head)
            places[at] = distance
    return result


@inlined
def free_from(places: Any, at: Any) -> Any:
    """Return the first free place from one on, or NONE where an entry before it, or just behind, cannot move."""
    # Eight displacements at a time: (~x - 1) & x & 0x80 is set in each byte that is 255, and in no byte of a word that
    # has none; (x - 1) & ~x & 0x80 is the same for bytes that are 0.
    full = np.uint64(0)
    while True:
        eight = load64(places, at)
        full |= (~eight - _ONES) & eight & _HIGH  # whether one of them is MOST
        if (eight - _ONES) & ~eight & _HIGH:
            break
        at += 8
    while places[at] != 0:
        at += 1
    return at if full == 0 else NONE


@inlined
def move_places(places: Any, at: Any, end: Any) -> None:
    """Move displacements by one place, where they are larger by one."""
    while end - at >= 8:
        end -= 8
        store64(places, end + 1, load64(places, end) + _ONES)
    while end > at:
        end -= 1
        places[end + 1] = places[end] + 1


@inlined
def ask_for(keys: Any, places: Any, shape: Any, words: Any, place: Any) -> Any:
    """Ask for the memory where packed words belong; return what `hash_words` makes of them."""
    mixed = hash_words(words, place)
    home = home_of(shape, mixed)
    prefetch(keys, home * shape[STRIDE])
    prefetch(keys, home * shape[STRIDE] + 64)
    prefetch(keys, home * shape[STRIDE] + 128)
    prefetch(places, home)
    return mixed


@jit
def insert_rows(
    rows: Any,
    words: Any,
    first: Any,
    last: Any,
    columns: Any,
    count: Any,
    keys: Any,
    places: Any,
    layout: Any,
    new: Any,
    new_n: Any,
) -> Any:
    """Insert the packed words of states; copy the first columns of those that are new to `new`.

    Returns how far it came (less than `last` where the partition must grow first), the entries and the new ones.
    """
    rows, words, keys, places, new = bare(rows), bare(words), bare(keys), bare(places), bare(new)
    mixed, shape = on_stack(1, AHEAD), shape_of(layout)
    limit = np.int64(shape[CAPACITY] * MAX_LOAD)
    for i in range(first, smaller(first + AHEAD, last)):
        mixed[0, i % AHEAD] = ask_for(keys, places, shape, words, i)
    for i in range(first, last):
        if count >= limit:
            return i, count, new_n
        code = insert(keys, places, shape, words, i, mixed[0, i % AHEAD])
        if code == CROWDED:
            return i, count, new_n
        if code >= 0:
            count += 1
            for c in range(columns):
                new[new_n, c] = rows[i, c]
            new_n += 1
        if i + AHEAD < last:
            mixed[0, i % AHEAD] = ask_for(keys, places, shape, words, i + AHEAD)
    return last, count, new_n


@jit
def insert_found(found: Any, tables: Any, p: Any, first: Any, end: Any, new: Any, new_n: Any, enough: Any) -> Any:
    """Insert what a worker found, from number `first` of partition `p` on, into the partitions before `end`.

    Returns the partition that must grow first (or `end`), how far it came there, and the new ones. It ends soon once
    `enough` is set; the states of the partition that it is in then stay among the found, and those inserted are known.
    """
    tables, new, enough = bare(tables), bare(new), bare(enough)
    while p < end and not enough[0]:
        keys = bytes_from(tables[p, KEYS], tables[p, KEYS_COUNT])
        places = bytes_from(tables[p, PLACES], tables[p, PLACES_COUNT])
        last, layout = smaller(found.counts[p], first + SLICE), tables[p]
        rows, words, columns, count = found.rows[p], found.words[p], new.shape[1], tables[p, ENTRIES]
        first, tables[p, ENTRIES], new_n = insert_rows(
            rows, words, first, last, columns, count, keys, places, layout, new, new_n
        )
        if first < last:
            break
        if last == found.counts[p]:
            found.counts[p] = 0
            p, first = p + 1, 0
    return p, first, new_n


@jit
def move_all(keys: Any, places: Any, layout: Any, new_keys: Any, new_places: Any, new_layout: Any, columns: Any) -> Any:
    """Enter every entry of a table into a larger one, which is empty; False where a displacement would be too large."""
    keys, places, shape = bare(keys), bare(places), shape_of(layout)
    new_keys, new_places, new = bare(new_keys), bare(new_places), shape_of(new_layout)
    words, free = on_stack(1, columns), np.int64(0)
    for at in range(len(places)):
        if places[at] == 0:
            continue
        mixed = read(keys, places, shape, at, words, 0)
        home = home_of(new, mixed)
        free = larger(free, home)
        if free - home >= MOST:
            return False
        write(new_keys, new, free, words, 0, head_of(new, words, 0, mixed))
        new_places[free] = free - home + 1
        free += 1
    return True


@jit
def entries(keys: Any, places: Any, layout: Any, words: Any) -> Any:
    """Write the packed words of every entry of a partition; return how many there are."""
    keys, places, words, shape = bare(keys), bare(places), bare(words), shape_of(layout)
    n = 0
    for at in range(len(places)):
        if places[at] == 0:
            continue
        unmix(words, n, read(keys, places, shape, at, words, n))
        n += 1
    return n


@jit
def mark(keys: Any, places: Any, layout: Any, words: Any, known: Any) -> None:
    """Note which entries of a partition are among these packed words."""
    keys, places, words, known, shape = bare(keys), bare(places), bare(words), bare(known), shape_of(layout)
    for i in range(len(words)):
        at = locate(keys, places, shape, words, i)
        if at >= 0:
            known[at] = 1


@jit
def look_up(keys: Any, places: Any, layout: Any, words: Any, flags: Any, found: Any) -> None:
    """Write for each of these packed words, all of which are entries of a partition, the flag at its place."""
    keys, places, words, shape = bare(keys), bare(places), bare(words), shape_of(layout)
    flags, found = bare(flags), bare(found)
    for i in range(len(words)):
        found[i] = flags[locate(keys, places, shape, words, i)]


@jit
def number(keys: Any, places: Any, layout: Any, words: Any, numbers: Any, noted: Any) -> None:
    """Note for each of these packed words, all of which are entries of a partition, its number at its place."""
    keys, places, words, shape = bare(keys), bare(places), bare(words), shape_of(layout)
    numbers, noted = bare(numbers), bare(noted)
    for i in range(len(words)):
        noted[locate(keys, places, shape, words, i)] = numbers[i]
