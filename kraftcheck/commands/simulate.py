"""Take random walks through a model's states.

exit codes: 0 all walks were taken; 11 deadlock; 12 a property is violated; 14 an assert failed; 20 nothing is violated,
but the command stopped at a limit; 2 bad input; 3 Spark or Java failed; 130 interrupted

for example:
    kraftcheck simulate reconfig --config smoke --runs 1000 --seed 1
    kraftcheck simulate quorum --runs 100 --depth 60 --out walks
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kraftcheck.catalogue import SearchJob, requested_model
from kraftcheck.engines import run_with_compile_timing
from kraftcheck.explorer.request import SearchRequest
from kraftcheck.explorer.result import Behaviour, Result, SearchStopped
from kraftcheck.jobs import (
    CHECK_OPTIONS,
    NO_WALK_FOLDER_MESSAGE,
    WALK_ENGINES,
    add_options,
    job_of_arguments,
    parse_count,
    parse_seed,
    require_walk_engine,
)
from kraftcheck.reporting.lines import ProgressMeter, print_lines
from kraftcheck.reporting.output import OutputFiles, search_header_lines
from kraftcheck.runner import announce_compiling, report_result, run_job, simplify_counterexamples
from kraftcheck.spec.errors import InputError
from kraftcheck.spec.tla.state_conversion import TlaStateConverter

if TYPE_CHECKING:
    from kraftcheck.explorer.random_walks import WalkPlan


SPARK_ENGINE = WALK_ENGINES[1]


def _walk_plan(arguments: argparse.Namespace) -> WalkPlan:
    from kraftcheck.explorer.kernel_compilation import replace_unusable_cache_folder

    replace_unusable_cache_folder()
    from kraftcheck.explorer.random_walks import WalkPlan

    return WalkPlan(arguments.runs, arguments.depth, arguments.seed, least=arguments.min_depth)


def walk_locally(job: SearchJob, arguments: argparse.Namespace, files: OutputFiles) -> Result:
    """Take random walks on this machine; with `--out` write the walks that the folder does not have yet."""
    plan = _walk_plan(arguments)
    from kraftcheck.explorer.random_walks import simulate
    from kraftcheck.traces.corpus import CorpusFolder, identity_of_corpus, names_of_checks

    keep, there = None, set[int]()
    with ExitStack() as stack:
        if arguments.out:
            # here a walk ends at its first violation, so it depends on the checked properties; on Spark it goes on
            ending = {"properties": names_of_checks(job.options), "--continue": job.options.keep_going}
            identity = {**identity_of_corpus(job.protocol, job.options, plan), **ending}
            folder = stack.enter_context(CorpusFolder(arguments.out, identity))
            keep, there = _walk_file_writer(job, arguments.out, files), folder.walks(plan.runs)
        compiles = None if arguments.quiet else announce_compiling

        def work(options: SearchRequest) -> Result:
            return run_with_compile_timing(partial(simulate, job.protocol, options, plan, keep, there), compiles)

        result = run_job(job, quiet=arguments.quiet, waiting="walks left", work=work)
    if there:
        result.notes.append(f"--out: {len(there):,} walks existed already and were kept")
    return result


def _walk_file_writer(job: SearchJob, out: Path, files: OutputFiles) -> Callable[[int, Behaviour], None]:
    """Return the function that writes a walk; an error in writing ends the walks, and is raised after the report."""
    from kraftcheck.traces.corpus import WalkWriter, walk_file_path

    writer = WalkWriter(TlaStateConverter(job.protocol), out)

    def keep(number: int, walk: Behaviour) -> None:
        with files.of("--out", walk_file_path(out, number)):
            writer(number, walk)
            return
        raise SearchStopped

    return keep


def require_spark_supports_options(job: SearchJob, arguments: argparse.Namespace) -> None:
    """Raise InputError for options that random walks on Spark do not support."""
    if arguments.out is None:
        raise InputError(NO_WALK_FOLDER_MESSAGE)
    for option, value in (("--max-states", job.options.max_states), ("--time-limit", job.options.time_limit)):
        if value:
            raise InputError(f"{option}: not supported for random walks on Spark; use --engine {WALK_ENGINES[0]}")


def walk_on_spark(job: SearchJob, arguments: argparse.Namespace, _: OutputFiles) -> Result:
    """Take random walks on Spark and write them as a corpus, with a progress meter."""
    from kraftcheck.explorer.spark_cluster import SparkApplication
    from kraftcheck.traces.corpus import CorpusFolder, SparkCorpusMaker, identity_of_corpus

    plan = _walk_plan(arguments)
    name, protocol, options = f"kraftcheck simulate {job.model.name}", job.protocol, job.options
    with (
        ProgressMeter("walks made", quiet=arguments.quiet) as meter,
        CorpusFolder(arguments.out, identity_of_corpus(protocol, options, plan)) as folder,
        SparkApplication(name, options, type(protocol)) as cluster,
    ):
        return replace(SparkCorpusMaker(cluster, protocol, options, plan, folder).run(meter.reach), engine=job.engine)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_options(parser, "model")
    add_options(parser.add_argument_group("model and properties"), *CHECK_OPTIONS, "--variant")
    how = parser.add_argument_group("walks")
    for option, read, default, what in (
        ("--runs", parse_count, 1000, "number of walks"),
        ("--depth", parse_count, 100, "maximum number of states on a walk"),
        ("--min-depth", parse_count, 1, "minimum number of states on a walk; a shorter walk is taken again"),
        ("--seed", parse_seed, 0, "seed of the random choices"),
    ):
        how.add_argument(option, type=read, default=default, metavar="N", help=f"{what} (default: {default})")
    add_options(how, "--engine", help=f"the engine: {WALK_ENGINES[0]} or, for a corpus in --out, {SPARK_ENGINE}")
    add_options(how, "--workers")
    add_options(parser.add_argument_group("on Spark, with --engine spark"), "--master", "--conf")
    add_options(parser.add_argument_group("limits"), "--max-states", "--time-limit")
    files = parser.add_argument_group("output")
    add_options(files, "--view", "--simplify", "--simplify-time", "--report", "--json", "--trace")
    add_options(files, "--calls", "--verbose", "--quiet")
    files.add_argument("--out", type=Path, metavar="DIR", help="write each walk to a file, as TLC's -simulate does")


def run(arguments: argparse.Namespace) -> int:
    require_walk_engine(arguments.engine)
    with requested_model(arguments) as model, OutputFiles(arguments, "json", "trace", "report") as files:
        job = job_of_arguments(model, arguments.config, arguments)
        if arguments.trace or arguments.out:
            TlaStateConverter(job.protocol)  # refuses bad names before the walks
        more: dict[str, Any] = {"search": "random", "seed": arguments.seed, "depth_limit": arguments.depth}
        if job.engine == SPARK_ENGINE:
            require_spark_supports_options(job, arguments)
            more["distinct_states"] = None  # no process has seen all states of a corpus
        if not arguments.quiet:
            print_lines(search_header_lines(job, f"{arguments.runs:,} random walks, seed {arguments.seed}"))
        result = (walk_on_spark if job.engine == SPARK_ENGINE else walk_locally)(job, arguments, files)
        result.runs = result.runs or 0  # None if interrupted before the first walk
        return report_result(
            job, simplify_counterexamples(job, result, arguments), arguments, files, runs=result.runs, **more
        )
