"""Saturation: the least fixpoint of all events, node by node, from the last level to the first.

A set is saturated from a level on if no event that begins there or later leads out of it. Events are learned during
saturation, from the node that needs them: new vectors of a *watch* go to Python, which adds events. An event is enabled
only under the vectors that it was learned from, and it begins no lower than their watch. So a set that was saturated
before misses no new event, and cached results about saturated sets stay valid when relations grow.

References
----------
G. Ciardo, G. Luettgen, R. Siminiceanu: "Saturation: an efficient iteration strategy for symbolic state-space
generation" (2001).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kraftcheck.explorer.native.compiling import inlined
from kraftcheck.explorer.symbolic.kernel import diagram as codes
from kraftcheck.explorer.symbolic.kernel.diagram import (
    cache_result_if_complete,
    cached_label_result,
    cached_result,
    call_function_at_address,
    jit,
    level_of_node,
    push_edge,
)
from kraftcheck.explorer.symbolic.kernel.operations import (
    apply_label_unless_child_empty,
    child_for_value,
    difference,
    find_edge_place,
    must_return_partial_result,
    node_from_stack,
    node_from_unsorted_stack,
    union,
)
from kraftcheck.explorer.symbolic.kernel.projections import (
    project_onto_watched_dimensions,
    push_applicable_relation_edges,
    push_class_edges,
    set_may_enable_event,
)


@jit
def report_new_vectors(d: Any, level: Any, value: Any, child: Any) -> Any:
    """Report to Python the new projected vectors of one edge, for each watch whose first level is `level`.

    Repeat while Python adds watches to the level.
    """
    version = np.int64(-1)
    while version != d.watch_version[level]:
        version, which = d.watch_version[level], d.first_watch[level]
        while which >= 0:
            tail = d.watch_tail[which]
            rest = project_onto_watched_dimensions(d, child, d.tails[tail, 2])
            key1, key2 = value << 32 | rest, np.int64(codes.OP_LEARNED) << 32 | which
            if rest and cached_result(d, key1, key2) == codes.UNKNOWN_RESULT:
                base, before = d.meta[codes.META_STACK_TOP], d.meta[codes.META_INCOMPLETE]
                push_class_edges(d, d.tails[tail, 1], value, rest)
                new = difference(d, node_from_unsorted_stack(d, level, base), d.watch_known[which])
                if new and not must_return_partial_result(d):
                    call_function_at_address(d.meta[codes.META_CALLBACK], codes.CALL_TO_LEARN, which, new)
                cache_result_if_complete(d, key1, key2, np.int64(1), before)
            which = d.next_watch[which]


@jit
def _child_on_stack(d: Any, base: Any, end: Any, level: Any, b: Any, value: Any) -> Any:
    """Return the child for a value in the stack edges from `base` to `end`, or in the set `b` if there are no edges."""
    if end > base:
        i = find_edge_place(d.scratch, base, end, value)
        return d.scratch[i] & codes.LOW_32_BITS if i < end and d.scratch[i] >> 32 == value else np.int64(0)
    return child_for_value(d, b, level, value)


@inlined
def _shift_stack(d: Any, place: Any, n: Any) -> Any:
    """Shift the stack entries from `place` on by `n` places; return whether the stack has room."""
    top = d.meta[codes.META_STACK_TOP]
    for _ in range(n):
        push_edge(d, 0)
    if d.meta[codes.META_STACK_TOP] < top + n:
        return False
    for i in range(top - 1, place - 1, -1):
        d.scratch[i + n] = d.scratch[i]
        d.stamps[i + n] = d.stamps[i]
    return True


@jit
def _set_child_of_stack_edges(d: Any, base: Any, end: Any, level: Any, b: Any, value: Any, child: Any) -> Any:
    """Set the child of a value among the sorted stack edges from `base` to `end`.

    If there are none yet, copy the edges of the saturated set `b` first. Entries above `end` stay on the stack.
    """
    scratch, stamps = d.scratch, d.stamps
    if end == base and b:
        skips, start = level_of_node(d, b) > level, d.nodes[b, 0]
        n = np.int64(1) if skips else d.nodes[b, 1] & codes.LOW_32_BITS
        if not _shift_stack(d, base, n):
            return end, base
        for i in range(n):
            e = b if skips else d.edges[start + i]
            scratch[base + i] = e
            stamps[base + i] = e & codes.LOW_32_BITS
        end = base + n
    place = find_edge_place(scratch, base, end, value)
    if place == end or scratch[place] >> 32 != value:
        if not _shift_stack(d, place, np.int64(1)):
            return end, place
        stamps[place] = -1
        end += 1
    scratch[place] = value << 32 | child
    return end, place


@jit
def saturated_union(d: Any, a: Any, r: Any, p: Any, b: Any) -> Any:
    """Return the saturated union of `b`, saturated already, with the set `a`, or with its successors under `r`.

    Successors are added to `b` edge by edge, not built as a set of their own: most are in `b`, and need no node.
    Saturation and image call each other, so they are one function.

    In recursive calls numbers are `np.int64`. For a literal number, Numba compiles the function again, and then cannot
    load the cached code of a function that calls another version of itself.
    """
    if a == 0:
        return b
    if r == 1:
        return union(d, a, b)
    meta, scratch, stamps, table = d.meta, d.scratch, d.stamps, d.relation_edges
    before, none = meta[codes.META_INCOMPLETE], np.int64(0)
    # Find the first level with something to do: a node of either set, the relation, or an event.
    q = min(level_of_node(d, a), d.next_top[p])
    if r:
        q = min(q, d.relation_nodes[r, 0])
    elif q == meta[codes.META_LEVELS]:
        return a
    if b:
        q = min(q, level_of_node(d, b))
    key1, own = a << 32 | r, np.int64(codes.OP_SATURATED) << 24 | q
    found = cached_result(d, key1, b << 32 | own)
    if found == codes.UNKNOWN_RESULT:
        if must_return_partial_result(d):
            return b if r else a
        base, start, skips = meta[codes.META_STACK_TOP], d.nodes[a, 0], level_of_node(d, a) > q
        stop, end, i = start + (1 if skips else d.nodes[a, 1] & codes.LOW_32_BITS), base, base
        # Without a relation, saturate the set itself: first its children.
        if r == 0:
            for j in range(start, stop):
                e = a if skips else d.edges[j]
                child = saturated_union(d, e & codes.LOW_32_BITS, r, q + 1, none)
                stamps[meta[codes.META_STACK_TOP]] = -1
                push_edge(d, e & ~codes.LOW_32_BITS | child)
            start, end = stop, meta[codes.META_STACK_TOP]
        # The edges from `base` to `end` become the result; relation edges to apply are pushed above them.
        while not meta[codes.META_STOP]:
            # Apply the relation to the next edge of the set.
            if start < stop:
                e = a if skips else d.edges[start]
                start += 1
                value, child = e >> 32, e & codes.LOW_32_BITS
                if q == d.relation_nodes[r, 0]:
                    push_applicable_relation_edges(d, child, r, value)
                elif set_may_enable_event(d, child, r):
                    push_edge(d, np.int64(-1))
            # Apply this level's events to the next edge of the result, if its child has grown since the last time.
            elif i < end and d.next_top[q] == q:
                value, child = scratch[i] >> 32, scratch[i] & codes.LOW_32_BITS
                if stamps[i] != child:
                    stamps[i] = child
                    report_new_vectors(d, q, value, child)
                    group = d.first_event[q]
                    while group >= 0:
                        push_applicable_relation_edges(d, child, d.event_root[group], value)
                        group = d.next_event[group]
                i += 1
            else:
                break
            # Add the saturated child of each successor to the edge of its value.
            while meta[codes.META_STACK_TOP] > end:
                meta[codes.META_STACK_TOP] -= 1
                k = scratch[meta[codes.META_STACK_TOP]] >> 1
                rest, target = r, value
                if k >= 0:
                    rest, target = table[k, 1], table[k, 0]
                    if scratch[meta[codes.META_STACK_TOP]] & 1 == 0:
                        label = target
                        target = cached_label_result(d, label, value)
                        if target == codes.UNKNOWN_RESULT:
                            target = apply_label_unless_child_empty(
                                d, label, value, saturated_union(d, child, rest, q + 1, none)
                            )
                if target >= 0:
                    old = _child_on_stack(d, base, end, q, b, target)
                    new = saturated_union(d, child, rest, q + 1, old)
                    if new != old:
                        end, place = _set_child_of_stack_edges(d, base, end, q, b, target, new)
                        i = min(i, place)  # continue at the first edge that changed
        must_return_partial_result(d)
        found = b if end == base else node_from_stack(d, q, base)
        cache_result_if_complete(d, key1, b << 32 | own, found, before)
        # A saturated result is a fixpoint: adding the same successors to it, or saturating it, returns it.
        if found != b:
            cache_result_if_complete(d, key1, found << 32 | own, found, before)
            cache_result_if_complete(d, found << 32, own, found, before)
    # Python may have added an event or a watch at an earlier level meanwhile.
    if d.next_top[p] < q and not meta[codes.META_STOP]:
        found = saturated_union(d, found, none, p, none)
    return found
