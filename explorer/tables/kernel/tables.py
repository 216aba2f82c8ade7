"""The memo tables of a protocol, as arrays of integers.

Local states, messages, inbox contents, shared values and *control rows* are interned: each has an id. A control row
is a state without its inboxes: the bounds used, the shared fields, and the local state of every slot (replica). A
state is the id of its control row and the id of each slot's inbox content. Id 0 is the absent replica among local
states, and the empty inbox among inbox contents.

A map is an array of (key, value) pairs; a free place has the key -1. `codes.py` names the columns of the tables.
"""

from __future__ import annotations

import numpy as np

from kraftcheck.explorer.native.arrays import Arrays, array


class Tables(Arrays):
    """All memo tables that the kernel reads, and its requests to Python."""

    meta = array(np.int64)

    nodes = array(np.int32, 6)  # of decision trees: kind, two arguments, number of outcomes, start and number of jumps
    branches = array(np.int64, 2)  # (node, answer) -> child node
    jumps = array(np.int32)  # (node, small answer) -> child node or MISSING, without hashing
    roots = array(np.int64, 2)  # (local id, message id + 1) -> list of nodes
    own_roots = array(np.int32)  # local id -> list of nodes of the actions that take no message; -1 before the request
    lists = array(np.int32, 2)  # start, length
    list_nodes = array(np.int32)
    local_codes = array(np.int32)  # local id -> its number among the local states of the same replica
    local_answers = array(np.int32, -1)  # query, local state -> answer
    shared_answers = array(np.int32, -1)  # query, shared field's value -> answer
    inbox_answers = array(np.int32, -1)  # query, inbox content -> answer; -1 before it is evaluated

    outcomes = array(np.int32, 6)  # action, delta, whether it consumes, start and number of operations, step flags
    outcome_operations = array(np.int32)
    deltas = array(np.int32, 4)  # start and number of assignments, start and number of spendings
    # Column of a control row (below 0: ~ the first of several to clear), value (below 0: ~ a change of a local state).
    assignments = array(np.int32, 2)
    spendings = array(np.int32, 2)  # column, amount
    limits = array(np.int32)  # the limit of each bound
    network_steps = array(np.int32, 2)  # outcome, delta
    network_operations = array(np.int32, -1)  # network step, message -> operation

    operations = array(np.int32, 6)  # slot, message, count if absent, change, least count, whether a 0 count is dropped
    messages = array(np.int32, 3)  # operation that discards it, mask of violated invariants, its group or its channel
    operated = array(np.int64, 2)  # (inbox content, operation) -> inbox content, or REFUSED
    contents = array(np.int32, 4)  # slot, start and number of items, invariants violated
    # Inbox content -> its number within the slot. The sign marks violated invariants; CODE_IMAGED marks contents whose
    # images are all in `permuted_contents`.
    inbox_codes = array(np.int32)
    content_items = array(np.int32, 2)  # message, count
    content_table = array(np.int32)  # hash table of contents
    slot_contents = array(np.int32)  # number of contents of each slot

    rows = array(np.int32, -1)  # control rows
    row_table = array(np.int32)  # hash table of control rows
    row_info = array(np.int64, 5)  # flags, mask of violated invariants, canonical row under a VIEW, span of its steps
    row_items = array(np.int32, 3)  # outcome or tree root, target or -1, step flags or slot
    hidden = array(np.int32)  # columns of a control row that a VIEW leaves out
    changed = array(np.int64, 2)  # (control row, delta) -> next control row with the step's flags
    changed_locals = array(np.int64, 2)  # (change, local state) -> local state
    bundles = array(np.int64, 2)  # (local, inbox) -> span of the enabled message handlers in `bundle_items`
    bundle_items = array(np.int32, 3)  # outcome or tree node, whether it is a node, inbox without the message

    cluster_table = array(np.int64)  # hash table of the interned contents of clusters: see `flat/clusters.py`
    cluster_items = array(np.int32)  # field, id, value of each column
    cluster_counts = array(np.int64)  # field -> number of ids

    properties = array(np.int32, 3)  # root, kind, whether a constraint
    judged = array(np.int64, 3)  # invariants, constraints: masks of those of the state, of one replica, of two
    step_properties = array(np.int32, 2)  # root, whether a constraint

    permuted_rows = array(np.int32, -1)  # control row, permutation -> image; -1 before the images are made
    permuted_contents = array(np.int32, -1)  # inbox content, permutation -> image; -1 before the images are made
    permuted_slots = array(np.int32, -1)  # permutation, slot -> image
    permuted_locals = array(np.int32, -1)  # local state, permutation -> image
    permuted_messages = array(np.int32, -1)  # permutation, message -> image
    permuted_shared = array(np.int32, -1)  # permutation and shared column, value -> image

    waiting = array(np.int64)  # states with a cache miss, which may miss more
    asked = array(np.int64, 6)  # requests to Python: kind and arguments
