"""JSON of a search: counts, and counterexamples with states, changes, messages and reasons."""

from __future__ import annotations

import enum
import resource
import sys
from collections.abc import Sequence
from typing import Any

from kraftcheck.catalogue import SearchJob
from kraftcheck.explorer.request import OPTIONS
from kraftcheck.explorer.result import LassoCycle, Result, TraceStep, Violation
from kraftcheck.persistence import program_version
from kraftcheck.reporting.counterexample import (
    is_shown_by_fields,
    messages_around_step,
    state_changes,
    violation_reason,
)
from kraftcheck.spec.language.protocol import Protocol
from kraftcheck.spec.values import Map, ModelValue, Value, field_names, field_values, ordered, text_of

JSON_SCHEMA_VERSION = 1
"""The version of the JSON schema. It grows if a field is removed or changes its meaning, not for a new field."""


def tool_header() -> dict[str, Any]:
    """Return the common JSON header: tool, version, schema version."""
    return {"tool": "kraftcheck", "version": program_version(), "schema": JSON_SCHEMA_VERSION}


def attributes_as_json(source: object, *names: str) -> dict[str, Any]:
    """Return attributes of an object as a dictionary."""
    return {name: getattr(source, name) for name in names}


def result_as_json(job: SearchJob, result: Result) -> dict[str, Any]:
    """Return the JSON object of a search."""
    violated = [violation.property for violation in result.violations]
    return {
        **tool_header(),
        **job_as_json(job),
        "engine": result.engine,
        **{name: getattr(job.options, name) for name, option in OPTIONS.items() if option.in_json},
        "workers": result.workers,
        "result": result.verdict.value,
        "violated": violated[0] if violated else None,
        "violations": violated,
        **attributes_as_json(result, "complete", "limit", "distinct_states", "depth", "handler_calls", "never_enabled"),
        "generated_states": None if result.uncounted else result.generated_states,
        "actions": {**result.actions, **dict.fromkeys(result.uncounted)},
        "traps": {one.property: one.trap._asdict() for one in result.violations if one.trap},
        "trace_length": len(result.violations[0].trace) if violated else None,
        "traces": [violation_as_json(job.protocol, violation) for violation in result.violations],
        "seconds": round(result.seconds, 6),
        "compile_seconds": round(result.compile_seconds, 6),
        "states_per_second": round(result.states_per_second, 1),
        "peak_memory_bytes": peak_memory_bytes(),
        "notes": result.notes,
        "warnings": result.warnings,
        **_vacuity_as_json(result),
    }


def job_as_json(job: SearchJob) -> dict[str, Any]:
    """Return the model, variant, configuration and constants."""
    return {
        "model": job.model.name,
        "variant": job.model.protocol.variant,
        "configuration": job.config_name,
        "constants": {name: value_as_json(value) for name, value in job.protocol.constant_values().items()},
    }


def _vacuity_as_json(result: Result) -> dict[str, Any]:
    """Return the vacuously true properties and the unevaluated parts of properties, as far as known."""
    found: dict[str, Any] = {}
    if result.vacuous is not None:
        found["vacuous"] = [one._asdict() for one in result.vacuous]
    if result.never_evaluated is not None:
        found["never_evaluated"] = {
            name: [part._asdict() for part in parts] for name, parts in result.never_evaluated.items()
        }
    return found


def violation_as_json(protocol: Protocol, violation: Violation) -> dict[str, Any]:
    """Return a counterexample: the property, the reason of its violation, and the states."""
    return {
        "property": violation.property,
        "why": _violation_reason_as_json(protocol, violation),
        "states": trace_as_json(protocol, violation.trace),
        "loop": None if violation.loop is None else _loop_as_json(protocol, violation.loop),
    }


def _loop_as_json(protocol: Protocol, loop: LassoCycle) -> dict[str, Any]:
    """Return the lasso: the state it returns to, the closing step (null for stuttering), and its fairness."""
    again = loop.again
    return {
        "back_to": loop.back_to,
        "action": None if again is None else again.action,
        "actor": None if again is None or again.actor is None else text_of(again.actor),
        "on": None if again is None or again.message is None else value_as_json(again.message),
        "fair": list(loop.kept),
        "never": list(loop.never),
    }


def trace_as_json(protocol: Protocol, trace: Sequence[TraceStep]) -> list[dict[str, Any]]:
    """Return the states of a trace with their changes and messages."""
    steps = zip((None, *trace), trace, strict=False)
    return [trace_state_as_json(protocol, number, before, step) for number, (before, step) in enumerate(steps, start=1)]


def trace_state_as_json(protocol: Protocol, number: int, before: TraceStep | None, step: TraceStep) -> dict[str, Any]:
    """Return one state of a trace with the changes and messages of the step that leads to it."""
    state = step.state
    earlier = None if before is None else before.state
    found = [] if earlier is None else state_changes(protocol, earlier, state)
    marks = {"-": "consumed", "+": "sent", "*": "kept", " ": "under way"}
    return {
        "number": number,
        "action": step.action,
        "actor": None if step.actor is None else text_of(step.actor),
        "on": None if step.message is None else value_as_json(step.message),
        "replicas": {text_of(key): value_as_json(state.replicas[key]) for key in ordered(state.replicas)},
        "shared": value_as_json(state.shared),
        "spent": value_as_json(state.spent),
        "changes": [{"what": change.path, "how": change.text} for change in found],
        "messages": [
            {"is": marks[one.mark], "message": value_as_json(one.message), "copies": one.copies}
            for one in messages_around_step(protocol.network, earlier, state, step.message)
        ],
    }


def _violation_reason_as_json(protocol: Protocol, violation: Violation) -> dict[str, Any]:
    """Return the reason of a violation (see `ViolationReason`), with replicas as their ids."""
    found = violation_reason(protocol, violation)
    return {
        "says": found.says,
        "false_of": {key: (value_as_json if key == "message" else text_of)(one) for key, one in found.false_of.items()},
        "because": list(found.because),
        "place": None if found.place is None else {"file": found.place[0], "line": found.place[1]},
    }


def value_as_json(value: Value) -> Any:
    """Convert a value to JSON: names to strings, sets to ordered lists, records to objects with `_type`."""
    if isinstance(value, ModelValue | enum.Enum):
        return text_of(value)
    if isinstance(value, bool | int | str | None):
        return value
    if isinstance(value, frozenset | tuple):
        return [value_as_json(item) for item in (value if isinstance(value, tuple) else ordered(value))]
    if isinstance(value, Map):
        return {_map_key_as_json(key): value_as_json(value[key]) for key in ordered(value)}
    if not is_shown_by_fields(value):
        return text_of(value)
    fields = zip(field_names(type(value)), field_values(value), strict=True)
    return {"_type": type(value).__name__, **{name: value_as_json(item) for name, item in fields}}


def _map_key_as_json(key: Value) -> str:
    return key if isinstance(key, str) else text_of(key)


def peak_memory_bytes() -> int:
    """Return the peak memory of this process in bytes."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
