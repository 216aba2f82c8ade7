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
from kraftcheck.explorer.tables.kernel.maps import GROUP, find, find_near, first_place, group_of
from kraftcheck.explorer.tables.kernel.native import bare, inlined, jit, keep, prefetch
from kraftcheck.explorer.tables.kernel.packing import change_bits, hash_words, owner, pack
from kraftcheck.explorer.tables.kernel.symmetry import canonical
from kraftcheck.explorer.tables.kernel.tries import walk
from kraftcheck.explorer.tables.kernel.worker import is_kept, keep_pruned, miss, note_deadlock, try_again, unsettled

RECENT = 1 << 12  # successors of which a repetition is noticed at once
AHEAD = 8  # states between asking for memory and reading it


@inlined
def find_changed(t: Any, worker: Any, row: Any, delta: Any) -> Any:
    """Return the control row after a delta, with the step's flags above it; REFUSED or MISSING."""
    if delta == 0:
        return row
    found = find_near(t.changed, row, delta)
    if found == MISSING:
        miss(worker, codes.MISS_CHANGED, row, delta, 0, 0)
    return found


@inlined
def find_operated(t: Any, worker: Any, inbox: Any, op: Any) -> Any:
    """Return the inbox content after an operation; REFUSED or MISSING."""
    found = find_near(t.operated, inbox, op)
    if found == MISSING:
        miss(worker, codes.MISS_OPERATED, inbox, op, 0, 0)
    return found


@inlined
def emit(t: Any, worker: Any, at: Any, n: Any, outcome: Any, row: Any, ref: Any, slot: Any, inbox: Any) -> Any:
    """Write the successor of an outcome at place `n`; return the next place, or FULL.

    `row` is the next control row with the step's flags above it, `ref` where that was found (see `unsettled`); `inbox`
    is what becomes of the actor's inbox (-1: it stays).
    """
    states, succ = worker.states, worker.succ
    if n >= len(succ) - 1:
        return FULL
    target = row & codes.ROW_MASK
    flags = (row >> codes.FLAG_SHIFT & codes.STEP_FLAGS) | t.outcomes[outcome, codes.BROKEN]
    if flags:
        worker.stats[codes.S_NOTABLE] = 1
    succ[n, 0] = t.outcomes[outcome, codes.ACTION]
    succ[n, 1] = flags
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
        if t.inbox_codes[after] < 0:
            worker.stats[codes.S_NOTABLE] = 1
    if row >> codes.FLAG_SHIFT & codes.UNSETTLED and not unsettled(t, worker, target, np.int64(states[at, 0]), ref):
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
    return emit(t, worker, at, n, outcome, goal, np.int64(t.outcomes[outcome, codes.DELTA]), slot, inbox)


@jit
def follow_trie(t: Any, worker: Any, at: Any, n: Any, node: Any, row: Any, local: Any, slot: Any, rest: Any) -> Any:
    """Write the successors of all outcomes that a trie leads to."""
    leaf = walk(t, t.rows, row, node, local, np.int64(0), worker.states, at)
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
            goal = target | extra << codes.FLAG_SHIFT
            n = emit(t, worker, at, n, ref, goal, ~np.int64(k), np.int64(-1), np.int64(-1))
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
                n = emit(t, worker, at, n, outcome, goal, np.int64(t.network_steps[j, 1]), slot, after)
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
    worker.stats[codes.S_NOTABLE] = 0
    n = expand_row(t, worker, at, np.int64(0), row)
    for slot in range(t.meta[codes.M_SLOTS]):
        inbox = np.int64(worker.states[at, 1 + slot])
        if t.inbox_codes[inbox] < 0:
            worker.stats[codes.S_NOTABLE] = 1
        if inbox != 0 and n != FULL:
            n = expand_inbox(t, worker, at, n, row, slot, inbox)
        if inbox != 0 and n != FULL and t.meta[codes.M_NETWORK_STEPS]:
            n = expand_network(t, worker, at, n, row, slot, inbox)
    return MISSING if n != FULL and worker.stats[codes.S_MISSED] else n


@jit
def by_control_row(rows: Any, shift: Any, firsts: Any, order: Any) -> None:
    """Write the numbers of states so that those with near control rows stand together; `firsts` is zeros."""
    rows, firsts, order = bare(rows), bare(firsts), bare(order)
    for i in range(len(rows)):
        firsts[(rows[i, 0] >> shift) + 1] += 1
    for b in range(1, len(firsts)):
        firsts[b] += firsts[b - 1]
    for i in range(len(rows)):
        b = rows[i, 0] >> shift
        order[firsts[b]] = i
        firsts[b] += 1


@inlined
def ask_for_row(t: Any, worker: Any, at: Any) -> None:
    """Ask for the memory that says what a state's control row is."""
    row = np.int64(worker.states[at, 0])
    prefetch(t.row_info, row)
    prefetch(t.rows, row)
    group = group_of(t.changed, row)
    prefetch(t.changed, group)
    prefetch(t.changed, group + GROUP // 2)


@inlined
def ask_for_inboxes(t: Any, worker: Any, at: Any) -> None:
    """Ask for the memory that says where it stands what a state's replicas do with their inboxes."""
    row = np.int64(worker.states[at, 0])
    prefetch(t.row_items, max(t.row_info[row, codes.R_START], 0))
    for slot in range(t.meta[codes.M_SLOTS]):
        inbox = np.int64(worker.states[at, 1 + slot])
        group = group_of(t.operated, inbox)
        prefetch(t.operated, group)
        prefetch(t.operated, group + GROUP // 2)
        if inbox != 0:
            local = np.int64(t.rows[row, t.meta[codes.M_SLOT_BASE] + slot])
            prefetch(t.bundles, first_place(t.bundles, (local << 32) | inbox))


@inlined
def look_ahead(t: Any, worker: Any, which: Any, i: Any) -> None:
    """Ask for what the states after number i need: memory is slow to answer, and answers many at a time."""
    if i + 3 * AHEAD < len(which):
        prefetch(worker.states, which[i + 3 * AHEAD])
    if i + 2 * AHEAD < len(which):
        ask_for_row(t, worker, which[i + 2 * AHEAD])
    if i + AHEAD < len(which):
        ask_for_inboxes(t, worker, which[i + AHEAD])


@inlined
def identity(t: Any, hides: Any, f: Any, field: Any) -> Any:
    """Return what a field of a state, its control row (0) or an inbox, is packed as."""
    if f > 0:
        return np.uint64(t.inbox_codes[field] & codes.CODE_MASK)
    return np.uint64(t.row_info[field, codes.R_IDENTITY]) if hides else np.uint64(field)


@inlined
def pack_changed(t: Any, packing: Any, worker: Any, at: Any, k: Any, hides: Any, words: Any) -> Any:
    """Write the packed identity of successor k to words[1], given that of its state in words[0]; say if they differ."""
    states, succ = worker.states, worker.succ
    for w in range(words.shape[1]):
        words[1, w] = words[0, w]
    differ = False
    for f in range(len(packing.position)):
        before, after = np.int64(states[at, f]), np.int64(succ[k, 2 + f])
        if before != after:
            difference = identity(t, hides, f, before) ^ identity(t, hides, f, after)
            change_bits(words, 1, packing.position[f], packing.width[f], difference)
            differ |= difference != 0
    return differ


@inlined
def is_repeated(recent: Any, words: Any, k: Any, place: Any) -> Any:
    """Whether the packed words of successor k are those that came to a place last; they are there now."""
    same = True
    for w in range(words.shape[1]):
        same &= recent[place, w] == words[k, w]
        recent[place, w] = words[k, w]
    return same


@jit
def expand_batch(t: Any, worker: Any, found: Any, packing: Any, which: Any, deadlocks: Any) -> None:
    """Expand the worker's states of these numbers, each wholly or not at all.

    Successors go to `found`. `stats[S_DONE]` is how far it came: less than all where an array is full, which
    `stats[S_CODE]` names.
    """
    states, succ, stats, which = worker.states, worker.succ, worker.stats, bare(which)
    permutations, columns, stored = t.meta[codes.M_PERMUTATIONS], states.shape[1], found.words.shape[2]
    own_words, own_image = np.zeros((2, stored), np.uint64), np.zeros(columns, np.int32)
    own_images = np.zeros((len(succ) if permutations > 1 else 0, columns), np.int32)
    own_recent = np.full((RECENT, stored), ~np.uint64(0), np.uint64)  # no field is all ones
    words, image, images, recent = bare(own_words), bare(own_image), bare(own_images), bare(own_recent)
    room, fullest = found.rows.shape[1], np.int64(0)
    stats[codes.S_CODE] = codes.OK
    hides = False
    for c in range(t.rows.shape[1]):
        hides |= t.hidden[c] != 0
    for p in range(len(found.counts)):
        fullest = max(fullest, found.counts[p])
    for i in range(len(which)):
        look_ahead(t, worker, which, i)
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
        notable = stats[codes.S_NOTABLE] != 0
        if permutations == 1 and n > 0:
            pack(t, packing, states, which[i], 0, words, 0)
        for k in range(n):
            if not notable:
                worker.fired[succ[k, 0]] += 1
            elif not is_kept(t, worker, which[i], k):
                keep_pruned(worker, which[i], k)
                continue
            if permutations > 1:
                pack(t, packing, images, k, 0, words, 1)
            elif not pack_changed(t, packing, worker, which[i], k, hides, words):
                continue  # it is the state itself
            h = hash_words(words, 1)
            if is_repeated(recent, words, 1, np.int64(h & np.uint64(RECENT - 1))):
                continue
            p = owner(h)
            at = found.counts[p]
            for c in range(columns):
                found.rows[p, at, c] = succ[k, 2 + c]
            for w in range(stored):
                found.words[p, at, w] = words[1, w]
            found.counts[p] = at + 1
            fullest = max(fullest, at + 1)
        stats[codes.S_GENERATED] += n
    stats[codes.S_DONE] = len(which)
    keep(own_words)
    keep(own_image)
    keep(own_images)
    keep(own_recent)


@jit
def find_predecessor(t: Any, worker: Any, targets: Any) -> Any:
    """Return the index of the first of the worker's states that has one of the targets as a successor, or -1."""
    succ, stats, targets = worker.succ, worker.stats, bare(targets)
    for i in range(len(worker.states)):
        n = expand(t, worker, i)
        if n < 0:
            stats[codes.S_CODE] = codes.MANY_SUCCESSORS if n == FULL else codes.OK
            try_again(worker, i)
        for k in range(n):
            for target in range(len(targets)):
                same = True
                for c in range(targets.shape[1]):
                    same &= succ[k, 2 + c] == targets[target, c]
                if same:
                    return i
    return -1
