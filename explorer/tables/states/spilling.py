"""The visited set of a search that may need more memory than there is: in memory, then on disk.

While memory lasts a state is looked up at once. Afterwards duplicates are detected with a delay: the set in memory
holds only *candidates*, what was found since the last settlement, of which some may have been visited before. To
settle, the archive on disk is read through once; candidates that are among its states are known, the others are new.
The cost is a sequential pass, so it is put off until memory is full of candidates, or the level ends.

Source: U. Stern and D. Dill, "Using Magnetic Disk Instead of Main Memory in the Murphi Verifier" (1998).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kraftcheck.explorer.tables.kernel.hash_set import MAX_LOAD, look_up, mark
from kraftcheck.explorer.tables.states.levels import Levels
from kraftcheck.explorer.tables.states.memory import Budget
from kraftcheck.explorer.tables.states.packing import PARTITIONS, Found, Packing, Rows, Words, by_owner, repacked_words
from kraftcheck.explorer.tables.states.visited import Partition, VisitedSet
from kraftcheck.explorer.tables.threads import Threads
from kraftcheck.persistence.growing_file import GrowingFile, RowsInFile

Flags = NDArray[np.uint8]
CHUNK = 1 << 14  # entries read at a time
TOGETHER = 1 << 12  # entries of a partition that are written at a time, at least
SETTLED = 1 << 14  # candidates looked at together

Pack = Callable[[Rows, Packing], tuple[Words, NDArray[np.int64]]]


class Archive:
    """Packed words of visited states in a file without a name, by partition: read through, and never looked up."""

    def __init__(self, packing: Packing, folder: Path | None = None) -> None:
        self.count = 0
        self._packing = packing
        self._folder = folder
        self._file = GrowingFile.temporary(folder)
        self._parts = [RowsInFile(np.uint64) for _ in range(PARTITIONS)]
        self._waiting: list[list[Words]] = [[] for _ in range(PARTITIONS)]  # to be written

    def append(self, partition: int, words: Words) -> None:
        """Append entries of a partition: no array that changes afterwards."""
        waiting = self._waiting[partition]
        waiting.append(words)
        self.count += len(words)
        if sum(map(len, waiting)) >= TOGETHER:
            self._parts[partition].append(self._file, np.concatenate(waiting))
            waiting.clear()

    def chunks(self, partition: int) -> Iterator[Words]:
        """Yield the entries of a partition, some at a time; several threads may read several partitions."""
        yield from self._parts[partition].chunks(self._file, CHUNK)
        yield from self._waiting[partition]

    def known(self, number: int, partition: Partition) -> Flags:
        """Return for each place of a partition in memory whether its entry is in the archive."""
        known = np.zeros(len(partition.places), np.uint8)
        if partition.count:
            for words in self.chunks(number):
                mark(partition.keys, partition.places, partition.layout, words, known)
        return known

    def partition(self, number: int) -> Partition:
        """Return the entries of a partition as one in memory."""
        count = self._parts[number].count + sum(map(len, self._waiting[number]))
        found = Partition(self._packing, number, int(count / MAX_LOAD) + 16)
        for words in self.chunks(number):
            found.add_words(words)
        return found

    def repacked(self, old: Packing, new: Packing) -> Archive:
        """Return an archive of the same states packed anew; this one is closed.

        An entry may move to another partition: that follows from its words.
        """
        fresh = Archive(new, self._folder)
        for number in range(PARTITIONS):
            for words in self.chunks(number):
                for p, again in repacked_words(words, old, new):
                    fresh.append(p, again)
        self.close()
        return fresh

    def close(self) -> None:
        """Close the file and give its space back."""
        self._file.close()


class SpillingSet:
    """The visited states."""

    def __init__(self, budget: Budget, threads: Threads, pack: Pack, folder: Path | None = None) -> None:
        self.in_memory = VisitedSet(threads, budget.small)
        self.archive: Archive | None = None
        self.candidates = Levels(budget.rows, folder=folder)
        self._budget = budget
        self._threads = threads
        self._pack = pack
        self._folder = folder
        self._handed_over = 0

    @property
    def count(self) -> int:
        """States visited; candidates count as new until they are settled."""
        return self._handed_over + self.in_memory.count + (0 if self.archive is None else self.archive.count)

    @property
    def pending(self) -> int:
        """How many candidates there are."""
        return sum(self.candidates.counts)

    def allow(self, budget: Budget) -> None:
        """Take as much memory as this from now on, or less."""
        self._budget = budget
        self.candidates.budget = budget.rows

    def add(self, found: Found) -> Iterator[Rows]:
        """Insert what the workers have found; yield the rows of states that are known to be new.

        All must be taken. Of the others it turns out later whether they are new: `settle`.
        """
        new = self._insert(found)
        if self.archive is None:
            yield from new
        else:
            for rows in new:
                self.candidates.append(rows)
        if self._is_full():
            if self.archive is None:
                self.spill()
            else:
                yield from self.settle()

    def add_early(self, found: Found) -> list[Rows]:
        """Insert what the workers have found by now, beside another thread, as far as that can be done at once.

        Returns the rows of states that are new.
        """
        if self.archive is not None or self.in_memory.packing is not found.packing or self._is_full():
            return []
        return [rows.copy() for rows in self.in_memory.add(found, beside=True)]

    def settle(self) -> Iterator[Rows]:
        """Find out which candidates are new; yield their rows, all of which must be taken."""
        archive = self.archive
        if archive is None or not self.pending:
            return
        partitions = self.in_memory.partitions
        known: dict[int, Flags] = {}

        def own(number: int) -> None:
            for p in range(number, PARTITIONS, self._threads.count):
                known[p] = archive.known(p, partitions[p])

        self._threads.run(own, self._threads.count)
        for rows in self.candidates.chunks(1, SETTLED):
            yield self._archive_new(rows, known, archive)
        self._clear_memory()
        self.candidates.clear()
        self.candidates.begin()

    def _archive_new(self, rows: Rows, known: dict[int, Flags], archive: Archive) -> Rows:
        """Return those candidates that are not known, after putting them into the archive."""
        words, owner = self._pack(rows, self.in_memory.packing)
        fresh = []
        for p, mine in by_owner(owner):
            partition, flags = self.in_memory.partitions[p], np.zeros(len(mine), np.uint8)
            look_up(partition.keys, partition.places, partition.layout, words[mine], known[p], flags)
            fresh.append(mine[flags == 0])
            archive.append(p, words[fresh[-1]])
        new: Rows = rows[np.concatenate(fresh)]
        return new

    def spill(self) -> None:
        """Move the states in memory to disk; none of them may be there already."""
        if self.archive is None:
            self.archive = Archive(self.in_memory.packing, self._folder)
            self.candidates.begin()
        for number, partition in enumerate(self.in_memory.partitions):
            self.archive.append(number, partition.words())
        self._clear_memory()

    def _clear_memory(self) -> None:
        self.in_memory.clear()
        if self.in_memory.nbytes > self._budget.visited:  # it was allowed more
            self.in_memory.reserve(0, self.in_memory.packing)

    def _is_full(self) -> bool:
        return self.in_memory.count > self._budget.entries(self.in_memory.packing.bits)

    def _insert(self, found: Found) -> list[Rows]:
        old = self.in_memory.packing
        new = self.in_memory.add(found)
        if self.archive is not None and self.in_memory.packing is not old:
            self.archive = self.archive.repacked(old, self.in_memory.packing)
        return new

    # Going on from a checkpoint, or with states that are packed otherwise

    def empty(self, packing: Packing, states: int) -> None:
        """Take every state out, and make room for so many that are packed otherwise; no candidate may be left."""
        if self.archive is not None:
            self.archive.close()
            self.archive = None
            self.candidates.clear()
        self.in_memory = VisitedSet(self._threads, self._budget.small)
        self.reserve(states, packing)

    def reserve(self, states: int, packing: Packing) -> None:
        """Make room in memory, as far as it may be taken, for so many states; there must be none yet."""
        self.in_memory.reserve(min(states, self._budget.entries(packing.bits)), packing)

    def restore(self, found: Found) -> None:
        """Insert states that are known to be new; `restored` must follow the last of them."""
        self._insert(found)
        if self._is_full():
            self.spill()

    def restored(self) -> None:
        """Make ready for states of which some may have been visited."""
        if self.archive is not None:
            self.spill()

    # Once every state is visited

    def hand_over(self, packing: Packing, place: Callable[[int, Any], NDArray[Any]]) -> VisitedSet:
        """Return the set of all visited states, to look them up; what is left here is their number."""
        whole, archive = self.in_memory, self.archive
        self._handed_over, self.in_memory, self.archive = self.count, VisitedSet(self._threads), None
        old = whole.packing
        whole.fit(packing)
        if archive is not None:
            archive = archive if old is packing else archive.repacked(old, packing)
            for number in range(PARTITIONS):
                partition = archive.partition(number)
                partition.move(place)
                whole.replace(number, partition)
            archive.close()
        return whole

    def close(self) -> None:
        """Give back the space on disk."""
        self.candidates.close()
        if self.archive is not None:
            self.archive.close()
