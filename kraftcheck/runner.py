"""Execution of a job: search with progress, diagnosis of the model, output files, report and exit code."""

from __future__ import annotations

import argparse
import shutil
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from kraftcheck.catalogue import SearchJob
from kraftcheck.engines import run_within_time_limit, search
from kraftcheck.explorer.request import SearchRequest
from kraftcheck.explorer.result import (
    DEADLOCK,
    INTERRUPTED_LIMIT,
    STRICT_LIMIT,
    Behaviour,
    Interrupted,
    Result,
    TraceStep,
    Verdict,
    Violation,
)
from kraftcheck.jobs import COLUMNS_VIEW
from kraftcheck.processes import EXIT_INTERRUPTED
from kraftcheck.reporting.as_json import result_as_json
from kraftcheck.reporting.lines import ProgressMeter, print_lines
from kraftcheck.reporting.output import (
    OutputFiles,
    follow_up_hints,
    github_annotations,
    search_report_lines,
    write_counterexamples,
    write_search_junit,
)
from kraftcheck.spec.diagnosis.lint import (
    PropertyCoverageProbe,
    install_coverage_probes,
    lint,
    notes_on_unevaluated_parts,
    vacuous_properties,
)
from kraftcheck.spec.language.protocol import Protocol

EXIT_CODES = {
    Verdict.OK: 0,
    Verdict.DEADLOCK: 11,
    Verdict.VIOLATION: 12,
    Verdict.ASSERTION: 14,
    Verdict.INCOMPLETE: 20,
}
EXIT_DEAD_END = 13

ENGINES_THAT_TRACK_READS, MOST_EVALUATIONS_OF_AN_INPUT = ("tables", "symbolic"), 2
RECOUNTED_STATES, RECOUNT_SECONDS = 1 << 8, 1.0
"""Limits of the search that counts the inputs of properties again."""


def exit_code(result: Result, *, allow_incomplete: bool = False, strict: bool = False) -> int:
    """Return the exit code of a search's result."""
    if result.limit == INTERRUPTED_LIMIT:
        return EXIT_INTERRUPTED
    code = EXIT_DEAD_END if result.only_of_behaviours else EXIT_CODES[result.verdict]
    allowed = allow_incomplete and result.limit != STRICT_LIMIT and not (strict and result.doubts)
    return 0 if allowed and code == EXIT_CODES[Verdict.INCOMPLETE] else code


def run_job(
    job: SearchJob, *, quiet: bool, waiting: str = "frontier", work: Callable[[SearchRequest], Result] | None = None
) -> Result:
    """Run a search with a progress meter. An interruption returns the partial result."""
    with ProgressMeter(quiet=quiet, waiting=waiting) as meter:
        options = replace(job.options, report=meter.show)
        try:
            if work is None:
                result = _run_engine_search(job, options, quiet=quiet)
            else:
                result = run_within_time_limit(job.protocol, options, partial(work, options))
        except Interrupted as interrupted:
            result = interrupted.result
        except KeyboardInterrupt:  # before the search starts
            result = Result(Verdict.INCOMPLETE, complete=False, limit=INTERRUPTED_LIMIT)
    return replace(result, engine=result.engine or job.engine)


def _run_engine_search(job: SearchJob, options: SearchRequest, *, quiet: bool) -> Result:
    compiles = None if quiet else announce_compiling
    return search(job.engine, job.protocol, options, is_named=job.is_named, compiles=compiles)


def announce_compiling() -> None:
    """Print on standard error that the kernel is being compiled."""
    print("compiling the kernel, once on this machine: about 10 s", file=sys.stderr)


def run_with_diagnosis(job: SearchJob, search: Callable[[], Result], *, strict: bool = False) -> Result:
    """Run a search and add warnings about the model; with `strict` they make the result incomplete."""
    result = _search_with_probes(job, search)
    if strict and result.verdict is Verdict.OK and result.doubts:
        return replace(result, verdict=Verdict.INCOMPLETE, limit=STRICT_LIMIT)
    return result


def _search_with_probes(job: SearchJob, search: Callable[[], Result]) -> Result:
    protocol, options = job.protocol, job.options
    is_local = job.engine != "spark"  # on Spark other processes evaluate the properties
    watched = install_coverage_probes(protocol, (*options.properties, *options.reachable)) if is_local else []
    try:
        result = search()
        known = [one for one in watched if protocol.probes.get(one.prop.name) is one]
    finally:
        for one in watched:
            protocol.probes.pop(one.prop.name, None)
    with suppress(KeyboardInterrupt):  # an interruption must not lose the search's result
        result.warnings += lint(protocol, complete=result.complete)
    if is_local:
        _note_vacuity(protocol, options, result, [one for one in known if one.inputs or result.complete])
    if len(known) < len(watched):
        result.vacuous = result.never_evaluated = None
        names = ", ".join(one.prop.name for one in watched if one not in known)
        result.notes.append(f"whether a property holds vacuously is not known: {names}")
    return result


def _recount_property_inputs(protocol: Protocol, options: SearchRequest, watched: list[PropertyCoverageProbe]) -> None:
    """Count the inputs of properties with few evaluations in the first states, as the reference engine does.

    Engines that track reads evaluate all inputs at once that differ in unread fields only, and may do so twice.
    """
    few = [one for one in watched if 0 < one.inputs <= MOST_EVALUATIONS_OF_AN_INPUT and one.prop.asks]
    if not few:
        return
    from kraftcheck.explorer.reference import explore

    asked = SearchRequest(
        init=options.init,
        properties=tuple(one.prop for one in few),
        constraints=options.constraints,
        action_constraints=options.action_constraints,
        symmetry=options.symmetry,
        view=options.view,
        deadlock=False,
        keep_going=True,
        max_depth=options.max_depth,
        max_states=min(options.max_states or RECOUNTED_STATES, RECOUNTED_STATES),
        time_limit=RECOUNT_SECONDS,
    )
    again = install_coverage_probes(protocol, [one.prop for one in few])
    with suppress(KeyboardInterrupt, ValueError):  # InputError is one; the search has its result without this error
        run_within_time_limit(protocol, asked, partial(explore, protocol, asked))
    for one, counted in zip(few, again, strict=True):
        one.calls, one.before = counted.inputs, 0
        del protocol.probes[one.prop.name]


def _note_vacuity(
    protocol: Protocol, options: SearchRequest, result: Result, watched: list[PropertyCoverageProbe]
) -> None:
    """Add notes on vacuously true properties, and on parts of properties that were never evaluated."""
    violated = {violation.property for violation in result.violations}
    followed = set() if result.complete else {prop.name for prop in options.reachable}
    watched = [one for one in watched if one.prop.name not in violated | followed]
    if result.engine in ENGINES_THAT_TRACK_READS:
        _recount_property_inputs(protocol, options, watched)
    result.vacuous = vacuous_properties(protocol, watched)
    result.notes += [f"{one.property} holds vacuously: {one.reason}" for one in result.vacuous]
    result.never_evaluated = {one.prop.name: parts for one in watched if (parts := one.never())}
    if result.complete:
        result.notes += notes_on_unevaluated_parts(watched, {one.property for one in result.vacuous})


def report_result(
    job: SearchJob, result: Result, arguments: argparse.Namespace, files: OutputFiles, **more: Any
) -> int:
    """Write the requested output files, print the report, and return the exit code."""
    strict, allowed = (bool(getattr(arguments, name, False)) for name in ("strict", "allow_incomplete"))
    files.json(lambda: result_as_json(job, result) | more)
    files.file("trace", lambda path: write_counterexamples(job.protocol, result.violations, path))
    files.file("report", lambda path: _write_report(job, result, more, path))
    files.file("junit", lambda path: write_search_junit(job, result, path, allow_incomplete=allowed, strict=strict))
    columns = shutil.get_terminal_size().columns if arguments.layout == COLUMNS_VIEW else None
    lines = search_report_lines(
        job.protocol,
        result,
        configuration=job.config_name,
        quiet=arguments.quiet,
        table=getattr(arguments, "verbose", False),
        calls=arguments.calls,
        columns=columns,
        next_steps=() if arguments.quiet else follow_up_hints(arguments.words, result),
    )
    print_lines(lines)
    if getattr(arguments, "github", False):
        print_lines(github_annotations(job, result, strict=strict))
    return exit_code(result, allow_incomplete=allowed, strict=strict)


def _write_report(job: SearchJob, result: Result, more: dict[str, Any], path: Path) -> None:
    from kraftcheck.reporting.report import search_as_report_data, write_report  # imports the replay of traces

    write_report(path, [search_as_report_data(job, result, more)])


def simplify_counterexamples(job: SearchJob, result: Result, arguments: argparse.Namespace) -> Result:
    """Return a result with shrunk counterexamples and a note on each, if `--simplify` is given."""
    if not arguments.simplify or result.limit == INTERRUPTED_LIMIT:
        return result
    is_shortest = job.options.search in ("bfs", "saturation", "chaining") and result.runs is None
    violations, notes = [], []
    for violation in result.violations:
        if violation.loop is not None:
            violations.append(violation)
            notes.append(f"{violation.property}: --simplify does not support lassos")
            continue
        shortest = None if is_shortest or violation.trap else partial(_find_shortest_counterexample, job, violation)
        simpler, note = _simplify_violation_with_note(job, violation, arguments, shortest)
        violations.append(simpler)
        notes.append(note)
    return replace(result, violations=violations, notes=result.notes + notes)


def simplify_violating_trace(
    job: SearchJob, trace: tuple[TraceStep, ...], violated: str | None, arguments: argparse.Namespace
) -> tuple[Violation, str] | None:
    """Return a shrunk trace that violates the same property, and a note; None if the trace violates no property."""
    from kraftcheck.explorer.simplifier import find_violation_at_end

    violation = find_violation_at_end(job.protocol, trace, violated)
    return (
        None
        if violation is None
        else _simplify_violation_with_note(
            job, violation, arguments, partial(_find_shortest_counterexample, job, violation)
        )
    )


def _simplify_violation_with_note(
    job: SearchJob,
    violation: Violation,
    arguments: argparse.Namespace,
    shortest: Callable[[int, float], Behaviour | None] | None,
) -> tuple[Violation, str]:
    """Return a shrunk counterexample and a note on the change, with a progress meter."""
    from kraftcheck.explorer.simplifier import CounterexampleSimplifier, describe_simplification

    began = time.monotonic()
    with ProgressMeter("behaviours tried", quiet=arguments.quiet) as meter:
        simplifier = CounterexampleSimplifier(job.protocol, job.options, violation, arguments.simplify_time, meter.add)
        found = simplifier.run(shortest)
    costs = simplifier.costs.of(violation.trace), simplifier.costs.of(found.trace)
    return found, describe_simplification(violation.property, *costs, simplifier.done, time.monotonic() - began)


def _find_shortest_counterexample(
    job: SearchJob, violation: Violation, states: int, seconds: float
) -> Behaviour | None:
    """Return a shortest counterexample; None if the search finds none within the limits."""
    properties = tuple(prop for prop in job.options.properties if prop.name == violation.property)
    asked = job.options
    options = SearchRequest(
        properties=asked.properties if violation.failed else properties,
        constraints=asked.constraints,
        action_constraints=asked.action_constraints,
        deadlock=violation.property == DEADLOCK,
        init=asked.init,
        workers=asked.workers,
        max_depth=states,
        time_limit=seconds,
    )
    result = search("reference" if job.engine == "reference" else "tables", job.protocol, options, is_named=False)
    return next((one.trace for one in result.violations if one.property == violation.property), None)
