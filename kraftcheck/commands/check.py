"""`kraftcheck check`: from its arguments to a search, its report, its files and its exit code."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from dataclasses import fields, replace
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from kraftcheck.catalogue import Model, find_config, find_model
from kraftcheck.commands.outputs import require_writable, result_as_json, write_json
from kraftcheck.commands.resume_hint import folder_of, how_to_go_on
from kraftcheck.engines import choose, search
from kraftcheck.explorer.result import INTERRUPTED, Interrupted, Options, Result, Search, Verdict
from kraftcheck.reporting.changes import PLAIN
from kraftcheck.reporting.counterexample import FAINT, HEAD, Line
from kraftcheck.reporting.progress import meter
from kraftcheck.reporting.summary import WARNING, print_lines, report
from kraftcheck.spec.cfg.binding import Bound, bind
from kraftcheck.spec.cfg.config import override, parse_setting
from kraftcheck.spec.display import text_of
from kraftcheck.spec.errors import InputError, ProtocolError
from kraftcheck.spec.loading.user_files import line_to_blame

if TYPE_CHECKING:
    from kraftcheck.explorer.graph import Graph
    from kraftcheck.spec.tla.view import StateView

T = TypeVar("T")
EXIT_CODES = {Verdict.OK: 0, Verdict.DEADLOCK: 11, Verdict.VIOLATION: 12, Verdict.INCOMPLETE: 20}
EXIT_INTERRUPTED = 130

ENGINE_OPTIONS = {
    "check_actions": "--check-actions",
    "graph": "--graph",
    "workers": "--workers",
    "memory": "--memory",
    "checkpoint": "--checkpoint",
    "checkpoint_every": "--checkpoint-every",
    "resume": "--resume",
    "master": "--master",
    "conf": "--conf",
}
"""Options that not every engine has, by the name of their value among the arguments and in `Options`."""


class Job(NamedTuple):
    """What a command line asks for, checked.

    Attributes
    ----------
    model
        The model.
    config_name
        What its configuration is called.
    bound
        The protocol with its constants, and what is checked.
    engine
        The engine's name.
    options
        What the search is asked for.
    """

    model: Model
    config_name: str
    bound: Bound
    engine: str
    options: Options


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
        For bad input.
    """
    model = find_model(arguments.model, arguments.variant)
    return guarded(model, lambda: _check(job_of(model, arguments), arguments))


def guarded(model: Model, work: Callable[[], T]) -> T:
    """Do a command's work; say of what goes wrong in a user's protocol in which line of it that is.

    Parameters
    ----------
    model
        The model that the user named.
    work
        Does the work.

    Returns
    -------
    object
        What the work returned.

    Raises
    ------
    InputError
        For bad input.
    """
    try:
        return work()
    except ProtocolError as error:
        place = _place(model, error.__cause__)
        if place is None or str(model.file) in str(error):
            raise
        raise InputError(f"{place}: {error}") from error
    except (InputError, OSError):
        raise
    except Exception as error:
        place = _place(model, error)
        if place is None:
            raise
        raise InputError(f"{place}: {type(error).__name__}: {error}") from error


def _place(model: Model, error: BaseException | None) -> str | None:
    """Return the line of the user's file that an exception comes from; None where it does not."""
    line = None if error is None or model.file is None else line_to_blame(error, model.file)
    return None if line is None else f"{model.file}:{line}"


def job_of(model: Model, arguments: argparse.Namespace) -> Job:
    """Return what a command line asks for, checked.

    Raises
    ------
    InputError
        For a configuration that does not fit the model, or an engine that cannot do what is asked.
    """
    config_name, config = find_config(model, arguments.config)
    bound = bind(model.protocol, override(config, [parse_setting(text, config) for text in arguments.set]))
    values = {name: getattr(arguments, name, None) for name in ENGINE_OPTIONS}
    given = {name: value for name, value in values.items() if value not in (None, False, ())}
    if arguments.checkpoint_every and folder_of(arguments) is None:
        raise InputError("--checkpoint-every: expected --checkpoint or --resume too")
    symmetry = _symmetry(bound, arguments.symmetry)
    asked = [ENGINE_OPTIONS[name] for name in given]
    engine = choose(arguments.engine, arguments.search, asked)
    known = {field.name for field in fields(Options)}
    options = Options.of(
        bound,
        search=Search(arguments.search),
        deadlock=bound.deadlock if arguments.deadlock is None else arguments.deadlock,
        symmetry=symmetry,
        keep_going=arguments.keep_going,
        max_states=arguments.max_states,
        max_depth=arguments.max_depth,
        time_limit=arguments.time_limit,
        **{name: value for name, value in given.items() if name in known},
    )
    return Job(model, config_name, bound, engine, options)


def _symmetry(bound: Bound, asked: bool | None) -> str | None:
    """Return the symmetry to use: with `--symmetry` and none in the configuration, the protocol's widest."""
    if asked is None or bound.symmetry is not None:
        return bound.symmetry if asked is not False else None
    symmetries = bound.protocol.symmetries
    if asked and not symmetries:
        raise InputError(f"--symmetry: {bound.protocol.name()} has no symmetric sets")
    return max(symmetries, key=lambda name: len(symmetries[name])) if asked else None


def _check(job: Job, arguments: argparse.Namespace) -> int:
    protocol = job.bound.protocol
    require_writable({"--json": arguments.json, "--trace": arguments.trace, "--graph": arguments.graph})
    if arguments.graph:
        from kraftcheck.explorer.graph import graph_writer

        graph_writer(arguments.graph)
    view = view_of(job) if arguments.trace or arguments.graph else None
    if not arguments.quiet:
        print_lines(header(job))
    engine, result, graph = _search(job, view if arguments.graph else None, arguments)
    if arguments.json:
        content = result_as_json(job.model, job.config_name, engine, protocol, job.options, result)
        write_json(arguments.json, content)
    if arguments.trace and view is not None:
        write_trace(job, view, result, arguments)
    if graph is not None:
        from kraftcheck.explorer.graph import write_graph

        write_graph(graph, arguments.graph)
    print_lines(report(protocol, result, quiet=arguments.quiet, calls=arguments.calls))
    print_lines(how_to_go_on(arguments, result))
    return exit_code(result)


def exit_code(result: Result) -> int:
    """Return the exit code that says how a search ended."""
    return EXIT_INTERRUPTED if result.limit == INTERRUPTED else EXIT_CODES[result.verdict]


def view_of(job: Job) -> StateView:
    """Return the view of the protocol's states as TLA+ variables."""
    from kraftcheck.spec.tla.view import StateView

    return StateView(job.bound.protocol)


def _search(job: Job, view: StateView | None, arguments: argparse.Namespace) -> tuple[str, Result, Graph | None]:
    """Run the search, showing its progress; with a view, make its state graph too. Return which engine did."""
    shown = meter(quiet=arguments.quiet)
    options = replace(job.options, report=shown.show)
    try:
        if view is None:
            asked = bool(arguments.engine or arguments.workers or arguments.memory or folder_of(arguments))
            return *search(job.engine, job.bound.protocol, options, asked=asked), None
        from kraftcheck.explorer.graph import explore_graph
        from kraftcheck.traces.formats.tlc_log import state_text

        return job.engine, *explore_graph(job.bound.protocol, options, lambda state: state_text(view.variables(state)))
    except Interrupted as interrupted:
        return job.engine, interrupted.result, None
    except KeyboardInterrupt:  # before the search began
        return job.engine, Result(Verdict.INCOMPLETE, complete=False, limit=INTERRUPTED), None
    finally:
        shown.close()


def write_trace(job: Job, view: StateView, result: Result, arguments: argparse.Namespace) -> None:
    """Write the counterexamples; where there is none, no file of an earlier run is left that could be taken for one."""
    from kraftcheck.reporting.tlc_trace import write_traces

    if result.violations:
        with arguments.trace.open("w", encoding="utf-8") as file:
            write_traces(job.bound.protocol, view, result.violations, file)
    elif arguments.trace.is_file():
        arguments.trace.unlink()


def header(job: Job, how: str = "") -> Iterator[Line]:
    """Yield the lines that say what is checked, and how: by default in which order of search."""
    protocol, options = job.bound.protocol, job.options
    variant = f" ({protocol.variant})" if protocol.variant else ""
    yield [
        (HEAD, f"{job.model.name}{variant}"),
        (PLAIN, f", configuration {job.config_name}, engine {job.engine}, {how or options.search}"),
    ]
    constants = ", ".join(f"{name} = {text_of(value)}" for name, value in protocol.constant_values().items())
    yield [(FAINT, f"constants: {constants or 'none'}")]
    checked = [prop.name for prop in options.properties] + (["deadlock"] if options.deadlock else [])
    yield [(FAINT, f"checked: {', '.join(checked)}")] if checked else [(WARNING, "Warning: nothing is checked")]
    reduced = [f"{what} {name}" for what, name in (("symmetry", options.symmetry), ("view", options.view)) if name]
    bounds = [f"constraint {prop.name}" for prop in (*options.constraints, *options.action_constraints)]
    start = [f"start {options.init}"] if options.init != "Init" else []
    if reduced or bounds or start:
        yield [(FAINT, ", ".join([*start, *bounds, *reduced]))]
    yield []
