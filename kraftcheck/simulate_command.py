"""`kraftcheck simulate`: random walks through a model's states."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from explorer.result import INTERRUPTED, Interrupted, Result, TraceStep, Verdict
from kraftcheck.check_command import Job, exit_code, guarded, header, job_of, view_of, write_trace
from kraftcheck.models import find_model
from kraftcheck.outputs import require_writable, result_as_json, write_json
from kraftcheck.progress import meter
from kraftcheck.report import print_lines, report
from spec.errors import InputError

if TYPE_CHECKING:
    from explorer.tables.walks import Plan

ENGINE = "tables"


def run(arguments: argparse.Namespace) -> int:
    """Run the command.

    Parameters
    ----------
    arguments
        What `kraftcheck.cli` read.

    Returns
    -------
    int
        The exit code.

    Raises
    ------
    InputError
        For bad input.
    """
    model = find_model(arguments.model, arguments.variant)
    return guarded(model, lambda: _simulate(job_of(model, arguments), arguments))


def _simulate(job: Job, arguments: argparse.Namespace) -> int:
    from explorer.tables.walks import Plan

    if arguments.engine not in (None, ENGINE):
        raise InputError(f"--engine {arguments.engine}: random walks are made by the engine {ENGINE}")
    job = job._replace(engine=ENGINE)
    protocol = job.bound.protocol
    plan = Plan(arguments.runs, arguments.depth, arguments.seed)
    require_writable({"--json": arguments.json, "--trace": arguments.trace})
    view = view_of(job) if arguments.trace or arguments.out else None
    keep = None
    if view is not None and arguments.out:
        from kraftcheck.walk_files import walk_writer

        keep = walk_writer(view, require_empty_folder("--out", arguments.out))
    if not arguments.quiet:
        print_lines(header(job, f"{plan.runs:,} random walks, seed {plan.seed}"))
    result = _walk(job, plan, keep, arguments)
    if arguments.json:
        content = result_as_json(job.model, job.config_name, ENGINE, protocol, job.options, result)
        content |= {"search": "random", "runs": result.runs, "seed": plan.seed, "depth_limit": plan.depth}
        write_json(arguments.json, content)
    if arguments.trace and view is not None:
        write_trace(job, view, result, arguments)
    print_lines(report(protocol, result, quiet=arguments.quiet, calls=arguments.calls))
    return exit_code(result)


def _walk(
    job: Job, plan: Plan, keep: Callable[[int, tuple[TraceStep, ...]], None] | None, arguments: argparse.Namespace
) -> Result:
    """Make the walks, showing the progress."""
    from explorer.tables.walks import simulate

    shown = meter(quiet=arguments.quiet, waiting="walks left")
    try:
        return simulate(job.bound.protocol, replace(job.options, report=shown.show), plan, keep)
    except Interrupted as interrupted:
        return interrupted.result
    except KeyboardInterrupt:  # before the first walk began
        return Result(Verdict.INCOMPLETE, complete=False, limit=INTERRUPTED, runs=0)
    finally:
        shown.close()


def require_empty_folder(option: str, path: Path) -> Path:
    """Return a folder to write into, which is made if it is not there.

    Raises
    ------
    InputError
        Where it is a file, holds something already, or cannot be made.
    """
    if path.exists() and not path.is_dir():
        raise InputError(f"{option} {path}: expected a folder, found a file")
    try:
        path.mkdir(parents=True, exist_ok=True)
        found = next(path.iterdir(), None)
    except OSError as error:
        raise InputError(f"{option} {path}: cannot be written: {error.strerror}") from error
    if found is not None:
        raise InputError(f"{option} {path}: expected a folder that is new or empty, found {found.name} in it")
    return path
