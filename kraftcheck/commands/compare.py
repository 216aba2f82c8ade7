"""Search a model and variants of it within the same bounds, and say what differs.

exit codes: 0 all holds and the search was complete; 11 deadlock; 12 a property is violated; 13 something does
not stay reachable, or a temporal property is violated; 14 an assert failed; 20 nothing violated, but the search
stopped at a limit; 2 bad input; 130 interrupted

for example:
    kraftcheck compare reconfig observer-stands
    kraftcheck compare quorum my_change.py:MyChange --config smoke --report change.html
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from kraftcheck.catalogue import Job, Model, blaming, find_model, find_variant
from kraftcheck.explorer.interruption import EXIT_INTERRUPTED
from kraftcheck.explorer.result import INTERRUPTED, Result, Search, Verdict, Violation
from kraftcheck.jobs import job_of
from kraftcheck.options import CHECKED, add
from kraftcheck.reporting.as_json import result_as_json
from kraftcheck.reporting.files import OutputFiles
from kraftcheck.reporting.lines import HEAD, PLAIN, WARNING, Line, columns, print_lines
from kraftcheck.reporting.report import run_as_data, write_report
from kraftcheck.reporting.summary import LIMITS, header
from kraftcheck.runner import exit_code, run_job
from kraftcheck.spec.errors import InputError

BASE = "base"
WHOLE_BASE = 1_000_000
"""Distinct states up to which the base is searched to the end, where every variant is violated long before."""

TITLES = ("", "verdict", "property", "length", "distinct states", "seconds", "actions gained and lost")
NUMBERS = (3, 4, 5)
"""The columns of the table, and which of them are numbers."""

SEVERITY = (EXIT_INTERRUPTED, 14, 12, 11, 13, 20, 0)
"""Exit codes of single searches, the one that counts most first."""


class ComparedRun(NamedTuple):
    """One search of a comparison."""

    label: str  # what it is called in the table: the variant's name, as given
    job: Job  # what was searched
    result: Result  # what it found
    seen_to: int | None  # the states on a path up to which every state was visited; None where all were


Variants = list[tuple[str, Job]]
"""The searches of variants, by their names."""
Group = list[ComparedRun]
"""The runs within the same bounds: that of the model without a change, the base, then those of its variants."""


def declare(parser: argparse.ArgumentParser) -> None:
    add(parser, "model")
    what = "a variant of the model, or path/to/file.py:ClassName"
    parser.add_argument("variants", nargs="+", metavar="VARIANT", help=what)
    checked = parser.add_argument_group("what is checked")
    config = "a .cfg file, or one of the model's (default: each variant's own, else default)"
    add(checked, "--config", help=config)
    add(checked, *CHECKED[1:])
    add(parser.add_argument_group("how"), "--search", "--engine", "--workers", "--memory")
    add(parser.add_argument_group("on Spark, with --engine spark"), "--master", "--conf", "--verbose")
    add(parser.add_argument_group("where to stop"), "--max-states", "--max-depth", "--time-limit")
    files = parser.add_argument_group("output")
    add(files, "--report", help="write a page to look at (.html), or Mermaid for a pull request (.md), with all runs")
    add(files, "--json", help="write the results as JSON, the base first")
    add(files, "--quiet", help="only the table")


def run(arguments: argparse.Namespace) -> int:
    base = find_model(arguments.model)
    twice = [name for name, times in Counter(arguments.variants).items() if times > 1]
    if twice:
        raise InputError(f"{twice[0]}: the variant is named twice")
    variants = {name: find_variant(base, name) for name in arguments.variants}
    with OutputFiles(arguments, "json", "report") as files:
        groups = list(_groups(_jobs(base, variants, arguments), arguments))
        files.json(lambda: [content for group in groups for content in as_json(group)])
        runs = [one for group in groups for one in group]
        pages = (run_as_data(one.job, one.result, {"label": one.label}) for one in runs)
        files.file("report", lambda path: write_report(path, list(pages)))
        print_lines(table(groups, quiet=arguments.quiet))
    codes = [exit_code(one.result) for one in runs]
    return next(code for code in SEVERITY if code in codes)


def _jobs(base: Model, variants: dict[str, Model], arguments: argparse.Namespace) -> list[tuple[Job, Variants]]:
    """Return the searches of the variants in each configuration, beside that of the base."""
    by_configuration: dict[str | None, Variants] = {}
    beside = list(variants.values())
    for name, model in variants.items():
        chosen = arguments.config or model.own_configuration or base.own_configuration
        by_configuration.setdefault(chosen, []).append((name, _job(model, chosen, arguments, beside)))
    return [(_job(base, chosen, arguments, beside), jobs) for chosen, jobs in by_configuration.items()]


def _job(model: Model, configuration: str | None, arguments: argparse.Namespace, beside: list[Model]) -> Job:
    with blaming(model):
        return job_of(model, configuration, arguments, beside=[other.protocol for other in beside])


# Searching


def _groups(jobs: Sequence[tuple[Job, Variants]], arguments: argparse.Namespace) -> Iterator[Group]:
    """Yield the runs of each configuration, up to an interruption."""
    for base, variants in jobs:
        group = _compare(base, variants, arguments)
        yield group
        if group[0].result.limit == INTERRUPTED:
            return


def _compare(base: Job, variants: Variants, arguments: argparse.Namespace) -> Group:
    """Search the variants, then the base; stop at an interruption."""
    runs: Group = []
    for name, job in variants:
        runs.append(_run(name, job, arguments))
        if runs[-1].result.limit == INTERRUPTED:
            nothing = Result(Verdict.INCOMPLETE, complete=False, limit=INTERRUPTED, engine=base.engine)
            return [ComparedRun(BASE, base, nothing, 0), *runs]
    return [_search_base(base, runs, arguments), *runs]


def _search_base(job: Job, variants: list[ComparedRun], arguments: argparse.Namespace) -> ComparedRun:
    """Search the base: with the user's limits, to the end, or as deep as a counterexample among the variants'.

    A counterexample of n states is the shortest there is in breadth-first search. It is the variant's alone if the
    base holds up to n states on a path; the base may have far too many states to go on.
    """
    options = job.options
    limited = any((options.max_states, options.max_depth, options.time_limit)) or options.keep_going
    limited = limited or bool(options.over_behaviours)  # which is not known before the end
    lengths = [one.result.violations[0].trace for one in variants if one.result.violations]
    if limited or options.search != Search.BFS or len(lengths) < len(variants):
        return _run(BASE, job, arguments)
    depth = max(map(len, lengths))
    tried = _run(BASE, job._replace(options=replace(options, max_states=WHOLE_BASE)), arguments)
    if tried.result.limit != "max_states" or (tried.seen_to or 0) >= depth:
        return tried
    return _run(BASE, job._replace(options=replace(options, max_depth=depth)), arguments)


def _run(label: str, job: Job, arguments: argparse.Namespace) -> ComparedRun:
    with blaming(job.model):
        result = run_job(job, quiet=arguments.quiet)
    return ComparedRun(label, job, result, _seen_to(job, result))


def _seen_to(job: Job, result: Result) -> int | None:
    """Return up to how many states on a path a search has visited every state; None where it has visited all."""
    if result.complete:
        return None
    if job.options.search != Search.BFS or result.depth is None:
        return 0
    return result.depth if result.limit == "max_depth" else max(result.depth - 1, 0)


# Telling


def changed_actions(base: ComparedRun, variant: ComparedRun) -> tuple[list[str], list[str] | None]:
    """Return the actions that a variant gains, and those that it loses."""
    fired, fired_in_variant = ([name for name, times in one.result.actions.items() if times] for one in (base, variant))
    gained = [name for name in fired_in_variant if name not in fired]
    if gained and not _is_as_far(base, variant):
        gained = [name for name in gained if name not in base.job.protocol.actions]
    lost = [name for name in fired if name not in fired_in_variant]
    return gained, lost if _is_as_far(variant, base) else None


def _is_as_far(one: ComparedRun, other: ComparedRun) -> bool:
    """Whether a run took every step out of the states that another one has taken steps out of, as far as these go."""
    if one.seen_to is None:
        return True
    return other.seen_to is not None and other.result.depth is not None and one.seen_to >= other.result.depth


def as_json(group: Group) -> Iterator[dict[str, Any]]:
    """Yield what `--json` says of the runs of a group, the base first."""
    base, *variants = group
    yield result_as_json(base.job, base.result)
    for one in variants:
        gained, lost = changed_actions(base, one)
        yield result_as_json(one.job, one.result) | {"actions_gained": gained, "actions_lost": lost}


def table(groups: list[Group], *, quiet: bool = False) -> Iterator[Line]:
    """Yield the tables, one a configuration: a line a run, the base first."""
    if quiet:
        yield from _short_table(groups)
    for number, group in enumerate(groups if not quiet else ()):
        if number:
            yield []
        yield from header(group[0].job)
        yield from columns([(HEAD, TITLES), *((PLAIN, _row(group[0], one)) for one in group)], NUMBERS)
    warnings = (f"{one.job.config_name}: {text}" for group in groups for one in group for text in one.result.warnings)
    yield from ([(WARNING, f"Warning: {text}")] for text in dict.fromkeys(warnings))


def _short_table(groups: list[Group]) -> Iterator[Line]:
    """Yield one table for all configurations."""
    yield [(HEAD, groups[0][0].job.model.name)]
    rows = [
        (PLAIN, (one.job.config_name if one is group[0] else "", *_row(group[0], one)))
        for group in groups
        for one in group
    ]
    yield from columns([(HEAD, ("configuration", *TITLES)), *rows], [place + 1 for place in NUMBERS])


def _row(base: ComparedRun, one: ComparedRun) -> tuple[str, ...]:
    result = one.result
    gained, lost = changed_actions(base, one)
    return (
        one.label,
        _verdict(one),
        ", ".join(_what(violation) for violation in result.violations),
        str(len(result.violations[0].trace)) if result.violations else "",
        f"{result.distinct_states:,}",
        f"{result.seconds:,.1f}",
        ", ".join([*(f"+{name}" for name in gained), *(f"-{name}" for name in lost or ())]),
    )


def _what(violation: Violation) -> str:
    """Return what is violated, for what should stay reachable with the states that have no way out."""
    trap = violation.trap
    return violation.property if trap is None else f"{violation.property} ({trap.states:,} of {trap.among:,})"


def _verdict(one: ComparedRun) -> str:
    result = one.result
    if result.verdict is not Verdict.INCOMPLETE:
        return result.verdict.value
    if result.limit == INTERRUPTED:
        return "interrupted"
    if one.job.options.search == Search.BFS and one.seen_to:
        unknown = ", ".join(prop.name for prop in one.job.options.over_behaviours)
        return f"holds to depth {one.seen_to}" + (f", but {unknown} is not known" if unknown else "")
    return f"stopped at {LIMITS.get(str(result.limit), result.limit)}"
