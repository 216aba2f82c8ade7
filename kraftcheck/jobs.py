"""What a command line asks for, checked: a model, a configuration, an engine, options of a search."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import NamedTuple

from kraftcheck.catalogue import Model, find_config, find_model
from kraftcheck.engines import ENGINES, choose, special
from kraftcheck.explorer.result import Options
from kraftcheck.options import given
from kraftcheck.spec.cfg.binding import BoundConfig, bind
from kraftcheck.spec.cfg.config import ModelConfig, override, parse_setting
from kraftcheck.spec.errors import InputError, ProtocolError, RaisedError, told_error
from kraftcheck.spec.language.protocol import Protocol
from kraftcheck.spec.loading.user_files import line_to_blame
from kraftcheck.traces.scenarios import Start

CHECKS = ("invariants", "properties", "constraints", "action_constraints")
"""What of a configuration names properties."""


class Job(NamedTuple):
    """A search that a command line asks for."""

    model: Model
    config_name: str  # what its configuration is called
    protocol: Protocol  # the protocol with its constants
    engine: str  # the engine's name
    is_named: bool  # whether the user named the engine
    options: Options  # what the search is asked for
    # where traces are compared: the VIEW of the configuration, which plays no part but where a lasso comes back
    seen_as: str | None = None


def job_of(
    model: Model,
    config: str | None,
    arguments: argparse.Namespace,
    others: Iterable[str] = (),
    beside: Iterable[type[Protocol]] = (),
) -> Job:
    """Return what a command line asks for, checked."""
    config_name, content = _configuration(model, config, arguments)
    bound, asked = bind(model.protocol, _without_others(content, model.protocol, beside)), given(arguments)
    if "checkpoint_every" in asked and not asked.keys() & {"checkpoint", "resume"}:
        raise InputError("--checkpoint-every: expected --checkpoint or --resume too")
    asked["symmetry"] = _symmetry(bound, asked.get("symmetry"))
    if "search" not in asked and arguments.engine in ENGINES:
        asked["search"] = ENGINES[arguments.engine].searches[0]
    engine = choose(arguments.engine, asked.get("search", Options.search), special([*others, *asked]))
    options = Options.of(bound, **asked)
    return Job(model, config_name, bound.protocol, engine, arguments.engine is not None, options)


def _configuration(model: Model, config: str | None, arguments: argparse.Namespace) -> tuple[str, ModelConfig]:
    """Return what a configuration is called, and what it says with the constants of `--set`."""
    name, content = find_config(model, config)
    settings = getattr(arguments, "set", ())
    return name, override(content, [parse_setting(text, content) for text in settings])


def _without_others(config: ModelConfig, protocol: type[Protocol], beside: Iterable[type[Protocol]]) -> ModelConfig:
    """Return a configuration without the constants and properties that only protocols beside this one have."""
    own = {*protocol.constants, *protocol.properties}
    others = {name for other in beside for name in (*other.constants, *other.properties)} - own
    if not others:
        return config
    kept = {name: tuple(one for one in getattr(config, name) if one.name not in others) for name in CHECKS}
    constants = {name: given for name, given in config.constants.items() if name not in others}
    return replace(config, constants=constants, **kept)  # type: ignore[arg-type]


def scenario_job(start: Start) -> tuple[Model, ModelConfig]:
    """Return the model that a scenario starts, and its configuration with what the scenario changes."""
    model = find_model(start.model, start.variant or None)
    _, config = find_config(model, start.config or ("smoke" if "smoke" in model.configurations else None))
    settings = dict(start.settings)
    if start.bounds:
        bounds = [constant.name for constant in model.protocol.constants.values() if constant.is_bound]
        settings.update({name: start.bounds for name in bounds if name not in settings})
    return model, override(config, [parse_setting(f"{name}={value}", config) for name, value in settings.items()])


def _symmetry(bound: BoundConfig, asked: bool | None) -> str | None:
    """Return the symmetry to use: with `--symmetry` and none in the configuration, the protocol's widest."""
    if asked is None or bound.symmetry is not None:
        return bound.symmetry if asked is not False else None
    return widest_symmetry(bound.protocol) if asked else None


def widest_symmetry(protocol: Protocol) -> str:
    """Return the name of the symmetry that has most sets."""
    symmetries = protocol.symmetries
    if not symmetries:
        raise InputError(f"--symmetry: {protocol.name()} has no symmetric sets")
    return max(symmetries, key=lambda name: len(symmetries[name]))


def lenient_job(
    model: Model, arguments: argparse.Namespace, *, whole_space: bool = False, properties: bool = False
) -> tuple[Job, list[str]]:
    """Return what a command line asks for where traces or state sets are compared, with `bind_leniently`'s warnings."""
    config_name, content = _configuration(model, arguments.config, arguments)
    bound, warnings = bind_leniently(model.protocol, content, whole_space=whole_space, properties=properties)
    if not properties:
        bound = bound._replace(deadlock=False)
    options = Options.of(bound, **given(arguments))
    seen_as = content.view.name if content.view and content.view.name in model.protocol.views else None
    return Job(model, config_name, bound.protocol, choose(None, options.search), False, options, seen_as), warnings


def bind_leniently(
    protocol: type[Protocol], config: ModelConfig, *, whole_space: bool, properties: bool = False
) -> tuple[BoundConfig, list[str]]:
    """Bind a configuration to a protocol, without its properties: where traces or state sets are compared."""
    known = protocol.properties
    warnings = [
        f"{named.position}: {protocol.name()} has no property {named.name}; nothing depends on it here"
        for named in (*config.invariants, *config.properties)
        if named.name not in known
    ]
    kept = protocol.properties if properties else {}
    invariants, behaviours = (
        tuple(named for named in names if named.name in kept) for names in (config.invariants, config.properties)
    )
    config = replace(config, invariants=invariants, properties=behaviours, alias=None, postcondition=None)
    if config.specification is not None and protocol.specifications.get(config.specification.name) is True:
        config = replace(config, specification=None)  # it asks for fairness that the protocol does not say
    if not whole_space:
        config = replace(config, constraints=(), action_constraints=(), view=None)
    return bind(protocol, config), warnings


@contextmanager
def named_model(arguments: argparse.Namespace) -> Iterator[Model]:
    """Yield the model that a command line names, `blaming` it for what goes wrong."""
    model = find_model(arguments.model, arguments.variant)
    with blaming(model):
        yield model


@contextmanager
def blaming(model: Model) -> Iterator[None]:
    """Say of what goes wrong in a user's protocol in which line of it that is."""
    try:
        yield
    except RaisedError:  # says its place itself
        raise
    except ProtocolError as error:
        place = _place(model, error.__cause__)
        if place is None or str(model.file) in str(error):
            raise
        raise InputError(f"{place}: {error}") from error
    except (InputError, BrokenPipeError, KeyboardInterrupt):
        raise
    except BaseException as error:  # SystemExit among them: no protocol says how its check ended
        place = _place(model, error)
        if place is None:
            raise
        raise InputError(f"{place}: {told_error(error)}") from error


def _place(model: Model, error: BaseException | None) -> str | None:
    """Return the line of the user's file that an exception comes from; None where it does not."""
    line = None if error is None or model.file is None else line_to_blame(error, model.file)
    return None if line is None else f"{model.file}:{line}"
