"""The state graph that temporal properties are checked on, as arrays, whichever engine found it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kraftcheck.explorer.temporal.room import Growing, Room
from kraftcheck.spec.errors import InputError
from kraftcheck.spec.language.formula import NEXT, Fairness
from kraftcheck.spec.language.property import Property
from kraftcheck.spec.language.step import Step
from kraftcheck.spec.values import Record

Numbers = NDArray[np.int32]
Labels = NDArray[np.uint16]
Masks = NDArray[np.uint64]

MOST_LABELS = 1 << 16


class Label(NamedTuple):
    """What a step is called."""

    action: str  # the action's name
    actor: Any = None  # the id of the replica that takes it, where fairness tells replicas apart; else None
    # the id of the replica that it hears from or sends to, where fairness tells those apart; else None
    peer: Any = None
    # the name of the type of the message delivered, where fairness tells those apart; else None
    kind: str | None = None


class LabelBook:
    """The labels of one search, by number. The first stand for the actions alone."""

    def __init__(self, actions: list[str], fairness: tuple[Fairness, ...]) -> None:
        self.labels = [Label(name) for name in actions]
        self._numbers = {label: number for number, label in enumerate(self.labels)}
        self._by = {
            each: {name for one in fairness if one.each == each for name in _all(one, actions)}
            for each in ("replica", "pair", "message")
        }
        told_apart = set().union(*self._by.values())
        self._alone = {name: number for number, name in enumerate(actions) if name not in told_apart}

    @property
    def tells_more(self) -> bool:
        """Whether steps of one action may have several labels."""
        return any(self._by.values())

    def number(self, action: str, actor: Any, message: Record | None, step: Step) -> int:
        """Return the number of a step's label, given the actor's id and the message delivered."""
        if action in self._alone:
            return self._alone[action]
        pairs = action in self._by["pair"]
        label = Label(
            action,
            actor if pairs or action in self._by["replica"] else None,
            peer_of(message, step) if pairs else None,
            type(message).__name__ if message is not None and action in self._by["message"] else None,
        )
        found = self._numbers.get(label)
        if found is None:
            found = self._numbers[label] = len(self.labels)
            self.labels.append(label)
            if found >= MOST_LABELS:
                raise InputError(f"fairness tells more than {MOST_LABELS} kinds of step apart")
        return found


def peer_of(message: Record | None, step: Step) -> Any:
    """Return whom a replica hears from in a step, or else to whom alone it sends; None where there is nobody such."""
    if message is not None:
        return getattr(message, "source", None)
    reached = {sent.dest for sent in step.sent}
    return reached.pop() if len(reached) == 1 else None


def _all(fairness: Fairness, actions: list[str]) -> list[str]:
    return actions if NEXT in fairness.actions else list(fairness.actions)


@dataclass
class Marks:
    """Labels of states: steps that are enabled there and lead to no state of the graph."""

    # side by side, one entry each, in the order of the states
    states: Numbers = field(default_factory=lambda: np.zeros(0, np.int32))
    labels: Labels = field(default_factory=lambda: np.zeros(0, np.uint16))

    def add(self, bits: Masks, first: int, found: Masks) -> None:
        """Add to each state from `first` on the bits of its labels."""
        begin, end = np.searchsorted(self.states, (first, first + len(found)))
        np.bitwise_or.at(found, self.states[begin:end] - first, bits[self.labels[begin:end]])


class LabelledGraph:
    """The states of a search that is over, by their numbers, and the steps between them."""

    def __init__(
        self,
        count: int,
        starts: int,
        steps: StepsBySource,
        used: NDArray[np.bool_],
        book: LabelBook,
        beyond: Marks,
        blocked: Marks,
        holds: Callable[[Property], NDArray[np.bool_]],
        room: Room,
    ) -> None:
        self.count, self.starts = count, starts
        self.first, self.target, self.label = steps.first, steps.target.all, steps.label.all
        self.book, self._used = book, used
        self.beyond, self.blocked = beyond, blocked
        self.holds = holds
        self.room = room

    def labels_in_use(self) -> list[Label]:
        """Return the labels of steps that can be taken somewhere."""
        used = set(np.flatnonzero(self._used).tolist())
        used |= set(np.unique(np.concatenate([self.beyond.labels, self.blocked.labels])).tolist())
        return [label for number, label in enumerate(self.book.labels) if number in used]

    def enabled(self, bits: Masks, first: int, count: int, strict_bounds: bool) -> Masks:
        """Return for some states, from `first` on, the bits of the labels of steps that are enabled and change them."""
        from kraftcheck.explorer.temporal.kernel.product import gather

        found = np.zeros(count, np.uint64)
        self.beyond.add(bits, first, found)
        if not strict_bounds:
            self.blocked.add(bits, first, found)
        gather(self.first, self.label, bits, first, found)
        return found


class StepsBySource:
    """Steps in the order of their sources, as they are found."""

    def __init__(self, count: int, room: Room, expected: int = 0) -> None:
        self.first = room.array(count + 1, np.int64)
        self.target, self.label = Growing(room, np.int32, expected), Growing(room, np.uint16, expected)

    def append(self, begin: int, end: int, sources: NDArray[Any], targets: Numbers, labels: Labels) -> None:
        """Append the steps of some states, those that change them; all states before have theirs."""
        order = np.argsort(sources, kind="stable")
        order = order[sources[order] != targets[order]]
        ends = np.cumsum(np.bincount(sources[order] - begin, minlength=end - begin))
        self.first[begin + 1 : end + 1] = self.target.count + ends
        self.target.append(targets[order])
        self.label.append(labels[order])
