"""Expansion of batches of flat states, and their canonical keys.

A successor with clusters is queued until its cluster ids are looked up. Each lookup is a random read in a large
table; the queue hashes many successors and prefetches their entries, so that the reads overlap.

Under symmetry the key is the packed least image. Images of local states and inbox contents are cached by id. Images
are compared column by column, since the first columns rule out most permutations. Only the image of the remaining
permutation is built as a whole.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kraftcheck.explorer.native.compiling import inlined, prefetch, stack_array, unowned_array
from kraftcheck.explorer.tables.kernel import arrays, codes, interning, jit, maps
from kraftcheck.explorer.tables.kernel.expand import (
    PREFETCH_DISTANCE,
    RECENT_PLACES,
    append_state_unless_recent,
    forget_recent_successors,
)
from kraftcheck.explorer.tables.kernel.flat.successors import (
    evaluate_invariants_of_pruned_successors,
    expand_flat_state,
)
from kraftcheck.explorer.tables.kernel.packing import (
    ALL_ZERO_HASH,
    CLUSTER_ITEM_MASK,
    column_cluster_hash,
    column_cluster_home,
    hash_words,
    intern_column_cluster_contents,
    lacks_column_cluster_room,
    pack_single_columns,
    partition_of_hash,
    put_bits,
    release_column_cluster_room,
    try_reserve_column_cluster_room,
)

ABOVE_ALL_IMAGES = np.int64(1 << 62)


@inlined
def state_part_image(permuted: Any, number: Any, g: Any) -> Any:
    """Return the image of a local state or an inbox content; 0 is its own image."""
    return np.int64(0) if number == 0 else np.int64(permuted[number, g])


@inlined
def keep_least_image_permutations(
    permuted: Any, worker: Any, states: Any, at: Any, first: Any, slots: Any, count: Any
) -> Any:
    """Move the permutations with the least images of these columns to the front of `worker.left`; count them."""
    left, sources, present = worker.left, worker.sources, np.int64(0)
    for s in range(slots):
        present |= np.int64(states[at, first + s] != 0) << (s & 63)
    for p in range(slots):
        if count == 1:
            break
        if present & worker.sources_of[p] == 0:  # every permutation moves an absent replica there
            continue
        least, found = ABOVE_ALL_IMAGES, 0
        for j in range(count):
            g = left[j]
            value = state_part_image(permuted, np.int64(states[at, first + sources[g, p]]), g)
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
    base, slots = t.meta[codes.META_SLOT_BASE], worker.sources.shape[1]
    inboxes = base + slots
    bounds, left, count = t.meta[codes.META_BOUNDS], worker.left, t.meta[codes.META_PERMUTATIONS]
    # Images of inboxes may be missing; those of local states and shared values are cached when these are interned.
    for s in range(slots):
        content = np.int64(states[at, column + inboxes + s])
        if content != 0 and t.inbox_codes[content] & codes.CODE_IMAGED == 0:  # a dense array, unlike the image table
            if t.permuted_contents[content, 0] < 0:
                if not serial:
                    return np.int64(codes.MISSING)
                interning.intern_inbox_images(t, content)
            t.inbox_codes[content] |= codes.CODE_IMAGED
    # Drop permutations column by column: by local states, then inboxes, then shared fields.
    for g in range(count):
        left[g] = g
    count = keep_least_image_permutations(t.permuted_locals, worker, states, at, column + base, slots, count)
    count = keep_least_image_permutations(t.permuted_contents, worker, states, at, column + inboxes, slots, count)
    for c in range(bounds, base):
        if count == 1 or t.hidden[c]:
            continue
        value = np.int64(states[at, column + c])
        least, found = ABOVE_ALL_IMAGES, 0
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
def write_image_under_permutation(
    t: Any, worker: Any, states: Any, at: Any, column: Any, g: Any, images: Any, place: Any
) -> None:
    """Write the image of the flat state states[at, column:] under permutation `g` to images[place]."""
    base, slots = t.meta[codes.META_SLOT_BASE], worker.sources.shape[1]
    inboxes = base + slots
    bounds = t.meta[codes.META_BOUNDS]
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
        images[place, base + p] = state_part_image(t.permuted_locals, np.int64(states[at, column + base + source]), g)
        images[place, inboxes + p] = state_part_image(
            t.permuted_contents, np.int64(states[at, column + inboxes + source]), g
        )


@inlined
def find_canonical_permutations(t: Any, worker: Any, serial: Any, n: Any) -> Any:
    """Find the permutation for the least image of each successor; return whether all images are cached."""
    known = True
    for k in range(n):
        if worker.succ[k, 1] != codes.SELF_LOOP_FLAGS:
            worker.least[k] = canonical_permutation(t, worker, serial, worker.succ, k, np.int64(2))
            known &= worker.least[k] != codes.MISSING
    return known


@jit
def pack_flat_rows(t: Any, packing: Any, worker: Any, states: Any, words: Any, owners: Any) -> None:
    """Write packed flat states and their partitions, in one thread; repeat the call if cluster ids outgrow a field."""
    states, words, owners = unowned_array(states), unowned_array(words), unowned_array(owners)
    images, clusters = worker.waiting_images, packing.clusters[0]
    for i in range(len(states)):
        g = np.int64(0)
        if t.meta[codes.META_PERMUTATIONS] > 1:
            g = canonical_permutation(t, worker, True, states, i, np.int64(0))
        if lacks_column_cluster_room(t, packing, 1):
            arrays.abort_to_grow(t, 0)
        write_image_under_permutation(t, worker, states, i, np.int64(0), g, images, 0)
        pack_single_columns(t, packing, images, 0, np.int64(0), words, i)
        for f in range(clusters):
            short = column_cluster_hash(packing, f, images, 0, np.int64(0))
            number = intern_column_cluster_contents(t, packing, f, images, 0, np.int64(0), short)
            put_bits(words, i, packing.position[f], packing.width[f], np.uint64(number))
        owners[i] = partition_of_hash(hash_words(words, i))


MOST_EXPANSIONS_BEFORE_PYTHON = 16  # expansions of a state before Python answers its requests
IS_QUEUED = np.int64(-1)  # in place of a count: the successor is queued
QUEUE_PLACES = 1 << 6  # places of the queue


@jit
def resolve_flat_misses(packing: Any, t: Any, worker: Any) -> None:
    """Expand flat states that met cache misses again, and fill the tables; leave those that need Python waiting."""
    while t.meta[codes.META_SETTLED] < t.meta[codes.META_LEFT]:
        at, tries = np.int64(t.waiting[t.meta[codes.META_SETTLED]]), 0
        while True:
            n = expand_flat_state(t, packing, worker, at, True)
            known = (
                n != codes.MISSING
                and n != codes.BUFFER_FULL
                and evaluate_invariants_of_pruned_successors(t, worker, True, n)
            )
            if known and t.meta[codes.META_PERMUTATIONS] > 1:
                known = find_canonical_permutations(t, worker, True, n)
            if known or n == codes.BUFFER_FULL:
                break
            tries += 1
            if t.meta[codes.META_ASKED] or tries == MOST_EXPANSIONS_BEFORE_PYTHON:
                t.waiting[t.meta[codes.META_WAITING]] = at
                t.meta[codes.META_WAITING] += 1
                break
        t.meta[codes.META_SETTLED] += 1


@inlined
def record_flat_successor_violations(t: Any, worker: Any, state: Any, k: Any) -> Any:
    """Record new violations by successor `k` or the step to it; return False where a constraint prunes it."""
    flags = np.int64(worker.succ[k, 1])
    arrays.record_violations(
        worker, state, codes.EVENT_BAD_STEP, codes.STATS_STEP_SEEN, codes.step_violation_mask(flags)
    )
    if flags & codes.STEP_PRUNED == 0:
        return True
    arrays.record_violations(worker, state, codes.EVENT_BAD_STATE, codes.STATS_SEEN, np.int64(worker.broken[k]))
    return False


@inlined
def prefetch_inboxes(t: Any, worker: Any, at: Any) -> None:
    """Prefetch the table entries of a flat state's inboxes."""
    columns = worker.states.shape[1]
    for s in range(codes.slot_count_of_flat_state(t, columns)):
        inbox = np.int64(worker.states[at, codes.first_inbox_column_of_flat_state(t, columns) + s])
        if inbox != 0:
            local = np.int64(worker.states[at, t.meta[codes.META_SLOT_BASE] + s])
            prefetch(t.bundles, maps.home_of_key(t.bundles, codes.pair_key(local, inbox)))
            group = maps.group_start(t.operated, inbox)
            prefetch(t.operated, group)
            prefetch(t.operated, group + maps.GROUP_PLACES // 2)


@inlined
def is_same_packed_state(words: Any, a: Any, b: Any) -> Any:
    """Return whether two packed states are equal."""
    same = True
    for w in range(words.shape[1]):
        same &= words[a, w] == words[b, w]
    return same


@inlined
def hash_and_prefetch_column_clusters(t: Any, packing: Any, worker: Any, held: Any, count: Any) -> None:
    """Hash the column clusters of the first `count` queued successors, and prefetch their hash-table entries."""
    clusters, hashes = packing.clusters[0], worker.waiting_hashes
    for k in range(count):
        for f in range(clusters):
            hashes[k, f] = column_cluster_hash(packing, f, held, k, np.int64(0))
            if hashes[k, f] != ALL_ZERO_HASH:
                prefetch(t.cluster_table, column_cluster_home(t.cluster_table, hashes[k, f]))
    for k in range(count):
        for f in range(clusters):
            if hashes[k, f] != ALL_ZERO_HASH:
                home = column_cluster_home(t.cluster_table, hashes[k, f])
                prefetch(t.cluster_items, t.cluster_table[home] & CLUSTER_ITEM_MASK)


@jit
def flush_queued_successors(t: Any, packing: Any, worker: Any, found: Any, recent: Any, count: Any, images: Any) -> Any:
    """Pack the queued successors, or their `images`, and append them; return the largest count of a partition."""
    held = worker.waiting_images if images else worker.waiting_rows
    words, clusters, fullest = worker.waiting_words, packing.clusters[0], np.int64(0)
    hash_and_prefetch_column_clusters(t, packing, worker, held, count)
    for k in range(count):
        for f in range(clusters):
            number = intern_column_cluster_contents(t, packing, f, held, k, np.int64(0), worker.waiting_hashes[k, f])
            put_bits(words, k, packing.position[f], packing.width[f], np.uint64(number))
        fullest = codes.larger(
            fullest, append_state_unless_recent(found, recent, words, k, worker.waiting_rows, k, np.int64(0))
        )
    release_column_cluster_room(t, count)
    return fullest


@inlined
def append_or_queue_successor(t: Any, packing: Any, worker: Any, found: Any, recent: Any, k: Any, waiting: Any) -> Any:
    """Append successor `k` to its partition, or queue it; return its count, 0 for a duplicate, or IS_QUEUED."""
    words, succ, symmetric = worker.words, worker.succ, t.meta[codes.META_PERMUTATIONS] > 1
    if not symmetric and worker.touched[k] == 0 and is_same_packed_state(words, k, len(words) - 1):
        return np.int64(0)
    if packing.clusters[0] == 0:
        if symmetric:
            write_image_under_permutation(t, worker, succ, k, np.int64(2), worker.least[k], worker.scratch, 0)
            pack_single_columns(t, packing, worker.scratch, 0, np.int64(0), words, k)
        return append_state_unless_recent(found, recent, words, k, succ, k, np.int64(2))
    for c in range(worker.waiting_rows.shape[1]):
        worker.waiting_rows[waiting, c] = succ[k, 2 + c]
    if symmetric:
        write_image_under_permutation(t, worker, succ, k, np.int64(2), worker.least[k], worker.waiting_images, waiting)
        pack_single_columns(t, packing, worker.waiting_images, waiting, np.int64(0), worker.waiting_words, waiting)
    else:
        for w in range(words.shape[1]):
            worker.waiting_words[waiting, w] = words[k, w]
    return IS_QUEUED


@inlined
def expand_and_canonicalize_flat_state(t: Any, packing: Any, worker: Any, at: Any) -> Any:
    """Expand a flat state, and judge and canonicalize its successors; return their number, MISSING or BUFFER_FULL."""
    n = expand_flat_state(t, packing, worker, at, False)
    if n > 0 and not evaluate_invariants_of_pruned_successors(t, worker, False, n):
        n = codes.MISSING
    if n > 0 and t.meta[codes.META_PERMUTATIONS] > 1 and not find_canonical_permutations(t, worker, False, n):
        n = codes.MISSING
    return n


@inlined
def reserve_room_for_successors(t: Any, packing: Any, worker: Any, found: Any, n: Any, fullest: Any) -> Any:
    """Return the code that ends the batch if there is no room for `n` more successors, else OK with room reserved."""
    full = len(worker.collected) > 0 and worker.stats[codes.STATS_COLLECTED] + n > len(worker.collected)
    code = codes.OK
    if n == codes.BUFFER_FULL:
        code = codes.MANY_SUCCESSORS
    elif fullest + codes.larger(n, 0) >= found.rows.shape[1] or full:
        code = codes.NO_ROOM
    elif n > 0 and packing.clusters[0] > 0 and not try_reserve_column_cluster_room(t, packing, n):
        code = codes.MANY_CLUSTERS
    return code


@jit
def expand_flat_batch(t: Any, worker: Any, found: Any, packing: Any, which: Any, deadlocks: Any) -> None:
    """Expand the worker's flat states with these indices; the counterpart of `expand_batch`."""
    succ, stats, which = worker.succ, worker.stats, unowned_array(which)
    symmetric, clusters = t.meta[codes.META_PERMUTATIONS] > 1, packing.clusters[0]
    recent, fullest, waiting = stack_array(RECENT_PLACES, found.words.shape[2]), np.int64(0), np.int64(0)
    forget_recent_successors(recent)
    stats[codes.STATS_CODE] = codes.OK
    stats[codes.STATS_DONE] = len(which)
    for p in range(len(found.counts)):
        fullest = codes.larger(fullest, found.counts[p])
    for i in range(len(which)):
        if i + PREFETCH_DISTANCE < len(which):
            prefetch_inboxes(t, worker, which[i + PREFETCH_DISTANCE])
        # A miss drops all successors of the state, so that its steps are counted once: see `expand_batch`.
        n = expand_and_canonicalize_flat_state(t, packing, worker, which[i])
        if n == codes.MISSING:
            arrays.append_retried_state(worker, which[i])
            continue
        # Stop before an array that might have no room for all of them.
        code = reserve_room_for_successors(t, packing, worker, found, n, fullest + waiting)
        if code != codes.OK:
            arrays.record_early_batch_end(worker, i, code)
            break
        # Count the steps and record violations. A successor goes to the partition that owns it, or is queued: cluster
        # ids are random reads in a large table, and QUEUE_PLACES successors at a time overlap these reads.
        if n == 0 and deadlocks:
            arrays.record_deadlock(worker, which[i])
        notable, unused = stats[codes.STATS_NOTABLE] != 0, n
        for k in range(n):
            worker.fired[succ[k, 0]] += 1
            if succ[k, 1] == codes.SELF_LOOP_FLAGS:
                continue
            pruned = notable and not record_flat_successor_violations(t, worker, which[i], k)
            if len(worker.collected) > 0:
                arrays.collect_successor_for_python(t, worker, which[i], k, pruned)
            if pruned:
                continue
            count = append_or_queue_successor(t, packing, worker, found, recent, k, waiting)
            fullest = codes.larger(fullest, count)
            if count == IS_QUEUED:
                waiting += 1
                unused -= 1
            if waiting == QUEUE_PLACES:
                fullest = codes.larger(
                    fullest, flush_queued_successors(t, packing, worker, found, recent, waiting, symmetric)
                )
                waiting = np.int64(0)
        if clusters > 0 and unused > 0:
            release_column_cluster_room(t, unused)
        stats[codes.STATS_GENERATED] += n
    flush_queued_successors(t, packing, worker, found, recent, waiting, symmetric)
