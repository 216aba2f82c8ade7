"""The steps that a walk can take next. Where a step leads is found out when it is chosen: most never are."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any, NamedTuple

from kraftcheck.kraft_model.quorum.records import Nil
from kraftcheck.kraft_model.quorum.state import Replica
from kraftcheck.spec import Record, State
from kraftcheck.spec.display import text_of
from kraftcheck.spec.language.semantics import Choice, Semantics, Transition
from kraftcheck.spec.values import Value


class Offer(NamedTuple):
    """An action, who may take it, and on which message; whether it is enabled is not known yet."""

    action: str  # as in `Transition`
    actor: Any
    message: Record | None
    inbox: Value | None = None  # the actor's inbox, where the step is the network's own; else None


Sort = tuple[object, ...]
"""What makes steps alike: the action, the actor's mode, and what its message is about."""

Card = dict[Sort, list[Offer]]
"""What one replica can be offered, by kind."""


class Menu:
    """What can be driven, for each state of a replica; most replicas stay as they are from step to step."""

    def __init__(self, semantics: Semantics, driven: Callable[[str, bool], bool]) -> None:
        self.semantics = semantics
        self._cards: dict[tuple[Value, Value, Value], Card] = {}
        actions = semantics.protocol.actions.values()
        self._alone = [action.name for action in actions if action.kind == "environment" and driven(action.name, False)]
        self._internal = [action for action in actions if action.kind == "internal" and driven(action.name, False)]
        self._handlers = [action for action in actions if action.kind == "on" and driven(action.name, True)]
        self._network = [name for name in semantics.network.own_actions() if driven(name, True)]
        self._of_type: dict[tuple[type, type], list[str]] = {}

    def card(self, key: Value, state: State) -> Card:
        """Return what a replica can be offered, or for None what the environment can."""
        if key is None:
            return {(name,): [Offer(name, None, None)] for name in self._alone}
        me = state.replicas[key]
        inbox = state.inboxes.get(key, self.semantics.network.empty)
        found = self._cards.get((me, inbox, state.shared))
        if found is None:
            found = self._cards[me, inbox, state.shared] = self._made(key, me, inbox)
        return found

    def _made(self, key: Value, me: Record, inbox: Value) -> Card:
        mode = me.mode if isinstance(me, Replica) else None
        card: Card = {}
        for action in self._internal:
            if isinstance(me, action.actors):
                card[action.name, mode] = [Offer(action.name, key, None)]
        for message in self.semantics.deliverable(inbox):
            told = about(message)
            if self.semantics.protocol.receives(me, message):
                for name in self._handlers_of(me, message):
                    card.setdefault((name, mode, *told), []).append(Offer(name, key, message))
            for name in self._network:
                card.setdefault((name, None, *told), []).append(Offer(name, key, message, inbox))
        return card

    def _handlers_of(self, me: Record, message: Record) -> list[str]:
        types = type(me), type(message)
        found = self._of_type.get(types)
        if found is None:
            fitting = (a for a in self._handlers if isinstance(me, a.actors) and isinstance(message, a.messages))
            found = self._of_type[types] = [action.name for action in fitting]
        return found


class Offers:
    """What can be driven in a state."""

    def __init__(self, menu: Menu, state: State) -> None:
        self.state = state
        self._semantics = menu.semantics
        self._known: dict[str, Value] = {}
        self._cards: dict[Value, Card] = {key: menu.card(key, state) for key in (*state.replicas, None)}

    @property
    def all(self) -> list[Offer]:
        """Every offer."""
        return [offer for _, alike in self.by_kind() for offer in alike]

    def by_kind(self) -> list[tuple[Sort, list[Offer]]]:
        """Return the offers, by replica and kind."""
        return [entry for card in self._cards.values() for entry in card.items()]

    def of(self, actor: Value) -> list[Offer]:
        """Return the offers to one replica."""
        return [offer for alike in self._cards[actor].values() for offer in alike]

    def outcomes(self, offer: Offer) -> list[Transition]:
        """Return the enabled steps of an offer, in the order of the model."""
        semantics, choices = self._semantics, tuple[Choice, ...]()
        if offer.inbox is None:
            action = semantics.protocol.actions[offer.action]
            me = None if offer.actor is None else self.state.replicas[offer.actor]
            steps = semantics.steps(action, me, offer.message, semantics.context(self.state, action, self._known))
            if not steps and not action.reads:
                self._strike(offer)
            choices = tuple(Choice(offer.action, offer.actor, offer.message, step) for step in steps)
        else:
            own = semantics.network_choices(offer.actor, offer.inbox)
            choices = tuple(c for c in own if c.action == offer.action and c.message == offer.message)
        found = (semantics.taken(self.state, choice) for choice in choices)
        return [transition for transition in found if transition is not None]

    def _strike(self, offer: Offer) -> None:
        """Leave out an offer that the replica does not take as long as it stays as it is."""
        card = self._cards[offer.actor]
        for kind, alike in card.items():
            if any(other is offer for other in alike):
                card[kind] = [other for other in alike if other is not offer]
                if not card[kind]:
                    del card[kind]
                return

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


TOLD = ("pre_vote", "granted", "error")
PARTS = ("records", "diverging", "snapshot")
"""Fields of a message that say which branch its handler takes: by their value, or by being there."""


@lru_cache(maxsize=1 << 14)
def about(message: Record | None) -> tuple[object, ...]:
    """Return what a message is about, without its numbers."""
    told = tuple(getattr(message, name, None) for name in TOLD)
    parts = tuple(getattr(message, name, Nil.NIL) not in (Nil.NIL, ()) for name in PARTS)
    return type(message).__name__, *told, *parts
