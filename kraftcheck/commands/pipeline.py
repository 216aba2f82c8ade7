"""Replay many traces on Spark and write the results as Parquet tables.

exit codes: 0 all traces conform; 1 one diverges, or one among several cannot be read; 2 bad input, or nothing that
could be read; 130 interrupted

for example:
    kraftcheck pipeline traces/ --out tables --model reconfig --config published.cfg
    kraftcheck pipeline 'traces/*.out.gz' --out tables --model reconfig --master spark://host:7077
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from kraftcheck.catalogue import Job, named_model
from kraftcheck.jobs import lenient_job
from kraftcheck.options import SPARK_LOG, add
from kraftcheck.reporting.as_json import attributes
from kraftcheck.reporting.files import OutputFiles
from kraftcheck.reporting.lines import OLD, PLAIN, WARNING, Line, Meter, actions_table, print_lines, print_warnings
from kraftcheck.reporting.replay import CONFORMS, DIVERGES, NOTHING_READ, verdict_counts
from kraftcheck.spec.values import cut
from kraftcheck.traces.pipeline.driver import InputFile, Pipeline, PipelineFolder, Summary, identity_of, inputs_of
from kraftcheck.traces.replay.replayer import ReplayVerdict

LONGEST = 160
"""Maximum length of a reason in the printed report; the tables have the whole text."""


def declare(parser: argparse.ArgumentParser) -> None:
    inputs = "trace files in any format of replay, folders of them, or glob patterns"
    parser.add_argument("inputs", nargs="+", metavar="IN", help=inputs)
    out = "folder for the tables; a second run replays only new files"
    parser.add_argument("--out", type=Path, metavar="DIR", required=True, help=out)
    add(parser, "--model", "--config", "--set", "--variant")
    add(parser, "--master", help="Spark's master (default: local[*])")
    add(parser, "--conf", "--max-size")
    add(parser, "--json", help="write the summary as JSON")
    add(parser, "--quiet", help="print no progress and no table of actions")
    add(parser, "--verbose", help=SPARK_LOG)


def run(arguments: argparse.Namespace) -> int:
    with named_model(arguments) as model, OutputFiles(arguments, "json") as files:
        inputs = inputs_of(arguments.inputs, arguments.out)
        job, warnings = lenient_job(model, arguments)
        print_warnings(warnings)
        with PipelineFolder(arguments.out, identity_of(job.protocol, job.options)) as output:
            kept = None if set(inputs) - output.done() else Summary.kept(output)
            summary = kept or _replay(job, arguments, inputs, output)
        print_lines(summary_lines(summary, quiet=arguments.quiet))
        files.json(lambda: as_json(summary))
    return exit_code(summary)


def _replay(job: Job, arguments: argparse.Namespace, inputs: list[InputFile], output: PipelineFolder) -> Summary:
    from kraftcheck.explorer.cluster import Cluster

    name, options = f"kraftcheck pipeline {job.model.name}", job.options
    init, symmetry = options.init, options.symmetry
    with (
        Cluster(name, options, job.model.protocol) as cluster,
        Meter("files replayed", quiet=arguments.quiet) as meter,
    ):
        pipeline = Pipeline(
            cluster, job.protocol, init=init, symmetry=symmetry, limit_bytes=arguments.max_size, output=output,
            seen_as=job.seen_as, fairness=options.fairness,
        )  # fmt: skip
        try:
            return pipeline.run(inputs, meter.reach)
        except KeyboardInterrupt:
            print("finished files are saved; the same command replays the rest", file=sys.stderr)
            raise


def exit_code(summary: Summary) -> int:
    """Return the exit code: 0 if all traces conform, 2 if no trace could be read, else 1."""
    if summary.errors and summary.traces == summary.verdicts.get("unreadable", 0):
        return NOTHING_READ
    conform = not summary.errors and summary.traces == summary.verdicts.get("conforms", 0)
    return CONFORMS if conform else DIVERGES


def as_json(summary: Summary) -> dict[str, Any]:
    """Return the JSON object of `--json`."""
    return {
        **attributes(summary, "files", "new_files", "traces", "steps"),
        **{verdict.value: summary.verdicts.get(verdict, 0) for verdict in ReplayVerdict},
        **attributes(summary, "errors", "distinct_states", "actions", "never_taken"),
    }


def summary_lines(summary: Summary, *, quiet: bool) -> Iterator[Line]:
    """Yield the summary as lines of text."""
    if not quiet:
        yield from actions_table({"taken": summary.actions}, least=12)
        yield []
    for file, index, step, reason in summary.diverging:
        what, where = ("refuted", "") if step is None else ("diverges", f", step {step}")
        yield [(OLD, what), (PLAIN, f": {file}, trace {index}{where}: {_first_line(reason)}")]
    for file, line, column, message in summary.unreadable:
        place = "" if line is None else f":{line}:{column}"
        yield [(OLD, "unreadable"), (PLAIN, f": {file}{place}: {_first_line(message)}")]
    if summary.never_taken:
        yield [(WARNING, f"Warning: no trace ever took {', '.join(summary.never_taken)}")]
    yield [
        *verdict_counts(summary.verdicts),
        (
            PLAIN,
            f"; {summary.steps:,} steps, {summary.distinct_states:,} distinct states, {summary.errors:,} errors; "
            f"{summary.new_files:,} of {summary.files:,} files are new",
        ),
    ]


def _first_line(text: str) -> str:
    return cut(text.partition("\n")[0], LONGEST)
