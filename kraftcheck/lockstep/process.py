"""The running driver: a command and its answer are each a line of JSON."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from select import select
from tempfile import TemporaryDirectory, TemporaryFile
from types import TracebackType
from typing import Any, Self

from kraftcheck.lockstep.jars import MAIN, QUIET
from kraftcheck.processes import end_all
from kraftcheck.spec.errors import InputError

OPTIONS = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xmx512m", *QUIET)
GRACE = 5.0  # seconds for the process to end by itself
PATIENCE = 120.0  # seconds for one command
TAIL = 16_384  # bytes read from the end of its error output

Answer = dict[str, Any]


class DriverDied(InputError):  # noqa: N818 - an event of a walk
    """The Java process ended in the middle of a walk."""


class Driver:
    """Java process that holds Kafka's replicas."""

    def __init__(self, java: Path, classpath: str, options: Sequence[str] = (), *, disk: bool = False) -> None:
        self._folder = TemporaryDirectory(prefix="kraftcheck-lockstep-") if disk else None
        files = () if self._folder is None else (self._folder.name,)
        command = [str(java), *OPTIONS, *options, "-cp", classpath, MAIN, *files]
        pipe = subprocess.PIPE
        self.died: DriverDied | None = None
        self.meanwhile: Callable[[], None] | None = None
        self.record: Callable[[str, Answer, Answer], object] | None = None  # called with command, arguments and answer
        self.logs: str | None = None  # the folder for the logs of the next walk
        self._owed = 0
        self._said = TemporaryFile()  # noqa: SIM115 - closed by close; an unread pipe would fill up
        try:
            self._process = subprocess.Popen(
                command, stdin=pipe, stdout=pipe, stderr=self._said, text=True, bufsize=1, start_new_session=True
            )
        except OSError as error:
            self._forget()
            raise InputError(f"{java}: cannot be started: {error.strerror}") from None

    def ask(self, command: str, **arguments: Any) -> Answer:
        """Execute a command, and return the answer."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        if self.died is not None:
            raise self.died
        line = ""
        with suppress(OSError):
            while self._owed:  # left over from an interrupted command
                self._process.stdout.readline()
                self._owed -= 1
            self._process.stdin.write(json.dumps({"do": command, **arguments}) + "\n")
            self._process.stdin.flush()
            self._owed += 1
        # `meanwhile` is the caller's own work while Java executes the command: see `Lockstep.walk`.
        work, self.meanwhile = self.meanwhile, None
        if work is not None:
            work()
        with suppress(OSError):
            if not select([self._process.stdout], [], [], PATIENCE)[0]:
                self.died = DriverDied(f"the Java process gave no answer to `{command}` within {PATIENCE:.0f} s")
                self._end(0)
                raise self.died
            line = self._process.stdout.readline()
            self._owed -= 1
        try:
            answer = json.loads(line)
        except ValueError:
            answer = None
        if not isinstance(answer, dict):
            self.died = DriverDied(self._last_words(line.strip()))
            raise self.died
        if self.record is not None:
            self.record(command, arguments, answer)
        return answer

    def _last_words(self, line: str) -> str:
        """Describe the end of the Java process; after an invalid answer, end the process first."""
        if line:
            self._end(0)
            return f"the Java process gave no answer, but said: {line[:200]}"
        self._end(GRACE)
        size = self._said.seek(0, 2)
        self._said.seek(max(0, size - TAIL))
        said = [text.strip() for text in self._said.read().decode(errors="replace").splitlines() if text.strip()]
        errors = [text for text in said if "Error" in text or "Exception" in text]
        last = errors[0] if errors else said[-1] if said else "it said nothing"
        code = self._process.returncode
        how = f"exit code {code}" if code >= 0 else signal.Signals(-code).name
        return f"the Java process ended ({how}): {last[:300]}"

    def _end(self, grace: float) -> None:
        assert self._process.stdin is not None
        with suppress(OSError):
            self._process.stdin.close()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(grace)
        end_all(self._process)

    def close(self) -> None:
        """End the process."""
        try:
            self._end(GRACE)
        finally:
            end_all(self._process)
            if self._process.stdout is not None:
                self._process.stdout.close()
            self._forget()

    def _forget(self) -> None:
        self._said.close()
        if self._folder is not None:
            self._folder.cleanup()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()
