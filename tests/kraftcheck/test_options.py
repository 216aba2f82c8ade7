"""Options are described once: the parsers, the engines and `Options` agree."""

from __future__ import annotations

import argparse
from dataclasses import fields
from importlib import import_module
from inspect import Parameter, signature
from pathlib import Path

import pytest

import kraftcheck
from kraftcheck import SearchOptions, check, simulate
from kraftcheck.cli import parser
from kraftcheck.engines import ENGINES
from kraftcheck.explorer.result import Options
from kraftcheck.options import given

COMMANDS = sorted(path.stem for path in (Path(kraftcheck.__file__).parent / "commands").glob("[!_]*.py"))
FIELDS = {field.name: field.default for field in fields(Options)}


def parser_of(command: str) -> argparse.ArgumentParser:
    found = argparse.ArgumentParser()
    import_module(f"kraftcheck.commands.{command}").declare(found)
    return found


WHAT = ("properties", "reachable", "temporal", "fairness")


def test_every_command_is_listed_with_what_it_does(run) -> None:
    listed = " ".join(run("--help").out.split())
    for command in COMMANDS:
        docstring = str(import_module(f"kraftcheck.commands.{command}").__doc__)
        assert f"{command} {docstring[0].lower()}{docstring.partition(chr(10))[0][1:].removesuffix('.')}" in listed
    assert parser("").prog == "kraftcheck"


def test_every_option_of_a_search_is_one_of_check_or_comes_from_the_configuration() -> None:
    declared = {action.dest for action in parser_of("check")._actions} - {"report"}  # a file, not who hears of progress
    configured = {*WHAT, "constraints", "action_constraints", "view", "init"}
    assert set(FIELDS) - declared == {*configured, "report"}


@pytest.mark.parametrize("command", COMMANDS)
def test_an_option_that_is_not_given_is_left_to_its_default(command) -> None:
    found = parser_of(command)
    required = {"--config": "c", "--out": "o", "--model": "m", "--spec": "s"}
    words = [word for option in found._actions for word in option.option_strings if word in required]
    words = [word for option in words for word in (option, required[option])]
    positional = ["x" for action in found._actions if not action.option_strings]
    assert given(found.parse_args([*positional, *words])) == {}


def test_a_script_has_the_options_of_check() -> None:
    configured = {*WHAT, "constraints", "action_constraints", "view", "init"}
    assert set(SearchOptions.__annotations__) == {"engine", *FIELDS} - configured


def test_engines_have_options_of_check() -> None:
    declared = {word for action in parser_of("check")._actions for word in action.option_strings}
    assert {option for engine in ENGINES.values() for option in engine.options} <= declared


@pytest.mark.parametrize("function", [check, simulate])
def test_the_api_has_the_defaults_of_the_options(function) -> None:
    for name, parameter in signature(function).parameters.items():
        if name in FIELDS and name != "properties":  # by default all of them
            assert parameter.kind is Parameter.KEYWORD_ONLY
            assert parameter.default == FIELDS[name], name
