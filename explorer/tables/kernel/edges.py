"""Edges of the state graph."""

from __future__ import annotations

from typing import Any

import numpy as np

from kraftcheck.explorer.native.arrays import ArrayGroup, declare_array
from kraftcheck.explorer.native.compiling import keep_alive, unowned_array
from kraftcheck.explorer.tables.kernel import arrays, codes, jit
from kraftcheck.explorer.tables.kernel.expand import expand
from kraftcheck.explorer.tables.kernel.packing import pack_canonical_row, partition_of_words
from kraftcheck.explorer.tables.kernel.symmetry import write_least_image
from kraftcheck.explorer.tables.kernel.tree_walk import walk_while_row_answers


class EdgeArrays(ArrayGroup):
    """The edges that one thread found."""

    sources = declare_array(np.int64)  # indices of the source states
    words = declare_array(np.uint64, -1)  # packed canonical keys of the target states
    owners = declare_array(np.int64)  # partitions that own the targets; BEYOND or BLOCKED for an edge without a target
    labels = declare_array(np.uint16)  # step labels


BEYOND, BLOCKED = -1, -2
"""In place of an owner: a constraint prunes the target, or only an exhausted bound disables the step."""


@jit
def evaluate_property_on_rows(t: Any, root: Any, kind: Any, rows: Any, verdicts: Any) -> None:
    """Write whether a property holds in each control row whose verdict is MISSING, or request its next result.

    `kind` is the number of replicas that the property takes; it is evaluated for each of them, up to the first false.
    """
    base, slots = t.meta[codes.META_SLOT_BASE], t.meta[codes.META_SLOTS]
    rows, verdicts = unowned_array(rows), unowned_array(verdicts)
    outer, inner = slots if kind >= 1 else 1, slots if kind == 2 else 1
    for i in range(len(rows)):
        row, verdict = np.int64(rows[i]), np.int64(1)
        for pair in range(outer * inner if verdicts[i] == codes.MISSING else 0):
            s, q = pair // inner, pair % inner
            me = np.int64(t.rows[row, base + s]) if kind >= 1 else np.int64(0)
            peer = np.int64(t.rows[row, base + q]) if kind == 2 else np.int64(0)
            if (kind >= 1 and me == 0) or (kind == 2 and (peer == 0 or q == s)):
                continue
            leaf = walk_while_row_answers(t, root, row, me, peer)
            if leaf < 0 or t.nodes[leaf, codes.NODE_KIND] != codes.LEAF:
                arrays.append_request_to_python(t, codes.ASK_PATH, root, row, me, peer, codes.NONE)
                verdict = np.int64(codes.MISSING)
            elif t.nodes[leaf, codes.NODE_A] == 0:
                verdict = np.int64(0)
            if verdict != 1:
                break
        if verdicts[i] == codes.MISSING:
            verdicts[i] = verdict


@jit
def find_edges(t: Any, worker: Any, found: Any, packing: Any, which: Any) -> Any:
    """Write the edges out of the worker's states at indices `which`; return their number; set `stats[STATS_DONE]`."""
    states, succ, stats, which = worker.states, worker.succ, worker.stats, unowned_array(which)
    permutations, columns = t.meta[codes.META_PERMUTATIONS], states.shape[1]
    own_image = np.zeros(columns, np.int32)
    own_images = np.zeros((len(succ) if permutations > 1 else 0, columns), np.int32)
    image, images = unowned_array(own_image), unowned_array(own_images)
    edges = np.int64(0)
    stats[codes.STATS_CODE] = codes.OK
    for i in range(len(which)):
        # Look up all successors and their images; stop before the array might have no room for their edges.
        n = expand(t, worker, which[i])
        for k in range(n if permutations > 1 else 0):
            if not write_least_image(t, worker, succ, k, 2, images, k, image):
                n = codes.MISSING
        if n == codes.MISSING:
            arrays.append_retried_state(worker, which[i])
            continue
        if n == codes.BUFFER_FULL or edges + n + stats[codes.STATS_BLOCKED] > len(found.sources):
            arrays.record_early_batch_end(worker, i, codes.MANY_SUCCESSORS if n == codes.BUFFER_FULL else codes.NO_ROOM)
            return edges
        # Write an edge for each successor, and one for each step that only an exhausted bound disables.
        for k in range(n):
            _, _, pruned = arrays.successor_violations_and_is_pruned(t, succ, k)
            found.sources[edges], found.labels[edges] = which[i], succ[k, 0]
            if pruned:
                found.owners[edges] = BEYOND
                edges += 1
                continue
            if permutations > 1:
                pack_canonical_row(t, packing, images, k, 0, found.words, edges)
            else:
                pack_canonical_row(t, packing, succ, k, 2, found.words, edges)
            found.owners[edges] = partition_of_words(found.words, edges)
            edges += 1
        for k in range(stats[codes.STATS_BLOCKED]):
            found.sources[edges], found.labels[edges], found.owners[edges] = which[i], worker.blocked[k], BLOCKED
            edges += 1
    stats[codes.STATS_DONE] = len(which)
    keep_alive(own_image)
    keep_alive(own_images)
    return edges
