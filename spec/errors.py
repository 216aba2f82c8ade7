"""Exceptions for user input, and messages for unknown names."""

from __future__ import annotations

import linecache
import re
import sys
import traceback
from collections.abc import Iterable, Mapping
from dataclasses import FrozenInstanceError, fields, is_dataclass
from inspect import unwrap
from pathlib import Path
from types import CodeType
from typing import Any

LONGEST_START, LONGEST_END = 1_500, 400
"""Characters kept of the start and the end of an error message, which may quote the input."""


class InputError(ValueError):
    """Invalid user input: one message, exit code 2."""

    exit_code = 2

    def __str__(self) -> str:
        return truncate_middle(super().__str__())


def truncate_middle(text: str) -> str:
    """Return a message without its middle if it is too long."""
    is_long = len(text) > LONGEST_START + LONGEST_END
    return f"{text[:LONGEST_START]} ... {text[-LONGEST_END:]}" if is_long else text


class ProcessFailureError(InputError):
    """A failure of Spark, of Java, or of a worker process: one message, exit code 3."""

    exit_code = 3


class NoBytecodeError(InputError):
    """A protocol that the bytecode engine does not support: `what`, with its place."""

    def __init__(self, what: str) -> None:
        super().__init__(f"the engine bytecode does not support {what}; expected --engine tables")
        self.what = what


class ProtocolError(InputError):
    """A protocol that violates the rules of the language."""


class ConstantError(InputError):
    """A constant that is missing, unknown, of the wrong type, or inconsistent with another one.

    Attributes
    ----------
    name
        The constant's name in the `.cfg`.
    problem
        The problem, as a clause: "expected a number, found ...".
    """

    def __init__(self, name: str, problem: str) -> None:
        super().__init__(f"constant {name}: {problem}" if problem[:8] == "expected" else f"constant {name} {problem}")
        self.name = name
        self.problem = problem


def require_assertions_enabled() -> None:
    """Raise InputError if Python ignores `assert` statements, as with -O."""
    if sys.flags.optimize:
        raise InputError(
            "PYTHONOPTIMIZE: unset it, and run Python without -O: otherwise assert statements of a protocol are not"
            " evaluated"
        )


FORGOT_YIELD_MESSAGE = "expected a generator (forgot `yield`?)"
"""The problem of a method that returns a value instead of yielding."""


class RaisedError(ProtocolError):
    """A protocol method that raises an exception or violates its contract; the message has its line and input.

    Parameters
    ----------
    protocol
        The protocol.
    what
        The kind and name of the method: "property Fine".
    function
        The method.
    problem
        The problem, as a clause.
    given
        The arguments of the call, by name.
    cause
        The exception that it raised, or None.
    line
        The line for the message, if there is no exception; by default the method's first line.

    Attributes
    ----------
    protocol
        The protocol.
    name
        The name of the action or property.
    given, cause
        The parameters above.
    place
        The file and the line.
    is_assertion
        Whether an `assert` failed.
    trace
        The trace to the call, once an engine has found it.
    """

    def __init__(
        self,
        protocol: Any,
        what: str,
        function: Any,
        problem: str,
        given: Mapping[str, Any],
        cause: BaseException | None = None,
        line: int | None = None,
    ) -> None:
        function = unwrap(function)
        code = function.__code__
        self.place = (code.co_filename, line or code.co_firstlineno)
        self.is_assertion = isinstance(cause, AssertionError)
        if cause is not None:
            self.place = _innermost_place(cause, code) or self.place
            said = _error_text_after_colon(cause, function.__globals__)
            problem = f"raised {type(cause).__name__}{said}"
        told = "".join(f"\n  {name} = {value!r}" for name, value in given.items() if value is not None)
        source = linecache.getline(*self.place).strip() if cause is not None else ""
        told += f"\n  line {self.place[1]}: {source}" if source else ""
        super().__init__(f"{self.place[0]}:{self.place[1]}: {what} {problem}{told}")
        self.protocol = protocol
        self.name = what.removeprefix("property ") if what.startswith("property ") else what.split()[1]
        self.given = {name: value for name, value in given.items() if value is not None}
        self.cause = cause
        self.trace: tuple[Any, ...] | None = None


def text_of_error(error: BaseException) -> str:
    """Return the text of an error; "" if it has none, or if its class cannot format it."""
    try:
        text = str(error)
    except Exception:
        return ""
    field = re.search(r"field '(\w+)'", text) if isinstance(error, FrozenInstanceError) else None
    return text if field is None else f"{text}: a record does not change; write me.but({field[1]}=...)"


def name_and_text_of_error(error: BaseException) -> str:
    """Return the class name of an error, followed by its text, if any."""
    text = text_of_error(error)
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _error_text_after_colon(error: BaseException, names: Mapping[str, Any]) -> str:
    """Return an error's text after a colon; for a record made with wrong fields, the names of its fields too."""
    text = text_of_error(error)
    wrong = re.match(r"(\w+)\.__init__\(\) got an unexpected keyword argument '(\w+)'", text)
    missing = re.match(r"(\w+)\.__init__\(\) missing \d+ required positional arguments?: (.*)", text)
    found = wrong or missing
    kind = names.get(found[1]) if found is not None else None
    if not (isinstance(error, TypeError) and isinstance(kind, type) and is_dataclass(kind)):
        return f": {text}" if text else ""
    known = ", ".join(field.name for field in fields(kind))
    if wrong is not None:
        return f": {kind.__name__} has no field {wrong[2]!r}; its fields are {known}"
    return f": {kind.__name__} is made without its field {missing[2] if missing else ''}; its fields are {known}"


def _innermost_place(error: BaseException, code: CodeType) -> tuple[str, int] | None:
    """Return the innermost file and line of an error's traceback in the folder of the called function.

    Generated code, such as the methods of a record, has the file name "<string>" and is skipped.
    """
    if isinstance(error.__cause__, StopIteration):  # of `next(...)`; Python raises a RuntimeError for it in a generator
        error = error.__cause__
    folder = Path(code.co_filename).absolute().parent  # a file name given by the user may be relative
    frames = traceback.extract_tb(error.__traceback__)
    written = [frame for frame in frames if frame.filename == code.co_filename or not frame.filename.startswith("<")]
    inner = [frame for frame in written if _is_project_file_within(folder, Path(frame.filename).absolute())]
    return (inner[-1].filename, inner[-1].lineno or 0) if inner else None


def _is_project_file_within(folder: Path, file: Path) -> bool:
    """Whether a file is inside a folder, outside any site-packages."""
    return file.is_relative_to(folder) and "site-packages" not in file.relative_to(folder).parts


class ActionError(RaisedError):
    """An action that raises an exception or violates its contract; the message has the action and its input."""

    def __init__(
        self,
        action: Any,
        protocol: Any,
        me: Any,
        message: Any,
        problem: str = "",
        *,
        cause: BaseException | None = None,
        line: int | None = None,
    ) -> None:
        what, given = f"action {action.name} of {type(protocol).__name__}", {"me": me, "message": message}
        super().__init__(protocol, what, action.function, problem, given, cause, line)
        self.action = action.name
        self.me = me


MAX_LISTED_NAMES = 40
"""Names that a message about an unknown name lists at most; of more names it lists the first few."""

MAX_NEAREST_NAMES = 5


def unknown_name_message(kind: str, name: str, known: Iterable[str], owner: str = "") -> str:
    """Return the message for an unknown name, with the nearest known names, and the others if they are few.

    Examples
    --------
    >>> unknown_name_message("invariant", "NoIlegalState", ["NoLogDivergence", "NoIllegalState"], "Reconfig")
    'unknown invariant NoIlegalState (perhaps NoIllegalState?); Reconfig has NoIllegalState, NoLogDivergence'
    """
    names = list(dict.fromkeys(known))
    near = nearest_known_names(name, names)
    hint = f" (perhaps {' or '.join(near)}?)" if near else ""
    shown = [*near, *[other for other in names if other not in near]]
    if len(shown) > MAX_LISTED_NAMES:
        shown = [*shown[:MAX_NEAREST_NAMES], f"and {len(shown) - MAX_NEAREST_NAMES} others"]
    listed = ", ".join(shown)
    has = f"{owner} has" if owner else "there is"
    return f"unknown {kind} {name}{hint}; {has} {listed or 'none'}"


def nearest_known_names(name: str, known: Iterable[str]) -> list[str]:
    """Return the known names nearest to an unknown one, best first.

    >>> nearest_known_names("maxrestart", ["MaxElections", "MaxRestarts"])
    ['MaxRestarts']
    """
    from difflib import get_close_matches  # slow import, rarely needed

    folded: dict[str, str] = {}
    for other in known:
        folded.setdefault(other.casefold(), other)
    return [folded[match] for match in get_close_matches(name.casefold(), folded, n=2, cutoff=0.75)]
