"""Division of a search's memory among states and memo tables."""

from __future__ import annotations

from typing import NamedTuple

from kraftcheck.explorer.tables.states.packed_rows import SUCCESSORS_PER_STATE, entry_bytes
from kraftcheck.explorer.tables.states.visited import FIRST_CAPACITY, SMALL
from kraftcheck.processes import default_memory

MOST_ROWS = 1 << 25  # maximum bytes of rows in memory: old levels are seldom read
MOST_FLAT = 1 << 24  # maximum bytes of a worker's flat successors, which should stay in its cache
LEAST_BATCH = 1 << 12  # minimum number of states in a batch
LEAST_SHARE = 8  # states get at least an eighth of the memory
LEAST_LEARNED = 1 << 25  # minimum bytes for memo tables
FAST_SHARE = 1 << 14  # bytes of the visited set per place below which a partition grows fast


class Budget(NamedTuple):
    """Bytes for each use of memory."""

    visited: int  # the visited set, or the set of candidates once visited states are on disk
    rows: int  # rows of levels not yet on disk; the same again for rows of candidates
    buffers: int  # successors of the current batch

    @classmethod
    def of(cls, memory: int | None) -> Budget:
        """Divide `memory` bytes among the visited set, the rows of levels, and the successor buffers."""
        total = memory or default_memory()
        return cls(total // 2, min(total // 8, MOST_ROWS), total // 4)

    def entries(self, bits: int) -> int:
        """Return the number of packed states of `bits` bits that the visited set can hold in its memory."""
        return max(1 << 10, int(self.visited * 0.65) // entry_bytes(bits, FIRST_CAPACITY))

    @property
    def small(self) -> int:
        """Number of places below which a partition grows by a larger factor; lower if memory is small."""
        return min(SMALL, self.visited // FAST_SHARE)

    def batch(self, most: int, columns: int, workers: int, *, is_flat: bool = False) -> int:
        """Return the number of states of a worker's batch: as many as the buffers have room for, at most `most`."""
        room = self.buffers // workers
        fitting = (min(room, MOST_FLAT) if is_flat else room) // (2 * SUCCESSORS_PER_STATE * 4 * columns)
        return max(min(fitting, most), min(LEAST_BATCH, most))


class Memory:
    """The memory of a search: memo tables take their need, and states share the rest."""

    def __init__(self, memory: int | None) -> None:
        self.total = memory or default_memory()
        self.budget = Budget.of(self.total)
        self._learned = 0

    @property
    def most_learned(self) -> int:
        """Bytes that the memo tables may take."""
        return max(self.total - self.total // LEAST_SHARE, LEAST_LEARNED)

    def divide(self, learned: int) -> bool:
        """Divide the memory again if the memo tables have grown or shrunk enough; return whether they have."""
        if abs(learned - self._learned) <= self.total // (2 * LEAST_SHARE):
            return False
        self._learned = learned
        self.budget = Budget.of(max(self.total - learned, self.total // LEAST_SHARE, 1))
        return True
