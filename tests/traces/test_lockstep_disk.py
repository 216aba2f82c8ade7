"""Walks beside Kafka with its own log on disk. They need Java and Maven, which fetches Kafka's jars once."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from kraftcheck.lockstep.driver_process import Driver
from kraftcheck.lockstep.jars import driver_classpath
from tests.support.command_line import Run
from tests.support.lockstep import bound, drive

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

TRUNCATION = Path(__file__).parents[1] / "data" / "kafka" / "voters-after-truncation.walk"
ELECTED = """
    ElectionTimeout n1, HandleVoteRequest n3<n1, HandleVoteResponse n1<n3, HandleVoteRequest n3<n1
    HandleVoteResponse n1<n3, HandleBeginQuorumEpochRequest n3<n1,
"""
FETCHES = "HandleFetchRequest n1<n3, HandleFetchResponse n3<n1,"
OBSERVES = "HandleFetchRequest n1<n4, HandleFetchResponse n4<n1,"


@pytest.fixture(scope="module")
def driver() -> Iterator[Driver]:
    path = driver_classpath("4.3.1", disk=True)
    with Driver(path.java, path.text, path.options, disk=True) as running:
        yield running


def lengths(driver: Driver, text: str, **settings: object) -> dict[str, tuple[int, int]]:
    """Take steps on both sides, which must agree; return where each log begins and ends."""
    protocol = bound({"FetchLimit": 0, **settings}, disk=True)
    findings, cluster = drive(driver, protocol, text)
    assert not findings
    return {str(host): (replica.start, len(replica.log)) for host, replica in cluster.replicas.items()}


@pytest.mark.parametrize("version", ["4.3.1", "4.4.0"])
def test_a_voter_set_is_not_read_after_a_truncation(
    version: str, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, folder = tmp_path / "result.json", tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    done = run("lockstep", "quorum", "--disk", "--kafka", version, "--walk", TRUNCATION, "--json", path, "--quiet")
    (found,) = json.loads(path.read_text())
    assert done.code == 12
    assert ["LastVoterSetIsUsed"] in [finding["violated"] for finding in found["findings"]]
    assert list(folder.iterdir()) == []


def test_what_was_not_flushed_is_cut_off(driver: Driver) -> None:
    asks = "HandleFetchRequest n3<n4, HandleFetchResponse n4<n3,"
    walk = f"{ELECTED} {FETCHES} FetchFromBootstrapServer n4, {asks} {OBSERVES}"
    settings = {"BootstrapServers": "{n3}", "Brokers": "{n4}", "MaxRestarts": 9}
    assert lengths(driver, walk, **settings)["n4"] == (0, 1)
    assert lengths(driver, f"{walk} Restart n4", **settings)["n4"] == (0, 1)
    assert lengths(driver, f"{walk} RestartLosingUnflushed n4", **settings)["n4"] == (0, 0)


def test_a_snapshot_survives(driver: Driver) -> None:
    walk = f"{ELECTED} ClientAppend n1, {FETCHES} {FETCHES} TakeSnapshot n1,"
    assert lengths(driver, walk)["n1"] == (2, 2)
    assert lengths(driver, f"{walk} Restart n1")["n1"] == (2, 2)
    findings, _ = drive(driver, bound({"FetchLimit": 0}), f"{walk} Restart n1")
    assert [difference.field for finding in findings for difference in finding.differences] == ["high_watermark"]


def test_a_snapshot_of_what_was_not_flushed_survives(driver: Driver) -> None:
    asks = "HandleFetchRequest n3<n4, HandleFetchResponse n4<n3,"
    walk = f"{ELECTED} {FETCHES} FetchFromBootstrapServer n4, {asks} HandleFetchRequest n1<n3, {OBSERVES}"
    settings = {"BootstrapServers": "{n3}", "Brokers": "{n4}", "MaxRestarts": 9}
    walk += f"TakeSnapshot n4, ClientAppend n1, {OBSERVES}"
    assert lengths(driver, walk, **settings)["n4"] == (1, 2)
    assert lengths(driver, f"{walk} RestartLosingUnflushed n4", **settings)["n4"] == (1, 1)


def test_a_lost_disk_is_empty(driver: Driver) -> None:
    walk = f"{ELECTED} {FETCHES} LoseDisk n3"
    assert lengths(driver, walk, MaxLostDisks=1)["n3"] == (0, 0)


def test_an_older_version(run: Run) -> None:
    done = run("lockstep", "quorum", "--disk", "--kafka", "4.2.1", "--runs", "1")
    assert done.code == 2
    assert "--disk: Kafka's log on disk is in kafka-raft from 4.3 on; in 4.2.1 there is none" in done.err
