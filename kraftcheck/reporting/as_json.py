"""A search as JSON: the counts, and each counterexample with its states, what changed, the messages, and why."""

from __future__ import annotations

import inspect
import resource
import sys
from collections.abc import Iterator
from typing import Any

from kraftcheck.explorer.result import DEADLOCK, Result, TraceStep, Violation
from kraftcheck.explorer.tables.checkpoints.folder import program_version
from kraftcheck.jobs import Job
from kraftcheck.reporting.changes import changes, is_shown_by_fields, messages
from kraftcheck.reporting.summary import rate
from kraftcheck.spec.display import text_of
from kraftcheck.spec.language.property import Property
from kraftcheck.spec.language.protocol import Protocol
from kraftcheck.spec.language.semantics import Semantics, Transition
from kraftcheck.spec.values import Map, ModelValue, Record, Symbol, Value, field_names, field_values, ordered

SCHEMA = 1
"""The version of what `--json` writes. It grows when a field goes or means something else, not when one is added."""


def tool() -> dict[str, Any]:
    """Return what every JSON object of ours begins with: who wrote it, and in which form."""
    return {"tool": "kraftcheck", "version": program_version(), "schema": SCHEMA}


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
        **tool(),
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
        "traces": [violation_as_json(job.protocol, violation) for violation in result.violations],
        "seconds": round(result.seconds, 6),
        "states_per_second": round(rate(result), 1),
        "peak_memory_bytes": peak_memory(),
        "notes": result.notes,
        "warnings": result.warnings,
    }


def violation_as_json(protocol: Protocol, violation: Violation) -> dict[str, Any]:
    """Return a counterexample: the property, why it is violated, and the states.

    Parameters
    ----------
    protocol
        The protocol with its constants.
    violation
        The property and the behaviour.

    Returns
    -------
    dict
        `property`, `why` (see `why`) and `states`: for each its number, the action that led to it, by whom and on which
        message, the whole state, what changed, and the messages under way, sent and consumed.
    """
    trace = violation.trace
    befores = (None, *trace)
    return {
        "property": violation.property,
        "why": why(protocol, violation),
        "states": [
            _state(protocol, number, before, step)
            for number, (before, step) in enumerate(zip(befores, trace, strict=False), start=1)
        ],
    }


def _state(protocol: Protocol, number: int, before: TraceStep | None, step: TraceStep) -> dict[str, Any]:
    state = step.state
    earlier = None if before is None else before.state
    found = [] if earlier is None else changes(protocol, earlier, state)
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
            for one in messages(protocol.network, earlier, state, step.message)
        ],
    }


def why(protocol: Protocol, violation: Violation) -> dict[str, Any]:
    """Return why a behaviour is a counterexample.

    Parameters
    ----------
    protocol
        The protocol with its constants.
    violation
        The property and the behaviour.

    Returns
    -------
    dict
        `says`, the first sentence of what the property's docstring says; `false_of`, the replicas and the message of
        which it is false, by parameter; and `place`, the property's file and line.
    """
    prop = protocol.properties.get(violation.property)
    if violation.property == DEADLOCK or prop is None:
        return {"says": "every state has a successor", "false_of": {}, "place": None}
    said = inspect.cleandoc(prop.function.__doc__ or "").split("\n\n")[0].replace("\n", " ")
    code = prop.function.__code__
    place = {"file": code.co_filename, "line": code.co_firstlineno}
    return {"says": said, "false_of": dict(_false_of(protocol, prop, violation)), "place": place}


def _false_of(protocol: Protocol, prop: Property, violation: Violation) -> Iterator[tuple[str, Any]]:
    if violation.trap is not None:
        return
    semantics, last = Semantics(protocol), violation.trace[-1]
    if prop.over_steps:
        before = violation.trace[-2].state
        taken = (t for t in semantics.transitions(before) if (t.action, t.target) == (last.action, last.state))
        broken = next(taken, None)
        found = None if broken is None else _broken(semantics, prop, violation, broken)
    else:
        found = semantics.culprits(prop, last.state)
    for name, value in (found or {}).items():
        is_replica = isinstance(value, Record) and name != "message"
        yield name, text_of(value.id) if is_replica else value_as_json(value)


def _broken(semantics: Semantics, prop: Property, violation: Violation, broken: Transition) -> dict[str, Value] | None:
    """Return the replica whose step breaks a property of steps."""
    before = violation.trace[-2].state
    if prop.of_actor:
        return {"before": before.replicas[broken.actor]}
    for key, after in broken.target.replicas.items():
        old = before.replicas.get(key)
        if old not in (None, after) and not semantics.verdict(
            prop, {"before": old, "after": after, "shared": before.shared}
        ):
            return {"before": old}
    return None


def value_as_json(value: Value) -> Any:
    """Return a value for JSON: names as strings, sets as lists in canonical order, records with `_type`."""
    if isinstance(value, ModelValue | Symbol):
        return str(value)
    if isinstance(value, bool | int | str):
        return value
    if isinstance(value, frozenset):
        return [value_as_json(item) for item in ordered(value)]
    if isinstance(value, tuple):
        return [value_as_json(item) for item in value]
    if isinstance(value, Map):
        return {key if isinstance(key, str) else text_of(key): value_as_json(value[key]) for key in ordered(value)}
    if not isinstance(value, Record) or not is_shown_by_fields(value):
        return text_of(value)
    fields = zip(field_names(type(value)), field_values(value), strict=True)
    return {"_type": type(value).__name__, **{name: value_as_json(item) for name, item in fields}}


def peak_memory() -> int:
    """Return the most memory that this process has had, in bytes."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
