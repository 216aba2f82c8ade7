"""Projections of sets, the relation edges that a projection allows, and garbage collection.

A projection is a *tail*: a level, a map from its values to classes, and the tail of the later levels. Watched tails
have a *slot*. A node's *summary* holds its projections by all watched tails that begin at its level or later. So new
vectors, and events that cannot apply, are found without a walk over the diagram.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kraftcheck.explorer.native.compiling import inlined
from kraftcheck.explorer.symbolic.kernel import diagram as codes
from kraftcheck.explorer.symbolic.kernel.diagram import (
    apply_label,
    cache_result_if_complete,
    cached_result,
    first_relation_edge_for_key,
    jit,
    level_of_node,
    map_value_to_class_span,
    push_edge,
    rebuild_node_table,
)
from kraftcheck.explorer.symbolic.kernel.operations import (
    cached_result_or_stop,
    may_label_accept_value,
    must_return_partial_result,
    node_from_unsorted_stack,
    union,
)

MOST_SUMMARIES_A_NODE, FEWEST_SUMMARIES_TO_DROP = 8, 1 << 20
"""Summary entries for each node, and in all, before all summaries are dropped; most nodes are garbage then.

If few nodes are new since the last drop, the limit doubles instead: the summaries are in use.
"""
MOST_CHOSEN_EDGES = 1 << 22  # edges in lists of allowed edges, before the lists are made again


@inlined
def push_class_edges(d: Any, mapped: Any, value: Any, child: Any) -> None:
    """Push an edge onto the stack for each class of a value."""
    if mapped == 0:
        push_edge(d, value << 32 | child)
    else:
        packed = map_value_to_class_span(d, mapped, value)
        for k in range(packed >> 24, (packed >> 24) + (packed & 0xFFFFFF)):
            push_edge(d, d.map_items[k] << 32 | child)


@jit
def project_onto_dimensions(d: Any, a: Any, t: Any) -> Any:
    """Return the projection of a set onto the tail `t` (a list of dimensions), whether or not it is watched."""
    if a == 0 or t == 0:
        return np.int64(a != 0)
    key1, key2 = a << 32 | t, np.int64(codes.OP_PROJECT) << 32
    found = cached_result_or_stop(d, key1, key2)
    if found != codes.UNKNOWN_RESULT:
        return found
    before = d.meta[codes.META_INCOMPLETE]
    level = d.tails[t, 0]
    start, n = d.nodes[a, 0], d.nodes[a, 1] & codes.LOW_32_BITS
    # A level above the tail is projected away: unite its children. The tail's own level keeps the classes of values.
    if level_of_node(d, a) < level:
        result = np.int64(0)
        for i in range(start, start + n):
            result = union(d, result, project_onto_dimensions(d, d.edges[i] & codes.LOW_32_BITS, t))
    else:
        base = d.meta[codes.META_STACK_TOP]
        skips = level_of_node(d, a) > level
        for i in range(1 if skips else n):
            e = a if skips else d.edges[start + i]
            child = project_onto_dimensions(d, e & codes.LOW_32_BITS, d.tails[t, 2])
            if child:
                push_class_edges(d, d.tails[t, 1], e >> 32, child)
        result = node_from_unsorted_stack(d, level, base)
    cache_result_if_complete(d, key1, key2, result, before)
    return result


@jit
def forget_summaries(d: Any) -> None:
    """Drop the summaries of all nodes."""
    d.nodes[: d.meta[codes.META_NODES], 2] = 0
    d.meta[codes.META_SUMMARY_ENTRIES] = 1


@jit
def reserve_summary_room(d: Any, n: Any) -> Any:
    """Make room for `n` more summary entries; return whether there is room."""
    meta = d.meta
    most = MOST_SUMMARIES_A_NODE * meta[codes.META_NODES] + meta[codes.META_EXTRA_SUMMARIES]
    if meta[codes.META_SUMMARY_ENTRIES] + n > min(len(d.summaries), most):
        if 4 * (meta[codes.META_NODES] - meta[codes.META_NODES_AT_DROP]) >= meta[codes.META_NODES]:
            forget_summaries(d)
            meta[codes.META_NODES_AT_DROP] = meta[codes.META_NODES]
        elif meta[codes.META_EXTRA_SUMMARIES] < len(d.summaries):
            meta[codes.META_EXTRA_SUMMARIES] = 2 * meta[codes.META_EXTRA_SUMMARIES] + n
    return meta[codes.META_SUMMARY_ENTRIES] + n <= len(d.summaries)


@jit
def project_onto_watched_dimensions(d: Any, a: Any, t: Any) -> Any:
    """Return the projection of a non-empty set onto a watched tail (a list of dimensions); cache it in the node."""
    if t == 0:
        return np.int64(1)
    tails, level = d.tails, level_of_node(d, a)
    if level > tails[t, 0]:  # the set's value there is 0
        base, rest = d.meta[codes.META_STACK_TOP], project_onto_watched_dimensions(d, a, tails[t, 2])
        if rest:
            push_class_edges(d, tails[t, 1], np.int64(0), rest)
        return node_from_unsorted_stack(d, tails[t, 0], base)
    if d.nodes[a, 2] == 0:
        if must_return_partial_result(d):
            return np.int64(0)
        # Make the node's summary: its projections by all watched tails that begin here or later.
        base, before = d.meta[codes.META_STACK_TOP], d.meta[codes.META_INCOMPLETE]
        start, end = d.nodes[a, 0], d.nodes[a, 0] + (d.nodes[a, 1] & codes.LOW_32_BITS)
        for slot in range(d.slot_count[level]):
            tail, result, inner = d.slot_tail[slot], np.int64(0), d.meta[codes.META_STACK_TOP]
            if tails[tail, 0] == level:
                for i in range(start, end):
                    rest = project_onto_watched_dimensions(d, d.edges[i] & codes.LOW_32_BITS, tails[tail, 2])
                    if rest:
                        push_class_edges(d, tails[tail, 1], d.edges[i] >> 32, rest)
                result = node_from_unsorted_stack(d, level, inner)
            else:
                for i in range(start, end):
                    rest = project_onto_watched_dimensions(d, d.edges[i] & codes.LOW_32_BITS, tail)
                    if rest != result:
                        result = union(d, result, rest)
            push_edge(d, result)
        n = d.meta[codes.META_STACK_TOP] - base
        d.meta[codes.META_STACK_TOP] = base
        if d.meta[codes.META_STOP] or d.meta[codes.META_INCOMPLETE] != before:
            d.meta[codes.META_INCOMPLETE] += 1
            return np.int64(0)
        if not reserve_summary_room(d, n):
            d.meta[codes.META_STOP] = 1
            d.meta[codes.META_INCOMPLETE] += 1
            return np.int64(0)
        place = d.meta[codes.META_SUMMARY_ENTRIES]
        for k in range(n):
            d.summaries[place + k] = d.scratch[base + k]
        d.nodes[a, 2] = place
        d.meta[codes.META_SUMMARY_ENTRIES] = place + n
    return np.int64(d.summaries[d.nodes[a, 2] + tails[t, 3]])


@jit
def projection_may_enable_event(d: Any, projection: Any, r: Any) -> Any:
    """Whether a projection onto a relation's gate has a vector that enables an event of the relation.

    Results are cached until events are added: a known vector gets further events when other reads have new values.
    """
    gate, level, result = d.relation_nodes[r, 4], d.relation_nodes[r, 0], np.int64(0)
    if gate == 0 or projection == 0:
        return np.int64(projection != 0)
    key1, key2 = projection << 32 | r, np.int64(codes.OP_MAY_FOLLOW) << 32 | d.meta[codes.META_RELATION_EDGES]
    found = cached_result(d, key1, key2)
    if found != codes.UNKNOWN_RESULT:
        return found
    rule, table = d.relation_nodes[r], d.relation_edges
    # Above the gate's first level the projection decides nothing: edges by value or class allow at once, and a general
    # edge allows if its child does. At that level, a general edge allows, or an edge for a value of the projection.
    if level < d.tails[gate, 0]:
        result, k = rule[1] | rule[2], rule[3]
        while k >= 0 and not result:
            result = projection_may_enable_event(d, projection, table[k, 1])
            k = table[k, 2]
    else:
        result, how = np.int64(rule[3] >= 0), np.int64(d.tails[gate, 1] != 0)
        start, n = d.nodes[projection, 0], d.nodes[projection, 1] & codes.LOW_32_BITS
        skips = level_of_node(d, projection) > level
        for i in range(1 if skips else n):
            e = projection if skips else d.edges[start + i]
            k = np.int64(-1) if result else first_relation_edge_for_key(d, r, how, e >> 32)
            while k >= 0 and not result:
                result = projection_may_enable_event(d, e & codes.LOW_32_BITS, table[k, 1])
                k = table[k, 2]
    cache_result_if_complete(d, key1, key2, result, d.meta[codes.META_INCOMPLETE])
    return result


@inlined
def set_may_enable_event(d: Any, a: Any, r: Any) -> Any:
    """Whether a set may have successors under a relation, judged by its projection onto the gate."""
    gate = d.relation_nodes[r, 4]
    return gate == 0 or projection_may_enable_event(d, project_onto_watched_dimensions(d, a, gate), r) != 0


@jit
def _edge_span_allowed_by_projection(d: Any, projection: Any, r: Any) -> Any:
    """Return the span (start << 24 | number) of the relation's general edges that a projection allows."""
    key1 = projection << 32 | r
    key2 = np.int64(codes.OP_CHOSEN_EDGES) << 56 | d.meta[codes.META_ROUND] << 32 | d.meta[codes.META_RELATION_EDGES]
    found = cached_result(d, key1, key2)
    if found != codes.UNKNOWN_RESULT:
        return found
    meta, k, n = d.meta, d.relation_nodes[r, 3], np.int64(0)
    while k >= 0:
        n += 1
        k = d.relation_edges[k, 2]
    if meta[codes.META_CHOSEN_EDGES] + n > max(n, MOST_CHOSEN_EDGES):
        meta[codes.META_CHOSEN_EDGES] = 0
        meta[codes.META_ROUND] += 1
        key2 += np.int64(1) << 32
    start, k = meta[codes.META_CHOSEN_EDGES], d.relation_nodes[r, 3]
    end = start
    while k >= 0:
        if projection_may_enable_event(d, projection, d.relation_edges[k, 1]):
            d.chosen[end] = k
            end += 1
        k = d.relation_edges[k, 2]
    meta[codes.META_CHOSEN_EDGES] = end
    cache_result_if_complete(d, key1, key2, start << 24 | (end - start), meta[codes.META_INCOMPLETE])
    return start << 24 | (end - start)


@inlined
def _may_guarded_label_accept_value(d: Any, rule: Any, label: Any, value: Any) -> Any:
    """Whether a label may accept a value; at a relation node with guards, whether the label does accept the value.

    Events below a guard are learned only from states that satisfy it, so a guard is evaluated before its child is
    followed.
    """
    return apply_label(d, label, value) >= 0 if rule[5] else may_label_accept_value(d, label, value)


@jit
def push_applicable_relation_edges(d: Any, a: Any, r: Any, value: Any) -> None:
    """Push the edges of a relation that may apply to a value whose child is the set `a`.

    An entry is the edge's number << 1, plus 1 if the edge names the next value instead of a label.
    """
    rule, table = d.relation_nodes[r], d.relation_edges
    # Edges for this value, for the classes of the value, and for any value, as in `successors`. An edge that the gate
    # forbids for the projection of `a` is left out here, before the child is saturated under it.
    if rule[1]:
        k = first_relation_edge_for_key(d, r, np.int64(0), value)
        while k >= 0:
            if set_may_enable_event(d, a, table[k, 1]):
                push_edge(d, k << 1 | 1)
            k = table[k, 2]
    if rule[2]:
        packed = map_value_to_class_span(d, d.message_maps[rule[0]], value)
        for item in range(packed >> 24, (packed >> 24) + (packed & 0xFFFFFF)):
            k = first_relation_edge_for_key(d, r, np.int64(1), d.map_items[item])
            while k >= 0:
                if set_may_enable_event(d, a, table[k, 1]) and _may_guarded_label_accept_value(
                    d, rule, table[k, 0], value
                ):
                    push_edge(d, k << 1)
                k = table[k, 2]
    if rule[3] >= 0:
        if rule[4] and d.tails[rule[4], 0] > rule[0]:
            packed = _edge_span_allowed_by_projection(d, project_onto_watched_dimensions(d, a, rule[4]), r)
            for item in range(packed >> 24, (packed >> 24) + (packed & 0xFFFFFF)):
                k = np.int64(d.chosen[item])
                if _may_guarded_label_accept_value(d, rule, table[k, 0], value):
                    push_edge(d, k << 1)
        else:
            k = rule[3]
            while k >= 0:
                if _may_guarded_label_accept_value(d, rule, table[k, 0], value):
                    push_edge(d, k << 1)
                k = table[k, 2]


@jit
def mark_reachable_nodes(d: Any, roots: Any) -> Any:
    """Return for each node whether it is reachable from the roots."""
    marked = np.zeros(d.meta[codes.META_NODES], np.bool_)
    marked[:2] = True
    for root in roots:
        marked[root] = True
    # Children have lower numbers than parents, so one descending pass marks every reachable node.
    for a in range(d.meta[codes.META_NODES] - 1, 1, -1):
        if marked[a]:
            start = d.nodes[a, 0]
            for i in range(start, start + (d.nodes[a, 1] & codes.LOW_32_BITS)):
                marked[d.edges[i] & codes.LOW_32_BITS] = True
    return marked


@jit
def count_vectors_of_marked_nodes(d: Any, marked: Any, total: Any, limbs: Any) -> Any:
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
            for i in range(start, start + (d.nodes[a, 1] & codes.LOW_32_BITS)):
                place = places[d.edges[i] & codes.LOW_32_BITS]
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
    marked = mark_reachable_nodes(d, roots)
    renumbered = np.zeros(len(marked), np.int32)
    renumbered[1] = 1
    free, place = 2, 0
    # Nodes and edges only move towards the front, so they are compacted in place.
    for a in range(2, len(marked)):
        if marked[a]:
            start, n = d.nodes[a, 0], d.nodes[a, 1] & codes.LOW_32_BITS
            for i in range(n):
                e = d.edges[start + i]
                d.edges[place + i] = e & ~codes.LOW_32_BITS | renumbered[e & codes.LOW_32_BITS]
            d.nodes[free, 0] = place
            d.nodes[free, 1] = d.nodes[a, 1]
            place += n
            renumbered[a] = free
            free += 1
    d.meta[codes.META_NODES] = free
    d.meta[codes.META_EDGES] = place
    for i in range(len(roots)):
        roots[i] = renumbered[roots[i]]
    # The cache, the chosen edges and the summaries refer to the old numbers.
    d.cache[: d.meta[codes.META_CACHE_MASK] + 1] = 0
    d.meta[codes.META_CHOSEN_EDGES] = 0
    forget_summaries(d)
    d.meta[codes.META_NODES_AT_DROP] = 0
    rebuild_node_table(d, d.meta[codes.META_TABLE_MASK] + 1)
