"""The option `--simplify`: shrinking of counterexamples."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial

from kraftcheck.catalogue import Job
from kraftcheck.engines import search
from kraftcheck.explorer.behaviour import Behaviour
from kraftcheck.explorer.request import SearchRequest
from kraftcheck.explorer.result import DEADLOCK, INTERRUPTED, Result, TraceStep, Violation
from kraftcheck.reporting.lines import Meter


def simplify(job: Job, result: Result, arguments: argparse.Namespace) -> Result:
    """Return a result with shrunk counterexamples and a note on each, if `--simplify` is given."""
    if not arguments.simplify or result.limit == INTERRUPTED:
        return result
    is_shortest = job.options.search in ("bfs", "saturation", "chaining") and result.runs is None
    violations, notes = [], []
    for violation in result.violations:
        if violation.loop is not None:
            violations.append(violation)
            notes.append(f"{violation.property}: --simplify does not support lassos")
            continue
        shortest = None if is_shortest or violation.trap else partial(_find_shortest, job, violation)
        simpler, note = _simplified(job, violation, arguments, shortest)
        violations.append(simpler)
        notes.append(note)
    return replace(result, violations=violations, notes=result.notes + notes)


def simplify_trace(
    job: Job, trace: tuple[TraceStep, ...], violated: str | None, arguments: argparse.Namespace
) -> tuple[Violation, str] | None:
    """Return a shrunk trace that violates the same property, and a note; None if the trace violates no property."""
    from kraftcheck.explorer.simplifier import violation_of

    violation = violation_of(job.protocol, trace, violated)
    return (
        None if violation is None else _simplified(job, violation, arguments, partial(_find_shortest, job, violation))
    )


def _simplified(
    job: Job,
    violation: Violation,
    arguments: argparse.Namespace,
    shortest: Callable[[int, float], Behaviour | None] | None,
) -> tuple[Violation, str]:
    """Return a shrunk counterexample and a note on the change, with a progress meter."""
    from kraftcheck.explorer.simplifier import Simplifier, describe_simplification

    began = time.monotonic()
    with Meter("behaviours tried", quiet=arguments.quiet) as meter:
        simplifier = Simplifier(job.protocol, job.options, violation, arguments.simplify_time, meter.add)
        found = simplifier.run(shortest)
    costs = simplifier.costs.of(violation.trace), simplifier.costs.of(found.trace)
    return found, describe_simplification(violation.property, *costs, simplifier.done, time.monotonic() - began)


def _find_shortest(job: Job, violation: Violation, states: int, seconds: float) -> Behaviour | None:
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
