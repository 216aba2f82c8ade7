"""The observed-remove set of Shapiro et al.: replicas broadcast additions and removals over FIFO channels."""
from collections.abc import Iterator

from kraftcheck import *


class Replica(Record):
    id: int
    present: frozenset[tuple[str, int]] = frozenset()
    gone: frozenset[tuple[str, int]] = frozenset()
    clock: int = 0


class Add(Record):
    element: str
    tag: int
    source: int
    dest: int


class Remove(Record):
    pairs: frozenset[tuple[str, int]]
    source: int
    dest: int


class ORSet(Protocol):
    count: int = constant("N")
    adds: int = bound("MaxAdds", default=2)
    removes: int = bound("MaxRemoves", default=2)
    network = Channels()

    def initial(self) -> Iterator[State]:
        yield self.start([Replica(i) for i in range(self.count)])

    def others(self, me: Replica) -> list[int]:
        return [i for i in range(self.count) if i != me.id]

    @internal
    def add(self, me: Replica) -> Steps:
        for element in ("a", "b"):
            tag = me.clock * self.count + me.id
            added = me.but(present=me.present | {(element, tag)}, clock=me.clock + 1)
            yield become(added).send(*[Add(element, tag, me.id, i) for i in self.others(me)]).spend("adds")

    @internal
    def remove(self, me: Replica) -> Steps:
        for element in ("a", "b"):
            pairs = frozenset(pair for pair in me.present if pair[0] == element)
            if pairs:
                removed = me.but(present=me.present - pairs, gone=me.gone | pairs)
                yield become(removed).send(*[Remove(pairs, me.id, i) for i in self.others(me)]).spend("removes")

    @on(Add)
    def receive_add(self, me: Replica, message: Add) -> Steps:
        pair = (message.element, message.tag)
        yield consume(me if pair in me.gone else me.but(present=me.present | {pair}))

    @on(Remove)
    def receive_remove(self, me: Replica, message: Remove) -> Steps:
        yield consume(me.but(present=me.present - message.pairs, gone=me.gone | message.pairs))

    @invariant
    def converged(self, state: State) -> bool:
        if any(channel for inbox in state.inboxes.values() for channel in inbox.values()):
            return True
        return len({r.present for r in state.replicas.values()}) == 1
