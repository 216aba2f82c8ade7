"""The run of a protocol as it is, in one configuration: how its actions were called, and which lines ran."""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, field, replace
from functools import partial
from types import FrameType, ModuleType
from typing import Any, NamedTuple

from kraftcheck.catalogue import Job
from kraftcheck.engines import search
from kraftcheck.explorer.result import Progress, Result
from kraftcheck.mutation.calls import Arguments, noting_reads, plain_steps, rewired, wrapped
from kraftcheck.mutation.mutants import memories_of
from kraftcheck.spec.language.declarations import Action
from kraftcheck.spec.language.protocol import Protocol
from kraftcheck.spec.language.semantics import Semantics, initial_states
from kraftcheck.spec.language.state import State, Step
from kraftcheck.spec.values import Record, Value

Line = tuple[str, int]
"""A file, and a line in it."""


class RecordedCall(NamedTuple):
    """One call of an action."""

    action: Action
    arguments: Arguments  # what it was called with
    seen: dict[str, Value]  # what it read of the shared state
    steps: frozenset[Step]  # what came of it


@dataclass
class Recording:
    """What a protocol does in one configuration."""

    job: Job  # the search; its protocol is as the configuration has it
    starts: list[State]  # the states from which it starts
    calls: list[RecordedCall] = field(default_factory=list)  # the calls of actions, by number
    # the numbers of the calls in which a line ran
    by_line: dict[Line, list[int]] = field(default_factory=lambda: defaultdict(list))
    at_start: set[Line] = field(default_factory=set)  # the lines that ran while the starts were made
    result: Result = field(default_factory=Result)  # what the search found

    @property
    def shared_type(self) -> type[Record]:
        """The class of the shared state."""
        return type(self.starts[0].shared)

    def runs(self, path: str, lines: Iterable[int]) -> bool:
        """Return whether one of some lines of a file ran, in an action or while the starts were made."""
        return any((path, line) in self.by_line or (path, line) in self.at_start for line in lines)

    def through(self, path: str, lines: Iterable[int]) -> list[RecordedCall]:
        """Return the calls in which one of some lines of a file ran."""
        numbers = {number for line in lines for number in self.by_line.get((path, line), ())}
        return [self.calls[number] for number in sorted(numbers)]

    def protocol(self) -> Protocol:
        """Return another instance of the protocol, to be changed."""
        return copy(self.job.protocol)


def record(
    job: Job,
    files: Iterable[str],
    modules: Iterable[ModuleType] = (),
    report: Callable[[Progress], None] | None = None,
) -> Recording:
    """Search a protocol as it is, and note what its actions do."""
    tracing = _Tracing(frozenset(files), memories_of(modules))
    with tracing.noted() as lines:
        starts = initial_states(Semantics(job.protocol), job.options.init)
    recording = Recording(job, starts, at_start=lines)
    protocol = recording.protocol()
    actions = job.protocol.actions
    rewired(
        protocol, {name: wrapped(name, one, partial(_noted, recording, one, tracing)) for name, one in actions.items()}
    )
    vars(protocol)["initial"] = lambda: recording.starts
    options = replace(job.options, init="Init", report=report)
    recording.result = search(job.engine, protocol, options, is_named=job.is_named)
    return recording


class _Tracing:
    """Notes which lines run."""

    def __init__(self, files: frozenset[str], forget: list[Callable[[], object]]) -> None:
        self._files = files
        self._forget = forget

    @contextmanager
    def noted(self) -> Iterator[set[Line]]:
        """Note the lines that run meanwhile; those of a memoised function too, whatever it knew before."""
        lines: set[Line] = set()

        def begin(frame: FrameType, event: str, argument: object) -> Any:
            return run if frame.f_code.co_filename in self._files else None

        def run(frame: FrameType, event: str, argument: object) -> Any:
            lines.add((frame.f_code.co_filename, frame.f_lineno))
            return run

        for forget in self._forget:
            forget()
        before = sys.gettrace()
        sys.settrace(begin)
        try:
            yield lines
        finally:
            sys.settrace(before)


def _noted(
    recording: Recording, action: Action, tracing: _Tracing, protocol: Protocol, arguments: Arguments
) -> tuple[Step, ...]:
    """Call an action, and note the call."""
    noting, seen = noting_reads(action, arguments)
    with tracing.noted() as lines:
        made = tuple(dict.fromkeys(action.function(protocol, *noting)))
    steps = frozenset(plain_steps(action, protocol, noting, made))
    for line in lines:
        recording.by_line[line].append(len(recording.calls))
    recording.calls.append(RecordedCall(action, arguments, seen, steps))
    return made
