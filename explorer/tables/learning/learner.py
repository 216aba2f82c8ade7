"""Cache-miss handler of the table engine: memoizes the results of handlers and properties.

Values are interned as dense ids. The kernel records cache misses, and `Learner.resolve` fills the missing entries:
compiled code those that follow from others, `python_misses.py` the rest. Callers pass the tables to kernel functions
as an opaque handle.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from kraftcheck.explorer.calls.handlers import HandlerCaller
from kraftcheck.explorer.native.arrays import grow_array
from kraftcheck.explorer.tables.kernel import codes
from kraftcheck.explorer.tables.kernel.arrays import MissResolver, TableFull, WorkerArrays
from kraftcheck.explorer.tables.kernel.resolve import resolve_misses_of_states
from kraftcheck.explorer.tables.learning.growing_tables import GrowingTables, require_id_below
from kraftcheck.explorer.tables.learning.interner import Interner
from kraftcheck.explorer.tables.learning.python_misses import MemoizedCall, PythonMissHandler
from kraftcheck.explorer.transition_system import MOST_LABELS, LabelTable
from kraftcheck.spec.errors import ProtocolError
from kraftcheck.spec.language.declarations import REFINES, Property
from kraftcheck.spec.language.formula import Fairness
from kraftcheck.spec.language.protocol import Protocol

MOST_ROUNDS_WITHOUT_REQUEST = 1_000  # rounds of misses without a request, after an error left requests unanswered


class Learner:
    """The memo of one protocol: interned values, decision trees, and the calls that fill them."""

    def __init__(
        self,
        protocol: Protocol,
        properties: tuple[Property, ...] = (),
        constraints: tuple[Property, ...] = (),
        step_properties: tuple[Property, ...] = (),
        action_constraints: tuple[Property, ...] = (),
        message_properties: tuple[Property, ...] = (),
        view: str | None = None,
        symmetry: str | None = None,
        check_actions: bool = False,
    ) -> None:
        local = (*properties, *constraints)
        self.state_properties = (*local, *message_properties)
        of_pairs, of_actor, mapped = _step_properties_by_kind(step_properties)
        of_pairs += action_constraints
        self.step_properties = (*of_pairs, *of_actor, *mapped)
        self.refinements = list(enumerate(mapped, start=len(of_pairs) + len(of_actor)))
        require_id_below(len(self.state_properties), codes.MOST_PROPERTIES, "properties of states")
        require_id_below(len(of_pairs), codes.MOST_STEP_PROPERTIES, "properties of steps")
        require_id_below(len(self.step_properties), codes.MOST_ACT_PROPERTIES, "properties of steps")
        flagged = [(codes.STEP_BAD | 4 << bit, p) for bit, p in enumerate(self.step_properties) if p.of_actor]
        self.calls = HandlerCaller(protocol, thorough=check_actions)
        self.interner = Interner(protocol, self._message_violations, view, symmetry)
        self.action_names = [*protocol.actions, *protocol.network.own_actions()]
        self._failed: ProtocolError | None = None
        self.seconds = 0.0  # of one thread, in which no other expands states
        self._idle = 0
        self.answers = PythonMissHandler(self.calls, self.interner, flagged, self.action_names)
        self.interner.slot_added = self.answers.forget_replicas
        self.interner.shared.sets.added = self.answers.trees.forget_awaiting
        self.interner.shared.sets.is_allowed &= self.answers.tracks_changes
        tables = self.interner.tables
        for i, prop in enumerate(local):
            kind = 2 if "peer" in prop.asks else int("me" in prop.asks)
            tables.append(
                "properties", (root := self.answers.root(MemoizedCall(prop)), kind, int(i >= len(properties)))
            )
            self.answers.policy.misses |= {root: 0} if kind == 1 else {}
            tables.property_masks[int(i >= len(properties)), kind] |= 1 << i
        for prop in of_pairs:
            tables.append("step_properties", (self.answers.root(MemoizedCall(prop)), int(prop in action_constraints)))
        own = list(protocol.network.own_operations())
        for name, _, spends in own:
            self.answers.effects.add_network_step(name, spends)
        tables.meta[codes.META_PROPERTIES] = len(local)
        tables.meta[codes.META_CONSTRAINTS] = len(constraints)
        tables.meta[codes.META_STEP_PROPERTIES] = len(of_pairs)
        tables.meta[codes.META_COLLECTS] = len(mapped)
        tables.meta[codes.META_NETWORK_STEPS] = len(own)

    @property
    def protocol(self) -> Protocol:
        """The memoized protocol."""
        return self.calls.protocol

    @property
    def tables(self) -> GrowingTables:
        """The memo tables, as kernel functions take them."""
        return self.interner.tables

    @property
    def book(self) -> LabelTable:
        """The table of step labels."""
        return self.answers.effects.labels

    def follow(self, fairness: tuple[Fairness, ...]) -> None:
        """Label steps for fairness, and record steps that only bounds disable; call before any other method."""
        self.answers.effects.labels = LabelTable(self.protocol, self.action_names, fairness)
        self.interner.tables.meta[codes.META_WATCH_BOUNDS] = 1

    @property
    def labels(self) -> int:
        """Most labels of steps: the number of actions, or more where an action's steps may have several labels."""
        return MOST_LABELS if self.book.tells_more else len(self.action_names)

    @property
    def kinds_of_misses(self) -> tuple[bool | None, bool | None]:
        """The last arguments of `resolve_misses_of_states`."""
        has_groups = self.interner.inboxes.has_groups
        return True if self.permutations > 1 else None, True if has_groups else None

    @property
    def permutations(self) -> int:
        """Order of the symmetry group."""
        return len(self.interner.group)

    def mask_of(self, names: set[str], *, over_steps: bool) -> int:
        """Return the mask of the state or step properties with these names."""
        properties = self.step_properties if over_steps else self.state_properties
        return sum(1 << bit for bit, prop in enumerate(properties) if prop.name in names)

    def properties_in(self, mask: int, *, over_steps: bool) -> list[Property]:
        """Return the state or step properties in a mask."""
        properties = self.step_properties if over_steps else self.state_properties
        found = [prop.whole or prop for bit, prop in enumerate(properties) if mask >> bit & 1]
        return [prop for number, prop in enumerate(found) if prop not in found[:number]]

    def resolve(
        self, workers: Sequence[WorkerArrays], fill_tables: MissResolver | None = None, *, evaluates: bool = False
    ) -> None:
        """Resolve the workers' cache misses, with calls to user code where the tables do not suffice.

        `fill_tables` is the compiled function for the layout; the default is that of control rows. With `evaluates`,
        rows are only evaluated, and may lack the inbox columns of some replicas.
        """
        began = time.monotonic()
        try:
            for worker in workers:
                self._resolve(worker, fill_tables or self._fill_for_control_rows, evaluates)
        except ProtocolError as error:
            self._failed = error
            raise
        finally:
            self.seconds += time.monotonic() - began
        if self.interner.shared.explode_sets():
            self.answers.forget_all()

    def _fill_for_control_rows(self, tables: GrowingTables, worker: WorkerArrays) -> None:
        """Run the compiled resolution of cache misses for states with control rows."""
        resolve_misses_of_states(tables, worker, *self.kinds_of_misses)

    def _resolve(self, worker: WorkerArrays, fill_tables: MissResolver, evaluates: bool) -> None:
        """Resolve one worker's cache misses until no request is left."""
        tables = self.interner.tables
        retry = worker.retry[: worker.stats[codes.STATS_RETRY]]
        tables.waiting = grow_array(tables.waiting, len(retry))
        tables.waiting[: len(retry)] = retry
        tables.meta[[codes.META_RESOLVED, codes.META_SETTLED, codes.META_WAITING]] = 0
        tables.meta[codes.META_LEFT] = len(retry) if evaluates or self._has_all_columns(worker) else 0
        # Compiled code and Python take turns. Compiled code fills the entries that follow from others, and files
        # requests for the rest. Only Python calls a handler, interns a value or grows a table; no thread expands states
        # then, so the tables may move in memory.
        while not self._fill_tables_once(worker, fill_tables):
            self.answers.answer(worker)
            tables.grow()
            if not (evaluates or self._has_all_columns(worker)):
                break  # a new replica widens the rows: the search must convert them first

    def _fill_tables_once(self, worker: WorkerArrays, fill_tables: MissResolver) -> bool:
        """Run the compiled miss resolution once; return whether it ended without a request or a full table."""
        meta, is_done = self.interner.tables.meta, False
        try:
            fill_tables(self.interner.tables, worker)
            is_done = not meta[codes.META_ASKED]
            meta[codes.META_LEFT] = meta[codes.META_WAITING]
            meta[[codes.META_SETTLED, codes.META_WAITING]] = 0
        except TableFull:
            pass
        self._idle = 0 if meta[codes.META_ASKED] else self._idle + 1
        if self._failed is not None and self._idle > MOST_ROUNDS_WITHOUT_REQUEST:
            raise self._failed
        return is_done

    def _has_all_columns(self, worker: WorkerArrays) -> bool:
        """Return whether the worker's rows have an inbox column for every replica."""
        return bool(worker.states.shape[1] == self.interner.first_inbox + len(self.interner.slots))

    def _message_violations(self, message: Any) -> int:
        """Return the mask of the message invariants that a message violates."""
        return sum(
            1 << bit
            for bit, prop in enumerate(self.state_properties)
            if prop.asks == ("message",) and isinstance(message, prop.kinds("message"))
            if not self.calls.holds(prop, {"message": message})
        )


def _step_properties_by_kind(properties: tuple[Property, ...]) -> tuple[tuple[Property, ...], ...]:
    """Partition step properties: those of changed replicas, those of the acting replica, and refinements."""
    kinds = [(prop.kind == REFINES) * 2 + prop.of_actor for prop in properties]
    return tuple(tuple(p for p, kind in zip(properties, kinds, strict=True) if kind == wanted) for wanted in range(3))
