"""Replay many traces, on Spark or by worker processes, and write the results as tables.

exit codes: 0 all traces conform; 1 one diverges, or one among several cannot be read; 2 bad input, or nothing that
could be read; 3 Spark or a worker process failed; 130 interrupted

for example:
    kraftcheck pipeline traces/ --out tables --model reconfig --config published.cfg
    kraftcheck pipeline 'traces/*.out.gz' --out tables --model reconfig --master spark://host:7077
    kraftcheck pipeline traces/ --out tables --model reconfig --workers 8 --trace-time 60 --follow
    kraftcheck pipeline s3a://bucket/traces --out s3a://bucket/tables --model reconfig --label commit=abc
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import cache, partial
from importlib.util import find_spec
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kraftcheck.catalogue import SearchJob, requested_model
from kraftcheck.explorer.request import parse_bytes, parse_seconds
from kraftcheck.files import is_uri, real_path
from kraftcheck.jobs import SPARK_LOG_HELP, add_options, leniently_bound_job, parse_count
from kraftcheck.reporting.lines import ProgressMeter, print_lines, print_warnings
from kraftcheck.reporting.output import OutputFiles
from kraftcheck.reporting.replay import pipeline_as_json, pipeline_exit_code, pipeline_lines
from kraftcheck.spec.errors import InputError
from kraftcheck.traces.pipeline.driver import (
    BatchRunner,
    BatchStore,
    InputFile,
    Pipeline,
    PipelineFolder,
    PipelineSummary,
    file_replayer_arguments,
    find_input_files,
    identity_of_output,
    poll_unchanged_input_files,
)

if TYPE_CHECKING:
    from kraftcheck.explorer.spark_cluster import SparkApplication


def add_arguments(parser: argparse.ArgumentParser) -> None:
    inputs = "trace files in any format of replay, folders of them, or glob patterns; or URIs of these"
    parser.add_argument("inputs", nargs="+", metavar="IN", help=inputs)
    out = "folder for the tables, or its URI; a second run replays only new files"
    parser.add_argument("--out", metavar="DIR", required=True, help=out)
    form = "format of new tables at a URI (default: delta where the package delta-spark is installed, else parquet)"
    parser.add_argument("--table-format", choices=("delta", "parquet"), help=form)
    add_options(parser, "--model", "--config", "--set", "--variant")
    add_options(parser, "--master", help="Spark's master (default: local[*])")
    add_options(parser, "--conf", "--max-size")
    workers = "replay in N processes of this machine, without Spark (default where PySpark is not installed)"
    parser.add_argument("--workers", type=parse_count, dest="processes", metavar="N", help=workers)
    limit = "give up a trace after this time; its file gets a row in the table of errors"
    parser.add_argument("--trace-time", type=parse_seconds, metavar="SECONDS", help=limit)
    limit = "give up a trace that takes more memory, such as 512M, beyond what the process has before it"
    parser.add_argument("--trace-memory", type=parse_bytes, metavar="SIZE", help=limit)
    follow = "go on with the files that arrive in the folders IN, until Ctrl-C or SIGTERM"
    parser.add_argument("--follow", action="store_true", help=follow)
    label = "text for the column `label` of the traces that this run replays, such as a commit"
    parser.add_argument("--label", metavar="TEXT", help=label)
    verify = "read all rows of the tables first, rather than their number alone"
    parser.add_argument("--verify", action="store_true", help=verify)
    add_options(parser, "--json", help="write the summary as JSON")
    add_options(parser, "--quiet", help="print no progress and no table of actions")
    add_options(parser, "--verbose", help=SPARK_LOG_HELP)


def run(arguments: argparse.Namespace) -> int:
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")  # it takes 20 MiB less than pyarrow's own allocator
    if any(map(is_uri, [*arguments.inputs, arguments.out])):
        return _run_on_uris(arguments)
    if arguments.table_format:
        raise InputError(f"--table-format: expected a URI in --out, found {arguments.out}; paths get Parquet files")
    with requested_model(arguments) as model, OutputFiles(arguments, "json") as files:
        names, out, follow = arguments.inputs, Path(arguments.out), arguments.follow
        rounds = poll_unchanged_input_files(names, out) if follow else iter([find_input_files(names, out)])
        first = next(rounds)
        job, warnings = leniently_bound_job(model, arguments)
        print_warnings(warnings)
        identity = identity_of_output(job.protocol, job.options)
        with PipelineFolder(out, identity, verify=arguments.verify) as output, ExitStack() as started:
            runner = cache(lambda: started.enter_context(_replay_runner(job, arguments, output)))
            for inputs in chain([first], rounds):
                is_new = not output.done().issuperset(inputs)
                if follow and not is_new:
                    _require_live_runner(runner)
                    continue
                kept = None if is_new else PipelineSummary.kept(output)
                summary = kept or _replay_files(runner(), output, inputs, quiet=arguments.quiet)
                print_lines(pipeline_lines(summary, quiet=arguments.quiet or follow))
                files.json(partial(pipeline_as_json, summary))
    return pipeline_exit_code(summary)


def _require_live_runner(runner: Any) -> None:
    """Raise ProcessFailureError if the runner, if it is started, has lost a process."""
    if runner.cache_info().currsize:
        runner().require_running()


def _run_on_uris(arguments: argparse.Namespace) -> int:
    """Replay the files under URIs into tables under a URI, by Spark's readers and writers."""
    if arguments.follow or arguments.processes:
        option = "--follow" if arguments.follow else "--workers"
        raise InputError(f"{option}: expected paths of this machine, found a URI; remove {option}, and Spark reads it")
    for name in (*arguments.inputs, arguments.out):
        if not is_uri(name):
            raise InputError(f"{name}: expected a URI, as another argument is one; write file://{real_path(name)}")
    from kraftcheck.traces.pipeline.spark_tables import DELTA_SETTINGS, SparkTableRunnerAndStore

    form = arguments.table_format or ("delta" if find_spec("delta") else "parquet")
    with requested_model(arguments) as model, OutputFiles(arguments, "json") as files:
        job, warnings = leniently_bound_job(model, arguments)
        print_warnings(warnings)
        with _start_spark(job, **dict(DELTA_SETTINGS if form == "delta" else ())) as cluster:
            stored = SparkTableRunnerAndStore(
                cluster, job.protocol, _replayer_arguments_as_json(job, arguments), arguments.out, form
            )
            summary = _replay_files(stored, stored, stored.inputs(arguments.inputs), quiet=arguments.quiet)
        print_lines(pipeline_lines(summary, quiet=arguments.quiet))
        files.json(partial(pipeline_as_json, summary))
    return pipeline_exit_code(summary)


def _replay_files(runner: BatchRunner, output: BatchStore, inputs: list[InputFile], *, quiet: bool) -> PipelineSummary:
    with ProgressMeter("files replayed", quiet=quiet) as meter:
        try:
            return Pipeline(runner, output).run(inputs, meter.reach)
        except KeyboardInterrupt:
            print("finished files are saved; the same command replays the rest", file=sys.stderr)
            raise


@contextmanager
def _replay_runner(job: SearchJob, arguments: argparse.Namespace, output: PipelineFolder) -> Iterator[BatchRunner]:
    """Yield what replays files: worker processes if asked for, or where there is no Spark; else Spark."""
    task = _replayer_arguments_as_json(job, arguments)
    on_spark = bool(job.options.master or job.options.conf)
    if arguments.processes and on_spark:
        raise InputError("--workers: replays without Spark; remove it, or remove --master and --conf")
    if arguments.processes or not (on_spark or find_spec("pyspark")):
        if find_spec("pyarrow") is None:
            raise InputError("pipeline needs the package pyarrow: pip install 'kraftcheck[parquet]'")
        from kraftcheck.traces.pipeline.tables import PoolRunner

        with PoolRunner(arguments.processes, job.protocol, task, output) as pool:
            if not arguments.processes:
                what = f"{pool.workers} processes of this machine replay (--workers)"
                print_warnings([f"PySpark is not installed: {what}"])
            yield pool
        return
    from kraftcheck.traces.pipeline.frames import SparkRunner

    with _start_spark(job) as cluster:
        yield SparkRunner(cluster, job.protocol, task, output)


def _start_spark(job: SearchJob, **settings: str) -> SparkApplication:
    """Start Spark, with settings beside those of the job."""
    from kraftcheck.explorer.spark_cluster import LEAST_REPLAY_VERSION, SparkApplication

    options = replace(job.options, conf=tuple((settings | dict(job.options.conf)).items()))
    return SparkApplication(
        f"kraftcheck pipeline {job.model.name}", options, job.model.protocol, least=LEAST_REPLAY_VERSION
    )


def _replayer_arguments_as_json(job: SearchJob, arguments: argparse.Namespace) -> str:
    """Return the arguments of the tasks."""
    return file_replayer_arguments(
        job.protocol, job.options, limit_bytes=arguments.max_size, seen_as=job.seen_as, seconds=arguments.trace_time,
        memory=arguments.trace_memory, label=arguments.label,
    )  # fmt: skip
