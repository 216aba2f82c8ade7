"""Baseline of one configuration: the calls of the unchanged protocol's actions, and the lines that ran.

A recorded call can be replayed with the values that it read. An action can be wrapped, so that it calls another
function.
"""

from __future__ import annotations

import signal
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, field, replace
from functools import partial
from types import FrameType, MappingProxyType, ModuleType
from typing import Any, NamedTuple

from kraftcheck.catalogue import SearchJob
from kraftcheck.engines import search
from kraftcheck.explorer.calls import MissingRead, SharedRecordProxy, action_with_function
from kraftcheck.explorer.result import Progress, Result
from kraftcheck.mutation.mutants import cache_clearers
from kraftcheck.spec.language.declarations import Action
from kraftcheck.spec.language.protocol import Protocol
from kraftcheck.spec.language.semantics import Semantics, initial_states
from kraftcheck.spec.language.state import State, Step
from kraftcheck.spec.values import Record, Value

CALL_SECONDS = 5.0
"""Time limit of a single call of an action, in seconds."""

ActionArguments = tuple[Any, ...]
"""Arguments of an action, after `self`."""

ActionWrapper = Callable[[Protocol, ActionArguments], Iterable[Step]]

SourceLine = tuple[str, int]
"""A file, and a line in it."""


class CallTimeoutError(Exception):
    """A call of an action exceeded its time limit."""


class RecordedCall(NamedTuple):
    """A recorded call of an action."""

    action: Action
    arguments: ActionArguments
    seen: dict[str, Value]  # values that it read from the shared state
    steps: frozenset[Step]  # its steps


@dataclass
class BaselineRun:
    """The unchanged protocol in one configuration: its calls, the lines that ran, and the result of its search."""

    job: SearchJob  # the search, with the configured protocol
    starts: list[State]  # the initial states
    calls: list[RecordedCall] = field(default_factory=list)  # calls of actions, by number
    # numbers of the calls in which a line ran
    by_line: dict[SourceLine, list[int]] = field(default_factory=lambda: defaultdict(list))
    at_start: set[SourceLine] = field(default_factory=set)  # lines that ran while the initial states were made
    result: Result = field(default_factory=Result)  # result of the search

    @property
    def shared_type(self) -> type[Record]:
        """The class of the shared state."""
        return type(self.starts[0].shared)

    def runs(self, path: str, lines: Iterable[int]) -> bool:
        """Whether any of the given lines of a file ran, in an action or while the initial states were made."""
        return any((path, line) in self.by_line or (path, line) in self.at_start for line in lines)

    def through(self, path: str, lines: Iterable[int]) -> list[RecordedCall]:
        """Return the calls in which any of the given lines of a file ran."""
        numbers = {number for line in lines for number in self.by_line.get((path, line), ())}
        return [self.calls[number] for number in sorted(numbers)]

    def protocol(self) -> Protocol:
        """Return a copy of the protocol, to be changed."""
        return copy(self.job.protocol)


def record_baseline(
    job: SearchJob,
    files: Iterable[str],
    modules: Iterable[ModuleType] = (),
    report: Callable[[Progress], None] | None = None,
) -> BaselineRun:
    """Search the unchanged protocol, and record the calls of its actions."""
    tracing = _LineTracing(frozenset(files), cache_clearers(modules))
    with tracing.noted() as lines:
        starts = initial_states(Semantics(job.protocol), job.options.init)
    baseline = BaselineRun(job, starts, at_start=lines)
    protocol = baseline.protocol()
    actions = job.protocol.actions
    replace_actions(
        protocol,
        {
            name: wrapped_action(name, one, partial(_call_action_and_record, baseline, one, tracing))
            for name, one in actions.items()
        },
    )
    vars(protocol)["initial"] = lambda: baseline.starts
    options = replace(job.options, init="Init", report=report)
    baseline.result = search(job.engine, protocol, options, is_named=job.is_named)
    return baseline


class _LineTracing:
    """A line tracer for the given files."""

    def __init__(self, files: frozenset[str], forget: list[Callable[[], object]]) -> None:
        self._files = files
        self._forget = forget

    @contextmanager
    def noted(self) -> Iterator[set[SourceLine]]:
        """Record the lines that run in the block; clear the caches of memoized functions, so their lines run too."""
        lines: set[SourceLine] = set()

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


def _call_action_and_record(
    baseline: BaselineRun, action: Action, tracing: _LineTracing, protocol: Protocol, arguments: ActionArguments
) -> tuple[Step, ...]:
    """Call an action, and record the call with its reads of the shared state."""
    seen: dict[str, Value] = {}

    def noting(shared: Any) -> SharedRecordProxy:
        def read(name: str) -> Value:
            seen[name] = getattr(shared, name)
            return seen[name]

        return SharedRecordProxy(shared.__class__, read)

    given = _arguments_with_shared_proxy(action, arguments, noting)
    with tracing.noted() as lines:
        made = tuple(dict.fromkeys(action.function(protocol, *given)))
    steps = frozenset(effective_steps_within_bounds(action, protocol, given, made))
    for line in lines:
        baseline.by_line[line].append(len(baseline.calls))
    baseline.calls.append(RecordedCall(action, arguments, seen, steps))
    return made


def arguments_for_replay(call: RecordedCall, kind: type[Record]) -> ActionArguments:
    """Return the arguments of a recorded call, with a shared state that answers only the recorded reads."""

    def read(name: str) -> Value:
        if name not in call.seen:
            raise MissingRead(name)
        return call.seen[name]

    return _arguments_with_shared_proxy(call.action, call.arguments, lambda _: SharedRecordProxy(kind, read))


def _arguments_with_shared_proxy(
    action: Action, arguments: ActionArguments, proxy_of: Callable[[Any], SharedRecordProxy]
) -> ActionArguments:
    """Return the arguments of an action with a proxy of the shared state."""
    if "shared" not in action.asks:
        return arguments
    place = len(arguments) - len(action.asks) + action.asks.index("shared")
    return (*arguments[:place], proxy_of(arguments[place]), *arguments[place + 1 :])


def effective_steps_within_bounds(
    action: Action, protocol: Protocol, arguments: ActionArguments, made: Iterable[Any]
) -> tuple[Any, ...]:
    """Return the steps of an action that have an effect and that the bounds can allow."""
    me = arguments[0] if action.kind != "environment" else ()
    return tuple(
        step for step in made if not isinstance(step, Step) or _has_effect_within_bounds(step, me, protocol.bounds)
    )


def _has_effect_within_bounds(step: Step, me: Value, bounds: dict[str, int]) -> bool:
    if any(bounds.get(name) == 0 for name in (*step.spends, *step.needs)):
        return False
    return bool((step.me not in ((), me)) or step.consumes or step.sends or step.puts or step.writes or step.spends)


def replace_actions(protocol: Protocol, actions: Mapping[str, Action]) -> None:
    """Replace the actions of a protocol object; its class stays as it is."""
    vars(protocol).update(actions=MappingProxyType(dict(actions)), is_sampled=False)  # record every call


def wrapped_action(name: str, action: Action, wrapper: ActionWrapper) -> Action:
    """Return an action that calls `wrapper`, with the parameters of `action`."""

    def call(protocol: Protocol, *arguments: Any) -> Iterable[Step]:
        return wrapper(protocol, arguments)

    return action_with_function(action, call, name=name, fairness=None)


@contextmanager
def raise_if_call_is_slow() -> Iterator[None]:
    """Raise `CallTimeoutError` if the block takes longer than `CALL_SECONDS`; only for the main thread."""
    seconds = CALL_SECONDS

    def stop(number: int, frame: FrameType | None) -> None:
        raise CallTimeoutError(f"did not return within {seconds:g} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
