"""What a flat state is packed as: a number for each field, which is a column, or several that are numbered together.

What goes together (a replica and its inbox, all replicas that are seldom there) has few contents together, so one
number for all of it, a *cluster*, takes fewer bits than the numbers side by side. Each content is kept once, in a hash
table for all clusters; 0 is the number of one that is all zeros. A column that a VIEW leaves out is in no field.

Threads enter contents side by side, without locks: a content is written where nobody else writes, and then appears in
the hash table in one step. Each takes room beforehand for all that it may enter (`has_room`).

Source: A. Laarman, J. van de Pol, M. Weber, "Parallel Recursive State Compression for Free" (2011).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kraftcheck.explorer.tables.kernel import codes
from kraftcheck.explorer.tables.kernel.codes import inboxes_of
from kraftcheck.explorer.tables.kernel.maps import mix
from kraftcheck.explorer.tables.kernel.native import add_atomically, inlined, jit, replace_atomically
from kraftcheck.explorer.tables.kernel.packing import change_bits, put_bits

HASH_BITS = 32  # of an entry of the hash table; below them stands where the content is
WHERE = (1 << HASH_BITS) - 1
NOTHING = np.int64(-1)  # in the place of a hash: all is zero
SPARE = 1 << 8  # states for which there is room beyond that, as a thread does not see what others do just now


@inlined
def code_of_column(t: Any, packing: Any, column: Any, held: Any) -> Any:
    """Return the number that a column is packed as, which is a field of its own."""
    code = held
    if column >= inboxes_of(t, len(packing.field_of)):
        code = np.int64(t.inbox_codes[held] & codes.CODE_MASK)
    elif column >= t.meta[codes.M_SLOT_BASE]:
        code = np.int64(t.local_codes[held])
    return code


@inlined
def place_of(table: Any, short: Any) -> Any:
    """Return where an entry with a hash of `HASH_BITS` belongs, in a table whose length is a power of two."""
    return np.int64((np.uint64(short) * np.uint64(len(table))) >> np.uint64(HASH_BITS))


@inlined
def content_hash(packing: Any, f: Any, rows: Any, row: Any, column: Any) -> Any:
    """Return a hash of what the columns of a field hold in the state in rows[row, column:], or NOTHING."""
    h, some = np.uint64(f), np.int64(0)
    for k in range(packing.firsts[f], packing.firsts[f + 1]):
        held = np.int64(rows[row, column + packing.columns[k]])
        some |= held
        h += np.uint64(held) * packing.factors[k]
    return np.int64(mix(h) >> np.uint64(64 - HASH_BITS)) if some else NOTHING


@inlined
def is_content(t: Any, packing: Any, entry: Any, f: Any, rows: Any, row: Any, column: Any) -> Any:
    """Whether an entry is of what the columns of a field hold in the state in rows[row, column:]."""
    at, first = entry & WHERE, packing.firsts[f]
    same = t.cluster_items[at] == f
    for k in range(first, packing.firsts[f + 1]):
        same &= t.cluster_items[at + codes.CLUSTER_HEAD + k - first] == rows[row, column + packing.columns[k]]
    return same


@jit
def enter(t: Any, packing: Any, f: Any, rows: Any, row: Any, column: Any, short: Any) -> Any:
    """Return an entry for what the columns of a field hold in the state in rows[row, column:], written just now."""
    first, last = packing.firsts[f], packing.firsts[f + 1]
    at = add_atomically(t.meta, codes.M_CLUSTER_ITEMS, codes.CLUSTER_HEAD + last - first)
    add_atomically(t.meta, codes.M_CLUSTERS, 1)
    t.cluster_items[at], t.cluster_items[at + 1] = f, add_atomically(t.cluster_counts, f, 1) + 1
    for k in range(first, last):
        t.cluster_items[at + codes.CLUSTER_HEAD + k - first] = rows[row, column + packing.columns[k]]
    return np.int64(np.uint64(short) << np.uint64(HASH_BITS)) | at


@inlined
def cluster_number(t: Any, packing: Any, f: Any, rows: Any, row: Any, column: Any, short: Any) -> Any:
    """Return the number of what the columns of a field hold in the state in rows[row, column:], given its hash.

    A content that is new has a number from now on; for that there must be room.
    """
    if short == NOTHING:
        return np.int64(0)
    i, own = place_of(t.cluster_table, short), np.int64(0)
    while True:
        entry = t.cluster_table[i]
        if entry == 0:
            if own == 0:
                own = enter(t, packing, f, rows, row, column, short)
            entry = replace_atomically(t.cluster_table, i, 0, own)
            if entry == 0:
                entry = own
        if np.int64(np.uint64(entry) >> np.uint64(HASH_BITS)) == short and (
            entry == own or is_content(t, packing, entry, f, rows, row, column)
        ):
            return np.int64(t.cluster_items[(entry & WHERE) + 1])
        i = (i + 1) & (len(t.cluster_table) - 1)


@inlined
def lacks_room(t: Any, packing: Any, states: Any) -> Any:
    """Note what must grow for the contents of so many states; return whether anything must."""
    grow = np.int64(0)
    if 2 * (t.meta[codes.M_CLUSTERS] + states * packing.clusters[0]) > len(t.cluster_table):
        grow |= codes.GROW_CLUSTERS
    if t.meta[codes.M_CLUSTER_ITEMS] + states * packing.items[0] > len(t.cluster_items):
        grow |= codes.GROW_CLUSTER_ITEMS
    if grow:
        t.meta[codes.M_GROW] |= grow  # where threads do that at once, what one of them notes is enough
    return grow != 0


@inlined
def has_room(t: Any, packing: Any, states: Any) -> Any:
    """Take room for the contents of so many states more; False where there is none, or too few bits for numbers."""
    taken = add_atomically(t.meta, codes.M_CLUSTER_ROOM, states) + states + SPARE
    fits = not lacks_room(t, packing, taken)
    for f in range(packing.clusters[0]):
        fits &= (t.cluster_counts[f] + taken) >> packing.width[f] == 0
    if not fits:
        give_back_room(t, states)
    return fits


@inlined
def give_back_room(t: Any, states: Any) -> None:
    """Give back the room for the contents of so many states that was taken."""
    add_atomically(t.meta, codes.M_CLUSTER_ROOM, -states)


@jit
def rehash_clusters(old: Any, new: Any) -> None:
    """Enter every entry of a hash table into a larger one, which is empty."""
    for n in range(len(old)):
        if old[n] != 0:
            i = place_of(new, np.int64(np.uint64(old[n]) >> np.uint64(HASH_BITS)))
            while new[i] != 0:
                i = (i + 1) & (len(new) - 1)
            new[i] = old[n]


@inlined
def pack_columns(t: Any, packing: Any, rows: Any, row: Any, column: Any, words: Any, place: Any) -> None:
    """Write what the fields of one column are packed as in the flat state in rows[row, column:]; the others are 0."""
    for w in range(words.shape[1]):
        words[place, w] = np.uint64(0)
    for f in range(packing.clusters[0], len(packing.position)):
        own = np.int64(packing.columns[packing.firsts[f]])
        code = code_of_column(t, packing, own, np.int64(rows[row, column + own]))
        put_bits(words, place, packing.position[f], packing.width[f], np.uint64(code))


@inlined
def note_change(t: Any, packing: Any, worker: Any, n: Any, column: Any, before: Any, later: Any) -> None:
    """Pack what a column of successor `n` holds now, where that is a field; else note that its field is another."""
    f = np.int64(packing.field_of[column])
    if f >= packing.clusters[0]:
        difference = code_of_column(t, packing, column, before) ^ code_of_column(t, packing, column, later)
        change_bits(worker.words, n, packing.position[f], packing.width[f], np.uint64(difference))
    elif f >= 0 and before != later:
        worker.touched[n] = 1
