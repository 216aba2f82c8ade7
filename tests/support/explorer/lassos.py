"""What makes a counterexample to a temporal property one, straight from the definitions."""

from __future__ import annotations

import itertools
from typing import Any

from kraftcheck.explorer.result import SearchRequest, TraceStep, Violation
from kraftcheck.explorer.transition_system import peer_of_step
from kraftcheck.spec.language.formula import NEXT_ACTION, Fairness
from kraftcheck.spec.language.protocol import Protocol
from kraftcheck.spec.language.semantics import Semantics, Transition
from kraftcheck.spec.language.state import State, Step
from kraftcheck.traces.replay.claims import LassoFormulaEvaluator


def require_counterexample(protocol: Protocol, options: SearchRequest, violation: Violation) -> None:
    """Fail unless a violation is a behaviour of the protocol that is fair and breaks the property."""
    semantics, loop = Semantics(protocol), violation.loop
    assert loop is not None
    trace = [*violation.trace, *([loop.again] if loop.again else [])]
    assert trace[0].state in protocol.checked_initial()
    for before, after in itertools.pairwise(trace):
        assert step_between(semantics, before.state, after) is not None
    if loop.again:
        assert loop.again.state == trace[loop.back_to - 1].state
    else:
        assert loop.back_to == len(trace)
    prop = next(one for one in options.temporal if one.name == violation.property)
    states = [step.state for step in violation.trace]
    actions = [*(step.action for step in trace[1:]), *([] if loop.again else [None])]
    assert not LassoFormulaEvaluator(semantics, states, actions, loop.back_to - 1).holds(prop.formula(protocol))
    cycle = trace[loop.back_to - 1 :] if loop.again else trace[-1:]
    for fairness in (*options.fairness, *prop.fairness):
        require_fair(semantics, fairness, cycle)


def step_between(semantics: Semantics, before: State, after: TraceStep) -> Transition | None:
    return next(
        (
            one
            for one in semantics.transitions(before)
            if (one.target, one.action, one.actor, one.message)
            == (after.state, after.action, after.actor, after.message)
        ),
        None,
    )


def whom(fairness: Fairness, actor: object, message: Any, step: Step) -> object:
    peer = peer_of_step(message, step)
    return {"": None, "replica": actor, "pair": (actor, peer), "message": message and type(message)}[fairness.each]


def taken_by(semantics: Semantics, before: TraceStep, after: TraceStep) -> Step:
    found = step_between(semantics, before.state, after)
    assert found is not None
    return found.step


def require_fair(semantics: Semantics, fairness: Fairness, cycle: list[TraceStep]) -> None:
    """Fail unless a cycle, whose first state is its last one too, keeps fairness."""
    states = [step.state for step in cycle[1:]] or [cycle[0].state]
    ready = []
    for state in states:
        found = set()
        for one in semantics.transitions(state):
            if one.target != state and (NEXT_ACTION in fairness.actions or one.action in fairness.actions):
                own = one.action in semantics.network.own_actions()
                found.add(whom(fairness, None if own else one.actor, None if own else one.message, one.step))
        ready.append(found)
    taken = {
        whom(fairness, step.actor, step.message, taken_by(semantics, before, step))
        for before, step in itertools.pairwise(cycle)
        if before.state != step.state and (NEXT_ACTION in fairness.actions or step.action in fairness.actions)
    }
    always = set.intersection(*ready) if fairness.kind == "weak" else set.union(*ready)
    assert always <= taken, f"{fairness} is not kept"
