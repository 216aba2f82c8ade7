"""Both commands on a real cluster: with a worker killed in the middle, with their driver killed and resumed."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kraftcheck.explorer.result import SearchRequest
from kraftcheck.explorer.tables.engine import explore
from tests.support.explorer.comparison import ALIKE
from tests.support.spark.standalone import Standalone, cluster, kill
from tests.support.tlc import COUNTS, TLC, bound

pytestmark = [pytest.mark.spark, pytest.mark.kernel]

SETTINGS = (
    "spark.executor.memory=512m",
    "spark.driver.memory=512m",
    "spark.ui.enabled=false",
    "spark.kraftcheck.small=0",  # the driver does nothing itself
    "spark.kraftcheck.files=8",
)
PATIENCE = 600.0  # seconds until something must have gone wrong, on a busy machine too


@pytest.fixture(scope="module")
def standalone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standalone]:
    with cluster(tmp_path_factory.mktemp("cluster")) as found:
        yield found


class Command:
    """A command in a process of its own."""

    def __init__(self, standalone: Standalone, folder: Path, *words: str) -> None:
        self.json = folder.with_name(f"{folder.name}-{time.monotonic_ns()}.json")
        settings = [word for setting in SETTINGS for word in ("--conf", setting)]
        where = ["--master", standalone.url, "--json", str(self.json), *settings]
        self.process = subprocess.Popen(
            [sys.executable, "-m", "kraftcheck", *words, "--quiet", *where],
            env=standalone.environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip

    def wait_for(self, reached: Callable[[], bool]) -> None:
        """Wait until the command has got somewhere."""
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until and self.process.poll() is None:
            if reached():
                return
            time.sleep(0.05)
        kill(self.process)
        raise AssertionError(self.output())

    def output(self) -> str:
        return self.process.communicate(timeout=PATIENCE)[0].decode()

    def result(self) -> dict[str, Any]:
        output = self.output()
        assert self.process.returncode in (0, 1, 12), output
        found: dict[str, Any] = json.loads(self.json.read_text())
        return found


@pytest.fixture
def start(standalone: Standalone) -> Iterator[Callable[..., Command]]:
    commands: list[Command] = []

    def begin(folder: Path, *words: str) -> Command:
        commands.append(Command(standalone, folder, *words))
        return commands[-1]

    yield begin
    for command in commands:
        kill(command.process)


# check


def search(config: str, *more: str) -> list[str]:
    return ["check", "reconfig", "--config", str(COUNTS / f"{config}.cfg"), "--engine", "spark", *more]


def has_level(folder: Path, level: int) -> bool:
    manifest = folder / "manifest.json"
    return manifest.is_file() and len(json.loads(manifest.read_bytes())["search"]["levels"]) >= level


def expected(config: str) -> dict[str, Any]:
    found = explore(bound(f"counts/{config}").protocol, SearchRequest(deadlock=False))
    values = (found.verdict, found.complete, found.distinct_states, found.generated_states, found.depth, found.actions)
    return dict(zip(ALIKE, (*values, None), strict=True))


@pytest.mark.slow
def test_a_worker_is_killed_in_the_middle(
    standalone: Standalone, start: Callable[..., Command], tmp_path: Path
) -> None:
    config, folder = "two-voters-restart", tmp_path / "c"
    command = start(folder, *search(config, "--checkpoint", str(folder)))
    command.wait_for(lambda: has_level(folder, 10))
    standalone.kill_worker(0)
    try:
        result = command.result()
    finally:
        standalone.add_worker()
    assert {name: result[name] for name in ALIKE} == expected(config)


@pytest.mark.slow
def test_the_driver_is_killed_and_resumed(start: Callable[..., Command], tmp_path: Path) -> None:
    config, folder = "two-voters", tmp_path / "c"
    first = start(folder, *search(config, "--checkpoint", str(folder)))
    first.wait_for(lambda: has_level(folder, 9))
    kill(first.process)
    result = start(folder, *search(config, "--resume", str(folder))).result()
    assert {name: result[name] for name in ALIKE} == expected(config)
    levels = json.loads((folder / "manifest.json").read_bytes())["search"]["figures"]
    assert [figure["level"] for figure in levels] == list(range(2, result["depth"] + 2))


# pipeline

TABLES = ("traces", "steps", "errors", "coverage")
MODEL = ("--model", "reconfig", "--config", str(TLC / "simulations" / "published.cfg"))


def copies(folder: Path) -> Path:
    """Return a folder with TLC's simulations, each two times, one of which is cut off now and then."""
    folder.mkdir()
    for number, path in enumerate(sorted((TLC / "simulations").glob("*.tla.gz"))):
        data = path.read_bytes()
        (folder / f"a_{path.name}").write_bytes(data)
        (folder / f"b_{path.name}").write_bytes(data if number % 4 else data[: len(data) // 2])
    return folder


def rows(out: Path) -> dict[str, list[str]]:
    """Return the rows of the tables, in order, without what differs from run to run."""
    import pyarrow.dataset

    tables = {name: pyarrow.dataset.dataset(out / name, format="parquet").to_table().to_pylist() for name in TABLES}
    return {name: sorted(repr(_lasting(row)) for row in found) for name, found in tables.items()}


def _lasting(row: dict[str, Any]) -> dict[str, Any]:
    return {column: value for column, value in row.items() if column != "seconds"}


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, list[str]]]:
    """A corpus, and the tables that a run on this machine makes of it."""
    folder = tmp_path_factory.mktemp("pipeline")
    source, out = copies(folder / "in"), folder / "out"
    words = ["pipeline", source, "--out", out, *MODEL, "--master", "local[2]", "--quiet"]
    # A process of its own: the column `model` follows from the modules that a process has imported.
    done = subprocess.run([sys.executable, "-m", "kraftcheck", *map(str, words)], check=False, timeout=300)
    assert done.returncode == 1
    found = rows(out)
    assert len(found["traces"]) == 32
    assert len(found["errors"]) == 4
    return source, found


def batches(out: Path) -> int:
    return len(list((out / "done").glob("*.json")))


@pytest.mark.slow
def test_pipeline_with_a_worker_killed_in_the_middle(
    standalone: Standalone, start: Callable[..., Command], tmp_path: Path, corpus: tuple[Path, dict[str, list[str]]]
) -> None:
    source, expected_rows = corpus
    out = tmp_path / "out"
    command = start(out, "pipeline", str(source), "--out", str(out), *MODEL)
    command.wait_for(lambda: batches(out) == 1 and (out / "staging" / "raw").is_dir())
    standalone.kill_worker(1)
    try:
        result = command.result()
    finally:
        standalone.add_worker()
    assert (result["files"], result["new_files"], result["errors"]) == (32, 32, 4)
    assert rows(out) == expected_rows


@pytest.mark.slow
def test_pipeline_with_its_driver_killed_and_run_again(
    start: Callable[..., Command], tmp_path: Path, corpus: tuple[Path, dict[str, list[str]]]
) -> None:
    source, expected_rows = corpus
    out = tmp_path / "out"
    words = ("pipeline", str(source), "--out", str(out), *MODEL)
    first = start(out, *words)
    first.wait_for(lambda: batches(out) == 2 and (out / "staging" / "raw").is_dir())
    kill(first.process)
    done = batches(out)
    result = start(out, *words).result()
    assert (result["files"], result["new_files"]) == (32, 32 - 8 * done)
    assert rows(out) == expected_rows
