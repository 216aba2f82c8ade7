"""Records what one call of a function did: its lines, its local variables, the calls that it made."""

from __future__ import annotations

import sys
from collections.abc import Callable
from inspect import CO_GENERATOR
from types import CodeType, FrameType
from typing import Any, NamedTuple, TypeVar

T = TypeVar("T")
Names = dict[str, Any]


class Moment(NamedTuple):
    """A line that is about to run, and the local variables at that time."""

    line: int
    names: Names


class TracedCall:
    """What one call of a function did."""

    def __init__(self, code: CodeType) -> None:
        self.code = code
        self.moments: list[Moment] = []
        self.ends: list[int] = []
        self.result: object = None
        self.inner: list[tuple[int, TracedCall]] = []

    @property
    def end(self) -> int:
        """The line at which it returned."""
        return self.ends[-1] if self.ends else self.code.co_firstlineno

    @property
    def is_generator(self) -> bool:
        """Whether the function is a generator."""
        return bool(self.code.co_flags & CO_GENERATOR)


def trace_call(code: CodeType, call: Callable[[], T]) -> tuple[T, TracedCall]:
    """Make a call, and record what the function of the given code did in it."""
    outer = TracedCall(code)
    traced: dict[FrameType, TracedCall] = {}

    def begin(frame: FrameType, event: str, argument: object) -> Any:
        if frame not in traced:
            caller = traced.get(frame.f_back) if frame.f_back is not None else None
            if frame.f_code is code and outer not in traced.values():
                traced[frame] = outer
            elif caller is not None and _is_followed(caller, outer) and not frame.f_code.co_name.startswith("<"):
                traced[frame] = TracedCall(frame.f_code)
                assert frame.f_back is not None
                caller.inner.append((frame.f_back.f_lineno, traced[frame]))
            elif frame.f_code.co_flags & CO_GENERATOR and _was_returned(frame.f_code, outer):
                traced[frame] = TracedCall(frame.f_code)  # a handler may return the generator that another method makes
                outer.inner.append((outer.end, traced[frame]))
            else:
                return None
        return note

    def note(frame: FrameType, event: str, argument: object) -> Any:
        if event == "line":
            traced[frame].moments.append(Moment(frame.f_lineno, dict(frame.f_locals)))
        elif event == "return":
            traced[frame].ends.append(frame.f_lineno)
            traced[frame].result = argument
        return note

    before = sys.gettrace()
    sys.settrace(begin)
    try:
        result = call()
    finally:
        sys.settrace(before)
    return result, outer


def _is_followed(caller: TracedCall, outer: TracedCall) -> bool:
    """Whether the calls that a call makes are recorded: the function's own, and those of generators it delegates to."""
    return caller is outer or caller.is_generator


def _was_returned(code: CodeType, outer: TracedCall) -> bool:
    return bool(outer.ends) and not outer.is_generator and code.co_name in outer.code.co_names
