"""The files that commands write, and whether they can be written before the work begins."""

from __future__ import annotations

import argparse
import json
import resource
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from kraftcheck.explorer.result import DEADLOCK, Result, Violation
from kraftcheck.jobs import Job
from kraftcheck.reporting.summary import rate
from kraftcheck.spec.errors import InputError
from kraftcheck.spec.language.property import REACHABLE
from kraftcheck.spec.language.protocol import Protocol
from kraftcheck.spec.values import ModelValue, Symbol, Value, ordered


def require_writable(arguments: argparse.Namespace, *options: str) -> None:
    """Check that the files that options name can be written, without changing any.

    Parameters
    ----------
    arguments
        What was read from the command line.
    options
        The options, such as `json`.

    Raises
    ------
    InputError
        For a file that cannot be written, or that two options name.
    """
    taken: dict[Path, str] = {}
    for option in options:
        path: Path | None = getattr(arguments, option)
        if path is None:
            continue
        option = f"--{option}"
        if path.is_dir():
            raise InputError(f"{option} {path}: expected a file to write, found a folder")
        other = taken.setdefault(path.resolve(), option)
        if other != option:
            raise InputError(f"{option} {path}: {other} writes this file too")
        existed = path.exists()
        try:
            path.open("ab").close()
        except OSError as error:
            raise InputError(f"{option} {path}: cannot be written: {error.strerror}") from error
        if not existed:
            path.unlink()


def write_json(path: Path, content: Any) -> None:
    """Write a value as JSON that people can read too."""
    path.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def attributes(source: object, *names: str) -> dict[str, Any]:
    """Return attributes of an object by name: the keys of a JSON object are called like them."""
    return {name: getattr(source, name) for name in names}


def result_as_json(job: Job, result: Result) -> dict[str, Any]:
    """Return what `--json` says of one search.

    Parameters
    ----------
    job
        What was asked for.
    result
        What it found.
    """
    violated = [violation.property for violation in result.violations]
    return {
        "model": job.model.name,
        "variant": job.model.protocol.variant,
        "configuration": job.config_name,
        "constants": {name: value_as_json(value) for name, value in job.protocol.constant_values().items()},
        "engine": result.engine,
        "search": job.options.search,
        "workers": result.workers,
        "symmetry": job.options.symmetry,
        "view": job.options.view,
        "result": result.verdict.value,
        "violated": violated[0] if violated else None,
        "violations": violated,
        **attributes(result, "complete", "limit", "distinct_states", "generated_states", "depth"),
        **attributes(result, "actions", "handler_calls", "never_enabled"),
        "traps": {one.property: one.trap._asdict() for one in result.violations if one.trap},
        "trace_length": len(result.violations[0].trace) if violated else None,
        "seconds": round(result.seconds, 6),
        "states_per_second": round(rate(result), 1),
        "peak_memory_bytes": peak_memory(),
        "notes": result.notes,
        "warnings": result.warnings,
    }


def value_as_json(value: Value) -> Any:
    """Return a constant's value for JSON: names as strings, sets as lists in canonical order."""
    if isinstance(value, ModelValue | Symbol):
        return str(value)
    if isinstance(value, frozenset):
        return [value_as_json(item) for item in ordered(value)]
    if isinstance(value, bool | int | str):
        return value
    return repr(value)


def peak_memory() -> int:
    """Return the most memory that this process has had, in bytes."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def require_empty_folder(option: str, path: Path) -> Path:
    """Return a folder to write into, which is made if it is not there.

    Raises
    ------
    InputError
        Where it is a file, holds something already, or cannot be made.
    """
    if path.exists() and not path.is_dir():
        raise InputError(f"{option} {path}: expected a folder, found a file")
    try:
        path.mkdir(parents=True, exist_ok=True)
        found = next(path.iterdir(), None)
    except OSError as error:
        raise InputError(f"{option} {path}: cannot be written: {error.strerror}") from error
    if found is not None:
        raise InputError(f"{option} {path}: expected a folder that is new or empty, found {found.name} in it")
    return path


def write_counterexamples(protocol: Protocol, violations: Iterable[Violation], path: Path) -> None:
    """Write counterexamples as TLC prints error traces, so that whatever reads TLC's output reads ours.

    Parameters
    ----------
    protocol
        The protocol with its constants.
    violations
        What to write, one after another. Where there is none, no file of an earlier run is left that could be taken
        for one.
    path
        The file.
    """
    if not violations:
        if path.is_file():
            path.unlink()
        return
    from kraftcheck.spec.tla.view import StateView
    from kraftcheck.traces.formats.tlc_log import as_text
    from kraftcheck.traces.trace import Trace, TraceFormat, TraceState

    view = StateView(protocol)
    with path.open("w", encoding="utf-8") as file:
        for index, violation in enumerate(violations):
            states = [
                TraceState(number, view.variables(step.state), step.action)
                for number, step in enumerate(violation.trace, start=1)
            ]
            problem = _problem(protocol, violation.property)
            file.writelines(as_text(Trace(file.name, index, TraceFormat.TLC_LOG, tuple(states), problem=problem)))


def _problem(protocol: Protocol, name: str) -> str:
    if name == DEADLOCK:
        return "Deadlock reached."
    if name in protocol.properties and protocol.properties[name].over_steps:
        return f"Action property {name} is violated."
    if name in protocol.properties and protocol.properties[name].kind == REACHABLE:
        return f"Temporal properties {name} were violated."
    return f"Invariant {name} is violated."
