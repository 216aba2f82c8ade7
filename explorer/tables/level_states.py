"""States of a breadth-first search: the visited set, the levels, and their share of the memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from kraftcheck.explorer.tables.expander import Expander
from kraftcheck.explorer.tables.learning.memory_usage import MemoUsage
from kraftcheck.explorer.tables.states.budget import Memory
from kraftcheck.explorer.tables.states.levels import Levels
from kraftcheck.explorer.tables.states.packed_rows import Found, Rows
from kraftcheck.explorer.tables.states.spilling import SpillingSet
from kraftcheck.explorer.tables.worker_buffers import BATCH
from kraftcheck.persistence.growing_file import GrowingFile

MEASURED = 1 << 4
"""Number of expanded states after which the memo tables are measured again."""


class LevelStates:
    """All states of a search, as levels and as a set."""

    def __init__(
        self, expander: Expander, memory: int | None, batch: int | None, folder: Path | None, file: GrowingFile | None
    ) -> None:
        self.expander, self.folder, self.memory = expander, folder, Memory(memory)
        self.chunk = batch or BATCH  # maximum number of states in one worker's batch
        self.visited = SpillingSet(self.memory.budget, expander.threads, expander.packed, folder)
        self.levels = Levels(self.memory.budget.rows, file, folder)
        self._size = MemoUsage(expander.learner)
        self._early: list[Rows] = []  # new states found during miss handling
        self._measure_at = 0  # number of expanded states at which the memo tables are measured again

    def batch_size(self) -> int:
        """Return the number of states to expand at once."""
        expander, workers = self.expander, self.expander.workers
        batch = self.memory.budget.batch(self.chunk, expander.width, workers, is_flat=expander.is_flat)
        return min(workers * batch, BATCH * max(1, workers // 2))

    def all_rows(self) -> Iterator[Rows]:
        """Yield the rows of all levels in chunks."""
        for level in range(1, self.levels.depth + 1):
            yield from self.levels.chunks(level, self.chunk)

    # Successors

    def add_early(self, found: Found) -> None:
        """Insert successors and write finished rows to disk, while another thread resolves cache misses."""
        self._early += self.visited.add_early(found)
        self.levels.flush_early()

    def new(self) -> Iterator[Rows]:
        """Insert the successors in the buffers; yield the rows of new states. The iterator must be exhausted."""
        early, self._early = self._early, []
        yield from early
        yield from self.visited.add(self.expander.found())

    # Memory

    def divide_memory(self, expanded: int) -> str | None:
        """Give the states all memory beside the memo tables; return an error message if the tables take too much.

        The tables are measured only after a number of further states; `expanded` are expanded so far.
        """
        if expanded < self._measure_at:
            return None
        self._measure_at, kinds = expanded + MEASURED, self._size.kinds()
        learned = sum(one.nbytes for one in kinds)
        if learned > self.memory.most_learned:
            return self._size.over_budget_note(kinds, self.memory.most_learned)
        if self.memory.divide(learned):
            self.visited.allow(self.memory.budget)
            self.levels.budget = self.memory.budget.rows
            self.expander.free_buffers()
        return None

    def left_memory(self) -> int:
        """Return the bytes of the memory that neither states nor memo tables use."""
        taken = sum(one.nbytes for one in self._size.kinds()) + self.levels.nbytes + self.visited.in_memory.nbytes
        return max(self.memory.total - taken, 0)

    # Layout

    def switch_layout(self, *, flat: bool) -> None:
        """Convert all states to flat rows, or back to control rows; no candidate may be left."""
        self.levels.rewrite(self.expander.flattened if flat else self.expander.unflattened, self.chunk)
        self.reload(partial(self.expander.switch_layout, flat=flat))

    def reload(self, change: Callable[[], None]) -> None:
        """Call `change`, which changes the layout or packing, and insert the states of all levels again."""
        change()
        self.visited.empty(self.expander.packing, sum(self.levels.counts))
        for rows in self.all_rows():
            self.visited.restore(self.expander.load(rows))
        self.visited.restored()

    def close(self) -> None:
        """Close every file."""
        self.visited.close()
        self.levels.close()
