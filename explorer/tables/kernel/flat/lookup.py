"""Table lookups for flat states.

A failed lookup is recorded; in a serial run it fills the table or files a request to Python.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kraftcheck.explorer.tables.kernel import codes
from kraftcheck.explorer.tables.kernel.codes import MISSING, inboxes_of, pair, slots_of
from kraftcheck.explorer.tables.kernel.maps import find, find_near
from kraftcheck.explorer.tables.kernel.native import bare, inlined, jit
from kraftcheck.explorer.tables.kernel.resolving.control_rows import intern_row, set_identity
from kraftcheck.explorer.tables.kernel.resolving.inboxes import apply_operation
from kraftcheck.explorer.tables.kernel.resolving.requests import abort_to_grow, ask, request_handlers
from kraftcheck.explorer.tables.kernel.resolving.steps import build_bundle
from kraftcheck.explorer.tables.kernel.tree_walk import walk


@jit
def intern_columns(t: Any, rows: Any, row: Any, known: Any) -> Any:
    """Intern the control row in the first `known` columns of a row; return its id."""
    fresh = t.meta[codes.M_ROWS]
    if fresh + 4 >= t.rows.shape[0]:
        abort_to_grow(t, codes.GROW_ROWS)
    for c in range(t.rows.shape[1]):
        t.rows[fresh, c] = rows[row, c] if c < known else 0
    return intern_row(t, fresh)


@jit
def intern_flat(t: Any, flat: Any, first: Any, ids: Any) -> Any:
    """Intern the control rows of flat states from number `first` on; return the number done when the table is full."""
    flat, ids = bare(flat), bare(ids)
    for i in range(first, len(flat)):
        if t.meta[codes.M_ROWS] + 4 >= t.rows.shape[0] or (t.meta[codes.M_ROWS] + 4) * 2 > len(t.row_table):
            return i
        ids[i] = intern_columns(t, flat, np.int64(i), flat.shape[1])
        set_identity(t, np.int64(ids[i]))
    return len(flat)


@jit
def ask_path(t: Any, rows: Any, row: Any, root: Any, me: Any, peer: Any, at: Any) -> None:
    """Request the result of a decision tree; Python reads the state as an interned control row."""
    ask(t, codes.ASK_PATH, root, intern_columns(t, rows, row, inboxes_of(t, rows.shape[1])), me, peer, at)


@inlined
def leaf_of(t: Any, worker: Any, serial: Any, rows: Any, row: Any, root: Any, me: Any, peer: Any, at: Any) -> Any:
    """Walk a decision tree; return its leaf or MISSING. `at` is the state whose inboxes may be read, or NONE."""
    slots, inboxes = slots_of(t, rows.shape[1]), inboxes_of(t, rows.shape[1])
    leaf = walk(t, rows, row, slots, root, me, peer, worker.states, at, inboxes)
    if leaf < 0 or t.nodes[leaf, codes.KIND] != codes.LEAF:
        worker.stats[codes.S_MISSED] = 1
        leaf = MISSING
        if serial:
            ask_path(t, rows, row, root, me, peer, at)
    return leaf


@inlined
def handlers_of(t: Any, worker: Any, serial: Any, local: Any) -> Any:
    """Return the id of the list of tree nodes for a replica's internal actions; a negative number if unknown."""
    found = np.int64(t.own_roots[local])
    if found < 0:
        worker.stats[codes.S_MISSED] = 1
        if serial:
            request_handlers(t, local, np.int64(0))
    return found


@inlined
def inbox_after(t: Any, worker: Any, serial: Any, inbox: Any, op: Any) -> Any:
    """Return an inbox's content after network operation `op`: REFUSED if forbidden, MISSING if unknown."""
    found = find_near(t.operated, inbox, op)
    if found == MISSING and serial:
        found = apply_operation(t, inbox, op, True)
    if found == MISSING:
        worker.stats[codes.S_MISSED] = 1
    return found


@inlined
def bundle_of(t: Any, worker: Any, serial: Any, local: Any, inbox: Any) -> Any:
    """Return the span of `bundle_items` with a local state's handlers for its inbox, or a negative number."""
    found = find(t.bundles, pair(local, inbox))
    if found < 0 and serial:
        build_bundle(t, local, inbox, True)
        found = find(t.bundles, pair(local, inbox))
    if found < 0:
        worker.stats[codes.S_MISSED] = 1
    return found
