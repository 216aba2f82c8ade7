"""Calls of a protocol's actions: wrapped, so that one is recorded, made again, or made in two ways and compared."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from types import FrameType, MappingProxyType
from typing import Any

from kraftcheck.spec.language.declarations import Action
from kraftcheck.spec.language.protocol import Protocol
from kraftcheck.spec.language.state import Step
from kraftcheck.spec.values import Record, Value

ONE_CALL = 5.0
"""Seconds that a single call of an action may take."""

Arguments = tuple[Any, ...]
"""What an action is called with after `self`."""

Wrapper = Callable[[Protocol, Arguments], Iterable[Step]]


class EndlessError(Exception):
    """A call of an action did not return in time."""


class UnreadError(BaseException):
    """An action reads a shared field that it did not read when the call was recorded."""


def plain_steps(action: Action, protocol: Protocol, arguments: Arguments, made: Iterable[Any]) -> tuple[Any, ...]:
    """Return those of an action's steps that can be told from doing nothing, and that bounds allow at all."""
    me = arguments[0] if action.kind != "environment" else ()
    return tuple(step for step in made if not isinstance(step, Step) or _matters(step, me, protocol.bounds))


def _matters(step: Step, me: Value, bounds: dict[str, int]) -> bool:
    if any(bounds.get(name) == 0 for name in (*step.spends, *step.needs)):
        return False
    return bool((step.me not in ((), me)) or step.consumes or step.sends or step.puts or step.writes or step.spends)


def rewired(protocol: Protocol, actions: Mapping[str, Action]) -> None:
    """Give a protocol other actions; it alone is changed, not its class."""
    vars(protocol).update(actions=MappingProxyType(dict(actions)), is_sampled=False)  # each call is one to note


def wrapped(name: str, action: Action, wrapper: Wrapper) -> Action:
    """Return an action that asks for what another one asks for, and calls something else."""
    made = Action(name, action.kind, _function(wrapper), action.messages, action.reads)
    vars(made).update(asks=action.asks, actors=action.actors)
    vars(made.function)["__wrapped__"] = action.function  # an error names its file and line
    return made


def _function(wrapper: Wrapper) -> Callable[..., Any]:
    def call(protocol: Protocol, *arguments: Any) -> Iterable[Step]:
        return wrapper(protocol, arguments)

    return call


def noting_reads(action: Action, arguments: Arguments) -> tuple[Arguments, dict[str, Value]]:
    """Return arguments in which the shared state notes what is read of it, and where it notes that."""
    seen: dict[str, Value] = {}
    place = _place_of_shared(action)
    if place is None:
        return arguments, seen
    shared = arguments[place]

    def read(name: str) -> Value:
        seen[name] = getattr(shared, name)
        return seen[name]

    reader = _reader()
    kind = shared._type if type(shared) is reader else type(shared)
    return _with(arguments, place, reader(kind, read)), seen


def replaying(action: Action, arguments: Arguments, kind: type[Record], seen: dict[str, Value]) -> Arguments:
    """Return the arguments of a recorded call, to make it again."""
    place = _place_of_shared(action)
    if place is None:
        return arguments

    def read(name: str) -> Value:
        if name not in seen:
            raise UnreadError
        return seen[name]

    return _with(arguments, place, _reader()(kind, read))


@cache
def _reader() -> Any:
    """Return what stands in for the shared state; a kernel is imported with it, which takes time."""
    from kraftcheck.explorer.tables.learning.reads import SharedReader

    return SharedReader


def _place_of_shared(action: Action) -> int | None:
    leading = {"on": 2, "internal": 1, "environment": 0}[action.kind]
    return leading + action.asks.index("shared") if "shared" in action.asks else None


def _with(arguments: Arguments, place: int, value: Any) -> Arguments:
    return (*arguments[:place], value, *arguments[place + 1 :])


@contextmanager
def limited_time() -> Iterator[None]:
    """Raise `EndlessError` in a call that takes longer than `ONE_CALL`; for the main thread alone."""
    seconds = ONE_CALL

    def stop(number: int, frame: FrameType | None) -> None:
        raise EndlessError(f"did not return within {seconds:g} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
