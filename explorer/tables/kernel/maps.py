"""Maps of integers to integers: arrays of pairs with open addressing; a key of -1 is free."""

from __future__ import annotations

from typing import Any

import numpy as np

from kraftcheck.explorer.tables.kernel.codes import MISSING
from kraftcheck.explorer.tables.kernel.native import inlined, jit


@inlined
def mix(key: Any) -> Any:
    """Spread the bits of a 64-bit number; a bijection."""
    x = np.uint64(key)
    x ^= x >> np.uint64(32)
    x *= np.uint64(0xD6E8FEB86659FD93)
    x ^= x >> np.uint64(32)
    x *= np.uint64(0xD6E8FEB86659FD93)
    x ^= x >> np.uint64(32)
    return x


@inlined
def spread(key: Any) -> Any:
    """Spread the bits of a map's key; cheaper than `mix`, and enough for keys that are two ids."""
    x = np.uint64(key) * np.uint64(0x9E3779B97F4A7C15)
    return np.int64(x ^ (x >> np.uint64(32)))


@inlined
def find(pairs: Any, key: Any) -> Any:
    """Return the value of a key, or MISSING."""
    mask = np.int64(len(pairs) - 1)
    i = spread(key) & mask
    while True:
        k = pairs[i, 0]
        if k == key:
            return pairs[i, 1]
        if k == -1:
            return MISSING
        i = (i + 1) & mask


@inlined
def store(pairs: Any, key: Any, value: Any) -> bool:
    """Set the value of a key; return whether the key is new."""
    mask = np.int64(len(pairs) - 1)
    i = spread(key) & mask
    while pairs[i, 0] != -1:
        if pairs[i, 0] == key:
            pairs[i, 1] = value
            return False
        i = (i + 1) & mask
    pairs[i, 0] = key
    pairs[i, 1] = value
    return True


@inlined
def is_full(entries: Any, pairs: Any) -> Any:
    """Whether a map of so many entries must grow: small maps stay in the processor's caches."""
    return (entries + 2) * 4 > 3 * len(pairs)


@jit
def put(pairs: Any, key: Any, value: Any) -> Any:
    """Set the value of a key, for Python; return whether the key is new."""
    return store(pairs, key, value)


@jit
def copy_map(pairs: Any, larger: Any) -> None:
    """Enter every pair of one map into another."""
    for i in range(len(pairs)):
        if pairs[i, 0] != -1:
            store(larger, pairs[i, 0], pairs[i, 1])
