"""How a state's ids are packed into words, and how packed states are divided among the parts of the visited set.

A field for each replica's inbox comes first, from bit 0 on: the inbox's number among those of that replica. The last
field is the control row's identity (it is the first in the arrays). Each has as many bits as its largest number needs,
or one more where that costs no word. When a number outgrows its field, `Expander.fit_packing` makes wider ones before
the next batch, and the visited set, the archive and the set of depths repack what they hold.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kraftcheck.explorer.tables.kernel.packing import PARTITION_BITS, PackingArrays, repack

Rows = NDArray[np.int32]
Words = NDArray[np.uint64]

PARTITIONS = 1 << PARTITION_BITS
CAPACITY_BITS = 10  # of the smallest partition of the visited set
REST_BITS = CAPACITY_BITS - 1  # the rest is a distance between two places of a partition, so it must be less than all


class Packing(PackingArrays):
    """Where the bits of each field of a state's identity stand.

    Parameters
    ----------
    position
        First bit of each field; the control row comes last, so that its high bits are what is left over.
    width
        Bits of each field.
    words
        Whole words that are stored; what lies beyond them is the rest.
    """

    def __init__(self, position: NDArray[np.int32], width: NDArray[np.int32], words: int) -> None:
        super().__init__()
        self.position, self.width, self.words = position, width, words

    def has_room_for(self, bits: list[int]) -> bool:
        """Return whether there is a field for each of these ids, given how many bits they need."""
        return len(bits) == len(self.width) and all(n <= w for n, w in zip(bits, self.width, strict=True))


def packing(widths: list[int], rest_bits: int = REST_BITS) -> Packing:
    """Return a packing of fields (the control row first) whose rest takes at most `rest_bits` bits."""
    order = [*range(1, len(widths)), 0]
    position, at = np.zeros(len(widths), np.int32), 0
    for field in order:
        position[field] = at
        at += widths[field]
    words = max(1, -(-(at - rest_bits) // 64))
    return Packing(position, np.array(widths, np.int32), words)


def roomy_packing(bits: list[int]) -> Packing:
    """Return a packing of ids that need so many bits; their fields have a bit to spare if that takes no more words."""
    roomy, tight = packing([n + 1 for n in bits]), packing(bits)
    return roomy if roomy.words == tight.words else tight


def by_owner(owner: NDArray[Any], parts: int = PARTITIONS) -> Iterator[tuple[int, NDArray[np.int64]]]:
    """Yield each partition that owns something, with the indices of what it owns, in their order."""
    order = np.argsort(owner, kind="stable")
    ends = np.searchsorted(owner[order], np.arange(parts + 1))
    for partition in range(parts):
        if ends[partition] < ends[partition + 1]:
            yield partition, order[ends[partition] : ends[partition + 1]]


def repacked_words(words: Words, old: Packing, new: Packing) -> Iterator[tuple[int, Words]]:
    """Yield packed words, packed anew, by the partition that owns them then.

    Parameters
    ----------
    words
        Packed words.
    old, new
        How they are packed, and how they shall be. Fields that are new are empty.
    """
    again: Any = np.zeros((len(words), new.words + 1), np.uint64)
    owner = np.zeros(len(words), np.int64)
    repack(words, old, again, new, owner)
    for partition, mine in by_owner(owner):
        yield partition, again[mine]
