"""The tables: everything that is known of a protocol, as arrays of integers.

Numbers are ids: of local states, messages, inbox contents, shared values, and of *control rows*. A control row holds
the bounds spent, the shared fields and the local state of every slot (replica); a state is a control row's id with the
id of each slot's inbox content. Id 0 of a local state is "no replica here", id 0 of an inbox content is "empty".

A map is an array of pairs (key, value); a key of -1 is free. The columns of the other tables are named in `codes.py`.
"""

from __future__ import annotations

import numpy as np

from kraftcheck.explorer.native.arrays import Arrays, array


class Tables(Arrays):
    """Everything that the kernel reads, and what it notes for Python."""

    meta = array(np.int64)

    nodes = array(np.int32, 6)  # of tries: kind, two arguments, outcomes, where its jumps start, how many there are
    branches = array(np.int64, 2)  # (node, answer) -> node
    jumps = array(np.int32)  # the same for small answers: a node, or MISSING
    roots = array(np.int64, 2)  # (local id, message id + 1) -> list of nodes
    own_roots = array(np.int32)  # by local id: the same for no message; -1 where not known yet
    lists = array(np.int32, 2)  # start, length
    list_nodes = array(np.int32)
    local_codes = array(np.int32)  # by local id: its number among those of the same replica
    local_answers = array(np.int32, -1)  # by local state: the answer to each question about it
    shared_answers = array(np.int32, -1)  # by a shared field's value: the answer to each question about it
    inbox_answers = array(np.int32, -1)  # by inbox content, -1 where not known yet

    outcomes = array(np.int32, 6)  # action, delta, whether it consumes, start and number of operations, step flags
    outcome_operations = array(np.int32)
    deltas = array(np.int32, 4)  # start and number of assignments, start and number of spendings
    # Column of a control row (below 0: ~ the first of many, all 0), value (below 0: ~ a change of a local state).
    assignments = array(np.int32, 2)
    spendings = array(np.int32, 2)  # column, amount
    limits = array(np.int32)  # of each bound
    network_steps = array(np.int32, 2)  # outcome, delta
    network_operations = array(np.int32, -1)  # of each step, by message

    operations = array(np.int32, 6)  # slot, message, count where absent, change, least count, whether 0 is forgotten
    messages = array(np.int32, 3)  # operation that discards it, invariants that it violates, its group or its channel
    operated = array(np.int64, 2)  # (inbox, operation) -> inbox or -1
    contents = array(np.int32, 4)  # slot, start and number of items, invariants violated
    # By inbox content: its number within the slot; with its sign set where invariants are violated, and a bit set once
    # it was seen that all its images are known.
    inbox_codes = array(np.int32)
    content_items = array(np.int32, 2)  # message, count
    content_table = array(np.int32)  # hash table of contents
    slot_contents = array(np.int32)  # number of contents of each slot

    rows = array(np.int32, -1)  # control rows
    row_table = array(np.int32)  # hash table of control rows
    row_info = array(np.int64, 5)  # flags, invariants violated, identity, start and number of steps
    row_items = array(np.int32, 3)  # outcome or root, target or -1, step flags or slot
    hidden = array(np.int32)  # columns of a control row that a VIEW leaves out
    changed = array(np.int64, 2)  # (control row, delta) -> control row with flags
    changed_locals = array(np.int64, 2)  # (change, local state) -> local state
    bundles = array(np.int64, 2)  # (local, inbox) -> start and number of the bundle's items
    bundle_items = array(np.int32, 3)  # outcome or node, whether a node, inbox without the message

    cluster_table = array(np.int64)  # of what several columns of a flat state hold: see `flat/fields.py`
    cluster_items = array(np.int32)  # field, number, what each column holds
    cluster_counts = array(np.int64)  # by field: how many numbers there are

    properties = array(np.int32, 3)  # root, kind, whether a constraint
    judged = array(np.int64, 3)  # by whether a constraint: the properties of all, of a replica, of two, as masks
    step_properties = array(np.int32, 2)  # root, whether a constraint

    permuted_rows = array(np.int32, -1)  # control row, by permutation; -1 where not known yet
    permuted_contents = array(np.int32, -1)  # inbox content, by permutation
    permuted_slots = array(np.int32, -1)  # permutation, slot
    permuted_locals = array(np.int32, -1)  # local, permutation
    permuted_messages = array(np.int32, -1)  # permutation, message
    permuted_shared = array(np.int32, -1)  # permutation and shared column, value

    waiting = array(np.int64)  # states that missed something, and may miss more
    asked = array(np.int64, 6)  # what Python must answer: its kind, and what it is about
