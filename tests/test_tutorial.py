"""The tutorial: its files are written, its commands run in the page's order, and their output has the lines shown."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import NamedTuple

import pytest

from kraftcheck.cli import main
from tests.support.readme import lacking

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "tutorial.md").read_text()
BLOCK = re.compile(r"^```(\w+)\n((?:.*\n)*?)```$", re.MULTILINE)
FILE = re.compile(r"`([\w./-]+\.(?:py|cfg|yml))`")
SHORTER = {"--time-limit 5": "--time-limit 0.5", "--runs 500": "--runs 50"}
"""A part of a command, and the one that is run instead."""
CHECKOUT = ("kraftcheck", "spec", "kraft_model", "explorer", "traces", "docs")


class Command(NamedTuple):
    """A command of the page, and the lines that it shows of the output; `...` at a line's end stands for the rest."""

    text: str
    shown: list[str]


def files() -> dict[str, str]:
    """Return the content of each file that the page has its reader write; a later block is added to its file's end."""
    found: dict[str, str] = {}
    end = 0
    for block in BLOCK.finditer(PAGE):
        if block[1] in ("python", "cfg", "yaml"):
            name = FILE.findall(PAGE[end : block.start()])[-1]
            found[name] = f"{found[name]}\n\n{block[2]}" if name in found else block[2]
        end = block.end()
    return found


def commands(section: str) -> list[Command]:
    """Return the commands of the console blocks of a section."""
    found: list[Command] = []
    for language, content in BLOCK.findall(section):
        for line in content.splitlines() if language == "console" else ():
            if line.startswith("$ "):
                found.append(Command(line[2:], []))
            else:
                found[-1].shown.append(line.removesuffix("..."))
    return found


SECTIONS = {part.partition("\n")[0]: commands(part) for part in PAGE.split("\n## ")[1:] if commands(part)}


def run(command: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> str:
    """Run a command; return its output. The first of kraftcheck's runs in this process, others in their own."""
    name, *arguments = shlex.split(command)
    if name == "kraftcheck" and arguments[0] != "explore":
        assert main(arguments) != 2, capsys.readouterr().err
        return capsys.readouterr().out
    start = [sys.executable, *(["-m", "kraftcheck"] if name == "kraftcheck" else [])]
    environment = os.environ | {"BROWSER": "echo %s", "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen([*start, *arguments], cwd=folder, env=environment, stdout=subprocess.PIPE, text=True) as done:
        assert done.stdout is not None
        if arguments[0] == "explore":
            first = done.stdout.readline()
            done.send_signal(signal.SIGINT)
            return first
        printed = done.stdout.read()
    assert done.returncode == 0, printed
    return printed


@pytest.mark.sampled(4)
@pytest.mark.kernel
@pytest.mark.parametrize("section", SECTIONS)
def test_a_section_prints_what_it_shows(
    section: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, content in files().items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(content)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    for command in SECTIONS[section]:
        text = command.text
        for given, shorter in SHORTER.items():
            text = text.replace(given, shorter)
        printed = run(text, tmp_path, capsys)
        assert lacking("\n".join(command.shown), printed) == [], (command.text, printed)


@pytest.mark.slow
def test_a_reader_installs_tests_and_builds_as_the_page_says(tmp_path: Path) -> None:
    """The shell blocks and the workflow's steps, where pip finds in this environment whatever the package needs."""
    checkout = tmp_path / "kraftcheck"
    checkout.mkdir()
    left_out = shutil.ignore_patterns("__pycache__")
    for name in CHECKOUT:
        shutil.copytree(ROOT / name, checkout / name, symlinks=True, ignore=left_out)
    for name in ("pyproject.toml", "README.md", "CHANGELOG.md", "LICENSE"):
        shutil.copy(ROOT / name, checkout)
    for name, content in files().items():
        (tmp_path / "files" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "files" / name).write_text(content)
    (environment, *install), (wheel,) = (block[2].splitlines() for block in BLOCK.finditer(PAGE) if block[1] == "sh")
    present = tmp_path / "present"  # all packages of this environment but kraftcheck
    present.mkdir()
    for folder in {Path(sysconfig.get_path(name)) for name in ("purelib", "platlib")}:
        for entry in folder.iterdir():
            if not entry.name.lower().startswith("kraftcheck"):
                (present / entry.name).symlink_to(entry)
    (workflow,) = (content for name, content in files().items() if name.endswith(".yml"))
    steps = re.findall(r"- run: (.*)", workflow)
    script = [
        'pip() { command pip "$1" --no-index --no-build-isolation --disable-pip-version-check "${@:2}"; }',
        environment,
        f"echo {shlex.quote(str(present))} >$(echo .venv/lib/python*/site-packages)/present.pth",
        *install,
        "cp -r ../files/. .",
        "kraftcheck check election.py:Election --quiet",
        wheel.replace(" wheel ", " wheel --quiet ", 1),
        "command pip uninstall --quiet --yes kraftcheck",
        *steps,
        "python -c 'import kraftcheck; print(kraftcheck.__file__)'",
    ]
    own = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "COV", "PYTEST"))}
    whole = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", "\n".join(script)]
    done = subprocess.run(whole, cwd=checkout, env=own, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "OK: nothing is violated" in done.stdout
    assert "1 passed" in done.stdout
    assert str(checkout / ".venv") in done.stdout.splitlines()[-1]
