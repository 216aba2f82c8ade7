"""Compare a model's states with those that TLC finds.

exit codes: 0 equal; 1 different; 11, 12, 13 TLC itself found a deadlock, or a safety or temporal property violated;
2 bad input, or TLC cannot do its part; 130 interrupted
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from kraftcheck.catalogue import find_model
from kraftcheck.engines import choose, search
from kraftcheck.explorer.reference import ReferenceSearch
from kraftcheck.explorer.result import Options, Progress, Result, Search
from kraftcheck.jobs import blaming, lenient_job
from kraftcheck.options import add, count
from kraftcheck.reporting.crosscheck import Outcome, as_json, told
from kraftcheck.reporting.files import require_writable, write_json
from kraftcheck.reporting.lines import print_lines, print_warnings
from kraftcheck.reporting.progress import Meter
from kraftcheck.spec.cfg.binding import BoundConfig
from kraftcheck.spec.errors import InputError
from kraftcheck.spec.tla.view import StateView
from kraftcheck.traces.crosscheck.comparison import Comparison, depth_of, times_taken
from kraftcheck.traces.files import detect_format, read_graph, read_states
from kraftcheck.traces.parsing.lines import DEFAULT_LIMIT
from kraftcheck.traces.replay.replayer import Replayer
from kraftcheck.traces.replay.state_reader import StateReader
from kraftcheck.traces.trace import TraceFormat, TraceState

if TYPE_CHECKING:
    from kraftcheck.traces.crosscheck.tlc import TlcProgress

EQUAL, DIFFERENT = 0, 1
VIOLATED = {"deadlock": 11, "safety": 12, "temporal": 13}
"""Exit codes, those of TLC where TLC finds a violation."""


def declare(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    add(parser, "model")
    add(parser, "--config", help="a .cfg file, or one of the model's", required=True)
    add(parser, "--variant")
    other = parser.add_mutually_exclusive_group(required=True)
    other.add_argument("--dump", type=Path, metavar="FILE", help="what TLC wrote with -dump, or -dump dot,actionlabels")
    other.add_argument("--spec", type=Path, metavar="FILE", help="a .tla file: TLC is run on a copy of it")
    what = "with --spec: compare the states themselves up to so many (default: 10,000)"
    parser.add_argument("--compare-states", type=count, default=10_000, metavar="N", help=what)
    add(parser, "--workers", help="with --spec: TLC's threads (default: 1)", default=1)
    add(parser, "--max-size")
    add(parser, "--json")
    add(parser, "--quiet", help="no progress, and only what differs")


def run(arguments: argparse.Namespace) -> int:
    """Run the command.

    Parameters
    ----------
    arguments
        What was read from the command line.

    Returns
    -------
    int
        The exit code.

    Raises
    ------
    InputError
        For bad input, and where TLC cannot do its part.
    """
    model = find_model(arguments.model, arguments.variant)
    with blaming(model):
        require_writable(arguments, "json")
        name, bound, warnings = lenient_job(model, arguments, whole_space=True)
        if bound.view is not None:
            found = "which states are found under a view may depend on the order of the search"
            warnings.append(f"VIEW {bound.view}: {found}")
        print_warnings(warnings)
        file = str(model.configurations.get(name, name))
        job = _Job(bound, file, arguments.max_size or DEFAULT_LIMIT, arguments.quiet)
        if arguments.dump is not None:
            outcome = _with_dump(job, arguments.dump)
        else:
            outcome = _with_spec(job, arguments.spec, arguments.compare_states, arguments.workers)
        if arguments.json:
            write_json(arguments.json, as_json(model.name, bound.protocol, file, outcome))
        print_lines(told(bound.protocol, outcome, quiet=arguments.quiet))
    if outcome.tlc is not None and outcome.tlc.violated is not None:
        return VIOLATED[outcome.tlc.kind or "safety"]
    return EQUAL if outcome.equal else DIFFERENT


@dataclass(frozen=True)
class _Job:
    """What is compared, and how."""

    bound: BoundConfig
    config_file: str
    limit_bytes: int
    quiet: bool

    @property
    def options(self) -> Options:
        """Options of a search of the whole space that checks nothing."""
        return Options.of(self.bound, properties=(), deadlock=False)


def _with_dump(job: _Job, dump: Path) -> Outcome:
    form = detect_format(dump)
    if form not in (TraceFormat.TLC_DUMP, TraceFormat.TLC_DOT):
        raise InputError(f"{dump}: expected what TLC writes with -dump, found what looks like a {form}")
    return _compared(job, _space(job), dump, form)


def _compared(job: _Job, found: ReferenceSearch, dump: Path, form: TraceFormat) -> Outcome:
    """Compare what a search of ours found with a dump."""
    view = StateView(job.bound.protocol)
    reader = StateReader(view, job.bound.protocol.name(), str(dump), job.limit_bytes)
    comparison = Comparison(found, reader)
    outcome = Outcome(found.result, found)
    if form is TraceFormat.TLC_DUMP:
        outcome.states = comparison.states(_shown(read_states(dump, limit_bytes=job.limit_bytes), job))
        outcome.their_distinct = outcome.states.theirs
    else:
        graph = read_graph(dump, limit_bytes=job.limit_bytes)
        outcome.states, outcome.edges = comparison.graph(graph)
        outcome.their_distinct = outcome.states.theirs
        outcome.their_actions, outcome.their_depth = times_taken(graph), depth_of(graph)
    return outcome


def _shown(states: Iterator[TraceState], job: _Job) -> Iterator[TraceState]:
    """Yield states, showing how many were read."""
    with Meter("states of the dump read", quiet=job.quiet) as meter:
        for state in states:
            meter.add()
            yield state


def _space(job: _Job) -> ReferenceSearch:
    """Search all states, keeping them, and show the progress."""
    with Meter(quiet=job.quiet) as meter:
        found = ReferenceSearch(job.bound.protocol, replace(job.options, report=meter.show))
        found.run()
        return found


def _with_spec(job: _Job, spec: Path, compare_states: int, workers: int) -> Outcome:
    """Run TLC on a copy of a specification, and compare what it finds."""
    from kraftcheck.traces.crosscheck import tlc

    tool = tlc.find_tool()
    with tempfile.TemporaryDirectory(prefix="kraftcheck-") as name:
        folder = Path(name)
        copy = tlc.copied(spec, folder)
        text = tlc.unpacked(Path(job.config_file)).decode()
        text, options, left_out = tlc.prepared_config(text, job.config_file, tlc.unknown_keywords(tool.class_path))
        config = folder / "model.cfg"
        config.write_text(text, encoding="utf-8")
        tlc.parse(tool, copy)
        counted = _counted(job)
        dump = folder / "graph.dot" if counted.distinct_states <= compare_states else None
        with Meter(quiet=job.quiet) as meter:
            began = time.monotonic()

            def report(now: TlcProgress) -> None:
                seconds = time.monotonic() - began
                meter.show(Progress(now.distinct, now.generated, now.depth, now.left, seconds))

            done = tlc.run(tool, copy, config, options, dump=dump, workers=workers, report=report)
        if done.violated is not None:
            replayer = Replayer(job.bound.protocol, init=job.bound.init, symmetry=job.bound.symmetry)
            outcome = Outcome(counted, counterexamples=list(replayer.replay(done.log)))
        elif dump is not None:
            outcome = _compared(job, _space(job), dump, TraceFormat.TLC_DOT)
        else:
            outcome = Outcome(counted)
            outcome.notes.append(f"more than {compare_states:,} states: the states themselves were not compared")
    outcome.tlc, outcome.their_distinct, outcome.their_depth = done, done.distinct, done.depth
    outcome.their_actions = {name: times for name, times in done.actions.items() if name != job.bound.init}
    outcome.notes += [f"this TLC does not know {what}, which was left out" for what in left_out]
    if workers > 1:
        outcome.notes.append("with several workers the depth that TLC reports may be off")
    return outcome


def _counted(job: _Job) -> Result:
    """Count our states with the fastest engine."""
    with Meter(quiet=job.quiet) as meter:
        options = replace(job.options, report=meter.show)
        return search(choose(None, Search.BFS), job.bound.protocol, options, is_named=False)[1]
