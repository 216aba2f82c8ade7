"""Errors in a user's input: the exceptions, and the wording for unknown names."""

from __future__ import annotations

from collections.abc import Iterable
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


FORGOT_YIELD = "expected a generator (forgot `yield`?)"
"""What is said where a method returns what it should yield."""


class ActionError(ProtocolError):
    """An action that raises or breaks its contract. The message names the action and its input."""

    def __init__(self, action: Any, protocol: Any, me: Any, message: Any, problem: str) -> None:
        function = action.function
        code = function.__code__
        given = "".join(f"\n  {name} = {value!r}" for name, value in (("me", me), ("message", message)) if value)
        super().__init__(
            f"{code.co_filename}:{code.co_firstlineno}: "
            f"action {action.name} of {type(protocol).__name__} {problem}{given}"
        )
        self.action = action.name


def unknown(kind: str, name: str, known: Iterable[str], owner: str = "") -> str:
    """Return a message for a name that is not known.

    Parameters
    ----------
    kind
        What is named: "invariant".
    name
        The name that was given.
    known
        The names that exist.
    owner
        What has these names: a model, a file. By default nothing is said of it.

    Examples
    --------
    >>> unknown("invariant", "NoIlegalState", ["NoLogDivergence", "NoIllegalState"], "Reconfig")
    'unknown invariant NoIlegalState (perhaps NoIllegalState?); Reconfig has NoIllegalState, NoLogDivergence'
    """
    names = list(dict.fromkeys(known))
    near = near_misses(name, names)
    hint = f" (perhaps {' or '.join(near)}?)" if near else ""
    listed = ", ".join([*near, *[other for other in names if other not in near]])
    has = f"{owner} has" if owner else "there is"
    return f"unknown {kind} {name}{hint}; {has} {listed or 'none'}"


def near_misses(name: str, known: Iterable[str]) -> list[str]:
    """Return the known names that are most like an unknown one, the nearest first.

    >>> near_misses("maxrestart", ["MaxElections", "MaxRestarts"])
    ['MaxRestarts']
    """
    from difflib import get_close_matches  # slow to import, and seldom needed

    folded: dict[str, str] = {}
    for other in known:
        folded.setdefault(other.casefold(), other)
    return [folded[match] for match in get_close_matches(name.casefold(), folded, n=2, cutoff=0.75)]
