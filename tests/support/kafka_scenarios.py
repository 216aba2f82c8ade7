"""Seeded scenarios on real clusters: elections, kills, pauses, lost disks, changes of voters and versions."""

from __future__ import annotations

import argparse
import json
import shutil
import time
from collections import Counter
from contextlib import redirect_stdout, suppress
from io import StringIO
from pathlib import Path
from random import Random
from signal import SIGCONT, SIGSTOP

from kraftcheck.cli import main as command
from tests.support.kafka_cluster import AdminError, Cluster, Node, until
from tests.support.kafka_jars import VERSIONS

LEAST = {"elections": 5, "kills": 5, "pauses": 5, "changes": 5}
AUTO_JOIN = "controller.quorum.auto.join.enable"
SNAPSHOT = "metadata.log.max.record.bytes.between.snapshots"
PIECE = "controller.quorum.fetch.snapshot.max.bytes"  # since 4.3.0 (KIP-1219)
STARTS = ("standalone", "initial", "static")


class Scenario:
    """One run: draws steps until each kind of event has happened often enough."""

    def __init__(self, cluster: Cluster, rng: Random, start: str) -> None:
        self.cluster, self.rng, self.start = cluster, rng, start
        self.done: Counter[str] = Counter()
        self.voters: dict[int, str] = {}

    def run(self, least: dict[str, int] | None = None, most: float = 150.0) -> Counter[str]:
        """Run until the least counts are reached or the time is up; return the counts."""
        least, cluster, end = LEAST if least is None else least, self.cluster, time.monotonic() + most
        cluster.begin(self.start)
        if self.start == "standalone":
            for node in cluster.controllers[1:3]:
                self.change("add", node.number)
        if self.start == "static":
            for step in (self.kill, self.pause):
                self.step(step.__name__)
            self.upgrade()
        while time.monotonic() < end:
            missing = [kind for kind in least if self.done[kind] < least[kind]]
            if not missing:
                break
            self.step(self.rng.choice(STEPS[self.rng.choice(missing)]))
        cluster.note(f"done {dict(self.done)}")
        cluster.stop()
        return self.done

    def step(self, name: str) -> None:
        """Take a step, and wait until the cluster has settled."""
        epoch = self.cluster.epoch()
        self.cluster.note(f"step {name}")
        getattr(self, name)()
        now = self.cluster.settle()
        self.voters = now.voters
        self.cluster.write(self.rng.randrange(3))
        self.done[name] += 1
        self.done["elections"] += now.epoch > epoch

    def pick(self, leader: float = 0.6) -> Node:
        """Return a controller: the leader with a probability."""
        number = self.cluster.leader()
        if number is not None and self.rng.random() < leader:
            return self.cluster.node(number)
        return self.rng.choice(self.cluster.controllers)

    def observers(self) -> list[Node]:
        """Return the controllers that are no voters, or with another disk."""
        voters = self.cluster.settle().voters
        return [node for node in self.cluster.controllers if voters.get(node.number) != node.directory]

    def upgrade(self) -> None:
        """Raise kraft.version, once all voters have sent UpdateVoter to the leader."""

        def upgraded() -> bool:
            with suppress(AdminError):
                self.cluster.upgrade()
                return True
            time.sleep(1)
            return False

        until("kraft.version 1", upgraded)
        self.done["upgrades"] += 1

    # Steps

    def kill(self) -> None:
        """Kill a controller; start it at once or after the next election."""
        node = self.pick()
        was_leader = node.number == self.cluster.leader()
        node.kill()
        self.done["kills"] += 1
        if was_leader and self.rng.random() < 0.8:
            with suppress(TimeoutError):
                until("another leader", lambda: self.cluster.leader() not in (None, node.number), 12)
        if self.rng.random() < 0.3:
            self.cluster.write(2)
        node.start()

    def kill_two(self) -> None:
        """Kill two controllers, so that the third may lose its majority."""
        nodes = self.rng.sample(self.cluster.controllers, 2)
        for node in nodes:
            node.kill()
            self.done["kills"] += 1
        time.sleep(self.rng.uniform(0, 5))
        for node in nodes:
            node.start()

    def pause(self) -> None:
        """Pause a controller for longer than the timeouts."""
        node = self.pick()
        node.send(SIGSTOP)
        self.done["pauses"] += 1
        time.sleep(self.rng.uniform(2, 6))
        node.send(SIGCONT)

    def stop(self) -> None:
        """End a controller in good order, and start it again."""
        node = self.pick(0.8)
        node.stop()
        time.sleep(self.rng.uniform(0, 2))
        node.start()

    def lose_disk(self) -> None:
        """Kill a voter and replace its disk; remove the old voter and add the new one."""
        node = self.pick(0.3)
        old, before = node.directory, self.cluster.settle()
        if len(before.voters) < 3:  # the other one would have no majority
            return self.add()
        node.kill()
        self.done["kills"] += 1
        node.lose_disk()
        self.done["disks"] += 1
        node.start()
        self.cluster.settle()
        joins = str(node.settings.get(AUTO_JOIN)) == "true"
        if before.voters.get(node.number) == old and not joins:
            self.change("remove", node.number, old)
        if joins:
            self.joined(node)
        else:
            self.change("add", node.number)
        return None

    def remove(self) -> None:
        """Remove a voter; add it again at once or later."""
        voters = self.cluster.settle().voters
        if len(voters) < 3:
            return self.add()
        leader = self.cluster.leader()
        number = leader if leader in voters and self.rng.random() < 0.5 else self.rng.choice(sorted(voters))
        node = self.cluster.node(number)
        if node.settings.get(AUTO_JOIN) == "true":  # it would join again at once
            return self.update()
        self.change("remove", number)
        if len(voters) == 3 or self.rng.random() < 0.5:
            self.cluster.settle()
            self.change("add", number)
        return None

    def add(self) -> None:
        """Add an observer as voter."""
        observers = self.observers()
        if not observers:
            return self.remove()
        self.change("add", self.rng.choice(observers).number)
        return None

    def update(self) -> None:
        """Start a voter at another port: it sends UpdateVoter."""
        node = self.pick(0.3)
        node.stop()
        self.cluster.move(node)
        node.start()
        if self.cluster.settle().voters.get(node.number) == node.directory:
            with suppress(TimeoutError, AdminError):
                until("another port", lambda: self.cluster.describe().ports.get(node.number) == node.port, 12)
                self.changed("update", node.number)

    def join(self) -> None:
        """Start an observer that joins by itself."""
        observers = self.observers()
        node = self.rng.choice(observers or self.cluster.controllers)
        if self.cluster.version < "4.2":
            return self.update()
        if not observers:
            if len(self.cluster.settle().voters) < 3:
                return None
            self.change("remove", node.number)
            self.cluster.settle()
        node.stop()
        node.settings[AUTO_JOIN] = "true"
        node.start()
        self.cluster.settle()
        self.joined(node)
        return None

    def joined(self, node: Node) -> None:
        """Wait until a controller has joined by itself."""
        with suppress(TimeoutError, AdminError):
            until("a voter", lambda: self.cluster.describe().voters.get(node.number) == node.directory, 15)
            self.changed("join", node.number)

    def change(self, kind: str, number: int, *words: str) -> None:
        """Add or remove a voter, several times if need be."""
        for _ in range(3):
            with suppress(AdminError):
                getattr(self.cluster, kind)(number, *words)
                return self.changed(kind, number)
            time.sleep(1)
            self.cluster.settle()
        return None

    def changed(self, kind: str, number: int) -> None:
        """Count a change of the voters."""
        self.cluster.note(f"changed {kind} {number}")
        self.done["changes"] += 1


STEPS = {
    "elections": ("kill", "pause", "stop"),
    "kills": ("kill", "kill", "kill_two", "lose_disk"),
    "pauses": ("pause",),
    "changes": ("lose_disk", "remove", "add", "update", "join"),
}
"""Steps that further a count."""


def run(folder: Path, seed: int, version: str) -> Counter[str]:
    """Run the scenario of a seed in a folder."""
    rng = Random(f"{seed}")
    start = STARTS[seed % len(STARTS)]
    nodes = 3 if start == "static" else rng.choice((3, 4, 4, 5))
    settings = {SNAPSHOT: rng.choice((600, 1500, 4000, 20_000_000)), "metadata.log.max.snapshot.interval.ms": 3_600_000}
    settings[PIECE] = Random(f"{seed} pieces").choice((100, 400, 1 << 20))
    with Cluster(folder, version, seed=seed, nodes=nodes, broker=seed % 5 == 4, settings=settings) as cluster:
        sizes = f"snapshots={settings[SNAPSHOT]} pieces={settings[PIECE]}"
        cluster.note(f"scenario {seed=} {version=!s} {start=!s} {nodes=} {sizes}")
        return Scenario(cluster, rng, start).run()


def verdict(folder: Path) -> str:
    """Return what `validate` says of the logs of a run: the verdict, and the numbers of events."""
    path = folder / "verdict.json"
    with redirect_stdout(StringIO()):
        command(["validate", "quorum", *map(str, sorted(folder.glob("*.trace.log"))), "--quiet", "--json", str(path)])
    found = json.loads(path.read_text())
    return f"{found['result']}: {sum(found['explained'].values()):,} of {found['events']:,} events"


def main() -> None:
    """Run scenarios by hand."""
    parser = argparse.ArgumentParser(description="Run seeded scenarios on real clusters, and validate their logs.")
    parser.add_argument("--seed", type=int, default=1, help="of the first scenario")
    parser.add_argument("--scenarios", type=int, default=1, help="number of scenarios")
    parser.add_argument("--version", choices=[*VERSIONS, "all"], default="4.3.0", help="of Kafka; `all` takes turns")
    parser.add_argument("--out", type=Path, required=True, help="folder for a folder SEED-VERSION of each run")
    arguments = parser.parse_args()
    for seed in range(arguments.seed, arguments.seed + arguments.scenarios):
        version = VERSIONS[seed % len(VERSIONS)] if arguments.version == "all" else arguments.version
        folder, start = arguments.out / f"{seed}-{version}", time.monotonic()
        unfinished = folder.with_name(f".{folder.name}")
        shutil.rmtree(unfinished, ignore_errors=True)
        try:
            done: object = dict(run(unfinished, seed, version))
            unfinished.rename(folder)
            done = f"{verdict(folder)}, {done}"
        except (TimeoutError, AdminError) as error:
            done = f"failed: {error}"
        print(f"{folder}: {time.monotonic() - start:.0f} s, {done}", flush=True)
