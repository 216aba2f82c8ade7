"""Check whether a model can take the steps of traces.

exit codes: 0 all traces conform; 1 a trace diverges, claims a false violation, or is one of several and cannot be read;
2 bad input, or no trace could be read; 130 interrupted

for example:
    kraftcheck replay reconfig --config small.cfg trace.out
    kraftcheck replay reconfig --config small.cfg traces/*.itf.json --report page.html --parquet tables
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kraftcheck.catalogue import SearchJob, requested_model
from kraftcheck.explorer.result import Violation
from kraftcheck.jobs import add_options, leniently_bound_job, parse_count
from kraftcheck.reporting.counterexample import counterexample_lines
from kraftcheck.reporting.lines import (
    FAINT,
    Line,
    ProgressMeter,
    escape_control_characters,
    note_lines,
    print_lines,
    print_warnings,
)
from kraftcheck.reporting.output import OutputFiles, write_counterexamples
from kraftcheck.reporting.replay import replay_as_json, replay_exit_code, replay_lines, verdict_counts_line
from kraftcheck.reporting.report import replay_as_report_data, replayed_state_as_step, write_report
from kraftcheck.runner import simplify_violating_trace
from kraftcheck.spec.errors import InputError
from kraftcheck.traces.replay.replayer import Replay, ReplayedState, ReplayVerdict
from kraftcheck.traces.trace import TraceFormat

if TYPE_CHECKING:
    from kraftcheck.traces.pipeline.tables import ReplayTableWriter


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_options(parser, "model")
    formats = ", ".join(known for known in TraceFormat if known.holds == TraceFormat.holds)
    parser.add_argument("traces", nargs="+", metavar="TRACE", help=f"a file with traces: {formats}")
    add_options(parser, "--config", "--set", "--variant", "--max-size")
    reach = "search up to N states for the first state of a trace that begins in the middle (default: 100,000)"
    parser.add_argument("--reach-first", type=parse_count, nargs="?", const=100_000, default=0, metavar="N", help=reach)
    add_options(parser, "--report", help="write the traces as a page for the browser (.html), or as Markdown (.md)")
    add_options(parser, "--json", help="write the verdict on each trace as JSON")
    add_options(parser, "--simplify", help="shrink a trace that violates a property")
    add_options(parser, "--simplify-time")
    add_options(
        parser, "--trace", help="write the trace of --simplify (.itf.json: ITF; .json: TLC's JSON; else: TLC's text)"
    )
    parquet = "write the Parquet tables of `kraftcheck pipeline`, without Spark"
    parser.add_argument("--parquet", type=Path, metavar="DIR", help=parquet)
    add_options(parser, "--quiet", help="print only the verdicts")


def run(arguments: argparse.Namespace) -> int:
    if arguments.trace and not arguments.simplify:
        raise InputError("--trace: no trace to write; add --simplify")
    with requested_model(arguments) as model, OutputFiles(arguments, "json", "report", "trace") as files:
        job, warnings = leniently_bound_job(model, arguments)
        print_warnings(warnings)
        replays, runs, simpler = list[Replay](), list[dict[str, Any]](), list[Violation]()
        for replay, walked in _replay_traces(job, arguments):
            replays.append(replay)
            if arguments.report:
                runs.append(replay_as_report_data(job, replay, walked))
            if replay.verdict is ReplayVerdict.UNREADABLE:
                print(escape_control_characters(f"kraftcheck: error: {replay.problem}"), file=sys.stderr)
            else:
                print_lines(replay_lines(replay, quiet=arguments.quiet))
            if arguments.simplify and replay.verdict is ReplayVerdict.CONFORMS:
                print_lines(_simplify_trace_and_yield_lines(job, replay, walked, arguments, simpler))
        verdicts = Counter[str](replay.verdict for replay in replays)
        if len(replays) > 1:
            print_lines([verdict_counts_line(verdicts)])
        files.json(lambda: [replay_as_json(replay) for replay in replays])
        files.file("report", lambda path: write_report(path, runs))
        files.file("trace", lambda path: write_counterexamples(job.protocol, simpler, path))
    return replay_exit_code(verdicts)


def _replay_traces(job: SearchJob, arguments: argparse.Namespace) -> Iterator[tuple[Replay, list[ReplayedState]]]:
    """Yield the result of each trace, with its states if an option needs them."""
    walked: list[ReplayedState] = []
    with ProgressMeter("states replayed", quiet=arguments.quiet) as meter, _parquet_writer(arguments, job) as tables:
        watches = [walked.append] if arguments.report or arguments.simplify else []
        watches += [tables.watch] if tables else []
        watch = partial(_call_watchers_on_replayed_state, watches) if watches else None
        partly: dict[str, Any] = {"reach_first": arguments.reach_first}
        replayer = job.replayer(limit_bytes=arguments.max_size, report=meter.add, watch=watch, **partly)
        for file in arguments.traces:
            for replay in replayer.replay(file):
                if tables:
                    tables.end(replay)
                yield replay, walked
                walked.clear()


def _simplify_trace_and_yield_lines(
    job: SearchJob, replay: Replay, walked: list[ReplayedState], arguments: argparse.Namespace, simpler: list[Violation]
) -> Iterator[Line]:
    """Yield a shrunk trace as lines, and append it to `simpler`."""
    simplified = simplify_violating_trace(
        job, tuple(replayed_state_as_step(one) for one in walked), replay.violated, arguments
    )
    if simplified is None:
        yield [(FAINT, "  Note: --simplify: this trace violates no property in its last state")]
        return
    found, note = simplified
    simpler.append(found)
    yield []
    yield from counterexample_lines(job.protocol, found)
    yield []
    yield from note_lines([note])


def _parquet_writer(arguments: argparse.Namespace, job: SearchJob) -> AbstractContextManager[ReplayTableWriter | None]:
    """Return the writer of the Parquet tables as a context manager, or an empty context."""
    if not arguments.parquet:
        return nullcontext()
    if find_spec("pyarrow") is None:
        raise InputError("--parquet needs the package pyarrow: pip install 'kraftcheck[parquet]'")
    from kraftcheck.traces.pipeline.tables import ReplayTableWriter

    return ReplayTableWriter(arguments.parquet, job.protocol, job.options)


def _call_watchers_on_replayed_state(watches: Iterable[Callable[[ReplayedState], None]], step: ReplayedState) -> None:
    for watch in watches:
        watch(step)
