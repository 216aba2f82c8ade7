"""The files that `kraftcheck check` writes, and whether they can be written before the work begins."""

from __future__ import annotations

import json
import resource
import sys
from pathlib import Path
from typing import Any

from kraftcheck.catalogue import Model
from kraftcheck.explorer.result import Options, Result
from kraftcheck.reporting.summary import rate
from kraftcheck.spec.errors import InputError
from kraftcheck.spec.language.protocol import Protocol
from kraftcheck.spec.values import ModelValue, Symbol, Value, ordered


def require_writable(outputs: dict[str, Path | None]) -> None:
    """Check that files can be written, without changing any.

    Parameters
    ----------
    outputs
        From the option to the file it names, or None.

    Raises
    ------
    InputError
        For a file that cannot be written, or that two options name.
    """
    taken: dict[Path, str] = {}
    for option, path in outputs.items():
        if path is None:
            continue
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


def result_as_json(
    model: Model, config_name: str, engine: str, protocol: Protocol, options: Options, result: Result
) -> dict[str, Any]:
    """Return what `--json` says of one search.

    Parameters
    ----------
    model, config_name
        What the user named.
    engine
        The engine's name.
    protocol
        The protocol with its constants.
    options
        What the search was asked for.
    result
        What it found.
    """
    violated = [violation.property for violation in result.violations]
    return {
        "model": model.name,
        "variant": model.protocol.variant,
        "configuration": config_name,
        "constants": {name: value_as_json(value) for name, value in protocol.constant_values().items()},
        "engine": engine,
        "search": options.search.value,
        "workers": result.workers,
        "symmetry": options.symmetry,
        "view": options.view,
        "result": result.verdict.value,
        "violated": violated[0] if violated else None,
        "violations": violated,
        "complete": result.complete,
        "limit": result.limit,
        "distinct_states": result.distinct_states,
        "generated_states": result.generated_states,
        "depth": result.depth,
        "actions": result.actions,
        "handler_calls": result.handler_calls,
        "never_enabled": result.never_enabled,
        "trace_length": len(result.violations[0].trace) if violated else None,
        "seconds": round(result.seconds, 6),
        "states_per_second": round(rate(result), 1),
        "peak_memory_bytes": peak_memory(),
        "notes": result.notes,
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
