"""Compiled loops along one path: depth-first search and random walks.

A depth-first search has a stack of states to expand, and a hash set with the least depth of each state.

Each step of a random walk draws one of the successors by a hash of the walk's seed and the step's number. Successors
are ordered by fingerprint first: ids depend on the order of discovery, so a draw by id could not be repeated.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kraftcheck.explorer.native.arrays import ArrayGroup, declare_array
from kraftcheck.explorer.native.compiling import inlined, keep_alive, unowned_array
from kraftcheck.explorer.tables.kernel import arrays, codes, jit, maps, resolve
from kraftcheck.explorer.tables.kernel.expand import expand
from kraftcheck.explorer.tables.kernel.packing import MIXED_BITS, hash_words, pack_canonical_row, repack_state
from kraftcheck.explorer.tables.kernel.symmetry import write_least_image

MAX_TABLE_LOAD = 0.75
# Places in `stats`: the first stack place of the last state's successors, and its depth.
STATS_BASE, STATS_DEPTH = codes.STATS_SIZE - 1, codes.STATS_SIZE - 2
# The top of the stack and the number of states, for Python when a table is full.
STATS_TOP, STATS_COUNT = codes.STATS_SIZE - 3, codes.STATS_SIZE - 4
STACK_FULL, SET_FULL, TURN_OVER, EVENT, DONE = 3, 4, 5, 6, 7
NARROW = np.int64(-5)  # an id has outgrown its field of the packing


class StackArrays(ArrayGroup):
    """The stack of a depth-first search: states to expand, with their depths."""

    states = declare_array(np.int32, -1)
    depths = declare_array(np.int32)  # initial states have depth 1


class DepthSetArrays(ArrayGroup):
    """The visited states, with the least depth of each."""

    keys = declare_array(np.uint64, -1)  # packed words, then the least depth at which the state was reached; 0: free


@inlined
def depth_set_place(keys: Any, words: Any, place: Any) -> Any:
    """Return the place of packed words, or the free place where they belong."""
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


@inlined
def depth_first_stop_code(worker: Any, stack: Any, met: Any, top: Any, count: Any) -> Any:
    """Return STACK_FULL, SET_FULL or TURN_OVER if an array may have no room for the next successors, else 0."""
    depths, most = stack.depths, len(worker.succ)
    if top + most >= len(depths) or depths[top - 1] + 1 >= len(worker.states):
        return STACK_FULL
    if len(worker.collected) > 0 and worker.stats[codes.STATS_COLLECTED] + most >= len(worker.collected):
        return TURN_OVER
    return SET_FULL if count + most >= np.int64(len(met.keys) * MAX_TABLE_LOAD) else 0


@inlined
def is_too_deep_or_reached_shallower(
    t: Any, worker: Any, met: Any, packing: Any, depth: Any, limit: Any, image: Any, words: Any
) -> Any:
    """Return whether a state is too deep to expand, or was reached at a smaller depth since it was pushed."""
    if limit <= 0 or depth >= limit:
        return limit > 0
    pack_canonical_key(t, worker, worker.states, depth, 0, image, packing, words)
    return np.int64(met.keys[depth_set_place(met.keys, words, 0), words.shape[1]]) < depth


@inlined
def expand_and_resolve_misses(
    t: Any, worker: Any, packing: Any, depth: Any, image: Any, words: Any, symmetric: Any, groups: Any
) -> Any:
    """Expand the state at `depth` of the current path; return its number of successors, or a negative code.

    Cache misses that need no call in Python are resolved here: with a control row of its own, each state has some.
    """
    n, tries = codes.MISSING, 0
    while n == codes.MISSING and tries <= resolve.MOST_EXPANSIONS_BEFORE_PYTHON:
        n, tries = expand(t, worker, depth), tries + 1
        for k in range(n):
            packed = pack_canonical_key(t, worker, worker.succ, k, 2, image, packing, words)
            if packed != codes.OK:
                n = packed
                break
        if n == codes.MISSING and not resolve.resolve_misses(t, worker, symmetric, groups):
            break
    return n


@inlined
def store_depth(met: Any, words: Any, i: Any, depth: Any, limit: Any) -> Any:
    """Store the depth at which words[i] were reached; return whether they are new, and whether to expand them."""
    keys, stored = met.keys, words.shape[1]
    place = depth_set_place(keys, words, i)
    is_new = keys[place, stored] == 0
    if not is_new and (limit <= 0 or np.int64(keys[place, stored]) <= depth):
        return False, False
    for w in range(stored):
        keys[place, w] = words[i, w]
    keys[place, stored] = np.uint64(depth)
    return is_new, True


@jit
def search_depth_first(
    t: Any, worker: Any, stack: Any, met: Any, packing: Any, limit: Any, deadlocks: Any, turn: Any,
    symmetric: Any, groups: Any,
) -> Any:  # fmt: skip
    """Pop and expand states until an array is full, an event occurs or the turn ends; return the reason.

    `stats` holds the top of the stack and the number of states in the set, before and after. The worker's states are
    the path to the expanded state, by depth. With a limit, a state is expanded again whenever it is reached at a
    smaller depth. For step properties in Python, each expanded state is collected with its depth, and then its
    successors.
    """
    depths, path = stack.depths, worker.states
    stats, succ, columns = worker.stats, worker.succ, worker.states.shape[1]
    own_words, own_image = np.zeros((1, met.keys.shape[1] - 1), np.uint64), np.zeros((2, columns), np.int32)
    words, image = unowned_array(own_words), unowned_array(own_image)
    expanded, top, count = 0, stats[STATS_TOP], stats[STATS_COUNT]
    while top > 0:
        stats[STATS_TOP], stats[STATS_COUNT] = top, count
        # Stop between two states: at the end of the turn, or before an array might have no room.
        why = TURN_OVER if expanded >= turn else depth_first_stop_code(worker, stack, met, top, count)
        if why:
            return why
        # The state on top becomes the end of the path.
        depth = np.int64(depths[top - 1])
        for c in range(columns):
            path[depth, c] = stack.states[top - 1, c]
        if is_too_deep_or_reached_shallower(t, worker, met, packing, depth, limit, image, words):
            top -= 1
            continue
        n = expand_and_resolve_misses(t, worker, packing, depth, image, words, symmetric, groups)
        if n < 0:
            return n
        top -= 1
        stats[STATS_BASE], stats[STATS_DEPTH] = top, depth
        expanded += 1
        if t.meta[codes.META_COLLECTS]:
            arrays.collect_state_for_python(worker, path, depth, 0, depth)
        if n == 0 and deadlocks:
            arrays.record_deadlock(worker, depth)
        # Push the successors, the last one first, so that the first one is expanded first.
        for k in range(n - 1, -1, -1):
            if t.meta[codes.META_COLLECTS]:
                arrays.collect_state_for_python(worker, succ, k, 2, ~depth)
            if not arrays.count_step_and_record_violations(t, worker, depth, k):
                continue
            pack_canonical_key(t, worker, succ, k, 2, image, packing, words)
            is_new, is_open = store_depth(met, words, 0, depth + 1, limit)
            count += is_new
            if is_open:
                for c in range(columns):
                    stack.states[top, c] = succ[k, 2 + c]
                depths[top] = depth + 1
                top += 1
        if stats[codes.STATS_EVENTS]:
            stats[STATS_TOP], stats[STATS_COUNT] = top, count
            return EVENT
    stats[STATS_TOP], stats[STATS_COUNT] = top, count
    keep_alive(own_words)
    keep_alive(own_image)
    return DONE


@inlined
def pack_canonical_key(
    t: Any, worker: Any, states: Any, at: Any, column: Any, image: Any, packing: Any, words: Any
) -> Any:
    """Pack the canonical key of a state; return OK, MISSING where its image is not cached, or NARROW."""
    if t.meta[codes.META_PERMUTATIONS] == 1:
        fits = pack_canonical_row(t, packing, states, at, column, words, 0)
    elif write_least_image(t, worker, states, at, column, image, 0, image[1]):
        fits = pack_canonical_row(t, packing, image, 0, 0, words, 0)
    else:
        return codes.MISSING
    return np.int64(codes.OK) if fits else NARROW


@jit
def insert_starts_into_depth_set(met: Any, words: Any) -> Any:
    """Insert packed states at depth 1, or lower their depth to 1; return the number of new ones."""
    words, count = unowned_array(words), 0
    for i in range(len(words)):
        is_new, _ = store_depth(met, words, i, 1, 1)
        count += is_new
    return count


@jit
def repack_depth_set(met: Any, packing: Any, other: Any, new_packing: Any) -> None:
    """Copy the states of a depth set to an empty set, converted to the packing of the new set."""
    keys, stored = met.keys, met.keys.shape[1] - 1
    own_again = np.zeros((1, other.keys.shape[1] - 1), np.uint64)
    again = unowned_array(own_again)
    for at in range(len(keys)):
        if keys[at, stored] != 0:
            repack_state(keys, at, packing, again, 0, new_packing)
            store_depth(other, again, 0, np.int64(keys[at, stored]), 0)
    keep_alive(own_again)


STATE_BITS, STEP_BITS = 63, 21  # properties of states and of steps
GOING, LONG_ENOUGH, NO_SUCCESSOR, CUT_OFF = 0, 1, 2, 3  # status of a walk; CUT_OFF: every successor is pruned


class WalkArrays(ArrayGroup):
    """A batch of random walks: their actions, lengths, seeds and first violations."""

    taken = declare_array(np.int32, -1)  # walk, index -> action of the step to that state
    broken = declare_array(np.int32, -1)  # walk, property -> first index at which it is violated, or -1
    length = declare_array(np.int64)
    status = declare_array(np.int64)
    refused = declare_array(np.int64)  # successors of the last state that Python rejected
    seeds = declare_array(np.uint64)


@jit
def extend_random_walks(t: Any, worker: Any, walks: Any, fingerprints: Any, first: Any, last: Any, turn: Any) -> None:
    """Extend walks `first` to `last` by at most `turn` steps each, up to a cache miss.

    The worker's states are those along the walks: state `i` of walk `w` is row w * depth + i.
    """
    path, taken, length, status, refused = worker.states, walks.taken, walks.length, walks.status, walks.refused
    succ, depth = worker.succ, walks.taken.shape[1]
    own_order, own_keys = np.zeros(len(succ), np.int64), np.zeros(len(succ), np.uint64)
    order, keys = unowned_array(own_order), unowned_array(own_keys)
    worker.stats[codes.STATS_CODE] = codes.OK
    for w in range(first, last):
        for _ in range(turn):
            if status[w] == GOING and length[w] >= depth:
                status[w] = LONG_ENOUGH
            if status[w] != GOING:
                break
            # A miss ends the walk's turn: once it is resolved, the same step is drawn again.
            at = w * depth + length[w] - 1
            n = expand(t, worker, at)
            if n == codes.MISSING:
                break
            if n == codes.BUFFER_FULL:
                worker.stats[codes.STATS_CODE] = codes.MANY_SUCCESSORS
                return
            fitting = sort_unpruned_successors_by_fingerprint(t, fingerprints, succ, n, order, keys)
            if fitting <= refused[w]:
                status[w] = NO_SUCCESSOR if n == 0 else CUT_OFF
                break
            # Draw a successor, append it to the walk, and record the properties that it is the first to violate.
            k = draw_successor(walks.seeds[w], length[w], order, fitting, refused[w])
            for c in range(path.shape[1]):
                path[at + 1, c] = succ[k, 2 + c]
            taken[w, length[w]] = succ[k, 0]
            bad, over, _ = arrays.successor_violations_and_is_pruned(t, succ, k)
            record_first_walk_violations(walks.broken, w, length[w], 0, STATE_BITS, bad)
            record_first_walk_violations(walks.broken, w, length[w], STATE_BITS, STEP_BITS, over)
            length[w] += 1
    keep_alive(own_order)
    keep_alive(own_keys)


@jit
def draw_walk_seeds_and_starts(seed: Any, first: Any, seeds: Any, chosen: Any, starts: Any) -> None:
    """Write each walk's seed, and the initial state that it starts from."""
    for w in range(len(seeds)):
        seeds[w] = maps.mix64(seed + maps.mix64(np.int64(first + w)))
        chosen[w] = np.int64(((maps.mix64(seeds[w]) >> np.uint64(32)) * np.uint64(starts)) >> np.uint64(32))


@inlined
def sort_unpruned_successors_by_fingerprint(t: Any, fingerprints: Any, succ: Any, n: Any, order: Any, keys: Any) -> Any:
    """Write the indices of the successors that are not pruned, ordered by fingerprint; return their number."""
    fitting = 0
    for k in range(n):
        if arrays.successor_violations_and_is_pruned(t, succ, k)[2]:
            continue
        total = fingerprints.rows[succ[k, 2]]
        for c in range(3, succ.shape[1]):
            if succ[k, c] != 0:
                total += fingerprints.contents[succ[k, c]]
        key = maps.mix64(total ^ maps.mix64(np.int64(succ[k, 0]) + 1))
        j = fitting
        while j > 0 and keys[j - 1] > key:
            keys[j], order[j] = keys[j - 1], order[j - 1]
            j -= 1
        keys[j], order[j] = key, k
        fitting += 1
    return fitting


@inlined
def draw_successor(seed: Any, step: Any, order: Any, n: Any, refused: Any) -> Any:
    """Return a random element of `order`, other than the `refused` elements drawn and rejected for this step before."""
    for q in range(refused + 1):
        drawn = maps.mix64(seed + maps.mix64(np.int64(step) << 32 | np.int64(q)))
        k = q + np.int64(((drawn >> np.uint64(32)) * np.uint64(n - q)) >> np.uint64(32))
        order[q], order[k] = order[k], order[q]
    return order[refused]


@inlined
def record_first_walk_violations(broken: Any, w: Any, place: Any, first: Any, bits: Any, mask: Any) -> None:
    """Record `place` as the first violation of each property in `mask` that the walk has not violated before."""
    for p in range(bits if mask else 0):
        if mask >> p & 1 and broken[w, first + p] < 0:
            broken[w, first + p] = place
