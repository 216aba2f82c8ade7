"""List the models, or a model's variants and configurations.

for example:
    kraftcheck models
    kraftcheck models reconfig
    kraftcheck models reconfig --cfg smoke
"""

from __future__ import annotations

import argparse
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from kraftcheck.catalogue import Model, find_model, shipped_model_modules
from kraftcheck.jobs import add_options
from kraftcheck.reporting.lines import FAINT, HEAD, PLAIN, Line, print_lines, table_lines
from kraftcheck.reporting.output import OutputFiles
from kraftcheck.spec.discovery import first_docstring_sentence
from kraftcheck.spec.errors import InputError, unknown_name_message

MOST_LINE_CHARACTERS = 100


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_options(parser, "model", nargs="?", help="the model whose variants and configurations are listed")
    parser.add_argument("--cfg", metavar="NAME", help="print a configuration of the model as a .cfg for TLC")
    add_options(parser, "--json", help="also write the list as JSON, with all variants and configurations")


def run(arguments: argparse.Namespace) -> int:
    if arguments.cfg is not None:
        if arguments.model is None:
            raise InputError(f"--cfg {arguments.cfg}: no model given; use kraftcheck models MODEL --cfg NAME")
        if arguments.json is not None:
            raise InputError(f"--json {arguments.json}: holds the list, not a configuration; leave out --cfg or --json")
        model = find_model(arguments.model)
        if arguments.cfg not in model.configurations:
            wrong = unknown_name_message("configuration", arguments.cfg, model.configurations, model.name)
            raise InputError(f"{wrong}; see kraftcheck models {model.name}")
        print(model.configurations[arguments.cfg].text, end="")
        return 0
    with OutputFiles(arguments, "json") as files:
        models = list(map(find_model, shipped_model_modules() if arguments.model is None else [arguments.model]))
        files.json(lambda: [model_as_json(model) for model in models])
        print_lines(models_table(models) if arguments.model is None else variant_and_configuration_lines(models[0]))
    return 0


def models_table(models: Iterable[Model]) -> Iterator[Line]:
    """Yield the table of models as lines."""
    rows: list[tuple[str, Sequence[str]]] = [(HEAD, ("model", "variants", "configurations", "summary"))]
    for model in models:
        said = model_as_json(model)
        counts = (f"{len(said['variants'])}", f"{len(said['configurations'])}")
        rows.append((PLAIN, (model.name, *counts, said["summary"])))
    yield from table_lines(rows, (1, 2))
    yield []
    yield [(FAINT, "kraftcheck models MODEL lists the variants and configurations of one")]


def model_as_json(model: Model) -> dict[str, Any]:
    """Return the JSON object of a model."""
    return {
        "model": model.name,
        "summary": first_docstring_sentence(model.protocol),
        "variants": {name: first_docstring_sentence(variant) for name, variant in model.variants.items()},
        "configurations": {name: config.summary for name, config in model.configurations.items()},
    }


def variant_and_configuration_lines(model: Model) -> Iterator[Line]:
    """Yield the variants and configurations of a model as lines."""
    said = model_as_json(model)
    yield [(HEAD, model.name), (PLAIN, f"  {said['summary']}")]
    for title in ("variants", "configurations"):
        if said[title]:
            yield [(FAINT, f"  {title}")]
        width = max(map(len, said[title]), default=0)
        for name, sentence in said[title].items():
            indent = " " * (width + 6)
            first = f"    {name:{width}}  "
            width_of_text = max(30 + len(indent), MOST_LINE_CHARACTERS)
            text = textwrap.fill(
                sentence, width_of_text, initial_indent=first, subsequent_indent=indent, break_on_hyphens=False
            )
            yield from ([(PLAIN, line)] for line in (text or first).splitlines())
