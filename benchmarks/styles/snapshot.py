"""Chandy and Lamport's distributed snapshot of accounts that send money over FIFO channels."""
from collections.abc import Iterator

from kraftcheck import *


class Account(Record):
    id: int
    money: int
    recorded: int | None = None
    open: frozenset[int] = frozenset()
    in_channels: Map[int, int] = Map()


class Money(Record):
    amount: int
    source: int
    dest: int


class Marker(Record):
    source: int
    dest: int


class Snapshot(Protocol):
    processes: int = constant("N")
    money: int = constant("Money")
    transfers: int = bound("MaxTransfers", default=2)
    network = Channels()

    def initial(self) -> Iterator[State]:
        yield self.start([Account(p, self.money) for p in self.ids])

    @property
    def ids(self) -> range:
        return range(1, self.processes + 1)

    def others(self, me: Account) -> frozenset[int]:
        return frozenset(p for p in self.ids if p != me.id)

    @internal
    def pay(self, me: Account) -> Steps:
        for amount in range(1, me.money + 1):
            for p in self.others(me):
                yield become(me.but(money=me.money - amount)).send(Money(amount, me.id, p)).spend("transfers")

    @on(Money)
    def receive(self, me: Account, message: Money) -> Steps:
        new = me.but(money=me.money + message.amount)
        if message.source in me.open:
            seen = me.in_channels.get(message.source, 0)
            new = new.but(in_channels=me.in_channels.put(message.source, seen + message.amount))
        yield consume(new)

    def record(self, me: Account, open: frozenset[int]) -> Account:
        return me.but(recorded=me.money, open=open)

    def markers(self, me: Account) -> list[Marker]:
        return [Marker(me.id, p) for p in self.others(me)]

    @internal
    def begin(self, me: Account) -> Steps:
        if me.recorded is None and me.id == 1:
            yield become(self.record(me, self.others(me))).send(*self.markers(me))

    @on(Marker)
    def mark(self, me: Account, message: Marker) -> Steps:
        if me.recorded is None:
            yield consume(self.record(me, self.others(me) - {message.source})).send(*self.markers(me))
        else:
            yield consume(me.but(open=me.open - {message.source}))

    @invariant
    def no_money_is_lost(self, state: State) -> bool:
        total = sum(account.money for account in state.replicas.values())
        for inbox in state.inboxes.values():
            for channel in inbox.values():
                for message in channel:
                    if isinstance(message, Money):
                        total += message.amount
        return total == self.processes * self.money

    @invariant
    def snapshot_is_consistent(self, state: State) -> bool:
        accounts = state.replicas.values()
        if any(a.recorded is None or a.open for a in accounts):
            return True
        return sum(a.recorded + sum(a.in_channels.values()) for a in accounts) == self.processes * self.money
