"""Lamport's distributed mutual exclusion: logical clocks, requests, acknowledgements, and FIFO channels.

Sources: L. Lamport, "Time, clocks, and the ordering of events in a distributed system" (CACM 21(7), 1978); module
LamportMutex of the TLA+ examples.
"""

from __future__ import annotations

from collections.abc import Iterator

from kraftcheck.spec import (
    Channels,
    Map,
    Protocol,
    Record,
    State,
    Steps,
    become,
    constant,
    constraint,
    consume,
    internal,
    invariant,
    on,
    projection,
)


class Process(Record):
    """A process: its clock, the known request time of every process, and the acknowledgements of its own request."""

    id: int
    requests: tuple[int | None, ...]
    acknowledged: frozenset[int] = frozenset()
    clock: int = 1
    critical: bool = False

    def request_of(self, process: int) -> int | None:
        """Return the known request time of a process, or None."""
        return self.requests[process - 1]

    def noting(self, process: int, time: int | None) -> tuple[int | None, ...]:
        """Return the request times, with a new time for one process."""
        return (*self.requests[: process - 1], time, *self.requests[process:])


class Request(Record):
    """A request to enter the critical section."""

    time: int
    source: int
    dest: int


class Acknowledge(Record):
    """The acknowledgement of a request."""

    source: int
    dest: int


class Release(Record):
    """A process has left the critical section."""

    source: int
    dest: int


class Nothing(Record):
    """The empty shared state."""


class LamportMutex(Protocol):
    """At most one process is in the critical section, in the order of their requests."""

    processes: int = constant("N", at_least=1)
    max_clock: int = constant("MaxClock", at_least=1)
    network = Channels()

    def initial(self) -> Iterator[State]:
        """Yield the initial state, without requests."""
        nobody = (None,) * self.processes
        yield self.start([Process(number, nobody) for number in range(1, self.processes + 1)], Nothing())

    def others(self, me: Process) -> list[int]:
        """Return the ids of all other processes."""
        return [number for number in range(1, self.processes + 1) if number != me.id]

    @internal
    def request(self, me: Process) -> Steps:
        """A process without a request sends one to every other process."""
        if me.request_of(me.id) is not None:
            return
        asking = me.but(requests=me.noting(me.id, me.clock), acknowledged=frozenset({me.id}))
        yield become(asking).send(*[Request(me.clock, me.id, other) for other in self.others(me)])

    @on(Request)
    def receive_request(self, me: Process, request: Request) -> Steps:
        """A process records and acknowledges a request, and advances its clock beyond it."""
        noted = me.but(requests=me.noting(request.source, request.time), clock=max(request.time, me.clock) + 1)
        yield consume(noted).send(Acknowledge(me.id, request.source))

    @on(Acknowledge)
    def receive_acknowledge(self, me: Process, message: Acknowledge) -> Steps:
        """A process records an acknowledgement."""
        yield consume(me.but(acknowledged=me.acknowledged | {message.source}))

    @internal
    def enter(self, me: Process) -> Steps:
        """A process enters the critical section if its request is the earliest, and acknowledged by all."""
        mine = me.request_of(me.id)
        if len(me.acknowledged) < self.processes or mine is None:
            return
        for other in self.others(me):
            theirs = me.request_of(other)
            if theirs is not None and (theirs, other) < (mine, me.id):
                return
        yield become(me.but(critical=True))

    @internal
    def leave(self, me: Process) -> Steps:
        """A process leaves the critical section and sends a release to every other process."""
        if not me.critical:
            return
        done = me.but(critical=False, requests=me.noting(me.id, None), acknowledged=frozenset())
        yield become(done).send(*[Release(me.id, other) for other in self.others(me)])

    @on(Release)
    def receive_release(self, me: Process, message: Release) -> Steps:
        """A process clears the request of the process that has left."""
        yield consume(me.but(requests=me.noting(message.source, None)))

    @constraint
    def clock_constraint(self, me: Process) -> bool:
        """Clocks stay within a bound."""
        return me.clock <= self.max_clock

    @invariant
    def mutex(self, me: Process, peer: Process) -> bool:
        """No two processes are in the critical section."""
        return not (me.critical and peer.critical)

    @projection
    def longest(self, inbox: Map[int, tuple[Record, ...]]) -> int:
        """The length of the longest channel to a process."""
        return max(map(len, inbox.values()), default=0)

    @invariant(reads=longest)
    def bounded_network(self, longest: Map[int, int]) -> bool:
        """No channel ever holds more than three messages."""
        return max(longest.values()) <= 3
