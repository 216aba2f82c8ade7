"""Take random walks through a model's states.

exit codes: 0 all walks were taken; 11 deadlock; 12 a property is violated; 14 an assert failed; 20 nothing is
violated, but the command stopped at a limit; 2 bad input; 130 interrupted

for example:
    kraftcheck simulate reconfig --config smoke --runs 1000 --seed 1
    kraftcheck simulate quorum --runs 100 --depth 60 --out walks
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from kraftcheck.catalogue import named_model
from kraftcheck.commands._random_walks import ENGINES, SPARK, require_supported, walk, walk_on_spark
from kraftcheck.commands._simplify import simplify
from kraftcheck.jobs import job_of
from kraftcheck.options import CHECKED, add, count, seed
from kraftcheck.reporting.files import OutputFiles
from kraftcheck.reporting.lines import print_lines
from kraftcheck.reporting.summary import header
from kraftcheck.runner import report_result
from kraftcheck.spec.errors import InputError
from kraftcheck.spec.tla.view import StateView


def declare(parser: argparse.ArgumentParser) -> None:
    add(parser, "model")
    add(parser.add_argument_group("model and properties"), *CHECKED, "--variant")
    how = parser.add_argument_group("walks")
    for option, read, default, what in (
        ("--runs", count, 1000, "number of walks"),
        ("--depth", count, 100, "maximum number of states on a walk"),
        ("--min-depth", count, 1, "minimum number of states on a walk; a shorter walk is taken again"),
        ("--seed", seed, 0, "seed of the random choices"),
    ):
        how.add_argument(option, type=read, default=default, metavar="N", help=f"{what} (default: {default})")
    add(how, "--engine", help=f"the engine: {ENGINES[0]} or, for a corpus in --out, {SPARK}")
    add(how, "--workers")
    add(parser.add_argument_group("on Spark, with --engine spark"), "--master", "--conf")
    add(parser.add_argument_group("limits"), "--max-states", "--time-limit")
    files = parser.add_argument_group("output")
    add(files, "--view", "--simplify", "--simplify-time", "--report", "--json", "--trace")
    add(files, "--calls", "--verbose", "--quiet")
    files.add_argument("--out", type=Path, metavar="DIR", help="write each walk to a file, as TLC's -simulate does")


def run(arguments: argparse.Namespace) -> int:
    if arguments.engine not in (None, *ENGINES):
        raise InputError(f"--engine {arguments.engine}: not supported for random walks; use {' or '.join(ENGINES)}")
    with named_model(arguments) as model, OutputFiles(arguments, "json", "trace", "report") as files:
        job = job_of(model, arguments.config, arguments)
        if arguments.trace or arguments.out:
            StateView(job.protocol)  # refuses bad names before the walks
        more: dict[str, Any] = {"search": "random", "seed": arguments.seed, "depth_limit": arguments.depth}
        if job.engine == SPARK:
            require_supported(job, arguments)
            more["distinct_states"] = None  # no process has seen all states of a corpus
        if not arguments.quiet:
            print_lines(header(job, f"{arguments.runs:,} random walks, seed {arguments.seed}"))
        result = (walk_on_spark if job.engine == SPARK else walk)(job, arguments)
        result.runs = result.runs or 0  # None if interrupted before the first walk
        return report_result(job, simplify(job, result, arguments), arguments, files, runs=result.runs, **more)
