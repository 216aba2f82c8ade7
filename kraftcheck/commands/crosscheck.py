"""`kraftcheck crosscheck`: our states beside those of a dump, or beside what a real TLC finds."""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from kraftcheck.catalogue import Model, find_config, find_model
from kraftcheck.commands.check import guarded
from kraftcheck.commands.lenient_binding import bind_leniently
from kraftcheck.commands.outputs import require_writable, write_json
from kraftcheck.engines import choose, search
from kraftcheck.explorer.reference import ReferenceSearch
from kraftcheck.explorer.result import Options, Progress, Result
from kraftcheck.reporting.crosscheck import Outcome, as_json, told
from kraftcheck.reporting.progress import Count, meter
from kraftcheck.reporting.summary import WARNING, print_lines
from kraftcheck.spec.cfg.binding import Bound
from kraftcheck.spec.errors import InputError
from kraftcheck.spec.language.state import State
from kraftcheck.spec.tla.view import StateView
from kraftcheck.traces.crosscheck.comparison import Comparison, Space, depth_of, times_taken
from kraftcheck.traces.files import detect_format, read_graph, read_states
from kraftcheck.traces.parsing.lines import DEFAULT_LIMIT
from kraftcheck.traces.replay.replayer import Replayer
from kraftcheck.traces.replay.states import StateReader
from kraftcheck.traces.trace import TraceFormat, TraceState

if TYPE_CHECKING:
    from kraftcheck.traces.crosscheck.tlc import Limits, Run

EQUAL, DIFFERENT = 0, 1
VIOLATED = {"deadlock": 11, "safety": 12, "temporal": 13}
"""Exit codes, those of TLC where TLC finds a violation."""

COMPARED = 10_000
"""States up to which `--spec` compares the states themselves, unless the user says otherwise."""


def run(arguments: argparse.Namespace) -> int:
    """Run the command.

    Parameters
    ----------
    arguments
        What `kraftcheck.cli` read.

    Returns
    -------
    int
        The exit code.

    Raises
    ------
    InputError
        For bad input, and where TLC cannot do its part.
    """
    model = find_model(arguments.model, arguments.variant)
    return guarded(model, lambda: _crosscheck(model, arguments))


@dataclass(frozen=True)
class _Job:
    """What is compared, and how."""

    model: Model
    bound: Bound
    config_file: str
    limit_bytes: int
    quiet: bool

    @property
    def options(self) -> Options:
        """Options of a search of the whole space that checks nothing."""
        return Options.of(self.bound, properties=(), deadlock=False)


def _crosscheck(model: Model, arguments: argparse.Namespace) -> int:
    require_writable({"--json": arguments.json})
    name, config = find_config(model, arguments.config)
    bound, warnings = bind_leniently(model.protocol, config, whole_space=True)
    if bound.view is not None:
        warnings.append(f"VIEW {bound.view}: which states are found under a view may depend on the order of the search")
    print_lines([(WARNING, f"Warning: {text}")] for text in warnings)
    limit = arguments.max_size or DEFAULT_LIMIT
    file = str(model.configurations.get(name, name))
    job = _Job(model, bound, file, limit, arguments.quiet)
    if arguments.dump is not None:
        outcome = _with_dump(job, arguments.dump)
    else:
        outcome = _with_spec(job, arguments.spec, arguments.compare_states, arguments.workers or 1)
    if arguments.json:
        write_json(arguments.json, as_json(model.name, bound.protocol, job.config_file, outcome))
    print_lines(told(bound.protocol, outcome, quiet=arguments.quiet))
    if outcome.tlc is not None and outcome.tlc.violated is not None:
        return VIOLATED[outcome.tlc.kind or "safety"]
    return EQUAL if outcome.equal else DIFFERENT


def _with_dump(job: _Job, dump: Path) -> Outcome:
    form = detect_format(dump)
    if form not in (TraceFormat.TLC_DUMP, TraceFormat.TLC_DOT):
        raise InputError(f"{dump}: expected what TLC writes with -dump, found what looks like a {form}")
    found = _space(job)
    return _compared(job, found, dump, form)


def _compared(job: _Job, found: ReferenceSearch, dump: Path, form: TraceFormat) -> Outcome:
    """Compare what a search of ours found with a dump."""
    view = StateView(job.bound.protocol)
    reader = StateReader(view, job.bound.protocol.name(), str(dump), limit_bytes=job.limit_bytes)
    comparison = Comparison(_space_of(found), view, reader)
    outcome = Outcome(found.result, found)
    if form is TraceFormat.TLC_DUMP:
        outcome.states = comparison.states(_shown(read_states(dump, limit_bytes=job.limit_bytes), job))
        outcome.their_distinct = outcome.states.theirs
    else:
        graph = read_graph(dump, limit_bytes=job.limit_bytes)
        outcome.states, outcome.edges = comparison.graph(graph)
        outcome.their_distinct = outcome.states.theirs
        outcome.their_actions, outcome.their_depth = times_taken(graph), depth_of(graph)
    return outcome


def _shown(states: Iterator[TraceState], job: _Job) -> Iterator[TraceState]:
    """Yield states, showing how many were read."""
    count = Count("states of the dump read", quiet=job.quiet)
    try:
        for state in states:
            count()
            yield state
    finally:
        count.close()


def _space(job: _Job) -> ReferenceSearch:
    """Search all states, keeping them, and show the progress."""
    shown = meter(quiet=job.quiet)
    try:
        found = ReferenceSearch(job.bound.protocol, replace(job.options, report=shown.show))
        found.run()
        return found
    finally:
        shown.close()


def _space_of(found: ReferenceSearch) -> Space:
    states = dict(zip(found.parents, found.states(), strict=True))
    initial = frozenset(identity for identity, (_, reached_by) in found.parents.items() if reached_by is None)
    constraints = found.options.action_constraints

    def allowed(before: State, after: State) -> bool:
        return all(found.semantics.holds_over(constraint, before, after) for constraint in constraints)

    return Space(states, initial, found.identity, found.semantics, allowed)


def _with_spec(job: _Job, spec: Path, compare_states: int, workers: int) -> Outcome:
    """Run TLC on a copy of a specification, and compare what it finds."""
    from kraftcheck.traces.crosscheck import tlc

    tool = tlc.find_tool()
    with tempfile.TemporaryDirectory(prefix="kraftcheck-") as name:
        folder = Path(name)
        copy = tlc.copied(spec, folder)
        text = tlc.unpacked(Path(job.config_file)).decode()
        text, options, left_out = tlc.prepared_config(text, job.config_file, tlc.unknown_keywords(tool.class_path))
        config = folder / "model.cfg"
        config.write_text(text, encoding="utf-8")
        tlc.parse(tool, copy)
        counted = _counted(job)
        dump = folder / "graph.dot" if counted.distinct_states <= compare_states else None
        done = _watched(job, lambda report: tlc.run(tool, copy, config, tlc.How(options, dump, workers), report))
        if done.violated is not None:
            replayer = Replayer(job.bound.protocol, init=job.bound.init, symmetry=job.bound.symmetry)
            outcome = Outcome(counted, counterexamples=list(replayer.replay(done.log)))
        elif dump is not None:
            outcome = _compared(job, _space(job), dump, TraceFormat.TLC_DOT)
        else:
            outcome = Outcome(counted)
            outcome.notes.append(f"more than {compare_states:,} states: the states themselves were not compared")
    outcome.tlc, outcome.their_distinct, outcome.their_depth = done, done.distinct, done.depth
    outcome.their_actions = {name: times for name, times in done.actions.items() if name != job.bound.init}
    outcome.notes += [f"this TLC does not know {what}, which was left out" for what in left_out]
    if workers > 1:
        outcome.notes.append("with several workers the depth that TLC reports may be off")
    return outcome


def _counted(job: _Job) -> Result:
    """Count our states with the fastest engine."""
    shown = meter(quiet=job.quiet)
    try:
        options = replace(job.options, report=shown.show)
        return search(choose(None, "bfs"), job.bound.protocol, options, asked=False)[1]
    finally:
        shown.close()


def _watched(job: _Job, work: Callable[[Callable[[Limits], None]], Run]) -> Run:
    """Run TLC, showing its progress."""
    shown = meter(quiet=job.quiet)
    began = time.monotonic()

    def report(limits: Limits) -> None:
        seconds = time.monotonic() - began
        shown.show(Progress(limits.distinct, limits.generated, limits.depth, limits.left, seconds))

    try:
        return work(report)
    finally:
        shown.close()
