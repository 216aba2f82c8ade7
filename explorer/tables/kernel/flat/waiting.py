"""Queue of flat successors whose cluster ids are to be looked up.

A lookup is a random read in a large table. The queue computes the hashes of many successors and prefetches their
entries, so that the reads overlap.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kraftcheck.explorer.tables.kernel import codes
from kraftcheck.explorer.tables.kernel.expand import RECENT, is_repeated
from kraftcheck.explorer.tables.kernel.flat.fields import (
    NOTHING,
    WHERE,
    cluster_number,
    content_hash,
    give_back_room,
    place_of,
)
from kraftcheck.explorer.tables.kernel.native import inlined, jit, prefetch
from kraftcheck.explorer.tables.kernel.packing import hash_words, owner, put_bits

WAITING = 1 << 6  # places of the queue


@inlined
def put(found: Any, recent: Any, words: Any, k: Any, rows: Any, row: Any, column: Any) -> Any:
    """Append the state rows[row, column:] to the partition that owns it.

    Returns that partition's count, or 0 for a recent duplicate.
    """
    h = hash_words(words, k)
    if is_repeated(recent, words, k, np.int64(h & np.uint64(RECENT - 1))):
        return np.int64(0)
    p = owner(h)
    at = found.counts[p]
    for c in range(found.rows.shape[2]):
        found.rows[p, at, c] = rows[row, column + c]
    for w in range(words.shape[1]):
        found.words[p, at, w] = words[k, w]
    found.counts[p] = at + 1
    return np.int64(at + 1)


@inlined
def ask_for_contents(t: Any, packing: Any, worker: Any, held: Any, count: Any) -> None:
    """Hash the clusters of the queued successors, and prefetch their entries."""
    clusters, hashes = packing.clusters[0], worker.waiting_hashes
    for k in range(count):
        for f in range(clusters):
            hashes[k, f] = content_hash(packing, f, held, k, np.int64(0))
            if hashes[k, f] != NOTHING:
                prefetch(t.cluster_table, place_of(t.cluster_table, hashes[k, f]))
    for k in range(count):
        for f in range(clusters):
            if hashes[k, f] != NOTHING:
                prefetch(t.cluster_items, t.cluster_table[place_of(t.cluster_table, hashes[k, f])] & WHERE)


@jit
def serve(t: Any, packing: Any, worker: Any, found: Any, recent: Any, count: Any, images: Any) -> Any:
    """Pack the queued successors and append them to their partitions; return the largest count of a partition.

    With `images`, the canonical image of each successor is packed.
    """
    held = worker.waiting_images if images else worker.waiting_rows
    words, clusters, fullest = worker.waiting_words, packing.clusters[0], np.int64(0)
    ask_for_contents(t, packing, worker, held, count)
    for k in range(count):
        for f in range(clusters):
            number = cluster_number(t, packing, f, held, k, np.int64(0), worker.waiting_hashes[k, f])
            put_bits(words, k, packing.position[f], packing.width[f], np.uint64(number))
        fullest = codes.larger(fullest, put(found, recent, words, k, worker.waiting_rows, k, np.int64(0)))
    give_back_room(t, count)
    return fullest
