"""Tries of questions: to a control row, to local states, to inboxes. Their answers lead to what was learned."""

from __future__ import annotations

from typing import Any

import numpy as np

from kraftcheck.explorer.tables.kernel import layout
from kraftcheck.explorer.tables.kernel.layout import MISSING
from kraftcheck.explorer.tables.kernel.maps import find
from kraftcheck.explorer.tables.kernel.native import inlined, jit


@inlined
def walk(t: Any, node: Any, row: Any, me: Any, peer: Any, states: Any, at: Any) -> Any:
    """Follow a trie to a leaf or an unknown node; a branch not laid yet, or an inbox not asked for, is MISSING.

    Without a state (`at` is -1) it stops at a question about inboxes and returns that node.
    """
    while True:
        kind = t.nodes[node, layout.KIND]
        if kind in (layout.LEAF, layout.UNKNOWN) or (kind == layout.INBOX_VIEW and at < 0):
            return node
        if kind == layout.SHARED:
            answer = np.int64(t.rows[row, t.nodes[node, layout.A]])
        elif kind == layout.VIEW:
            role = t.nodes[node, layout.B]
            local = me
            if role == layout.PEER:
                local = peer
            elif role != layout.ME:
                local = np.int64(t.rows[row, t.meta[layout.M_SLOT_BASE] + role])
            answer = np.int64(t.views[t.nodes[node, layout.A], local])
        else:
            answer = np.int64(t.inbox_views[t.nodes[node, layout.A], states[at, 1 + t.nodes[node, layout.B]]])
            if answer < 0:
                return MISSING
        node = find(t.branches, (node << 32) | answer)
        if node < 0:
            return MISSING


@jit
def walk_to(t: Any, node: Any, row: Any, me: Any, peer: Any) -> Any:
    """Follow a trie as far as a control row decides it."""
    return walk(t, node, row, me, peer, t.rows, np.int64(-1))
