"""Compiled functions over states whose ids are the same everywhere.

A state here is a row of 32-bit numbers: its control row, then the number of each slot's inbox content among the
contents of that slot (0: empty). Such a row is packed as `tables.states.visited` packs the rows of one process.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from kraftcheck.explorer.tables.kernel.expand import mix, put_bits
from kraftcheck.explorer.tables.kernel.native import bare, jit
from kraftcheck.explorer.tables.states.visited import (
    Packing,
    Partition,
    home_of,
    insert_rows,
    locate,
    packing,
    take_bits,
)

States = NDArray[np.int32]
Words = NDArray[np.uint64]
Bytes = NDArray[np.uint8]

REST_BITS = 9  # of a packed state that the smallest partition can express by place
WORD_BYTES = 8


@jit
def pack_states(states: Any, position: Any, width: Any, words: Any) -> None:
    """Write the packed words of states; the words must be zero."""
    states, position, width, words = bare(states), bare(position), bare(width), bare(words)
    for i in range(len(states)):
        for f in range(states.shape[1]):
            put_bits(words, i, position[f], width[f], np.uint64(states[i, f]))


@jit
def unpack_states(words: Any, position: Any, width: Any, states: Any) -> None:
    """Write the states of packed words."""
    states, position, width, words = bare(states), bare(position), bare(width), bare(words)
    for i in range(len(states)):
        for f in range(states.shape[1]):
            states[i, f] = take_bits(words, i, position[f], width[f])


@jit
def owners(states: Any, parts: Any, owner: Any) -> None:
    """Write the partition, out of so many, that owns each state.

    It follows from the ids alone, whatever the packing; a replica that appears later changes nothing, as its empty
    inbox has the number 0 and counts for nothing.
    """
    states, owner = bare(states), bare(owner)
    for i in range(len(states)):
        h = np.uint64(0)
        for f in range(states.shape[1]):
            if states[i, f] != 0:
                h += mix((np.uint64(f + 1) << np.uint64(32)) | np.uint64(states[i, f]))
        owner[i] = np.int64(((mix(h) >> np.uint64(32)) * np.uint64(parts)) >> np.uint64(32))


@jit
def least_images(
    rows: Any, controls: Any, contents: Any, slots: Any, classes: Any, permuted_rows: Any, permuted_contents: Any,
    permuted_slots: Any, image: Any, least: Any,
) -> None:  # fmt: skip
    """Write for each state the least of its images under the symmetry group, by ids that are the same everywhere.

    `rows` and the images of their parts have the ids of this process; `controls`, `contents` and `slots` say what these
    are elsewhere. All images must be known. A part without an id is negative, and so less than any other. What counts
    first is what a view shows: `classes` numbers that by control row.
    """
    rows, controls, contents, slots, least = bare(rows), bare(controls), bare(contents), bare(slots), bare(least)
    classes = bare(classes)
    permuted_rows, permuted_contents = bare(permuted_rows), bare(permuted_contents)
    permuted_slots, image = bare(permuted_slots), bare(image)
    for i in range(len(rows)):
        least_shown = np.int64(0)
        for g in range(permuted_rows.shape[1]):
            control = np.int64(controls[permuted_rows[rows[i, 0], g]])
            shown = np.int64(classes[control]) if control >= 0 else control
            if g > 0 and shown > least_shown:
                continue
            image[:] = 0
            image[0] = control
            for c in range(1, rows.shape[1]):
                content = np.int64(rows[i, c])
                if content != 0:
                    image[1 + slots[permuted_slots[g, c - 1]]] = contents[permuted_contents[content, g]]
            smaller = g == 0 or shown < least_shown
            if not smaller:
                smaller = control < least[i, 0]
                for c in range(1, len(image)):
                    if image[c] != least[i, c]:
                        smaller = image[c] < least[i, c]
                        break
            if smaller:
                least[i, :] = image
                least_shown = shown


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


@jit
def look_up(keys: Any, places: Any, words: Any, flags: Any, found: Any) -> None:
    """Write for each of these packed words, all of which are entries of a partition, the flag at its place."""
    keys, places, words, flags, found = bare(keys), bare(places), bare(words), bare(flags), bare(found)
    for i in range(len(words)):
        found[i] = flags[locate(keys, places, words, i, home_of(words, i, len(places)))]


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
