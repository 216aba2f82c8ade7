"""Behaviours: paths of states with the steps along them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from kraftcheck.explorer.result import TraceStep, Unmapped
from kraftcheck.spec.encoding import encode
from kraftcheck.spec.errors import InputError, RaisedError
from kraftcheck.spec.language.declarations import Property
from kraftcheck.spec.language.semantics import Semantics, Transition
from kraftcheck.spec.language.state import State

Behaviour = tuple[TraceStep, ...]


class NoSuchPathError(InputError):
    """Raised when the reference semantics cannot follow a path of states, for example after an impure action."""

    def __init__(self, semantics: Semantics, problem: str) -> None:
        super().__init__(
            f"{semantics.protocol.name()}: the behaviour found cannot be replayed: {problem}; most likely an"
            " action is not pure, as kraftcheck check --check-actions shows"
        )


def unmapped(semantics: Semantics, prop: Property, trace: Behaviour) -> Unmapped:
    """Return the abstract states of the last step of a behaviour under a refinement mapping."""
    refinement = semantics.refinement(prop)
    ends = [refinement.mapped[refinement.number(step.state)] for step in trace[-2:]]
    return Unmapped(ends[0] if len(ends) > 1 else None, ends[-1])


def step_of(transition: Transition) -> TraceStep:
    """Return a transition as a step of a behaviour."""
    return TraceStep(transition.target, transition.action, transition.actor, transition.message)


def behaviour_along(
    semantics: Semantics,
    path: Sequence[Any],
    *,
    actions: Sequence[str] | None = None,
    starts: Iterable[State] = (),
    class_of: Callable[[State], Any] | None = None,
) -> Behaviour:
    """Return a behaviour of the reference semantics along a path of states, or of their classes."""
    see = class_of or (lambda state: state)
    first = next((state for state in (starts if class_of else path[:1]) if see(state) == path[0]), None)
    if first is None:
        raise NoSuchPathError(semantics, "it begins in no initial state")
    steps = [TraceStep(first)]
    for number, wanted in enumerate(path[1:]):
        fitting = [
            taken
            for taken in semantics.transitions(steps[-1].state)
            if (actions is None or taken.action == actions[number]) and see(taken.target) == wanted
        ]
        if not fitting:
            raise NoSuchPathError(semantics, f"no step leads from its state {number + 1} to the next")
        steps.append(step_of(canonical_first(fitting)))
    return tuple(steps)


def canonical_first(transitions: Iterable[Transition]) -> Transition:
    """Return the transition that comes first in canonical order: by action, actor, message and target."""

    def order(taken: Transition) -> tuple[str, bytes]:
        parts = (taken.actor, taken.message, taken.target)
        return taken.action, b"".join(encode(() if part is None else part) for part in parts)

    found = list(transitions)
    return found[0] if len(found) == 1 else min(found, key=order)


def find_raising_step(semantics: Semantics, properties: Iterable[Property], state: State) -> RaisedError | None:
    """Take every step out of a state and check its target; return the first error that a method raises."""
    trace: Behaviour = ()
    try:
        for taken in semantics.transitions(state):
            trace = (step_of(taken),)
            for prop in properties:
                if prop.over_steps:
                    semantics.step_satisfies(prop, state, taken)
                else:
                    semantics.holds(prop, taken.target)
            trace = ()
    except RaisedError as error:
        error.trace = trace
        return error
    return None
