"""Why a behaviour is a counterexample: what the property says, and of which replicas it is false."""

from __future__ import annotations

import inspect
from typing import NamedTuple

from kraftcheck.explorer.result import DEADLOCK, Violation
from kraftcheck.spec.language.property import Property
from kraftcheck.spec.language.protocol import Protocol
from kraftcheck.spec.language.semantics import Semantics
from kraftcheck.spec.values import Record, Value


class Why(NamedTuple):
    """Why a behaviour is a counterexample.

    Attributes
    ----------
    says
        The first paragraph of the property's docstring, in one line.
    false_of
        By parameter of the property, the ids of the replicas, and the message, of which it is false.
    place
        The property's file and line; None for a deadlock.
    """

    says: str
    false_of: dict[str, Value]
    place: tuple[str, int] | None


def why(protocol: Protocol, violation: Violation) -> Why:
    """Return why a behaviour is a counterexample.

    Parameters
    ----------
    protocol
        The protocol with its constants.
    violation
        The property and the behaviour.
    """
    prop = protocol.properties.get(violation.property)
    if violation.property == DEADLOCK or prop is None:
        return Why("every state has a successor", {}, None)
    said = inspect.cleandoc(prop.function.__doc__ or "").split("\n\n")[0].replace("\n", " ")
    code = prop.function.__code__
    found = {} if violation.is_of_behaviours() else _culprits(protocol, prop, violation)
    culprits = {name: value if name == "message" else getattr(value, "id", value) for name, value in found.items()}
    return Why(said, culprits, (code.co_filename, code.co_firstlineno))


def _culprits(protocol: Protocol, prop: Property, violation: Violation) -> dict[str, Value]:
    semantics, last = Semantics(protocol), violation.trace[-1]
    if not prop.over_steps:
        return semantics.culprits(prop, last.state) or {}
    before = violation.trace[-2].state
    for taken in semantics.transitions(before):
        if (taken.action, taken.target) != (last.action, last.state) or semantics.kept_by(prop, before, taken):
            continue
        if prop.of_actor:
            return {"before": before.replicas[taken.actor]}
        for key, after in last.state.replicas.items():
            old: Record | None = before.replicas.get(key)
            known = {"before": old, "after": after, "shared": before.shared}
            if old is not None and old != after and not semantics.verdict(prop, known):
                return {"before": old}
    return {}
