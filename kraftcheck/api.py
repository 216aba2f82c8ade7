"""Checking a protocol from Python: what `kraftcheck check` does, as a function."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields, replace
from functools import partial
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kraftcheck.engines import choose, compiling, searches, special_of
from kraftcheck.engines import search as run_search
from kraftcheck.explorer.result import Options, Progress, Result, TraceStep, Violation
from kraftcheck.jobs import widest_symmetry
from kraftcheck.options import read
from kraftcheck.reporting.counterexample import counterexample_lines
from kraftcheck.reporting.lines import plain
from kraftcheck.running import judged
from kraftcheck.spec.errors import InputError, require_assertions, unknown
from kraftcheck.spec.language.property import OF_BEHAVIOURS, PREDICATE, REACHABLE, TEMPORAL
from kraftcheck.spec.language.protocol import Protocol
from kraftcheck.spec.language.starts import start_names

if TYPE_CHECKING:
    from kraftcheck.explorer.graph import Graph


def check(
    protocol: Protocol,
    *,
    properties: Iterable[str] | None = None,
    constraints: Iterable[str] = (),
    action_constraints: Iterable[str] = (),
    deadlock: bool = True,
    specification: str | None = None,
    strict_bounds: bool | None = None,
    symmetry: str | bool | None = None,
    view: str | None = None,
    init: str = "Init",
    search: str = "bfs",
    engine: str | None = None,
    workers: int | None = None,
    memory: int | str | None = None,
    keep_going: bool = False,
    check_actions: bool = False,
    max_states: int | None = None,
    max_depth: int | None = None,
    max_nodes: int | None = None,
    time_limit: float | None = None,
    checkpoint: str | PathLike[str] | None = None,
    checkpoint_every: float = 300.0,
    resume: str | PathLike[str] | None = None,
    strict: bool = False,
    report: Callable[[Progress], None] | None = None,
) -> Result:
    """Search the reachable states of a protocol for a violation of its properties.

    Parameters
    ----------
    protocol
        The protocol, with its constants.
    properties
        Names of the invariants, step invariants, temporal properties and what should stay reachable; by default all.
    constraints, action_constraints, deadlock
        Predicates beyond which states are not expanded, and steps not taken; whether no step is an error.
    specification, strict_bounds
        What temporal properties assume to be fair (by default what actions declare), and how they take bounds.
    symmetry, view, init
        Names of a symmetry of the protocol (True: the one of most sets), a view, and a start ("Init", or a scenario).
    search, engine
        Their names; by default breadth first, and the first engine that can do what is asked.
    workers, memory
        Threads (by default one for every processor); bytes, or "4G", beyond which states go to disk.
    keep_going, check_actions, strict
        Whether to go on after a violation, to test in every call that actions are pure, and to accept no warning and no
        property that holds vacuously: then the verdict is `incomplete`.
    max_states, max_depth, max_nodes, time_limit
        Limits on the distinct states, on the states along a path, on the symbolic engine's nodes, and on the seconds.
    checkpoint, checkpoint_every, resume, report
        A folder for checkpoints, seconds between two, the folder of one to go on from; what is called with progress.

    Returns
    -------
    Result
        The verdict, the counts, and a counterexample for each violated property; `explain` tells it.

    Raises
    ------
    InputError
        For what a name or an option cannot be, with the command line's text, or a breach of the language's contract.
    Interrupted
        Where the user interrupts it; the exception has what was found until then.

    Examples
    --------
    >>> from kraftcheck import ModelValue, check
    >>> from kraftcheck.spec.examples.two_phase_commit import TwoPhaseCommit
    >>> result = check(TwoPhaseCommit(resource_managers=frozenset(ModelValue(name) for name in ("rm1", "rm2", "rm3"))))
    >>> result.verdict, result.distinct_states
    (<Verdict.OK: 'ok'>, 288)
    """
    if isinstance(protocol, type):
        raise InputError(f"expected a protocol with its constants, {protocol.__name__}(...), found the class")
    options = _options(protocol, locals())
    name = choose(engine, search, special_of(options))
    run = partial(run_search, name, protocol, options, is_named=engine is not None)
    return judged(protocol, options, name, run, strict=strict)


def simulate(
    protocol: Protocol,
    *,
    runs: int = 1000,
    depth: int = 100,
    seed: int = 0,
    properties: Iterable[str] | None = None,
    constraints: Iterable[str] = (),
    action_constraints: Iterable[str] = (),
    deadlock: bool = True,
    init: str = "Init",
    workers: int | None = None,
    keep_going: bool = False,
    check_actions: bool = False,
    time_limit: float | None = None,
    report: Callable[[Progress], None] | None = None,
    keep: Callable[[int, tuple[TraceStep, ...]], None] | None = None,
) -> Result:
    """Walk at random through the states of a protocol, each enabled successor being as likely as any other.

    Parameters
    ----------
    protocol
        The protocol, with its constants.
    runs, depth
        How many walks to make, and the most states along one.
    seed
        What the choices are drawn from; walk `i` depends on the seed and on `i` alone.
    properties, constraints, action_constraints, deadlock, init, workers, keep_going, check_actions, time_limit, report
        As for `check`.
    keep
        Called with the number and the states of each walk.

    Returns
    -------
    Result
        With `runs`, the walks made: up to the first that violates something, unless `keep_going`. It is never complete.

    Raises
    ------
    InputError
        As for `check`.

    Examples
    --------
    >>> from kraftcheck import ModelValue, simulate
    >>> from kraftcheck.spec.examples.lock_service import ImpatientServer
    >>> clients = frozenset(ModelValue(name) for name in ("c1", "c2"))
    >>> result = simulate(ImpatientServer(clients=clients, losses=0), runs=100, seed=1)
    >>> result.verdict, result.violations[0].property
    (<Verdict.VIOLATION: 'violation'>, 'MutualExclusion')
    """
    options = _options(protocol, locals())

    def walk() -> Result:
        from kraftcheck.explorer.tables import random_walks as walks

        return walks.simulate(protocol, options, walks.Plan(runs, depth, seed), keep)

    return compiling(walk)


def explain(protocol: Protocol, violation: Violation) -> str:
    """Return a counterexample told step by step: who did what, what changed, which messages are under way.

    Parameters
    ----------
    protocol
        The protocol that was checked.
    violation
        One of its result's violations.
    """
    return plain(counterexample_lines(protocol, violation))


def to_networkx(
    protocol: Protocol,
    *,
    constraints: Iterable[str] = (),
    action_constraints: Iterable[str] = (),
    symmetry: str | bool | None = None,
    view: str | None = None,
    init: str = "Init",
    max_states: int | None = None,
    max_depth: int | None = None,
) -> Graph:
    """Return the state graph of a protocol.

    Parameters
    ----------
    protocol
        The protocol, with its constants.
    constraints, action_constraints, symmetry, view, init, max_states, max_depth
        As for `check`.

    Returns
    -------
    networkx.MultiDiGraph
        Nodes are numbers, from 1 in the order of discovery, with `initial` and `state`. Edges are steps, with `action`
        and, where a replica took it, `actor`.

    Raises
    ------
    InputError
        As for `check`.

    Examples
    --------
    >>> from kraftcheck import ModelValue, to_networkx
    >>> from kraftcheck.spec.examples.two_phase_commit import TwoPhaseCommit
    >>> graph = to_networkx(TwoPhaseCommit(resource_managers=frozenset([ModelValue("rm1"), ModelValue("rm2")])))
    >>> len(graph), [number for number, initial in graph.nodes(data="initial") if initial]
    (56, [1])
    """
    options = replace(_options(protocol, {**locals(), "properties": ()}), deadlock=False)
    from kraftcheck.explorer.graph import explore_graph

    return explore_graph(protocol, options, lambda state: state)[1]


def write_report(protocol: Protocol, result: Result, path: str | PathLike[str]) -> None:
    """Write a result as one file to share, as `kraftcheck check --report` does.

    Parameters
    ----------
    protocol
        The protocol that was checked.
    result
        What `check` or `simulate` returned.
    path
        The file: a page where it ends in `.html`, Mermaid for a pull request where it ends in `.md`.

    Raises
    ------
    InputError
        For a file of another ending.
    """
    from kraftcheck.catalogue import Job, Model
    from kraftcheck.reporting.files import require_report
    from kraftcheck.reporting.report import run_as_data
    from kraftcheck.reporting.report import write_report as write

    require_report(Path(path))
    model = Model(protocol.name(), type(protocol))
    job = Job(model, "none", protocol, result.engine, True, _options(protocol, {"properties": None}))
    write(Path(path), [run_as_data(job, result, {})])


def _options(protocol: Protocol, parameters: Mapping[str, Any]) -> Options:
    """Return the options of a search that are among a function's parameters, with the properties that these name."""
    require_assertions()
    given = [field.name for field in fields(Options) if field.name in parameters]
    asked = {name: parameters[name] if name == "report" else read(name, parameters[name]) for name in given}
    if isinstance(asked.get("symmetry"), bool):
        asked["symmetry"] = widest_symmetry(protocol) if asked["symmetry"] else None
    everything = protocol.properties
    if asked["properties"] is None:
        asked["properties"] = [p.name for p in everything.values() if not p.kind.endswith(("constraint", PREDICATE))]
    over_states, over_steps = (
        {name: p for name, p in everything.items() if p.over_steps is steps and p.kind not in OF_BEHAVIOURS}
        for steps in (False, True)
    )
    for field, what, known in (
        ("search", "search", searches()),
        ("symmetry", "symmetry", protocol.symmetries),
        ("view", "view", protocol.views),
        ("init", "start", start_names(protocol)),
        ("properties", "property", everything),
        ("constraints", "constraint", over_states),
        ("action_constraints", "action constraint", over_steps),
    ):
        value = asked.get(field)
        names = [] if value is None else [value] if isinstance(value, str) else list(value)
        for name in names:
            if name not in known:
                raise InputError(unknown(what, name, known, "" if what == "search" else protocol.name()))
        if field.endswith(("properties", "constraints")):
            asked[field] = tuple(everything[name] for name in names)
    fairness = type(protocol).fairness_of(parameters.get("specification"))
    of_kind = {kind: tuple(p for p in asked["properties"] if p.kind == kind) for kind in OF_BEHAVIOURS}
    asked["properties"] = tuple(p for p in asked["properties"] if p.kind not in OF_BEHAVIOURS)
    return Options(**asked, reachable=of_kind[REACHABLE], temporal=of_kind[TEMPORAL], fairness=fairness)
