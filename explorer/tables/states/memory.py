"""Divides the memory that a search may take."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

from kraftcheck.explorer.tables.states.packing import SUCCESSORS_PER_STATE, entry_bytes
from kraftcheck.explorer.tables.states.visited import FIRST_CAPACITY, SMALL

SHARE = 0.6  # of the machine's memory, where the user sets no limit
MOST_ROWS = 1 << 25  # bytes of rows in memory, however much there is: history is seldom read
MOST_FLAT = 1 << 24  # bytes for a worker's flat successors, however much there is: they are to stay in its cache
LEAST_BATCH = 1 << 12  # states, however little memory there is
LEAST_SHARE = 8  # states have an eighth of the memory at least, however much what is learned takes
LEAST_LEARNED = 1 << 25  # bytes that what is learned may take, however little memory there is
FAST_SHARE = 1 << 14  # bytes of the visited set for each place up to which its parts grow fast
_LIMITS = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))


class Budget(NamedTuple):
    """Bytes for each use."""

    visited: int  # the set of visited states, or of candidates once the visited ones are on disk
    rows: int  # rows of the levels that are not written to disk yet; and again as much for candidates
    buffers: int  # successors of the batch that is being expanded

    @classmethod
    def of(cls, memory: int | None) -> Budget:
        """Divide memory."""
        total = memory or default_memory()
        return cls(total // 2, min(total // 8, MOST_ROWS), total // 4)

    def entries(self, bits: int) -> int:
        """Return how many states of so many bits the set in memory may hold.

        They are fewer than fit, since a part that grows needs the old and the new table at once.
        """
        return max(1 << 10, int(self.visited * 0.65) // entry_bytes(bits, FIRST_CAPACITY))

    @property
    def small(self) -> int:
        """Up to how many places a partition of that set grows fast; less where memory is short."""
        return min(SMALL, self.visited // FAST_SHARE)

    def batch(self, most: int, columns: int, workers: int, *, is_flat: bool = False) -> int:
        """Return how many states of so many columns one worker may expand at a time, at most `most`.

        States with control rows are expanded in the order of these, which pays the more of them there are at a time.
        """
        room = self.buffers // workers
        fitting = (min(room, MOST_FLAT) if is_flat else room) // (2 * SUCCESSORS_PER_STATE * 4 * columns)
        return max(min(fitting, most), min(LEAST_BATCH, most))


class Memory:
    """The memory of a search: what is learned has what it takes, the states have the rest."""

    def __init__(self, memory: int | None) -> None:
        self.total = memory or default_memory()
        self.budget = Budget.of(self.total)
        self._learned = 0

    @property
    def most_learned(self) -> int:
        """Bytes that what is learned may take."""
        return max(self.total - self.total // LEAST_SHARE, LEAST_LEARNED)

    def divide(self, learned: int) -> bool:
        """Divide the memory anew if what is learned has grown enough for that; return whether it has."""
        if abs(learned - self._learned) <= self.total // (2 * LEAST_SHARE):
            return False
        self._learned = learned
        self.budget = Budget.of(max(self.total - learned, self.total // LEAST_SHARE, 1))
        return True


def default_memory() -> int:
    """Return the bytes that a search may take where the user sets no limit."""
    return int(SHARE * available_memory())


def available_memory() -> int:
    """Return the bytes of memory that this machine, or this container, has."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    for path in _LIMITS:
        try:
            total = min(total, int(path.read_text()))
        except (OSError, ValueError):  # not Linux, or "max"
            continue
    return total
