"""`kraftcheck simulate`: random walks through a model's states."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from kraftcheck.catalogue import find_model
from kraftcheck.commands.check import Job, exit_code, guarded, header, job_of, view_of, write_trace
from kraftcheck.commands.outputs import require_writable, result_as_json, write_json
from kraftcheck.explorer.result import INTERRUPTED, Interrupted, Result, TraceStep, Verdict
from kraftcheck.reporting.progress import Count, meter
from kraftcheck.reporting.summary import print_lines, report
from kraftcheck.spec.errors import InputError

if TYPE_CHECKING:
    from kraftcheck.explorer.tables.random_walks import Plan

SPARK = "spark"
ENGINES = ("tables", SPARK)


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
    from kraftcheck.explorer.tables.random_walks import Plan

    if arguments.engine not in (None, *ENGINES):
        raise InputError(f"--engine {arguments.engine}: random walks are made by {' or '.join(ENGINES)}")
    protocol = job.bound.protocol
    plan = Plan(arguments.runs, arguments.depth, arguments.seed, least=arguments.min_depth)
    require_writable({"--json": arguments.json, "--trace": arguments.trace})
    view = view_of(job) if arguments.trace or arguments.out else None
    keep = None
    if job.engine == SPARK:
        _require_able(arguments)
    elif view is not None and arguments.out:
        from kraftcheck.traces.corpus.walk_files import WalkWriter

        keep = WalkWriter(view, require_empty_folder("--out", arguments.out))
    if not arguments.quiet:
        print_lines(header(job, f"{plan.runs:,} random walks, seed {plan.seed}"))
    on_spark = job.engine == SPARK
    result = _walk_on_spark(job, plan, arguments) if on_spark else _walk(job, plan, keep, arguments)
    if arguments.json:
        content = result_as_json(job.model, job.config_name, job.engine, protocol, job.options, result)
        content |= {"search": "random", "runs": result.runs, "seed": plan.seed, "depth_limit": plan.depth}
        if job.engine == SPARK:  # nobody has seen all states of a corpus
            content["distinct_states"] = None
        write_json(arguments.json, content)
    if arguments.trace and view is not None:
        write_trace(job, view, result, arguments)
    print_lines(report(protocol, result, quiet=arguments.quiet, calls=arguments.calls))
    return exit_code(result)


def _walk(
    job: Job, plan: Plan, keep: Callable[[int, tuple[TraceStep, ...]], None] | None, arguments: argparse.Namespace
) -> Result:
    """Make the walks, showing the progress."""
    from kraftcheck.explorer.tables.random_walks import simulate

    shown = meter(quiet=arguments.quiet, waiting="walks left")
    try:
        return simulate(job.bound.protocol, replace(job.options, report=shown.show), plan, keep)
    except Interrupted as interrupted:
        return interrupted.result
    except KeyboardInterrupt:  # before the first walk began
        return Result(Verdict.INCOMPLETE, complete=False, limit=INTERRUPTED, runs=0)
    finally:
        shown.close()


def _require_able(arguments: argparse.Namespace) -> None:
    """Raise InputError for what is not done on Spark."""
    if arguments.out is None:
        raise InputError("--engine spark: expected --out too, a folder that driver and executors share")
    for option in ("--workers", "--max-states", "--time-limit", "--check-actions"):
        if getattr(arguments, option[2:].replace("-", "_")):
            raise InputError(f"{option}: walks on Spark know no such option; expected --engine {ENGINES[0]}")


def _walk_on_spark(job: Job, plan: Plan, arguments: argparse.Namespace) -> Result:
    """Make a corpus on Spark, showing the progress."""
    from kraftcheck.explorer.spark.session import Cluster
    from kraftcheck.traces.corpus.corpus import CorpusMaker, identity_of_corpus
    from kraftcheck.traces.corpus.folder import CorpusFolder

    protocol, options = job.bound.protocol, job.options
    count = Count("walks made", quiet=arguments.quiet)
    with CorpusFolder(arguments.out, identity_of_corpus(protocol, options, plan)) as folder:
        cluster = Cluster(f"kraftcheck simulate {job.model.name}", options.master, options.conf, type(protocol))
        try:
            return CorpusMaker(cluster, protocol, options, plan, folder).run(count.reach)
        finally:
            count.close()
            cluster.close()


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
