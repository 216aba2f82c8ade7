"""Finds the states from which what should stay reachable (`@reachable`) is not, once every state is visited.

States are numbered in the order of the levels. They are gone through once more, the deepest level first, and a state
that leads to one which is known to have a way out has one itself; most need no more than that. The steps between the
others are kept, four bytes for each end, and followed backwards.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kraftcheck.explorer.reachability import Goals
from kraftcheck.explorer.tables.expander import BATCH, Expander, Worker
from kraftcheck.explorer.tables.kernel import codes
from kraftcheck.explorer.tables.kernel.edges import EdgeArrays, find_edges, mark_back
from kraftcheck.explorer.tables.kernel.hash_set import look_up
from kraftcheck.explorer.tables.locality import reason
from kraftcheck.explorer.tables.states.levels import Levels
from kraftcheck.explorer.tables.states.packing import Rows, by_owner
from kraftcheck.explorer.tables.states.successors import SUCCESSORS_PER_STATE
from kraftcheck.explorer.tables.states.visited import VisitedSet
from kraftcheck.explorer.tables.threads import SERIAL
from kraftcheck.spec.language.property import Property

Flags = NDArray[np.uint8]
Numbers = NDArray[np.int32]

BYTES_AN_EDGE = 12  # its source, its target, and its source again, by the target
BYTES_A_STATE = 13  # where its edges begin, whether it is marked, and its place among those that wait
MOST_STATES = (1 << 31) - 1


class Edges(EdgeArrays):
    """The edges that one worker has found."""

    def fit(self, room: int, words: int) -> None:
        """Make room."""
        if len(self.sources) < room or self.words.shape[1] != words:
            self.sources, self.owners = np.zeros(room, np.int64), np.zeros(room, np.int64)
            self.words = np.zeros((room, words), np.uint64)


class StateGraph:
    """The states of a breadth-first search that is over, numbered, and the steps between them.

    Parameters
    ----------
    expander
        What expands the states.
    visited
        The visited states, all in memory.
    levels
        The same, level by level.
    room
        How many bytes it may take.
    pause
        Called between two batches; it may raise what ends the search.
    stop
        Raises what ends the search where there is not enough room.
    """

    def __init__(
        self,
        expander: Expander,
        visited: VisitedSet,
        levels: Levels,
        room: int,
        pause: Callable[[], None],
        stop: Callable[[], None],
    ) -> None:
        self.count = sum(levels.counts)
        self._expander, self._visited, self._levels = expander, visited, levels
        self._pause, self._stop = pause, stop
        places = sum(len(partition.places) for partition in visited.partitions)
        self._room = room - 4 * places - BYTES_A_STATE * self.count
        if self._room < 0 or self.count > MOST_STATES:
            stop()
        expander.fit_packing()
        visited.fit(expander.packing)
        self._edges = [Edges() for _ in expander.pool]
        self._numbers = [np.full(len(partition.places), -1, np.int32) for partition in visited.partitions]
        self._number_states()

    def _number_states(self) -> None:
        places = [np.arange(len(numbers), dtype=np.int32) for numbers in self._numbers]
        for first, rows in self._chunks(range(1, self._levels.depth + 1)):
            self._pause()
            words, owner = self._expander.packed(rows, self._visited.packing)
            for p, mine in by_owner(owner):
                self._numbers[p][self._looked_up(p, words[mine], places[p])] = first + mine

    def _looked_up(self, p: int, words: Any, flags: Numbers) -> Numbers:
        partition, found = self._visited.partitions[p], np.zeros(len(words), np.int32)
        look_up(partition.keys, partition.places, words, flags, found)
        return found

    def _chunks(self, levels: range) -> Iterator[tuple[int, Rows]]:
        """Yield the rows of some levels, piece by piece, each with the number of its first state."""
        firsts = [0, *np.cumsum(self._levels.counts).tolist()]
        for level in levels:
            first = firsts[level - 1]
            for rows in self._levels.chunks(level, BATCH):
                yield first, rows
                first += len(rows)

    def level_of(self, number: int) -> tuple[int, Any]:
        """Return the level of a state, the first being 1, and the state's row."""
        level = int(np.searchsorted(np.cumsum(self._levels.counts), number, side="right")) + 1
        first = number - sum(self._levels.counts[: level - 1])
        return level, self._levels.read(level, first, 1)[0]

    # What should stay reachable

    def without_way_out(self, prop: Property, goals: Goals) -> NDArray[np.int64]:
        """Return the numbers of the states from which a property cannot be reached, in their order.

        Parameters
        ----------
        prop
            What should stay reachable.
        goals
            What judges the states.
        """
        marked = self._goals(prop, goals)
        closed = np.array([name in prop.without for name in self._expander.learner.action_names], bool)
        kept: list[tuple[Numbers, Numbers]] = []
        left = self._room
        for first, rows in self._chunks(range(self._levels.depth, 0, -1)):
            which = np.flatnonzero(marked[first : first + len(rows)] == 0)
            for places, targets in self._edges_from(rows, which, closed):
                sources = (places + first).astype(np.int32)
                there = targets >= 0  # else beyond a constraint that Python decides
                marked[sources[there][marked[targets[there]] != 0]] = 1
                open_ = there & (marked[sources] == 0)
                kept.append((sources[open_], targets[open_]))
                left -= BYTES_AN_EDGE * len(kept[-1][0])
                if left < 0:
                    self._stop()
        self._follow(kept, marked)
        return np.flatnonzero(marked == 0)

    def _follow(self, kept: list[tuple[Numbers, Numbers]], marked: Flags) -> None:
        """Mark the states from which edges lead to marked ones."""
        sources = np.concatenate([np.zeros(0, np.int32), *(edge[0] for edge in kept)])
        targets = np.concatenate([np.zeros(0, np.int32), *(edge[1] for edge in kept)])
        kept.clear()
        first, before = np.zeros(self.count + 1, np.int64), np.zeros(len(sources), np.int32)
        mark_back(sources, targets, marked, first, before, np.zeros(self.count, np.int32))

    def _goals(self, prop: Property, goals: Goals) -> Flags:
        """Return for each state whether the property is true in it."""
        decode = self._expander.learner.decode_state
        marked = np.zeros(self.count, np.uint8)
        local = reason(prop) is None
        known: dict[int, bool] = {}
        for first, rows in self._chunks(range(1, self._levels.depth + 1)):
            self._pause()
            if not local:
                marked[first : first + len(rows)] = [goals.holds(prop, decode(row)) for row in rows]
                continue
            controls, where = np.unique(rows[:, 0], return_inverse=True)
            for control in controls.tolist():
                if control not in known:
                    known[control] = goals.holds(prop, decode([control] + [0] * (rows.shape[1] - 1)))
            marked[first : first + len(rows)] = np.array([known[control] for control in controls.tolist()])[where]
        return marked

    def _edges_from(
        self, rows: Rows, which: NDArray[np.int64], closed: NDArray[np.bool_]
    ) -> Iterator[tuple[NDArray[np.int64], Numbers]]:
        """Yield edges out of rows[which]: the places of their sources, and the numbers of their targets."""
        expander, packing = self._expander, self._visited.packing
        while len(which):
            self._pause()
            rows = expander.with_columns(rows)
            parts = [which] if len(which) <= SERIAL else np.array_split(which, expander.workers)
            workers = expander.pool[: len(parts)]
            for worker, edges, part in zip(workers, self._edges, parts, strict=False):
                worker.begin(rows, len(part))
                edges.fit(max(len(worker.succ), len(part) * SUCCESSORS_PER_STATE), packing.words + 1)
            found = np.zeros(len(parts), np.int64)
            expander.threads.run(partial(self._find, parts, closed, found), len(parts))
            rest: list[NDArray[np.int64]] = []
            for worker, part, edges, count in zip(workers, parts, self._edges, found.tolist(), strict=False):
                rest += [
                    worker.left_out(),
                    part[worker.stats[codes.S_DONE] :] if worker.stats[codes.S_CODE] else part[:0],
                ]
                if worker.stats[codes.S_CODE] == codes.MANY_SUCCESSORS:
                    worker.make_room()
                yield edges.sources[:count], self._targets(edges, count)
            expander.learner.resolve(workers)
            which = np.concatenate(rest)

    def _find(
        self, parts: list[NDArray[np.int64]], closed: NDArray[np.bool_], found: NDArray[np.int64], number: int
    ) -> None:
        expander: Expander = self._expander
        worker: Worker = expander.pool[number]
        found[number] = find_edges(
            expander.learner.tables, worker, self._edges[number], self._visited.packing, parts[number], closed
        )

    def _targets(self, edges: Edges, count: int) -> Numbers:
        targets = np.zeros(count, np.int32)
        words = edges.words[:count]
        for p, mine in by_owner(edges.owners[:count]):
            targets[mine] = self._looked_up(p, words[mine], self._numbers[p])
        return targets


def note_of(prop: Property, count: int) -> list[str]:
    """Return what to tell of how a property was evaluated: nothing where the tables decide it."""
    why = reason(prop)
    return [] if why is None else [f"{prop.name} reads {why}: it was evaluated {count:,} times"]
