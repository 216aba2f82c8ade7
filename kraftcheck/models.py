"""The models that can be named: those that are shipped, and classes in a user's file."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import NamedTuple

from spec.config import ModelConfig, Named, Position, read_config
from spec.errors import InputError
from spec.loading import load, protocol_at, variant, variants_of
from spec.names import unknown
from spec.protocol import Protocol

SHIPPED = {
    "reconfig": "kraft_model.reconfig:Reconfig",
    "two-phase-commit": "spec.examples.two_phase_commit:TwoPhaseCommit",
    "lock-service": "spec.examples.lock_service:LockService",
}
"""Where each shipped model is. Its configurations are beside it, in `configs/<model>.<configuration>.cfg`."""

TIERS = ("smoke", "default", "large")
"""Configurations that every shipped model has."""


class Model(NamedTuple):
    """A protocol that a user named.

    Attributes
    ----------
    name
        The name, as given.
    protocol
        The class: the variant, where one was asked for.
    file
        The user's file, or None for a shipped model.
    """

    name: str
    protocol: type[Protocol]
    file: Path | None = None

    @property
    def variants(self) -> dict[str, type[Protocol]]:
        """The variants of the protocol, by name."""
        return variants_of(self.protocol)

    @property
    def configurations(self) -> dict[str, Path]:
        """The configurations shipped with the model, by name: the tiers first."""
        if self.file is not None:
            return {}
        module = sys.modules[SHIPPED[self.name].partition(":")[0]]
        files = sorted(Path(str(module.__file__)).with_name("configs").glob(f"{self.name}.*.cfg"))
        found = {file.name[len(self.name) + 1 : -len(".cfg")]: file for file in files}
        return {name: found[name] for name in (*[tier for tier in TIERS if tier in found], *found)}


def find_model(name: str, variant_name: str | None = None) -> Model:
    """Return the model that a user names.

    Parameters
    ----------
    name
        A shipped model's name, or `path/to/file.py:ClassName`.
    variant_name
        The name of one of its variants, or None.

    Raises
    ------
    InputError
        If there is none of that name, or it cannot be loaded.
    """
    path, colon, class_name = name.rpartition(":")
    if name in SHIPPED:
        model = Model(name, protocol_at(SHIPPED[name]))
    elif colon and path:
        model = Model(name, load(path, class_name), Path(path))
    elif name.endswith(".py"):
        raise InputError(f"{name}: expected the protocol's class too, as in {name}:ClassName")
    else:
        raise InputError(f"{unknown('model', name, SHIPPED)}; or name your own as path/to/file.py:ClassName")
    return model if variant_name is None else model._replace(protocol=variant(model.protocol, variant_name))


def find_config(model: Model, choice: str | None) -> tuple[str, ModelConfig]:
    """Return what a configuration is called, and what it says.

    Parameters
    ----------
    model
        The model.
    choice
        The name of one of its configurations, or a file; None for `default`. A user's own model has no
        configurations of its own; without a choice the file beside it that ends in `.cfg` is taken, as TLC does, and
        without one all its invariants are checked.

    Raises
    ------
    InputError
        If there is none of that name, or it cannot be read.
    """
    known = model.configurations
    if choice is None and model.file is not None:
        beside = model.file.with_suffix(".cfg")
        return (str(beside), read_config(beside)) if beside.exists() else ("none", everything(model.protocol))
    name = choice or "default"
    if name in known:
        return name, read_config(known[name])
    if name in TIERS:
        raise InputError(f"{unknown('configuration', name, known, model.name)}; expected --config FILE.cfg")
    if not Path(name).exists() and Path(name).suffix == "" and known:
        raise InputError(f"{unknown('configuration', name, known, model.name)}; and there is no such file")
    return name, read_config(name)


def everything(protocol: type[Protocol]) -> ModelConfig:
    """Return the configuration that sets no constant and checks every invariant of a protocol."""
    place = Position("no configuration", 1, 1)
    names = {
        kind: tuple(Named(prop.name, place) for prop in protocol.properties.values() if prop.kind == kind)
        for kind in ("invariant", "step_invariant")
    }
    return ModelConfig(place.file, invariants=names["invariant"], properties=names["step_invariant"])
