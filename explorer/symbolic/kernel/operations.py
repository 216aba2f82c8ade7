"""Operations on diagrams: union, difference, intersection, image and preimage of a relation, number of steps."""

from __future__ import annotations

from typing import Any

import numpy as np

from kraftcheck.explorer.native.compiling import inlined
from kraftcheck.explorer.symbolic.kernel import diagram as codes
from kraftcheck.explorer.symbolic.kernel.diagram import (
    apply_label,
    cache_result_if_complete,
    cached_label_result,
    cached_result,
    find_or_add_node,
    first_relation_edge_for_key,
    jit,
    level_of_node,
    map_value_to_class_span,
    push_edge,
)


@inlined
def node_from_stack(d: Any, level: Any, base: Any) -> Any:
    """Return the node with the sorted edges on the stack from `base` on; pop the edges."""
    result = find_or_add_node(d, level, base, d.meta[codes.META_STACK_TOP] - base)
    d.meta[codes.META_STACK_TOP] = base
    return result


@inlined
def must_return_partial_result(d: Any) -> Any:
    """Whether the operation must return a partial result now; if so, count one incomplete result."""
    if d.meta[codes.META_STOP]:
        d.meta[codes.META_INCOMPLETE] += 1
        return True
    return False


@inlined
def cached_result_or_stop(d: Any, key1: Any, key2: Any) -> Any:
    """Return the cached result of a key, or UNKNOWN_RESULT; 0 if the operation must return a partial result now."""
    found = cached_result(d, key1, key2)
    return np.int64(0) if found == codes.UNKNOWN_RESULT and must_return_partial_result(d) else found


@jit
def union(d: Any, a: Any, b: Any) -> Any:
    """Return the union of two sets."""
    if a == b or b == 0:
        return a
    if a == 0:
        return b
    if a > b:
        a, b = b, a
    key1, key2 = a << 32 | b, np.int64(codes.OP_UNION) << 32
    found = cached_result(d, key1, key2)
    if found != codes.UNKNOWN_RESULT:
        return found
    before = d.meta[codes.META_INCOMPLETE]
    if must_return_partial_result(d):
        return b
    level = min(level_of_node(d, a), level_of_node(d, b))
    base = d.meta[codes.META_STACK_TOP]
    i, end = d.nodes[a, 0], d.nodes[a, 0] + (d.nodes[a, 1] & codes.LOW_32_BITS)
    j, stop = d.nodes[b, 0], d.nodes[b, 0] + (d.nodes[b, 1] & codes.LOW_32_BITS)
    if level_of_node(d, a) != level_of_node(d, b):
        if level_of_node(d, a) > level:
            a, i, end = b, j, stop
            b = key1 >> 32
        # b skips the level, so its value there is 0
        if d.edges[i] >> 32 == 0:
            push_edge(d, union(d, d.edges[i] & codes.LOW_32_BITS, b))
            i += 1
        else:
            push_edge(d, b)
        while i < end:
            push_edge(d, d.edges[i])
            i += 1
    else:
        while i < end and j < stop:
            e, f = d.edges[i], d.edges[j]
            if e >> 32 < f >> 32:
                push_edge(d, e)
                i += 1
            elif e >> 32 > f >> 32:
                push_edge(d, f)
                j += 1
            else:
                push_edge(d, e & ~codes.LOW_32_BITS | union(d, e & codes.LOW_32_BITS, f & codes.LOW_32_BITS))
                i += 1
                j += 1
        while i < end:
            push_edge(d, d.edges[i])
            i += 1
        while j < stop:
            push_edge(d, d.edges[j])
            j += 1
    result = node_from_stack(d, level, base)
    cache_result_if_complete(d, key1, key2, result, before)
    return result


@jit
def difference(d: Any, a: Any, b: Any) -> Any:
    """Return the states of the first set that are not in the second."""
    if a == 0 or a == b:
        return np.int64(0)
    if b == 0:
        return a
    key1, key2 = a << 32 | b, np.int64(codes.OP_DIFFERENCE) << 32
    found = cached_result_or_stop(d, key1, key2)
    if found != codes.UNKNOWN_RESULT:
        return found
    before = d.meta[codes.META_INCOMPLETE]
    level = level_of_node(d, a)
    i, end = d.nodes[a, 0], d.nodes[a, 0] + (d.nodes[a, 1] & codes.LOW_32_BITS)
    j, stop = d.nodes[b, 0], d.nodes[b, 0] + (d.nodes[b, 1] & codes.LOW_32_BITS)
    if level > level_of_node(d, b):  # a's value at the level of b is 0
        rest = d.edges[j] & codes.LOW_32_BITS if d.edges[j] >> 32 == 0 else np.int64(0)
        result = difference(d, a, rest)
    else:
        # Merge the sorted edges. If b skips the level, its only value there is 0.
        base = d.meta[codes.META_STACK_TOP]
        skips = level < level_of_node(d, b)
        while i < end:
            e = d.edges[i]
            i += 1
            if skips:
                other = b if e >> 32 == 0 else np.int64(0)
            else:
                while j < stop and d.edges[j] >> 32 < e >> 32:
                    j += 1
                other = d.edges[j] & codes.LOW_32_BITS if j < stop and d.edges[j] >> 32 == e >> 32 else np.int64(0)
            child = difference(d, e & codes.LOW_32_BITS, other)
            if child:
                push_edge(d, e & ~codes.LOW_32_BITS | child)
        result = node_from_stack(d, level, base)
    cache_result_if_complete(d, key1, key2, result, before)
    return result


@jit
def intersection(d: Any, a: Any, b: Any) -> Any:
    """Return the intersection of two sets."""
    if a == b:
        return a
    if a == 0 or b == 0:
        return np.int64(0)
    if level_of_node(d, a) > level_of_node(d, b) or (level_of_node(d, a) == level_of_node(d, b) and a > b):
        a, b = b, a
    key1, key2 = a << 32 | b, np.int64(codes.OP_INTERSECTION) << 32
    found = cached_result_or_stop(d, key1, key2)
    if found != codes.UNKNOWN_RESULT:
        return found
    before = d.meta[codes.META_INCOMPLETE]
    level = level_of_node(d, a)
    i, end = d.nodes[a, 0], d.nodes[a, 0] + (d.nodes[a, 1] & codes.LOW_32_BITS)
    if level < level_of_node(d, b):  # b's value at the level of a is 0
        rest = d.edges[i] & codes.LOW_32_BITS if d.edges[i] >> 32 == 0 else np.int64(0)
        result = intersection(d, rest, b)
    else:
        j, stop = d.nodes[b, 0], d.nodes[b, 0] + (d.nodes[b, 1] & codes.LOW_32_BITS)
        base = d.meta[codes.META_STACK_TOP]
        while i < end and j < stop:
            e, f = d.edges[i], d.edges[j]
            if e >> 32 == f >> 32:
                child = intersection(d, e & codes.LOW_32_BITS, f & codes.LOW_32_BITS)
                if child:
                    push_edge(d, e & ~codes.LOW_32_BITS | child)
            if e >> 32 <= f >> 32:
                i += 1
            if e >> 32 >= f >> 32:
                j += 1
        result = node_from_stack(d, level, base)
    cache_result_if_complete(d, key1, key2, result, before)
    return result


@jit
def node_from_unsorted_stack(d: Any, level: Any, base: Any) -> Any:
    """Return the node with the unsorted edges on the stack from `base` on; unite the children of equal values."""
    scratch, top = d.scratch, d.meta[codes.META_STACK_TOP]
    for i in range(base + 1, top):
        if scratch[i - 1] >> 32 >= scratch[i] >> 32:
            scratch[base:top].sort()
            break
    write, i = base, base
    while i < top:
        value, child = scratch[i] >> 32, scratch[i] & codes.LOW_32_BITS
        i += 1
        while i < top and scratch[i] >> 32 == value:
            child = union(d, child, scratch[i] & codes.LOW_32_BITS)
            i += 1
        scratch[write] = value << 32 | child
        write += 1
    result = find_or_add_node(d, level, base, write - base)
    d.meta[codes.META_STACK_TOP] = base
    return result


@inlined
def apply_label_unless_child_empty(d: Any, label: Any, value: Any, child: Any) -> Any:
    """Return the result of applying a label to a value; -1 if the label refuses it or the child is empty."""
    if child == 0:
        return np.int64(-1)
    return apply_label(d, label, value)


@inlined
def may_label_accept_value(d: Any, label: Any, value: Any) -> Any:
    """Whether a label may accept a value: false only if a refusal is cached."""
    return cached_label_result(d, label, value) != -1


@jit
def successors(d: Any, a: Any, r: Any, keep: Any) -> Any:
    """Return the successors of a set under a relation; with `keep`, the states of the set that have one.

    Cached results are valid until events are added; the caller then begins another META_ROUND.
    """
    if a == 0 or r == 0:
        return np.int64(0)
    if r == 1:
        return a
    code = np.int64(codes.OP_DOMAIN if keep else codes.OP_SUCCESSORS)
    key1, key2 = a << 32 | r, code << 32 | d.meta[codes.META_ROUND]
    found = cached_result_or_stop(d, key1, key2)
    if found != codes.UNKNOWN_RESULT:
        return found
    before = d.meta[codes.META_INCOMPLETE]
    rule, level = d.relation_nodes[r], d.relation_nodes[r, 0]
    start, n = d.nodes[a, 0], d.nodes[a, 1] & codes.LOW_32_BITS
    base = d.meta[codes.META_STACK_TOP]
    # Above the relation's first level nothing changes: each edge keeps its value, with the product of its child.
    if level_of_node(d, a) < level:
        for i in range(start, start + n):
            child = successors(d, d.edges[i] & codes.LOW_32_BITS, r, keep)
            if child:
                push_edge(d, d.edges[i] & ~codes.LOW_32_BITS | child)
        result = node_from_stack(d, level_of_node(d, a), base)
    else:
        skips = level_of_node(d, a) > level
        table = d.relation_edges
        # At the relation's level: apply the enabled events to each edge, or to the value 0 if the set skips the level.
        for i in range(1 if skips else n):
            e = a if skips else d.edges[start + i]
            value, child = e >> 32, e & codes.LOW_32_BITS
            # Events that require this very value, and name the next value.
            k = first_relation_edge_for_key(d, r, np.int64(0), value) if rule[1] else codes.UNKNOWN_RESULT
            while k >= 0:
                after = successors(d, child, table[k, 1], keep)
                if after:
                    push_edge(d, (value if keep else table[k, 0]) << 32 | after)
                k = table[k, 2]
            # Events that require a class of values (a deliverable message), then those for any value; a label computes
            # the next value, or refuses.
            packed = map_value_to_class_span(d, d.message_maps[level], value) if rule[2] else np.int64(0)
            end = (packed >> 24) + (packed & 0xFFFFFF)
            for item in range(packed >> 24, end + 1):
                k = first_relation_edge_for_key(d, r, np.int64(1), d.map_items[item]) if item < end else rule[3]
                while k >= 0:
                    if may_label_accept_value(d, table[k, 0], value):
                        after = successors(d, child, table[k, 1], keep)
                        target = apply_label_unless_child_empty(d, table[k, 0], value, after)
                        if target >= 0:
                            push_edge(d, (value if keep else target) << 32 | after)
                    k = table[k, 2]
        result = node_from_unsorted_stack(d, level, base)
    cache_result_if_complete(d, key1, key2, result, before)
    return result


@inlined
def find_edge_place(edges: Any, low: Any, high: Any, value: Any) -> Any:
    """Return the place of a value's edge among sorted edges, or its insertion point."""
    while low < high:
        middle = (low + high) >> 1
        if edges[middle] >> 32 < value:
            low = middle + 1
        else:
            high = middle
    return low


@inlined
def child_for_value(d: Any, b: Any, level: Any, value: Any) -> Any:
    """Return a set's child for a value at a level; the set's node must not be above that level."""
    if b == 0 or level_of_node(d, b) > level:
        return b if value == 0 else np.int64(0)
    start, end = d.nodes[b, 0], d.nodes[b, 0] + (d.nodes[b, 1] & codes.LOW_32_BITS)
    i = find_edge_place(d.edges, start, end, value)
    return d.edges[i] & codes.LOW_32_BITS if i < end and d.edges[i] >> 32 == value else np.int64(0)


@jit
def predecessors(d: Any, a: Any, r: Any, b: Any) -> Any:
    """Return the states of the set `a` that have a successor under the relation `r` in the set `b`."""
    if a == 0 or r == 0 or b == 0:
        return np.int64(0)
    if r == 1:
        return intersection(d, a, b)
    key1, key2 = a << 32 | r, np.int64(codes.OP_PREDECESSORS) << 32 | b
    found = cached_result_or_stop(d, key1, key2)
    if found != codes.UNKNOWN_RESULT:
        return found
    before = d.meta[codes.META_INCOMPLETE]
    rule, table = d.relation_nodes[r], d.relation_edges
    level = min(rule[0], level_of_node(d, a), level_of_node(d, b))
    start, n, skips = d.nodes[a, 0], d.nodes[a, 1] & codes.LOW_32_BITS, level_of_node(d, a) > level
    base = d.meta[codes.META_STACK_TOP]
    # For each edge, compute the part of its child that leads into the set, with the kinds of events of `successors`.
    for i in range(1 if skips else n):
        e = a if skips else d.edges[start + i]
        value, child, rest = e >> 32, e & codes.LOW_32_BITS, np.int64(0)
        if level < rule[0]:
            rest = predecessors(d, child, r, child_for_value(d, b, level, value))
        else:
            k = first_relation_edge_for_key(d, r, np.int64(0), value) if rule[1] else codes.UNKNOWN_RESULT
            while k >= 0:
                rest = union(d, rest, predecessors(d, child, table[k, 1], child_for_value(d, b, level, table[k, 0])))
                k = table[k, 2]
            packed = map_value_to_class_span(d, d.message_maps[level], value) if rule[2] else np.int64(0)
            end = (packed >> 24) + (packed & 0xFFFFFF)
            for item in range(packed >> 24, end + 1):
                k = first_relation_edge_for_key(d, r, np.int64(1), d.map_items[item]) if item < end else rule[3]
                while k >= 0:
                    target = apply_label(d, table[k, 0], value)
                    if target >= 0:
                        rest = union(d, rest, predecessors(d, child, table[k, 1], child_for_value(d, b, level, target)))
                    k = table[k, 2]
        if rest:
            push_edge(d, value << 32 | rest)
    result = node_from_stack(d, level, base)
    cache_result_if_complete(d, key1, key2, result, before)
    return result


@jit
def count_steps_modulo(d: Any, a: Any, r: Any, which: Any, modulus: Any) -> Any:
    """Return the number of pairs (state, event), modulo a number; the relation must have been applied to the set."""
    if a == 0 or r == 0:
        return np.int64(0)
    if a == 1 and r == 1:
        return np.int64(1)
    key1, key2 = a << 32 | r, np.int64(codes.OP_COUNT_STEPS) << 32 | which
    found = cached_result(d, key1, key2)
    if found != codes.UNKNOWN_RESULT:
        return found
    level = d.relation_nodes[r, 0] if r > 1 else level_of_node(d, a)
    start, n = d.nodes[a, 0], d.nodes[a, 1] & codes.LOW_32_BITS
    result, rule, table = np.int64(0), d.relation_nodes[r], d.relation_edges
    # The same phases as in `successors`, whose lookups are all cached by now.
    if r == 1 or level_of_node(d, a) < level:
        for i in range(start, start + n):
            result = (result + count_steps_modulo(d, d.edges[i] & codes.LOW_32_BITS, r, which, modulus)) % modulus
    else:
        skips = level_of_node(d, a) > level
        for i in range(1 if skips else n):
            e = a if skips else d.edges[start + i]
            value, child = e >> 32, e & codes.LOW_32_BITS
            k = first_relation_edge_for_key(d, r, np.int64(0), value) if rule[1] else codes.UNKNOWN_RESULT
            while k >= 0:
                result = (result + count_steps_modulo(d, child, table[k, 1], which, modulus)) % modulus
                k = table[k, 2]
            packed = map_value_to_class_span(d, d.message_maps[level], value) if rule[2] else np.int64(0)
            end = (packed >> 24) + (packed & 0xFFFFFF)
            for item in range(packed >> 24, end + 1):
                k = first_relation_edge_for_key(d, r, np.int64(1), d.map_items[item]) if item < end else rule[3]
                while k >= 0:
                    if cached_label_result(d, table[k, 0], value) >= 0:
                        result = (result + count_steps_modulo(d, child, table[k, 1], which, modulus)) % modulus
                    k = table[k, 2]
    cache_result_if_complete(d, key1, key2, result, d.meta[codes.META_INCOMPLETE])
    return result
