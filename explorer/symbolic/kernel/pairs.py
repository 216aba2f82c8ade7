"""Number of steps out of a set of states, modulo a prime."""

from __future__ import annotations

from typing import Any

import numpy as np

from kraftcheck.explorer.symbolic.kernel.calling import jit
from kraftcheck.explorer.symbolic.kernel.diagram import (
    INCOMPLETE,
    LOW,
    PAIRS,
    UNKNOWN,
    cached,
    classes_of,
    first_edge,
    known_lookup,
    level_of,
    remember,
)


@jit
def count_steps(d: Any, a: Any, r: Any, which: Any, modulus: Any) -> Any:
    """Return the number of pairs (state, event), modulo a number; the relation must have been applied to the set."""
    if a == 0 or r == 0:
        return np.int64(0)
    if a == 1 and r == 1:
        return np.int64(1)
    key1, key2 = a << 32 | r, np.int64(PAIRS) << 32 | which
    found = cached(d, key1, key2)
    if found != UNKNOWN:
        return found
    level = d.relation_nodes[r, 0] if r > 1 else level_of(d, a)
    start, n = d.nodes[a, 0], d.nodes[a, 1] & LOW
    result, rule, table = np.int64(0), d.relation_nodes[r], d.relation_edges
    # The same phases as in `product`, whose lookups are all cached by now.
    if r == 1 or level_of(d, a) < level:
        for i in range(start, start + n):
            result = (result + count_steps(d, d.edges[i] & LOW, r, which, modulus)) % modulus
    else:
        skips = level_of(d, a) > level
        for i in range(1 if skips else n):
            e = a if skips else d.edges[start + i]
            value, child = e >> 32, e & LOW
            k = first_edge(d, r, np.int64(0), value) if rule[1] else UNKNOWN
            while k >= 0:
                result = (result + count_steps(d, child, table[k, 1], which, modulus)) % modulus
                k = table[k, 2]
            packed = classes_of(d, d.message_maps[level], value) if rule[2] else np.int64(0)
            for item in range(packed >> 24, (packed >> 24) + (packed & 0xFFFFFF)):
                k = first_edge(d, r, np.int64(1), d.map_items[item])
                while k >= 0:
                    if known_lookup(d, table[k, 0], value) >= 0:
                        result = (result + count_steps(d, child, table[k, 1], which, modulus)) % modulus
                    k = table[k, 2]
            k = rule[3]
            while k >= 0:
                if known_lookup(d, table[k, 0], value) >= 0:
                    result = (result + count_steps(d, child, table[k, 1], which, modulus)) % modulus
                k = table[k, 2]
    remember(d, key1, key2, result, d.meta[INCOMPLETE])
    return result
