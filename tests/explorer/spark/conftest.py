"""One Spark application for all tests of a process that search in it."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("pyarrow")
from kraftcheck.explorer.spark.level_jobs import InProcessTasks


@pytest.fixture(scope="session")
def application() -> Iterator[Any]:
    """A Spark application on two cores; a search takes the one that is there."""
    from pyspark.sql import SparkSession

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # as the engine does: the PATH may lead to another Python
    builder = SparkSession.builder.master("local[2]").appName("tests").config("spark.ui.enabled", "false")
    builder = builder.config("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")  # starts fast
    session = builder.config("spark.ui.showConsoleProgress", "false").getOrCreate()
    yield session
    session.stop()


@pytest.fixture
def no_driver_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    """See to it that the driver leaves every task to Spark."""

    def refuse(*_: object) -> None:
        raise AssertionError("the driver runs a task")

    monkeypatch.setattr(InProcessTasks, "_run", refuse)
