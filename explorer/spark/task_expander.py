"""Expands states for the tasks of one process, by the tables that this process learns and keeps."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from kraftcheck.explorer.result import DEADLOCK, Options
from kraftcheck.explorer.spark.definitions import EVENT, Definition
from kraftcheck.explorer.spark.global_ids import GlobalIds
from kraftcheck.explorer.spark.shared_folder import SharedFolder, States
from kraftcheck.explorer.tables.engine import BATCH, TableSearch
from kraftcheck.explorer.tables.kernel.expand import find_predecessor
from kraftcheck.explorer.tables.kernel.layout import (
    MANY_SUCCESSORS,
    S_CODE,
    S_DEADLOCK,
    S_EVENTS,
    S_NEEDS,
    S_RETRY,
    S_SEEN,
    S_STEP_SEEN,
)
from kraftcheck.explorer.tables.states.visited import PARTITIONS, Partition
from kraftcheck.spec.decoding import reachable_classes
from kraftcheck.spec.language.protocol import Protocol


def global_ids_of(search: TableSearch, view: str | None) -> GlobalIds:
    """Return the global ids of a search that has begun, of which none is given yet."""
    protocol = search.protocol
    return GlobalIds(
        search.learner,
        reachable_classes(protocol, search.starts),
        [*protocol.constant_values().values(), *search.starts],
        None if view is None else protocol.hidden(view),
    )


def without_view(options: Options) -> Options:
    """Return the options of what expands states: the global ids, not the tables, heed a VIEW."""
    return replace(options, view=None)


class TaskExpander:
    """Expands states that have global ids.

    Parameters
    ----------
    protocol, options
        The search.
    shared
        The folder that driver and executors share.
    """

    def __init__(self, protocol: Protocol, options: Options, shared: SharedFolder) -> None:
        self.search = TableSearch(protocol, without_view(options), 1)
        self.shared = shared
        self.search.begin()
        self.ids = global_ids_of(self.search, options.view)
        self.events: dict[tuple[int, int], Definition] = {}
        self._loaded: list[int] = []

    def load(self, levels: list[int]) -> None:
        """Load the definitions of these levels, in order, as far as they are not loaded."""
        for level in levels[len(self._loaded) :]:
            self.ids.load(self.shared.read_definitions(level))
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
        for place, properties in ((S_SEEN, learner.in_order), (S_STEP_SEEN, learner.step_judged)):
            worker.stats[place] = sum(1 << bit for bit, prop in enumerate(properties) if prop.name in known)
        worker.stats[S_DEADLOCK] = int(DEADLOCK in known)
        search.partitions = [Partition(search.packing.words) for _ in range(PARTITIONS)]
        self.events = {}

    def successors(self, states: States) -> Iterator[States]:
        """Yield the successors of states, with the ids of this process: each once, under symmetry one of its images."""
        search, worker = self.search, self.search.pool[0]
        for first in range(0, len(states), BATCH):
            part = states[first : first + BATCH]
            rows = self.ids.to_own(part)
            which = np.arange(len(rows), dtype=np.int64)
            while len(which):
                rows, which = search.expand(rows, which)
                for index, kind, mask in worker.events[: worker.stats[S_EVENTS]].tolist():
                    event = Definition(EVENT, kind, b"", (mask, *part[index].tolist()))
                    self.events.setdefault((kind, mask), event)
                worker.stats[S_EVENTS] = 0
                yield from search.collect()

    def predecessor(self, states: States, target: Any) -> Any:
        """Return the first of some states that leads to a state or an image of it, or None; all with global ids."""
        search, worker = self.search, self.search.pool[0]
        learner = search.learner
        for first in range(0, len(states), BATCH):
            part = states[first : first + BATCH]
            rows, left = self.ids.to_own(part), np.arange(len(part))
            while len(rows):
                wanted = self._images(self.ids.to_own(target[None]))
                rows, wanted = search.widened(rows), search.widened(wanted)
                worker.fit(len(rows), learner.width, search.copies, search.packing.words + 1)
                found = [self._leading_to(image, rows) for image in wanted]
                if max(found) >= 0:
                    return part[left[min(index for index in found if index >= 0)]]
                if worker.stats[S_CODE] == MANY_SUCCESSORS:
                    worker.succ = np.zeros((2 * len(worker.succ), worker.succ.shape[1]), np.int32)
                again = worker.retry[: worker.stats[S_RETRY]].copy()
                search.learn(rows, [worker])
                rows, left = rows[again], left[again]
        return None

    def _leading_to(self, target: Any, rows: States) -> int:
        """Return which of some rows is the first to lead to another, or -1; those not known yet are noted."""
        worker = self.search.pool[0]
        worker.stats[S_RETRY] = worker.stats[S_NEEDS] = worker.stats[S_CODE] = 0
        tables = self.search.learner.tables
        return int(
            find_predecessor(tables, rows, target, worker.succ, worker.retry, worker.needs, worker.stats)
        )

    def _images(self, row: States) -> States:
        """Return the images of a state under the symmetry group, all with the ids of this process."""
        search, learner = self.search, self.search.learner
        if search.copies == 1:
            return row
        search.identified(row)  # which learns them
        images = np.zeros((len(learner.group), row.shape[1]), np.int32)
        for g in range(len(images)):
            images[g, 0] = learner.a["permuted_rows"][row[0, 0], g]
            for slot, content in enumerate(row[0, 1:].tolist()):
                if content:
                    place = 1 + learner.a["permuted_slots"][g, slot]
                    images[g, place] = learner.a["permuted_contents"][content, g]
        return np.unique(images, axis=0)
