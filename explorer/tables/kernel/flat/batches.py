"""Batches of flat states."""

from __future__ import annotations

from typing import Any

import numpy as np

from kraftcheck.explorer.tables.kernel import codes
from kraftcheck.explorer.tables.kernel.codes import FULL, MISSING
from kraftcheck.explorer.tables.kernel.expand import AHEAD, RECENT
from kraftcheck.explorer.tables.kernel.flat.fields import give_back_room, has_room, pack_columns
from kraftcheck.explorer.tables.kernel.flat.orbits import find_least, write_image
from kraftcheck.explorer.tables.kernel.flat.properties import note_violated
from kraftcheck.explorer.tables.kernel.flat.steps import expand_flat, judge_pruned
from kraftcheck.explorer.tables.kernel.flat.waiting import WAITING, put, serve
from kraftcheck.explorer.tables.kernel.maps import GROUP, first_place, group_of
from kraftcheck.explorer.tables.kernel.native import bare, inlined, jit, keep, prefetch
from kraftcheck.explorer.tables.kernel.worker import keep_pruned, note, note_deadlock, try_again

MOST_IN_TURN = 16  # times that a state is tried before Python answers what it asked for


@jit
def resolve_flat(packing: Any, t: Any, worker: Any) -> None:
    """Make what flat states missed; see `resolve`."""
    while t.meta[codes.M_SETTLED] < t.meta[codes.M_LEFT]:
        at, tries = np.int64(t.waiting[t.meta[codes.M_SETTLED]]), 0
        while True:
            n = expand_flat(t, packing, worker, at, True)
            known = n != MISSING and n != FULL and judge_pruned(t, worker, True, n)
            if known and t.meta[codes.M_PERMUTATIONS] > 1:
                known = find_least(t, worker, True, n)
            if known or n == FULL:
                break
            tries += 1
            if t.meta[codes.M_ASKED] or tries == MOST_IN_TURN:
                t.waiting[t.meta[codes.M_WAITING]] = at
                t.meta[codes.M_WAITING] += 1
                break
        t.meta[codes.M_SETTLED] += 1


@inlined
def is_kept(t: Any, worker: Any, state: Any, k: Any) -> Any:
    """Note what successor k of a state, or the step to it, violates; False where it is pruned, MISSING as anywhere."""
    flags = np.int64(worker.succ[k, 1])
    over = flags >> 2 if flags & codes.STEP_BAD else np.int64(0)
    if over & ~worker.stats[codes.S_STEP_SEEN]:
        worker.stats[codes.S_STEP_SEEN] |= over
        note(worker, state, codes.BAD_STEP, over)
    if flags & codes.STEP_PRUNED == 0:
        return True
    note_violated(worker, state, np.int64(worker.broken[k]))
    return False


@inlined
def ask_for_inboxes(t: Any, worker: Any, at: Any) -> None:
    """Ask for the memory that says what a state's replicas do with their inboxes."""
    for s in range(t.meta[codes.M_ROW_SLOTS]):
        inbox = np.int64(worker.states[at, t.meta[codes.M_INBOXES] + s])
        if inbox != 0:
            local = np.int64(worker.states[at, t.meta[codes.M_SLOT_BASE] + s])
            prefetch(t.bundles, first_place(t.bundles, (local << 32) | inbox))
            group = group_of(t.operated, inbox)
            prefetch(t.operated, group)
            prefetch(t.operated, group + GROUP // 2)


@inlined
def is_same(words: Any, a: Any, b: Any) -> Any:
    """Whether two states are packed alike."""
    same = True
    for w in range(words.shape[1]):
        same &= words[a, w] == words[b, w]
    return same


@inlined
def hand_on(t: Any, packing: Any, worker: Any, found: Any, recent: Any, k: Any, waiting: Any) -> Any:
    """Pack successor k and hand it to the partition that owns it, or let it wait as number `waiting`.

    Returns the partition's count, 0 where the successor is known, or -1 where it waits.
    """
    words, succ, symmetric = worker.words, worker.succ, t.meta[codes.M_PERMUTATIONS] > 1
    if not symmetric and worker.touched[k] == 0 and is_same(words, k, len(words) - 1):
        return np.int64(0)
    if packing.clusters[0] == 0:
        if symmetric:
            write_image(t, worker, succ, k, np.int64(2), worker.least[k], worker.scratch, 0)
            pack_columns(t, packing, worker.scratch, 0, np.int64(0), words, k)
        return put(found, recent, words, k, succ, k, np.int64(2))
    for c in range(worker.waiting_rows.shape[1]):
        worker.waiting_rows[waiting, c] = succ[k, 2 + c]
    if symmetric:
        write_image(t, worker, succ, k, np.int64(2), worker.least[k], worker.waiting_images, waiting)
        pack_columns(t, packing, worker.waiting_images, waiting, np.int64(0), worker.waiting_words, waiting)
    else:
        for w in range(words.shape[1]):
            worker.waiting_words[waiting, w] = words[k, w]
    return np.int64(-1)


@jit
def expand_flat_batch(t: Any, worker: Any, found: Any, packing: Any, which: Any, deadlocks: Any) -> None:
    """Expand the worker's flat states of these numbers; see `expand_batch`."""
    succ, stats, which = worker.succ, worker.stats, bare(which)
    permutations, clusters = t.meta[codes.M_PERMUTATIONS], packing.clusters[0]
    own_recent = np.full((RECENT, found.words.shape[2]), ~np.uint64(0), np.uint64)  # no replica's code is all ones
    recent, room, fullest, waiting = bare(own_recent), found.rows.shape[1], np.int64(0), np.int64(0)
    stats[codes.S_CODE] = codes.OK
    for p in range(len(found.counts)):
        fullest = max(fullest, found.counts[p])
    for i in range(len(which)):
        if i + AHEAD < len(which):
            ask_for_inboxes(t, worker, which[i + AHEAD])
        n = expand_flat(t, packing, worker, which[i], False)
        notable = stats[codes.S_NOTABLE] != 0
        if n > 0 and not judge_pruned(t, worker, False, n):
            n = MISSING
        if n > 0 and permutations > 1 and not find_least(t, worker, False, n):
            n = MISSING
        if n == MISSING:
            try_again(worker, which[i])
            continue
        full = len(worker.pruned) > 0 and stats[codes.S_PRUNED] + n > len(worker.pruned)
        full |= fullest + waiting + max(n, 0) >= room
        crowded = n > 0 and not full and clusters > 0 and not has_room(t, packing, n)
        if n == FULL or full or crowded:
            stats[codes.S_DONE] = i
            stats[codes.S_CODE] = codes.MANY_SUCCESSORS if n == FULL else codes.NO_ROOM
            if crowded:
                stats[codes.S_CODE] = codes.MANY_CLUSTERS
            break
        if n == 0 and deadlocks:
            note_deadlock(worker, which[i])
        unused = n
        for k in range(n):
            worker.fired[succ[k, 0]] += 1
            count = np.int64(0)
            if succ[k, 1] != codes.LOOP:
                if notable and not is_kept(t, worker, which[i], k):
                    keep_pruned(worker, which[i], k)
                else:
                    count = hand_on(t, packing, worker, found, recent, k, waiting)
            fullest = max(fullest, count)
            if count < 0:
                waiting += 1
                unused -= 1
            if waiting == WAITING:
                fullest = max(fullest, serve(t, packing, worker, found, recent, waiting, permutations > 1))
                waiting = np.int64(0)
        if clusters > 0 and unused > 0:
            give_back_room(t, unused)
        stats[codes.S_GENERATED] += n
    if stats[codes.S_CODE] == codes.OK:
        stats[codes.S_DONE] = len(which)
    serve(t, packing, worker, found, recent, waiting, permutations > 1)
    keep(own_recent)
