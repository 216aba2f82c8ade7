"""Bracha's reliable broadcast among N nodes, the sender among the F faulty ones, which say anything."""
from collections.abc import Iterator

from kraftcheck import *

class Node(Record):
    id: int
    echoed: ModelValue | None = None
    readied: ModelValue | None = None
    delivered: ModelValue | None = None
    echoes: frozenset[tuple[int, ModelValue]] = frozenset()
    readies: frozenset[tuple[int, ModelValue]] = frozenset()

class Initial(Record):
    value: ModelValue
    dest: int

class Echo(Record):
    source: int
    value: ModelValue
    dest: int

class Ready(Record):
    source: int
    value: ModelValue
    dest: int

class Bracha(Protocol):
    n: int = constant("N")
    f: int = constant("F")
    values: frozenset[ModelValue] = constant("Values")
    lies: int = bound("MaxLies")
    network = MessageSet()
    @property
    def correct(self) -> range:
        return range(1, self.n - self.f + 1)
    def initial(self) -> Iterator[State]:
        yield self.start([Node(i) for i in self.correct])
    @environment
    def lie(self) -> Steps:
        for d in self.correct:
            for v in ordered(self.values):
                yield Step().send(Initial(v, d)).spend("lies")
                for s in range(self.n - self.f + 1, self.n + 1):
                    yield Step().send(Echo(s, v, d)).spend("lies")
                    yield Step().send(Ready(s, v, d)).spend("lies")
    @on(Initial)
    def start_echo(self, me: Node, message: Initial) -> Steps:
        if me.echoed is None:
            yield consume(me.but(echoed=message.value)).send(*[Echo(me.id, message.value, d) for d in self.correct])
    @on(Echo)
    def hear_echo(self, me: Node, message: Echo) -> Steps:
        echoes = me.echoes | {(message.source, message.value)}
        heard = [s for s, v in echoes if v == message.value]
        yield self.maybe_ready(me.but(echoes=echoes), message.value, 2 * len(heard) > self.n + self.f)
    @on(Ready)
    def hear_ready(self, me: Node, message: Ready) -> Steps:
        readies = me.readies | {(message.source, message.value)}
        heard = {s for s, v in readies if v == message.value}
        after = me.but(readies=readies)
        if len(heard) > 2 * self.f and me.delivered is None:
            after = after.but(delivered=message.value)
        yield self.maybe_ready(after, message.value, len(heard) > self.f)
    def maybe_ready(self, me: Node, value: ModelValue, enough: bool) -> Step:
        if enough and me.readied is None:
            return consume(me.but(readied=value)).send(*[Ready(me.id, value, d) for d in self.correct])
        return consume(me)
    @invariant
    def agreement(self, me: Node, peer: Node) -> bool:
        return me.delivered is None or peer.delivered is None or me.delivered == peer.delivered
