"""Tries of questions: to a control row, to local states, to inboxes. Their answers lead to what was learned."""

from __future__ import annotations

from typing import Any

import numpy as np

from kraftcheck.explorer.tables.kernel import codes
from kraftcheck.explorer.tables.kernel.codes import MISSING
from kraftcheck.explorer.tables.kernel.maps import find
from kraftcheck.explorer.tables.kernel.native import bare, inlined, jit


@inlined
def walk(t: Any, node: Any, row: Any, me: Any, peer: Any, states: Any, at: Any) -> Any:
    """Follow a trie to a leaf or an unknown node; a branch not laid yet, or an inbox not asked for, is MISSING.

    Without a state (`at` is -1) it stops at a question about inboxes and returns that node.
    """
    while True:
        kind = t.nodes[node, codes.KIND]
        if kind in (codes.LEAF, codes.UNKNOWN) or (kind == codes.INBOX_QUESTION and at < 0):
            return node
        if kind == codes.SHARED:
            answer = np.int64(t.rows[row, t.nodes[node, codes.A]])
        elif kind == codes.LOCAL_QUESTION:
            role = t.nodes[node, codes.B]
            local = me
            if role == codes.PEER:
                local = peer
            elif role != codes.ME:
                local = np.int64(t.rows[row, t.meta[codes.M_SLOT_BASE] + role])
            answer = np.int64(t.local_answers[t.nodes[node, codes.A], local])
        elif kind == codes.SHARED_QUESTION:
            answer = np.int64(t.shared_answers[t.nodes[node, codes.A], t.rows[row, t.nodes[node, codes.B]]])
        else:
            column = 1 + t.nodes[node, codes.B]
            inbox = states[at, column] if column < states.shape[1] else 0  # a replica may have come since
            answer = np.int64(t.inbox_answers[t.nodes[node, codes.A], inbox])
            if answer < 0:
                return MISSING
        node = find(t.branches, (node << 32) | answer)
        if node < 0:
            return MISSING


@jit
def walk_to(t: Any, node: Any, row: Any, me: Any, peer: Any) -> Any:
    """Follow a trie as far as a control row decides it."""
    return walk(t, node, row, me, peer, t.rows, np.int64(-1))


@jit
def next_unanswered(t: Any, first: Any, last: Any, states: Any) -> Any:
    """Return the first of these questions to Python that no answer to another one has answered; or their end."""
    states = bare(states)
    for i in range(first, last):
        if t.asked[i, 0] != codes.ASK_PATH:
            return i
        at = np.int64(t.asked[i, 5])
        leaf = walk(t, t.asked[i, 1], t.asked[i, 2], t.asked[i, 3], t.asked[i, 4], states, at)
        if leaf < 0 or t.nodes[leaf, codes.KIND] != codes.LEAF:
            return i
    return last
