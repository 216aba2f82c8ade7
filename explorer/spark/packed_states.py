"""How states with global ids are packed, sent and put in order.

A state is a row of 32-bit numbers: its control row, then the number of each slot's inbox content among the contents of
that slot (0: empty).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kraftcheck.explorer.tables.kernel.packing import owners, pack_states, unpack_states
from kraftcheck.explorer.tables.states.packing import Packing, Words, by_owner, packing
from kraftcheck.explorer.tables.states.visited import Partition

States = NDArray[np.int32]
Bytes = NDArray[np.uint8]

WORD_BYTES = 8
_NO_ROWS = np.zeros((0, 0), np.int32)


def packing_of(counts: list[int]) -> Packing:
    """Return the packing of states, given the number of ids that each field may have, 0 included."""
    return packing([max(1, (count - 1).bit_length()) for count in counts])


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
    """Return the number of bytes that a state takes on its way from task to task."""
    return (int(layout.width.sum()) + 7) // 8


def to_bytes(words: Words, layout: Packing) -> bytes:
    """Return packed words as bytes, without those that no state uses."""
    octets = np.ascontiguousarray(words.astype("<u8", copy=False)).view(np.uint8)
    return octets[:, : bytes_a_state(layout)].tobytes()


def from_bytes(data: Any, layout: Packing) -> Words:
    """Return packed words from their bytes."""
    size = bytes_a_state(layout)
    octets: Bytes = np.frombuffer(data, np.uint8).reshape(-1, size)
    whole = np.zeros((len(octets), WORD_BYTES * (layout.words + 1)), np.uint8)
    whole[:, :size] = octets
    return whole.view("<u8").astype(np.uint64, copy=False)


def by_partition(compared: States, parts: int) -> Iterator[tuple[int, NDArray[np.int64]]]:
    """Yield each partition, out of so many, that owns states, with their indices.

    Parameters
    ----------
    compared
        What the states are compared by.
    parts
        The number of partitions.
    """
    owner = np.empty(len(compared), np.int64)
    owners(np.ascontiguousarray(compared), parts, owner)
    return by_owner(owner.astype(np.uint16), parts)  # numpy sorts these by radix


def add(partition: Partition, words: Words) -> None:
    """Insert packed words that may be there already."""
    partition.insert(_NO_ROWS, words, len(words), _NO_ROWS, 0)


def in_order(words: Words) -> Words:
    """Return packed words in their order as numbers."""
    return words[np.lexsort(words.T)]


def first_of_each(keys: Words, words: Words) -> NDArray[np.int64]:
    """Return the indices of the least words of each key, in the order of the keys."""
    order = np.lexsort((*words.T, *keys.T))
    ordered = keys[order]
    differs = np.ones(len(order), bool)
    differs[1:] = (ordered[1:] != ordered[:-1]).any(axis=1)
    return order[differs]
