"""Traces as files: TLC's text, TLC's JSON, and ITF."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator, Mapping
from os import PathLike, fspath
from typing import Literal, TextIO, cast

from kraftcheck.spec.tla.formatting import Style, format_value, in_order, one_line
from kraftcheck.spec.values import Map, ModelValue, Record, Symbol, Value, field_names, field_values
from kraftcheck.traces.formats.itf import as_itf
from kraftcheck.traces.parsing.documents import Json
from kraftcheck.traces.trace import Location, Trace

Form = Literal["text", "json", "itf"]


def write_trace(trace: Trace, path: str | PathLike[str], form: Form | None = None) -> None:
    """Write a trace to a file.

    Parameters
    ----------
    trace
        The trace.
    path
        The file, which is replaced. It is gzipped if its name ends in ``.gz``.
    form
        By default what the name says: ITF for ``.itf.json``, TLC's JSON for ``.json``, TLC's text otherwise.

    Raises
    ------
    ValueError
        The trace cannot be written in that form. See `as_text`, `as_json` and `kraftcheck.traces.formats.itf.as_itf`.
    """
    name = fspath(path)
    bare = name.removesuffix(".gz")
    if form is None:
        form = "itf" if bare.endswith(".itf.json") else "json" if bare.endswith(".json") else "text"
    if form == "text":
        texts = as_text(trace)
    else:
        document = as_itf(trace) if form == "itf" else as_json(trace)
        texts = iter([json.dumps(document, ensure_ascii=False, separators=(",", ":"))])
    opener = gzip.open if name.endswith(".gz") else open
    with cast(TextIO, opener(name, "wt", encoding="utf-8", newline="\n")) as stream:
        stream.writelines(texts)


def as_text(trace: Trace, *, style: Style = "tlc", sort: bool = True) -> Iterator[str]:
    """Return a trace as TLC prints it, state by state.

    Parameters
    ----------
    trace
        The trace, with typed values.
    style, sort
        See `kraftcheck.spec.tla.formatting.format_value`.

    Yields
    ------
    str
        What to write next.

    Raises
    ------
    ValueError
        The trace is untyped.
    """
    if trace.untyped:
        raise ValueError("the values of this trace have no types yet")
    problem = trace.problem or (f"Invariant {trace.violated} is violated." if trace.violated else None)
    if problem:
        yield f"Error: {problem}\n"
    yield "Error: The behavior up to this point is:\n"
    for state in trace.states:
        label = "Initial predicate" if state.number == 1 else _label(state.action, state.parameters, state.location)
        yield f"State {state.number}: <{label}>\n{variables_as_text(state.variables, style=style, sort=sort)}\n\n"
    if trace.ending is not None:
        if trace.ending.back_to is None:
            yield f"State {len(trace.states) + 1}: Stuttering\n"
        else:
            label = _label(trace.ending.action, None, trace.ending.location)
            yield f"Back to state {trace.ending.back_to}: <{label}>\n\n"


def variables_as_text(variables: Mapping[str, Value], *, style: Style = "tlc", sort: bool = True) -> str:
    """Return the variables of a state as TLC prints them: a conjunct each.

    Parameters
    ----------
    variables
        Their typed values, by name.
    style, sort
        See `kraftcheck.spec.tla.formatting.format_value`.
    """
    mark = "/\\ " if len(variables) > 1 else ""  # TLC leaves it out where there is one variable
    values = {name: format_value(value, style=style, sort=sort) for name, value in variables.items()}
    return "\n".join(f"{mark}{name} = {text}" for name, text in values.items())


def _label(action: str | None, parameters: str | None, location: Location | None) -> str:
    name = action or "Action"
    return name + (f"({parameters})" if parameters is not None else "") + (f" {location}" if location else "")


def as_json(trace: Trace) -> dict[str, Json]:
    """Return a trace as the JSON of TLC's ``-dumpTrace json``, which does not keep the types of values.

    Parameters
    ----------
    trace
        The trace, typed or not.

    Returns
    -------
    dict
        What `json.dump` writes.
    """
    states: list[list[Json]] = []
    for state in trace.states:
        variables = {name: value if trace.untyped else _json(value) for name, value in state.variables.items()}
        states.append([state.number, variables])
    steps = [
        [before, _action(state.action, state.location), after]
        for before, after, state in zip(states, states[1:], trace.states[1:], strict=False)
    ]
    if trace.ending is not None:
        action = _action(trace.ending.action, trace.ending.location)
        steps.append([states[-1], action, states[(trace.ending.back_to or len(states)) - 1]])
    return {"counterexample": {"action": steps, "state": states}, "vars": list(trace.states[0].variables)}


def _action(name: str | None, location: Location | None) -> dict[str, Json]:
    action: dict[str, Json] = {"name": name or "UnnamedAction"}
    if location:
        fields = ("beginLine", "beginColumn", "endLine", "endColumn", "module")
        action["location"] = dict(zip(fields, location, strict=True))
    return action


def _json(value: Value) -> Json:
    if isinstance(value, ModelValue | Symbol):
        return one_line(value)
    if isinstance(value, tuple):
        return [_json(item) for item in value]
    if isinstance(value, frozenset):
        return [_json(item) for item in in_order(value)]
    if isinstance(value, Record):
        return {name: _json(item) for name, item in zip(field_names(type(value)), field_values(value), strict=True)}
    if isinstance(value, Map):
        if not value:
            return []
        return {key if isinstance(key, str) else one_line(key): _json(item) for key, item in value.items()}
    return value
