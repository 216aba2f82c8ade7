"""Threads of the kernel, which releases the GIL, and the buffers of one thread, as Python allocates them."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import suppress
from pathlib import Path

import numpy as np

from kraftcheck.explorer.tables.kernel import codes
from kraftcheck.explorer.tables.kernel.worker import WorkerArrays
from kraftcheck.explorer.tables.states.packed_rows import Indices, Rows, Successors

SERIAL = 1 << 10  # states up to which a second thread does not pay


class Threads:
    """Runs work in parallel threads."""

    def __init__(self, count: int) -> None:
        _require_stacks(count - 1)
        self.count = count
        self.enough = np.zeros(1, np.int64)
        self._pool = ThreadPoolExecutor(count - 1) if count > 1 else None

    def run(self, work: Callable[[int], None], pieces: int) -> None:
        """Call `work(0)` in this thread and `work(1)` to `work(pieces - 1)` in the pool; wait for all calls."""
        own, others = range(pieces), []
        if pieces == 1:
            work(0)
            return
        if self._pool is not None:
            own, others = range(1), [self._pool.submit(work, number) for number in range(1, pieces)]
        try:
            for number in own:
                work(number)
        finally:
            wait(others)
        for other in others:
            other.result()

    def beside(self, work: Callable[[], None], own: Callable[[], None]) -> None:
        """Call `own` in this thread, and `work` in another thread at the same time if there is one.

        The other thread stops early once `enough` is set, when `own` is done. It must need little of the GIL, and must
        not use this pool itself.
        """
        if self._pool is None:
            own()
            return
        self.enough[0] = 0
        other = self._pool.submit(work)
        try:
            own()
        finally:
            self.enough[0] = 1
            other.result()

    def close(self) -> None:
        """Shut down the threads."""
        if self._pool is not None:
            self._pool.shutdown()


def _require_stacks(threads: int) -> None:
    """Raise RuntimeError if the limit on address space has no room for the stacks of threads.

    A thread that runs out of memory before it reports its start leaves Python's `Thread.start` waiting for ever.
    """
    with suppress(ImportError, OSError, ValueError):  # not on this platform
        import resource

        limit, stack = resource.getrlimit(resource.RLIMIT_AS)[0], resource.getrlimit(resource.RLIMIT_STACK)[0]
        if resource.RLIM_INFINITY in (limit, stack) or threads < 1:
            return
        used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        if used + threads * stack > limit:
            raise RuntimeError("can't start new thread")


BATCH = 1 << 16  # states that one worker expands between two checks of the time limit
SUCCESSORS = 1 << 10  # initial room for the successors of one state


class Worker(WorkerArrays):
    """The buffers and counters of one thread."""

    def __init__(self, actions: int) -> None:
        super().__init__()
        self.fired = np.zeros(actions, np.int64)
        self.stats = np.zeros(codes.STATS_SIZE, np.int64)
        self.retry = np.zeros(BATCH, np.int64)
        self.events = np.zeros((1 << 12, 3), np.int64)
        self.misses = np.zeros((1 << 14, 5), np.int64)
        self.blocked = np.zeros(SUCCESSORS, np.int64)
        self.collected = np.zeros((0, 0), np.int32)
        self.succ = np.zeros((SUCCESSORS, 0), np.int32)
        self.successors = Successors()
        self.keeps_pruned = False

    def begin(self, states: Rows, count: int = 0) -> None:
        """Prepare the buffers for a run of the kernel over `states`; it expands `count` of them at most."""
        self.states = np.ascontiguousarray(states)
        self.fit(states.shape[1])
        if len(self.broken) < len(self.succ):
            self.broken = np.zeros(len(self.succ), np.int64)
        more = states.shape[1] + 1 - self.collected.shape[1]
        if more > 0:
            self.collected = np.pad(self.collected, ((0, 0), (0, more)))
        elif more < 0:  # after a change of layout, when the buffer is empty
            self.collected = np.zeros((len(self.collected), states.shape[1] + 1), np.int32)
        if len(self.retry) < count:
            self.retry = np.zeros(count, np.int64)
        self.stats[[codes.S_RETRY, codes.S_MISSES, codes.S_CODE]] = 0

    def fit(self, columns: int) -> None:
        """Resize the buffers for states of `columns` columns."""
        if self.succ.shape[1] != columns + 2:
            self.succ = np.zeros((len(self.succ), columns + 2), np.int32)
            self.scratch = np.zeros((1, columns), np.int32)

    def make_room(self) -> None:
        """Double the successor buffer, for a state with more successors than it holds."""
        self.succ = np.zeros((2 * len(self.succ), self.succ.shape[1]), np.int32)
        self.blocked = np.zeros(len(self.succ), np.int64)
        if len(self.collected):
            self.collect()

    def collect(self) -> None:
        """Make the kernel collect successors for checks in Python, by allocating room for them."""
        more = max(len(self.succ), BATCH) - len(self.collected)
        self.collected = np.pad(self.collected, ((0, max(0, more)), (0, 0)))

    def keep_pruned(self) -> None:
        """Keep pruned successors after `take_steps`."""
        self.keeps_pruned = True
        self.collect()

    def take_collected(self) -> Rows:
        """Return the collected states, each preceded by its mark, and clear them."""
        found: Rows = self.collected[: int(self.stats[codes.S_COLLECTED])].copy()
        self.stats[codes.S_COLLECTED] = 0
        return found

    def take_steps(self) -> tuple[Indices, Rows]:
        """Return the sources and targets of the collected steps; pruned successors stay collected if they are kept."""
        found = self.take_collected()
        pruned = found[(found[:, 0] >= 0) & self.keeps_pruned]
        self.collected[: len(pruned)] = pruned
        self.stats[codes.S_COLLECTED] = len(pruned)
        sources = found[:, 0].astype(np.int64)
        return np.where(sources < 0, ~sources, sources), found[:, 1:]

    def missed_states(self) -> Indices:
        """Return the states that met a cache miss."""
        retry: Indices = self.retry[: int(self.stats[codes.S_RETRY])].copy()
        return retry
