"""Random walks."""

# ruff: noqa: D103 - the functions are documented where their contract is not plain from the name
from __future__ import annotations

from typing import Any

import numpy as np

from kraftcheck.explorer.tables.kernel.directory import contents_of, row_info_of
from kraftcheck.explorer.tables.kernel.expand import expand
from kraftcheck.explorer.tables.kernel.layout import (
    BAD,
    C_BAD,
    FULL,
    MANY_SUCCESSORS,
    MISSING,
    OK,
    PRUNED,
    R_BAD,
    R_FLAGS,
    S_CODE,
    STEP_BAD,
    STEP_PRUNED,
)
from kraftcheck.explorer.tables.kernel.maps import mix
from kraftcheck.explorer.tables.kernel.native import bare, inlined, jit

STATE_BITS, STEP_BITS = 63, 21  # properties of states and of steps
GOING, LONG_ENOUGH, STUCK, CUT_OFF = 0, 1, 2, 3  # how a walk stands; the last: every successor is pruned



@jit
def walk_on(
    t: Any, of_rows: Any, of_contents: Any, path: Any, taken: Any, length: Any, status: Any, refused: Any, broken: Any,
    seeds: Any, first: Any, last: Any, turn: Any, succ: Any, order: Any, keys: Any, needs: Any, stats: Any,
) -> None:  # fmt: skip
    """Go on with walks `first` to `last` by up to `turn` steps each; what is missing is noted in `needs`.

    `path[w * depth + i]` is state `i` of walk `w`, `taken[w, i]` the action that led there, `broken[w, p]` the first
    place at which property `p` is violated, or -1.
    """
    contents, row_info = contents_of(t), row_info_of(t)
    of_rows, of_contents, path, taken = bare(of_rows), bare(of_contents), bare(path), bare(taken)
    length, status, refused, broken = bare(length), bare(status), bare(refused), bare(broken)
    seeds, succ, order, keys, needs, stats = bare(seeds), bare(succ), bare(order), bare(keys), bare(needs), bare(stats)
    depth, columns = taken.shape[1], path.shape[1]
    stats[S_CODE] = OK
    for w in range(first, last):
        for _ in range(turn):
            if status[w] == GOING and length[w] >= depth:
                status[w] = LONG_ENOUGH
            if status[w] != GOING:
                break
            at = w * depth + length[w] - 1
            n = expand(t, path, at, succ, needs, stats)
            if n == MISSING:
                break
            if n == FULL:
                stats[S_CODE] = MANY_SUCCESSORS
                return
            fitting = sort_successors(row_info, of_rows, of_contents, succ, n, columns, order, keys)
            if fitting <= refused[w]:
                status[w] = STUCK if n == 0 else CUT_OFF
                break
            k = choose(seeds[w], length[w], order, fitting, refused[w])
            for c in range(columns):
                path[at + 1, c] = succ[k, 2 + c]
            taken[w, length[w]] = succ[k, 0]
            note_broken(row_info, contents, succ, k, columns, broken, w, length[w])
            length[w] += 1


@jit
def draw_seeds(seed: Any, first: Any, seeds: Any, chosen: Any, starts: Any) -> None:
    """Write what the choices of walks are drawn from, and which of the initial states each begins with."""
    for w in range(len(seeds)):
        seeds[w] = mix(seed + mix(np.int64(first + w)))
        chosen[w] = np.int64(((mix(seeds[w]) >> np.uint64(32)) * np.uint64(starts)) >> np.uint64(32))


@inlined
def sort_successors(
    row_info: Any, of_rows: Any, of_contents: Any, succ: Any, n: Any, columns: Any, order: Any, keys: Any
) -> Any:
    """Write the numbers of the successors that are not pruned, in a stable order; return how many there are."""
    fitting = 0
    for k in range(n):
        if succ[k, 1] & STEP_PRUNED or row_info[succ[k, 2], R_FLAGS] & PRUNED:
            continue
        name = of_rows[succ[k, 2]]
        for c in range(3, 2 + columns):
            if succ[k, c] != 0:
                name += of_contents[succ[k, c]]
        key = mix(name ^ mix(np.int64(succ[k, 0]) + 1))
        j = fitting
        while j > 0 and keys[j - 1] > key:
            keys[j], order[j] = keys[j - 1], order[j - 1]
            j -= 1
        keys[j], order[j] = key, k
        fitting += 1
    return fitting


@inlined
def choose(seed: Any, step: Any, order: Any, n: Any, refused: Any) -> Any:
    """Return what comes behind the first `refused` of a random order: each of the others is as likely as any."""
    for q in range(refused + 1):
        drawn = mix(seed + mix(np.int64(step) << 32 | np.int64(q)))
        k = q + np.int64(((drawn >> np.uint64(32)) * np.uint64(n - q)) >> np.uint64(32))
        order[q], order[k] = order[k], order[q]
    return order[refused]


@inlined
def note_broken(
    row_info: Any, contents: Any, succ: Any, k: Any, columns: Any, broken: Any, w: Any, place: Any
) -> None:
    bad = row_info[succ[k, 2], R_BAD] if row_info[succ[k, 2], R_FLAGS] & BAD else np.int64(0)
    for c in range(3, 2 + columns):
        bad |= contents[succ[k, c], C_BAD]
    over = np.int64(succ[k, 1]) >> 2 if succ[k, 1] & STEP_BAD else np.int64(0)
    if bad:
        for p in range(STATE_BITS):
            if bad >> p & 1 and broken[w, p] < 0:
                broken[w, p] = place
    if over:
        for p in range(STEP_BITS):
            if over >> p & 1 and broken[w, STATE_BITS + p] < 0:
                broken[w, STATE_BITS + p] = place
