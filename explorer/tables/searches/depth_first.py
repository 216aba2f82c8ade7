"""Depth first over the tables: whole, bounded, and by iterative deepening."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from kraftcheck.explorer.result import Options, Search, TraceStep
from kraftcheck.explorer.tables.engine import Stop, TableSearch
from kraftcheck.explorer.tables.kernel.depth_first import (
    DONE,
    EVENT,
    S_BASE,
    S_DEPTH,
    SET_FULL,
    STACK_FULL,
    descend,
    enter,
    move,
)
from kraftcheck.explorer.tables.kernel.layout import FULL, MISSING, S_DEADLOCK, S_DONE, S_NEEDS
from kraftcheck.explorer.tables.states.visited import Packing
from kraftcheck.spec.language.protocol import Protocol

STATES_A_TURN = 50_000  # states expanded between two looks at the clock
SLOW_TURNS = 500  # turns of one state


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
            worker.stats[S_NEEDS], worker.stats[S_BASE] = 0, -1
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
            self.worker.stats[S_DEADLOCK] = 0
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
