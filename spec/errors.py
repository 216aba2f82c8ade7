"""What goes wrong because of what a user gave us."""

from __future__ import annotations

from typing import Any


class InputError(ValueError):
    """Bad input from a user: one clear message, exit code 2."""


class ProtocolError(InputError):
    """A protocol that breaks the language's contract."""


class ConstantError(InputError):
    """A constant that is missing, unknown, of the wrong kind, or does not fit with another.

    Attributes
    ----------
    name
        The constant's name in the `.cfg`.
    problem
        What is wrong, as a clause: "expected a number, found ...".
    """

    def __init__(self, name: str, problem: str) -> None:
        super().__init__(f"constant {name}: {problem}" if problem[:8] == "expected" else f"constant {name} {problem}")
        self.name = name
        self.problem = problem


class ActionError(ProtocolError):
    """An action that raises or breaks its contract; the message names the action and its input."""

    def __init__(self, action: Any, protocol: Any, me: Any, message: Any, problem: str) -> None:
        function = action.function
        code = function.__code__
        given = "".join(f"\n  {name} = {value!r}" for name, value in (("me", me), ("message", message)) if value)
        super().__init__(
            f"{code.co_filename}:{code.co_firstlineno}: "
            f"action {action.name} of {type(protocol).__name__} {problem}{given}"
        )
        self.action = action.name
