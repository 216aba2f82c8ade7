"""The run of a protocol as it is, in one configuration: how its actions were called, and which lines ran."""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Callable, Iterable
from copy import copy
from dataclasses import dataclass, field, replace
from functools import partial
from types import FrameType
from typing import Any, NamedTuple

from kraftcheck.engines import search
from kraftcheck.explorer.result import Progress, Result
from kraftcheck.jobs import Job
from kraftcheck.mutation.calls import Arguments, noting_reads, plain_steps, rewired, wrapped
from kraftcheck.spec.language.action import Action
from kraftcheck.spec.language.protocol import Protocol
from kraftcheck.spec.language.semantics import Semantics
from kraftcheck.spec.language.starts import initial_states
from kraftcheck.spec.language.state import State
from kraftcheck.spec.language.step import Step
from kraftcheck.spec.values import Record, Value

Line = tuple[str, int]
"""A file, and a line in it."""


class RecordedCall(NamedTuple):
    """One call of an action.

    Attributes
    ----------
    action
        The action.
    arguments
        What it was called with.
    seen
        What it read of the shared state.
    steps
        What came of it.
    """

    action: Action
    arguments: Arguments
    seen: dict[str, Value]
    steps: frozenset[Step]


@dataclass
class Recording:
    """What a protocol does in one configuration.

    Attributes
    ----------
    job
        The search; its protocol is as the configuration has it.
    starts
        The states from which it starts.
    calls
        The calls of actions, by number.
    by_line
        The numbers of the calls in which a line ran.
    result
        What the search found.
    """

    job: Job
    starts: list[State]
    calls: list[RecordedCall] = field(default_factory=list)
    by_line: dict[Line, list[int]] = field(default_factory=lambda: defaultdict(list))
    result: Result = field(default_factory=Result)

    @property
    def shared_type(self) -> type[Record]:
        """The class of the shared state."""
        return type(self.starts[0].shared)

    def through(self, path: str, lines: Iterable[int]) -> list[RecordedCall]:
        """Return the calls in which one of some lines of a file ran."""
        numbers = {number for line in lines for number in self.by_line.get((path, line), ())}
        return [self.calls[number] for number in sorted(numbers)]

    def protocol(self) -> Protocol:
        """Return another instance of the protocol, to be changed."""
        return copy(self.job.protocol)


def record(job: Job, files: Iterable[str], report: Callable[[Progress], None] | None = None) -> Recording:
    """Search a protocol as it is, and note what its actions do.

    Parameters
    ----------
    job
        The search.
    files
        The files whose lines are noted.
    report
        Is told how far the search is.

    Raises
    ------
    InputError
        For a protocol that breaks the language's contract.
    """
    recording = Recording(job, initial_states(Semantics(job.protocol), job.options.init))
    protocol, noted = recording.protocol(), frozenset(files)
    actions = job.protocol.actions
    rewired(
        protocol, {name: wrapped(name, one, partial(_noted, recording, one, noted)) for name, one in actions.items()}
    )
    vars(protocol)["initial"] = lambda: recording.starts
    options = replace(job.options, init="Init", report=report)
    recording.result = search(job.engine, protocol, options, is_named=job.is_named)
    return recording


def _noted(
    recording: Recording, action: Action, files: frozenset[str], protocol: Protocol, arguments: Arguments
) -> tuple[Step, ...]:
    """Call an action, and note the call."""
    noting, seen = noting_reads(action, arguments)
    lines: set[Line] = set()

    def begin(frame: FrameType, event: str, argument: object) -> Any:
        return run if frame.f_code.co_filename in files else None

    def run(frame: FrameType, event: str, argument: object) -> Any:
        lines.add((frame.f_code.co_filename, frame.f_lineno))
        return run

    before = sys.gettrace()
    sys.settrace(begin)
    try:
        made = tuple(dict.fromkeys(action.function(protocol, *noting)))
    finally:
        sys.settrace(before)
    steps = frozenset(plain_steps(action, protocol, noting, made))
    for line in lines:
        recording.by_line[line].append(len(recording.calls))
    recording.calls.append(RecordedCall(action, arguments, seen, steps))
    return made
