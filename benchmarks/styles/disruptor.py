"""The Disruptor: producers and consumers share one ring buffer, and each consumer reads every event."""
from __future__ import annotations

from collections.abc import Iterator

from kraftcheck import *


class Thread(Symbol):
    ACCESS = "Access"
    ADVANCE = "Advance"


class Ring(Record):
    slots: tuple[int | None, ...]
    readers: tuple[frozenset[ModelValue], ...]
    writers: tuple[frozenset[ModelValue], ...]


class Shared(Record):
    ring: Ring
    published: tuple[bool, ...]
    claimed: Map[ModelValue, int]
    read: Map[ModelValue, int]
    consumed: Map[ModelValue, tuple[int, ...]]
    pc: Map[ModelValue, Thread]
    next_sequence: int = 0


def at(items: tuple, index: int, item) -> tuple:
    return items[:index] + (item,) + items[index + 1 :]


class Disruptor(Protocol):
    most: int = constant("MaxPublished")
    writers: frozenset[ModelValue] = constant("Writers")
    readers: frozenset[ModelValue] = constant("Readers")
    size: int = constant("Size", at_least=1)

    def initial(self) -> Iterator[State]:
        nobody = (frozenset(),) * self.size
        yield self.start([], Shared(
            ring=Ring((None,) * self.size, nobody, nobody),
            published=(False,) * self.size,
            claimed=Map({w: -1 for w in self.writers}),
            read=Map({r: -1 for r in self.readers}),
            consumed=Map({r: () for r in self.readers}),
            pc=Map({t: Thread.ADVANCE for t in self.writers | self.readers}),
        ))

    def is_published(self, published: tuple[bool, ...], sequence: int) -> bool:
        return published[sequence % self.size] == (sequence // self.size % 2 == 0)

    @environment
    def begin_write(self, shared: Shared) -> Steps:
        seq, ring = shared.next_sequence, shared.ring
        i = seq % self.size
        for w in ordered(self.writers):
            if shared.pc[w] is Thread.ADVANCE and min(shared.read.values()) >= seq - self.size:
                yield Step().put(
                    claimed=shared.claimed.put(w, seq),
                    next_sequence=seq + 1,
                    pc=shared.pc.put(w, Thread.ACCESS),
                    ring=ring.but(slots=at(ring.slots, i, seq), writers=at(ring.writers, i, ring.writers[i] | {w})),
                )

    @environment
    def end_write(self, shared: Shared) -> Steps:
        ring = shared.ring
        for w in ordered(self.writers):
            if shared.pc[w] is Thread.ACCESS:
                i = shared.claimed[w] % self.size
                yield Step().put(
                    pc=shared.pc.put(w, Thread.ADVANCE),
                    ring=ring.but(writers=at(ring.writers, i, ring.writers[i] - {w})),
                    published=at(shared.published, i, not shared.published[i]),
                )

    @environment
    def begin_read(self, shared: Shared) -> Steps:
        ring = shared.ring
        for r in ordered(self.readers):
            following = shared.read[r] + 1
            i = following % self.size
            if shared.pc[r] is Thread.ADVANCE and self.is_published(shared.published, following):
                yield Step().put(
                    pc=shared.pc.put(r, Thread.ACCESS),
                    ring=ring.but(readers=at(ring.readers, i, ring.readers[i] | {r})),
                    consumed=shared.consumed.put(r, (*shared.consumed[r], ring.slots[i])),
                )

    @environment
    def end_read(self, shared: Shared) -> Steps:
        ring = shared.ring
        for r in ordered(self.readers):
            if shared.pc[r] is Thread.ACCESS:
                i = (shared.read[r] + 1) % self.size
                yield Step().put(
                    pc=shared.pc.put(r, Thread.ADVANCE),
                    ring=ring.but(readers=at(ring.readers, i, ring.readers[i] - {r})),
                    read=shared.read.put(r, shared.read[r] + 1),
                )

    @constraint
    def state_constraint(self, shared: Shared) -> bool:
        return shared.next_sequence <= self.most

    @invariant
    def no_data_races(self, shared: Shared) -> bool:
        ring = shared.ring
        return all(len(w) <= 1 and not (r and w) for r, w in zip(ring.readers, ring.writers))
