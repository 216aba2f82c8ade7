"""Makes what `expand` did not find, and notes what only Python can answer.

It runs in one thread, between batches. Everything is made once for each distinct value.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kraftcheck.explorer.tables.kernel import codes
from kraftcheck.explorer.tables.kernel.codes import JUDGED, MISSING, pair
from kraftcheck.explorer.tables.kernel.expand import expand
from kraftcheck.explorer.tables.kernel.maps import find
from kraftcheck.explorer.tables.kernel.native import inlined, jit
from kraftcheck.explorer.tables.kernel.resolving.asking import ask
from kraftcheck.explorer.tables.kernel.resolving.control_rows import make_row_images
from kraftcheck.explorer.tables.kernel.resolving.inboxes import make_content_images, make_operated
from kraftcheck.explorer.tables.kernel.resolving.properties import judge
from kraftcheck.explorer.tables.kernel.resolving.steps import build_bundle, build_row, make_changed, settle
from kraftcheck.explorer.tables.kernel.tries import ALL_SLOTS, ROW_INBOXES, walk

MOST_IN_TURN = 16


@jit
def make(t: Any, worker: Any, i: Any, symmetric: Any, groups: Any) -> Any:
    """Make what miss number `i` of a worker is about; return whether it is there now."""
    kind, a, b, c = worker.misses[i, 0], worker.misses[i, 1], worker.misses[i, 2], worker.misses[i, 3]
    # Each kind of miss is about other numbers: see where `expand` notes it.
    if kind == codes.MISS_STEPS:
        if t.row_info[a, codes.R_START] < 0:
            build_row(t, a)
        return t.row_info[a, codes.R_START] >= 0
    if kind == codes.MISS_BUNDLE:
        if find(t.bundles, pair(a, b)) == MISSING:
            build_bundle(t, a, b, groups)
        return find(t.bundles, pair(a, b)) != MISSING
    if kind == codes.MISS_CHANGED:
        return make_changed(t, a, b) != MISSING
    if kind == codes.MISS_OPERATED:
        return make_operated(t, a, b, groups) != MISSING
    if kind == codes.MISS_JUDGED:
        if not t.row_info[a, codes.R_FLAGS] & JUDGED:
            judge(t, a)
        if t.row_info[a, codes.R_FLAGS] == JUDGED:
            settle(t, b, c)
        return t.row_info[a, codes.R_FLAGS] & JUDGED != 0
    if kind == codes.MISS_PATH:
        at = worker.misses[i, 4]
        leaf = walk(t, t.rows, b, ALL_SLOTS, a, c, np.int64(0), worker.states, at, ROW_INBOXES)
        if leaf < 0 or t.nodes[leaf, codes.KIND] != codes.LEAF:
            ask(t, codes.ASK_PATH, a, b, c, 0, at)
            return False
    if symmetric is not None:
        if kind == codes.MISS_ROW_IMAGES:
            make_row_images(t, a)
        elif kind == codes.MISS_CONTENT_IMAGES:
            make_content_images(t, a)
    return True


@jit
def resolve_misses(t: Any, worker: Any, symmetric: Any, groups: Any) -> Any:
    """Make what the worker missed, from number `meta[M_RESOLVED]` on; return whether all is there now."""
    is_all = True
    while t.meta[codes.M_RESOLVED] < worker.stats[codes.S_MISSES]:
        is_all &= make(t, worker, t.meta[codes.M_RESOLVED], symmetric, groups)
        t.meta[codes.M_RESOLVED] += 1
    worker.stats[codes.S_MISSES] = 0
    t.meta[codes.M_RESOLVED] = 0
    return is_all


@inlined
def needs_more(t: Any, worker: Any, at: Any) -> Any:
    """Whether a state may miss more: not where nothing is under way and its control row's steps are known."""
    under_way = np.int64(0)
    for c in range(1, worker.states.shape[1]):
        under_way |= worker.states[at, c]
    return under_way != 0 or t.row_info[worker.states[at, 0], codes.R_START] < 0


@jit
def resolve(t: Any, worker: Any, symmetric: Any, groups: Any) -> None:
    """Make what the worker missed, and what its states will miss then.

    A state misses one thing after another: what a message leads to, a control row, its properties, an inbox. So each of
    the states in `waiting` is expanded here until it misses nothing; those for which Python must answer first, which is
    noted in `asked`, stay there. `meta[M_SETTLED]` says how many states are behind it, `meta[M_WAITING]` how many stay.

    `symmetric` is None where no images are needed, `groups` where no operation is on a group of messages or a channel:
    then Numba compiles nothing for these.
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
