"""Search a model's states for a violation.

exit codes: 0 all holds and the search was complete; 11 deadlock; 12 a property is violated; 13 something does
not stay reachable, or a temporal property is violated; 14 an assert failed; 20 nothing violated, but the search
stopped at a limit, or with --strict a warning stands; 2 bad input; 130 interrupted

for example:
    kraftcheck check reconfig --config smoke
    kraftcheck check reconfig --variant observer-stands --config fault.observer-stands --report found.html
    kraftcheck check my_protocol.py:MyProtocol --config small.cfg --max-states 100000
    kraftcheck check quorum --memory 4G --checkpoint kept --time-limit 3600
    kraftcheck check quorum --config smoke --github --junit smoke.xml --json smoke.json     # in CI
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from kraftcheck.catalogue import Job, named_model
from kraftcheck.explorer.request import SearchRequest
from kraftcheck.explorer.result import Result
from kraftcheck.jobs import job_of
from kraftcheck.options import CHECKED, add, count
from kraftcheck.reporting.files import Writing
from kraftcheck.reporting.lines import notes, print_lines
from kraftcheck.reporting.summary import header, how_to_go_on
from kraftcheck.running import judged, run_job, simplify, tell
from kraftcheck.spec.errors import InputError
from kraftcheck.spec.tla.view import StateView

if TYPE_CHECKING:
    from kraftcheck.explorer.graph import Graph
    from kraftcheck.spec.language.state import State


def declare(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    add(parser, "model")
    add(parser.add_argument_group("what is checked"), *CHECKED, "--variant")
    add(parser.add_argument_group("how"), "--search", "--engine", "--workers", "--memory")
    add(parser.add_argument_group("on Spark, with --engine spark"), "--master", "--conf", "--verbose")
    add(parser.add_argument_group("where to stop"), "--max-states", "--max-depth", "--max-nodes", "--time-limit")
    resuming = parser.add_argument_group("stopping and going on")
    add(resuming, "--checkpoint", "--checkpoint-every", "--resume", "--resume-if-present")
    files = parser.add_argument_group("output")
    add(files, "--view", "--simplify", "--simplify-time", "--report", "--json", "--trace", "--calls", "--quiet")
    add(parser.add_argument_group("for CI"), "--junit", "--github", "--allow-incomplete", "--strict")
    files.add_argument(
        "--graph", type=Path, metavar="FILE", help="write the state graph (.graphml, .json, .dot or .svg)"
    )
    around = "only the states of the counterexample, and those up to N steps from these"
    files.add_argument("--graph-around", type=count, metavar="N", help=around)
    files.add_argument("--graph-most", type=count, metavar="N", help="states of a graph that may be written")


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    if arguments.resume_if_present:
        _resume(arguments)
    whole = arguments.graph is not None and arguments.graph_around is None
    with named_model(arguments) as model, Writing(arguments, "json", "trace", "graph", "junit", "report") as files:
        job = job_of(model, arguments.config, arguments, ("--graph",) if whole else ())
        _require_drawable(job, arguments)
        if not arguments.quiet:
            print_lines(header(job))
        graphs: list[Graph] = []
        search = partial(_with_graph, job, arguments, graphs) if whole else partial(run_job, job, quiet=arguments.quiet)
        result = simplify(job, judged(job, search, strict=arguments.strict), arguments)
        code = tell(job, result, arguments, files)
        if not whole:
            files.file("graph", lambda _: _draw_around(job, result, arguments))
        elif graphs:
            files.file("graph", lambda _: _write(graphs[0], arguments))
        print_lines(how_to_go_on(arguments.words, job.options, result))
        return code


def _require_drawable(job: Job, arguments: argparse.Namespace) -> None:
    """Refuse before the search a protocol without variables of TLA+, and a graph that cannot be drawn."""
    if arguments.trace or arguments.graph:
        StateView(job.protocol)
    if arguments.graph is None and (arguments.graph_around or arguments.graph_most):
        raise InputError("--graph-around, --graph-most: expected --graph too, the file to write")
    if arguments.graph:
        from kraftcheck.explorer.graph import graph_writer

        graph_writer(arguments.graph)


def _resume(arguments: argparse.Namespace) -> None:
    """Ask for the checkpoint to be gone on from, where there is one."""
    if "checkpoint" not in arguments:
        raise InputError("--resume-if-present: expected --checkpoint too, the folder to look into")
    from kraftcheck.persistence.folder import MANIFEST

    if (Path(arguments.checkpoint) / MANIFEST).is_file():
        arguments.resume = arguments.checkpoint
        del arguments.checkpoint


def _with_graph(job: Job, arguments: argparse.Namespace, graphs: list[Graph]) -> Result:
    """Run the search, and keep its state graph unless it is interrupted."""
    from kraftcheck.explorer.graph import explore_graph

    def work(options: SearchRequest) -> Result:
        result, graph = explore_graph(job.protocol, options, _state_text(job))
        graphs.append(graph)
        return result

    return run_job(job, quiet=arguments.quiet, work=work)


def _draw_around(job: Job, result: Result, arguments: argparse.Namespace) -> None:
    """Write the graph of the surroundings of the first counterexample."""
    from kraftcheck.explorer.graph import MOST, surroundings
    from kraftcheck.spec.language.semantics import Semantics

    if not result.violations:
        arguments.graph.unlink(missing_ok=True)  # nobody shall take that of an earlier run for this one's
        print_lines(notes(["nothing is violated: there is no graph of a counterexample's surroundings"]))
        return
    trace, most = result.violations[0].trace, arguments.graph_most or MOST
    _write(surroundings(Semantics(job.protocol), trace, arguments.graph_around, most, _state_text(job)), arguments)


def _write(graph: Graph, arguments: argparse.Namespace) -> None:
    """Write a state graph, and say before how large it is."""
    from kraftcheck.explorer.graph import size_of, write_graph

    said = size_of(graph, arguments.graph, arguments.graph_most)
    if not arguments.quiet:
        print_lines(notes([f"{arguments.graph}: {said}"]))
    write_graph(graph, arguments.graph)


def _state_text(job: Job) -> Callable[[State], str]:
    from kraftcheck.traces.formats.tlc_log import state_text

    view = StateView(job.protocol)
    return lambda state: state_text(view.variables(state))
