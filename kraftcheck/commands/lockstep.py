"""Drive Kafka's own Raft client beside the model, step for step.

exit codes: 0 all walks agree; 1 one differs, or Kafka threw an exception; 12 Kafka's own states violate a property;
2 bad input, or the Java process ended; 130 interrupted
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from kraftcheck.catalogue import Model, everything, find_config, find_model
from kraftcheck.files import replacing
from kraftcheck.jobs import blaming
from kraftcheck.options import add, count
from kraftcheck.reporting.files import require_writable, write_json
from kraftcheck.reporting.lines import print_lines
from kraftcheck.reporting.lockstep import as_json, exit_code, told
from kraftcheck.reporting.lockstep_table import Cell, cell, table
from kraftcheck.reporting.progress import Meter
from kraftcheck.spec.cfg.binding import bind
from kraftcheck.spec.cfg.config import ModelConfig, override, parse_setting
from kraftcheck.spec.display import text_of
from kraftcheck.spec.errors import InputError
from kraftcheck.traces.kafka.process import Driver, DriverDied
from kraftcheck.traces.kafka.walks import WalkFile, read_walk

if TYPE_CHECKING:
    from kraftcheck.kraft_model.quorum import Quorum
    from kraftcheck.traces.kafka.survey import Survey

DEFAULT = "lockstep"
"""The configuration that is taken where none is named: everything is enabled in it."""

NEWEST = "4.3.1"
"""The version of Kafka that is driven where none is named."""


def declare(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    add(parser, "model", help="quorum")
    add(parser, "--config", "--set", "--variant")
    what = f"a version in Maven Central, from 4.1.0 on, or a folder with Kafka's jars (default: {NEWEST})"
    what += "; repeatable: then what each walk shows on each version is one table"
    parser.add_argument("--kafka", action="append", metavar="VERSION|DIR", help=what)
    what = "keep Kafka's log and quorum-state in temporary files, rather than its tests' log in memory (from 4.3 on)"
    parser.add_argument("--disk", action="store_true", help=what)
    walks = parser.add_argument_group("walks")
    for option, default, what in (("--runs", 100, "walks"), ("--depth", 100, "steps of a walk")):
        walks.add_argument(option, type=count, default=default, metavar="N", help=f"{what} (default: {default})")
    walks.add_argument("--seed", type=int, default=0, metavar="N", help="another seed, other walks (default: 0)")
    walks.add_argument("--walk", type=Path, nargs="+", metavar="FILE", help="take these walks instead of random ones")
    what = "where Kafka is known to do something else (docs/kafka.md), let the model do so too (default: yes)"
    walks.add_argument("--known", action=argparse.BooleanOptionalAction, default=True, help=what)
    walks.add_argument("--go-on", action="store_true", help="go on from Kafka's state after a difference")
    files = parser.add_argument_group("output")
    what = "write a walk for each kind of finding, made short"
    files.add_argument("--out", type=Path, metavar="DIR", help=what)
    what = "write which lines and branches of Kafka's Raft client the walks reached, by class (with JaCoCo)"
    files.add_argument("--reach", type=Path, metavar="FILE", help=what)
    add(files, "--json", "--quiet")


class _Task(NamedTuple):
    """Walks to make through one model.

    Attributes
    ----------
    file
        The walk, without steps where they are drawn.
    config
        The constants.
    path
        Where the walk was read from; None where steps are drawn.
    """

    file: WalkFile
    config: ModelConfig
    path: Path | None = None


def _tasks(arguments: argparse.Namespace) -> Iterator[_Task]:
    """Yield what is to be done: the walks of files, or random ones."""
    for path in arguments.walk or ():
        file = read_walk(path)
        with _naming(path):
            model = _quorum(file.model, file.variant or None)
            config = everything(model.protocol)
            config = override(config, [parse_setting(text, config) for text in file.settings])
            bind(model.protocol, config)  # a mistake is told before Java is started
            yield _Task(file, config, path)
    if not arguments.walk:
        model = _quorum(arguments.model, arguments.variant)
        config = find_config(model, arguments.config or DEFAULT)[1]
        config = override(config, [parse_setting(text, config) for text in arguments.set])
        values = bind(model.protocol, config).protocol.constant_values()
        settings = tuple(f"{name} = {text_of(value)}" for name, value in values.items())
        yield _Task(WalkFile(arguments.model, arguments.variant or "", settings, arguments.go_on, ()), config)


def _quorum(name: str, variant: str | None) -> Model:
    """Return a model that can be driven."""
    from kraftcheck.kraft_model.quorum import Quorum

    model = find_model(name, variant)
    if not issubclass(model.protocol, Quorum):
        raise InputError(f"{name}: lockstep drives the model quorum and its variants only")
    return model


@contextmanager
def _naming(path: Path | None) -> Iterator[None]:
    """Say which file bad input is in."""
    try:
        yield
    except InputError as error:
        if path is None or isinstance(error, DriverDied) or str(error).startswith(str(path)):
            raise
        raise InputError(f"{path}: {error}") from None


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
    require_writable(arguments, "json", "reach")
    if arguments.reach and len(arguments.kafka or ()) > 1:
        raise InputError("--reach: expected one version of Kafka, found several")
    tasks = list(_tasks(arguments))
    versions = list(dict.fromkeys(arguments.kafka or [NEWEST]))
    with Meter("walks", quiet=arguments.quiet) as meter:
        driven = [_drive(kafka, tasks, arguments, meter) for kafka in versions]
    if len(versions) > 1:
        columns = {one.version: _cells(one, len(tasks)) for one in driven}
        print("\n".join(table([_title(task, arguments) for task in tasks], columns)))
    surveys = [(survey, one.version) for one in driven for survey in one.surveys]
    if arguments.json and surveys:
        write_json(arguments.json, [as_json(survey, version) for survey, version in surveys])
    for one in driven:
        for problem in one.problems.values():
            raise problem
    return exit_code(Counter(finding.verdict for survey, _ in surveys for finding in survey.findings()))


class _Driven(NamedTuple):
    """What was done with one of Kafka's versions.

    Attributes
    ----------
    version
        As the jars name it.
    surveys
        One for each task, as far as they went.
    problems
        By the number of a task: why it went no further.
    """

    version: str
    surveys: list[Survey]
    problems: dict[int, InputError]


def _drive(kafka: str, tasks: Sequence[_Task], arguments: argparse.Namespace, meter: Meter) -> _Driven:
    """Make all walks beside one of Kafka's versions; print what they showed, unless a table is to come."""
    from kraftcheck.reporting.lockstep_reach import reach_table
    from kraftcheck.traces.kafka.jars import classpath
    from kraftcheck.traces.kafka.reach import Reach

    try:
        path = classpath(kafka, disk=arguments.disk)
        reach = Reach(path) if arguments.reach else None
        options = path.options if reach is None else reach.options
        driving = Driver(path.java, path.text, options, disk=arguments.disk)
    except InputError as problem:
        return _Driven(kafka, [], {0: problem})
    driven = _Driven(path.version, [], {})
    with reach or nullcontext():
        with driving as driver:
            _take(driver, tasks, arguments, meter, driven)
        if reach is not None and not driver.died:
            lines = reach_table(reach.classes())
            with replacing(arguments.reach) as new:
                new.write_text("\n".join(lines) + "\n")
    return driven


def _take(driver: Driver, tasks: Sequence[_Task], arguments: argparse.Namespace, meter: Meter, driven: _Driven) -> None:
    """Make all walks beside a running Kafka."""
    several = len(arguments.kafka or ()) > 1
    for number, task in enumerate(tasks):
        try:
            survey = _survey(driver, task, arguments, meter, driven.surveys)
        except InputError as problem:
            driven.problems[number] = problem
            survey = driven.surveys[-1]
        found = survey.kinds()
        if arguments.out:
            found = survey.write(arguments.out / driven.version if several else arguments.out)
        if not several:
            print_lines(told(survey, found, driven.version, quiet=arguments.quiet))
        if driver.died:
            driven.problems[number] = driver.died
            break


def _survey(driver: Driver, task: _Task, arguments: argparse.Namespace, meter: Meter, surveys: list[Survey]) -> Survey:
    """Make the walks of a task, and return what they showed; it is among the surveys even where this raises."""
    from kraftcheck.traces.kafka.survey import Survey

    model = _quorum(task.file.model, task.file.variant or None)
    survey = Survey(driver, _bound(model, task, arguments), task.file, report=meter.add)
    surveys.append(survey)
    with blaming(model), _naming(task.path):
        if task.file.steps:
            survey.take(task.file.steps)
        else:
            survey.draw(arguments.runs, arguments.depth, str(arguments.seed))
    return survey


def _bound(model: Model, task: _Task, arguments: argparse.Namespace) -> Quorum:
    """Return a model with its constants, doing what Kafka is known to do."""
    from kraftcheck.kraft_model.quorum import Quorum
    from kraftcheck.kraft_model.quorum.variants.kafka import MOCK_DIFFERENCES, as_kafka
    from kraftcheck.kraft_model.quorum.variants.kafka_disk import DIFFERENCES as DISK_DIFFERENCES

    assert issubclass(model.protocol, Quorum)
    more = DISK_DIFFERENCES if arguments.disk else MOCK_DIFFERENCES
    driven = as_kafka(model.protocol, more) if arguments.known else model.protocol
    protocol = bind(driven, task.config).protocol
    assert isinstance(protocol, Quorum)
    return protocol


def _title(task: _Task, arguments: argparse.Namespace) -> str:
    """Return what a row of the table is about."""
    if task.path is not None:
        return task.path.stem
    return f"{arguments.runs:,} random walks of {arguments.depth:,} steps"


def _cells(driven: _Driven, tasks: int) -> list[Cell]:
    """Return a column of the table: what each task showed, and why it went no further."""
    cells = [Cell("-")] * tasks
    for number, survey in enumerate(driven.surveys):
        problem = str(driven.problems.get(number, "")).partition("; enabled are")[0]
        cells[number] = cell([kind.first for kind in survey.kinds()], problem)
    if not driven.surveys:
        cells = [Cell("none", str(driven.problems[0]))] * tasks
    return cells
