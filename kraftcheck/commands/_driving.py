"""Makes walks beside one of Kafka's versions, as `lockstep` is asked for."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, NamedTuple

from kraftcheck.commands._walks import Task, naming, quorum
from kraftcheck.files import replacing
from kraftcheck.jobs import blaming
from kraftcheck.reporting.cover import told as told_of_cover
from kraftcheck.reporting.lines import HEAD, harmless, print_lines
from kraftcheck.reporting.lockstep import told
from kraftcheck.reporting.progress import Meter
from kraftcheck.spec.cfg.binding import bind
from kraftcheck.spec.errors import InputError
from kraftcheck.traces.kafka.process import Driver, DriverDied

if TYPE_CHECKING:
    from kraftcheck.kraft_model.quorum import Quorum
    from kraftcheck.traces.kafka.cover import Cover
    from kraftcheck.traces.kafka.survey import Survey

RUNS, DEPTH = 100, 100
"""Random walks, and the steps of one, where no number is given."""


class Made(NamedTuple):
    """What came of a task.

    Attributes
    ----------
    survey
        What the walks showed; None where none could be begun.
    cover
        What was covered, where that was asked for.
    problem
        Why it went no further, if it did not.
    interrupted
        Whether the user stopped it.
    """

    survey: Survey | None = None
    cover: Cover | None = None
    problem: InputError | None = None
    interrupted: bool = False


class Driven(NamedTuple):
    """What was done with one of Kafka's versions.

    Attributes
    ----------
    version
        As the jars name it.
    made
        For each task, as far as they went.
    """

    version: str
    made: list[Made]


def drive(kafka: str, tasks: Sequence[Task], arguments: argparse.Namespace, meter: Meter) -> Driven:
    """Make all walks beside one of Kafka's versions; print what they showed, unless a table is to come.

    Parameters
    ----------
    kafka
        The version, or a folder with jars.
    tasks
        The walks.
    arguments
        What was read from the command line.
    meter
        Counts the walks.
    """
    from kraftcheck.reporting.lockstep_reach import reach_table
    from kraftcheck.traces.kafka.jars import classpath
    from kraftcheck.traces.kafka.reach import Reach
    from kraftcheck.traces.kafka.survey import rare_collections

    try:
        path = classpath(kafka, disk=arguments.disk)
        reach = Reach(path) if arguments.reach else None
        options = path.options if reach is None else reach.options
        driving = Driver(path.java, path.text, options, disk=arguments.disk)
    except InputError as problem:
        return Driven(kafka, [Made(problem=problem)] * len(tasks))
    driven = Driven(path.version, [])
    with reach or nullcontext():
        with driving as driver, rare_collections():
            for task in tasks:
                driven.made.append(_make(driver, task, arguments, meter))
                _tell(task, driven, arguments, len(tasks))
                if driver.died:
                    driven.made[-1] = driven.made[-1]._replace(problem=driver.died)
                if driver.died or driven.made[-1].interrupted:
                    break
        if reach is not None and not driver.died:
            lines = reach_table(reach.classes())
            with replacing(arguments.reach) as new:
                new.write_text("\n".join(lines) + "\n")
    return driven


def _make(driver: Driver, task: Task, arguments: argparse.Namespace, meter: Meter) -> Made:
    """Make the walks of a task."""
    from kraftcheck.kraft_model.quorum import Quorum
    from kraftcheck.spec.language.semantics import Semantics
    from kraftcheck.traces.kafka.state_graph import state_graph
    from kraftcheck.traces.kafka.survey import Survey

    model = quorum(task.file.model, task.file.variant or None)
    try:
        with naming(task.path):
            kind = _kind(model.protocol, arguments, task.file.without)
    except InputError as problem:
        return Made(problem=problem)
    protocol = bind(kind, task.config).protocol
    assert isinstance(protocol, Quorum)
    survey = Survey(driver, protocol, task.file, report=meter.add)
    try:
        with blaming(model), naming(task.path):
            if task.choose is not None:
                survey.follow(task.choose)
            elif task.file.steps:
                survey.take(task.file.steps)
            elif task.covered is not None:
                bound = bind(kind, task.covered)
                graph = state_graph(Semantics(bound.protocol), bound.init, arguments.depth)
                return Made(survey, survey.cover(graph))
            else:
                survey.draw(arguments.runs or RUNS, arguments.depth or DEPTH, str(arguments.seed))
    except InputError as problem:
        return Made(survey, problem=problem)
    except KeyboardInterrupt:
        return Made(survey, interrupted=True)
    return Made(survey)


def _kind(protocol: type[object], arguments: argparse.Namespace, without: Sequence[str]) -> type[Quorum]:
    """Return the model that does what Kafka is known to do, unless that was not wanted."""
    from kraftcheck.kraft_model.quorum import Quorum
    from kraftcheck.kraft_model.quorum.variants.kafka import as_kafka

    assert issubclass(protocol, Quorum)
    kafka = as_kafka(protocol, disk=arguments.disk, without=without)  # which refuses a name that is none of `without`
    return kafka if arguments.known else protocol


def _tell(task: Task, driven: Driven, arguments: argparse.Namespace, tasks: int) -> None:
    """Write and print what the last task showed."""
    survey, cover, problem, _ = driven.made[-1]
    several = len(arguments.kafka) > 1
    if problem is not None and tasks > 1 and not several and not isinstance(problem, DriverDied):
        print(harmless(f"kraftcheck: error: {problem}"), file=sys.stderr)
    if survey is None or not survey.walks:
        return
    found = survey.kinds()
    if arguments.out:
        out = arguments.out / driven.version if several else arguments.out
        found = survey.write(out / str(len(driven.made)) if tasks > 1 else out)
    if not several:
        print_lines([[(HEAD, task.name)]] if tasks > 1 else [])
        print_lines(told(survey, found, driven.version, quiet=arguments.quiet))
        print_lines(told_of_cover(cover) if cover is not None else [])
