"""Compare a model with variants of it within the same bounds.

exit codes: 0 all properties hold and the searches were complete; 11 deadlock; 12 a safety property is violated; 13 a
reachability or temporal property is violated; 14 an assert failed; 20 nothing is violated, but a search stopped at a
limit; 2 bad input; 3 Spark or Java failed; 130 interrupted

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

from kraftcheck.catalogue import Model, SearchJob, find_model, find_variant, locate_protocol_errors
from kraftcheck.explorer.result import ERROR_LIMIT, INTERRUPTED_LIMIT, Result, Search, Verdict, Violation
from kraftcheck.jobs import CHECK_OPTIONS, SPARK_LOG_HELP, add_options, job_of_arguments
from kraftcheck.processes import EXIT_INTERRUPTED
from kraftcheck.reporting.as_json import result_as_json
from kraftcheck.reporting.lines import HEAD, PLAIN, WARNING, Line, print_lines, table_lines
from kraftcheck.reporting.output import LIMIT_OPTIONS, OutputFiles, search_header_lines
from kraftcheck.reporting.report import search_as_report_data, write_report
from kraftcheck.runner import exit_code, run_job
from kraftcheck.spec.errors import InputError

BASE_LABEL = "base"
MOST_BASE_STATES = 1_000_000
"""The limit on distinct states of the base if every variant has a counterexample."""

ENDING_LIMITS = (INTERRUPTED_LIMIT, ERROR_LIMIT)
"""The limits that end a comparison."""

COLUMN_TITLES = ("", "verdict", "property", "length", "distinct states", "seconds", "actions gained and lost")
NUMERIC_COLUMNS = (3, 4, 5)
"""The columns of the table, and the positions of numeric columns."""

EXIT_CODES_BY_SEVERITY = (EXIT_INTERRUPTED, 14, 12, 11, 13, 20, 0)
"""Exit codes of single searches, the most severe first."""


class ComparedRun(NamedTuple):
    """One search of a comparison."""

    label: str  # its name in the table: that of the variant, as given
    job: SearchJob
    result: Result
    seen_to: int | None  # the depth up to which every state was visited; None if the search was complete
    error: Exception | None = None  # what ended the search, and the comparison


VariantJobs = list[tuple[str, SearchJob]]
"""The jobs of variants, with their names."""
RunsOfConfiguration = list[ComparedRun]
"""The runs within the same bounds: the unchanged model (the base), then its variants."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_options(parser, "model")
    variants = "a variant of the model, or path/to/file.py:ClassName"
    parser.add_argument("variants", nargs="+", metavar="VARIANT", help=variants)
    checked = parser.add_argument_group("model and properties")
    config = "a .cfg file, or one of the model's (default: each variant's own, else default)"
    add_options(checked, "--config", help=config)
    add_options(checked, *CHECK_OPTIONS[1:])
    add_options(parser.add_argument_group("search"), "--search", "--engine", "--workers", "--memory")
    spark = parser.add_argument_group("on Spark, with --engine spark")
    add_options(spark, "--master", "--conf")
    add_options(spark, "--verbose", help=SPARK_LOG_HELP)
    add_options(parser.add_argument_group("limits"), "--max-states", "--max-depth", "--time-limit")
    files = parser.add_argument_group("output")
    add_options(files, "--report", help="write all runs as a page for the browser (.html), or as Markdown (.md)")
    add_options(files, "--json", help="write the results as JSON, the base first")
    add_options(files, "--quiet", help="print only the table")


def run(arguments: argparse.Namespace) -> int:
    base = find_model(arguments.model)
    twice = [name for name, times in Counter(arguments.variants).items() if times > 1]
    if twice:
        raise InputError(f"{twice[0]}: the variant is given twice; give it once")
    variants = {name: find_variant(base, name) for name in arguments.variants}
    with OutputFiles(arguments, "json", "report") as files:
        groups = list(_search_each_configuration(_jobs_of_each_configuration(base, variants, arguments), arguments))
        files.json(lambda: [content for group in groups for content in runs_as_json(group)])
        runs = [one for group in groups for one in group]
        pages = (search_as_report_data(one.job, one.result, {"label": one.label}) for one in runs)
        files.file("report", lambda path: write_report(path, list(pages)))
        print_lines(comparison_tables(groups, quiet=arguments.quiet))
        return _exit_code_of_runs_or_raise(runs)


def _exit_code_of_runs_or_raise(runs: Sequence[ComparedRun]) -> int:
    """Return the most severe exit code; raise the error that ended the comparison, after the rows before it."""
    for one in runs:
        if one.error is not None:
            raise one.error
    codes = [exit_code(one.result) for one in runs]
    return next(code for code in EXIT_CODES_BY_SEVERITY if code in codes)


def _jobs_of_each_configuration(
    base: Model, variants: dict[str, Model], arguments: argparse.Namespace
) -> list[tuple[SearchJob, VariantJobs]]:
    """Return the jobs of each configuration: the base's, and one for each variant."""
    by_configuration: dict[str | None, VariantJobs] = {}
    beside = list(variants.values())
    for name, model in variants.items():
        chosen = arguments.config or model.own_configuration or base.own_configuration
        by_configuration.setdefault(chosen, []).append(
            (name, _job_of_base_or_variant(model, chosen, arguments, beside))
        )
    return [(_base_job(base, chosen, jobs, arguments, beside), jobs) for chosen, jobs in by_configuration.items()]


def _base_job(
    base: Model, chosen: str | None, variants: VariantJobs, arguments: argparse.Namespace, beside: list[Model]
) -> SearchJob:
    """Return the job of the base in the configuration of its variants, whose start or view the base may lack."""
    try:
        return _job_of_base_or_variant(base, chosen, arguments, beside)
    except InputError as error:
        what = f"configuration {variants[0][1].config_name} of variant {', '.join(name for name, _ in variants)}"
        raise InputError(f"{what} does not fit the base model; name one that fits both by --config: {error}") from error


def _job_of_base_or_variant(
    model: Model, configuration: str | None, arguments: argparse.Namespace, beside: list[Model]
) -> SearchJob:
    with locate_protocol_errors(model):
        return job_of_arguments(model, configuration, arguments, beside=[other.protocol for other in beside])


# Searching


def _search_each_configuration(
    jobs: Sequence[tuple[SearchJob, VariantJobs]], arguments: argparse.Namespace
) -> Iterator[RunsOfConfiguration]:
    """Yield the runs of each configuration; stop at an interruption or an error."""
    for base, variants in jobs:
        group = _search_variants_and_base(base, variants, arguments)
        yield group
        if group[0].result.limit in ENDING_LIMITS:
            return


def _search_variants_and_base(
    base: SearchJob, variants: VariantJobs, arguments: argparse.Namespace
) -> RunsOfConfiguration:
    """Search the variants, then the base; stop at an interruption or an error."""
    runs: RunsOfConfiguration = []
    for name, job in variants:
        runs.append(_search_base_or_variant(name, job, arguments))
        if (limit := runs[-1].result.limit) in ENDING_LIMITS:
            return [ComparedRun(BASE_LABEL, base, _empty_result(base, limit), 0), *runs]
    return [_search_base(base, runs, arguments), *runs]


def _search_base(job: SearchJob, variants: list[ComparedRun], arguments: argparse.Namespace) -> ComparedRun:
    """Search the base with the user's limits, to the end, or to the depth of the variants' counterexamples.

    Breadth first, a counterexample of n states is a shortest one. It is due to the variant if the base holds up to
    depth n. A search of the base to the end may be infeasible.
    """
    options = job.options
    limited = any((options.max_states, options.max_depth, options.time_limit)) or options.keep_going
    limited = limited or bool(options.over_behaviours)  # known only after a complete search
    lengths = [one.result.violations[0].trace for one in variants if one.result.violations]
    if limited or options.search != Search.BFS or len(lengths) < len(variants):
        return _search_base_or_variant(BASE_LABEL, job, arguments)
    depth = max(map(len, lengths))
    tried = _search_base_or_variant(
        BASE_LABEL, job._replace(options=replace(options, max_states=MOST_BASE_STATES)), arguments
    )
    if tried.result.limit != "max_states" or (tried.seen_to or 0) >= depth:
        return tried
    return _search_base_or_variant(BASE_LABEL, job._replace(options=replace(options, max_depth=depth)), arguments)


def _search_base_or_variant(label: str, job: SearchJob, arguments: argparse.Namespace) -> ComparedRun:
    try:
        with locate_protocol_errors(job.model):
            result = run_job(job, quiet=arguments.quiet)
    except BrokenPipeError:
        raise
    except (InputError, MemoryError, RuntimeError, OSError) as error:  # those that the command line reports
        return ComparedRun(label, job, _empty_result(job, ERROR_LIMIT, str(error)), 0, error)
    return ComparedRun(label, job, result, _fully_searched_depth(job, result))


def _empty_result(job: SearchJob, limit: str | None, *notes: str) -> Result:
    return Result(Verdict.INCOMPLETE, complete=False, limit=limit, engine=job.engine, notes=list(notes))


def _fully_searched_depth(job: SearchJob, result: Result) -> int | None:
    """Return the depth up to which a search visited every state; None if it was complete."""
    if result.complete:
        return None
    if job.options.search != Search.BFS or result.depth is None:
        return 0
    return result.depth if result.limit == "max_depth" else max(result.depth - 1, 0)


# Rendering


def fired_action_differences(base: ComparedRun, variant: ComparedRun) -> tuple[list[str], list[str] | None]:
    """Return the actions fired only by the variant, and the actions fired only by the base (None if unknown)."""
    fired, fired_in_variant = ([name for name, times in one.result.actions.items() if times] for one in (base, variant))
    gained = [name for name in fired_in_variant if name not in fired]
    if gained and not _searched_at_least_as_deep(base, variant):
        gained = [name for name in gained if name not in base.job.protocol.actions]
    lost = [name for name in fired if name not in fired_in_variant]
    return gained, lost if _searched_at_least_as_deep(variant, base) else None


def _searched_at_least_as_deep(one: ComparedRun, other: ComparedRun) -> bool:
    """Whether a run searched at least as deep as another run."""
    if one.seen_to is None:
        return True
    return other.seen_to is not None and other.result.depth is not None and one.seen_to >= other.result.depth


def runs_as_json(group: RunsOfConfiguration) -> Iterator[dict[str, Any]]:
    """Yield the JSON objects of a group's runs, the base first."""
    base, *variants = group
    yield result_as_json(base.job, base.result)
    for one in variants:
        gained, lost = fired_action_differences(base, one)
        yield result_as_json(one.job, one.result) | {"actions_gained": gained, "actions_lost": lost}


def comparison_tables(groups: list[RunsOfConfiguration], *, quiet: bool = False) -> Iterator[Line]:
    """Yield one table per configuration, with a line for each run, the base first."""
    if quiet:
        yield from _combined_table(groups)
    for number, group in enumerate(groups if not quiet else ()):
        if number:
            yield []
        yield from search_header_lines(group[0].job)
        yield from table_lines(
            [(HEAD, COLUMN_TITLES), *((PLAIN, _comparison_row(group[0], one)) for one in group)], NUMERIC_COLUMNS
        )
    warnings = (f"{one.job.config_name}: {text}" for group in groups for one in group for text in one.result.warnings)
    yield from ([(WARNING, f"Warning: {text}")] for text in dict.fromkeys(warnings))


def _combined_table(groups: list[RunsOfConfiguration]) -> Iterator[Line]:
    """Yield one table for all configurations."""
    yield [(HEAD, groups[0][0].job.model.name)]
    rows = [
        (PLAIN, (one.job.config_name if one is group[0] else "", *_comparison_row(group[0], one)))
        for group in groups
        for one in group
    ]
    yield from table_lines([(HEAD, ("configuration", *COLUMN_TITLES)), *rows], [place + 1 for place in NUMERIC_COLUMNS])


def _comparison_row(base: ComparedRun, one: ComparedRun) -> tuple[str, ...]:
    result = one.result
    gained, lost = fired_action_differences(base, one)
    return (
        one.label,
        _verdict_text(one),
        ", ".join(_violation_text(violation) for violation in result.violations),
        str(len(result.violations[0].trace)) if result.violations else "",
        f"{result.distinct_states:,}",
        f"{result.seconds:,.1f}",
        ", ".join([*(f"+{name}" for name in gained), *(f"-{name}" for name in lost or ())]),
    )


def _violation_text(violation: Violation) -> str:
    """Return the name of a violated property; for a reachability property also the count of dead-end states."""
    trap = violation.trap
    return violation.property if trap is None else f"{violation.property} ({trap.states:,} of {trap.among:,})"


def _verdict_text(one: ComparedRun) -> str:
    result = one.result
    if result.verdict is not Verdict.INCOMPLETE:
        return result.verdict.value
    if result.limit == INTERRUPTED_LIMIT:
        return "interrupted"
    if result.limit == ERROR_LIMIT:
        return "not searched" if one.error is None else "error"
    if one.job.options.search == Search.BFS and one.seen_to:
        unknown = ", ".join(prop.name for prop in one.job.options.over_behaviours)
        return f"holds to depth {one.seen_to}" + (f", but {unknown} is unknown" if unknown else "")
    return f"stopped at {LIMIT_OPTIONS.get(str(result.limit), result.limit)}"
