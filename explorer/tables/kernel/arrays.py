"""Arrays of the kernel: the memo tables of a protocol, and the output buffers of one thread.

Local states, messages, inbox contents, shared values and *control rows* are interned: each has an id. A control row
is a state without its inboxes: the bounds used, the shared fields, and the local state of every slot (replica). A
state is the id of its control row and the id of each slot's inbox content. Id 0 is the absent replica among local
states, and the empty inbox among inbox contents.

A map is an array of (key, value) pairs; a free place has the key -1. `codes.py` names the columns of the tables.

A thread's buffers take successors, cache misses and events, and its requests to Python: to grow a table, or to call
user code.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from kraftcheck.explorer.native.arrays import ArrayGroup, declare_array
from kraftcheck.explorer.native.compiling import inlined
from kraftcheck.explorer.tables.kernel import codes, jit, maps


class MemoTables(ArrayGroup):
    """All memo tables that the kernel reads, and its requests to Python."""

    meta = declare_array(np.int64)

    nodes = declare_array(np.int32, 6)  # of decision trees: kind, two arguments, number of outcomes, span of jumps
    branches = declare_array(np.int64, 2)  # (node, answer) -> child node
    jumps = declare_array(np.int32)  # (node, small answer) -> child node or MISSING, without hashing
    roots = declare_array(np.int64, 2)  # (local id, message id + 1) -> list of nodes
    own_roots = declare_array(np.int32)  # local id -> list of nodes of its internal actions; -1 before the request
    lists = declare_array(np.int32, 2)  # start, length
    list_nodes = declare_array(np.int32)
    local_codes = declare_array(np.int32)  # local id -> its number among the local states of the same replica
    local_answers = declare_array(np.int32, -1)  # query, local state -> answer
    shared_answers = declare_array(np.int32, -1)  # query, shared field's value -> answer
    inbox_answers = declare_array(np.int32, -1)  # query, inbox content -> answer; -1 before it is evaluated

    outcomes = declare_array(np.int32, 7)  # action, delta, whether it consumes, span of operations, step flags, piece
    outcome_operations = declare_array(np.int32)
    deltas = declare_array(np.int32, 4)  # start and number of assignments, start and number of spendings
    # Column of a control row (below 0: ~ the first of several to clear), value (below 0: ~ a change of a local state).
    assignments = declare_array(np.int32, 3)  # column, value, mask of the bits that the column keeps
    spendings = declare_array(np.int32, 2)  # column, amount
    limits = declare_array(np.int32)  # the limit of each bound
    network_steps = declare_array(np.int32, 2)  # outcome, delta
    network_operations = declare_array(np.int32, -1)  # network step, message -> operation

    operations = declare_array(np.int32, 6)  # slot, message, count if absent, change, least count, whether 0 is dropped
    messages = declare_array(
        np.int32, 3
    )  # operation that discards it, mask of violated invariants, its group or its channel
    operated = declare_array(np.int64, 2)  # (inbox content, operation) -> inbox content, or REFUSED
    contents = declare_array(np.int32, 4)  # slot, start and number of items, invariants violated
    # Inbox content -> its number within the slot. The sign marks violated invariants; CODE_IMAGED marks contents whose
    # images are all in `permuted_contents`.
    inbox_codes = declare_array(np.int32)
    content_items = declare_array(np.int32, 2)  # message, count
    content_table = declare_array(np.int32)  # hash table of contents
    slot_contents = declare_array(np.int32)  # number of contents of each slot

    rows = declare_array(np.int32, -1)  # control rows
    row_table = declare_array(np.int32)  # hash table of control rows
    row_info = declare_array(
        np.int64, 5
    )  # flags, mask of violated invariants, canonical row under a VIEW, span of its steps
    row_items = declare_array(np.int32, 3)  # outcome or tree root; target, NONE or EXHAUSTED; step flags or slot
    hidden = declare_array(np.int32)  # columns of a control row that a VIEW leaves out
    changed = declare_array(np.int64, 2)  # (control row, delta) -> next control row with the step's flags
    changed_locals = declare_array(np.int64, 2)  # (change, local state) -> local state
    bundles = declare_array(np.int64, 2)  # (local, inbox) -> span of the enabled message handlers in `bundle_items`
    bundle_items = declare_array(np.int32, 3)  # outcome or tree node, whether it is a node, inbox without the message

    cluster_table = declare_array(np.int64)  # hash table of the interned contents of clusters: see `packing.py`
    cluster_items = declare_array(np.int32)  # field, id, value of each column
    cluster_counts = declare_array(np.int64)  # field -> number of ids

    properties = declare_array(np.int32, 3)  # root, kind, whether a constraint
    property_masks = declare_array(np.int64, 3)  # invariants, constraints: masks of those of no replica, of one, of two
    step_properties = declare_array(np.int32, 2)  # root, whether a constraint

    permuted_rows = declare_array(np.int32, -1)  # control row, permutation -> image; -1 before the images are made
    permuted_contents = declare_array(
        np.int32, -1
    )  # inbox content, permutation -> image; -1 before the images are made
    permuted_slots = declare_array(np.int32, -1)  # permutation, slot -> image
    permuted_locals = declare_array(np.int32, -1)  # local state, permutation -> image
    permuted_messages = declare_array(np.int32, -1)  # permutation, message -> image
    permuted_shared = declare_array(np.int32, -1)  # permutation and shared field, value or bit of an element -> image
    exploded = declare_array(
        np.int32, 3
    )  # of each exploded set: its field, its first column, the number of its columns

    waiting = declare_array(np.int64)  # states with a cache miss, which may miss more
    asked = declare_array(np.int64, 6)  # requests to Python: kind and arguments


class WorkerArrays(ArrayGroup):
    """The buffers and counters of one thread."""

    fired = declare_array(np.int64)  # label -> number of steps generated
    stats = declare_array(np.int64)  # see `codes`
    states = declare_array(np.int32, -1)  # the states of the batch
    succ = declare_array(np.int32, -1)  # successors of one state: action, step flags, control row, inboxes ...
    misses = declare_array(np.int64, 5)  # cache misses: kind and arguments
    retry = declare_array(np.int64)  # states that met a cache miss
    events = declare_array(np.int64, 3)  # state, kind, properties
    collected = declare_array(
        np.int32, -1
    )  # successors for Python: source, control row, inboxes ...; empty where unused
    words = declare_array(np.uint64, -1)  # packed flat successors; the last entry is the state itself
    left = declare_array(np.int64)  # permutations that may still lead to the least image
    sources = declare_array(np.int32, -1)  # permutation, slot -> slot that it moves there
    sources_of = declare_array(np.int64)  # slot -> mask of the slots that some permutation moves there
    fact_counts = declare_array(np.int64)  # see `flat/facts.py`
    facts = declare_array(np.int64, 2)  # (shared fields, local state, second local state) -> memoized fact
    safe_pairs = declare_array(np.uint8)  # pair of low local ids -> masks of property kinds that always hold of it
    listed = declare_array(np.int32)  # tree nodes of internal actions that may be enabled, in spans
    shared_contents = declare_array(np.int32, -1)  # number -> contents of the shared fields
    shared_places = declare_array(np.int32)  # hash table of these contents
    scratch = declare_array(np.int32, -1)  # one flat state
    pieces = declare_array(np.int32)  # successor -> number of its step among those of pieces of actions, or 0
    touched = declare_array(np.uint8)  # successor -> whether a field of several columns differs from the state's
    least = declare_array(np.int64)  # successor -> permutation that makes its least image
    waiting_rows = declare_array(np.int32, -1)  # successors that wait for cluster ids: see `flat/batches.py`
    waiting_images = declare_array(np.int32, -1)  # their canonical images
    waiting_words = declare_array(np.uint64, -1)  # their packed words so far
    waiting_hashes = declare_array(np.int64, -1)  # hashes of their clusters' contents
    broken = declare_array(np.int64)  # pruned successor -> mask of the invariants that it violates
    blocked = declare_array(np.int64)  # labels of steps that only an exhausted bound disables in the state


MissResolver = Callable[[Any, WorkerArrays], None]
"""A compiled function that fills the memo tables with the results of a worker's cache misses."""


class SuccessorArrays(ArrayGroup):
    """The successors that one thread found, divided by the partition that owns each."""

    rows = declare_array(np.int32, -1, -1)
    words = declare_array(np.uint64, -1, -1)  # the packed identity of each row
    counts = declare_array(np.int64)


@inlined
def record_miss(worker: Any, kind: Any, a: Any, b: Any, c: Any, d: Any) -> None:
    """Record a cache miss; if the list is full, drop the miss, which the state's next expansion records again."""
    worker.stats[codes.STATS_MISSED] = 1
    n = worker.stats[codes.STATS_MISSES]
    if n < len(worker.misses):
        miss = worker.misses[n]
        miss[0], miss[1], miss[2], miss[3], miss[4] = kind, a, b, c, d
        worker.stats[codes.STATS_MISSES] = n + 1


@inlined
def is_next_row_evaluated_or_miss_recorded(t: Any, worker: Any, target: Any, row: Any, ref: Any) -> Any:
    """Return whether a step's next control row is evaluated; record a miss where the step's entry must be refreshed.

    `ref` names that entry: the delta between the two control rows, or the complement of an index into `row_items`.
    """
    flags = t.row_info[target, codes.ROW_FLAGS]
    known = flags & codes.EVALUATED_ROW != 0
    if flags == codes.EVALUATED_ROW or not known:
        before = worker.stats[codes.STATS_MISSED]
        record_miss(worker, codes.MISS_EVALUATION, target, row, ref, 0)
        if known:
            worker.stats[codes.STATS_MISSED] = before
    else:
        worker.stats[codes.STATS_NOTABLE] = 1
    return known


@inlined
def append_retried_state(worker: Any, state: Any) -> None:
    """Append a state to the list of states that met a cache miss."""
    worker.retry[worker.stats[codes.STATS_RETRY]] = state
    worker.stats[codes.STATS_RETRY] += 1


@inlined
def record_expansion_event(worker: Any, state: Any, kind: Any, mask: Any) -> None:
    """Record an event of a state, if the list has room."""
    n = worker.stats[codes.STATS_EVENTS]
    if n < len(worker.events):
        worker.events[n, 0], worker.events[n, 1], worker.events[n, 2] = state, kind, mask
        worker.stats[codes.STATS_EVENTS] = n + 1


@inlined
def record_violations(worker: Any, state: Any, kind: Any, seen: Any, violated: Any) -> None:
    """Record an event for violated properties, unless all are in the mask `stats[seen]` of earlier violations."""
    if violated & ~worker.stats[seen]:
        worker.stats[seen] |= violated
        record_expansion_event(worker, state, kind, violated)


@inlined
def successor_violations_and_is_pruned(t: Any, succ: Any, k: Any) -> Any:
    """Return successor `k`'s violated invariants and step properties, as masks, and whether a constraint prunes it."""
    row = succ[k, 2]
    flags, step_flags = t.row_info[row, codes.ROW_FLAGS], np.int64(succ[k, 1])
    bad = t.row_info[row, codes.ROW_VIOLATED] if flags & codes.VIOLATING_ROW else np.int64(0)
    for c in range(3, succ.shape[1]):
        bad |= t.contents[succ[k, c], codes.CONTENT_VIOLATED]
    return (
        bad,
        codes.step_violation_mask(step_flags),
        step_flags & codes.STEP_PRUNED != 0 or flags & codes.PRUNED_ROW != 0,
    )


@inlined
def count_step_and_record_violations(t: Any, worker: Any, state: Any, k: Any) -> Any:
    """Count successor `k`'s action and record new violations; return False where a constraint prunes the successor."""
    worker.fired[worker.succ[k, 0]] += 1
    bad, over, pruned = successor_violations_and_is_pruned(t, worker.succ, k)
    record_violations(worker, state, codes.EVENT_BAD_STATE, codes.STATS_SEEN, bad)
    record_violations(worker, state, codes.EVENT_BAD_STEP, codes.STATS_STEP_SEEN, over)
    return not pruned


@inlined
def record_early_batch_end(worker: Any, done: Any, code: Any) -> None:
    """Record that a batch ends early after `done` states, and the reason code."""
    worker.stats[codes.STATS_DONE] = done
    worker.stats[codes.STATS_CODE] = code


@inlined
def collect_state_for_python(worker: Any, states: Any, at: Any, column: Any, mark: Any) -> None:
    """Copy a state, which begins at a column of states[at], to `worker.collected` behind a mark, if there is room."""
    n = worker.stats[codes.STATS_COLLECTED]
    if n < len(worker.collected):
        worker.collected[n, 0] = mark
        for c in range(column, states.shape[1]):
            worker.collected[n, c - column + 1] = states[at, c]
        worker.stats[codes.STATS_COLLECTED] = n + 1


@inlined
def collect_successor_for_python(t: Any, worker: Any, state: Any, k: Any, pruned: Any) -> None:
    """Copy successor `k` to `worker.collected`, for checks in Python: a pruned one, or every one for step properties.

    The first column has the index of the source state, or its complement if the successor is not pruned.
    """
    if pruned or t.meta[codes.META_COLLECTS]:
        collect_state_for_python(worker, worker.succ, k, 2, state if pruned else ~state)


@inlined
def record_deadlock(worker: Any, state: Any) -> None:
    """Record a deadlock event, unless an earlier state had one."""
    if not worker.stats[codes.STATS_DEADLOCK]:
        worker.stats[codes.STATS_DEADLOCK] = 1
        record_expansion_event(worker, state, codes.EVENT_DEADLOCK, 0)


class TableFull(Exception):  # noqa: N818 - control flow, not an error
    """A table must grow before the kernel can go on."""


@inlined
def abort_to_grow(t: Any, what: Any) -> None:
    """Leave the kernel so that Python grows a table."""
    t.meta[codes.META_GROW] |= what
    raise TableFull


@jit
def append_request_to_python(t: Any, kind: Any, a: Any, b: Any, c: Any, d: Any, e: Any) -> None:
    """File a request to Python."""
    n = t.meta[codes.META_ASKED]
    if n >= len(t.asked):
        abort_to_grow(t, codes.GROW_ASKED)
    request = t.asked[n]
    request[0], request[1], request[2], request[3], request[4], request[5] = kind, a, b, c, d, e
    t.meta[codes.META_ASKED] = n + 1


@inlined
def find_value_or_request(t: Any, pairs: Any, entries: Any, key: Any, kind: Any, a: Any, b: Any) -> Any:
    """Return a key's value in a map with `meta[entries]` entries, or MISSING after one request to Python."""
    found = maps.find_value(pairs, key)
    if found == codes.MISSING:
        if maps.is_map_full(t.meta[entries], pairs):
            abort_to_grow(t, codes.GROW_MAP)
        append_request_to_python(t, kind, a, b, 0, 0, 0)
        t.meta[entries] += 1
        maps.store_value(pairs, key, codes.REQUEST_PENDING)
    return found if found >= 0 else codes.MISSING


@jit
def find_or_request_handlers(t: Any, local: Any, message: Any) -> Any:
    """Return a local state's handlers for a message (0: internal actions), or MISSING after one request to Python."""
    key = codes.pair_key(local, message)
    return find_value_or_request(t, t.roots, codes.META_ROOTS, key, codes.ASK_HANDLERS, local, message)
