"""SearchRequest are described once: the parsers, the engines and `SearchRequest` agree."""

from __future__ import annotations

import argparse
import os
import shlex
import subprocess
import sys
from importlib import import_module
from inspect import Parameter, signature
from io import StringIO
from pathlib import Path

import argcomplete
import pytest

import kraftcheck
from kraftcheck import CheckOptions, SearchOptions, check, load, simulate
from kraftcheck.cli import build_parser
from kraftcheck.engines import ENGINES
from kraftcheck.explorer.checkpoint import identity_of_search
from kraftcheck.explorer.request import OPTIONS, SearchRequest
from kraftcheck.explorer.result import Result
from kraftcheck.jobs import attach_completers, given_options
from kraftcheck.reporting.as_json import result_as_json

COMMANDS = sorted(path.stem for path in (Path(kraftcheck.__file__).parent / "commands").glob("[!_]*.py"))
FIELDS = {name: getattr(SearchRequest, name) for name in OPTIONS}


def parser_of(command: str) -> argparse.ArgumentParser:
    found = argparse.ArgumentParser()
    import_module(f"kraftcheck.commands.{command}").add_arguments(found)
    return found


WHAT = ("properties", "reachable", "temporal", "fairness")


def test_every_command_is_listed_with_what_it_does(run) -> None:
    listed = " ".join(run("--help").out.split())
    for command in COMMANDS:
        docstring = str(import_module(f"kraftcheck.commands.{command}").__doc__)
        assert f"{command} {docstring[0].lower()}{docstring.partition(chr(10))[0][1:].removesuffix('.')}" in listed
    assert build_parser("").prog == "kraftcheck"


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
    assert given_options(found.parse_args([*positional, *words])) == {}


@pytest.mark.parametrize("command", COMMANDS)
def test_the_help_of_a_command_ends_with_examples_that_are_right(command, run, monkeypatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    shown = run(command, "--help").out
    text = shown.partition("\nfor example:\n")[2]
    lines = [line.strip() for line in text.splitlines()]
    assert lines
    for line in lines:
        words = shlex.split(line[line.index("kraftcheck ") :], comments=True)
        assert words[:2] == ["kraftcheck", command]
        assert build_parser(command).parse_args(words[1:]).run
    assert max(map(len, shown.removesuffix(text).splitlines())) <= 80


# Completion


class Finder(argcomplete.CompletionFinder):
    """Answers a shell, and leaves this process's files alone."""

    def _init_debug_stream(self) -> None:
        pass


def leave(code: int) -> None:
    raise SystemExit(code)


def completed(words: str, monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """Return what a shell would offer at the end of the words."""
    top, told = build_parser(words.split()[1] if words.count(" ") > 1 else ""), StringIO()
    attach_completers(top)
    environment = {"_ARGCOMPLETE": "1", "COMP_LINE": words, "COMP_POINT": str(len(words)), "_ARGCOMPLETE_IFS": "\n"}
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(SystemExit):
        Finder()(top, exit_method=leave, output_stream=told)
    return {word.strip() for word in told.getvalue().split("\n")}


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ("kraftcheck ch", {"check"}),
        ("kraftcheck check two", {"two-phase-commit"}),
        ("kraftcheck check two-phase-commit --max-d", {"--max-depth"}),
        ("kraftcheck check reconfig --config fault.obs", {"fault.observer-stands"}),
        ("kraftcheck check lock-service --variant ", {"impatient-server"}),
        ("kraftcheck compare lock-service imp", {"impatient-server"}),
        ("kraftcheck check two-phase-commit --search b", {"bfs"}),
    ],
)
def test_what_a_shell_offers(words, offered, monkeypatch) -> None:
    assert completed(words, monkeypatch) == offered


@pytest.mark.slow
def test_completion_in_bash(tmp_path: Path) -> None:
    program = tmp_path / "kraftcheck"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m kraftcheck "$@"\n')
    program.chmod(0o755)
    script = f"""
        eval "$({sys.executable} -m argcomplete.scripts.register_python_argcomplete kraftcheck)"
        COMP_LINE="kraftcheck check lock-service --variant i" COMP_POINT=41 COMP_TYPE=9 COMP_WORDS=(kraftcheck)
        _python_argcomplete kraftcheck; echo "${{COMPREPLY[@]}}"
    """
    environment = os.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    done = subprocess.run(["bash", "-c", script], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["impatient-server"], done


def test_a_script_has_the_options_of_check() -> None:
    configured = {*WHAT, "constraints", "action_constraints", "view", "init"}
    assert set(SearchOptions.__annotations__) == {"engine", *FIELDS} - configured


def test_every_field_of_a_request_is_described_once_and_is_where_it_says() -> None:
    job = load("two-phase-commit", "smoke").job()
    identity, written = identity_of_search(job.protocol, job.options), result_as_json(job, Result())
    said = {action.dest: action for action in parser_of("check")._actions}
    behaviours = {**dict.fromkeys(("reachable", "temporal"), "properties"), "fairness": "specification"}
    for name, option in OPTIONS.items():
        assert option.help
        assert behaviours.get(name, name) in CheckOptions.__annotations__
        if option.word:
            assert (said[name].help, option.word in said[name].option_strings) == (option.help, True)
        if option.identity:
            assert identity[option.identity] == option.as_json(getattr(job.options, name))
        if option.in_json:
            assert written[name] == getattr(job.options, name)
        for engine in option.engines or ():
            assert option.word in ENGINES[engine].options
    assert len(identity) == 4 + sum(option.identity is not None for option in OPTIONS.values())


def test_engines_have_options_of_check() -> None:
    declared = {word for action in parser_of("check")._actions for word in action.option_strings}
    assert {option for engine in ENGINES.values() for option in engine.options} <= declared


@pytest.mark.parametrize("function", [check, simulate])
def test_the_api_has_the_defaults_of_the_options(function) -> None:
    for name, parameter in signature(function).parameters.items():
        if name in FIELDS and name != "properties":  # by default all of them
            assert parameter.kind is Parameter.KEYWORD_ONLY
            assert parameter.default == FIELDS[name], name
