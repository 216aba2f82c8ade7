"""Compares what TLC finds in a module with what each engine and order finds in the protocol."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from threading import Timer
from typing import Any, NamedTuple
from unittest.mock import patch

from kraftcheck.engines import search
from kraftcheck.explorer.reference import ReferenceSearch
from kraftcheck.explorer.result import DEADLOCK, Result, SearchRequest
from kraftcheck.explorer.tables import level_states
from kraftcheck.spec.cfg.binding import bind
from kraftcheck.spec.cfg.config import parse_config
from kraftcheck.spec.discovery import load_protocol
from kraftcheck.spec.errors import InputError
from kraftcheck.spec.language.protocol import Protocol
from kraftcheck.spec.language.semantics import Semantics
from kraftcheck.traces.crosscheck import DumpComparer as StateComparison
from kraftcheck.traces.crosscheck import find_tlc
from kraftcheck.traces.formats.tlc_dump import read_graph
from tests.support.explorer.lassos import require_counterexample, step_between
from tests.support.random_tla.drawing import Description
from tests.support.random_tla.module import Module
from tests.support.random_tla.source import Source

SEARCHES = (
    ("reference", "bfs", 1, ""),
    ("reference", "dfs", 1, ""),
    ("tables", "bfs", 1, ""),
    ("tables", "bfs", 2, ""),
    ("tables", "bfs", 1, "flat"),
    ("tables", "bfs", 2, "packed"),
    ("tables", "dfs", 1, ""),
    ("tables", "dfs", 2, ""),
    ("tables", "iddfs", 1, ""),
    ("tables", "iddfs", 2, ""),
    ("symbolic", "bfs", 1, ""),
    ("symbolic", "saturation", 1, ""),
    ("symbolic", "chaining", 1, ""),
    ("bytecode", "bfs", 1, ""),
)
LAYOUTS: dict[str, dict[str, Any]] = {
    "": {},
    "flat": {"FLAT_FROM_STATES": 4},
    "packed": {"FLAT_FROM_STATES": 5, "CLUSTERING_FROM_STATES": 11},
}
"""Changes of `explorer/tables/level_states.py`: the numbers of states from which the layout of states changes."""
MOST = 3_000  # distinct states of a pair
PATIENCE, PATIENCE_WITH_TLC = 8.0, 120.0  # seconds of a search
RUNS_OF_A_JVM = 40
SMALL = 100  # distinct states of which it is known soon whether a verdict depends on the kind of fairness
COMPARED = 200  # distinct states up to which the states themselves are compared

# TLC


class Error(NamedTuple):
    """A violation that TLC reports: the property, and the states of the behaviour."""

    property: str
    length: int


@dataclass
class Report:
    """What TLC printed."""

    errors: list[Error] = field(default_factory=list)
    generated: int = 0
    distinct: int = 0
    left: int = 0
    depth: int = 0


_ERROR = re.compile(
    r"Error: (?:Invariant (?P<invariant>\w+) is violated|Action property (?P<step>.*) is violated"
    r"|(?P<deadlock>Deadlock) reached|(?P<temporal>Temporal) properties were violated|(?P<other>.*))"
)
_COUNTS = re.compile(r"(\d+) states generated, (\d+) distinct states found, (\d+) states left on queue")
_DEPTH = re.compile(r"The depth of the complete state graph search is (\d+)")
_FOLLOWS = ("The behavior up to this point is", "The following behavior constitutes a counter-example")


class TlcError(Exception):
    """TLC could not evaluate a module."""


def read(text: str) -> Report:
    """Read what TLC printed."""
    report = Report()
    for line in text.splitlines():
        if found := _ERROR.match(line):
            if found["other"] and not found["other"].startswith(_FOLLOWS):
                raise TlcError(text[-3000:])
            if not found["other"]:
                name = found["invariant"] or found["step"] or found["deadlock"] or found["temporal"]
                report.errors.append(Error(name, 1))
        elif found := re.match(r"State (\d+): ", line):
            if not line.endswith("Stuttering"):
                report.errors[-1] = report.errors[-1]._replace(length=int(found[1]))
        elif found := _COUNTS.match(line):
            report.generated, report.distinct, report.left = map(int, found.groups())
        elif found := _DEPTH.match(line):
            report.depth = int(found[1])
    return report


class Tlc:
    """Runs TLC again and again in a JVM; in another one after some runs, as each leaves memory and threads behind."""

    def __init__(self, command: list[str], folder: Path) -> None:
        self._command, self._folder = command, folder
        self._process: subprocess.Popen[str] | None = None
        self.runs = 0

    def run(self, name: str, config: str, *options: str) -> Report:
        """Search a module of the folder."""
        if self.runs % RUNS_OF_A_JVM == 0:
            self.end()
        self.runs += 1
        if self._process is None:
            self._process = subprocess.Popen(self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        (self._folder / "tlc.cfg").write_text(config)
        states = self._folder / "states"
        shutil.rmtree(states, ignore_errors=True)
        words = [str(self._folder), "tlc.log", "-workers", "1", "-metadir", str(states), "-config", "tlc.cfg"]
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        guard = Timer(PATIENCE_WITH_TLC, self._process.kill)
        guard.start()
        print(*words, *options, f"{name}.tla", sep="\t", file=self._process.stdin, flush=True)
        answer = self._process.stdout.readline()
        guard.cancel()
        text = (self._folder / "tlc.log").read_text()
        if not answer:
            self.end()
            raise TlcError(f"the JVM ended: {text[-3000:]}")
        return read(text)

    def end(self) -> None:
        """End the JVM."""
        if self._process is not None:
            with self._process as process:
                process.kill()
        self._process = None


@contextmanager
def running(folder: Path) -> Iterator[Tlc]:
    """Compile the driver; end its JVM on leaving."""
    tool, driver = find_tlc(), Path(__file__).with_name("TlcRuns.java")
    classes = folder / "classes"
    subprocess.run(["javac", "-d", classes, driver], check=True)
    options = ["-Duser.language=en", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", f"-Djava.io.tmpdir={folder}"]
    tlc = Tlc([tool.java, "-Xmx1g", *options, "-cp", str(classes), "TlcRuns", tool.class_path], folder)
    try:
        yield tlc
    finally:
        tlc.end()


# Ours


@dataclass
class Pair:
    """A description with what was written of it."""

    description: Description
    name: str
    module: str
    config: str
    source: str

    @classmethod
    def of(cls, description: Description, name: str) -> Pair:
        module = Module(description, name)
        return cls(description, name, module.text(), module.config(), Source(description, name).text())

    def write(self, folder: Path) -> None:
        """Write the three files."""
        for ending, text in (("tla", self.module), ("cfg", self.config), ("py", self.source)):
            (folder / f"{self.name}.{ending}").write_text(text)


class UnfitError(Exception):
    """A pair that is not compared: it has too many states, or very few."""


class Expected(NamedTuple):
    """What TLC finds: the counts, and by property the states of a shortest counterexample."""

    counts: Report
    lengths: dict[str, int]

    def first(self) -> set[str]:
        """Return which of them a breadth-first search may find first."""
        # a deadlock is found where the state is expanded, the others where the last step is taken
        when = {name: length - (name != DEADLOCK) for name, length in self.lengths.items()}
        return {name for name, found in when.items() if found == min(when.values())}


class Comparison:
    """Compares one pair; `differences` are what is wrong."""

    def __init__(self, pair: Pair, tlc: Tlc, folder: Path, sizes: tuple[int, int] = (0, MOST)) -> None:
        self.pair, self.tlc, self.sizes = pair, tlc, sizes
        self.differences: list[str] = []
        self.searched: Counter[str] = Counter()
        self.folder = folder
        pair.write(folder)
        cls = load_protocol(folder / f"{pair.name}.py", pair.name)
        bound = bind(cls, parse_config(pair.config, f"{pair.name}.cfg"))
        self.protocol: Protocol = bound.protocol
        self.options = SearchRequest.of(bound, time_limit=PATIENCE)
        hidden = pair.description.hidden
        self.sees_view, self.without_view = True, Expected(Report(), {})
        self.semantics = Semantics(self.protocol)
        self.hides = any(re.search(rf"shared\.{name}\b|'{name}'.*\)$", pair.source, re.M) for name in hidden)

    def run(self) -> list[str]:
        """Return the differences."""
        least, most = self.sizes
        trial = self.ours("tables", "bfs", 1, max_states=most)
        if isinstance(trial, Result) and (trial.limit is not None or trial.distinct_states < least):
            raise UnfitError
        expected = self.expected()
        if self.hides:
            self.sees_view = False
            self.without_view = self.expected()
        if 0 < expected.counts.distinct <= COMPARED and not self.pair.description.hidden:
            self.compare_states()
        for engine, order, workers, layout in SEARCHES:
            with patch.multiple(level_states, **LAYOUTS[layout]) if layout else nullcontext():
                who = f"{engine} {order} {workers} {layout}".strip()
                self.compare(who, expected, engine, order, workers)
        return self.differences

    def ours(self, engine: str, order: str, workers: int, **more: Any) -> Result | str:
        """Return what an engine finds, or why it refuses."""
        options = replace(self.options, **{"search": order, "keep_going": True, **more})
        if engine == "tables":
            options = replace(options, workers=workers)
        try:
            return search(engine, self.protocol, options)
        except InputError as error:
            return str(error)

    def needs_fairness(self) -> bool:
        """Whether the verdict is another one if strong fairness is weak, or that of each replica is that of all."""
        fairness = self.options.fairness
        others = [
            tuple(replace(one, kind="weak") for one in fairness),
            tuple(replace(one, each="") for one in fairness),
        ]
        verdicts = set()
        for assumed in (fairness, *(other for other in others if other != fairness)):
            result = self.ours("reference", "bfs", 1, properties=(), fairness=assumed, max_states=SMALL)
            verdicts.add(isinstance(result, Result) and result.limit is None and bool(result.violations))
        return len(verdicts) > 1

    # What TLC says

    def config(self, *properties: str) -> str:
        """Return the `.cfg` with these properties alone, and without the VIEW if that is not to be seen."""
        lines = []
        for line in self.pair.config.splitlines():
            word, _, rest = line.partition(" ")
            if word == "CHECK_DEADLOCK" or (word in ("INVARIANT", "PROPERTY") and rest not in properties):
                continue
            if word == "VIEW" and not self.sees_view:
                continue
            lines.append(line)
        return "\n".join(lines) + "\n"

    def expected(self) -> Expected:
        """Return what TLC finds."""
        deadlock = () if self.options.deadlock else ("-deadlock",)
        names = [p.name for p in (*self.options.properties, *self.options.temporal)]
        everything = self.tlc.run(self.pair.name, self.config(*names), *deadlock)
        if not everything.errors:
            return Expected(everything, {})
        alone = {name: self.tlc.run(self.pair.name, self.config(name), "-deadlock") for name in names}
        if self.options.deadlock:
            alone[DEADLOCK] = self.tlc.run(self.pair.name, self.config())
        lengths = {name: report.errors[0].length for name, report in alone.items() if report.errors}
        complete = [report for report in alone.values() if not report.errors]
        counts = complete[0] if complete else self.tlc.run(self.pair.name, self.config(), "-deadlock")
        found = Expected(counts, lengths)
        known = everything.errors[0]
        if not self.options.temporal:
            self.same("TLC", "first", known.length in {lengths[name] for name in found.first()}, True)
        return found

    # The comparison

    def compare(self, who: str, expected: Expected, *how: Any) -> None:
        """Compare what a search finds: once with all counterexamples, once up to the first."""
        result = self.ours(*how)
        if isinstance(result, str):
            self.searched[f"{who} refuses: {kind_of(result)}"] += 1
            return
        if result.limit is not None:
            self.searched[f"{who} ends at {result.limit}"] += 1
            return
        self.searched[who] += 1
        if self.hides:
            self.compare_hidden(who, result)
        if any(" leaves out " in text for text in result.warnings):
            self.same(who, "warns of the VIEW", self.hides, True)
            return
        counts, lengths = expected
        shortest = how[1] in ("bfs", "iddfs")
        ours = {v.property: len(v.trace) for v in result.violations}
        self.same(who, "violated", sorted(ours), sorted(lengths))
        self.same(who, "counterexamples that are none", self.not_behaviours(result), [])
        if shortest and not self.options.temporal:
            self.same(who, "lengths", ours, lengths)
        self.same(who, "distinct states", result.distinct_states, counts.distinct)
        if not result.uncounted and how[1] != "iddfs":
            self.same(who, "generated states", result.generated_states, counts.generated)
        if result.depth is not None and counts.distinct:  # without a state TLC's depth is 1, ours 0
            self.same(who, "depth", result.depth, counts.depth)
        if lengths:
            self.compare_first(who, expected, shortest, *how)

    def compare_states(self) -> None:
        """Compare the states themselves, and the labelled steps."""
        dump = self.folder / "graph.dot"
        self.tlc.run(self.pair.name, self.config(), "-deadlock", "-dump", "dot,actionlabels", str(dump))
        found = ReferenceSearch(self.protocol, replace(self.options, properties=(), temporal=(), deadlock=False))
        found.run()
        limit = dump.stat().st_size + 1
        graph = read_graph(dump, limit_bytes=limit)
        states, steps = StateComparison(found, dump, limit).graph(graph)
        self.same("reference bfs 1", "states and steps are TLC's", states.equal and steps.equal, True)

    def compare_first(self, who: str, expected: Expected, shortest: bool, *how: Any) -> None:
        """Compare the counterexample at which a search stops."""
        result = self.ours(*how, keep_going=False)
        assert isinstance(result, Result)
        found = {v.property: len(v.trace) for v in result.violations}
        self.same(who, "stops at a violation", bool(found), True)
        for name, length in found.items():
            self.same(who, f"{name} violated where it stops", name in expected.lengths, True)
            if shortest and not self.options.temporal:
                self.same(who, f"length of {name} where it stops", length, expected.lengths.get(name))
                if how[1] == "bfs":
                    self.same(who, f"{name} is a first one", name in expected.first(), True)

    def not_behaviours(self, result: Result) -> list[str]:
        """Return the properties whose counterexamples are no behaviours that break them."""
        found = []
        for violation in result.violations:
            if violation.loop is not None:
                require_counterexample(self.protocol, self.options, violation)
                continue
            starts, trace = self.protocol.checked_initial(), violation.trace
            steps = [step_between(self.semantics, one.state, other) for one, other in pairwise(trace)]
            if trace[0].state not in starts or None in steps:
                found.append(violation.property)
        return found

    def compare_hidden(self, who: str, result: Result) -> None:
        """Check what holds under a VIEW that hides what is read: violations are real, missed ones are warned of."""
        found, real = {v.property for v in result.violations}, set(self.without_view.lengths)
        self.same(who, "violations that are none", sorted(found - real), [])
        if found != real:
            self.same(who, "warns of the VIEW", any(" leaves out " in text for text in result.warnings), True)

    def same(self, who: str, what: str, ours: object, theirs: object) -> None:
        """Note a difference."""
        if ours != theirs:
            self.differences.append(f"{who}: {what}: {ours}, TLC {theirs}")


def kind_of(refusal: str) -> str:
    """Return what is refused, without names."""
    for word in ("SYMMETRY", "VIEW", "temporal", "breadth first"):
        if word in refusal:
            return word
    return refusal
