"""The options of the command line: fields of `SearchRequest`, and options of single commands.

Each command adds its options by name (`add`). The arguments contain a field of a request only if the user gives it.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

from kraftcheck.catalogue import Model, find_model, shipped_models
from kraftcheck.engines import searches
from kraftcheck.explorer.request import OPTIONS, seconds, setting, size
from kraftcheck.explorer.request import count as count
from kraftcheck.spec.errors import InputError, unknown
from kraftcheck.spec.values import cut


def seed(text: str) -> int:
    """Parse a seed, any whole number."""
    if not re.fullmatch("-?[0-9]{1,1000}", text):
        raise argparse.ArgumentTypeError(f"expected a whole number of at most 1000 digits, found {cut(text, 60)!r}")
    return int(text)


def _name(text: str) -> str:
    if not text:
        raise argparse.ArgumentTypeError("expected a name or a file, found ''")
    return text


def _value(metavar: str, what: str, read: Callable[[str], object] = str, **more: Any) -> dict[str, Any]:
    return {"metavar": metavar, "help": what, "type": read, **more}


def _flag(what: str) -> dict[str, Any]:
    return {"help": what, "action": "store_true"}


SPARK_LOG = "show the log of Spark"
"""The help of `--verbose` in commands without a table of actions."""
COLUMNS = "columns"
"""The value of `--view` for one column per replica."""
_MODEL = _value("MODEL", "a name that `kraftcheck models` lists, or path/to/file.py:ClassName")
_ARGUMENTS: dict[str, dict[str, Any]] = {
    **{
        option.word: {"dest": name, "default": argparse.SUPPRESS, **option.arguments()}
        for name, option in OPTIONS.items()
        if option.word
    },
    "model": _MODEL,
    "--model": _MODEL | {"required": True},
    "--config": _value("CONFIG", "a .cfg file, or one of the model's (default: the class's own, else default)", _name),
    "--set": _value("NAME=VALUE", "give a constant another value (repeatable)", action="append", default=[]),
    "--variant": _value("NAME", "a variant of the model"),
    "--engine": _value("NAME", "tables, reference, symbolic or spark (default: the first that supports the options)"),
    "--max-size": _value("SIZE", "limit on the unpacked size of a file (default: %(default)s)", size, default="4G"),
    "--resume-if-present": _flag("resume from the folder of --checkpoint if it holds a checkpoint"),
    "--allow-incomplete": _flag("exit with 0 if nothing is violated and the search stopped at a limit"),
    "--strict": _flag("exit with 20 if there is a warning or a property holds vacuously"),
    "--json": _value("FILE", "write the result as JSON; - is standard output", Path),
    "--trace": _value("FILE", "write the counterexample (.itf.json: ITF; .json: TLC's JSON; else: TLC's text)", Path),
    "--report": _value("FILE", "write a page for the browser (.html), or Markdown with Mermaid diagrams (.md)", Path),
    "--view": {
        "choices": ("steps", COLUMNS),
        "dest": "layout",
        "help": "layout of a counterexample: the changes of each step, or one column per replica (default: steps)",
    },
    "--simplify": _flag("make a counterexample easier to read: shorter, fewer replicas, actions, switches, messages"),
    "--simplify-time": _value("SECONDS", "time limit per counterexample (default: 30)", seconds, default=30.0),
    "--junit": _value("FILE", "write the verdict on each property as JUnit's XML", Path),
    "--github": _flag("print annotations of GitHub Actions, with the file and line of the property"),
    "--calls": _flag("print how often each action was called in Python"),
    "--quiet": _flag("print only the verdict, with warnings and counterexamples"),
}
_ARGUMENTS["--search"]["choices"] = searches()
CHECKED = ("--config", "--set", "--deadlock", "--symmetry", "--strict-bounds", "--continue", "--check-actions")
"""The options that decide the checks."""


def add(parser: argparse._ActionsContainer, *names: str, **changes: Any) -> None:
    """Add options to a command's parser, or to a group of its arguments."""
    for name in names:
        parser.add_argument(name, **(_ARGUMENTS[name] | changes))


def read(name: str, value: Any) -> Any:
    """Parse the value of a request's option from a script as the command line parses it."""
    option = OPTIONS[name]
    if name == "search" and value not in searches():
        raise InputError(unknown("search", value, searches()))
    if value is None or option.read is str:
        return value
    try:
        return tuple(dict(value).items()) if option.read is setting else option.read(str(value))
    except (argparse.ArgumentTypeError, ValueError) as error:
        raise InputError(f"argument {option.word}: {error}") from None


def given(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the request fields for which the user gave an option, with their values."""
    found = {name: getattr(arguments, name) for name, option in OPTIONS.items() if option.word and name in arguments}
    return {name: tuple(value) if isinstance(value, list) else value for name, value in found.items()}


# Completion in shells, which alone imports argcomplete


def complete(parser: argparse.ArgumentParser) -> None:
    """Print completions for a shell and exit. Set up: `eval "$(register-python-argcomplete kraftcheck)"`."""
    import argcomplete

    with_completers(parser)
    argcomplete.autocomplete(parser)


def with_completers(parser: argparse.ArgumentParser) -> None:
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
        "model": lambda prefix, **_: [*shipped_models(), *FilesCompleter(("py",))(prefix)],
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
