"""Expansion of states for the tasks of one process, which keeps its memo tables."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from kraftcheck.explorer.result import SearchRequest
from kraftcheck.explorer.spark.definitions import Definition, Kind
from kraftcheck.explorer.spark.global_ids import GlobalIds
from kraftcheck.explorer.spark.shared_folder import SharedFolder, States
from kraftcheck.explorer.tables.expander import Expander
from kraftcheck.explorer.tables.python_checks import Verdicts
from kraftcheck.explorer.tables.states.visited import VisitedSet
from kraftcheck.explorer.tables.worker_buffers import BATCH
from kraftcheck.spec.discovery import reachable_classes
from kraftcheck.spec.language.declarations import Property
from kraftcheck.spec.language.protocol import Protocol
from kraftcheck.spec.language.semantics import Semantics, initial_states


class TaskExpander:
    """Expands states with global ids."""

    def __init__(self, protocol: Protocol, options: SearchRequest, shared: SharedFolder) -> None:
        self.table_expander = Expander.of(protocol, replace(options, view=None), 1)
        self.shared = shared
        semantics = Semantics(protocol)
        starts = initial_states(semantics, options.init)
        self.table_expander.encode(starts)  # this lays out the columns
        self.ids = GlobalIds(
            self.table_expander.learner.interner,
            reachable_classes(protocol, starts),
            [*protocol.constant_values().values(), *starts],
            None if options.view is None else protocol.hidden(options.view),
        )
        learner, non_local = self.table_expander.learner, self.table_expander.parts.non_local

        def holds(prop: Property, row: Any) -> bool:
            return semantics.holds(prop, learner.decode_state(row))

        self.non_local = [(prop, Verdicts(learner, prop, partial(holds, prop))) for prop in non_local]
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
        self.events: dict[tuple[int, int], Definition] = {}
        self._visited = VisitedSet(self.table_expander.threads)

    def successors(self, states: States) -> Iterator[States]:
        """Yield the successors of states, with own ids and without duplicates; under symmetry, one image of each."""
        for first in range(0, len(states), BATCH):
            part = states[first : first + BATCH]
            rows = self.ids.to_own(part)
            which = np.arange(len(rows), dtype=np.int64)
            while len(which):
                rows, which = self.table_expander.expand(rows, which)
                for index, kind, mask in self.table_expander.events():
                    event = Definition(Kind.EVENT, kind, b"", (mask, *part[index].tolist()))
                    self.events.setdefault((kind, mask), event)
                yield from self._visited.add(self.table_expander.found())

    def check(self, states: States) -> None:
        """Evaluate the non-local properties on states; note the least state that violates each."""
        rows = self.ids.to_own(states) if self.non_local else states
        for number, (prop, verdicts) in enumerate(self.non_local):
            wrong = [] if prop.name in self._violated else states[~verdicts.of(rows)].tolist()
            if wrong:
                found = Definition(Kind.VIOLATED, number, b"", tuple(min(wrong)))
                self.events[-1, number] = min(found, self.events.get((-1, number), found))

    def predecessor(self, states: States, target: States) -> Any:
        """Return the first state that leads to the target or to an image of it, or None; all with global ids."""
        images = self.table_expander.images(self.ids.to_own(target[None]))
        for first in range(0, len(states), BATCH):
            part = states[first : first + BATCH]
            found = self.table_expander.predecessor(self.ids.to_own(part), images)
            if found is not None:
                return part[found]
        return None
