"""What one process knows of a search: the tables that it has learned, and the dictionary that all share."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from explorer.result import DEADLOCK
from explorer.spark.folder import Shared, States
from explorer.spark.names import Names
from explorer.spark.values import EVENT, Definition
from explorer.tables import hot
from explorer.tables.engine import BATCH, TableSearch
from explorer.tables.visited import PARTITIONS, Partition
from spec.decoding import reachable_classes


def names_of(search: TableSearch) -> Names:
    """Return an empty dictionary for a search that has begun."""
    protocol = search.protocol
    return Names(
        search.learner,
        reachable_classes(protocol, search.starts),
        [*protocol.constant_values().values(), *search.starts],
    )


class Process:
    """Expands states for tasks; what it learns it keeps from task to task.

    Parameters
    ----------
    search
        A search of the table engine, which does the work.
    shared
        The folder that all share.
    """

    def __init__(self, search: TableSearch, shared: Shared) -> None:
        self.search = search
        self.shared = shared
        search.begin()
        self.names = names_of(search)
        self.events: dict[tuple[int, int], Definition] = {}
        self._loaded: list[int] = []

    def know(self, levels: list[int]) -> None:
        """Load the dictionary's files of these levels, in order, as far as they are not known."""
        for level in levels[len(self._loaded) :]:
            self.names.load(self.shared.read_names(level))
            self._loaded.append(level)

    def begin(self, violated: Iterable[str]) -> None:
        """Forget what the task before has found.

        Parameters
        ----------
        violated
            Names of properties that need not be reported again.
        """
        search, known = self.search, set(violated)
        worker, learner = search.pool[0], search.learner
        worker.fired[:] = 0
        worker.out_n[:] = 0
        worker.stats[:] = 0
        for place, properties in ((hot.S_SEEN, learner.in_order), (hot.S_STEP_SEEN, learner.step_judged)):
            worker.stats[place] = sum(1 << bit for bit, prop in enumerate(properties) if prop.name in known)
        worker.stats[hot.S_DEADLOCK] = int(DEADLOCK in known)
        search.partitions = [Partition(search.packing.words) for _ in range(PARTITIONS)]
        self.events = {}

    def successors(self, states: States) -> Iterator[States]:
        """Yield the successors of states, with the ids of this process, each once in a task."""
        search, worker = self.search, self.search.pool[0]
        for first in range(0, len(states), BATCH):
            part = states[first : first + BATCH]
            rows = self.names.to_own(part)
            which = np.arange(len(rows), dtype=np.int64)
            while len(which):
                rows, which = search.expand(rows, which)
                for index, kind, mask in worker.events[: worker.stats[hot.S_EVENTS]].tolist():
                    self._note(part[index], kind, mask)
                worker.stats[hot.S_EVENTS] = 0
                yield from search.collect()

    def _note(self, state: Any, kind: int, mask: int) -> None:
        self.events.setdefault((kind, mask), Definition(EVENT, kind, b"", (mask, *state.tolist())))

    def predecessor(self, states: States, target: Any) -> Any:
        """Return the first of some states that leads to a state, or None; all with common ids."""
        search, worker = self.search, self.search.pool[0]
        learner = search.learner
        wanted = self.names.to_own(target[None])
        for first in range(0, len(states), BATCH):
            part = states[first : first + BATCH]
            rows, left = self.names.to_own(part), np.arange(len(part))
            while len(rows):
                rows, wanted = search.widened(rows), search.widened(wanted)
                worker.fit(len(rows), learner.width, search.copies, search.packing.words + 1)
                worker.stats[hot.S_RETRY] = worker.stats[hot.S_NEEDS] = 0
                found = hot.find_predecessor(
                    learner.tables, rows, wanted[0], worker.succ, worker.retry, worker.needs, worker.stats
                )
                if found >= 0:
                    return part[left[found]]
                again = worker.retry[: worker.stats[hot.S_RETRY]].copy()
                search.learn(rows, [worker])
                rows, left = rows[again], left[again]
        return None
