"""Expands states whose control rows would not repeat: none is interned, all is read from the states themselves.

A *flat* state is a row of ids too: first what its control row would hold, column by column, then one inbox content for
each slot. Steps are looked up by the replica that acts, and written straight into the successor. Invariants are judged
once for each new state, and what they say of a replica, or of two, is remembered.

What is missing is only noted by the threads: `expand_flat` and `violated` are then called again, in one thread (with
`serial`), and make it, or ask for it, where they meet it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kraftcheck.explorer.tables.kernel import codes
from kraftcheck.explorer.tables.kernel.codes import FULL, MISSING
from kraftcheck.explorer.tables.kernel.expand import AHEAD, RECENT, is_repeated
from kraftcheck.explorer.tables.kernel.maps import GROUP, find, find_near, first_place, group_of
from kraftcheck.explorer.tables.kernel.native import bare, inlined, jit, prefetch
from kraftcheck.explorer.tables.kernel.packing import change_bits, hash_words, owner, pack, put_bits
from kraftcheck.explorer.tables.kernel.resolving.asking import ask, ask_roots, stop_to_grow
from kraftcheck.explorer.tables.kernel.resolving.control_rows import intern_row
from kraftcheck.explorer.tables.kernel.resolving.inboxes import make_content_images, make_operated
from kraftcheck.explorer.tables.kernel.resolving.steps import build_bundle, make_local
from kraftcheck.explorer.tables.kernel.tries import walk, walk_alone
from kraftcheck.explorer.tables.kernel.worker import keep_pruned, note, note_deadlock, try_again

SMALL = 1 << 12  # ids of local states of which it is remembered what holds of two of them; no replica is in place 0
LARGEST = np.int64(1 << 62)
MOST_IN_TURN = 16  # times that a state is tried before Python answers what it asked for


# What is read, and what is missing


@jit
def intern_columns(t: Any, rows: Any, row: Any) -> Any:
    """Return the id of the control row that stands in the first columns of a row."""
    fresh = t.meta[codes.M_ROWS]
    if fresh + 4 >= t.rows.shape[0]:
        stop_to_grow(t, codes.GROW_ROWS)
    known = t.meta[codes.M_SLOT_BASE] + t.meta[codes.M_ROW_SLOTS]
    for c in range(t.rows.shape[1]):
        t.rows[fresh, c] = rows[row, c] if c < known else 0
    return intern_row(t, fresh)


@jit
def ask_path(t: Any, rows: Any, row: Any, root: Any, me: Any, peer: Any, at: Any) -> None:
    """Ask what a trie does not say; Python reads it of a control row."""
    ask(t, codes.ASK_PATH, root, intern_columns(t, rows, row), me, peer, at)


@inlined
def leaf_of(t: Any, worker: Any, serial: Any, rows: Any, row: Any, root: Any, me: Any, peer: Any, at: Any) -> Any:
    """Follow a trie to its leaf; MISSING where there is none yet. `at`: the state whose inboxes are read, or -1."""
    leaf = walk(t, rows, row, root, me, peer, worker.states, at)
    if leaf < 0 or t.nodes[leaf, codes.KIND] != codes.LEAF:
        worker.stats[codes.S_MISSED] = 1
        leaf = MISSING
        if serial:
            ask_path(t, rows, row, root, me, peer, at)
    return leaf


@inlined
def roots_of(t: Any, worker: Any, serial: Any, local: Any) -> Any:
    """Return the list of what a replica may do by itself, or MISSING."""
    found = np.int64(t.own_roots[local])
    if found < 0:
        worker.stats[codes.S_MISSED] = 1
        if serial:
            ask_roots(t, local, np.int64(0))
    return found


@inlined
def after(t: Any, worker: Any, serial: Any, inbox: Any, op: Any) -> Any:
    """Return the inbox content after an operation; REFUSED or MISSING."""
    found = find_near(t.operated, inbox, op)
    if found == MISSING:
        worker.stats[codes.S_MISSED] = 1
        if serial:
            make_operated(t, inbox, op)
    return found


@inlined
def bundle_of(t: Any, worker: Any, serial: Any, local: Any, inbox: Any) -> Any:
    """Return where the list of what a replica may do with its messages starts, and how long it is; or MISSING."""
    found = find(t.bundles, (local << 32) | inbox)
    if found < 0:
        worker.stats[codes.S_MISSED] = 1
        if serial:
            build_bundle(t, local, inbox)
    return found


# Steps


@inlined
def change_column(t: Any, packing: Any, worker: Any, n: Any, column: Any, later: Any) -> None:
    """Give successor `n` another number in a column that is no inbox."""
    before = np.int64(worker.succ[n, 2 + column])
    worker.succ[n, 2 + column] = later
    difference = np.int64(0) if t.hidden[column] else before ^ later
    if column >= t.meta[codes.M_SLOT_BASE]:
        difference = np.int64(t.local_codes[before] ^ t.local_codes[later])
    change_bits(worker.words, n, packing.position[column], packing.width[column], np.uint64(difference))


@inlined
def change_inbox(t: Any, packing: Any, worker: Any, n: Any, slot: Any, later: Any) -> None:
    """Give a replica of successor `n` another inbox."""
    column = t.meta[codes.M_INBOXES] + slot
    before = np.int64(worker.succ[n, 2 + column])
    worker.succ[n, 2 + column] = later
    difference = np.int64((t.inbox_codes[before] ^ t.inbox_codes[later]) & codes.CODE_MASK)
    change_bits(worker.words, n, packing.position[column], packing.width[column], np.uint64(difference))


@inlined
def write_delta(t: Any, packing: Any, worker: Any, serial: Any, at: Any, n: Any, delta: Any) -> Any:
    """Write the columns of successor `n` that a delta changes; return whether the step can be taken and is known."""
    states, succ = worker.states, worker.succ
    for k in range(t.deltas[delta, 2], t.deltas[delta, 2] + t.deltas[delta, 3]):
        column, amount = t.spendings[k, 0], t.spendings[k, 1]
        if states[at, column] + max(amount, 1) > t.limits[column]:
            return False
        change_column(t, packing, worker, n, column, np.int64(succ[n, 2 + column] + amount))
    known = True
    for k in range(t.deltas[delta, 0], t.deltas[delta, 0] + t.deltas[delta, 1]):
        column, value = np.int64(t.assignments[k, 0]), np.int64(t.assignments[k, 1])
        before = np.int64(states[at, column])
        if value < 0:
            fields = ~value
            value = find(t.changed_locals, (fields << 32) | before)
            if value < 0:
                known = False
                worker.stats[codes.S_MISSED] = 1
                if serial:
                    make_local(t, before, fields)
        if known:
            change_column(t, packing, worker, n, column, value)
    return known


@jit
def step_flags(t: Any, worker: Any, serial: Any, at: Any, n: Any) -> Any:
    """Return the flags of the step to successor `n`; MISSING where a property of it is not known."""
    states, succ, base = worker.states, worker.succ, t.meta[codes.M_SLOT_BASE]
    flags = np.int64(0)
    missing = False
    for s in range(t.meta[codes.M_ROW_SLOTS]):
        before, later = np.int64(states[at, base + s]), np.int64(succ[n, 2 + base + s])
        if before == later or before == 0 or later == 0:
            continue
        for p in range(t.meta[codes.M_STEP_PROPERTIES]):
            root = np.int64(t.step_properties[p, 0])
            leaf = leaf_of(t, worker, serial, states, at, root, before, later, np.int64(-1))
            if leaf < 0:
                missing = True
            elif t.nodes[leaf, codes.A] == 0:
                flags |= codes.STEP_PRUNED if t.step_properties[p, 1] else (codes.STEP_BAD | (np.int64(1) << (p + 2)))
    return np.int64(MISSING) if missing else flags


@inlined
def within(t: Any, worker: Any, serial: Any, n: Any) -> Any:
    """Whether successor `n` is within the constraints, which are judged where the successor is found; or MISSING."""
    for c in range(worker.scratch.shape[1]):
        worker.scratch[0, c] = worker.succ[n, 2 + c]
    broken = violated(t, worker, serial, worker.scratch, np.int64(0), 1)
    return broken if broken < 0 else np.int64(broken == 0)


@inlined
def emit(
    t: Any, packing: Any, worker: Any, serial: Any, at: Any, n: Any, outcome: Any, delta: Any, slot: Any, inbox: Any
) -> Any:
    """Write the successor of an outcome, which changes columns by a delta, at `n`; return the next place, or FULL.

    `inbox` is what becomes of the actor's (-1: it stays).
    """
    states, succ = worker.states, worker.succ
    if n >= len(succ) - 1:
        return FULL
    first_inbox = 2 + t.meta[codes.M_INBOXES]
    for c in range(states.shape[1]):
        succ[n, 2 + c] = states[at, c]
    for w in range(worker.words.shape[1]):
        worker.words[n, w] = worker.words[len(worker.words) - 1, w]
    if not write_delta(t, packing, worker, serial, at, n, delta):
        return n
    if inbox >= 0:
        change_inbox(t, packing, worker, n, slot, inbox)
    first = t.outcomes[outcome, codes.FIRST]
    for k in range(first, first + t.outcomes[outcome, codes.COUNT]):
        op = np.int64(t.outcome_operations[k])
        place = np.int64(t.operations[op, 0])
        content = after(t, worker, serial, np.int64(succ[n, first_inbox + place]), op)
        if content < 0:
            return n
        change_inbox(t, packing, worker, n, place, content)
    flags = np.int64(t.outcomes[outcome, codes.BROKEN])
    if t.meta[codes.M_STEP_PROPERTIES]:
        more = step_flags(t, worker, serial, at, n)
        if more < 0:
            return n
        flags |= more
    if t.meta[codes.M_CONSTRAINTS]:
        inside = within(t, worker, serial, n)
        if inside < 0:
            return n
        if inside == 0:
            flags |= codes.STEP_PRUNED
    if flags:
        worker.stats[codes.S_NOTABLE] = 1
    succ[n, 0] = t.outcomes[outcome, codes.ACTION]
    succ[n, 1] = flags
    return n + 1


@jit
def follow(
    t: Any,
    packing: Any,
    worker: Any,
    serial: Any,
    at: Any,
    n: Any,
    root: Any,
    local: Any,
    slot: Any,
    outcomes: Any,
    inbox: Any,
) -> Any:
    """Write the successors of all outcomes that a trie leads to; `outcomes`, if any, is the one that is known.

    `inbox` is that of the actor without the message that is consumed (-1: there is none).
    """
    first, last = outcomes, outcomes + 1
    if outcomes < 0:
        leaf = leaf_of(t, worker, serial, worker.states, at, root, local, np.int64(0), at)
        if leaf < 0:
            return n
        first = np.int64(t.nodes[leaf, codes.A])
        last = first + t.nodes[leaf, codes.N]
    for outcome in range(first, last):
        left = inbox if t.outcomes[outcome, codes.CONSUMES] else np.int64(-1)
        n = emit(t, packing, worker, serial, at, n, outcome, t.outcomes[outcome, codes.DELTA], slot, left)
        if n == FULL:
            break
    return n


@jit
def expand_network(t: Any, packing: Any, worker: Any, serial: Any, at: Any, n: Any, slot: Any, inbox: Any) -> Any:
    """Write the network's own steps: what it may do with each message of an inbox."""
    first = t.contents[inbox, codes.C_START]
    for k in range(first, first + t.contents[inbox, codes.C_N]):
        if t.content_items[k, 1] <= 0:
            continue
        for j in range(t.meta[codes.M_NETWORK_STEPS]):
            op = np.int64(t.network_operations[j, t.content_items[k, 0]])
            content = after(t, worker, serial, inbox, op)
            if content >= 0:
                outcome, delta = np.int64(t.network_steps[j, 0]), t.network_steps[j, 1]
                n = emit(t, packing, worker, serial, at, n, outcome, delta, slot, content)
            if n == FULL:
                return n
    return n


@jit
def expand_flat(t: Any, packing: Any, worker: Any, at: Any, serial: Any) -> Any:
    """Write all successors of a flat state to `worker.succ`, as rows (action, flags, columns, inboxes ...).

    Returns how many there are, MISSING where something is, or FULL where there is no room for them.
    """
    states, base, slots = worker.states, t.meta[codes.M_SLOT_BASE], t.meta[codes.M_ROW_SLOTS]
    worker.stats[codes.S_MISSED] = 0
    worker.stats[codes.S_NOTABLE] = 0
    pack(t, packing, states, at, 0, worker.words, len(worker.words) - 1)
    n = np.int64(0)
    for s in range(slots + 1):
        local = np.int64(states[at, base + s]) if s < slots else np.int64(0)
        if s < slots and local == 0:
            continue
        roots = roots_of(t, worker, serial, local)
        if roots < 0:
            continue
        for k in range(t.lists[roots, 0], t.lists[roots, 0] + t.lists[roots, 1]):
            root = np.int64(t.list_nodes[k])
            root = root if root >= 0 else ~root
            n = follow(t, packing, worker, serial, at, n, root, local, s, np.int64(-1), np.int64(-1))
            if n == FULL:
                return n
    for s in range(slots):
        inbox = np.int64(states[at, t.meta[codes.M_INBOXES] + s])
        if inbox == 0:
            continue
        local = np.int64(states[at, base + s])
        bundle = max(bundle_of(t, worker, serial, local, inbox), 0) if local != 0 else np.int64(0)
        first = bundle >> codes.BUNDLE_BITS
        for k in range(first, first + (bundle & codes.BUNDLE_MASK)):
            ref, rest = np.int64(t.bundle_items[k, 0]), np.int64(t.bundle_items[k, 2])
            outcome = np.int64(-1) if t.bundle_items[k, 1] else ref
            n = follow(t, packing, worker, serial, at, n, ref, local, s, outcome, rest)
            if n == FULL:
                return n
        if t.meta[codes.M_NETWORK_STEPS]:
            n = expand_network(t, packing, worker, serial, at, n, s, inbox)
            if n == FULL:
                return n
    return MISSING if worker.stats[codes.S_MISSED] else n


# Properties


@jit
def violated(t: Any, worker: Any, serial: Any, rows: Any, row: Any, constraints: Any) -> Any:
    """Return a mask of the invariants, or of the constraints, that do not hold in a flat state; or MISSING.

    Where all hold of a replica, or of two, whatever else there is, that is remembered in `worker.judged`.
    """
    base, slots = t.meta[codes.M_SLOT_BASE], t.meta[codes.M_ROW_SLOTS]
    bad, missing, kinds = np.int64(0), False, np.int64(0)
    for p in range(t.meta[codes.M_PROPERTIES]):
        if t.properties[p, 2] == constraints:
            kinds |= 1 << t.properties[p, 1]
    for s in range(slots if kinds & 6 else 0):
        me = np.int64(rows[row, base + s])
        if me == 0:
            continue
        for q in range(slots if kinds & 4 else 1):
            other = q if kinds & 4 else s
            peer = np.int64(rows[row, base + other]) if other != s else np.int64(0)
            if other != s and peer == 0:
                continue
            is_small = me < SMALL and peer < SMALL
            place = me * SMALL + peer if is_small else 0
            if worker.judged[place] >> constraints & 1:
                continue
            certain = True
            for p in range(t.meta[codes.M_PROPERTIES]):
                if t.properties[p, 2] != constraints or t.properties[p, 1] != (1 if other == s else 2):
                    continue
                root = np.int64(t.properties[p, 0])
                leaf = walk_alone(t, root, me, peer)
                if leaf < 0:
                    certain = False
                    leaf = leaf_of(t, worker, serial, rows, row, root, me, peer, np.int64(-1))
                if leaf < 0:
                    missing = True
                elif t.nodes[leaf, codes.A] == 0:
                    certain = False
                    bad |= np.int64(1) << np.int64(p)
            if certain and is_small:
                worker.judged[place] |= 1 << constraints
    for p in range(t.meta[codes.M_PROPERTIES] if kinds & 1 else 0):
        if t.properties[p, 2] == constraints and t.properties[p, 1] == 0:
            root = np.int64(t.properties[p, 0])
            leaf = leaf_of(t, worker, serial, rows, row, root, np.int64(0), np.int64(0), np.int64(-1))
            if leaf < 0:
                missing = True
            elif t.nodes[leaf, codes.A] == 0:
                bad |= np.int64(1) << np.int64(p)
    if not constraints:
        for c in range(t.meta[codes.M_INBOXES], rows.shape[1]):
            if t.inbox_codes[rows[row, c]] < 0:
                bad |= t.contents[rows[row, c], codes.C_BAD]
    return np.int64(MISSING) if missing else bad


@inlined
def note_violated(worker: Any, state: Any, bad: Any) -> None:
    """Note the invariants that are violated for the first time."""
    if bad & ~worker.stats[codes.S_SEEN]:
        worker.stats[codes.S_SEEN] |= bad
        note(worker, state, codes.BAD_STATE, bad)


@jit
def judge_batch(t: Any, worker: Any, which: Any) -> None:
    """Judge the worker's states of these numbers, and note what is violated."""
    which = bare(which)
    for i in range(len(which)):
        bad = violated(t, worker, False, worker.states, which[i], 0)
        if bad < 0:
            try_again(worker, which[i])
        else:
            note_violated(worker, which[i], bad)


@jit
def resolve_judged(t: Any, worker: Any) -> None:
    """Ask for what flat states missed that were judged; see `resolve`."""
    while t.meta[codes.M_SETTLED] < t.meta[codes.M_LEFT]:
        at = np.int64(t.waiting[t.meta[codes.M_SETTLED]])
        if violated(t, worker, True, worker.states, at, 0) < 0:
            t.waiting[t.meta[codes.M_WAITING]] = at
            t.meta[codes.M_WAITING] += 1
        t.meta[codes.M_SETTLED] += 1


@inlined
def judge_pruned(t: Any, worker: Any, serial: Any, n: Any) -> Any:
    """Judge the successors that will not be kept, which nobody sees again; return whether all is known."""
    known = True
    for k in range(n if worker.stats[codes.S_NOTABLE] else 0):
        worker.broken[k] = 0
        if worker.succ[k, 1] & codes.STEP_PRUNED:
            for c in range(worker.scratch.shape[1]):
                worker.scratch[0, c] = worker.succ[k, 2 + c]
            bad = violated(t, worker, serial, worker.scratch, np.int64(0), 0)
            worker.broken[k] = bad
            known &= bad >= 0
    return known


# What a state is packed as under symmetry


@inlined
def image(permuted: Any, number: Any, g: Any, is_content: Any) -> Any:
    """Return the image of a local state, or of an inbox content; 0 is its own."""
    if number == 0:
        return np.int64(0)
    return np.int64(permuted[number, g] if is_content else permuted[g, number])


@inlined
def keep_least(permuted: Any, worker: Any, states: Any, at: Any, first: Any, slots: Any, count: Any, of: Any) -> Any:
    """Keep those of the first permutations in `left` whose images are least in the columns of all replicas."""
    left, sources = worker.left, worker.sources
    for p in range(slots):
        if count == 1:
            break
        least, found = LARGEST, 0
        for j in range(count):
            g = left[j]
            value = image(permuted, np.int64(states[at, first + sources[g, p]]), g, of)
            if value < least:
                least, found = value, 0
            if value == least:
                left[found] = g
                found += 1
        count = found
    return count


@jit
def pack_least(
    t: Any, packing: Any, worker: Any, serial: Any, states: Any, at: Any, column: Any, words: Any, place: Any
) -> Any:
    """Write what the least image of a flat state is packed as; False where one is not known.

    The state stands in states[at, column:]. Images are compared column by column, and seldom by more than a few.
    """
    inboxes, base, slots = t.meta[codes.M_INBOXES], t.meta[codes.M_SLOT_BASE], t.meta[codes.M_ROW_SLOTS]
    bounds, left, sources, count = t.meta[codes.M_BOUNDS], worker.left, worker.sources, t.meta[codes.M_PERMUTATIONS]
    for s in range(slots):
        content = np.int64(states[at, column + inboxes + s])
        if content != 0 and t.permuted_contents[content, 0] < 0:
            if serial:
                make_content_images(t, content)
            return False
    for g in range(count):
        left[g] = g
    count = keep_least(t.permuted_locals, worker, states, at, column + base, slots, count, False)
    count = keep_least(t.permuted_contents, worker, states, at, column + inboxes, slots, count, True)
    for c in range(bounds, base):
        if count == 1 or t.hidden[c]:
            continue
        value = np.int64(states[at, column + c])
        least, found = LARGEST, 0
        for j in range(count):
            other = np.int64(t.permuted_shared[left[j] * (base - bounds) + c - bounds, value])
            if other < least:
                least, found = other, 0
            if other == least:
                left[found] = left[j]
                found += 1
        count = found
    g, position, width = left[0], packing.position, packing.width
    for w in range(words.shape[1]):
        words[place, w] = np.uint64(0)
    for c in range(base):
        if t.hidden[c]:
            continue
        shown = np.int64(states[at, column + c])
        if c >= bounds:
            shown = np.int64(t.permuted_shared[g * (base - bounds) + c - bounds, shown])
        put_bits(words, place, position[c], width[c], np.uint64(shown))
    for p in range(slots):
        from_slot = np.int64(sources[g, p])
        local = image(t.permuted_locals, np.int64(states[at, column + base + from_slot]), g, False)
        put_bits(words, place, position[base + p], width[base + p], np.uint64(t.local_codes[local]))
        content = image(t.permuted_contents, np.int64(states[at, column + inboxes + from_slot]), g, True)
        code = np.uint64(t.inbox_codes[content] & codes.CODE_MASK)
        put_bits(words, place, position[inboxes + p], width[inboxes + p], code)
    return True


@inlined
def pack_orbits(t: Any, packing: Any, worker: Any, serial: Any, at: Any, n: Any) -> Any:
    """Pack a state and its successors under symmetry; return whether all images are known."""
    words, last = worker.words, len(worker.words) - 1
    known = pack_least(t, packing, worker, serial, worker.states, at, np.int64(0), words, last)
    for k in range(n):
        known &= pack_least(t, packing, worker, serial, worker.succ, k, np.int64(2), words, k)
    return known


@jit
def pack_all_orbits(t: Any, packing: Any, worker: Any, states: Any, words: Any, owners: Any) -> None:
    """Write what flat states are packed as under symmetry, and the partition that owns each."""
    states, words, owners = bare(states), bare(words), bare(owners)
    for i in range(len(states)):
        while not pack_least(t, packing, worker, True, states, i, np.int64(0), words, i):
            pass
        owners[i] = owner(hash_words(words, i))


# Batches


@jit
def resolve_flat(packing: Any, t: Any, worker: Any) -> None:
    """Make what flat states missed; see `resolve`."""
    while t.meta[codes.M_SETTLED] < t.meta[codes.M_LEFT]:
        at, tries = np.int64(t.waiting[t.meta[codes.M_SETTLED]]), 0
        while True:
            n = expand_flat(t, packing, worker, at, True)
            known = n != MISSING and n != FULL and judge_pruned(t, worker, True, n)
            if known and t.meta[codes.M_PERMUTATIONS] > 1:
                known = pack_orbits(t, packing, worker, True, at, n)
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


@jit
def expand_flat_batch(t: Any, worker: Any, found: Any, packing: Any, which: Any, deadlocks: Any) -> None:
    """Expand the worker's flat states of these numbers; see `expand_batch`."""
    states, succ, stats, which = worker.states, worker.succ, worker.stats, bare(which)
    columns, stored, permutations = states.shape[1], found.words.shape[2], t.meta[codes.M_PERMUTATIONS]
    own_recent = np.full((RECENT, stored), ~np.uint64(0), np.uint64)  # no replica's code is all ones
    words, recent = worker.words, bare(own_recent)
    room, fullest = found.rows.shape[1], np.int64(0)
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
        if n > 0 and permutations > 1 and not pack_orbits(t, packing, worker, False, which[i], n):
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
            worker.fired[succ[k, 0]] += 1
            if notable and not is_kept(t, worker, which[i], k):
                keep_pruned(worker, which[i], k)
                continue
            if is_same(words, k, len(words) - 1):
                continue
            h = hash_words(words, k)
            if is_repeated(recent, words, k, np.int64(h & np.uint64(RECENT - 1))):
                continue
            p = owner(h)
            at = found.counts[p]
            for c in range(columns):
                found.rows[p, at, c] = succ[k, 2 + c]
            for w in range(stored):
                found.words[p, at, w] = words[k, w]
            found.counts[p] = at + 1
            fullest = max(fullest, at + 1)
        stats[codes.S_GENERATED] += n
    stats[codes.S_DONE] = len(which)


# From control rows to flat states, and back


@jit
def flatten(t: Any, states: Any, flat: Any) -> None:
    """Write states as flat ones."""
    states, flat = bare(states), bare(flat)
    columns = t.rows.shape[1]
    for i in range(len(states)):
        for c in range(columns):
            flat[i, c] = t.rows[states[i, 0], c]
        for c in range(1, states.shape[1]):
            flat[i, columns + c - 1] = states[i, c]


@jit
def intern_flat(t: Any, flat: Any, first: Any, ids: Any) -> Any:
    """Intern the control rows of flat states from number `first` on; return how far it came until the table is full."""
    flat, ids = bare(flat), bare(ids)
    for i in range(first, len(flat)):
        if t.meta[codes.M_ROWS] + 4 >= t.rows.shape[0] or (t.meta[codes.M_ROWS] + 4) * 2 > len(t.row_table):
            return i
        ids[i] = intern_columns(t, flat, np.int64(i))
    return len(flat)
