"""The walks that `lockstep` is asked for, random ones, those of files, or a cover; and how they are made."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from kraftcheck.catalogue import Model, blaming, everything, find_model, scenario_job, with_settings
from kraftcheck.files import replacing
from kraftcheck.jobs import configuration, lenient_job
from kraftcheck.lockstep.commands import FETCH_LIMIT
from kraftcheck.lockstep.lockstep import LockstepVerdict
from kraftcheck.lockstep.process import Driver, DriverDied
from kraftcheck.lockstep.walks import WalkFile, read_walk, settings_of
from kraftcheck.reporting.files import OutputFiles
from kraftcheck.reporting.lines import Meter, print_warnings
from kraftcheck.spec.cfg.binding import bind
from kraftcheck.spec.cfg.config import BoundConfig, ModelConfig
from kraftcheck.spec.errors import InputError
from kraftcheck.spec.language.protocol import Protocol

if TYPE_CHECKING:
    from kraftcheck.kraft_model.quorum import Quorum
    from kraftcheck.lockstep.cover import Cover
    from kraftcheck.lockstep.lockstep import Choose, Lockstep
    from kraftcheck.lockstep.reach import Reach
    from kraftcheck.lockstep.scripts import Script
    from kraftcheck.lockstep.survey import Kind, Survey

DEFAULT = "lockstep"
"""The configuration that is taken where none is named: everything is enabled in it."""

ROOM = 1000
"""How much wider the bounds of the model that is driven are than those of the state graph that is covered."""


class Task(NamedTuple):
    """Walks to make through one model."""

    name: str  # what the walks are called: the file and the line where they stand in one
    file: WalkFile  # what is walked through. It has the steps where they are known beforehand.
    config: ModelConfig  # the constants
    # returns what picks the steps, given both sides; None where `file` has them, or they are drawn
    choose: Callable[[Lockstep], Choose] | None = None
    # the constants of the model whose state graph is covered, None where there is none; `config` has wider bounds
    covered: ModelConfig | None = None
    path: Path | None = None  # the walk file of which the errors do not say which it is; None where there is none


def tasks(arguments: argparse.Namespace) -> Iterator[Task]:
    """Yield what is to be done."""
    from kraftcheck.lockstep.scripts import kind_of

    if arguments.cover and arguments.walk:
        raise InputError("--cover: expected no --walk beside it")
    for path in arguments.walk or ():
        yield from {"walk": _given, "scenario": _told, "trace": _retold}[kind_of(path)](path, arguments)
    if arguments.runs or not arguments.walk:
        yield _drawn(arguments)


def _drawn(arguments: argparse.Namespace) -> Task:
    model = quorum(arguments.model, arguments.variant)
    settings = [*([f"FetchLimit={FETCH_LIMIT}"] if arguments.cover else []), *arguments.set]
    _, config = configuration(model, arguments.config or ("smoke" if arguments.cover else DEFAULT), settings)
    wider = _with_room(model, config) if arguments.cover else config
    bound = bind(model.protocol, wider)
    about = _about(arguments.model, arguments.variant, bound.protocol, arguments)
    about = about._replace(ignored=_unlisted(bound))
    return Task("random walks", about, wider, covered=config if arguments.cover else None)


def _unlisted(bound: BoundConfig) -> tuple[str, ...]:
    """Return the properties that a configuration that lists any does not list."""
    listed = {prop.name for prop in bound.properties}
    kinds = ("invariant", "step_invariant")
    known = (name for name, prop in bound.protocol.properties.items() if prop.kind in kinds)
    return tuple(name for name in known if name not in listed) if listed else ()


def _with_room(model: Model, config: ModelConfig) -> ModelConfig:
    """Return a configuration with wider bounds: Kafka takes an urgent step also where nothing is left of its bound.

    Late requests arrive in it, as they do in Kafka.
    """
    protocol = bind(model.protocol, config).protocol
    limits = {constant.name: getattr(protocol, constant.attribute) for constant in protocol.constants.values()}
    bounds = [constant.name for constant in protocol.constants.values() if constant.is_bound and limits[constant.name]]
    settings = ["LatePreVotes=TRUE", *(f"{name}={limits[name] + ROOM}" for name in bounds)]
    return with_settings(config, settings)


def _about(model: str, variant: str | None, protocol: Protocol, arguments: argparse.Namespace) -> WalkFile:
    return WalkFile(model, variant or "", settings_of(protocol), arguments.go_on, (), tuple(arguments.without))


def quorum(name: str, variant: str | None) -> Model:
    """Return a model that can be driven."""
    from kraftcheck.kraft_model.quorum import Quorum

    model = find_model(name, variant)
    if not issubclass(model.protocol, Quorum):
        raise InputError(f"{name}: lockstep drives the model quorum and its variants only")
    return model


@contextmanager
def naming(path: Path | str | None) -> Iterator[None]:
    """Say which file bad input is in."""
    try:
        yield
    except InputError as error:
        if path is None or isinstance(error, DriverDied) or str(error).startswith(str(path)):
            raise
        raise InputError(f"{path}: {error}") from None


def _given(path: Path, _: argparse.Namespace) -> Iterator[Task]:
    file = read_walk(path)
    if not file.steps:
        raise InputError(f"{path}: expected steps, found none")
    with naming(path):
        model = quorum(file.model, file.variant or None)
        config = with_settings(everything(model.protocol), file.settings)
        bind(model.protocol, config)  # a mistake is told before Java is started
    yield Task(str(path), file, config, path=path)


def _told(path: Path, arguments: argparse.Namespace) -> Iterator[Task]:
    """Yield the stories of a scenario, which the model alone can do."""
    from kraftcheck.lockstep.scripts import rehearse, tell
    from kraftcheck.spec.language.semantics import Semantics
    from kraftcheck.traces.scenarios import read_stories

    for story in read_stories(path):
        name = f"{path}:{story.start.line}:1"
        with naming(name):
            model, config = scenario_job(story.words)
            quorum(story.words.model, story.words.variant or None)
            bound = bind(model.protocol, config)
            about = _about(story.words.model, story.words.variant, bound.protocol, arguments)
        init = story.words.at or bound.init
        rehearse(story, Semantics(bound.protocol), init)
        yield Task(name, about, config, _scripted(partial(tell, story, init=init)))


def _retold(path: Path, arguments: argparse.Namespace) -> Iterator[Task]:
    """Yield the traces of a file, which the model or its variant can do."""
    from kraftcheck.lockstep.scripts import read_traces, retell

    model = quorum(arguments.model, arguments.variant)
    job, warnings = lenient_job(model, arguments)
    print_warnings(warnings)
    _, config = configuration(model, arguments.config, arguments.set)
    for number, trace in enumerate(read_traces(path, job.replayer(), job.options.init), start=1):
        about = _about(arguments.model, arguments.variant, job.protocol, arguments)
        yield Task(f"{path}, trace {number}", about, config, _scripted(partial(retell, trace)))


def _scripted(script: Callable[..., Script]) -> Callable[[Lockstep], Choose]:
    def choose(lockstep: Lockstep) -> Choose:
        from kraftcheck.lockstep.scripts import ScriptedWalk

        return ScriptedWalk(lambda begun: script(semantics=lockstep.semantics, begun=begun), lockstep)

    return choose


# Driving Kafka

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


def drive(kafka: str, tasks: Sequence[Task], arguments: argparse.Namespace, meter: Meter, files: OutputFiles) -> Driven:
    """Make all walks beside one of Kafka's versions. Nothing is printed: a later error can change a verdict."""
    from kraftcheck.lockstep.jars import classpath
    from kraftcheck.lockstep.reach import Reach
    from kraftcheck.lockstep.survey import rare_collections

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
            driven.made.extend(_drive(driver, path.version, tasks, arguments, meter, files))
        if reach is not None and not driver.died:
            files.file("reach", partial(_write_reach, reach))
    return driven


def _drive(
    driver: Driver, version: str, tasks: Sequence[Task], arguments: argparse.Namespace, meter: Meter, files: OutputFiles
) -> Iterator[Made]:
    """Yield what came of each task, until the user stops it or the driver ends."""
    for number, task in enumerate(tasks, start=1):
        made = _make(driver, task, arguments, meter)
        if arguments.out:
            several = {version: len(arguments.kafka) > 1, str(number): len(tasks) > 1}
            folder = arguments.out.joinpath(*(name for name, needed in several.items() if needed))
            made = _written(made, folder, files)
        yield made if driver.died is None else made._replace(problem=driver.died)
        if driver.died or made.interrupted:
            return


def _write_reach(reach: Reach, path: Path) -> None:
    from kraftcheck.reporting.lockstep import reach_table

    with replacing(path) as new:
        new.write_text("\n".join(reach_table(reach.classes())) + "\n")


def _written(made: Made, folder: Path, files: OutputFiles) -> Made:
    """Write the walks that show something to files; return what was made, with these."""
    if made.survey is None or not made.survey.walks:
        return made
    try:
        with files.of("--out", folder):
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
