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
