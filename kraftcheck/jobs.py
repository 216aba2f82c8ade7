"""Jobs: validated search requests with model and engine, from a command line, script or scenario.

The options of the command line are fields of `SearchRequest`, and options of single commands. Each command adds its
options by name (`add_options`). The arguments contain a field of a request only if the user gives it.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from kraftcheck.catalogue import (
    Model,
    SearchJob,
    config_with_constant_values,
    find_config_name_and_content,
    find_model,
    shipped_model_modules,
)
from kraftcheck.engines import ENGINES, choose_engine, engine_specific_options_of_request, search_order_names
from kraftcheck.explorer.request import OPTIONS, SearchRequest, parse_bytes, parse_seconds, parse_spark_setting
from kraftcheck.explorer.request import parse_count as parse_count
from kraftcheck.spec.cfg.binding import bind, bind_leniently
from kraftcheck.spec.cfg.config import BoundConfig, ModelConfig
from kraftcheck.spec.errors import InputError, unknown_name_message
from kraftcheck.spec.language.declarations import (
    GRAPH_PROPERTY_KINDS,
    PREDICATE,
    REACHABLE,
    STEP_PROPERTY_KINDS,
    TEMPORAL,
    Property,
)
from kraftcheck.spec.language.protocol import Protocol
from kraftcheck.spec.language.semantics import methods_by_init_name
from kraftcheck.spec.type_checks import require_fitting_argument
from kraftcheck.spec.values import truncate_text


def parse_seed(text: str) -> int:
    """Parse a seed, any whole number."""
    if not re.fullmatch("-?[0-9]{1,1000}", text):
        raise argparse.ArgumentTypeError(
            f"expected a whole number of at most 1000 digits, found {truncate_text(text, 60)!r}"
        )
    return int(text)


def _parse_config_name(text: str) -> str:
    if not text:
        raise argparse.ArgumentTypeError("expected a name or a file, found ''")
    return text


def _value_option(metavar: str, what: str, read: Callable[[str], object] = str, **more: Any) -> dict[str, Any]:
    return {"metavar": metavar, "help": what, "type": read, **more}


def _flag_option(what: str) -> dict[str, Any]:
    return {"help": what, "action": "store_true"}


SPARK_LOG_HELP = "show the log of Spark"
"""The help of `--verbose` in commands without a table of actions."""
COLUMNS_VIEW = "columns"
"""The value of `--view` for one column per replica."""
_MODEL_ARGUMENT = _value_option("MODEL", "a name that `kraftcheck models` lists, or path/to/file.py:ClassName")
_OPTION_ARGUMENTS: dict[str, dict[str, Any]] = {
    **{
        option.word: {"dest": name, "default": argparse.SUPPRESS, **option.arguments()}
        for name, option in OPTIONS.items()
        if option.word
    },
    "model": _MODEL_ARGUMENT,
    "--model": _MODEL_ARGUMENT | {"required": True},
    "--config": _value_option(
        "CONFIG",
        "a .cfg file, or one of the model's (default: the class's own, else the .cfg beside the file, else default)",
        _parse_config_name,
    ),
    "--set": _value_option("NAME=VALUE", "give a constant another value (repeatable)", action="append", default=[]),
    "--variant": _value_option("NAME", "a variant of the model"),
    "--engine": _value_option(
        "NAME", "tables, reference, bytecode, symbolic or spark (default: the first that supports the options)"
    ),
    "--max-size": _value_option(
        "SIZE", "limit on the unpacked size of a file (default: %(default)s)", parse_bytes, default="4G"
    ),
    "--resume-if-present": _flag_option("resume from the folder of --checkpoint if it holds a checkpoint"),
    "--allow-incomplete": _flag_option("exit with 0 if nothing is violated and the search stopped at a limit"),
    "--strict": _flag_option("exit with 20 if there is a warning or a property holds vacuously"),
    "--json": _value_option("FILE", "write the result as JSON; - is standard output", Path),
    "--trace": _value_option(
        "FILE", "write the counterexample (.itf.json: ITF; .json: TLC's JSON; else: TLC's text)", Path
    ),
    "--report": _value_option(
        "FILE", "write a page for the browser (.html), or Markdown with Mermaid diagrams (.md)", Path
    ),
    "--view": {
        "choices": ("steps", COLUMNS_VIEW),
        "dest": "layout",
        "help": "layout of a counterexample: the changes of each step, or one column per replica (default: steps)",
    },
    "--simplify": _flag_option(
        "make a counterexample easier to read: shorter, fewer replicas, actions, switches, messages"
    ),
    "--simplify-time": _value_option(
        "SECONDS", "time limit per counterexample (default: 30)", parse_seconds, default=30.0
    ),
    "--junit": _value_option("FILE", "write the verdict on each property as JUnit's XML", Path),
    "--github": _flag_option("print annotations of GitHub Actions, with the file and line of the property"),
    "--calls": _flag_option("print how often each action was called in Python"),
    "--quiet": _flag_option("print only the verdict, with warnings and counterexamples"),
}
_OPTION_ARGUMENTS["--search"]["choices"] = search_order_names()
CHECK_OPTIONS = ("--config", "--set", "--deadlock", "--symmetry", "--strict-bounds", "--continue", "--check-actions")
"""The options that decide the checks."""


def add_options(parser: argparse._ActionsContainer, *names: str, **changes: Any) -> None:
    """Add options to a command's parser, or to a group of its arguments."""
    for name in names:
        parser.add_argument(name, **(_OPTION_ARGUMENTS[name] | changes))


WALK_ENGINES = ("tables", "spark")
"""The engines that support random walks."""
NO_WALK_FOLDER_MESSAGE = "--engine spark: no output folder; add --out DIR, a folder that driver and executors share"
SEARCH_ONLY_OPTIONS = ("search", "memory", "max_depth", "max_nodes", "checkpoint", "checkpoint_every", "resume")
"""The options of a search that random walks lack."""


def require_walk_engine(name: str | None) -> None:
    """Raise InputError for an engine without random walks."""
    if name not in (None, *WALK_ENGINES):
        raise InputError(f"--engine {name}: not supported for random walks; use {' or '.join(WALK_ENGINES)}")


def parse_script_option(name: str, value: Any, kind: Any) -> Any:
    """Parse the value of a request's option from a script as the command line parses it."""
    option = OPTIONS[name]
    if not (isinstance(value, str) and option.metavar and option.read is not parse_spark_setting):
        value = require_fitting_argument(name, value, kind)  # text has a parser, which also reads numbers
    if name == "search" and value not in search_order_names():
        raise InputError(unknown_name_message("search", value, search_order_names()))
    if option.read is parse_spark_setting:
        return tuple(parse_script_value(option.word, option.read, f"{key}={one}") for key, one in value.items())
    return value if option.read is str else parse_script_value(option.word, option.read, value)


def parse_script_value(word: str, read: Callable[[str], Any], value: object) -> Any:
    """Parse a value from a script as the command line parses that of the option `word`."""
    try:
        return read(str(value))
    except (argparse.ArgumentTypeError, ValueError) as error:
        raise InputError(f"argument {word}: {error}") from None


def given_options(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the request fields for which the user gave an option, with their values."""
    found = {name: getattr(arguments, name) for name, option in OPTIONS.items() if option.word and name in arguments}
    return {name: tuple(value) if isinstance(value, list) else value for name, value in found.items()}


# Completion in shells, which alone imports argcomplete


def print_shell_completions(parser: argparse.ArgumentParser) -> None:
    """Print completions for a shell and exit. Set up: `eval "$(register-python-argcomplete kraftcheck)"`."""
    import argcomplete

    attach_completers(parser)
    argcomplete.autocomplete(parser)


def attach_completers(parser: argparse.ArgumentParser) -> None:
    """Attach completers for models, variants, configurations and constants to the arguments."""
    from argcomplete.completers import FilesCompleter

    def names(of: Callable[[Model], Iterable[str]], files: str = "") -> Callable[..., Iterable[str]]:
        def offered(prefix: str, **given: Any) -> list[str]:
            """Return completions: names that belong to the model on the command line, and files."""
            found: list[str] = []
            with suppress(InputError):
                found += of(find_model(str(getattr(given["parsed_args"], "model", None))))
            return [*found, *(FilesCompleter((files,))(prefix) if files else ())]

        return offered

    completers = {
        "model": lambda prefix, **_: [*shipped_model_modules(), *FilesCompleter(("py",))(prefix)],
        "variant": names(lambda model: model.variants),
        "variants": names(lambda model: model.variants),
        "config": names(lambda model: model.configurations, "cfg"),
        "cfg": names(lambda model: model.configurations),
        "set": names(lambda model: [f"{name}=" for name in model.protocol.constants]),
    }
    waiting = [parser]
    while waiting:
        for action in waiting.pop()._actions:
            if isinstance(action, argparse._SubParsersAction):
                waiting += action.choices.values()
            elif action.dest in completers:
                action.completer = completers[action.dest]  # type: ignore[attr-defined]


PROPERTY_KEYS = ("invariants", "properties", "constraints", "action_constraints")
"""The fields of a configuration that name properties."""


def job_of_arguments(
    model: Model,
    config: str | None,
    arguments: argparse.Namespace,
    others: Iterable[str] = (),
    beside: Iterable[type[Protocol]] = (),
) -> SearchJob:
    """Return the validated job of a command line; `others` are engine options outside of `SearchRequest`."""
    config_name, content = configuration_with_settings(model, config, getattr(arguments, "set", ()))
    bound = bind(model.protocol, _drop_foreign_config_names(content, model.protocol, beside))
    return job_of_bound_config(model, config_name, bound, given_options(arguments), arguments.engine, others)


def job_of_bound_config(
    model: Model,
    config_name: str,
    bound: BoundConfig,
    asked: Mapping[str, Any],
    engine: str | None,
    others: Iterable[str] = (),
) -> SearchJob:
    """Return the validated job of a bound configuration, with the request fields `asked` that the user gave."""
    if "checkpoint_every" in asked and not asked.keys() & {"checkpoint", "resume"}:
        raise InputError("--checkpoint-every: no checkpoint to write; add --checkpoint or --resume")
    order = {"search": ENGINES[engine].searches[0]} if engine in ENGINES else {}
    asked = {**order, **asked, "symmetry": _symmetry_of_search(bound, asked.get("symmetry"))}
    options = SearchRequest.of(bound, **asked)
    name = choose_engine(engine, options.search, [*others, *engine_specific_options_of_request(options)])
    return SearchJob(model, config_name, bound.protocol, name, engine is not None, options)


def configuration_with_settings(model: Model, choice: str | None, settings: Iterable[str]) -> tuple[str, ModelConfig]:
    """Return the name and the content of a configuration, with the constants of `--set`."""
    name, content = find_config_name_and_content(model, choice)
    return name, config_with_constant_values(content, settings)


def _drop_foreign_config_names(
    config: ModelConfig, protocol: type[Protocol], beside: Iterable[type[Protocol]]
) -> ModelConfig:
    """Drop from a configuration the constants and properties that its protocol lacks but a compared protocol has."""
    own = {*protocol.constants, *protocol.properties}
    others = {name for other in beside for name in (*other.constants, *other.properties)} - own
    if not others:
        return config
    kept = {name: tuple(one for one in getattr(config, name) if one.name not in others) for name in PROPERTY_KEYS}
    constants = {name: given for name, given in config.constants.items() if name not in others}
    return replace(config, constants=constants, **kept)  # type: ignore[arg-type]


def _symmetry_of_search(bound: BoundConfig, asked: bool | str | None) -> str | None:
    """Return the symmetry of a search; without SYMMETRY in the `.cfg`, `--symmetry` means the one over most sets."""
    if not asked:
        return bound.symmetry if asked is None else None
    known = bound.protocol.symmetries
    if isinstance(asked, str):
        if asked not in known:
            raise InputError(unknown_name_message("symmetry", asked, known, bound.protocol.name()))
        return asked
    if not known:
        raise InputError(f"--symmetry: {bound.protocol.name()} has no symmetric sets")
    return bound.symmetry or max(known, key=lambda name: len(known[name]))


def pop_config_from_options(protocol: Protocol, asked: dict[str, Any]) -> BoundConfig:
    """Remove the names of properties, view and start from options; return them as a bound configuration."""
    everything = protocol.properties
    local = {name: p for name, p in everything.items() if p.kind not in GRAPH_PROPERTY_KINDS}
    of_states = {name: p for name, p in local.items() if not p.over_steps}
    of_steps = {name: p for name, p in local.items() if p.kind in STEP_PROPERTY_KINDS}
    default = [p.name for p in everything.values() if not p.kind.endswith(("constraint", PREDICATE))]

    def chosen(field: str, what: str, known: Mapping[str, Any], default: Iterable[str] = ()) -> list[str]:
        given = asked.pop(field, default)
        names = [given] if isinstance(given, str) else list(given)
        for name in names:
            if name not in known:
                raise InputError(unknown_name_message(what, name, known, protocol.name()))
        return names

    def of_kind(*kinds: str) -> tuple[Property, ...]:
        return tuple(prop for prop in checked if prop.kind in kinds)

    views = chosen("view", "view", protocol.views)
    (init,) = chosen("init", "start", methods_by_init_name(protocol), "Init")
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


def leniently_bound_job(
    model: Model, arguments: argparse.Namespace, *, whole_space: bool = False, properties: bool = False
) -> tuple[SearchJob, list[str]]:
    """Return the job of a command that compares traces or state sets, with the warnings of `bind_leniently`."""
    config_name, content = configuration_with_settings(model, arguments.config, getattr(arguments, "set", ()))
    bound, warnings = bind_leniently(model.protocol, content, whole_space=whole_space, properties=properties)
    if not properties:
        bound = bound._replace(deadlock=False)
    options = SearchRequest.of(bound, **given_options(arguments))
    seen_as = content.view.name if content.view and content.view.name in model.protocol.views else None
    kinds = {name: prop.kind for name, prop in model.protocol.properties.items()}
    temporal = tuple(one.name for one in content.properties if kinds.get(one.name) == TEMPORAL)
    engine = choose_engine(None, options.search)
    next_name = "Next" if content.next is None else content.next.name
    return SearchJob(model, config_name, bound.protocol, engine, False, options, seen_as, temporal, next_name), warnings
