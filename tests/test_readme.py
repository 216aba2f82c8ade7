"""The README's commands print what it shows, apart from times."""

from __future__ import annotations

import doctest
import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from kraftcheck.cli import main

README = Path(__file__).parents[1] / "README.md"
TIMES = re.compile(r"[\d.,]+ s; [\d,]+ states/s")
CONSOLE = re.findall(r"^```console\n\$ (.+)\n((?:.*\n)*?)```$", README.read_text(), re.MULTILINE)


@pytest.fixture(scope="module", autouse=True)
def kernel() -> None:
    """Compile the kernel: until it is, small searches go to the reference engine, and say so."""
    from kraftcheck.explorer.result import Options
    from kraftcheck.explorer.tables.engine import explore
    from kraftcheck.spec.examples.lock_service import LockService
    from kraftcheck.spec.values import ModelValue

    explore(LockService(clients=frozenset({ModelValue("c1")}), losses=0), Options())


def test_there_are_examples() -> None:
    assert len(CONSOLE) == 8


def example(command: str, shown: str) -> Any:
    """Return a test's parameters; those on Spark need Java."""
    marks = [pytest.mark.spark] if command.startswith("kraftcheck pipeline") else []
    return pytest.param(command, shown, id=command, marks=marks)


@pytest.mark.parametrize(("command", "shown"), [example(*item) for item in CONSOLE])
def test_prints_what_the_readme_shows(
    command: str, shown: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    program = re.search(r"^```python\n((?:.*\n)*?)```$", README.read_text(), re.MULTILINE)
    assert program is not None
    (tmp_path / "ring.py").write_text(program[1])
    (tmp_path / "tests").symlink_to(Path(__file__).parent)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    name, *arguments = shlex.split(command)
    assert name == "kraftcheck"
    main(arguments)
    printed = "\n".join(line.rstrip() for line in capsys.readouterr().out.rstrip().split("\n")) + "\n"
    wanted, found = TIMES.sub("TIME", shown), TIMES.sub("TIME", printed)
    assert doctest.OutputChecker().check_output(wanted, found, doctest.ELLIPSIS), found
