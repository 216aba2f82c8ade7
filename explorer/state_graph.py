"""State graph of a finished search, over any transition system, with the check of `@reachable` (AG EF).

States keep the numbers that the search gave them. Edges are computed again on demand, batch by batch, so memory holds
one batch only. States beyond a constraint, and steps that exceed a bound, are not in the graph. For temporal
properties, `LabelledGraph` has the edges and their labels in arrays.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from kraftcheck.explorer.result import Behaviour, SearchRequest
from kraftcheck.explorer.transition_system import (
    BEYOND,
    BLOCKED,
    STEP_HIDDEN_BY_VIEW,
    BoolArray,
    LabelNumbers,
    StateNumbers,
    StepLabel,
    TransitionSystem,
)
from kraftcheck.persistence.stored_files import GrowableSpillArray, SpillArena
from kraftcheck.spec.errors import InputError, RaisedError
from kraftcheck.spec.language.declarations import Property
from kraftcheck.spec.language.semantics import Semantics
from kraftcheck.spec.language.state import State

MOST_NUMBERED_STATES = (1 << 31) - 1


def require_state_numbers_fit(states: int) -> None:
    """Raise InputError for more states than 32-bit numbers can count."""
    if states > MOST_NUMBERED_STATES:
        raise InputError(f"found {states:,} states; expected a state graph of at most {MOST_NUMBERED_STATES:,}")


class SingleStatePropertyEvaluator:
    """Evaluates properties in single states; rejects a state with too little left of a bound that the VIEW hides."""

    def __init__(self, semantics: Semantics, options: SearchRequest, most_spent: Mapping[str, int]) -> None:
        self._semantics, self._most_spent, self._view = semantics, most_spent, options.view
        self._used: dict[str, int] = {}
        hidden = semantics.protocol.hidden(options.view).bounds if options.view else frozenset()
        limits = semantics.protocol.bounds
        self._limits = {name: limits[name] for name in sorted(hidden) if limits[name]}

    def holds(self, prop: Property, state: State) -> bool:
        """Whether a property holds in a state."""
        for name in self._limits:
            self._used[name] = max(self._used.get(name, 0), state.spent[name])
        self.require_room(prop.name)
        return self._semantics.holds(prop, state)

    def require_room(self, name: str) -> None:
        """Raise InputError if a state has less of a hidden bound left than a step may spend."""
        for bound, used in self._used.items():
            limit, most = self._limits[bound], self._most_spent.get(bound, 1)
            if used + most > limit:
                known = self._semantics.protocol.constant_of(bound)
                left = "nothing" if used >= limit else f"less than a step spends ({most})"
                raise InputError(
                    f"{name}: VIEW {self._view} leaves out {known}, and a state has {left} of it left: "
                    f"reachability is unknown; expected more than {known} = {limit}"
                )

    def spends_too_much(self, name: str) -> InputError:
        """Return the error for a counterexample that exceeds a bound hidden by the VIEW.

        Each state of the graph has room. A behaviour through these states may still spend more than the path that first
        reached each of them.
        """
        known = self._semantics.protocol.constant_of
        bounds = ", ".join(f"{known(bound)} = {limit}" for bound, limit in self._limits.items())
        return InputError(
            f"{name} is violated, but its behaviour spends more than the bounds that VIEW {self._view} leaves out; "
            f"to show it, expected more than {bounds}"
        )


class StateStore(Protocol):
    """Visited states of a search, by number."""

    count: int
    starts: int  # number of initial states, which come first

    def chunks(self, *, backwards: bool) -> Iterator[tuple[int, Any]]:
        """Yield all states in batches, each with its first state's number; with `backwards`, deepest level first."""

    def numbers(self, keys: Any, which: NDArray[np.int64]) -> StateNumbers:
        """Return for each key of keys[which] the number of the state with this key; BEYOND if it was not visited."""

    def state(self, number: int) -> State:
        """Return a state."""

    def path_to(self, number: int) -> Behaviour:
        """Return the behaviour by which the search first reached a state."""

    def forget_keys(self) -> None:
        """Release the memory that `numbers` needs."""


class EdgeBatch(NamedTuple):
    """Steps out of a batch of states; a target is a state's number, or BEYOND or BLOCKED if it is not in the graph."""

    sources: NDArray[np.int64]  # place of each source in the batch
    targets: StateNumbers
    labels: LabelNumbers
    rounds: BoolArray  # whether a step changes the state, though its target has the number of its source


class StateGraph:
    """The numbered states of a search, and the steps between them."""

    def __init__(
        self,
        system: TransitionSystem[Any],
        store: StateStore,
        bounds: SingleStatePropertyEvaluator,
        *,
        room: SpillArena | None = None,
        pause: Callable[[], None] = lambda: None,
        why_slow: Callable[[Property, int], str | None] = lambda prop, states: None,
    ) -> None:
        self.system, self.store, self.bounds = system, store, bounds
        self.room = room or SpillArena()
        self._notes: list[str] = []
        self._pause, self._why_slow = pause, why_slow

    @property
    def count(self) -> int:
        """Number of states."""
        return self.store.count

    def take_notes(self) -> list[str]:
        """Return the notes about the evaluation of properties, and clear them."""
        taken, self._notes = self._notes, []
        return taken

    def where(self, prop: Property) -> NDArray[np.uint8]:
        """Return for each state whether a property holds, as 1 or 0."""
        found = np.zeros(self.count, np.uint8)
        for first, states in self.store.chunks(backwards=False):
            self._pause()
            try:
                found[first : first + len(states)] = self.system.holds(prop, states, self.bounds.holds)
            except RaisedError as error:
                error.trace = self.store.path_to(first + self._raising(prop, states))
                raise
        why = self._why_slow(prop, self.count)
        if why is not None:
            self._notes.append(f"{prop.name} reads {why}")
        return found

    def _raising(self, prop: Property, states: Any) -> int:
        """Return the index of the first state in which the evaluation of a property raises an error."""
        for place in range(len(states)):
            try:
                self.system.holds(prop, states[place : place + 1], self.bounds.holds)
            except RaisedError:
                return place
        raise AssertionError(f"{prop.name} raised an error for several states at once, but for none of them alone")

    def edges(self, states: Any, which: NDArray[np.int64]) -> Iterator[EdgeBatch]:
        """Yield the steps out of states[which]."""
        self._pause()
        for steps in self.system.successors(states, which):
            targets = steps.ends.copy()
            inside = np.flatnonzero(targets >= 0)
            targets[inside] = self.store.numbers(steps.keys, inside)
            yield EdgeBatch(steps.sources, targets, steps.labels, steps.ends == STEP_HIDDEN_BY_VIEW)
            self._pause()


MarkStatesLeadingTo = Callable[[SpillArena, StateNumbers, StateNumbers, NDArray[np.uint8]], None]


def states_without_path_to(
    graph: StateGraph, prop: Property, mark_back: MarkStatesLeadingTo | None = None
) -> NDArray[np.int64]:
    """Return the numbers of the states from which a property cannot be reached: the violations of AG EF.

    The deepest states come first. A state with a step to a marked state is marked at once, which settles most states.
    The edges between the others are kept, and followed backwards.
    """
    marked = graph.where(prop)
    sources, targets = (GrowableSpillArray(graph.room, np.int32) for _ in range(2))
    for first, states in graph.store.chunks(backwards=True):
        which = np.flatnonzero(marked[first : first + len(states)] == 0)
        for edges in graph.edges(states, which):
            closed = np.array([label.action in prop.without for label in graph.system.labels.labels], bool)
            inside = (edges.targets >= 0) & ~closed[edges.labels]
            numbers = (edges.sources + first).astype(np.int32)
            marked[numbers[inside][marked[edges.targets[inside]] != 0]] = 1
            open_ = inside & (marked[numbers] == 0)
            sources.append(numbers[open_])
            targets.append(edges.targets[open_])
    graph.bounds.require_room(prop.name)  # all steps are known now
    (mark_back or _mark_states_leading_to)(graph.room, sources.all, targets.all, marked)
    for used in (sources.all, targets.all):
        graph.room.give_back(used)
    return np.flatnonzero(marked == 0)


def _mark_states_leading_to(
    _: SpillArena, sources: StateNumbers, targets: StateNumbers, marked: NDArray[np.uint8]
) -> None:
    """Mark every state with a path to a marked state."""
    before: defaultdict[int, list[int]] = defaultdict(list)
    for source, target in zip(sources.tolist(), targets.tolist(), strict=True):
        before[target].append(source)
    waiting = np.flatnonzero(marked).tolist()
    while waiting:
        for source in before[waiting.pop()]:
            if not marked[source]:
                marked[source] = 1
                waiting.append(source)


MaskArray = NDArray[np.uint64]


class OutsideStepLabels(NamedTuple):
    """Labels, sorted by source state, of enabled steps whose target is outside of the graph."""

    states: StateNumbers
    labels: LabelNumbers

    def add(self, bits: MaskArray, first: int, found: MaskArray) -> None:
        """Add to `found[i]` the bits of all labels of the state `first + i`, by bitwise or."""
        begin, end = np.searchsorted(self.states, (first, first + len(found)))
        np.bitwise_or.at(found, self.states[begin:end] - first, bits[self.labels[begin:end]])


class _OutsideStepLabelsBuilder:
    """OutsideStepLabels under construction."""

    def __init__(self, room: SpillArena) -> None:
        self._states, self._labels = GrowableSpillArray(room, np.int32), GrowableSpillArray(room, np.uint16)

    def append(self, states: NDArray[Any], labels: LabelNumbers) -> None:
        """Append labels of states; drop duplicates among them."""
        both = np.unique(states.astype(np.int64) << 16 | labels)
        self._states.append((both >> 16).astype(np.int32))
        self._labels.append((both & 0xFFFF).astype(np.uint16))

    def all(self) -> OutsideStepLabels:
        """Return all labels, in the order in which they were appended."""
        return OutsideStepLabels(self._states.all, self._labels.all)


class LabelledGraph:
    """The numbered states of a finished search, and the steps between them that change the state."""

    def __init__(self, graph: StateGraph, *, expected: int, strict_bounds: bool) -> None:
        self.count, self.starts, self.room, self.book = graph.count, graph.store.starts, graph.room, graph.system.labels
        self._graph, self._strict = graph, strict_bounds
        self.first = graph.room.array(graph.count + 1, np.int64)  # place of a state's first edge
        targets, labels = (GrowableSpillArray(graph.room, kind, expected) for kind in (np.int32, np.uint16))
        outside = {BEYOND: _OutsideStepLabelsBuilder(graph.room), BLOCKED: _OutsideStepLabelsBuilder(graph.room)}
        used = np.zeros(len(self.book.labels), bool)
        for first, states in graph.store.chunks(backwards=False):
            batches = graph.edges(states, np.arange(len(states)))
            pieces = [(one.sources + first, one.targets, one.labels.copy(), one.rounds) for one in batches]
            sources, ends, named, rounds = (np.concatenate(parts) for parts in zip(*pieces, strict=True))
            used = np.concatenate([used, np.zeros(len(self.book.labels) - len(used), bool)])
            used[named[ends >= 0]] = True
            for end, marks in outside.items():
                mine = ends == end
                if mine.any() and not (strict_bounds and end == BLOCKED):
                    marks.append(sources[mine], named[mine])
            kept = np.flatnonzero((ends >= 0) & ((sources != ends) | rounds))
            order = kept[np.argsort(sources[kept], kind="stable")]
            lengths = np.bincount(sources[order] - first, minlength=len(states))
            self.first[first + 1 : first + len(states) + 1] = targets.count + np.cumsum(lengths)
            targets.append(ends[order])
            labels.append(named[order])
        self.target, self.label = targets.all, labels.all
        self.beyond, self.blocked = outside[BEYOND].all(), outside[BLOCKED].all()
        used[self.beyond.labels] = used[self.blocked.labels] = True
        self._used = used
        graph.store.forget_keys()

    def holds(self, prop: Property) -> BoolArray:
        """Return for each state whether a property holds."""
        return self._graph.where(prop).view(np.bool_)

    def labels_in_use(self) -> list[StepLabel]:
        """Return the labels of steps that are enabled in some state."""
        return [label for label, used in zip(self.book.labels, self._used, strict=True) if used]
