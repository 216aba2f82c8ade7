"""The states of a breadth-first search: the visited set, the levels, and the memory that they may take."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from kraftcheck.explorer.tables.expander import Expander
from kraftcheck.explorer.tables.learning.size import Size
from kraftcheck.explorer.tables.states.levels import Levels
from kraftcheck.explorer.tables.states.memory import Memory
from kraftcheck.explorer.tables.states.packing import Found, Rows
from kraftcheck.explorer.tables.states.spilling import SpillingSet
from kraftcheck.explorer.tables.worker import BATCH
from kraftcheck.persistence.growing_file import GrowingFile


class LevelStates:
    """Every state that a search has found, level by level, and in a set."""

    def __init__(
        self, expander: Expander, memory: int | None, batch: int | None, folder: Path | None, file: GrowingFile | None
    ) -> None:
        self.expander, self.folder, self.memory = expander, folder, Memory(memory)
        self.chunk = batch or BATCH  # states that are expanded together, at the most, by one worker
        self.visited = SpillingSet(self.memory.budget, expander.threads, expander.packed, folder)
        self.levels = Levels(self.memory.budget.rows, file, folder)
        self._size = Size(expander.learner)
        self._early: list[Rows] = []  # new states that wait to be taken, while more is learned

    def batch_size(self) -> int:
        """Return how many states to expand at once."""
        expander, workers = self.expander, self.expander.workers
        batch = self.memory.budget.batch(self.chunk, expander.width, workers, is_flat=expander.is_flat)
        return min(workers * batch, BATCH * max(1, workers // 2))

    def all_rows(self) -> Iterator[Rows]:
        """Yield the rows of all levels, piece by piece."""
        for level in range(1, self.levels.depth + 1):
            yield from self.levels.chunks(level, self.chunk)

    # Successors

    def add_early(self, found: Found) -> None:
        """Insert what is found by now, and write what was taken before, while more is learned."""
        self._early += self.visited.add_early(found)
        self.levels.flush_early()

    def new(self) -> Iterator[Rows]:
        """Insert the successors in the buffers; yield the rows of states that are new, all of which must be taken."""
        early, self._early = self._early, []
        yield from early
        yield from self.visited.add(self.expander.found())

    # Memory

    def divide_memory(self) -> str | None:
        """Leave to the states what is learned does not take; return the problem where that alone takes too much."""
        kinds = self._size.kinds()
        learned = sum(one.nbytes for one in kinds)
        if learned > self.memory.most_learned:
            return self._size.excess(kinds, self.memory.most_learned)
        if self.memory.divide(learned):
            self.visited.allow(self.memory.budget)
            self.levels.budget = self.memory.budget.rows
            self.expander.give_back()
        return None

    def left_memory(self) -> int:
        """Return how many bytes neither states nor what is learned take."""
        taken = sum(one.nbytes for one in self._size.kinds()) + self.levels.nbytes + self.visited.in_memory.nbytes
        return max(self.memory.total - taken, 0)

    # How states are laid out

    def lay_out(self, *, flat: bool) -> None:
        """Make all states flat, or give them control rows again; no candidate may be left."""
        self.levels.rewrite(self.expander.flattened if flat else self.expander.unflattened, self.chunk)
        self.reload(partial(self.expander.lay_out, flat=flat))

    def reload(self, change: Callable[[], None]) -> None:
        """Change how states are packed; the levels are as they shall be."""
        change()
        self.visited.empty(self.expander.packing, sum(self.levels.counts))
        for rows in self.all_rows():
            self.visited.restore(self.expander.load(rows))
        self.visited.restored()

    def close(self) -> None:
        """Close every file."""
        self.visited.close()
        self.levels.close()
