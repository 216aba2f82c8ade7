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
from kraftcheck.explorer.result import (
    DEADLOCK,
    INTERRUPTED,
    STRICT,
    Interrupted,
    Options,
    Result,
    Verdict,
    Violation,
)
from kraftcheck.explorer.simplifying.cost import told as simplifying_told
from kraftcheck.explorer.simplifying.simplifier import Simplifier
from kraftcheck.options import COLUMNS
from kraftcheck.reporting.as_json import result_as_json
from kraftcheck.reporting.files import Writing, write_counterexamples, write_json
from kraftcheck.reporting.lines import Meter, print_lines
from kraftcheck.reporting.summary import report
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
    job: Job, *, quiet: bool, waiting: str = "frontier", work: Callable[[Options], Result] | None = None
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


def _search(job: Job, options: Options, *, quiet: bool) -> Result:
    compiles = None if quiet else tell_of_compiling
    return search(job.engine, job.protocol, options, is_named=job.is_named, compiles=compiles)


def tell_of_compiling() -> None:
    """Say on standard error that something is compiled."""
    print("compiling the kernel, once on this machine: about 30 s", file=sys.stderr)


def judged(
    protocol: Protocol, options: Options, engine: str, search: Callable[[], Result], *, strict: bool = False
) -> Result:
    """Run a search, and note what looks wrong in the model itself."""
    # A search elsewhere does not evaluate properties here.
    watched = [] if engine == "spark" else watch(protocol, (*options.properties, *options.reachable))
    try:
        result = search()
        known = engine != "spark" and all(protocol.probes.get(one.prop.name) is one for one in watched)
    finally:
        for one in watched:
            protocol.probes.pop(one.prop.name, None)
    if result.limit != INTERRUPTED or result.distinct_states:  # else `initial` itself may never end
        with suppress(KeyboardInterrupt):  # what the search has found is told in any case
            result.warnings += slips(protocol, complete=result.complete)
    if known:
        _note_vacuity(protocol, options, result, watched)
    doubted = strict and result.verdict is Verdict.OK and bool(result.doubts)
    return replace(result, verdict=Verdict.INCOMPLETE, limit=STRICT) if doubted else result


def _note_vacuity(protocol: Protocol, options: Options, result: Result, watched: list[Watch]) -> None:
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
    return found, simplifying_told(violation.property, *costs, simplifier.done, time.monotonic() - began)


def find_shortest(job: Job, violation: Violation, states: int, seconds: float) -> Behaviour | None:
    """Return a shortest counterexample, where one is found in time; None elsewhere."""
    properties = tuple(prop for prop in job.options.properties if prop.name == violation.property)
    limits = {"max_depth": states, "time_limit": seconds, "max_states": None, "report": None}
    options = replace(
        Options(init=job.options.init, workers=job.options.workers, constraints=job.options.constraints),
        action_constraints=job.options.action_constraints,
        properties=job.options.properties if violation.failed else properties,
        deadlock=violation.property == DEADLOCK,
        **limits,  # type: ignore[arg-type]
    )
    result = search("reference" if job.engine == "reference" else "tables", job.protocol, options, is_named=False)
    return next((one.trace for one in result.violations if one.property == violation.property), None)


def tell(job: Job, result: Result, arguments: argparse.Namespace, **more: Any) -> int:
    """Write the files that the user asks for, and print the report."""
    writing = Writing()
    if arguments.json:
        with writing.of("--json", arguments.json):
            write_json(arguments.json, result_as_json(job, result) | more)
    if arguments.trace:
        with writing.of("--trace", arguments.trace):
            write_counterexamples(job.protocol, result.violations, arguments.trace)
    if arguments.report:
        from kraftcheck.reporting.report import run_as_data, write_report

        with writing.of("--report", arguments.report):
            write_report(arguments.report, [run_as_data(job, result, more)])
    strict, allowed = (bool(getattr(arguments, name, False)) for name in ("strict", "allow_incomplete"))
    if getattr(arguments, "junit", None):
        from kraftcheck.reporting.summary import write_junit

        with writing.of("--junit", arguments.junit):
            write_junit(job, result, arguments.junit, allow_incomplete=allowed, strict=strict)
    columns = shutil.get_terminal_size().columns if getattr(arguments, "layout", None) == COLUMNS else None
    shown = {"quiet": arguments.quiet, "calls": arguments.calls, "columns": columns}
    print_lines(report(job.protocol, result, configuration=job.config_name, **shown))
    if getattr(arguments, "github", False):
        from kraftcheck.reporting.summary import github_annotations

        print_lines(github_annotations(job, result, strict=strict))
    writing.end()
    return exit_code(result, allow_incomplete=allowed, strict=strict)
