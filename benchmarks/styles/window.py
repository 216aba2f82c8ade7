"""A sliding window over lossy FIFO channels: go-back-N with sequence numbers modulo M."""
from collections.abc import Iterator

from kraftcheck import *


class Sender(Record):
    id: str = "sender"
    base: int = 0
    next: int = 0


class Receiver(Record):
    id: str = "receiver"
    got: tuple[int, ...] = ()


class Data(Record):
    number: int
    value: int
    source: str = "sender"
    dest: str = "receiver"


class Ack(Record):
    number: int
    source: str = "receiver"
    dest: str = "sender"


class Window(Protocol):
    items: int = constant("Items")
    size: int = constant("Size")
    modulus: int = constant("Modulus")
    capacity: int = constant("Capacity")
    network = Channels(loses=True)

    def initial(self) -> Iterator[State]:
        yield self.start([Sender(), Receiver()])

    def data(self, number: int) -> Data:
        return Data(number % self.modulus, number)

    @internal
    def transmit(self, me: Sender) -> Steps:
        if me.next < min(me.base + self.size, self.items):
            yield become(me.but(next=me.next + 1)).send(self.data(me.next))

    @internal
    def timeout(self, me: Sender) -> Steps:
        if me.base < me.next:
            yield become(me.but(next=me.base))

    @on(Data)
    def receive(self, me: Receiver, message: Data) -> Steps:
        expected = len(me.got) % self.modulus
        if message.number == expected:
            me = me.but(got=me.got + (message.value,))
        yield consume(me).send(Ack(len(me.got) % self.modulus))

    @on(Ack)
    def acknowledge(self, me: Sender, message: Ack) -> Steps:
        base = me.base
        for n in range(me.base + 1, me.base + self.size + 1):
            if n % self.modulus == message.number and n <= me.next:
                base = n
        yield consume(me.but(base=base))

    @invariant
    def in_order(self, state: State) -> bool:
        got = state.replicas["receiver"].got
        return got == tuple(range(len(got)))

    @invariant
    def acknowledged_was_received(self, state: State) -> bool:
        return state.replicas["sender"].base <= len(state.replicas["receiver"].got)

    @constraint
    def short_channels(self, state: State) -> bool:
        return all(len(channel) <= self.capacity for inbox in state.inboxes.values() for channel in inbox.values())


class ProjectedWindow(Window):
    """The same, with a projection of each inbox in place of the whole state."""

    @projection
    def longest(self, inbox: Map) -> int:
        return max((len(channel) for channel in inbox.values()), default=0)

    @constraint(reads=longest)
    def short_channels(self, longest: Map[str, int]) -> bool:
        return all(n <= self.capacity for n in longest.values())
