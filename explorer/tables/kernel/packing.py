"""Bit packing of states into words: one number for each field, which is a column or a *cluster* of columns.

`BitPacking` of `tables/rows.py` lays out the fields. A cluster interns the joint contents of several columns of a
flat state, such as a replica and its inbox. Few joint contents occur, so one id takes fewer bits than the columns' own
ids side by side. All clusters share one hash table; id 0 is the contents that are all zeros. A column that a VIEW
hides is in no field.

Threads intern contents in parallel without locks. A thread writes the contents to a place of its own, then
publishes that place in the hash table by compare-and-swap. Each thread first reserves room for its batch
(`try_reserve_column_cluster_room`).

Source: A. Laarman, J. van de Pol, M. Weber, "Parallel Recursive State Compression for Free" (2011).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kraftcheck.explorer.native.arrays import ArrayGroup, declare_array
from kraftcheck.explorer.native.compiling import add_atomically, compare_and_swap, inlined, unowned_array
from kraftcheck.explorer.tables.kernel import codes, jit, maps

PARTITION_BITS = 6
MIXED_BITS = 40  # the first bits of a packed state, which `hash_words` mixes into its place in the visited set
HOME_BITS = MIXED_BITS - PARTITION_BITS
MIXED_BITS_MASK = np.uint64((1 << MIXED_BITS) - 1)
_MIX_FACTOR = np.uint64(0x9E3779B97F4A7C15 & ((1 << MIXED_BITS) - 1))
_INVERSE_MIX_FACTOR = np.uint64(pow(int(_MIX_FACTOR), -1, 1 << MIXED_BITS))


class PackingArrays(ArrayGroup):
    """The bit position and width of each field of a packed state."""

    position = declare_array(np.int32)  # first bit of each field
    width = declare_array(np.int32)  # bits of each field
    # Only flat states use the other arrays: see below.
    field_of = declare_array(np.int32)  # column -> its field; -1 where a VIEW hides the column
    firsts = declare_array(
        np.int32
    )  # field -> its first place in `columns` and `factors`; the last entry is their length
    columns = declare_array(np.int32)
    factors = declare_array(np.uint64)  # factor of each place in the hash of a cluster's contents
    clusters = declare_array(np.int64)  # number of fields with several columns, which come first
    items = declare_array(np.int64)  # places in `cluster_items` that the clusters of one state take


@inlined
def put_bits(words: Any, place: Any, position: Any, width: Any, value: Any) -> None:
    """Write a value to a field whose bits are 0."""
    w, s = position >> 6, position & 63
    words[place, w] |= value << np.uint64(s)
    if s + width > 64:
        words[place, w + 1] |= value >> np.uint64(64 - s)


@inlined
def xor_bits(words: Any, place: Any, position: Any, width: Any, difference: Any) -> None:
    """Change a field by XOR with the difference of its old and new value."""
    w, s = position >> 6, position & 63
    words[place, w] ^= difference << np.uint64(s)
    if s + width > 64:
        words[place, w + 1] ^= difference >> np.uint64(64 - s)


@inlined
def read_bits(words: Any, place: Any, position: Any, width: Any) -> Any:
    """Read a field of packed words."""
    w, s = position >> 6, position & 63
    value = words[place, w] >> np.uint64(s)
    if s + width > 64:
        value |= words[place, w + 1] << np.uint64(64 - s)
    return value & ((np.uint64(1) << np.uint64(width)) - np.uint64(1))


@inlined
def hash_of_unmixed_bits(words: Any, place: Any) -> Any:
    """Return a hash, `MIXED_BITS` bits long, of the bits of packed words after the first `MIXED_BITS`."""
    h = maps.mix64((words[place, 0] >> np.uint64(MIXED_BITS)) ^ np.uint64(0x9E3779B97F4A7C15))
    for w in range(1, words.shape[1]):
        h = maps.mix64(h ^ words[place, w])
    return h >> np.uint64(64 - MIXED_BITS)


@inlined
def hash_words(words: Any, place: Any) -> Any:
    """Mix the first bits of packed words with a hash of the other bits.

    The map is a bijection of the first bits for any given other bits. `restore_mixed_bits` restores them from the
    result.
    """
    x = (words[place, 0] * _MIX_FACTOR) & MIXED_BITS_MASK
    x ^= x >> np.uint64(MIXED_BITS // 2)
    return (x * _MIX_FACTOR + hash_of_unmixed_bits(words, place)) & MIXED_BITS_MASK


@inlined
def restore_mixed_bits(words: Any, place: Any, mixed: Any) -> None:
    """Restore the first bits of packed words, 0 so far, from `mixed`, the result of `hash_words`."""
    x = ((mixed - hash_of_unmixed_bits(words, place)) * _INVERSE_MIX_FACTOR) & MIXED_BITS_MASK
    x ^= x >> np.uint64(MIXED_BITS // 2)
    words[place, 0] |= (x * _INVERSE_MIX_FACTOR) & MIXED_BITS_MASK


@inlined
def partition_of_hash(h: Any) -> Any:
    """Return the partition that owns packed words, given the result of `hash_words`."""
    return np.int64(h >> np.uint64(HOME_BITS))


@inlined
def partition_of_words(words: Any, place: Any) -> Any:
    """Return the partition that owns packed words."""
    return partition_of_hash(hash_words(words, place))


@inlined
def pack_canonical_row(t: Any, packing: Any, states: Any, at: Any, column: Any, words: Any, place: Any) -> Any:
    """Write the packed canonical key of a state with a control row, from states[at, column:] to words[place].

    Returns whether each field has room for its id.
    """
    for w in range(words.shape[1]):
        words[place, w] = np.uint64(0)
    beyond = np.uint64(0)
    for f in range(len(packing.position)):
        field = np.int64(states[at, column + f])
        value = np.uint64(t.inbox_codes[field] & codes.CODE_MASK if f > 0 else t.row_info[field, codes.ROW_IDENTITY])
        put_bits(words, place, packing.position[f], packing.width[f], value)
        beyond |= value >> np.uint64(packing.width[f])
    return beyond == 0


@jit
def pack_canonical_rows(t: Any, packing: Any, states: Any, words: Any, owner: Any) -> None:
    """Write the packed words and the owning partition of each state; the states are canonical."""
    states, words, owner = unowned_array(states), unowned_array(words), unowned_array(owner)
    for i in range(len(states)):
        pack_canonical_row(t, packing, states, i, 0, words, i)
        owner[i] = partition_of_words(words, i)


@jit
def repack_states(words: Any, old: Any, again: Any, new: Any, owner: Any) -> None:
    """Convert packed words from the fields of one packing to those of another; write the partition that owns each."""
    words, again, owner = unowned_array(words), unowned_array(again), unowned_array(owner)
    for i in range(len(words)):
        repack_state(words, i, old, again, i, new)
        owner[i] = partition_of_words(again, i)


@inlined
def repack_state(words: Any, place: Any, old: Any, again: Any, to: Any, new: Any) -> None:
    """Convert one packed state to the fields of another packing; a field that is new becomes 0."""
    for w in range(again.shape[1]):
        again[to, w] = np.uint64(0)
    for f in range(len(old.position)):
        value = read_bits(words, place, old.position[f], old.width[f])
        put_bits(again, to, new.position[f], new.width[f], value)


@jit
def pack_rows_of_numbers(states: Any, packing: Any, words: Any) -> None:
    """Pack rows of numbers as they are, without table lookups; `words` must be zero."""
    states, words = unowned_array(states), unowned_array(words)
    for i in range(len(states)):
        for f in range(states.shape[1]):
            put_bits(words, i, packing.position[f], packing.width[f], np.uint64(states[i, f]))


@jit
def unpack_rows_of_numbers(words: Any, packing: Any, states: Any) -> None:
    """Unpack rows of plain numbers."""
    states, words = unowned_array(states), unowned_array(words)
    for i in range(len(states)):
        for f in range(states.shape[1]):
            states[i, f] = read_bits(words, i, packing.position[f], packing.width[f])


@jit
def write_partitions_of_states(states: Any, parts: Any, owner: Any) -> None:
    """Write the partition, one of `parts`, that owns each state.

    It is a hash of the ids alone, independent of the packing. A replica that appears later leaves it unchanged: empty
    inboxes have the id 0 and do not count.
    """
    states, owner = unowned_array(states), unowned_array(owner)
    for i in range(len(states)):
        h = np.uint64(0)
        for f in range(states.shape[1]):
            if states[i, f] != 0:
                h += maps.mix64((np.uint64(f + 1) << np.uint64(32)) | np.uint64(states[i, f]))
        owner[i] = np.int64(((maps.mix64(h) >> np.uint64(32)) * np.uint64(parts)) >> np.uint64(32))


CLUSTER_HASH_BITS = 32  # of an entry of the hash table; the bits below are an index into `cluster_items`
CLUSTER_ITEM_MASK = (1 << CLUSTER_HASH_BITS) - 1
ALL_ZERO_HASH = np.int64(-1)  # in place of a hash: the contents are all zeros
SPARE_CLUSTER_ROOM_STATES = 1 << 8  # states of extra room: a thread's view of the counters may lag behind the others


@inlined
def column_value_code(t: Any, packing: Any, column: Any, held: Any) -> Any:
    """Return the packed value of a single-column field that has the value `held`."""
    code = held
    if column >= codes.first_inbox_column_of_flat_state(t, len(packing.field_of)):
        code = np.int64(t.inbox_codes[held] & codes.CODE_MASK)
    elif column >= t.meta[codes.META_SLOT_BASE]:
        code = np.int64(t.local_codes[held])
    return code


@inlined
def column_cluster_home(table: Any, short: Any) -> Any:
    """Return the home place of a hash of `CLUSTER_HASH_BITS` bits in a table whose length is a power of two."""
    return np.int64((np.uint64(short) * np.uint64(len(table))) >> np.uint64(CLUSTER_HASH_BITS))


@inlined
def column_cluster_hash(packing: Any, f: Any, rows: Any, row: Any, column: Any) -> Any:
    """Return the hash of a cluster's contents in the state rows[row, column:], or ALL_ZERO_HASH."""
    h, some = np.uint64(f), np.int64(0)
    for k in range(packing.firsts[f], packing.firsts[f + 1]):
        held = np.int64(rows[row, column + packing.columns[k]])
        some |= held
        h += np.uint64(held) * packing.factors[k]
    return np.int64(maps.mix64(h) >> np.uint64(64 - CLUSTER_HASH_BITS)) if some else ALL_ZERO_HASH


@inlined
def entry_holds_column_cluster(t: Any, packing: Any, entry: Any, f: Any, rows: Any, row: Any, column: Any) -> Any:
    """Return whether a hash-table entry holds the contents that cluster `f` has in state rows[row, column:]."""
    at, first = entry & CLUSTER_ITEM_MASK, packing.firsts[f]
    same = t.cluster_items[at] == f
    for k in range(first, packing.firsts[f + 1]):
        same &= t.cluster_items[at + codes.CLUSTER_HEAD_SIZE + k - first] == rows[row, column + packing.columns[k]]
    return same


@jit
def append_column_cluster_contents(t: Any, packing: Any, f: Any, rows: Any, row: Any, column: Any, short: Any) -> Any:
    """Write the contents of cluster `f` with the next id; return their entry, which is not yet published."""
    first, last = packing.firsts[f], packing.firsts[f + 1]
    at = add_atomically(t.meta, codes.META_CLUSTER_ITEMS, codes.CLUSTER_HEAD_SIZE + last - first)
    add_atomically(t.meta, codes.META_CLUSTERS, 1)
    t.cluster_items[at], t.cluster_items[at + 1] = f, add_atomically(t.cluster_counts, f, 1) + 1
    for k in range(first, last):
        t.cluster_items[at + codes.CLUSTER_HEAD_SIZE + k - first] = rows[row, column + packing.columns[k]]
    return np.int64(np.uint64(short) << np.uint64(CLUSTER_HASH_BITS)) | at


@inlined
def intern_column_cluster_contents(t: Any, packing: Any, f: Any, rows: Any, row: Any, column: Any, short: Any) -> Any:
    """Return the id of the contents of cluster `f`, given their hash; intern new contents in reserved room."""
    if short == ALL_ZERO_HASH:
        return np.int64(0)
    i, own = column_cluster_home(t.cluster_table, short), np.int64(0)
    while True:
        entry = t.cluster_table[i]
        if entry == 0:
            if own == 0:
                own = append_column_cluster_contents(t, packing, f, rows, row, column, short)
            entry = compare_and_swap(t.cluster_table, i, 0, own)
            if entry == 0:
                entry = own
        if np.int64(np.uint64(entry) >> np.uint64(CLUSTER_HASH_BITS)) == short and (
            entry == own or entry_holds_column_cluster(t, packing, entry, f, rows, row, column)
        ):
            return np.int64(t.cluster_items[(entry & CLUSTER_ITEM_MASK) + 1])
        i = (i + 1) & (len(t.cluster_table) - 1)


@inlined
def lacks_column_cluster_room(t: Any, packing: Any, states: Any) -> Any:
    """Return whether a table must grow to hold the contents of `states` more states; record the table to grow."""
    grow = np.int64(0)
    if 2 * (t.meta[codes.META_CLUSTERS] + states * packing.clusters[0]) > len(t.cluster_table):
        grow |= codes.GROW_CLUSTERS
    if t.meta[codes.META_CLUSTER_ITEMS] + states * packing.items[0] > len(t.cluster_items):
        grow |= codes.GROW_CLUSTER_ITEMS
    if grow:
        t.meta[codes.META_GROW] |= grow  # not atomic: one thread's bit is enough, the others stop for it too
    return grow != 0


@inlined
def try_reserve_column_cluster_room(t: Any, packing: Any, states: Any) -> Any:
    """Reserve room for the contents of `states` states; return False without room, or where ids outgrow their field."""
    taken = add_atomically(t.meta, codes.META_CLUSTER_ROOM, states) + states + SPARE_CLUSTER_ROOM_STATES
    fits = not lacks_column_cluster_room(t, packing, taken)
    for f in range(packing.clusters[0]):
        fits &= (t.cluster_counts[f] + taken) >> packing.width[f] == 0
    if not fits:
        release_column_cluster_room(t, states)
    return fits


@inlined
def release_column_cluster_room(t: Any, states: Any) -> None:
    """Release reserved room for the contents of `states` states."""
    add_atomically(t.meta, codes.META_CLUSTER_ROOM, -states)


@jit
def rehash_column_clusters(old: Any, new: Any) -> None:
    """Copy every entry of the hash table to a larger, empty one."""
    for n in range(len(old)):
        if old[n] != 0:
            i = column_cluster_home(new, np.int64(np.uint64(old[n]) >> np.uint64(CLUSTER_HASH_BITS)))
            while new[i] != 0:
                i = (i + 1) & (len(new) - 1)
            new[i] = old[n]


@inlined
def pack_single_columns(t: Any, packing: Any, rows: Any, row: Any, column: Any, words: Any, place: Any) -> None:
    """Write the single-column fields of the flat state rows[row, column:] to words[place]; set the clusters to 0."""
    for w in range(words.shape[1]):
        words[place, w] = np.uint64(0)
    for f in range(packing.clusters[0], len(packing.position)):
        own = np.int64(packing.columns[packing.firsts[f]])
        code = column_value_code(t, packing, own, np.int64(rows[row, column + own]))
        put_bits(words, place, packing.position[f], packing.width[f], np.uint64(code))


@inlined
def update_packed_column(t: Any, packing: Any, worker: Any, n: Any, column: Any, before: Any, later: Any) -> None:
    """Update the packed words of successor `n` for a changed column, or mark that one of its clusters changed."""
    f = np.int64(packing.field_of[column])
    if f >= packing.clusters[0]:
        difference = column_value_code(t, packing, column, before) ^ column_value_code(t, packing, column, later)
        xor_bits(worker.words, n, packing.position[f], packing.width[f], np.uint64(difference))
    elif f >= 0 and before != later:
        worker.touched[n] = 1
