"""The visited set on disk, for when memory runs short: packed words that are read through, and never looked up.

While memory lasts a successor is looked up at once. Afterwards the set in memory holds only what was found since the
last *settlement*: candidates, of which some may have been visited before. To settle, the words on disk are read
through once; candidates that are among them are known, the others are new. The cost is a sequential pass, so it is
put off until memory is full of candidates, or the level ends.

Source: U. Stern and D. Dill, "Using Magnetic Disk Instead of Main Memory in the Murphi Verifier" (1998).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from kraftcheck.explorer.tables.kernel.hash_set import mark
from kraftcheck.explorer.tables.kernel.packing import repack
from kraftcheck.explorer.tables.states.files import GrowingFile
from kraftcheck.explorer.tables.states.visited import PARTITIONS, Packing, Partition

Words = NDArray[np.uint64]
Flags = NDArray[np.uint8]
WORD_BYTES = 8
CHUNK = 1 << 14  # entries read at a time


def empty(partition: Partition) -> None:
    """Take every entry out of a partition; the room stays."""
    partition.places[:] = 0
    partition.count = 0


class Archive:
    """Packed words of visited states in a file without a name, by partition.

    Parameters
    ----------
    words
        Whole words of an entry.
    folder
        Where its space is taken from; by default the system's place for temporary files.
    """

    def __init__(self, words: int, folder: Path | None = None) -> None:
        self.columns = words + 1
        self.count = 0
        self._folder = folder
        self._file = GrowingFile.temporary(folder)
        self._pieces: list[list[tuple[int, int]]] = [[] for _ in range(PARTITIONS)]  # offset, entries

    def append(self, partition: int, words: Words) -> None:
        """Append entries of a partition."""
        if not len(words):
            return
        offset = self._file.append(words)
        pieces = self._pieces[partition]
        size = self.columns * WORD_BYTES
        if pieces and pieces[-1][0] + pieces[-1][1] * size == offset:
            pieces[-1] = (pieces[-1][0], pieces[-1][1] + len(words))
        else:
            pieces.append((offset, len(words)))
        self.count += len(words)

    def chunks(self, partition: int) -> Iterator[Words]:
        """Yield the entries of a partition, some at a time; several threads may read several partitions."""
        for offset, entries in self._pieces[partition]:
            for first in range(0, entries, CHUNK):
                words = np.empty((min(CHUNK, entries - first), self.columns), np.uint64)
                self._file.read_into(offset + first * self.columns * WORD_BYTES, words)
                yield words

    def known(self, number: int, partition: Partition) -> Flags:
        """Return for each place of a partition in memory whether its entry is in the archive."""
        known = np.zeros(len(partition.places), np.uint8)
        if partition.count:
            for words in self.chunks(number):
                mark(partition.keys, partition.places, words, known)
        return known

    def repacked(self, old: Packing, new: Packing) -> Archive:
        """Return an archive of the same states packed anew; this one is closed.

        An entry may move to another partition: that follows from its words.
        """
        fresh = Archive(new.words, self._folder)
        fields = len(old.position)  # fields that are new are empty: their bits are 0
        for number in range(PARTITIONS):
            for words in self.chunks(number):
                again = np.zeros((len(words), new.words + 1), np.uint64)
                owner = np.zeros(len(words), np.int64)
                repack(words, old.position, old.width, again, new.position[:fields], new.width[:fields], owner)
                order = np.argsort(owner, kind="stable")
                ends = np.searchsorted(owner[order], np.arange(PARTITIONS + 1))
                for p in range(PARTITIONS):
                    fresh.append(p, again[order[ends[p] : ends[p + 1]]])
        self.close()
        return fresh

    def close(self) -> None:
        """Close the file and give its space back."""
        self._file.close()
