"""Column numbers, node kinds, flags, sentinels and limits shared by the kernel and Python.

`arrays.py` declares the tables and a worker's buffers. A column that holds two kinds of number stores
the second kind as the complement `~n`, which is below 0.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kraftcheck.explorer.native.compiling import inlined

# Kinds of decision-tree node. UNKNOWN and LEAF end a walk; each other kind tests a column or the answer to a query.
UNKNOWN, LEAF, SHARED, LOCAL_QUERY, INBOX_QUERY, SHARED_QUERY, ELEMENT = 0, 1, 2, 3, 4, 5, 6
ME, PEER = -1, -2  # roles, in place of a slot in a LOCAL_QUERY node

# Columns of `nodes`, `outcomes`, `contents`, `row_info`.
NODE_KIND, NODE_A, NODE_B, NODE_OUTCOMES, NODE_JUMPS, NODE_JUMP_COUNT = 0, 1, 2, 3, 4, 5
OUTCOME_ACTION, OUTCOME_DELTA, OUTCOME_CONSUMES, OUTCOME_FIRST, OUTCOME_COUNT = 0, 1, 2, 3, 4
OUTCOME_STEP_FLAGS, OUTCOME_PIECE = 5, 6
CONTENT_SLOT, CONTENT_START, CONTENT_COUNT, CONTENT_VIOLATED = 0, 1, 2, 3
CODE_BAD, CODE_IMAGED, CODE_MASK = -(1 << 31), 1 << 30, (1 << 30) - 1
ROW_FLAGS, ROW_VIOLATED, ROW_IDENTITY, ROW_START, ROW_COUNT = 0, 1, 2, 3, 4

# Flags of a control row.
EVALUATED_ROW, VIOLATING_ROW, PRUNED_ROW = 1, 2, 4

# Kinds of cache miss: the table entry that `expand` did not find.
MISS_STEPS, MISS_BUNDLE, MISS_CHANGED, MISS_OPERATED, MISS_EVALUATION, MISS_PATH = 1, 2, 3, 4, 5, 6
MISS_ROW_IMAGES, MISS_CONTENT_IMAGES = 7, 8  # under a symmetry only

# Kinds of request to Python.
ASK_HANDLERS, ASK_PATH, ASK_OPERATION, ASK_CHANGE = 1, 2, 3, 4

# Tables that must grow before the kernel can go on, as a bit mask.
GROW_ITEMS, GROW_ROWS, GROW_CONTENTS, GROW_BUNDLE_ITEMS, GROW_MAP, GROW_ASKED = 1, 2, 4, 8, 16, 32
GROW_HASHES, GROW_CLUSTERS, GROW_CLUSTER_ITEMS = 128, 256, 512

# Sentinels in place of an id. Functions return the first four.
REFUSED = np.int64(-1)  # a bound, or an inbox, forbids the step
EXHAUSTED = np.int64(-2)  # in place of a step's next control row: the step needs more of a bound than is left
MISSING = np.int64(-3)  # a cache miss: the tables have no entry yet
BUFFER_FULL = np.int64(-4)  # the buffer has no room for the successor
NONE = np.int64(-1)  # no inbox, no slot, or no state
REQUEST_PENDING = np.int64(-2)  # in a map: a request to Python is pending

# A value of the map `changed`: the next control row's id, and the step's flags in the bits above it.
STEP_FLAGS_SHIFT = 40
ROW_ID_MASK = (1 << STEP_FLAGS_SHIFT) - 1
STEP_FLAGS_MASK = (1 << 20) - 1  # mask of the flags that the step itself has
MUST_CHECK_NEXT_ROW = 1 << 22  # the next control row is not evaluated yet, or violates a property, or is pruned
SELF_LOOP_FLAGS = -(1 << 31)  # in place of a flat step's flags: a self-loop, whose successor is not written
# Flags of a step: it violates a property; it is pruned; from the third bit on, the mask of violated properties.
STEP_BAD, STEP_PRUNED, STEP_VIOLATES_SHIFT = 1, 2, 2
SPAN_LENGTH_BITS = 24  # of a span's length; the start is in the bits above


@inlined
def larger(first: Any, second: Any) -> Any:
    """Return the larger of two numbers; Numba would compile `max` again for each use."""
    return first if first > second else second


@inlined
def smaller(first: Any, second: Any) -> Any:
    """Return the smaller of two numbers."""
    return first if first < second else second


@inlined
def pack_row_and_flags(row: Any, flags: Any) -> Any:
    """Return a control row's id with step flags in the bits above it."""
    return row | flags << STEP_FLAGS_SHIFT


@inlined
def step_flags_for_violation(prop: Any) -> Any:
    """Return the flags of a step that violates the property of this number."""
    return STEP_BAD | np.int64(1) << np.int64(prop + STEP_VIOLATES_SHIFT)


@inlined
def step_violation_mask(flags: Any) -> Any:
    """Return the mask of the properties that a step violates, given its flags."""
    return flags >> STEP_VIOLATES_SHIFT if flags & STEP_BAD else np.int64(0)


@inlined
def pack_start_and_length(start: Any, length: Any) -> Any:
    """Pack a start index and a length into one number."""
    return np.int64(start) << SPAN_LENGTH_BITS | np.int64(length)


@inlined
def span_start_and_end(packed: Any) -> Any:
    """Return the first index of a packed span and the index after its last."""
    first = packed >> SPAN_LENGTH_BITS
    return first, first + (packed & ((1 << SPAN_LENGTH_BITS) - 1))


@inlined
def pair_key(first: Any, second: Any) -> Any:
    """Pack two ids into one map key."""
    return np.int64(first) << 32 | np.int64(second)


# Places in a worker's `stats`.
STATS_GENERATED, STATS_RETRY, STATS_EVENTS, STATS_DONE, STATS_CODE = 0, 1, 2, 3, 4
STATS_SEEN, STATS_STEP_SEEN, STATS_DEADLOCK, STATS_MISSES, STATS_MISSED = 5, 6, 7, 8, 9
STATS_BLOCKED, STATS_COLLECTED, STATS_NOTABLE = 10, 11, 12
STATS_SIZE = 18
OK, NO_ROOM, MANY_SUCCESSORS, MANY_CLUSTERS = 0, 1, 2, 3  # values of STATS_CODE

# Kinds of event: a deadlock; a successor that violates invariants; a step that violates step properties.
EVENT_DEADLOCK, EVENT_BAD_STATE, EVENT_BAD_STEP = 0, 1, 2

# Limits of the encoding: ids that are packed into the keys of maps, and bits of masks.
CLUSTER_HEAD_SIZE = 2  # numbers before a cluster's column values in `cluster_items`: its field and its id
KEY_LIMIT, MOST_PROPERTIES, MOST_STEP_PROPERTIES, MOST_ACT_PROPERTIES = 1 << 24, 30, 18, 28

# Places in `meta`.
META_ROWS, META_ROW_ITEMS, META_BUNDLES, META_BUNDLE_ITEMS, META_CONTENTS, META_CONTENT_ITEMS = range(6)
META_ASKED, META_GROW, META_BRANCHES, META_ROOTS, META_OPERATIONS, META_DELTAS, META_SLOTS = range(6, 13)
META_SLOT_BASE, META_PROPERTIES, META_STEP_PROPERTIES, META_NETWORK_STEPS, META_PERMUTATIONS = range(13, 18)
META_BOUNDS, META_RESOLVED, META_WATCH_BOUNDS, META_LOCAL_CHANGES, META_SETTLED, META_LEFT = range(18, 24)
META_WAITING, META_CONSTRAINTS, META_CLUSTERS, META_CLUSTER_ITEMS, META_CLUSTER_ROOM, META_COLLECTS = range(24, 30)
META_PIECES = 30
META_SIZE = 32


def inbox_codes_marking_violations(number: Any, violated: Any) -> Any:
    """Return the packed codes of inbox contents: the number within the slot, and a sign bit for violated invariants."""
    return np.where(np.equal(violated, 0), number, np.bitwise_or(number, CODE_BAD))


@inlined
def slot_count_of_flat_state(t: Any, columns: Any) -> Any:
    """Return the number of slots of a flat state; each slot has two columns, a local state and an inbox."""
    return (columns - t.meta[META_SLOT_BASE]) >> 1


@inlined
def first_inbox_column_of_flat_state(t: Any, columns: Any) -> Any:
    """Return the first inbox column of a flat state, given its number of columns."""
    return (columns + t.meta[META_SLOT_BASE]) >> 1
