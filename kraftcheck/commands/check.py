"""Search a model's states for a violation.

exit codes: 0 all properties hold and the search was complete; 11 deadlock; 12 a safety property is violated; 13 a
reachability or temporal property is violated; 14 an assert failed; 20 nothing is violated, but the search stopped at a
limit, or with --strict there is a warning; 2 bad input; 3 Spark or Java failed; 130 interrupted

for example:
    kraftcheck check reconfig --config smoke
    kraftcheck check reconfig --variant observer-stands --config fault.observer-stands --report found.html
    kraftcheck check my_protocol.py:MyProtocol --config small.cfg --max-states 100000
    kraftcheck check quorum --memory 4G --checkpoint kept --time-limit 3600
    kraftcheck check quorum --config smoke --github --junit smoke.xml --json smoke.json     # in CI
"""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from kraftcheck.catalogue import SearchJob, requested_model
from kraftcheck.jobs import CHECK_OPTIONS, add_options, job_of_arguments, parse_count
from kraftcheck.reporting.lines import print_lines
from kraftcheck.reporting.output import OutputFiles, resume_hint_lines, search_header_lines
from kraftcheck.runner import report_result, run_job, run_with_diagnosis, simplify_counterexamples
from kraftcheck.spec.errors import InputError
from kraftcheck.spec.tla.state_conversion import TlaStateConverter

if TYPE_CHECKING:
    from kraftcheck.commands._graph import RequestedGraph


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_options(parser, "model")
    add_options(parser.add_argument_group("model and properties"), *CHECK_OPTIONS, "--variant")
    add_options(parser.add_argument_group("search"), "--search", "--engine", "--workers", "--memory")
    add_options(parser.add_argument_group("on Spark, with --engine spark"), "--master", "--conf")
    add_options(parser.add_argument_group("limits"), "--max-states", "--max-depth", "--max-nodes", "--time-limit")
    resuming = parser.add_argument_group("checkpoints")
    add_options(resuming, "--checkpoint", "--checkpoint-every", "--resume", "--resume-if-present")
    files = parser.add_argument_group("output")
    add_options(files, "--view", "--simplify", "--simplify-time", "--report", "--json", "--trace")
    add_options(files, "--calls", "--verbose", "--quiet")
    add_options(parser.add_argument_group("for CI"), "--junit", "--github", "--allow-incomplete", "--strict")
    files.add_argument(
        "--graph", type=Path, metavar="FILE", help="write the state graph (.graphml, .json, .dot, .svg or .parquet)"
    )
    around = "with --graph: only states within N steps of the first counterexample"
    files.add_argument("--graph-around", type=parse_count, metavar="N", help=around)
    files.add_argument("--graph-most", type=parse_count, metavar="N", help="maximum number of states of a graph")


def run(arguments: argparse.Namespace) -> int:
    if arguments.resume_if_present:
        _resume_if_checkpoint_exists(arguments)
    whole = arguments.graph is not None and arguments.graph_around is None
    with (
        requested_model(arguments) as model,
        OutputFiles(arguments, "json", "trace", "graph", "junit", "report") as files,
    ):
        job = job_of_arguments(model, arguments.config, arguments, ("--graph",) if whole else ())
        drawing = _requested_graph(job, arguments)
        if arguments.trace:
            TlaStateConverter(job.protocol)  # refuses a protocol without a TLA+ view before the search
        if not arguments.quiet:
            print_lines(search_header_lines(job))
        search = drawing.search if drawing and whole else partial(run_job, job, quiet=arguments.quiet)
        result = simplify_counterexamples(job, run_with_diagnosis(job, search, strict=arguments.strict), arguments)
        code = report_result(job, result, arguments, files)
        if drawing:
            files.file("graph", lambda _: drawing.write(result))
        print_lines(resume_hint_lines(arguments.words, job.options, result))
        return code


def _requested_graph(job: SearchJob, arguments: argparse.Namespace) -> RequestedGraph | None:
    if arguments.graph is None and (arguments.graph_around or arguments.graph_most):
        raise InputError("--graph-around, --graph-most: no file to write; add --graph FILE")
    if arguments.graph is None:
        return None
    from kraftcheck.commands._graph import RequestedGraph  # imports networkx

    return RequestedGraph(job, arguments)


def _resume_if_checkpoint_exists(arguments: argparse.Namespace) -> None:
    """Turn `--checkpoint` into `--resume` if the folder holds a checkpoint."""
    if "checkpoint" not in arguments:
        raise InputError("--resume-if-present: no folder; add --checkpoint DIR")
    from kraftcheck.persistence.folder import MANIFEST_FILE

    if (Path(arguments.checkpoint) / MANIFEST_FILE).is_file():
        arguments.resume = arguments.checkpoint
        del arguments.checkpoint
