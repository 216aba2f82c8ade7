"""Tries of questions: to a control row, to local states, to inboxes. Their answers lead to what was learned."""

from __future__ import annotations

from typing import Any

import numpy as np

from kraftcheck.explorer.tables.kernel import codes
from kraftcheck.explorer.tables.kernel.codes import MISSING, NONE, pair
from kraftcheck.explorer.tables.kernel.maps import find, store
from kraftcheck.explorer.tables.kernel.native import bare, inlined, jit

ALL_SLOTS, ROW_INBOXES = np.int64(1 << 30), np.int64(1)  # of states with control rows: see `walk`
LEAST_JUMPS, MOST_JUMPS = 4, 64  # answers of a node for which there is a place in a table


@inlined
def child(t: Any, node: Any, answer: Any) -> Any:
    """Return the node to which an answer leads, or MISSING."""
    if answer < t.nodes[node, codes.SIZE]:
        return np.int64(t.jumps[t.nodes[node, codes.JUMPS] + answer])
    return find(t.branches, pair(node, answer))


@inlined
def walk(
    t: Any, rows: Any, row: Any, slots: Any, node: Any, me: Any, peer: Any, states: Any, at: Any, inboxes: Any
) -> Any:
    """Follow a trie to a leaf or an unknown node; a branch not laid yet, or an inbox not asked for, is MISSING.

    A row has what a control row holds in its first columns, for so many slots. Without a state (`at` is NONE) it stops
    at a question about inboxes, and returns that node; `inboxes` is the first of their columns in a state.
    """
    while True:
        kind = t.nodes[node, codes.KIND]
        if kind <= codes.LEAF or (kind == codes.INBOX_QUESTION and at < 0):
            return node
        if kind == codes.SHARED:
            answer = np.int64(rows[row, t.nodes[node, codes.A]])
        elif kind == codes.LOCAL_QUESTION:
            role = t.nodes[node, codes.B]
            local = me
            if role == codes.PEER:
                local = peer
            elif role != codes.ME:
                known = role < slots  # a replica may have come since
                local = np.int64(rows[row, t.meta[codes.M_SLOT_BASE] + role]) if known else np.int64(0)
            answer = np.int64(t.local_answers[t.nodes[node, codes.A], local])
        elif kind == codes.SHARED_QUESTION:
            answer = np.int64(t.shared_answers[t.nodes[node, codes.A], rows[row, t.nodes[node, codes.B]]])
        else:
            column = inboxes + t.nodes[node, codes.B]
            inbox = states[at, column] if column < states.shape[1] else 0  # a replica may have come since
            answer = np.int64(t.inbox_answers[t.nodes[node, codes.A], inbox])
            if answer < 0:
                return MISSING
        node = child(t, node, answer)
        if node < 0:
            return MISSING


@jit
def child_of(t: Any, node: Any, answer: Any) -> Any:
    """Do the same as `child`, for Python."""
    return child(t, node, answer)


@jit
def lay(t: Any, node: Any, path: Any, nodes: Any, jumps: Any) -> Any:
    """Lay a path of questions, each with its answer, from a node on; there is room for what is new."""
    for k in range(len(path)):
        if t.nodes[node, codes.KIND] == codes.UNKNOWN:
            for column in range(3):
                t.nodes[node, column] = path[k, column]
            t.nodes[node, codes.SIZE] = 0
        for column in range(3):
            if t.nodes[node, column] != path[k, column]:
                return MISSING, nodes, jumps
        answer = path[k, 3]
        found = child(t, node, answer)
        if found < 0:
            found = np.int64(nodes)
            t.nodes[found] = 0
            nodes += 1
            t.meta[codes.M_BRANCHES] += store(t.branches, pair(node, answer), found)
            jumps = _note_jump(t, node, answer, found, jumps)
        node = found
    return node, nodes, jumps


@inlined
def _note_jump(t: Any, node: Any, answer: Any, found: Any, jumps: Any) -> Any:
    """Note where a small answer leads, which is found there without a map; return how many jumps there are."""
    size, start = t.nodes[node, codes.SIZE], t.nodes[node, codes.JUMPS]
    if size <= answer < MOST_JUMPS:
        more = LEAST_JUMPS
        while more <= answer:
            more *= 2
        for one in range(more):
            t.jumps[jumps + one] = t.jumps[start + one] if one < size else MISSING
        t.nodes[node, codes.JUMPS], t.nodes[node, codes.SIZE] = jumps, more
        start, size = t.nodes[node, codes.JUMPS], t.nodes[node, codes.SIZE]
        jumps += more
    if answer < size:
        t.jumps[start + answer] = found
    return jumps


@jit
def walk_to(t: Any, node: Any, row: Any, me: Any, peer: Any) -> Any:
    """Follow a trie as far as a control row decides it."""
    return walk(t, t.rows, row, ALL_SLOTS, node, me, peer, t.rows, NONE, ROW_INBOXES)


@jit
def next_unanswered(t: Any, first: Any, last: Any, states: Any, inboxes: Any) -> Any:
    """Return the first of these questions to Python that no answer to another one has answered; or their end.

    `inboxes` is the first inbox column of the states.
    """
    states = bare(states)
    for i in range(first, last):
        if t.asked[i, 0] != codes.ASK_PATH:
            return i
        at = np.int64(t.asked[i, 5])
        node, row, me, peer = t.asked[i, 1], t.asked[i, 2], t.asked[i, 3], t.asked[i, 4]
        leaf = walk(t, t.rows, row, ALL_SLOTS, node, me, peer, states, at, inboxes)
        if leaf < 0 or t.nodes[leaf, codes.KIND] != codes.LEAF:
            return i
    return last
