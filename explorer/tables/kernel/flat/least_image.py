"""Canonical keys of flat states under symmetry: the packed least image.

Images of local states and inbox contents are cached by id. Images are compared column by column, since the first
columns rule out most permutations. Only the image of the remaining permutation is built as a whole.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kraftcheck.explorer.tables.kernel import codes
from kraftcheck.explorer.tables.kernel.codes import MISSING
from kraftcheck.explorer.tables.kernel.flat.clusters import (
    cluster_number,
    content_hash,
    lacks_room,
    pack_columns,
)
from kraftcheck.explorer.tables.kernel.native import bare, inlined, jit
from kraftcheck.explorer.tables.kernel.packing import hash_words, owner, put_bits
from kraftcheck.explorer.tables.kernel.resolving.inboxes import intern_content_images
from kraftcheck.explorer.tables.kernel.resolving.requests import abort_to_grow

LARGEST = np.int64(1 << 62)


@inlined
def image(permuted: Any, number: Any, g: Any) -> Any:
    """Return the image of a local state or an inbox content; 0 is its own image."""
    return np.int64(0) if number == 0 else np.int64(permuted[number, g])


@inlined
def narrow_to_least(permuted: Any, worker: Any, states: Any, at: Any, first: Any, slots: Any, count: Any) -> Any:
    """Move the permutations with the least images of these columns to the front of `worker.left`; count them."""
    left, sources, present = worker.left, worker.sources, np.int64(0)
    for s in range(slots):
        present |= np.int64(states[at, first + s] != 0) << (s & 63)
    for p in range(slots):
        if count == 1:
            break
        if present & worker.sources_of[p] == 0:  # every permutation moves an absent replica there
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


@inlined
def canonical_permutation(t: Any, worker: Any, serial: Any, states: Any, at: Any, column: Any) -> Any:
    """Return the permutation that makes the least image of a flat state, or MISSING if an image is not cached."""
    base, slots = t.meta[codes.M_SLOT_BASE], worker.sources.shape[1]
    inboxes = base + slots
    bounds, left, count = t.meta[codes.M_BOUNDS], worker.left, t.meta[codes.M_PERMUTATIONS]
    # Images of inboxes may be missing; those of local states and shared values are cached when these are interned.
    for s in range(slots):
        content = np.int64(states[at, column + inboxes + s])
        if content != 0 and t.inbox_codes[content] & codes.CODE_IMAGED == 0:  # a dense array, unlike the image table
            if t.permuted_contents[content, 0] < 0:
                if not serial:
                    return np.int64(MISSING)
                intern_content_images(t, content)
            t.inbox_codes[content] |= codes.CODE_IMAGED
    # Drop permutations column by column: by local states, then inboxes, then shared fields.
    for g in range(count):
        left[g] = g
    count = narrow_to_least(t.permuted_locals, worker, states, at, column + base, slots, count)
    count = narrow_to_least(t.permuted_contents, worker, states, at, column + inboxes, slots, count)
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
    return np.int64(left[0])


@inlined
def write_image(t: Any, worker: Any, states: Any, at: Any, column: Any, g: Any, images: Any, place: Any) -> None:
    """Write the image of the flat state states[at, column:] under permutation `g` to images[place]."""
    base, slots = t.meta[codes.M_SLOT_BASE], worker.sources.shape[1]
    inboxes = base + slots
    bounds = t.meta[codes.M_BOUNDS]
    if g == 0:  # the identity
        for c in range(images.shape[1]):
            images[place, c] = states[at, column + c]
        return
    for c in range(bounds):
        images[place, c] = states[at, column + c]
    for c in range(bounds, base):
        images[place, c] = t.permuted_shared[g * (base - bounds) + c - bounds, states[at, column + c]]
    for p in range(slots):
        source = np.int64(worker.sources[g, p])
        images[place, base + p] = image(t.permuted_locals, np.int64(states[at, column + base + source]), g)
        images[place, inboxes + p] = image(t.permuted_contents, np.int64(states[at, column + inboxes + source]), g)


@inlined
def find_canonical(t: Any, worker: Any, serial: Any, n: Any) -> Any:
    """Find the permutation for the least image of each successor; return whether all images are cached."""
    known = True
    for k in range(n):
        if worker.succ[k, 1] != codes.LOOP:
            worker.least[k] = canonical_permutation(t, worker, serial, worker.succ, k, np.int64(2))
            known &= worker.least[k] != MISSING
    return known


@jit
def pack_all_flat(t: Any, packing: Any, worker: Any, states: Any, words: Any, owners: Any) -> None:
    """Write packed flat states and their partitions, in one thread; repeat the call if cluster ids outgrow a field."""
    states, words, owners = bare(states), bare(words), bare(owners)
    images, clusters = worker.waiting_images, packing.clusters[0]
    for i in range(len(states)):
        g = np.int64(0)
        if t.meta[codes.M_PERMUTATIONS] > 1:
            g = canonical_permutation(t, worker, True, states, i, np.int64(0))
        if lacks_room(t, packing, 1):
            abort_to_grow(t, 0)
        write_image(t, worker, states, i, np.int64(0), g, images, 0)
        pack_columns(t, packing, images, 0, np.int64(0), words, i)
        for f in range(clusters):
            short = content_hash(packing, f, images, 0, np.int64(0))
            number = cluster_number(t, packing, f, images, 0, np.int64(0), short)
            put_bits(words, i, packing.position[f], packing.width[f], np.uint64(number))
        owners[i] = owner(hash_words(words, i))
