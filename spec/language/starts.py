"""The states from which a search starts: the protocol's initial states, or the end of a named scenario."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from inspect import unwrap
from typing import Any, NamedTuple

from kraftcheck.spec.errors import FORGOT_YIELD, ProtocolError, unknown
from kraftcheck.spec.kinds import describe_value
from kraftcheck.spec.language.action import camel_case
from kraftcheck.spec.language.calling import line_of
from kraftcheck.spec.language.protocol import Protocol
from kraftcheck.spec.language.semantics import Semantics, Transition
from kraftcheck.spec.language.state import State
from kraftcheck.spec.values import Record, Value


class Take(NamedTuple):
    """One step of a scenario: an action, and as much more as tells the step from others.

    Attributes
    ----------
    action
        The action's name.
    actor
        The id of the replica that takes it; None for any.
    message
        Fields that the delivered message must have.
    result
        A predicate of the acting replica's next state (without a replica: of the next state), which tells apart the
        steps of an action that chooses.
    """

    action: str
    actor: Value = None
    message: dict[str, Value] = {}
    result: Callable[[Any], bool] | None = None


def take(
    action: str, actor: Value = None, result: Callable[[Any], bool] | None = None, **message: Value
) -> Take:
    """Return one step of a scenario: `take("HandleRequestVoteRequest", n2, source=n1)`.

    Parameters
    ----------
    action
        The action's name.
    actor
        The id of the replica that takes it; None for any.
    result
        A predicate of the acting replica's next state (without a replica: of the next state).
    **message
        Fields that the delivered message must have.
    """
    return Take(action, actor, message, result)


def scenario(function: Callable[..., Iterator[Take]]) -> Callable[..., Iterator[Take]]:
    """Mark a method as a scenario: it yields the steps that lead from the first initial state to a named start.

    A `.cfg` names the start under INIT, in camel case.
    """
    function.scenario = camel_case(function.__name__)  # type: ignore[attr-defined]
    return function


def start_names(protocol: type | object) -> dict[str, str]:
    """Return the names that INIT may use, each with its method."""
    owner = protocol if isinstance(protocol, type) else type(protocol)
    names = {"Init": "initial"}
    for method in dir(owner):
        name = getattr(getattr(owner, method), "scenario", None)
        if name is not None:
            names[name] = method
    return names


def initial_states(semantics: Semantics, init: str) -> list[State]:
    """Return the states that a search starts from."""
    states = semantics.initial()
    if init == "Init":
        return states
    state = states[0]
    for number, chosen in enumerate(way_to(semantics.protocol, init), start=1):
        state = follow(semantics, state, chosen, f"step {number} of {init}").target
    return [state]


def way_to(protocol: Protocol, init: str) -> Iterator[Take]:
    """Yield the steps from the first initial state to a named start; none where it is "Init"."""
    if init == "Init":
        return
    method = getattr(protocol, start_names(protocol)[init])
    made = method()
    if not isinstance(made, Iterable):
        raise ProtocolError(f"{_place(method)}: {init} returned {describe_value(made)}; {FORGOT_YIELD}")
    for number, chosen in enumerate(made, start=1):
        problem = _breach(protocol, chosen)
        if problem is not None:
            raise ProtocolError(f"{_place(method, line_of(made))}: step {number} of {init}: {problem}")
        yield chosen


def _breach(protocol: Protocol, chosen: object) -> str | None:
    """Return in what respect something that a scenario yields is no step; None if it is one."""
    if not isinstance(chosen, Take):
        return f'expected take("Action", ...), found {describe_value(chosen)}'
    actions = [*protocol.actions, *protocol.network.own_actions()]
    if chosen.action not in actions:
        return unknown("action", str(chosen.action), actions, type(protocol).__name__)
    if chosen.result is not None and not callable(chosen.result):
        expected = "a function of the actor's next state, such as lambda me: me.ready"
        return f"result=: expected {expected}, found {describe_value(chosen.result)}"
    return None


def _place(method: Callable[..., Any], line: int | None = None) -> str:
    """Return the file and a line of a scenario, by default its first."""
    code = unwrap(method).__code__
    return f"{code.co_filename}:{line or code.co_firstlineno}"


def follow(
    semantics: Semantics, state: State, chosen: Take, where: str = "the step", *, any_outcome: bool = False
) -> Transition:
    """Return the transition that a step of a scenario chooses in a state."""
    fitting = [t for t in semantics.transitions(state) if _fits(chosen, t)]
    if not fitting:
        enabled = sorted({t.action for t in semantics.transitions(state)})
        raise ProtocolError(f"{where}: {_described(chosen)} is not enabled; enabled are {', '.join(enabled)}")
    if len({t[:3] if any_outcome else t.target for t in fitting}) > 1:
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
