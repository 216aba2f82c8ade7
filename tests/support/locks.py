"""Traces of the lock service, for tests of replaying."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from kraftcheck.spec.examples.lock_service import LockService
from kraftcheck.spec.language.semantics import Semantics
from kraftcheck.spec.tla.state_conversion import TlaStateConverter
from kraftcheck.spec.tla.text import parse_value
from kraftcheck.spec.values import ModelValue
from kraftcheck.traces import Trace, TraceFormat, TraceState

C1, C2 = ModelValue("c1", 0), ModelValue("c2", 1)
LOCKS = LockService(clients=frozenset({C1, C2}), losses=1)
VIEW = TlaStateConverter(LOCKS)
ROUND = ("Ask c1", "Grant server", "Enter c1", "Leave c1", "Free server")


def behaviour(steps: Iterable[str], protocol: LockService = LOCKS) -> Trace:
    """Return the trace of a behaviour, given as actions with who takes them."""
    semantics = Semantics(protocol)
    (state,) = semantics.initial()
    states = [TraceState(1, VIEW.variables(state))]
    for step in steps:
        action, actor = step.split()
        state = next(t.target for t in semantics.transitions(state) if (t.action, str(t.actor)) == (action, actor))
        states.append(TraceState(len(states) + 1, VIEW.variables(state), action))
    return Trace("sample", 0, TraceFormat.TLC_LOG, tuple(states))


def changed(trace: Trace, number: int, variable: str, text: str) -> Trace:
    """Return a trace in which a variable of one state has another value."""
    states = list(trace.states)
    variables = {**states[number - 1].variables, variable: parse_value(text)}
    states[number - 1] = replace(states[number - 1], variables=variables)
    return replace(trace, states=tuple(states))


def renamed(trace: Trace, number: int, action: str | None) -> Trace:
    """Return a trace in which one step has another name."""
    states = list(trace.states)
    states[number - 1] = replace(states[number - 1], action=action)
    return replace(trace, states=tuple(states))
