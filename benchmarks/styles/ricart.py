"""Ricart-Agrawala mutual exclusion with Lamport clocks; FIFO is not assumed."""
import enum
from dataclasses import replace

from kraftcheck import *


class Mode(enum.Enum):
    IDLE = "idle"
    WAITING = "waiting"
    HOLDING = "holding"


class Node(Record):
    id: int
    clock: int = 0
    mode: Mode = Mode.IDLE
    stamp: int = 0
    replies: frozenset[int] = frozenset()
    deferred: frozenset[int] = frozenset()
    entries: int = 0


class Request(Record):
    stamp: int
    source: int
    dest: int


class Reply(Record):
    source: int
    dest: int


class History(Record):
    entered: tuple[tuple[int, int], ...] = ()


class RicartAgrawala(Protocol):
    n: int = constant("N", default=3)
    rounds: int = constant("Rounds", default=2)
    network = Bag()

    def initial(self):
        yield self.start([Node(i) for i in range(1, self.n + 1)], History())

    def others(self, me):
        return [i for i in range(1, self.n + 1) if i != me.id]

    @internal
    def request(self, me: Node):
        if me.mode is Mode.IDLE and me.entries < self.rounds:
            stamp = me.clock + 1
            nxt = replace(me, clock=stamp, mode=Mode.WAITING, stamp=stamp, replies=frozenset())
            yield become(nxt).send(*(Request(stamp, me.id, d) for d in self.others(me)))

    @on(Request)
    def on_request(self, me: Node, message: Request):
        clock = max(me.clock, message.stamp)
        mine_first = (me.stamp, me.id) < (message.stamp, message.source)
        match me.mode:
            case Mode.HOLDING:
                defer = True
            case Mode.WAITING:
                defer = mine_first
            case _:
                defer = False
        if defer:
            yield consume(replace(me, clock=clock, deferred=me.deferred | {message.source}))
        else:
            yield consume(replace(me, clock=clock)).send(Reply(me.id, message.source))

    @on(Reply)
    def on_reply(self, me: Node, message: Reply):
        yield consume(replace(me, replies=me.replies | {message.source}))

    @internal
    def enter(self, me: Node, shared: History):
        if me.mode is Mode.WAITING and len(me.replies) == self.n - 1:
            yield become(replace(me, mode=Mode.HOLDING, entries=me.entries + 1)).put(
                entered=(*shared.entered, (me.stamp, me.id)))

    @internal
    def leave(self, me: Node):
        if me.mode is Mode.HOLDING:
            yield become(replace(me, mode=Mode.IDLE, deferred=frozenset(), stamp=0, replies=frozenset())).send(
                *(Reply(me.id, d) for d in ordered(me.deferred)))

    @invariant
    def mutual_exclusion(self, me: Node, peer: Node):
        return not (me.mode is Mode.HOLDING and peer.mode is Mode.HOLDING)

    @invariant
    def in_stamp_order(self, state: State):
        entered = state.shared.entered
        return list(entered) == sorted(entered)
