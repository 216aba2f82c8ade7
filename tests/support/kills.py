"""Kills commands that keep something, at random moments; the way to go on must then find what is found without a kill.

    python -m tests.support.kills --count 1000 --seed 1
    python -m tests.support.kills --count 60 --only spark
    python -m tests.support.kills --count 60 --only cluster

Most runs are forked from this process, which has imported everything, so that a kill costs as little as the search
itself. Some are started as a user starts them, to hit the first moments. A quarter of the kills come right after a
change in the folder, to hit the moments in which something is saved.
"""

from __future__ import annotations

import argparse
import atexit
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple

from tests.support.spark.standalone import Standalone, cluster

ROOT = Path(__file__).parents[2]
DATA = ROOT / "tests" / "data" / "tlc"
EVERY = ("--checkpoint", "KEPT", "--resume-if-present", "--checkpoint-every", "0.02", "--json", "JSON", "--quiet")
NO_PAGES = ("--conf", "spark.ui.enabled=false")
LOCAL = ("--master", "local[1]", *NO_PAGES)
ON_CLUSTER = ("--master", "CLUSTER", *NO_PAGES, "--conf", "spark.executor.memory=512m")
VOLATILE = {
    *("seconds", "states_per_second", "peak_memory_bytes", "compile_seconds", "notes", "warnings", "vacuous"),
    *("never_evaluated", "new_files", "handler_calls", "workers"),
}
"""What a JSON result says of one run, or not where it was resumed."""

FOLLOW = "--follow"

END = 180.0
"""Seconds after which a process that was asked to end is taken for one that hangs, on a machine with a high load."""


class Scenario(NamedTuple):
    """A command to kill, and then to run again until it ends.

    In `words`, each run replaces KEPT by its folder, and JSON by the file of its result. It replaces CLUSTER by the URL
    of a standalone Spark cluster with two workers, which all scenarios share.

    Attributes
    ----------
    name
        The name of the scenario.
    words
        The arguments of the command.
    code
        The exit code of a run without a kill.
    victims
        The processes of which one is killed: "command", "process" (one of its own), or on Spark "java", "worker" (of
        Python), or on a cluster "executor".
    """

    name: str
    words: tuple[str, ...]
    code: int = 0
    victims: tuple[str, ...] = ("command",)

    @property
    def is_spark(self) -> bool:
        """Whether it needs Spark."""
        return "java" in self.victims

    @property
    def is_on_cluster(self) -> bool:
        """Whether it needs a cluster, on which executors are processes of their own."""
        return "CLUSTER" in self.words

    @property
    def is_endless(self) -> bool:
        """Whether the command goes on until a signal; it is finished without this option."""
        return FOLLOW in self.words


def _check(name: str, words: str, code: int = 0) -> Scenario:
    return Scenario(name, ("check", *words.split(), *EVERY), code)


def _other(name: str, words: str) -> Scenario:
    return Scenario(name, (*words.split(), "--json", "JSON", *(("--quiet",) if "crosscheck" not in words else ())))


def _on_spark(name: str, words: str, code: int = 0) -> Scenario:
    return Scenario(name, (*words.split(), "--json", "JSON", "--quiet", *LOCAL), code, ("command", "java", "worker"))


def _on_cluster(name: str, words: str, code: int = 0) -> Scenario:
    given = (*words.split(), "--json", "JSON", "--quiet", *ON_CLUSTER)
    return Scenario(name, given, code, ("command", "java", "worker", "executor"))


SPACE = f"--config {DATA}/dumps/two-voters.cfg --dump {DATA}/dumps/two-voters.dot.gz"
CORPUS = f"{DATA}/simulations/*.tla.gz --model reconfig --config {DATA}/simulations/published.cfg"
FOLDER = f"{DATA}/simulations --model reconfig --config {DATA}/simulations/published.cfg"
SEARCH = "check reconfig --config smoke --engine spark --checkpoint KEPT --resume-if-present"
BY_SPARK = f"pipeline {FOLDER} --out KEPT --conf spark.kraftcheck.files=4"
BY_PROCESSES = tuple(f"pipeline {FOLDER} --out KEPT --json JSON --workers 2".split())
SCENARIOS = (
    _check("tables", "reconfig --config default --engine tables --workers 2"),
    _check("tables, on disk", "reconfig --config smoke --engine tables --memory 1M"),
    _check("tables, symmetry", "two-phase-commit --config default --engine tables --symmetry"),
    _check("tables, temporal", "dining-philosophers --config default --engine tables"),
    _check("tables, violated", "lock-service --variant impatient-server --engine tables --workers 1", 12),
    _check("symbolic", "two-phase-commit --config smoke --engine symbolic"),
    _check("symbolic, bfs", "reconfig --config smoke --engine symbolic --search bfs"),
    _other("reference", "check reconfig --config smoke --engine reference"),
    _other("simulate", "simulate reconfig --config smoke --runs 60 --out KEPT"),
    _other("mutate", "mutate die-hard --engine reference --sample 6 --checkpoint KEPT"),
    _other("crosscheck", f"crosscheck reconfig {SPACE}"),
    _on_spark("spark, check", SEARCH),
    _on_spark("spark, simulate", "simulate reconfig --config smoke --engine spark --runs 300 --out KEPT"),
    Scenario("pipeline, processes", (*BY_PROCESSES, "--quiet"), 1, ("command", "process")),
    Scenario("pipeline, follow", (*BY_PROCESSES, "--quiet", FOLLOW), 1, ("command", "process")),
    _on_spark("spark, pipeline", f"pipeline {CORPUS} --out KEPT --conf spark.kraftcheck.files=4"),
    _on_cluster("cluster, pipeline", BY_SPARK, 1),
    _on_cluster("cluster, follow", f"{BY_SPARK} {FOLLOW}", 1),
    _on_cluster("cluster, check", f"{SEARCH} --conf spark.kraftcheck.small=0"),
)


class FailedError(Exception):
    """What a kill has brought to light."""


class Process:
    """A command that runs in a session of its own, forked from this process or started afresh."""

    def __init__(self, words: list[str], folder: Path, standalone: Standalone | None, *, forked: bool) -> None:
        self._standalone = standalone
        self.output = folder / "output"
        self.output.touch()
        self.began = time.monotonic()
        self._code: int | None = None
        environment = os.environ | {"TMPDIR": str(folder / "tmp"), "PYTHONUNBUFFERED": "1"}
        environment |= standalone.environment if standalone else {}
        if forked:
            self.pid = _fork(words, self.output, environment)
        else:
            with self.output.open("wb") as file:
                process = subprocess.Popen(
                    [sys.executable, "-m", "kraftcheck", *words],
                    cwd=ROOT, env=environment, stdin=subprocess.DEVNULL, stdout=file, stderr=file,
                    start_new_session=True,
                )  # fmt: skip
            self.pid, process.returncode = process.pid, 0  # it is this class that waits for it

    def poll(self) -> int | None:
        """Return the exit code, negative for a signal, or None while the command runs."""
        if self._code is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            self._code = os.waitstatus_to_exitcode(status) if pid else None
        return self._code

    def wait(self, seconds: float) -> int:
        """Return the exit code."""
        until = time.monotonic() + seconds
        while (code := self.poll()) is None:
            if time.monotonic() > until:
                os.killpg(self.pid, signal.SIGKILL)
                raise FailedError(f"it did not end in {seconds:.0f} s")
            time.sleep(0.005)
        return code

    def others(self, *sessions: int) -> dict[int, str]:
        """Return the numbers and command lines of all processes of the session, or of others, but the leaders."""
        listed = subprocess.run(["ps", "-eo", "pid=,sess=,stat=,args="], capture_output=True, text=True, check=True)
        rows = [line.split(None, 3) for line in listed.stdout.splitlines()]
        mine = set(map(str, sessions or (self.pid,)))
        return {int(r[0]): r[-1] for r in rows if r[1] in mine and r[0] != r[1] and r[2][0] != "Z"}

    def victim(self, kind: str) -> int | None:
        """Return the number of the process to kill, where it is there."""
        if kind == "command":
            return self.pid
        mark = {"java": "SparkSubmit", "worker": "pyspark.daemon", "process": "", "executor": "ExecutorBackend"}[kind]
        in_executors = self._standalone is not None and kind != "java"
        sessions = [worker.pid for worker in self._standalone.workers] if self._standalone and in_executors else []
        found = [pid for pid, words in self.others(*sessions).items() if mark in words]
        return max(found, default=None)


def _fork(words: list[str], output: Path, environment: dict[str, str]) -> int:
    """Run a command in a fork of this process; return its number."""
    sys.stdout.flush()
    if pid := os.fork():
        return pid
    code = 1
    try:
        os.setsid()
        descriptor = os.open(output, os.O_WRONLY | os.O_CREAT)
        os.dup2(descriptor, 1)
        os.dup2(descriptor, 2)
        os.environ.update(environment)
        tempfile.tempdir, sys.argv[1:] = None, words
        from kraftcheck.__main__ import main

        signal.signal(signal.SIGINT, signal.default_int_handler)
        code = main()
    except SystemExit as end:
        code = int(end.code or 0)
    except BaseException:
        traceback.print_exc()
    finally:
        with suppress(BaseException):
            atexit._run_exitfuncs()
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


def state_of(folder: Path) -> dict[str, Any]:
    """Return the names of the files in a folder, without numbers, and the content of walks."""
    files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    uuid = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
    names = {re.sub(rf"{uuid}|\d+", "N", str(path.relative_to(folder))) for path in files}
    walks = {path.name: blake2b(path.read_bytes()).hexdigest() for path in folder.glob("walk_*.tla")}
    return {"names": sorted(names), "walks": walks}


def result_of(path: Path) -> Any:
    """Return a result without what differs from run to run."""
    found = json.loads(path.read_text())
    return {name: value for name, value in found.items() if name not in VOLATILE}


@dataclass
class Killer:
    """Kills the runs of one scenario.

    Attributes
    ----------
    kills
        How often each signal hit a running process.
    moments
        At what share of a whole run.
    failures
        What went wrong.
    slowest_end, forced
        The most seconds to the end after a signal, and how often the process was ended although it was busy.
    """

    scenario: Scenario
    folder: Path
    random: random.Random
    standalone: Standalone | None = None
    kills: Counter[str] = field(default_factory=Counter)
    moments: list[float] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    slowest_end: float = 0.0
    forced: int = 0

    def __post_init__(self) -> None:
        self._number = 0
        self.expected, first = self._whole()
        self.seconds = min(first, self._whole()[1])  # the first may have compiled something

    def _place(self) -> tuple[Path, list[str]]:
        self._number += 1
        place = self.folder / f"{re.sub('[^a-z]+', '-', self.scenario.name)}-{self._number}"
        (place / "tmp").mkdir(parents=True)
        replaced = {"KEPT": str(place / "kept"), "JSON": str(place / "result.json")}
        replaced |= {"CLUSTER": self.standalone.url} if self.standalone else {}
        return place, [replaced.get(word, word) for word in self.scenario.words]

    def _finish(self, place: Path, words: list[str], *, forked: bool) -> dict[str, Any]:
        """Run a command to its end; return what it leaves behind."""
        process = Process([word for word in words if word != FOLLOW], place, self.standalone, forked=forked)
        code = process.wait(20 * END)
        printed = process.output.read_text(errors="replace")
        if code != self.scenario.code or "Traceback" in printed:
            raise FailedError(f"going on: expected exit code {self.scenario.code}, found {code}: {printed[-2000:]}")
        if left := sorted(path.name for path in (place / "tmp").iterdir() if not path.name.startswith("hsperfdata")):
            raise FailedError(f"left in TMPDIR: {', '.join(left)}")
        kept = state_of(place / "kept") if (place / "kept").exists() else {}
        return {"result": result_of(place / "result.json"), **kept}

    def _whole(self) -> tuple[dict[str, Any], float]:
        """Return what a run without a kill leaves behind, and how long it takes."""
        place, words = self._place()
        began = time.monotonic()
        found = self._finish(place, words, forked=not self.scenario.is_spark)
        shutil.rmtree(place)
        return found, time.monotonic() - began

    def trial(self) -> bool:
        """Kill one run and go on; return whether there was a process to kill."""
        place, words = self._place()
        afresh = self.scenario.is_spark or self.random.random() < 0.1
        number = self.random.choice([signal.SIGKILL, signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
        victim = self.random.choice(self.scenario.victims)
        number = number if victim == "command" else signal.SIGKILL
        process = Process(words, place, self.standalone, forked=not afresh)
        what = f"{self.scenario.name}: {number.name} to {victim}"
        try:
            self._await_moment(process, place, afresh=afresh)
            pid, after = self._await_victim(process, victim), time.monotonic() - process.began
            what += f" after {after:.3f} s{', started afresh' if afresh else ''}"
            if pid is None or process.poll() is not None:
                if not self.scenario.is_endless:
                    process.wait(20 * END)
                return False
            with suppress(ProcessLookupError):  # a worker may have ended just now
                os.kill(pid, number)
            if self.scenario.is_endless and victim != "command":
                time.sleep(self.random.uniform(0, 5))
                with suppress(ProcessLookupError):
                    os.kill(process.pid, signal.SIGTERM)
            self._ended(process, number if victim == "command" else None)
            self.kills[f"{number.name} {victim}"] += 1
            self.moments.append(min(1.0, after / self.seconds))
            found = self._finish(place, words, forked=not self.scenario.is_spark)
            for name, expected in self.expected.items():
                if found[name] != expected:
                    raise FailedError(f"{name}: {_difference(expected, found[name])}")
        except FailedError as failure:
            self.failures.append(f"{what}: {failure} (in {place})")
            return True
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
        shutil.rmtree(place)
        return True

    def _await_moment(self, process: Process, place: Path, *, afresh: bool) -> None:
        """Wait for a time, or for a number of changes in the folder."""
        latest = self.seconds
        if not self.scenario.is_spark and afresh:
            latest = 0.3 if self.random.random() < 0.5 else 1.5
        until = process.began + self.random.uniform(0, latest)
        changes = self.random.randint(1, 30) if not afresh and self.random.random() < 0.25 else 0
        if not changes:
            while process.poll() is None and (left := until - time.monotonic()) > 0:
                time.sleep(min(left, 0.05))
            return
        until, before = process.began + 2 * latest, ()
        while changes and time.monotonic() < until and process.poll() is None:
            now = tuple(_changes(place / "kept"))
            changes, before = changes - (now != before), now
            time.sleep(0.0005)

    def _await_victim(self, process: Process, kind: str) -> int | None:
        """Return the number of the process to kill; on Spark wait until it is there."""
        until = process.began + 2 * self.seconds
        while (pid := process.victim(kind)) is None and self.scenario.is_spark:
            if process.poll() is not None or time.monotonic() > until:
                break
            time.sleep(0.2)
        return pid

    def _ended(self, process: Process, number: signal.Signals | None) -> None:
        """Wait for the end of a process, and of all that it has started."""
        began = time.monotonic()
        code = process.wait(END if number else 20 * END)  # Spark starts a worker again, and the command goes on
        self.slowest_end = max(self.slowest_end, time.monotonic() - began if number else 0.0)
        printed = process.output.read_text(errors="replace")
        self.forced += "did not end in time" in printed
        if "Traceback" in printed and (
            number != signal.SIGINT or f'"{ROOT}/kraftcheck/' in printed
        ):  # else Python's own
            raise FailedError(f"a traceback: {printed[-2000:]}")
        allowed = {0, self.scenario.code, 2, 3, 130} if number is None else {self.scenario.code, -number}
        if number in (signal.SIGTERM, signal.SIGINT):
            allowed |= {130, 1 if "Traceback" in printed else 130}
        if code not in allowed:
            raise FailedError(f"exit code {code}: {printed[-2000:]}")
        until = time.monotonic() + END
        while (others := process.others()) and time.monotonic() < until:
            time.sleep(0.05)
        if others:
            raise FailedError(f"still running: {others}")


def _changes(folder: Path) -> Iterator[tuple[str, int, int]]:
    with suppress(OSError):
        for entry in os.scandir(folder):
            found = entry.stat()
            yield entry.name, found.st_mtime_ns, found.st_size


def _difference(expected: Any, found: Any) -> str:
    if isinstance(expected, dict) and isinstance(found, dict):
        names = [name for name in {**expected, **found} if expected.get(name) != found.get(name)]
        return "; ".join(f"{name}: expected {expected.get(name)}, found {found.get(name)}"[:500] for name in names[:5])
    return f"expected {expected}, found {found}"[:2000]


def kill(
    scenarios: tuple[Scenario, ...], count: int, seed: int, folder: Path, tell: Callable[[str], object]
) -> list[Killer]:
    """Kill runs of scenarios in turn, until so many were hit; return what came of it."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # so a forked process has no handler before the command sets one
    on_cluster = any(scenario.is_on_cluster for scenario in scenarios)
    with cluster(folder) if on_cluster else nullcontext() as standalone:
        return _kill(scenarios, count, seed, folder, tell, standalone)


def _kill(
    scenarios: tuple[Scenario, ...], count: int, seed: int, folder: Path, tell: Callable[[str], object],
    standalone: Standalone | None,
) -> list[Killer]:  # fmt: skip
    chance = random.Random(seed)
    killers: list[Killer] = []
    for scenario in scenarios:
        where = standalone if scenario.is_on_cluster else None
        killers.append(Killer(scenario, folder, random.Random(chance.random()), where))
        tell(f"{scenario.name}: {killers[-1].seconds:.1f} s without a kill")
    for turn in range(10 * count):
        if sum(sum(killer.kills.values()) + len(killer.failures) for killer in killers) >= count:
            break
        killer = killers[turn % len(killers)]
        before = len(killer.failures)
        killer.trial()
        for failure in killer.failures[before:]:
            tell(failure)
        if turn % 50 == 49:
            tell(summary(killers))
    return killers


def summary(killers: list[Killer]) -> str:
    """Return a table of what was killed."""
    lines = []
    for killer in killers:
        tenths = Counter(min(9, int(10 * moment)) for moment in killer.moments)
        spread = " ".join(str(tenths[n]) for n in range(10))
        kills, signals = (
            sum(killer.kills.values()),
            ", ".join(f"{name} {times}" for name, times in sorted(killer.kills.items())),
        )
        lines.append(
            f"{killer.scenario.name:18} {kills:4} kills ({signals}); by tenths of a run: {spread}; "
            f"slowest end {killer.slowest_end:.1f} s; ended by force {killer.forced}; {len(killer.failures)} failures"
        )
    return "\n".join(lines)


def prepare(scenarios: tuple[Scenario, ...]) -> None:
    """Import what commands import, so that forked ones need not."""
    from kraftcheck.explorer import kernel_compilation

    kernel_compilation.replace_unusable_cache_folder()
    from kraftcheck.commands import warm

    warm.compile_table_engine()
    if any("symbolic" in scenario.words for scenario in scenarios):
        warm.compile_symbolic_engine()
    for name in ("check", "simulate", "mutate", "crosscheck", "pipeline"):
        __import__(f"kraftcheck.commands.{name}")


def main() -> int:
    """Kill as the command line says; return 1 if something went wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", help="scenarios whose names contain this; those on Spark only so")
    given = parser.parse_args()
    named = [one for one in SCENARIOS if given.only in one.name]
    chosen = tuple(one for one in named if given.only or not one.is_spark)
    prepare(chosen)
    folder = Path(tempfile.mkdtemp(prefix="kills-"))  # what went wrong stays there
    killers = kill(chosen, given.count, given.seed, folder, lambda text: print(text, flush=True))
    print(summary(killers))
    return int(any(killer.failures for killer in killers))


if __name__ == "__main__":
    sys.exit(main())
