"""The arrays that the learner fills and the kernel reads, with their kinds, and growth.

Numbers are ids: of local states, messages, inbox contents, shared values, and of *control rows*. A control row holds
the bounds spent, the shared fields and the local state of every slot (replica); a state is a control row's id with the
id of each slot's inbox content. Id 0 of a local state is "no replica here", id 0 of an inbox content is "empty".
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int32]
Longs = NDArray[np.int64]

# Kinds of trie node: what decides the way on.
UNKNOWN, LEAF, SHARED, VIEW, INBOX_VIEW = 0, 1, 2, 3, 4
ME, PEER = -1, -2  # roles, where a VIEW node names no absolute slot

# Columns of `nodes`, `outcomes`, `contents`, `row_info`.
KIND, A, B, N = 0, 1, 2, 3
ACTION, DELTA, CONSUMES, FIRST, COUNT = 0, 1, 2, 3, 4
C_SLOT, C_NUMBER, C_START, C_N, C_BAD = 0, 1, 2, 3, 4
R_FLAGS, R_BAD, R_IDENTITY, R_START, R_N = 0, 1, 2, 3, 4

# Flags of a control row.
JUDGED, BAD, PRUNED = 1, 2, 4
STEP_BAD, STEP_PRUNED = 1, 2

# Kinds of miss: what Python is asked for.
MISS_ROOTS, MISS_PATH, MISS_OPERATION = 1, 2, 3

# Kinds of need: what the hot path did not find.
NEED_STEPS, NEED_BUNDLE, NEED_CHANGED, NEED_OPERATED, NEED_JUDGED, NEED_PATH, NEED_IMAGES, NEED_IMAGES_OF = range(1, 9)

# What must grow before the kernel can go on.
GROW_ITEMS, GROW_ROWS, GROW_CONTENTS, GROW_BUNDLES, GROW_MAP, GROW_MISSES, GROW_SUCCESSORS = 1, 2, 4, 8, 16, 32, 64

# What a function returns in the place of an id, and how values of maps are put together.
REFUSED, MISSING, FULL = np.int64(-1), np.int64(-3), np.int64(-4)
FLAG_SHIFT = 40
ROW_MASK = (1 << 40) - 1
BUNDLE_BITS = 24  # of a bundle's value for the number of its items; what is above them is where they start
BUNDLE_MASK = (1 << BUNDLE_BITS) - 1

# Places in a worker's `stats`.
S_GENERATED, S_RETRY, S_EVENTS, S_DONE, S_CODE, S_SEEN, S_STEP_SEEN, S_DEADLOCK, S_NEEDS, S_SLOT = range(10)
STATS_SIZE = 16
OK, NO_ROOM, MANY_SUCCESSORS = 0, 1, 2

# Limits of the encoding: ids that are packed into the keys of maps, and bits of masks.
KEY_LIMIT, MOST_PROPERTIES, MOST_STEP_PROPERTIES = 1 << 24, 30, 18

# Places in `meta`.
(
    M_ROWS,
    M_ROW_ITEMS,
    M_BUNDLES,
    M_BUNDLE_ITEMS,
    M_CONTENTS,
    M_CONTENT_ITEMS,
    M_MISSES,
    M_GROW,
    M_BRANCHES,
    M_ROOTS,
    M_OPERATIONS,
    M_DELTAS,
    M_SLOTS,
    M_SLOT_BASE,
    M_PROPERTIES,
    M_STEP_PROPERTIES,
    M_NETWORK_STEPS,
    M_PERMUTATIONS,
    M_BOUNDS,
) = range(19)
META_SIZE = 32


class Tables(NamedTuple):
    """Everything that the kernel reads. A map is an array of pairs (key, value); a key of -1 is free."""

    meta: Longs
    nodes: Ints  # kind, two arguments, outcomes: of tries
    branches: Longs  # (node, answer) -> node
    roots: Longs  # (local id, message id + 1) -> list of nodes
    lists: Ints  # start, length
    list_nodes: Ints
    outcomes: Ints  # action, delta, whether the message is consumed, start and number of operations
    outcome_operations: Ints
    deltas: Ints  # start and number of assignments, start and number of spendings
    assignments: Ints  # column of a control row, value
    spendings: Ints  # column, amount
    limits: Ints  # of each bound
    operations: Ints  # slot, message, count where absent, change, least count, whether 0 is forgotten
    messages: Ints  # operation that discards it, invariants that it violates, group with which it is forgotten
    operated: Longs  # (inbox, operation) -> inbox or -1
    contents: Ints  # slot, number within the slot, start and number of items, invariants violated
    content_items: Ints  # message, count
    content_table: Ints
    slot_contents: Ints  # contents of each slot
    views: Ints
    inbox_views: Ints
    rows: Ints  # control rows
    row_table: Ints
    row_info: Longs  # flags, invariants violated, identity, start and number of steps
    row_items: Ints  # outcome or root, target or -1, step flags or slot
    hidden: Ints  # columns that a VIEW leaves out
    changed: Longs  # (control row, delta) -> control row with flags
    bundles: Longs  # (local, inbox) -> start and number of the bundle's items
    bundle_items: Ints  # outcome or node, whether a node, inbox without the message
    properties: Ints  # root, kind, whether a constraint
    step_properties: Ints  # root, whether a constraint
    network_steps: Ints  # outcome, delta
    network_operations: Ints  # of each step, by message
    permuted_rows: Ints  # control row, by permutation; -1 where not known yet
    permuted_contents: Ints  # inbox content, by permutation
    permuted_slots: Ints  # permutation, slot
    permuted_locals: Ints  # permutation, local
    permuted_messages: Ints  # permutation, message
    permuted_shared: Ints  # permutation and shared column, value
    misses: Longs


VARIABLE = -1  # columns: as many as there are slots, views or permutations

COLUMNS = {
    "meta": 0,
    "nodes": 4,
    "branches": 2,
    "roots": 2,
    "lists": 2,
    "list_nodes": 0,
    "outcomes": 5,
    "outcome_operations": 0,
    "deltas": 4,
    "assignments": 2,
    "spendings": 2,
    "limits": 0,
    "operations": 6,
    "messages": 3,
    "operated": 2,
    "contents": 5,
    "content_items": 2,
    "content_table": 0,
    "slot_contents": 0,
    "views": VARIABLE,
    "inbox_views": VARIABLE,
    "rows": VARIABLE,
    "row_table": 0,
    "row_info": 5,
    "row_items": 3,
    "hidden": 0,
    "changed": 2,
    "bundles": 2,
    "bundle_items": 3,
    "properties": 3,
    "step_properties": 2,
    "network_steps": 2,
    "network_operations": VARIABLE,
    "permuted_rows": VARIABLE,
    "permuted_contents": VARIABLE,
    "permuted_slots": VARIABLE,
    "permuted_locals": VARIABLE,
    "permuted_messages": VARIABLE,
    "permuted_shared": VARIABLE,
    "misses": 6,
}
"""Columns of each table; 0 where it has one dimension only."""


def new_map(capacity: int) -> Longs:
    """Return an empty map of integers; the capacity is a power of two."""
    return np.full((capacity, 2), -1, np.int64)


def grown(array: NDArray[Any], size: int, fill: int = 0) -> NDArray[Any]:
    """Return the array, or a copy of at least `size` rows with at least twice the room."""
    if len(array) >= size:
        return array
    shape = (max(size, 2 * len(array)), *array.shape[1:])
    larger = np.full(shape, fill, array.dtype) if fill else np.zeros(shape, array.dtype)  # zeros take no time
    larger[: len(array)] = array
    return larger
