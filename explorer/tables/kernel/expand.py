"""The compiled hot path: from states whose handling is known, all their successors, by looking up.

Nothing here knows a protocol. A state is a row of ids: its control row, then one inbox content for each slot. The
kernel only reads the tables, so that threads can run it side by side; what it does not find it notes, and
`kernel.resolve` makes it.
"""


from __future__ import annotations

from typing import Any

import numpy as np

from kraftcheck.explorer.tables.kernel.directory import (
    branches_of,
    bundle_items_of,
    bundles_of,
    changed_of,
    content_items_of,
    contents_of,
    inbox_views_of,
    meta_of,
    network_operations_of,
    network_steps_of,
    nodes_of,
    operated_of,
    operations_of,
    outcome_operations_of,
    outcomes_of,
    permuted_contents_of,
    permuted_rows_of,
    permuted_slots_of,
    row_info_of,
    row_items_of,
    rows_of,
    views_of,
)
from kraftcheck.explorer.tables.kernel.layout import (
    ACTION,
    BAD,
    BUNDLE_BITS,
    BUNDLE_MASK,
    C_BAD,
    C_N,
    C_START,
    CONSUMES,
    COUNT,
    DELTA,
    FIRST,
    FLAG_SHIFT,
    FULL,
    JUDGED,
    KIND,
    LEAF,
    M_NETWORK_STEPS,
    M_PERMUTATIONS,
    M_SLOT_BASE,
    M_SLOTS,
    MANY_SUCCESSORS,
    ME,
    MISSING,
    NEED_BUNDLE,
    NEED_CHANGED,
    NEED_JUDGED,
    NEED_OPERATED,
    NEED_PATH,
    NEED_STEPS,
    NO_ROOM,
    OK,
    PEER,
    PRUNED,
    R_BAD,
    R_FLAGS,
    R_N,
    R_START,
    ROW_MASK,
    S_CODE,
    S_DEADLOCK,
    S_DONE,
    S_GENERATED,
    S_RETRY,
    S_SEEN,
    S_STEP_SEEN,
    SHARED,
    STEP_BAD,
    STEP_PRUNED,
    UNKNOWN,
    VIEW,
    A,
    B,
    N,
)
from kraftcheck.explorer.tables.kernel.maps import find
from kraftcheck.explorer.tables.kernel.native import bare, inlined, jit
from kraftcheck.explorer.tables.kernel.notes import need, note
from kraftcheck.explorer.tables.kernel.packing import owner_of, pack
from kraftcheck.explorer.tables.kernel.symmetry import canonical


@inlined
def walk(
    nodes: Any, branches: Any, rows: Any, views: Any, inbox_views: Any, base: Any, node: Any, row: Any, me: Any,
    peer: Any, states: Any, at: Any,
) -> Any:  # fmt: skip
    """Follow a trie to a leaf or an unknown node; a branch not laid yet, or an inbox not asked for, is MISSING.

    Without a state (`at` is -1) it stops at a question about inboxes and returns that node.
    """
    while True:
        kind = nodes[node, KIND]
        if kind in (LEAF, UNKNOWN):
            return node
        if kind == SHARED:
            answer = np.int64(rows[row, nodes[node, A]])
        elif kind == VIEW:
            role = nodes[node, B]
            local = me
            if role == PEER:
                local = peer
            elif role != ME:
                local = np.int64(rows[row, base + role])
            answer = np.int64(views[nodes[node, A], local])
        else:
            if at < 0:
                return node
            answer = np.int64(inbox_views[nodes[node, A], states[at, 1 + nodes[node, B]]])
            if answer < 0:
                return MISSING
        node = find(branches, (node << 32) | answer)
        if node < 0:
            return MISSING


@inlined
def emit(
    outcomes: Any, outcome_operations: Any, operations: Any, operated: Any, row_info: Any, states: Any, at: Any,
    succ: Any, n: Any, outcome: Any, row: Any, slot: Any, inbox: Any, needs: Any, stats: Any,
) -> Any:  # fmt: skip
    """Write the successor of an outcome at place `n`; return `n + 1`, REFUSED or MISSING.

    `row` is the next control row with the step's flags above it; `inbox` is what becomes of the actor's inbox (-1:
    it stays).
    """
    target = row & ROW_MASK
    succ[n, 0] = outcomes[outcome, ACTION]
    succ[n, 1] = row >> FLAG_SHIFT
    succ[n, 2] = target
    for c in range(1, states.shape[1]):
        succ[n, 2 + c] = states[at, c]
    if inbox >= 0:
        succ[n, 3 + slot] = inbox
    first = outcomes[outcome, FIRST]
    for k in range(first, first + outcomes[outcome, COUNT]):
        op = np.int64(outcome_operations[k])
        place = 3 + operations[op, 0]
        before = np.int64(succ[n, place])
        after = find(operated, (before << 24) | op)
        if after < 0:
            if after == MISSING:
                need(needs, stats, NEED_OPERATED, before, op, 0, 0, 0)
            return after
        succ[n, place] = after
    if not row_info[target, R_FLAGS] & JUDGED:
        need(needs, stats, NEED_JUDGED, target, 0, 0, 0, 0)
        return MISSING
    return n + 1


@inlined
def expand(t: Any, states: Any, at: Any, succ: Any, needs: Any, stats: Any) -> Any:
    """Write all successors of a state as rows (action, flags, control row, inboxes ...).

    Returns how many there are, MISSING where something was not known (and is noted), or FULL where `succ` is. Arrays
    must be bare.
    """
    meta = meta_of(t)
    nodes = nodes_of(t)
    branches = branches_of(t)
    outcomes = outcomes_of(t)
    outcome_operations = outcome_operations_of(t)
    operations = operations_of(t)
    operated = operated_of(t)
    contents = contents_of(t)
    content_items = content_items_of(t)
    views = views_of(t)
    inbox_views = inbox_views_of(t)
    rows = rows_of(t)
    row_info = row_info_of(t)
    row_items = row_items_of(t)
    changed = changed_of(t)
    bundles = bundles_of(t)
    bundle_items = bundle_items_of(t)
    network_steps = network_steps_of(t)
    network_operations = network_operations_of(t)
    row = np.int64(states[at, 0])
    base, slots = meta[M_SLOT_BASE], meta[M_SLOTS]
    n = np.int64(0)
    missing = False
    room = len(succ) - 1
    # The pieces of work: the steps of the control row, then each inbox's bundle, then the network's own steps.
    for s in range(-1, slots):
        first, last = np.int64(0), np.int64(0)
        local, inbox = np.int64(0), np.int64(0)
        if s < 0:
            first = row_info[row, R_START]
            if first < 0:
                need(needs, stats, NEED_STEPS, row, 0, 0, 0, 0)
                missing = True
                continue
            last = first + row_info[row, R_N]
        else:
            inbox = np.int64(states[at, 1 + s])
            local = np.int64(rows[row, base + s])
            if inbox == 0:
                continue
            if local != 0:
                bundle = find(bundles, (local << 32) | inbox)
                if bundle < 0:
                    need(needs, stats, NEED_BUNDLE, local, inbox, s, 0, 0)
                    missing = True
                else:
                    first = bundle >> BUNDLE_BITS
                    last = first + (bundle & BUNDLE_MASK)
        for k in range(first, last):
            rest = np.int64(-1)
            slot = np.int64(s)
            target = MISSING
            if s < 0:
                ref, target = np.int64(row_items[k, 0]), np.int64(row_items[k, 1])
                extra = np.int64(row_items[k, 2])  # the step's flags, or the slot of an action that reads inboxes
                is_node = target < 0
                if is_node:
                    slot = extra
                    local = np.int64(rows[row, base + extra]) if extra >= 0 else np.int64(0)
                else:
                    target |= extra << FLAG_SHIFT
            else:
                ref, rest = np.int64(bundle_items[k, 0]), np.int64(bundle_items[k, 2])
                is_node = bundle_items[k, 1] != 0
            o, end = ref, ref + 1
            if is_node:
                leaf = walk(nodes, branches, rows, views, inbox_views, base, ref, row, local, np.int64(0), states, at)
                if leaf < 0 or nodes[leaf, KIND] != LEAF:
                    need(needs, stats, NEED_PATH, ref, row, local, at, slot)
                    missing = True
                    continue
                o = np.int64(nodes[leaf, A])
                end = o + nodes[leaf, N]
                target = MISSING
            while o < end:
                goal = target
                if s >= 0 or is_node:
                    delta = np.int64(outcomes[o, DELTA])
                    goal = row
                    if delta != 0:
                        goal = find(changed, (row << 24) | delta)
                        if goal == MISSING:
                            need(needs, stats, NEED_CHANGED, row, delta, 0, 0, 0)
                            missing = True
                if goal >= 0:
                    if n >= room:
                        return FULL
                    code = emit(
                        outcomes, outcome_operations, operations, operated, row_info, states, at, succ, n, o, goal,
                        slot, rest if outcomes[o, CONSUMES] else np.int64(-1), needs, stats,
                    )  # fmt: skip
                    if code >= 0:
                        n = code
                    elif code == MISSING:
                        missing = True
                o += 1
        if s < 0 or meta[M_NETWORK_STEPS] == 0:
            continue
        for k in range(contents[inbox, C_START], contents[inbox, C_START] + contents[inbox, C_N]):
            if content_items[k, 1] <= 0:
                continue
            for j in range(meta[M_NETWORK_STEPS]):
                op, delta = np.int64(network_operations[j, content_items[k, 0]]), np.int64(network_steps[j, 1])
                goal = row if delta == 0 else find(changed, (row << 24) | delta)
                after = find(operated, (inbox << 24) | op)
                if goal == MISSING:
                    need(needs, stats, NEED_CHANGED, row, delta, 0, 0, 0)
                    missing = True
                if after == MISSING:
                    need(needs, stats, NEED_OPERATED, inbox, op, 0, 0, 0)
                    missing = True
                if goal < 0 or after < 0:
                    continue
                if n >= room:
                    return FULL
                code = emit(
                    outcomes, outcome_operations, operations, operated, row_info, states, at, succ, n,
                    np.int64(network_steps[j, 0]), goal, np.int64(s), after, needs, stats,
                )  # fmt: skip
                if code >= 0:
                    n = code
                else:
                    missing = True
    return MISSING if missing else n


@jit
def expand_batch(
    t: Any, states: Any, which: Any, succ: Any, position: Any, width: Any, out: Any, out_words: Any, out_n: Any,
    fired: Any, retry: Any, events: Any, needs: Any, stats: Any, deadlocks: Any,
) -> None:  # fmt: skip
    """Expand states[which], each wholly or not at all.

    Successors go to `out[partition]`, their packed identities to `out_words[partition]`; states for which something
    was not known go to `retry`, and what that is to `needs`; deadlocks and violations of properties not seen before to
    `events`, as (state, kind, properties). `stats[S_DONE]` is how far it came: less than all where an array is full,
    which `stats[S_CODE]` names.
    """
    meta, contents, row_info = meta_of(t), contents_of(t), row_info_of(t)
    permuted_rows, permuted_contents = permuted_rows_of(t), permuted_contents_of(t)
    permuted_slots = permuted_slots_of(t)
    states, which, succ, retry = bare(states), bare(which), bare(succ), bare(retry)
    out, out_words, out_n = bare(out), bare(out_words), bare(out_n)
    position, width, fired = bare(position), bare(width), bare(fired)
    events, needs, stats = bare(events), bare(needs), bare(stats)
    permutations = meta[M_PERMUTATIONS]
    stored = out_words.shape[2]
    columns = states.shape[1]
    own_words, own_image = np.zeros((1, stored), np.uint64), np.zeros(columns, np.int32)
    own_images = np.zeros((len(succ) if permutations > 1 else 0, columns), np.int32)
    words, image, images = bare(own_words), bare(own_image), bare(own_images)
    room = out.shape[1]
    stats[S_CODE] = OK
    fullest = np.int64(0)
    for p in range(len(out_n)):
        fullest = max(fullest, out_n[p])
    for i in range(len(which)):
        n = expand(t, states, which[i], succ, needs, stats)
        if permutations > 1:
            known = True
            for k in range(n):
                known &= canonical(
                    permutations, row_info, permuted_rows, permuted_contents, permuted_slots, succ, k, 2, columns,
                    images, k, 0, image, needs, stats,
                )  # fmt: skip
            if not known:
                n = MISSING
        if n == MISSING:
            retry[stats[S_RETRY]] = which[i]
            stats[S_RETRY] += 1
            continue
        if n == FULL or fullest + n >= room:
            stats[S_DONE] = i
            stats[S_CODE] = MANY_SUCCESSORS if n == FULL else NO_ROOM
            return
        if n == 0 and deadlocks and not stats[S_DEADLOCK]:
            stats[S_DEADLOCK] = 1
            note(events, stats, which[i], 0, 0)
        for k in range(n):
            fired[succ[k, 0]] += 1
            step_flags = np.int64(succ[k, 1])
            flags = row_info[succ[k, 2], R_FLAGS]
            bad = row_info[succ[k, 2], R_BAD] if flags & BAD else np.int64(0)
            for c in range(3, 2 + columns):
                bad |= contents[succ[k, c], C_BAD]
            if bad & ~stats[S_SEEN]:
                stats[S_SEEN] |= bad
                note(events, stats, which[i], 1, bad)
            if step_flags & STEP_BAD and (step_flags >> 2) & ~stats[S_STEP_SEEN]:
                stats[S_STEP_SEEN] |= step_flags >> 2
                note(events, stats, which[i], 2, step_flags >> 2)
            if step_flags & STEP_PRUNED or flags & PRUNED:
                continue
            if permutations > 1:
                pack(row_info, contents, position, width, images, k, 0, words, 0)
            else:
                pack(row_info, contents, position, width, succ, k, 2, words, 0)
            p = owner_of(words, 0)
            at = out_n[p]
            for c in range(columns):
                out[p, at, c] = succ[k, 2 + c]
                if permutations > 1:
                    out[p, at, columns + c] = images[k, c]
            for w in range(stored):
                out_words[p, at, w] = words[0, w]
            out_n[p] = at + 1
            fullest = max(fullest, at + 1)
        stats[S_GENERATED] += n
    stats[S_DONE] = len(which)


@jit
def find_predecessor(t: Any, states: Any, target: Any, succ: Any, retry: Any, needs: Any, stats: Any) -> Any:
    """Return the index of the first state that has the target among its successors, or -1."""
    states, target, succ = bare(states), bare(target), bare(succ)
    retry, needs, stats = bare(retry), bare(needs), bare(stats)
    for i in range(len(states)):
        n = expand(t, states, i, succ, needs, stats)
        if n < 0:
            stats[S_CODE] = MANY_SUCCESSORS if n == FULL else OK
            retry[stats[S_RETRY]] = i
            stats[S_RETRY] += 1
            continue
        for k in range(n):
            same = True
            for c in range(len(target)):
                if succ[k, 2 + c] != target[c]:
                    same = False
                    break
            if same:
                return i
    return -1
