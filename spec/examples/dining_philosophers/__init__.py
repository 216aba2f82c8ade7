"""Dining philosophers who hand each other clean forks, the solution of Chandy and Misra.

Sources: K. M. Chandy, J. Misra, "The drinking philosophers problem" (1984); module DiningPhilosophers of the TLA+
examples, with one action per PlusCal label.
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
    """The program counter of a philosopher's loop."""

    LOOP = "Loop"
    EAT = "Eat"
    THINK = "Think"


class Fork(Record):
    """The holder of a fork, and whether it is clean."""

    holder: int
    clean: bool = False


class Philosopher(Record):
    """A philosopher at the table; the fork of the same number lies to the left."""

    id: int
    at: Place = Place.LOOP
    hungry: bool = True


class Table(Record):
    """The forks on the table, in the order of their numbers."""

    forks: tuple[Fork, ...]


class DiningPhilosophers(Protocol):
    """Neighbours never eat at the same time, and every philosopher can always get to eat."""

    philosophers: int = constant("NP", at_least=1)
    specifications = {"Spec": (weak("Loop", "Think", "Eat", each="replica"),)}

    def initial(self) -> Iterator[State]:
        """Yield the initial state: each dirty fork is with its lower-numbered neighbour, and all are hungry."""
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
        """A dirty fork is cleaned and handed on, the left one first; then the philosopher eats, thinks or loops."""
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
        """A philosopher thinks, and becomes hungry."""
        if me.at is not Place.THINK:
            return
        yield become(me.but(at=Place.LOOP, hungry=True))

    @internal
    def eat(self, me: Philosopher, shared: Table) -> Steps:
        """A philosopher eats, which makes both forks dirty."""
        if me.at is not Place.EAT:
            return
        dirty = {me.id, self.right_of(me.id)}
        forks = [fork.but(clean=False) if n in dirty else fork for n, fork in enumerate(shared.forks, start=1)]
        yield become(me.but(at=Place.LOOP, hungry=False)).put(forks=tuple(forks))

    @invariant
    def exclusive_access(self, me: Philosopher, peer: Philosopher) -> bool:
        """Two philosophers who share a fork never eat at the same time."""
        shares = {me.id, self.right_of(me.id)} & {peer.id, self.right_of(peer.id)}
        return not shares or me.at is not Place.EAT or peer.at is not Place.EAT

    @reachable
    def first_can_eat(self, me: Philosopher) -> bool:
        """The first philosopher, by symmetry any philosopher, can always get to eat."""
        return me.id != 1 or not me.hungry

    @predicate
    def full(self, me: Philosopher) -> bool:
        """A philosopher has eaten, and has not become hungry again."""
        return not me.hungry

    @temporal
    def nobody_starves(self) -> Formula:
        """Every philosopher eats infinitely often."""
        return every(infinitely_often(at(number, self.full)) for number in range(1, self.philosophers + 1))
