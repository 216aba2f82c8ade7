"""What a flat state is packed as under symmetry: as the least of its images."""

from __future__ import annotations

from typing import Any

import numpy as np

from kraftcheck.explorer.tables.kernel import codes
from kraftcheck.explorer.tables.kernel.native import bare, inlined, jit
from kraftcheck.explorer.tables.kernel.packing import hash_words, owner, pack, put_bits
from kraftcheck.explorer.tables.kernel.resolving.inboxes import make_content_images

LARGEST = np.int64(1 << 62)


@inlined
def image(permuted: Any, number: Any, g: Any) -> Any:
    """Return the image of a local state, or of an inbox content; 0 is its own."""
    return np.int64(0) if number == 0 else np.int64(permuted[number, g])


@inlined
def keep_least(permuted: Any, worker: Any, states: Any, at: Any, first: Any, slots: Any, count: Any) -> Any:
    """Keep those of the first permutations in `left` whose images are least in the columns of all replicas."""
    left, sources, present = worker.left, worker.sources, np.int64(0)
    for s in range(slots):
        present |= np.int64(states[at, first + s] != 0) << (s & 63)
    for p in range(slots):
        if count == 1:
            break
        if present & worker.sources_of[p] == 0:  # 0 is what all permutations put there
            continue
        least, found = LARGEST, 0
        for j in range(count):
            g = left[j]
            value = image(permuted, np.int64(states[at, first + sources[g, p]]), g)
            if value < least:
                least, found = value, 0
            if value == least:
                left[found] = g
                found += 1
        count = found
    return count


@jit
def pack_least(
    t: Any, packing: Any, worker: Any, serial: Any, states: Any, at: Any, column: Any, words: Any, place: Any
) -> Any:
    """Write what the least image of a flat state is packed as; False where one is not known.

    The state stands in states[at, column:], and what it is packed as itself in `words`. Images are compared column by
    column, and seldom by more than a few.
    """
    inboxes, base, slots = t.meta[codes.M_INBOXES], t.meta[codes.M_SLOT_BASE], t.meta[codes.M_ROW_SLOTS]
    bounds, left, sources, count = t.meta[codes.M_BOUNDS], worker.left, worker.sources, t.meta[codes.M_PERMUTATIONS]
    for s in range(slots):
        content = np.int64(states[at, column + inboxes + s])
        if content != 0 and t.permuted_contents[content, 0] < 0:
            if serial:
                make_content_images(t, content)
            return False
    for g in range(count):
        left[g] = g
    count = keep_least(t.permuted_locals, worker, states, at, column + base, slots, count)
    count = keep_least(t.permuted_contents, worker, states, at, column + inboxes, slots, count)
    for c in range(bounds, base):
        if count == 1 or t.hidden[c]:
            continue
        value = np.int64(states[at, column + c])
        least, found = LARGEST, 0
        for j in range(count):
            other = np.int64(t.permuted_shared[left[j] * (base - bounds) + c - bounds, value])
            if other < least:
                least, found = other, 0
            if other == least:
                left[found] = left[j]
                found += 1
        count = found
    g, position, width = left[0], packing.position, packing.width
    if g == 0:  # which changes nothing
        return True
    for w in range(words.shape[1]):
        words[place, w] = np.uint64(0)
    for c in range(base):
        if t.hidden[c]:
            continue
        shown = np.int64(states[at, column + c])
        if c >= bounds:
            shown = np.int64(t.permuted_shared[g * (base - bounds) + c - bounds, shown])
        put_bits(words, place, position[c], width[c], np.uint64(shown))
    for p in range(slots):
        from_slot = np.int64(sources[g, p])
        local = image(t.permuted_locals, np.int64(states[at, column + base + from_slot]), g)
        put_bits(words, place, position[base + p], width[base + p], np.uint64(t.local_codes[local]))
        content = image(t.permuted_contents, np.int64(states[at, column + inboxes + from_slot]), g)
        code = np.uint64(t.inbox_codes[content] & codes.CODE_MASK)
        put_bits(words, place, position[inboxes + p], width[inboxes + p], code)
    return True


@inlined
def pack_orbits(t: Any, packing: Any, worker: Any, serial: Any, at: Any, n: Any) -> Any:
    """Pack a state and its successors under symmetry; return whether all images are known."""
    words, last = worker.words, len(worker.words) - 1
    known = pack_least(t, packing, worker, serial, worker.states, at, np.int64(0), words, last)
    for k in range(n):
        if worker.succ[k, 1] != codes.LOOP:
            known &= pack_least(t, packing, worker, serial, worker.succ, k, np.int64(2), words, k)
    return known


@jit
def pack_all_orbits(t: Any, packing: Any, worker: Any, states: Any, words: Any, owners: Any) -> None:
    """Write what flat states are packed as under symmetry, and the partition that owns each."""
    states, words, owners = bare(states), bare(words), bare(owners)
    for i in range(len(states)):
        pack(t, packing, states, i, 0, words, i)
        while not pack_least(t, packing, worker, True, states, i, np.int64(0), words, i):
            pass
        owners[i] = owner(hash_words(words, i))
