"""Why a behaviour is a counterexample: what the property says, and of which replicas it is false."""

from __future__ import annotations

import inspect
from typing import NamedTuple

from kraftcheck.explorer.result import DEADLOCK, Violation
from kraftcheck.spec.diagnosis.falsity import why_assertion, why_false
from kraftcheck.spec.errors import RaisedError
from kraftcheck.spec.language.calling import act_of
from kraftcheck.spec.language.property import QUANTIFIED, STEP, Property
from kraftcheck.spec.language.protocol import Protocol
from kraftcheck.spec.language.semantics import Semantics
from kraftcheck.spec.values import Record, Value


class Why(NamedTuple):
    """Why a behaviour is a counterexample."""

    says: str  # the first paragraph of the property's docstring, in one line
    # by parameter of the property, the ids of the replicas, and the message, of which it is false
    false_of: dict[str, Value]
    # the property's file and line; None for a deadlock. Of an `assert` that failed, its line.
    place: tuple[str, int] | None
    # which parts of what the property says were false, or which condition led to that, each with the values in it
    because: tuple[str, ...] = ()


def why(protocol: Protocol, violation: Violation) -> Why:
    """Return why a behaviour is a counterexample."""
    if violation.failed is not None:
        return _failed(violation.failed)
    prop = protocol.properties.get(violation.property)
    if violation.property == DEADLOCK or prop is None:
        return Why("every state has a successor", {}, None)
    said = inspect.cleandoc(prop.function.__doc__ or "").split("\n\n")[0].replace("\n", " ")
    code = prop.function.__code__
    known = {} if violation.is_of_behaviours() else _known(protocol, prop, violation)
    shown = [name for name in (*QUANTIFIED, STEP[0]) if name in prop.asks and name in known]
    culprits = {name: known[name] if name == "message" else getattr(known[name], "id", known[name]) for name in shown}
    because = why_false(prop.function, protocol, *[known[name] for name in prop.asks]) if known else ()
    return Why(said, culprits, (code.co_filename, code.co_firstlineno), because)


def _failed(error: RaisedError) -> Why:
    """Return why an `assert` failed."""
    cause = error.cause
    says = f"AssertionError: {cause}" if str(cause) else "AssertionError"
    given = {name: one if name == "message" else getattr(one, "id", one) for name, one in error.given.items()}
    because = () if cause is None else why_assertion(cause, error.place)
    return Why(f"{says} (line {error.place[1]})", given, error.place, because)


def _known(protocol: Protocol, prop: Property, violation: Violation) -> dict[str, Value]:
    """Return what a property is false of, by parameter."""
    semantics, last = Semantics(protocol), violation.trace[-1]
    if not prop.over_steps:
        return semantics.falsifying(prop, last.state) or {}
    before = violation.trace[-2].state
    for taken in semantics.transitions(before):
        if (taken.action, taken.target) != (last.action, last.state) or semantics.kept_by(prop, before, taken):
            continue
        if prop.of_actor:
            act = act_of(prop, before.replicas[taken.actor], taken.message, taken.step) or {}
            return {**act, "shared": before.shared}
        for key, after in last.state.replicas.items():
            old: Record | None = before.replicas.get(key)
            known = {"before": old, "after": after, "shared": before.shared}
            if old is not None and old != after and not semantics.verdict(prop, known):
                return known
    return {}
