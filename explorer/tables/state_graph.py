"""The states of a breadth-first search that is over, numbered level by level, and the steps between them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kraftcheck.explorer.behaviour import Behaviour
from kraftcheck.explorer.tables.expander import Expander
from kraftcheck.explorer.tables.kernel import codes
from kraftcheck.explorer.tables.kernel.edges import EdgeArrays, find_edges
from kraftcheck.explorer.tables.kernel.hash_set import look_up, number
from kraftcheck.explorer.tables.locality import reason
from kraftcheck.explorer.tables.states.levels import Levels
from kraftcheck.explorer.tables.states.packing import Rows, by_owner
from kraftcheck.explorer.tables.states.successors import SUCCESSORS_PER_STATE
from kraftcheck.explorer.tables.states.visited import VisitedSet
from kraftcheck.explorer.tables.threads import SERIAL
from kraftcheck.explorer.tables.worker import BATCH, Worker
from kraftcheck.explorer.temporal.room import Room
from kraftcheck.spec.errors import InputError, RaisedError
from kraftcheck.spec.language.property import Property
from kraftcheck.spec.language.state import State

Flags = NDArray[np.uint8]
Numbers = NDArray[np.int32]

MOST_STATES = (1 << 31) - 1


class Steps(NamedTuple):
    """Steps out of some states."""

    places: NDArray[np.int64]  # the place of the source of each among the states that were asked for
    # the numbers of the states to which they lead. BEYOND where they lead beyond a constraint, BLOCKED where a
    # bound alone keeps them from being taken.
    targets: Numbers
    labels: NDArray[np.uint16]  # what they are called


class Edges(EdgeArrays):
    """The edges that one worker has found."""

    def fit(self, room: int, words: int) -> None:
        """Make room."""
        if len(self.sources) < room or self.words.shape[1] != words:
            self.sources, self.owners = np.zeros(room, np.int64), np.zeros(room, np.int64)
            self.labels = np.zeros(room, np.uint16)
            self.words = np.zeros((room, words), np.uint64)


class StateGraph:
    """The states of a breadth-first search that is over, numbered, and the steps between them."""

    def __init__(
        self,
        expander: Expander,
        visited: VisitedSet,
        levels: Levels,
        room: Room,
        pause: Callable[[], None],
        path_to: Callable[[Any, int], Behaviour],
    ) -> None:
        self.count = sum(levels.counts)
        if self.count > MOST_STATES:
            raise InputError(f"found {self.count:,} states; expected a state graph of at most {MOST_STATES:,}")
        self.expander, self.room = expander, room
        self.depth, self.starts = levels.depth, levels.counts[0] if levels.counts else 0
        self._visited, self._levels = visited, levels
        self._pause, self._path_to = pause, path_to
        self._edges = [Edges() for _ in expander.pool]
        self._numbers = [room.array(len(partition.places), np.int32, -1) for partition in visited.partitions]
        self._number_states()

    def _number_states(self) -> None:
        for first, rows in self.chunks(range(1, self._levels.depth + 1)):
            self._pause()
            words, owner = self.expander.packed(rows, self._visited.packing)
            for p, mine in by_owner(owner):
                partition = self._visited.partitions[p]
                keys, places, layout = partition.keys, partition.places, partition.layout
                number(keys, places, layout, words[mine], first + mine, self._numbers[p])

    def _looked_up(self, p: int, words: Any) -> Numbers:
        partition, found = self._visited.partitions[p], np.zeros(len(words), np.int32)
        look_up(partition.keys, partition.places, partition.layout, words, self._numbers[p], found)
        return found

    def forget_where_steps_lead(self) -> None:
        """Give back the room for what finds the state to which a step leads; `steps_from` may be asked no more."""
        for partition, numbers in zip(self._visited.partitions, self._numbers, strict=True):
            for array in (partition.keys, partition.places, numbers):
                self.room.give_back(array)
        self._visited, self._numbers = VisitedSet(self.expander.threads), []

    def chunks(self, levels: range) -> Iterator[tuple[int, Rows]]:
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

    def where(self, prop: Property, holds: Callable[[Property, State], bool]) -> Flags:
        """Return for each state whether a property is true of it, 1 or 0."""
        decode = self.expander.learner.decode_state

        def judged(row: Any, number: int) -> bool:
            try:
                return holds(prop, decode(row))
            except RaisedError as error:
                level, found = self.level_of(number)
                error.trace = self._path_to(found, level)
                raise

        marked = np.zeros(self.count, np.uint8)
        local = reason(prop) is None
        known: dict[int, bool] = {}
        for first, rows in self.chunks(range(1, self.depth + 1)):
            self._pause()
            if not local:
                marked[first : first + len(rows)] = [judged(row, n) for n, row in enumerate(rows, start=first)]
                continue
            controls, places, where = np.unique(rows[:, 0], return_index=True, return_inverse=True)
            for control, place in zip(controls.tolist(), places.tolist(), strict=True):
                if control not in known:
                    known[control] = judged([control] + [0] * (rows.shape[1] - 1), first + place)
            marked[first : first + len(rows)] = np.array([known[control] for control in controls.tolist()])[where]
        return marked

    def steps_from(self, rows: Rows, which: NDArray[np.int64]) -> Iterator[Steps]:
        """Yield the steps out of rows[which]; places are those in `rows`."""
        expander, packing = self.expander, self._visited.packing
        while len(which):
            self._pause()
            rows = expander.with_columns(rows)
            parts = [which] if len(which) <= SERIAL else np.array_split(which, expander.workers)
            workers = expander.pool[: len(parts)]
            for worker, edges, part in zip(workers, self._edges, parts, strict=False):
                worker.begin(rows, len(part))
                edges.fit(max(2 * len(worker.succ), len(part) * SUCCESSORS_PER_STATE), packing.words)
            found = np.zeros(len(parts), np.int64)
            expander.threads.run(partial(self._find, parts, found), len(parts))
            rest: list[NDArray[np.int64]] = []
            for worker, part, edges, count in zip(workers, parts, self._edges, found.tolist(), strict=False):
                rest += [
                    worker.left_out(),
                    part[worker.stats[codes.S_DONE] :] if worker.stats[codes.S_CODE] else part[:0],
                ]
                if worker.stats[codes.S_CODE] == codes.MANY_SUCCESSORS:
                    worker.make_room()
                yield Steps(edges.sources[:count], self._targets(edges, count), edges.labels[:count])
            expander.learner.resolve(workers)
            which = np.concatenate(rest)

    def _find(self, parts: list[NDArray[np.int64]], found: NDArray[np.int64], number: int) -> None:
        expander: Expander = self.expander
        worker: Worker = expander.pool[number]
        found[number] = find_edges(
            expander.learner.tables, worker, self._edges[number], self._visited.packing, parts[number]
        )

    def _targets(self, edges: Edges, count: int) -> Numbers:
        targets: Numbers = np.minimum(edges.owners[:count], 0).astype(np.int32)
        inside = np.flatnonzero(targets == 0)
        words = edges.words[inside]
        for p, mine in by_owner(edges.owners[inside]):
            targets[inside[mine]] = self._looked_up(p, words[mine])
        return targets
