"""`TransitionSystem` over rows of ids: the compiled kernel finds steps, the learner resolves cache misses."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
from numpy.typing import NDArray

from kraftcheck.explorer.tables.expander import Expander
from kraftcheck.explorer.tables.kernel import codes
from kraftcheck.explorer.tables.kernel.edges import EdgeArrays, find_edges
from kraftcheck.explorer.tables.python_checks import non_local_read
from kraftcheck.explorer.tables.rows import MOST_SERIAL_STATES, SUCCESSOR_ROOM_A_STATE, Indices, Rows, WorkerBuffers
from kraftcheck.explorer.transition_system import BoolArray, StepArrays
from kraftcheck.spec.language.declarations import Property
from kraftcheck.spec.language.state import State

# Packed canonical rows, and the partitions of the visited set that own them.
PackedKeys = tuple[NDArray[np.uint64], Indices]


class WorkerEdges(EdgeArrays):
    """The edges that one worker found."""

    def fit(self, room: int, words: int) -> None:
        """Grow the buffers to `room` edges, each with a target of `words` packed words."""
        if len(self.sources) < room or self.words.shape[1] != words:
            self.sources, self.owners = np.zeros(room, np.int64), np.zeros(room, np.int64)
            self.labels = np.zeros(room, np.uint16)
            self.words = np.zeros((room, words), np.uint64)


class LearnedSystem:
    """A `TransitionSystem` whose batches are rows of ids."""

    why_slow = staticmethod(non_local_read)

    def __init__(self, expander: Expander, starts: list[State]) -> None:
        self.expander, self.packing = expander, expander.packing
        self.labels = expander.learner.book
        self._starts = starts
        self._edges = [WorkerEdges() for _ in expander.pool]
        self._judged: Property | None = None  # the property whose verdicts by control row are cached
        self._verdicts: dict[int, bool] = {}

    def initial(self) -> Rows:
        """Return the initial states."""
        return self.expander.encode(self._starts)

    def canonical(self, states: Rows) -> PackedKeys:
        """Return the packed canonical keys of states, and the partitions that own them."""
        return self.expander.packed(states, self.packing)

    def decode(self, states: Rows) -> list[State]:
        """Return the `State` of each row."""
        return list(map(self.expander.learner.interner.decode_state, states))

    def holds(self, prop: Property, states: Rows, judge: Callable[[Property, State], bool]) -> BoolArray:
        """Return whether a property holds in each state; evaluate a local property once per control row."""
        if non_local_read(prop) is not None:
            return np.array([judge(prop, state) for state in self.decode(states)], bool)
        if prop is not self._judged:
            self._judged, self._verdicts = prop, {}
        controls, where = np.unique(states[:, 0], return_inverse=True)
        empty = [0] * (states.shape[1] - 1)
        found = np.zeros(len(controls), bool)
        for place, control in enumerate(controls.tolist()):
            if control not in self._verdicts:
                self._verdicts[control] = judge(prop, self.expander.learner.interner.decode_state([control, *empty]))
            found[place] = self._verdicts[control]
        mask: BoolArray = found[where]
        return mask

    def successors(self, states: Rows, which: Indices) -> Iterator[StepArrays]:
        """Yield the steps out of states[which], in as many parts as the buffers require."""
        expander, packing = self.expander, self.packing
        while len(which):
            states = expander.with_columns(states)
            parts = [which] if len(which) <= MOST_SERIAL_STATES else np.array_split(which, expander.workers)
            workers = expander.pool[: len(parts)]
            for worker, edges, part in zip(workers, self._edges, parts, strict=False):
                worker.begin(states, len(part))
                edges.fit(max(2 * len(worker.succ), len(part) * SUCCESSOR_ROOM_A_STATE), packing.words)
            found = np.zeros(len(parts), np.int64)
            expander.threads.run(partial(self._find, parts, found), len(parts))
            rest: list[Indices] = []
            for worker, part, edges, count in zip(workers, parts, self._edges, found.tolist(), strict=False):
                left = part[worker.stats[codes.STATS_DONE] :] if worker.stats[codes.STATS_CODE] else part[:0]
                rest += [worker.missed_states(), left]
                if worker.stats[codes.STATS_CODE] == codes.MANY_SUCCESSORS:
                    worker.make_room()
                keys, ends = (edges.words[:count], edges.owners[:count]), np.minimum(edges.owners[:count], 0)
                yield StepArrays(edges.sources[:count], keys, ends.astype(np.int32), edges.labels[:count])
            expander.learner.resolve(workers)
            which = np.concatenate(rest)

    def _find(self, parts: list[Indices], found: NDArray[np.int64], number: int) -> None:
        worker: WorkerBuffers = self.expander.pool[number]
        tables, edges = self.expander.learner.tables, self._edges[number]
        found[number] = find_edges(tables, worker, edges, self.packing, parts[number])
