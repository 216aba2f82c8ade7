"""Invariants and constraints of flat states: judged once for each new state."""

from __future__ import annotations

from typing import Any

import numpy as np

from kraftcheck.explorer.tables.kernel import codes
from kraftcheck.explorer.tables.kernel.codes import MISSING
from kraftcheck.explorer.tables.kernel.flat.reading import leaf_of
from kraftcheck.explorer.tables.kernel.native import bare, inlined, jit
from kraftcheck.explorer.tables.kernel.tries import walk_alone
from kraftcheck.explorer.tables.kernel.worker import note, try_again

SMALL = 1 << 12  # ids of local states of which it is remembered what holds of two of them; no replica is in place 0


@inlined
def violated_by(
    t: Any, worker: Any, serial: Any, rows: Any, row: Any, constraints: Any, of_two: Any, me: Any, peer: Any
) -> Any:
    """Return a mask of what does not hold of a replica, or of two.

    With it: whether all holds whatever else there is, and whether it is known of each property.
    """
    bad, certain, known = np.int64(0), True, True
    for p in range(t.meta[codes.M_PROPERTIES]):
        if t.properties[p, 2] != constraints or t.properties[p, 1] != (2 if of_two else 1):
            continue
        root = np.int64(t.properties[p, 0])
        leaf = walk_alone(t, root, me, peer)
        if leaf < 0:
            certain = False
            leaf = leaf_of(t, worker, serial, rows, row, root, me, peer, np.int64(-1))
        if leaf < 0:
            known = False
        elif t.nodes[leaf, codes.A] == 0:
            certain = False
            bad |= np.int64(1) << np.int64(p)
    return bad, certain, known


@jit
def violated(t: Any, worker: Any, serial: Any, rows: Any, row: Any, constraints: Any) -> Any:
    """Return a mask of the invariants, or of the constraints, that do not hold in a flat state; or MISSING.

    Where all hold of a replica, or of two, whatever else there is, that is remembered in `worker.judged`.
    """
    base, slots = t.meta[codes.M_SLOT_BASE], t.meta[codes.M_ROW_SLOTS]
    bad, missing, kinds = np.int64(0), False, np.int64(0)
    for p in range(t.meta[codes.M_PROPERTIES]):
        if t.properties[p, 2] == constraints:
            kinds |= 1 << t.properties[p, 1]
    for s in range(slots if kinds & 6 else 0):
        me = np.int64(rows[row, base + s])
        if me == 0:
            continue
        for other in range(s, slots if kinds & 4 else s + 1):  # of two replicas, each is judged beside the other
            peer = np.int64(rows[row, base + other]) if other != s else np.int64(0)
            if other != s and peer == 0:
                continue
            is_small = me < SMALL and peer < SMALL
            place = me * SMALL + peer if is_small else 0
            if worker.judged[place] >> constraints & 1:
                continue
            certain = True
            for turned in range(1 if other == s else 2):
                one, two = (peer, me) if turned else (me, peer)
                found, sure, known = violated_by(t, worker, serial, rows, row, constraints, other != s, one, two)
                bad |= found
                certain &= sure
                missing |= not known
            if certain and is_small:
                worker.judged[place] |= 1 << constraints
    for p in range(t.meta[codes.M_PROPERTIES] if kinds & 1 else 0):
        if t.properties[p, 2] == constraints and t.properties[p, 1] == 0:
            root = np.int64(t.properties[p, 0])
            leaf = leaf_of(t, worker, serial, rows, row, root, np.int64(0), np.int64(0), np.int64(-1))
            if leaf < 0:
                missing = True
            elif t.nodes[leaf, codes.A] == 0:
                bad |= np.int64(1) << np.int64(p)
    if not constraints:
        for c in range(t.meta[codes.M_INBOXES], rows.shape[1]):
            if t.inbox_codes[rows[row, c]] < 0:
                bad |= t.contents[rows[row, c], codes.C_BAD]
    return np.int64(MISSING) if missing else bad


@inlined
def note_violated(worker: Any, state: Any, bad: Any) -> None:
    """Note the invariants that are violated for the first time."""
    if bad & ~worker.stats[codes.S_SEEN]:
        worker.stats[codes.S_SEEN] |= bad
        note(worker, state, codes.BAD_STATE, bad)


@jit
def judge_batch(t: Any, worker: Any, which: Any) -> None:
    """Judge the worker's states of these numbers, and note what is violated."""
    which = bare(which)
    for i in range(len(which)):
        bad = violated(t, worker, False, worker.states, which[i], 0)
        if bad < 0:
            try_again(worker, which[i])
        else:
            note_violated(worker, which[i], bad)


@jit
def resolve_judged(t: Any, worker: Any) -> None:
    """Ask for what flat states missed that were judged; see `resolve`."""
    while t.meta[codes.M_SETTLED] < t.meta[codes.M_LEFT]:
        at = np.int64(t.waiting[t.meta[codes.M_SETTLED]])
        if violated(t, worker, True, worker.states, at, 0) < 0:
            t.waiting[t.meta[codes.M_WAITING]] = at
            t.meta[codes.M_WAITING] += 1
        t.meta[codes.M_SETTLED] += 1
