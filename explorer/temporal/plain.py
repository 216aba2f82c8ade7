"""The state graph with what its steps are called, made with the reference semantics."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from kraftcheck.explorer.reachability import Goals
from kraftcheck.explorer.result import Options
from kraftcheck.explorer.temporal.conditions import all_fairness
from kraftcheck.explorer.temporal.graph import LabelBook, LabelledGraph, Marks, StepsBySource
from kraftcheck.explorer.temporal.room import Room
from kraftcheck.spec.language.property import Property
from kraftcheck.spec.language.semantics import Choice, Refusal, Semantics
from kraftcheck.spec.language.starts import initial_states
from kraftcheck.spec.language.state import State

AMPLE = 1 << 40
"""Bytes of memory: what the reference engine visits is small."""


def labelled(
    semantics: Semantics,
    options: Options,
    states: list[State],
    number_of: Callable[[State], int | None],
    goals: Goals,
) -> LabelledGraph:
    """Return the graph for temporal properties."""
    protocol = semantics.protocol
    book = LabelBook([*protocol.actions, *protocol.network.own_actions()], all_fairness(options))
    edges: list[tuple[int, int, int]] = []
    beyond: list[tuple[int, int]] = []
    blocked: list[tuple[int, int]] = []
    for source, state in enumerate(states):
        for choice in semantics.choices(state):
            own = choice.inbox is not None  # the network's own step, which nobody takes
            actor, message = (None, None) if own else (choice.actor, choice.message)
            label = book.number(choice.action, actor, message, choice.step)
            transition = semantics.taken(state, choice)
            if transition is None:
                blocked += [(source, label)] if is_blocked(semantics, state, choice) else []
                continue
            target = number_of(transition.target)
            within = all(semantics.holds_over(c, state, transition.target) for c in options.action_constraints)
            if target is None or not within:
                beyond.append((source, label))
            else:
                edges.append((source, target, label))
    ends = np.array(edges, np.int64).reshape(-1, 3)
    room = Room(AMPLE)
    steps = StepsBySource(len(states), room)
    steps.append(0, len(states), ends[:, 0], ends[:, 1].astype(np.int32), ends[:, 2].astype(np.uint16))
    used = np.bincount(ends[:, 2], minlength=len(book.labels)) > 0

    def holds(prop: Property) -> NDArray[np.bool_]:
        return np.array([goals.holds(prop, state) for state in states], bool)

    starts = len({number_of(state) for state in initial_states(semantics, options.init)} - {None})
    return LabelledGraph(len(states), starts, steps, used, book, _marks(beyond), _marks(blocked), holds, room)


def _marks(found: list[tuple[int, int]]) -> Marks:
    pairs = np.array(found, np.int64).reshape(-1, 2)
    return Marks(pairs[:, 0].astype(np.int32), pairs[:, 1].astype(np.uint16))


def is_blocked(semantics: Semantics, state: State, choice: Choice) -> bool:
    """Return whether a bound alone keeps a step from being taken, which would change the state."""
    free = choice.step.but(spends=(), needs=())
    if choice.inbox is None:
        refused = semantics.apply(state, choice.actor, choice.message, choice.step)
        if not isinstance(refused, Refusal) or refused.kind != "bound":
            return False
    target = semantics.taken(state, choice._replace(step=free))
    return target is not None and target.target != state
