"""Evaluation of formulas on one infinite behaviour (a lasso), directly by their semantics."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from operator import and_, or_
from typing import Any

from kraftcheck.explorer.temporal.conditions import whom
from kraftcheck.explorer.transition_system import Label, counterpart
from kraftcheck.spec.language.formula import (
    NEXT,
    And,
    Atom,
    Boolean,
    Enabled,
    Fairness,
    Formula,
    Not,
    Or,
    Release,
    StatePredicate,
    Taken,
    Until,
)
from kraftcheck.spec.language.semantics import CandidateStep, Semantics, Transition, is_meant
from kraftcheck.spec.language.state import State


class LassoEvaluator:
    """Evaluates formulas on one lasso."""

    def __init__(
        self,
        semantics: Semantics,
        states: Sequence[State],
        actions: Sequence[str | None],
        back_to: int,
        *,
        strict_bounds: bool = True,
    ) -> None:
        self._semantics, self._states, self._actions = semantics, states, actions
        self._strict = strict_bounds
        self._next = [*range(1, len(states)), back_to]

    def holds(self, formula: Formula) -> bool:
        """Whether a formula holds of the behaviour."""
        return self._where(formula)[0]

    def _where(self, formula: Formula) -> list[bool]:
        """Return for each state whether a formula holds of the suffix that begins there."""
        match formula:
            case Boolean(value):
                return [value] * len(self._states)
            case Not(part):
                return [not one for one in self._where(part)]
            case And(left, right):
                return list(map(and_, self._where(left), self._where(right)))
            case Or(left, right):
                return list(map(or_, self._where(left), self._where(right)))
            case Until(left, right):
                return self._until(self._where(left), self._where(right))
            case Release(left, right):
                return self._where(Not(Until(Not(left), Not(right))))
        assert isinstance(formula, Atom)
        return [self._is_true(formula)(place) for place in range(len(self._states))]

    def _until(self, left: list[bool], right: list[bool]) -> list[bool]:
        """Return for each state whether `left` holds until `right` does: the least fixpoint."""
        found = right
        for _ in range(2):  # the second round closes the cycle
            found = list(found)
            for place in reversed(range(len(found))):
                found[place] = right[place] or (left[place] and found[self._next[place]])
        return found

    def _is_true(self, atom: Atom) -> Callable[[int], bool]:
        match atom:
            case StatePredicate(prop):
                return lambda place: self._semantics.holds(prop, self._states[place])
            case Enabled(actions):
                return lambda place: self._is_enabled(actions, self._states[place])
            case Taken(actions):
                return lambda place: self._is_taken(actions, place)
        raise AssertionError(atom)

    def _is_enabled(self, actions: frozenset[str], state: State) -> bool:
        choices = (one for one in self._semantics.choices(state) if not {NEXT, one.action}.isdisjoint(actions))
        return any(self._may_be_taken(state, choice) for choice in choices)

    def _may_be_taken(self, state: State, choice: CandidateStep) -> bool:
        taken = self._semantics.taken(state, choice)
        if taken is not None:
            return taken.target != state
        return not self._strict and self._semantics.is_blocked(state, choice)

    def _is_taken(self, actions: frozenset[str], place: int) -> bool:
        action = self._actions[place]
        moves = self._states[place] != self._states[self._next[place]]
        return action is not None and moves and not {NEXT, action}.isdisjoint(actions)


def unfair(
    semantics: Semantics,
    fairness: Iterable[Fairness],
    states: Sequence[State],
    steps: Sequence[Sequence[Transition]],
    back_to: int,
) -> Fairness | None:
    """Return the first fairness condition that a behaviour violates; an exhausted bound disables an action."""
    following = [*states[1:], states[back_to]]
    cycle = range(back_to, len(states))
    for one in fairness:
        ready = [{_whom(semantics, one, step) for step in _moves(semantics, one, states[place])} for place in cycle]
        taken = {
            _whom(semantics, one, step)
            for place in cycle
            if states[place] != following[place]
            for step in steps[place]
            if _concerns(semantics, one, states[place], step)
        }
        # Weak fairness: steps enabled in every state of the cycle must be taken. Strong: those enabled in some state.
        asked = set.intersection(*ready) if one.kind == "weak" else set.union(*ready)
        if asked - taken:
            return one
    return None


def _moves(semantics: Semantics, fairness: Fairness, state: State) -> Iterator[Transition]:
    steps = semantics.transitions(state)
    return (step for step in steps if step.target != state and _concerns(semantics, fairness, state, step))


def _concerns(semantics: Semantics, fairness: Fairness, state: State, step: Transition) -> bool:
    if not fairness.names(step.action):
        return False
    me = state.replicas.get(step.actor)
    return not fairness.when or is_meant(semantics.protocol, fairness, me, step.message)


def _whom(semantics: Semantics, fairness: Fairness, step: Transition) -> Any:
    own = step.action in semantics.network.own_actions()  # the network's own action has no actor
    actor, message = (None, None) if own else (step.actor, step.message)
    kind = None if message is None else type(message).__name__
    return whom(fairness, Label(step.action, actor, counterpart(message, step.step), kind))
