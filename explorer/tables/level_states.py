"""States of a breadth-first search: the visited set and the levels; their memory, and that of the memo tables."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import chain
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any, NamedTuple

from kraftcheck.explorer.tables.expander import Expander
from kraftcheck.explorer.tables.kernel import codes
from kraftcheck.explorer.tables.learning.learner import Learner
from kraftcheck.explorer.tables.states.levels import Levels
from kraftcheck.explorer.tables.states.packed_rows import Found, Rows
from kraftcheck.explorer.tables.states.spilling import Memory, SpillingSet
from kraftcheck.explorer.tables.states.worker_buffers import BATCH
from kraftcheck.persistence.stored_files import GrowingFile

SAMPLE = 64  # values in a sample
ENTRY = 130  # bytes of a dictionary's entry for a value, and of its id
PATH = 100  # bytes, at most, of a decision tree's branch outside the tables
GIB, MIB = 1 << 30, 1 << 20

_TABLES = {
    "control rows": ("rows", "row_table", "row_info", "row_items", "permuted_rows", "changed"),
    "inbox contents": (
        *("contents", "inbox_codes", "content_items", "content_table"),
        *("operated", "inbox_answers", "permuted_contents"),
    ),
    "replica states with an inbox": ("bundles", "bundle_items"),
    "replica states": ("local_answers", "permuted_locals"),
    "parts of states": ("cluster_table", "cluster_items"),
    "messages": ("messages", "operations", "network_operations", "permuted_messages"),
}
_REST = "handler calls"
_OF = {table: name for name, tables in _TABLES.items() for table in tables}


class KindUsage(NamedTuple):
    """Memory usage of one kind of memoized data."""

    what: str  # name of the kind
    number: int
    nbytes: int

    def __str__(self) -> str:
        return f"{self.number:,} {self.what} {text_of_size(self.nbytes)}"


class MemoUsage:
    """Memory accounting of a learner."""

    def __init__(self, learner: Learner) -> None:
        self._learner = learner
        self._sampled: dict[str, tuple[int, float]] = {}

    def kinds(self) -> list[KindUsage]:
        """Return the usage of each kind, the largest first."""
        learner, interner = self._learner, self._learner.interner
        tables = interner.tables
        taken = dict.fromkeys((*_TABLES, _REST), 0)
        for name in tables.declared:
            taken[_OF.get(name, _REST)] += int(getattr(tables, name).nbytes)
        meta = tables.meta.tolist()
        counts = {
            "control rows": meta[codes.M_ROWS],
            "inbox contents": meta[codes.M_CONTENTS],
            "replica states with an inbox": meta[codes.M_BUNDLES],
            "replica states": len(interner.locals),
            "parts of states": meta[codes.M_CLUSTERS],
            "messages": len(interner.inboxes.messages),
            _REST: sum(learner.calls.counts.values()),
        }
        taken["replica states"] += self._of_values("replica states", len(interner.locals), interner.locals.__getitem__)
        messages = interner.inboxes.messages
        taken["messages"] += self._of_values("messages", len(messages), messages.__getitem__)
        contents = interner.inboxes.content_values
        last = list(contents)[-SAMPLE:] if self._is_due("inbox contents", len(contents)) else []
        first = len(contents) - len(last)
        taken["inbox contents"] += self._of_values(
            "inbox contents", len(contents), lambda place: contents[last[place - first]]
        )
        taken["messages"] += ENTRY * len(interner.inboxes.operations)
        taken[_REST] += PATH * meta[codes.M_BRANCHES] + ENTRY * (meta[codes.M_ROOTS] + meta[codes.M_DELTAS])
        found = [KindUsage(name, counts[name], nbytes) for name, nbytes in taken.items()]
        return sorted(found, key=lambda one: -one.nbytes)

    def over_budget_note(self, kinds: list[KindUsage], most: int) -> str:
        """Return the message for memo tables larger than `most` bytes, which `--memory` leaves them."""
        calls = self._learner.calls.counts.most_common(1)
        called = f"; most calls: {calls[0][0]}, {calls[0][1]:,} times" if calls else ""
        return (
            f"the model's memo tables take {text_of_size(sum(one.nbytes for one in kinds))}, and --memory leaves them "
            f"{text_of_size(most)}: {', '.join(map(str, kinds))}{called}; they stay in memory: "
            "raise --memory, or use smaller bounds"
        )

    def _is_due(self, what: str, count: int) -> bool:
        return count >= 2 * self._sampled.get(what, (0, 0.0))[0]

    def _of_values(self, what: str, count: int, value: Callable[[int], Any]) -> int:
        """Return the estimated bytes of `count` values; their mean is sampled again whenever the count has doubled."""
        if count and self._is_due(what, count):
            sample = range(max(0, count - SAMPLE), count)
            self._sampled[what] = count, size_of(map(value, sample)) / len(sample)
        return int(count * (self._sampled.get(what, (0, 0.0))[1] + ENTRY))


def size_of(values: Iterable[Any]) -> int:
    """Return the bytes of values and all objects reachable from them, counted once, except classes and modules."""
    seen: set[int] = set()
    found, waiting = 0, [value for value in values if value is not None]
    while waiting:
        waiting = [
            one for one in waiting if id(one) not in seen and not isinstance(one, type | ModuleType | FunctionType)
        ]
        waiting = list({id(one): one for one in waiting}.values())
        seen.update(map(id, waiting))
        found += sum(map(sys.getsizeof, waiting))
        waiting = list(chain.from_iterable(gc.get_referents(one) for one in waiting))
    return found


def text_of_size(nbytes: int) -> str:
    """Format a number of bytes.

    Examples
    --------
    >>> text_of_size(3 << 29), text_of_size(5 << 20)
    ('1.5 GiB', '5 MiB')
    """
    return f"{nbytes / GIB:.1f} GiB" if nbytes >= GIB else f"{-(-nbytes // MIB)} MiB"


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
