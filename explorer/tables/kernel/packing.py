"""Bit packing of states into words, in the fields that `states/packed_rows.py` lays out."""

from __future__ import annotations

from typing import Any

import numpy as np

from kraftcheck.explorer.native.arrays import Arrays, array
from kraftcheck.explorer.tables.kernel.codes import CODE_MASK, R_IDENTITY
from kraftcheck.explorer.tables.kernel.maps import mix
from kraftcheck.explorer.tables.kernel.native import bare, inlined, jit

PARTITION_BITS = 6
MIXED_BITS = 40  # the first bits of a packed state, which `hash_words` mixes into its place in the visited set
HOME_BITS = MIXED_BITS - PARTITION_BITS
MIXED = np.uint64((1 << MIXED_BITS) - 1)
_FACTOR = np.uint64(0x9E3779B97F4A7C15 & ((1 << MIXED_BITS) - 1))
_INVERSE = np.uint64(pow(int(_FACTOR), -1, 1 << MIXED_BITS))


class PackingArrays(Arrays):
    """The bit position and width of each field of a packed state."""

    position = array(np.int32)  # first bit of each field
    width = array(np.int32)  # bits of each field
    # Only flat states use the other arrays: see `flat/clusters.py`.
    field_of = array(np.int32)  # column -> its field; -1 where a VIEW hides the column
    firsts = array(np.int32)  # field -> its first place in `columns` and `factors`; the last entry is their length
    columns = array(np.int32)
    factors = array(np.uint64)  # factor of each place in the hash of a cluster's contents
    clusters = array(np.int64)  # number of fields with several columns, which come first
    items = array(np.int64)  # places in `cluster_items` that the clusters of one state take


@inlined
def put_bits(words: Any, place: Any, position: Any, width: Any, value: Any) -> None:
    """Write a value to a field whose bits are 0."""
    w, s = position >> 6, position & 63
    words[place, w] |= value << np.uint64(s)
    if s + width > 64:
        words[place, w + 1] |= value >> np.uint64(64 - s)


@inlined
def change_bits(words: Any, place: Any, position: Any, width: Any, difference: Any) -> None:
    """Change a field by XOR with the difference of its old and new value."""
    w, s = position >> 6, position & 63
    words[place, w] ^= difference << np.uint64(s)
    if s + width > 64:
        words[place, w + 1] ^= difference >> np.uint64(64 - s)


@inlined
def take_bits(words: Any, place: Any, position: Any, width: Any) -> Any:
    """Read a field of packed words."""
    w, s = position >> 6, position & 63
    value = words[place, w] >> np.uint64(s)
    if s + width > 64:
        value |= words[place, w + 1] << np.uint64(64 - s)
    return value & ((np.uint64(1) << np.uint64(width)) - np.uint64(1))


@inlined
def hash_of_others(words: Any, place: Any) -> Any:
    """Return a hash, `MIXED_BITS` bits long, of the bits of packed words after the first `MIXED_BITS`."""
    h = mix((words[place, 0] >> np.uint64(MIXED_BITS)) ^ np.uint64(0x9E3779B97F4A7C15))
    for w in range(1, words.shape[1]):
        h = mix(h ^ words[place, w])
    return h >> np.uint64(64 - MIXED_BITS)


@inlined
def hash_words(words: Any, place: Any) -> Any:
    """Mix the first bits of packed words with a hash of the other bits.

    The map is a bijection of the first bits for any given other bits, so `unmix` can restore them from the result.
    """
    x = (words[place, 0] * _FACTOR) & MIXED
    x ^= x >> np.uint64(MIXED_BITS // 2)
    return (x * _FACTOR + hash_of_others(words, place)) & MIXED


@inlined
def unmix(words: Any, place: Any, mixed: Any) -> None:
    """Restore the first bits of packed words, 0 so far, from `mixed`, the result of `hash_words`."""
    x = ((mixed - hash_of_others(words, place)) * _INVERSE) & MIXED
    x ^= x >> np.uint64(MIXED_BITS // 2)
    words[place, 0] |= (x * _INVERSE) & MIXED


@inlined
def owner(h: Any) -> Any:
    """Return the partition that owns packed words, given the result of `hash_words`."""
    return np.int64(h >> np.uint64(HOME_BITS))


@inlined
def owner_of(words: Any, place: Any) -> Any:
    """Return the partition that owns packed words."""
    return owner(hash_words(words, place))


@inlined
def pack(t: Any, packing: Any, states: Any, at: Any, column: Any, words: Any, place: Any) -> None:
    """Write the packed canonical key of a state with a control row, from states[at, column:] to words[place]."""
    for w in range(words.shape[1]):
        words[place, w] = np.uint64(0)
    for f in range(len(packing.position)):
        field = np.int64(states[at, column + f])
        value = np.uint64(t.inbox_codes[field] & CODE_MASK if f > 0 else t.row_info[field, R_IDENTITY])
        put_bits(words, place, packing.position[f], packing.width[f], value)


@jit
def pack_all(t: Any, packing: Any, states: Any, words: Any, owner: Any) -> None:
    """Write the packed words and the owning partition of each state; the states are canonical."""
    states, words, owner = bare(states), bare(words), bare(owner)
    for i in range(len(states)):
        pack(t, packing, states, i, 0, words, i)
        owner[i] = owner_of(words, i)


@jit
def repack(words: Any, old: Any, again: Any, new: Any, owner: Any) -> None:
    """Convert packed words from the fields of one packing to those of another; write the partition that owns each."""
    words, again, owner = bare(words), bare(again), bare(owner)
    for i in range(len(words)):
        repack_one(words, i, old, again, i, new)
        owner[i] = owner_of(again, i)


@inlined
def repack_one(words: Any, place: Any, old: Any, again: Any, to: Any, new: Any) -> None:
    """Convert one packed state to the fields of another packing; a field that is new becomes 0."""
    for w in range(again.shape[1]):
        again[to, w] = np.uint64(0)
    for f in range(len(old.position)):
        value = take_bits(words, place, old.position[f], old.width[f])
        put_bits(again, to, new.position[f], new.width[f], value)


@jit
def pack_states(states: Any, packing: Any, words: Any) -> None:
    """Pack rows of numbers as they are, without table lookups; `words` must be zero."""
    states, words = bare(states), bare(words)
    for i in range(len(states)):
        for f in range(states.shape[1]):
            put_bits(words, i, packing.position[f], packing.width[f], np.uint64(states[i, f]))


@jit
def unpack_states(words: Any, packing: Any, states: Any) -> None:
    """Unpack rows of plain numbers."""
    states, words = bare(states), bare(words)
    for i in range(len(states)):
        for f in range(states.shape[1]):
            states[i, f] = take_bits(words, i, packing.position[f], packing.width[f])


@jit
def owners(states: Any, parts: Any, owner: Any) -> None:
    """Write the partition, one of `parts`, that owns each state.

    It is a hash of the ids alone, independent of the packing. A replica that appears later leaves it unchanged: empty
    inboxes have the id 0 and do not count.
    """
    states, owner = bare(states), bare(owner)
    for i in range(len(states)):
        h = np.uint64(0)
        for f in range(states.shape[1]):
            if states[i, f] != 0:
                h += mix((np.uint64(f + 1) << np.uint64(32)) | np.uint64(states[i, f]))
        owner[i] = np.int64(((mix(h) >> np.uint64(32)) * np.uint64(parts)) >> np.uint64(32))
