"""Names of states that do not depend on the order in which values were discovered: sums of hashes of their parts.

A state's row of ids depends on what was learned before. Its stable name does not, nor on the process; equal states have
equal names. It is what a random walk orders successors by, so that a walk can be made again.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kraftcheck.explorer.tables.kernel import layout as at
from kraftcheck.explorer.tables.kernel.expand import mix
from kraftcheck.explorer.tables.kernel.layout import C_N, C_START, M_BOUNDS, M_SLOT_BASE, M_SLOTS, grown
from kraftcheck.explorer.tables.kernel.native import jit
from kraftcheck.explorer.tables.learning.interner import Vocabulary
from kraftcheck.spec.values import Value, encode

Hashes = NDArray[np.uint64]


@jit
def name_rows(
    meta: Any, rows: Any, of_shared: Any, of_slots: Any, of_locals: Any, first: Any, last: Any, of_rows: Any
) -> None:
    """Write the names of control rows: of what is spent, of the shared fields, of each replica with its id."""
    bounds, base = meta[M_BOUNDS], meta[M_SLOT_BASE]
    for row in range(first, last):
        name = np.uint64(0)
        for c in range(bounds):
            name += mix((c + 1) << 32 | np.int64(rows[row, c]))
        for c in range(bounds, base):
            name += of_shared[c - bounds, rows[row, c]]
        for s in range(meta[M_SLOTS]):
            if rows[row, base + s] != 0:
                name += mix(of_slots[s] ^ of_locals[rows[row, base + s]])
        of_rows[row] = name


@jit
def name_contents(
    contents: Any, content_items: Any, of_messages: Any, first: Any, last: Any, of_contents: Any
) -> None:
    """Write the names of inbox contents that are counts of messages."""
    for content in range(first, last):
        name = np.uint64(0)
        start = np.int64(contents[content, C_START])
        for k in range(start, start + contents[content, C_N]):
            name += mix(of_messages[content_items[k, 0]] ^ mix(np.int64(content_items[k, 1]) + 1))
        of_contents[content] = name


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
        rows, contents = int(known.meta[at.M_ROWS]), int(known.meta[at.M_CONTENTS])
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
