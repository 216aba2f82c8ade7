"""One cluster of several versions of Kafka: a Java process for each version, and messages as bytes between them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from types import TracebackType
from typing import Any, Self

from kraftcheck.lockstep.jars import classpath
from kraftcheck.lockstep.process import Answer, Driver, DriverDied
from kraftcheck.spec.errors import InputError

IDS = 1_000_000_000
"""Distance between the first message numbers of two processes."""

OTHERS = -1
"""Stands for the replicas without a version of their own."""

PLACED = re.compile(r"(\w+)=(.+)")


def is_mixed(kafka: str) -> bool:
    """Whether a value of `--kafka`, or several of them with commas, gives replicas versions of their own."""
    return any(map(PLACED.fullmatch, kafka.split(",")))


def start_mixed(kafka: str, newest: str) -> MixedDriver:
    """Start a process for each version of a text such as `n1=4.1.2,4.3.1`; other replicas have the unnamed version."""
    place: dict[int, str] = {}
    for word in kafka.split(","):
        node, version = _placed(word)
        if node in place:
            raise InputError(f"--kafka {word}: expected one version for a replica, and one for the others; remove one")
        place[node] = version
    versions = list(dict.fromkeys([place.pop(OTHERS, newest), *place.values()]))
    paths = [classpath(version) for version in versions]
    with ExitStack() as stack:
        drivers = [stack.enter_context(Driver(path.java, path.text, path.options)) for path in paths]
        mixed = MixedDriver(drivers, {node: versions.index(version) for node, version in place.items()})
        stack.pop_all()
    return mixed


def _placed(word: str) -> tuple[int, str]:
    """Return the number of a replica, or `OTHERS`, and its version."""
    placed = PLACED.fullmatch(word)
    if placed is None:
        return OTHERS, word
    digits = re.sub(r"[^0-9]", "", placed[1])
    if not digits:
        raise InputError(f"--kafka {word}: expected a replica with a number in its name, such as n1")
    return int(digits[:9]), placed[2]


class MixedDriver(Driver):
    """Drives replicas in several processes as if they were in one.

    A message to a replica of another process moves there as soon as it is sent, as bytes. A request has the newest
    version that both processes know.
    """

    def __init__(self, drivers: Sequence[Driver], place: Mapping[int, int]) -> None:
        self._drivers = drivers
        self._place = place  # of replicas that are not in the first process
        self._stale: dict[int, list[int]] = {}
        self._at: dict[int, int] = {}  # processes of messages in flight
        self.meanwhile: Callable[[], None] | None = None
        self.record = self.logs = None
        self._versions = [driver.ask("versions")["versions"] for driver in drivers]

    @property
    def died(self) -> DriverDied | None:  # type: ignore[override]
        """The error of the first process that ended, or None."""
        return next((driver.died for driver in self._drivers if driver.died is not None), None)

    def ask(self, command: str, **arguments: Any) -> Answer:
        """Execute a command in the process of its replica or message, and return the answer."""
        if command == "cluster":
            return self._start(arguments)
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

    def _of(self, node: int) -> int:
        return self._place.get(node, 0)

    def _start(self, arguments: dict[str, Any]) -> Answer:
        unknown = set(self._place) - set(arguments["nodes"])
        if unknown:
            nodes, names = (", ".join(map(str, sorted(found))) for found in (arguments["nodes"], unknown))
            raise InputError(
                f"--kafka: expected replicas {nodes}, found {names}; give versions to replicas of the model"
            )
        self._at.clear()
        self._stale.clear()
        together: Answer = {"states": {}, "sent": [], "stale": []}
        waiting = []
        for at, driver in enumerate(self._drivers):
            others = (node for node in arguments["nodes"] if self._of(node) != at)
            elsewhere = {str(node): self._versions[self._of(node)] for node in others}
            waiting.append((at, driver.ask("cluster", **arguments, first=at * IDS, elsewhere=elsewhere)))
        for at, answer in waiting:
            _merge(together, self._settled(at, answer))
        return together

    def _settled(self, at: int, answer: Answer) -> Answer:
        """Move the sent messages to the processes of their receivers; return the answer of all processes."""
        self._stale[at] = answer.get("stale", [])
        for found in answer.get("sent", ()):
            there = self._of(found["to"]) if "bytes" in found else at
            self._at[found["id"]] = there
            if there != at:
                names = ("id", "from", "to", "answer", "kind", "version", "bytes")
                taken = self._drivers[there].ask(
                    "take", **{name: found[name] for name in names}, asked=found.get("request", 0)
                )
                if "error" in taken:
                    raise InputError(f"a message cannot be read by another version of Kafka: {taken['error']}")
                self._stale[there] = taken["stale"]
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


def _merge(together: Answer, answer: Answer) -> None:
    together["states"].update(answer.get("states", {}))
    together["sent"] += answer.get("sent", ())
    together["stale"] = answer["stale"]
    together.update({key: answer[key] for key in ("error", "trace") if key in answer})
