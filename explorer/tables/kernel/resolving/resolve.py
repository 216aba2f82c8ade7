"""Resolution of cache misses: computes table entries, and files requests for those that only Python can compute.

It runs in one thread, between two runs of the kernel. Each entry is computed once for each distinct key.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kraftcheck.explorer.tables.kernel import codes
from kraftcheck.explorer.tables.kernel.codes import JUDGED, MISSING, pair
from kraftcheck.explorer.tables.kernel.expand import expand
from kraftcheck.explorer.tables.kernel.maps import find
from kraftcheck.explorer.tables.kernel.native import inlined, jit
from kraftcheck.explorer.tables.kernel.resolving.control_rows import evaluate_row, intern_row_images
from kraftcheck.explorer.tables.kernel.resolving.inboxes import apply_operation, intern_content_images
from kraftcheck.explorer.tables.kernel.resolving.requests import ask
from kraftcheck.explorer.tables.kernel.resolving.steps import apply_delta, build_bundle, build_row, clear_unsettled
from kraftcheck.explorer.tables.kernel.tree_walk import ALL_SLOTS, ROW_INBOXES, walk

MOST_IN_TURN = 16


@jit
def resolve_miss(t: Any, worker: Any, i: Any, symmetric: Any, groups: Any) -> Any:
    """Compute the table entry of cache miss number `i`; return whether the entry exists now."""
    kind, a, b, c = worker.misses[i, 0], worker.misses[i, 1], worker.misses[i, 2], worker.misses[i, 3]
    # The arguments of each kind are those that `expand` and `worker` record.
    if kind == codes.MISS_STEPS:
        if t.row_info[a, codes.R_START] < 0:
            build_row(t, a)
        return t.row_info[a, codes.R_START] >= 0
    if kind == codes.MISS_BUNDLE:
        if find(t.bundles, pair(a, b)) == MISSING:
            build_bundle(t, a, b, groups)
        return find(t.bundles, pair(a, b)) != MISSING
    if kind == codes.MISS_CHANGED:
        return apply_delta(t, a, b) != MISSING
    if kind == codes.MISS_OPERATED:
        return apply_operation(t, a, b, groups) != MISSING
    if kind == codes.MISS_JUDGED:
        if not t.row_info[a, codes.R_FLAGS] & JUDGED:
            evaluate_row(t, a)
        if t.row_info[a, codes.R_FLAGS] == JUDGED:
            clear_unsettled(t, b, c)
        return t.row_info[a, codes.R_FLAGS] & JUDGED != 0
    if kind == codes.MISS_PATH:
        at = worker.misses[i, 4]
        leaf = walk(t, t.rows, b, ALL_SLOTS, a, c, np.int64(0), worker.states, at, ROW_INBOXES)
        if leaf < 0 or t.nodes[leaf, codes.KIND] != codes.LEAF:
            ask(t, codes.ASK_PATH, a, b, c, 0, at)
            return False
    # The last kinds occur under a symmetry only.
    if symmetric is not None:
        if kind == codes.MISS_ROW_IMAGES:
            intern_row_images(t, a)
        elif kind == codes.MISS_CONTENT_IMAGES:
            intern_content_images(t, a)
    return True


@jit
def resolve_misses(t: Any, worker: Any, symmetric: Any, groups: Any) -> Any:
    """Resolve the worker's cache misses from number `meta[M_RESOLVED]` on; return whether all entries exist now."""
    is_all = True
    while t.meta[codes.M_RESOLVED] < worker.stats[codes.S_MISSES]:
        is_all &= resolve_miss(t, worker, t.meta[codes.M_RESOLVED], symmetric, groups)
        t.meta[codes.M_RESOLVED] += 1
    worker.stats[codes.S_MISSES] = 0
    t.meta[codes.M_RESOLVED] = 0
    return is_all


@inlined
def needs_more(t: Any, worker: Any, at: Any) -> Any:
    """Return whether expanding a state may miss the tables: its inboxes are not empty, or its row's steps unknown."""
    under_way = np.int64(0)
    for c in range(1, worker.states.shape[1]):
        under_way |= worker.states[at, c]
    return under_way != 0 or t.row_info[worker.states[at, 0], codes.R_START] < 0


@jit
def resolve(t: Any, worker: Any, symmetric: Any, groups: Any) -> None:
    """Resolve the worker's cache misses, and those that the same states meet next.

    A state meets one miss after another: a handler's outcome, the next control row, its properties, an inbox. Each
    state in `waiting` is expanded here until it meets none, which saves further runs of the parallel kernel. States
    that need an answer from Python stay in `waiting`; their requests are in `asked`. `meta[M_SETTLED]` counts the
    states done, and `meta[M_WAITING]` those that stay.

    `symmetric` is None without a symmetry, and `groups` without operations on groups or channels; Numba then compiles
    nothing for these.
    """
    resolve_misses(t, worker, symmetric, groups)
    while t.meta[codes.M_SETTLED] < t.meta[codes.M_LEFT]:
        at, tries = np.int64(t.waiting[t.meta[codes.M_SETTLED]]), 0
        worker.stats[codes.S_MISSES] = 0
        while needs_more(t, worker, at) and expand(t, worker, at) == MISSING:
            tries += 1
            if not resolve_misses(t, worker, symmetric, groups) or tries == MOST_IN_TURN:
                t.waiting[t.meta[codes.M_WAITING]] = at
                t.meta[codes.M_WAITING] += 1
                break
        t.meta[codes.M_SETTLED] += 1
