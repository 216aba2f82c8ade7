"""Manager of the decision diagrams: makes, combines, counts and lists sets within a memory limit."""

from __future__ import annotations

import ctypes
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kraftcheck.explorer.symbolic.kernel import diagram, operations, projections, saturation
from kraftcheck.spec.errors import ProtocolError

EMPTY_SET, UNIT_SET = 0, 1
KEPT_ROOT_PREFIX = "kept "  # prefix of the names of roots that a checkpoint saves
LEAST_EDGE_ROOM_A_NODE = 5  # least room for edges, for each node
FIRST_TABLE_ENTRIES = 1 << 16  # initial size of the hash tables
LEAST_MAX_NODES = 1 << 10  # least value of --max-nodes in effect
STACK_ROOM_EDGES = 1 << 24  # room on the stack, in edges
COUNTING_PRIMES = tuple((1 << 61) - less for less in (1, 31, 45, 229, 259, 283, 339, 391))
"""Moduli of step counts; a count follows from its residues by the Chinese remainder theorem."""
KernelCallback = Callable[[int, int, int], int]
_CALLBACK_TYPE = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)


class OutOfNodes(Exception):  # noqa: N818 - it ends a search, as a limit does
    """The diagrams exceed their memory limit."""


class DiagramStore:
    """Decision diagrams over a fixed number of levels."""

    def __init__(self, levels: int, memory: int, answer: KernelCallback, most: int | None = None) -> None:
        self.levels = levels
        self.arrays = d = diagram.DiagramArrays()
        self._answer = answer
        self._error: BaseException | None = None
        self.guarded: set[int] = set()  # labels with guards
        self.roots: dict[str, int] = {}
        self.partial = EMPTY_SET
        self.collections = self._collected = self._most = 0
        # All arrays get their final length now; memory is provided on first use, so room for growth costs nothing.
        least = diagram.BYTES_A_NODE + LEAST_EDGE_ROOM_A_NODE * diagram.BYTES_AN_EDGE
        nodes = min(max(memory // least, 1 << 18), max(most or diagram.MOST_NODES, LEAST_MAX_NODES))
        size = max(1 << (nodes - 1).bit_length(), FIRST_TABLE_ENTRIES)
        d.nodes = np.zeros((nodes, 3), np.int64)
        d.summaries = np.zeros(12 * nodes, np.int32)
        edges = LEAST_EDGE_ROOM_A_NODE * nodes
        d.edges = np.zeros(edges if most is not None else max(edges, memory // diagram.BYTES_AN_EDGE), np.int64)
        d.table = np.zeros(2 * size, np.int32)
        d.cache = np.zeros((size, 3), np.int64)
        d.scratch = np.zeros(STACK_ROOM_EDGES, np.int64)
        d.stamps = np.zeros(STACK_ROOM_EDGES, np.int64)
        d.meta = np.zeros(diagram.META_SIZE, np.int64)
        d.meta[diagram.META_NODES] = 2
        d.meta[diagram.META_MOST_BYTES] = max(memory, least * nodes)
        d.meta[diagram.META_SUMMARY_ENTRIES] = 1
        d.meta[diagram.META_EXTRA_SUMMARIES] = projections.FEWEST_SUMMARIES_TO_DROP
        d.meta[diagram.META_LEVELS] = levels
        d.nodes[1, 1] = levels << 32
        d.meta[diagram.META_CACHE_MASK] = min(size, 4 * FIRST_TABLE_ENTRIES) - 1
        self._function = _CALLBACK_TYPE(self._called_back)
        d.meta[diagram.META_CALLBACK] = ctypes.cast(self._function, ctypes.c_void_p).value or 0
        d.lookups = np.zeros((1 << 26, 2), np.int64)
        d.lookups[:FIRST_TABLE_ENTRIES] = -1
        d.meta[diagram.META_LOOKUP_MASK] = FIRST_TABLE_ENTRIES - 1
        d.map_items = np.zeros(1 << 26, np.int64)
        d.relation_nodes = np.zeros((1 << 24, 6), np.int64)
        d.relation_edges = np.zeros((1 << 26, 3), np.int64)
        d.first_event, d.first_watch = np.full(levels + 1, -1), np.full(levels + 1, -1)
        d.watch_version = np.zeros(levels + 1, np.int64)
        d.next_top = np.full(levels + 2, levels)
        d.message_maps = np.zeros(levels + 1, np.int64)
        for name in ("next_event", "event_root", "next_watch", "watch_known", "watch_tail", "slot_tail"):
            setattr(d, name, np.zeros(1 << 18, np.int64))
        d.tails = np.zeros((1 << 20, 4), np.int64)
        d.slot_count = np.zeros(levels + 1, np.int64)
        d.chosen = np.zeros(len(d.relation_edges), np.int32)
        diagram.rebuild_node_table(d, FIRST_TABLE_ENTRIES)

    def free(self) -> None:
        """Release the diagrams' memory even if garbage still refers to them; no set is usable afterwards."""
        d = self.arrays
        for name, declared in d.declared.items():
            setattr(d, name, np.zeros((0, *declared.shape[1:]), declared.kind))

    # Callbacks from compiled code

    def _called_back(self, kind: int, a: int, b: int) -> int:
        """Answer a callback from compiled code; keep an exception until the compiled code returns."""
        try:
            if self._error is None:
                return self._answer(kind, a, b)
        except OutOfNodes:
            pass  # the operation in progress returns a partial result
        except BaseException as error:
            self._error = error
        self.arrays.meta[diagram.META_STOP] = 1
        self.arrays.meta[diagram.META_INCOMPLETE] += 1
        return -1

    def cache_effect(self, label: int, value: int, result: int) -> None:
        """Cache the result of applying a label to a value."""
        diagram.cache_label_result(self.arrays, label << 32 | value, result)

    def add_edge(self, relation: int, how: int, key: int, result: int, child: int) -> None:
        """Add an edge to a relation's node: see `add_relation_edge` of the kernel."""
        limit = len(self.arrays.relation_edges)
        require_within_limit(int(self.arrays.meta[diagram.META_RELATION_EDGES]) + 1, limit, "edges of relations")
        diagram.add_relation_edge(self.arrays, relation, how, key, result, child)

    def forget_products(self) -> None:
        """Invalidate the cached products of relations, which have grown."""
        self.arrays.meta[diagram.META_ROUND] += 1

    def add_items(self, items: Sequence[int]) -> int:
        """Store the classes of a value; return their position, packed as a lookup result."""
        d = self.arrays
        start = int(d.meta[diagram.META_MAP_ITEMS])
        require_within_limit(start + len(items), len(d.map_items), "classes of values")
        d.map_items[start : start + len(items)] = items
        d.meta[diagram.META_MAP_ITEMS] = start + len(items)
        return start << 24 | len(items)

    # Operations

    def _run(self, function: Any, *arguments: int) -> int:
        """Run an operation; raise OutOfNodes if its result is only partial."""
        result, complete = self.attempt(function, *arguments)
        if not complete:
            raise OutOfNodes
        return result

    def attempt(self, function: Any, *arguments: int) -> tuple[int, bool]:
        """Run a compiled operation; return its result, and whether the result is complete.

        Raise the exception of a callback, if there was one, and reset the stack.
        """
        meta = self.arrays.meta
        before, top = int(meta[diagram.META_INCOMPLETE]), int(meta[diagram.META_STACK_TOP])
        result = int(function(self.arrays, *arguments))
        if self._error is not None:
            error, self._error, self.partial = self._error, None, result
            meta[diagram.META_STOP], meta[diagram.META_STACK_TOP] = 0, top
            raise error
        if meta[diagram.META_STOP] == 2:
            raise ProtocolError("the symbolic engine has no room for a diagram's edges: a variable has too many values")
        return result, int(meta[diagram.META_INCOMPLETE]) == before

    def union(self, a: int, b: int) -> int:
        """Return the union of two sets."""
        return self._run(operations.union, a, b)

    def difference(self, a: int, b: int) -> int:
        """Return the states of the first set that are not in the second."""
        return self._run(operations.difference, a, b)

    def intersection(self, a: int, b: int) -> int:
        """Return the intersection of two sets."""
        return self._run(operations.intersection, a, b)

    def project(self, a: int, which: int) -> int:
        """Return a projection of a set."""
        return self._run(projections.project_onto_dimensions, a, int(self.arrays.watch_tail[which]))

    def successors(self, a: int, relation: int) -> int:
        """Return the successors of a set under a relation."""
        return self._run(operations.successors, a, relation, 0)

    def predecessors(self, a: int, relation: int, b: int) -> int:
        """Return the states of a set with a successor, under a relation, in another set."""
        return self._run(operations.predecessors, a, relation, b)

    def enabled(self, a: int, relation: int) -> int:
        """Return the states of a set that have a successor under a relation."""
        return self._run(operations.successors, a, relation, 1)

    def saturated(self, a: int) -> tuple[int, bool]:
        """Return the least fixpoint of all events from a set, and whether it is complete."""
        return self.attempt(saturation.saturated_union, a, 0, 0, 0)

    def watch_tails(self, tails: Iterable[int]) -> None:
        """Choose the tails (lists of dimensions) whose projections are cached in the nodes."""
        d = self.arrays
        ordered = sorted(tails, key=lambda tail: -int(d.tails[tail, 0]))
        d.slot_count[:] = 0
        for slot, tail in enumerate(ordered):
            d.slot_tail[slot] = tail
            d.tails[tail, 3] = slot
            d.slot_count[: int(d.tails[tail, 0]) + 1] += 1
        projections.forget_summaries(d)

    # Sets and vectors

    def set_of(self, vectors: Iterable[Sequence[int]]) -> int:
        """Return the set that contains the given vectors."""
        result = EMPTY_SET
        for vector in vectors:
            node, d = UNIT_SET, self.arrays
            top = int(d.meta[diagram.META_STACK_TOP])
            for level in range(len(vector) - 1, -1, -1):
                d.scratch[top] = vector[level] << 32 | node
                node = self._run(diagram.find_or_add_node, level, top, 1)
            result = self.union(result, node)
        return result

    def edges(self, a: int) -> tuple[int, list[tuple[int, int]]]:
        """Return a node's level, and its edges as (value, child)."""
        start, shape = self.arrays.nodes[a, :2].tolist()
        words = self.arrays.edges[start : start + (shape & 0xFFFFFFFF)].tolist()
        return shape >> 32, [(word >> 32, word & 0xFFFFFFFF) for word in words]

    def vectors(self, a: int, levels: Sequence[int]) -> Iterator[tuple[int, ...]]:
        """Yield the vectors of a set at some levels; at other levels their value must be 0."""
        if a == EMPTY_SET:
            return
        if not levels:
            yield ()
            return
        level, edges = self.edges(a)
        if level > levels[0]:
            edges = [(0, a)]
        for value, child in edges:
            for rest in self.vectors(child, levels[1:]):
                yield value, *rest

    def one_of(self, a: int, choose: Callable[[Sequence[Any]], Any] = lambda edges: edges[0]) -> list[int]:
        """Return one vector of a non-empty set; `choose` selects each edge of its path."""
        vector = [0] * self.levels
        while a != UNIT_SET:
            level, edges = self.edges(a)
            vector[level], a = choose(edges)
        return vector

    def count(self, a: int) -> int:
        """Return the number of vectors of a set."""
        if a == EMPTY_SET:
            return 0
        marked = projections.mark_reachable_nodes(self.arrays, np.array([a]))
        total, limbs = int(marked.sum()), 4
        while True:
            places, counts = projections.count_vectors_of_marked_nodes(self.arrays, marked, total, limbs)
            if int(counts[:, -1].max()) >> 30 == 0:
                return sum(int(digit) << 32 * k for k, digit in enumerate(counts[places[a]].tolist()))
            limbs *= 2

    def count_steps(self, a: int, relation: int, most: int) -> int:
        """Return the number of pairs (state, event), at most `most`; the relation must have been applied before."""
        result, product = 0, 1
        for which, prime in enumerate(COUNTING_PRIMES):
            if product > most:
                return result
            rest = int(operations.count_steps_modulo(self.arrays, a, relation, which, prime))
            result += product * ((rest - result) * pow(product, -1, prime) % prime)
            product *= prime
        raise ProtocolError(f"more than {product:,} steps: the symbolic engine cannot count them")

    def size(self, a: int) -> int:
        """Return the number of nodes of a set."""
        return int(projections.mark_reachable_nodes(self.arrays, np.array([a])).sum()) - 2

    def sizes(self, a: int) -> Counter[int]:
        """Return the number of nodes of a set at each level."""
        marked = np.flatnonzero(projections.mark_reachable_nodes(self.arrays, np.array([a])))[2:]
        return Counter((self.arrays.nodes[marked, 1] >> 32).tolist())

    @property
    def is_crowded(self) -> bool:
        """Whether nodes or edges fill half of their room, so that garbage collection pays."""
        d, edges = self.arrays, int(self.arrays.meta[diagram.META_EDGES])
        room = diagram.BYTES_A_NODE * self.nodes + diagram.BYTES_AN_EDGE * edges
        most = int(d.meta[diagram.META_MOST_BYTES])
        return 2 * self.nodes > len(d.nodes) or 2 * edges > len(d.edges) or 2 * room > most

    @property
    def nodes(self) -> int:
        """Number of nodes in the store now."""
        return int(self.arrays.meta[diagram.META_NODES])

    @property
    def nodes_made(self) -> int:
        """Number of nodes ever made."""
        return self._collected + self.nodes

    @property
    def peak_nodes(self) -> int:
        """Largest number of nodes at one time."""
        return max(self._most, self.nodes)

    def collect_garbage(self, roots: list[int]) -> list[int]:
        """Drop all nodes but those of the given roots, named roots and watches; return the given roots renumbered."""
        d, before = self.arrays, self.nodes
        known = np.flatnonzero(d.watch_known > 1)
        kept = np.array([*roots, *self.roots.values(), *d.watch_known[known]], np.int64)
        projections.collect_garbage(d, kept)
        named = len(roots) + len(self.roots)
        self.roots = dict(zip(self.roots, kept[len(roots) : named].tolist(), strict=True))
        d.watch_known[known] = kept[named:]
        d.meta[diagram.META_STOP] = 0
        self.collections += 1
        self._collected += before - self.nodes
        self._most = max(self._most, before)
        return [int(node) for node in kept[: len(roots)]]

    # Checkpoints

    def dump(self, roots: Sequence[int]) -> tuple[NDArray[np.int64], NDArray[np.int64], list[int]]:
        """Return the nodes and edges of the sets `roots`, with nodes renumbered from 2, and the sets' new numbers."""
        d = self.arrays
        marked = projections.mark_reachable_nodes(d, np.array(roots, np.int64))
        kept = np.flatnonzero(marked[2:]) + 2
        numbers = np.zeros(len(marked), np.int64)
        numbers[1], numbers[kept] = 1, np.arange(2, len(kept) + 2)
        starts, counts = d.nodes[kept, 0], d.nodes[kept, 1] & diagram.LOW_32_BITS
        ends = np.cumsum(counts)
        first = ends - counts
        edges = d.edges[np.repeat(starts - first, counts) + np.arange(counts.sum())]
        edges = edges & ~diagram.LOW_32_BITS | numbers[edges & diagram.LOW_32_BITS]
        return np.stack([first, d.nodes[kept, 1]], axis=1), edges, numbers[list(roots)].tolist()

    def load(self, nodes: NDArray[np.int64], edges: NDArray[np.int64]) -> None:
        """Load the output of `dump` into an empty store."""
        d, count = self.arrays, len(nodes) + 2
        if 2 * count > len(d.nodes) or 2 * len(edges) > len(d.edges):
            raise OutOfNodes
        d.nodes[2:count, :2], d.nodes[2:count, 2] = nodes, 0
        d.edges[: len(edges)] = edges
        d.meta[diagram.META_NODES], d.meta[diagram.META_EDGES] = count, len(edges)
        diagram.rebuild_node_table(d, max(FIRST_TABLE_ENTRIES, 1 << (2 * count - 1).bit_length()))


def require_within_limit(number: int, limit: int, what: str) -> None:
    """Raise ProtocolError if a number exceeds its limit."""
    if number > limit:
        raise ProtocolError(f"more than {limit:,} {what}: the symbolic engine has no room for them")
