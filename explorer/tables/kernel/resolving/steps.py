"""Lists the steps of control rows and of inboxes, and makes the control rows that they lead to."""

from __future__ import annotations

from typing import Any

import numpy as np

from kraftcheck.explorer.tables.kernel import codes
from kraftcheck.explorer.tables.kernel.codes import MISSING, REFUSED
from kraftcheck.explorer.tables.kernel.maps import find, is_full, store
from kraftcheck.explorer.tables.kernel.native import jit
from kraftcheck.explorer.tables.kernel.resolving.asking import ask, ask_roots, stop_to_grow
from kraftcheck.explorer.tables.kernel.resolving.control_rows import intern_row
from kraftcheck.explorer.tables.kernel.resolving.inboxes import make_operated
from kraftcheck.explorer.tables.kernel.resolving.properties import judge_step
from kraftcheck.explorer.tables.kernel.tries import walk_to


@jit
def make_changed(t: Any, row: Any, delta: Any) -> Any:
    """Return the control row after a delta with the flags of the step above it; REFUSED or MISSING."""
    key = (np.int64(row) << 24) | np.int64(delta)
    found = find(t.changed, key)
    if found != MISSING:
        return found
    if is_full(t.meta[codes.M_DELTAS], t.changed):
        stop_to_grow(t, codes.GROW_MAP)
    fresh = t.meta[codes.M_ROWS]
    if fresh + 4 >= t.rows.shape[0]:
        stop_to_grow(t, codes.GROW_ROWS)
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
        flags = judge_step(t, row, target)
        if flags < 0:
            return np.int64(flags)
        result = target | (np.int64(flags) << codes.FLAG_SHIFT)
    t.meta[codes.M_DELTAS] += 1
    store(t.changed, key, result)
    return result


@jit
def build_row(t: Any, row: Any) -> None:
    """List the steps of a control row that depend on no inbox: each replica's own and the environment's."""
    base, slots = t.meta[codes.M_SLOT_BASE], t.meta[codes.M_SLOTS]
    start = t.meta[codes.M_ROW_ITEMS]
    n = 0
    missing = False
    for s in range(slots + 1):
        local = np.int64(t.rows[row, base + s]) if s < slots else np.int64(0)
        if s < slots and local == 0:
            continue
        roots = ask_roots(t, local, 0)
        if roots < 0:
            missing = True
            continue
        for k in range(t.lists[roots, 0], t.lists[roots, 0] + t.lists[roots, 1]):
            root = np.int64(t.list_nodes[k])
            if root < 0:  # it reads inboxes: no control row decides it
                if start + n + 2 >= len(t.row_items):
                    stop_to_grow(t, codes.GROW_ITEMS)
                t.row_items[start + n, 0] = ~root
                t.row_items[start + n, 1] = -1
                t.row_items[start + n, 2] = s if s < slots else -1
                n += 1
                continue
            leaf = walk_to(t, root, row, local, 0)
            if leaf < 0 or t.nodes[leaf, codes.KIND] == codes.UNKNOWN:
                missing = True
                ask(t, codes.ASK_PATH, root, row, local, 0, -1)
                continue
            if start + n + t.nodes[leaf, codes.N] + 2 >= len(t.row_items):
                stop_to_grow(t, codes.GROW_ITEMS)
            for o in range(t.nodes[leaf, codes.A], t.nodes[leaf, codes.A] + t.nodes[leaf, codes.N]):
                target = make_changed(t, row, np.int64(t.outcomes[o, codes.DELTA]))
                if target == MISSING:
                    missing = True
                elif target >= 0:
                    t.row_items[start + n, 0] = o
                    t.row_items[start + n, 1] = np.int64(target & codes.ROW_MASK)
                    t.row_items[start + n, 2] = np.int64(target >> codes.FLAG_SHIFT)
                    n += 1
                elif t.meta[codes.M_WATCH_BOUNDS]:
                    t.row_items[start + n, 0] = o
                    t.row_items[start + n, 1] = codes.BLOCKED
                    t.row_items[start + n, 2] = -1
                    n += 1
    if missing:
        return
    t.row_info[row, codes.R_START] = start
    t.row_info[row, codes.R_N] = n
    t.meta[codes.M_ROW_ITEMS] = start + n


@jit
def build_bundle(t: Any, local: Any, inbox: Any) -> None:
    """List what a replica may do with the messages of an inbox."""
    start = t.meta[codes.M_BUNDLE_ITEMS]
    n = 0
    missing = False
    if is_full(t.meta[codes.M_BUNDLES], t.bundles):
        stop_to_grow(t, codes.GROW_MAP)
    first_item = t.contents[inbox, codes.C_START]
    for k in range(first_item, first_item + t.contents[inbox, codes.C_N]):
        if t.content_items[k, 1] <= 0:
            continue
        message = np.int64(t.content_items[k, 0])
        roots = ask_roots(t, local, message + 1)
        if roots < 0:
            missing = True
            continue
        if t.lists[roots, 1] == 0:
            continue
        rest = make_operated(t, inbox, np.int64(t.messages[message, 0]))
        if rest < 0:
            missing = True
            continue
        for r in range(t.lists[roots, 0], t.lists[roots, 0] + t.lists[roots, 1]):
            node = t.list_nodes[r]
            if node < 0:
                node = ~node
            leaf = t.nodes[node, codes.KIND] == codes.LEAF
            first = t.nodes[node, codes.A] if leaf else node
            last = first + t.nodes[node, codes.N] if leaf else first + 1
            if start + n + (last - first) + 2 >= len(t.bundle_items):
                stop_to_grow(t, codes.GROW_BUNDLES)
            for o in range(first, last):
                t.bundle_items[start + n, 0] = o
                t.bundle_items[start + n, 1] = 0 if leaf else 1
                t.bundle_items[start + n, 2] = rest
                n += 1
    if missing:
        return
    t.meta[codes.M_BUNDLE_ITEMS] = start + n
    t.meta[codes.M_BUNDLES] += 1
    value = (np.int64(start) << codes.BUNDLE_BITS) | np.int64(n)
    store(t.bundles, (np.int64(local) << 32) | np.int64(inbox), value)
