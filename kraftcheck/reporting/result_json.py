"""What `--json` says of a search."""

from __future__ import annotations

import resource
import sys
from typing import Any

from kraftcheck.explorer.result import Result
from kraftcheck.jobs import Job
from kraftcheck.reporting.summary import rate
from kraftcheck.spec.values import ModelValue, Symbol, Value, ordered


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
