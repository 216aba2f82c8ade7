"""Evaluation of a trace's claim: a violated property, a deadlock, or a failed assert.

On a trace that ends in a loop, formulas are evaluated directly by their semantics on one infinite behaviour (a lasso).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from operator import and_, or_
from typing import Any, NamedTuple

from kraftcheck.explorer.transition_system import StepLabel, fairness_subject, peer_of_step
from kraftcheck.spec.errors import RaisedError
from kraftcheck.spec.language.declarations import GRAPH_PROPERTY_KINDS, REACHABLE, TEMPORAL, Property
from kraftcheck.spec.language.formula import (
    NEXT_ACTION,
    And,
    Atom,
    BooleanConstant,
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
from kraftcheck.spec.language.protocol import DEADLOCK, Protocol
from kraftcheck.spec.language.semantics import CandidateStep, Semantics, Transition, satisfies_fairness_predicate
from kraftcheck.spec.language.state import State
from kraftcheck.spec.values import truncate_text
from kraftcheck.traces.trace import InfiniteEnding, TraceHead


class LassoFormulaEvaluator:
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
            case BooleanConstant(value):
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
        choices = (one for one in self._semantics.choices(state) if not {NEXT_ACTION, one.action}.isdisjoint(actions))
        return any(self._may_be_taken(state, choice) for choice in choices)

    def _may_be_taken(self, state: State, choice: CandidateStep) -> bool:
        taken = self._semantics.taken(state, choice)
        if taken is not None:
            return taken.target != state
        return not self._strict and self._semantics.is_blocked(state, choice)

    def _is_taken(self, actions: frozenset[str], place: int) -> bool:
        action = self._actions[place]
        moves = self._states[place] != self._states[self._next[place]]
        return action is not None and moves and not {NEXT_ACTION, action}.isdisjoint(actions)


def first_violated_fairness(
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
        ready = [
            {
                _fairness_instance_of_step(semantics, one, step)
                for step in _steps_covered_by_fairness(semantics, one, states[place])
            }
            for place in cycle
        ]
        taken = {
            _fairness_instance_of_step(semantics, one, step)
            for place in cycle
            if states[place] != following[place]
            for step in steps[place]
            if _fairness_covers_step(semantics, one, states[place], step)
        }
        # Weak fairness: steps enabled in every state of the cycle must be taken. Strong: those enabled in some state.
        asked = set.intersection(*ready) if one.kind == "weak" else set.union(*ready)
        if asked - taken:
            return one
    return None


def _steps_covered_by_fairness(semantics: Semantics, fairness: Fairness, state: State) -> Iterator[Transition]:
    steps = semantics.transitions(state)
    return (step for step in steps if step.target != state and _fairness_covers_step(semantics, fairness, state, step))


def _fairness_covers_step(semantics: Semantics, fairness: Fairness, state: State, step: Transition) -> bool:
    if not fairness.names(step.action):
        return False
    me = state.replicas.get(step.actor)
    return not fairness.when or satisfies_fairness_predicate(semantics.protocol, fairness, me, step.message)


def _fairness_instance_of_step(semantics: Semantics, fairness: Fairness, step: Transition) -> Any:
    own = step.action in semantics.network.own_actions()  # the network's own action has no actor
    actor, message = (None, None) if own else (step.actor, step.message)
    kind = None if message is None else type(message).__name__
    return fairness_subject(fairness, StepLabel(step.action, actor, peer_of_step(message, step.step), kind))


MOST_PROBLEM_CHARACTERS = 80
"""Maximum length of a tool's error message in a claim."""

_FAILED_ASSERT_MESSAGE = re.compile(r"An assert failed in (\w+)\.")


Transitions = Sequence[Transition]


class ClaimVerdict(StrEnum):
    """The verdict on a claim."""

    SHOWN = "shown"
    REFUTED = "refuted"
    UNKNOWN = "not evaluated"


class ClaimWithVerdict(NamedTuple):
    """The claim of a trace with its verdict."""

    what: str  # such as "a violation of MutualExclusion"
    verdict: ClaimVerdict
    says: str  # the reason of the verdict, as a clause
    at_end: bool = True  # whether the last state, the last step or the whole trace shows it


@dataclass
class ClaimEvaluator:
    """Evaluates the claim of one trace during its replay."""

    protocol: Protocol  # the protocol, with its constants
    # assumed by temporal properties, besides the fairness that each property declares
    fairness: Sequence[Fairness]
    head: TraceHead
    temporal: Sequence[str] = ()  # the names of the checked temporal properties
    leaves_out: str = ""  # the gap of an incomplete trace, as a clause
    _false_in: int | None = None
    _last: int = 0
    _states: list[State] = field(default_factory=list)
    _steps: list[Transitions] = field(default_factory=list)
    _actions: list[str | None] = field(default_factory=list)

    def __post_init__(self) -> None:
        problem = self.head.problem or ""
        assertion = _FAILED_ASSERT_MESSAGE.fullmatch(problem)
        self._failed = assertion and assertion[1]
        self._name = self.head.violated or (DEADLOCK if problem.startswith("Deadlock reached") else None)
        if self._name is None and problem.startswith("Temporal properties") and len(self.temporal) == 1:
            (self._name,) = self.temporal
        self._prop: Property | None = self.protocol.properties.get(self._name or "")

    def take(self, semantics: Semantics, found: tuple[int, State], named: Transitions, leading: Transitions) -> None:
        """Evaluate the claim in the next state; `leading` are the steps to it, `named` those of the trace's action."""
        number, state = found
        before = self._states[-1] if self._states else None
        if self._name is None and self._failed is None:
            return
        if self._prop is None or self._prop.kind != TEMPORAL:
            self._states.clear()
        elif before is not None:
            self._steps.append(leading)
            self._actions.append(named[0].action if named else None)
        self._states.append(state)
        self._last = number
        if self._false_in is None and not self._holds(semantics, before, state, named):
            self._false_in = number

    def _holds(self, semantics: Semantics, before: State | None, state: State, steps: Transitions) -> bool:
        """Whether the claimed property holds in a state, or over the step to it."""
        prop = self._prop
        if prop is None or prop.kind in GRAPH_PROPERTY_KINDS:
            return True
        if not prop.over_steps:
            return semantics.holds(prop, state)
        if before is None:
            return semantics.begins(prop, state)
        return all(semantics.step_satisfies(prop, before, step) for step in steps)

    def judge(
        self, semantics: Semantics, ending: InfiniteEnding | None, *, is_cut: bool = False, has_gaps: bool = False
    ) -> ClaimWithVerdict | None:
        """Return the claim with its verdict; None for a trace without a claim. A cut trace lacks its end."""
        claim = self._judged(semantics, ending)
        if claim is None or claim.verdict is not ClaimVerdict.REFUTED:
            return claim
        if is_cut:
            return claim._replace(verdict=ClaimVerdict.UNKNOWN, says="the trace is cut")
        if has_gaps and self._prop is not None and (self._prop.over_steps or self._prop.kind == TEMPORAL):
            return claim._replace(verdict=ClaimVerdict.UNKNOWN, says="the trace leaves states out")
        return claim

    def _judged(self, semantics: Semantics, ending: InfiniteEnding | None) -> ClaimWithVerdict | None:
        if self._failed is not None:
            return self._assertion(semantics, self._failed)
        if self._name == DEADLOCK and self._prop is None:
            return self._deadlock(semantics)
        if self._name is not None:
            return self._violation(semantics, ending, self._name)
        if self.head.problem is None:
            return None
        return ClaimWithVerdict(
            f"'{truncate_text(self.head.problem, MOST_PROBLEM_CHARACTERS)}'",
            ClaimVerdict.UNKNOWN,
            "it names no property",
        )

    def _deadlock(self, semantics: Semantics) -> ClaimWithVerdict:
        step = next(semantics.transitions(self._states[-1]), None)
        if step is None:
            return ClaimWithVerdict("a deadlock", ClaimVerdict.SHOWN, "nothing is enabled in its last state")
        return ClaimWithVerdict("a deadlock", ClaimVerdict.REFUTED, f"{step.action} is enabled in its last state")

    def _violation(self, semantics: Semantics, ending: InfiniteEnding | None, name: str) -> ClaimWithVerdict:
        prop, what = self._prop, f"a violation of {name}"
        if prop is None:
            return ClaimWithVerdict(what, ClaimVerdict.UNKNOWN, f"{self.protocol.name()} has no property {name}")
        if prop.kind == REACHABLE:
            return ClaimWithVerdict(what, ClaimVerdict.UNKNOWN, "a reachability property depends on all states")
        if prop.kind == TEMPORAL:
            if self.leaves_out:
                return ClaimWithVerdict(what, ClaimVerdict.UNKNOWN, self.leaves_out)
            if ending is None:
                return ClaimWithVerdict(what, ClaimVerdict.UNKNOWN, "the trace does not show its infinite continuation")
            return self._lasso(semantics, ending, prop, what)
        if self._false_in is None:
            where = "is kept by all its steps" if prop.over_steps else "holds in all its states"
            return ClaimWithVerdict(what, ClaimVerdict.REFUTED, f"{name} {where}")
        where = f"state {self._false_in}"
        says = f"the step to {where} breaks {name}" if prop.over_steps else f"{name} is false in {where}"
        return ClaimWithVerdict(what, ClaimVerdict.SHOWN, says, self._false_in == self._last)

    def _lasso(self, semantics: Semantics, ending: InfiniteEnding, prop: Property, what: str) -> ClaimWithVerdict:
        """Evaluate a lasso: whether it is fair and violates the temporal property.

        Bounds may belong to the specification or not. The reading in favour of the claim decides.
        """
        states, steps, actions = self._states, self._steps, self._actions
        if ending.back_to is None:
            back_to, steps, actions = len(states) - 1, [*steps, ()], [*actions, None]
        else:
            back_to, states = ending.back_to - 1, states[:-1]
        formula = prop.formula(self.protocol)
        readings = (
            LassoFormulaEvaluator(semantics, states, actions, back_to, strict_bounds=strict) for strict in (True, False)
        )
        if all(reading.holds(formula) for reading in readings):
            return ClaimWithVerdict(what, ClaimVerdict.REFUTED, f"{prop.name} is true of the behaviour")
        broken = first_violated_fairness(semantics, (*self.fairness, *prop.fairness), states, steps, back_to)
        if broken is not None:
            return ClaimWithVerdict(what, ClaimVerdict.REFUTED, f"the behaviour is not fair: {broken}")
        return ClaimWithVerdict(what, ClaimVerdict.SHOWN, f"{prop.name} is false of the behaviour")

    def _assertion(self, semantics: Semantics, name: str) -> ClaimWithVerdict:
        what = f"an assert that fails in {name}"
        evaluate = self._evaluation(semantics, name)
        if evaluate is None:
            return ClaimWithVerdict(what, ClaimVerdict.UNKNOWN, f"{self.protocol.name()} has no {name}")
        try:
            evaluate(self._states[-1])
        except RaisedError as error:
            if not error.is_assertion or error.name != name:
                raise
            return ClaimWithVerdict(what, ClaimVerdict.SHOWN, "it fails in its last state")
        return ClaimWithVerdict(what, ClaimVerdict.REFUTED, "none fails in its last state")

    def _evaluation(self, semantics: Semantics, name: str) -> Callable[[State], object] | None:
        """Return a function that evaluates an action or a property in a state; None if the name is unknown."""
        prop = self.protocol.properties.get(name)
        if prop is None:
            return (lambda state: list(semantics.transitions(state))) if name in self.protocol.actions else None
        if prop.kind in GRAPH_PROPERTY_KINDS:
            return None
        if not prop.over_steps:
            return lambda state: semantics.holds(prop, state)
        return lambda state: [semantics.step_satisfies(prop, state, step) for step in semantics.transitions(state)]
