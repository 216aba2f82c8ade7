"""Bit layout of packed states, and their division among the partitions of the visited set.

The fields of the replicas' inboxes come first, from bit 0 on, and the control row's last, although its column is
the first. An inbox is packed as its number among those of the same replica. Each field has as many bits as its
largest number needs, or one more where that costs no byte. When a number outgrows its field, `Expander.fit_packing`
widens the field before the next batch. The visited set, the archive and the set of depths then repack their states.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from hashlib import blake2b
from math import prod
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kraftcheck.explorer.tables.kernel.codes import CLUSTER_HEAD
from kraftcheck.explorer.tables.kernel.packing import (
    HOME_BITS,
    MIXED_BITS,
    PARTITION_BITS,
    PackingArrays,
    repack,
)
from kraftcheck.explorer.tables.kernel.worker import SuccessorArrays
from kraftcheck.explorer.tables.states.virtual_memory import scattered

Rows = NDArray[np.int32]
Indices = NDArray[np.int64]
Words = NDArray[np.uint64]

PARTITIONS = 1 << PARTITION_BITS
SUCCESSORS_PER_STATE = 12  # mean number that the buffers have room for


class Packing(PackingArrays):
    """The bit position and width of each field of a packed state."""

    def __init__(self, position: NDArray[np.int32], width: NDArray[np.int32]) -> None:
        super().__init__()
        self.position, self.width = position, width
        self.bits = int(width.sum())
        self.words = -(-self.bits // 64)

    def of(self, fields: Sequence[Sequence[int]], columns: int) -> Packing:
        """Assign the columns of a flat state to fields, and return the packing; clusters come first."""
        self.columns = np.array([column for field in fields for column in field], np.int32)
        self.firsts = np.cumsum([0, *map(len, fields)]).astype(np.int32)
        self.factors = np.array([_factor(number) for number in range(len(self.columns))], np.uint64)
        several = [len(field) for field in fields if len(field) > 1]
        self.clusters, self.items = np.array([[len(several)], [sum(several) + CLUSTER_HEAD * len(several)]], np.int64)
        self.field_of = np.full(columns, -1, np.int32)
        self.field_of[self.columns] = np.repeat(np.arange(len(fields)), np.diff(self.firsts))
        return self

    def has_room_for(self, bits: list[int]) -> bool:
        """Return whether every field is at least as wide as given in `bits`."""
        return len(bits) == len(self.width) and all(n <= w for n, w in zip(bits, self.width, strict=True))


def _factor(number: int) -> int:
    """Return the odd 64-bit hash factor of a column number."""
    return int.from_bytes(blake2b(number.to_bytes(8), digest_size=8).digest()) | 1


def packing(widths: list[int]) -> Packing:
    """Return a packing with fields of these widths, the control row first."""
    order = [*range(1, len(widths)), 0]
    position, at = np.zeros(len(widths), np.int32), 0
    for field in order:
        position[field] = at
        at += widths[field]
    return Packing(position, np.array(widths, np.int32))


def roomy_packing(counts: list[int], before: Sequence[int] = ()) -> Packing:
    """Return a packing for ids up to `counts`; spare bits that cost no memory go to the fastest-growing fields."""
    widths = [max(1, count.bit_length()) for count in counts]
    spare, total = 0, sum(widths)
    while spare < len(widths) and _sizes(total + spare + 1) == _sizes(total):
        spare += 1
    grown = [count / max(1, old) for count, old in zip(counts, [*before, *[1] * len(counts)], strict=False)]
    soon = sorted(range(len(widths)), key=lambda field: -counts[field] * grown[field] / (1 << widths[field]))
    for field in soon[:spare]:
        widths[field] += 1
    return packing(widths)


def entry_bytes(bits: int, capacity: int = 1 << 18, others: int = 0) -> int:
    """Return the bytes of a packed state's entry in a partition of the visited set."""
    beside = max(0, bits - MIXED_BITS)
    return 1 + (HOME_BITS - (capacity.bit_length() - 1) + others + beside + 7) // 8


def _sizes(bits: int) -> tuple[int, int]:
    """Return the words and the visited-set bytes of a packed state of `bits` bits."""
    return -(-bits // 64), entry_bytes(bits)


def by_owner(owner: NDArray[Any], parts: int = PARTITIONS) -> Iterator[tuple[int, NDArray[np.int64]]]:
    """Yield each partition with the indices of the states that it owns, in order."""
    order = np.argsort(owner.astype(np.min_scalar_type(parts)), kind="stable")  # a radix sort for short integers
    ends = np.cumsum(np.bincount(owner, minlength=parts))
    for partition, first in enumerate([0, *ends[:-1]]):
        if first < ends[partition]:
            yield partition, order[first : ends[partition]]


def repacked_words(words: Words, old: Packing, new: Packing) -> Iterator[tuple[int, Words]]:
    """Convert packed words to a new packing; yield (partition, words) for each partition that then owns some."""
    again: Any = np.zeros((len(words), new.words), np.uint64)
    owner = np.zeros(len(words), np.int64)
    repack(words, old, again, new, owner)
    for partition, mine in by_owner(owner):
        yield partition, again[mine]


class Successors(SuccessorArrays):
    """The successors that one worker has found, not yet looked up in the visited set."""

    def __init__(self) -> None:
        super().__init__()
        self.rows = np.zeros((PARTITIONS, 0, 0), np.int32)
        self.words = np.zeros((PARTITIONS, 0, 0), np.uint64)
        self.counts = np.zeros(PARTITIONS, np.int64)

    def fit(self, room: int, width: int, stored: int) -> None:
        """Resize the buffers, and keep their contents."""
        room = max(room, self.rows.shape[1])
        self.rows = _fitted(self.rows, self.counts, room, width)
        self.words = _fitted(self.words, self.counts, room, stored)

    def put(self, rows: Rows, words: Words, owner: NDArray[np.int64]) -> None:
        """Replace the contents of the buffers by these rows, each in the partition that `owner` names."""
        counts = np.bincount(owner, minlength=PARTITIONS)
        room = max(self.rows.shape[1], int(counts.max()))
        if self.rows.shape[1:] != (room, rows.shape[1]):
            self.rows = scattered((PARTITIONS, room, rows.shape[1]), np.int32)
        if self.words.shape[1:] != (room, words.shape[1]):
            self.words = scattered((PARTITIONS, room, words.shape[1]), np.uint64)
        for p, mine in by_owner(owner):
            self.rows[p, : len(mine)], self.words[p, : len(mine)] = rows[mine], words[mine]
        self.counts[:] = counts

    def all_rows(self) -> Rows:
        """Return the rows of all partitions."""
        return np.concatenate([self.rows[p, : self.counts[p]] for p in range(PARTITIONS)])

    def clear(self) -> None:
        """Remove all successors; the buffers stay."""
        self.counts[:] = 0


def _fitted(array: NDArray[Any], counts: NDArray[np.int64], room: int, columns: int) -> NDArray[Any]:
    """Return the array resized to `room` rows of `columns` columns for each partition, with its counted rows kept."""
    _, old_room, old_columns = array.shape
    if (old_room, old_columns) == (room, columns):
        return array
    larger = scattered((PARTITIONS, room, columns), array.dtype)
    for p in np.flatnonzero(counts).tolist() if old_columns <= columns else ():
        larger[p, : counts[p], :old_columns] = array[p, : counts[p]]
    return larger


class Found(NamedTuple):
    """The successors of all workers."""

    parts: list[Successors]  # by worker
    packing: Packing
    width: int  # columns of a state


def distinct(inputs: Rows) -> tuple[Indices, Indices]:
    """Return the first index of each distinct column, and for each column the number of its distinct value."""
    lowest = inputs.min(axis=1).tolist()
    ranges = [high + 1 - low for high, low in zip(inputs.max(axis=1).tolist(), lowest, strict=True)]
    if prod(ranges) >= 1 << 63:  # a column does not fit into one number
        whole = np.ascontiguousarray(inputs.T).view(np.dtype((np.void, len(inputs) * inputs.itemsize))).ravel()
        return np.unique(whole, return_index=True, return_inverse=True)[1:]
    keys = np.zeros(inputs.shape[1], np.int64)
    for row, low, each in zip(inputs, lowest, ranges, strict=True):
        if each > 1:
            keys *= each
            keys += row
            keys -= low
    if prod(ranges) > 4 * len(keys):
        return np.unique(keys, return_index=True, return_inverse=True)[1:]
    places = np.full(prod(ranges), -1, np.int64)
    places[keys[::-1]] = np.arange(len(keys) - 1, -1, -1)
    found = np.flatnonzero(places >= 0)
    first = places[found]
    places[found] = np.arange(len(found))
    return first, places[keys]
