"""`kraftcheck pipeline`: many traces replayed on Spark, into tables of Parquet."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from kraftcheck.catalogue import Model, find_config, find_model
from kraftcheck.commands.check import guarded
from kraftcheck.commands.lenient_binding import bind_leniently
from kraftcheck.commands.outputs import require_writable, write_json
from kraftcheck.commands.replay import CONFORMS, DIVERGES, NOTHING_READ, WORDS
from kraftcheck.explorer.result import Options
from kraftcheck.explorer.tables.checkpoints.search_identity import identity_of_search
from kraftcheck.reporting.changes import NEW, OLD, PLAIN
from kraftcheck.reporting.counterexample import ACTION, FAINT, HEAD, Line
from kraftcheck.reporting.progress import Count
from kraftcheck.reporting.summary import WARNING, print_lines
from kraftcheck.spec.cfg.config import override, parse_setting
from kraftcheck.spec.language.protocol import Protocol
from kraftcheck.traces.parsing.lines import DEFAULT_LIMIT
from kraftcheck.traces.pipeline.driver import Pipeline, Summary
from kraftcheck.traces.pipeline.output import PipelineFolder, inputs_of


def run(arguments: argparse.Namespace) -> int:
    """Run the command.

    Parameters
    ----------
    arguments
        What `kraftcheck.cli` read.

    Returns
    -------
    int
        The exit code: as that of `replay`, over all traces in the output folder.

    Raises
    ------
    InputError
        For bad input other than traces.
    """
    model = find_model(arguments.model, arguments.variant)
    return guarded(model, lambda: _run(model, arguments))


def _run(model: Model, arguments: argparse.Namespace) -> int:
    require_writable({"--json": arguments.json})
    out: Path = arguments.out
    inputs = inputs_of(arguments.inputs, out)
    config = find_config(model, arguments.config)[1]
    config = override(config, [parse_setting(text, config) for text in arguments.set])
    bound, warnings = bind_leniently(model.protocol, config, whole_space=False)
    print_lines([(WARNING, f"Warning: {text}")] for text in warnings)
    with PipelineFolder(out, _identity(bound.protocol, bound.init, bound.symmetry)) as output:
        summary = _replay(model, arguments, bound, inputs, output)
    print_lines(told(summary, quiet=arguments.quiet))
    if arguments.json:
        write_json(arguments.json, as_json(summary))
    return exit_code(summary)


def _replay(model: Model, arguments: argparse.Namespace, bound: Any, inputs: Any, output: PipelineFolder) -> Summary:
    from kraftcheck.explorer.spark.session import Cluster

    limit = DEFAULT_LIMIT if arguments.max_size is None else arguments.max_size
    count = Count("files replayed", quiet=arguments.quiet)
    cluster = Cluster(f"kraftcheck pipeline {model.name}", arguments.master, arguments.conf, model.protocol)
    try:
        pipeline = Pipeline(
            cluster, bound.protocol, init=bound.init, symmetry=bound.symmetry, limit_bytes=limit, output=output
        )
        return pipeline.run(inputs, count.reach)
    except KeyboardInterrupt:
        print("what is done counts; the same command goes on with the rest", file=sys.stderr)
        raise
    finally:
        count.close()
        cluster.close()


def _identity(protocol: Protocol, init: str, symmetry: str | None) -> dict[str, Any]:
    whole = identity_of_search(protocol, Options(init=init, symmetry=symmetry))
    return {name: whole[name] for name in ("model", "source", "constants", "symmetry", "start")}


def exit_code(summary: Summary) -> int:
    """Return the exit code: 0 where all conform, 2 where nothing could be read, 1 otherwise."""
    read = summary.traces - summary.verdicts.get("unreadable", 0)
    if not read and summary.errors:
        return NOTHING_READ
    return CONFORMS if not summary.errors and summary.verdicts.get("conforms", 0) == summary.traces else DIVERGES


def as_json(summary: Summary) -> dict[str, Any]:
    """Return what `--json` says."""
    return {
        "files": summary.files,
        "new_files": summary.new_files,
        "traces": summary.traces,
        "steps": summary.steps,
        "conforms": summary.verdicts.get("conforms", 0),
        "diverges": summary.verdicts.get("diverges", 0),
        "unreadable": summary.verdicts.get("unreadable", 0),
        "errors": summary.errors,
        "distinct_states": summary.distinct_states,
        "actions": summary.actions,
        "never_taken": summary.never_taken,
    }


def told(summary: Summary, *, quiet: bool) -> Iterator[Line]:
    """Yield the summary as lines for a person."""
    if not quiet:
        width = max(map(len, summary.actions), default=0)
        yield [(HEAD, f"{'action':<{width}}  {'taken':>12}")]
        for name, times in summary.actions.items():
            yield [(ACTION, f"{name:<{width}}"), (PLAIN if times else FAINT, f"  {times:>12,}")]
        yield []
    for file, index, step, reason in summary.diverging:
        yield [(OLD, "diverges"), (PLAIN, f": {file}, trace {index}, step {step}: {_first_line(reason)}")]
    for file, line, column, message in summary.unreadable:
        place = "" if line is None else f":{line}:{column}"
        yield [(OLD, "unreadable"), (PLAIN, f": {file}{place}: {_first_line(message)}")]
    if summary.never_taken:
        yield [(WARNING, f"Warning: no trace ever took {', '.join(summary.never_taken)}")]
    parts = [f"{count:,} {WORDS[verdict]}" for verdict, count in summary.verdicts.items()]
    yield [
        (HEAD, f"{summary.traces:,} traces"),
        (NEW if exit_code(summary) == 0 else PLAIN, f": {', '.join(parts) or 'none'}"),
        (
            PLAIN,
            f"; {summary.steps:,} steps, {summary.distinct_states:,} distinct states, {summary.errors:,} errors; "
            f"{summary.new_files:,} of {summary.files:,} files are new",
        ),
    ]


def _first_line(text: str) -> str:
    line = text.partition("\n")[0]
    return line if len(line) <= 160 else line[:157] + "..."
