"""Dining philosophers; the last one takes the forks in the other order."""

from __future__ import annotations

from collections.abc import Iterator

from kraftcheck import *


class Doing(Symbol):
    """What a philosopher does."""

    THINKS = "thinks"
    WAITS = "waits"
    EATS = "eats"


class Philosopher(Record):
    """A philosopher, and the forks in its hands."""

    id: int
    doing: Doing = Doing.THINKS


class Philosophers(Protocol):
    """Neighbours never eat at the same time, and somebody can always go on."""

    seats: int = constant("N", at_least=3)
    network = None

    def initial(self) -> Iterator[State]:
        yield self.start(map(Philosopher, range(self.seats)))

    def forks(self, number: int) -> tuple[int, int]:
        """Return the two forks of a philosopher, in the order in which it takes them."""
        return (0, number) if number == self.seats - 1 else (number, number + 1)

    @projection
    def held(self, me: Philosopher) -> frozenset[int]:
        return frozenset(self.forks(me.id)[: (Doing.THINKS, Doing.WAITS, Doing.EATS).index(me.doing)])

    def free(self, fork: int, held: Map[int, frozenset[int]]) -> bool:
        return not any(fork in held[seat] for seat in ((fork - 1) % self.seats, fork))

    @internal(reads=held)
    def take_one(self, me: Philosopher, held: Map[int, frozenset[int]]) -> Steps:
        if me.doing is Doing.THINKS and self.free(self.forks(me.id)[0], held):
            yield become(me.but(doing=Doing.WAITS))

    @internal(reads=held)
    def take_other(self, me: Philosopher, held: Map[int, frozenset[int]]) -> Steps:
        if me.doing is Doing.WAITS and self.free(self.forks(me.id)[1], held):
            yield become(me.but(doing=Doing.EATS))

    @internal
    def put_both(self, me: Philosopher) -> Steps:
        if me.doing is Doing.EATS:
            yield become(me.but(doing=Doing.THINKS))

    @invariant
    def neighbours_do_not_eat(self, me: Philosopher, peer: Philosopher) -> bool:
        return me.id + 1 != peer.id or not (me.doing is Doing.EATS and peer.doing is Doing.EATS)
