"""The README's commands print what it shows, apart from times."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import pytest

from kraftcheck.cli import main
from tests.support.readme import CONSOLE, difference, write_program

pytestmark = pytest.mark.kernel


def test_there_are_examples() -> None:
    assert len(CONSOLE) == 9


def example(command: str, shown: str) -> Any:
    """Return a test's parameters; those on Spark need Java, and are slow, and so are mutants."""
    marks = [pytest.mark.spark, pytest.mark.slow] if command.startswith("kraftcheck pipeline") else []
    marks += [pytest.mark.slow] if command.startswith("kraftcheck mutate") else []
    return pytest.param(command, shown, id=command, marks=marks)


@pytest.mark.parametrize(("command", "shown"), [example(*item) for item in CONSOLE])
def test_prints_what_the_readme_shows(
    command: str, shown: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write_program(tmp_path)
    (tmp_path / "tests").symlink_to(Path(__file__).parent)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    name, *arguments = shlex.split(command)
    assert name == "kraftcheck"
    main(arguments)
    assert difference(shown, capsys.readouterr().out) is None
