"""Effects of steps as integers: an outcome is an action, a delta of the control row, and operations on inboxes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from kraftcheck.explorer.calls.proxies import DeltaStep, SetChange
from kraftcheck.explorer.tables.kernel.codes import KEY_LIMIT
from kraftcheck.explorer.tables.learning.growing_tables import require_below
from kraftcheck.explorer.tables.learning.interner import Interner
from kraftcheck.spec.language.state import Step

Pairs = tuple[tuple[int, int], ...]


class EffectTable:
    """Interned outcomes of one protocol's steps."""

    def __init__(self, interner: Interner) -> None:
        self._interner = interner
        self._tables = interner.tables
        self._deltas: dict[tuple[Pairs, Pairs], int] = {}
        self._count = self._moved = 0
        self._delta((), ())  # delta 0 changes nothing

    def add(self, labels: Iterable[int], me: Any, steps: Iterable[tuple[Step, int]]) -> int:
        """Add an action's outcomes, with their labels and flags; return the index of the first."""
        made = zip(labels, [(*self._made(me, step), flags) for step, flags in steps], strict=True)
        return self._tables.extend("outcomes", [self._row(label, *one) for label, one in made])

    def add_network_step(self, action: int, spends: tuple[str, ...]) -> None:
        """Add the outcome of a step of the network itself, such as the loss of a message."""
        outcome = self._tables.append("outcomes", self._row(action, 0, False, []))
        self._tables.append("network_steps", (outcome, self._delta((), self._spending(Step(spends=spends)))))

    def _made(self, me: Any, step: Step) -> tuple[int, bool, list[int]]:
        """Return a step's delta id, whether the step consumes the message, and the ids of its inbox operations."""
        interner, inboxes = self._interner, self._interner.inboxes
        operations = [inboxes.operation(name, inboxes.message(message)) for name, message in step.sends]
        put = self._put(step) if step.puts else ()
        written = step.writes if step.me == () or step.me == me else (step.me, *step.writes)
        slots = [(interner.slot(replica.id), interner.local(replica)) for replica in written]
        assigned = {interner.base + slot: local for slot, local in slots}
        for key, fields in step.peers if isinstance(step, DeltaStep) else ():
            assigned[interner.base + interner.slot(key)] = ~interner.change(fields)
        for column, value in put:
            if isinstance(value, SetChange):
                assigned.update(interner.shared.sets.assigned(column, value))
            else:
                assigned[len(interner.bounds) + column] = interner.shared.id_of(column, value)
        return self._delta(tuple(sorted(assigned.items())), self._spending(step)), step.consumes, operations

    def _put(self, step: Step) -> list[tuple[int, Any]]:
        """Return a step's writes to shared fields as (field number, value), with a `SetChange` for an exploded set."""
        sets, names = self._interner.shared.sets, self._interner.shared.names
        put, changes = [], dict(step.sets) if isinstance(step, DeltaStep) else {}
        for name, value in step.puts:
            column = names.index(name)
            if column in sets.elements:
                value = changes.get(name, SetChange(value, None))
                for element in value.added:
                    sets.column(column, element)  # now, since a new column moves the others
            put.append((column, value))
        return put

    def _spending(self, step: Step) -> Pairs:
        if not step.spends and not step.needs:
            return ()
        bounds = self._interner.bounds
        spent = [(bounds.index(name), amount) for name, amount in Counter(step.spends).items()]
        return tuple(sorted(spent + [(bounds.index(name), 0) for name in step.needs]))

    def _delta(self, assigned: Pairs, spending: Pairs) -> int:
        """Return the id of a delta, which assigns columns of the control row and spends bounds."""
        if self._moved != self._interner.shared.sets.changes:
            self._moved = self._interner.shared.sets.changes
            self._deltas = {((), ()): 0}
        found = self._deltas.get((assigned, spending))
        if found is None:
            found = self._deltas[assigned, spending] = require_below(self._count, KEY_LIMIT, "different changes")
            self._count += 1
            first = self._tables.extend("assignments", assigned)
            spent = self._tables.extend("spendings", spending)
            self._tables.set("deltas", found, (first, len(assigned), spent, len(spending)))
        return found

    def _row(self, action: int, delta: int, consumes: bool, operations: list[int], flags: int = 0) -> tuple[int, ...]:
        first = self._tables.extend("outcome_operations", operations)
        return action, delta, int(consumes), first, len(operations), flags
