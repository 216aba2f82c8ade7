"""Chain replication (van Renesse and Schneider, 2004): updates go down the chain, acknowledgements up; servers fail."""
from collections.abc import Iterator

from kraftcheck import *

class Server(Record):
    id: int
    successor: int | None
    history: tuple[ModelValue, ...] = ()
    stable: int = 0

class Update(Record):
    number: int
    value: ModelValue
    source: int
    dest: int

class Ack(Record):
    number: int
    source: int
    dest: int

class Master(Record):
    chain: tuple[int, ...]
    replied: tuple[ModelValue, ...] = ()

class Chain(Protocol):
    servers: int = constant("N", at_least=2)
    values: frozenset[ModelValue] = constant("Values")
    failures: int = bound("MaxFailures", default=1)
    network = Channels()
    def initial(self) -> Iterator[State]:
        chain = tuple(range(1, self.servers + 1))
        yield self.start([Server(s, s + 1 if s < self.servers else None) for s in chain], Master(chain))
    def after(self, server: int, chain: tuple[int, ...]) -> int | None:
        place = chain.index(server) + 1
        return chain[place] if place < len(chain) else None
    def acks(self, me: Server, number: int, chain: tuple[int, ...]) -> list[Ack]:
        place = chain.index(me.id)
        return [Ack(number, me.id, chain[place - 1])] if place else []
    def take(self, me: Server, value: ModelValue, shared: Master, step) -> Step:
        """A server appends a value and passes it on; the tail replies to the client."""
        history = (*me.history, value)
        if me.successor is not None:
            return step(me.but(history=history)).send(Update(len(history), value, me.id, me.successor))
        after = me.but(history=history, stable=len(history))
        return step(after).send(*self.acks(me, len(history), shared.chain)).put(replied=history)
    @internal
    def request(self, me: Server, shared: Master) -> Steps:
        if shared.chain[0] == me.id and me.successor == self.after(me.id, shared.chain):
            for v in ordered(self.values - set(me.history)):
                yield self.take(me, v, shared, become)
    @on(Update)
    def update(self, me: Server, message: Update, shared: Master) -> Steps:
        if me.id not in shared.chain or me.successor != self.after(me.id, shared.chain):
            return
        if message.number == len(me.history) + 1:
            yield self.take(me, message.value, shared, consume)
        else:
            yield consume(me)
    @on(Ack)
    def ack(self, me: Server, message: Ack, shared: Master) -> Steps:
        if me.id in shared.chain:
            stable = max(me.stable, message.number)
            step = consume(me.but(stable=stable))
            yield step.send(*self.acks(me, stable, shared.chain)) if stable > me.stable else step
    @environment
    def fail(self, shared: Master) -> Steps:
        for server in shared.chain:
            if len(shared.chain) > 1:
                yield Step().put(chain=tuple(s for s in shared.chain if s != server)).spend("failures")
    @internal
    def repair(self, me: Server, shared: Master) -> Steps:
        if me.id not in shared.chain or me.successor == self.after(me.id, shared.chain):
            return
        successor = self.after(me.id, shared.chain)
        if successor is not None:
            again = [Update(n + 1, me.history[n], me.id, successor) for n in range(me.stable, len(me.history))]
            yield become(me.but(successor=successor)).send(*again)
        else:
            step = become(me.but(successor=None, stable=len(me.history))).put(replied=me.history)
            yield step.send(*self.acks(me, len(me.history), shared.chain)) if me.history else step
    @invariant
    def in_order(self, state: State) -> bool:
        chain = [state.replicas[s].history for s in state.shared.chain]
        return all(b == a[: len(b)] for a, b in zip(chain, chain[1:]))
    @invariant
    def replies_last(self, state: State) -> bool:
        replied = state.shared.replied
        return all(state.replicas[s].history[: len(replied)] == replied for s in state.shared.chain)
