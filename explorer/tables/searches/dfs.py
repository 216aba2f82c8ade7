"""Depth-first search, with or without a depth limit, in one thread."""

from __future__ import annotations

from contextlib import suppress

import numpy as np

from kraftcheck.explorer.native.arrays import grow_array
from kraftcheck.explorer.result import Behaviour, Result, SearchRequest
from kraftcheck.explorer.tables.expander import Expander
from kraftcheck.explorer.tables.kernel import codes, depth_first
from kraftcheck.explorer.tables.kernel.arrays import TableFull
from kraftcheck.explorer.tables.python_checks import PythonChecks
from kraftcheck.explorer.tables.rows import BitPacking, Rows, Words
from kraftcheck.explorer.tables.violation_checker import ViolationChecker
from kraftcheck.spec.errors import RaisedError
from kraftcheck.spec.language.protocol import Protocol

ONE_THREAD_NOTE = "uses one thread; --search bfs uses all workers"
STATES_A_KERNEL_CALL = 50_000  # states expanded between two checks of the time limit
FIRST_SET_PLACES = 1 << 12
KERNEL_CALLS_A_TIME_CHECK = 500  # turns between two checks of the time limit, if Python checks each state
CACHE_MISSES_A_TIME_CHECK = 16  # turns between two such checks, if turns end at cache misses


class VisitedDepthTable(depth_first.DepthSetArrays):
    """A hash set of the visited states, each with the least depth at which it was reached."""

    def __init__(self, packing: BitPacking, capacity: int = FIRST_SET_PLACES) -> None:
        super().__init__()
        self.packing = packing
        self.count = 0
        self.keys = np.zeros((capacity, packing.words + 1), np.uint64)

    def add(self, words: Words) -> None:
        """Insert packed states at depth 1, or lower their depth to 1."""
        if 2 * (self.count + len(words)) > len(self.keys):
            self.grow(2 * (self.count + len(words)))
        self.count += int(depth_first.insert_starts_into_depth_set(self, words))

    def has_at(self, depth: int) -> bool:
        """Return whether some state was reached at `depth`, and at no smaller depth."""
        return bool((self.keys[:, -1] == depth).any())

    def grow(self, least: int) -> None:
        """Grow the table to at least `least` places."""
        self._move(self.packing, max(2 * len(self.keys), least))

    def fit(self, packing: BitPacking) -> None:
        """Repack all states for a new packing."""
        if packing is not self.packing:
            self._move(packing, len(self.keys))

    def _move(self, new: BitPacking, capacity: int) -> None:
        other = VisitedDepthTable(new, capacity)
        depth_first.repack_depth_set(self, self.packing, other, new)
        self.keys, self.packing = other.keys, new


class DepthFirstSearch:
    """A depth-first search."""

    def __init__(self, protocol: Protocol, options: SearchRequest) -> None:
        self.options = options
        self.expander = Expander.of(protocol, options, workers=1)
        self.visited = VisitedDepthTable(self.expander.packing)
        self.checker = ViolationChecker(protocol, options, self.expander, lambda: self.visited.count)
        if (options.workers or 1) > 1:
            note = f"--workers {options.workers}: --search {options.search} {ONE_THREAD_NOTE}"
            self.checker.monitor.result.notes.append(note)
        self._worker = self.expander.pool[0]
        self._path: Rows = np.zeros((0, 0), np.int32)
        self._before = self._path  # the path at the beginning of the turn
        self._stack = depth_first.StackArrays()

    def run(self) -> Result:
        """Run the search and return its result."""
        return self.checker.result_of(self._search)

    def _search(self) -> None:
        limit = self.options.max_depth or 0
        if self.search_within(self.starting_rows(), limit):
            self.checker.monitor.stop_at("max_depth")

    def starting_rows(self) -> Rows:
        """Return the initial states that satisfy the constraints."""
        self.checker.monitor.result.depth = None
        return self.checker.starting_rows()

    def search_within(self, starts: Rows, limit: int) -> bool:
        """Search from the initial states to a depth limit; return whether the limit cut off a state."""
        checker, worker = self.checker, self._worker
        python, top, turns = checker.python, self._start(starts), 0
        interval = CACHE_MISSES_A_TIME_CHECK if python is None else KERNEL_CALLS_A_TIME_CHECK
        while True:
            code, top = self._descend(top, limit)
            self._check_steps()
            if python is not None and worker.stats[depth_first.STATS_BASE] >= 0:
                top = self._check_in_python(python, int(worker.stats[depth_first.STATS_BASE]), top)
            checker.stop_at_max_states()
            checker.report_events(self.expander.events(), self._trace_to)
            if code == depth_first.DONE:
                checker.monitor.report(top)
                return limit > 0 and self.visited.has_at(limit)
            self._make_room(code, top)
            turns += 1
            if turns % interval == 0 or (python is None and code == depth_first.TURN_OVER):
                checker.monitor.check_time_limit(top)

    def _start(self, starts: Rows) -> int:
        """Reset the search to the initial states, one for each canonical key; return the top of the stack."""
        self._worker.fired[:] = 0
        self._worker.stats[codes.STATS_DEADLOCK] = 0
        self.expander.canonical_rows(starts)  # first: caching the images adds ids, which the packing must fit
        self.expander.fit_packing()
        self.visited = VisitedDepthTable(self.expander.packing)
        words = self.expander.packed(starts, self.expander.packing)[0]
        self.visited.add(words)
        first = np.sort(np.unique(words, axis=0, return_index=True)[1])
        starts = self.expander.with_columns(starts)[first][::-1]
        stack, top, room, width = self._stack, len(starts), max(1 << 14, 2 * len(starts)), self.expander.width
        self._path = np.zeros((1 << 10, width), np.int32)
        stack.states, stack.depths = np.zeros((room, width), np.int32), np.ones(room, np.int32)
        stack.states[:top] = starts
        if self.checker.python is not None:
            self.checker.python.beyond = 0
        self.checker.check_starts()
        return top

    def _descend(self, top: int, limit: int) -> tuple[int, int]:
        """Run the kernel until it stops; return the reason and the top of the stack."""
        expander, worker, visited, stack = self.expander, self._worker, self.visited, self._stack
        stack.states, self._path = expander.with_columns(stack.states), expander.with_columns(self._path)
        worker.begin(self._path)
        worker.stats[depth_first.STATS_BASE] = -1
        expander.fit_packing()
        visited.fit(expander.packing)
        self._before = self._path.copy() if expander.step_checks else self._path
        turn = 1 if self.checker.python else self.checker.batch_size(STATES_A_KERNEL_CALL)
        learner, stats = expander.learner, worker.stats
        stats[depth_first.STATS_TOP], stats[depth_first.STATS_COUNT] = top, visited.count
        code = codes.MISSING
        with suppress(TableFull):  # `resolve` grows the table
            code = depth_first.search_depth_first(
                learner.tables, worker, stack, visited, visited.packing, limit, self.options.deadlock, turn,
                *learner.kinds_of_misses,
            )  # fmt: skip
        visited.count = int(stats[depth_first.STATS_COUNT])
        return int(code), int(stats[depth_first.STATS_TOP])

    def _make_room(self, code: int, top: int) -> None:
        """Resolve a cache miss or grow the array that is full."""
        worker, stack = self._worker, self._stack
        if code == codes.MISSING:
            try:
                self.expander.learner.resolve([worker])
            except RaisedError as error:  # in the state on top of the stack
                depth = int(stack.depths[top - 1])
                raise self.checker.traced(error, [self._path[depth]], lambda _: self._trace_to(depth)) from None
        elif code == codes.BUFFER_FULL:
            worker.make_room()
        elif code == depth_first.STACK_FULL:
            stack.states, stack.depths = (grow_array(one, len(one) + 1) for one in (stack.states, stack.depths))
            if stack.depths[:top].max() + 2 >= len(self._path):
                self._path = grow_array(self._path, len(self._path) + 1)
        elif code == depth_first.SET_FULL:
            self.visited.grow(4 * len(worker.succ))

    def _check_steps(self) -> None:
        """Evaluate refinements on the steps of the last turn."""
        found, checks = self._worker.take_collected(), self.expander.step_checks
        if checks is None:
            return
        is_source, seen = found[:, 0] >= 0, int(self._worker.stats[codes.STATS_STEP_SEEN])
        depths, rows, sources = found[is_source, 0], found[is_source, 1:], np.cumsum(is_source)[~is_source] - 1

        def trace_to(source: int) -> Behaviour:
            path = list(self._before)
            for depth, row in zip(depths[: source + 1].tolist(), rows, strict=False):
                path[depth] = row
            return self.checker.behaviour(path[1 : int(depths[source]) + 1])

        try:
            for source, mask in checks.violated_by(rows, found[~is_source, 1:], sources, seen):
                self._worker.stats[codes.STATS_STEP_SEEN] |= mask
                self.checker.report_event(codes.EVENT_BAD_STEP, mask, trace_to(source))
        except RaisedError as error:
            raise self.checker.traced(error, rows, trace_to) from None

    def _check_in_python(self, python: PythonChecks, base: int, top: int) -> int:
        """Check the successors stack[base:top] in Python; return the top of the stack without pruned ones."""
        depth = int(self._worker.stats[depth_first.STATS_DEPTH])
        python.check_pruned(self._path, np.array([depth]), lambda _, index: self._trace_to(index))
        if top == base:
            return top
        found = self._stack.states[base:top][::-1].copy()
        within = python.check_new(found, lambda row: self.checker.behaviour([*self._path[1 : depth + 1], row]))
        if not within.all():  # constraints depend on the state alone, so these stay pruned on any path
            self.visited.add(self.expander.packed(found[~within], self.visited.packing)[0])
        kept = found[within]
        self._stack.states[base : base + len(kept)] = kept[::-1]
        return base + len(kept)

    def _trace_to(self, depth: int) -> Behaviour:
        """Return the trace along the current path, up to the state at `depth`."""
        return self.checker.behaviour(self._path[1 : depth + 1])


def search(protocol: Protocol, options: SearchRequest) -> Result:
    """Search depth first, along paths of at most `max_depth` states."""
    return DepthFirstSearch(protocol, options).run()
