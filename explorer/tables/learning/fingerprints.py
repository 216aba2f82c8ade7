"""Fingerprints of states, independent of the order of discovery.

Ids depend on the order in which threads discover values, so no result may depend on a comparison of ids. A
fingerprint is computed from the values, and is the same in every process. Random walks and counterexamples order
states by it, which makes both reproducible.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kraftcheck.explorer.native.arrays import grow_array
from kraftcheck.explorer.tables.kernel.codes import META_CONTENTS, META_ROWS
from kraftcheck.explorer.tables.kernel.maps import (
    StatePartFingerprintArrays,
    fingerprint_control_rows,
    fingerprint_inbox_contents,
)
from kraftcheck.explorer.tables.learning.growing_tables import with_more_columns
from kraftcheck.explorer.tables.learning.learner import Learner
from kraftcheck.spec.encoding import encode
from kraftcheck.spec.values import Value


class StatePartFingerprints(StatePartFingerprintArrays):
    """The fingerprints of a state's parts, by their ids."""

    def __init__(self, learner: Learner) -> None:
        super().__init__()
        self._interner = learner.interner
        self._interner.shared.sets.is_allowed = False
        self._known = {"locals": 1, "messages": 0, "slots": 0, "rows": 0, "contents": 1}
        self._shared = [0] * len(self._interner.shared.names)
        self.shared = np.zeros((max(1, len(self._shared)), 1 << 6), np.uint64)

    def update(self) -> None:
        """Compute the fingerprints of values interned since the last call."""
        interner, meta = self._interner, self._interner.tables.meta
        messages = interner.inboxes.messages
        for name, values in (("locals", interner.locals), ("messages", messages), ("slots", interner.slots)):
            first = self._fit(name, len(values))
            for number, value in enumerate([*values][first:], first):
                getattr(self, name)[number] = value_fingerprint(value)
        for column, values in enumerate(interner.shared.values):
            if len(values) > self.shared.shape[1]:
                self.shared = with_more_columns(self.shared, 2 * len(values))
            for number in range(self._shared[column], len(values)):
                self.shared[column, number] = value_fingerprint((column, values[number]))
            self._shared[column] = len(values)
        first = self._fit("rows", int(meta[META_ROWS]))
        fingerprint_control_rows(interner.tables, self, first, meta[META_ROWS])
        for column in interner.shared.sets.elements:
            for row in range(first, int(meta[META_ROWS])):
                value = interner.shared.sets.value(column, interner.tables.rows[row].tolist())
                moved = int(self.rows[row]) + int(value_fingerprint((column, value))) - int(self.shared[column, 0])
                self.rows[row] = moved % (1 << 64)
        first = self._fit("contents", int(meta[META_CONTENTS]))
        fingerprint_inbox_contents(interner.tables, self, first, meta[META_CONTENTS])
        for content in range(first, int(meta[META_CONTENTS])):
            if content in interner.inboxes.content_values:  # more than counts: queues
                self.contents[content] = value_fingerprint(interner.inboxes.content_values[content])

    def _fit(self, name: str, count: int) -> int:
        """Make room for `count` fingerprints of a kind; return how many of them are computed."""
        array: NDArray[Any] = getattr(self, name)
        setattr(self, name, grow_array(array, count))
        made, self._known[name] = self._known[name], count
        return made


def value_fingerprint(value: Value) -> int:
    """Return the hash of a value's canonical encoding."""
    return int.from_bytes(blake2b(encode(value), digest_size=8).digest(), "little")
