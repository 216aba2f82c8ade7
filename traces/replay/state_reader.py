"""States of a file as states of a protocol, with an error for what cannot be one."""

from __future__ import annotations

import re
from dataclasses import dataclass

from kraftcheck.spec.language.state import State
from kraftcheck.spec.tla.records import few
from kraftcheck.spec.tla.types import ViewError
from kraftcheck.spec.tla.view import StateView
from kraftcheck.traces.errors import TraceError
from kraftcheck.traces.parsing.lines import Source
from kraftcheck.traces.trace import TraceState


@dataclass(frozen=True, slots=True)
class StateReader:
    """Reads the states of one file."""

    view: StateView
    name: str
    file: str
    limit_bytes: int
    untyped: bool = False

    def state(self, found: TraceState) -> State | ViewError:
        """Return the protocol's state that has the variables of one in the file."""
        missing = [name for name in self.view.names if name not in found.variables]
        unknown = [name for name in found.variables if name not in self.view.names]
        if missing or unknown:
            parts = [f"{word} {few(names)}" for word, names in (("without", missing), ("with", unknown)) if names]
            expected = f"the variables of {self.name}"
            raise TraceError(self.file, found.line, 1, f"a state {' and '.join(parts)}", expected)
        try:
            return self.view.state(found.variables, untyped=self.untyped)
        except ViewError as error:
            if not error.wrong_kind:
                return error
            line, column = self._place_of(error.variable, found.line)
            expected = f"{error.expected} for {error.path} in state {found.number}"
            raise TraceError(self.file, line, column, error.found, expected) from None

    def _place_of(self, variable: str, state_line: int) -> tuple[int, int]:
        """Return the line and column at which the value of a variable begins, or those of the state.

        It reads the file again, since only an error needs it. A file that is no text of variables, or does not show
        the variable in that state, has the place of the state.
        """
        value = re.compile(rf"(?:/\\ )?{re.escape(variable)} = (?=.)")
        try:
            for number, line in Source(self.file, limit_bytes=self.limit_bytes).lines():
                found = value.match(line) if number >= state_line else None
                if found is not None:
                    return number, found.end() + 1
                if number > state_line and not line:
                    break
        except TraceError:  # it was read before
            pass
        return state_line, 1
