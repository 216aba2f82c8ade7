"""What a search says: at its start what is checked, at its end what was found and how to go on."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator
from pathlib import Path

from kraftcheck.explorer.result import INTERRUPTED, MEMORY, STRICT, Options, Result, Verdict
from kraftcheck.jobs import Job
from kraftcheck.reporting.counterexample import told
from kraftcheck.reporting.lines import FAINT, HEAD, PLAIN, WARNING, Line, actions_table, many, notes
from kraftcheck.spec.display import text_of
from kraftcheck.spec.language.protocol import Protocol

_LIMITS = ("max_states", "max_depth", "max_nodes", "time_limit", MEMORY)
LIMITS = {name: "--" + name.replace("_", "-") for name in _LIMITS}
"""Options that stop a search, by their names in `Result.limit`."""


def header(job: Job, how: str = "") -> Iterator[Line]:
    """Yield the lines that say what is checked, and how: by default in which search order."""
    protocol, options = job.protocol, job.options
    variant = f" ({protocol.variant})" if protocol.variant else ""
    yield [
        (HEAD, f"{job.model.name}{variant}"),
        (PLAIN, f", configuration {job.config_name}, engine {job.engine}, {how or options.search}"),
    ]
    constants = ", ".join(f"{name} = {text_of(value)}" for name, value in protocol.constant_values().items())
    yield [(FAINT, f"constants: {constants or 'none'}")]
    checked = [prop.name for prop in (*options.properties, *options.over_behaviours)] + (
        ["deadlock"] if options.deadlock else []
    )
    yield [(FAINT if checked else WARNING, f"checked: {', '.join(checked) or 'nothing'}")]
    start = [f"start {options.init}"] if options.init != "Init" else []
    bounds = [f"constraint {prop.name}" for prop in (*options.constraints, *options.action_constraints)]
    reduced = [f"{what} {name}" for what, name in (("symmetry", options.symmetry), ("view", options.view)) if name]
    if start or bounds or reduced:
        yield [(FAINT, ", ".join([*start, *bounds, *reduced]))]
    yield []


def report(
    protocol: Protocol,
    result: Result,
    *,
    configuration: str,
    quiet: bool = False,
    calls: bool = False,
    columns: int | None = None,
) -> Iterator[Line]:
    """Yield the lines of the report on a search."""
    for violation in result.violations:
        yield from told(protocol, violation, columns)
        yield []
    if not quiet:
        counts = {"fired" if result.runs is None else "taken": result.actions}
        if calls:
            counts["handler calls"] = {name: result.handler_calls.get(name, 0) for name in result.actions}
        yield from actions_table(counts)
        yield []
    yield from never_enabled(result)
    yield from ([(WARNING, f"Warning: {text}")] for text in result.warnings)
    yield from notes(result.notes)
    yield summary(result, configuration)


def summary(result: Result, configuration: str) -> Line:
    """Return the line that says how a search ended, what it counted, and in which configuration."""
    what = {
        Verdict.OK: "nothing is violated",
        Verdict.INCOMPLETE: "nothing is violated so far",
        Verdict.DEADLOCK: "a state has no successor",
        Verdict.ASSERTION: "an assert failed in " + ", ".join(one.property for one in result.violations[:1]),
        Verdict.VIOLATION: f"violated: {', '.join(violation.property for violation in result.violations)}",
    }[result.verdict]
    if result.runs is not None:
        what += f" on {many(result.runs, 'walk')}"
    if result.limit == STRICT:
        what = "nothing is violated, but --strict accepts no warning and no property that holds vacuously"
    elif result.limit is not None:
        limit = LIMITS.get(result.limit, result.limit)
        what += ", interrupted" if limit == INTERRUPTED else f", stopped at {limit}"
    parts = [
        what,
        *([] if unseen(result) else [f"{result.distinct_states:,} distinct states"]),
        *([] if result.uncounted else [f"{result.generated_states:,} generated"]),
        *([] if result.depth is None else [f"depth {result.depth}"]),
        f"{result.seconds:,.1f} s",
        f"{rate(result):,.0f} states/s",
        f"configuration {configuration}",
    ]
    return [(result.verdict, result.verdict.upper()), (PLAIN, f": {'; '.join(parts)}")]


def unseen(result: Result) -> bool:
    """Return whether nobody has counted the distinct states: those of a corpus that many machines make."""
    return result.runs is not None and not result.distinct_states


def rate(result: Result) -> float:
    """Return distinct states a second; where nobody has counted these, all."""
    states = result.generated_states if unseen(result) else result.distinct_states
    return states / result.seconds if result.seconds > 0 else 0.0


def never_enabled(result: Result) -> Iterator[Line]:
    """Yield the warning that names the actions which never fired."""
    names = result.never_enabled
    if names and result.runs is not None:
        yield [(FAINT, f"Note: never taken on these walks: {', '.join(names)}")]
    elif names:
        when = "in this model" if result.complete else "before the search stopped"
        style = WARNING if result.complete else FAINT
        yield [(style, f"{'Warning' if result.complete else 'Note'}: never enabled {when}: {', '.join(names)}")]


def how_to_go_on(words: Iterable[str], options: Options, result: Result) -> Iterator[Line]:
    """Yield the line that says how to go on, where a search was stopped and has a checkpoint."""
    folder = options.resume or options.checkpoint
    if folder is None or result.limit in (None, STRICT):
        return
    from kraftcheck.explorer.tables.checkpoints.folder import MANIFEST

    if (Path(folder) / MANIFEST).is_file():
        limits = () if result.limit in (INTERRUPTED, "time_limit") else (LIMITS.get(result.limit, ""),)
        again = [*_without(words, ("--checkpoint", "--resume", *limits)), "--resume", str(folder)]
        yield [(PLAIN, f"To go on: kraftcheck {shlex.join(again)}")]


def _without(words: Iterable[str], options: Iterable[str]) -> Iterator[str]:
    """Yield the words of a command line without some options and their values."""
    rest = iter(words)
    for word in rest:
        if word in options:
            next(rest, None)
        elif word.partition("=")[0] not in options:
            yield word
