"""Batches: expanding many states at once, and sorting their successors by the partition that owns them."""

# ruff: noqa: D103
from __future__ import annotations

from typing import Any

import numpy as np

from explorer.tables.kernel import FULL, MISSING, expand, jit
from explorer.tables.layout import BAD, C_BAD, PRUNED, R_BAD, R_FLAGS, STEP_BAD, STEP_PRUNED
from explorer.tables.visited import PARTITION_BITS, hash_words, pack

# Places in a worker's `stats`.
S_GENERATED, S_RETRY, S_EVENTS, S_DONE, S_CODE, S_SEEN, S_STEP_SEEN, S_DEADLOCK = range(8)
STATS_SIZE = 16


@jit
def expand_batch(
    t: Any, rows: Any, which: Any, first: Any, last: Any, succ: Any, position: Any, width: Any, stored: Any, out: Any,
    out_n: Any, fired: Any, retry: Any, events: Any, stats: Any, learn: Any, deadlocks: bool,
) -> None:  # fmt: skip
    """Expand the states rows[which[first:last]], each wholly or not at all.

    Successors go to `out[partition]`; states for which something was not known to `retry`; violations of properties
    not seen before and deadlocks to `events` as (place in which, kind, mask or -1, place in succ). `stats[S_DONE]` is
    how far it came: less than `last` where an array is full.
    """
    words = np.zeros(stored + 1, np.uint64)
    columns = rows.shape[1]
    room = out.shape[1]
    stats[S_CODE] = 0
    fullest = out_n.max()
    for i in range(first, last):
        state = rows[which[i]]
        n = expand(t, state, succ, learn, which[i])
        if n == MISSING:
            retry[stats[S_RETRY]] = which[i]
            stats[S_RETRY] += 1
            continue
        if n == FULL:
            stats[S_DONE] = i
            stats[S_CODE] = FULL
            return
        if stats[S_EVENTS] + n + 2 >= len(events):
            stats[S_DONE] = i
            stats[S_CODE] = 1
            return
        if fullest + n >= room:
            stats[S_DONE] = i
            stats[S_CODE] = 2
            return
        if n == 0 and deadlocks and not stats[S_DEADLOCK]:
            stats[S_DEADLOCK] = 1
            note(events, stats, which[i], 0, 0, -1)
        for k in range(n):
            fired[succ[k, 0]] += 1
            step_flags, target = succ[k, 1], succ[k, 2]
            flags = t.row_info[target, R_FLAGS]
            bad = np.int64(0)
            if flags & BAD:
                bad |= t.row_info[target, R_BAD]
            for c in range(3, 2 + columns):
                bad |= t.contents[succ[k, c], C_BAD]
            if bad & ~stats[S_SEEN]:
                stats[S_SEEN] |= bad
                note(events, stats, which[i], 1, bad, k)
            if step_flags & STEP_BAD and (step_flags >> 2) & ~stats[S_STEP_SEEN]:
                stats[S_STEP_SEEN] |= step_flags >> 2
                note(events, stats, which[i], 2, step_flags >> 2, k)
            if step_flags & STEP_PRUNED or flags & PRUNED:
                continue
            pack(t.row_info, t.contents, position, width, succ[k, 2:], words)
            p = np.int64(hash_words(words) >> np.uint64(64 - PARTITION_BITS))
            at = out_n[p]
            for c in range(columns):
                out[p, at, c] = succ[k, 2 + c]
            out_n[p] = at + 1
            fullest = max(fullest, at + 1)
        stats[S_GENERATED] += n
    stats[S_DONE] = last


@jit
def note(events: Any, stats: Any, state: Any, kind: Any, mask: Any, place: Any) -> None:
    at = stats[S_EVENTS]
    events[at, 0] = state
    events[at, 1] = kind
    events[at, 2] = mask
    events[at, 3] = place
    stats[S_EVENTS] = at + 1


@jit
def owners(info: Any, contents: Any, position: Any, width: Any, stored: Any, rows: Any, owner: Any) -> None:
    """Write for each state the partition that owns it."""
    words = np.zeros(stored + 1, np.uint64)
    for i in range(len(rows)):
        pack(info, contents, position, width, rows[i], words)
        owner[i] = hash_words(words) >> np.uint64(64 - PARTITION_BITS)
