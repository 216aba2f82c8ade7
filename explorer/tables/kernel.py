"""The compiled kernel: from one state, all successors, by looking up what was learned.

Nothing here knows a protocol. A state is a row of ids: its control row, then one inbox content for each slot. With
`learn` the kernel also makes what is missing and needs no Python (control rows, inbox contents, bundles) and notes
what Python must answer; without it, it only reads, so that several threads can run it side by side.
"""

# ruff: noqa: D103 - the functions are documented where their contract is not plain from the name
from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from explorer.tables import layout as at
from explorer.tables.layout import (
    BAD,
    GROW_BUNDLES,
    GROW_CONTENTS,
    GROW_ITEMS,
    GROW_MAP,
    GROW_MISSES,
    GROW_ROWS,
    GROW_SUCCESSORS,
    INBOX_VIEW,
    JUDGED,
    LEAF,
    ME,
    MISS_OPERATION,
    MISS_PATH,
    MISS_ROOTS,
    PEER,
    PRUNED,
    SHARED,
    STEP_BAD,
    STEP_PRUNED,
    UNKNOWN,
    VIEW,
)
from explorer.tables.layout import (
    ACTION,
    C_BAD,
    C_N,
    C_NUMBER,
    C_SLOT,
    C_START,
    CONSUMES,
    COUNT,
    DELTA,
    FIRST,
    KIND,
    A,
    B,
    N,
    R_BAD,
    R_FLAGS,
    R_IDENTITY,
    R_N,
    R_START,
)

REFUSED, MISSING, FULL = np.int64(-1), np.int64(-3), np.int64(-4)
LEARNED = -2
FLAG_SHIFT = 40
ROW_MASK = (1 << 40) - 1

jit = njit(cache=True, nogil=True, boundscheck=False)
inline = njit(cache=True, nogil=True, boundscheck=False, inline="never")

M_ROWS, M_ROW_ITEMS, M_BUNDLES, M_BUNDLE_ITEMS = at.M_ROWS, at.M_ROW_ITEMS, at.M_BUNDLES, at.M_BUNDLE_ITEMS
M_CONTENTS, M_CONTENT_ITEMS, M_MISSES, M_GROW = at.M_CONTENTS, at.M_CONTENT_ITEMS, at.M_MISSES, at.M_GROW
M_OPERATIONS, M_DELTAS, M_SLOTS, M_SLOT_BASE = at.M_OPERATIONS, at.M_DELTAS, at.M_SLOTS, at.M_SLOT_BASE
M_PROPERTIES, M_STEP_PROPERTIES, M_ROOTS = at.M_PROPERTIES, at.M_STEP_PROPERTIES, at.M_ROOTS
M_NETWORK_STEPS = at.M_NETWORK_STEPS


@jit
def mix(key: Any) -> Any:
    """Spread the bits of a 64-bit number; a bijection."""
    x = np.uint64(key)
    x ^= x >> np.uint64(32)
    x *= np.uint64(0xD6E8FEB86659FD93)
    x ^= x >> np.uint64(32)
    x *= np.uint64(0xD6E8FEB86659FD93)
    x ^= x >> np.uint64(32)
    return x


@jit
def find(pairs: Any, key: Any) -> Any:
    """Return the value of a key, or MISSING."""
    mask = np.int64(len(pairs) - 1)
    i = np.int64(mix(key)) & mask
    while True:
        k = pairs[i, 0]
        if k == key:
            return pairs[i, 1]
        if k == -1:
            return np.int64(MISSING)
        i = (i + 1) & mask


@jit
def store(pairs: Any, key: Any, value: Any) -> bool:
    """Set the value of a key; return whether the key is new."""
    mask = np.int64(len(pairs) - 1)
    i = np.int64(mix(key)) & mask
    while pairs[i, 0] != -1:
        if pairs[i, 0] == key:
            pairs[i, 1] = value
            return False
        i = (i + 1) & mask
    pairs[i, 0] = key
    pairs[i, 1] = value
    return True


@jit
def copy_map(pairs: Any, larger: Any) -> None:
    """Enter every pair of one map into another."""
    for i in range(len(pairs)):
        if pairs[i, 0] != -1:
            store(larger, pairs[i, 0], pairs[i, 1])


@jit
def crowded(meta: Any, which: Any, pairs: Any) -> bool:
    """Note one more entry of a map; True where the map must grow first."""
    if (meta[which] + 2) * 2 > len(pairs):
        meta[M_GROW] |= GROW_MAP
        return True
    meta[which] += 1
    return False


@jit
def miss(t: Any, kind: Any, a: Any, b: Any, c: Any, d: Any, e: Any) -> Any:
    """Note what Python must answer."""
    n = t.meta[M_MISSES]
    if n >= len(t.misses):
        t.meta[M_GROW] |= GROW_MISSES
        return FULL
    t.misses[n, 0] = kind
    t.misses[n, 1] = a
    t.misses[n, 2] = b
    t.misses[n, 3] = c
    t.misses[n, 4] = d
    t.misses[n, 5] = e
    t.meta[M_MISSES] = n + 1
    return MISSING


@jit
def walk(t: Any, node: Any, row: Any, me: Any, peer: Any, state: Any) -> Any:
    """Follow a trie to a leaf, an unknown node or an inbox question; a missing branch is MISSING."""
    base = t.meta[M_SLOT_BASE]
    while True:
        kind = t.nodes[node, KIND]
        if kind == LEAF or kind == UNKNOWN:
            return node
        if kind == SHARED:
            value = t.rows[row, t.nodes[node, A]]
        elif kind == VIEW:
            role = t.nodes[node, B]
            if role == ME:
                local = me
            elif role == PEER:
                local = peer
            else:
                local = np.int64(t.rows[row, base + role])
            value = t.views[t.nodes[node, A], local]
        else:
            if len(state) == 0:
                return node
            value = t.inbox_views[t.nodes[node, A], state[1 + t.nodes[node, B]]]
        found = find(t.branches, (np.int64(node) << 32) | np.int64(value))
        if found < 0:
            return np.int64(MISSING)
        node = found


@jit
def row_hash(rows: Any, row: Any) -> Any:
    h = np.uint64(1469598103934665603)
    for c in range(rows.shape[1]):
        h = mix(h ^ np.uint64(rows[row, c])) + np.uint64(0x9E3779B97F4A7C15)
    return h


@jit
def intern_row(t: Any, fresh: Any) -> Any:
    """Return the id of the control row written at `fresh`, the first free place; it may be there already."""
    if fresh + 2 >= t.rows.shape[0] or (fresh + 2) * 2 > len(t.row_table):
        t.meta[M_GROW] |= GROW_ROWS
        return FULL
    mask = np.int64(len(t.row_table) - 1)
    i = np.int64(row_hash(t.rows, fresh)) & mask
    columns = t.rows.shape[1]
    while t.row_table[i] != -1:
        other = t.row_table[i]
        same = True
        for c in range(columns):
            if t.rows[other, c] != t.rows[fresh, c]:
                same = False
                break
        if same:
            return np.int64(other)
        i = (i + 1) & mask
    t.row_table[i] = fresh
    t.row_info[fresh, R_FLAGS] = 0
    t.row_info[fresh, R_BAD] = 0
    t.row_info[fresh, R_START] = -1
    t.row_info[fresh, R_IDENTITY] = fresh
    t.meta[M_ROWS] = fresh + 1
    return np.int64(fresh)


@jit
def identify(t: Any, row: Any) -> Any:
    """Set which control row stands for this one when states are compared: the one without what a VIEW hides."""
    hides = False
    fresh = t.meta[M_ROWS]
    if fresh + 2 >= t.rows.shape[0]:
        t.meta[M_GROW] |= GROW_ROWS
        return FULL
    for c in range(t.rows.shape[1]):
        hidden = t.hidden[c] != 0
        hides |= hidden
        t.rows[fresh, c] = 0 if hidden else t.rows[row, c]
    if hides:
        found = intern_row(t, fresh)
        if found == FULL:
            return FULL
        t.row_info[row, R_IDENTITY] = found
    return 0


@jit
def judge(t: Any, row: Any) -> Any:
    """Evaluate the properties of a control row; 0, MISSING or FULL."""
    base, slots = t.meta[M_SLOT_BASE], t.meta[M_SLOTS]
    bad = np.int64(0)
    flags = JUDGED
    result = 0
    none = np.empty(0, np.int32)
    for p in range(t.meta[M_PROPERTIES]):
        kind = t.properties[p, 1]
        outer = slots if kind >= 1 else 1
        inner = slots if kind == 2 else 1
        for s in range(outer):
            me = np.int64(t.rows[row, base + s]) if kind >= 1 else np.int64(0)
            if kind >= 1 and me == 0:
                continue
            for q in range(inner):
                peer = np.int64(t.rows[row, base + q]) if kind == 2 else np.int64(0)
                if kind == 2 and (peer == 0 or q == s):
                    continue
                root = np.int64(t.properties[p, 0])
                leaf = walk(t, root, row, me, peer, none)
                if leaf < 0 or t.nodes[leaf, KIND] != LEAF:
                    result = MISSING
                    if miss(t, MISS_PATH, root, row, me, peer, -1) == FULL:
                        return FULL
                elif t.nodes[leaf, A] == 0:
                    if t.properties[p, 2]:
                        flags |= PRUNED
                    else:
                        flags |= BAD
                        bad |= np.int64(1) << np.int64(p)
    if result == 0:
        if identify(t, row) == FULL:
            return FULL
        t.row_info[row, R_BAD] = bad
        t.row_info[row, R_FLAGS] = flags
    return result


@jit
def changed(t: Any, row: Any, delta: Any, learn: Any) -> Any:
    """Return the control row after a delta with the flags of the step above it; REFUSED, MISSING or FULL."""
    key = (np.int64(row) << 24) | np.int64(delta)
    found = find(t.changed, key)
    if learn is None:
        return found
    if found != MISSING:
        return found
    if (t.meta[M_DELTAS] + 2) * 2 > len(t.changed):
        t.meta[M_GROW] |= GROW_MAP
        return np.int64(FULL)
    fresh = t.meta[M_ROWS]
    if fresh + 4 >= t.rows.shape[0]:
        t.meta[M_GROW] |= GROW_ROWS
        return np.int64(FULL)
    for c in range(t.rows.shape[1]):
        t.rows[fresh, c] = t.rows[row, c]
    result = np.int64(0)
    for k in range(t.deltas[delta, 2], t.deltas[delta, 2] + t.deltas[delta, 3]):
        column, amount = t.spendings[k, 0], t.spendings[k, 1]
        if t.rows[row, column] + max(amount, 1) > t.limits[column]:
            result = np.int64(REFUSED)
        t.rows[fresh, column] += amount
    if result == 0:
        for k in range(t.deltas[delta, 0], t.deltas[delta, 0] + t.deltas[delta, 1]):
            t.rows[fresh, t.assignments[k, 0]] = t.assignments[k, 1]
        target = intern_row(t, fresh)
        if target == FULL:
            return np.int64(FULL)
        flags = judge_step(t, row, target)
        if flags < 0:
            return np.int64(flags)
        result = target | (np.int64(flags) << FLAG_SHIFT)
    t.meta[M_DELTAS] += 1
    store(t.changed, key, result)
    return result


@jit
def judge_step(t: Any, row: Any, target: Any) -> Any:
    """Evaluate the step properties over every slot that differs; the step's flags, MISSING or FULL."""
    flags = np.int64(0)
    base = t.meta[M_SLOT_BASE]
    none = np.empty(0, np.int32)
    missing = False
    for p in range(t.meta[M_STEP_PROPERTIES]):
        for s in range(t.meta[M_SLOTS]):
            before, after = np.int64(t.rows[row, base + s]), np.int64(t.rows[target, base + s])
            if before == after or before == 0 or after == 0:
                continue
            root = np.int64(t.step_properties[p, 0])
            leaf = walk(t, root, row, before, after, none)
            if leaf < 0 or t.nodes[leaf, KIND] != LEAF:
                missing = True
                if miss(t, MISS_PATH, root, row, before, after, -1) == FULL:
                    return np.int64(FULL)
            elif t.nodes[leaf, A] == 0:
                flags |= STEP_PRUNED if t.step_properties[p, 1] else (STEP_BAD | (np.int64(1) << (p + 2)))
    return np.int64(MISSING) if missing else flags


@jit
def operated(t: Any, inbox: Any, op: Any, learn: Any) -> Any:
    """Return the inbox content after an operation; REFUSED, MISSING or FULL."""
    key = (np.int64(inbox) << 24) | np.int64(op)
    found = find(t.operated, key)
    if learn is None:
        return found
    if found != MISSING:
        return found
    if (t.meta[M_OPERATIONS] + 2) * 2 > len(t.operated):
        t.meta[M_GROW] |= GROW_MAP
        return np.int64(FULL)
    if t.operations[op, 2] == LEARNED:
        return np.int64(miss(t, MISS_OPERATION, inbox, op, 0, 0, 0))
    result = counted(t, inbox, op)
    if result == FULL:
        return np.int64(FULL)
    t.meta[M_OPERATIONS] += 1
    store(t.operated, key, result)
    return result


@jit
def counted(t: Any, inbox: Any, op: Any) -> Any:
    """Apply a counting rule to an inbox content and return the content that results."""
    message = t.operations[op, 1]
    start, n = t.contents[inbox, C_START], t.contents[inbox, C_N]
    free = t.meta[M_CONTENT_ITEMS]
    if free + n + 2 >= len(t.content_items):
        t.meta[M_GROW] |= GROW_CONTENTS
        return np.int64(FULL)
    written = 0
    seen = False
    for k in range(start, start + n):
        m, c = t.content_items[k, 0], t.content_items[k, 1]
        if not seen and m > message:
            seen = True
            if t.operations[op, 2] < 0:
                return np.int64(REFUSED)
            t.content_items[free + written, 0] = message
            t.content_items[free + written, 1] = t.operations[op, 2]
            written += 1
        if m == message:
            seen = True
            if c < t.operations[op, 4]:
                return np.int64(REFUSED)
            c += t.operations[op, 3]
            if c == 0 and t.operations[op, 5]:
                continue
        t.content_items[free + written, 0] = m
        t.content_items[free + written, 1] = c
        written += 1
    if not seen:
        if t.operations[op, 2] < 0:
            return np.int64(REFUSED)
        t.content_items[free + written, 0] = message
        t.content_items[free + written, 1] = t.operations[op, 2]
        written += 1
    return intern_content(t, np.int64(t.operations[op, 0]), np.int64(written))


@jit
def intern_content(t: Any, slot: Any, n: Any) -> Any:
    """Return the id of the inbox content whose items stand behind the last one; it may be there already."""
    if n == 0:
        return np.int64(0)
    free = t.meta[M_CONTENT_ITEMS]
    fresh = t.meta[M_CONTENTS]
    if fresh + 2 >= len(t.contents) or (fresh + 2) * 2 > len(t.content_table):
        t.meta[M_GROW] |= GROW_CONTENTS
        return np.int64(FULL)
    mask = np.int64(len(t.content_table) - 1)
    i = np.int64(content_hash(t, slot, free, n)) & mask
    while t.content_table[i] != -1:
        other = t.content_table[i]
        if t.contents[other, C_SLOT] == slot and t.contents[other, C_N] == n:
            start = t.contents[other, C_START]
            same = True
            for k in range(n):
                if (
                    t.content_items[start + k, 0] != t.content_items[free + k, 0]
                    or t.content_items[start + k, 1] != t.content_items[free + k, 1]
                ):
                    same = False
                    break
            if same:
                return np.int64(other)
        i = (i + 1) & mask
    t.content_table[i] = fresh
    t.contents[fresh, C_SLOT] = slot
    t.slot_contents[slot] += 1
    t.contents[fresh, C_NUMBER] = t.slot_contents[slot]
    t.contents[fresh, C_START] = free
    t.contents[fresh, C_N] = n
    bad = 0
    for k in range(free, free + n):
        bad |= t.messages[t.content_items[k, 0], 1]
    t.contents[fresh, C_BAD] = bad
    t.meta[M_CONTENT_ITEMS] = free + n
    t.meta[M_CONTENTS] = fresh + 1
    return np.int64(fresh)


@jit
def ask_roots(t: Any, local: Any, message: Any) -> Any:
    """Return the list of handlers of a replica for a message (0: its own steps), asking Python once."""
    key = (np.int64(local) << 32) | np.int64(message)
    found = find(t.roots, key)
    if found >= 0:
        return found
    if found == MISSING:
        if crowded(t.meta, M_ROOTS, t.roots):
            return np.int64(FULL)
        if miss(t, MISS_ROOTS, local, message, 0, 0, 0) == FULL:
            t.meta[M_ROOTS] -= 1
            return np.int64(FULL)
        store(t.roots, key, np.int64(-2))
    return np.int64(MISSING)


@jit
def build_row(t: Any, row: Any, state: Any) -> Any:
    """List the steps of a control row that depend on no inbox: those of each replica by itself and the environment's."""
    base, slots = t.meta[M_SLOT_BASE], t.meta[M_SLOTS]
    start = t.meta[M_ROW_ITEMS]
    n = 0
    missing = False
    none = np.empty(0, np.int32)
    for s in range(slots + 1):
        local = np.int64(t.rows[row, base + s]) if s < slots else np.int64(0)
        if s < slots and local == 0:
            continue
        roots = ask_roots(t, local, 0)
        if roots == FULL:
            return FULL
        if roots < 0:
            missing = True
            continue
        for k in range(t.lists[roots, 0], t.lists[roots, 0] + t.lists[roots, 1]):
            root = np.int64(t.list_nodes[k])
            leaf = walk(t, root, row, local, 0, none)
            if leaf < 0 or t.nodes[leaf, KIND] == UNKNOWN:
                missing = True
                if miss(t, MISS_PATH, root, row, local, 0, np.int64(s if s < slots else -1)) == FULL:
                    return FULL
                continue
            if start + n + t.nodes[leaf, N] + 2 >= len(t.row_items):
                t.meta[M_GROW] |= GROW_ITEMS
                return FULL
            if t.nodes[leaf, KIND] == INBOX_VIEW:
                t.row_items[start + n, 0] = root
                t.row_items[start + n, 1] = -1
                t.row_items[start + n, 2] = s if s < slots else -1
                n += 1
                continue
            for o in range(t.nodes[leaf, A], t.nodes[leaf, A] + t.nodes[leaf, N]):
                target = changed(t, row, np.int64(t.outcomes[o, DELTA]), 1)
                if target == FULL:
                    return FULL
                if target == MISSING:
                    missing = True
                elif target >= 0:
                    t.row_items[start + n, 0] = o
                    t.row_items[start + n, 1] = np.int64(target & ROW_MASK)
                    t.row_items[start + n, 2] = np.int64(target >> FLAG_SHIFT)
                    n += 1
    if missing:
        return MISSING
    t.row_info[row, R_START] = start
    t.row_info[row, R_N] = n
    t.meta[M_ROW_ITEMS] = start + n
    return 0


@jit
def build_bundle(t: Any, local: Any, inbox: Any, slot: Any) -> Any:
    """List what a replica may do with the messages of an inbox; the bundle's id, MISSING or FULL."""
    start = t.meta[M_BUNDLE_ITEMS]
    n = 0
    missing = False
    if t.meta[M_BUNDLES] + 2 >= len(t.bundles) or (t.meta[M_BUNDLES] + 2) * 2 > len(t.bundle_of):
        t.meta[M_GROW] |= GROW_BUNDLES | GROW_MAP
        return np.int64(FULL)
    for k in range(t.contents[inbox, C_START], t.contents[inbox, C_START] + t.contents[inbox, C_N]):
        if t.content_items[k, 1] <= 0:
            continue
        message = np.int64(t.content_items[k, 0])
        roots = ask_roots(t, local, message + 1)
        if roots == FULL:
            return np.int64(FULL)
        if roots < 0:
            missing = True
            continue
        if t.lists[roots, 1] == 0:
            continue
        rest = operated(t, inbox, np.int64(t.messages[message, 0]), 1)
        if rest == FULL:
            return np.int64(FULL)
        if rest < 0:
            missing = True
            continue
        for r in range(t.lists[roots, 0], t.lists[roots, 0] + t.lists[roots, 1]):
            node = t.list_nodes[r]
            leaf = t.nodes[node, KIND] == LEAF
            first = t.nodes[node, A] if leaf else node
            last = first + t.nodes[node, N] if leaf else first + 1
            if start + n + (last - first) + 2 >= len(t.bundle_items):
                t.meta[M_GROW] |= GROW_BUNDLES
                return np.int64(FULL)
            for o in range(first, last):
                t.bundle_items[start + n, 0] = o
                t.bundle_items[start + n, 1] = 0 if leaf else 1
                t.bundle_items[start + n, 2] = rest
                n += 1
    if missing:
        return np.int64(MISSING)
    bundle = t.meta[M_BUNDLES]
    t.bundles[bundle, 0] = start
    t.bundles[bundle, 1] = n
    t.meta[M_BUNDLE_ITEMS] = start + n
    t.meta[M_BUNDLES] = bundle + 1
    store(t.bundle_of, (np.int64(local) << 32) | np.int64(inbox), bundle)
    return np.int64(bundle)


@jit
def emit(t: Any, state: Any, succ: Any, n: Any, outcome: Any, row: Any, slot: Any, inbox: Any, learn: Any) -> Any:
    """Write the successor of an outcome at place `n`; the next place, or REFUSED, MISSING, FULL.

    `row` is the next control row with the step's flags above it; `inbox` is what becomes of the actor's inbox (-1:
    it stays).
    """
    width = len(state)
    flags = row >> FLAG_SHIFT
    target = row & ROW_MASK
    if n + 1 >= succ.shape[0]:
        t.meta[M_GROW] |= GROW_SUCCESSORS
        return FULL
    succ[n, 0] = t.outcomes[outcome, ACTION]
    succ[n, 1] = np.int32(flags)
    succ[n, 2] = target
    for c in range(1, width):
        succ[n, 2 + c] = state[c]
    if inbox >= 0:
        succ[n, 3 + slot] = inbox
    missing = False
    for k in range(t.outcomes[outcome, FIRST], t.outcomes[outcome, FIRST] + t.outcomes[outcome, COUNT]):
        op = np.int64(t.outcome_operations[k])
        place = 3 + t.operations[op, 0]
        after = operated(t, np.int64(succ[n, place]), op, learn)
        if after == REFUSED:
            return REFUSED
        if after == FULL:
            return FULL
        if after < 0:
            missing = True
            break
        succ[n, place] = after
    if missing:
        return MISSING
    if not t.row_info[target, R_FLAGS] & JUDGED:
        if learn is None:
            return MISSING
        verdict = judge(t, target)
        if verdict != 0:
            return verdict
    return n + 1


@jit
def expand(t: Any, state: Any, succ: Any, learn: Any, index: Any) -> Any:
    """Write all successors of a state as rows (action, flags, control row, inboxes ...).

    Returns how many there are, MISSING where something was not known (and, with `learn`, noted), or FULL where an
    array must grow first (`meta[M_GROW]` says which).
    """
    row = np.int64(state[0])
    n = np.int64(0)
    base, slots = t.meta[M_SLOT_BASE], t.meta[M_SLOTS]
    missing = False
    if t.row_info[row, R_START] < 0:
        if learn is None:
            return MISSING
        built = build_row(t, row, state)
        if built == FULL:
            return FULL
        missing = built == MISSING
    if not missing:
        for k in range(t.row_info[row, R_START], t.row_info[row, R_START] + t.row_info[row, R_N]):
            ref, target = np.int64(t.row_items[k, 0]), np.int64(t.row_items[k, 1])
            extra = np.int64(t.row_items[k, 2])  # the step's flags, or the slot of an action that reads inboxes
            if target >= 0:
                code = emit(t, state, succ, n, ref, target | (extra << FLAG_SHIFT), 0, -1, learn)
            else:
                local = np.int64(t.rows[row, base + extra]) if extra >= 0 else np.int64(0)
                code = emit_node(t, state, succ, n, ref, row, local, extra, -1, learn, index)
            if code == FULL:
                return FULL
            if code == MISSING:
                missing = True
                if learn is None:
                    return MISSING
            elif code >= 0:
                n = code
    for s in range(slots):
        inbox = np.int64(state[1 + s])
        if inbox == 0:
            continue
        local = np.int64(t.rows[row, base + s])
        if local != 0:
            bundle = find(t.bundle_of, (local << 32) | inbox)
            if bundle < 0:
                if learn is None:
                    return MISSING
                bundle = build_bundle(t, local, inbox, s)
                if bundle == FULL:
                    return FULL
                if bundle < 0:
                    missing = True
                    continue
            for k in range(t.bundles[bundle, 0], t.bundles[bundle, 0] + t.bundles[bundle, 1]):
                ref, rest = np.int64(t.bundle_items[k, 0]), np.int64(t.bundle_items[k, 2])
                if t.bundle_items[k, 1]:
                    code = emit_node(t, state, succ, n, ref, row, local, s, rest, learn, index)
                else:
                    delta = np.int64(t.outcomes[ref, DELTA])
                    target = row if delta == 0 else changed(t, row, delta, learn)
                    code = REFUSED
                    if target >= 0:
                        after = rest if t.outcomes[ref, CONSUMES] else np.int64(-1)
                        code = emit(t, state, succ, n, ref, target, s, after, learn)
                    elif target != REFUSED:
                        code = target
                if code == FULL:
                    return FULL
                if code == MISSING:
                    missing = True
                    if learn is None:
                        return MISSING
                elif code >= 0:
                    n = code
        if t.meta[M_NETWORK_STEPS]:
            code = network_steps(t, state, succ, n, row, s, learn)
            if code == FULL:
                return FULL
            if code == MISSING:
                missing = True
                if learn is None:
                    return MISSING
            elif code >= 0:
                n = code
    return MISSING if missing else n


@jit
def emit_node(
    t: Any, state: Any, succ: Any, n: Any, root: Any, row: Any, local: Any, slot: Any, rest: Any, learn: Any, index: Any
) -> Any:
    """Write the successors of an action that reads more than its replica and message."""
    leaf = walk(t, root, row, local, 0, state)
    if leaf < 0 or t.nodes[leaf, KIND] != LEAF:
        if learn is None:
            return MISSING
        return miss(t, MISS_PATH, root, row, local, index, slot)
    missing = False
    for o in range(t.nodes[leaf, A], t.nodes[leaf, A] + t.nodes[leaf, N]):
        delta = np.int64(t.outcomes[o, DELTA])
        target = row if delta == 0 else changed(t, row, delta, learn)
        if target == REFUSED:
            continue
        code = target
        if target >= 0:
            after = rest if rest >= 0 and t.outcomes[o, CONSUMES] else np.int64(-1)
            code = emit(t, state, succ, n, o, target, slot, after, learn)
        if code == FULL:
            return FULL
        if code == MISSING:
            missing = True
            if learn is None:
                return MISSING
        elif code >= 0:
            n = code
    return MISSING if missing else n


@jit
def network_steps(t: Any, state: Any, succ: Any, n: Any, row: Any, slot: Any, learn: Any) -> Any:
    """Write the successors in which the network loses or duplicates a message of one inbox."""
    inbox = np.int64(state[1 + slot])
    missing = False
    for k in range(t.contents[inbox, C_START], t.contents[inbox, C_START] + t.contents[inbox, C_N]):
        if t.content_items[k, 1] <= 0:
            continue
        message = np.int64(t.content_items[k, 0])
        for j in range(t.meta[M_NETWORK_STEPS]):
            op, delta = np.int64(t.network_operations[j, message]), np.int64(t.network_steps[j, 1])
            target = row if delta == 0 else changed(t, row, delta, learn)
            if target == REFUSED:
                continue
            if target == FULL:
                return FULL
            after = operated(t, inbox, op, learn)
            if after == REFUSED:
                continue
            if after == FULL:
                return FULL
            if target < 0 or after < 0:
                missing = True
                continue
            code = emit(t, state, succ, n, np.int64(t.network_steps[j, 0]), target, slot, after, learn)
            if code == FULL:
                return FULL
            if code == MISSING:
                missing = True
            else:
                n = code
    return MISSING if missing else n


@jit
def rehash_rows(t: Any) -> None:
    """Enter every control row into an emptied table."""
    mask = np.int64(len(t.row_table) - 1)
    for row in range(t.meta[M_ROWS]):
        i = np.int64(row_hash(t.rows, row)) & mask
        while t.row_table[i] != -1:
            i = (i + 1) & mask
        t.row_table[i] = row


@jit
def rehash_contents(t: Any) -> None:
    """Enter every inbox content that follows counting rules into an emptied table."""
    mask = np.int64(len(t.content_table) - 1)
    for content in range(1, t.meta[M_CONTENTS]):
        start, n = t.contents[content, C_START], t.contents[content, C_N]
        i = np.int64(content_hash(t, t.contents[content, C_SLOT], start, n)) & mask
        while t.content_table[i] != -1:
            i = (i + 1) & mask
        t.content_table[i] = content


@jit
def content_hash(t: Any, slot: Any, start: Any, n: Any) -> Any:
    h = np.uint64(slot)
    for k in range(start, start + n):
        h = mix(h ^ np.uint64(t.content_items[k, 0])) + np.uint64(t.content_items[k, 1]) * np.uint64(0x9E3779B97F4A7C15)
    return mix(h)
