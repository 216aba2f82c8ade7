"""The compiled cold path: it makes what the hot path did not find, and notes what only Python can answer.

It runs in one thread, between batches: control rows, inbox contents, bundles of what a replica may do, verdicts of
properties. All of it is made once for each distinct value, so it is simple rather than fast.
"""

# ruff: noqa: D103 - the functions are documented where their contract is not plain from the name
from __future__ import annotations

from typing import Any

import numpy as np

from kraftcheck.explorer.tables.kernel.directory import (
    assignments_of,
    branches_of,
    bundle_items_of,
    bundles_of,
    changed_of,
    content_items_of,
    content_table_of,
    contents_of,
    deltas_of,
    hidden_of,
    inbox_views_of,
    limits_of,
    list_nodes_of,
    lists_of,
    messages_of,
    meta_of,
    misses_of,
    nodes_of,
    operated_of,
    operations_of,
    outcomes_of,
    permuted_contents_of,
    permuted_locals_of,
    permuted_messages_of,
    permuted_rows_of,
    permuted_shared_of,
    permuted_slots_of,
    properties_of,
    roots_of,
    row_info_of,
    row_items_of,
    row_table_of,
    rows_of,
    slot_contents_of,
    spendings_of,
    step_properties_of,
    views_of,
)
from kraftcheck.explorer.tables.kernel.expand import walk
from kraftcheck.explorer.tables.kernel.layout import (
    BAD,
    BUNDLE_BITS,
    C_BAD,
    C_N,
    C_NUMBER,
    C_SLOT,
    C_START,
    DELTA,
    FLAG_SHIFT,
    FULL,
    GROW_BUNDLES,
    GROW_CONTENTS,
    GROW_ITEMS,
    GROW_MAP,
    GROW_MISSES,
    GROW_ROWS,
    JUDGED,
    KIND,
    LEAF,
    M_BOUNDS,
    M_BUNDLE_ITEMS,
    M_BUNDLES,
    M_CONTENT_ITEMS,
    M_CONTENTS,
    M_DELTAS,
    M_GROW,
    M_MISSES,
    M_OPERATIONS,
    M_PERMUTATIONS,
    M_PROPERTIES,
    M_ROOTS,
    M_ROW_ITEMS,
    M_ROWS,
    M_SLOT_BASE,
    M_SLOTS,
    M_STEP_PROPERTIES,
    MISS_OPERATION,
    MISS_PATH,
    MISS_ROOTS,
    MISSING,
    NEED_BUNDLE,
    NEED_CHANGED,
    NEED_IMAGES,
    NEED_IMAGES_OF,
    NEED_JUDGED,
    NEED_OPERATED,
    NEED_PATH,
    NEED_STEPS,
    PRUNED,
    R_BAD,
    R_FLAGS,
    R_IDENTITY,
    R_N,
    R_START,
    REFUSED,
    ROW_MASK,
    STEP_BAD,
    STEP_PRUNED,
    UNKNOWN,
    A,
    N,
)
from kraftcheck.explorer.tables.kernel.maps import crowded, find, is_full, mix, store
from kraftcheck.explorer.tables.kernel.native import jit

LEARNED = np.int64(-2)  # in the place of a counting rule: Python knows
CLEARS = np.int64(-3)  # the same: a group of messages is taken out


@jit
def miss(t: Any, kind: Any, a: Any, b: Any, c: Any, d: Any, e: Any) -> Any:
    """Note what Python must answer."""
    meta = meta_of(t)
    misses = misses_of(t)
    n = meta[M_MISSES]
    if n >= len(misses):
        meta[M_GROW] |= GROW_MISSES
        return FULL
    misses[n, 0] = kind
    misses[n, 1] = a
    misses[n, 2] = b
    misses[n, 3] = c
    misses[n, 4] = d
    misses[n, 5] = e
    meta[M_MISSES] = n + 1
    return MISSING


@jit
def walk_to(t: Any, node: Any, row: Any, me: Any, peer: Any) -> Any:
    """Follow a trie as far as a control row decides it."""
    meta = meta_of(t)
    nodes = nodes_of(t)
    branches = branches_of(t)
    rows = rows_of(t)
    views = views_of(t)
    inbox_views = inbox_views_of(t)
    base = meta[M_SLOT_BASE]
    return walk(nodes, branches, rows, views, inbox_views, base, node, row, me, peer, rows, -1)


@jit
def row_hash(rows: Any, row: Any) -> Any:
    h = np.uint64(1469598103934665603)
    for c in range(rows.shape[1]):
        h = mix(h ^ np.uint64(rows[row, c])) + np.uint64(0x9E3779B97F4A7C15)
    return h


@jit
def intern_row(t: Any, fresh: Any) -> Any:
    """Return the id of the control row written at `fresh`, the first free place; it may be there already."""
    rows = rows_of(t)
    row_table = row_table_of(t)
    meta = meta_of(t)
    row_info = row_info_of(t)
    permuted_rows = permuted_rows_of(t)
    if fresh + 2 >= rows.shape[0] or (fresh + 2) * 2 > len(row_table):
        meta[M_GROW] |= GROW_ROWS
        return FULL
    mask = np.int64(len(row_table) - 1)
    i = np.int64(row_hash(rows, fresh)) & mask
    columns = rows.shape[1]
    while row_table[i] != -1:
        other = row_table[i]
        same = True
        for c in range(columns):
            if rows[other, c] != rows[fresh, c]:
                same = False
                break
        if same:
            return np.int64(other)
        i = (i + 1) & mask
    row_table[i] = fresh
    row_info[fresh, R_FLAGS] = 0
    row_info[fresh, R_BAD] = 0
    row_info[fresh, R_START] = -1
    row_info[fresh, R_IDENTITY] = fresh
    permuted_rows[fresh, 0] = -1
    meta[M_ROWS] = fresh + 1
    return np.int64(fresh)


@jit
def identify(t: Any, row: Any) -> Any:
    """Set which control row stands for this one when states are compared: the one without what a VIEW hides."""
    meta = meta_of(t)
    rows = rows_of(t)
    hidden = hidden_of(t)
    row_info = row_info_of(t)
    hides = False
    fresh = meta[M_ROWS]
    if fresh + 2 >= rows.shape[0]:
        meta[M_GROW] |= GROW_ROWS
        return FULL
    for c in range(rows.shape[1]):
        hides |= hidden[c] != 0
        rows[fresh, c] = 0 if hidden[c] != 0 else rows[row, c]
    if hides:
        found = intern_row(t, fresh)
        if found == FULL:
            return FULL
        row_info[row, R_IDENTITY] = found
    return 0


@jit
def judge(t: Any, row: Any) -> Any:
    """Evaluate the properties of a control row; 0, MISSING or FULL."""
    meta = meta_of(t)
    properties = properties_of(t)
    rows = rows_of(t)
    nodes = nodes_of(t)
    row_info = row_info_of(t)
    base, slots = meta[M_SLOT_BASE], meta[M_SLOTS]
    bad = np.int64(0)
    flags = JUDGED
    result = np.int64(0)
    for p in range(meta[M_PROPERTIES]):
        kind = properties[p, 1]
        outer = slots if kind >= 1 else 1
        inner = slots if kind == 2 else 1
        for s in range(outer):
            me = np.int64(rows[row, base + s]) if kind >= 1 else np.int64(0)
            if kind >= 1 and me == 0:
                continue
            for q in range(inner):
                peer = np.int64(rows[row, base + q]) if kind == 2 else np.int64(0)
                if kind == 2 and (peer == 0 or q == s):
                    continue
                root = np.int64(properties[p, 0])
                leaf = walk_to(t, root, row, me, peer)
                if leaf < 0 or nodes[leaf, KIND] != LEAF:
                    result = MISSING
                    if miss(t, MISS_PATH, root, row, me, peer, -1) == FULL:
                        return FULL
                elif nodes[leaf, A] == 0:
                    if properties[p, 2]:
                        flags |= PRUNED
                    else:
                        flags |= BAD
                        bad |= np.int64(1) << np.int64(p)
    if result == 0:
        if identify(t, row) == FULL:
            return FULL
        row_info[row, R_BAD] = bad
        row_info[row, R_FLAGS] = flags
    return result


@jit
def make_changed(t: Any, row: Any, delta: Any) -> Any:
    """Return the control row after a delta with the flags of the step above it; REFUSED, MISSING or FULL."""
    changed = changed_of(t)
    meta = meta_of(t)
    rows = rows_of(t)
    deltas = deltas_of(t)
    spendings = spendings_of(t)
    limits = limits_of(t)
    assignments = assignments_of(t)
    key = (np.int64(row) << 24) | np.int64(delta)
    found = find(changed, key)
    if found != MISSING:
        return found
    if is_full(meta[M_DELTAS], changed):
        meta[M_GROW] |= GROW_MAP
        return np.int64(FULL)
    fresh = meta[M_ROWS]
    if fresh + 4 >= rows.shape[0]:
        meta[M_GROW] |= GROW_ROWS
        return np.int64(FULL)
    for c in range(rows.shape[1]):
        rows[fresh, c] = rows[row, c]
    result = np.int64(0)
    for k in range(deltas[delta, 2], deltas[delta, 2] + deltas[delta, 3]):
        column, amount = spendings[k, 0], spendings[k, 1]
        if rows[row, column] + max(amount, 1) > limits[column]:
            result = np.int64(REFUSED)
        rows[fresh, column] += amount
    if result == 0:
        for k in range(deltas[delta, 0], deltas[delta, 0] + deltas[delta, 1]):
            rows[fresh, assignments[k, 0]] = assignments[k, 1]
        target = intern_row(t, fresh)
        if target == FULL:
            return np.int64(FULL)
        flags = judge_step(t, row, target)
        if flags < 0:
            return np.int64(flags)
        result = target | (np.int64(flags) << FLAG_SHIFT)
    meta[M_DELTAS] += 1
    store(changed, key, result)
    return result


@jit
def judge_step(t: Any, row: Any, target: Any) -> Any:
    """Evaluate the step properties over every slot that differs; the step's flags, MISSING or FULL."""
    meta = meta_of(t)
    rows = rows_of(t)
    step_properties = step_properties_of(t)
    nodes = nodes_of(t)
    flags = np.int64(0)
    base = meta[M_SLOT_BASE]
    missing = False
    for p in range(meta[M_STEP_PROPERTIES]):
        for s in range(meta[M_SLOTS]):
            before, after = np.int64(rows[row, base + s]), np.int64(rows[target, base + s])
            if before == after or before == 0 or after == 0:
                continue
            root = np.int64(step_properties[p, 0])
            leaf = walk_to(t, root, row, before, after)
            if leaf < 0 or nodes[leaf, KIND] != LEAF:
                missing = True
                if miss(t, MISS_PATH, root, row, before, after, -1) == FULL:
                    return np.int64(FULL)
            elif nodes[leaf, A] == 0:
                flags |= STEP_PRUNED if step_properties[p, 1] else (STEP_BAD | (np.int64(1) << (p + 2)))
    return np.int64(MISSING) if missing else flags


@jit
def make_operated(t: Any, inbox: Any, op: Any) -> Any:
    """Return the inbox content after an operation; REFUSED, MISSING or FULL."""
    operated = operated_of(t)
    meta = meta_of(t)
    operations = operations_of(t)
    key = (np.int64(inbox) << 24) | np.int64(op)
    found = find(operated, key)
    if found != MISSING:
        return found
    if is_full(meta[M_OPERATIONS], operated):
        meta[M_GROW] |= GROW_MAP
        return np.int64(FULL)
    if operations[op, 2] == LEARNED:
        return np.int64(miss(t, MISS_OPERATION, inbox, op, 0, 0, 0))
    result = cleared(t, inbox, op) if operations[op, 2] == CLEARS else counted(t, inbox, op)
    if result == FULL:
        return np.int64(FULL)
    meta[M_OPERATIONS] += 1
    store(operated, key, result)
    return result


@jit
def counted(t: Any, inbox: Any, op: Any) -> Any:
    """Apply a counting rule to an inbox content and return the content that results."""
    operations = operations_of(t)
    contents = contents_of(t)
    meta = meta_of(t)
    content_items = content_items_of(t)
    message = operations[op, 1]
    start, n = contents[inbox, C_START], contents[inbox, C_N]
    free = meta[M_CONTENT_ITEMS]
    if free + n + 2 >= len(content_items):
        meta[M_GROW] |= GROW_CONTENTS
        return np.int64(FULL)
    written = 0
    seen = False
    for k in range(start, start + n):
        m, c = content_items[k, 0], content_items[k, 1]
        if not seen and m > message:
            seen = True
            if operations[op, 2] < 0:
                return np.int64(REFUSED)
            content_items[free + written, 0] = message
            content_items[free + written, 1] = operations[op, 2]
            written += 1
        if m == message:
            seen = True
            if c < operations[op, 4]:
                return np.int64(REFUSED)
            c += operations[op, 3]
            if c == 0 and operations[op, 5]:
                continue
        content_items[free + written, 0] = m
        content_items[free + written, 1] = c
        written += 1
    if not seen:
        if operations[op, 2] < 0:
            return np.int64(REFUSED)
        content_items[free + written, 0] = message
        content_items[free + written, 1] = operations[op, 2]
        written += 1
    return intern_content(t, np.int64(operations[op, 0]), np.int64(written))


@jit
def cleared(t: Any, inbox: Any, op: Any) -> Any:
    """Take a group of messages out of an inbox content and return the content that results."""
    operations = operations_of(t)
    contents = contents_of(t)
    meta = meta_of(t)
    content_items = content_items_of(t)
    messages = messages_of(t)
    group = operations[op, 1] + 1
    start, n = contents[inbox, C_START], contents[inbox, C_N]
    free = meta[M_CONTENT_ITEMS]
    if free + n + 2 >= len(content_items):
        meta[M_GROW] |= GROW_CONTENTS
        return np.int64(FULL)
    written = 0
    for k in range(start, start + n):
        if messages[content_items[k, 0], 2] != group:
            content_items[free + written, 0] = content_items[k, 0]
            content_items[free + written, 1] = content_items[k, 1]
            written += 1
    return intern_content(t, np.int64(operations[op, 0]), np.int64(written))


@jit
def intern_content(t: Any, slot: Any, n: Any) -> Any:
    """Return the id of the inbox content whose items stand behind the last one; it may be there already."""
    meta = meta_of(t)
    contents = contents_of(t)
    content_table = content_table_of(t)
    content_items = content_items_of(t)
    slot_contents = slot_contents_of(t)
    messages = messages_of(t)
    permuted_contents = permuted_contents_of(t)
    if n == 0:
        return np.int64(0)
    free = meta[M_CONTENT_ITEMS]
    fresh = meta[M_CONTENTS]
    if fresh + 2 >= len(contents) or (fresh + 2) * 2 > len(content_table):
        meta[M_GROW] |= GROW_CONTENTS
        return np.int64(FULL)
    mask = np.int64(len(content_table) - 1)
    i = np.int64(content_hash(t, slot, free, n)) & mask
    while content_table[i] != -1:
        other = content_table[i]
        if contents[other, C_SLOT] == slot and contents[other, C_N] == n:
            start = contents[other, C_START]
            same = True
            for k in range(n):
                if (
                    content_items[start + k, 0] != content_items[free + k, 0]
                    or content_items[start + k, 1] != content_items[free + k, 1]
                ):
                    same = False
                    break
            if same:
                return np.int64(other)
        i = (i + 1) & mask
    content_table[i] = fresh
    contents[fresh, C_SLOT] = slot
    slot_contents[slot] += 1
    contents[fresh, C_NUMBER] = slot_contents[slot]
    contents[fresh, C_START] = free
    contents[fresh, C_N] = n
    bad = 0
    for k in range(free, free + n):
        bad |= messages[content_items[k, 0], 1]
    contents[fresh, C_BAD] = bad
    permuted_contents[fresh, 0] = -1
    meta[M_CONTENT_ITEMS] = free + n
    meta[M_CONTENTS] = fresh + 1
    return np.int64(fresh)


@jit
def ask_roots(t: Any, local: Any, message: Any) -> Any:
    """Return the list of handlers of a replica for a message (0: its own steps), asking Python once."""
    roots = roots_of(t)
    meta = meta_of(t)
    key = (np.int64(local) << 32) | np.int64(message)
    found = find(roots, key)
    if found >= 0:
        return found
    if found == MISSING:
        if crowded(meta, M_ROOTS, roots):
            return np.int64(FULL)
        if miss(t, MISS_ROOTS, local, message, 0, 0, 0) == FULL:
            meta[M_ROOTS] -= 1
            return np.int64(FULL)
        store(roots, key, np.int64(-2))
    return np.int64(MISSING)


@jit
def build_row(t: Any, row: Any) -> Any:
    """List the steps of a control row that depend on no inbox: each replica's own and the environment's."""
    meta = meta_of(t)
    rows = rows_of(t)
    lists = lists_of(t)
    list_nodes = list_nodes_of(t)
    row_items = row_items_of(t)
    nodes = nodes_of(t)
    outcomes = outcomes_of(t)
    row_info = row_info_of(t)
    base, slots = meta[M_SLOT_BASE], meta[M_SLOTS]
    start = meta[M_ROW_ITEMS]
    n = 0
    missing = False
    for s in range(slots + 1):
        local = np.int64(rows[row, base + s]) if s < slots else np.int64(0)
        if s < slots and local == 0:
            continue
        roots = ask_roots(t, local, 0)
        if roots == FULL:
            return FULL
        if roots < 0:
            missing = True
            continue
        for k in range(lists[roots, 0], lists[roots, 0] + lists[roots, 1]):
            root = np.int64(list_nodes[k])
            if root < 0:  # it reads inboxes: no control row decides it
                if start + n + 2 >= len(row_items):
                    meta[M_GROW] |= GROW_ITEMS
                    return FULL
                row_items[start + n, 0] = ~root
                row_items[start + n, 1] = -1
                row_items[start + n, 2] = s if s < slots else -1
                n += 1
                continue
            leaf = walk_to(t, root, row, local, 0)
            if leaf < 0 or nodes[leaf, KIND] == UNKNOWN:
                missing = True
                if miss(t, MISS_PATH, root, row, local, 0, -1) == FULL:
                    return FULL
                continue
            if start + n + nodes[leaf, N] + 2 >= len(row_items):
                meta[M_GROW] |= GROW_ITEMS
                return FULL
            for o in range(nodes[leaf, A], nodes[leaf, A] + nodes[leaf, N]):
                target = make_changed(t, row, np.int64(outcomes[o, DELTA]))
                if target == FULL:
                    return FULL
                if target == MISSING:
                    missing = True
                elif target >= 0:
                    row_items[start + n, 0] = o
                    row_items[start + n, 1] = np.int64(target & ROW_MASK)
                    row_items[start + n, 2] = np.int64(target >> FLAG_SHIFT)
                    n += 1
    if missing:
        return MISSING
    row_info[row, R_START] = start
    row_info[row, R_N] = n
    meta[M_ROW_ITEMS] = start + n
    return 0


@jit
def build_bundle(t: Any, local: Any, inbox: Any) -> Any:
    """List what a replica may do with the messages of an inbox; the bundle's id, MISSING or FULL."""
    meta = meta_of(t)
    bundles = bundles_of(t)
    contents = contents_of(t)
    content_items = content_items_of(t)
    lists = lists_of(t)
    messages = messages_of(t)
    list_nodes = list_nodes_of(t)
    nodes = nodes_of(t)
    bundle_items = bundle_items_of(t)
    start = meta[M_BUNDLE_ITEMS]
    n = 0
    missing = False
    if is_full(meta[M_BUNDLES], bundles):
        meta[M_GROW] |= GROW_MAP
        return np.int64(FULL)
    for k in range(contents[inbox, C_START], contents[inbox, C_START] + contents[inbox, C_N]):
        if content_items[k, 1] <= 0:
            continue
        message = np.int64(content_items[k, 0])
        roots = ask_roots(t, local, message + 1)
        if roots == FULL:
            return np.int64(FULL)
        if roots < 0:
            missing = True
            continue
        if lists[roots, 1] == 0:
            continue
        rest = make_operated(t, inbox, np.int64(messages[message, 0]))
        if rest == FULL:
            return np.int64(FULL)
        if rest < 0:
            missing = True
            continue
        for r in range(lists[roots, 0], lists[roots, 0] + lists[roots, 1]):
            node = list_nodes[r]
            if node < 0:
                node = ~node
            leaf = nodes[node, KIND] == LEAF
            first = nodes[node, A] if leaf else node
            last = first + nodes[node, N] if leaf else first + 1
            if start + n + (last - first) + 2 >= len(bundle_items):
                meta[M_GROW] |= GROW_BUNDLES
                return np.int64(FULL)
            for o in range(first, last):
                bundle_items[start + n, 0] = o
                bundle_items[start + n, 1] = 0 if leaf else 1
                bundle_items[start + n, 2] = rest
                n += 1
    if missing:
        return np.int64(MISSING)
    meta[M_BUNDLE_ITEMS] = start + n
    meta[M_BUNDLES] += 1
    value = (np.int64(start) << BUNDLE_BITS) | np.int64(n)
    store(bundles, (np.int64(local) << 32) | np.int64(inbox), value)
    return np.int64(value)


@jit
def rehash_rows(t: Any) -> None:
    """Enter every control row into an emptied table."""
    row_table = row_table_of(t)
    meta = meta_of(t)
    rows = rows_of(t)
    mask = np.int64(len(row_table) - 1)
    for row in range(meta[M_ROWS]):
        i = np.int64(row_hash(rows, row)) & mask
        while row_table[i] != -1:
            i = (i + 1) & mask
        row_table[i] = row


@jit
def rehash_contents(t: Any) -> None:
    """Enter every inbox content that follows counting rules into an emptied table."""
    content_table = content_table_of(t)
    meta = meta_of(t)
    contents = contents_of(t)
    mask = np.int64(len(content_table) - 1)
    for content in range(1, meta[M_CONTENTS]):
        start, n = contents[content, C_START], contents[content, C_N]
        i = np.int64(content_hash(t, contents[content, C_SLOT], start, n)) & mask
        while content_table[i] != -1:
            i = (i + 1) & mask
        content_table[i] = content


@jit
def content_hash(t: Any, slot: Any, start: Any, n: Any) -> Any:
    content_items = content_items_of(t)
    h = np.uint64(slot)
    for k in range(start, start + n):
        h = mix(h ^ np.uint64(content_items[k, 0])) + np.uint64(content_items[k, 1]) * np.uint64(0x9E3779B97F4A7C15)
    return mix(h)


@jit
def make_row_images(t: Any, row: Any) -> Any:
    """Make the images of a control row under every permutation, and theirs: an orbit is closed."""
    permuted_rows = permuted_rows_of(t)
    meta = meta_of(t)
    rows = rows_of(t)
    permuted_shared = permuted_shared_of(t)
    hidden = hidden_of(t)
    permuted_slots = permuted_slots_of(t)
    permuted_locals = permuted_locals_of(t)
    if permuted_rows[row, 0] >= 0:
        return np.int64(0)
    base, slots = meta[M_SLOT_BASE], meta[M_SLOTS]
    bounds = meta[M_BOUNDS]
    for g in range(meta[M_PERMUTATIONS] - 1, -1, -1):
        fresh = meta[M_ROWS]
        if fresh + 2 >= rows.shape[0]:
            meta[M_GROW] |= GROW_ROWS
            return FULL
        for c in range(rows.shape[1]):
            rows[fresh, c] = 0
        for c in range(bounds):
            rows[fresh, c] = rows[row, c]
        for c in range(bounds, base):
            rows[fresh, c] = permuted_shared[g * (base - bounds) + c - bounds, rows[row, c]]
            if hidden[c]:
                rows[fresh, c] = 0
        for s in range(slots):
            local = rows[row, base + s]
            if local != 0:
                rows[fresh, base + permuted_slots[g, s]] = permuted_locals[g, local]
        image = intern_row(t, fresh)
        if image == FULL:
            return FULL
        permuted_rows[row, g] = image
    return np.int64(0)


@jit
def make_content_images(t: Any, content: Any) -> Any:
    """Make the images of an inbox content under every permutation."""
    permuted_contents = permuted_contents_of(t)
    contents = contents_of(t)
    meta = meta_of(t)
    content_items = content_items_of(t)
    permuted_messages = permuted_messages_of(t)
    permuted_slots = permuted_slots_of(t)
    if permuted_contents[content, 0] >= 0:
        return np.int64(0)
    start, n = np.int64(contents[content, C_START]), np.int64(contents[content, C_N])
    for g in range(meta[M_PERMUTATIONS] - 1, -1, -1):
        free = meta[M_CONTENT_ITEMS]
        if free + n + 2 >= len(content_items):
            meta[M_GROW] |= GROW_CONTENTS
            return FULL
        for k in range(n):
            message, count = permuted_messages[g, content_items[start + k, 0]], content_items[start + k, 1]
            j = k
            while j > 0 and content_items[free + j - 1, 0] > message:
                content_items[free + j, 0] = content_items[free + j - 1, 0]
                content_items[free + j, 1] = content_items[free + j - 1, 1]
                j -= 1
            content_items[free + j, 0] = message
            content_items[free + j, 1] = count
        image = intern_content(t, np.int64(permuted_slots[g, contents[content, C_SLOT]]), n)
        if image == FULL:
            return FULL
        permuted_contents[content, g] = image
    return np.int64(0)


@jit
def resolve(t: Any, needs: Any, first: Any, count: Any) -> Any:
    """Make what is needed, from needs[first] on; return how far it came: less than `count` where an array is full.

    What needs Python is noted in `misses`, and will be needed again.
    """
    row_info = row_info_of(t)
    bundles = bundles_of(t)
    for i in range(first, count):
        kind, a, b, c = needs[i, 0], needs[i, 1], needs[i, 2], needs[i, 3]
        code = np.int64(0)
        if kind == NEED_STEPS:
            if row_info[a, R_START] < 0:
                code = build_row(t, a)
        elif kind == NEED_BUNDLE:
            code = find(bundles, (a << 32) | b)
            if code == MISSING:
                code = build_bundle(t, a, b)
        elif kind == NEED_CHANGED:
            code = make_changed(t, a, b)
        elif kind == NEED_OPERATED:
            code = make_operated(t, a, b)
        elif kind == NEED_JUDGED:
            if not row_info[a, R_FLAGS] & JUDGED:
                code = judge(t, a)
        elif kind == NEED_IMAGES:
            code = make_row_images(t, a)
        elif kind == NEED_IMAGES_OF:
            code = make_content_images(t, a)
        elif kind == NEED_PATH:
            code = miss(t, MISS_PATH, a, b, c, 0, needs[i, 4])
        if code == FULL:
            return i
    return count
