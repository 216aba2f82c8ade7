"""Fingerprints of control rows and inbox contents: sums of hashes, independent of the order of discovery."""

from __future__ import annotations

from typing import Any

import numpy as np

from kraftcheck.explorer.native.arrays import Arrays, array
from kraftcheck.explorer.tables.kernel.codes import C_N, C_START, M_BOUNDS, M_SLOT_BASE, M_SLOTS, smaller
from kraftcheck.explorer.tables.kernel.maps import mix
from kraftcheck.explorer.tables.kernel.native import jit


class FingerprintArrays(Arrays):
    """The fingerprints of a state's parts, by their ids."""

    rows = array(np.uint64)
    contents = array(np.uint64)
    locals = array(np.uint64)
    messages = array(np.uint64)
    slots = array(np.uint64)
    shared = array(np.uint64, -1)  # column, value


@jit
def fingerprint_rows(t: Any, of: Any, first: Any, last: Any) -> None:
    """Write the fingerprints of control rows from the bounds used, the shared fields and each replica's local state."""
    bounds, base = t.meta[M_BOUNDS], t.meta[M_SLOT_BASE]
    for row in range(first, last):
        total = np.uint64(0)
        for c in range(bounds):
            total += mix((c + 1) << 32 | np.int64(t.rows[row, c]))
        for c in range(bounds, smaller(base, bounds + len(of.shared))):
            total += of.shared[c - bounds, t.rows[row, c]]
        for s in range(t.meta[M_SLOTS]):
            if t.rows[row, base + s] != 0:
                total += mix(of.slots[s] ^ of.locals[t.rows[row, base + s]])
        of.rows[row] = total


@jit
def fingerprint_contents(t: Any, of: Any, first: Any, last: Any) -> None:
    """Write the fingerprints of inbox contents that are counts of messages."""
    for content in range(first, last):
        total = np.uint64(0)
        start = np.int64(t.contents[content, C_START])
        for k in range(start, start + t.contents[content, C_N]):
            total += mix(of.messages[t.content_items[k, 0]] ^ mix(np.int64(t.content_items[k, 1]) + 1))
        of.contents[content] = total
