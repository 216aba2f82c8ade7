"""Interface between protocols and the analyses of their state graphs, and its implementation for whole states.

There are three implementations. `PlainTransitionSystem` has the reference semantics; its batches are lists of states,
without compiled code. `tables/table_system.py` has rows of ids and the compiled kernel. `bytecode/search.py` has the
numbers of a finished search. State graphs, AG EF and temporal properties use the interface. States that a symmetry
or a view identifies have one canonical key.
"""

from __future__ import annotations

import typing
from collections.abc import Callable, Iterator, Sequence
from copy import copy
from functools import cached_property
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from kraftcheck.explorer.request import SearchRequest
from kraftcheck.explorer.result import Behaviour
from kraftcheck.spec.encoding import DecodingVocabulary, encode
from kraftcheck.spec.errors import InputError
from kraftcheck.spec.language.declarations import Property
from kraftcheck.spec.language.formula import Fairness
from kraftcheck.spec.language.protocol import Protocol
from kraftcheck.spec.language.semantics import (
    CandidateStep,
    Semantics,
    Transition,
    initial_states,
    satisfies_fairness_predicate,
)
from kraftcheck.spec.language.state import Permutation, State, Step, permutation_group, permute_model_values
from kraftcheck.spec.values import Map, Record, Value, field_values, same_types

StateBatch = TypeVar("StateBatch")  # a batch of states, in the form of the system
StateNumbers = NDArray[np.int32]
LabelNumbers = NDArray[np.uint16]
BoolArray = NDArray[np.bool_]

BEYOND, BLOCKED = -1, -2
"""Codes in place of a target: the step leads beyond a constraint, or only a bound prevents the step."""
STEP_HIDDEN_BY_VIEW = 1
"""Code of a step that changes the state, though a VIEW that renames states identifies source and target."""

MOST_LABELS = 1 << 16


class StepArrays(NamedTuple):
    """Steps out of a batch of states, as parallel arrays."""

    sources: NDArray[np.int64]  # place of each source in the batch
    keys: Any  # canonical keys of the target states
    ends: StateNumbers  # 0, STEP_HIDDEN_BY_VIEW, BEYOND or BLOCKED
    labels: LabelNumbers


class TransitionSystem(typing.Protocol[StateBatch]):
    """The states of a protocol under the constraints, the symmetry and the view of a search."""

    @property
    def labels(self) -> LabelTable:
        """The labels of steps, by number."""

    def initial(self) -> StateBatch:
        """Return the initial states."""

    def successors(self, states: StateBatch, which: NDArray[np.int64]) -> Any:
        """Yield the steps out of states[which], in batches of type `StepArrays`."""

    def holds(self, prop: Property, states: StateBatch, judge: Callable[[Property, State], bool]) -> BoolArray:
        """Return for each state of a batch whether a property holds; `judge(prop, state)` evaluates one state."""

    def canonical(self, states: StateBatch) -> Any:
        """Return the canonical keys: equal for states that the symmetry or the view identifies."""

    def decode(self, states: StateBatch) -> list[State]:
        """Return the states as values of the language."""


class StepLabel(NamedTuple):
    """Label of a step."""

    action: str  # the action's name
    actor: Any = None  # id of the actor if fairness distinguishes replicas; else None
    # id of the replica that it receives from or sends to, if fairness distinguishes pairs; else None
    peer: Any = None
    # type name of the delivered message, if fairness distinguishes messages; else None
    kind: str | None = None
    parts: tuple[Fairness, ...] = ()  # the conditions of fairness with `when` that mean the step


def fairness_subject(fairness: Fairness, label: StepLabel) -> Any:
    """Return the subject of a label that the fairness distinguishes: replica, pair or message type; else None."""
    return {"": None, "replica": label.actor, "pair": (label.actor, label.peer), "message": label.kind}[fairness.each]


class LabelTable:
    """The labels of one search, by number; the first ones are the plain actions."""

    def __init__(self, protocol: Protocol, actions: list[str], fairness: tuple[Fairness, ...]) -> None:
        self._protocol = protocol
        self._parts = tuple(one for one in fairness if one.when)
        self.labels = [StepLabel(name) for name in actions]
        self._numbers = {label: number for number, label in enumerate(self.labels)}
        by_kind: dict[str, set[str]] = {each: set() for each in ("replica", "pair", "message")}
        for one in fairness:
            by_kind.get(one.each, set()).update(filter(one.names, actions))
        self._by = by_kind
        told_apart = set().union(*self._by.values(), *(filter(one.names, actions) for one in self._parts))
        self._alone = {name: number for number, name in enumerate(actions) if name not in told_apart}

    @property
    def tells_more(self) -> bool:
        """Whether steps of one action may have several labels."""
        return any(self._by.values()) or bool(self._parts)

    def number(self, action: str, me: Any, message: Record | None, step: Step) -> int:
        """Return the number of a step's label, given its actor or None, and the delivered message."""
        if action in self._alone:
            return self._alone[action]
        label = self._label(action, me, message, step)
        found = self._numbers.get(label)
        if found is None:
            found = self._numbers[label] = len(self.labels)
            self.labels.append(label)
            if found >= MOST_LABELS:
                raise InputError(f"fairness distinguishes more than {MOST_LABELS} kinds of step; give fewer conditions")
        return found

    def _label(self, action: str, me: Any, message: Record | None, step: Step) -> StepLabel:
        actor = getattr(me, "id", None)
        pairs, named = action in self._by["pair"], message is not None and action in self._by["message"]
        parts = (one for one in self._parts if one.names(action))
        return StepLabel(
            action,
            actor if pairs or action in self._by["replica"] else None,
            peer_of_step(message, step) if pairs else None,
            type(message).__name__ if named else None,
            tuple(one for one in parts if satisfies_fairness_predicate(self._protocol, one, me, message)),
        )


def peer_of_step(message: Record | None, step: Step) -> Any:
    """Return the replica that a step receives from, else the only one that it sends to, else None."""
    if message is not None:
        return getattr(message, "source", None)
    reached = {sent.dest for sent in step.sent}
    return reached.pop() if len(reached) == 1 else None


# Canonical keys


MOST_CACHED_RENAMED_STATES = 1 << 16
"""Renamed states before their cache is emptied."""


MOST_CACHED_IMAGES = 1 << 18
"""Images of states' parts, under all permutations together, before their caches are emptied."""


def canonicalizer(protocol: Protocol, symmetry: str | None, view: str | None) -> Callable[[State], Value]:
    """Return the canonical-key function: states that the symmetry or the view identifies have equal keys."""
    see = _view_function(protocol, view)
    if symmetry is None:
        return see
    group = permutation_group(protocol.symmetry_sets(symmetry))
    vocabulary = DecodingVocabulary()
    images = [_image_encoder(permutation, MOST_CACHED_IMAGES // len(group), vocabulary) for permutation in group]

    # The key of an orbit is the least encoding of its members. It is exact, at the cost of one encoding for each
    # permutation of the group.
    def canonical(state: State) -> bytes:
        seen = see(state)
        return min(image(seen) for image in images)

    return canonical


def _image_encoder(permutation: Permutation, most: int, vocabulary: DecodingVocabulary) -> Callable[[State], bytes]:
    """Return a function that encodes a state's image under a permutation; `most` encodings of parts are memoized.

    The function raises InputError for two classes with one name: encodings do not tell their values apart.
    """
    known: dict[Value, tuple[Value, bytes]] = {}  # a part, and the encoding of its image

    def encoded(part: Value) -> bytes:
        found = known.get(part)
        if found is None or not same_types(found[0], part):  # 1 and True are equal keys
            if len(known) >= most:
                known.clear()
            vocabulary.note(part)
            found = known[part] = part, encode(permute_model_values(part, permutation))
        return found[1]

    def encoded_state(state: State) -> bytes:
        maps = (state.replicas, state.inboxes)
        pairs = [sorted([encoded(key) + encoded(value) for key, value in one.items()]) for one in maps]
        rest = [encoded(value) for value in (*field_values(state.shared), state.spent)]
        return b"".join([*(len(one).to_bytes(4, "big") + b"".join(one) for one in pairs), *rest])

    return encoded_state


def _view_function(protocol: Protocol, view: str | None) -> Callable[[State], State]:
    if view is None:
        return lambda state: state
    hidden, renamed = protocol.hidden(view), protocol.renames(view)

    def see(state: State) -> State:
        shared = copy(state.shared)
        vars(shared).update(dict.fromkeys(hidden.shared))
        spent = Map((name, used) for name, used in state.spent.items() if name not in hidden.bounds)
        return state.but(shared=shared, spent=spent)

    if renamed is None:
        return see
    cached: dict[State, State] = {}

    def see_renamed(state: State) -> State:
        found = cached.get(state)
        if found is None:
            if len(cached) > MOST_CACHED_RENAMED_STATES:
                cached.clear()
            found = cached[state] = see(renamed(state, 0))
        return found

    return see_renamed


STATES_A_BATCH = 1_000  # states of a batch of the state graph


# Whole states


class PlainTransitionSystem:
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

    def successors(self, states: list[State], which: NDArray[np.int64]) -> Iterator[StepArrays]:
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
        yield StepArrays(np.array(places, np.int64), keys, np.array(ends, np.int32), np.array(labels, np.uint16))

    def _end(self, state: State, choice: CandidateStep) -> tuple[Value, int | None]:
        """Return the canonical key of a choice's target, and 0 or STEP_HIDDEN_BY_VIEW.

        Without a target it returns (), and BEYOND, BLOCKED or None.
        """
        transition = self.semantics.taken(state, choice)
        if transition is None:
            blocked = bool(self.options.temporal) and self.semantics.is_blocked(state, choice)
            return (), BLOCKED if blocked else None
        if not self.allows(state, transition.target):
            return (), BEYOND
        return self.identity(transition.target), STEP_HIDDEN_BY_VIEW if self.is_round(state, transition.target) else 0

    def is_round(self, state: State, target: State) -> bool:
        """Whether a step only renames the state: the view identifies its source and its target, which differ."""
        if self.renames is None or self.identity(state) != self.identity(target):
            return False
        one, other = self.renames(state, None), self.renames(target, None)
        return one.but(spent=other.spent) != other

    def holds(self, prop: Property, states: list[State], judge: Callable[[Property, State], bool]) -> BoolArray:
        """Return for each state whether a property holds."""
        return np.array([judge(prop, state) for state in states], bool)

    def canonical(self, states: list[State]) -> list[Value]:
        """Return the canonical key of each state."""
        return list(map(self.identity, states))

    def decode(self, states: list[State]) -> list[State]:
        """Return the batch unchanged: it is a list of states already."""
        return states


class InMemoryStateStore:
    """`StateStore` of the states of a finished search, in memory by number and by canonical key."""

    def __init__(
        self, states: list[State], numbers: dict[Value, int], starts: int, path_to: Callable[[State], Behaviour]
    ) -> None:
        self._states, self._numbers, self._path_to = states, numbers, path_to
        self.count, self.starts = len(states), starts

    def chunks(self, *, backwards: bool) -> Iterator[tuple[int, list[State]]]:
        """Yield the states in batches, each with the number of its first state."""
        firsts = range(0, self.count, STATES_A_BATCH)
        for first in reversed(firsts) if backwards else firsts:
            yield first, self._states[first : first + STATES_A_BATCH]

    def numbers(self, keys: Sequence[Value], which: NDArray[np.int64]) -> StateNumbers:
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
