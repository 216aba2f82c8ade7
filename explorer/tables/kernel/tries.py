"""Tries of questions: to a control row, to local states, to inboxes. Their answers lead to what was learned."""

from __future__ import annotations

from typing import Any

import numpy as np

from kraftcheck.explorer.tables.kernel.layout import (
    INBOX_VIEW,
    KIND,
    LEAF,
    M_SLOT_BASE,
    ME,
    MISSING,
    PEER,
    SHARED,
    UNKNOWN,
    VIEW,
    A,
    B,
)
from kraftcheck.explorer.tables.kernel.maps import find
from kraftcheck.explorer.tables.kernel.native import inlined, jit


@inlined
def walk(t: Any, node: Any, row: Any, me: Any, peer: Any, states: Any, at: Any) -> Any:
    """Follow a trie to a leaf or an unknown node; a branch not laid yet, or an inbox not asked for, is MISSING.

    Without a state (`at` is -1) it stops at a question about inboxes and returns that node.
    """
    while True:
        kind = t.nodes[node, KIND]
        if kind in (LEAF, UNKNOWN) or (kind == INBOX_VIEW and at < 0):
            return node
        if kind == SHARED:
            answer = np.int64(t.rows[row, t.nodes[node, A]])
        elif kind == VIEW:
            role = t.nodes[node, B]
            local = me
            if role == PEER:
                local = peer
            elif role != ME:
                local = np.int64(t.rows[row, t.meta[M_SLOT_BASE] + role])
            answer = np.int64(t.views[t.nodes[node, A], local])
        else:
            answer = np.int64(t.inbox_views[t.nodes[node, A], states[at, 1 + t.nodes[node, B]]])
            if answer < 0:
                return MISSING
        node = find(t.branches, (node << 32) | answer)
        if node < 0:
            return MISSING


@jit
def walk_to(t: Any, node: Any, row: Any, me: Any, peer: Any) -> Any:
    """Follow a trie as far as a control row decides it."""
    return walk(t, node, row, me, peer, t.rows, np.int64(-1))
