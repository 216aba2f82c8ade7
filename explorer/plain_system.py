"""Transition system of the reference semantics, and the states of a search: whole states, no compiled code."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from kraftcheck.explorer.behaviour import Behaviour
from kraftcheck.explorer.canonical import canonicalizer
from kraftcheck.explorer.result import SearchRequest
from kraftcheck.explorer.transition_system import BEYOND, BLOCKED, ROUND, LabelTable, Mask, Numbers, Steps
from kraftcheck.spec.language.declarations import Property
from kraftcheck.spec.language.semantics import CandidateStep, Semantics, Transition, initial_states
from kraftcheck.spec.language.state import State
from kraftcheck.spec.values import Value

BATCH = 1_000  # states of a batch of the state graph


class PlainSystem:
    """A `TransitionSystem` whose batches are lists of states."""

    def __init__(self, semantics: Semantics, options: SearchRequest) -> None:
        protocol = semantics.protocol
        self.semantics, self.options = semantics, options
        self.actions = [*protocol.actions, *protocol.network.own_actions()]
        self._place = {name: place for place, name in enumerate(self.actions)}

    @cached_property
    def labels(self) -> LabelTable:
        """The table of step labels, with the details that the fairness conditions distinguish."""
        return LabelTable(self.semantics.protocol, self.actions, self.options.all_fairness)

    @cached_property
    def renames(self) -> Callable[[State, int | None], State] | None:
        """The function by which the view renames states, or None."""
        return self.semantics.protocol.renames(self.options.view)

    @cached_property
    def identity(self) -> Callable[[State], Value]:
        """The function from a state to its canonical key."""
        return canonicalizer(self.semantics.protocol, self.options.symmetry, self.options.view)

    # One state

    def is_within(self, state: State) -> bool:
        """Whether a state satisfies the constraints."""
        return all(self.semantics.holds(one, state) for one in self.options.constraints)

    def allows(self, before: State, after: State) -> bool:
        """Whether a step satisfies the action constraints."""
        return all(self.semantics.holds_over(one, before, after) for one in self.options.action_constraints)

    def goes_on(self, before: State, after: State) -> bool:
        """Whether a search expands the target of a step: the constraints and action constraints hold."""
        return self.is_within(after) and self.allows(before, after)

    def transitions(self, state: State) -> list[Transition]:
        """Return the transitions out of a state in the order of declared actions, as TLC evaluates Next."""
        return sorted(self.semantics.transitions(state), key=lambda one: self._place[one.action])

    # A batch

    def initial(self) -> list[State]:
        """Return the initial states."""
        return initial_states(self.semantics, self.options.init)

    def successors(self, states: list[State], which: NDArray[np.int64]) -> Iterator[Steps]:
        """Yield the steps out of some states."""
        found: list[tuple[int, Value, int, int]] = []
        for place in which.tolist():
            state = states[place]
            for choice in self.semantics.choices(state):
                key, end = self._end(state, choice)
                if end is not None:
                    own = choice.inbox is not None  # the network's own step has no actor
                    me, message = (None, None) if own else (state.replicas.get(choice.actor), choice.message)
                    found.append((place, key, end, self.labels.number(choice.action, me, message, choice.step)))
        places, keys, ends, labels = zip(*found, strict=True) if found else ((), (), (), ())
        yield Steps(np.array(places, np.int64), keys, np.array(ends, np.int32), np.array(labels, np.uint16))

    def _end(self, state: State, choice: CandidateStep) -> tuple[Value, int | None]:
        """Return the canonical key of a choice's target, and 0 or ROUND; else () and BEYOND, BLOCKED or None."""
        transition = self.semantics.taken(state, choice)
        if transition is None:
            blocked = bool(self.options.temporal) and self.semantics.is_blocked(state, choice)
            return (), BLOCKED if blocked else None
        if not self.allows(state, transition.target):
            return (), BEYOND
        return self.identity(transition.target), ROUND if self.is_round(state, transition.target) else 0

    def is_round(self, state: State, target: State) -> bool:
        """Whether a step only renames the state: the view identifies its source and its target, which differ."""
        if self.renames is None or self.identity(state) != self.identity(target):
            return False
        one, other = self.renames(state, None), self.renames(target, None)
        return one.but(spent=other.spent) != other

    def holds(self, prop: Property, states: list[State], judge: Callable[[Property, State], bool]) -> Mask:
        """Return for each state whether a property holds."""
        return np.array([judge(prop, state) for state in states], bool)

    def canonical(self, states: list[State]) -> list[Value]:
        """Return the canonical key of each state."""
        return list(map(self.identity, states))

    def decode(self, states: list[State]) -> list[State]:
        """Return the batch unchanged: it is a list of states already."""
        return states


class StoredStates:
    """`StateStore` of the states of a finished search, in memory by number and by canonical key."""

    def __init__(
        self, states: list[State], numbers: dict[Value, int], starts: int, path_to: Callable[[State], Behaviour]
    ) -> None:
        self._states, self._numbers, self._path_to = states, numbers, path_to
        self.count = len(states)
        self.starts = starts

    def chunks(self, *, backwards: bool) -> Iterator[tuple[int, list[State]]]:
        """Yield the states in batches, each with the number of its first state."""
        firsts = range(0, self.count, BATCH)
        for first in reversed(firsts) if backwards else firsts:
            yield first, self._states[first : first + BATCH]

    def numbers(self, keys: Sequence[Value], which: NDArray[np.int64]) -> Numbers:
        """Return for each key of keys[which] the number of the state with this key; BEYOND if it was not visited."""
        return np.array([self._numbers.get(keys[place], BEYOND) for place in which.tolist()], np.int32)

    def state(self, number: int) -> State:
        """Return a state."""
        return self._states[number]

    def path_to(self, number: int) -> Behaviour:
        """Return the behaviour that first reached a state."""
        return self._path_to(self._states[number])

    def forget_keys(self) -> None:
        """Do nothing: the state space of a reference search is small."""
