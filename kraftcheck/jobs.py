"""Construction of jobs: validated search requests with model and engine, from a command line, script or scenario."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from kraftcheck.catalogue import Job, Model, find_config, with_settings
from kraftcheck.engines import ENGINES, choose, special
from kraftcheck.explorer.request import SearchRequest
from kraftcheck.options import given
from kraftcheck.spec.cfg.binding import bind, bind_leniently
from kraftcheck.spec.cfg.config import BoundConfig, ModelConfig
from kraftcheck.spec.errors import InputError, unknown
from kraftcheck.spec.language.declarations import OF_BEHAVIOURS, OF_STEPS, PREDICATE, REACHABLE, TEMPORAL, Property
from kraftcheck.spec.language.protocol import Protocol
from kraftcheck.spec.language.semantics import start_names

CHECKS = ("invariants", "properties", "constraints", "action_constraints")
"""The fields of a configuration that name properties."""


def job_of(
    model: Model,
    config: str | None,
    arguments: argparse.Namespace,
    others: Iterable[str] = (),
    beside: Iterable[type[Protocol]] = (),
) -> Job:
    """Return the validated job of a command line; `others` are engine options outside of `SearchRequest`."""
    config_name, content = configuration(model, config, getattr(arguments, "set", ()))
    bound = bind(model.protocol, _without_others(content, model.protocol, beside))
    return job_for(model, config_name, bound, given(arguments), arguments.engine, others)


def job_for(
    model: Model,
    config_name: str,
    bound: BoundConfig,
    asked: Mapping[str, Any],
    engine: str | None,
    others: Iterable[str] = (),
) -> Job:
    """Return the validated job of a bound configuration, with the request fields `asked` that the user gave."""
    if "checkpoint_every" in asked and not asked.keys() & {"checkpoint", "resume"}:
        raise InputError("--checkpoint-every: no checkpoint to write; add --checkpoint or --resume")
    order = {"search": ENGINES[engine].searches[0]} if engine in ENGINES else {}
    asked = {**order, **asked, "symmetry": _symmetry(bound, asked.get("symmetry"))}
    options = SearchRequest.of(bound, **asked)
    name = choose(engine, options.search, [*others, *special(options)])
    return Job(model, config_name, bound.protocol, name, engine is not None, options)


def configuration(model: Model, choice: str | None, settings: Iterable[str]) -> tuple[str, ModelConfig]:
    """Return the name and the content of a configuration, with the constants of `--set`."""
    name, content = find_config(model, choice)
    return name, with_settings(content, settings)


def _without_others(config: ModelConfig, protocol: type[Protocol], beside: Iterable[type[Protocol]]) -> ModelConfig:
    """Drop from a configuration the constants and properties that its protocol lacks but a compared protocol has."""
    own = {*protocol.constants, *protocol.properties}
    others = {name for other in beside for name in (*other.constants, *other.properties)} - own
    if not others:
        return config
    kept = {name: tuple(one for one in getattr(config, name) if one.name not in others) for name in CHECKS}
    constants = {name: given for name, given in config.constants.items() if name not in others}
    return replace(config, constants=constants, **kept)  # type: ignore[arg-type]


def _symmetry(bound: BoundConfig, asked: bool | str | None) -> str | None:
    """Return the symmetry of a search; without SYMMETRY in the `.cfg`, `--symmetry` means the one over most sets."""
    if not asked:
        return bound.symmetry if asked is None else None
    known = bound.protocol.symmetries
    if isinstance(asked, str):
        if asked not in known:
            raise InputError(unknown("symmetry", asked, known, bound.protocol.name()))
        return asked
    if not known:
        raise InputError(f"--symmetry: {bound.protocol.name()} has no symmetric sets")
    return bound.symmetry or max(known, key=lambda name: len(known[name]))


def bound_by_names(protocol: Protocol, asked: dict[str, Any]) -> BoundConfig:
    """Remove the names of properties, view and start from options; return them as a bound configuration."""
    everything = protocol.properties
    local = {name: p for name, p in everything.items() if p.kind not in OF_BEHAVIOURS}
    of_states = {name: p for name, p in local.items() if not p.over_steps}
    of_steps = {name: p for name, p in local.items() if p.kind in OF_STEPS}
    default = [p.name for p in everything.values() if not p.kind.endswith(("constraint", PREDICATE))]

    def chosen(field: str, what: str, known: Mapping[str, Any], default: Iterable[str] = ()) -> list[str]:
        given = asked.pop(field, default)
        names = [given] if isinstance(given, str) else list(given)
        for name in names:
            if name not in known:
                raise InputError(unknown(what, name, known, protocol.name()))
        return names

    def of_kind(*kinds: str) -> tuple[Property, ...]:
        return tuple(prop for prop in checked if prop.kind in kinds)

    views = chosen("view", "view", protocol.views)
    (init,) = chosen("init", "start", start_names(protocol), "Init")
    checked = [everything[name] for name in chosen("properties", "property", everything, default)]
    return BoundConfig(
        protocol,
        tuple(prop for prop in checked if prop.name in local),
        tuple(of_states[name] for name in chosen("constraints", "constraint", of_states)),
        tuple(of_steps[name] for name in chosen("action_constraints", "action constraint", of_steps)),
        view=views[0] if views else None,
        init=init,
        reachable=of_kind(REACHABLE),
        temporal=of_kind(TEMPORAL),
        fairness=type(protocol).fairness_of(asked.pop("specification", None)),
    )


def lenient_job(
    model: Model, arguments: argparse.Namespace, *, whole_space: bool = False, properties: bool = False
) -> tuple[Job, list[str]]:
    """Return the job of a command that compares traces or state sets, with the warnings of `bind_leniently`."""
    config_name, content = configuration(model, arguments.config, getattr(arguments, "set", ()))
    bound, warnings = bind_leniently(model.protocol, content, whole_space=whole_space, properties=properties)
    if not properties:
        bound = bound._replace(deadlock=False)
    options = SearchRequest.of(bound, **given(arguments))
    seen_as = content.view.name if content.view and content.view.name in model.protocol.views else None
    kinds = {name: prop.kind for name, prop in model.protocol.properties.items()}
    temporal = tuple(one.name for one in content.properties if kinds.get(one.name) == TEMPORAL)
    engine = choose(None, options.search)
    next_name = "Next" if content.next is None else content.next.name
    return Job(model, config_name, bound.protocol, engine, False, options, seen_as, temporal, next_name), warnings
