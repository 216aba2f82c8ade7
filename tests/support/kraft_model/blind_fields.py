"""Fields of which no property notices another value.

Properties are called as a search calls them, along random walks. Then one field of one record in their arguments gets
another value. A field is noticed where a property that held is false then, or raises.
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from enum import Enum
from itertools import islice
from typing import Any

from kraftcheck.spec import Map, ModelValue, Record, Step, ordered
from kraftcheck.spec.cfg.config import BoundConfig
from kraftcheck.spec.errors import RaisedError
from kraftcheck.spec.language.declarations import Property
from kraftcheck.spec.language.semantics import (
    Semantics,
    Transition,
    evaluate_property,
    initial_states,
    property_bindings,
    step_property_arguments,
)
from kraftcheck.spec.language.state import State
from kraftcheck.spec.values import field_names

Field = tuple[str, str]
"""A record's class and one of its fields."""

Call = dict[str, Any]
"""The arguments of a property, by name."""

STRANGER = ModelValue("stranger", 1_000)
"""A value that no replica, message or record has."""

WALKS, DEPTH = 15, 40
MOST_CALLS = 100
"""Calls of each property that are kept, of each configuration."""

OTHERS = 6
"""Values that a field has elsewhere and is given, besides a changed one."""


class BlindFields:
    """Fields of the records of a model's states and steps.

    Attributes
    ----------
    met
        All of them.
    noticed, noticed_in_states
        Those that some property notices, and some that says nothing of the acting replica: no contract.
    """

    def __init__(self) -> None:
        self.met: set[Field] = set()
        self.noticed: set[Field] = set()
        self.noticed_in_states: set[Field] = set()

    def look(self, given: BoundConfig) -> None:
        """Add what the properties of a configuration notice."""
        semantics = Semantics(given.protocol)
        calls, values = called(given, semantics)
        self.met |= set(values)
        for prop, made in calls.items():
            for call in made:
                for name in ("state",) if prop.reads else prop.asks:
                    for record, put in parts(call[name]):
                        self._look_at(semantics, prop, call, name, record, put, values)

    def _look_at(
        self,
        semantics: Semantics,
        prop: Property,
        call: Call,
        name: str,
        record: Record,
        put: Callable[[Any], Any],
        values: dict[Field, dict[Any, None]],
    ) -> None:
        for field in field_names(type(record)):
            where, value = (type(record).__name__, field), getattr(record, field)
            if where in (self.noticed if prop.of_actor else self.noticed_in_states):
                continue
            others = islice((other for other in values.get(where, ()) if other != value), OTHERS)
            for other in (*others, *changed(value)):
                if not holds(semantics, prop, {**call, name: put(record.but(**{field: other}))}):
                    self.noticed.add(where)
                    if not prop.of_actor:
                        self.noticed_in_states.add(where)
                    break


def called(given: BoundConfig, semantics: Semantics) -> tuple[dict[Property, list[Call]], dict[Field, dict[Any, None]]]:
    """Return calls of the properties of a configuration, on random walks that prefer rare actions, and fields' values.

    Properties of which a call is false are left out there.
    """
    draw, taken = random.Random(given.init), Counter[str]()
    properties = [prop for prop in given.properties if prop.kind in ("invariant", "step_invariant")]
    found: dict[Property, dict[Any, Call]] = {prop: {} for prop in properties}
    starts, seen = list(islice(initial_states(semantics, given.init), 50)), dict[Any, None]()
    for _ in range(WALKS):
        state = draw.choice(starts)
        for _ in range(DEPTH):
            seen |= dict.fromkeys([*state.replicas.values(), *state.inboxes.values(), state.shared])
            steps = list(semantics.transitions(state))
            if not steps:
                break
            (step,) = draw.choices(steps, [1 / (1 + taken[step.action]) ** 2 for step in steps])
            taken[step.action] += 1
            for prop in properties:
                made = _over_step(prop, state, step, given) if prop.over_steps else _of_state(semantics, prop, state)
                _keep(found[prop], prop, made, draw)
            state = step.target
    values: dict[Field, dict[Any, None]] = defaultdict(dict)
    for record in (record for value in seen for record, _ in parts(value)):
        for name in field_names(type(record)):
            values[type(record).__name__, name].setdefault(getattr(record, name))
    return {p: [call for call in c.values() if holds(semantics, p, call)] for p, c in found.items()}, values


def _keep(known: dict[Any, Call], prop: Property, calls: Iterator[Call], draw: random.Random) -> None:
    for call in calls:
        if len(known) >= MOST_CALLS:
            known.pop(next(islice(known, draw.randrange(MOST_CALLS), None)))
        known.setdefault(call["state"] if prop.reads else tuple(call[name] for name in prop.asks), call)


def _of_state(semantics: Semantics, prop: Property, state: State) -> Iterator[Call]:
    known: Call = {"shared": state.shared, "state": state}
    messages = [message for inbox in state.inboxes.values() for message in semantics.network.known(inbox)]
    about = property_bindings(prop, list(state.replicas.values()), messages)
    return iter([known]) if prop.reads else ({**known, **one} for one in about)


def _over_step(prop: Property, state: State, step: Transition, given: BoundConfig) -> Iterator[Call]:
    if prop.of_actor and step.actor is not None and step.action in given.protocol.actions:
        act = step_property_arguments(prop, state.replicas[step.actor], step.message, step.step)
        if act is not None:
            yield {**act, "shared": state.shared}
    for key, after in step.target.replicas.items() if not prop.of_actor else ():
        before = state.replicas.get(key)
        if before is not None and before != after and isinstance(after, prop.kinds("before")):
            yield {"before": before, "after": after, "shared": state.shared}


def holds(semantics: Semantics, prop: Property, call: Call) -> bool:
    """Return whether a property is true; one that raises is not."""
    try:
        if prop.reads:
            return semantics.falsifying(prop, call["state"]) is None
        return evaluate_property(semantics.protocol, prop, call)
    except (RaisedError, AttributeError, KeyError, TypeError):  # of a projection, too
        return False


def changed(value: Any) -> Iterator[Any]:
    """Yield other values of the same kind, or one that can stand in its place."""
    if isinstance(value, bool):
        yield not value
    elif isinstance(value, int):
        yield value + 1
    elif isinstance(value, Enum) and len(type(value)) > 1:
        yield next(one for one in type(value) if one is not value)
    elif isinstance(value, frozenset | tuple):
        yield type(value)((ordered(value) if isinstance(value, frozenset) else value)[1:])
        yield type(value)([*value, STRANGER])
    else:
        yield STRANGER


def parts(value: Any) -> Iterator[tuple[Record, Callable[[Any], Any]]]:
    """Yield the records in a value, each with a function that returns the value with another one in its place."""
    if isinstance(value, Record):
        if not isinstance(value, Step | State):
            yield value, lambda new: new
        for name in field_names(type(value)):
            yield from _within(getattr(value, name), lambda new, name=name: value.but(**{name: new}))
    elif isinstance(value, tuple):
        for place, one in enumerate(value):
            yield from _within(one, lambda new, place=place: (*value[:place], new, *value[place + 1 :]))
    elif isinstance(value, frozenset):
        for one in ordered(value):
            yield from _within(one, lambda new, one=one: (value - {one}) | {new})
    elif isinstance(value, Map):
        for key, one in value.items():
            yield from _within(one, lambda new, key=key: value.put(key, new))
            yield from _within(key, lambda new, key=key, one=one: value.without(key).put(new, one))


def _within(value: Any, put: Callable[[Any], Any]) -> Iterator[tuple[Record, Callable[[Any], Any]]]:
    return ((record, lambda new, inner=inner: put(inner(new))) for record, inner in parts(value))
