"""Makes what `expand` did not find, and notes what only Python can answer.

It runs in one thread, between batches. Everything is made once for each distinct value, so it is simple rather than
fast.
"""

from __future__ import annotations

from typing import Any

from kraftcheck.explorer.tables.kernel import codes
from kraftcheck.explorer.tables.kernel.codes import JUDGED, MISSING
from kraftcheck.explorer.tables.kernel.maps import find
from kraftcheck.explorer.tables.kernel.native import jit
from kraftcheck.explorer.tables.kernel.resolving.asking import ask
from kraftcheck.explorer.tables.kernel.resolving.control_rows import make_row_images
from kraftcheck.explorer.tables.kernel.resolving.inboxes import make_content_images, make_operated
from kraftcheck.explorer.tables.kernel.resolving.properties import judge
from kraftcheck.explorer.tables.kernel.resolving.steps import build_bundle, build_row, make_changed


@jit
def resolve(t: Any, worker: Any) -> None:
    """Make what the worker missed, from number `meta[M_RESOLVED]` on, which says how far it came.

    What needs Python is noted in `asked`, and will be missed again.
    """
    while t.meta[codes.M_RESOLVED] < worker.stats[codes.S_MISSES]:
        i = t.meta[codes.M_RESOLVED]
        kind, a, b, c = worker.misses[i, 0], worker.misses[i, 1], worker.misses[i, 2], worker.misses[i, 3]
        if kind == codes.MISS_STEPS:
            if t.row_info[a, codes.R_START] < 0:
                build_row(t, a)
        elif kind == codes.MISS_BUNDLE:
            if find(t.bundles, (a << 32) | b) == MISSING:
                build_bundle(t, a, b)
        elif kind == codes.MISS_CHANGED:
            make_changed(t, a, b)
        elif kind == codes.MISS_OPERATED:
            make_operated(t, a, b)
        elif kind == codes.MISS_JUDGED:
            if not t.row_info[a, codes.R_FLAGS] & JUDGED:
                judge(t, a)
        elif kind == codes.MISS_ROW_IMAGES:
            make_row_images(t, a)
        elif kind == codes.MISS_CONTENT_IMAGES:
            make_content_images(t, a)
        elif kind == codes.MISS_PATH:
            ask(t, codes.ASK_PATH, a, b, c, 0, worker.misses[i, 4])
        t.meta[codes.M_RESOLVED] = i + 1
