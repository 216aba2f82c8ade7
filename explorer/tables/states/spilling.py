"""A search whose visited states go to disk when memory runs short."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from kraftcheck.explorer.result import Options, TraceStep
from kraftcheck.explorer.tables.engine import Rows, Stop, TableSearch
from kraftcheck.explorer.tables.kernel.hash_set import MAX_LOAD, sift
from kraftcheck.explorer.tables.kernel.packing import pack_all
from kraftcheck.explorer.tables.states.archive import Archive, Flags, empty
from kraftcheck.explorer.tables.states.levels import Levels
from kraftcheck.explorer.tables.states.memory import Budget
from kraftcheck.explorer.tables.states.visited import FIRST_CAPACITY, PARTITIONS, Partition
from kraftcheck.spec.language.protocol import Protocol

SETTLED = 1 << 14  # candidates looked at together
SPARE = 1.1  # room in a partition for more than its share


class SpillingSearch(TableSearch):
    """What a search by levels needs to keep within its memory.

    Attributes
    ----------
    levels
        The states found, level by level.
    candidates
        Once the visited set is on disk: states found since the last settlement, as a level of their own.
    archive
        The visited set on disk, or None while all of it is in memory.
    over
        Whether a state was found that ends the search, once what is under way is brought to its end.
    """

    def __init__(self, protocol: Protocol, options: Options, workers: int) -> None:
        super().__init__(protocol, options, workers)
        place = options.resume if options.checkpoint is None else options.checkpoint
        self.folder = None if place is None else Path(place)
        self.budget = Budget.of(options.memory)
        for partition in self.partitions:
            partition.small = self.budget.small
        self.levels = Levels(self.budget.rows, folder=self.folder)
        self.candidates = Levels(self.budget.rows, folder=self.folder)
        self.archive: Archive | None = None
        self.over = False

    @property
    def in_memory(self) -> int:
        """States in the set in memory."""
        return sum(partition.count for partition in self.partitions)

    @property
    def distinct(self) -> int:
        """States visited that are within the constraints; candidates count as new until they are settled."""
        return self.in_memory + (0 if self.archive is None else self.archive.count) - self.beyond

    def keep(self, found: list[Rows]) -> None:
        """Take states that are new to the set in memory into the level that is being built."""
        if self.archive is None:
            for rows in found:
                self._admit(rows)
        else:
            for rows in found:
                self.candidates.append(rows)
        if self._is_full():
            if self.archive is None:
                self.spill()
            else:
                self.settle()

    def _is_full(self) -> bool:
        return self.in_memory > self.budget.entries(self.packing.words)

    def _admit(self, rows: Rows) -> None:
        """Take new states into the level that is being built, after checking what Python must check."""
        found = [rows]
        if self.slow is not None and not self.over:
            depth = self.levels.depth
            try:
                self.slow.admit(found, 0, lambda row: self.path_to(row, depth))
            except Stop:
                self.over = True
        for kept in found:
            self.levels.append(kept)

    def spill(self) -> None:
        """Move the set in memory to disk; everything in it is known to be new there."""
        if self.archive is None:
            self.archive = Archive(self.packing.words, self.folder)
            self.candidates.begin()
        for number, partition in enumerate(self.partitions):
            self.archive.append(number, partition.words())
            empty(partition)

    def settle(self) -> None:
        """Find out which candidates are new, and take them into the level that is being built."""
        archive, partitions = self.archive, self.partitions
        if archive is None or not self.candidates.count(1):
            return
        known: dict[int, Flags] = {}

        def own(w: int) -> None:
            for p in range(w, PARTITIONS, self.workers):
                known[p] = archive.known(p, partitions[p])

        self._together(own, self.workers)
        for rows in self.candidates.chunks(1, SETTLED):
            self._admit(self._sifted(rows, known, archive))
        for partition in partitions:
            empty(partition)
        self.candidates.clear()
        self.candidates.begin()

    def _sifted(self, rows: Rows, known: dict[int, Flags], archive: Archive) -> Rows:
        """Return the candidates that are not known, after putting them into the archive."""
        pairs = self.identified(self.widened(rows))
        tables, layout, identity = self.learner.tables, self.packing, pairs.shape[1] - self.learner.width
        parts = np.zeros(len(rows), np.int64)
        packed = np.empty((len(rows), layout.words + 1), np.uint64)
        pack_all(tables, layout.position, layout.width, pairs, identity, packed, parts)
        order = np.argsort(parts, kind="stable")
        ends = np.searchsorted(parts[order], np.arange(PARTITIONS + 1))
        fresh, words = np.empty(len(rows), np.int64), np.empty((len(rows), layout.words + 1), np.uint64)
        total = 0
        for p, partition in enumerate(self.partitions):
            which = order[ends[p] : ends[p + 1]]
            if len(which):
                n = sift(
                    tables, layout.position, layout.width, pairs, identity, which,
                    partition.keys, partition.places, known[p], fresh[total:], words,
                )  # fmt: skip
                archive.append(p, words[:n])
                total += n
        return rows[fresh[:total]]

    def path_to(self, row: Any, level: int) -> tuple[TraceStep, ...]:
        """Return a behaviour to a state of a level."""
        raise AssertionError("every search says how its states were reached")

    def expect(self, states: int) -> None:
        """Make room in the set in memory, which is empty, for so many states, as far as it may have it."""
        self.fit_packing()
        share = min(states, self.budget.entries(self.packing.words)) / PARTITIONS
        capacity = max(FIRST_CAPACITY, int(share * SPARE / MAX_LOAD))
        small = self.budget.small
        self.partitions = [Partition(self.packing.words, capacity, small) for _ in range(PARTITIONS)]

    def enter(self, rows: Rows) -> None:
        """Put states of a level that is complete into the visited set again."""
        pairs = self.identified(self.widened(rows))
        self.fit_packing()
        self._fill(self.pool[0], pairs, self.packing)
        self.collect()
        if self._is_full():
            self.spill()

    def fit_packing(self) -> None:
        """Repack the visited set, on disk too, where an id no longer fits its field."""
        old = self.packing
        super().fit_packing()
        if self.archive is not None and self.packing is not old:
            self.archive = self.archive.repacked(old, self.packing)

    def close(self) -> None:
        """Give up what is on disk for this search alone."""
        self.candidates.close()
        self.levels.close()
        if self.archive is not None:
            self.archive.close()
