"""Walk at random through a model's states.

exit codes: 0 all walks were made; 11 deadlock; 12 a property is violated; 14 an assert failed; 20 nothing
violated, but it stopped at a limit; 2 bad input; 130 interrupted

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
            require_supported(job, arguments)
            more["distinct_states"] = None  # nobody has seen all states of a corpus
        if not arguments.quiet:
            print_lines(header(job, f"{arguments.runs:,} random walks, seed {arguments.seed}"))
        result = (walk_on_spark if job.engine == SPARK else walk)(job, arguments)
        result.runs = result.runs or 0  # None where it was interrupted before the first walk began
        return report_result(job, simplify(job, result, arguments), arguments, files, runs=result.runs, **more)
