"""Expansion of states for the tasks of one process, which keeps its memo tables."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kraftcheck.explorer.result import SearchRequest
from kraftcheck.explorer.spark.global_ids import GlobalIds
from kraftcheck.explorer.spark.shared_folder import SharedFolder, StateRows
from kraftcheck.explorer.spark.wire_records import WireRecord, WireRecordKind
from kraftcheck.explorer.tables.expander import Expander
from kraftcheck.explorer.tables.python_checks import PropertyVerdictMemo
from kraftcheck.explorer.tables.rows import STATES_A_BATCH
from kraftcheck.explorer.tables.visited import VisitedSet
from kraftcheck.spec.discovery import classes_for_decoding
from kraftcheck.spec.language.declarations import Property
from kraftcheck.spec.language.protocol import Protocol
from kraftcheck.spec.language.semantics import Semantics, initial_states

PRUNED_VIOLATION = -2
"""Kind of an event: a pruned successor violates a non-local property, whose number is the mask."""


class TaskStateExpander:
    """Expands states with global ids."""

    def __init__(
        self, protocol: Protocol, options: SearchRequest, shared: SharedFolder, *, for_graph: bool = False
    ) -> None:
        """Prepare the tables of a search, or with `for_graph` those of the checks of its state graph."""
        searched = options if for_graph else replace(options, view=None, reachable=(), temporal=(), workers=1)
        self.table_expander = Expander.of(protocol, searched)
        self.shared = shared
        semantics = Semantics(protocol)
        starts = initial_states(semantics, options.init)
        self.table_expander.encode(starts)  # this lays out the columns
        learner, parts = self.table_expander.learner, self.table_expander.parts
        values = [*protocol.constant_values().values(), *starts]
        hidden = None if options.view is None else protocol.hidden(options.view)
        self.ids = GlobalIds(learner.interner, classes_for_decoding(protocol, starts), values, hidden)

        def holds(prop: Property, row: Any) -> bool:
            return semantics.holds(prop, learner.interner.decode_state(row))

        def judged(props: Iterable[Property]) -> list[tuple[Property, PropertyVerdictMemo]]:
            return [
                (prop, PropertyVerdictMemo(learner.interner, learner.calls, prop, partial(holds, prop)))
                for prop in props
            ]

        self.non_local, self.constraints = judged(parts.non_local), judged(parts.non_local_constraints)
        self._checks_pruned = bool(parts.non_local and (parts.constraints or options.action_constraints))
        for worker in self.table_expander.pool if self._checks_pruned else ():
            worker.keep_pruned()
        self._loaded: list[int] = []
        self.begin(())

    def load(self, levels: list[int]) -> None:
        """Load the definitions of these levels, in order, unless they are loaded."""
        for level in levels[len(self._loaded) :]:
            self.ids.load(self.shared.read_definitions(level))
            self._loaded.append(level)

    def begin(self, violated: Iterable[str]) -> None:
        """Drop the findings of the previous task."""
        self.table_expander.restart(violated)
        self._violated = set(violated)
        self.events: dict[tuple[int, int], WireRecord] = {}
        self._visited = VisitedSet(self.table_expander.threads)

    def successors(self, states: StateRows, *, judging: bool = True) -> Iterator[StateRows]:
        """Yield the successors of states, with own ids and without duplicates; under symmetry, one image of each.

        With `judging`, note the violations by the states, their steps and their pruned successors.
        """
        for first in range(0, len(states), STATES_A_BATCH):
            part = states[first : first + STATES_A_BATCH]
            rows = self.ids.to_own(part)
            which = np.arange(len(rows), dtype=np.int64)
            while len(which):
                rows, which = self.table_expander.expand(rows, which)
                for index, kind, mask in self.table_expander.events():
                    event = WireRecord(WireRecordKind.EVENT, kind, b"", (mask, *part[index].tolist()))
                    self.events.setdefault((kind, mask), event)
                for worker in self.table_expander.pool if self._checks_pruned else ():
                    pruned = worker.take_collected()
                    if judging and len(pruned):
                        self._check_pruned(part, pruned)
                yield from self._visited.add(self.table_expander.found())

    def learn(self, states: StateRows) -> None:
        """Expand states for the tables alone, so that later steps out of them give no further ids."""
        self.begin(())
        for _ in self.successors(states, judging=False):
            pass

    def _check_pruned(self, sources: StateRows, pruned: Any) -> None:
        """Evaluate the non-local properties on pruned successors, each preceded by the index of its source."""
        for number, (prop, verdicts) in enumerate(self.non_local):
            if prop.name not in self._violated and (PRUNED_VIOLATION, number) not in self.events:
                for index in pruned[~verdicts.of(pruned[:, 1:]), 0][:1].tolist():
                    numbers = number, *sources[index].tolist()
                    event = WireRecord(WireRecordKind.EVENT, PRUNED_VIOLATION, b"", numbers)
                    self.events[PRUNED_VIOLATION, number] = event

    def properties_in(self, kind: int, mask: int) -> list[Property]:
        """Return the violated properties of an event, given its kind and mask."""
        is_pruned = kind == PRUNED_VIOLATION
        return [self.non_local[mask][0]] if is_pruned else self.table_expander.properties_in(kind, mask)

    def within(self, states: StateRows) -> NDArray[np.bool_]:
        """Return which states satisfy the non-local constraints."""
        kept = np.ones(len(states), bool)
        rows = self.ids.to_own(states) if self.constraints else states
        for _, verdicts in self.constraints:
            kept[kept] = verdicts.of(rows[kept])
        return kept

    def check(self, states: StateRows) -> None:
        """Evaluate the non-local properties on states; note the least state that violates each."""
        rows = self.ids.to_own(states) if self.non_local else states
        for number, (prop, verdicts) in enumerate(self.non_local):
            wrong = [] if prop.name in self._violated else states[~verdicts.of(rows)].tolist()
            if wrong:
                found = WireRecord(WireRecordKind.VIOLATED, number, b"", tuple(min(wrong)))
                self.events[-1, number] = min(found, self.events.get((-1, number), found))

    def predecessor(self, states: StateRows, target: StateRows) -> Any:
        """Return the first state that leads to the target or to an image of it, or None; all with global ids."""
        images = self.table_expander.images(self.ids.to_own(target[None]))
        for first in range(0, len(states), STATES_A_BATCH):
            part = states[first : first + STATES_A_BATCH]
            found = self.table_expander.predecessor(self.ids.to_own(part), images)
            if found is not None:
                return part[found]
        return None
