"""What a command line asks for, checked: a model, a configuration, an engine, options of a search."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from dataclasses import replace

from kraftcheck.catalogue import Job, Model, find_config
from kraftcheck.engines import ENGINES, choose, special
from kraftcheck.explorer.result import Options
from kraftcheck.options import given
from kraftcheck.spec.cfg.binding import BoundConfig, bind, bind_leniently
from kraftcheck.spec.cfg.config import ModelConfig, override, parse_setting
from kraftcheck.spec.errors import InputError
from kraftcheck.spec.language.protocol import Protocol

CHECKS = ("invariants", "properties", "constraints", "action_constraints")
"""What of a configuration names properties."""


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
