"""Compiled functions over states whose ids are the same everywhere.

A state here is a row of 32-bit numbers: its control row, then the number of each slot's inbox content among the
contents of that slot (0: empty). Such a row is packed as `tables.states.visited` packs the rows of one process.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from kraftcheck.explorer.tables.kernel.hash_set import insert_rows
from kraftcheck.explorer.tables.kernel.packing import pack_states, unpack_states
from kraftcheck.explorer.tables.states.packing import Packing, packing
from kraftcheck.explorer.tables.states.visited import Partition

States = NDArray[np.int32]
Words = NDArray[np.uint64]
Bytes = NDArray[np.uint8]

REST_BITS = 9  # of a packed state that the smallest partition can express by place
WORD_BYTES = 8


def packing_of(counts: list[int]) -> Packing:
    """Return the packing of states, given how many ids each of their fields may have, 0 included."""
    return packing([max(1, (count - 1).bit_length()) for count in counts], REST_BITS)


def packed(states: States, layout: Packing) -> Words:
    """Return the packed words of states that have a column for every field."""
    words = np.zeros((len(states), layout.words + 1), np.uint64)
    pack_states(states, layout.position, layout.width, words)
    return words


def unpacked(words: Words, layout: Packing) -> States:
    """Return the states of packed words."""
    states = np.empty((len(words), len(layout.position)), np.int32)
    unpack_states(words, layout.position, layout.width, states)
    return states


def bytes_a_state(layout: Packing) -> int:
    """Return how many bytes a state takes on its way from task to task."""
    return (int(layout.width.sum()) + 7) // 8


def to_bytes(words: Words, layout: Packing) -> bytes:
    """Return packed words as bytes, without those that no state uses."""
    octets = np.ascontiguousarray(words.astype("<u8", copy=False)).view(np.uint8)
    return octets[:, : bytes_a_state(layout)].tobytes()


def from_bytes(data: Any, layout: Packing) -> Words:
    """Return the packed words that were made bytes."""
    size = bytes_a_state(layout)
    octets: Bytes = np.frombuffer(data, np.uint8).reshape(-1, size)
    whole = np.zeros((len(octets), WORD_BYTES * (layout.words + 1)), np.uint8)
    whole[:, :size] = octets
    return whole.view("<u8").astype(np.uint64, copy=False)


_NO_ROWS = np.zeros((0, 0), np.int32)


def add(partition: Partition, words: Words) -> None:
    """Insert packed words that may be there already."""
    done = 0
    while done < len(words):
        done, partition.count, _, _ = insert_rows(
            _NO_ROWS, words, done, len(words), 0, partition.count, partition.keys, partition.places, _NO_ROWS, 0
        )
        if done < len(words):
            partition.grow()


def in_order(words: Words) -> Words:
    """Return packed words in their order as numbers."""
    return words[np.lexsort(words.T)]


def first_of_each(keys: Words, words: Words) -> NDArray[np.int64]:
    """Return which entries are, of those with the same key, the least; in the order of the keys."""
    order = np.lexsort((*words.T, *keys.T))
    ordered = keys[order]
    differs = np.ones(len(order), bool)
    differs[1:] = (ordered[1:] != ordered[:-1]).any(axis=1)
    return order[differs]
