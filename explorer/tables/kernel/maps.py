"""Hash maps of the kernel, and fingerprints of states: sums of hashes, independent of the order of discovery."""

from __future__ import annotations

from typing import Any

import numpy as np

from kraftcheck.explorer.native.arrays import ArrayGroup, declare_array
from kraftcheck.explorer.native.compiling import inlined
from kraftcheck.explorer.tables.kernel import codes, jit

GROUPED_KEY_SECOND_BITS = 24  # of a near map's key, for its second number
GROUP_PLACES_LOG2 = 3
GROUP_PLACES = 1 << GROUP_PLACES_LOG2  # places of an id's group


@inlined
def mix64(key: Any) -> Any:
    """Mix the bits of a 64-bit number by a bijection."""
    x = np.uint64(key)
    x ^= x >> np.uint64(32)
    x *= np.uint64(0xD6E8FEB86659FD93)
    x ^= x >> np.uint64(32)
    x *= np.uint64(0xD6E8FEB86659FD93)
    x ^= x >> np.uint64(32)
    return x


@inlined
def key_hash(key: Any) -> Any:
    """Hash a map's key; cheaper than `mix64`, and good enough for keys that are two ids."""
    x = np.uint64(key) * np.uint64(0x9E3779B97F4A7C15)
    return np.int64(x ^ (x >> np.uint64(32)))


@inlined
def home_of_key(pairs: Any, key: Any) -> Any:
    """Return the key's home place in a map."""
    return key_hash(key) & np.int64(len(pairs) - 1)


@inlined
def find_value(pairs: Any, key: Any) -> Any:
    """Return the value of a key, or MISSING."""
    mask = np.int64(len(pairs) - 1)
    i = key_hash(key) & mask
    while True:
        k = pairs[i, 0]
        if k == key:
            return pairs[i, 1]
        if k == -1:
            return codes.MISSING
        i = (i + 1) & mask


@inlined
def store_value(pairs: Any, key: Any, value: Any) -> Any:
    """Set the value of a key; return whether the key is new."""
    mask = np.int64(len(pairs) - 1)
    i = key_hash(key) & mask
    while pairs[i, 0] != -1:
        if pairs[i, 0] == key:
            pairs[i, 1] = value
            return False
        i = (i + 1) & mask
    pairs[i, 0] = key
    pairs[i, 1] = value
    return True


@inlined
def group_start(pairs: Any, number: Any) -> Any:
    """Return the first place of the group that a map keeps for keys whose first part is `number`."""
    return (key_hash(number) << GROUP_PLACES_LOG2) & np.int64(len(pairs) - 1)


@inlined
def search_offset_in_group(key: Any) -> Any:
    """Return the offset within its group at which the search for a key starts."""
    return np.int64((np.uint64(key) * np.uint64(0xD6E8FEB86659FD93)) >> np.uint64(64 - GROUP_PLACES_LOG2))


@inlined
def grouped_key(number: Any, other: Any) -> Any:
    """Pack an id and a second number into the key of a map that keeps one id's entries side by side."""
    return (number << GROUPED_KEY_SECOND_BITS) | other


@inlined
def find_grouped_value(pairs: Any, number: Any, other: Any) -> Any:
    """Return the value for a pair of numbers in a map that keeps one number's pairs side by side, or MISSING."""
    key = grouped_key(number, other)
    group, first = group_start(pairs, number), search_offset_in_group(key)
    for k in range(GROUP_PLACES):
        i = group | ((first + k) & (GROUP_PLACES - 1))
        if pairs[i, 0] == key:
            return pairs[i, 1]
        if pairs[i, 0] == -1:
            return codes.MISSING
    return find_value(pairs, key)


@inlined
def store_grouped_value(pairs: Any, key: Any, value: Any) -> Any:
    """Set a key's value in a map that keeps one id's entries side by side; return whether the key is new."""
    group, first = group_start(pairs, key >> GROUPED_KEY_SECOND_BITS), search_offset_in_group(key)
    for k in range(GROUP_PLACES):
        i = group | ((first + k) & (GROUP_PLACES - 1))
        if pairs[i, 0] == key or pairs[i, 0] == -1:
            new = pairs[i, 0] == -1
            pairs[i, 0] = key
            pairs[i, 1] = value
            return new
    return store_value(pairs, key, value)


@inlined
def is_map_full(entries: Any, pairs: Any) -> Any:
    """Return whether a map of `entries` entries must grow; a dense map is small enough for the processor's caches."""
    return (entries + 2) * 4 > 3 * len(pairs)


@jit
def put_from_python(pairs: Any, key: Any, value: Any, near: Any) -> Any:
    """Set the value of a key, as an entry point for Python; return whether the key is new."""
    return store_grouped_value(pairs, key, value) if near else store_value(pairs, key, value)


@jit
def copy_map(pairs: Any, larger: Any, near: Any) -> None:
    """Copy every pair of one map into a larger one."""
    for i in range(len(pairs)):
        if pairs[i, 0] != -1:
            put_from_python(larger, pairs[i, 0], pairs[i, 1], near)


class StatePartFingerprintArrays(ArrayGroup):
    """The fingerprints of a state's parts, by their ids."""

    rows = declare_array(np.uint64)
    contents = declare_array(np.uint64)
    locals = declare_array(np.uint64)
    messages = declare_array(np.uint64)
    slots = declare_array(np.uint64)
    shared = declare_array(np.uint64, -1)  # column, value


@jit
def fingerprint_control_rows(t: Any, of: Any, first: Any, last: Any) -> None:
    """Write the fingerprints of control rows from the bounds used, the shared fields and each replica's local state."""
    bounds, base = t.meta[codes.META_BOUNDS], t.meta[codes.META_SLOT_BASE]
    for row in range(first, last):
        total = np.uint64(0)
        for c in range(bounds):
            total += mix64((c + 1) << 32 | np.int64(t.rows[row, c]))
        for c in range(bounds, codes.smaller(base, bounds + len(of.shared))):
            total += of.shared[c - bounds, t.rows[row, c]]
        for s in range(t.meta[codes.META_SLOTS]):
            if t.rows[row, base + s] != 0:
                total += mix64(of.slots[s] ^ of.locals[t.rows[row, base + s]])
        of.rows[row] = total


@jit
def fingerprint_inbox_contents(t: Any, of: Any, first: Any, last: Any) -> None:
    """Write the fingerprints of inbox contents that are counts of messages."""
    for content in range(first, last):
        total = np.uint64(0)
        start = np.int64(t.contents[content, codes.CONTENT_START])
        for k in range(start, start + t.contents[content, codes.CONTENT_COUNT]):
            total += mix64(of.messages[t.content_items[k, 0]] ^ mix64(np.int64(t.content_items[k, 1]) + 1))
        of.contents[content] = total
