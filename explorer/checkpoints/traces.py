"""Counterexamples as text in a manifest."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from kraftcheck.explorer.behaviour import Behaviour, step_of
from kraftcheck.explorer.checkpoints.shapes import Damaged
from kraftcheck.explorer.result import DEADLOCK, Options, TraceStep, Violation
from kraftcheck.spec.encoding import DecodingError, Lexicon, decode, encode
from kraftcheck.spec.language.property import Property
from kraftcheck.spec.language.protocol import Protocol
from kraftcheck.spec.language.semantics import Semantics
from kraftcheck.spec.language.state import State
from kraftcheck.spec.values import Value


def value_of(trace: Behaviour) -> Value:
    """Return a counterexample as a value."""
    return tuple((step.state, *map(_optional, (step.action, step.actor, step.message))) for step in trace)


def encode_trace(trace: Behaviour) -> str:
    """Return a counterexample as text."""
    return encode(value_of(trace)).hex()


def decode_trace(text: str, lexicon: Lexicon) -> Behaviour:
    """Return the counterexample that was encoded."""
    try:
        steps: Any = decode(bytes.fromhex(text), lexicon)
        found = tuple(TraceStep(state, *(part[0] if part else None for part in rest)) for state, *rest in steps)
    except DecodingError:
        raise
    except (IndexError, TypeError, ValueError) as error:
        raise DecodingError(f"it is no counterexample: {error}") from None
    return found


def require_violations(
    protocol: Protocol, options: Options, starts: Sequence[State], violations: Sequence[Violation]
) -> None:
    """Raise Damaged unless counterexamples are behaviours of a protocol, and violate what they are said to."""
    semantics, checked = Semantics(protocol), {prop.name: prop for prop in options.properties}
    names = [violation.property for violation in violations]
    if len(names) > len(set(names)) or not {*names} <= {*checked, *([DEADLOCK] if options.deadlock else [])}:
        raise Damaged("it notes violations of what is not checked")
    for name, trace in ((violation.property, violation.trace) for violation in violations):
        if not trace or trace[0] not in map(TraceStep, starts):
            raise Damaged(f"the counterexample to {name} does not begin with an initial state")
        for before, step in pairwise(trace):
            if step not in map(step_of, semantics.transitions(before.state)):
                raise Damaged(f"the counterexample to {name} is no behaviour of the protocol")
        if not _violates(semantics, checked.get(name), trace):
            raise Damaged(f"the counterexample to {name} does not violate it")


def _violates(semantics: Semantics, prop: Property | None, trace: Behaviour) -> bool:
    """Whether the last state of a behaviour, or the step to it, violates a property; None stands for deadlock."""
    if prop is None:
        return not any(True for _ in semantics.transitions(trace[-1].state))
    if not prop.over_steps:
        return not semantics.holds(prop, trace[-1].state)
    for before, last in list(pairwise(trace))[-1:]:
        taken = (step for step in semantics.transitions(before.state) if step_of(step) == last)
        return any(not semantics.kept_by(prop, before.state, step) for step in taken)
    return False


def _optional(value: Any) -> Value:
    return () if value is None else (value,)
