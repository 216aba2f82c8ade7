"""Invariants and constraints of flat states, evaluated once for each new state."""

from __future__ import annotations

from typing import Any

import numpy as np

from kraftcheck.explorer.tables.kernel import codes
from kraftcheck.explorer.tables.kernel.codes import MISSING, NONE, inboxes_of, slots_of
from kraftcheck.explorer.tables.kernel.flat.facts import (
    HOLDS,
    HOLDS_OF_TWO,
    NO_NUMBER,
    NUMBERS_TAKEN,
    clear_numbers,
    is_safe_pair,
    key_of,
    leaf_of,
    memo_get,
    memo_put,
    number_for,
    shared_number,
    store_safe_pair,
    walk_by,
)
from kraftcheck.explorer.tables.kernel.native import bare, inlined, jit
from kraftcheck.explorer.tables.kernel.worker import record_violations, retry_state


@inlined
def decide_property(
    t: Any, worker: Any, serial: Any, rows: Any, row: Any, root: Any, kind: Any, number: Any, me: Any, peer: Any
) -> Any:
    """Walk a property's tree; return flags: violated, decided by shared fields and replicas alone, verdict known."""
    leaf, certain = walk_by(t, worker, kind, number, rows, row, root, me, peer), True
    if leaf < 0:
        certain = False
        leaf = leaf_of(t, worker, serial, rows, row, root, me, peer, NONE)
    return leaf >= 0 and t.nodes[leaf, codes.A] == 0, certain, leaf >= 0


@inlined
def decided_by(worker: Any, shared: Any, me: Any, peer: Any) -> Any:
    """Return the memoized verdicts for one or two replicas: masks of properties satisfied (low bits) and violated."""
    kind = HOLDS if peer == 0 else HOLDS_OF_TWO
    return memo_get(worker, key_of(kind, number_for(worker, kind, shared), me, peer))


@jit
def violations(
    t: Any, worker: Any, serial: Any, rows: Any, row: Any, shared: Any, left: Any, me: Any, peer: Any
) -> Any:
    """Return the mask of the properties in `left` that a state, a replica or a pair of replicas violates; or MISSING.

    Verdicts that these parts alone decide are memoized. A pair is evaluated in both orders.
    """
    kind = HOLDS if peer == 0 else HOLDS_OF_TWO
    number = number_for(worker, kind, shared)
    key = key_of(kind, number, me, peer)
    bad, missing, sure = np.int64(0), False, np.int64(0)
    for p in range(t.meta[codes.M_PROPERTIES]):
        bit = np.int64(1) << np.int64(p)
        if left & bit == 0:
            continue
        root = np.int64(t.properties[p, 0])
        is_bad, certain, is_known = decide_property(t, worker, serial, rows, row, root, kind, number, me, peer)
        if peer != 0:
            other_bad, other_certain, other_known = decide_property(
                t, worker, serial, rows, row, root, kind, number, peer, me
            )
            certain = (is_bad and certain) or (other_bad and other_certain) or (certain and other_certain)
            is_bad, is_known = is_bad or other_bad, is_known and other_known
        if is_bad:
            bad |= bit
        if certain:
            sure |= bit << codes.MOST_PROPERTIES if is_bad else bit
        missing |= not is_known
    if sure:
        memo_put(worker, key, sure | memo_get(worker, key))
    return np.int64(MISSING) if missing else bad


@inlined
def evaluate_part(
    t: Any, worker: Any, serial: Any, rows: Any, row: Any, shared: Any, constraints: Any, asked: Any, me: Any, peer: Any
) -> Any:
    """Return the mask of `asked` properties that the state, a replica or a pair violates, and whether all are known."""
    fact = decided_by(worker, shared, me, peer)
    bad = asked & (fact >> codes.MOST_PROPERTIES)
    left = asked & ~(fact | fact >> codes.MOST_PROPERTIES)
    if peer != 0 and fact & asked == asked and number_for(worker, HOLDS_OF_TWO, shared) == NO_NUMBER:
        store_safe_pair(worker, me, peer, constraints + 1)
    found = violations(t, worker, serial, rows, row, shared, left, me, peer) if left else np.int64(0)
    return bad | found, found >= 0


@inlined
def broken_by_messages(t: Any, rows: Any, row: Any) -> Any:
    """Return the mask of message invariants that messages in flight violate."""
    bad = np.int64(0)
    for c in range(inboxes_of(t, rows.shape[1]), rows.shape[1]):
        if t.inbox_codes[rows[row, c]] < 0:
            bad |= t.contents[rows[row, c], codes.C_BAD]
    return bad


@jit
def violated(t: Any, worker: Any, serial: Any, rows: Any, row: Any, constraints: Any) -> Any:
    """Return the mask of invariants, or of constraints, that a flat state violates; or MISSING."""
    base, slots = t.meta[codes.M_SLOT_BASE], slots_of(t, rows.shape[1])
    of_all, of_one, of_two = t.judged[constraints, 0], t.judged[constraints, 1], t.judged[constraints, 2]
    shared = shared_number(t, worker, rows, row)
    bad, known = np.int64(0), True
    # Evaluate the properties of the state as a whole.
    if of_all:
        bad, known = evaluate_part(t, worker, serial, rows, row, shared, constraints, of_all, np.int64(0), np.int64(0))
    # Evaluate those of each replica, and of each pair.
    for s in range(slots if of_one | of_two else 0):
        me = np.int64(rows[row, base + s])
        for other in range(s, (slots if of_two else s + 1) if me != 0 else 0):
            peer = np.int64(rows[row, base + other]) if other != s else np.int64(0)
            if other != s and (peer == 0 or is_safe_pair(worker, me, peer, constraints + 1)):
                continue
            asked = of_one if other == s else of_two
            more, is_known = evaluate_part(t, worker, serial, rows, row, shared, constraints, asked, me, peer)
            bad |= more
            known &= is_known
    if not constraints:
        bad |= broken_by_messages(t, rows, row)
    return bad if known else np.int64(MISSING)


@jit
def evaluate_batch(t: Any, worker: Any, which: Any) -> None:
    """Evaluate the invariants of the worker's states with these indices, and record violations."""
    which = bare(which)
    for i in range(len(which)):
        if worker.fact_counts[NUMBERS_TAKEN]:
            clear_numbers(worker)
        bad = violated(t, worker, False, worker.states, which[i], 0)
        if bad < 0:
            retry_state(worker, which[i])
        else:
            record_violations(worker, which[i], codes.BAD_STATE, codes.S_SEEN, bad)


@jit
def resolve_evaluations(t: Any, worker: Any) -> None:
    """Evaluate the invariants of states that met cache misses again; leave those that need Python waiting."""
    while t.meta[codes.M_SETTLED] < t.meta[codes.M_LEFT]:
        at = np.int64(t.waiting[t.meta[codes.M_SETTLED]])
        if violated(t, worker, True, worker.states, at, 0) < 0:
            t.waiting[t.meta[codes.M_WAITING]] = at
            t.meta[codes.M_WAITING] += 1
        t.meta[codes.M_SETTLED] += 1
