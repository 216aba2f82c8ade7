"""Names of states that do not depend on the order in which values were discovered: sums of hashes of their parts.

A state's row of ids depends on what was learned before. Its stable name does not, nor on the process; equal states have
equal names. It is what a random walk orders successors by, so that a walk can be made again.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kraftcheck.explorer.tables.kernel.fingerprint import name_contents, name_rows
from kraftcheck.explorer.tables.kernel.layout import M_CONTENTS, M_ROWS, grown
from kraftcheck.explorer.tables.learning.interner import Vocabulary
from kraftcheck.spec.values import Value, encode

Hashes = NDArray[np.uint64]


class StableNames:
    """The names of the parts of states, kept up to date as more is learned.

    Parameters
    ----------
    vocabulary
        What is known of the protocol's values.
    """

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._vocabulary = vocabulary
        self.of_rows: Hashes = np.zeros(1 << 10, np.uint64)
        self.of_contents: Hashes = np.zeros(1 << 10, np.uint64)
        self._of_locals: Hashes = np.zeros(1 << 8, np.uint64)
        self._of_messages: Hashes = np.zeros(1 << 8, np.uint64)
        self._of_slots: Hashes = np.zeros(1 << 4, np.uint64)
        self._of_shared: Hashes = np.zeros((max(1, len(vocabulary.shared_names)), 1 << 6), np.uint64)
        self._locals, self._messages, self._slots, self._rows, self._contents = 1, 0, 0, 0, 1
        self._shared = [0] * len(vocabulary.shared_names)

    def update(self) -> None:
        """Name what was learned since the last time."""
        known, a = self._vocabulary, self._vocabulary.a
        self._of_locals, self._locals = _named(self._of_locals, known.locals, self._locals)
        self._of_messages, self._messages = _named(self._of_messages, known.messages, self._messages)
        self._of_slots, self._slots = _named(self._of_slots, list(known.slots), self._slots)
        for column, values in enumerate(known.shared_values):
            if len(values) > self._of_shared.shape[1]:
                self._of_shared = np.pad(self._of_shared, ((0, 0), (0, len(values))))
            for number in range(self._shared[column], len(values)):
                self._of_shared[column, number] = name_of((column, values[number]))
            self._shared[column] = len(values)
        rows, contents = int(known.meta[M_ROWS]), int(known.meta[M_CONTENTS])
        self.of_rows = grown(self.of_rows, rows)
        name_rows(
            known.meta, a["rows"], self._of_shared, self._of_slots, self._of_locals, self._rows, rows, self.of_rows
        )
        self.of_contents = grown(self.of_contents, contents)
        name_contents(
            a["contents"], a["content_items"], self._of_messages, self._contents, contents, self.of_contents
        )
        for content in range(self._contents, contents):
            if content in known.content_values:  # more than counts: queues
                self.of_contents[content] = name_of(known.content_values[content])
        self._rows, self._contents = rows, contents


def name_of(value: Value) -> int:
    """Return the hash of a value's canonical encoding."""
    return int.from_bytes(blake2b(encode(value), digest_size=8).digest(), "little")


def _named(names: Hashes, values: list[Any], first: int) -> tuple[Hashes, int]:
    names = grown(names, len(values))
    for number in range(first, len(values)):
        names[number] = name_of(values[number])
    return names, len(values)
