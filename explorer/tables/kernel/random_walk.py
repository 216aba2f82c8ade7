"""Random walks in the kernel.

Each step draws one of the successors by a hash of the walk's seed and the step's number. Successors are ordered by
fingerprint first: ids depend on the order of discovery, so a draw by id could not be repeated.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kraftcheck.explorer.native.arrays import Arrays, array
from kraftcheck.explorer.tables.kernel.codes import FULL, MANY_SUCCESSORS, MISSING, OK, S_CODE
from kraftcheck.explorer.tables.kernel.expand import expand
from kraftcheck.explorer.tables.kernel.maps import mix
from kraftcheck.explorer.tables.kernel.native import bare, inlined, jit, keep
from kraftcheck.explorer.tables.kernel.worker import violations_of

STATE_BITS, STEP_BITS = 63, 21  # properties of states and of steps
GOING, LONG_ENOUGH, NO_SUCCESSOR, CUT_OFF = 0, 1, 2, 3  # status of a walk; CUT_OFF: every successor is pruned


class WalkArrays(Arrays):
    """A batch of random walks: their actions, lengths, seeds and first violations."""

    taken = array(np.int32, -1)  # walk, index -> action of the step to that state
    broken = array(np.int32, -1)  # walk, property -> first index at which it is violated, or -1
    length = array(np.int64)
    status = array(np.int64)
    refused = array(np.int64)  # successors of the last state that Python rejected
    seeds = array(np.uint64)


@jit
def advance_walks(t: Any, worker: Any, walks: Any, fingerprints: Any, first: Any, last: Any, turn: Any) -> None:
    """Extend walks `first` to `last` by at most `turn` steps each, up to a cache miss.

    The worker's states are those along the walks: state `i` of walk `w` is row w * depth + i.
    """
    path, taken, length, status, refused = worker.states, walks.taken, walks.length, walks.status, walks.refused
    succ, depth = worker.succ, walks.taken.shape[1]
    own_order, own_keys = np.zeros(len(succ), np.int64), np.zeros(len(succ), np.uint64)
    order, keys = bare(own_order), bare(own_keys)
    worker.stats[S_CODE] = OK
    for w in range(first, last):
        for _ in range(turn):
            if status[w] == GOING and length[w] >= depth:
                status[w] = LONG_ENOUGH
            if status[w] != GOING:
                break
            # A miss ends the walk's turn: once it is resolved, the same step is drawn again.
            at = w * depth + length[w] - 1
            n = expand(t, worker, at)
            if n == MISSING:
                break
            if n == FULL:
                worker.stats[S_CODE] = MANY_SUCCESSORS
                return
            fitting = sort_successors(t, fingerprints, succ, n, order, keys)
            if fitting <= refused[w]:
                status[w] = NO_SUCCESSOR if n == 0 else CUT_OFF
                break
            # Draw a successor, append it to the walk, and record the properties that it is the first to violate.
            k = choose(walks.seeds[w], length[w], order, fitting, refused[w])
            for c in range(path.shape[1]):
                path[at + 1, c] = succ[k, 2 + c]
            taken[w, length[w]] = succ[k, 0]
            bad, over, _ = violations_of(t, succ, k)
            record_first(walks.broken, w, length[w], 0, STATE_BITS, bad)
            record_first(walks.broken, w, length[w], STATE_BITS, STEP_BITS, over)
            length[w] += 1
    keep(own_order)
    keep(own_keys)


@jit
def draw_seeds(seed: Any, first: Any, seeds: Any, chosen: Any, starts: Any) -> None:
    """Write each walk's seed, and the initial state that it starts from."""
    for w in range(len(seeds)):
        seeds[w] = mix(seed + mix(np.int64(first + w)))
        chosen[w] = np.int64(((mix(seeds[w]) >> np.uint64(32)) * np.uint64(starts)) >> np.uint64(32))


@inlined
def sort_successors(t: Any, fingerprints: Any, succ: Any, n: Any, order: Any, keys: Any) -> Any:
    """Write the indices of the successors that are not pruned, ordered by fingerprint; return their number."""
    fitting = 0
    for k in range(n):
        if violations_of(t, succ, k)[2]:
            continue
        total = fingerprints.rows[succ[k, 2]]
        for c in range(3, succ.shape[1]):
            if succ[k, c] != 0:
                total += fingerprints.contents[succ[k, c]]
        key = mix(total ^ mix(np.int64(succ[k, 0]) + 1))
        j = fitting
        while j > 0 and keys[j - 1] > key:
            keys[j], order[j] = keys[j - 1], order[j - 1]
            j -= 1
        keys[j], order[j] = key, k
        fitting += 1
    return fitting


@inlined
def choose(seed: Any, step: Any, order: Any, n: Any, refused: Any) -> Any:
    """Return a random element of `order`, other than the `refused` elements drawn and rejected for this step before."""
    for q in range(refused + 1):
        drawn = mix(seed + mix(np.int64(step) << 32 | np.int64(q)))
        k = q + np.int64(((drawn >> np.uint64(32)) * np.uint64(n - q)) >> np.uint64(32))
        order[q], order[k] = order[k], order[q]
    return order[refused]


@inlined
def record_first(broken: Any, w: Any, place: Any, first: Any, bits: Any, mask: Any) -> None:
    """Record `place` as the first violation of each property in `mask` that the walk has not violated before."""
    for p in range(bits if mask else 0):
        if mask >> p & 1 and broken[w, first + p] < 0:
            broken[w, first + p] = place
