"""Properties and constraints that the tables cannot decide: those are evaluated in Python, on each new state.

The tables decide what reads replicas, projections of them and shared fields, or one message alone. What reads a whole
state, a message together with something else, or whole inboxes has nearly as many inputs as there are states.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kraftcheck.explorer.result import Options, TraceStep
from kraftcheck.explorer.tables.kernel.layout import MOST_PROPERTIES
from kraftcheck.spec.language.property import Property
from kraftcheck.spec.language.semantics import Transition
from kraftcheck.spec.language.state import State

if TYPE_CHECKING:
    from kraftcheck.explorer.tables.engine import TableSearch

Rows = NDArray[np.int32]
Behaviour = tuple[TraceStep, ...]

class Parts(NamedTuple):
    """The properties and constraints of a search, by how they are decided.

    Attributes
    ----------
    properties, constraints
        By a control row.
    about_messages
        Invariants of one message alone.
    slow, slow_constraints
        By Python, on each new state.
    """

    properties: tuple[Property, ...]
    constraints: tuple[Property, ...]
    about_messages: tuple[Property, ...]
    slow: tuple[Property, ...]
    slow_constraints: tuple[Property, ...]


def split(options: Options) -> Parts:
    """Tell the properties and constraints that the tables decide from the slow ones."""
    about_states = [p for p in options.properties if not p.over_steps]
    room = MOST_PROPERTIES - 1  # those for which there is none are slow
    constraints = [c for c in options.constraints if reason(c) is None][:room]
    local = [p for p in about_states if reason(p) is None and p.asks != ("message",)][: room - len(constraints)]
    messages = [p for p in about_states if p.asks == ("message",)][: room - len(constraints) - len(local)]
    return Parts(
        tuple(local),
        tuple(constraints),
        tuple(messages),
        tuple(p for p in about_states if p not in local and p not in messages),
        tuple(c for c in options.constraints if c not in constraints),
    )


def reason(prop: Property) -> str | None:
    """Return what a property reads that makes it slow; None where the tables decide it."""
    if "state" in prop.asks:
        return "whole states"
    if any(read.of_inbox for read in prop.reads):
        return "whole inboxes"
    if "message" in prop.asks:
        others = [name for name in prop.asks if name != "message"]
        if others:
            return f"messages together with {', '.join(others)}"
        return "every message" if prop.kind == "constraint" else None
    return None


class SlowChecks:
    """Evaluates the slow properties and constraints of a search, state by state, by the reference semantics.

    Parameters
    ----------
    search
        The search.
    parts
        What it checks.
    """

    def __init__(self, search: TableSearch, parts: Parts) -> None:
        self._search = search
        self._parts = parts
        self._semantics = search.semantics
        self._evaluated: Counter[str] = Counter()
        self._beyond: set[bytes] = set()
        self._verdicts: dict[bytes, list[str]] = {}
        self._prunes = bool(parts.constraints or search.options.action_constraints)

    @property
    def beyond(self) -> int:
        """States beyond the slow constraints that were found, and so are in the visited set."""
        return len(self._beyond)

    @property
    def constrains(self) -> bool:
        """Whether there is a slow constraint."""
        return bool(self._parts.slow_constraints)

    def within(self, row: Any) -> bool:
        """Return whether the state of a row is within the slow constraints."""
        state = self._search.learner.decode_state(row)
        return all(self._holds(constraint, state) for constraint in self._parts.slow_constraints)

    def violated_by(self, row: Any) -> list[str]:
        """Return the slow properties that do not hold in the state of a row; remembered."""
        key = row.tobytes().rstrip(b"\0")
        found = self._verdicts.get(key)
        if found is None:
            state = self._search.learner.decode_state(row)
            found = self._verdicts[key] = [p.name for p in self._parts.slow if not self._holds(p, state)]
        return found

    def forget(self) -> None:
        """Forget which states were found: the visited set was emptied."""
        self._beyond.clear()

    def admit(self, found: list[Rows], first: int, trace_to: Callable[[Any], Behaviour]) -> None:
        """Check new states, and drop those that are beyond a slow constraint.

        Parameters
        ----------
        found
            Rows of states; from place `first` on they are new.
        first
            Where to begin.
        trace_to
            Returns a behaviour that leads to the state of a row.
        """
        for place in range(first, len(found)):
            rows = found[place]
            kept = np.array([self._admitted(row, trace_to) for row in rows], bool)
            if not kept.all():
                self._note_beyond(rows[~kept])
                found[place] = rows[kept]
        found[first:] = [rows for rows in found[first:] if len(rows)]

    def _admitted(self, row: Any, trace_to: Callable[[Any], Behaviour]) -> bool:
        state = self._search.learner.decode_state(row)
        for name in self._violated(state):
            self._search.violation(name, trace_to(row))
        return all(self._holds(c, state) for c in self._parts.slow_constraints)

    def _note_beyond(self, rows: Rows) -> None:
        search = self._search
        for row in search.identified(np.ascontiguousarray(rows))[:, -rows.shape[1] :]:
            self._beyond.add(row.tobytes().rstrip(b"\0"))  # without the inboxes of slots that came later

    def pruned(self, rows: Rows, which: NDArray[np.int64], trace_to: Callable[[Rows, int], Behaviour]) -> None:
        """Check the successors of expanded states that the kernel drops: their invariants are checked all the same.

        Parameters
        ----------
        rows, which
            The expanded states are rows[which].
        trace_to
            Returns a behaviour that leads to a row, given by its index.
        """
        if not self._prunes or not self._parts.slow:
            return
        for index in which.tolist():
            state = self._search.learner.decode_state(rows[index])
            for transition in self._semantics.transitions(state):
                if self._is_dropped(state, transition.target):
                    for name in self._violated(transition.target):
                        self._search.violation(name, (*trace_to(rows, index), _step(transition)))

    def _is_dropped(self, state: State, target: State) -> bool:
        semantics, action_constraints = self._semantics, self._search.options.action_constraints
        return not (
            all(semantics.holds(c, target) for c in self._parts.constraints)
            and all(semantics.holds_over(c, state, target) for c in action_constraints)
        )

    def _violated(self, state: State) -> list[str]:
        """Return the slow properties, not yet known to be violated, that do not hold in a state."""
        known = self._search.violated
        return [p.name for p in self._parts.slow if p.name not in known and not self._holds(p, state)]

    def _holds(self, prop: Property, state: State) -> bool:
        self._evaluated[prop.name] += 1
        return self._semantics.holds(prop, state)

    def notes(self) -> list[str]:
        """Return what to tell the user: which properties were slow, why, and how often they were evaluated."""
        return [
            f"{prop.name} reads {reason(prop) or 'what the tables have no room for'}: "
            f"it was evaluated {self._evaluated[prop.name] + len(self._search.starts):,} times"
            for prop in (*self._parts.slow, *self._parts.slow_constraints)
        ]


def _step(transition: Transition) -> TraceStep:
    return TraceStep(transition.target, transition.action, transition.actor, transition.message)
