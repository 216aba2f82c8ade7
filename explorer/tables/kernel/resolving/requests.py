"""Requests from the kernel to Python: to grow a table, or to call user code."""

from __future__ import annotations

from typing import Any

import numpy as np

from kraftcheck.explorer.tables.kernel import codes
from kraftcheck.explorer.tables.kernel.codes import MISSING, WITH_PYTHON, pair
from kraftcheck.explorer.tables.kernel.maps import find, is_full, store
from kraftcheck.explorer.tables.kernel.native import inlined, jit


class TableFull(Exception):  # noqa: N818 - control flow, not an error
    """A table must grow before the kernel can go on."""


@inlined
def abort_to_grow(t: Any, what: Any) -> None:
    """Leave the kernel so that Python grows a table."""
    t.meta[codes.M_GROW] |= what
    raise TableFull


@jit
def ask(t: Any, kind: Any, a: Any, b: Any, c: Any, d: Any, e: Any) -> None:
    """File a request to Python."""
    n = t.meta[codes.M_ASKED]
    if n >= len(t.asked):
        abort_to_grow(t, codes.GROW_ASKED)
    t.asked[n, 0] = kind
    t.asked[n, 1] = a
    t.asked[n, 2] = b
    t.asked[n, 3] = c
    t.asked[n, 4] = d
    t.asked[n, 5] = e
    t.meta[codes.M_ASKED] = n + 1


@jit
def request_handlers(t: Any, local: Any, message: Any) -> Any:
    """Return a local state's handlers for a message (0: internal actions), or MISSING after one request to Python."""
    key = pair(local, message)
    found = find(t.roots, key)
    if found >= 0:
        return found
    if found == MISSING:
        if is_full(t.meta[codes.M_ROOTS], t.roots):
            abort_to_grow(t, codes.GROW_MAP)
        ask(t, codes.ASK_ROOTS, local, message, 0, 0, 0)
        t.meta[codes.M_ROOTS] += 1
        store(t.roots, key, WITH_PYTHON)
    return np.int64(MISSING)
