"""Fingerprints of states: sums of hashes of their parts."""


from __future__ import annotations

from typing import Any

import numpy as np

from kraftcheck.explorer.tables.kernel.layout import C_N, C_START, M_BOUNDS, M_SLOT_BASE, M_SLOTS
from kraftcheck.explorer.tables.kernel.maps import mix
from kraftcheck.explorer.tables.kernel.native import jit


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
