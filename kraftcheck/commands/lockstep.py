"""Drive Kafka's own Raft client beside the model, step for step.

exit codes: 0 all walks agree; 1 one differs, or Kafka threw an exception; 12 Kafka's own states violate a property;
2 bad input, or the Java process ended; 130 interrupted
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from kraftcheck.commands._walks import Task, naming, quorum, tasks
from kraftcheck.jobs import blaming
from kraftcheck.options import add, count
from kraftcheck.reporting.cover import as_json as cover_as_json
from kraftcheck.reporting.cover import counts
from kraftcheck.reporting.cover import told as told_of_cover
from kraftcheck.reporting.files import require_writable, write_json
from kraftcheck.reporting.lines import HEAD, print_lines
from kraftcheck.reporting.lockstep import as_json, exit_code, told
from kraftcheck.reporting.progress import Meter
from kraftcheck.spec.cfg.binding import bind
from kraftcheck.spec.errors import InputError
from kraftcheck.traces.kafka.process import Driver, DriverDied

if TYPE_CHECKING:
    from kraftcheck.kraft_model.quorum import Quorum
    from kraftcheck.traces.kafka.cover import Cover
    from kraftcheck.traces.kafka.survey import Survey

VIOLATED = 12
"""The exit code where Kafka violates a property."""

DEPTH = 100
"""The steps of a random walk where no number is given."""

NEWEST = "4.3.1"
"""The version of Kafka that is driven where none is named."""


def declare(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    add(parser, "model", help="quorum")
    add(parser, "--config", "--set", "--variant")
    what = f"a version in Maven Central, from 4.1.0 on, or a folder with Kafka's jars (default: {NEWEST})"
    parser.add_argument("--kafka", default=NEWEST, metavar="VERSION|DIR", help=what)
    what = "keep Kafka's log and quorum-state in temporary files, rather than its tests' log in memory (from 4.3 on)"
    parser.add_argument("--disk", action="store_true", help=what)
    walks = parser.add_argument_group("walks")
    walks.add_argument("--runs", type=count, default=100, metavar="N", help="walks (default: 100)")
    what = f"steps of a walk (default: {DEPTH}); with --cover steps from the start (default: all)"
    walks.add_argument("--depth", type=count, metavar="N", help=what)
    walks.add_argument("--seed", type=int, default=0, metavar="N", help="another seed, other walks (default: 0)")
    what = "take these walks instead of random ones: of walk files, scenarios, or traces (as replay reads them)"
    walks.add_argument("--walk", type=Path, nargs="+", metavar="FILE", help=what)
    what = "take every labelled step of a bounded model's state graph (default for --config: smoke)"
    walks.add_argument("--cover", action="store_true", help=what)
    what = "where Kafka is known to do something else (docs/kafka.md), let the model do so too (default: yes)"
    walks.add_argument("--known", action=argparse.BooleanOptionalAction, default=True, help=what)
    walks.add_argument("--go-on", action="store_true", help="go on from Kafka's state after a difference")
    files = parser.add_argument_group("output")
    what = "write a walk for each kind of finding, made short"
    files.add_argument("--out", type=Path, metavar="DIR", help=what)
    add(files, "--json", "--quiet")


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
        For bad input, where Java or Maven is missing, or where the Java process ends.
    """
    from kraftcheck.kraft_model.quorum import Quorum
    from kraftcheck.kraft_model.quorum.variants.kafka import MOCK_DIFFERENCES, as_kafka
    from kraftcheck.kraft_model.quorum.variants.kafka_disk import DIFFERENCES as DISK_DIFFERENCES
    from kraftcheck.traces.kafka.cover import Reason
    from kraftcheck.traces.kafka.jars import classpath
    from kraftcheck.traces.kafka.survey import Survey

    require_writable(arguments, "json")
    surveys: list[Survey] = []
    covers: list[Cover] = []
    errors: list[InputError] = []
    asked = list(tasks(arguments))
    path = classpath(arguments.kafka, disk=arguments.disk)
    driving = Driver(path.java, path.text, path.options, disk=arguments.disk)
    with driving as driver, Meter("walks", quiet=arguments.quiet) as meter:
        for task in asked:
            model = quorum(task.file.model, task.file.variant or None)
            assert issubclass(model.protocol, Quorum)
            more = DISK_DIFFERENCES if arguments.disk else MOCK_DIFFERENCES
            driven = as_kafka(model.protocol, more) if arguments.known else model.protocol
            protocol = bind(driven, task.config).protocol
            assert isinstance(protocol, Quorum)
            survey = Survey(driver, protocol, task.file, report=meter.add)
            try:
                with blaming(model), naming(task.path), suppress(DriverDied):
                    covers += _make(survey, task, driven, arguments)
            except InputError as error:
                if len(asked) == 1:
                    raise
                errors.append(error)
                print(f"kraftcheck: error: {error}", file=sys.stderr)
                continue
            surveys.append(survey)
            found = survey.kinds()
            if arguments.out:
                found = survey.write(arguments.out / str(len(surveys)) if len(asked) > 1 else arguments.out)
            print_lines([[(HEAD, task.name)]] if len(asked) > 1 else [])
            print_lines(told(survey, found, path.version, quiet=arguments.quiet))
            print_lines(line for cover in covers for line in told_of_cover(cover))
            if driver.died:
                break
    if arguments.json:
        documents = [as_json(survey, path.version) for survey in surveys]
        for document, cover in zip(documents, covers, strict=False):
            document["cover"] = cover_as_json(cover)
        write_json(arguments.json, [*documents, *({"error": str(error)} for error in errors)])
    if driver.died:
        raise driver.died
    code = exit_code(Counter(finding.verdict for survey in surveys for finding in survey.findings()))
    if errors and code != VIOLATED:
        return 2
    return code or int(any(counts(cover)[Reason.MISSING] for cover in covers))


def _make(survey: Survey, task: Task, driven: type[Quorum], arguments: argparse.Namespace) -> list[Cover]:
    """Make the walks of a task, and return the cover if they are one."""
    from kraftcheck.spec.language.semantics import Semantics
    from kraftcheck.traces.kafka.state_graph import state_graph

    if task.choose is not None:
        survey.follow(task.choose)
    elif task.file.steps:
        survey.take(task.file.steps)
    elif task.covered is not None:
        bound = bind(driven, task.covered)
        return [survey.cover(state_graph(Semantics(bound.protocol), bound.init, arguments.depth))]
    else:
        survey.draw(arguments.runs, arguments.depth or DEPTH, str(arguments.seed))
    return []
