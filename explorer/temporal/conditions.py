"""Fairness conditions over labels of steps, and the requirements of temporal properties on a search."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kraftcheck.explorer.request import SearchRequest
from kraftcheck.explorer.transition_system import Label
from kraftcheck.spec.errors import InputError, unknown
from kraftcheck.spec.language.declarations import Property
from kraftcheck.spec.language.formula import NEXT, Enabled, Fairness, Taken, stutter_sensitive_step
from kraftcheck.spec.language.protocol import Protocol

MOST_CONDITIONS = 60


class FairnessCondition(NamedTuple):
    """A fairness condition for one subject: all steps, a replica, a pair of replicas, or a message type."""

    fairness: Fairness  # the declared fairness
    whom: Any = None  # the replica, pair or message type; None for all steps

    def concerns(self, label: Label) -> bool:
        """Whether steps with a label are actions of the condition."""
        meant = self.fairness.names(label.action) and (not self.fairness.when or self.fairness in label.parts)
        return meant and self.whom == whom(self.fairness, label)

    def __str__(self) -> str:
        whom = " and ".join(map(str, self.whom)) if self.fairness.each == "pair" else self.whom
        return f"{self.fairness}, {whom}" if self.fairness.each else str(self.fairness)


def whom(fairness: Fairness, label: Label) -> Any:
    """Return the subject of a label that the fairness distinguishes: replica, pair or message type; else None."""
    return {"": None, "replica": label.actor, "pair": (label.actor, label.peer), "message": label.kind}[fairness.each]


def conditions_of(fairness: Iterable[Fairness], labels: list[Label]) -> list[FairnessCondition]:
    """Return the conditions of declared fairness, given the labels of steps."""
    found = {FairnessCondition(one): None for one in fairness if not one.each} | {
        condition: None
        for one in fairness
        for label in labels
        if (condition := FairnessCondition(one, whom(one, label))).concerns(label)
    }
    if len(found) > MOST_CONDITIONS:
        raise InputError(f"fairness comes to {len(found)} conditions; expected at most {MOST_CONDITIONS}")
    return list(found)


def label_masks(labels: list[Label], conditions: list[FairnessCondition]) -> NDArray[np.uint64]:
    """Return for each label a bit mask of the fairness conditions that concern it."""
    return np.array(
        [sum(1 << bit for bit, one in enumerate(conditions) if one.concerns(label)) for label in labels], np.uint64
    )


def require_reachable(protocol: Protocol, options: SearchRequest) -> None:
    """Raise InputError if the search cannot decide its `@reachable` properties."""
    for prop in options.reachable:
        _require_known(f"{prop.name}, without=", prop.without, _actions(protocol), protocol)
    require_shown(protocol, options.view, options.reachable, "reachability")


def require_temporal(protocol: Protocol, options: SearchRequest) -> None:
    """Raise InputError if the search cannot decide its temporal properties, or their actions are unknown."""
    known = [NEXT, *_actions(protocol)]
    for prop in options.temporal:
        formula = prop.formula(protocol)
        misplaced = stutter_sensitive_step(formula)
        if misplaced is not None:
            raise InputError(
                f"{prop.name}: {misplaced} is sensitive to stuttering here; require a step by"
                " eventually(...), or forbid it by always(...)"
            )
        for atom in formula.atoms():
            if isinstance(atom, Enabled | Taken):
                _require_known(prop.name, sorted(atom.actions), known, protocol)
        for one in prop.fairness:
            _require_meant(f"{prop.name}, {one}", one, protocol)
    for one in options.fairness:
        _require_meant(str(one), one, protocol)
    require_shown(protocol, options.view, options.temporal, "the verdict")


def _require_meant(where: str, fairness: Fairness, protocol: Protocol) -> None:
    """Raise InputError if a condition names an unknown action or predicate."""
    _require_known(where, fairness.actions, [NEXT, *_actions(protocol)], protocol)
    if not fairness.when:
        return
    if not callable(getattr(type(protocol), fairness.when, None)):
        problem = f"{protocol.name()} has no method {fairness.when}"
        raise InputError(f"{where}: {problem}; expected def {fairness.when}(self, me, message) -> bool")
    own = {NEXT, *protocol.network.own_actions()}.intersection(fairness.actions)
    if own and protocol.network.own_actions():
        raise InputError(f"{where}: {min(own)} has steps without a replica; when= needs actions of replicas")


def _actions(protocol: Protocol) -> list[str]:
    return [*protocol.actions, *protocol.network.own_actions()]


def require_shown(protocol: Protocol, view: str | None, properties: Iterable[Property], what: str) -> None:
    """Raise InputError if a view hides shared fields, on which the given properties may depend."""
    names = ", ".join(prop.name for prop in properties)
    hidden = protocol.hidden(view).shared if view and names else ()
    if hidden:
        raise InputError(
            f"{names}: VIEW {view} leaves out {', '.join(sorted(hidden))}, on which {what} may depend;"
            " expected a view that leaves out bounds only"
        )


def _require_known(where: str, names: Iterable[str], known: list[str], protocol: Protocol) -> None:
    for name in names:
        if name not in known:
            raise InputError(f"{where}: {unknown('action', name, known, protocol.name())}")
