"""The steps that a walk can take next. Where a step leads is found out when it is chosen: most never are."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any, NamedTuple

from kraftcheck.spec import Record, State
from kraftcheck.spec.display import text_of
from kraftcheck.spec.language.semantics import Choice, Semantics, Transition
from kraftcheck.spec.values import Value


class Offer(NamedTuple):
    """An action, who may take it, and on which message; whether it is enabled is not known yet.

    Attributes
    ----------
    action, actor, message
        As in `Transition`.
    choices
        Its steps, where they are the network's own; else None.
    """

    action: str
    actor: Any
    message: Record | None
    choices: tuple[Choice, ...] | None = None


class Offers:
    """What can be driven in a state.

    Parameters
    ----------
    semantics
        The model.
    state
        The state.
    driven
        Whether Kafka can be made to take an action, given whether it delivers a message.
    """

    def __init__(self, semantics: Semantics, state: State, driven: Callable[[str, bool], bool]) -> None:
        self.state = state
        self._semantics = semantics
        self._known: dict[str, Value] = {}
        self.all: list[Offer] = [
            Offer(action.name, actor, message)
            for action, actor, message in semantics.candidates(state)
            if driven(action.name, message is not None)
        ]
        for choice in semantics.network_choices(state):
            if driven(choice.action, True):
                self.all.append(Offer(choice.action, choice.actor, choice.message, (choice,)))

    def outcomes(self, offer: Offer) -> list[Transition]:
        """Return the enabled steps of an offer, in the order of the model."""
        choices = offer.choices
        if choices is None:
            action = self._semantics.protocol.actions[offer.action]
            me = None if offer.actor is None else self.state.replicas[offer.actor]
            given = self._semantics.context(self.state, action, self._known)
            steps = self._semantics.steps(action, me, offer.message, given)
            choices = tuple(Choice(offer.action, offer.actor, offer.message, step) for step in steps)
        found = (self._semantics.taken(self.state, choice) for choice in choices)
        return [transition for transition in found if transition is not None]

    def enabled(self) -> Iterator[Transition]:
        """Yield every enabled step."""
        return (transition for offer in self.all for transition in self.outcomes(offer))


Chosen = tuple[list[Transition], int]
"""The enabled steps of one offer, and which of them is chosen."""


class Taken(NamedTuple):
    """A step of a walk: the action, who took it, on which message, and which of several outcomes, from 1 on."""

    action: str
    actor: object
    message: Record | None
    outcome: int = 1


@lru_cache(maxsize=1 << 14)
def text_of_message(message: Record | None) -> str:
    """Return a message as walk files have it; "" where there is none."""
    return "" if message is None else text_of(message)
