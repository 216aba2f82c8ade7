"""Models by name, from Python: what `kraftcheck check MODEL --config CONFIG` searches."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypedDict, Unpack

from kraftcheck.catalogue import Job, Model, blaming, find_model, model_of
from kraftcheck.engines import compiling, search
from kraftcheck.explorer.result import Progress, Result
from kraftcheck.jobs import job_of
from kraftcheck.options import read
from kraftcheck.reporting.counterexample import counterexample_lines
from kraftcheck.reporting.lines import plain
from kraftcheck.running import judged
from kraftcheck.spec.errors import InputError, require_assertions, unknown
from kraftcheck.spec.language.protocol import Protocol

if TYPE_CHECKING:
    from kraftcheck.explorer.graph import Graph


class SearchOptions(TypedDict, total=False):
    """Options of a search, by the names that they have on the command line, with `_` for `-`.

    `keep_going` is `--continue`; `report` is called with the progress.
    """

    search: str
    engine: str | None
    deadlock: bool
    symmetry: bool
    strict_bounds: bool
    keep_going: bool
    check_actions: bool
    workers: int
    memory: int | str
    max_states: int
    max_depth: int
    max_nodes: int
    time_limit: float
    checkpoint: str | PathLike[str]
    checkpoint_every: float
    resume: str | PathLike[str]
    report: Callable[[Progress], None]
    master: str
    conf: Mapping[str, str]
    verbose: bool


class Loaded(NamedTuple):
    """A model in one of its configurations.

    Attributes
    ----------
    model
        The model, the variant chosen.
    config
        The configuration: one of the model's, a file, or None for the one that `load` takes by default.
    constants
        Constants that have another value than in the configuration, as a `.cfg` writes it.
    """

    model: Model
    config: str | None
    constants: Mapping[str, object]

    @property
    def protocol(self) -> Protocol:
        """The protocol with its constants."""
        return self.job().protocol

    def job(self, **options: Unpack[SearchOptions]) -> Job:
        """Return the search that `check` would make.

        Raises
        ------
        InputError
            For an option that there is not, or a configuration that does not fit the model.
        """
        known = list(SearchOptions.__annotations__)
        for name in options:
            if name not in known:
                raise InputError(unknown("option", name, known))
        asked: dict[str, Any] = {
            name: value if name == "report" else read(name, value) for name, value in options.items()
        }
        settings = [f"{name}={value}" for name, value in self.constants.items()]
        arguments = argparse.Namespace(**{"set": settings, "engine": None} | asked)
        with blaming(self.model):
            return job_of(self.model, self.config, arguments)

    def check(self, *, strict: bool = False, **options: Unpack[SearchOptions]) -> Result:
        """Search the states, as `kraftcheck check` does.

        Parameters
        ----------
        strict
            Whether a warning, or a property that holds vacuously, makes the verdict `incomplete`.
        options
            Those of the command line, with `_` for `-`: `max_states=1000`, `engine="reference"`, `symmetry=True`,
            `checkpoint="folder"`, `memory="4G"` (or bytes), `keep_going=True` (`--continue`).

        Returns
        -------
        Result
            The verdict, the counts and the counterexamples.

        Raises
        ------
        InputError
            As `job`; or where the protocol breaks the language's contract.
        """
        job = self.job(**options)
        run = partial(search, job.engine, job.protocol, job.options, is_named=job.is_named)
        with blaming(self.model):
            return judged(job.protocol, job.options, job.engine, run, strict=strict)

    def simulate(
        self, *, runs: int = 1000, depth: int = 100, seed: int = 0, **options: Unpack[SearchOptions]
    ) -> Result:
        """Walk at random through the states, as `kraftcheck simulate` does.

        Parameters
        ----------
        runs, depth, seed
            How many walks to make, the most states along one, and what the choices are drawn from.
        options
            As for `check`.

        Raises
        ------
        InputError
            As `job`.
        """
        job = self.job(**options)

        def walk() -> Result:
            from kraftcheck.explorer.tables import random_walks as walks

            return walks.simulate(job.protocol, job.options, walks.Plan(runs, depth, seed), None)

        with blaming(self.model):
            return compiling(walk)

    def to_networkx(self, **options: Unpack[SearchOptions]) -> Graph:
        """Return the state graph, as `kraftcheck.to_networkx` does.

        Parameters
        ----------
        options
            As for `check`: `max_states=1000`.

        Raises
        ------
        InputError
            As `job`.
        """
        from kraftcheck.explorer.graph import explore_graph

        job = self.job(**options)
        asked = replace(job.options, properties=(), reachable=(), deadlock=False)
        return explore_graph(job.protocol, asked, lambda state: state)[1]

    def explain(self, result: Result) -> str:
        """Return the counterexamples of a result, told step by step; "" where there is none."""
        return "\n\n".join(plain(counterexample_lines(self.protocol, violation)) for violation in result.violations)

    def write_report(self, result: Result, path: str | PathLike[str], **options: Unpack[SearchOptions]) -> None:
        """Write a result as one file to share, as `--report` does.

        Parameters
        ----------
        result
            What `check` returned.
        path
            The file: a page where it ends in `.html`, Mermaid for a pull request where it ends in `.md`.
        options
            Those that `check` was given.

        Raises
        ------
        InputError
            For a file of another ending; and as `job`.
        """
        from kraftcheck.reporting.files import require_report
        from kraftcheck.reporting.report import run_as_data, write_report

        require_report(Path(path))
        write_report(Path(path), [run_as_data(self.job(**options), result, {})])


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
        A name that `kraftcheck models` lists, `path/to/file.py:ClassName`, or a class of your own.
    config
        The name of one of the model's configurations, or a `.cfg` file. By default, as on the command line, the one
        that the class names as its `configuration`; else `fault.<variant>`, the `.cfg` beside the class's file, or
        `default`, where there is one; else all properties are checked.
    variant
        The name of a variant of the model.
    constants
        Constants to be given another value, as a `.cfg` writes it: {"MaxCrashes": 1}.

    Raises
    ------
    InputError
        There is no such model, variant or configuration; or Python leaves out `assert` statements (`-O`).

    Examples
    --------
    >>> from kraftcheck import load
    >>> result = load("two-phase-commit", config="smoke").check(engine="reference")
    >>> result.verdict, result.distinct_states
    (<Verdict.OK: 'ok'>, 288)
    """
    require_assertions()
    found = find_model(model, variant) if isinstance(model, str) else model_of(model, variant)
    loaded = Loaded(found, None if config is None else fspath(config), dict(constants or {}))
    loaded.job()
    return loaded
