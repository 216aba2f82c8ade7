"""A standalone Spark cluster: a master and workers, each a process of its own on 127.0.0.1."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

ADDRESS = "127.0.0.1"
PATIENCE = 300.0


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind((ADDRESS, 0))
        return int(probe.getsockname()[1])


class Standalone:
    """A master and workers with one core each."""

    def __init__(self, folder: Path, memory: str) -> None:
        import pyspark

        self.folder = folder
        self.memory = memory
        self.port, self.ui = free_port(), free_port()
        self.url = f"spark://{ADDRESS}:{self.port}"
        self.workers: list[subprocess.Popen[bytes]] = []
        home = Path(pyspark.__file__).parent
        self._class = home / "bin" / "spark-class"
        self.environment = {
            **os.environ,
            "SPARK_HOME": str(home),
            "SPARK_LOCAL_IP": ADDRESS,
            "PYSPARK_PYTHON": sys.executable,
            "PYSPARK_DRIVER_PYTHON": sys.executable,
        }
        self.master = self._start(
            "master.Master", "--host", ADDRESS, "--port", str(self.port), "--webui-port", str(self.ui)
        )

    def _start(self, name: str, *arguments: str) -> subprocess.Popen[bytes]:
        log = (self.folder / f"{name}-{time.monotonic_ns()}.log").open("wb")
        command = [str(self._class), f"org.apache.spark.deploy.{name}", *arguments]
        return subprocess.Popen(
            command, env=self.environment, stdout=log, stderr=log, cwd=self.folder, start_new_session=True
        )

    def add_worker(self) -> None:
        place = self.folder / f"work-{len(self.workers)}"
        options = ("--cores", "1", "--memory", self.memory, "--host", ADDRESS, "--work-dir", str(place))
        self.workers.append(self._start("worker.Worker", *options, "--webui-port", "0", self.url))

    def await_workers(self, count: int) -> None:
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until:
            with suppress(OSError), urllib.request.urlopen(f"http://{ADDRESS}:{self.ui}/json/", timeout=5) as answer:
                if answer.read().count(b'"ALIVE"') >= count + 1:  # the master is, too
                    return
            time.sleep(0.3)
        raise AssertionError(f"the cluster has no {count} workers: see {self.folder}")

    def kill_worker(self, number: int) -> None:
        """Kill a worker with its executor and all that this has started."""
        kill(self.workers[number])

    def close(self) -> None:
        for process in (*self.workers, self.master):
            kill(process)


def kill(process: subprocess.Popen[bytes]) -> None:
    """Kill a process and all in its session."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


@contextmanager
def cluster(folder: Path, workers: int = 2, memory: str = "1g") -> Iterator[Standalone]:
    """A cluster for as long as it is needed."""
    found = Standalone(folder, memory)
    try:
        for _ in range(workers):
            found.add_worker()
        found.await_workers(workers)
        yield found
    finally:
        found.close()
