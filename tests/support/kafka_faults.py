"""Faults that an agent puts into the stock client, each with a scenario made so that the fault acts.

By hand: `python -m tests.support.kafka_faults --out DIR [--version 4.3.0] [NAME ...]`.
"""

from __future__ import annotations

import argparse
import shutil
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from signal import SIGCONT, SIGSTOP

from kraftcheck.lockstep.jars import compile_agent_jar
from tests.support.kafka_cluster import AdminError, Cluster, Node, until
from tests.support.kafka_jars import SOURCES, VERSIONS
from tests.support.kafka_scenarios import SNAPSHOT

TRIES = 4


class Faulty(Cluster):
    """Cluster whose nodes can be armed with a fault; without a fault, arming has no effect."""

    def __init__(self, folder: Path, version: str, fault: str | None, **more: object) -> None:
        super().__init__(folder, version, **more)  # type: ignore[arg-type]
        if fault is not None:
            agent = compile_agent_jar(SOURCES / "FaultAgent.java")
            for node in self.nodes:
                node.options = (f"-javaagent:{agent}={fault},{self.folder}/node{node.number}.fault",)

    def arm(self, *nodes: Node) -> None:
        """Activate the fault in nodes."""
        for node in nodes:
            (self.folder / f"node{node.number}.fault.on").touch()
            self.note(f"arm {node.number}")

    def acted(self) -> list[str]:
        """Return what the fault changed, as the agent noted it."""
        files = sorted(self.folder.glob("node*.fault"))
        return [f"{file.stem} {line}" for file in files for line in file.read_text().splitlines()]

    def roles(self) -> tuple[Node, Node, Node]:
        """Return the leader and two other voters."""
        now = self.settle()
        others = [number for number in now.voters if number != now.leader]
        return self.node(now.leader), self.node(others[0]), self.node(others[1])

    def pause(self, *nodes: Node) -> None:
        """Pause processes."""
        for node in nodes:
            node.send(SIGSTOP)

    def resume(self, *nodes: Node) -> None:
        """Let paused processes go on."""
        for node in nodes:
            node.send(SIGCONT)

    def calm(self, *, acts: bool = False) -> None:
        """Wait until the cluster has settled, if the fault lets it, or until the fault acts."""
        for _ in range(12):
            with suppress(TimeoutError):
                self.settle(1)
                break
            if acts and self.acted():
                break
        time.sleep(1)

    def await_leader(self, *others: Node) -> Node:
        """Wait for a leader other than some nodes."""
        numbers = [None, *(node.number for node in others)]
        until("another leader", lambda: self.leader() not in numbers)
        number = self.leader()
        assert number is not None
        return self.node(number)


def vote_not_written(cluster: Faulty) -> None:
    leader, *others = cluster.roles()
    cluster.arm(*others)
    leader.kill()
    successor = cluster.settle().leader
    leader.start()
    voter = next(node for node in others if node.number != successor)
    voter.kill()
    voter.start()
    cluster.calm()


def vote_without_comparing_logs(cluster: Faulty) -> None:
    leader, near, far = cluster.roles()
    cluster.arm(near)
    cluster.pause(far)
    time.sleep(1.5)
    leader.kill()
    cluster.pause(near)
    time.sleep(2.5)
    cluster.resume(far)
    time.sleep(0.7)
    cluster.resume(near)
    time.sleep(4)
    leader.start()
    cluster.calm()


def pre_vote_granted_by_follower(cluster: Faulty) -> None:
    _, follower, other = cluster.roles()
    cluster.arm(follower)
    cluster.pause(other)
    time.sleep(4)
    cluster.resume(other)
    time.sleep(4)


def high_watermark_ahead(cluster: Faulty) -> None:
    leader, first, second = cluster.roles()
    cluster.arm(leader)
    cluster.pause(first, second)
    time.sleep(1.5)
    cluster.resume(first, second)
    time.sleep(2)


def _diverge(cluster: Faulty) -> tuple[Node, Node]:
    """Kill a leader that has records which no other node has; return it and its successor."""
    leader, first, second = cluster.roles()
    cluster.pause(first, second)
    time.sleep(2.2)
    leader.kill()
    cluster.resume(first, second)
    successor = cluster.await_leader(leader)
    time.sleep(4)
    return leader, successor


def truncation_not_done(cluster: Faulty) -> None:
    leader, _ = _diverge(cluster)
    cluster.arm(leader)
    leader.start()
    cluster.calm(acts=True)  # the node asks again at once, thousands of times a second


def divergence_not_told(cluster: Faulty) -> None:
    leader, successor = _diverge(cluster)
    cluster.arm(successor)
    leader.start()
    cluster.calm()


def voter_set_not_taken_over(cluster: Faulty) -> None:
    leader, follower, _ = cluster.roles()
    cluster.arm(follower)
    cluster.add(4)
    time.sleep(1)
    leader.kill()
    cluster.await_leader(leader)
    leader.start()
    cluster.calm()


def old_epoch_accepted(cluster: Faulty) -> None:
    leader, follower, other = cluster.roles()
    cluster.arm(leader, follower)
    epoch = cluster.epoch()
    cluster.pause(other)
    leader.kill()
    leader.start()
    until("another epoch", lambda: cluster.epoch() > epoch and cluster.leader() is not None)
    time.sleep(1)
    cluster.resume(other)
    time.sleep(4)


def observer_stands(cluster: Faulty) -> None:
    leader, *_ = cluster.roles()
    cluster.arm(cluster.node(4))
    cluster.pause(leader)
    time.sleep(5)
    cluster.resume(leader)
    time.sleep(4)


def snapshot_without_voters(cluster: Faulty) -> None:
    _, restarted, replaced = cluster.roles()
    cluster.arm(*cluster.nodes)
    for _ in range(12):
        cluster.write(4)
        time.sleep(0.5)
    replaced.kill()
    replaced.lose_disk()
    replaced.start()
    cluster.calm()
    restarted.kill()
    restarted.start()
    cluster.calm()


def removed_leader_stays(cluster: Faulty) -> None:
    leader, *_ = cluster.roles()
    cluster.arm(leader)
    cluster.remove(leader.number)
    time.sleep(5)


def leader_without_majority_stays(cluster: Faulty) -> None:
    leader, first, second = cluster.roles()
    cluster.arm(leader)
    cluster.pause(first, second)
    time.sleep(5)
    cluster.resume(first, second)
    time.sleep(4)


SCENARIOS: dict[str, Callable[[Faulty], None]] = {
    scenario.__name__.replace("_", "-"): scenario
    for scenario in (
        vote_not_written,
        vote_without_comparing_logs,
        pre_vote_granted_by_follower,
        high_watermark_ahead,
        truncation_not_done,
        divergence_not_told,
        voter_set_not_taken_over,
        old_epoch_accepted,
        observer_stands,
        snapshot_without_voters,
        removed_leader_stays,
        leader_without_majority_stays,
    )
}


def run(folder: Path, name: str, version: str, *, fault: bool) -> list[str]:
    """Run the scenario of a fault, with the fault or without; return what the fault changed."""
    nodes = 4 if name in ("voter-set-not-taken-over", "observer-stands") else 3
    settings = {SNAPSHOT: 600 if name == "snapshot-without-voters" else 20_000_000}
    with Faulty(folder, version, name if fault else None, nodes=nodes, settings=settings) as cluster:
        cluster.note(f"fault {name if fault else 'none'} scenario={name} version={version}")
        cluster.begin("initial")
        SCENARIOS[name](cluster)
        cluster.stop()
        return cluster.acted()


def acting(folder: Path, name: str, version: str) -> list[str]:
    """Run a scenario until its fault acts; return what the fault changed."""
    for _ in range(TRIES):
        shutil.rmtree(folder, ignore_errors=True)
        with suppress(AdminError, TimeoutError):
            acted = run(folder, name, version, fault=True)
            if acted:
                return acted
    raise AssertionError(f"{name}: the fault never acted in a whole run of {TRIES}")


def main() -> None:
    """Run scenarios by hand, each with its fault and without."""
    parser = argparse.ArgumentParser(description="Run scenarios with a fault in the client, and without.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(SCENARIOS)}; all by default")
    parser.add_argument("--version", choices=VERSIONS, default="4.3.0", help="of Kafka")
    parser.add_argument("--out", type=Path, required=True, help="folder for fault-NAME and nofault-NAME")
    arguments = parser.parse_args()
    for name in arguments.names or SCENARIOS:
        acted = acting(arguments.out / f"fault-{name}", name, arguments.version)
        print(f"{name}: acted {len(acted)} times: {acted[0]}", flush=True)
        honest = arguments.out / f"nofault-{name}"
        shutil.rmtree(honest, ignore_errors=True)
        assert not run(honest, name, arguments.version, fault=False)


if __name__ == "__main__":
    main()
