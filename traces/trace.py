"""What a trace is, whatever file it came from: states in order, and what led from one to the next."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from kraftcheck.spec.tla.parsing import TlaSyntaxError
from kraftcheck.spec.values import Value


class TraceError(TlaSyntaxError):
    """A file is not the trace it should be. Says the file, line and column, what was found and what was expected."""


class TraceFormat(StrEnum):
    """The formats that are read. `TLC_DUMP` and `TLC_DOT` hold states and graphs rather than traces."""

    TLC_LOG = "TLC log"
    TLC_SIMULATION = "TLC -simulate file"
    TLC_TLA = "TLC -dumpTrace tla"
    TLC_JSON = "TLC -dumpTrace json"
    TLC_DUMP = "TLC -dump"
    TLC_DOT = "TLC -dump dot"
    ITF = "ITF"


class Location(NamedTuple):
    """Where an action stands in its TLA+ module."""

    first_line: int
    first_column: int
    last_line: int
    last_column: int
    module: str

    def __str__(self) -> str:
        first = f"line {self.first_line}, col {self.first_column}"
        return f"{first} to line {self.last_line}, col {self.last_column} of module {self.module}"


class Ending(NamedTuple):
    """How a trace goes on for ever after its last state.

    Parameters
    ----------
    back_to
        The number of the state that follows the last one again; None where the last one stutters.
    action
        The action that leads back, where it is known.
    location
        Where that action stands in its module, where it is known.
    """

    back_to: int | None = None
    action: str | None = None
    location: Location | None = None

    def __str__(self) -> str:
        return "stuttering" if self.back_to is None else f"back to state {self.back_to}"


@dataclass(frozen=True, slots=True)
class TraceState:
    """One state of a trace.

    Parameters
    ----------
    number
        Its number as the file gives it; the first state of a trace is 1.
    variables
        The value of every variable. Where the file shows only what changed, the rest is completed.
    action
        The name of the action that led here; None for the first state and where the file does not say.
    parameters
        What TLC prints in brackets behind the name of an action, such as ``n1,n2``.
    location
        Where the action stands in its module.
    line
        The line of the file on which the state begins.
    fingerprints
        A hash of the text of each variable, in the order of `variables`. Where they are equal the values are; the
        converse does not hold. Empty for formats that are no text of variables.
    """

    number: int
    variables: Mapping[str, Value]
    action: str | None = None
    parameters: str | None = None
    location: Location | None = None
    line: int = 1
    fingerprints: tuple[bytes, ...] = ()


@dataclass(frozen=True, slots=True)
class TraceHead:
    """What is known of a trace when it begins. See `Trace` for the fields."""

    file: str
    index: int
    format: TraceFormat
    violated: str | None = None
    problem: str | None = None
    untyped: bool = False


@dataclass(frozen=True, slots=True)
class TraceEnd:
    """What is known of a trace when it ends. See `Trace` for the fields."""

    ending: Ending | None = None
    complete: bool = True


TraceEvent = TraceHead | TraceState | TraceEnd


@dataclass(frozen=True, slots=True)
class Trace:
    """A behaviour: what a tool says happened.

    Parameters
    ----------
    file
        The name of the file it was read from.
    index
        Its place among the traces of that file, from 0.
    format
        The format of the file.
    states
        Its states, at least one, numbered from 1.
    ending
        How it goes on for ever, or None where it just ends.
    violated
        The name of the property that it violates, where one is named.
    problem
        The error in TLC's words, such as "Deadlock reached.", where there is one.
    complete
        False where the file ends before the trace is seen to end, so that states may be missing.
    untyped
        True where the values are those of JSON (dict, list, str ...), which does not tell a set from a sequence.
        What they mean follows from the variable they belong to.
    """

    file: str
    index: int
    format: TraceFormat
    states: tuple[TraceState, ...]
    ending: Ending | None = None
    violated: str | None = None
    problem: str | None = None
    complete: bool = True
    untyped: bool = False
