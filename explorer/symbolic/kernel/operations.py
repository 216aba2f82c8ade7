"""Operations on diagrams: union, difference, intersection, image and preimage of a relation, number of steps."""

from __future__ import annotations

from typing import Any

import numpy as np

from kraftcheck.explorer.native.compiling import inlined
from kraftcheck.explorer.symbolic.kernel.diagram import (
    BEFORE,
    DIFFERENCE,
    DOMAIN,
    INCOMPLETE,
    INTERSECTION,
    LOW,
    PAIRS,
    PRODUCT,
    ROUND,
    STOP,
    TOP,
    UNION,
    UNKNOWN,
    cached,
    classes_of,
    first_edge,
    jit,
    known_lookup,
    level_of,
    looked_up,
    make,
    push,
    remember,
)


@inlined
def finish(d: Any, level: Any, base: Any) -> Any:
    """Return the node with the sorted edges on the stack from `base` on; pop the edges."""
    result = make(d, level, base, d.meta[TOP] - base)
    d.meta[TOP] = base
    return result


@inlined
def is_stopped(d: Any) -> Any:
    """Whether the operation must return a partial result now; if so, count one incomplete result."""
    if d.meta[STOP]:
        d.meta[INCOMPLETE] += 1
        return True
    return False


@inlined
def cached_or_stopped(d: Any, key1: Any, key2: Any) -> Any:
    """Return the cached result of a key, or UNKNOWN; 0 if the operation must return a partial result now."""
    found = cached(d, key1, key2)
    return np.int64(0) if found == UNKNOWN and is_stopped(d) else found


@jit
def union(d: Any, a: Any, b: Any) -> Any:
    """Return the union of two sets."""
    if a == b or b == 0:
        return a
    if a == 0:
        return b
    if a > b:
        a, b = b, a
    key1, key2 = a << 32 | b, np.int64(UNION) << 32
    found = cached(d, key1, key2)
    if found != UNKNOWN:
        return found
    before = d.meta[INCOMPLETE]
    if is_stopped(d):
        return b
    level = min(level_of(d, a), level_of(d, b))
    base = d.meta[TOP]
    i, end = d.nodes[a, 0], d.nodes[a, 0] + (d.nodes[a, 1] & LOW)
    j, stop = d.nodes[b, 0], d.nodes[b, 0] + (d.nodes[b, 1] & LOW)
    if level_of(d, a) != level_of(d, b):
        if level_of(d, a) > level:
            a, i, end = b, j, stop
            b = key1 >> 32
        # b skips the level, so its value there is 0
        if d.edges[i] >> 32 == 0:
            push(d, union(d, d.edges[i] & LOW, b))
            i += 1
        else:
            push(d, b)
        while i < end:
            push(d, d.edges[i])
            i += 1
    else:
        while i < end and j < stop:
            e, f = d.edges[i], d.edges[j]
            if e >> 32 < f >> 32:
                push(d, e)
                i += 1
            elif e >> 32 > f >> 32:
                push(d, f)
                j += 1
            else:
                push(d, e & ~LOW | union(d, e & LOW, f & LOW))
                i += 1
                j += 1
        while i < end:
            push(d, d.edges[i])
            i += 1
        while j < stop:
            push(d, d.edges[j])
            j += 1
    result = finish(d, level, base)
    remember(d, key1, key2, result, before)
    return result


@jit
def difference(d: Any, a: Any, b: Any) -> Any:
    """Return the states of the first set that are not in the second."""
    if a == 0 or a == b:
        return np.int64(0)
    if b == 0:
        return a
    key1, key2 = a << 32 | b, np.int64(DIFFERENCE) << 32
    found = cached_or_stopped(d, key1, key2)
    if found != UNKNOWN:
        return found
    before = d.meta[INCOMPLETE]
    level = level_of(d, a)
    i, end = d.nodes[a, 0], d.nodes[a, 0] + (d.nodes[a, 1] & LOW)
    j, stop = d.nodes[b, 0], d.nodes[b, 0] + (d.nodes[b, 1] & LOW)
    if level > level_of(d, b):  # a's value at the level of b is 0
        rest = d.edges[j] & LOW if d.edges[j] >> 32 == 0 else np.int64(0)
        result = difference(d, a, rest)
    else:
        # Merge the sorted edges. If b skips the level, its only value there is 0.
        base = d.meta[TOP]
        skips = level < level_of(d, b)
        while i < end:
            e = d.edges[i]
            i += 1
            if skips:
                other = b if e >> 32 == 0 else np.int64(0)
            else:
                while j < stop and d.edges[j] >> 32 < e >> 32:
                    j += 1
                other = d.edges[j] & LOW if j < stop and d.edges[j] >> 32 == e >> 32 else np.int64(0)
            child = difference(d, e & LOW, other)
            if child:
                push(d, e & ~LOW | child)
        result = finish(d, level, base)
    remember(d, key1, key2, result, before)
    return result


@jit
def intersection(d: Any, a: Any, b: Any) -> Any:
    """Return the intersection of two sets."""
    if a == b:
        return a
    if a == 0 or b == 0:
        return np.int64(0)
    if level_of(d, a) > level_of(d, b) or (level_of(d, a) == level_of(d, b) and a > b):
        a, b = b, a
    key1, key2 = a << 32 | b, np.int64(INTERSECTION) << 32
    found = cached_or_stopped(d, key1, key2)
    if found != UNKNOWN:
        return found
    before = d.meta[INCOMPLETE]
    level = level_of(d, a)
    i, end = d.nodes[a, 0], d.nodes[a, 0] + (d.nodes[a, 1] & LOW)
    if level < level_of(d, b):  # b's value at the level of a is 0
        rest = d.edges[i] & LOW if d.edges[i] >> 32 == 0 else np.int64(0)
        result = intersection(d, rest, b)
    else:
        j, stop = d.nodes[b, 0], d.nodes[b, 0] + (d.nodes[b, 1] & LOW)
        base = d.meta[TOP]
        while i < end and j < stop:
            e, f = d.edges[i], d.edges[j]
            if e >> 32 == f >> 32:
                child = intersection(d, e & LOW, f & LOW)
                if child:
                    push(d, e & ~LOW | child)
            if e >> 32 <= f >> 32:
                i += 1
            if e >> 32 >= f >> 32:
                j += 1
        result = finish(d, level, base)
    remember(d, key1, key2, result, before)
    return result


@jit
def collect(d: Any, level: Any, base: Any) -> Any:
    """Return the node with the unsorted edges on the stack from `base` on; unite the children of equal values."""
    scratch, top = d.scratch, d.meta[TOP]
    for i in range(base + 1, top):
        if scratch[i - 1] >> 32 >= scratch[i] >> 32:
            scratch[base:top].sort()
            break
    write, i = base, base
    while i < top:
        value, child = scratch[i] >> 32, scratch[i] & LOW
        i += 1
        while i < top and scratch[i] >> 32 == value:
            child = union(d, child, scratch[i] & LOW)
            i += 1
        scratch[write] = value << 32 | child
        write += 1
    result = make(d, level, base, write - base)
    d.meta[TOP] = base
    return result


@inlined
def applied(d: Any, label: Any, value: Any, child: Any) -> Any:
    """Return the result of applying a label to a value; -1 if the label refuses it or the child is empty."""
    if child == 0:
        return np.int64(-1)
    return looked_up(d, label, value)


@inlined
def may_apply(d: Any, label: Any, value: Any) -> Any:
    """Whether a label may accept a value: false only if a refusal is cached."""
    return known_lookup(d, label, value) != -1


@jit
def product(d: Any, a: Any, r: Any, keep: Any) -> Any:
    """Return the successors of a set under a relation; with `keep`, the states of the set that have one.

    Cached results are valid until events are added; the caller then begins another ROUND.
    """
    if a == 0 or r == 0:
        return np.int64(0)
    if r == 1:
        return a
    key1, key2 = a << 32 | r, np.int64(DOMAIN if keep else PRODUCT) << 32 | d.meta[ROUND]
    found = cached_or_stopped(d, key1, key2)
    if found != UNKNOWN:
        return found
    before = d.meta[INCOMPLETE]
    rule, level = d.relation_nodes[r], d.relation_nodes[r, 0]
    start, n = d.nodes[a, 0], d.nodes[a, 1] & LOW
    base = d.meta[TOP]
    # Above the relation's first level nothing changes: each edge keeps its value, with the product of its child.
    if level_of(d, a) < level:
        for i in range(start, start + n):
            child = product(d, d.edges[i] & LOW, r, keep)
            if child:
                push(d, d.edges[i] & ~LOW | child)
        result = finish(d, level_of(d, a), base)
    else:
        skips = level_of(d, a) > level
        table = d.relation_edges
        # At the relation's level: apply the enabled events to each edge, or to the value 0 if the set skips the level.
        for i in range(1 if skips else n):
            e = a if skips else d.edges[start + i]
            value, child = e >> 32, e & LOW
            # Events that require this very value, and name the next value.
            k = first_edge(d, r, np.int64(0), value) if rule[1] else UNKNOWN
            while k >= 0:
                after = product(d, child, table[k, 1], keep)
                if after:
                    push(d, (value if keep else table[k, 0]) << 32 | after)
                k = table[k, 2]
            # Events that require a class of values (a deliverable message); a label computes the next value.
            if rule[2]:
                packed = classes_of(d, d.message_maps[level], value)
                for item in range(packed >> 24, (packed >> 24) + (packed & 0xFFFFFF)):
                    k = first_edge(d, r, np.int64(1), d.map_items[item])
                    while k >= 0:
                        if may_apply(d, table[k, 0], value):
                            after = product(d, child, table[k, 1], keep)
                            target = applied(d, table[k, 0], value, after)
                            if target >= 0:
                                push(d, (value if keep else target) << 32 | after)
                        k = table[k, 2]
            # Events for any value; a label computes the next value, or refuses.
            k = rule[3]
            while k >= 0:
                if may_apply(d, table[k, 0], value):
                    after = product(d, child, table[k, 1], keep)
                    target = applied(d, table[k, 0], value, after)
                    if target >= 0:
                        push(d, (value if keep else target) << 32 | after)
                k = table[k, 2]
        result = collect(d, level, base)
    remember(d, key1, key2, result, before)
    return result


@inlined
def place_in(edges: Any, low: Any, high: Any, value: Any) -> Any:
    """Return the place of a value's edge among sorted edges, or its insertion point."""
    while low < high:
        middle = (low + high) >> 1
        if edges[middle] >> 32 < value:
            low = middle + 1
        else:
            high = middle
    return low


@inlined
def child_at(d: Any, b: Any, level: Any, value: Any) -> Any:
    """Return a set's child for a value at a level; the set's node must not be above that level."""
    if b == 0 or level_of(d, b) > level:
        return b if value == 0 else np.int64(0)
    start, end = d.nodes[b, 0], d.nodes[b, 0] + (d.nodes[b, 1] & LOW)
    i = place_in(d.edges, start, end, value)
    return d.edges[i] & LOW if i < end and d.edges[i] >> 32 == value else np.int64(0)


@jit
def predecessors(d: Any, a: Any, r: Any, b: Any) -> Any:
    """Return the states of the set `a` that have a successor under the relation `r` in the set `b`."""
    if a == 0 or r == 0 or b == 0:
        return np.int64(0)
    if r == 1:
        return intersection(d, a, b)
    key1, key2 = a << 32 | r, np.int64(BEFORE) << 32 | b
    found = cached_or_stopped(d, key1, key2)
    if found != UNKNOWN:
        return found
    before = d.meta[INCOMPLETE]
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


@jit
def count_steps(d: Any, a: Any, r: Any, which: Any, modulus: Any) -> Any:
    """Return the number of pairs (state, event), modulo a number; the relation must have been applied to the set."""
    if a == 0 or r == 0:
        return np.int64(0)
    if a == 1 and r == 1:
        return np.int64(1)
    key1, key2 = a << 32 | r, np.int64(PAIRS) << 32 | which
    found = cached(d, key1, key2)
    if found != UNKNOWN:
        return found
    level = d.relation_nodes[r, 0] if r > 1 else level_of(d, a)
    start, n = d.nodes[a, 0], d.nodes[a, 1] & LOW
    result, rule, table = np.int64(0), d.relation_nodes[r], d.relation_edges
    # The same phases as in `product`, whose lookups are all cached by now.
    if r == 1 or level_of(d, a) < level:
        for i in range(start, start + n):
            result = (result + count_steps(d, d.edges[i] & LOW, r, which, modulus)) % modulus
    else:
        skips = level_of(d, a) > level
        for i in range(1 if skips else n):
            e = a if skips else d.edges[start + i]
            value, child = e >> 32, e & LOW
            k = first_edge(d, r, np.int64(0), value) if rule[1] else UNKNOWN
            while k >= 0:
                result = (result + count_steps(d, child, table[k, 1], which, modulus)) % modulus
                k = table[k, 2]
            packed = classes_of(d, d.message_maps[level], value) if rule[2] else np.int64(0)
            for item in range(packed >> 24, (packed >> 24) + (packed & 0xFFFFFF)):
                k = first_edge(d, r, np.int64(1), d.map_items[item])
                while k >= 0:
                    if known_lookup(d, table[k, 0], value) >= 0:
                        result = (result + count_steps(d, child, table[k, 1], which, modulus)) % modulus
                    k = table[k, 2]
            k = rule[3]
            while k >= 0:
                if known_lookup(d, table[k, 0], value) >= 0:
                    result = (result + count_steps(d, child, table[k, 1], which, modulus)) % modulus
                k = table[k, 2]
    remember(d, key1, key2, result, d.meta[INCOMPLETE])
    return result
