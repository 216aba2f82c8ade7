"""A store of decision diagrams in arrays: nodes that are never equal, and a cache of results.

A diagram is a set of vectors of numbers, one number for each *level*. A node has a level and edges (value, child)
sorted by value; a path that skips a level has the value 0 there, so what is absent or empty costs nothing. Node 0 is
the empty set, node 1 the set of the one vector whose remaining values are all 0. Children have lower numbers than
parents.

The arrays have the length of the memory limit from the start; the system gives memory to what is used. So nothing moves
while compiled code runs, and numbers never wrap: where the limit is met, `STOP` is set, what is under way comes back as
a part of its result, is counted in `INCOMPLETE`, and is not cached.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kraftcheck.explorer.native.arrays import Arrays, array
from kraftcheck.explorer.symbolic.kernel.calling import call_back, jit
from kraftcheck.explorer.tables.kernel.maps import mix
from kraftcheck.explorer.tables.kernel.native import inlined

# Places in `meta`.
(
    NODES,
    EDGES,
    TABLE_MASK,
    CACHE_MASK,
    TOP,
    STOP,
    INCOMPLETE,
    LEVELS,
    CALLBACK,
    LOOKUP_MASK,
    LOOKUPS,
    ITEMS,
    NEXT_TICK,
    REMEMBERED,
    RELATION_EDGES,
    ROUND,
    SUMMARIES,
    CHOSEN_EDGES,
    ROOM,
    SUMMED,
    DROPPED_AT,
) = range(21)
META_SIZE = 24

# What Python is called for.
APPLY, LEARN, TICK = 1, 2, 3

# Operations, as the cache knows them.
UNION, DIFFERENCE, INTERSECTION, PRODUCT, DOMAIN, PROJECT, PAIRS = range(1, 8)
BEFORE, LEARNED, FOLLOWED, CHOSEN = range(8, 12)
SATURATED = 12  # its keys have a node where others have the operation, and differ from all by this number's place

LOW = np.int64((1 << 32) - 1)
MARGIN = 1 << 16  # nodes and edges that are left for what is under way when the limit is met
BYTES_A_NODE = 152  # with its places in the hash table and in the cache, and its projections
BYTES_AN_EDGE = 8
TICK_NODES = 1 << 17  # new nodes between two looks at the clock
MOST_CACHED = 2  # results for each node that there is, before the cache is doubled no more
UNKNOWN = np.int64(-3)
EDGES_OF = np.int64(1 << 28)  # what is looked up from here on are edges of relations, by node
MOST_NODES = (1 << 31) - 1


class Diagram(Arrays):
    """The store, and the relations over it."""

    meta = array(np.int64)
    nodes = array(np.int64, 3)  # start of the edges; level << 32 | number of edges; where its summary is, or 0
    edges = array(np.int64)  # value << 32 | child
    table = array(np.int32)  # hash table of nodes
    cache = array(np.int64, 3)  # two words of key, result
    scratch = array(np.int64)  # edges that are being put together, as a stack
    stamps = array(np.int64)  # by place on the stack: the child on which events were fired

    lookups = array(np.int64, 2)  # label << 32 | value -> value, or start << 24 | number of map items
    map_items = array(np.int64)  # classes to which a map leads
    relation_nodes = array(np.int64, 6)  # level; are there edges by value, by class; first general one; gate; guards?
    relation_edges = array(np.int64, 3)  # next value or label; child; the next edge for the same value or class
    first_event = array(np.int64)  # by level: the first group of events that begins there
    next_event = array(np.int64)
    event_root = array(np.int64)  # by group: its relation
    watch_version = array(np.int64)  # by level: how often its watches changed
    next_top = array(np.int64)  # by level: the first level from it on at which an event or a watch begins
    first_watch = array(np.int64)  # by level: the first projection that is watched
    next_watch = array(np.int64)
    watch_known = array(np.int64)  # by watch: what was seen of it
    watch_tail = array(np.int64)
    tails = array(np.int64, 4)  # level; map (0: the value itself); the tail of the levels after (0: none); slot
    slot_tail = array(np.int64)
    slot_count = array(np.int64)  # by level: slots of tails that begin there or below
    summaries = array(np.int32)
    chosen = array(np.int32)  # edges of relations that something may follow
    message_maps = array(np.int64)  # by level: the map to deliverable messages


@inlined
def level_of(d: Any, a: Any) -> Any:
    """Return the level of a node; of node 1 it is the number of levels."""
    return d.nodes[a, 1] >> 32


@inlined
def push(d: Any, edge: Any) -> None:
    """Put an edge on the stack."""
    top = d.meta[TOP]
    if top >= len(d.scratch):
        d.meta[STOP] = 2
        d.meta[INCOMPLETE] += 1
    else:
        d.scratch[top] = edge
        d.meta[TOP] = top + 1


@inlined
def _hash_edges(level: Any, words: Any, start: Any, n: Any) -> Any:
    h = np.uint64(level) * np.uint64(0x9E3779B97F4A7C15)
    for i in range(start, start + n):
        h = (h ^ np.uint64(words[i])) * np.uint64(0xD6E8FEB86659FD93)
        h ^= h >> np.uint64(29)
    return np.int64(h >> np.uint64(1))


@jit
def rebuild_table(d: Any, size: Any) -> None:
    """Enter every node into a hash table of this size."""
    d.table[:size] = 0
    d.meta[TABLE_MASK] = size - 1
    for a in range(2, d.meta[NODES]):
        h = _hash_edges(d.nodes[a, 1] >> 32, d.edges, d.nodes[a, 0], d.nodes[a, 1] & LOW) & (size - 1)
        while d.table[h]:
            h = (h + 1) & (size - 1)
        d.table[h] = a


@jit
def grow_cache(d: Any) -> None:
    """Double the cache; what is in it stays."""
    d.meta[REMEMBERED] = 0
    size = d.meta[CACHE_MASK] + 1
    d.cache[size : 2 * size] = 0
    d.meta[CACHE_MASK] = 2 * size - 1
    for i in range(0, size, 2):
        first, second = d.cache[i].copy(), d.cache[i + 1].copy()
        d.cache[i : i + 2] = 0
        for entry in (second, first):
            if entry[1]:
                _keep(d, entry[0], entry[1], entry[2])


@jit
def _add(d: Any, level: Any, base: Any, n: Any, place: Any) -> Any:
    """Add a node; return its number, 0 where there is no room left."""
    meta = d.meta
    a, start = meta[NODES], meta[EDGES]
    if a + 1 >= len(d.nodes) or start + n >= len(d.edges):
        meta[STOP] = 1
        meta[INCOMPLETE] += 1
        return np.int64(0)
    is_near = a + min(MARGIN, len(d.nodes) >> 2) >= len(d.nodes)
    is_near |= start + n + min(MARGIN, len(d.edges) >> 2) >= len(d.edges)
    if is_near or BYTES_A_NODE * a + BYTES_AN_EDGE * (start + n) > meta[ROOM]:
        meta[STOP] = max(meta[STOP], 1)
    d.nodes[a, 0] = start
    d.nodes[a, 1] = level << 32 | n
    d.nodes[a, 2] = 0
    for i in range(n):
        d.edges[start + i] = d.scratch[base + i]
    d.table[place] = a
    meta[NODES] = a + 1
    meta[EDGES] = start + n
    size = meta[TABLE_MASK] + 1
    if 3 * a > 2 * size and 2 * size <= len(d.table):
        rebuild_table(d, 2 * size)
    size = meta[CACHE_MASK] + 1
    if meta[REMEMBERED] > size and size <= MOST_CACHED * a and 2 * size <= len(d.cache):
        grow_cache(d)
    if a >= meta[NEXT_TICK]:
        meta[NEXT_TICK] = a + TICK_NODES
        call_back(meta[CALLBACK], TICK, 0, 0)
    return a


@jit
def make(d: Any, level: Any, base: Any, n: Any) -> Any:
    """Return the node with the edges scratch[base:base + n], sorted and without the empty set."""
    if n == 0:
        return np.int64(0)
    scratch, edges = d.scratch, d.edges
    if n == 1 and scratch[base] >> 32 == 0:
        return scratch[base] & LOW
    mask = d.meta[TABLE_MASK]
    h = _hash_edges(level, scratch, base, n) & mask
    shape = level << 32 | n
    while d.table[h]:
        a = np.int64(d.table[h])
        if d.nodes[a, 1] == shape:
            start = d.nodes[a, 0]
            k = 0
            while k < n and edges[start + k] == scratch[base + k]:
                k += 1
            if k == n:
                return a
        h = (h + 1) & mask
    return _add(d, level, base, n, h)


@inlined
def _cache_place(d: Any, key1: Any, key2: Any) -> Any:
    """Return the first of the two places where the cache may keep a key.

    It is unsigned: compiled code took the second place for one that is counted from the end.
    """
    hashed = np.uint64(mix(key1 ^ (key2 * np.int64(0x2545F4914F6CDD1D))))
    return hashed & np.uint64(d.meta[CACHE_MASK]) & ~np.uint64(1)


@inlined
def cached(d: Any, key1: Any, key2: Any) -> Any:
    """Return the result that is known for a key, or UNKNOWN."""
    i = _cache_place(d, key1, key2)
    if d.cache[i, 0] == key1 and d.cache[i, 1] == key2:
        return d.cache[i, 2]
    j = i + np.uint64(1)
    if d.cache[j, 0] == key1 and d.cache[j, 1] == key2:
        return d.cache[j, 2]
    return UNKNOWN


@inlined
def _keep(d: Any, key1: Any, key2: Any, result: Any) -> None:
    """Cache a result in the first of its two places; what was there goes to the second."""
    i = _cache_place(d, key1, key2)
    if d.cache[i, 1] and (d.cache[i, 0] != key1 or d.cache[i, 1] != key2):
        for k in range(3):
            d.cache[i + np.uint64(1), k] = d.cache[i, k]
    d.cache[i, 0] = key1
    d.cache[i, 1] = key2
    d.cache[i, 2] = result


@inlined
def remember(d: Any, key1: Any, key2: Any, result: Any, before: Any) -> None:
    """Cache a result, unless it is only a part of one: `before` is what INCOMPLETE was at first."""
    if d.meta[INCOMPLETE] == before:
        _keep(d, key1, key2, result)
        d.meta[REMEMBERED] += 1


@jit
def put_lookup(d: Any, key: Any, value: Any) -> None:
    """Note what a label makes of a value."""
    meta, lookups = d.meta, d.lookups
    size = meta[LOOKUP_MASK] + 1
    if 3 * meta[LOOKUPS] > 2 * size and 2 * size <= len(lookups):
        old = lookups[:size].copy()
        lookups[: 2 * size] = -1
        meta[LOOKUP_MASK] = 2 * size - 1
        for i in range(size):
            if old[i, 0] != -1:
                _enter(d, old[i, 0], old[i, 1])
    if known_lookup(d, key >> 32, key & LOW) == UNKNOWN:
        meta[LOOKUPS] += 1
    _enter(d, key, value)


@inlined
def _enter(d: Any, key: Any, value: Any) -> None:
    mask = d.meta[LOOKUP_MASK]
    i = np.int64(mix(key)) & mask
    while d.lookups[i, 0] != -1 and d.lookups[i, 0] != key:
        i = (i + 1) & mask
    d.lookups[i, 0] = key
    d.lookups[i, 1] = value


@inlined
def known_lookup(d: Any, label: Any, value: Any) -> Any:
    """Return what a label makes of a value (-1: refused), or UNKNOWN."""
    key = label << 32 | value
    mask = d.meta[LOOKUP_MASK]
    i = np.int64(mix(key)) & mask
    while d.lookups[i, 0] != -1:
        if d.lookups[i, 0] == key:
            return d.lookups[i, 1]
        i = (i + 1) & mask
    return UNKNOWN


@inlined
def first_edge(d: Any, r: Any, how: Any, key: Any) -> Any:
    """Return the first edge of a relation for a value (how: 0) or a class (1); negative where there is none."""
    return known_lookup(d, EDGES_OF + (r << 1 | how), key)


@jit
def add_edge(d: Any, r: Any, how: Any, key: Any, result: Any, child: Any) -> None:
    """Give a relation's node another edge. What goes through the node's edges meanwhile does not see it."""
    rule, number = d.relation_nodes[r], d.meta[RELATION_EDGES]
    d.meta[RELATION_EDGES] = number + 1
    d.relation_edges[number, 0] = result
    d.relation_edges[number, 1] = child
    if how == 2:
        d.relation_edges[number, 2] = rule[3]
        rule[3] = number
    else:
        rule[1 + how] = 1
        d.relation_edges[number, 2] = first_edge(d, r, how, key)
        put_lookup(d, (EDGES_OF + (r << 1 | how)) << 32 | key, number)


@inlined
def looked_up(d: Any, label: Any, value: Any) -> Any:
    """Return what a label makes of a value, asking Python where it is not known."""
    found = known_lookup(d, label, value)
    if found == UNKNOWN:
        found = call_back(d.meta[CALLBACK], APPLY, label, value)
    return found


@inlined
def classes_of(d: Any, mapped: Any, value: Any) -> Any:
    """Return the classes to which a map leads, as start << 24 | number; none where Python could not say."""
    return max(looked_up(d, mapped, value), np.int64(0))
