"""Finds models, variants and configurations by the names that users give: shipped ones, or classes in their files."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from kraftcheck.explorer.request import SearchRequest
from kraftcheck.spec.cfg.config import (
    ModelConfig,
    Named,
    TextPosition,
    override,
    parse_config,
    parse_setting,
    read_config,
)
from kraftcheck.spec.cfg.tables import ShippedConfig, read_configurations
from kraftcheck.spec.discovery import line_to_blame, load, protocol_in, variant, variants_of
from kraftcheck.spec.errors import InputError, ProtocolError, RaisedError, told_error, unknown
from kraftcheck.spec.language.declarations import OF_BEHAVIOURS
from kraftcheck.spec.language.protocol import Protocol

if TYPE_CHECKING:
    from kraftcheck.traces.replay.replayer import Replayer
    from kraftcheck.traces.scenarios import Start

HOMES = ("kraftcheck.kraft_model", "kraftcheck.spec.examples")
"""The packages in which shipped models are: see `models_in`."""

CONFIGURATIONS = "configurations.toml"
"""The file in a model's package that has its configurations."""

TIERS = ("smoke", "default", "large")
"""Configurations that every shipped model has."""


class Model(NamedTuple):
    """A protocol that a user named."""

    name: str  # the name, as given
    protocol: type[Protocol]  # the class: the variant, where one was asked for
    file: Path | None = None  # the user's file, or None for a shipped model

    @property
    def variants(self) -> dict[str, type[Protocol]]:
        """The variants of the protocol, by name."""
        return variants_of(self.protocol)

    @property
    def configurations(self) -> dict[str, ShippedConfig]:
        """The configurations shipped with the model, by name, in the order of their file.

        A user's class has those of the shipped model that it changes.
        """
        shipped = self.shipped
        if shipped is None:
            return {}
        module = sys.modules[shipped_models()[shipped]]
        return read_configurations(Path(str(module.__file__)).with_name(CONFIGURATIONS))

    @property
    def shipped(self) -> str | None:
        """The name of the shipped model that this is, or changes; None where a user's protocol stands alone."""
        modules = [base.__module__ for base in self.protocol.__mro__]
        return next((name for name, module in shipped_models().items() if module in modules), None)

    @property
    def own_configuration(self) -> str | None:
        """The configuration to take where the user names none; None: `default`, where the model has it.

        The one that the class names, else the one called `fault.<variant>`, else the `.cfg` beside the user's file.
        """
        named, fault = self.protocol.configuration, f"fault.{self.protocol.variant}"
        if named is not None:
            return next((str(file) for folder in self._folders() if (file := folder / named).is_file()), named)
        if fault in self.configurations:
            return fault
        beside = None if self.file is None else self.file.with_suffix(".cfg")
        return str(beside) if beside is not None and beside.exists() else None

    def _folders(self) -> Iterator[Path]:
        """Yield the folders of the user's file and of the class that names the configuration."""
        if self.file is None:
            return
        yield self.file.parent
        naming = next(base for base in self.protocol.__mro__ if "configuration" in vars(base))
        file = getattr(sys.modules.get(naming.__module__), "__file__", None)
        if file is not None:
            yield Path(file).parent


class Job(NamedTuple):
    """A search request with its model and its engine."""

    model: Model
    config_name: str  # what its configuration is called
    protocol: Protocol  # the protocol with its constants
    engine: str  # the engine's name
    is_named: bool  # whether the user named the engine
    options: SearchRequest
    # where traces are compared: the VIEW of the configuration, which plays no part but where a lasso comes back
    seen_as: str | None = None

    def replayer(self, **more: Any) -> Replayer:
        """Return what walks traces through the protocol."""
        from kraftcheck.traces.replay.replayer import Replayer

        asked = self.options
        about: dict[str, Any] = {"init": asked.init, "symmetry": asked.symmetry, "fairness": asked.fairness}
        return Replayer(self.protocol, seen_as=self.seen_as, **about, **more)


def shipped_models() -> dict[str, str]:
    """Return the module of each shipped model, by the model's name."""
    return {name: module for home in HOMES for name, module in models_in(home).items()}


@cache
def models_in(home: str) -> dict[str, str]:
    """Return the module of each model of a package, by the model's name. No model is imported."""
    packages = [init.parent for folder in import_module(home).__path__ for init in Path(folder).glob("*/__init__.py")]
    names = sorted(package.name for package in packages if (package / CONFIGURATIONS).exists())
    return {name.replace("_", "-"): f"{home}.{name}" for name in names}


def find_model(name: str, variant_name: str | None = None) -> Model:
    """Return the model that a user names."""
    path, colon, class_name = name.rpartition(":")
    shipped = shipped_models()
    if name in shipped:
        model = Model(name, protocol_in(import_module(shipped[name])))
    elif colon and path and class_name:
        model = Model(name, load(path, class_name), Path(path))
    elif name.removesuffix(":").endswith(".py"):
        file = name.removesuffix(":")
        raise InputError(f"{file}: expected the protocol's class too, as in {file}:ClassName")
    else:
        raise InputError(f"{unknown('model', name, shipped)}; or name your own as path/to/file.py:ClassName")
    return model if variant_name is None else find_variant(model, variant_name)


def model_of(protocol: type[Protocol], variant_name: str | None = None) -> Model:
    """Return the model that a class of the user's is, or one of its variants."""
    if not (isinstance(protocol, type) and issubclass(protocol, Protocol)):
        found = f"an instance of {type(protocol).__name__}" if isinstance(protocol, Protocol) else repr(protocol)
        raise InputError(f"expected a model's name or a protocol's class, found {found}")
    model = Model(protocol.__name__, protocol)
    if protocol.__module__ not in shipped_models().values():
        file = getattr(sys.modules.get(protocol.__module__), "__file__", None)
        model = model._replace(file=None if file is None else Path(file))
    return model if variant_name is None else find_variant(model, variant_name)


def find_variant(model: Model, name: str) -> Model:
    """Return a model's variant that a user names."""
    path, colon, class_name = name.rpartition(":")
    if not (colon and path) or name in model.variants:
        return model._replace(protocol=variant(model.protocol, name))
    protocol = load(path, class_name)
    if not any(_is_same(base, model) for base in protocol.__mro__):
        raise InputError(f"{name}: expected a subclass of {model.protocol.__name__}, found another protocol")
    return model._replace(protocol=protocol, file=Path(path))


def _is_same(base: type, model: Model) -> bool:
    """Whether a class is a model's; a user's file that another one imports is loaded a second time for that."""
    if base is model.protocol:
        return True
    file = getattr(sys.modules.get(base.__module__), "__file__", None)
    same_file = model.file is not None and file is not None and Path(file).resolve() == model.file.resolve()
    return same_file and base.__qualname__ == model.protocol.__qualname__


def find_config(model: Model, choice: str | None) -> tuple[str, ModelConfig]:
    """Return what a configuration is called, and what it says.

    `choice`: the name of one of its configurations, or a file. Without a choice the model's `own_configuration` is
    taken, else `default`; a class that has neither is checked for all its properties.
    """
    known = model.configurations
    own = model.own_configuration if choice is None else None
    if choice is None and own is None and not known:
        return "none", everything(model.protocol)
    name = choice if choice is not None else own or "default"
    if name in known:
        return name, parse_config(known[name].text, known[name].file)
    if own is not None and not Path(own).exists():
        raise InputError(f"{model.name}: configuration = {own!r}: there is no such file; expected --config FILE.cfg")
    _refuse_name(model, name)
    return name, read_config(name)


def _refuse_name(model: Model, name: str) -> None:
    """Raise InputError for what is not the name of a configuration and is no file, but might be meant so."""
    if not name:
        raise InputError("expected a configuration's name or a .cfg file, found ''")
    if name in TIERS:
        expected = "; expected --config FILE.cfg"
    elif model.configurations and not Path(name).suffix and not Path(name).exists():
        expected = "; and there is no such file"
    else:
        return
    raise InputError(unknown("configuration", name, model.configurations, model.name) + expected)


def everything(protocol: type[Protocol]) -> ModelConfig:
    """Return the configuration that sets no constant and checks every property of a protocol."""
    place = TextPosition("no configuration", 1, 1)
    names = {
        kind: tuple(Named(prop.name, place) for prop in protocol.properties.values() if prop.kind == kind)
        for kind in ("invariant", "step_invariant", *OF_BEHAVIOURS)
    }
    invariants = names.pop("invariant")
    return ModelConfig(place.file, invariants=invariants, properties=tuple(chain.from_iterable(names.values())))


def scenario_job(start: Start) -> tuple[Model, ModelConfig]:
    """Return the model that a scenario starts, and its configuration with what the scenario changes."""
    model = find_model(start.model, start.variant or None)
    _, config = find_config(model, start.config or ("smoke" if "smoke" in model.configurations else None))
    settings = dict(start.settings)
    if start.bounds:
        bounds = [constant.name for constant in model.protocol.constants.values() if constant.is_bound]
        settings = dict.fromkeys(bounds, start.bounds) | settings
    return model, with_settings(config, [f"{name}={value}" for name, value in settings.items()])


def with_settings(config: ModelConfig, settings: Iterable[str]) -> ModelConfig:
    """Return a configuration in which constants have other values, each as `NAME=VALUE`."""
    return override(config, [parse_setting(text, config) for text in settings])


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
