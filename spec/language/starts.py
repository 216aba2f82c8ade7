"""Where a search starts: the protocol's initial states, or the end of a named scenario."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from kraftcheck.spec.errors import ProtocolError
from kraftcheck.spec.language.action import camel_case
from kraftcheck.spec.language.state import State
from kraftcheck.spec.values import Record, Value

if TYPE_CHECKING:
    from kraftcheck.spec.language.semantics import Semantics, Transition


class Take(NamedTuple):
    """One step of a scenario: the action, and as much of the rest as is needed to tell it from others.

    Attributes
    ----------
    action
        The action's name.
    actor
        The id of who takes it, or None for anyone.
    message
        Fields that the delivered message must have.
    result
        What must be true of the next state, given the acting replica's next state; for choices within an action.
    """

    action: str
    actor: Value = None
    message: dict[str, Value] = {}
    result: Callable[[Any], bool] | None = None


def take(
    action: str, actor: Value = None, result: Callable[[Any], bool] | None = None, **message: Value
) -> Take:
    """Return one step of a scenario: `take("HandleRequestVoteRequest", n2, source=n1)`."""
    return Take(action, actor, message, result)


def scenario(function: Callable[..., Iterator[Take]]) -> Callable[..., Iterator[Take]]:
    """Mark a method as a named start: it yields the steps that lead there from the initial state.

    A `.cfg` names it under INIT, in camel case.
    """
    function.scenario = camel_case(function.__name__)  # type: ignore[attr-defined]
    return function


def start_names(protocol: type | object) -> dict[str, str]:
    """Return the names that INIT may use, with the methods behind them."""
    owner = protocol if isinstance(protocol, type) else type(protocol)
    names = {"Init": "initial"}
    for method in dir(owner):
        name = getattr(getattr(owner, method), "scenario", None)
        if name is not None:
            names[name] = method
    return names


def initial_states(semantics: Semantics, init: str) -> list[State]:
    """Return the states that a search starts from.

    Parameters
    ----------
    semantics
        The protocol's semantics.
    init
        "Init" or the name of a scenario.

    Raises
    ------
    ProtocolError
        Where a scenario has a step that is not enabled, naming the step.
    """
    states = semantics.initial()
    if init == "Init":
        return states
    method = start_names(semantics.protocol)[init]
    state = states[0]
    for number, chosen in enumerate(getattr(semantics.protocol, method)(), start=1):
        state = follow(semantics, state, chosen, f"step {number} of {init}").target
    return [state]


def follow(semantics: Semantics, state: State, chosen: Take, where: str = "the step") -> Transition:
    """Return the transition that a scenario's step chooses out of a state.

    Raises
    ------
    ProtocolError
        Where none fits, or several that lead to different states do.
    """
    fitting = [t for t in semantics.transitions(state) if _fits(chosen, t)]
    if not fitting:
        enabled = sorted({t.action for t in semantics.transitions(state)})
        raise ProtocolError(f"{where}: {_described(chosen)} is not enabled; enabled are {', '.join(enabled)}")
    if len({t.target for t in fitting}) > 1:
        raise ProtocolError(f"{where}: {_described(chosen)} can be taken in {len(fitting)} ways; say more of it")
    return fitting[0]


def _fits(chosen: Take, transition: Transition) -> bool:
    if transition.action != chosen.action or chosen.actor not in (None, transition.actor):
        return False
    if any(getattr(transition.message, name, None) != value for name, value in chosen.message.items()):
        return False
    if chosen.result is None:
        return True
    me: Record | None = transition.target.replicas.get(transition.actor) if transition.actor is not None else None
    return chosen.result(me if me is not None else transition.target)


def _described(chosen: Take) -> str:
    parts = [chosen.action]
    if chosen.actor is not None:
        parts.append(f"by {chosen.actor!r}")
    parts += [f"{name} = {value!r}" for name, value in chosen.message.items()]
    return " ".join(parts)
