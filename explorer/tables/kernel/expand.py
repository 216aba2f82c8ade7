"""From states whose handling is known to all their successors, by looking up.

Nothing here knows a protocol. A state is a row of ids: its control row, then one inbox content for each slot. Threads
run this side by side, as it only reads the tables; what it does not find it notes as a cache miss, and `resolve` makes
it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kraftcheck.explorer.tables.kernel import codes
from kraftcheck.explorer.tables.kernel.codes import FULL, MISSING, REFUSED
from kraftcheck.explorer.tables.kernel.maps import find
from kraftcheck.explorer.tables.kernel.native import bare, inlined, jit
from kraftcheck.explorer.tables.kernel.packing import owner_of, pack
from kraftcheck.explorer.tables.kernel.symmetry import canonical
from kraftcheck.explorer.tables.kernel.tries import walk
from kraftcheck.explorer.tables.kernel.worker import is_kept, keep_pruned, miss, note_deadlock, try_again


@inlined
def find_changed(t: Any, worker: Any, row: Any, delta: Any) -> Any:
    """Return the control row after a delta, with the step's flags above it; REFUSED or MISSING."""
    if delta == 0:
        return row
    found = find(t.changed, (row << 24) | delta)
    if found == MISSING:
        miss(worker, codes.MISS_CHANGED, row, delta, 0, 0)
    return found


@inlined
def find_operated(t: Any, worker: Any, inbox: Any, op: Any) -> Any:
    """Return the inbox content after an operation; REFUSED or MISSING."""
    found = find(t.operated, (inbox << 24) | op)
    if found == MISSING:
        miss(worker, codes.MISS_OPERATED, inbox, op, 0, 0)
    return found


@inlined
def emit(t: Any, worker: Any, at: Any, n: Any, outcome: Any, row: Any, slot: Any, inbox: Any) -> Any:
    """Write the successor of an outcome at place `n`; return the next place, or FULL.

    `row` is the next control row with the step's flags above it; `inbox` is what becomes of the actor's inbox (-1:
    it stays).
    """
    states, succ = worker.states, worker.succ
    if n >= len(succ) - 1:
        return FULL
    target = row & codes.ROW_MASK
    succ[n, 0] = t.outcomes[outcome, codes.ACTION]
    succ[n, 1] = row >> codes.FLAG_SHIFT | t.outcomes[outcome, codes.BROKEN]
    succ[n, 2] = target
    for c in range(1, states.shape[1]):
        succ[n, 2 + c] = states[at, c]
    if inbox >= 0:
        succ[n, 3 + slot] = inbox
    first = t.outcomes[outcome, codes.FIRST]
    for k in range(first, first + t.outcomes[outcome, codes.COUNT]):
        op = np.int64(t.outcome_operations[k])
        place = 3 + t.operations[op, 0]
        after = find_operated(t, worker, np.int64(succ[n, place]), op)
        if after < 0:
            return n
        succ[n, place] = after
    if not t.row_info[target, codes.R_FLAGS] & codes.JUDGED:
        miss(worker, codes.MISS_JUDGED, target, 0, 0, 0)
        return n
    return n + 1


@inlined
def note_label(worker: Any, n: Any, outcome_label: Any) -> Any:
    """Note the label of a step that a bound alone keeps from being taken; return `n`, or FULL."""
    count = worker.stats[codes.S_BLOCKED]
    if count >= len(worker.blocked):
        return FULL
    worker.blocked[count] = outcome_label
    worker.stats[codes.S_BLOCKED] = count + 1
    return n


@jit
def note_blocked(t: Any, worker: Any, at: Any, n: Any, outcome: Any, row: Any, slot: Any, inbox: Any) -> Any:
    """Note a step for which a bound has nothing left, if nothing else forbids it and it would change the state.

    `inbox` is what would become of the actor's (-1: it stays). Returns `n`, or FULL where there is no room.
    """
    states, succ = worker.states, worker.succ
    if n >= len(succ) - 1:
        return FULL
    for c in range(1, states.shape[1]):
        succ[n, 2 + c] = states[at, c]
    if inbox >= 0:
        succ[n, 3 + slot] = inbox
    first = t.outcomes[outcome, codes.FIRST]
    for k in range(first, first + t.outcomes[outcome, codes.COUNT]):
        op = np.int64(t.outcome_operations[k])
        place = 3 + t.operations[op, 0]
        after = find_operated(t, worker, np.int64(succ[n, place]), op)
        if after < 0:
            return n
        succ[n, place] = after
    changes = False
    for c in range(1, states.shape[1]):
        changes |= succ[n, 2 + c] != states[at, c]
    delta = t.outcomes[outcome, codes.DELTA]
    for k in range(t.deltas[delta, 0], t.deltas[delta, 0] + t.deltas[delta, 1]):
        changes |= t.rows[row, t.assignments[k, 0]] != t.assignments[k, 1]
    return note_label(worker, n, t.outcomes[outcome, codes.ACTION]) if changes else n


@inlined
def follow(t: Any, worker: Any, at: Any, n: Any, outcome: Any, row: Any, slot: Any, rest: Any) -> Any:
    """Write the successor of an outcome whose next control row is still to be found; `rest`: see `expand_inbox`."""
    goal = find_changed(t, worker, row, np.int64(t.outcomes[outcome, codes.DELTA]))
    inbox = rest if t.outcomes[outcome, codes.CONSUMES] else np.int64(-1)
    if goal < 0:
        if goal == REFUSED and t.meta[codes.M_WATCH_BOUNDS]:
            return note_blocked(t, worker, at, n, outcome, row, slot, inbox)
        return n
    return emit(t, worker, at, n, outcome, goal, slot, inbox)


@jit
def follow_trie(t: Any, worker: Any, at: Any, n: Any, node: Any, row: Any, local: Any, slot: Any, rest: Any) -> Any:
    """Write the successors of all outcomes that a trie leads to."""
    leaf = walk(t, node, row, local, np.int64(0), worker.states, at)
    if leaf < 0 or t.nodes[leaf, codes.KIND] != codes.LEAF:
        miss(worker, codes.MISS_PATH, node, row, local, at)
        return n
    first = np.int64(t.nodes[leaf, codes.A])
    for outcome in range(first, first + t.nodes[leaf, codes.N]):
        n = follow(t, worker, at, n, outcome, row, slot, rest)
        if n == FULL:
            break
    return n


@jit
def expand_row(t: Any, worker: Any, at: Any, n: Any, row: Any) -> Any:
    """Write what follows from the control row: each replica's own steps and the environment's."""
    first = t.row_info[row, codes.R_START]
    if first < 0:
        miss(worker, codes.MISS_STEPS, row, 0, 0, 0)
        return n
    for k in range(first, first + t.row_info[row, codes.R_N]):
        ref, target = np.int64(t.row_items[k, 0]), np.int64(t.row_items[k, 1])
        extra = np.int64(t.row_items[k, 2])  # the step's flags, or the slot of an action that reads inboxes
        if target >= 0:
            n = emit(t, worker, at, n, ref, target | extra << codes.FLAG_SHIFT, np.int64(-1), np.int64(-1))
        elif target == codes.BLOCKED:
            n = note_blocked(t, worker, at, n, ref, row, np.int64(-1), np.int64(-1))
        else:
            local = np.int64(t.rows[row, t.meta[codes.M_SLOT_BASE] + extra]) if extra >= 0 else np.int64(0)
            n = follow_trie(t, worker, at, n, ref, row, local, extra, np.int64(-1))
        if n == FULL:
            break
    return n


@jit
def expand_inbox(t: Any, worker: Any, at: Any, n: Any, row: Any, slot: Any, inbox: Any) -> Any:
    """Write what a replica may do with its messages; `rest` is the inbox without the message that is consumed."""
    local = np.int64(t.rows[row, t.meta[codes.M_SLOT_BASE] + slot])
    if local == 0:
        return n
    bundle = find(t.bundles, (local << 32) | inbox)
    if bundle < 0:
        miss(worker, codes.MISS_BUNDLE, local, inbox, 0, 0)
        return n
    first = bundle >> codes.BUNDLE_BITS
    for k in range(first, first + (bundle & codes.BUNDLE_MASK)):
        ref, rest = np.int64(t.bundle_items[k, 0]), np.int64(t.bundle_items[k, 2])
        if t.bundle_items[k, 1]:
            n = follow_trie(t, worker, at, n, ref, row, local, slot, rest)
        else:
            n = follow(t, worker, at, n, ref, row, slot, rest)
        if n == FULL:
            break
    return n


@jit
def expand_network(t: Any, worker: Any, at: Any, n: Any, row: Any, slot: Any, inbox: Any) -> Any:
    """Write the network's own steps: what it may do with each message of an inbox."""
    first = t.contents[inbox, codes.C_START]
    for k in range(first, first + t.contents[inbox, codes.C_N]):
        if t.content_items[k, 1] <= 0:
            continue
        for j in range(t.meta[codes.M_NETWORK_STEPS]):
            goal = find_changed(t, worker, row, np.int64(t.network_steps[j, 1]))
            op = np.int64(t.network_operations[j, t.content_items[k, 0]])
            after = find_operated(t, worker, inbox, op)
            outcome = np.int64(t.network_steps[j, 0])
            if goal >= 0 and after >= 0:
                n = emit(t, worker, at, n, outcome, goal, slot, after)
            elif goal == REFUSED and after >= 0 and after != inbox and t.meta[codes.M_WATCH_BOUNDS]:
                n = note_label(worker, n, t.outcomes[outcome, codes.ACTION])
            if n == FULL:
                return n
    return n


@jit
def expand(t: Any, worker: Any, at: Any) -> Any:
    """Write all successors of a state to `worker.succ`, as rows (action, flags, control row, inboxes ...).

    Returns how many there are, MISSING after a cache miss, or FULL where there is no room for them.
    """
    row = np.int64(worker.states[at, 0])
    worker.stats[codes.S_MISSED] = 0
    worker.stats[codes.S_BLOCKED] = 0
    n = expand_row(t, worker, at, np.int64(0), row)
    for slot in range(t.meta[codes.M_SLOTS]):
        inbox = np.int64(worker.states[at, 1 + slot])
        if inbox != 0 and n != FULL:
            n = expand_inbox(t, worker, at, n, row, slot, inbox)
        if inbox != 0 and n != FULL and t.meta[codes.M_NETWORK_STEPS]:
            n = expand_network(t, worker, at, n, row, slot, inbox)
    return MISSING if n != FULL and worker.stats[codes.S_MISSED] else n


@jit
def expand_batch(t: Any, worker: Any, found: Any, packing: Any, which: Any, deadlocks: Any) -> None:
    """Expand the worker's states of these numbers, each wholly or not at all.

    Successors go to `found`. `stats[S_DONE]` is how far it came: less than all where an array is full, which
    `stats[S_CODE]` names.
    """
    states, succ, stats, which = worker.states, worker.succ, worker.stats, bare(which)
    permutations, columns, stored = t.meta[codes.M_PERMUTATIONS], states.shape[1], found.words.shape[2]
    own_words, own_image = np.zeros((1, stored), np.uint64), np.zeros(columns, np.int32)
    own_images = np.zeros((len(succ) if permutations > 1 else 0, columns), np.int32)
    words, image, images = bare(own_words), bare(own_image), bare(own_images)
    room, fullest = found.rows.shape[1], np.int64(0)
    stats[codes.S_CODE] = codes.OK
    for p in range(len(found.counts)):
        fullest = max(fullest, found.counts[p])
    for i in range(len(which)):
        n = expand(t, worker, which[i])
        for k in range(n if permutations > 1 else 0):
            if not canonical(t, worker, succ, k, 2, columns, images, k, 0, image):
                n = MISSING
        if n == MISSING:
            try_again(worker, which[i])
            continue
        full = len(worker.pruned) > 0 and stats[codes.S_PRUNED] + n > len(worker.pruned)
        if n == FULL or fullest + n >= room or full:
            stats[codes.S_DONE] = i
            stats[codes.S_CODE] = codes.MANY_SUCCESSORS if n == FULL else codes.NO_ROOM
            return
        if n == 0 and deadlocks:
            note_deadlock(worker, which[i])
        for k in range(n):
            if not is_kept(t, worker, which[i], k):
                keep_pruned(worker, which[i], k)
                continue
            if permutations > 1:
                pack(t, packing, images, k, 0, words, 0)
            else:
                pack(t, packing, succ, k, 2, words, 0)
            p = owner_of(words, 0)
            at = found.counts[p]
            for c in range(columns):
                found.rows[p, at, c] = succ[k, 2 + c]
            for w in range(stored):
                found.words[p, at, w] = words[0, w]
            found.counts[p] = at + 1
            fullest = max(fullest, at + 1)
        stats[codes.S_GENERATED] += n
    stats[codes.S_DONE] = len(which)


@jit
def find_predecessor(t: Any, worker: Any, target: Any) -> Any:
    """Return the index of the first of the worker's states that has the target among its successors, or -1."""
    succ, stats, target = worker.succ, worker.stats, bare(target)
    for i in range(len(worker.states)):
        n = expand(t, worker, i)
        if n < 0:
            stats[codes.S_CODE] = codes.MANY_SUCCESSORS if n == FULL else codes.OK
            try_again(worker, i)
        for k in range(n):
            same = True
            for c in range(len(target)):
                same &= succ[k, 2 + c] == target[c]
            if same:
                return i
    return -1
