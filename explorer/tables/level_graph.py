"""State graph of a finished breadth-first search, with states numbered level by level."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from kraftcheck.explorer.result import Behaviour, SearchRequest
from kraftcheck.explorer.state_graph import SingleStatePropertyEvaluator, StateGraph, require_state_numbers_fit
from kraftcheck.explorer.tables.kernel.hash_set import look_up_entry_flags, store_entry_numbers
from kraftcheck.explorer.tables.level_states import SearchStates, format_bytes
from kraftcheck.explorer.tables.rows import Indices, Rows, indices_by_owner_partition
from kraftcheck.explorer.tables.table_system import PackedKeys, TableTransitionSystem
from kraftcheck.explorer.tables.violation_checker import ViolationChecker
from kraftcheck.explorer.temporal.search import check_reachable_properties, check_temporal_properties
from kraftcheck.explorer.transition_system import StateNumbers
from kraftcheck.persistence.stored_files import SpillArena
from kraftcheck.spec.language.state import State

PathTo = Callable[[Any, int], Behaviour]
"""Function that returns a shortest trace to a state, given its row and level."""


class LevelStateStore:
    """`StateStore` over the levels of a breadth-first search."""

    def __init__(
        self,
        states: SearchStates,
        system: TableTransitionSystem,
        room: SpillArena,
        path_to: PathTo,
        pause: Callable[[], None],
    ) -> None:
        levels = states.levels
        self.count, self.starts = sum(levels.counts), levels.counts[0] if levels.counts else 0
        require_state_numbers_fit(self.count)
        self._system, self._levels, self._chunk = system, levels, states.chunk
        self._room, self._path_to = room, path_to
        self._partitions = states.visited.hand_over(system.packing, room.array).partitions
        self._numbers = [room.array(len(partition.places), np.int32, -1) for partition in self._partitions]
        for first, rows in self.chunks(backwards=False):
            pause()
            words, owners = system.canonical(rows)
            for p, mine in indices_by_owner_partition(owners):
                partition = self._partitions[p]
                keys, places, layout = partition.keys, partition.places, partition.layout
                store_entry_numbers(keys, places, layout, words[mine], first + mine, self._numbers[p])

    def chunks(self, *, backwards: bool) -> Iterator[tuple[int, Rows]]:
        """Yield the rows of all levels in chunks, each with the number of its first state."""
        firsts = [0, *np.cumsum(self._levels.counts).tolist()]
        levels = range(1, self._levels.depth + 1)
        for level in reversed(levels) if backwards else levels:
            first = firsts[level - 1]
            for rows in self._levels.chunks(level, self._chunk):
                yield first, rows
                first += len(rows)

    def numbers(self, keys: PackedKeys, which: Indices) -> StateNumbers:
        """Return the numbers of the states with keys[which]; -1 for those beyond a constraint.

        The visited set may have entries of states beyond a constraint, without numbers; not after a resume.
        """
        words, owners = keys[0][which], keys[1][which]
        numbers = np.zeros(len(words), np.int32)
        for p, mine in indices_by_owner_partition(owners):
            partition, found = self._partitions[p], np.full(len(mine), -1, np.int32)
            look_up_entry_flags(
                partition.keys, partition.places, partition.layout, words[mine], self._numbers[p], found
            )
            numbers[mine] = found
        return numbers

    def forget_keys(self) -> None:
        """Free the memory of the index from keys to numbers."""
        for partition, numbers in zip(self._partitions, self._numbers, strict=True):
            for array in (partition.keys, partition.places, numbers):
                self._room.give_back(array)
        self._partitions, self._numbers = [], []

    def _read(self, number: int) -> tuple[Any, int]:
        """Return a state's row and level."""
        level = int(np.searchsorted(np.cumsum(self._levels.counts), number, side="right")) + 1
        first = number - sum(self._levels.counts[: level - 1])
        return self._levels.read(level, first, 1)[0], level

    def state(self, number: int) -> State:
        """Return the state with this number."""
        return self._system.expander.learner.interner.decode_state(self._read(number)[0])

    def path_to(self, number: int) -> Behaviour:
        """Return a shortest trace to a state."""
        return self._path_to(*self._read(number))


def check_graph_properties(
    states: SearchStates, checker: ViolationChecker, options: SearchRequest, path_to: PathTo, pause: Callable[[], None]
) -> None:
    """Check AG EF and temporal properties on the complete state graph."""
    expander, monitor, semantics = states.expander, checker.monitor, checker.semantics
    expander.fit_packing()
    room = SpillArena(states.left_memory(), states.folder)
    system = TableTransitionSystem(expander, checker.starts)
    try:
        store = LevelStateStore(states, system, room, path_to, pause)
        bounds = SingleStatePropertyEvaluator(semantics, options, expander.learner.calls.most_spent)
        graph = StateGraph(system, store, bounds, room=room, pause=pause, why_slow=system.why_slow)
        check_reachable_properties(graph, options, monitor, is_compiled=True)
        check_temporal_properties(graph, semantics, options, monitor)
    finally:
        if room.on_disk:
            monitor.result.notes.append(f"{format_bytes(room.on_disk)} of the state graph went to disk")
