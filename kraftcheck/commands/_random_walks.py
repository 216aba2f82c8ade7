"""The random walks of `simulate`, on this machine or on Spark."""

from __future__ import annotations

import argparse
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from kraftcheck.catalogue import Job
from kraftcheck.engines import compiling
from kraftcheck.explorer.request import SearchRequest
from kraftcheck.explorer.result import Result
from kraftcheck.reporting.lines import Meter
from kraftcheck.runner import announce_compiling, run_job
from kraftcheck.spec.errors import InputError
from kraftcheck.spec.tla.view import StateView

if TYPE_CHECKING:
    from kraftcheck.explorer.random_walks import Plan

SPARK = "spark"
ENGINES = ("tables", SPARK)
"""The engines that support random walks."""


def _plan(arguments: argparse.Namespace) -> Plan:
    from kraftcheck.explorer.compiling import cache_problem

    cache_problem()
    from kraftcheck.explorer.random_walks import Plan

    return Plan(arguments.runs, arguments.depth, arguments.seed, least=arguments.min_depth)


def walk(job: Job, arguments: argparse.Namespace) -> Result:
    """Take random walks on this machine; with `--out` write the walks that the folder does not have yet."""
    plan = _plan(arguments)
    from kraftcheck.explorer.random_walks import simulate
    from kraftcheck.traces.corpus import CorpusFolder, WalkWriter, checked_by, identity_of_corpus

    keep, there = None, set[int]()
    with ExitStack() as stack:
        if arguments.out:
            # here a walk ends at its first violation, so it depends on the checked properties; on Spark it goes on
            ending = {"properties": checked_by(job.options), "--continue": job.options.keep_going}
            identity = {**identity_of_corpus(job.protocol, job.options, plan), **ending}
            folder = stack.enter_context(CorpusFolder(arguments.out, identity))
            keep, there = WalkWriter(StateView(job.protocol), arguments.out), folder.walks(plan.runs)
        compiles = None if arguments.quiet else announce_compiling

        def work(options: SearchRequest) -> Result:
            return compiling(partial(simulate, job.protocol, options, plan, keep, there), compiles)

        result = run_job(job, quiet=arguments.quiet, waiting="walks left", work=work)
    if there:
        result.notes.append(f"--out: {len(there):,} walks existed already and were kept")
    return result


def require_supported(job: Job, arguments: argparse.Namespace) -> None:
    """Raise InputError for options that random walks on Spark do not support."""
    if arguments.out is None:
        raise InputError("--engine spark: no output folder; add --out DIR, a folder that driver and executors share")
    for option, value in (("--max-states", job.options.max_states), ("--time-limit", job.options.time_limit)):
        if value:
            raise InputError(f"{option}: not supported for random walks on Spark; use --engine {ENGINES[0]}")


def walk_on_spark(job: Job, arguments: argparse.Namespace) -> Result:
    """Take random walks on Spark and write them as a corpus, with a progress meter."""
    from kraftcheck.explorer.cluster import Cluster
    from kraftcheck.traces.corpus import CorpusFolder, CorpusMaker, identity_of_corpus

    plan = _plan(arguments)
    name, protocol, options = f"kraftcheck simulate {job.model.name}", job.protocol, job.options
    with (
        Meter("walks made", quiet=arguments.quiet) as meter,
        CorpusFolder(arguments.out, identity_of_corpus(protocol, options, plan)) as folder,
        Cluster(name, options, type(protocol)) as cluster,
    ):
        return replace(CorpusMaker(cluster, protocol, options, plan, folder).run(meter.reach), engine=job.engine)
