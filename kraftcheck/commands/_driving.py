"""Makes walks beside one of Kafka's versions, as `lockstep` is asked for."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from kraftcheck.catalogue import blaming
from kraftcheck.commands._walks import Task, naming, quorum
from kraftcheck.files import replacing
from kraftcheck.lockstep.lockstep import LockstepVerdict
from kraftcheck.lockstep.process import Driver
from kraftcheck.reporting.files import Writing
from kraftcheck.reporting.lines import Meter
from kraftcheck.spec.cfg.binding import bind
from kraftcheck.spec.errors import InputError

if TYPE_CHECKING:
    from kraftcheck.kraft_model.quorum import Quorum
    from kraftcheck.lockstep.cover import Cover
    from kraftcheck.lockstep.survey import Kind, Survey

RUNS, DEPTH = 100, 100
"""Random walks, and the steps of one, where no number is given."""


class Made(NamedTuple):
    """What came of a task."""

    survey: Survey | None = None  # what the walks showed; None where none could be begun
    cover: Cover | None = None  # what was covered, where that was asked for
    problem: InputError | None = None  # why it went no further, if it did not
    interrupted: bool = False  # whether the user stopped it
    kinds: Sequence[Kind] = ()  # the findings, one of each kind, with the files that they were written to

    @property
    def verdict(self) -> LockstepVerdict:
        """The most severe finding; agreement only where nothing ended the walks early and no step is missing."""
        from kraftcheck.lockstep.cover import Reason
        from kraftcheck.reporting.lockstep import counts

        order = list(LockstepVerdict)
        is_whole = self.problem is None and not self.interrupted
        is_whole = is_whole and (self.cover is None or not counts(self.cover)[Reason.MISSING])
        least = LockstepVerdict.AGREES if is_whole else LockstepVerdict.INCOMPLETE
        return max((kind.first.verdict for kind in self.kinds), key=order.index, default=least)


class Driven(NamedTuple):
    """What was done with one of Kafka's versions."""

    version: str  # as the jars name it
    made: list[Made]  # for each task, as far as they went


def drive(kafka: str, tasks: Sequence[Task], arguments: argparse.Namespace, meter: Meter, writing: Writing) -> Driven:
    """Make all walks beside one of Kafka's versions. Nothing is printed: a later error can change a verdict."""
    from kraftcheck.lockstep.jars import classpath
    from kraftcheck.lockstep.reach import Reach
    from kraftcheck.lockstep.survey import rare_collections
    from kraftcheck.reporting.lockstep import reach_table

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
            for number, task in enumerate(tasks, start=1):
                made = _make(driver, task, arguments, meter)
                if arguments.out:
                    several = [*([path.version] if len(arguments.kafka) > 1 else [])]
                    several += [str(number)] if len(tasks) > 1 else []
                    made = _written(made, arguments.out.joinpath(*several), writing)
                driven.made.append(made if driver.died is None else made._replace(problem=driver.died))
                if driver.died or made.interrupted:
                    break
        if reach is not None and not driver.died:
            with writing.of("--reach", arguments.reach), replacing(arguments.reach) as new:
                new.write_text("\n".join(reach_table(reach.classes())) + "\n")
    return driven


def _written(made: Made, folder: Path, writing: Writing) -> Made:
    """Write the walks that show something to files; return what was made, with these."""
    if made.survey is None or not made.survey.walks:
        return made
    try:
        with writing.of("--out", folder):
            return made._replace(kinds=made.survey.write(folder))
    except KeyboardInterrupt:
        return made._replace(interrupted=True)
    return made


def _make(driver: Driver, task: Task, arguments: argparse.Namespace, meter: Meter) -> Made:
    """Make the walks of a task."""
    from kraftcheck.kraft_model.quorum import Quorum
    from kraftcheck.lockstep.survey import Survey

    model = quorum(task.file.model, task.file.variant or None)
    try:
        with naming(task.path):
            kind = _kind(model.protocol, arguments, task.file.without)
    except InputError as problem:
        return Made(problem=problem)
    protocol = bind(kind, task.config).protocol
    assert isinstance(protocol, Quorum)
    survey, made = Survey(driver, protocol, task.file, report=meter.add), Made()
    try:
        with blaming(model), naming(task.path):
            made = made._replace(cover=_walk(survey, kind, task, arguments))
    except InputError as problem:
        made = Made(problem=problem)
    except KeyboardInterrupt:
        made = Made(interrupted=True)
    return made._replace(survey=survey, kinds=survey.kinds())


def _walk(survey: Survey, kind: type[Quorum], task: Task, arguments: argparse.Namespace) -> Cover | None:
    """Make the walks of a survey; return the cover that they make, where one is asked for."""
    from kraftcheck.lockstep.cover import state_graph
    from kraftcheck.spec.language.semantics import Semantics

    if task.covered is not None:
        bound = bind(kind, task.covered)
        return survey.cover(state_graph(Semantics(bound.protocol), bound.init, arguments.depth))
    if task.choose is not None:
        survey.follow(task.choose)
    elif task.file.steps:
        survey.take(task.file.steps)
    else:
        survey.draw(arguments.runs or RUNS, arguments.depth or DEPTH, str(arguments.seed))
    return None


def _kind(protocol: type[object], arguments: argparse.Namespace, without: Sequence[str]) -> type[Quorum]:
    """Return the model that does what Kafka is known to do, unless that was not wanted."""
    from kraftcheck.kraft_model.quorum import Quorum
    from kraftcheck.kraft_model.quorum.variants.kafka import as_kafka

    assert issubclass(protocol, Quorum)
    kafka = as_kafka(protocol, disk=arguments.disk, without=without)  # which refuses a name that is none of `without`
    return kafka if arguments.known else protocol
