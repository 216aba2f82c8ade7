"""What a formula says of one behaviour that goes on for ever, straight from the meaning of formulas."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kraftcheck.spec.language.formula import (
    NEXT,
    Atom,
    Both,
    Either,
    Enabled,
    Formula,
    Held,
    Not,
    Release,
    Taken,
    Truth,
    Until,
)
from kraftcheck.spec.language.semantics import Semantics
from kraftcheck.spec.language.state import State


class LassoJudge:
    """Evaluates formulas on one behaviour.

    Parameters
    ----------
    semantics
        The meaning of the protocol.
    states
        The states of the behaviour, up to where it comes back.
    actions
        For each state the action that leads on from it, None where it stutters or nothing is known.
    back_to
        The place, from 0, of the state that follows the last one.
    """

    def __init__(
        self, semantics: Semantics, states: Sequence[State], actions: Sequence[str | None], back_to: int
    ) -> None:
        self._semantics, self._states, self._actions = semantics, states, actions
        self._next = [*range(1, len(states)), back_to]

    def holds(self, formula: Formula) -> bool:
        """Return whether a formula is true of the behaviour."""
        return self._where(formula)[0]

    def _where(self, formula: Formula) -> list[bool]:
        """Return for each state whether a formula is true of what begins there."""
        match formula:
            case Truth(value):
                return [value] * len(self._states)
            case Not(part):
                return [not one for one in self._where(part)]
            case Both(left, right):
                return [a and b for a, b in zip(self._where(left), self._where(right), strict=True)]
            case Either(left, right):
                return [a or b for a, b in zip(self._where(left), self._where(right), strict=True)]
            case Until(left, right):
                return self._until(self._where(left), self._where(right))
            case Release(left, right):
                neither = self._until(*([not one for one in self._where(part)] for part in (left, right)))
                return [not one for one in neither]
        assert isinstance(formula, Atom)
        return [self._is_true(formula)(place) for place in range(len(self._states))]

    def _until(self, left: list[bool], right: list[bool]) -> list[bool]:
        """Return where the second comes true, the first being true until then: the least fixpoint."""
        found = right
        for _ in range(2):  # the second time around the cycle
            found = list(found)
            for place in reversed(range(len(found))):
                found[place] = right[place] or (left[place] and found[self._next[place]])
        return found

    def _is_true(self, atom: Atom) -> Callable[[int], bool]:
        match atom:
            case Held(prop):
                return lambda place: self._semantics.holds(prop, self._states[place])
            case Enabled(actions):
                return lambda place: self._is_enabled(actions, self._states[place])
            case Taken(actions):
                return lambda place: self._is_taken(actions, place)
        raise AssertionError(atom)

    def _is_enabled(self, actions: frozenset[str], state: State) -> bool:
        return any(
            transition.target != state and not {NEXT, transition.action}.isdisjoint(actions)
            for transition in self._semantics.transitions(state)
        )

    def _is_taken(self, actions: frozenset[str], place: int) -> bool:
        action = self._actions[place]
        moves = self._states[place] != self._states[self._next[place]]
        return action is not None and moves and not {NEXT, action}.isdisjoint(actions)
