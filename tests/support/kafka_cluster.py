"""A cluster of real Kafka controllers on loopback, which ends for certain.

By hand: `python -m tests.support.kafka_cluster --seed 1 --version 4.3.0 --out DIR [--scenarios 50]`.
"""

from __future__ import annotations

import base64
import ctypes
import json
import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import NamedTuple, Self

from kraftcheck.files import atomic_replacement
from kraftcheck.lockstep.jars import compile_jar, find_jdk_program, make_trusted_cache_folder
from kraftcheck.processes import kill_process_session
from tests.support.kafka_jars import SOURCES, server_jars

HEAP = ("-Xmx160m", "-Xss512k", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto", "-Xlog:disable")
PARTITION = "__cluster_metadata-0"
PORTS = range(20_000, 32_000)  # below the ephemeral ports of Linux: no client takes the port of a killed node
PATIENCE = 40.0  # seconds for a node to start, or for the cluster to settle
PR_SET_PDEATHSIG = 1
LAG = 6  # records that a node may be behind in a settled cluster


def die_with(parent: int) -> Callable[[], None]:
    """Return a function for a child process: the kernel kills it when its parent ends."""
    libc = ctypes.CDLL(None)

    def prepare() -> None:
        libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # the parent ended before the call
            os._exit(1)

    return prepare


def launch(command: Sequence[str], **options: object) -> subprocess.Popen[str]:
    """Start a process in a session of its own; it ends with this one, also where this one is killed."""
    return subprocess.Popen(  # type: ignore[call-overload,no-any-return]
        command, text=True, start_new_session=True, preexec_fn=die_with(os.getpid()), **options
    )


def free_ports(rng: Random, count: int) -> list[int]:
    """Return ports of loopback that nothing listens on."""
    found: list[int] = []
    while len(found) < count:
        port = rng.choice(PORTS)
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            if port not in found:
                found.append(port)
    return found


def uuid(rng: Random) -> str:
    """Return an identifier as Kafka writes them."""
    while True:
        text = base64.urlsafe_b64encode(rng.randbytes(16)).decode().rstrip("=")
        if not text.startswith("-"):  # it would read as an option
            return text


def until(what: str, holds: Callable[[], bool], patience: float = PATIENCE) -> None:
    """Wait until a condition holds."""
    end = time.monotonic() + patience
    while not holds():
        if time.monotonic() > end:
            raise TimeoutError(f"{what}: not so after {patience:.0f} s")
        time.sleep(0.1)


class AdminError(Exception):
    """A command of the administrator failed."""


class Admin:
    """Long-lived Java process with Kafka's storage tool and administration client."""

    def __init__(self, jars: Sequence[Path]) -> None:
        jar = compile_jar([SOURCES / "ClusterAdmin.java"], jars)
        quiet = f"-Dlog4j2.configurationFile={SOURCES / 'quiet.xml'}"
        path = os.pathsep.join(map(str, [jar, *jars]))
        command = [str(find_jdk_program("java")), *HEAP, quiet, "-cp", path, "ClusterAdmin"]
        pipe = subprocess.PIPE
        self.process = launch(command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, bufsize=1)

    def ask(self, *words: object) -> list[str]:
        """Execute a command, and return the words of its answer."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write("\t".join(map(str, words)) + "\n")
        self.process.stdin.flush()
        kind, *answer = self.process.stdout.readline().rstrip("\n").split("\t")
        if kind != "ok":
            raise AdminError(f"{words[0]}: {' '.join(answer)}")
        return answer


class Quorum(NamedTuple):
    """Answer of the leader to DescribeQuorum."""

    leader: int
    epoch: int
    voters: dict[int, str]  # directory by voter
    ends: dict[int, int]  # log end by voter and observer
    fetched: dict[int, int]  # time of the last fetch, in ms, by voter and observer
    ports: dict[int, int]


class Node:
    """A node with its folder, its port and its process."""

    def __init__(self, cluster: Cluster, number: int, role: str = "controller") -> None:
        self.cluster, self.number, self.role = cluster, number, role
        self.port, self.other_port = cluster.ports.pop(), cluster.ports.pop()
        self.process: subprocess.Popen[str] | None = None
        self.paused = False
        self.resumed = 0  # ms since 1970
        self.settings: dict[str, object] = {}
        self.options: tuple[str, ...] = ()

    @property
    def disk(self) -> Path:
        """The data folder."""
        return self.cluster.folder / f"d{self.number}"

    @property
    def trace(self) -> Path:
        """The log file of Kafka's Raft at TRACE."""
        return self.cluster.folder / f"node{self.number}.trace.log"

    @property
    def is_up(self) -> bool:
        """Whether the process runs and is not paused."""
        return self.process is not None and self.process.poll() is None and not self.paused

    @property
    def directory(self) -> str:
        """The directory identifier of the disk."""
        lines = (self.disk / "meta.properties").read_text().splitlines()
        return next(line.partition("=")[2] for line in lines if line.startswith("directory.id="))

    def quorum_state(self) -> dict[str, int]:
        """Return the quorum-state file as it stands."""
        with suppress(OSError, ValueError):
            return dict(json.loads((self.disk / PARTITION / "quorum-state").read_text()))
        return {}

    def configure(self) -> Path:
        """Write the properties file."""
        cluster = self.cluster
        listener = "CONTROLLER" if self.role == "controller" else "PLAINTEXT"
        settings: dict[str, object] = {
            "process.roles": self.role,
            "node.id": self.number,
            "listeners": f"{listener}://127.0.0.1:{self.port}",
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
            "log.dirs": self.disk,
            "num.network.threads": 1,
            "num.io.threads": 2,
            **cluster.settings,
            **self.settings,
        }
        if cluster.static:
            settings["controller.quorum.voters"] = ",".join(
                f"{node.number}@127.0.0.1:{node.port}" for node in map(cluster.node, cluster.static)
            )
        else:
            # Both ports of each: an observer that once missed the leader asks these servers alone.
            ports = sorted(port for node in cluster.controllers for port in (node.port, node.other_port))
            settings["controller.quorum.bootstrap.servers"] = ",".join(f"127.0.0.1:{port}" for port in ports)
        path = cluster.folder / f"node{self.number}.properties"
        path.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        return path

    def format(self, *how: str) -> None:
        """Format the disk."""
        self.cluster.admin.ask("format", "format", "-c", self.configure(), "-t", self.cluster.identity, *how)

    def start(self) -> None:
        """Start the process."""
        cluster = self.cluster
        files = (f"-Dnode={cluster.folder}/node{self.number}", f"-Dlog4j2.configurationFile={SOURCES / 'log4j2.xml'}")
        options = (*HEAP, *cluster.options, *self.options, *files)
        command = [str(find_jdk_program("java")), *options, "-cp", cluster.path, "kafka.Kafka", str(self.configure())]
        cluster.note(f"start {self.number}")
        with (cluster.folder / f"node{self.number}.out").open("a") as said:
            self.process = launch(command, stdin=subprocess.DEVNULL, stdout=said, stderr=said)
        self.paused, self.resumed = False, time.time_ns() // 1_000_000

    def send(self, number: signal.Signals) -> None:
        """Send a signal to the process."""
        assert self.process is not None
        self.cluster.note(f"{number.name} {self.number}")
        self.process.send_signal(number)
        self.resumed = time.time_ns() // 1_000_000
        self.paused = number is signal.SIGSTOP or (self.paused and number is not signal.SIGCONT)

    def kill(self) -> None:
        """Kill the process, and wait for its end."""
        self.send(signal.SIGKILL)
        assert self.process is not None
        self.process.wait()
        self.process = None

    def stop(self) -> None:
        """End the process in good order, or kill it after some seconds."""
        self.send(signal.SIGTERM)
        assert self.process is not None
        try:
            self.process.wait(15)
            self.process = None
        except subprocess.TimeoutExpired:
            self.kill()

    def lose_disk(self) -> None:
        """Replace the disk of an ended process by an empty one, with another directory identifier."""
        self.cluster.note(f"disk lost {self.number} {self.directory}")
        lost = self.disk.with_name(f"d{self.number}.lost{len(list(self.cluster.folder.glob('d*.lost*')))}")
        self.disk.rename(lost)
        self.format("--no-initial-controllers")


class Cluster:
    """Controllers, at times a broker, and their administrator; as a context manager it ends them all."""

    def __init__(
        self,
        folder: Path,
        version: str,
        *,
        seed: int = 0,
        nodes: int = 3,
        broker: bool = False,
        settings: Mapping[str, object] | None = None,
        options: Sequence[str] = (),
        archived: bool = True,
    ) -> None:
        self.folder = folder.resolve()
        self.folder.mkdir(parents=True)
        self.version, self.rng = version, Random(seed)
        self.settings, self.options = dict(settings or {}), tuple(options)
        jars = server_jars(version)
        self.path = os.pathsep.join(map(str, jars))
        if archived:
            self.options = (f"-XX:SharedArchiveFile={archive(version)}", *self.options)
        self.identity = uuid(self.rng)
        self.static: list[int] = []
        self.ports = free_ports(Random(), 2 * nodes + 2)
        self.nodes = [Node(self, number) for number in range(1, nodes + 1)]
        if broker:
            self.nodes.append(Node(self, 9, "broker"))
        self.admin = Admin(jars)

    def node(self, number: int) -> Node:
        """Return a node by its number."""
        return next(node for node in self.nodes if node.number == number)

    @property
    def controllers(self) -> list[Node]:
        """The nodes that are controllers."""
        return [node for node in self.nodes if node.role == "controller"]

    @property
    def servers(self) -> str:
        """The addresses of all controllers, for the administrator."""
        return ",".join(f"127.0.0.1:{node.port}" for node in self.controllers)

    def note(self, text: str) -> None:
        """Add a line to the file of events."""
        with (self.folder / "events.txt").open("a") as file:
            file.write(f"{time.time_ns() // 1_000_000} EVENT {text}\n")

    # Formatting and starting

    def begin(self, how: str) -> None:
        """Format and start the cluster: `standalone`, `initial` voters, or `static` ones with kraft.version 0."""
        first, others = self.controllers[0], self.controllers[1:]
        if how == "standalone":
            first.format("--standalone")
        elif how == "initial":
            voters = ",".join(f"{node.number}@127.0.0.1:{node.port}:{uuid(self.rng)}" for node in self.controllers[:3])
            for node in self.controllers[:3]:
                node.format("--initial-controllers", voters)
            others = self.controllers[3:]
        else:
            self.static = [node.number for node in self.controllers]
            for node in self.controllers:
                node.format("--feature", "kraft.version=0")
            others = []
        for node in [*others, *(node for node in self.nodes if node.role == "broker")]:
            node.format("--no-initial-controllers")
        if how == "standalone":
            first.start()
            until("a leader", lambda: self.leader() is not None)
        for node in self.nodes:
            if node.process is None:
                node.start()
        self.settle()

    # State

    def leader(self) -> int | None:
        """Return the leader that most running controllers have in their quorum-state file."""
        running = [node for node in self.controllers if node.is_up]
        states = [state for node in running if (state := node.quorum_state())]
        if not states:
            return None
        newest = max(state["leaderEpoch"] for state in states)
        leaders = [state["leaderId"] for state in states if state["leaderEpoch"] == newest]
        found = max(leaders, key=leaders.count)
        return found if 2 * leaders.count(found) > len(states) and found in [one.number for one in running] else None

    def epoch(self) -> int:
        """Return the newest epoch in a quorum-state file."""
        return max((state["leaderEpoch"] for node in self.controllers if (state := node.quorum_state())), default=0)

    def describe(self) -> Quorum:
        """Ask the leader for the state of the quorum."""
        leader, epoch, voters, observers, ports = self.admin.ask("describe", self.servers)
        # An observer's old disk stays listed for minutes, so the newest fetch counts.
        split = [[one.split(":") for one in text.split(",") if one] for text in (voters, observers, ports)]
        listed = sorted(split[0] + split[1], key=lambda one: int(one[3]))
        return Quorum(
            int(leader),
            int(epoch),
            {int(number): directory for number, directory, *_ in split[0]},
            {int(number): int(end) for number, _, end, _ in listed},
            {int(number): int(fetched) for number, _, _, fetched in listed},
            {int(number): int(port) for number, port in split[2]},
        )

    def settle(self, patience: float = PATIENCE) -> Quorum:
        """Wait until there is a leader with which all running nodes are caught up; return the state of the quorum."""
        last: list[Quorum] = []
        said: object = None

        def settled() -> bool:
            nonlocal said
            self.revive()
            try:
                said = now = self.describe()
            except AdminError as error:
                said = error
                return False
            last[:] = [now]
            running = {node.number: node for node in self.nodes if node.is_up}
            end = now.ends.get(now.leader, 0)
            return now.leader in running and all(
                now.ends.get(number, -1) >= end - LAG
                and (number == now.leader or now.fetched.get(number, 0) > node.resumed)
                for number, node in running.items()
            )

        try:
            until("a settled cluster", settled, patience)
        except TimeoutError as error:
            self.note(f"unsettled: {said}")
            raise TimeoutError(f"{error}: {said}") from None
        self.note(f"settled leader={last[0].leader} epoch={last[0].epoch} voters={sorted(last[0].voters)}")
        return last[0]

    def revive(self) -> None:
        """Start the nodes again that ended by themselves."""
        for node in self.nodes:
            if node.process is not None and node.process.poll() is not None:
                self.note(f"died {node.number} {node.process.returncode}")
                node.start()

    # Changes

    def add(self, number: int) -> None:
        """Add a voter."""
        node = self.node(number)
        self._tell("add", number, node.directory, node.port)

    def remove(self, number: int, directory: str | None = None) -> None:
        """Remove a voter."""
        self._tell("remove", number, directory or self.node(number).directory)

    def upgrade(self) -> None:
        """Raise kraft.version from 0 to 1; nodes that start later have dynamic voters."""
        self._tell("upgrade", "kraft.version", 1)
        self.static = []

    def write(self, count: int = 1) -> None:
        """Append records."""
        for _ in range(count):
            with suppress(AdminError):
                self.admin.ask("write", self.servers, self.rng.randrange(10**9, 10**10))

    def _tell(self, command: str, *words: object) -> None:
        self.note(" ".join(map(str, (command, *words))))
        try:
            self.admin.ask(command, self.servers, *words)
        except AdminError as error:
            self.note(f"{command} failed: {error}")
            raise
        self.note(f"{command} done")

    def move(self, node: Node) -> None:
        """Give an ended node another port, so that it sends UpdateVoter once it runs again."""
        node.port, node.other_port = node.other_port, node.port

    # The end

    def stop(self) -> None:
        """End all nodes in good order, one after another."""
        for node in self.rng.sample(self.nodes, len(self.nodes)):
            if node.process is not None and node.process.poll() is None:
                node.stop()
        self.note("end")

    def close(self) -> None:
        """Kill all processes."""
        for process in [self.admin.process, *(node.process for node in self.nodes if node.process is not None)]:
            kill_process_session(process)
            for pipe in (process.stdin, process.stdout):
                with suppress(OSError):
                    if pipe is not None:
                        pipe.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def archive(version: str) -> Path:
    """Return an archive of the classes that a controller loads: with it a start takes half the time."""
    target = make_trusted_cache_folder() / f"{version}-server" / "classes.jsa"
    if not target.is_file():
        with TemporaryDirectory(prefix="kafka-archive-") as folder, atomic_replacement(target) as new:
            with Cluster(Path(folder, "run"), version, nodes=1, archived=False) as cluster:
                cluster.options = (f"-XX:ArchiveClassesAtExit={new}",)
                cluster.begin("standalone")
                cluster.write(3)
                cluster.node(1).stop()
            new.touch()  # an empty archive is ignored
    return target


if __name__ == "__main__":
    from tests.support.kafka_scenarios import main

    main()
