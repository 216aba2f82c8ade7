"""The Python API: check, simulate and explain a model by its name, or a protocol with its constants."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from inspect import Parameter, signature
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypedDict, Unpack, get_type_hints

from kraftcheck.catalogue import Model, SearchJob, find_model, locate_protocol_errors, model_of_class
from kraftcheck.engines import run_with_compile_timing, search
from kraftcheck.explorer.request import OPTIONS, Progress, SearchRequest
from kraftcheck.explorer.result import DEADLOCK, Result, TraceStep, Violation
from kraftcheck.jobs import (
    NO_WALK_FOLDER_MESSAGE,
    SEARCH_ONLY_OPTIONS,
    configuration_with_settings,
    job_of_bound_config,
    parse_count,
    parse_script_option,
    parse_script_value,
    parse_seed,
    pop_config_from_options,
    require_walk_engine,
)
from kraftcheck.reporting.counterexample import counterexample_text
from kraftcheck.runner import run_with_diagnosis
from kraftcheck.spec.cfg.binding import bind
from kraftcheck.spec.errors import InputError, require_assertions_enabled, unknown_name_message
from kraftcheck.spec.language.protocol import Protocol
from kraftcheck.spec.type_checks import Function, check_arguments, require_fitting_argument

if TYPE_CHECKING:
    from kraftcheck.explorer.graph import Graph

WalkCallback = Callable[[int, tuple[TraceStep, ...]], None]


class SearchOptions(TypedDict, total=False):
    """Options of a search, named as on the command line, with `_` for `-`.

    `keep_going` is `--continue`, and `report` is a callback for the progress. `symmetry` is the name of one of the
    protocol's symmetries. True means the symmetry of the configuration, else the one over the most sets. `memory` is a
    number of bytes or a size such as "4G".
    """

    search: str
    engine: str | None
    deadlock: bool
    symmetry: str | bool | None
    strict_bounds: bool | None
    keep_going: bool
    check_actions: bool
    workers: int | None
    memory: int | str | None
    max_states: int | None
    max_depth: int | None
    max_nodes: int | None
    time_limit: float | None
    checkpoint: str | PathLike[str] | None
    checkpoint_every: float
    resume: str | PathLike[str] | None
    report: Callable[[Progress], None] | None
    master: str | None
    conf: Mapping[str, str | float | bool]
    verbose: bool


class CheckOptions(SearchOptions, total=False):
    """Options of a search without a configuration: the options of every search, and the names of the checks.

    `properties` are invariants, step invariants, temporal and reachability properties; the default is all of them.
    The search does not expand states beyond `constraints` and takes no steps against `action_constraints`.
    `specification` is the fairness that temporal properties assume; the default is the fairness of the actions.
    `view` is one of the protocol's views. `init` is a start: "Init" or the name of a scenario.
    """

    properties: Iterable[str] | None
    constraints: Iterable[str]
    action_constraints: Iterable[str]
    specification: str | None
    view: str | None
    init: str


def _show_options_in_signature(function: Function) -> Function:
    """Add the options and their defaults to a function's signature, for `help` and notebooks."""
    names = CheckOptions if "Check" in function.__annotations__["options"] else SearchOptions
    given = signature(function)
    own = [one for one in given.parameters.values() if one.kind is not one.VAR_KEYWORD]
    defaults = {name: getattr(SearchRequest, name, None) for name in names.__annotations__ if name != "properties"}
    defaults = dict.fromkeys(names.__annotations__) | defaults  # `properties`: by default all of them
    more = [Parameter(name, Parameter.KEYWORD_ONLY, default=default) for name, default in defaults.items()]
    function.__signature__ = given.replace(parameters=[*own, *more])  # type: ignore[attr-defined]
    return function


class Loaded(NamedTuple):
    """A model in one of its configurations.

    Attributes
    ----------
    model
        The model or its chosen variant.
    config
        The name of one of the model's configurations, a `.cfg` file, or None for the default of `load`.
    constants
        Constants with another value than in the configuration, written as in a `.cfg`.
    """

    model: Model
    config: str | None
    constants: Mapping[str, object]

    @property
    def protocol(self) -> Protocol:
        """The protocol with its constants."""
        return self.job().protocol

    @_show_options_in_signature
    @check_arguments
    def job(self, **options: Unpack[SearchOptions]) -> SearchJob:
        """Return the search of `check`. Raise InputError for an option or a configuration that does not fit."""
        asked = _parsed_options(SearchOptions, options)
        settings = [f"{name}={_text_in_cfg(value)}" for name, value in self.constants.items()]
        with locate_protocol_errors(self.model):
            name, content = configuration_with_settings(self.model, self.config, settings)
            return job_of_bound_config(
                self.model, name, bind(self.model.protocol, content), asked, asked.pop("engine", None)
            )

    @_show_options_in_signature
    @check_arguments
    def check(self, *, strict: bool = False, **options: Unpack[SearchOptions]) -> Result:
        """Search the states, as `kraftcheck check` does.

        Parameters
        ----------
        strict
            Whether a warning or a vacuously true property makes the verdict `incomplete`.
        options
            The options of the command line, with `_` for `-`: `max_states=1000`, `engine="reference"`,
            `symmetry=True`, `checkpoint="folder"`, `memory="4G"` (or bytes), `keep_going=True` (`--continue`).
        """
        job = self.job(**options)
        with locate_protocol_errors(self.model):
            return _run_check(job, strict)

    @_show_options_in_signature
    @check_arguments
    def simulate(
        self, *, runs: int = 1000, depth: int = 100, seed: int = 0, **options: Unpack[SearchOptions]
    ) -> Result:
        """Take random walks through the states, as `kraftcheck simulate` does.

        Parameters
        ----------
        runs
            The number of walks.
        depth
            The maximum number of states on a walk.
        seed
            The seed of the random choices.
        options
            The options of `check`, except `search`, `memory`, `max_depth`, `max_nodes` and those of checkpoints.
        """
        with locate_protocol_errors(self.model):
            return _run_simulation(partial(self.job, **options), options, (runs, depth, seed))

    @_show_options_in_signature
    @check_arguments
    def to_networkx(self, **options: Unpack[SearchOptions]) -> Graph:
        """Return the state graph, as `kraftcheck.to_networkx` does, with the options of `check`."""
        return _explored_graph(self.job(**options))

    @check_arguments
    def explain(self, result: Result) -> str:
        """Return the counterexamples of a result as text, step by step; "" if it has none."""
        protocol = self.protocol
        _require_result_of_protocol(protocol, result)
        return "\n\n".join(counterexample_text(protocol, violation) for violation in result.violations)

    @_show_options_in_signature
    @check_arguments
    def write_report(self, result: Result, path: str | PathLike[str], **options: Unpack[SearchOptions]) -> None:
        """Write a result as one file to share, as `--report` does.

        Parameters
        ----------
        result
            The result of `check`.
        path
            The file: an HTML page if it ends in `.html`, Markdown with a Mermaid diagram if it ends in `.md`.
        options
            The options that `check` was called with.
        """
        _write_result_report(self.job(**options), result, Path(path))


@check_arguments
def load(
    model: str | type[Protocol],
    config: str | PathLike[str] | None = None,
    *,
    variant: str | None = None,
    constants: Mapping[str, object] | None = None,
) -> Loaded:
    """Return a model in one of its configurations.

    Parameters
    ----------
    model
        A name that `kraftcheck models` lists, `path/to/file.py:ClassName`, or a protocol class.
    config
        The name of one of the model's configurations, or a `.cfg` file. The default, as on the command line, is the one
        in the class attribute `configuration`. Without that attribute: `fault.<variant>`, the `.cfg` beside the file
        of the class, or `default`, whichever exists first. Without any of them, all properties are checked.
    variant
        The name of a variant of the model.
    constants
        Other values for constants, written as in a `.cfg`: {"MaxCrashes": 1}. True stands for `TRUE`, and a
        `frozenset` for a set.

    Raises
    ------
    InputError
        The model, variant or configuration is unknown, or Python skips `assert` statements (`-O`).

    Examples
    --------
    >>> from kraftcheck import load
    >>> result = load("two-phase-commit", config="smoke").check(engine="reference")
    >>> result.verdict, result.distinct_states
    (<Verdict.OK: 'ok'>, 288)
    """
    require_assertions_enabled()
    found = find_model(model, variant) if isinstance(model, str) else model_of_class(model, variant)
    loaded = Loaded(found, None if config is None else fspath(config), dict(constants or {}))
    loaded.job()
    return loaded


@_show_options_in_signature
@check_arguments
def check(protocol: Protocol, *, strict: bool = False, **options: Unpack[CheckOptions]) -> Result:
    """Search the reachable states of a protocol for a violation of its properties.

    Parameters
    ----------
    protocol
        The protocol, with its constants.
    strict
        Whether a warning or a vacuously true property makes the verdict `incomplete`.
    options
        The options in `CheckOptions`: `properties=["OneHolder"]`, `max_states=1000`, `symmetry=True`, `memory="4G"`.
        By default the first engine that supports the options checks all properties, breadth first. The engine
        `symbolic` searches by saturation by default.

    Returns
    -------
    Result
        The verdict, the counts, and a counterexample for each violated property; `explain` renders one as text.

    Raises
    ------
    InputError
        A name or an option is invalid (the text is that of the command line), or the protocol breaks a rule of the
        language.
    Interrupted
        The user interrupted the search. The exception has the partial result.

    Examples
    --------
    >>> from kraftcheck import ModelValue, check
    >>> from kraftcheck.spec.examples.two_phase_commit import TwoPhaseCommit
    >>> result = check(TwoPhaseCommit(resource_managers=frozenset(ModelValue(name) for name in ("rm1", "rm2", "rm3"))))
    >>> result.verdict, result.distinct_states
    (<Verdict.OK: 'ok'>, 288)
    """
    return _run_check(_job_without_configuration(protocol, options), strict)


@_show_options_in_signature
@check_arguments
def simulate(
    protocol: Protocol,
    *,
    runs: int = 1000,
    depth: int = 100,
    seed: int = 0,
    keep: WalkCallback | None = None,
    **options: Unpack[CheckOptions],
) -> Result:
    """Take random walks through the states of a protocol. Each step chooses uniformly among the enabled successors.

    Parameters
    ----------
    protocol
        The protocol, with its constants.
    runs
        The number of walks.
    depth
        The maximum number of states on a walk.
    seed
        The seed of the random choices. Walk `i` depends only on the seed and on `i`.
    keep
        A callback for each walk, with its number and its states.
    options
        The options of `check`, except `search`, `memory`, `max_depth`, `max_nodes` and those of checkpoints.

    Returns
    -------
    Result
        Never complete. `runs` counts the walks up to the first violation, or all of them with `keep_going`.

    Examples
    --------
    >>> from kraftcheck import ModelValue, simulate
    >>> from kraftcheck.spec.examples.lock_service import ImpatientServer
    >>> clients = frozenset(ModelValue(name) for name in ("c1", "c2"))
    >>> result = simulate(ImpatientServer(clients=clients, losses=0), runs=100, seed=1)
    >>> result.verdict, result.violations[0].property
    (<Verdict.VIOLATION: 'violation'>, 'MutualExclusion')
    """
    return _run_simulation(partial(_job_without_configuration, protocol, options), options, (runs, depth, seed), keep)


@check_arguments
def explain(protocol: Protocol, violation: Violation) -> str:
    """Return a counterexample as text, step by step: actors, changed fields, and messages in transit.

    Parameters
    ----------
    protocol
        The checked protocol.
    violation
        A violation of its result.
    """
    _require_result_of_protocol(protocol, Result(violations=[violation]))
    return counterexample_text(protocol, violation)


@_show_options_in_signature
@check_arguments
def to_networkx(protocol: Protocol, **options: Unpack[CheckOptions]) -> Graph:
    """Return the state graph of a protocol.

    Parameters
    ----------
    protocol
        The protocol, with its constants.
    options
        The options of `check`. The properties have no effect.

    Returns
    -------
    networkx.MultiDiGraph
        Nodes are numbers from 1, in the order of discovery, with the attributes `initial` and `state`. Edges are
        steps, with the attribute `action` and, for a step of a replica, `actor`.

    Examples
    --------
    >>> from kraftcheck import ModelValue, to_networkx
    >>> from kraftcheck.spec.examples.two_phase_commit import TwoPhaseCommit
    >>> graph = to_networkx(TwoPhaseCommit(resource_managers=frozenset([ModelValue("rm1"), ModelValue("rm2")])))
    >>> len(graph), [number for number, initial in graph.nodes(data="initial") if initial]
    (56, [1])
    """
    return _explored_graph(_job_without_configuration(protocol, options))


@check_arguments
def write_report(protocol: Protocol, result: Result, path: str | PathLike[str]) -> None:
    """Write a result as one file to share, as `kraftcheck check --report` does.

    Parameters
    ----------
    protocol
        The checked protocol.
    result
        The result of `check` or `simulate`.
    path
        The file: an HTML page if it ends in `.html`, Markdown with a Mermaid diagram if it ends in `.md`.
    """
    _write_result_report(_job_without_configuration(protocol, {})._replace(engine=result.engine), result, Path(path))


# Shared by the functions and by `Loaded`


def _parsed_options(known: type[SearchOptions], options: SearchOptions) -> dict[str, Any]:
    """Return the options that are not None, parsed as the command line parses them."""
    names = list(known.__annotations__)
    for name in options:
        if name not in names:
            raise InputError(unknown_name_message("option", name, names))
    values: dict[str, Any] = {name: value for name, value in options.items() if value is not None}
    kinds, parse = get_type_hints(known), dict.fromkeys(OPTIONS, parse_script_option)
    return {name: parse.get(name, require_fitting_argument)(name, value, kinds[name]) for name, value in values.items()}


def _require_result_of_protocol(protocol: Protocol, result: Result) -> None:
    """Raise InputError for a result with actions or properties that the protocol does not have."""
    known = {*protocol.actions, *protocol.network.own_actions(), *protocol.properties, DEADLOCK}
    found = [*result.actions, *(one.property for one in result.violations if one.failed is None)]
    if others := [name for name in found if name not in known]:
        raise InputError(f"expected a result of {protocol.name()}, found one with {others[0]}")


def _text_in_cfg(value: object) -> str:
    """Return a constant's value as in a `.cfg`; a string is the text itself."""
    if isinstance(value, frozenset | set):
        return f"{{{', '.join(sorted(map(_text_in_cfg, value)))}}}"
    return str(value).upper() if isinstance(value, bool) else str(value)


def _job_without_configuration(protocol: Protocol, options: CheckOptions) -> SearchJob:
    """Return the `SearchJob` that searches a protocol without a configuration."""
    require_assertions_enabled()
    asked = _parsed_options(CheckOptions, options)
    bound, engine = pop_config_from_options(protocol, asked), asked.pop("engine", None)
    return job_of_bound_config(Model(protocol.name(), type(protocol)), "none", bound, asked, engine)


def _run_check(job: SearchJob, strict: bool) -> Result:
    run = partial(search, job.engine, job.protocol, job.options, is_named=job.is_named)
    return run_with_diagnosis(job, run, strict=strict)


def _run_simulation(
    make_job: Callable[[], SearchJob],
    options: Mapping[str, Any],
    numbers: tuple[int, int, int],
    keep: WalkCallback | None = None,
) -> Result:
    require_walk_engine(options.get("engine"))
    for name in SEARCH_ONLY_OPTIONS:
        if options.get(name) is not None:
            raise InputError(f"{OPTIONS[name].word}: not supported for random walks")
    parsers = {"--runs": parse_count, "--depth": parse_count, "--seed": parse_seed}
    plan = [parse_script_value(word, parsers[word], number) for word, number in zip(parsers, numbers, strict=True)]
    job = make_job()
    if job.engine == "spark":
        raise InputError(NO_WALK_FOLDER_MESSAGE)

    def walk() -> Result:
        from kraftcheck.explorer import random_walks as walks

        return walks.simulate(job.protocol, job.options, walks.WalkPlan(*plan), keep)

    return run_with_compile_timing(walk)


def _explored_graph(job: SearchJob) -> Graph:
    from kraftcheck.explorer.graph import search_with_graph

    asked = replace(job.options, properties=(), reachable=(), temporal=(), deadlock=False)
    return search_with_graph(job.protocol, asked, lambda state: state)[1]


def _write_result_report(job: SearchJob, result: Result, path: Path) -> None:
    from kraftcheck.reporting.report import search_as_report_data, write_report

    _require_result_of_protocol(job.protocol, result)
    write_report(path, [search_as_report_data(job, result, {})])
