"""Passes over all nodes: reachability, numbers of vectors, garbage collection."""

from __future__ import annotations

from typing import Any

import numpy as np

from kraftcheck.explorer.symbolic.kernel.diagram import (
    CACHE_MASK,
    CHOSEN_EDGES,
    DROPPED_AT,
    EDGES,
    LOW,
    NODES,
    TABLE_MASK,
    jit,
    rebuild_table,
)
from kraftcheck.explorer.symbolic.kernel.projections import forget_summaries


@jit
def mark(d: Any, roots: Any) -> Any:
    """Return for each node whether it is reachable from the roots."""
    marked = np.zeros(d.meta[NODES], np.bool_)
    marked[:2] = True
    for root in roots:
        marked[root] = True
    # Children have lower numbers than parents, so one descending pass marks every reachable node.
    for a in range(d.meta[NODES] - 1, 1, -1):
        if marked[a]:
            start = d.nodes[a, 0]
            for i in range(start, start + (d.nodes[a, 1] & LOW)):
                marked[d.edges[i] & LOW] = True
    return marked


@jit
def count(d: Any, marked: Any, total: Any, limbs: Any) -> Any:
    """Return the number of vectors of each marked node, as 32-bit digits, the lowest first."""
    places = np.zeros(len(marked), np.int32)
    counts = np.zeros((total, limbs), np.uint64)
    counts[1, 0] = 1
    places[1] = 1
    free = 2
    # Children come first, so their counts are complete. 32-bit digits in 64-bit words leave room for the carries.
    for a in range(2, len(marked)):
        if marked[a]:
            start = d.nodes[a, 0]
            for i in range(start, start + (d.nodes[a, 1] & LOW)):
                place = places[d.edges[i] & LOW]
                for k in range(limbs):
                    counts[free, k] += counts[place, k]
            carry = np.uint64(0)
            for k in range(limbs):
                carry += counts[free, k]
                counts[free, k] = carry & np.uint64(0xFFFFFFFF)
                carry >>= np.uint64(32)
            counts[free, limbs - 1] += carry << np.uint64(32)
            places[a] = free
            free += 1
    return places, counts


@jit
def collect_garbage(d: Any, roots: Any) -> None:
    """Keep the nodes reachable from the roots, renumber them, and update the roots."""
    marked = mark(d, roots)
    renumbered = np.zeros(len(marked), np.int32)
    renumbered[1] = 1
    free, place = 2, 0
    # Nodes and edges only move towards the front, so they are compacted in place.
    for a in range(2, len(marked)):
        if marked[a]:
            start, n = d.nodes[a, 0], d.nodes[a, 1] & LOW
            for i in range(n):
                e = d.edges[start + i]
                d.edges[place + i] = e & ~LOW | renumbered[e & LOW]
            d.nodes[free, 0] = place
            d.nodes[free, 1] = d.nodes[a, 1]
            place += n
            renumbered[a] = free
            free += 1
    d.meta[NODES] = free
    d.meta[EDGES] = place
    for i in range(len(roots)):
        roots[i] = renumbered[roots[i]]
    # The cache, the chosen edges and the summaries refer to the old numbers.
    d.cache[: d.meta[CACHE_MASK] + 1] = 0
    d.meta[CHOSEN_EDGES] = 0
    forget_summaries(d)
    d.meta[DROPPED_AT] = 0
    rebuild_table(d, d.meta[TABLE_MASK] + 1)
