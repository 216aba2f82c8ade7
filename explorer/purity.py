"""Tests that actions are pure while a search runs: `--check-actions`.

An action may depend on its input alone. One that asks the machine for something else (the time, chance, a file), keeps
state between calls or changes its input is an `ActionError` that names it.
"""

from __future__ import annotations

import builtins
import gc
import os
import random
import sys
import time
from collections.abc import Mapping
from datetime import date, datetime
from types import BuiltinFunctionType, FrameType
from typing import Any

from kraftcheck.spec.encoding import encode
from kraftcheck.spec.errors import ActionError
from kraftcheck.spec.language.action import Action
from kraftcheck.spec.language.calling import call_action
from kraftcheck.spec.language.semantics import Offer, Semantics
from kraftcheck.spec.language.step import Step, is_within, note_spent
from kraftcheck.spec.values import Record, Value

YIELDED_OTHERS = "is not pure: called twice on the same input, it yielded other steps"
_OF_TIME = [function for function in vars(time).values() if isinstance(function, BuiltinFunctionType)]
IMPURE = {*_OF_TIME, os.getpid, os.urandom, os.listdir, os.stat, os.times, builtins.input, open}
"""Built-in functions whose answer is not always the same."""
CLOCKS = {"now", "today", "utcnow"}  # class methods of dates


class Watch:
    """Notes, while it is entered, the first call of a built-in function whose answer is not always the same.

    Attributes
    ----------
    found
        Its name, or None.
    """

    def __init__(self) -> None:
        self.found: str | None = None

    def __enter__(self) -> Watch:
        self._before, self._collects = sys.getprofile(), gc.isenabled()
        gc.disable()  # whoever is told of collections may well look at the clock
        sys.setprofile(self._look)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(self._before)
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
    """Calls actions, each twice, and notes the calls to make them once more in the end.

    Parameters
    ----------
    protocol
        The protocol, with its constants.
    notes
        Whether to note the calls.
    """

    def __init__(self, protocol: Any, *, notes: bool = True) -> None:
        self._protocol = protocol
        self._notes = notes
        self._made: list[tuple[Action, Any, Any, Mapping[str, Value], set[bytes]]] = []

    def call(self, action: Action, me: Any, message: Any, given: Mapping[str, Value]) -> tuple[Step, ...]:
        """Return the steps that an action would take.

        Raises
        ------
        ActionError
            Where it turns out not to be pure.
        """
        before = _encoded(me, message)
        with Watch() as watch:
            steps = call_action(self._protocol, action, me, message, given)
        if watch.found is not None:
            raise ActionError(action, self._protocol, me, message, f"is not pure: it calls {watch.found}")
        if _encoded(me, message) != before:
            raise ActionError(action, self._protocol, me, message, "changes its input")
        found = set(map(encode, steps))
        self._compare(action, me, message, given, found)
        if self._notes:
            self._made.append((action, me, message, given, found))
        return steps

    def call_again(self) -> None:
        """Make every call once more, the last first: whatever an action keeps from other calls is another now.

        Raises
        ------
        ActionError
            Where an action yields other steps than before.
        """
        while self._made:
            self._compare(*self._made.pop())

    def _compare(self, action: Action, me: Any, message: Any, given: Mapping[str, Value], found: set[bytes]) -> None:
        if set(map(encode, call_action(self._protocol, action, me, message, given))) != found:
            raise ActionError(action, self._protocol, me, message, YIELDED_OTHERS)


class PureSemantics(Semantics):
    """Calls actions without memoising, and compares what they yield for equal inputs."""

    def __init__(self, protocol: Any) -> None:
        super().__init__(protocol)
        self._test = PurityTest(protocol, notes=False)
        self._first: dict[Any, tuple[Step, ...]] = {}

    def steps(
        self, action: Action, me: Record | None, message: Record | None, given: dict[str, Value]
    ) -> tuple[Step, ...]:
        """Return the steps of an action, called anew each time and compared with what it yielded before."""
        asked = [given[name] for name in action.asks]
        before = _encoded(me, message, *asked)
        made = self._test.call(action, me, message, given)
        note_spent(made, self.most_spent)
        found = tuple(self._shared_parts(step) for step in made if is_within(step, self.protocol.bounds))
        self.handler_calls[action.name] += 1
        if _encoded(me, message, *asked) != before:
            raise ActionError(action, self.protocol, me, message, "changes its input")
        first = self._first.setdefault((action.name, before), found)
        if set(map(encode, first)) != set(map(encode, found)):
            raise ActionError(action, self.protocol, me, message, YIELDED_OTHERS)
        return found

    def _offered(self, me: Record, inbox: Value, shared: Value) -> tuple[Offer, ...]:
        return tuple(self._make_offers(me, inbox, shared))


def _encoded(*values: Any) -> bytes:
    return b"".join(encode(value) for value in values if value is not None)
