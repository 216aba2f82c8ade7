"""What one thread writes while it expands states: successors, cache misses, and what is to be reported."""

from __future__ import annotations

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

    fired = array(np.int64)  # how often each action fired
    stats = array(np.int64)  # see `codes`
    states = array(np.int32, -1)  # that are being expanded
    succ = array(np.int32, -1)  # of the state that is being expanded: action, step flags, control row, inboxes ...
    misses = array(np.int64, 5)  # cache misses: their kind, and what is missing
    retry = array(np.int64)  # states that met one
    events = array(np.int64, 3)  # state, kind, properties
    pruned = array(np.int32, -1)  # successors that constraints rule out: whose, control row, inboxes ...; or no room
    words = array(np.uint64, -1)  # packed, of flat states: the successors; last, the state itself
    left = array(np.int64)  # permutations that may lead to the least image
    sources = array(np.int32, -1)  # permutation, slot: which one it puts there
    sources_of = array(np.int64)  # by slot: which ones permutations put there, as bits
    fact_counts = array(np.int64)  # see `flat/facts.py`
    facts = array(np.int64, 2)  # (shared fields, local state, another one) -> what follows from them
    fair_pairs = array(np.uint8)  # of two of the first local states: whether all that is asked of them holds
    listed = array(np.int32)  # nodes that lead to what replicas do by themselves
    shared_contents = array(np.int32, -1)  # of the shared fields, by number
    shared_places = array(np.int32)  # hash table of these
    scratch = array(np.int32, -1)  # one flat state
    touched = array(np.uint8)  # of each successor: whether a field with several columns is another
    least = array(np.int64)  # of each successor: the permutation that makes its least image
    waiting_rows = array(np.int32, -1)  # successors that wait for numbers: see `flat/waiting.py`
    waiting_images = array(np.int32, -1)  # of each: the image that stands for it
    waiting_words = array(np.uint64, -1)  # what is packed of each
    waiting_hashes = array(np.int64, -1)  # of what these hold
    broken = array(np.int64)  # the invariants that each successor violates, where it is pruned
    blocked = array(np.int64)  # labels of steps that a bound alone keeps the state being expanded from taking


class SuccessorArrays(Arrays):
    """What one thread has found, by the partition that owns it."""

    rows = array(np.int32, -1, -1)
    words = array(np.uint64, -1, -1)  # the packed identity of each row
    counts = array(np.int64)


@inlined
def miss(worker: Any, kind: Any, a: Any, b: Any, c: Any, d: Any) -> None:
    """Note a cache miss; once the list is full, the state is simply tried again."""
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
def unsettled(t: Any, worker: Any, target: Any, row: Any, ref: Any) -> Any:
    """Note that the way from one control row to another says too little of it; return whether the step is known.

    `ref` is the delta between them, or the complement of a place in `row_items`. Where the control row is judged and
    nothing speaks against it, what stands there is only to be brought up to date.
    """
    flags = t.row_info[target, codes.R_FLAGS]
    known = flags & codes.JUDGED != 0
    if flags == codes.JUDGED or not known:
        before = worker.stats[codes.S_MISSED]
        miss(worker, codes.MISS_JUDGED, target, row, ref, 0)
        if known:
            worker.stats[codes.S_MISSED] = before
    else:
        worker.stats[codes.S_NOTABLE] = 1
    return known


@inlined
def try_again(worker: Any, state: Any) -> None:
    """Note that a state met a cache miss."""
    worker.retry[worker.stats[codes.S_RETRY]] = state
    worker.stats[codes.S_RETRY] += 1


@inlined
def note(worker: Any, state: Any, kind: Any, mask: Any) -> None:
    """Note something to report about a state."""
    n = worker.stats[codes.S_EVENTS]
    if n < len(worker.events):
        worker.events[n, 0] = state
        worker.events[n, 1] = kind
        worker.events[n, 2] = mask
        worker.stats[codes.S_EVENTS] = n + 1


@inlined
def note_violated(worker: Any, state: Any, kind: Any, seen: Any, violated: Any) -> None:
    """Note properties that are violated, unless all of them were seen before; `seen` is the place of these in stats."""
    if violated & ~worker.stats[seen]:
        worker.stats[seen] |= violated
        note(worker, state, kind, violated)


@inlined
def verdict(t: Any, succ: Any, k: Any) -> Any:
    """Return masks of the properties that successor k, and the step to it, violate, and whether it is pruned."""
    row = succ[k, 2]
    flags, step_flags = t.row_info[row, codes.R_FLAGS], np.int64(succ[k, 1])
    bad = t.row_info[row, codes.R_BAD] if flags & BAD else np.int64(0)
    for c in range(3, succ.shape[1]):
        bad |= t.contents[succ[k, c], codes.C_BAD]
    return bad, violated_by_step(step_flags), step_flags & STEP_PRUNED != 0 or flags & PRUNED != 0


@inlined
def is_kept(t: Any, worker: Any, state: Any, k: Any) -> Any:
    """Count successor k of a state and note what it violates for the first time; False where it is pruned."""
    worker.fired[worker.succ[k, 0]] += 1
    bad, over, pruned = verdict(t, worker.succ, k)
    note_violated(worker, state, BAD_STATE, codes.S_SEEN, bad)
    note_violated(worker, state, BAD_STEP, codes.S_STEP_SEEN, over)
    return not pruned


@inlined
def stop(worker: Any, done: Any, code: Any) -> None:
    """Note how many states are done where a batch ends early, and why."""
    worker.stats[codes.S_DONE] = done
    worker.stats[codes.S_CODE] = code


@inlined
def keep_pruned(worker: Any, state: Any, k: Any) -> None:
    """Keep successor k of a state, which constraints rule out, where somebody wants to see it."""
    n = worker.stats[codes.S_PRUNED]
    if n < len(worker.pruned):
        worker.pruned[n, 0] = state
        for c in range(2, worker.succ.shape[1]):
            worker.pruned[n, c - 1] = worker.succ[k, c]
        worker.stats[codes.S_PRUNED] = n + 1


@inlined
def note_deadlock(worker: Any, state: Any) -> None:
    """Note that a state has no successor, unless one was found before."""
    if not worker.stats[codes.S_DEADLOCK]:
        worker.stats[codes.S_DEADLOCK] = 1
        note(worker, state, STUCK, 0)
