"""From a job to an exit code: the search with its progress, the files, the report."""

from __future__ import annotations

import argparse
import shutil
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

from kraftcheck.catalogue import Job
from kraftcheck.engines import search
from kraftcheck.explorer.behaviour import Behaviour
from kraftcheck.explorer.interruption import EXIT_INTERRUPTED
from kraftcheck.explorer.request import SearchRequest
from kraftcheck.explorer.result import (
    DEADLOCK,
    INTERRUPTED,
    STRICT,
    Interrupted,
    Result,
    Verdict,
    Violation,
)
from kraftcheck.explorer.simplifier import Simplifier, describe_simplification
from kraftcheck.options import COLUMNS
from kraftcheck.reporting.as_json import result_as_json
from kraftcheck.reporting.files import Writing, write_counterexamples
from kraftcheck.reporting.lines import Meter, print_lines
from kraftcheck.reporting.report import run_as_data, write_report
from kraftcheck.reporting.summary import github_annotations, report, write_junit
from kraftcheck.spec.diagnosis.slips import slips
from kraftcheck.spec.diagnosis.vacuity import Watch, unmet, vacuous, watch
from kraftcheck.spec.language.protocol import Protocol

EXIT_CODES = {
    Verdict.OK: 0,
    Verdict.DEADLOCK: 11,
    Verdict.VIOLATION: 12,
    Verdict.ASSERTION: 14,
    Verdict.INCOMPLETE: 20,
}
EXIT_TRAP = 13


def exit_code(result: Result, *, allow_incomplete: bool = False, strict: bool = False) -> int:
    """Return the exit code that says how a search ended."""
    if result.limit == INTERRUPTED:
        return EXIT_INTERRUPTED
    code = EXIT_TRAP if result.only_of_behaviours else EXIT_CODES[result.verdict]
    allowed = allow_incomplete and result.limit != STRICT and not (strict and result.doubts)
    return 0 if allowed and code == EXIT_CODES[Verdict.INCOMPLETE] else code


def run_job(
    job: Job, *, quiet: bool, waiting: str = "frontier", work: Callable[[SearchRequest], Result] | None = None
) -> Result:
    """Run a search, showing its progress, until it ends or the user interrupts it."""
    with Meter(quiet=quiet, waiting=waiting) as meter:
        options = replace(job.options, report=meter.show)
        try:
            result = work(options) if work else _search(job, options, quiet=quiet)
        except Interrupted as interrupted:
            result = interrupted.result
        except KeyboardInterrupt:  # before the search began
            result = Result(Verdict.INCOMPLETE, complete=False, limit=INTERRUPTED)
    return replace(result, engine=result.engine or job.engine)


def _search(job: Job, options: SearchRequest, *, quiet: bool) -> Result:
    compiles = None if quiet else tell_of_compiling
    return search(job.engine, job.protocol, options, is_named=job.is_named, compiles=compiles)


def tell_of_compiling() -> None:
    """Say on standard error that something is compiled."""
    print("compiling the kernel, once on this machine: about 30 s", file=sys.stderr)


def judged(job: Job, search: Callable[[], Result], *, strict: bool = False) -> Result:
    """Run a search, and note what looks wrong in the model itself; `strict` does not accept that."""
    result = _linted(job, search)
    if strict and result.verdict is Verdict.OK and result.doubts:
        return replace(result, verdict=Verdict.INCOMPLETE, limit=STRICT)
    return result


def _linted(job: Job, search: Callable[[], Result]) -> Result:
    protocol, options = job.protocol, job.options
    is_local = job.engine != "spark"  # a search elsewhere does not evaluate properties here
    watched = watch(protocol, (*options.properties, *options.reachable)) if is_local else []
    try:
        result = search()
        known = is_local and all(protocol.probes.get(one.prop.name) is one for one in watched)
    finally:
        for one in watched:
            protocol.probes.pop(one.prop.name, None)
    if result.limit != INTERRUPTED or result.distinct_states:  # else `initial` itself may never end
        with suppress(KeyboardInterrupt):  # what the search has found is told in any case
            result.warnings += slips(protocol, complete=result.complete)
    if known:
        _note_vacuity(protocol, options, result, watched)
    return result


def _note_vacuity(protocol: Protocol, options: SearchRequest, result: Result, watched: list[Watch]) -> None:
    """Note the properties that hold vacuously, and the parts of properties that were never evaluated."""
    violated = {violation.property for violation in result.violations}
    followed = set() if result.complete else {prop.name for prop in options.reachable}
    watched = [one for one in watched if one.prop.name not in violated | followed]
    result.vacuous = vacuous(protocol, watched)
    result.notes += [f"nothing made {one.property} worth checking: {one.reason}" for one in result.vacuous]
    result.never_evaluated = {one.prop.name: parts for one in watched if (parts := one.never())}
    if result.complete:
        result.notes += unmet(watched, {one.property for one in result.vacuous})


def simplify(job: Job, result: Result, arguments: argparse.Namespace) -> Result:
    """Return a result with simpler counterexamples, where `--simplify` asks for it; a note says what was done."""
    if not arguments.simplify or result.limit == INTERRUPTED:
        return result
    is_shortest = job.options.search in ("bfs", "saturation", "chaining") and result.runs is None
    violations, notes = [], []
    for violation in result.violations:
        if violation.loop is not None:
            violations.append(violation)
            notes.append(f"{violation.property}: a behaviour that goes on for ever is not simplified")
            continue
        shortest = None if is_shortest or violation.trap else partial(find_shortest, job, violation)
        simpler, note = simplified(job, violation, arguments, shortest)
        violations.append(simpler)
        notes.append(note)
    return replace(result, violations=violations, notes=result.notes + notes)


def simplified(
    job: Job,
    violation: Violation,
    arguments: argparse.Namespace,
    shortest: Callable[[int, float], Behaviour | None] | None,
) -> tuple[Violation, str]:
    """Return a counterexample made simpler, showing the progress, and what was done."""
    began = time.monotonic()
    with Meter("behaviours tried", quiet=arguments.quiet) as meter:
        simplifier = Simplifier(job.protocol, job.options, violation, arguments.simplify_time, meter.add)
        found = simplifier.run(shortest)
    costs = simplifier.costs.of(violation.trace), simplifier.costs.of(found.trace)
    return found, describe_simplification(violation.property, *costs, simplifier.done, time.monotonic() - began)


def find_shortest(job: Job, violation: Violation, states: int, seconds: float) -> Behaviour | None:
    """Return a shortest counterexample, where one is found in time; None elsewhere."""
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


def tell(job: Job, result: Result, arguments: argparse.Namespace, files: Writing, **more: Any) -> int:
    """Write the files that the user asks for, and print the report."""
    strict, allowed = (bool(getattr(arguments, name, False)) for name in ("strict", "allow_incomplete"))
    files.json(lambda: result_as_json(job, result) | more)
    files.file("trace", lambda path: write_counterexamples(job.protocol, result.violations, path))
    files.file("report", lambda path: write_report(path, [run_as_data(job, result, more)]))
    files.file("junit", lambda path: write_junit(job, result, path, allow_incomplete=allowed, strict=strict))
    columns = shutil.get_terminal_size().columns if arguments.layout == COLUMNS else None
    shown = {"quiet": arguments.quiet, "calls": arguments.calls, "columns": columns}
    print_lines(report(job.protocol, result, configuration=job.config_name, **shown))
    if getattr(arguments, "github", False):
        print_lines(github_annotations(job, result, strict=strict))
    return exit_code(result, allow_incomplete=allowed, strict=strict)
