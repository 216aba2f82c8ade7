"""Dining philosophers who hand each other clean forks, the solution of Chandy and Misra.

Sources: K. M. Chandy, J. Misra, "The drinking philosophers problem" (1984); module DiningPhilosophers of the TLA+
examples, step by step as its PlusCal takes them.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator

from kraftcheck.spec import (
    Formula,
    Protocol,
    Record,
    State,
    Steps,
    at,
    become,
    constant,
    every,
    infinitely_often,
    internal,
    invariant,
    predicate,
    reachable,
    temporal,
    weak,
)


class Place(enum.Enum):
    """Where a philosopher is in the loop."""

    LOOP = "Loop"
    EAT = "Eat"
    THINK = "Think"


class Fork(Record):
    """Who has a fork, and whether it is clean."""

    holder: int
    clean: bool = False


class Philosopher(Record):
    """One at the table; the fork of the same number lies to the left."""

    id: int
    at: Place = Place.LOOP
    hungry: bool = True


class Table(Record):
    """The forks, the first one first."""

    forks: tuple[Fork, ...]


class DiningPhilosophers(Protocol):
    """Neighbours never eat at the same time, and everyone can always get to eat."""

    philosophers: int = constant("NP", at_least=1)
    specifications = {"Spec": (weak("Loop", "Think", "Eat", each="replica"),)}

    def initial(self) -> Iterator[State]:
        """Each dirty fork is with its neighbour of the lowest number, and everyone is hungry."""
        numbers = range(1, self.philosophers + 1)
        forks = tuple(Fork(1 if number == 2 else number) for number in numbers)
        yield self.start(map(Philosopher, numbers), Table(forks))

    def right_of(self, number: int) -> int:
        """Return the number of the fork, and of the philosopher, to the right."""
        return number % self.philosophers + 1

    def left_of(self, number: int) -> int:
        """Return the number of the philosopher to the left."""
        return (number - 2) % self.philosophers + 1

    @internal
    def loop(self, me: Philosopher, shared: Table) -> Steps:
        """A dirty fork is cleaned and handed on, the left one first; then it is time to eat, to think or to go on."""
        if me.at is not Place.LOOP:
            return
        left, right = me.id, self.right_of(me.id)
        after = Place.THINK
        if me.hungry:
            after = Place.EAT if all(shared.forks[n - 1] == Fork(me.id, True) for n in (left, right)) else Place.LOOP
        forks = list(shared.forks)
        if forks[left - 1] == Fork(me.id):
            forks[left - 1] = Fork(self.left_of(me.id), True)
        elif forks[right - 1] == Fork(me.id):
            forks[right - 1] = Fork(right, True)
        yield become(me.but(at=after)).put(forks=tuple(forks))

    @internal
    def think(self, me: Philosopher) -> Steps:
        """Thinking makes hungry."""
        if me.at is not Place.THINK:
            return
        yield become(me.but(at=Place.LOOP, hungry=True))

    @internal
    def eat(self, me: Philosopher, shared: Table) -> Steps:
        """Eating makes both forks dirty."""
        if me.at is not Place.EAT:
            return
        dirty = {me.id, self.right_of(me.id)}
        forks = [fork.but(clean=False) if n in dirty else fork for n, fork in enumerate(shared.forks, start=1)]
        yield become(me.but(at=Place.LOOP, hungry=False)).put(forks=tuple(forks))

    @invariant
    def exclusive_access(self, me: Philosopher, peer: Philosopher) -> bool:
        """Two who share a fork do not eat at the same time."""
        shares = {me.id, self.right_of(me.id)} & {peer.id, self.right_of(peer.id)}
        return not shares or me.at is not Place.EAT or peer.at is not Place.EAT

    @reachable
    def first_can_eat(self, me: Philosopher) -> bool:
        """The first philosopher, who stands for all, can always get to eat."""
        return me.id != 1 or not me.hungry

    @predicate
    def full(self, me: Philosopher) -> bool:
        """A philosopher has eaten, and not become hungry again."""
        return not me.hungry

    @temporal
    def nobody_starves(self) -> Formula:
        """Everyone gets to eat again and again."""
        return every(infinitely_often(at(number, self.full)) for number in range(1, self.philosophers + 1))
