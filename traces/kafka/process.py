"""The running driver: one command in, one answer out, both a line of JSON."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from kraftcheck.spec.errors import InputError

MAIN = "org.apache.kafka.raft.LockstepDriver"
OPTIONS = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto", "-Xmx512m")
GRACE = 5.0  # seconds that the process has to end by itself

Answer = dict[str, Any]


class DriverDied(InputError):  # noqa: N818 - what it is
    """The Java process ended in the middle of a walk."""


class Driver:
    """A Java process with Kafka's replicas in it.

    Parameters
    ----------
    java
        The program `java`.
    classpath
        The compiled driver and Kafka's jars.

    Raises
    ------
    InputError
        The process cannot be started.
    """

    def __init__(self, java: Path, classpath: str) -> None:
        command = [str(java), *OPTIONS, "-cp", classpath, MAIN]
        try:
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, bufsize=1
            )
        except OSError as error:
            raise InputError(f"{java}: cannot be started: {error.strerror}") from None

    def ask(self, command: str, **arguments: Any) -> Answer:
        """Do a command, and return what became of it.

        Parameters
        ----------
        command
            Its name, as `LockstepDriver.handle` knows it.
        arguments
            What it needs, as JSON can hold it.

        Raises
        ------
        DriverDied
            The process ended.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(json.dumps({"do": command, **arguments}) + "\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
        except OSError:
            line = ""
        if not line:
            raise DriverDied(self._last_words())
        answer: Answer = json.loads(line)
        return answer

    def _last_words(self) -> str:
        assert self._process.stderr is not None
        self._process.kill()
        said = self._process.stderr.read().strip().splitlines()
        self._process.wait()
        last = said[-1] if said else "it said nothing"
        return f"the Java process ended (exit code {self._process.returncode}): {last}"

    def close(self) -> None:
        """End the process."""
        if self._process.poll() is None:
            assert self._process.stdin is not None
            try:
                self._process.stdin.close()
                self._process.wait(GRACE)
            except (OSError, subprocess.TimeoutExpired):
                self._process.kill()
                self._process.wait()
        for stream in (self._process.stdout, self._process.stderr):
            if stream is not None:
                stream.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()
