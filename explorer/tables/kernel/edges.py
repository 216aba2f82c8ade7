"""The steps out of states as edges of the state graph, and the states from which edges lead to marked ones."""

from __future__ import annotations

from typing import Any

import numpy as np

from kraftcheck.explorer.native.arrays import Arrays, array
from kraftcheck.explorer.tables.kernel import codes
from kraftcheck.explorer.tables.kernel.codes import FULL, MISSING
from kraftcheck.explorer.tables.kernel.expand import expand
from kraftcheck.explorer.tables.kernel.native import bare, jit, keep
from kraftcheck.explorer.tables.kernel.packing import owner_of, pack
from kraftcheck.explorer.tables.kernel.symmetry import canonical
from kraftcheck.explorer.tables.kernel.worker import stop, try_again, verdict


class EdgeArrays(Arrays):
    """The edges that one thread has found."""

    sources = array(np.int64)  # the places of the states from which they lead
    words = array(np.uint64, -1)  # the packed identities of those to which they lead
    owners = array(np.int64)  # the partitions that own these; BEYOND or BLOCKED where they lead to no state
    labels = array(np.uint16)  # what the steps are called


BEYOND, BLOCKED = -1, -2
"""In the place of an owner: the step leads beyond a constraint, or a bound alone keeps it from being taken."""


@jit
def find_edges(t: Any, worker: Any, found: Any, packing: Any, which: Any) -> Any:
    """Write the edges out of the worker's states of these numbers.

    Returns how many edges there are. `stats[S_DONE]` is how far it came: less than all where an array is full.
    """
    states, succ, stats, which = worker.states, worker.succ, worker.stats, bare(which)
    permutations, columns = t.meta[codes.M_PERMUTATIONS], states.shape[1]
    own_image = np.zeros(columns, np.int32)
    own_images = np.zeros((len(succ) if permutations > 1 else 0, columns), np.int32)
    image, images = bare(own_image), bare(own_images)
    edges = np.int64(0)
    stats[codes.S_CODE] = codes.OK
    for i in range(len(which)):
        # Look up all successors and their images; stop where the array might have no room for the edges.
        n = expand(t, worker, which[i])
        for k in range(n if permutations > 1 else 0):
            if not canonical(t, worker, succ, k, 2, columns, images, k, 0, image):
                n = MISSING
        if n == MISSING:
            try_again(worker, which[i])
            continue
        if n == FULL or edges + n + stats[codes.S_BLOCKED] > len(found.sources):
            stop(worker, i, codes.MANY_SUCCESSORS if n == FULL else codes.NO_ROOM)
            return edges
        # An edge for each successor, and one for each step that a bound alone forbids.
        for k in range(n):
            _, _, pruned = verdict(t, succ, k)
            found.sources[edges], found.labels[edges] = which[i], succ[k, 0]
            if pruned:
                found.owners[edges] = BEYOND
                edges += 1
                continue
            if permutations > 1:
                pack(t, packing, images, k, 0, found.words, edges)
            else:
                pack(t, packing, succ, k, 2, found.words, edges)
            found.owners[edges] = owner_of(found.words, edges)
            edges += 1
        for k in range(stats[codes.S_BLOCKED]):
            found.sources[edges], found.labels[edges], found.owners[edges] = which[i], worker.blocked[k], BLOCKED
            edges += 1
    stats[codes.S_DONE] = len(which)
    keep(own_image)
    keep(own_images)
    return edges


@jit
def mark_back(sources: Any, targets: Any, marked: Any, first: Any, before: Any, waiting: Any) -> None:
    """Mark every state from which edges lead to a marked one.

    `first`, zeros, has a number more than there are states; `before` has one for each edge, `waiting` for each state.
    """
    sources, targets, marked = bare(sources), bare(targets), bare(marked)
    first, before, waiting = bare(first), bare(before), bare(waiting)
    # Order the sources by target, by counting.
    for e in range(len(targets)):
        first[targets[e] + 1] += 1
    for s in range(1, len(first)):
        first[s] += first[s - 1]
    for e in range(len(targets)):  # as places are taken, first[s] moves on to where the sources of s + 1 begin
        before[first[targets[e]]] = sources[e]
        first[targets[e]] += 1
    # Go back from the marked states, until no source is left that is not marked.
    n = 0
    for s in range(len(marked)):
        if marked[s]:
            waiting[n] = s
            n += 1
    while n:
        n -= 1
        s = waiting[n]
        for k in range(first[s - 1] if s else 0, first[s]):
            source = before[k]
            if not marked[source]:
                marked[source] = 1
                waiting[n] = source
                n += 1
