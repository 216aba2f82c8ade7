"""The contributor's kit: every command in it exists, and its versions and files agree."""

from __future__ import annotations

import re
import shlex
import tomllib
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from kraftcheck.cli import build_parser

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
FORMS = sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml"))
TOOLS = {"pytest", "ruff", "mypy", "pip", "git", "ls", "twine", "python", "python3", "make", "kraftcheck"}
TOOLS |= {"./gradlew"}  # of a checkout of Kafka
RELEASE = {"build"}  # modules that the release workflow installs by itself


def shell_commands(text: str) -> Iterator[list[str]]:
    """Yield the words of each command of a shell script."""
    for line in text.splitlines():
        for command in line.split(" && "):
            words = shlex.split(command, comments=True)
            if words:
                yield words


def problems(words: list[str]) -> Iterator[str]:
    """Yield each program, module, file, extra, test option or target that a command names and that is missing."""
    program = words[0].removeprefix(".venv/bin/").removeprefix("$(bin)")
    path = words[0] if program.startswith(".ci/") else None
    if path is None and program not in TOOLS:
        yield f"no program {program}"
    if program == "kraftcheck":
        try:
            build_parser(words[1]).parse_args(words[1:])
        except Exception as error:
            yield str(error)
    if program in ("python", "python3") and words[1] == "-m" and words[2] not in RELEASE and not find_spec(words[2]):
        yield f"no module {words[2]}"
    if program == "make" and not re.search(rf"^{words[1]}:", (ROOT / "Makefile").read_text(), re.MULTILINE):
        yield f"no target {words[1]}"
    for word in words:
        extras = re.fullmatch(r"\.\[([\w,]+)\]", word)
        for extra in extras[1].split(",") if extras else ():
            if extra not in PROJECT["optional-dependencies"]:
                yield f"no extra {extra}"
    for word in (path, *words[1:]):
        if word and re.match(r"(\.ci|tests|docs|spec|benchmarks)/", word) and not any(ROOT.glob(word)):
            yield f"no file {word}"


def steps(workflow: dict[str, Any]) -> Iterator[str]:
    for job in workflow["jobs"].values():
        yield from (step["run"] for step in job["steps"] if "run" in step)


def yaml_of(path: Path) -> Any:
    return pytest.importorskip("yaml").safe_load(path.read_text())


@pytest.mark.parametrize("path", WORKFLOWS, ids=[path.stem for path in WORKFLOWS])
def test_a_workflow_runs_commands_that_exist(path: Path) -> None:
    workflow = yaml_of(path)
    assert workflow[True]  # YAML 1.1 reads the key `on` as true
    commands = [words for step in steps(workflow) for words in shell_commands(step)]
    assert commands
    assert [problem for words in commands for problem in problems(words)] == []
    assert "Not yet run on GitHub" in path.read_text()


def test_contributing_and_the_makefile_name_commands_that_exist() -> None:
    page = (ROOT / "CONTRIBUTING.md").read_text()
    blocks = re.findall(r"```sh\n(.*?)```", page, re.DOTALL)
    recipes = re.findall(r"^\t(.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    commands = [words for text in (*blocks, *recipes) for words in shell_commands(text)]
    assert len(commands) > 10
    assert [problem for words in commands for problem in problems(words)] == []
    for target in re.findall(r"has targets for the common ones: (.*?)\.", page, re.DOTALL)[0].split(","):
        assert list(problems(["make", target.strip(" `\n")])) == []


@pytest.mark.parametrize(
    "command",
    [
        "pytset",
        ".ci/walk",
        "pip install '.[tset]'",
        "python -m tests.support.sentences",
        "pytest tests/test_nothing.py",
        "kraftcheck check reconfig --confgi smoke",
        "make coffee",
    ],
)
def test_a_command_that_does_not_exist_is_seen(command: str) -> None:
    assert len(list(problems(shlex.split(command)))) == 1


def test_python_versions_are_the_same_in_the_metadata_and_in_ci() -> None:
    tests = yaml_of(ROOT / ".github" / "workflows" / "tests.yml")["jobs"]["tests"]
    prefix = "Programming Language :: Python :: "
    named = [one.removeprefix(prefix) for one in PROJECT["classifiers"] if one.startswith(prefix)]
    assert tests["strategy"]["matrix"]["python-version"] == named
    assert PROJECT["requires-python"] == f">={named[0]}"


def test_the_forms_and_the_citation() -> None:
    assert len(FORMS) == 3
    for path in FORMS:
        form = yaml_of(path)
        assert {"name", "description", "body"} <= set(form)
        for field in form["body"]:
            assert field["attributes"]["label"]
    citation = yaml_of(ROOT / "CITATION.cff")
    assert citation["license"] == PROJECT["license"]["text"] == "Apache-2.0"
    assert "version" not in citation  # it stands in pyproject.toml alone
    (hooks,) = yaml_of(ROOT / ".pre-commit-config.yaml")["repos"]
    for hook in hooks["hooks"]:
        assert list(problems(shlex.split(hook["entry"]))) == []
