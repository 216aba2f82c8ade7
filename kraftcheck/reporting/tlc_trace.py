"""Counterexamples as TLC prints error traces, so that whatever reads TLC's output reads ours."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TextIO

from kraftcheck.explorer.result import DEADLOCK, Violation
from kraftcheck.spec.language.protocol import Protocol
from kraftcheck.spec.tla.view import StateView
from kraftcheck.traces.formats.tlc_log import as_text
from kraftcheck.traces.trace import Trace, TraceFormat, TraceState


def write_traces(protocol: Protocol, view: StateView, violations: Iterable[Violation], file: TextIO) -> None:
    """Write counterexamples, one after another.

    Parameters
    ----------
    protocol
        The protocol with its constants.
    view
        Its states as TLA+ variables.
    violations
        What to write; each with its heading, as TLC has it.
    file
        Where to.
    """
    for index, violation in enumerate(violations):
        states = [
            TraceState(number, view.variables(step.state), step.action)
            for number, step in enumerate(violation.trace, start=1)
        ]
        problem = _complaint(protocol, violation.property)
        file.writelines(as_text(Trace(file.name, index, TraceFormat.TLC_LOG, tuple(states), problem=problem)))


def _complaint(protocol: Protocol, name: str) -> str:
    if name == DEADLOCK:
        return "Deadlock reached."
    if name in protocol.properties and protocol.properties[name].over_steps:
        return f"Action property {name} is violated."
    return f"Invariant {name} is violated."
