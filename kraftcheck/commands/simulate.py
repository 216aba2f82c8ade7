"""Walk at random through a model's states.

exit codes: 0 all walks were made; 11 deadlock; 12 a property is violated; 14 an assert failed; 20 nothing
violated, but it stopped at a limit; 2 bad input; 130 interrupted

for example:
    kraftcheck simulate reconfig --config smoke --runs 1000 --seed 1
    kraftcheck simulate quorum --runs 100 --depth 60 --out walks
"""

from __future__ import annotations

import argparse
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kraftcheck.catalogue import Job, named_model
from kraftcheck.commands._simplify import simplify
from kraftcheck.engines import compiling
from kraftcheck.explorer.request import SearchRequest
from kraftcheck.explorer.result import Result
from kraftcheck.jobs import job_of
from kraftcheck.options import CHECKED, add, count, seed
from kraftcheck.reporting.files import OutputFiles
from kraftcheck.reporting.lines import Meter, print_lines
from kraftcheck.reporting.summary import header
from kraftcheck.runner import report_result, run_job, tell_of_compiling
from kraftcheck.spec.errors import InputError
from kraftcheck.spec.tla.view import StateView

if TYPE_CHECKING:
    from kraftcheck.explorer.random_walks import Plan

SPARK = "spark"
ENGINES = ("tables", SPARK)
"""The engines that make random walks."""


def declare(parser: argparse.ArgumentParser) -> None:
    add(parser, "model")
    add(parser.add_argument_group("what is checked"), *CHECKED, "--variant")
    how = parser.add_argument_group("how")
    for option, read, default, what in (
        ("--runs", count, 1000, "walks"),
        ("--depth", count, 100, "states along a walk"),
        ("--min-depth", count, 1, "make a walk that ends with fewer states again, by other choices"),
        ("--seed", seed, 0, "another seed, other walks"),
    ):
        how.add_argument(option, type=read, default=default, metavar="N", help=f"{what} (default: {default})")
    add(how, "--engine", help=f"the engine: {ENGINES[0]} or, for a corpus in --out, {SPARK}")
    add(how, "--workers")
    add(parser.add_argument_group("on Spark, with --engine spark"), "--master", "--conf", "--verbose")
    add(parser.add_argument_group("where to stop"), "--max-states", "--time-limit")
    files = parser.add_argument_group("output")
    add(files, "--view", "--simplify", "--simplify-time", "--report", "--json", "--trace", "--calls", "--quiet")
    files.add_argument("--out", type=Path, metavar="DIR", help="write each walk as TLC's -simulate does")


def run(arguments: argparse.Namespace) -> int:
    if arguments.engine not in (None, *ENGINES):
        raise InputError(f"--engine {arguments.engine}: random walks are made by {' or '.join(ENGINES)}")
    with named_model(arguments) as model, OutputFiles(arguments, "json", "trace", "report") as files:
        job = job_of(model, arguments.config, arguments)
        if arguments.trace or arguments.out:
            StateView(job.protocol)  # bad names are refused before walks are made
        more: dict[str, Any] = {"search": "random", "seed": arguments.seed, "depth_limit": arguments.depth}
        if job.engine == SPARK:
            _require_able(job, arguments)
            more["distinct_states"] = None  # nobody has seen all states of a corpus
        if not arguments.quiet:
            print_lines(header(job, f"{arguments.runs:,} random walks, seed {arguments.seed}"))
        plan = _plan(arguments)
        result = (_walk_on_spark if job.engine == SPARK else _walk)(job, plan, arguments)
        result.runs = result.runs or 0  # None where it was interrupted before the first walk began
        return report_result(job, simplify(job, result, arguments), arguments, files, runs=result.runs, **more)


def _plan(arguments: argparse.Namespace) -> Plan:
    from kraftcheck.explorer.compiling import cache_problem

    cache_problem()
    from kraftcheck.explorer.random_walks import Plan

    return Plan(arguments.runs, arguments.depth, arguments.seed, least=arguments.min_depth)


def _walk(job: Job, plan: Plan, arguments: argparse.Namespace) -> Result:
    """Make walks on this machine, and write them where `--out` asks for it; those that are there stay."""
    from kraftcheck.explorer.random_walks import simulate
    from kraftcheck.traces.corpus import CorpusFolder, WalkWriter, checked_by, identity_of_corpus

    keep, there = None, set[int]()
    with ExitStack() as stack:
        if arguments.out:
            # a walk ends with the first violation, which depends on what is checked; on Spark it goes on
            ending = {"properties": checked_by(job.options), "--continue": job.options.keep_going}
            identity = {**identity_of_corpus(job.protocol, job.options, plan), **ending}
            folder = stack.enter_context(CorpusFolder(arguments.out, identity))
            keep, there = WalkWriter(StateView(job.protocol), arguments.out), folder.walks(plan.runs)
        compiles = None if arguments.quiet else tell_of_compiling

        def walk(options: SearchRequest) -> Result:
            return compiling(partial(simulate, job.protocol, options, plan, keep, there), compiles)

        result = run_job(job, quiet=arguments.quiet, waiting="walks left", work=walk)
    if there:
        result.notes.append(f"{len(there):,} of the walks were there already")
    return result


def _require_able(job: Job, arguments: argparse.Namespace) -> None:
    """Raise InputError for what is not done on Spark, beyond what no search on Spark does."""
    if arguments.out is None:
        raise InputError("--engine spark: expected --out too, a folder that driver and executors share")
    for option, value in (("--max-states", job.options.max_states), ("--time-limit", job.options.time_limit)):
        if value:
            raise InputError(f"{option}: walks on Spark know no such option; expected --engine {ENGINES[0]}")


def _walk_on_spark(job: Job, plan: Plan, arguments: argparse.Namespace) -> Result:
    """Make a corpus on Spark, showing the progress."""
    from kraftcheck.explorer.cluster import Cluster
    from kraftcheck.traces.corpus import CorpusFolder, CorpusMaker, identity_of_corpus

    name, protocol, options = f"kraftcheck simulate {job.model.name}", job.protocol, job.options
    with (
        Meter("walks made", quiet=arguments.quiet) as meter,
        CorpusFolder(arguments.out, identity_of_corpus(protocol, options, plan)) as folder,
        Cluster(name, options, type(protocol)) as cluster,
    ):
        return replace(CorpusMaker(cluster, protocol, options, plan, folder).run(meter.reach), engine=job.engine)
