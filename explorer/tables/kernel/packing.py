"""States as packed words: numbers side by side, in the fields that `states/packing.py` lays out."""

from __future__ import annotations

from typing import Any

import numpy as np

from kraftcheck.explorer.native.arrays import Arrays, array
from kraftcheck.explorer.tables.kernel.codes import CODE_MASK, R_IDENTITY
from kraftcheck.explorer.tables.kernel.maps import mix
from kraftcheck.explorer.tables.kernel.native import bare, inlined, jit

PARTITION_BITS = 6
MIXED_BITS = 40  # of a packed state: its first, from which and from a hash of the others follows where it stands
HOME_BITS = MIXED_BITS - PARTITION_BITS
MIXED = np.uint64((1 << MIXED_BITS) - 1)
_FACTOR = np.uint64(0x9E3779B97F4A7C15 & ((1 << MIXED_BITS) - 1))
_INVERSE = np.uint64(pow(int(_FACTOR), -1, 1 << MIXED_BITS))


class PackingArrays(Arrays):
    """Where the bits of each field of a packed state stand."""

    position = array(np.int32)  # first bit of each field
    width = array(np.int32)  # bits of each field
    # The others are of flat states alone: see `flat/fields.py`.
    field_of = array(np.int32)  # by column: its field; -1 where a VIEW leaves it out
    firsts = array(np.int32)  # by field: where its columns start in the next two; at the end, how many there are
    columns = array(np.int32)
    factors = array(np.uint64)  # of each of these, in the hash of what several columns hold
    clusters = array(np.int64)  # how many fields have several columns; these come first
    items = array(np.int64)  # how many numbers the contents of all these take that one state has


@inlined
def put_bits(words: Any, place: Any, position: Any, width: Any, value: Any) -> None:
    """Set the bits of a field, which are 0."""
    w, s = position >> 6, position & 63
    words[place, w] |= value << np.uint64(s)
    if s + width > 64:
        words[place, w + 1] |= value >> np.uint64(64 - s)


@inlined
def change_bits(words: Any, place: Any, position: Any, width: Any, difference: Any) -> None:
    """Change those bits of a field that differ."""
    w, s = position >> 6, position & 63
    words[place, w] ^= difference << np.uint64(s)
    if s + width > 64:
        words[place, w + 1] ^= difference >> np.uint64(64 - s)


@inlined
def take_bits(words: Any, place: Any, position: Any, width: Any) -> Any:
    """Return the value of a field."""
    w, s = position >> 6, position & 63
    value = words[place, w] >> np.uint64(s)
    if s + width > 64:
        value |= words[place, w + 1] << np.uint64(64 - s)
    return value & ((np.uint64(1) << np.uint64(width)) - np.uint64(1))


@inlined
def hash_of_others(words: Any, place: Any) -> Any:
    """Hash packed words without their first `MIXED_BITS`, to as many bits."""
    h = mix((words[place, 0] >> np.uint64(MIXED_BITS)) ^ np.uint64(0x9E3779B97F4A7C15))
    for w in range(1, words.shape[1]):
        h = mix(h ^ words[place, w])
    return h >> np.uint64(64 - MIXED_BITS)


@inlined
def hash_words(words: Any, place: Any) -> Any:
    """Mix the first bits of packed words with a hash of the others; with the others, they follow from the result."""
    x = (words[place, 0] * _FACTOR) & MIXED
    x ^= x >> np.uint64(MIXED_BITS // 2)
    return (x * _FACTOR + hash_of_others(words, place)) & MIXED


@inlined
def unmix(words: Any, place: Any, mixed: Any) -> None:
    """Set the first bits of packed words, which are 0, given what `hash_words` made of them."""
    x = ((mixed - hash_of_others(words, place)) * _INVERSE) & MIXED
    x ^= x >> np.uint64(MIXED_BITS // 2)
    words[place, 0] |= (x * _INVERSE) & MIXED


@inlined
def owner(h: Any) -> Any:
    """Return the partition that owns what has a hash."""
    return np.int64(h >> np.uint64(HOME_BITS))


@inlined
def owner_of(words: Any, place: Any) -> Any:
    """Return the partition that owns packed words."""
    return owner(hash_words(words, place))


@inlined
def pack(t: Any, packing: Any, states: Any, at: Any, column: Any, words: Any, place: Any) -> None:
    """Write the packed identity of the state, which is not flat, that stands in a row from a column on."""
    for w in range(words.shape[1]):
        words[place, w] = np.uint64(0)
    for f in range(len(packing.position)):
        field = np.int64(states[at, column + f])
        value = np.uint64(t.inbox_codes[field] & CODE_MASK if f > 0 else t.row_info[field, R_IDENTITY])
        put_bits(words, place, packing.position[f], packing.width[f], value)


@jit
def pack_all(t: Any, packing: Any, states: Any, words: Any, owner: Any) -> None:
    """Write the packed words of states that stand for themselves, and the partition that owns each."""
    states, words, owner = bare(states), bare(words), bare(owner)
    for i in range(len(states)):
        pack(t, packing, states, i, 0, words, i)
        owner[i] = owner_of(words, i)


@jit
def repack(words: Any, old: Any, again: Any, new: Any, owner: Any) -> None:
    """Write packed words anew with other fields, and the partition that owns each."""
    words, again, owner = bare(words), bare(again), bare(owner)
    for i in range(len(words)):
        repack_one(words, i, old, again, i, new)
        owner[i] = owner_of(again, i)


@inlined
def repack_one(words: Any, place: Any, old: Any, again: Any, to: Any, new: Any) -> None:
    """Write one state's packed words anew; fields that are new are empty."""
    for w in range(again.shape[1]):
        again[to, w] = np.uint64(0)
    for f in range(len(old.position)):
        value = take_bits(words, place, old.position[f], old.width[f])
        put_bits(again, to, new.position[f], new.width[f], value)


@jit
def pack_states(states: Any, packing: Any, words: Any) -> None:
    """Write the packed words of states; the words must be zero."""
    states, words = bare(states), bare(words)
    for i in range(len(states)):
        for f in range(states.shape[1]):
            put_bits(words, i, packing.position[f], packing.width[f], np.uint64(states[i, f]))


@jit
def unpack_states(words: Any, packing: Any, states: Any) -> None:
    """Write the states of packed words."""
    states, words = bare(states), bare(words)
    for i in range(len(states)):
        for f in range(states.shape[1]):
            states[i, f] = take_bits(words, i, packing.position[f], packing.width[f])


@jit
def owners(states: Any, parts: Any, owner: Any) -> None:
    """Write the partition, out of so many, that owns each state.

    It follows from the ids alone, whatever the packing; a replica that appears later changes nothing, as its empty
    inbox has the number 0 and counts for nothing.
    """
    states, owner = bare(states), bare(owner)
    for i in range(len(states)):
        h = np.uint64(0)
        for f in range(states.shape[1]):
            if states[i, f] != 0:
                h += mix((np.uint64(f + 1) << np.uint64(32)) | np.uint64(states[i, f]))
        owner[i] = np.int64(((mix(h) >> np.uint64(32)) * np.uint64(parts)) >> np.uint64(32))
