"""Buffers of one kernel thread, as Python allocates them."""

from __future__ import annotations

import numpy as np

from kraftcheck.explorer.tables.kernel import codes
from kraftcheck.explorer.tables.kernel.worker import WorkerArrays
from kraftcheck.explorer.tables.states.packed_rows import Indices, Rows, Successors

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
        self.pruned = np.zeros((0, 0), np.int32)
        self.succ = np.zeros((SUCCESSORS, 0), np.int32)
        self.successors = Successors()

    def begin(self, states: Rows, count: int = 0) -> None:
        """Prepare the buffers for a run of the kernel over `states`; it expands `count` of them at most."""
        self.states = np.ascontiguousarray(states)
        self.fit(states.shape[1])
        if len(self.broken) < len(self.succ):
            self.broken = np.zeros(len(self.succ), np.int64)
        more = states.shape[1] + 1 - self.pruned.shape[1]
        if more > 0:
            self.pruned = np.pad(self.pruned, ((0, 0), (0, more)))
        elif more < 0:  # after a change of layout, when the buffer is empty
            self.pruned = np.zeros((len(self.pruned), states.shape[1] + 1), np.int32)
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
        if len(self.pruned):
            self.collect_pruned()

    def collect_pruned(self) -> None:
        """Make the kernel collect pruned successors, by allocating room for at least those of one state."""
        more = max(len(self.succ), BATCH) - len(self.pruned)
        self.pruned = np.pad(self.pruned, ((0, max(0, more)), (0, 0)))

    def take_pruned(self) -> Rows:
        """Return the pruned successors, each preceded by the index of its source state, and clear them."""
        found: Rows = self.pruned[: int(self.stats[codes.S_PRUNED])].copy()
        self.stats[codes.S_PRUNED] = 0
        return found

    def missed_states(self) -> Indices:
        """Return the states that met a cache miss."""
        retry: Indices = self.retry[: int(self.stats[codes.S_RETRY])].copy()
        return retry
