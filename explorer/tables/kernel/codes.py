"""Column numbers, node kinds, flags, sentinels and limits shared by the kernel and Python.

`arrays.py` declares the tables and a worker's buffers. A column that holds two kinds of number stores
the second kind as the complement `~n`, which is below 0.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kraftcheck.explorer.native.compiling import inlined

# Kinds of decision-tree node. UNKNOWN and LEAF end a walk; each other kind tests a column or the answer to a query.
UNKNOWN, LEAF, SHARED, LOCAL_QUERY, INBOX_QUERY, SHARED_QUERY = 0, 1, 2, 3, 4, 5
ME, PEER = -1, -2  # roles, in place of a slot in a LOCAL_QUERY node

# Columns of `nodes`, `outcomes`, `contents`, `row_info`.
KIND, A, B, N, JUMPS, SIZE = 0, 1, 2, 3, 4, 5
ACTION, DELTA, CONSUMES, FIRST, COUNT, BROKEN = 0, 1, 2, 3, 4, 5
C_SLOT, C_START, C_N, C_BAD = 0, 1, 2, 3
CODE_BAD, CODE_IMAGED, CODE_MASK = -(1 << 31), 1 << 30, (1 << 30) - 1
R_FLAGS, R_BAD, R_IDENTITY, R_START, R_N = 0, 1, 2, 3, 4

# Flags of a control row.
JUDGED, BAD, PRUNED = 1, 2, 4

# Kinds of cache miss: the table entry that `expand` did not find.
(
    MISS_STEPS,
    MISS_BUNDLE,
    MISS_CHANGED,
    MISS_OPERATED,
    MISS_JUDGED,
    MISS_PATH,
    MISS_ROW_IMAGES,
    MISS_CONTENT_IMAGES,
) = range(1, 9)

# Kinds of request to Python.
ASK_ROOTS, ASK_PATH, ASK_OPERATION, ASK_CHANGE = 1, 2, 3, 4

# Tables that must grow before the kernel can go on, as a bit mask.
GROW_ITEMS, GROW_ROWS, GROW_CONTENTS, GROW_BUNDLE_ITEMS, GROW_MAP, GROW_ASKED = 1, 2, 4, 8, 16, 32
GROW_HASHES, GROW_CLUSTERS, GROW_CLUSTER_ITEMS = 128, 256, 512

# Sentinels in place of an id. Functions return the first four.
REFUSED = np.int64(-1)  # a bound, or an inbox, forbids the step
EXHAUSTED = np.int64(-2)  # in place of a step's next control row: the step needs more of a bound than is left
MISSING = np.int64(-3)  # a cache miss: the tables have no entry yet
FULL = np.int64(-4)  # the buffer has no room for the successor
NONE = np.int64(-1)  # no inbox, no slot, or no state
WITH_PYTHON = np.int64(-2)  # in a map: a request to Python is pending

# A value of the map `changed`: the next control row's id, and the step's flags in the bits above it.
FLAG_SHIFT = 40
ROW_MASK = (1 << FLAG_SHIFT) - 1
STEP_FLAGS = (1 << 20) - 1  # mask of the flags that the step itself has
UNSETTLED = 1 << 22  # the next control row is not evaluated yet, or violates a property, or is pruned
SELF_LOOP = -(1 << 31)  # in place of a flat step's flags: a self-loop, whose successor is not written
# Flags of a step: it violates a property; it is pruned; from the third bit on, the mask of violated properties.
STEP_BAD, STEP_PRUNED, STEP_VIOLATES = 1, 2, 2
SPAN_BITS = 24  # of a span's length; the start is in the bits above


@inlined
def larger(first: Any, second: Any) -> Any:
    """Return the larger of two numbers; Numba would compile `max` again for each use."""
    return first if first > second else second


@inlined
def smaller(first: Any, second: Any) -> Any:
    """Return the smaller of two numbers."""
    return first if first < second else second


@inlined
def with_flags(row: Any, flags: Any) -> Any:
    """Return a control row's id with step flags in the bits above it."""
    return row | flags << FLAG_SHIFT


@inlined
def row_of(goal: Any) -> Any:
    """Return the id of the control row in `goal`, which has step flags in the bits above the id."""
    return goal & ROW_MASK


@inlined
def flags_of(goal: Any) -> Any:
    """Return the step flags in `goal`, which are in the bits above a control row's id."""
    return goal >> FLAG_SHIFT


@inlined
def flags_of_violation(prop: Any) -> Any:
    """Return the flags of a step that violates the property of this number."""
    return STEP_BAD | np.int64(1) << np.int64(prop + STEP_VIOLATES)


@inlined
def violated_by_step(flags: Any) -> Any:
    """Return the mask of the properties that a step violates, given its flags."""
    return flags >> STEP_VIOLATES if flags & STEP_BAD else np.int64(0)


@inlined
def pack_span(start: Any, length: Any) -> Any:
    """Pack a start index and a length into one number."""
    return np.int64(start) << SPAN_BITS | np.int64(length)


@inlined
def bounds_of_span(packed: Any) -> Any:
    """Return the first index of a packed span and the index after its last."""
    first = packed >> SPAN_BITS
    return first, first + (packed & ((1 << SPAN_BITS) - 1))


@inlined
def pair_key(first: Any, second: Any) -> Any:
    """Pack two ids into one map key."""
    return np.int64(first) << 32 | np.int64(second)


# Places in a worker's `stats`.
(
    S_GENERATED,
    S_RETRY,
    S_EVENTS,
    S_DONE,
    S_CODE,
    S_SEEN,
    S_STEP_SEEN,
    S_DEADLOCK,
    S_MISSES,
    S_MISSED,
    S_BLOCKED,
    S_COLLECTED,
    S_NOTABLE,
) = range(13)
STATS_SIZE = 16
OK, NO_ROOM, MANY_SUCCESSORS, MANY_CLUSTERS = 0, 1, 2, 3  # values of S_CODE

# Kinds of event: a deadlock; a successor that violates invariants; a step that violates step properties.
EVENT_DEADLOCK, EVENT_BAD_STATE, EVENT_BAD_STEP = 0, 1, 2

# Limits of the encoding: ids that are packed into the keys of maps, and bits of masks.
CLUSTER_HEAD = 2  # numbers before a cluster's column values in `cluster_items`: its field and its id
KEY_LIMIT, MOST_PROPERTIES, MOST_STEP_PROPERTIES, MOST_ACT_PROPERTIES = 1 << 24, 30, 18, 28

# Places in `meta`.
(
    M_ROWS,
    M_ROW_ITEMS,
    M_BUNDLES,
    M_BUNDLE_ITEMS,
    M_CONTENTS,
    M_CONTENT_ITEMS,
    M_ASKED,
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
    M_RESOLVED,
    M_WATCH_BOUNDS,
    M_LOCAL_CHANGES,
    M_SETTLED,
    M_LEFT,
    M_WAITING,
    M_CONSTRAINTS,
    M_CLUSTERS,
    M_CLUSTER_ITEMS,
    M_CLUSTER_ROOM,
    M_COLLECTS,
) = range(30)
META_SIZE = 32


def code_of(number: Any, violated: Any) -> Any:
    """Return the packed codes of inbox contents: the number within the slot, and a sign bit for violated invariants."""
    return np.where(np.equal(violated, 0), number, np.bitwise_or(number, CODE_BAD))


@inlined
def slots_of(t: Any, columns: Any) -> Any:
    """Return the number of slots of a flat state; each slot has two columns, a local state and an inbox."""
    return (columns - t.meta[M_SLOT_BASE]) >> 1


@inlined
def inboxes_of(t: Any, columns: Any) -> Any:
    """Return the first inbox column of a flat state, given its number of columns."""
    return (columns + t.meta[M_SLOT_BASE]) >> 1
