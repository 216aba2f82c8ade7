"""Decision trees over queries: to a control row, local states and inboxes; a leaf holds a memoized result."""

from __future__ import annotations

from typing import Any

import numpy as np

from kraftcheck.explorer.native.compiling import inlined, unowned_array
from kraftcheck.explorer.tables.kernel import codes, jit, maps

ALL_SLOTS, ROW_INBOXES = np.int64(1 << 30), np.int64(1)  # arguments of `walk_tree` for states with control rows
LEAST_JUMPS, MOST_JUMPS = 4, 64  # length of a node's jump array


@inlined
def find_child_for_answer(t: Any, node: Any, answer: Any) -> Any:
    """Return a node's child for an answer, or MISSING."""
    if answer < t.nodes[node, codes.NODE_JUMP_COUNT]:
        return np.int64(t.jumps[t.nodes[node, codes.NODE_JUMPS] + answer])
    return maps.find_value(t.branches, codes.pair_key(node, answer))


@inlined
def walk_tree(
    t: Any, rows: Any, row: Any, slots: Any, node: Any, me: Any, peer: Any, states: Any, at: Any, inboxes: Any
) -> Any:
    """Walk a decision tree to a leaf or an UNKNOWN node.

    Returns MISSING for an absent branch or an unevaluated inbox query. A row begins with a control row's columns for
    `slots` replicas. `inboxes` is the first inbox column of a state. Without a state (`at` is NONE) the walk ends at
    the first node that queries an inbox, and returns it.
    """
    while True:
        kind = t.nodes[node, codes.NODE_KIND]
        if kind <= codes.LEAF or (kind == codes.INBOX_QUERY and at < 0):
            return node
        # Find the answer to the node's query: a column of the row, or a table of answers to queries on its values.
        if kind == codes.SHARED:
            answer = np.int64(rows[row, t.nodes[node, codes.NODE_A]])
        elif kind == codes.LOCAL_QUERY:
            role = t.nodes[node, codes.NODE_B]
            local = me
            if role == codes.PEER:
                local = peer
            elif role != codes.ME:
                known = role < slots  # the tree may test a replica that is newer than the row
                local = np.int64(rows[row, t.meta[codes.META_SLOT_BASE] + role]) if known else np.int64(0)
            answer = np.int64(t.local_answers[t.nodes[node, codes.NODE_A], local])
        elif kind == codes.SHARED_QUERY:
            answer = np.int64(t.shared_answers[t.nodes[node, codes.NODE_A], rows[row, t.nodes[node, codes.NODE_B]]])
        elif kind == codes.ELEMENT:
            answer = np.int64(rows[row, t.nodes[node, codes.NODE_A]] >> t.nodes[node, codes.NODE_B] & 1)
        else:
            column = inboxes + t.nodes[node, codes.NODE_B]
            inbox = states[at, column] if column < states.shape[1] else 0  # or test one that is newer than the state
            answer = np.int64(t.inbox_answers[t.nodes[node, codes.NODE_A], inbox])
            if answer < 0:
                return codes.MISSING
        node = find_child_for_answer(t, node, answer)
        if node < 0:
            return codes.MISSING


@jit
def find_child_from_python(t: Any, node: Any, answer: Any) -> Any:
    """Return a node's child for an answer, or MISSING; an entry point for Python."""
    return find_child_for_answer(t, node, answer)


@jit
def insert_path(t: Any, node: Any, path: Any, nodes: Any, jumps: Any) -> Any:
    """Insert a path of (query, answer) pairs below a node, in tables that have enough room.

    Returns the last node, or MISSING where the tree tests another query there, with the numbers of nodes and jumps.
    """
    for k in range(len(path)):
        if t.nodes[node, codes.NODE_KIND] == codes.UNKNOWN:
            for column in range(3):
                t.nodes[node, column] = path[k, column]
            t.nodes[node, codes.NODE_JUMP_COUNT] = 0
        for column in range(3):
            if t.nodes[node, column] != path[k, column]:
                return codes.MISSING, nodes, jumps
        answer = path[k, 3]
        found = find_child_for_answer(t, node, answer)
        if found < 0:
            found = np.int64(nodes)
            t.nodes[found] = 0
            nodes += 1
            t.meta[codes.META_BRANCHES] += maps.store_value(t.branches, codes.pair_key(node, answer), found)
            jumps = _store_in_jump_table(t, node, answer, found, jumps)
        node = found
    return node, nodes, jumps


@inlined
def _store_in_jump_table(t: Any, node: Any, answer: Any, found: Any, jumps: Any) -> Any:
    """Store the child for a small answer in the node's jump array; return the number of jumps."""
    size, start = t.nodes[node, codes.NODE_JUMP_COUNT], t.nodes[node, codes.NODE_JUMPS]
    if size <= answer < MOST_JUMPS:
        more = LEAST_JUMPS
        while more <= answer:
            more *= 2
        for one in range(more):
            t.jumps[jumps + one] = t.jumps[start + one] if one < size else codes.MISSING
        t.nodes[node, codes.NODE_JUMPS], t.nodes[node, codes.NODE_JUMP_COUNT] = jumps, more
        start, size = t.nodes[node, codes.NODE_JUMPS], t.nodes[node, codes.NODE_JUMP_COUNT]
        jumps += more
    if answer < size:
        t.jumps[start + answer] = found
    return jumps


@jit
def walk_while_row_answers(t: Any, node: Any, row: Any, me: Any, peer: Any) -> Any:
    """Walk a decision tree until a leaf, or until a query that a control row does not answer."""
    return walk_tree(t, t.rows, row, ALL_SLOTS, node, me, peer, t.rows, codes.NONE, ROW_INBOXES)


@jit
def first_unanswered_python_request(t: Any, first: Any, last: Any, states: Any, inboxes: Any) -> Any:
    """Return the index of the first request to Python without a result in its decision tree, or `last`."""
    states = unowned_array(states)
    for i in range(first, last):
        if t.asked[i, 0] != codes.ASK_PATH:
            return i
        at = np.int64(t.asked[i, 5])
        node, row, me, peer = t.asked[i, 1], t.asked[i, 2], t.asked[i, 3], t.asked[i, 4]
        leaf = walk_tree(t, t.rows, row, ALL_SLOTS, node, me, peer, states, at, inboxes)
        if leaf < 0 or t.nodes[leaf, codes.NODE_KIND] != codes.LEAF:
            return i
    return last
