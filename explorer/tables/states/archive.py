"""Packed states on disk: they are read through, and never looked up."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from kraftcheck.explorer.tables.kernel.hash_set import MAX_LOAD, mark
from kraftcheck.explorer.tables.states.packing import PARTITIONS, Packing, Words, repacked_words
from kraftcheck.explorer.tables.states.visited import Partition
from kraftcheck.persistence.growing_file import GrowingFile, RowsInFile

Flags = NDArray[np.uint8]
CHUNK = 1 << 14  # entries read at a time
TOGETHER = 1 << 12  # entries of a partition that are written at a time, at least


class Archive:
    """Packed words of visited states in a file without a name, by partition."""

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
