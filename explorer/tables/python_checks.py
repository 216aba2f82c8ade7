"""Evaluates non-local properties and constraints in Python, on each new state.

Which these are is decided in `locality.py`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kraftcheck.explorer.behaviour import Behaviour, least, step_of
from kraftcheck.explorer.bookkeeping import Bookkeeping
from kraftcheck.explorer.tables.learning.learner import Learner
from kraftcheck.explorer.tables.locality import Parts, reason
from kraftcheck.explorer.tables.states.packing import Rows
from kraftcheck.explorer.tables.verdicts import Verdicts
from kraftcheck.spec.errors import RaisedError
from kraftcheck.spec.language.property import Property
from kraftcheck.spec.language.semantics import Semantics
from kraftcheck.spec.language.state import State


class PythonChecks:
    """Evaluates the non-local properties and constraints of a search by the reference semantics."""

    def __init__(
        self,
        parts: Parts,
        action_constraints: tuple[Property, ...],
        semantics: Semantics,
        learner: Learner,
        books: Bookkeeping,
    ) -> None:
        self._parts = parts
        self._action_constraints = action_constraints
        self._semantics = semantics
        self._decode = learner.decode_state
        self._books = books
        self.least: Callable[[str], Behaviour | None] = lambda name: None
        self._evaluated: Counter[str] = Counter()
        self.beyond = 0
        self._violated_by: dict[bytes, list[str]] = {}
        self._verdicts = {
            prop.name: Verdicts(learner, prop, partial(self._holds_in, prop))
            for prop in (*parts.non_local, *parts.non_local_constraints)
        }

    @property
    def constrains(self) -> bool:
        """Whether there is a non-local constraint."""
        return bool(self._parts.non_local_constraints)

    def is_within(self, row: Any) -> bool:
        """Return whether the state of a row is within the non-local constraints."""
        return self._within(self._decode(row))

    def _within(self, state: State) -> bool:
        return all(self._holds(constraint, state) for constraint in self._parts.non_local_constraints)

    def violated_by(self, row: Any) -> list[str]:
        """Return the non-local properties that do not hold in the state of a row; memoised."""
        key = _key(row)
        found = self._violated_by.get(key)
        if found is None:
            state = self._decode(row)
            found = self._violated_by[key] = [p.name for p in self._parts.non_local if not self._holds(p, state)]
        return found

    def admit(self, rows: Rows, trace_to: Callable[[Any], Behaviour]) -> NDArray[np.bool_]:
        """Check new states, each of them once; return which are within the non-local constraints."""
        try:
            for prop in self._parts.non_local:
                evaluated = self._verdicts[prop.name]
                if prop.name not in self._books.violated:
                    self._report(prop, rows, trace_to)
            kept = np.ones(len(rows), bool)
            for constraint in self._parts.non_local_constraints:
                evaluated = self._verdicts[constraint.name]
                kept[kept] = evaluated.of(rows[kept])
        except RaisedError as error:
            if error.trace is None:
                error.trace = trace_to(evaluated.last)
            raise
        self.beyond += int(np.count_nonzero(~kept))
        return kept

    def _report(self, prop: Property, rows: Rows, trace_to: Callable[[Any], Behaviour]) -> None:
        """Report the first of some states in which a property does not hold."""
        for index in np.flatnonzero(~self._verdicts[prop.name].of(rows))[:1].tolist():
            self._books.violation(prop.name, self.least(prop.name) or trace_to(rows[index]))

    def _holds_in(self, prop: Property, row: Any) -> bool:
        return self._semantics.holds(prop, self._decode(row))

    @property
    def checks_pruned(self) -> bool:
        """Whether there may be states that the kernel prunes, with invariants to check all the same."""
        return bool(self._parts.non_local and (self._parts.constraints or self._action_constraints))

    def check_ruled_out(self, found: Rows, trace_to: Callable[[int], Behaviour]) -> None:
        """Check successors that the kernel prunes: their invariants are checked all the same."""
        rows = found[:, 1:]

        def trace_of(row: Any) -> Behaviour:
            place = int(found[next(i for i, one in enumerate(rows) if (one == row).all()), 0])
            trace, target = trace_to(place), self._decode(row)
            steps = [taken for taken in self._semantics.transitions(trace[-1].state) if taken.target == target]
            return (*trace, step_of(least(steps)))

        for prop in self._parts.non_local:
            try:
                if prop.name not in self._books.violated:
                    self._report(prop, rows, trace_of)
            except RaisedError as error:
                if error.trace is None:
                    error.trace = trace_of(self._verdicts[prop.name].last)
                raise

    def check_pruned(self, rows: Rows, which: NDArray[np.int64], trace_to: Callable[[Rows, int], Behaviour]) -> None:
        """Check the successors of expanded states that the kernel prunes: their invariants are checked all the same."""
        if not self.checks_pruned:
            return
        for index in which.tolist():
            state = self._decode(rows[index])
            for transition in self._semantics.transitions(state):
                if self._is_pruned(state, transition.target):
                    for name in self._violated(transition.target):
                        found = self.least(name) or (*trace_to(rows, index), step_of(transition))
                        self._books.violation(name, found)

    def _is_pruned(self, state: State, target: State) -> bool:
        semantics = self._semantics
        return not (
            all(semantics.holds(c, target) for c in self._parts.constraints)
            and all(semantics.holds_over(c, state, target) for c in self._action_constraints)
        )

    def _violated(self, state: State) -> list[str]:
        """Return the non-local properties, not yet known to be violated, that do not hold in a state."""
        known = self._books.violated
        return [p.name for p in self._parts.non_local if p.name not in known and not self._holds(p, state)]

    def _holds(self, prop: Property, state: State) -> bool:
        self._evaluated[prop.name] += 1
        return self._semantics.holds(prop, state)

    def notes(self, starts: int) -> list[str]:
        """Return what to tell the user: which properties are non-local, why, and how often they were evaluated."""
        return [
            f"{prop.name} reads {reason(prop) or 'what the tables have no room for'}: "
            f"it was evaluated {self._evaluated[prop.name] + self._verdicts[prop.name].evaluated + starts:,} times"
            for prop in (*self._parts.non_local, *self._parts.non_local_constraints)
        ]


def _key(row: Any) -> bytes:
    """Return the bytes of a row without the inboxes of replicas that may have come later."""
    return bytes(row.tobytes().rstrip(b"\0"))
