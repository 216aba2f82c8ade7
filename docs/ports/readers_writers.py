"""Module ReadersWriters of the TLA+ Examples: who waits is served in the order of asking."""

from collections.abc import Iterator
from enum import StrEnum

from kraftcheck import *


class Kind(StrEnum):
    READ = "read"
    WRITE = "write"


class Room(Record):
    readers: frozenset[int] = frozenset()
    writers: frozenset[int] = frozenset()
    waiting: tuple[tuple[Kind, int], ...] = ()


class ReadersWriters(Protocol):
    actors: int = constant("NumActors")
    network = None

    def initial(self) -> Iterator[State]:
        yield self.start([], Room())

    def ask(self, kind: Kind, shared: Room) -> Steps:
        for actor in range(1, self.actors + 1):
            if (kind, actor) not in shared.waiting:
                yield Step().put(waiting=(*shared.waiting, (kind, actor)))

    @environment
    def try_read(self, shared: Room) -> Steps:
        yield from self.ask(Kind.READ, shared)

    @environment
    def try_write(self, shared: Room) -> Steps:
        yield from self.ask(Kind.WRITE, shared)

    @environment
    def read_or_write(self, shared: Room) -> Steps:
        if not shared.waiting or shared.writers:
            return
        (kind, actor), *rest = shared.waiting
        if kind is Kind.READ:
            yield Step().put(readers=shared.readers | {actor}, waiting=tuple(rest))
        elif not shared.readers:
            yield Step().put(writers=shared.writers | {actor}, waiting=tuple(rest))

    @environment
    def stop(self, shared: Room) -> Steps:
        for actor in ordered(shared.readers | shared.writers):
            if actor in shared.readers:
                yield Step().put(readers=shared.readers - {actor})
            else:
                yield Step().put(writers=shared.writers - {actor})
