"""The cost of log levels and of the agent to a cluster: `python -m tests.support.kafka_cost [--rounds 3]`."""

from __future__ import annotations

import argparse
import os
import time
from collections import defaultdict
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from kraftcheck.validation.observer import build_observing_agent
from tests.support.kafka_cluster import Cluster, Node

WAYS = ("INFO", "DEBUG", "TRACE", "agent")
IDLE, LOADED = 10.0, 10.0  # seconds
AT_ONCE = 16  # connections


def processor_time(node: Node) -> float:
    """Return the processor time of a node, in seconds."""
    assert node.process is not None
    fields = Path(f"/proc/{node.process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def written(node: Node) -> int:
    """Return the number of bytes that a node has logged of Raft."""
    files = (node.trace, node.trace.with_name(f"node{node.number}.ndjson"))
    return sum(file.stat().st_size for file in files if file.is_file())


def measure(version: str, way: str) -> dict[str, float]:
    """Return figures of a leader and a follower, idle and loaded."""
    found: dict[str, float] = {}
    with TemporaryDirectory() as folder, Cluster(Path(folder, "run"), version) as cluster:
        for node in cluster.nodes:
            agent = (
                (f"-javaagent:{build_observing_agent()}={cluster.folder}/node{node.number}.ndjson",)
                if way == "agent"
                else ()
            )
            node.options = ("-Draft=INFO" if way == "agent" else f"-Draft={way}", *agent)
        cluster.begin("initial")
        cluster.admin.ask("load", cluster.servers, 5_000, AT_ONCE)  # the compiler's work is done
        leader = cluster.leader()
        assert leader is not None
        nodes = {"leader": cluster.node(leader), "follower": cluster.node(leader % 3 + 1)}
        for name in ("idle", "loaded"):
            before = {role: (processor_time(node), written(node)) for role, node in nodes.items()}
            start = time.monotonic()
            if name == "idle":
                time.sleep(IDLE)
            else:
                requests = int(cluster.admin.ask("load", cluster.servers, int(LOADED * 1000), AT_ONCE)[0])
                found["requests a second"] = requests / (time.monotonic() - start)
            seconds = time.monotonic() - start
            for role, node in nodes.items():
                used, bytes_ = processor_time(node) - before[role][0], written(node) - before[role][1]
                found[f"{name} {role} % of a core"] = 100 * used / seconds
                found[f"{name} {role} MB/min"] = bytes_ / seconds * 60 / 1e6
                if name == "loaded":
                    found[f"{role} ms of CPU a request"] = 1000 * used / requests
    return found


def main() -> None:
    """Measure each way in turn, several times, and print medians."""
    parser = argparse.ArgumentParser(description="Measure what log levels and the agent cost a cluster.")
    parser.add_argument("--version", default="4.3.0", help="of Kafka")
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    found: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for _ in range(arguments.rounds):
        for way in WAYS:
            for name, value in measure(arguments.version, way).items():
                found[name][way].append(value)
    print(f"{'':32}", *(f"{way:>9}" for way in WAYS))
    for name, ways in found.items():
        print(f"{name:32}", *(f"{median(ways[way]):9.2f}" for way in WAYS))


if __name__ == "__main__":
    main()
