"""Clusters of real Kafka controllers: they run, and they end for certain."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from random import Random

import pytest

from kraftcheck.validation.observer import build_observing_agent
from tests.support.kafka_cluster import Cluster, until
from tests.support.kafka_faults import acting
from tests.support.kafka_scenarios import Scenario

pytestmark = [pytest.mark.kafka, pytest.mark.slow(minutes=1)]

VERSION = "4.3.0"


def run_long(folder: str) -> None:
    """Start a cluster, print its processes, and sleep: for a parent that is killed."""
    cluster = Cluster(Path(folder), VERSION)
    cluster.begin("initial")
    print(*processes(cluster), flush=True)
    time.sleep(300)


def processes(cluster: Cluster) -> list[int]:
    return [one.pid for one in [cluster.admin.process, *(node.process for node in cluster.nodes)] if one]


def is_alive(pid: int) -> bool:
    with suppress(ProcessLookupError):
        os.kill(pid, 0)
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


def test_a_scenario_has_what_it_promises(tmp_path: Path) -> None:
    with Cluster(tmp_path / "run", VERSION, seed=1) as cluster:
        least = {"elections": 2, "kills": 1, "pauses": 1, "changes": 2}
        done = Scenario(cluster, Random(1), "standalone").run(least)
        assert all(done[kind] >= count for kind, count in least.items()), done
        assert not any(node.process for node in cluster.nodes)
    for node in cluster.nodes:
        text = node.trace.read_text()
        assert " TRACE [RaftManager id=" in text
        assert "Completed transition to" in text


def test_no_node_outlives_a_failure(tmp_path: Path) -> None:
    pids: list[int] = []
    with pytest.raises(RuntimeError, match="in the middle"), Cluster(tmp_path / "run", VERSION) as cluster:  # noqa: PT012
        cluster.begin("initial")
        cluster.node(2).send(signal.SIGSTOP)
        pids += processes(cluster)
        assert all(map(is_alive, pids))
        raise RuntimeError("in the middle")
    assert len(pids) == 4
    assert not any(map(is_alive, pids))


def test_no_node_outlives_a_killed_parent(tmp_path: Path) -> None:
    command = [sys.executable, "-c", f"from {__name__} import run_long; run_long({str(tmp_path / 'run')!r})"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        pids = [int(word) for word in parent.stdout.readline().split()]
        assert len(pids) == 4
        assert all(map(is_alive, pids))
        os.kill(pids[2], signal.SIGSTOP)
        parent.kill()
        parent.wait()
    until("the end of all nodes", lambda: not any(map(is_alive, pids)), 10)


def test_the_agent_sees_the_transitions_of_the_log(tmp_path: Path) -> None:
    with Cluster(tmp_path / "run", VERSION) as cluster:
        for node in cluster.nodes:
            node.options = (f"-javaagent:{build_observing_agent()}={cluster.folder}/node{node.number}.ndjson",)
        cluster.begin("initial")
        leader = cluster.leader()
        assert leader is not None
        cluster.node(leader).kill()
        until("another leader", lambda: cluster.leader() not in (None, leader))
        cluster.node(leader).start()
        cluster.settle()
        cluster.stop()
    for node in cluster.nodes:
        lines = [json.loads(line) for line in (cluster.folder / f"node{node.number}.ndjson").read_text().splitlines()]
        seen = [(line["mode"], line["epoch"]) for line in lines if line["event"] == "state"]
        logged = re.findall(r"Completed transition to (\w+?)(?:State)?\(.*?\bepoch=(\d+)", node.trace.read_text())
        assert {(mode, int(epoch)) for mode, epoch in logged} >= set(seen) > set()
        received = sum(line["event"] == "log" and "Received inbound message" in line["text"] for line in lines)
        assert abs(received - node.trace.read_text().count("Received inbound message")) <= 1  # at a kill


def test_a_fault_acts(tmp_path: Path) -> None:
    acted = acting(tmp_path / "run", "pre-vote-granted-by-follower", VERSION)
    assert re.fullmatch(r"node\d \d+ granted ReplicaKey\(.*\) a pre-vote", acted[0])
