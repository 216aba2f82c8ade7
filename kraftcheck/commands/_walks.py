"""The walks that `lockstep` is asked for: random ones, those of files, or a cover."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from kraftcheck.catalogue import Model, everything, find_config, find_model, scenario_job
from kraftcheck.jobs import lenient_job
from kraftcheck.lockstep.commands import FETCH_LIMIT
from kraftcheck.lockstep.process import DriverDied
from kraftcheck.lockstep.walks import WalkFile, read_walk, settings_of
from kraftcheck.reporting.lines import print_warnings
from kraftcheck.spec.cfg.binding import BoundConfig, bind
from kraftcheck.spec.cfg.config import ModelConfig, override, parse_setting
from kraftcheck.spec.errors import InputError
from kraftcheck.spec.language.protocol import Protocol

if TYPE_CHECKING:
    from kraftcheck.lockstep.lockstep import Choose, Lockstep
    from kraftcheck.lockstep.scripts import Script

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
    config = find_config(model, arguments.config or ("smoke" if arguments.cover else DEFAULT))[1]
    if arguments.cover:
        config = override(config, [parse_setting(f"FetchLimit={FETCH_LIMIT}", config)])
    config = override(config, [parse_setting(text, config) for text in arguments.set])
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
    return override(config, [parse_setting(text, config) for text in settings])


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
        config = everything(model.protocol)
        config = override(config, [parse_setting(text, config) for text in file.settings])
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
    from kraftcheck.traces.replay.replayer import Replayer

    model = quorum(arguments.model, arguments.variant)
    job, warnings = lenient_job(model, arguments)
    print_warnings(warnings)
    config = find_config(model, arguments.config)[1]
    config = override(config, [parse_setting(text, config) for text in arguments.set])
    made = job.options
    replayer = Replayer(job.protocol, init=made.init, symmetry=made.symmetry, seen_as=job.seen_as)
    for number, trace in enumerate(read_traces(path, replayer, job.options.init), start=1):
        about = _about(arguments.model, arguments.variant, job.protocol, arguments)
        yield Task(f"{path}, trace {number}", about, config, _scripted(partial(retell, trace)))


def _scripted(script: Callable[..., Script]) -> Callable[[Lockstep], Choose]:
    def choose(lockstep: Lockstep) -> Choose:
        from kraftcheck.lockstep.scripts import ScriptedWalk

        return ScriptedWalk(lambda begun: script(semantics=lockstep.semantics, begun=begun), lockstep)

    return choose
