"""Completes the words of a command line in a shell, with the names of models, variants and configurations."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable
from contextlib import suppress

import argcomplete
from argcomplete.completers import FilesCompleter

from kraftcheck.catalogue import Model, find_model, shipped_models
from kraftcheck.spec.errors import InputError

Completer = Callable[..., Iterable[str]]


def complete(parser: argparse.ArgumentParser) -> None:
    """Answer a shell, and end the process.

    References
    ----------
    argcomplete's documentation: `eval "$(register-python-argcomplete kraftcheck)"`.
    """
    with_completers(parser)
    argcomplete.autocomplete(parser)


def with_completers(parser: argparse.ArgumentParser) -> None:
    """Say of the arguments of the commands what may stand there."""
    completers: dict[str, Completer] = {
        "model": _models,
        "variant": lambda **given: _of_model(given, lambda model: model.variants),
        "variants": lambda **given: _of_model(given, lambda model: model.variants),
        "config": _configurations,
        "cfg": lambda **given: _of_model(given, lambda model: model.configurations),
        "set": lambda **given: _of_model(given, lambda model: [f"{name}=" for name in model.protocol.constants]),
    }
    waiting = [parser]
    while waiting:
        for action in waiting.pop()._actions:
            if isinstance(action, argparse._SubParsersAction):
                waiting += action.choices.values()
            elif action.dest in completers:
                action.completer = completers[action.dest]  # type: ignore[attr-defined]


def _models(prefix: str, **_: object) -> list[str]:
    return [*shipped_models(), *FilesCompleter(("py",))(prefix)]


def _configurations(prefix: str, **given: object) -> list[str]:
    return [*_of_model(given, lambda model: model.configurations), *FilesCompleter(("cfg",))(prefix)]


def _of_model(given: dict[str, object], names: Callable[[Model], Iterable[str]]) -> list[str]:
    """Return names of the model that the command line has so far; none where it has none."""
    model = getattr(given["parsed_args"], "model", None)
    with suppress(InputError):
        return list(names(find_model(str(model))))
    return []
