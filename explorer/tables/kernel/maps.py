"""Open-addressing hash maps from integers to integers: arrays of pairs, in which a free place has the key -1.

A *near* map has keys of two parts: an id, and a second number in the low bits. Entries of one id share a group of
places, which fills two cache lines. An entry that finds its group full goes to its place by plain hashing.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kraftcheck.explorer.tables.kernel.codes import MISSING
from kraftcheck.explorer.tables.kernel.native import inlined, jit

NEAR_BITS = 24  # of a near map's key, for its second number
GROUP_BITS = 3
GROUP = 1 << GROUP_BITS  # places of an id's group


@inlined
def mix(key: Any) -> Any:
    """Mix the bits of a 64-bit number by a bijection."""
    x = np.uint64(key)
    x ^= x >> np.uint64(32)
    x *= np.uint64(0xD6E8FEB86659FD93)
    x ^= x >> np.uint64(32)
    x *= np.uint64(0xD6E8FEB86659FD93)
    x ^= x >> np.uint64(32)
    return x


@inlined
def spread(key: Any) -> Any:
    """Hash a map's key; cheaper than `mix`, and good enough for keys that are two ids."""
    x = np.uint64(key) * np.uint64(0x9E3779B97F4A7C15)
    return np.int64(x ^ (x >> np.uint64(32)))


@inlined
def first_place(pairs: Any, key: Any) -> Any:
    """Return the key's home place in a map."""
    return spread(key) & np.int64(len(pairs) - 1)


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
def store(pairs: Any, key: Any, value: Any) -> Any:
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
def group_of(pairs: Any, number: Any) -> Any:
    """Return the first place of the group that a map keeps for keys whose first part is `number`."""
    return (spread(number) << GROUP_BITS) & np.int64(len(pairs) - 1)


@inlined
def place_in_group(key: Any) -> Any:
    """Return the offset within its group at which the search for a key starts."""
    return np.int64((np.uint64(key) * np.uint64(0xD6E8FEB86659FD93)) >> np.uint64(64 - GROUP_BITS))


@inlined
def near_key(number: Any, other: Any) -> Any:
    """Pack an id and a second number into the key of a map that keeps one id's entries side by side."""
    return (number << NEAR_BITS) | other


@inlined
def find_near(pairs: Any, number: Any, other: Any) -> Any:
    """Return the value for a pair of numbers in a map that keeps one number's pairs side by side, or MISSING."""
    key = near_key(number, other)
    group, first = group_of(pairs, number), place_in_group(key)
    for k in range(GROUP):
        i = group | ((first + k) & (GROUP - 1))
        if pairs[i, 0] == key:
            return pairs[i, 1]
        if pairs[i, 0] == -1:
            return MISSING
    return find(pairs, key)


@inlined
def store_near(pairs: Any, key: Any, value: Any) -> Any:
    """Set a key's value in a map that keeps one id's entries side by side; return whether the key is new."""
    group, first = group_of(pairs, key >> NEAR_BITS), place_in_group(key)
    for k in range(GROUP):
        i = group | ((first + k) & (GROUP - 1))
        if pairs[i, 0] == key or pairs[i, 0] == -1:
            new = pairs[i, 0] == -1
            pairs[i, 0] = key
            pairs[i, 1] = value
            return new
    return store(pairs, key, value)


@inlined
def is_full(entries: Any, pairs: Any) -> Any:
    """Return whether a map of `entries` entries must grow; a dense map is small enough for the processor's caches."""
    return (entries + 2) * 4 > 3 * len(pairs)


@jit
def put(pairs: Any, key: Any, value: Any, near: Any) -> Any:
    """Set the value of a key, as an entry point for Python; return whether the key is new."""
    return store_near(pairs, key, value) if near else store(pairs, key, value)


@jit
def copy_map(pairs: Any, larger: Any, near: Any) -> None:
    """Copy every pair of one map into a larger one."""
    for i in range(len(pairs)):
        if pairs[i, 0] != -1:
            put(larger, pairs[i, 0], pairs[i, 1], near)
