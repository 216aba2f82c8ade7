"""Interface between protocols and the analyses of their state graphs.

There are two implementations. `plain_system.py` has the reference semantics; its batches are lists of states.
`tables/learned_system.py` has rows of ids and the compiled kernel. State graphs, AG EF and temporal properties use the
interface.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from kraftcheck.spec.errors import InputError
from kraftcheck.spec.language.declarations import Property
from kraftcheck.spec.language.formula import Fairness
from kraftcheck.spec.language.protocol import Protocol as Language
from kraftcheck.spec.language.semantics import is_meant
from kraftcheck.spec.language.state import State, Step
from kraftcheck.spec.values import Record

States = TypeVar("States")  # a batch of states, in the form of the system
Numbers = NDArray[np.int32]
Labels = NDArray[np.uint16]
Mask = NDArray[np.bool_]

BEYOND, BLOCKED = -1, -2
"""Codes in place of a target: the step leads beyond a constraint, or only a bound prevents the step."""
ROUND = 1
"""Code of a step that changes the state, though a VIEW that renames states identifies source and target."""

MOST_LABELS = 1 << 16


class Steps(NamedTuple):
    """Steps out of a batch of states, as parallel arrays."""

    sources: NDArray[np.int64]  # place of each source in the batch
    keys: Any  # canonical keys of the target states
    ends: Numbers  # 0, ROUND, BEYOND or BLOCKED
    labels: Labels


class TransitionSystem(Protocol[States]):
    """The states of a protocol under the constraints, the symmetry and the view of a search."""

    @property
    def labels(self) -> LabelTable:
        """The labels of steps, by number."""

    def initial(self) -> States:
        """Return the initial states."""

    def successors(self, states: States, which: NDArray[np.int64]) -> Any:
        """Yield the steps out of states[which], in batches of type `Steps`."""

    def holds(self, prop: Property, states: States, judge: Callable[[Property, State], bool]) -> Mask:
        """Return for each state of a batch whether a property holds; `judge(prop, state)` evaluates one state."""

    def canonical(self, states: States) -> Any:
        """Return the canonical keys: equal for states that the symmetry or the view identifies."""

    def decode(self, states: States) -> list[State]:
        """Return the states as values of the language."""


class Label(NamedTuple):
    """Label of a step."""

    action: str  # the action's name
    actor: Any = None  # id of the actor if fairness distinguishes replicas; else None
    # id of the replica that it receives from or sends to, if fairness distinguishes pairs; else None
    peer: Any = None
    # type name of the delivered message, if fairness distinguishes messages; else None
    kind: str | None = None
    parts: tuple[Fairness, ...] = ()  # the conditions of fairness with `when` that mean the step


class LabelTable:
    """The labels of one search, by number; the first ones are the plain actions."""

    def __init__(self, protocol: Language, actions: list[str], fairness: tuple[Fairness, ...]) -> None:
        self._protocol = protocol
        self._parts = tuple(one for one in fairness if one.when)
        self.labels = [Label(name) for name in actions]
        self._numbers = {label: number for number, label in enumerate(self.labels)}
        by_kind: dict[str, set[str]] = {each: set() for each in ("replica", "pair", "message")}
        for one in fairness:
            by_kind.get(one.each, set()).update(filter(one.names, actions))
        self._by = by_kind
        told_apart = set().union(*self._by.values(), *(filter(one.names, actions) for one in self._parts))
        self._alone = {name: number for number, name in enumerate(actions) if name not in told_apart}

    @property
    def tells_more(self) -> bool:
        """Whether steps of one action may have several labels."""
        return any(self._by.values()) or bool(self._parts)

    def number(self, action: str, me: Any, message: Record | None, step: Step) -> int:
        """Return the number of a step's label, given its actor or None, and the delivered message."""
        if action in self._alone:
            return self._alone[action]
        label = self._label(action, me, message, step)
        found = self._numbers.get(label)
        if found is None:
            found = self._numbers[label] = len(self.labels)
            self.labels.append(label)
            if found >= MOST_LABELS:
                raise InputError(f"fairness distinguishes more than {MOST_LABELS} kinds of step; give fewer conditions")
        return found

    def _label(self, action: str, me: Any, message: Record | None, step: Step) -> Label:
        actor = getattr(me, "id", None)
        pairs, named = action in self._by["pair"], message is not None and action in self._by["message"]
        parts = (one for one in self._parts if one.names(action))
        return Label(
            action,
            actor if pairs or action in self._by["replica"] else None,
            counterpart(message, step) if pairs else None,
            type(message).__name__ if named else None,
            tuple(one for one in parts if is_meant(self._protocol, one, me, message)),
        )


def counterpart(message: Record | None, step: Step) -> Any:
    """Return the replica that a step receives from, else the only one that it sends to, else None."""
    if message is not None:
        return getattr(message, "source", None)
    reached = {sent.dest for sent in step.sent}
    return reached.pop() if len(reached) == 1 else None
