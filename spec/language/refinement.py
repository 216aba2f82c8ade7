"""Refinement mappings: each mapped step of a protocol is a step of an abstract protocol, or a stutter.

Source: L. Lamport, "Specifying Systems" (2002), section 5.8, refinement mappings; M. Abadi and L. Lamport, "The
existence of refinement mappings" (1991). Only the safety of the abstract protocol is checked: its initial states and
steps.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol

from kraftcheck.spec.errors import RaisedError
from kraftcheck.spec.language.declarations import Property
from kraftcheck.spec.language.state import State
from kraftcheck.spec.type_checks import describe_value, type_mismatch

MAX_MEMOIZED_STATES = 1 << 18
"""Most states whose mapped states are memoized."""


class AbstractProtocolSemantics(Protocol):
    """The semantics of an abstract protocol."""

    protocol: Any

    def initial(self) -> list[State]:
        """Return the initial states."""

    def transitions(self, state: State) -> Iterable[Any]:
        """Return the transitions out of a state."""


class RefinementChecker:
    """A mapping of a protocol's states to numbered states of an abstract protocol, with its steps known so far."""

    def __init__(self, protocol: Any, prop: Property, other: AbstractProtocolSemantics) -> None:
        self.protocol, self.prop, self.other = protocol, prop, other
        self.mapped: list[State] = []  # abstract states that occur, by number
        self._numbers: dict[State, int] = {}
        self._known: dict[State, int] = {}
        self._starts: frozenset[State] | None = None
        self._next: dict[int, frozenset[State]] = {}
        self._allowed: dict[tuple[int, int], bool] = {}

    def number(self, state: State) -> int:
        """Return the number of the abstract state that a state maps to; memoized."""
        found = self._known.get(state)
        if found is None:
            if len(self._known) >= MAX_MEMOIZED_STATES:
                self._known.clear()
            found = self._known[state] = self.evaluated(state)
        return found

    def evaluated(self, state: Any) -> int:
        """Call the mapping; return the number of the abstract state. `state` may stand for a state."""
        found = self._called(state)
        number = self._numbers.setdefault(found, len(self.mapped))
        if number == len(self.mapped):
            self.mapped.append(found)
        return number

    def _called(self, state: Any) -> State:
        prop, reads, found = self.prop, self.protocol.hidden_reads, None
        reader, cause = f"{prop.kind} {prop.name}", None
        given = {"state": self._seen(reader, state), "other": self.other.protocol}
        try:
            found = prop.function(self.protocol, *[given[name] for name in prop.asks])
        except (Exception, SystemExit) as error:
            cause = error
        if isinstance(found, State) and type(found) is not State:
            found = found.but()  # it stands for the state
        if reads is not None:
            reads.require_unread(reader)
        problem = "" if cause is not None else self._problem(found)
        if cause is not None or problem:
            what, shown = f"property {prop.name}", {"state": state.but()}
            raise RaisedError(self.protocol, what, prop.function, problem, shown, cause) from cause
        assert isinstance(found, State)
        return found

    def _seen(self, reader: str, state: Any) -> Any:
        """Return the state, or a proxy of it, that the mapping is called with."""
        prop, reads = self.prop, self.protocol.hidden_reads
        if prop.method_name in self.protocol.by_type and type(state) is not State:
            state = state.but()
        return state if reads is None else reads.seen(reader, prop.name, "state", state)

    def _problem(self, found: Any) -> str:
        """Return the error text for an invalid result of the mapping, or ""."""
        if isinstance(found, State):
            return type_mismatch(found, State, "") or ""
        return f"returned {describe_value(found)}; expected a state of {self.other.protocol.name()}, made by start(...)"

    def begins(self, number: int) -> bool:
        """Whether an abstract state is an initial state of the abstract protocol."""
        if self._starts is None:
            self._starts = frozenset(self.other.initial())
        return self.mapped[number] in self._starts

    def allows(self, before: int, after: int) -> bool:
        """Whether two abstract states are equal, or a step of the abstract protocol leads from one to the other."""
        if before == after:
            return True
        found = self._allowed.get((before, after))
        if found is None:
            if before not in self._next:
                self._next[before] = frozenset(step.target for step in self.other.transitions(self.mapped[before]))
            found = self._allowed[before, after] = self.mapped[after] in self._next[before]
        return found
