"""Models by name, from Python: what `kraftcheck check MODEL --config CONFIG` searches."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import fields, replace
from os import PathLike, fspath
from pathlib import Path
from typing import Any, NamedTuple

from kraftcheck.catalogue import Model, find_model
from kraftcheck.engines import search
from kraftcheck.explorer.result import Options, Result
from kraftcheck.jobs import Job, blaming, job_of
from kraftcheck.reporting.counterexample import told
from kraftcheck.reporting.lines import plain
from kraftcheck.spec.diagnosis.slips import slips
from kraftcheck.spec.errors import InputError, unknown
from kraftcheck.spec.language.protocol import Protocol

_NOT_ASKED = {"properties", "reachable", "constraints", "action_constraints", "init", "view", "deadlock"}


class Loaded(NamedTuple):
    """A model in one of its configurations.

    Attributes
    ----------
    model
        The model, the variant chosen.
    config
        The configuration: one of the model's, a file, or None for the default.
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

    def job(self, **options: Any) -> Job:
        """Return the search that `check` would make.

        Raises
        ------
        InputError
            For an option that there is not, or a configuration that does not fit the model.
        """
        known = ["engine", *(field.name for field in fields(Options) if field.name not in _NOT_ASKED)]
        for name in options:
            if name not in known:
                raise InputError(unknown("option", name, known))
        settings = [f"{name}={value}" for name, value in self.constants.items()]
        arguments = argparse.Namespace(**{"set": settings, "engine": None} | options)
        with blaming(self.model):
            return job_of(self.model, self.config, arguments)

    def check(self, **options: Any) -> Result:
        """Search the states, as `kraftcheck check` does.

        Parameters
        ----------
        options
            Those of the command line, with `_` for `-`: `max_states=1000`, `engine="reference"`, `symmetry=True`,
            `checkpoint="folder"`, `memory=2**30` (bytes), `keep_going=True` (`--continue`).

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
        with blaming(self.model):
            result = search(job.engine, job.protocol, job.options, is_named=job.is_named)
        return replace(result, warnings=result.warnings + slips(job.protocol, complete=result.complete))

    def explain(self, result: Result) -> str:
        """Return the counterexamples of a result, told step by step; "" where there is none."""
        return "\n\n".join(plain(told(self.protocol, violation)) for violation in result.violations)

    def write_report(self, result: Result, path: str | PathLike[str], **options: Any) -> None:
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
    model: str,
    config: str | PathLike[str] | None = None,
    *,
    variant: str | None = None,
    constants: Mapping[str, object] | None = None,
) -> Loaded:
    """Return a model in one of its configurations.

    Parameters
    ----------
    model
        A name that `kraftcheck models` lists, or `path/to/file.py:ClassName`.
    config
        The name of one of the model's configurations, or a `.cfg` file; by default its `default`.
    variant
        The name of a variant of the model.
    constants
        Constants to be given another value, as a `.cfg` writes it: {"MaxCrashes": 1}.

    Raises
    ------
    InputError
        There is no such model, variant or configuration.

    Examples
    --------
    >>> from kraftcheck import load
    >>> result = load("two-phase-commit", config="smoke").check(engine="reference")
    >>> result.verdict, result.distinct_states
    (<Verdict.OK: 'ok'>, 288)
    """
    loaded = Loaded(find_model(model, variant), None if config is None else fspath(config), dict(constants or {}))
    loaded.job()
    return loaded
