"""Saturation: the least fixpoint of a relation, node by node, from the last level to the first.

A set is saturated from a level on once no event that begins there or below leads out of it. What is learned on the way
is learned of the node that needs it: a *watch* is a projection of which every new vector is given to Python, which adds
events. An event is enabled only under the vectors from which it was learned, and begins no lower than their watch. So
nothing that was saturated before is missed by it, and what relations made of saturated sets stays true when they grow.

References
----------
G. Ciardo, G. Luettgen, R. Siminiceanu: "Saturation: an efficient iteration strategy for symbolic state-space
generation" (2001).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kraftcheck.explorer.symbolic.kernel.calling import call_back, jit
from kraftcheck.explorer.symbolic.kernel.diagram import (
    CALLBACK,
    FIRED,
    INCOMPLETE,
    LEARN,
    LEARNED,
    LEVELS,
    LOW,
    LOWEST,
    SATURATE,
    SATURATED_PRODUCT,
    STOP,
    TOP,
    UNKNOWN,
    cached,
    level_of,
    push,
    remember,
)
from kraftcheck.explorer.symbolic.kernel.operations import (
    applied,
    collect,
    difference,
    finish,
    union,
)
from kraftcheck.explorer.symbolic.kernel.projections import lets_pass, projected, push_classes, push_edges
from kraftcheck.explorer.tables.kernel.native import inlined

WHOLE, SUCCESSORS, CHILDREN_DONE, STEP, FIRE = 0, 1, 2, 3, 4
"""What is asked for: see `saturate`.

In recursive calls they are `np.int64`: Numba would compile the function again for a literal number, and then fails to
load what is cached of a function that calls another version of itself.
"""


@jit
def _insert(d: Any, base: Any, end: Any, value: Any, child: Any) -> Any:
    """Add an edge to those on the stack from `base` to `end`, which are sorted; return their end.

    LOWEST is at most the first place where something changed.
    """
    scratch, stamps = d.scratch, d.stamps
    low, high = base, end
    while low < high:
        middle = (low + high) >> 1
        if scratch[middle] >> 32 < value:
            low = middle + 1
        else:
            high = middle
    if low < end and scratch[low] >> 32 == value:
        whole = union(d, scratch[low] & LOW, child)
        if whole != scratch[low] & LOW:
            scratch[low] = value << 32 | whole
            d.meta[LOWEST] = min(d.meta[LOWEST], low)
        return end
    push(d, 0)
    for i in range(d.meta[TOP] - 1, low, -1):
        scratch[i] = scratch[i - 1]
        stamps[i] = stamps[i - 1]
    scratch[low] = value << 32 | child
    stamps[low] = -1
    d.meta[LOWEST] = min(d.meta[LOWEST], low)
    return end + 1


@jit
def _take_in(d: Any, base: Any, end: Any, level: Any, a: Any) -> Any:
    """Add a node's edges to the sorted ones on the stack from `base` to `end`; return their end."""
    if a != 0 and level_of(d, a) > level:
        return _insert(d, base, end, np.int64(0), a)
    start = d.nodes[a, 0]
    for i in range(start, start + (d.nodes[a, 1] & LOW)):
        end = _insert(d, base, end, d.edges[i] >> 32, d.edges[i] & LOW)
    return end


@inlined
def _is_stopped(meta: Any) -> Any:
    """Whether what is under way is to come back as a part of its result; note that it does."""
    if meta[STOP]:
        meta[INCOMPLETE] += 1
        return True
    return False


@jit
def learn(d: Any, level: Any, value: Any, child: Any) -> Any:
    """Give Python what is new in the projections that are watched from a level on, of one edge.

    A watch that comes to the level meanwhile is looked at too.
    """
    version = np.int64(-1)
    while version != d.watch_version[level]:
        version = d.watch_version[level]
        _learn_once(d, level, value, child)


@jit
def _learn_once(d: Any, level: Any, value: Any, child: Any) -> None:
    which = d.first_watch[level]
    while which >= 0:
        tail = d.watch_tail[which]
        rest = projected(d, child, d.tails[tail, 2])
        key1, key2 = value << 32 | rest, np.int64(LEARNED) << 32 | which
        if rest and cached(d, key1, key2) == UNKNOWN:
            base, before = d.meta[TOP], d.meta[INCOMPLETE]
            push_classes(d, d.tails[tail, 1], value, rest)
            new = difference(d, collect(d, level, base), d.watch_known[which])
            if new and not _is_stopped(d.meta):
                call_back(d.meta[CALLBACK], LEARN, which, new)
            remember(d, key1, key2, np.int64(1), before)
        which = d.next_watch[which]


@jit
def saturate(d: Any, a: Any, r: Any, p: Any, mode: Any) -> Any:
    """Return a saturated set. One function does all that calls itself in a circle.

    Parameters
    ----------
    d
        The store.
    a
        The set.
    r
        A relation, where `mode` needs one; for FIRE a level.
    p
        The level from which on the result is to be saturated; for STEP and FIRE a value.
    mode
        WHOLE: the set is saturated. CHILDREN_DONE: the same, where what is below its level `p` is so already.
        SUCCESSORS: the successors of a saturated set are. FIRE: those under one edge, with value `p` and child `a`, by
        all events that begin at the level `r`. STEP: those by one relation are put on the stack, as edges.
    """
    if a == 0:
        return np.int64(0)
    meta, before = d.meta, d.meta[INCOMPLETE]
    if mode >= STEP:
        key1, key2, level = a << 32 | p, np.int64(FIRED) << 32 | r, r
        base, found = meta[TOP], np.int64(0)
        if mode == STEP:
            level = d.relation_nodes[r, 0]
            push_edges(d, a, r, p)
        else:
            found = cached(d, key1, key2)
            if found != UNKNOWN:
                return found
            learn(d, r, p, a)
            group = d.first_event[r]
            while group >= 0:
                push_edges(d, a, d.event_root[group], p)
                group = d.next_event[group]
        middle = meta[TOP]
        for i in range(base, middle):
            k = d.scratch[i] >> 1
            after = saturate(d, a, d.relation_edges[k, 1], level + 1, np.int64(SUCCESSORS))
            target = d.relation_edges[k, 0]
            if d.scratch[i] & 1 == 0:
                target = applied(d, target, p, after)
            if after and target >= 0:
                push(d, target << 32 | after)
        if mode == FIRE:
            found = collect(d, r, middle)
            meta[TOP] = base
            remember(d, key1, key2, found, before)
        else:
            for i in range(middle, meta[TOP]):
                d.scratch[base + i - middle] = d.scratch[i]
            meta[TOP] = base + meta[TOP] - middle
        return found
    if mode == SUCCESSORS:
        if r <= 1:
            return a * r
        q = min(level_of(d, a), d.relation_nodes[r, 0], d.next_top[p])
        key1, key2 = a << 32 | r, np.int64(SATURATED_PRODUCT) << 32 | q
        found = cached(d, key1, key2)
        if found == UNKNOWN:
            if _is_stopped(meta):
                return np.int64(0)
            base, start, n, skips = meta[TOP], d.nodes[a, 0], d.nodes[a, 1] & LOW, level_of(d, a) > q
            for i in range(1 if skips else n):
                e = a if skips else d.edges[start + i]
                if q == d.relation_nodes[r, 0]:
                    saturate(d, e & LOW, r, e >> 32, np.int64(STEP))
                elif lets_pass(d, e & LOW, r):
                    after = saturate(d, e & LOW, r, q + 1, np.int64(SUCCESSORS))
                    if after:
                        push(d, e & ~LOW | after)
            found = saturate(d, collect(d, q, base), np.int64(0), q, np.int64(CHILDREN_DONE))
            remember(d, key1, key2, found, before)
        if d.next_top[p] < q:
            found = saturate(d, found, np.int64(0), p, np.int64(WHOLE))
        return found
    while True:
        q = min(level_of(d, a), d.next_top[p])
        if q == meta[LEVELS] or (mode == CHILDREN_DONE and q > p):
            return a
        key2 = np.int64(SATURATE) << 32 | q
        found = cached(d, a << 32, key2)
        if found == UNKNOWN:
            if _is_stopped(meta):
                return a
            base, start, n, skips = meta[TOP], d.nodes[a, 0], d.nodes[a, 1] & LOW, level_of(d, a) > q
            for i in range(1 if skips else n):
                e = a if skips else d.edges[start + i]
                child = e & LOW if mode == CHILDREN_DONE else saturate(d, e & LOW, np.int64(0), q + 1, np.int64(WHOLE))
                d.stamps[meta[TOP]] = -1
                push(d, e & ~LOW | child)
            i, end = base, meta[TOP] if d.next_top[q] == q else base
            while i < end and not meta[STOP]:
                e = d.scratch[i]
                more = np.int64(0)
                if d.stamps[i] != e & LOW:
                    d.stamps[i] = e & LOW
                    more = saturate(d, e & LOW, q, e >> 32, np.int64(FIRE))
                meta[LOWEST] = i + 1  # what leads on is complete first, as far as it goes
                end = _take_in(d, base, end, q, more)
                i = meta[LOWEST]
            _is_stopped(meta)
            found = finish(d, q, base)
            remember(d, a << 32, key2, found, before)
            remember(d, found << 32, key2, found, before)
        a = found
        if d.next_top[p] >= q or meta[STOP]:
            return a
        mode = WHOLE
