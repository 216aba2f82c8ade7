"""Output buffers of one kernel thread: successors, cache misses and events."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from kraftcheck.explorer.native.arrays import Arrays, array
from kraftcheck.explorer.tables.kernel import codes
from kraftcheck.explorer.tables.kernel.codes import (
    BAD,
    BAD_STATE,
    BAD_STEP,
    PRUNED,
    STEP_PRUNED,
    STUCK,
    violated_by_step,
)
from kraftcheck.explorer.tables.kernel.native import inlined


class WorkerArrays(Arrays):
    """The buffers and counters of one thread."""

    fired = array(np.int64)  # label -> number of steps generated
    stats = array(np.int64)  # see `codes`
    states = array(np.int32, -1)  # the states of the batch
    succ = array(np.int32, -1)  # successors of one state: action, step flags, control row, inboxes ...
    misses = array(np.int64, 5)  # cache misses: kind and arguments
    retry = array(np.int64)  # states that met a cache miss
    events = array(np.int64, 3)  # state, kind, properties
    collected = array(np.int32, -1)  # successors for Python: source, control row, inboxes ...; empty where unused
    words = array(np.uint64, -1)  # packed flat successors; the last entry is the state itself
    left = array(np.int64)  # permutations that may still lead to the least image
    sources = array(np.int32, -1)  # permutation, slot -> slot that it moves there
    sources_of = array(np.int64)  # slot -> mask of the slots that some permutation moves there
    fact_counts = array(np.int64)  # see `flat/facts.py`
    facts = array(np.int64, 2)  # (shared fields, local state, second local state) -> memoized fact
    safe_pairs = array(np.uint8)  # pair of low local ids -> masks of property kinds that hold of the pair in any state
    listed = array(np.int32)  # tree nodes of internal actions that may be enabled, in spans
    shared_contents = array(np.int32, -1)  # number -> contents of the shared fields
    shared_places = array(np.int32)  # hash table of these contents
    scratch = array(np.int32, -1)  # one flat state
    touched = array(np.uint8)  # successor -> whether a field of several columns differs from the state's
    least = array(np.int64)  # successor -> permutation that makes its least image
    waiting_rows = array(np.int32, -1)  # successors queued until their cluster ids are looked up: see `flat/batches.py`
    waiting_images = array(np.int32, -1)  # their canonical images
    waiting_words = array(np.uint64, -1)  # their packed words so far
    waiting_hashes = array(np.int64, -1)  # hashes of their clusters' contents
    broken = array(np.int64)  # pruned successor -> mask of the invariants that it violates
    blocked = array(np.int64)  # labels of steps that only an exhausted bound disables in the state


Make = Callable[[Any, WorkerArrays], None]
"""A compiled function that fills the memo tables with the results of a worker's cache misses."""


class SuccessorArrays(Arrays):
    """The successors that one thread found, divided by the partition that owns each."""

    rows = array(np.int32, -1, -1)
    words = array(np.uint64, -1, -1)  # the packed identity of each row
    counts = array(np.int64)


@inlined
def record_miss(worker: Any, kind: Any, a: Any, b: Any, c: Any, d: Any) -> None:
    """Record a cache miss; if the list is full, drop the miss, which the state's next expansion records again."""
    worker.stats[codes.S_MISSED] = 1
    n = worker.stats[codes.S_MISSES]
    if n < len(worker.misses):
        worker.misses[n, 0] = kind
        worker.misses[n, 1] = a
        worker.misses[n, 2] = b
        worker.misses[n, 3] = c
        worker.misses[n, 4] = d
        worker.stats[codes.S_MISSES] = n + 1


@inlined
def check_evaluated(t: Any, worker: Any, target: Any, row: Any, ref: Any) -> Any:
    """Return whether a step's next control row is evaluated; record a miss where the step's entry must be refreshed.

    `ref` names that entry: the delta between the two control rows, or the complement of an index into `row_items`.
    """
    flags = t.row_info[target, codes.R_FLAGS]
    known = flags & codes.JUDGED != 0
    if flags == codes.JUDGED or not known:
        before = worker.stats[codes.S_MISSED]
        record_miss(worker, codes.MISS_JUDGED, target, row, ref, 0)
        if known:
            worker.stats[codes.S_MISSED] = before
    else:
        worker.stats[codes.S_NOTABLE] = 1
    return known


@inlined
def retry_state(worker: Any, state: Any) -> None:
    """Append a state to the list of states that met a cache miss."""
    worker.retry[worker.stats[codes.S_RETRY]] = state
    worker.stats[codes.S_RETRY] += 1


@inlined
def record_event(worker: Any, state: Any, kind: Any, mask: Any) -> None:
    """Record an event of a state, if the list has room."""
    n = worker.stats[codes.S_EVENTS]
    if n < len(worker.events):
        worker.events[n, 0] = state
        worker.events[n, 1] = kind
        worker.events[n, 2] = mask
        worker.stats[codes.S_EVENTS] = n + 1


@inlined
def record_violations(worker: Any, state: Any, kind: Any, seen: Any, violated: Any) -> None:
    """Record an event for violated properties, unless all are in the mask `stats[seen]` of earlier violations."""
    if violated & ~worker.stats[seen]:
        worker.stats[seen] |= violated
        record_event(worker, state, kind, violated)


@inlined
def violations_of(t: Any, succ: Any, k: Any) -> Any:
    """Return successor `k`'s violated invariants and step properties, as masks, and whether a constraint prunes it."""
    row = succ[k, 2]
    flags, step_flags = t.row_info[row, codes.R_FLAGS], np.int64(succ[k, 1])
    bad = t.row_info[row, codes.R_BAD] if flags & BAD else np.int64(0)
    for c in range(3, succ.shape[1]):
        bad |= t.contents[succ[k, c], codes.C_BAD]
    return bad, violated_by_step(step_flags), step_flags & STEP_PRUNED != 0 or flags & PRUNED != 0


@inlined
def accept_successor(t: Any, worker: Any, state: Any, k: Any) -> Any:
    """Count successor `k`'s action and record new violations; return False where a constraint prunes the successor."""
    worker.fired[worker.succ[k, 0]] += 1
    bad, over, pruned = violations_of(t, worker.succ, k)
    record_violations(worker, state, BAD_STATE, codes.S_SEEN, bad)
    record_violations(worker, state, BAD_STEP, codes.S_STEP_SEEN, over)
    return not pruned


@inlined
def stop_batch(worker: Any, done: Any, code: Any) -> None:
    """Record that a batch ends early after `done` states, and the reason code."""
    worker.stats[codes.S_DONE] = done
    worker.stats[codes.S_CODE] = code


@inlined
def collect(worker: Any, states: Any, at: Any, column: Any, mark: Any) -> None:
    """Copy a state, which begins at a column of states[at], to `worker.collected` behind a mark, if there is room."""
    n = worker.stats[codes.S_COLLECTED]
    if n < len(worker.collected):
        worker.collected[n, 0] = mark
        for c in range(column, states.shape[1]):
            worker.collected[n, c - column + 1] = states[at, c]
        worker.stats[codes.S_COLLECTED] = n + 1


@inlined
def collect_successor(t: Any, worker: Any, state: Any, k: Any, pruned: Any) -> None:
    """Copy successor `k` to `worker.collected`, for checks in Python: a pruned one, or every one for step properties.

    The first column has the index of the source state, or its complement if the successor is not pruned.
    """
    if pruned or t.meta[codes.M_COLLECTS]:
        collect(worker, worker.succ, k, 2, state if pruned else ~state)


@inlined
def record_deadlock(worker: Any, state: Any) -> None:
    """Record a deadlock event, unless an earlier state had one."""
    if not worker.stats[codes.S_DEADLOCK]:
        worker.stats[codes.S_DEADLOCK] = 1
        record_event(worker, state, STUCK, 0)
