r"""Lookup of models, variants and configurations by name, shipped or in a user's file.

A shipped model has its configurations in one TOML file, one table per `.cfg`:

    [default-add]
    about = "Two voters and an observer that is added."
    inherits = "default"
    constants = "Hosts = {n1, n2, n3}  MaxAddVoters = 1"
    properties = "+VersionsAreTold -VotersAreRemoved"

`inherits` names earlier tables, and the last one takes precedence; `without` removes inherited keys. `constants` is
`.cfg` text. A list of names replaces the inherited list; names with `+` or `-` edit it. The other keys are keywords of
a `.cfg` in lower case. A table whose name begins with `_` is abstract: it is only inherited.
"""

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
from kraftcheck.spec.cfg.binding import with_assignments
from kraftcheck.spec.cfg.config import (
    ModelConfig,
    PositionedName,
    TextPosition,
    parse_config,
    parse_setting,
    read_config,
)
from kraftcheck.spec.discovery import (
    innermost_line_in_file,
    load_protocol,
    protocol_of_module,
    variant_by_name,
    variants_of,
)
from kraftcheck.spec.errors import InputError, ProtocolError, RaisedError, name_and_text_of_error, unknown_name_message
from kraftcheck.spec.language.declarations import GRAPH_PROPERTY_KINDS, REFINES
from kraftcheck.spec.language.protocol import Protocol

if TYPE_CHECKING:
    from kraftcheck.traces.replay.replayer import Replayer
    from kraftcheck.traces.scenarios import StartArguments
import re
import textwrap
import tomllib

SINGLE_VALUE_KEYS = ("specification", "init", "next", "symmetry", "view", "alias", "postcondition")
LIST_VALUE_KEYS = ("constraints", "action_constraints", "invariants", "properties")
DEADLOCK_KEY = "check_deadlock"
CONFIGURATION_KEYS = ("about", "inherits", "without", "constants", *SINGLE_VALUE_KEYS, *LIST_VALUE_KEYS, DEADLOCK_KEY)
_CONSTANT_ASSIGNMENT = re.compile(r"(\w+)\s*=\s*(\{(?:[^{}]|\{[^{}]*\})*\}|\"[^\"]*\"|[^\s{}\"]+)\s*")
_MOST_LINE_CHARACTERS = 118


class ShippedConfig(NamedTuple):
    """A shipped configuration: its name, a description, and the text of its `.cfg`."""

    name: str
    about: str
    text: str

    @property
    def summary(self) -> str:
        """The first sentence of the description."""
        sentence, dot, _ = self.about.partition(". ")
        return sentence + dot.strip()

    @property
    def file(self) -> str:
        """The name of the `.cfg` in messages."""
        return f"{self.name}.cfg"


@cache
def read_configurations(path: Path) -> dict[str, ShippedConfig]:
    """Return the configurations of a TOML file by name, in the file's order."""
    tables: dict[str, dict[str, Any]] = {}
    for name, table in tomllib.loads(path.read_text(encoding="utf-8")).items():
        tables[name] = _merge_inherited_tables(f"{path.name}: {name}", table, tables)
    return {
        name: ShippedConfig(name, table.get("about", ""), _cfg_text_of_table(table))
        for name, table in tables.items()
        if not name.startswith("_")
    }


def _merge_inherited_tables(place: str, table: dict[str, Any], tables: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Merge a table with the tables that it inherits."""
    base: dict[str, Any] = {"constants": {}}
    for parent in table.get("inherits", "").split():
        if parent not in tables:
            raise InputError(f"{place}: inherits: {unknown_name_message('configuration', parent, tables)}")
        inherited = tables[parent]
        base |= {**inherited, "constants": base["constants"] | inherited["constants"]}
    for name in table.get("without", "").split():
        base.pop(name, None)
        base["constants"].pop(name, None)
    for key, value in table.items():
        if key == "constants":
            base[key] = base[key] | _parse_constant_assignments(place, value)
        elif key in LIST_VALUE_KEYS:
            base[key] = _edit_inherited_names(base.get(key, ()), value.split())
        elif key in (*SINGLE_VALUE_KEYS, DEADLOCK_KEY, "about"):
            base[key] = value
        elif key not in ("inherits", "without"):
            raise InputError(f"{place}: {unknown_name_message('key', key, CONFIGURATION_KEYS)}")
    base["about"] = " ".join(table.get("about", "").split())
    return base


def _parse_constant_assignments(place: str, text: str) -> dict[str, str]:
    """Split `A = 1  B = {n1, n2}` into names and values."""
    rest = _CONSTANT_ASSIGNMENT.sub("", text).strip()
    if rest:
        raise InputError(f"{place}: constants: expected NAME = VALUE, found {rest}")
    return dict(_CONSTANT_ASSIGNMENT.findall(text))


def _edit_inherited_names(names: tuple[str, ...], change: list[str]) -> tuple[str, ...]:
    """Return `names` after the edits `+Name` and `-Name` of `change`; without such signs `change` replaces `names`."""
    if not all(word[0] in "+-" for word in change):
        return tuple(change)
    removed = {word[1:] for word in change if word[0] == "-"}
    return (*(name for name in names if name not in removed), *(word[1:] for word in change if word[0] == "+"))


def _cfg_text_of_table(table: dict[str, Any]) -> str:
    """Return the text of the `.cfg`."""
    lines = [f"\\* {line}" for line in textwrap.wrap(table["about"], _MOST_LINE_CHARACTERS, break_on_hyphens=False)]
    if table["constants"]:
        lines += ["CONSTANTS", *(f"    {name} = {value}" for name, value in table["constants"].items())]
    for key in (*SINGLE_VALUE_KEYS, *LIST_VALUE_KEYS):
        value = table.get(key)
        if isinstance(value, str):
            lines.append(f"{key.upper()} {value}")
        elif value:
            indent = "    "
            names = textwrap.wrap(
                " ".join(value), _MOST_LINE_CHARACTERS, initial_indent=indent, subsequent_indent=indent
            )
            lines += [key.upper(), *names]
    if DEADLOCK_KEY in table:
        lines.append(f"{DEADLOCK_KEY.upper()} {str(table[DEADLOCK_KEY]).upper()}")
    return "\n".join(lines) + "\n"


MODEL_PACKAGES = ("kraftcheck.kraft_model", "kraftcheck.spec.examples")
"""The packages of the shipped models (see `model_modules_in_package`)."""

CONFIGURATIONS_FILE = "configurations.toml"
"""The file of configurations in a model's package."""

REQUIRED_CONFIGURATIONS = ("smoke", "default", "large")
"""The configurations of every shipped model."""


class Model(NamedTuple):
    """A protocol class, looked up by name."""

    name: str  # as the user wrote it
    protocol: type[Protocol]  # the model's class or its chosen variant
    file: Path | None = None  # the user's file; None for a shipped model

    @property
    def variants(self) -> dict[str, type[Protocol]]:
        """The variants of the protocol, by name."""
        return variants_of(self.protocol)

    @property
    def configurations(self) -> dict[str, ShippedConfig]:
        """The shipped configurations, by name, in file order; a user's variant shares its shipped model's."""
        shipped = self.shipped
        if shipped is None:
            return {}
        module = sys.modules[shipped_model_modules()[shipped]]
        return read_configurations(Path(str(module.__file__)).with_name(CONFIGURATIONS_FILE))

    @property
    def shipped(self) -> str | None:
        """The name of this shipped model, or of the shipped model that a user's class extends; else None."""
        modules = [base.__module__ for base in self.protocol.__mro__]
        return next((name for name, module in shipped_model_modules().items() if module in modules), None)

    @property
    def own_configuration(self) -> str | None:
        """The default configuration of this class; None stands for the configuration named `default`.

        The order of preference: the class attribute `configuration`, `fault.<variant>`, the `.cfg` beside the file.
        """
        named, fault = self.protocol.configuration, f"fault.{self.protocol.variant}"
        if named is not None:
            if not isinstance(named, str):
                raise InputError(f"{self.protocol.__name__}.configuration: expected a name or a file, found {named!r}")
            return next((str(file) for folder in self._folders() if (file := folder / named).is_file()), named)
        if fault in self.configurations:
            return fault
        beside = None if self.file is None else self.file.with_suffix(".cfg")
        return str(beside) if beside is not None and beside.exists() else None

    def _folders(self) -> Iterator[Path]:
        """Yield the folder of the user's file, and the folder of the class that sets `configuration`."""
        if self.file is None:
            return
        yield self.file.parent
        naming = next(base for base in self.protocol.__mro__ if "configuration" in vars(base))
        file = getattr(sys.modules.get(naming.__module__), "__file__", None)
        if file is not None:
            yield Path(file).parent


class SearchJob(NamedTuple):
    """A search request with its model and its engine."""

    model: Model
    config_name: str  # the name of the configuration
    protocol: Protocol  # the protocol with its constants
    engine: str
    is_named: bool  # whether the user named the engine
    options: SearchRequest
    # for traces: the VIEW of the configuration, which only decides whether a lasso closes
    seen_as: str | None = None
    temporal: tuple[str, ...] = ()  # of the configuration, for traces
    next_name: str = "Next"  # of the configuration: the next-state relation, by which TLC may label steps

    def replayer(self, **more: Any) -> Replayer:
        """Return a replayer of traces for the protocol."""
        from kraftcheck.traces.replay.replayer import Replayer

        asked = self.options
        about: dict[str, Any] = {"init": asked.init, "symmetry": asked.symmetry, "fairness": asked.fairness}
        replayer = Replayer(self.protocol, seen_as=self.seen_as, **about, **more)
        replayer.temporal = self.temporal
        return replayer


def shipped_model_modules() -> dict[str, str]:
    """Return the module of each shipped model, by the model's name."""
    return {name: module for home in MODEL_PACKAGES for name, module in model_modules_in_package(home).items()}


@cache
def model_modules_in_package(home: str) -> dict[str, str]:
    """Return the module of each model of a package, by the model's name, without importing the models."""
    packages = [init.parent for folder in import_module(home).__path__ for init in Path(folder).glob("*/__init__.py")]
    names = sorted(package.name for package in packages if (package / CONFIGURATIONS_FILE).exists())
    return {name.replace("_", "-"): f"{home}.{name}" for name in names}


def find_model(name: str, variant_name: str | None = None) -> Model:
    """Return the model with a name, or the variant with `variant_name`; raise InputError if it is unknown."""
    path, colon, class_name = name.rpartition(":")
    shipped = shipped_model_modules()
    if name in shipped:
        model = Model(name, protocol_of_module(import_module(shipped[name])))
    elif colon and path and class_name:
        model = _load_model_from_file(name, path, class_name)
    elif name.removesuffix(":").endswith(".py"):
        file = name.removesuffix(":")
        raise InputError(f"{file}: expected the protocol's class too, as in {file}:ClassName")
    else:
        help_ = "`kraftcheck models` describes them; your own is path/to/file.py:ClassName"
        raise InputError(f"{unknown_name_message('model', name, shipped)}; {help_}")
    return model if variant_name is None else find_variant(model, variant_name)


def _load_model_from_file(name: str, path: str, class_name: str) -> Model:
    if not Path(path).exists():
        raise InputError(f"{path}: there is no such file; `kraftcheck models` lists the models that need none")
    return Model(name, load_protocol(path, class_name), Path(path))


def model_of_class(protocol: type[Protocol], variant_name: str | None = None) -> Model:
    """Return the model of a protocol class, or one of its variants."""
    if not (isinstance(protocol, type) and issubclass(protocol, Protocol)):
        found = f"an instance of {type(protocol).__name__}" if isinstance(protocol, Protocol) else repr(protocol)
        raise InputError(f"expected a model's name or a protocol's class, found {found}")
    model = Model(protocol.__name__, protocol)
    if protocol.__module__ not in shipped_model_modules().values():
        file = getattr(sys.modules.get(protocol.__module__), "__file__", None)
        model = model._replace(file=None if file is None else Path(file))
    return model if variant_name is None else find_variant(model, variant_name)


def find_variant(model: Model, name: str) -> Model:
    """Return a model's variant by its name or as `file.py:ClassName`."""
    path, colon, class_name = name.rpartition(":")
    if name in model.variants:
        return model._replace(protocol=variant_by_name(model.protocol, name))
    if not (colon and path):
        raise InputError(
            unknown_name_message("variant", name, model.variants, model.protocol.name()) + _models_command_hint(model)
        )
    protocol = load_protocol(path, class_name)
    if not any(_is_model_class_or_reloaded_copy(base, model) for base in protocol.__mro__):
        raise InputError(f"{name}: expected a subclass of {model.protocol.__name__}, found another protocol")
    return model._replace(protocol=protocol, file=Path(path))


def _models_command_hint(model: Model) -> str:
    """Return the hint that ends an error message: the command that lists a model's variants and configurations."""
    return f"; see kraftcheck models {model.shipped}" if model.shipped else ""


def _is_model_class_or_reloaded_copy(base: type, model: Model) -> bool:
    """Whether a class is the model's class, or a second copy of it from a file that was loaded twice."""
    if base is model.protocol:
        return True
    file = getattr(sys.modules.get(base.__module__), "__file__", None)
    same_file = model.file is not None and file is not None and Path(file).resolve() == model.file.resolve()
    return same_file and base.__qualname__ == model.protocol.__qualname__


def find_config_name_and_content(model: Model, choice: str | None) -> tuple[str, ModelConfig]:
    """Return the name and the content of a configuration.

    `choice` is the name of a configuration of the model, or a file. None means the model's `own_configuration`, else
    `default`. For a class without either, the configuration checks all properties.
    """
    known = model.configurations
    own = model.own_configuration if choice is None else None
    if choice is None and own is None and not known:
        return "none", all_properties_config(model.protocol)
    name = choice if choice is not None else own or "default"
    if name in known:
        return name, parse_config(known[name].text, known[name].file)
    if own is not None and not Path(own).exists():
        raise InputError(f"{model.name}: configuration = {own!r}: there is no such file; expected --config FILE.cfg")
    _require_configuration_or_file(model, name)
    return name, read_config(name)


def _require_configuration_or_file(model: Model, name: str) -> None:
    """Raise InputError for an unknown configuration: neither a name of the model's nor an existing file."""
    if not name:
        raise InputError("expected a configuration's name or a .cfg file, found ''")
    if name in REQUIRED_CONFIGURATIONS:
        expected = "; expected --config FILE.cfg"
    elif model.configurations and Path(name).suffix != ".cfg" and not Path(name).exists():
        expected = f"; and there is no such file{_models_command_hint(model)}"
    elif model.shipped and not Path(name).exists():
        raise InputError(f"{name}: there is no such file{_models_command_hint(model)}")
    else:
        return
    raise InputError(unknown_name_message("configuration", name, model.configurations, model.name) + expected)


def all_properties_config(protocol: type[Protocol]) -> ModelConfig:
    """Return a configuration without constants that checks every property of a protocol."""
    place = TextPosition("no configuration", 1, 1)
    names = {
        kind: tuple(PositionedName(prop.name, place) for prop in protocol.properties.values() if prop.kind == kind)
        for kind in ("invariant", "step_invariant", REFINES, *GRAPH_PROPERTY_KINDS)
    }
    invariants = names.pop("invariant")
    return ModelConfig(place.file, invariants=invariants, properties=tuple(chain.from_iterable(names.values())))


def scenario_model_and_config(start: StartArguments) -> tuple[Model, ModelConfig]:
    """Return the model of a scenario, and its configuration with the scenario's settings."""
    model = find_model(start.model, start.variant or None)
    _, config = find_config_name_and_content(
        model, start.config or ("smoke" if "smoke" in model.configurations else None)
    )
    settings = dict(start.settings)
    if start.bounds:
        bounds = [constant.name for constant in model.protocol.constants.values() if constant.is_bound]
        settings = dict.fromkeys(bounds, start.bounds) | settings
    return model, config_with_constant_values(config, [f"{name}={value}" for name, value in settings.items()])


def config_with_constant_values(config: ModelConfig, settings: Iterable[str]) -> ModelConfig:
    """Return a configuration with other values for constants, each given as `NAME=VALUE`."""
    return with_assignments(config, [parse_setting(text, config) for text in settings])


@contextmanager
def requested_model(arguments: argparse.Namespace) -> Iterator[Model]:
    """Yield the model of a command line; prefix errors in the block with the model's file and line."""
    model = find_model(arguments.model, arguments.variant)
    with locate_protocol_errors(model):
        yield model


@contextmanager
def locate_protocol_errors(model: Model) -> Iterator[None]:
    """Prefix an error that a user's protocol causes with its file and line, as InputError."""
    try:
        yield
    except RaisedError:  # its message has the place
        raise
    except ProtocolError as error:
        place = _place_in_user_file(model, error.__cause__)
        if place is None or str(model.file) in str(error):
            raise
        raise InputError(f"{place}: {error}") from error
    except (InputError, BrokenPipeError, KeyboardInterrupt):
        raise
    except BaseException as error:  # also SystemExit: a protocol must not end the process
        place = _place_in_user_file(model, error)
        if place is None:
            raise
        raise InputError(f"{place}: {name_and_text_of_error(error)}") from error


def _place_in_user_file(model: Model, error: BaseException | None) -> str | None:
    """Return `file:line` of the user's file in which an exception was raised; None if it was raised elsewhere."""
    line = None if error is None or model.file is None else innermost_line_in_file(error, model.file)
    return None if line is None else f"{model.file}:{line}"
