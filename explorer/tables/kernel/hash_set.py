"""An exact hash set of packed words: quotienting with Robin Hood hashing.

`hash_words` mixes the first bits of a key with a hash of the other bits, by a bijection. The mixed number, scaled
to the capacity, gives the *home*, the place where the entry belongs. An entry stores only the bits that its place
does not imply. These are the other bits of the key and, above them, the *rest*: the low part of the scaled number.
The array `places` holds each entry's displacement from its home, with 1 for the home itself and 0 for a free place.

The set is exact: home, rest and other bits restore the whole key, so two keys never share an entry. Entries are
ordered by the scaled number, so one pass from front to back fills a larger table. Places behind the last home take
the overflow, so that no entry wraps around.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kraftcheck.explorer.native.compiling import (
    bytes_at_address,
    inlined,
    load64,
    move_bytes,
    prefetch,
    stack_array,
    store64,
    unowned_array,
)
from kraftcheck.explorer.tables.kernel import jit
from kraftcheck.explorer.tables.kernel.codes import NONE, larger, smaller
from kraftcheck.explorer.tables.kernel.packing import HOME_BITS, MIXED_BITS, hash_words, put_bits, restore_mixed_bits

MAX_HASH_SET_LOAD = 0.9
PREFETCH_DISTANCE = 32  # entries between a prefetch and the read
INSERTIONS_A_STOP_CHECK = 256  # entries between two reads of the stop flag
MOST_DISPLACEMENT = 255  # the largest displacement; the home itself counts as 1, and 0 marks a free place
PLACES_BEHIND_HOMES = MOST_DISPLACEMENT + 7  # places behind the homes; eight are read at a time
HEAD_BYTES = 8  # bytes of an entry that contain its rest
CAPACITY, STRIDE, SHIFT, SCALE, OWNER_BITS, OWNER = range(6)  # indices of a layout
LAYOUT_NUMBERS = 6  # numbers of a layout; after these a table has the addresses of its arrays and its number of entries
KEYS, KEYS_COUNT, PLACES, PLACES_COUNT, ENTRIES = range(LAYOUT_NUMBERS, LAYOUT_NUMBERS + 5)
TABLE_RECORD_SIZE = LAYOUT_NUMBERS + 5
IS_DUPLICATE = np.int64(-1)  # returned instead of a place: the key is a duplicate
IS_TOO_FAR_FROM_HOME = np.int64(-2)  # returned instead of a place: a displacement would be too large

_HOME_MASK = np.uint64((1 << HOME_BITS) - 1)
_LOW_BIT_OF_EACH_BYTE, _HIGH_BIT_OF_EACH_BYTE = np.uint64(0x0101010101010101), np.uint64(0x8080808080808080)


@inlined
def layout_as_tuple(layout: Any) -> Any:
    """Return a layout as a tuple, which the compiler keeps in registers.

    The numbers are: homes; bytes of a key; the bit where the rest begins; low bits that the rest drops. The last two
    are the bits of the rest for the owning partition, and that partition if there are no such bits.
    """
    return layout[CAPACITY], layout[STRIDE], layout[SHIFT], layout[SCALE], layout[OWNER_BITS], layout[OWNER]


@inlined
def low_bits_mask(bits: Any) -> Any:
    """Return a number with the lowest `bits` bits set, fewer than 64."""
    return (np.uint64(1) << np.uint64(bits)) - np.uint64(1)


@inlined
def entry_byte_mask(shape: Any, offset: Any) -> Any:
    """Return a mask of eight bytes of an entry from `offset` on: ones where the bytes belong to this entry."""
    return ~np.uint64(0) >> np.uint64(64 - 8 * smaller(shape[STRIDE] - offset, HEAD_BYTES))


@inlined
def scale_to_capacity(shape: Any, mixed: Any) -> Any:
    """Scale a mixed number to the capacity: the home in the high bits, a remainder in the low `HOME_BITS` bits."""
    return (mixed & _HOME_MASK) * np.uint64(shape[CAPACITY])


@inlined
def home_place(shape: Any, mixed: Any) -> Any:
    """Return the home place of a key, given the result of `hash_words`."""
    return np.int64(scale_to_capacity(shape, mixed) >> np.uint64(HOME_BITS))


@inlined
def read_64_bits_of_words(words: Any, place: Any, position: Any) -> Any:
    """Return 64 bits of packed words from a bit position on, padded with zeros."""
    w, s = position >> 6, position & 63
    value = words[place, w] >> np.uint64(s)
    if s != 0 and w + 1 < words.shape[1]:
        value |= words[place, w + 1] << np.uint64(64 - s)
    return value


@inlined
def encode_entry_head(shape: Any, words: Any, place: Any, mixed: Any) -> Any:
    """Return the first eight bytes of an entry for packed words, given the result of `hash_words`."""
    rest = (scale_to_capacity(shape, mixed) & _HOME_MASK) >> np.uint64(shape[SCALE])
    rest = (rest << np.uint64(shape[OWNER_BITS])) | ((mixed >> np.uint64(HOME_BITS)) & low_bits_mask(shape[OWNER_BITS]))
    return (rest << np.uint64(shape[SHIFT])) | (
        read_64_bits_of_words(words, place, MIXED_BITS) & low_bits_mask(shape[SHIFT])
    )


@inlined
def entry_head_at(keys: Any, shape: Any, at: Any) -> Any:
    """Return the first eight bytes of the entry at a place."""
    return load64(keys, at * shape[STRIDE]) & entry_byte_mask(shape, 0)


@inlined
def word_bit_of_entry_byte(shape: Any, offset: Any) -> Any:
    """Return the bit position in packed words at which the entry's byte `offset` begins."""
    return MIXED_BITS + shape[SHIFT] + 8 * (offset - HEAD_BYTES)


@inlined
def matches_entry_tail(keys: Any, shape: Any, at: Any, words: Any, place: Any) -> Any:
    """Return whether an entry's bytes after the first eight equal those for words[place]."""
    same = True
    for offset in range(HEAD_BYTES, shape[STRIDE], 8):
        held = load64(keys, at * shape[STRIDE] + offset)
        same &= (held ^ read_64_bits_of_words(words, place, word_bit_of_entry_byte(shape, offset))) & entry_byte_mask(
            shape, offset
        ) == 0
    return same


@inlined
def write_entry(keys: Any, shape: Any, at: Any, words: Any, place: Any, head: Any) -> None:
    """Write the entry for words[place] at place `at` of the table, given its first eight bytes `head`."""
    for offset in range(0, shape[STRIDE], 8):
        value = head if offset == 0 else read_64_bits_of_words(words, place, word_bit_of_entry_byte(shape, offset))
        mask, to = entry_byte_mask(shape, offset), at * shape[STRIDE] + offset
        store64(keys, to, (load64(keys, to) & ~mask) | (value & mask))


@inlined
def read_entry_except_mixed_bits(keys: Any, places: Any, shape: Any, at: Any, words: Any, n: Any) -> Any:
    """Restore the packed words of an entry to words[n], except their mixed bits; return the mixed number."""
    head = entry_head_at(keys, shape, at)
    for w in range(words.shape[1]):
        words[n, w] = np.uint64(0)
    put_bits(words, n, MIXED_BITS, shape[SHIFT], head & low_bits_mask(shape[SHIFT]))
    for offset in range(HEAD_BYTES, shape[STRIDE], 8):
        value = load64(keys, at * shape[STRIDE] + offset) & entry_byte_mask(shape, offset)
        position = word_bit_of_entry_byte(shape, offset)
        put_bits(words, n, position, smaller(np.int64(64), 64 * words.shape[1] - position), value)
    rest = head >> np.uint64(shape[SHIFT])
    owner = rest & low_bits_mask(shape[OWNER_BITS]) if shape[OWNER_BITS] != 0 else np.uint64(shape[OWNER])
    home = np.uint64(at - np.int64(places[at]) + 1)
    least = (home << np.uint64(HOME_BITS)) | (rest >> np.uint64(shape[OWNER_BITS]) << np.uint64(shape[SCALE]))
    return (owner << np.uint64(HOME_BITS)) | ceil_divide(least, np.uint64(shape[CAPACITY]))


@inlined
def ceil_divide(least: Any, capacity: Any) -> Any:
    """Return the least number whose product with the capacity is at least `least`."""
    x = np.uint64(np.float64(least) / np.float64(capacity))  # it may be off by one
    if x * capacity < least:
        x += np.uint64(1)
    elif x > 0 and (x - np.uint64(1)) * capacity >= least:
        x -= np.uint64(1)
    return x


@inlined
def find_entry_place(keys: Any, places: Any, shape: Any, words: Any, place: Any) -> Any:
    """Return the place of the entry equal to words[place], or NONE."""
    mixed = hash_words(words, place)
    at, distance, result = home_place(shape, mixed), np.int64(1), NONE
    head = encode_entry_head(shape, words, place, mixed)
    while True:
        found = np.int64(places[at])
        if found < distance:
            break
        if (
            found == distance
            and entry_head_at(keys, shape, at) == head
            and matches_entry_tail(keys, shape, at, words, place)
        ):
            result = at
            break
        distance += 1
        at += 1
    return result


@inlined
def insert_words(keys: Any, places: Any, shape: Any, words: Any, place: Any, mixed: Any) -> Any:
    """Insert packed words; return their place, IS_DUPLICATE, or IS_TOO_FAR_FROM_HOME."""
    head = encode_entry_head(shape, words, place, mixed)
    at, distance, result = home_place(shape, mixed), np.int64(1), np.int64(0)
    # Find the place that keeps the entries in the order of their scaled numbers. An entry nearer to its home than this
    # one would be ends the search: a duplicate would stand before it.
    while True:
        found = np.int64(places[at])
        if found < distance:
            break
        if found == distance:
            held = entry_head_at(keys, shape, at)
            if held == head and matches_entry_tail(keys, shape, at, words, place):
                result = IS_DUPLICATE
                break
            if held >> np.uint64(shape[SHIFT]) > head >> np.uint64(shape[SHIFT]):
                break
        distance += 1
        at += 1
    # Shift the entries from there to the next free place by one.
    if result == 0:
        end = first_free_place(places, at) if distance <= MOST_DISPLACEMENT else NONE
        if end < 0:
            result = IS_TOO_FAR_FROM_HOME
        else:
            result = at
            move_bytes(keys, at * shape[STRIDE], (at + 1) * shape[STRIDE], (end - at) * shape[STRIDE])
            shift_displacements(places, at, end)
            write_entry(keys, shape, at, words, place, head)
            places[at] = distance
    return result


@inlined
def first_free_place(places: Any, at: Any) -> Any:
    """Return the first free place from `at` on, or NONE where an entry before it cannot move further from its home."""
    # Eight displacements at a time: (~x - 1) & x & 0x80 is set in each byte that is 255, and in no byte of a word that
    # has none; (x - 1) & ~x & 0x80 is the same for bytes that are 0.
    full = np.uint64(0)
    while True:
        eight = load64(places, at)
        full |= (~eight - _LOW_BIT_OF_EACH_BYTE) & eight & _HIGH_BIT_OF_EACH_BYTE  # one of them is MOST_DISPLACEMENT
        if (eight - _LOW_BIT_OF_EACH_BYTE) & ~eight & _HIGH_BIT_OF_EACH_BYTE:
            break
        at += 8
    while places[at] != 0:
        at += 1
    return at if full == 0 else NONE


@inlined
def shift_displacements(places: Any, at: Any, end: Any) -> None:
    """Shift the displacements from `at` to `end` by one place, and increase each by one."""
    while end - at >= 8:
        end -= 8
        store64(places, end + 1, load64(places, end) + _LOW_BIT_OF_EACH_BYTE)
    while end > at:
        end -= 1
        places[end + 1] = places[end] + 1


@inlined
def hash_words_and_prefetch_home(keys: Any, places: Any, shape: Any, words: Any, place: Any) -> Any:
    """Prefetch the home of packed words; return the result of `hash_words`."""
    mixed = hash_words(words, place)
    home = home_place(shape, mixed)
    prefetch(keys, home * shape[STRIDE])
    prefetch(keys, home * shape[STRIDE] + 64)
    prefetch(keys, home * shape[STRIDE] + 128)
    prefetch(places, home)
    return mixed


@jit
def insert_rows(
    rows: Any, words: Any, first: Any, last: Any, keys: Any, places: Any, table: Any, new: Any, new_n: Any
) -> Any:
    """Insert the packed words of states; copy the columns of new ones to `new`.

    Returns the number of states done (fewer than `last` where the partition must grow first), and of new states.
    """
    rows, words, new = unowned_array(rows), unowned_array(words), unowned_array(new)
    keys, places = unowned_array(keys), unowned_array(places)
    mixed, shape = stack_array(1, PREFETCH_DISTANCE), layout_as_tuple(table)
    limit = np.int64(shape[CAPACITY] * MAX_HASH_SET_LOAD) - table[ENTRIES] + new_n  # of new states
    for i in range(first, smaller(first + PREFETCH_DISTANCE, last)):
        mixed[0, i % PREFETCH_DISTANCE] = hash_words_and_prefetch_home(keys, places, shape, words, i)
    for i in range(first, last):
        if new_n >= limit:
            return i, new_n
        code = insert_words(keys, places, shape, words, i, mixed[0, i % PREFETCH_DISTANCE])
        if code == IS_TOO_FAR_FROM_HOME:
            return i, new_n
        if code >= 0:
            for c in range(new.shape[1]):
                new[new_n, c] = rows[i, c]
            new_n += 1
        if i + PREFETCH_DISTANCE < last:
            mixed[0, i % PREFETCH_DISTANCE] = hash_words_and_prefetch_home(
                keys, places, shape, words, i + PREFETCH_DISTANCE
            )
    return last, new_n


@jit
def insert_successors(found: Any, tables: Any, p: Any, first: Any, end: Any, new: Any, new_n: Any, enough: Any) -> Any:
    """Insert a worker's successors into partitions `p` to `end` of the visited set, from successor `first` on.

    Returns the partition that must grow first (or `end`), the number of its states done, and the number of new states.
    The function returns early once `enough` is set. The states of the current partition then stay in `found`; those
    inserted already are duplicates at the next call.
    """
    tables, new, enough = unowned_array(tables), unowned_array(new), unowned_array(enough)
    while p < end and not enough[0]:
        keys = bytes_at_address(tables[p, KEYS], tables[p, KEYS_COUNT])
        places = bytes_at_address(tables[p, PLACES], tables[p, PLACES_COUNT])
        last, before = smaller(found.counts[p], first + INSERTIONS_A_STOP_CHECK), new_n
        first, new_n = insert_rows(found.rows[p], found.words[p], first, last, keys, places, tables[p], new, new_n)
        tables[p, ENTRIES] += new_n - before
        if first < last:
            break
        if last == found.counts[p]:
            found.counts[p] = 0
            p, first = p + 1, 0
    return p, first, new_n


@jit
def copy_entries_to_larger(
    keys: Any, places: Any, layout: Any, new_keys: Any, new_places: Any, new_layout: Any, columns: Any
) -> Any:
    """Copy every entry to a larger, empty table; return False where a displacement would be too large."""
    keys, places, shape = unowned_array(keys), unowned_array(places), layout_as_tuple(layout)
    new_keys, new_places, new = unowned_array(new_keys), unowned_array(new_places), layout_as_tuple(new_layout)
    words, free = stack_array(1, columns), np.int64(0)
    for at in range(len(places)):
        if places[at] == 0:
            continue
        mixed = read_entry_except_mixed_bits(keys, places, shape, at, words, 0)
        home = home_place(new, mixed)
        free = larger(free, home)
        if free - home >= MOST_DISPLACEMENT:
            return False
        write_entry(new_keys, new, free, words, 0, encode_entry_head(new, words, 0, mixed))
        new_places[free] = free - home + 1
        free += 1
    return True


@jit
def write_words_of_entries(keys: Any, places: Any, layout: Any, words: Any) -> Any:
    """Write the packed words of every entry; return their number."""
    keys, places, shape = unowned_array(keys), unowned_array(places), layout_as_tuple(layout)
    words, n = unowned_array(words), 0
    for at in range(len(places)):
        if places[at] == 0:
            continue
        restore_mixed_bits(words, n, read_entry_except_mixed_bits(keys, places, shape, at, words, n))
        n += 1
    return n


@jit
def mark_entries_of_words(keys: Any, places: Any, layout: Any, words: Any, known: Any) -> None:
    """Set `known` to 1 at the place of each entry that is among the packed `words`."""
    keys, places, shape = unowned_array(keys), unowned_array(places), layout_as_tuple(layout)
    words, known = unowned_array(words), unowned_array(known)
    for i in range(len(words)):
        at = find_entry_place(keys, places, shape, words, i)
        if at >= 0:
            known[at] = 1


@jit
def look_up_entry_flags(keys: Any, places: Any, layout: Any, words: Any, flags: Any, found: Any) -> None:
    """Copy to `found` the flag at the place of each of the packed `words` that is an entry."""
    keys, places, shape = unowned_array(keys), unowned_array(places), layout_as_tuple(layout)
    words, flags, found = unowned_array(words), unowned_array(flags), unowned_array(found)
    for i in range(len(words)):
        at = find_entry_place(keys, places, shape, words, i)
        if at >= 0:
            found[i] = flags[at]


@jit
def store_entry_numbers(keys: Any, places: Any, layout: Any, words: Any, numbers: Any, noted: Any) -> None:
    """Store numbers[i] in `noted` at the place of the entry words[i], for all `words`, which must be entries."""
    keys, places, shape = unowned_array(keys), unowned_array(places), layout_as_tuple(layout)
    words, numbers, noted = unowned_array(words), unowned_array(numbers), unowned_array(noted)
    for i in range(len(words)):
        noted[find_entry_place(keys, places, shape, words, i)] = numbers[i]
