"""The tasks of `lockstep`: random walks, a cover of the state graph, or files with walks, scenarios or traces."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from kraftcheck.catalogue import (
    Model,
    all_properties_config,
    config_with_constant_values,
    find_model,
    locate_protocol_errors,
    scenario_model_and_config,
)
from kraftcheck.jobs import configuration_with_settings, leniently_bound_job
from kraftcheck.kraft_model.quorum import Quorum
from kraftcheck.kraft_model.quorum.variants.kafka import with_known_kafka_differences
from kraftcheck.lockstep.campaign import LockstepTask, prefix_errors_with_file
from kraftcheck.lockstep.walks import COVER_FETCH_LIMIT, WalkFile, non_default_settings, read_walk
from kraftcheck.reporting.lines import print_warnings
from kraftcheck.spec.cfg.binding import bind
from kraftcheck.spec.cfg.config import BoundConfig, ModelConfig
from kraftcheck.spec.errors import InputError
from kraftcheck.spec.language.protocol import Protocol

DEFAULT_CONFIG = "lockstep"
"""The default configuration, which enables every action."""

EXTRA_STEPS_OF_BOUNDS = 1000
"""The difference between the bounds of the driven model and those of the covered state graph."""


def lockstep_tasks(arguments: argparse.Namespace) -> Iterator[LockstepTask]:
    """Yield the tasks of a command line."""
    from kraftcheck.lockstep.scripts import script_file_kind

    if arguments.cover and arguments.walk:
        raise InputError("--cover: cannot be combined with --walk; leave one out")
    for path in arguments.walk or ():
        yield from {"walk": _walk_file_task, "scenario": _scenario_tasks, "trace": _trace_tasks}[
            script_file_kind(path)
        ](path, arguments)
    if arguments.runs or not arguments.walk:
        yield _random_walks_task(arguments)


def _random_walks_task(arguments: argparse.Namespace) -> LockstepTask:
    model = find_quorum_model(arguments.model, arguments.variant)
    settings = [*([f"FetchLimit={COVER_FETCH_LIMIT}"] if arguments.cover else []), *arguments.set]
    _, config = configuration_with_settings(
        model, arguments.config or ("smoke" if arguments.cover else DEFAULT_CONFIG), settings
    )
    wider = _config_with_wider_bounds(model, config) if arguments.cover else config
    bound = bind(model.protocol, wider)
    about = _stepless_walk_file(arguments.model, arguments.variant, bound.protocol, arguments)
    about = about._replace(ignored=_unlisted_properties(bound))
    return _make_task(arguments, "random walks", about, wider, model, covered=config if arguments.cover else None)


def _unlisted_properties(bound: BoundConfig) -> tuple[str, ...]:
    """Return the properties that a configuration leaves out; none if it lists no properties at all."""
    listed = {prop.name for prop in bound.properties}
    kinds = ("invariant", "step_invariant")
    known = (name for name, prop in bound.protocol.properties.items() if prop.kind in kinds)
    return tuple(name for name in known if name not in listed) if listed else ()


def _config_with_wider_bounds(model: Model, config: ModelConfig) -> ModelConfig:
    """Return a configuration with wider bounds and with late pre-votes, as in Kafka.

    Kafka takes urgent steps without regard to the model's bounds.
    """
    protocol = bind(model.protocol, config).protocol
    limits = {constant.name: getattr(protocol, constant.attribute) for constant in protocol.constants.values()}
    bounds = [constant.name for constant in protocol.constants.values() if constant.is_bound and limits[constant.name]]
    settings = ["LatePreVotes=TRUE", *(f"{name}={limits[name] + EXTRA_STEPS_OF_BOUNDS}" for name in bounds)]
    return config_with_constant_values(config, settings)


def _stepless_walk_file(model: str, variant: str | None, protocol: Protocol, arguments: argparse.Namespace) -> WalkFile:
    return WalkFile(model, variant or "", non_default_settings(protocol), arguments.go_on, (), tuple(arguments.without))


def _make_task(
    arguments: argparse.Namespace,
    name: str,
    file: WalkFile,
    config: ModelConfig,
    model: Model,
    *choose: Any,
    **more: Any,
) -> LockstepTask:
    assert issubclass(model.protocol, Quorum)
    kind = partial(_class_with_known_differences, model.protocol, arguments, file.without)
    return LockstepTask(name, file, config, kind, partial(locate_protocol_errors, model), *choose, **more)


def _class_with_known_differences(
    protocol: type[Quorum], arguments: argparse.Namespace, without: Sequence[str]
) -> type[Quorum]:
    """Return the model class adapted to Kafka's known differences; with `--no-known`, the plain class."""
    kafka = with_known_kafka_differences(
        protocol, disk=arguments.disk, without=without
    )  # checks the names of `without`
    return kafka if arguments.known else protocol


def find_quorum_model(name: str, variant: str | None) -> Model:
    """Return a model for lockstep: `quorum` or one of its variants."""
    model = find_model(name, variant)
    if not issubclass(model.protocol, Quorum):
        raise InputError(f"{name}: not supported by lockstep; use the model quorum or a variant of it")
    return model


def _walk_file_task(path: Path, arguments: argparse.Namespace) -> Iterator[LockstepTask]:
    file = read_walk(path)
    if not file.steps:
        raise InputError(f"{path}: expected steps, found none")
    _class_with_known_differences(
        Quorum, arguments, arguments.without
    )  # reports unknown names as those of the command line
    file = file._replace(
        without=tuple(dict.fromkeys((*file.without, *arguments.without))), go_on=file.go_on or arguments.go_on
    )
    with prefix_errors_with_file(path):
        model = find_quorum_model(file.model, file.variant or None)
        config = config_with_constant_values(all_properties_config(model.protocol), file.settings)
        bind(model.protocol, config)  # reports mistakes before Java starts
    yield _make_task(arguments, str(path), file, config, model, path=path)


def _scenario_tasks(path: Path, arguments: argparse.Namespace) -> Iterator[LockstepTask]:
    """Yield the parts of a scenario as tasks; check first that the model, or Kafka's, can take their steps."""
    from kraftcheck.lockstep.scripts import chooser_maker, require_playable_scenario_section, scenario_script
    from kraftcheck.spec.language.semantics import Semantics
    from kraftcheck.traces.scenarios import read_scenario_sections

    for part in read_scenario_sections(path):
        name = f"{path}:{part.start.line}:1"
        with prefix_errors_with_file(name):
            _, config = scenario_model_and_config(part.words)
            model = find_quorum_model(part.words.model, part.words.variant or None)
            bound = bind(model.protocol, config)
            about = _stepless_walk_file(part.words.model, part.words.variant, bound.protocol, arguments)
        init = part.words.at or bound.init
        assert issubclass(model.protocol, Quorum)
        kafka = bind(_class_with_known_differences(model.protocol, arguments, about.without), config).protocol
        require_playable_scenario_section(part, init, Semantics(bound.protocol), Semantics(kafka))
        yield _make_task(
            arguments, name, about, config, model, chooser_maker(partial(scenario_script, part, init=init))
        )


def _trace_tasks(path: Path, arguments: argparse.Namespace) -> Iterator[LockstepTask]:
    """Yield the traces of a file as tasks; check first that the model can take their steps."""
    from kraftcheck.lockstep.scripts import chooser_maker, read_traces_as_steps, trace_script

    model = find_quorum_model(arguments.model, arguments.variant)
    job, warnings = leniently_bound_job(model, arguments)
    print_warnings(warnings)
    _, config = configuration_with_settings(model, arguments.config, arguments.set)
    for number, trace in enumerate(read_traces_as_steps(path, job.replayer(), job.options.init), start=1):
        about = _stepless_walk_file(arguments.model, arguments.variant, job.protocol, arguments)
        yield _make_task(
            arguments, f"{path}, trace {number}", about, config, model, chooser_maker(partial(trace_script, trace))
        )
