"""The options that several commands have, each described once.

A command names those that it has (`add`). One that is also a field of `Options` has its default there: where the user
does not give it, it is not among the arguments, and `given` returns those that are.
"""

from __future__ import annotations

import argparse
import math
import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import fields
from pathlib import Path
from typing import Any

from kraftcheck.engines import searches
from kraftcheck.explorer.result import Options
from kraftcheck.spec.display import cut
from kraftcheck.spec.errors import InputError

_FIELDS = [field.name for field in fields(Options) if field.name != "report"]  # --report is a file, that is progress
_EVERY = Options.checkpoint_every
MOST_WORKERS = 4096
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([KMGT]?)(?:i?B)?", re.IGNORECASE)


def count(text: str) -> int:
    """Read a number of at least 1."""
    if not text.isascii() or not text.isdigit() or len(text) > 18 or int(text) == 0:
        raise argparse.ArgumentTypeError(f"expected a number of at least 1, found {cut(text, 60)!r}")
    return int(text)


def workers(text: str) -> int:
    """Read a number of threads or processes: a slip shall not make as many as a machine cannot bear."""
    number = count(text)
    if number > MOST_WORKERS:
        raise argparse.ArgumentTypeError(f"expected at most {MOST_WORKERS}, found {number}")
    return number


def seed(text: str) -> int:
    """Read a seed: any whole number."""
    if not re.fullmatch("-?[0-9]{1,1000}", text):
        raise argparse.ArgumentTypeError(f"expected a whole number of at most 1000 digits, found {cut(text, 60)!r}")
    return int(text)


def _name(text: str) -> str:
    if not text:
        raise argparse.ArgumentTypeError("expected a name or a file, found ''")
    return text


def _folder(text: str) -> Path:
    if not text:
        raise argparse.ArgumentTypeError("expected a folder, found ''")
    return Path(text)


def _setting(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals or not key.startswith("spark."):
        raise argparse.ArgumentTypeError(f"expected spark.KEY=VALUE, found {cut(text, 60)!r}")
    return key, value


def _seconds(text: str) -> float:
    with suppress(ValueError):
        if 0 < float(text) < math.inf:
            return float(text)
    raise argparse.ArgumentTypeError(f"expected a number of seconds above 0, found {cut(text, 60)!r}")


def _size(text: str) -> int:
    match = _SIZE.fullmatch(text.strip())
    if match is not None:
        size = float(match[1]) * 1024 ** " KMGT".index(match[2].upper() or " ")
        if 1 <= size < math.inf:
            return int(size)
    raise argparse.ArgumentTypeError(f"expected a size such as 512M or 4G, found {cut(text, 60)!r}")


def _value(metavar: str, what: str | None = None, read: Callable[[str], object] = str, **more: Any) -> dict[str, Any]:
    return {"metavar": metavar, "help": what, "type": read, **more}


def _flag(what: str, action: Any = "store_true", **more: Any) -> dict[str, Any]:
    return {"help": what, "action": action, **more}


COLUMNS = "columns"
"""The value of `--view` with which each replica has a column."""
_MODEL = _value("MODEL", "a name that `kraftcheck models` lists, or path/to/file.py:ClassName")
_OPTIONS: dict[str, dict[str, Any]] = {
    "model": _MODEL,
    "--model": _MODEL | {"required": True},
    "--config": _value("CONFIG", "a .cfg file, or one of the model's (default: the class's own, else default)", _name),
    "--set": _value("NAME=VALUE", "give a constant another value (repeatable)", action="append", default=[]),
    "--variant": _value("NAME", "a variant of the model"),
    "--deadlock": _flag("check for deadlock, whatever the .cfg says", argparse.BooleanOptionalAction),
    "--symmetry": _flag("reduce by symmetry, whatever the .cfg says", argparse.BooleanOptionalAction),
    "--strict-bounds": _flag(
        "to temporal properties, what a bound forbids is not enabled, as in TLC", argparse.BooleanOptionalAction
    ),
    "--continue": _flag("go on after a violation", dest="keep_going"),
    "--check-actions": _flag("test in every call that actions are pure, not in a sample of them"),
    "--search": {"choices": searches(), "help": f"the order (default: {Options.search})"},
    "--engine": _value("NAME", "tables, reference, symbolic or spark (default: the first that can do what is asked)"),
    "--workers": _value("N", "threads", workers),
    "--memory": _value("SIZE", "such as 4G; states beyond it go to disk (default: 60 %% of the machine)", _size),
    "--master": _value("URL", "spark://HOST:PORT, yarn, ... (default: this machine)"),
    "--conf": _value("KEY=VALUE", "one of Spark's settings (repeatable)", _setting, action="append"),
    "--max-states": _value("N", "distinct states", count),
    "--max-depth": _value("N", "states along a path; 1: the initial ones alone", count),
    "--max-nodes": _value("N", "nodes of the symbolic engine's diagrams at one time", count),
    "--time-limit": _value("SECONDS", read=_seconds),
    "--checkpoint": _value("DIR", "where to keep the search's state", _folder),
    "--checkpoint-every": _value("SECONDS", f"how often it is written (default: {_EVERY:.0f})", _seconds),
    "--resume": _value("DIR", "go on with a search from its checkpoint", _folder),
    "--max-size": _value("SIZE", "what a file may unpack to (default: %(default)s)", _size, default="4G"),
    "--resume-if-present": _flag("go on from the folder of --checkpoint, if it holds a checkpoint"),
    "--allow-incomplete": _flag("exit with 0 where nothing is violated and the search stopped at a limit"),
    "--strict": _flag("exit with 20 where a warning stands or a property holds vacuously"),
    "--json": _value("FILE", "write the result as JSON; - is standard output", Path),
    "--trace": _value("FILE", "write the counterexample (.itf.json: ITF; .json: TLC's JSON; else: TLC's text)", Path),
    "--report": _value("FILE", "write a page to look at (.html), or Mermaid for a pull request (.md)", Path),
    "--view": {
        "choices": ("steps", COLUMNS),
        "dest": "layout",
        "help": "how a counterexample is told: what each step changes, or with one column a replica (default: steps)",
    },
    "--simplify": _flag("make a counterexample easier to read: shorter, fewer replicas, actions, switches, messages"),
    "--simplify-time": _value("SECONDS", "how long that may take (default: 30)", _seconds, default=30.0),
    "--junit": _value("FILE", "write the verdict on each property as JUnit's XML", Path),
    "--github": _flag("print annotations of GitHub Actions, with the file and line of the property"),
    "--calls": _flag("say how often each action had to be called in Python"),
    "--verbose": _flag("show what Spark itself says while it starts and runs"),
    "--quiet": _flag("only the verdict, with warnings and counterexamples"),
}
CHECKED = ("--config", "--set", "--deadlock", "--symmetry", "--strict-bounds", "--continue", "--check-actions")
"""What is checked."""


def add(parser: argparse._ActionsContainer, *names: str, **changes: Any) -> None:
    """Add options to a command's parser, or to a group of its arguments."""
    for name in names:
        settings = _OPTIONS[name] | changes
        if settings.get("dest", attribute(name)) in _FIELDS:
            settings = {"default": argparse.SUPPRESS} | settings
        parser.add_argument(name, **settings)


def read(name: str, value: Any) -> Any:
    """Return the value of an option that a script gives, as the command line reads it."""
    option = "--" + name.replace("_", "-")
    reader = _OPTIONS.get(option, {}).get("type")
    if value is None or reader in (None, str, Path):
        return value
    try:
        return reader(str(value)) if reader is not _setting else tuple(dict(value).items())
    except (argparse.ArgumentTypeError, ValueError) as error:
        raise InputError(f"argument {option}: {error}") from None


def attribute(option: str) -> str:
    """Return the name of the attribute that holds an option's value."""
    return option.lstrip("-").replace("-", "_")


def given(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the fields of `Options` that the user gives a value, with these."""
    found = {name: getattr(arguments, name) for name in _FIELDS if name in arguments}
    return {name: tuple(value) if isinstance(value, list) else value for name, value in found.items()}
