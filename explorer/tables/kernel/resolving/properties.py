"""Evaluation of local properties, once for each control row and for each step between two."""

from __future__ import annotations

from typing import Any

import numpy as np

from kraftcheck.explorer.tables.kernel import codes
from kraftcheck.explorer.tables.kernel.codes import MISSING, NONE
from kraftcheck.explorer.tables.kernel.native import jit
from kraftcheck.explorer.tables.kernel.resolving.asking import ask
from kraftcheck.explorer.tables.kernel.resolving.control_rows import set_identity
from kraftcheck.explorer.tables.kernel.tries import walk_to


@jit
def judge(t: Any, row: Any) -> None:
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
def judge_step(t: Any, row: Any, target: Any) -> Any:
    """Evaluate the step properties for every slot that differs; return the step's flags, or MISSING."""
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
