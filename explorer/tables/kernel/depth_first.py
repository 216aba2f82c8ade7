"""Depth-first search."""


from __future__ import annotations

from typing import Any

import numpy as np

from kraftcheck.explorer.tables.kernel.directory import (
    contents_of,
    meta_of,
    permuted_contents_of,
    permuted_rows_of,
    permuted_slots_of,
    row_info_of,
)
from kraftcheck.explorer.tables.kernel.expand import expand
from kraftcheck.explorer.tables.kernel.hash_set import MAX_LOAD, base_place, home_of, insert, locate
from kraftcheck.explorer.tables.kernel.layout import (
    BAD,
    C_BAD,
    M_PERMUTATIONS,
    MISSING,
    PRUNED,
    R_BAD,
    R_FLAGS,
    S_DEADLOCK,
    S_DONE,
    S_EVENTS,
    S_SEEN,
    S_STEP_SEEN,
    STATS_SIZE,
    STEP_BAD,
    STEP_PRUNED,
)
from kraftcheck.explorer.tables.kernel.native import bare, inlined, jit
from kraftcheck.explorer.tables.kernel.notes import note
from kraftcheck.explorer.tables.kernel.packing import hash_words, pack, put_bits, take_bits
from kraftcheck.explorer.tables.kernel.symmetry import canonical

MAX_PLACE = 65_534
S_BASE, S_DEPTH = STATS_SIZE - 1, STATS_SIZE - 2  # where the last state's successors begin, and its depth
STACK_FULL, SET_FULL, TURN_OVER, EVENT, DONE = 3, 4, 5, 6, 7



@jit
def descend(
    t: Any, stack: Any, depths: Any, top: Any, path: Any, succ: Any, image: Any, position: Any, width: Any,
    stored: Any, keys: Any, places: Any, count: Any, limit: Any, fired: Any, events: Any, needs: Any, stats: Any,
    deadlocks: Any, turn: Any,
) -> Any:  # fmt: skip
    """Pop and expand states until something stops it; return why, the top of the stack and the states in the set.

    The column behind an entry's words holds the depth at which the state was met first, or nearer since.
    """
    meta, contents, row_info = meta_of(t), contents_of(t), row_info_of(t)
    stack, depths, path, succ, image = bare(stack), bare(depths), bare(path), bare(succ), bare(image)
    position, width, keys, places = bare(position), bare(width), bare(keys), bare(places)
    fired, events, needs, stats = bare(fired), bare(events), bare(needs), bare(stats)
    own_words = np.zeros((1, stored + 1), np.uint64)
    words = bare(own_words)
    columns = stack.shape[1]
    room = np.int64(len(places) * MAX_LOAD)
    permutations = meta[M_PERMUTATIONS]
    expanded = 0
    while top > 0:
        if expanded >= turn:
            return TURN_OVER, top, count
        if top + len(succ) >= len(stack) or depths[top - 1] + 1 >= len(path):
            return STACK_FULL, top, count
        if count + len(succ) >= room:
            return SET_FULL, top, count
        depth = np.int64(depths[top - 1])
        for c in range(columns):
            path[depth, c] = stack[top - 1, c]
        if limit > 0:
            if depth >= limit:
                stats[S_DONE] = 1  # something was cut off
                top -= 1
                continue
            identify(t, permutations, path, depth, 0, image, position, width, words, needs, stats)
            home = home_of(words, 0, len(places))
            if np.int64(keys[locate(keys, places, words, 0, home), stored]) < depth:
                top -= 1  # met again nearer to the start since it was put here
                continue
        n = expand(t, path, depth, succ, needs, stats)
        for k in range(n):
            if not identify(t, permutations, succ, k, 2, image, position, width, words, needs, stats):
                n = MISSING
                break
        if n < 0:
            return n, top, count
        top -= 1
        stats[S_BASE], stats[S_DEPTH] = top, depth
        expanded += 1
        if n == 0 and deadlocks and not stats[S_DEADLOCK]:
            stats[S_DEADLOCK] = 1
            note(events, stats, depth, 0, 0)
        for k in range(n - 1, -1, -1):
            fired[succ[k, 0]] += 1
            step_flags = np.int64(succ[k, 1])
            flags = row_info[succ[k, 2], R_FLAGS]
            bad = row_info[succ[k, 2], R_BAD] if flags & BAD else np.int64(0)
            for c in range(3, 2 + columns):
                bad |= contents[succ[k, c], C_BAD]
            if bad & ~stats[S_SEEN]:
                stats[S_SEEN] |= bad
                note(events, stats, depth, 1, bad)
            if step_flags & STEP_BAD and (step_flags >> 2) & ~stats[S_STEP_SEEN]:
                stats[S_STEP_SEEN] |= step_flags >> 2
                note(events, stats, depth, 2, step_flags >> 2)
            if step_flags & STEP_PRUNED or flags & PRUNED:
                continue
            identify(t, permutations, succ, k, 2, image, position, width, words, needs, stats)
            home = home_of(words, 0, len(places))
            place = insert(keys, places, words, 0, home, MAX_PLACE)
            if place >= 0:
                count += 1
            elif limit > 0:
                place = locate(keys, places, words, 0, home)
                if np.int64(keys[place, stored]) <= depth + 1:
                    continue
            else:
                continue
            keys[place, stored] = np.uint64(depth + 1)
            for c in range(columns):
                stack[top, c] = succ[k, 2 + c]
            depths[top] = depth + 1
            top += 1
        if stats[S_EVENTS]:
            return EVENT, top, count
    return DONE, top, count


@inlined
def identify(
    t: Any, permutations: Any, states: Any, at: Any, column: Any, image: Any, position: Any, width: Any, words: Any,
    needs: Any, stats: Any,
) -> bool:  # fmt: skip
    """Pack what identifies a state; False where its images are not known."""
    contents, row_info = contents_of(t), row_info_of(t)
    known = True
    if permutations == 1:
        pack(row_info, contents, position, width, states, at, column, words, 0)
    else:
        known = canonical(
            permutations, row_info, permuted_rows_of(t), permuted_contents_of(t), permuted_slots_of(t), states, at,
            column, image.shape[1], image, 0, 0, image[1], needs, stats,
        )  # fmt: skip
        if known:
            pack(row_info, contents, position, width, image, 0, 0, words, 0)
    return known


@jit
def enter(words: Any, keys: Any, places: Any) -> Any:
    """Insert packed states at depth 1; return how many are new."""
    words, keys, places = bare(words), bare(keys), bare(places)
    count = 0
    for i in range(len(words)):
        place = insert(keys, places, words, i, home_of(words, i, len(places)), MAX_PLACE)
        if place >= 0:
            keys[place, words.shape[1] - 1] = 1
            count += 1
    return count


@jit
def move(
    keys: Any, places: Any, position: Any, width: Any, stored: Any, new_keys: Any, new_places: Any,
    new_position: Any, new_width: Any, new_stored: Any,
) -> None:  # fmt: skip
    """Insert every entry of one set into another, which may be packed differently."""
    keys, places, new_keys, new_places = bare(keys), bare(places), bare(new_keys), bare(new_places)
    position, width, new_position, new_width = bare(position), bare(width), bare(new_position), bare(new_width)
    own_words, own_again = np.zeros((1, stored + 1), np.uint64), np.zeros((1, new_stored + 1), np.uint64)
    words, again = bare(own_words), bare(own_again)
    capacity = len(places)
    for at in range(capacity):
        if places[at] == 0:
            continue
        for w in range(stored):
            words[0, w] = keys[at, w]
        home = at - (np.int64(places[at]) - 1)
        if home < 0:
            home += capacity
        rest = home - base_place(hash_words(words, 0), capacity)
        if rest < 0:
            rest += capacity
        words[0, stored] = np.uint64(rest)
        for w in range(new_stored + 1):
            again[0, w] = np.uint64(0)
        for f in range(len(position)):
            put_bits(again, 0, new_position[f], new_width[f], take_bits(words, 0, position[f], width[f]))
        place = insert(new_keys, new_places, again, 0, home_of(again, 0, len(new_places)), MAX_PLACE)
        new_keys[place, new_stored] = keys[at, stored]
