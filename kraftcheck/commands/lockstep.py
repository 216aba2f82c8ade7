"""Drive Kafka's own Raft client beside the model, step for step.

exit codes: 0 all walks agree; 1 one differs, or Kafka threw an exception; 12 Kafka's own states violate a property;
2 bad input, or the Java process ended; 130 interrupted
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from kraftcheck.catalogue import Model, everything, find_config, find_model
from kraftcheck.jobs import blaming
from kraftcheck.options import add, count
from kraftcheck.reporting.files import require_writable, write_json
from kraftcheck.reporting.lines import print_lines
from kraftcheck.reporting.lockstep import as_json, exit_code, told
from kraftcheck.reporting.progress import Meter
from kraftcheck.spec.cfg.binding import bind
from kraftcheck.spec.cfg.config import ModelConfig, override, parse_setting
from kraftcheck.spec.display import text_of
from kraftcheck.spec.errors import InputError
from kraftcheck.traces.kafka.process import Driver, DriverDied
from kraftcheck.traces.kafka.walks import WalkFile, read_walk

DEFAULT = "lockstep"
"""The configuration that is taken where none is named: everything is enabled in it."""

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
    for option, default, what in (("--runs", 100, "walks"), ("--depth", 100, "steps of a walk")):
        walks.add_argument(option, type=count, default=default, metavar="N", help=f"{what} (default: {default})")
    walks.add_argument("--seed", type=int, default=0, metavar="N", help="another seed, other walks (default: 0)")
    walks.add_argument("--walk", type=Path, nargs="+", metavar="FILE", help="take these walks instead of random ones")
    what = "show a known difference (docs/kafka.md), which the model else does as Kafka does (repeatable)"
    walks.add_argument("--without", action="append", default=[], metavar="NAME", help=what)
    walks.add_argument("--go-on", action="store_true", help="go on from Kafka's state after a difference")
    files = parser.add_argument_group("output")
    what = "write a walk for each kind of finding, made short"
    files.add_argument("--out", type=Path, metavar="DIR", help=what)
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
        usual = {name: declared.default for name, declared in model.protocol.constants.items()}
        settings = tuple(f"{name} = {text_of(value)}" for name, value in values.items() if value != usual[name])
        without = tuple(arguments.without)
        yield _Task(WalkFile(arguments.model, arguments.variant or "", settings, arguments.go_on, (), without), config)


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
    from kraftcheck.kraft_model.quorum import Quorum
    from kraftcheck.kraft_model.quorum.variants.kafka import as_kafka
    from kraftcheck.traces.kafka.jars import classpath
    from kraftcheck.traces.kafka.survey import Survey

    require_writable(arguments, "json")
    surveys: list[Survey] = []
    tasks = list(_tasks(arguments))
    path = classpath(arguments.kafka, disk=arguments.disk)
    driving = Driver(path.java, path.text, path.options, disk=arguments.disk)
    with driving as driver, Meter("walks", quiet=arguments.quiet) as meter:
        for task in tasks:
            model = _quorum(task.file.model, task.file.variant or None)
            assert issubclass(model.protocol, Quorum)
            driven = as_kafka(model.protocol, disk=arguments.disk, without=task.file.without)
            protocol = bind(driven, task.config).protocol
            assert isinstance(protocol, Quorum)
            survey = Survey(driver, protocol, task.file, report=meter.add)
            surveys.append(survey)
            with blaming(model), _naming(task.path), suppress(DriverDied):
                if task.file.steps:
                    survey.take(task.file.steps)
                else:
                    survey.draw(arguments.runs, arguments.depth, str(arguments.seed))
            found = survey.kinds()
            if arguments.out:
                found = survey.write(arguments.out)
            print_lines(told(survey, found, path.version, quiet=arguments.quiet))
            if driver.died:
                break
    if arguments.json:
        write_json(arguments.json, [as_json(survey, path.version) for survey in surveys])
    if driver.died:
        raise driver.died
    return exit_code(Counter(finding.verdict for survey in surveys for finding in survey.findings()))
