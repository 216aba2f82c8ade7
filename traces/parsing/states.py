"""The text of one state: a conjunct for each variable, as all of TLC's text formats have it."""

from __future__ import annotations

import re
from collections.abc import Iterable, KeysView
from functools import lru_cache

from kraftcheck.spec.values import Value
from kraftcheck.traces.errors import TraceError
from kraftcheck.traces.parsing.value_cache import ValueCache
from kraftcheck.traces.trace import Location, TraceState

LONGEST_VALUE = 4 * 2**20
"""Characters that the text of one variable may have."""

MODULE = re.compile(r"-{4,}\s*MODULE\s+(\w+)\s*-{4,}\s*")
"""The first line of a module."""

_CONJUNCT = re.compile(r"(?:/\\ )?([A-Za-z_]\w*) = (.*)")
_LABEL = re.compile(
    r"(Initial predicate|[A-Za-z_][\w!]*)(\(.*\))?"
    r"(?: line (\d+), col (\d+) to line (\d+), col (\d+) of module (\w+)| Unknown location| unknown location)?"
)
_NO_ACTION = ("Action", "UnnamedAction")


class StateText:
    """Collects the variables of a state from the lines between its heading and the blank line after it."""

    def __init__(self, file: str, cache: ValueCache) -> None:
        self._file = file
        self._cache = cache
        self.line = 0
        self.variables: dict[str, Value] = {}
        self._fingerprints: dict[str, bytes] = {}
        self._name: str | None = None
        self._text: list[str] = []
        self._size = 0
        self._begins = (0, 0)
        self._names: KeysView[str] | None = None  # of the first state's variables

    def begin(self, line: int) -> None:
        """Begin a new state whose heading is on this line."""
        self.line = line
        self.variables = {}
        self._fingerprints = {}

    def take(self, number: int, text: str) -> bool:
        """Take a line if it is a part of the state, and tell whether it is."""
        if text[:1] in (" ", "\t") and self._name is not None:
            self._text.append(text)
            self._count(len(text), number)
            return True
        conjunct = _CONJUNCT.match(text)
        if conjunct is None:
            return False
        self.end_value()
        name = conjunct[1]
        if name in self.variables:
            raise TraceError(self._file, number, 1, f"'{name}' again", "a variable that this state did not have yet")
        self._name, self._text, self._size = name, [conjunct[2]], 0
        self._begins = (number, conjunct.start(2) + 1)
        self._count(len(conjunct[2]), number)
        return True

    def _count(self, characters: int, line: int) -> None:
        """Add to the length of the value that is being read, which is limited."""
        self._size += characters
        if self._size > LONGEST_VALUE:
            expected = f"a value of at most {LONGEST_VALUE:,} characters"
            raise TraceError(self._file, line, 1, "one that is longer", expected)

    def end_value(self) -> None:
        """Read the value whose lines were taken last, if there is one."""
        if self._name is None:
            return
        line, column = self._begins
        found = self._cache.read("\n".join(self._text), where=self._file, line=line, column=column)
        self.variables[self._name], self._fingerprints[self._name] = found
        self._name = None

    @property
    def fingerprints(self) -> tuple[bytes, ...]:
        """The hashes of the texts of the variables, in their order."""
        return tuple([self._fingerprints[name] for name in self.variables])

    def state(self, number: int, label: str | None = None) -> TraceState:
        """Return the state."""
        action, parameters, location = action_of(label or "") if number > 1 else (None, None, None)
        return TraceState(number, self.variables, action, parameters, location, self.line, self.fingerprints)

    def complete(self, before: TraceState) -> None:
        """Fill in the variables that the file leaves out because they did not change."""
        if self.variables.keys() == before.variables.keys():
            return
        for name in self.variables:
            if name not in before.variables:
                expected = "one of the variables of the state before"
                raise TraceError(self._file, self.line, 1, f"a state with the variable '{name}'", expected)
        self.variables = {**before.variables, **self.variables}
        self._fingerprints = dict(zip(before.variables, before.fingerprints, strict=True)) | self._fingerprints

    @property
    def has_all_variables(self) -> bool:
        """Whether the state has the variables of the first one."""
        return self._names is None or self.variables.keys() == self._names

    def whole_state(self, number: int, label: str | None = None) -> TraceState:
        """End the last value and return the state, in a format that shows all variables of every state."""
        self.end_value()
        if self._names is None:
            self._names = self.variables.keys()
        names = self._names
        missing, more = names - self.variables.keys(), self.variables.keys() - names
        if missing or more:
            found = f"a state without '{min(missing)}'" if missing else f"a state with '{min(more)}'"
            expected = f"{'all' if missing else 'only'} the variables of the first state"
            raise TraceError(self._file, self.line, 1, found, expected)
        return self.state(number, label)


def is_conjunct(line: str) -> bool:
    r"""Tell whether a line begins the value of a variable, as ``/\\ x = 1`` does."""
    return line.startswith("/\\ ") and _CONJUNCT.match(line) is not None


@lru_cache(maxsize=4096)
def action_of(label: str) -> tuple[str | None, str | None, Location | None]:
    """Return the name of an action, its parameters and its location, from what TLC prints between ``<`` and ``>``.

    >>> action_of("Vote(n1,n2) line 7, col 3 to line 9, col 20 of module Raft")
    ('Vote', 'n1,n2', Location(first_line=7, first_column=3, last_line=9, last_column=20, module='Raft'))
    """
    match = _LABEL.fullmatch(label)
    if match is None:
        return label or None, None, None
    name, parameters, *numbers, module = match.groups()
    location = location_of(numbers, module) if module else None
    return (None if name in _NO_ACTION else name), parameters and parameters[1:-1], location


def location_of(numbers: Iterable[str | int], module: str) -> Location:
    """Return a place in a module, from its four numbers and the module's name."""
    first_line, first_column, last_line, last_column = map(int, numbers)
    return Location(first_line, first_column, last_line, last_column, module)
