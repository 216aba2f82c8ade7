"""Preimage: the states of a set from which a relation leads into another set."""

from __future__ import annotations

from typing import Any

import numpy as np

from kraftcheck.explorer.symbolic.kernel.calling import jit
from kraftcheck.explorer.symbolic.kernel.diagram import (
    BEFORE,
    INCOMPLETE,
    LOW,
    STOP,
    TOP,
    UNKNOWN,
    cached,
    classes_of,
    first_edge,
    level_of,
    looked_up,
    push,
    remember,
)
from kraftcheck.explorer.symbolic.kernel.operations import finish, intersection, union
from kraftcheck.explorer.tables.kernel.native import inlined


@inlined
def child_at(d: Any, b: Any, level: Any, value: Any) -> Any:
    """Return a set's child for a value at a level; the set's node must not be above that level."""
    if b == 0 or level_of(d, b) > level:
        return b if value == 0 else np.int64(0)
    low, end = d.nodes[b, 0], d.nodes[b, 0] + (d.nodes[b, 1] & LOW)
    high = end
    while low < high:
        middle = (low + high) >> 1
        if d.edges[middle] >> 32 < value:
            low = middle + 1
        else:
            high = middle
    return d.edges[low] & LOW if low < end and d.edges[low] >> 32 == value else np.int64(0)


@jit
def predecessors(d: Any, a: Any, r: Any, b: Any) -> Any:
    """Return the states of the set `a` that have a successor under the relation `r` in the set `b`."""
    if a == 0 or r == 0 or b == 0:
        return np.int64(0)
    if r == 1:
        return intersection(d, a, b)
    key1, key2 = a << 32 | r, np.int64(BEFORE) << 32 | b
    found = cached(d, key1, key2)
    if found != UNKNOWN:
        return found
    before = d.meta[INCOMPLETE]
    if d.meta[STOP]:
        d.meta[INCOMPLETE] += 1
        return np.int64(0)
    rule, table = d.relation_nodes[r], d.relation_edges
    level = min(rule[0], level_of(d, a), level_of(d, b))
    start, n, skips = d.nodes[a, 0], d.nodes[a, 1] & LOW, level_of(d, a) > level
    base = d.meta[TOP]
    # For each edge, compute the part of its child that leads into the set, with the kinds of events of `product`.
    for i in range(1 if skips else n):
        e = a if skips else d.edges[start + i]
        value, child, rest = e >> 32, e & LOW, np.int64(0)
        if level < rule[0]:
            rest = predecessors(d, child, r, child_at(d, b, level, value))
        else:
            k = first_edge(d, r, np.int64(0), value) if rule[1] else UNKNOWN
            while k >= 0:
                rest = union(d, rest, predecessors(d, child, table[k, 1], child_at(d, b, level, table[k, 0])))
                k = table[k, 2]
            packed = classes_of(d, d.message_maps[level], value) if rule[2] else np.int64(0)
            for item in range(packed >> 24, (packed >> 24) + (packed & 0xFFFFFF)):
                k = first_edge(d, r, np.int64(1), d.map_items[item])
                while k >= 0:
                    target = looked_up(d, table[k, 0], value)
                    if target >= 0:
                        rest = union(d, rest, predecessors(d, child, table[k, 1], child_at(d, b, level, target)))
                    k = table[k, 2]
            k = rule[3]
            while k >= 0:
                target = looked_up(d, table[k, 0], value)
                if target >= 0:
                    rest = union(d, rest, predecessors(d, child, table[k, 1], child_at(d, b, level, target)))
                k = table[k, 2]
        if rest:
            push(d, value << 32 | rest)
    result = finish(d, level, base)
    remember(d, key1, key2, result, before)
    return result
