"""Calls of actions and properties for every engine, with purity tests of a sample of calls, or of all.

An action may depend on its input alone. An action that reads the time, chance or a file raises `ActionError`. So does
one that keeps state between calls, changes its input, or depends on the order of a set.
"""

from __future__ import annotations

import builtins
import gc
import os
import random
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import date, datetime
from functools import cached_property
from types import BuiltinFunctionType, FrameType, NoneType
from typing import Any

from kraftcheck.explorer.calls.set_orders import (
    Ascending,
    Descending,
    InOrder,
    filtered_function,
    filtered_property,
    unordered,
    with_methods,
)
from kraftcheck.spec.encoding import encode
from kraftcheck.spec.errors import ActionError
from kraftcheck.spec.language.declarations import Action, Property
from kraftcheck.spec.language.protocol import Protocol
from kraftcheck.spec.language.semantics import Semantics, call_action, evaluate_property
from kraftcheck.spec.language.state import Step, is_within, note_spent
from kraftcheck.spec.values import Value, field_values

Arguments = Mapping[str, Value]
"""Arguments of an action or a property, by name."""
Outcome = frozenset[tuple[Any, ...]]
FAILED: Outcome = frozenset({("an assert failed",)})
BY_ORDER = "is not pure: its steps depend on the order of a set or a map; use ordered(...)"
YIELDED_OTHERS = "is not pure: called twice on the same input, it yielded other steps"
_OF_TIME = [function for function in vars(time).values() if isinstance(function, BuiltinFunctionType)]
IMPURE = {*_OF_TIME, os.getpid, os.urandom, os.listdir, os.stat, os.times, builtins.input, open}
"""Built-in functions that return different values from call to call."""
CLOCKS = {"now", "today", "utcnow"}  # class methods of dates


class ImpureCalls:
    """Context manager that records the first call of an impure built-in function, such as `time.time`."""

    def __init__(self) -> None:
        self.found: str | None = None

    def __enter__(self) -> ImpureCalls:
        self._before, self._collects = sys.getprofile(), gc.isenabled()
        gc.disable()  # callbacks of the collector may read the clock
        if self._before is None:  # a profiler that is active already stays
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
    """Repeats calls of actions on equal input, and compares the results: all calls, or calls 1, 2, 4, 8 of each action.

    A call is repeated at once, with its sets and maps in two orders, and once more at the end.
    """

    def __init__(self, protocol: Any, *, thorough: bool) -> None:
        self._protocol = protocol
        self._thorough = thorough
        self._calls: Counter[str] = Counter()
        self._due: dict[str, int] = {}
        self._in_order: dict[type[Ascending], InOrder] = {}
        self._made: list[tuple[Action, Any, Any, Arguments, Outcome]] = []

    def is_due(self, action: Action) -> bool:
        """Count a call of an action; return whether to test it."""
        count = self._calls[action.name] = self._calls[action.name] + 1
        if not self._thorough and (count < self._due.get(action.name, 1) or not self._protocol.is_sampled):
            return False
        self._due[action.name] = 2 * count
        return True

    def call(self, action: Action, me: Any, message: Any, given: Arguments) -> tuple[Step, ...]:
        """Return the steps that an action would take."""
        read = _encoded if self._thorough else _fields
        before = read(me, message)
        with ImpureCalls() as impure:
            steps = call_action(self._protocol, action, me, message, given)
        if impure.found is not None:
            raise ActionError(action, self._protocol, me, message, f"is not pure: it calls {impure.found}")
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
        """Repeat the tested calls in reverse order; raise ActionError if one gives another result than before."""
        while self._made:
            self._compare(*self._made.pop())

    def _compare(self, action: Action, me: Any, message: Any, given: Arguments, found: Outcome) -> None:
        if self._outcome(call_action(self._protocol, action, me, message, given)) != found:
            raise ActionError(action, self._protocol, me, message, YIELDED_OTHERS)

    def _reordered(
        self, kind: type[Ascending], action: Action, me: Any, message: Any, given: Arguments, found: Outcome
    ) -> Outcome | None:
        """Repeat a call on sets of class `kind`; return its outcome, FAILED (failed assert), or None (other error)."""
        leading = [item for item in (me, message) if item is not None]
        if kind not in self._in_order:
            self._in_order[kind] = InOrder(self._protocol, kind)
        try:
            arguments = (*leading, *[given[name] for name in action.asks])
            return self._outcome(self._in_order[kind].call(action.function, arguments))
        except AssertionError:
            return FAILED
        except Exception:  # the action inspects the class
            return None

    def _outcome(self, steps: Iterable[Step]) -> Outcome:
        return frozenset(unordered(step, self._protocol.network) for step in steps)


class MissingRead(BaseException):
    """Raised for a read whose value is unknown. It is no Exception, so that no handler catches it."""

    def __init__(self, read: Any = None) -> None:
        self.read = read


class Calls:
    """Calls the actions and properties of one protocol for an engine, and counts the calls."""

    def __init__(self, protocol: Protocol, *, thorough: bool = False) -> None:
        self.protocol = protocol
        self.counts: Counter[str] = Counter()
        self.most_spent: dict[str, int] = {}
        self.purity = PurityTest(protocol, thorough=thorough)
        self._actions: dict[type, list[Action]] = {}

    @cached_property
    def _filtering(self) -> Protocol:
        """The protocol, with methods whose loops over sets test an element before they read its membership."""
        return with_methods(self.protocol, filtered_function)

    def applicable(self, me: Any, message: Any, receiver: Any = None) -> Iterator[Action]:
        """Yield the actions that replica `me` (None: the environment) may take on `message` (None: on no message).

        `receiver`, by default `me`, decides whether the replica receives the message.
        """
        for action in self._actions_on(type(message)):
            if me is None or action.kind == "environment":
                if me is None and action.kind == "environment":
                    yield action
            elif isinstance(me, action.actors) and (
                message is None or self.protocol.receives(me if receiver is None else receiver, message)
            ):
                yield action

    def _actions_on(self, kind: type) -> list[Action]:
        """Return the actions on messages of a class; for NoneType, the actions without a message."""
        if kind not in self._actions:
            self._actions[kind] = [
                action
                for action in self.protocol.actions.values()
                if (issubclass(kind, action.messages) if action.kind == "on" else kind is NoneType)
            ]
        return self._actions[kind]

    def steps(
        self,
        action: Action,
        me: Any,
        message: Any,
        given: Arguments,
        whole: Callable[[], Arguments] | None = None,
        settle: Callable[[Iterable[Any]], Iterable[Any]] | None = None,
        *,
        filters: bool = False,
    ) -> list[Step]:
        """Call an action, and return those of its steps that stay within the protocol's bounds.

        `whole` returns the arguments without proxies; `settle` returns the steps without proxies. With `filters`, the
        action's loops over sets test an element before they read its membership.
        """
        self.counts[action.name] += 1
        is_tested = (settle is None or whole is not None) and self.purity.is_due(action)
        if is_tested:
            steps = self.purity.call(action, me, message, given if whole is None else whole())
        if not is_tested or whole is not None:
            called = action if settle is None else _settled(action, settle, self._filtering if filters else None)
            steps = call_action(self.protocol, called, me, message, given)
        note_spent(steps, self.most_spent)
        return [step for step in steps if is_within(step, self.protocol.bounds)]

    def holds(self, prop: Property, given: Arguments, whole: Callable[[], Arguments] | None = None) -> bool:
        """Return whether a property holds for the arguments `given`.

        With `whole`, the property's loops over sets test an element before they read its membership. A probe, which
        observes the evaluation, gets the arguments without proxies.
        """
        if whole is None:
            return evaluate_property(self.protocol, prop, given)
        found = evaluate_property(self._filtering, filtered_property(prop), given)
        if prop.name in self.protocol.probes:
            evaluate_property(self.protocol, prop, whole())
        return found


def _settled(action: Action, settle: Callable[[Iterable[Any]], Iterable[Any]], filtering: Protocol | None) -> Action:
    function = action.function if filtering is None else filtered_function(action.function)

    def call(protocol: Protocol, *arguments: Any) -> Any:
        made = function(filtering or protocol, *arguments)
        return settle(made) if isinstance(made, Iterable) else made

    return with_function(action, call)


def with_function(action: Action, function: Callable[..., Any], **changes: Any) -> Action:
    """Return a copy of `action` that calls `function` in place of its own, with the same parameters."""
    vars(function)["__wrapped__"] = action.function  # an error names its file and line
    made = replace(action, function=function, **changes)
    vars(made).update(asks=action.asks, actors=action.actors)
    return made


class TestedSemantics(Semantics):
    """`Semantics` that tests the action calls selected by `PurityTest` for purity."""

    def __init__(self, protocol: Any, purity: PurityTest) -> None:
        super().__init__(protocol)
        self._purity = purity

    def call(self, action: Action, me: Any, message: Any, given: dict[str, Value]) -> tuple[Step, ...]:
        """Return the steps that an action would take."""
        if self._purity.is_due(action):
            return self._purity.call(action, me, message, given)
        return call_action(self.protocol, action, me, message, given)


def _fields(*records: Any) -> tuple[Any, ...]:
    """Return the records' field values, to compare them later; faster than `_encoded`, but blind to mutated values."""
    return tuple(field_values(record) for record in records if record is not None)


def _encoded(*values: Any) -> bytes:
    return b"".join(encode(value) for value in values if value is not None)
