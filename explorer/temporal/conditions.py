"""Fairness as conditions on the labels of steps, and what temporal properties need before a search."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kraftcheck.explorer.request import SearchRequest
from kraftcheck.explorer.transition_system import Label
from kraftcheck.spec.errors import InputError, unknown
from kraftcheck.spec.language.declarations import Property
from kraftcheck.spec.language.formula import NEXT, Enabled, Fairness, Taken, changed_by_stuttering
from kraftcheck.spec.language.protocol import Protocol

MOST_CONDITIONS = 60


class Condition(NamedTuple):
    """One condition of fairness."""

    fairness: Fairness  # what it comes from
    whom: Any = None  # the replica, the pair of replicas or the type of message of which it is, or None

    def concerns(self, label: Label) -> bool:
        """Return whether steps of a label are its actions."""
        named = NEXT in self.fairness.actions or label.action in self.fairness.actions
        return named and self.whom == whom(self.fairness, label)

    def __str__(self) -> str:
        whom = " and ".join(map(str, self.whom)) if self.fairness.each == "pair" else self.whom
        return f"{self.fairness}, {whom}" if self.fairness.each else str(self.fairness)


def whom(fairness: Fairness, label: Label) -> Any:
    """Return the replica, the pair, or the type of message of which a step is, where fairness tells these apart."""
    return {"": None, "replica": label.actor, "pair": (label.actor, label.peer), "message": label.kind}[fairness.each]


def conditions_of(fairness: Iterable[Fairness], labels: list[Label]) -> list[Condition]:
    """Return the conditions that fairness comes to, given the labels that steps have."""
    found = {Condition(one): None for one in fairness if not one.each} | {
        condition: None
        for one in fairness
        for label in labels
        if (condition := Condition(one, whom(one, label))).concerns(label)
    }
    if len(found) > MOST_CONDITIONS:
        raise InputError(f"fairness comes to {len(found)} conditions; expected at most {MOST_CONDITIONS}")
    return list(found)


def bits_of(labels: list[Label], conditions: list[Condition]) -> NDArray[np.uint64]:
    """Return for each label the conditions of which its steps are actions, as bits."""
    return np.array(
        [sum(1 << bit for bit, one in enumerate(conditions) if one.concerns(label)) for label in labels], np.uint64
    )


def require_reachable(protocol: Protocol, options: SearchRequest) -> None:
    """Check, before a search, that it can find out what stays reachable."""
    for prop in options.reachable:
        _require_known(f"{prop.name}, without=", prop.without, _actions(protocol), protocol)
    _require_shown(protocol, options.view, options.reachable, "be reached")


def require_temporal(protocol: Protocol, options: SearchRequest) -> None:
    """Check, before a search, that the temporal properties and the fairness can be what they say."""
    known = [NEXT, *_actions(protocol)]
    for prop in options.temporal:
        formula = prop.formula(protocol)
        misplaced = changed_by_stuttering(formula)
        if misplaced is not None:
            raise InputError(
                f"{prop.name}: {misplaced} stands where a stutter changes what is said; a step may be asked for"
                " eventually(...), or ruled out always(...)"
            )
        for atom in formula.atoms():
            if isinstance(atom, Enabled | Taken):
                _require_known(prop.name, sorted(atom.actions), known, protocol)
        for one in prop.fairness:
            _require_known(f"{prop.name}, {one}", one.actions, known, protocol)
    for one in options.fairness:
        _require_known(str(one), one.actions, known, protocol)
    _require_shown(protocol, options.view, options.temporal, "follow")


def _actions(protocol: Protocol) -> list[str]:
    return [*protocol.actions, *protocol.network.own_actions()]


def _require_shown(protocol: Protocol, view: str | None, properties: Iterable[Property], what: str) -> None:
    names = ", ".join(prop.name for prop in properties)
    hidden = protocol.hidden(view).shared if view and names else ()
    if hidden:
        raise InputError(
            f"{names}: VIEW {view} leaves out {', '.join(sorted(hidden))}, on which it may depend what can {what};"
            " expected a view that leaves out bounds only"
        )


def _require_known(where: str, names: Iterable[str], known: list[str], protocol: Protocol) -> None:
    for name in names:
        if name not in known:
            raise InputError(f"{where}: {unknown('action', name, known, protocol.name())}")
