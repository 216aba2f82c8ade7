"""Control rows: interning, images under symmetry, and evaluation of local properties."""

from __future__ import annotations

from typing import Any

import numpy as np

from kraftcheck.explorer.tables.kernel import codes
from kraftcheck.explorer.tables.kernel.codes import MISSING, NONE
from kraftcheck.explorer.tables.kernel.maps import mix
from kraftcheck.explorer.tables.kernel.native import jit
from kraftcheck.explorer.tables.kernel.resolving.requests import abort_to_grow, ask
from kraftcheck.explorer.tables.kernel.tree_walk import walk_to


@jit
def row_hash(t: Any, row: Any) -> Any:
    """Hash the columns of a control row."""
    h = np.uint64(1469598103934665603)
    for c in range(t.rows.shape[1]):
        h = (h ^ np.uint64(t.rows[row, c])) * np.uint64(0x9E3779B97F4A7C15)
        h ^= h >> np.uint64(29)
    return mix(h)


@jit
def intern_row(t: Any, fresh: Any) -> Any:
    """Intern the control row written at `fresh`, the first free place; return its id."""
    return intern_hashed(t, fresh, np.int64(row_hash(t, fresh)))


@jit
def intern_hashed(t: Any, written: Any, hashed: Any) -> Any:
    """Intern the control row written at any free place, given its hash; return its id."""
    fresh = t.meta[codes.M_ROWS]
    if written + 2 >= t.rows.shape[0]:
        abort_to_grow(t, codes.GROW_ROWS)
    if (fresh + 2) * 2 > len(t.row_table):
        abort_to_grow(t, codes.GROW_HASHES)
    # Look for an equal control row.
    mask = np.int64(len(t.row_table) - 1)
    i = np.int64(hashed) & mask
    columns = t.rows.shape[1]
    while t.row_table[i] != -1:
        other = t.row_table[i]
        same = True
        for c in range(columns):
            if t.rows[other, c] != t.rows[written, c]:
                same = False
                break
        if same:
            return np.int64(other)
        i = (i + 1) & mask
    # A new control row moves to the first free place, and starts without verdict, steps and images.
    if written != fresh:
        for c in range(columns):
            t.rows[fresh, c] = t.rows[written, c]
    t.row_table[i] = fresh
    t.row_info[fresh, codes.R_FLAGS] = 0
    t.row_info[fresh, codes.R_BAD] = 0
    t.row_info[fresh, codes.R_START] = -1
    t.row_info[fresh, codes.R_IDENTITY] = fresh
    t.permuted_rows[fresh, 0] = -1
    t.meta[codes.M_ROWS] = fresh + 1
    return np.int64(fresh)


@jit
def preload_rows(t: Any, first: Any, count: Any) -> None:
    """Hash consecutive control rows, and load the entries to compare them with, so that the loads overlap."""
    mask = np.int64(len(t.row_table) - 1)
    touched = np.int64(0)
    for row in range(first, first + count):
        hashed = np.int64(row_hash(t, row))
        t.row_info[row, codes.R_BAD] = hashed
        touched += t.row_table[hashed & mask]
    for row in range(first, first + count):
        other = t.row_table[t.row_info[row, codes.R_BAD] & mask]
        if other >= 0:
            touched += t.rows[other, 0]
    t.meta[codes.M_TOUCHED] = touched


@jit
def set_identity(t: Any, row: Any) -> None:
    """Set the control row that represents this one in canonical keys: the same row without hidden columns."""
    hides = False
    fresh = t.meta[codes.M_ROWS]
    if fresh + 2 >= t.rows.shape[0]:
        abort_to_grow(t, codes.GROW_ROWS)
    for c in range(t.rows.shape[1]):
        hides |= t.hidden[c] != 0
        t.rows[fresh, c] = 0 if t.hidden[c] != 0 else t.rows[row, c]
    if hides:
        t.row_info[row, codes.R_IDENTITY] = intern_row(t, fresh)


@jit
def rehash_rows(t: Any) -> None:
    """Insert every control row into an emptied hash table."""
    mask = np.int64(len(t.row_table) - 1)
    for row in range(t.meta[codes.M_ROWS]):
        i = np.int64(row_hash(t, row)) & mask
        while t.row_table[i] != -1:
            i = (i + 1) & mask
        t.row_table[i] = row


@jit
def intern_row_images(t: Any, row: Any) -> None:
    """Intern a control row's images under every permutation, and cache their ids."""
    if t.permuted_rows[row, 0] >= 0:
        return
    base, slots = t.meta[codes.M_SLOT_BASE], t.meta[codes.M_SLOTS]
    bounds = t.meta[codes.M_BOUNDS]
    for g in range(t.meta[codes.M_PERMUTATIONS] - 1, -1, -1):
        fresh = t.meta[codes.M_ROWS]
        if fresh + 2 >= t.rows.shape[0]:
            abort_to_grow(t, codes.GROW_ROWS)
        for c in range(t.rows.shape[1]):
            t.rows[fresh, c] = 0
        for c in range(bounds):
            t.rows[fresh, c] = t.rows[row, c]
        for c in range(bounds, base):
            t.rows[fresh, c] = t.permuted_shared[g * (base - bounds) + c - bounds, t.rows[row, c]]
            if t.hidden[c]:
                t.rows[fresh, c] = 0
        for s in range(slots):
            local = t.rows[row, base + s]
            if local != 0:
                t.rows[fresh, base + t.permuted_slots[g, s]] = t.permuted_locals[local, g]
        t.permuted_rows[row, g] = intern_row(t, fresh)


@jit
def evaluate_row(t: Any, row: Any) -> None:
    """Evaluate the properties of a control row, or file requests to Python."""
    base, slots = t.meta[codes.M_SLOT_BASE], t.meta[codes.M_SLOTS]
    bad = np.int64(0)
    flags = codes.JUDGED
    missing = False
    # A property is about the state (kind 0), each replica (1) or each pair (2). `me` and `peer` are local states, or 0.
    for p in range(t.meta[codes.M_PROPERTIES]):
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
                leaf = walk_to(t, root, row, me, peer)
                if leaf < 0 or t.nodes[leaf, codes.KIND] != codes.LEAF:
                    missing = True
                    ask(t, codes.ASK_PATH, root, row, me, peer, NONE)
                elif t.nodes[leaf, codes.A] == 0:
                    if t.properties[p, 2]:
                        flags |= codes.PRUNED
                    else:
                        flags |= codes.BAD
                        bad |= np.int64(1) << np.int64(p)
    # Store the verdict only if every property has one.
    if not missing:
        set_identity(t, row)
        t.row_info[row, codes.R_BAD] = bad
        t.row_info[row, codes.R_FLAGS] = flags


@jit
def evaluate_step(t: Any, row: Any, target: Any) -> Any:
    """Evaluate the step properties for each replica that the step changes; return the step's flags, or MISSING."""
    flags = np.int64(0)
    base = t.meta[codes.M_SLOT_BASE]
    missing = False
    for p in range(t.meta[codes.M_STEP_PROPERTIES]):
        for s in range(t.meta[codes.M_SLOTS]):
            before, after = np.int64(t.rows[row, base + s]), np.int64(t.rows[target, base + s])
            if before == after or before == 0 or after == 0:
                continue
            root = np.int64(t.step_properties[p, 0])
            leaf = walk_to(t, root, row, before, after)
            if leaf < 0 or t.nodes[leaf, codes.KIND] != codes.LEAF:
                missing = True
                ask(t, codes.ASK_PATH, root, row, before, after, NONE)
            elif t.nodes[leaf, codes.A] == 0:
                flags |= codes.STEP_PRUNED if t.step_properties[p, 1] else codes.violating(p)
    return np.int64(MISSING) if missing else flags
