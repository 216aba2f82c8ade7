"""Packing, transfer and order of states with global ids.

A state is a row of 32-bit numbers. The first one is its control row. Each other one belongs to a slot: the number of
its inbox among the inboxes of that slot (0: empty).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kraftcheck.explorer.tables.kernel.packing import owners, pack_states, unpack_states
from kraftcheck.explorer.tables.states.packed_rows import Words, by_owner, packing
from kraftcheck.explorer.tables.states.visited import Partition

States = NDArray[np.int32]
Bytes = NDArray[np.uint8]

WORD_BYTES = 8


class StatePacking:
    """Bit layout of the packed states of a level."""

    def __init__(self, counts: list[int]) -> None:
        self._fields = packing([max(1, (count - 1).bit_length()) for count in counts])
        self.bytes_a_state = (int(self._fields.width.sum()) + 7) // 8

    def partition(self) -> Partition:
        """Return an empty hash table for packed words."""
        return Partition(self._fields)

    def pack(self, states: States) -> Words:
        """Return states as packed words; missing columns are 0."""
        words = np.zeros((len(states), self._fields.words), np.uint64)
        pack_states(states, self._fields, words)
        return words

    def unpack(self, words: Words) -> States:
        """Return the states of packed words."""
        states = np.empty((len(words), len(self._fields.position)), np.int32)
        unpack_states(words, self._fields, states)
        return states

    def to_bytes(self, words: Words) -> bytes:
        """Return packed words as bytes, without the bytes that no state uses."""
        octets = np.ascontiguousarray(words.astype("<u8", copy=False)).view(np.uint8)
        return octets[:, : self.bytes_a_state].tobytes()

    def from_bytes(self, data: Any) -> Words:
        """Return packed words from their bytes."""
        octets: Bytes = np.frombuffer(data, np.uint8).reshape(-1, self.bytes_a_state)
        whole = np.zeros((len(octets), WORD_BYTES * self._fields.words), np.uint8)
        whole[:, : self.bytes_a_state] = octets
        return whole.view("<u8").astype(np.uint64, copy=False)


def by_partition(compared: States, parts: int) -> Iterator[tuple[int, NDArray[np.int64]]]:
    """Yield (partition, indices of its states) for each partition that owns some of the states."""
    owner = np.empty(len(compared), np.int64)
    owners(np.ascontiguousarray(compared), parts, owner)
    return by_owner(owner, parts)


def in_order(words: Words) -> Words:
    """Return packed words in ascending order."""
    return words[np.lexsort(words.T)]


def first_of_each(keys: Words, words: Words) -> NDArray[np.int64]:
    """Return for each distinct key the index of its least row in `words`, in the order of the keys."""
    order = np.lexsort((*words.T, *keys.T))
    ordered = keys[order]
    differs = np.ones(len(order), bool)
    differs[1:] = (ordered[1:] != ordered[:-1]).any(axis=1)
    return order[differs]
