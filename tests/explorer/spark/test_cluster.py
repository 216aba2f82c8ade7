"""The command on a real cluster: whole, with a worker killed in the middle, with its driver killed and resumed."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from explorer.result import Options
from explorer.tables.engine import explore
from tests.conformance.models import COUNTS, bound
from tests.explorer.spark.standalone import Standalone, cluster, kill

pytestmark = pytest.mark.spark

ALIKE = ("result", "complete", "distinct_states", "generated_states", "depth", "actions", "trace_length")
SETTINGS = ("spark.executor.memory=512m", "spark.driver.memory=512m", "spark.ui.enabled=false")
PATIENCE = 600.0  # seconds until something must have gone wrong, on a busy machine too


@pytest.fixture(scope="module")
def standalone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standalone]:
    with cluster(tmp_path_factory.mktemp("cluster")) as found:
        yield found


class Command:
    """`kraftcheck check` in a process of its own."""

    def __init__(self, standalone: Standalone, config: str, folder: Path, *options: str) -> None:
        self.json = folder.with_name(f"{folder.name}-{time.monotonic_ns()}.json")
        self.folder = folder
        settings = [word for setting in SETTINGS for word in ("--conf", setting)]
        words = ["check", "reconfig", "--config", str(COUNTS / f"{config}.cfg"), "--engine", "spark", "--quiet"]
        where = ["--master", standalone.url, "--json", str(self.json), *settings]
        self.process = subprocess.Popen(
            [sys.executable, "-m", "kraftcheck", *words, *where, *options],
            env=standalone.environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip

    def await_level(self, level: int) -> None:
        """Wait until so many levels are on disk."""
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until and self.process.poll() is None:
            manifest = self.folder / "manifest.json"
            if manifest.is_file() and len(json.loads(manifest.read_bytes())["search"]["levels"]) >= level:
                return
            time.sleep(0.05)
        raise AssertionError(self.output())

    def output(self) -> str:
        return self.process.communicate(timeout=PATIENCE)[0].decode()

    def result(self) -> dict[str, Any]:
        output = self.output()
        assert self.process.returncode in (0, 12), output
        found: dict[str, Any] = json.loads(self.json.read_text())
        return found


@pytest.fixture
def check(standalone: Standalone) -> Iterator[Callable[..., Command]]:
    commands: list[Command] = []

    def start(config: str, folder: Path, *options: str) -> Command:
        commands.append(Command(standalone, config, folder, *options))
        return commands[-1]

    yield start
    for command in commands:
        kill(command.process)


def expected(config: str) -> dict[str, Any]:
    found = explore(bound(f"counts/{config}").protocol, Options(deadlock=False))
    values = (found.verdict, found.complete, found.distinct_states, found.generated_states, found.depth, found.actions)
    return dict(zip(ALIKE, (*values, None), strict=True))


@pytest.mark.slow
def test_a_worker_is_killed_in_the_middle(
    standalone: Standalone, check: Callable[..., Command], tmp_path: Path
) -> None:
    config = "two-voters-restart"
    command = check(config, tmp_path / "c", "--checkpoint", str(tmp_path / "c"))
    command.await_level(10)
    standalone.kill_worker(0)
    try:
        result = command.result()
    finally:
        standalone.add_worker()
    assert {name: result[name] for name in ALIKE} == expected(config)


@pytest.mark.slow
def test_the_driver_is_killed_and_resumed(
    standalone: Standalone, check: Callable[..., Command], tmp_path: Path
) -> None:
    config = "two-voters"
    first = check(config, tmp_path / "c", "--checkpoint", str(tmp_path / "c"))
    first.await_level(9)
    kill(first.process)
    result = check(config, tmp_path / "c", "--resume", str(tmp_path / "c")).result()
    assert {name: result[name] for name in ALIKE} == expected(config)
    levels = json.loads((tmp_path / "c" / "manifest.json").read_bytes())["search"]["figures"]
    assert [figure["level"] for figure in levels] == list(range(2, result["depth"] + 2))
