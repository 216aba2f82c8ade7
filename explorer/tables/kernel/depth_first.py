"""Depth-first search: a stack of states to expand, and one set of all that were met."""

from __future__ import annotations

from typing import Any

import numpy as np

from kraftcheck.explorer.native.arrays import Arrays, array
from kraftcheck.explorer.tables.kernel.codes import M_PERMUTATIONS, MISSING, S_EVENTS, STATS_SIZE
from kraftcheck.explorer.tables.kernel.expand import expand
from kraftcheck.explorer.tables.kernel.native import bare, inlined, jit, keep
from kraftcheck.explorer.tables.kernel.packing import MIXED_BITS, hash_words, pack, repack_one
from kraftcheck.explorer.tables.kernel.symmetry import canonical
from kraftcheck.explorer.tables.kernel.worker import is_kept, note_deadlock

MAX_LOAD = 0.75
S_BASE, S_DEPTH = STATS_SIZE - 1, STATS_SIZE - 2  # where the last state's successors begin, and its depth
STACK_FULL, SET_FULL, TURN_OVER, EVENT, DONE = 3, 4, 5, 6, 7


class StackArrays(Arrays):
    """The states that are to be expanded."""

    states = array(np.int32, -1)
    depths = array(np.int32)  # of each, from 1 on


class DepthSetArrays(Arrays):
    """The states that were met."""

    keys = array(np.uint64, -1)  # packed words, and behind them the least depth at which the state was met, or 0


@inlined
def place_of(keys: Any, words: Any, place: Any) -> Any:
    """Return where packed words stand, or the free place where they belong."""
    stored, capacity = words.shape[1], np.uint64(len(keys))
    at = np.int64(((hash_words(words, place) >> np.uint64(MIXED_BITS - 32)) * capacity) >> np.uint64(32))
    while keys[at, stored] != 0:
        same = True
        for w in range(stored):
            same &= keys[at, w] == words[place, w]
        if same:
            break
        at += 1
        if at == len(keys):
            at = np.int64(0)
    return at


@jit
def descend(
    t: Any, worker: Any, stack: Any, met: Any, packing: Any, top: Any, count: Any, limit: Any, deadlocks: Any, turn: Any
) -> Any:
    """Pop and expand states until something stops it; return why, the top of the stack and the states in the set.

    The worker's states are the path to the one that is expanded, by depth.
    """
    depths, path, keys = stack.depths, worker.states, met.keys
    stats, succ = worker.stats, worker.succ
    columns, stored = path.shape[1], keys.shape[1] - 1
    own_words, own_image = np.zeros((1, stored), np.uint64), np.zeros((2, columns), np.int32)
    words, image = bare(own_words), bare(own_image)
    room = np.int64(len(keys) * MAX_LOAD)
    expanded = 0
    while top > 0:
        if expanded >= turn:
            return TURN_OVER, top, count
        if top + len(succ) >= len(depths) or depths[top - 1] + 1 >= len(path):
            return STACK_FULL, top, count
        if count + len(succ) >= room:
            return SET_FULL, top, count
        depth = np.int64(depths[top - 1])
        for c in range(columns):
            path[depth, c] = stack.states[top - 1, c]
        if limit > 0:
            if depth >= limit:
                top -= 1
                continue
            identify(t, worker, path, depth, 0, image, packing, words)
            if np.int64(keys[place_of(keys, words, 0), stored]) < depth:
                top -= 1  # met again nearer to the start since it was put here
                continue
        n = expand(t, worker, depth)
        for k in range(n):
            if not identify(t, worker, succ, k, 2, image, packing, words):
                n = MISSING
                break
        if n < 0:
            return n, top, count
        top -= 1
        stats[S_BASE], stats[S_DEPTH] = top, depth
        expanded += 1
        if n == 0 and deadlocks:
            note_deadlock(worker, depth)
        for k in range(n - 1, -1, -1):
            if not is_kept(t, worker, depth, k):
                continue
            identify(t, worker, succ, k, 2, image, packing, words)
            place = place_of(keys, words, 0)
            if keys[place, stored] == 0:
                count += 1
            elif limit <= 0 or np.int64(keys[place, stored]) <= depth + 1:
                continue
            for w in range(stored):
                keys[place, w] = words[0, w]
            keys[place, stored] = np.uint64(depth + 1)
            for c in range(columns):
                stack.states[top, c] = succ[k, 2 + c]
            depths[top] = depth + 1
            top += 1
        if stats[S_EVENTS]:
            return EVENT, top, count
    keep(own_words)
    keep(own_image)
    return DONE, top, count


@inlined
def identify(t: Any, worker: Any, states: Any, at: Any, column: Any, image: Any, packing: Any, words: Any) -> Any:
    """Pack what identifies a state; False where its images are not known."""
    if t.meta[M_PERMUTATIONS] == 1:
        pack(t, packing, states, at, column, words, 0)
        return True
    known = canonical(t, worker, states, at, column, image.shape[1], image, 0, 0, image[1])
    if known:
        pack(t, packing, image, 0, 0, words, 0)
    return known


@jit
def enter(met: Any, words: Any) -> Any:
    """Insert packed states at depth 1, or move them there; return how many are new."""
    keys, words = met.keys, bare(words)
    count, stored = 0, words.shape[1]
    for i in range(len(words)):
        place = place_of(keys, words, i)
        if keys[place, stored] == 0:
            for w in range(stored):
                keys[place, w] = words[i, w]
            count += 1
        keys[place, stored] = 1
    return count


@jit
def move(met: Any, packing: Any, other: Any, new_packing: Any) -> None:
    """Insert the states of one set into another, which may be packed differently."""
    keys, new_keys = met.keys, other.keys
    stored, new_stored = keys.shape[1] - 1, new_keys.shape[1] - 1
    own_again = np.zeros((1, new_stored), np.uint64)
    again = bare(own_again)
    for at in range(len(keys)):
        if keys[at, stored] != 0:
            repack_one(keys, at, packing, again, 0, new_packing)
            place = place_of(new_keys, again, 0)
            for w in range(new_stored):
                new_keys[place, w] = again[0, w]
            new_keys[place, new_stored] = keys[at, stored]
    keep(own_again)
