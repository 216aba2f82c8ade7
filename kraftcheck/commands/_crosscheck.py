"""The comparisons of `crosscheck`: the model's states with a TLC dump, or with a run of TLC."""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from kraftcheck.catalogue import SearchJob
from kraftcheck.engines import search
from kraftcheck.explorer.reference import ReferenceSearch
from kraftcheck.explorer.request import Progress
from kraftcheck.files import TemporaryFolder
from kraftcheck.reporting.crosscheck import CrosscheckResult
from kraftcheck.reporting.lines import ProgressMeter
from kraftcheck.spec.errors import InputError
from kraftcheck.spec.tla.state_conversion import action_name_of_label
from kraftcheck.spec.values import escape_invisible
from kraftcheck.traces.crosscheck import DumpComparer, graph_depth, step_counts_by_action
from kraftcheck.traces.formats.tlc_dump import read_graph, read_states
from kraftcheck.traces.parsing import TraceFileReader
from kraftcheck.traces.trace import TraceFormat, TraceState, detect_format

if TYPE_CHECKING:
    from kraftcheck.traces.crosscheck import TlcProgress


def crosscheck_dump(job: SearchJob, arguments: argparse.Namespace) -> CrosscheckResult:
    dump: Path = arguments.dump
    form = detect_format(dump)
    if form not in (TraceFormat.TLC_DUMP, TraceFormat.TLC_DOT):
        raise InputError(f"{dump}: expected a file of TLC's -dump, found {_kind_of_content(dump, form, arguments)}")
    outcome = _compare_with_dump(job, dump, form, arguments)
    _note_unknown_actions(job, outcome, arguments)
    return outcome


def _kind_of_content(dump: Path, form: TraceFormat, arguments: argparse.Namespace) -> str:
    """Return the content of a file without a dump, in words; raise the error of a file that is no text."""
    lines = TraceFileReader(dump, limit_bytes=arguments.max_size).lines()
    most = max((bool(line.strip()) + line.startswith("State ") for _, line in lines), default=0)
    other = "other text" if form is TraceFormat.TLC_LOG else f"a {form}"  # the log is the format of any other text
    return ("an empty file", other, f"a {form}")[most]


def _compare_with_dump(
    job: SearchJob, dump: Path, form: TraceFormat, arguments: argparse.Namespace
) -> CrosscheckResult:
    """Search all states of the model and compare them with a dump."""
    limit: int = arguments.max_size
    with ProgressMeter(quiet=arguments.quiet) as meter:
        found = ReferenceSearch(job.protocol, replace(job.options, report=meter.show))
        found.run()
    comparison = DumpComparer(
        found, dump, limit, unlabelled=arguments.unlabelled, any_action=_label_of_unattributed_steps(job)
    )
    outcome = CrosscheckResult(found.result, found)
    if form is TraceFormat.TLC_DUMP:
        with ProgressMeter("states of the dump read", quiet=arguments.quiet) as meter:
            outcome.states = comparison.states(_metered_states(read_states(dump, limit_bytes=limit), meter))
        outcome.their_distinct = outcome.states.theirs
    else:
        graph = read_graph(dump, limit_bytes=limit)
        for *_, edge in graph.edges(data=True):
            edge["action"] = action_name_of_label(job.protocol, edge["action"])
        outcome.states, outcome.edges = comparison.graph(graph)
        outcome.their_distinct = outcome.states.theirs
        outcome.their_actions, outcome.their_depth = step_counts_by_action(graph), graph_depth(graph)
    return outcome


def _note_unknown_actions(job: SearchJob, outcome: CrosscheckResult, arguments: argparse.Namespace) -> None:
    """Drop the names of actions with `--unlabelled`; otherwise note unknown names."""
    if arguments.unlabelled:
        outcome.their_actions = None
        return
    unknown = [name for name in outcome.their_actions or () if name not in _model_action_names(job)]
    outcome.any_action = _label_of_unattributed_steps(job)
    if outcome.any_action in unknown:
        unknown.remove(outcome.any_action)
        named = f"{escape_invisible(outcome.any_action)} is no action of {job.protocol.name()}"
        outcome.notes.append(f"{named}: a step of that name may be any action")
    if unknown:
        names = ", ".join(map(escape_invisible, unknown))
        remedy = "--unlabelled compares steps without names, `name=` of an action sets its name"
        outcome.notes.append(f"{names}: no action of {job.protocol.name()}; {remedy}")


def _model_action_names(job: SearchJob) -> set[str]:
    return {*job.protocol.actions, *job.protocol.network.own_actions()}


def _label_of_unattributed_steps(job: SearchJob) -> str | None:
    """Return the name of the next-state relation, unless an action has it; TLC labels undivided steps with it."""
    return None if job.next_name in _model_action_names(job) else job.next_name


def _metered_states(states: Iterator[TraceState], meter: ProgressMeter) -> Iterator[TraceState]:
    for state in states:
        meter.add()
        yield state


def crosscheck_spec(job: SearchJob, config: tuple[str, str], arguments: argparse.Namespace) -> CrosscheckResult:
    """Run TLC on copies of a specification and of a `.cfg` (name and text); compare its states with the model's."""
    from kraftcheck.traces import crosscheck as tlc

    tool = tlc.find_tlc()
    with closing(TemporaryFolder()) as temporary:
        folder = temporary.path
        copy = tlc.copy_modules(arguments.spec, folder)
        file, text = config
        text, options, left_out = tlc.remove_unknown_cfg_keywords(
            text, file, tlc.cfg_keywords_tlc_lacks(tool.class_path)
        )
        config_copy = folder / "model.cfg"
        config_copy.write_text(text, encoding="utf-8")
        tlc.require_tlc_parses(tool, copy)
        with ProgressMeter(quiet=arguments.quiet) as meter:
            shown = replace(job.options, report=meter.show)
            counted = search(job.engine, job.protocol, shown, is_named=job.is_named)
        dump = folder / "graph.dot" if counted.distinct_states <= arguments.compare_states else None
        with ProgressMeter(quiet=arguments.quiet) as meter:
            began = time.monotonic()

            def report(now: TlcProgress) -> None:
                seconds = time.monotonic() - began
                meter.show(Progress(now.distinct, now.generated, now.depth, now.left, seconds))

            done = tlc.run_tlc(
                tool, copy, config_copy, options, dump=dump, workers=arguments.tlc_workers, report=report
            )
        if done.violated is not None:
            outcome = CrosscheckResult(counted, counterexamples=list(job.replayer().replay(done.log)))
        elif dump is not None:
            outcome = _compare_with_dump(job, dump, TraceFormat.TLC_DOT, arguments)
        else:
            outcome = CrosscheckResult(counted)
            more = f"more than {arguments.compare_states:,} states"
            outcome.notes.append(f"{more}: only the counts were compared; --compare-states N raises the limit")
    outcome.tlc, outcome.their_distinct, outcome.their_depth = done, done.distinct, done.depth
    initial = next(iter(done.actions), None)  # TLC counts the initial predicate first, under any name
    own = partial(action_name_of_label, job.protocol)
    outcome.their_actions = {own(name) or name: times for name, times in done.actions.items() if name != initial}
    _note_unknown_actions(job, outcome, arguments)
    outcome.notes += [f"{keyword}: not supported by this version of TLC; left out" for keyword in left_out]
    if arguments.tlc_workers > 1:
        outcome.notes.append("with several workers the depth that TLC reports may be wrong; use --workers 1")
    return outcome
