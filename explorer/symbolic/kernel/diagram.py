"""Store of decision diagrams in arrays: unique nodes, and a cache of results.

A diagram is a set of vectors with one number for each *level*. A node has a level and edges (value, child), sorted by
value. A path that skips a level has the value 0 there (zero suppression), so absent and empty parts cost nothing. Node
0 is the empty set; node 1 is the set of the one vector whose remaining values are all 0. Children have lower numbers
than parents.

The arrays have the length of the memory limit from the start; the system provides memory on first use. So nothing moves
while compiled code runs, and numbers never wrap. At the limit `META_STOP` is set: an operation in progress returns a
partial result, counts it in `META_INCOMPLETE`, and does not cache it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numba.extending import intrinsic

from kraftcheck.explorer.native.arrays import ArrayGroup, declare_array
from kraftcheck.explorer.native.compiling import inlined, ir, kernel_compiler, types
from kraftcheck.explorer.tables import kernel as tables_kernel
from kraftcheck.explorer.tables.kernel.maps import mix64

jit = kernel_compiler(Path(__file__).parent, Path(tables_kernel.__file__).parent)
_intrinsic: Any = intrinsic


@_intrinsic  # type: ignore[untyped-decorator]
def call_function_at_address(_typing: Any, address: Any, kind: Any, a: Any, b: Any) -> Any:
    """Generate code that calls the function of three integers at an address."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        number = ir.IntType(64)
        function = ir.FunctionType(number, [number] * 3).as_pointer()
        return builder.call(builder.inttoptr(arguments[0], function), arguments[1:])

    return types.int64(*[types.int64] * 4), generate


# Indices of `meta`.
META_NODES, META_EDGES, META_TABLE_MASK, META_CACHE_MASK, META_STACK_TOP, META_STOP, META_INCOMPLETE = range(7)
META_LEVELS, META_CALLBACK, META_LOOKUP_MASK, META_LOOKUPS, META_MAP_ITEMS, META_NEXT_TICK = range(7, 13)
META_CACHED_RESULTS, META_RELATION_EDGES, META_ROUND, META_SUMMARY_ENTRIES, META_CHOSEN_EDGES = range(13, 18)
META_MOST_BYTES, META_EXTRA_SUMMARIES, META_NODES_AT_DROP = range(18, 21)
META_SIZE = 24

# Reasons for calling Python.
CALL_TO_APPLY, CALL_TO_LEARN, CALL_AT_TICK = 1, 2, 3

# Operation codes in cache keys.
OP_UNION, OP_DIFFERENCE, OP_INTERSECTION, OP_SUCCESSORS, OP_DOMAIN, OP_PROJECT, OP_COUNT_STEPS = range(1, 8)
OP_PREDECESSORS, OP_LEARNED, OP_MAY_FOLLOW, OP_CHOSEN_EDGES = range(8, 12)
OP_SATURATED = 12  # at bit 24 of the second key word: a node takes the place of the operation code there

LOW_32_BITS = np.int64((1 << 32) - 1)
NODES_RESERVED_TO_FINISH = 1 << 16  # nodes and edges reserved for the operations in progress at the limit
BYTES_A_NODE = 152  # with its entries in the hash table, the cache and the summaries
BYTES_AN_EDGE = 8
NODES_A_CLOCK_CALLBACK = 1 << 17  # new nodes between two callbacks that check the clock
EDGES_THAT_COUNT_AS_A_NODE = 1 << 4  # a node of a variable with many values may have thousands
CACHED_RESULTS_A_NODE = 2  # results for each node, up to which the cache is doubled
UNKNOWN_RESULT = np.int64(-3)
FIRST_RELATION_EDGE_KEY = np.int64(1 << 28)  # lookup keys from here on are edges of relations, by node
MOST_NODES = (1 << 31) - 1


class DiagramArrays(ArrayGroup):
    """The diagram store, and the relations over it."""

    meta = declare_array(np.int64)
    nodes = declare_array(np.int64, 3)  # start of the edges; level << 32 | number of edges; place of its summary, or 0
    edges = declare_array(np.int64)  # value << 32 | child
    table = declare_array(np.int32)  # hash table of nodes
    cache = declare_array(np.int64, 3)  # two key words, result
    scratch = declare_array(np.int64)  # stack of edges under construction
    stamps = declare_array(np.int64)  # by place on the stack: the child to which events were applied

    lookups = declare_array(np.int64, 2)  # label << 32 | value -> value, or start << 24 | number of map items
    map_items = declare_array(np.int64)  # lists of the classes of values
    relation_nodes = declare_array(
        np.int64, 6
    )  # level; has edges by value; by class; first general edge; gate; has guards
    relation_edges = declare_array(np.int64, 3)  # next value or label; child; the next edge for the same value or class
    first_event = declare_array(np.int64)  # by level: the first group of events that begins there
    next_event = declare_array(np.int64)
    event_root = declare_array(np.int64)  # by group: its relation
    watch_version = declare_array(np.int64)  # by level: number of changes of its watches
    next_top = declare_array(np.int64)  # by level: the first level from there on where an event or a watch begins
    first_watch = declare_array(np.int64)  # by level: its first watch
    next_watch = declare_array(np.int64)
    watch_known = declare_array(np.int64)  # by watch: the vectors learned so far
    watch_tail = declare_array(np.int64)
    tails = declare_array(np.int64, 4)  # level; map (0: identity); tail of the later levels (0: none); slot
    slot_tail = declare_array(np.int64)
    slot_count = declare_array(np.int64)  # by level: number of slots of tails that begin there or later
    summaries = declare_array(np.int32)
    chosen = declare_array(np.int32)  # lists of relation edges that a projection allows
    message_maps = declare_array(np.int64)  # by level: the map to deliverable messages


@inlined
def level_of_node(d: Any, a: Any) -> Any:
    """Return the level of a node; for node 1, the number of levels."""
    return d.nodes[a, 1] >> 32


@inlined
def push_edge(d: Any, edge: Any) -> None:
    """Push an edge onto the stack."""
    top = d.meta[META_STACK_TOP]
    if top >= len(d.scratch):
        d.meta[META_STOP] = 2
        d.meta[META_INCOMPLETE] += 1
    else:
        d.scratch[top] = edge
        d.meta[META_STACK_TOP] = top + 1


@inlined
def _hash_edges(level: Any, words: Any, start: Any, n: Any) -> Any:
    h = np.uint64(level) * np.uint64(0x9E3779B97F4A7C15)
    for i in range(start, start + n):
        h = (h ^ np.uint64(words[i])) * np.uint64(0xD6E8FEB86659FD93)
        h ^= h >> np.uint64(29)
    return np.int64(h >> np.uint64(1))


@jit
def rebuild_node_table(d: Any, size: Any) -> None:
    """Rebuild the hash table of the nodes with a given size."""
    d.table[:size] = 0
    d.meta[META_TABLE_MASK] = size - 1
    for a in range(2, d.meta[META_NODES]):
        h = _hash_edges(d.nodes[a, 1] >> 32, d.edges, d.nodes[a, 0], d.nodes[a, 1] & LOW_32_BITS) & (size - 1)
        while d.table[h]:
            h = (h + 1) & (size - 1)
        d.table[h] = a


@jit
def grow_cache(d: Any) -> None:
    """Double the cache, and keep its entries."""
    d.meta[META_CACHED_RESULTS] = 0
    size = d.meta[META_CACHE_MASK] + 1
    d.cache[size : 2 * size] = 0
    d.meta[META_CACHE_MASK] = 2 * size - 1
    for i in range(0, size, 2):
        first, second = d.cache[i].copy(), d.cache[i + 1].copy()
        d.cache[i : i + 2] = 0
        for entry in (second, first):
            if entry[1]:
                _cache_at_first_place(d, entry[0], entry[1], entry[2])


@jit
def _add_node(d: Any, level: Any, base: Any, n: Any, place: Any) -> Any:
    """Add a node; return its number, or 0 if there is no room."""
    meta = d.meta
    a, start = meta[META_NODES], meta[META_EDGES]
    if a + 1 >= len(d.nodes) or start + n >= len(d.edges):
        meta[META_STOP] = 1
        meta[META_INCOMPLETE] += 1
        return np.int64(0)
    # Near the limit, stop early: operations in progress still need nodes for their partial results.
    is_near = a + min(NODES_RESERVED_TO_FINISH, len(d.nodes) >> 2) >= len(d.nodes)
    is_near |= start + n + min(NODES_RESERVED_TO_FINISH, len(d.edges) >> 2) >= len(d.edges)
    if is_near or BYTES_A_NODE * a + BYTES_AN_EDGE * (start + n) > meta[META_MOST_BYTES]:
        meta[META_STOP] = max(meta[META_STOP], 1)
    d.nodes[a, 0] = start
    d.nodes[a, 1] = level << 32 | n
    d.nodes[a, 2] = 0
    for i in range(n):
        d.edges[start + i] = d.scratch[base + i]
    d.table[place] = a
    meta[META_NODES] = a + 1
    meta[META_EDGES] = start + n
    # The hash table and the cache grow with the nodes; a callback checks the clock now and then.
    size = meta[META_TABLE_MASK] + 1
    if 3 * a > 2 * size and 2 * size <= len(d.table):
        rebuild_node_table(d, 2 * size)
    size = meta[META_CACHE_MASK] + 1
    if meta[META_CACHED_RESULTS] > size and size <= CACHED_RESULTS_A_NODE * a and 2 * size <= len(d.cache):
        grow_cache(d)
    work = a + (start + n) // EDGES_THAT_COUNT_AS_A_NODE
    if work >= meta[META_NEXT_TICK]:
        meta[META_NEXT_TICK] = work + NODES_A_CLOCK_CALLBACK
        call_function_at_address(meta[META_CALLBACK], CALL_AT_TICK, 0, 0)
    return a


@jit
def find_or_add_node(d: Any, level: Any, base: Any, n: Any) -> Any:
    """Return the node with the edges scratch[base:base + n], which are sorted and have non-empty children."""
    if n == 0:
        return np.int64(0)
    scratch, edges = d.scratch, d.edges
    # Zero suppression: a node with the only value 0 is represented by its child.
    if n == 1 and scratch[base] >> 32 == 0:
        return scratch[base] & LOW_32_BITS
    mask = d.meta[META_TABLE_MASK]
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
    return _add_node(d, level, base, n, h)


@inlined
def _cache_place(d: Any, key1: Any, key2: Any) -> Any:
    """Return the first of the two cache places of a key.

    The place is unsigned: for a signed one, compiled code took the second place as counted from the end.
    """
    hashed = np.uint64(mix64(key1 ^ (key2 * np.int64(0x2545F4914F6CDD1D))))
    return hashed & np.uint64(d.meta[META_CACHE_MASK]) & ~np.uint64(1)


@inlined
def cached_result(d: Any, key1: Any, key2: Any) -> Any:
    """Return the cached result of a key, or UNKNOWN_RESULT."""
    i = _cache_place(d, key1, key2)
    if d.cache[i, 0] == key1 and d.cache[i, 1] == key2:
        return d.cache[i, 2]
    j = i + np.uint64(1)
    if d.cache[j, 0] == key1 and d.cache[j, 1] == key2:
        return d.cache[j, 2]
    return UNKNOWN_RESULT


@inlined
def _cache_at_first_place(d: Any, key1: Any, key2: Any, result: Any) -> None:
    """Cache a result at the first of its key's two places; move the old entry to the second."""
    i = _cache_place(d, key1, key2)
    if d.cache[i, 1] and (d.cache[i, 0] != key1 or d.cache[i, 1] != key2):
        for k in range(3):
            d.cache[i + np.uint64(1), k] = d.cache[i, k]
    d.cache[i, 0] = key1
    d.cache[i, 1] = key2
    d.cache[i, 2] = result


@inlined
def cache_result_if_complete(d: Any, key1: Any, key2: Any, result: Any, before: Any) -> None:
    """Cache a complete result; `before` is the value of META_INCOMPLETE at the start of the operation."""
    if d.meta[META_INCOMPLETE] == before:
        _cache_at_first_place(d, key1, key2, result)
        d.meta[META_CACHED_RESULTS] += 1


@jit
def cache_label_result(d: Any, key: Any, value: Any) -> None:
    """Cache the result of applying a label to a value."""
    meta, lookups = d.meta, d.lookups
    size = meta[META_LOOKUP_MASK] + 1
    if 3 * meta[META_LOOKUPS] > 2 * size and 2 * size <= len(lookups):
        old = lookups[:size].copy()
        lookups[: 2 * size] = -1
        meta[META_LOOKUP_MASK] = 2 * size - 1
        for i in range(size):
            if old[i, 0] != -1:
                _put_label_result(d, old[i, 0], old[i, 1])
    if cached_label_result(d, key >> 32, key & LOW_32_BITS) == UNKNOWN_RESULT:
        meta[META_LOOKUPS] += 1
    _put_label_result(d, key, value)


@inlined
def _put_label_result(d: Any, key: Any, value: Any) -> None:
    mask = d.meta[META_LOOKUP_MASK]
    i = np.int64(mix64(key)) & mask
    while d.lookups[i, 0] != -1 and d.lookups[i, 0] != key:
        i = (i + 1) & mask
    d.lookups[i, 0] = key
    d.lookups[i, 1] = value


@inlined
def cached_label_result(d: Any, label: Any, value: Any) -> Any:
    """Return the cached result of applying a label to a value, -1 for a refusal; UNKNOWN_RESULT if it is not cached."""
    key = label << 32 | value
    mask = d.meta[META_LOOKUP_MASK]
    i = np.int64(mix64(key)) & mask
    while d.lookups[i, 0] != -1:
        if d.lookups[i, 0] == key:
            return d.lookups[i, 1]
        i = (i + 1) & mask
    return UNKNOWN_RESULT


@inlined
def first_relation_edge_for_key(d: Any, r: Any, how: Any, key: Any) -> Any:
    """Return a relation's first edge for a value (`how` = 0) or a class (1); negative if there is none."""
    return cached_label_result(d, FIRST_RELATION_EDGE_KEY + (r << 1 | how), key)


@jit
def add_relation_edge(d: Any, r: Any, how: Any, key: Any, result: Any, child: Any) -> None:
    """Add an edge to a relation's node. An iteration in progress over the node's edges does not see it."""
    rule, number = d.relation_nodes[r], d.meta[META_RELATION_EDGES]
    d.meta[META_RELATION_EDGES] = number + 1
    d.relation_edges[number, 0] = result
    d.relation_edges[number, 1] = child
    if how == 2:
        d.relation_edges[number, 2] = rule[3]
        rule[3] = number
    else:
        rule[1 + how] = 1
        d.relation_edges[number, 2] = first_relation_edge_for_key(d, r, how, key)
        cache_label_result(d, (FIRST_RELATION_EDGE_KEY + (r << 1 | how)) << 32 | key, number)


@inlined
def apply_label(d: Any, label: Any, value: Any) -> Any:
    """Return the result of applying a label to a value; call Python if it is not cached."""
    found = cached_label_result(d, label, value)
    if found == UNKNOWN_RESULT:
        found = call_function_at_address(d.meta[META_CALLBACK], CALL_TO_APPLY, label, value)
    return found


@inlined
def map_value_to_class_span(d: Any, mapped: Any, value: Any) -> Any:
    """Return where the classes of a value are stored, as start << 24 | count; 0 after a failed callback."""
    return max(apply_label(d, mapped, value), np.int64(0))
