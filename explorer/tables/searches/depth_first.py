"""Depth first over the tables: whole, bounded, and by iterative deepening."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from kraftcheck.explorer.result import Options, Search, TraceStep
from kraftcheck.explorer.tables.engine import Stop, TableSearch
from kraftcheck.explorer.tables.kernel import expand as hot
from kraftcheck.explorer.tables.kernel.directory import (
    contents_of,
    meta_of,
    permuted_contents_of,
    permuted_rows_of,
    permuted_slots_of,
    row_info_of,
)
from kraftcheck.explorer.tables.kernel.expand import FULL, MISSING, S_DONE, S_EVENTS, hash_words, pack, put_bits
from kraftcheck.explorer.tables.kernel.layout import (
    BAD,
    C_BAD,
    M_PERMUTATIONS,
    PRUNED,
    R_BAD,
    R_FLAGS,
    STEP_BAD,
    STEP_PRUNED,
)
from kraftcheck.explorer.tables.kernel.native import bare, inlined, jit
from kraftcheck.explorer.tables.states.visited import MAX_LOAD, Packing, base_place, home_of, insert, locate, take_bits
from kraftcheck.spec.language.protocol import Protocol

STATES_A_TURN = 50_000  # states expanded between two looks at the clock
SLOW_TURNS = 500  # turns of one state
MAX_PLACE = 65_534
S_BASE, S_DEPTH = hot.STATS_SIZE - 1, hot.STATS_SIZE - 2  # where the last state's successors begin, and its depth
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
        n = hot.expand(t, path, depth, succ, needs, stats)
        for k in range(n):
            if not identify(t, permutations, succ, k, 2, image, position, width, words, needs, stats):
                n = MISSING
                break
        if n < 0:
            return n, top, count
        top -= 1
        stats[S_BASE], stats[S_DEPTH] = top, depth
        expanded += 1
        if n == 0 and deadlocks and not stats[hot.S_DEADLOCK]:
            stats[hot.S_DEADLOCK] = 1
            hot.note(events, stats, depth, 0, 0)
        for k in range(n - 1, -1, -1):
            fired[succ[k, 0]] += 1
            step_flags = np.int64(succ[k, 1])
            flags = row_info[succ[k, 2], R_FLAGS]
            bad = row_info[succ[k, 2], R_BAD] if flags & BAD else np.int64(0)
            for c in range(3, 2 + columns):
                bad |= contents[succ[k, c], C_BAD]
            if bad & ~stats[hot.S_SEEN]:
                stats[hot.S_SEEN] |= bad
                hot.note(events, stats, depth, 1, bad)
            if step_flags & STEP_BAD and (step_flags >> 2) & ~stats[hot.S_STEP_SEEN]:
                stats[hot.S_STEP_SEEN] |= step_flags >> 2
                hot.note(events, stats, depth, 2, step_flags >> 2)
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
        known = hot.canonical(
            permutations, row_info, permuted_rows_of(t), permuted_contents_of(t), permuted_slots_of(t), states, at,
            column, image.shape[1], image, 0, 0, image[1], needs, stats,
        )  # fmt: skip
        if known:
            pack(row_info, contents, position, width, image, 0, 0, words, 0)
    return known


@jit
def enter(
    t: Any, rows: Any, column: Any, position: Any, width: Any, words: Any, keys: Any, places: Any
) -> Any:
    """Insert states, which stand in rows from a column on, at depth 1; return how many are new."""
    contents, row_info = contents_of(t), row_info_of(t)
    position, width, rows, words, keys, places = (
        bare(position), bare(width), bare(rows), bare(words), bare(keys), bare(places)
    )  # fmt: skip
    count = 0
    for i in range(len(rows)):
        pack(row_info, contents, position, width, rows, i, column, words, 0)
        place = insert(keys, places, words, 0, home_of(words, 0, len(places)), MAX_PLACE)
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


class DepthFirst(TableSearch):
    """One thread with a stack; the whole set of states in one table."""

    def __init__(self, protocol: Protocol, options: Options, workers: int = 1) -> None:
        super().__init__(protocol, options, 1)
        self.worker = self.pool[0]
        self._empty()

    def _empty(self) -> None:
        words = self.packing.words
        self.keys: NDArray[np.uint64] = np.zeros((1 << 12, words + 1), np.uint64)
        self.places: NDArray[np.uint16] = np.zeros(1 << 12, np.uint16)
        self.count = 0
        if self.slow is not None:
            self.slow.forget()
        self.path = np.zeros((1 << 10, self.learner.width), np.int32)

    @property
    def distinct(self) -> int:
        """States in the set that are within the constraints."""
        return self.count - self.beyond

    def search(self) -> None:
        """Search down to the depth that is asked for."""
        self._search(self.begin(), self.options.max_depth or 0)

    def _search(self, starts: NDArray[np.int32], limit: int) -> None:
        """Search from the initial states, down to `limit` states along a path (0: no limit)."""
        worker, learner = self.worker, self.learner
        worker.stats[S_DONE] = 0
        stack = np.zeros((1 << 14, learner.width), np.int32)
        depths = np.zeros(1 << 14, np.int32)
        stack[: len(starts)], depths[: len(starts)], top = starts[::-1], 1, len(starts)
        self._enter(starts)
        self.check_starts()
        turns = 0
        while True:
            stack, self.path = self.widened(stack), self.widened(self.path)
            worker.fit(0, learner.width, self.copies, 0)
            worker.stats[hot.S_NEEDS], worker.stats[S_BASE] = 0, -1
            self._fit()
            image = np.zeros((2, learner.width), np.int32)
            code, top, self.count = descend(
                learner.tables, stack, depths, top, self.path, worker.succ, image, self.packing.position,
                self.packing.width, self.packing.words, self.keys, self.places, self.count, limit, worker.fired,
                worker.events, worker.needs, worker.stats, self.options.deadlock, self._turn(),
            )  # fmt: skip
            if self.slow is not None and worker.stats[S_BASE] >= 0:
                top = self._check_slowly(stack, int(worker.stats[S_BASE]), int(top))
            self.stop_at_max_states()
            if code == DONE:
                break
            if code == MISSING:
                self.learn(self.path, [worker])
            elif code == FULL:
                worker.succ = np.zeros((2 * len(worker.succ), worker.succ.shape[1]), np.int32)
            elif code == STACK_FULL:
                stack, depths = _doubled(stack), _doubled(depths)
                if depths[:top].max() + 2 >= len(self.path):
                    self.path = _doubled(self.path)
            elif code == SET_FULL:
                self._move(self.packing, max(2 * len(self.places), 4 * len(worker.succ)))
            elif code == EVENT:
                self._events(self.path)
            turns += 1
            if self.slow is None or turns % SLOW_TURNS == 0:
                self.report(int(top))
        if worker.stats[S_DONE] and limit:
            self.stop_at("max_depth")

    def _turn(self) -> int:
        """Return how many states to expand before the next look: one where Python must look at each successor."""
        if self.slow is not None:
            return 1
        if self.options.max_states is None:
            return STATES_A_TURN
        return max(1, min(STATES_A_TURN, (self.options.max_states - self.distinct) // 8))

    def _check_slowly(self, stack: NDArray[np.int32], base: int, top: int) -> int:
        """Check the successors stack[base:top] of the state expanded last; return the top without those beyond."""
        assert self.slow is not None
        depth = int(self.worker.stats[S_DEPTH])
        self.slow.pruned(self.path, np.array([depth]), self.trace_to)
        found = [stack[base:top][::-1].copy()] if top > base else []
        self.slow.admit(found, 0, lambda row: self.behaviour([*self.path[1 : depth + 1], row]))
        for kept in found:
            stack[base : base + len(kept)] = kept[::-1]
            base += len(kept)
        return base

    def _enter(self, starts: NDArray[np.int32]) -> None:
        self._fit()
        learner, layout = self.learner, self.packing
        rows = self.identified(starts)
        words = np.zeros((1, layout.words + 1), np.uint64)
        self.count += enter(
            learner.tables, rows, rows.shape[1] - learner.width, layout.position, layout.width, words, self.keys,
            self.places,
        )  # fmt: skip

    def _fit(self) -> None:
        new = self.next_packing()
        if new is not None:
            self._move(new, len(self.places))

    def _move(self, new: Packing, capacity: int) -> None:
        old, fields = self.packing, len(self.packing.position)
        keys, places = np.zeros((capacity, new.words + 1), np.uint64), np.zeros(capacity, np.uint16)
        move(
            self.keys, self.places, old.position, old.width, old.words, keys, places, new.position[:fields],
            new.width[:fields], new.words,
        )  # fmt: skip
        self.keys, self.places, self.packing = keys, places, new

    def trace_to(self, rows: NDArray[np.int32], index: int) -> tuple[TraceStep, ...]:
        """Return the behaviour on the path down to a depth."""
        return self.behaviour(list(rows[1 : index + 1]))


class Deepening(DepthFirst):
    """Iterative deepening: depth first within 1, 2, 3 ... states along a path; the first counterexample is shortest."""

    def search(self) -> None:
        """Search within one more state along a path each time; the counts are those of the last round."""
        limit, most = 1, self.options.max_depth
        starts = self.begin()
        while True:
            self.worker.fired[:] = 0
            self.worker.stats[hot.S_DEADLOCK] = 0
            self._empty()
            self._search_within(starts, limit)
            if not self.worker.stats[S_DONE]:
                break
            if limit == most:
                self.stop_at("max_depth")
            limit += 1

    def _search_within(self, starts: NDArray[np.int32], limit: int) -> None:
        self.result.limit, self.result.complete = None, True
        try:
            self._search(self.widened(starts), limit)
        except Stop:
            if self.result.limit != "max_depth":
                raise
            self.result.limit, self.result.complete = None, True


def _doubled(array: NDArray[Any]) -> NDArray[Any]:
    larger = np.zeros((2 * len(array), *array.shape[1:]), array.dtype)
    larger[: len(array)] = array
    return larger


SEARCHES = {Search.DFS: DepthFirst, Search.IDDFS: Deepening}
