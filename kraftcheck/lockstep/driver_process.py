"""Running drivers: a command and its answer are each a line of JSON.

One cluster of several versions of Kafka has a process for each version, with messages as bytes between them.
"""

from __future__ import annotations

import json
import re
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from itertools import chain
from pathlib import Path
from select import select
from tempfile import TemporaryDirectory, TemporaryFile
from types import TracebackType
from typing import Any, Self

from kraftcheck.lockstep.jars import DRIVER_MAIN_CLASS, QUIET_JAVA_OPTIONS, driver_classpath
from kraftcheck.processes import kill_process_session
from kraftcheck.spec.errors import InputError

JVM_OPTIONS = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xmx512m", *QUIET_JAVA_OPTIONS)
GRACE_SECONDS = 5.0  # seconds for the process to end by itself
ANSWER_TIMEOUT_SECONDS = 120.0  # seconds for one command
ERROR_TAIL_BYTES = 16_384  # bytes read from the end of its error output

DriverAnswer = dict[str, Any]


class DriverDied(InputError):  # noqa: N818 - an event of a walk
    """The Java process ended in the middle of a walk."""


class Driver:
    """Java process that holds Kafka's replicas."""

    def __init__(self, java: Path, classpath: str, options: Sequence[str] = (), *, disk: bool = False) -> None:
        self._folder = TemporaryDirectory(prefix="kraftcheck-lockstep-") if disk else None
        files = () if self._folder is None else (self._folder.name,)
        command = [str(java), *JVM_OPTIONS, *options, "-cp", classpath, DRIVER_MAIN_CLASS, *files]
        pipe = subprocess.PIPE
        self.died: DriverDied | None = None
        self.meanwhile: Callable[[], None] | None = None
        # called with command, arguments and answer
        self.record: Callable[[str, DriverAnswer, DriverAnswer], object] | None = None
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

    def ask(self, command: str, **arguments: Any) -> DriverAnswer:
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
            if not select([self._process.stdout], [], [], ANSWER_TIMEOUT_SECONDS)[0]:
                self.died = DriverDied(
                    f"the Java process gave no answer to `{command}` within {ANSWER_TIMEOUT_SECONDS:.0f} s"
                )
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
        self._end(GRACE_SECONDS)
        size = self._said.seek(0, 2)
        self._said.seek(max(0, size - ERROR_TAIL_BYTES))
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
        kill_process_session(self._process)

    def close(self) -> None:
        """End the process."""
        try:
            self._end(GRACE_SECONDS)
        finally:
            kill_process_session(self._process)
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


MESSAGE_IDS_A_PROCESS = 1_000_000_000
"""Distance between the first message numbers of two processes."""

OTHER_REPLICAS_ID = -1
"""Stands for the replicas without a version of their own."""

PLACEMENT_PATTERN = re.compile(r"(\w+)=(.+)")

START_COMMANDS = ("restart", "power-loss", "lose-disk", "move-endpoint", "change-software", "list-voters")
"""Commands that start a replica's process: it has the next version of the replica."""


def is_mixed_version_text(kafka: str) -> bool:
    """Whether a value of `--kafka`, or several of them with commas, gives replicas versions of their own."""
    return any(map(PLACEMENT_PATTERN.fullmatch, kafka.split(",")))


def start_mixed_version_driver(kafka: str, newest: str) -> MixedVersionDriver:
    """Start a process for each version of a text such as `n1=4.1.2:4.3.1,4.3.1`.

    The first restart of n1 takes it from 4.1.2 to 4.3.1. Replicas without a name have the unnamed version.
    """
    place: dict[int, list[str]] = {}
    for word in kafka.split(","):
        node, version = _parse_replica_version(word)
        if node in place:
            raise InputError(f"--kafka {word}: expected one version for a replica, and one for the others; remove one")
        place[node] = version.split(":")
    others = place.pop(OTHER_REPLICAS_ID, [newest])
    if len(others) > 1 or not all(chain.from_iterable(place.values())):
        raise InputError(f"--kafka {kafka}: expected versions such as n1=4.1.2:4.3.1; name a replica and its versions")
    versions = list(dict.fromkeys(chain(others, *place.values())))
    paths = [driver_classpath(version) for version in versions]
    with ExitStack() as stack:
        drivers = [stack.enter_context(Driver(path.java, path.text, path.options)) for path in paths]
        mixed = MixedVersionDriver(drivers, {node: [*map(versions.index, own)] for node, own in place.items()})
        stack.pop_all()
    return mixed


def _parse_replica_version(word: str) -> tuple[int, str]:
    """Return the number of a replica, or `OTHER_REPLICAS_ID`, and its version."""
    placed = PLACEMENT_PATTERN.fullmatch(word)
    if placed is None:
        return OTHER_REPLICAS_ID, word
    digits = re.sub(r"[^0-9]", "", placed[1])
    if not digits:
        raise InputError(f"--kafka {word}: expected a replica with a number in its name, such as n1")
    return int(digits[:9]), placed[2]


class MixedVersionDriver(Driver):
    """Drives replicas in several processes as if they were in one.

    A message to a replica of another process moves there as soon as it is sent, as bytes. A request has the newest
    version that both processes know. A replica with further versions moves at each start to the process of the next.
    """

    def __init__(self, drivers: Sequence[Driver], places: Mapping[int, Sequence[int]]) -> None:
        self._drivers = drivers
        self._places = places  # the processes of replicas with versions of their own, in order
        self._later: dict[int, list[int]] = {}
        self._place: dict[int, int] = {}  # of replicas that are not in the first process
        self._stale: dict[int, list[int]] = {}
        self._at: dict[int, int] = {}  # processes of messages in flight
        self.meanwhile: Callable[[], None] | None = None
        self.record = self.logs = None
        self._versions = [driver.ask("versions")["versions"] for driver in drivers]

    @property
    def died(self) -> DriverDied | None:  # type: ignore[override]
        """The error of the first process that ended, or None."""
        return next((driver.died for driver in self._drivers if driver.died is not None), None)

    def ask(self, command: str, **arguments: Any) -> DriverAnswer:
        """Execute a command in the process of its replica or message, and return the answer."""
        if command == "cluster":
            return self._start(arguments)
        if command in START_COMMANDS and self._later.get(arguments["node"]):
            self._move(arguments["node"], self._later[arguments["node"]].pop(0), whole=command != "power-loss")
        number = arguments.get("message")
        at = self._of(arguments["node"]) if number is None else self._at.pop(number)
        driver = self._drivers[at]
        driver.meanwhile, self.meanwhile = self.meanwhile, None
        answer = self._settled(at, driver.ask(command, **arguments))
        changed = {"lose-disk": {"disk": 1}, "move-endpoint": {"endpoint": 1}}.get(command)
        for other, process in enumerate(self._drivers):
            if changed is not None and other != at:
                process.ask("replaced", node=arguments["node"], **changed)
        return answer

    def _move(self, node: int, new: int, *, whole: bool) -> None:
        """Move a replica, its disk and the requests in flight to it to another process, where it starts next."""
        old = self._of(node)
        if old == new:
            return
        answer = self._drivers[old].ask("hand-over", node=node, whole=whole, versions=self._versions[new])
        if "error" in answer:
            raise InputError(f"a replica cannot move to another version of Kafka: {answer['error']}")
        self._stale[old], moved = answer["stale"], answer["moved"]
        for other, process in enumerate(self._drivers):
            if other not in (old, new):
                process.ask("moved", node=node, versions=self._versions[new])
        self._place[node] = new
        disk = {name: value for name, value in moved.items() if name != "requests"}
        for command, arguments in (("take-over", disk), *(("take", found) for found in moved["requests"])):
            self._taken(new, command, **arguments)

    def _taken(self, there: int, command: str, **arguments: Any) -> None:
        """Hand a message or a replica to a process."""
        answer = self._drivers[there].ask(command, **arguments)
        if "error" in answer:
            raise InputError(f"a message cannot be read by another version of Kafka: {answer['error']}")
        self._stale[there] = answer["stale"]
        if command == "take":
            self._at[arguments["id"]] = there

    def _of(self, node: int) -> int:
        return self._place.get(node, 0)

    def _start(self, arguments: dict[str, Any]) -> DriverAnswer:
        self._place = {node: places[0] for node, places in self._places.items()}
        self._later = {node: [*places[1:]] for node, places in self._places.items()}
        unknown = set(self._place) - set(arguments["nodes"])
        if unknown:
            nodes, names = (", ".join(map(str, sorted(found))) for found in (arguments["nodes"], unknown))
            raise InputError(
                f"--kafka: expected replicas {nodes}, found {names}; give versions to replicas of the model"
            )
        self._at.clear()
        self._stale.clear()
        together: DriverAnswer = {"states": {}, "sent": [], "stale": []}
        waiting = []
        for at, driver in enumerate(self._drivers):
            others = (node for node in arguments["nodes"] if self._of(node) != at)
            elsewhere = {str(node): self._versions[self._of(node)] for node in others}
            waiting.append(
                (at, driver.ask("cluster", **arguments, first=at * MESSAGE_IDS_A_PROCESS, elsewhere=elsewhere))
            )
        for at, answer in waiting:
            _merge_into_joint_answer(together, self._settled(at, answer))
        return together

    def _settled(self, at: int, answer: DriverAnswer) -> DriverAnswer:
        """Move the sent messages to the processes of their receivers; return the answer of all processes."""
        self._stale[at] = answer.get("stale", [])
        for found in answer.get("sent", ()):
            there = self._of(found["to"]) if "bytes" in found else at
            self._at[found["id"]] = there
            if there != at:
                names = ("id", "from", "to", "answer", "kind", "version", "bytes")
                self._taken(there, "take", **{name: found[name] for name in names}, asked=found.get("request", 0))
        return {**answer, "stale": [number for stale in self._stale.values() for number in stale]}

    def close(self) -> None:
        """End the processes."""
        with ExitStack() as stack:
            for driver in self._drivers:
                stack.callback(driver.close)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


def _merge_into_joint_answer(together: DriverAnswer, answer: DriverAnswer) -> None:
    together["states"].update(answer.get("states", {}))
    together["sent"] += answer.get("sent", ())
    together["stale"] = answer["stale"]
    together.update({key: answer[key] for key in ("error", "trace") if key in answer})
