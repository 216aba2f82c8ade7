"""What `kraftcheck check` says at the end: in colours on a terminal, as plain aligned text elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from typing import TextIO

from kraftcheck.explorer.result import INTERRUPTED, Result, Verdict
from kraftcheck.reporting.changes import NEW, OLD, PLAIN
from kraftcheck.reporting.counterexample import ACTION, FAINT, HEAD, Line, plain, told
from kraftcheck.spec.language.protocol import Protocol

WARNING = "warning"
_RICH_STYLES = {
    HEAD: "bold",
    ACTION: "bold cyan",
    FAINT: "dim",
    OLD: "red",
    NEW: "green",
    WARNING: "yellow",
    PLAIN: "",
    Verdict.OK: "bold green",
    Verdict.INCOMPLETE: "bold yellow",
    Verdict.VIOLATION: "bold red",
    Verdict.DEADLOCK: "bold red",
}
LIMITS = {"max_states": "--max-states", "max_depth": "--max-depth", "time_limit": "--time-limit"}


def print_lines(lines: Iterable[Line], file: TextIO | None = None) -> None:
    """Print lines of styled pieces: with their styles on a terminal, else without.

    Parameters
    ----------
    lines
        The lines.
    file
        Where to; by default standard output.
    """
    file = file or sys.stdout
    if not file.isatty():
        for line in lines:
            print(plain([line]), file=file)
        file.flush()  # a log shows what is being checked before it is
        return
    from rich.console import Console
    from rich.text import Text

    console = Console(file=file, highlight=False)
    for line in lines:
        console.print(Text.assemble(*[(text, _RICH_STYLES[style]) for style, text in line]), soft_wrap=True)


def report(protocol: Protocol, result: Result, *, quiet: bool = False, calls: bool = False) -> Iterator[Line]:
    """Yield the lines of the report on a search.

    Parameters
    ----------
    protocol
        The protocol with its constants.
    result
        What was found.
    quiet
        Whether to leave out the table of actions.
    calls
        Whether the table says how often each action was called in Python.
    """
    for violation in result.violations:
        yield from told(protocol, violation)
        yield []
    if not quiet:
        yield from actions_table(result, calls=calls)
        yield []
    yield from never_enabled(result)
    yield from ([(FAINT, f"Note: {note}")] for note in result.notes)
    yield summary(result)


def summary(result: Result) -> Line:
    """Return the line that says how a search ended and what it counted."""
    broken = [violation.property for violation in result.violations]
    if result.verdict is Verdict.OK:
        what = "nothing is violated"
    elif result.verdict is Verdict.INCOMPLETE:
        what = "nothing is violated so far"
    elif result.verdict is Verdict.DEADLOCK:
        what = "a state has no successor"
    else:
        what = f"violated: {', '.join(broken)}"
    if result.runs is not None:
        what += f" on {result.runs:,} {'walk' if result.runs == 1 else 'walks'}"
    if result.limit == INTERRUPTED:
        what += ", interrupted"
    elif result.limit is not None:
        what += f", stopped at {LIMITS.get(result.limit, result.limit)}"
    parts = [
        what,
        *([] if unseen(result) else [f"{result.distinct_states:,} distinct states"]),
        f"{result.generated_states:,} generated",
        *([] if result.depth is None else [f"depth {result.depth}"]),
        f"{result.seconds:,.1f} s",
        f"{rate(result):,.0f} states/s",
    ]
    return [(result.verdict, result.verdict.upper()), (PLAIN, f": {'; '.join(parts)}")]


def unseen(result: Result) -> bool:
    """Return whether nobody has counted the distinct states: those of a corpus that many machines make."""
    return result.runs is not None and not result.distinct_states


def rate(result: Result) -> float:
    """Return distinct states a second; where nobody has counted these, all."""
    states = result.generated_states if unseen(result) else result.distinct_states
    return states / result.seconds if result.seconds > 0 else 0.0


def actions_table(result: Result, *, calls: bool = False) -> Iterator[Line]:
    """Yield the table of actions with how often each fired and, on request, how often it was called in Python."""
    if not result.actions:
        return
    columns = {"fired": result.actions}
    if result.runs is not None:
        columns = {"taken": result.actions}
    if calls:
        columns["handler calls"] = {name: result.handler_calls.get(name, 0) for name in result.actions}
    width = max(len("action"), *map(len, result.actions))
    widths = {title: max(len(title), *(len(f"{n:,}") for n in column.values())) for title, column in columns.items()}
    yield [(HEAD, f"{'action':{width}}" + "".join(f"  {title:>{widths[title]}}" for title in columns))]
    for name, times in result.actions.items():
        numbers = "".join(f"  {column[name]:>{widths[title]},}" for title, column in columns.items())
        yield [(PLAIN if times else FAINT, f"{name:{width}}{numbers}")]


def never_enabled(result: Result) -> Iterator[Line]:
    """Yield the warning that names the actions which never fired."""
    names = result.never_enabled
    if names and result.runs is not None:
        yield [(FAINT, f"Note: never taken on these walks: {', '.join(names)}")]
    elif names:
        when = "in this model" if result.complete else "before the search stopped"
        style = WARNING if result.complete else FAINT
        yield [(style, f"{'Warning' if result.complete else 'Note'}: never enabled {when}: {', '.join(names)}")]
