"""Tests that actions are pure while a search runs: a sample of their calls, or all with `--check-actions`.

An action may depend on its input alone. One that asks the machine for something else (the time, chance, a file), keeps
state between calls, changes its input or depends on the order of a set is an `ActionError` that names it.
"""

from __future__ import annotations

import builtins
import gc
import os
import random
import sys
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import date, datetime
from types import BuiltinFunctionType, FrameType
from typing import Any

from kraftcheck.explorer.set_orders import Ascending, Descending, InOrder, unordered
from kraftcheck.spec.encoding import encode
from kraftcheck.spec.errors import ActionError
from kraftcheck.spec.language.declarations import Action
from kraftcheck.spec.language.semantics import Semantics, call_action
from kraftcheck.spec.language.state import Step
from kraftcheck.spec.values import Value, field_values

Outcome = frozenset[tuple[Any, ...]]
BY_ORDER = "is not pure: what it yields depends on the order of a set or a map; go through ordered(...)"
YIELDED_OTHERS = "is not pure: called twice on the same input, it yielded other steps"
_OF_TIME = [function for function in vars(time).values() if isinstance(function, BuiltinFunctionType)]
IMPURE = {*_OF_TIME, os.getpid, os.urandom, os.listdir, os.stat, os.times, builtins.input, open}
"""Built-in functions whose answer is not always the same."""
CLOCKS = {"now", "today", "utcnow"}  # class methods of dates


class Watch:
    """Notes, while it is entered, the first call of a built-in function whose answer is not always the same."""

    def __init__(self) -> None:
        self.found: str | None = None

    def __enter__(self) -> Watch:
        self._before, self._collects = sys.getprofile(), gc.isenabled()
        gc.disable()  # whoever is told of collections may well look at the clock
        if self._before is None:  # a profiler that runs already stays the only one
            sys.setprofile(self._look)
        return self

    def __exit__(self, *_: object) -> None:
        if self._before is None:
            sys.setprofile(None)
        if self._collects:
            gc.enable()

    def _look(self, frame: FrameType, event: str, function: Any) -> None:
        if event == "c_call" and self.found is None and _is_impure(function):
            owner = getattr(function, "__self__", None)
            place = type(owner).__name__ if isinstance(owner, random.Random) else getattr(owner, "__name__", None)
            self.found = ".".join(filter(None, (place, function.__name__)))


def _is_impure(function: Any) -> bool:
    owner = getattr(function, "__self__", None)
    if isinstance(owner, random.Random):
        return owner is random._inst or isinstance(owner, random.SystemRandom)
    if isinstance(owner, type) and issubclass(owner, date | datetime):
        return function.__name__ in CLOCKS
    return function in IMPURE


class PurityTest:
    """Calls actions again on equal input, and compares: all calls, or of each action the first, second, fourth, eighth.

    A call is made again at once, with sets and maps gone through in two orders; and once more in the end.
    """

    def __init__(self, protocol: Any, *, thorough: bool) -> None:
        self._protocol = protocol
        self._thorough = thorough
        self._calls: Counter[str] = Counter()
        self._due: dict[str, int] = {}
        self._in_order: dict[type[Ascending], InOrder] = {}
        self._made: list[tuple[Action, Any, Any, Mapping[str, Value], Outcome]] = []

    def is_due(self, action: Action) -> bool:
        """Count a call of an action; return whether it is one to test."""
        count = self._calls[action.name] = self._calls[action.name] + 1
        if not self._thorough and (count < self._due.get(action.name, 1) or not self._protocol.is_sampled):
            return False
        self._due[action.name] = 2 * count
        return True

    def call(self, action: Action, me: Any, message: Any, given: Mapping[str, Value]) -> tuple[Step, ...]:
        """Return the steps that an action would take."""
        read = _encoded if self._thorough else _fields
        before = read(me, message)
        with Watch() as watch:
            steps = call_action(self._protocol, action, me, message, given)
        if watch.found is not None:
            raise ActionError(action, self._protocol, me, message, f"is not pure: it calls {watch.found}")
        if read(me, message) != before:
            raise ActionError(action, self._protocol, me, message, "changes its input")
        call = action, me, message, given, self._outcome(steps)
        one, other = (self._reordered(kind, *call) for kind in (Ascending, Descending))
        if one != call[-1] or other != call[-1]:
            self._compare(*call)
            if one != other and None not in (one, other):  # else the class of the sets matters, not their order
                raise ActionError(action, self._protocol, me, message, BY_ORDER)
        self._made.append(call)
        return steps

    def call_again(self) -> None:
        """Repeat every tested call, the last first, so that state kept between calls differs. Raises ActionError."""
        while self._made:
            self._compare(*self._made.pop())

    def _compare(self, action: Action, me: Any, message: Any, given: Mapping[str, Value], found: Outcome) -> None:
        if self._outcome(call_action(self._protocol, action, me, message, given)) != found:
            raise ActionError(action, self._protocol, me, message, YIELDED_OTHERS)

    def _reordered(
        self, kind: type[Ascending], action: Action, me: Any, message: Any, given: Mapping[str, Value], found: Outcome
    ) -> Outcome | None:
        """Return what an action yields with sets of a class; None where it does not serve the action."""
        leading = [item for item in (me, message) if item is not None]
        if kind not in self._in_order:
            self._in_order[kind] = InOrder(self._protocol, kind)
        try:
            arguments = (*leading, *[given[name] for name in action.asks])
            return self._outcome(self._in_order[kind].call(action.function, arguments))
        except Exception:
            return None

    def _outcome(self, steps: Iterable[Step]) -> Outcome:
        return frozenset(unordered(step, self._protocol.network) for step in steps)


class TestedSemantics(Semantics):
    """Calls actions as `Semantics` does, some of them under a test."""

    def __init__(self, protocol: Any, purity: PurityTest) -> None:
        super().__init__(protocol)
        self._purity = purity

    def call(self, action: Action, me: Any, message: Any, given: dict[str, Value]) -> tuple[Step, ...]:
        """Return the steps that an action would take."""
        called = self._purity.call if self._purity.is_due(action) else super().call
        return called(action, me, message, given)


def _fields(*records: Any) -> tuple[Any, ...]:
    """Return the fields of records: quicker than `_encoded`, and blind to a change deep in them."""
    return tuple(field_values(record) for record in records if record is not None)


def _encoded(*values: Any) -> bytes:
    return b"".join(encode(value) for value in values if value is not None)
