"""What follows from the shared fields and one replica, or two: found once, and looked up wherever they stand together.

Whole states seldom repeat where they are flat, but these parts of them do. Each worker numbers the contents of the
shared fields that it meets, and remembers facts by that number and the local states. Where there are more contents than
numbers it forgets all, and begins again; where they do not repeat either, it goes by local states alone.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kraftcheck.explorer.tables.kernel import codes
from kraftcheck.explorer.tables.kernel.codes import MISSING
from kraftcheck.explorer.tables.kernel.maps import mix
from kraftcheck.explorer.tables.kernel.native import inlined, jit
from kraftcheck.explorer.tables.kernel.tries import child

# Kinds of fact: what holds (of one replica or none, of two); that nothing speaks against a step; what may be done.
HOLDS, HOLDS_OF_TWO, STEP, MAY_DO = 0, 1, 2, 3
LOCAL_BITS, KIND_BITS = 24, 2  # of a fact's key; the other bits are the number of the shared fields
MOST_CONTENTS = 1 << (64 - 2 * LOCAL_BITS - KIND_BITS)  # of the shared fields that have numbers
FEWEST_FACTS, MOST_FACTS = 1 << 14, 1 << 20  # places; a fact takes the place of another one
FIRST_LOCALS = 1 << 10  # local states of which it is seen at once whether all that is asked of two of them holds
LISTED = 1 << 18  # places of `listed`, for the nodes that lead to what replicas may do
REPEATED = 8  # times that contents of the shared fields come up, on average, where it is worth while to number them

# Places in `fact_counts`.
(
    NUMBERED,  # contents of the shared fields that have numbers
    ASKED,  # times that a number was asked for
    LISTED_TAKEN,  # places of `listed` that are taken
    UNLIKE,  # whether contents repeat too seldom to number them
    NUMBERS_TAKEN,  # whether all numbers are taken
    SHARED_NOW,  # the number of the shared fields of the state that is expanded
    REPLACED,  # facts that took the place of another one
    READS,  # from here on, by kind of fact: whether shared fields were read for one
) = range(8)
FACT_COUNTS = READS + (1 << KIND_BITS)

ELSEWHERE = np.int64(-5)  # in the place of a node: what it asks for is neither shared nor of these local states
NO_NUMBER = np.int64(0)  # of shared fields: nothing is known by what they hold


@jit
def forget_numbers(worker: Any) -> None:
    """Forget all numbers of shared fields, of which none is left, and all facts."""
    counts = worker.fact_counts
    counts[UNLIKE] = counts[ASKED] < REPEATED * counts[NUMBERED]
    counts[NUMBERED] = counts[ASKED] = counts[NUMBERS_TAKEN] = 0
    worker.shared_places[:] = 0
    forget_facts(worker)


@jit
def forget_facts(worker: Any) -> None:
    """Forget all facts."""
    worker.fact_counts[LISTED_TAKEN] = 0
    worker.facts[:] = 0


@jit
def shared_number(t: Any, worker: Any, rows: Any, row: Any) -> Any:
    """Return the number of what a flat state's shared fields hold, or NO_NUMBER."""
    first, last = t.meta[codes.M_BOUNDS], t.meta[codes.M_SLOT_BASE]
    counts, places, contents = worker.fact_counts, worker.shared_places, worker.shared_contents
    if first == last or counts[UNLIKE]:
        return NO_NUMBER
    counts[ASKED] += 1
    # Look these contents up by their hash.
    h = np.uint64(0)
    for c in range(first, last):
        h = (h ^ np.uint64(rows[row, c])) * np.uint64(0x9E3779B97F4A7C15)
        h ^= h >> np.uint64(29)
    mask = np.int64(len(places) - 1)
    i = np.int64(mix(h)) & mask
    while places[i] != 0:
        number = np.int64(places[i])
        same = True
        for c in range(first, last):
            same &= contents[number, c - first] == rows[row, c]
        if same:
            return number
        i = (i + 1) & mask
    # They are new, and have the next number, while there are any.
    number = counts[NUMBERED] + 1
    if number == len(contents):
        counts[NUMBERS_TAKEN] = 1
        return NO_NUMBER
    counts[NUMBERED] = places[i] = number
    for c in range(first, last):
        contents[number, c - first] = rows[row, c]
    return number


@inlined
def number_for(worker: Any, kind: Any, shared: Any) -> Any:
    """Return the number by which facts of a kind are known: none where no such fact has read shared fields yet."""
    return shared if worker.fact_counts[READS + kind] else NO_NUMBER


@inlined
def key_of(kind: Any, number: Any, me: Any, peer: Any) -> Any:
    """Return the key of a fact."""
    return (((number << KIND_BITS) | kind) << (2 * LOCAL_BITS)) | (me << LOCAL_BITS) | peer


@inlined
def place_of(facts: Any, key: Any) -> Any:
    """Return the place of a fact's key, all of whose bits count."""
    h = np.uint64(key ^ (key >> LOCAL_BITS)) * np.uint64(0x9E3779B97F4A7C15)
    return np.int64(((h >> np.uint64(32)) * np.uint64(len(facts))) >> np.uint64(32))


@inlined
def recall(worker: Any, key: Any) -> Any:
    """Return the fact of a key; 0 where none is known."""
    place = place_of(worker.facts, key)
    return worker.facts[place, 1] if worker.facts[place, 0] == key else np.int64(0)


@inlined
def remember(worker: Any, key: Any, fact: Any) -> None:
    """Remember the fact of a key."""
    place = place_of(worker.facts, key)
    worker.fact_counts[REPLACED] += worker.facts[place, 0] != 0 and worker.facts[place, 0] != key
    worker.facts[place, 0] = key
    worker.facts[place, 1] = fact


@inlined
def fact_of(packed: Any) -> Any:
    """Return a fact that holds a span: an odd number, as 0 is no fact."""
    return packed << 1 | 1


@inlined
def span_in(fact: Any) -> Any:
    """Return the span that a fact holds."""
    return fact >> 1


@jit
def move_facts(facts: Any, more: Any) -> None:
    """Remember all facts in a larger table."""
    for n in range(len(facts)):
        if facts[n, 0] != 0:
            place = place_of(more, facts[n, 0])
            more[place, 0] = facts[n, 0]
            more[place, 1] = facts[n, 1]


@inlined
def is_fair_pair(worker: Any, me: Any, peer: Any, asked: Any) -> Any:
    """Whether what is asked of two replicas, as 1 or 2, is known to hold of these, whatever else there is."""
    return codes.larger(me, peer) < FIRST_LOCALS and worker.fair_pairs[me * FIRST_LOCALS + peer] & asked != 0


@inlined
def note_fair_pair(worker: Any, me: Any, peer: Any, asked: Any) -> None:
    """Note that what is asked of two replicas, as 1 or 2, holds of these, whatever else there is."""
    if codes.larger(me, peer) < FIRST_LOCALS:
        worker.fair_pairs[me * FIRST_LOCALS + peer] |= np.uint8(asked)


@inlined
def walk_by(t: Any, worker: Any, kind: Any, number: Any, rows: Any, row: Any, node: Any, me: Any, peer: Any) -> Any:
    """Follow a trie to a leaf by what a fact is known by; MISSING where it is not laid, ELSEWHERE where it asks more.

    Without a number of the shared fields these may not be read; that they would be is noted.
    """
    while True:
        asks, a, b = t.nodes[node, codes.KIND], t.nodes[node, codes.A], t.nodes[node, codes.B]
        if asks == codes.LEAF:
            return node
        if asks == codes.LOCAL_QUESTION and b < 0:
            answer = np.int64(t.local_answers[a, peer if b == codes.PEER else me])
        elif (asks == codes.SHARED and a >= t.meta[codes.M_BOUNDS]) or asks == codes.SHARED_QUESTION:
            if number == NO_NUMBER:
                worker.fact_counts[READS + kind] = 1
                return ELSEWHERE
            answer = np.int64(rows[row, a] if asks == codes.SHARED else t.shared_answers[a, rows[row, b]])
        else:
            return np.int64(MISSING) if asks == codes.UNKNOWN else ELSEWHERE
        node = child(t, node, answer)
        if node < 0:
            return np.int64(MISSING)
