"""Each known difference of Kafka is shown by a log, which diverges without it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kraftcheck.kraft_model.quorum.variants.kafka import (
    CLUSTER_DIFFERENCES,
    DIFFERENCES,
    DISK_DIFFERENCES,
    UNSEEN_IN_LOGS,
    known_difference_classes_by_name,
)
from kraftcheck.validation.stepping import ValidationState
from tests.support.command_line import Run
from tests.support.sizes import some_slow

DATA = Path(__file__).parents[1] / "data" / "cluster"
KNOWN = DATA / "known"

LINES = json.loads((KNOWN / "lines.json").read_text())
"""The line at which the log of a known difference diverges without it."""


CLUSTERS = {"caught-up-within-the-hour": "caught-up", "refuses-while-it-stops": "stopping"}


def log_of(name: str) -> Path:
    """Return the log that shows a known difference: of a walk, or of a cluster."""
    packed = KNOWN / f"{name}.tar.gz"
    return packed if packed.exists() else DATA / CLUSTERS.get(name, "conforms")


def validated(run: Run, log: Path, folder: Path, *options: str) -> dict[str, Any]:
    done = run("validate", "quorum", log, "--quiet", "--json", folder / "found.json", *options)
    found: dict[str, Any] = json.loads((folder / "found.json").read_text())
    assert done.code == found["exit_code"], done
    return found


WHOLE: dict[Path, dict[str, Any]] = {}


def whole(run: Run, log: Path, folder: Path) -> dict[str, Any]:
    """Return the result on a log with all known differences; several tests share a log."""
    if log not in WHOLE:
        WHOLE[log] = validated(run, log, folder)
    return WHOLE[log]


def test_every_known_difference_has_a_log() -> None:
    known = known_difference_classes_by_name(cluster=True)
    assert set(LINES) == set(known)
    assert set(UNSEEN_IN_LOGS) & set(known) == set()
    assert len(known) + len(UNSEEN_IN_LOGS) == len((*DIFFERENCES, *CLUSTER_DIFFERENCES, *DISK_DIFFERENCES))
    assert {path.name.removesuffix(".tar.gz") for path in KNOWN.glob("*.tar.gz")} <= set(known)


@pytest.mark.sampled(9)
@pytest.mark.parametrize("name", LINES)
def test_a_log_shows_a_known_difference(name: str, run: Run, tmp_path: Path) -> None:
    """The network of a walk may leave a request without a response, which is an open question."""
    found = whole(run, log_of(name), tmp_path)
    assert (found["divergence"], found["broken"]) == (None, [])
    assert found["exit_code"] in (0, 20)
    assert sum(found["explained"].values()) == found["events"]
    assert found["known_used"][name] > 0

    without = validated(run, log_of(name), tmp_path, "--without", name)
    assert (without["exit_code"], without["known_used"].get(name)) == (1, None)
    divergence = without["divergence"]
    assert (Path(divergence["file"]).name, divergence["line"], divergence["what"]) == (
        f"{log_of(name).name}:{LINES[name][0]}" if log_of(name).is_file() else LINES[name][0],
        *LINES[name][1:],
    )


@pytest.mark.parametrize("name", UNSEEN_IN_LOGS)
@pytest.mark.parametrize("option", ["--without", "--known"])
def test_a_difference_that_no_log_shows_is_refused(name: str, option: str, run: Run) -> None:
    done = run("validate", "quorum", DATA / "conforms", option, name)
    assert (done.code, done.out) == (2, "")
    assert f"{name}: no log shows this difference, since {UNSEEN_IN_LOGS[name]}; leave out the option" in done.err
    with pytest.raises(Exception, match="no log shows this difference"):
        ValidationState(without=[name])


@pytest.mark.kafka
@pytest.mark.slow
@pytest.mark.parametrize("path", some_slow(sorted(KNOWN.glob("*.walk"))), ids=lambda path: path.stem)
def test_a_walk_writes_the_log_again(path: Path, run: Run, tmp_path: Path) -> None:
    done = run("lockstep", "quorum", "--walk", path, "--logs", tmp_path / "logs", "--kafka", "4.4.0", "--quiet")
    assert done.code == 0, done
    assert validated(run, tmp_path / "logs", tmp_path)["divergence"] is None
    assert validated(run, tmp_path / "logs", tmp_path, "--without", path.stem)["exit_code"] == 1
