"""The state graph that temporal properties are checked on, as arrays, whichever engine found it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kraftcheck.explorer.temporal.kernel.product import gather, sort_edges
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
    """What a step is called.

    Attributes
    ----------
    action
        The action's name.
    actor
        The id of the replica that takes it, where fairness tells replicas apart; else None.
    peer
        The id of the replica that it hears from or sends to, where fairness tells those apart; else None.
    kind
        The name of the type of the message delivered, where fairness tells those apart; else None.
    """

    action: str
    actor: Any = None
    peer: Any = None
    kind: str | None = None


class LabelBook:
    """The labels of one search, by number. The first stand for the actions alone.

    Parameters
    ----------
    actions
        Names of all actions.
    fairness
        What is assumed to be fair: it says which actions need finer labels.
    """

    def __init__(self, actions: list[str], fairness: tuple[Fairness, ...]) -> None:
        self.labels = [Label(name) for name in actions]
        self._numbers = {label: number for number, label in enumerate(self.labels)}
        self._by = {
            each: {name for one in fairness if one.each == each for name in _all(one, actions)}
            for each in ("replica", "pair", "message")
        }

    @property
    def tells_more(self) -> bool:
        """Whether steps of one action may have several labels."""
        return any(self._by.values())

    def number(self, action: str, actor: Any, message: Record | None, step: Step) -> int:
        """Return the number of a step's label, given the actor's id and the message delivered."""
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
    """Labels of states: steps that are enabled there and lead to no state of the graph.

    Attributes
    ----------
    states, labels
        Side by side, one entry each.
    """

    states: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    labels: Labels = field(default_factory=lambda: np.zeros(0, np.uint16))

    def masks(self, count: int, bits: Masks) -> Masks:
        """Return for each state the bits of its labels."""
        found = np.zeros(count, np.uint64)
        np.bitwise_or.at(found, self.states, bits[self.labels])
        return found


class LabelledGraph:
    """The states of a search that is over, by their numbers, and the steps between them.

    Parameters
    ----------
    count
        How many states there are.
    starts
        How many of them are initial: the first ones.
    sources, targets, labels
        The steps, in any order.
    book
        What the labels stand for.
    beyond
        Steps that lead out of the graph, beyond a constraint.
    blocked
        Steps that a bound alone keeps from being taken.
    holds
        Returns for each state whether a predicate is true of it.

    Attributes
    ----------
    first, target, label
        The steps, by source: those of state s stand from `first[s]` to `first[s + 1]`.
    """

    def __init__(
        self,
        count: int,
        starts: int,
        edges: tuple[Numbers, Numbers, Labels],
        book: LabelBook,
        beyond: Marks,
        blocked: Marks,
        holds: Callable[[Property], NDArray[np.bool_]],
    ) -> None:
        self.count, self.starts = count, starts
        self.book = book
        self.beyond, self.blocked = beyond, blocked
        self.holds = holds
        sources, targets, labels = edges
        first = np.zeros(count + 2, np.int64)
        first[2:] += np.bincount(sources, minlength=count)
        np.cumsum(first, out=first)
        self.target, self.label = np.zeros(len(sources), np.int32), np.zeros(len(sources), np.uint16)
        sort_edges(sources, targets, labels, first, self.target, self.label)
        self.first = first[: count + 1]

    def labels_in_use(self) -> list[Label]:
        """Return the labels of steps that can be taken somewhere."""
        used = set(np.unique(np.concatenate([self.label, self.beyond.labels, self.blocked.labels])).tolist())
        return [label for number, label in enumerate(self.book.labels) if number in used]

    def enabled(self, bits: Masks) -> Masks:
        """Return for each state the bits of the labels of steps that are enabled and change it."""
        found = self.beyond.masks(self.count, bits)
        gather(self.first, self.target, self.label, bits, found)
        return found
