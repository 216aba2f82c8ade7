"""The page of operators' reports: each command violates its property, and passes without the fault."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import NamedTuple

import pytest

from kraftcheck.catalogue import find_model
from kraftcheck.cli import main

pytestmark = pytest.mark.kernel

PAGE = Path(__file__).parents[1] / "docs" / "operators.md"
SHOWN = r"^\| ([^|]+) \| [^|]+ \| `kraftcheck ([^`]+)` \| (\w+) \| ([^|]+) \| [\d.]+ \|$"


class Report(NamedTuple):
    """A row of the page: a report, the command that shows it, the property, and what the command passes with."""

    number: str
    command: str
    verdict: str
    mended: str

    @property
    def mended_command(self) -> list[str]:
        """The command within the same bounds, with another constant or variant, or without the variant."""
        check, model, option, variant = shlex.split(self.command)
        other = re.match(r"`([^`]+)`", self.mended)
        if other and other[1].startswith("--variant "):
            own = variant if option == "--config" else str(find_model(model, variant).own_configuration)
            return [check, model, *shlex.split(other[1]), "--config", own]
        if other:
            return shlex.split(f"{self.command} {other[1]}")
        assert self.mended == "the model", self
        assert (check, option) == ("check", "--variant")
        return [check, model, "--config", str(find_model(model, variant).own_configuration)]


def configuration(report: Report) -> str | None:
    """Return the configuration that a command names, or that of its variant."""
    _, model, *options = shlex.split(report.command)
    given = dict(zip(options[::2], options[1::2], strict=True))
    return given.get("--config") or find_model(model, given["--variant"]).own_configuration


REPORTS = [Report(*row) for row in re.findall(SHOWN, PAGE.read_text(), re.MULTILINE)]
BRIEF = ("report.all-names-change",)


def test_every_row_is_read() -> None:
    rows = [line for line in PAGE.read_text().splitlines() if "`kraftcheck check" in line]
    assert len(rows) == len(REPORTS)


def test_the_score_is_that_of_the_table() -> None:
    text = PAGE.read_text()
    results = re.findall(r"^\| 202\d-\d\d-\d\d \| ([^|]+) \| [^|]+ \| (caught|missed)", text, re.MULTILINE)
    score = {kind: sum(result == kind for _, result in results) for kind in ("caught", "missed")}
    assert f"{score['caught']} are caught, {score['missed']} are missed." in " ".join(text.split())
    shown = {report.number for report in REPORTS}
    assert {number for number, result in results if result == "caught"} <= shown


def test_every_configuration_of_a_report_is_on_the_page() -> None:
    for model in ("quorum", "recovery", "registration"):
        found = find_model(model)
        shown = {configuration(report) for report in REPORTS if report.command.split()[1] == model}
        assert {name for name in found.configurations if name.startswith("report.")} <= shown


@pytest.mark.slow
@pytest.mark.parametrize(
    "report",
    [
        pytest.param(one, id=one.command, marks=[pytest.mark.slow] * (not one.command.endswith(BRIEF)))
        for one in REPORTS
    ],
)
def test_a_report_is_caught(report: Report, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*shlex.split(report.command), "--quiet"]) in (12, 13)
    assert f"VIOLATION: violated: {report.verdict};" in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.parametrize("report", [pytest.param(one, id=one.command) for one in REPORTS])
def test_the_fault_alone_violates_the_property(report: Report, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*report.mended_command, "--quiet"]) == 0
    assert "OK: nothing is violated;" in capsys.readouterr().out
