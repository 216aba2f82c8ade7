"""Causal broadcast with vector clocks (Birman, Schiper, Stephenson): a message waits until what it depends on is delivered."""
from dataclasses import replace

from kraftcheck import *


class Cast(Record):
    origin: int
    clock: tuple[int, ...]
    dest: int


class Process(Record):
    id: int
    clock: tuple[int, ...]
    pending: frozenset[Cast] = frozenset()
    delivered: tuple[tuple[int, tuple[int, ...]], ...] = ()


def leq(a, b):
    return all(x <= y for x, y in zip(a, b))


def bump(clock, i):
    return tuple(c + 1 if j == i else c for j, c in enumerate(clock))


class Causal(Protocol):
    n: int = constant("N", default=3)
    casts: int = bound("MaxCasts", default=3)
    network = MessageSet()

    def initial(self):
        zero = (0,) * self.n
        yield self.start([Process(i, zero) for i in range(self.n)])

    def ready(self, me, message):
        return all(
            c == mine + 1 if j == message.origin else c <= mine
            for j, (c, mine) in enumerate(zip(message.clock, me.clock))
        )

    def deliver(self, me, message):
        return replace(
            me,
            clock=bump(me.clock, message.origin),
            pending=me.pending - {message},
            delivered=(*me.delivered, (message.origin, message.clock)),
        )

    @internal
    def broadcast(self, me: Process):
        clock = bump(me.clock, me.id)
        out = [Cast(me.id, clock, d) for d in range(self.n) if d != me.id]
        yield become(replace(me, clock=clock, delivered=(*me.delivered, (me.id, clock)))).send(*out).spend("casts")

    @on(Cast)
    def receive(self, me: Process, message: Cast):
        if self.ready(me, message):
            yield consume(self.deliver(me, message))
        else:
            yield consume(replace(me, pending=me.pending | {message}))

    @internal
    def deliver_pending(self, me: Process):
        for message in ordered(me.pending):
            if self.ready(me, message):
                yield become(self.deliver(me, message))

    @invariant
    def causal_order(self, state: State):
        for p in state.replicas.values():
            for i, (_, later) in enumerate(p.delivered):
                for _, earlier in p.delivered[i + 1:]:
                    if leq(earlier, later) and earlier != later:
                        return False
        return True

    @invariant
    def no_gap(self, me: Process):
        return all(sum(o == j for o, _ in me.delivered) == me.clock[j] for j in range(self.n))
