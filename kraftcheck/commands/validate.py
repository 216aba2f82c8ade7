"""Validate what the logs and disks of a real Kafka cluster show.

exit codes: 0 the logs conform; 1 they diverge from the model; 12 a property or a check is broken; 20 nothing is wrong,
but a voter's log, lines or messages are missing, or a limit stopped the replay; 2 bad input; 130 interrupted

for example:
    kraftcheck validate quorum logs/
    kraftcheck validate quorum node1.log.gz node2.log.gz node3.log.gz disks.tar.gz --report page.html
    kraftcheck validate quorum --print-setup
"""

from __future__ import annotations

import argparse
import re
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from kraftcheck.explorer.request import parse_bytes, parse_seconds
from kraftcheck.jobs import add_options
from kraftcheck.reporting.lines import ProgressMeter, print_lines
from kraftcheck.reporting.output import OutputFiles
from kraftcheck.spec.errors import InputError
from kraftcheck.spec.values import truncate_text

if TYPE_CHECKING:
    from kraftcheck.reporting.validation import ClusterTimeline
    from kraftcheck.validation.verdict import Validation

KAFKA_VERSION_PATTERN = re.compile(r"\d+(\.\d+)+([.-]\w+)*", re.ASCII)  # also a build such as 4.5.0-SNAPSHOT


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_options(parser, "model", help="quorum")
    paths = "log4j files (gzipped, rotated, in any order), data folders, tarballs or folders of them"
    parser.add_argument("paths", nargs="+", type=Path, default=[], metavar="PATH", help=paths).required = False
    kafka = "Kafka's version, for the output (default: the one that the logs show)"
    parser.add_argument("--kafka", type=_parse_kafka_version, metavar="VERSION", help=kafka)
    known = "let the model deviate only as this known difference of Kafka does (repeatable; default: all)"
    parser.add_argument("--known", action="append", default=[], metavar="NAME", help=known)
    without = "report this known difference: the model does not deviate there (repeatable)"
    parser.add_argument("--without", action="append", default=[], metavar="NAME", help=without)
    logs = parser.add_argument_group("logs")
    node = "read the events of this file or folder as those of a node (repeatable)"
    logs.add_argument("--node", action="append", default=[], metavar="ID=PATH", help=node)
    pattern = "log4j's pattern of the files (default: [%%d] %%p %%m (%%c)%%n)"
    logs.add_argument("--pattern", metavar="PATTERN", help=pattern)
    logs.add_argument("--from", dest="since", metavar="TIME", help="leave out earlier lines (2026-11-25T13:19:44)")
    logs.add_argument("--to", dest="until", metavar="TIME", help="leave out later lines")
    add_options(logs, "--max-size", default=parse_bytes("64G"))
    limit = "stop the replay after this time, with exit code 20"
    logs.add_argument("--time-limit", dest="stop_after", type=parse_seconds, metavar="SECONDS", help=limit)
    monitors = "exit with 0 if nothing is broken in INFO logs or disks, which show no steps"
    parser.add_argument("--monitors", action="store_true", help=monitors)
    setup = "print what to change on a cluster for each way to observe it, and its cost"
    parser.add_argument("--print-setup", action="store_true", help=setup)
    output = parser.add_argument_group("output")
    add_options(
        output, "--report", help="write a page for the browser, with the cluster's life as a sequence diagram (.html)"
    )
    add_options(output, "--json")
    output.add_argument("--parquet", type=Path, metavar="FILE", help="write the events as a Parquet table")
    events = "write the events, for other tools and for validate, as NDJSON of docs/validate-events.schema.json"
    output.add_argument("--events", type=Path, metavar="FILE", help=events)
    add_options(output, "--junit", help="write the replay and each check as JUnit's XML")
    add_options(output, "--quiet", help="print only the verdict, the divergence, and broken checks")


def _parse_kafka_version(text: str) -> str:
    if not KAFKA_VERSION_PATTERN.fullmatch(text):
        raise argparse.ArgumentTypeError(f"expected a version such as 4.3.1, found {truncate_text(text, 60)!r}")
    return text


def run(arguments: argparse.Namespace) -> int:
    if arguments.model != "quorum":
        raise InputError(f"{arguments.model}: not supported by validate; use the model quorum")
    if arguments.print_setup:
        from kraftcheck.reporting.validation import SETUP_TEXT

        print(SETUP_TEXT, end="")
        return 0
    if not arguments.paths and not arguments.node:
        raise InputError("PATH: expected logs or disks of a cluster, found none; name files or folders")
    if arguments.report and arguments.report.suffix != ".html":
        raise InputError(f"--report {arguments.report}: expected a file that ends in .html")
    with OutputFiles(arguments, "json", "report", "junit", "parquet", "events") as files:
        if arguments.parquet and find_spec("pyarrow") is None:
            raise InputError("--parquet needs the package pyarrow: pip install 'kraftcheck[parquet]'")
        from kraftcheck.reporting.validation import ClusterTimeline, timeline_by_log_time, write_cluster_page

        life = ClusterTimeline() if arguments.report else None
        found = _run_validation(arguments, life)
        from kraftcheck.reporting.validation import validation_as_json, validation_lines, write_validation_junit
        from kraftcheck.validation.event_stream import write_event_stream

        print_lines(validation_lines(found, quiet=arguments.quiet))
        files.json(lambda: validation_as_json(found))
        files.file("junit", partial(write_validation_junit, found))
        files.file(
            "report",
            lambda path: write_cluster_page(
                found, life if life and found.replay else timeline_by_log_time(found), path
            ),
        )
        files.file("parquet", partial(_write_events_table, found))
        files.file("events", partial(write_event_stream, found.sources.written, list(found.sources.versions)))
    return found.exit_code


def _known_differences_left_out(arguments: argparse.Namespace) -> tuple[str, ...]:
    """Return the names of the known differences to leave out."""
    from kraftcheck.kraft_model.quorum.variants.kafka import known_difference_classes_by_name, require_known_differences

    known = known_difference_classes_by_name(cluster=True)
    require_known_differences((*arguments.known, *arguments.without), known, cluster=True)
    left = [name for name in known if arguments.known and name not in arguments.known]
    return tuple(dict.fromkeys((*left, *arguments.without)))


def _parse_node_paths(texts: list[str]) -> list[tuple[int, Path]]:
    found = []
    for text in texts:
        number, _, path = text.partition("=")
        if not (number.isascii() and number.isdigit() and len(number) < 10 and path):
            raise InputError(f"--node {text}: expected a node's id and a path such as 1=node1.log")
        found.append((int(number), Path(path)))
    return found


def _parse_log_time_ms(option: str, text: str | None) -> int | None:
    from kraftcheck.validation.log4j import parse_timestamp_ms

    found = None if text is None else parse_timestamp_ms(text)
    if found == 0:
        raise InputError(f"{option} {text}: expected a time of the logs such as 2026-11-25T13:19:44.696")
    return found


def _run_validation(arguments: argparse.Namespace, life: ClusterTimeline | None) -> Validation:
    """Read the inputs, replay the logs that show messages, and check the others and the disks."""
    from kraftcheck.validation.cluster import ValidationInputs, replay_and_check_cluster
    from kraftcheck.validation.log4j import DEFAULT_PATTERN

    since, until = _parse_log_time_ms("--from", arguments.since), _parse_log_time_ms("--to", arguments.until)
    if since is not None and until is not None and until < since:
        raise InputError(f"--to {arguments.until}: expected a time after --from {arguments.since}")
    inputs = ValidationInputs(
        tuple(arguments.paths),
        tuple(_parse_node_paths(arguments.node)),
        DEFAULT_PATTERN if arguments.pattern is None else arguments.pattern,
        since=since,
        until=until,
        limit_bytes=arguments.max_size,
        kafka=arguments.kafka or "",
        without=_known_differences_left_out(arguments),
        monitors=arguments.monitors,
        seconds=arguments.stop_after,
    )
    with ProgressMeter("events read", quiet=arguments.quiet) as meter:
        found = inputs.read(meter.reach)
    with ProgressMeter("events replayed", quiet=arguments.quiet) as meter:
        replay_and_check_cluster(found, inputs, meter.reach, life)
    return found


def _write_events_table(found: Validation, path: Path) -> None:
    from kraftcheck.reporting.events_table import write_events_table

    write_events_table(found.sources, path)
