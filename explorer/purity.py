"""A semantics that tests actions for purity while it runs: `--check-actions`."""

from __future__ import annotations

from typing import Any

from spec.action import Action
from spec.errors import ActionError
from spec.semantics import Semantics
from spec.step import Step
from spec.values import Record, Value, encode


class PureSemantics(Semantics):
    """Calls each action twice on copies of the same input and compares outcomes and inputs.

    An action that reads a clock, keeps state between calls or changes its input is an `ActionError` that names it.
    """

    def __init__(self, protocol: Any) -> None:
        super().__init__(protocol)
        self._first: dict[Any, tuple[Step, ...]] = {}

    def steps(
        self, action: Action, me: Record | None, message: Record | None, given: dict[str, Value]
    ) -> tuple[Step, ...]:
        """Return the steps of an action, called anew each time and compared with what it yielded before."""
        asked = [given[name] for name in action.asks]
        before = _encoded(me, message, asked)
        found = tuple(
            self._shared_parts(step)
            for step in action.call(self.protocol, me, message, given)
            if not self._hopeless(step)
        )
        self.handler_calls[action.name] += 1
        if _encoded(me, message, asked) != before:
            raise ActionError(action, self.protocol, me, message, "changes its input")
        first = self._first.setdefault((action.name, before), found)
        again = found if first is not found else action.call(self.protocol, me, message, given)
        expected = first if first is not found else found
        if set(map(encode, expected)) != set(map(encode, (s for s in again if not self._hopeless(s)))):
            raise ActionError(
                action, self.protocol, me, message, "is not pure: called twice on the same input, it yielded other steps"
            )
        return found


def _encoded(me: Record | None, message: Record | None, asked: list[Value]) -> tuple[bytes, ...]:
    return tuple(encode(item) for item in (me, message, *asked) if item is not None)
