"""A lock service with a lost message: clients, one server, and a network that may lose messages.

No two clients ever hold the lock. But no message is repeated, so a lost one can leave the lock taken forever, with
all clients waiting. The shortest trace loses the grant of the lock, not its release:

>>> from kraftcheck.explorer.reference import explore
>>> from kraftcheck.spec.values import ModelValue
>>> clients = frozenset({ModelValue("c1", 1), ModelValue("c2", 2)})
>>> result = explore(LockService(clients=clients, losses=1))
>>> result.verdict.value
'deadlock'
>>> for step in result.violations[0].trace[1:]:
...     print(step.actor, step.action, step.message)
c1 Ask None
c2 Ask None
server Grant Acquire(source=c1, dest=server)
c1 LoseMessage Grant(dest=c1)

A server that takes the lock back after a timeout does not deadlock, but violates mutual exclusion:

>>> result = explore(ImpatientServer(clients=clients, losses=0))
>>> [(violation.property, len(violation.trace)) for violation in result.violations]
[('MutualExclusion', 8)]
"""

from __future__ import annotations

from collections.abc import Iterator

from kraftcheck.spec import (
    Bag,
    ModelValue,
    Protocol,
    Record,
    State,
    Steps,
    Symbol,
    become,
    bound,
    constant,
    consume,
    internal,
    invariant,
    on,
    ordered,
)


class Phase(Symbol):
    """The phase of a client."""

    IDLE = "idle"
    WAITING = "waiting"
    HOLDING = "holding"


class Name(Symbol):
    """Ids of processes other than clients."""

    SERVER = "server"
    NOBODY = "nobody"


class Client(Record):
    """A client that needs the lock from time to time."""

    id: ModelValue
    phase: Phase = Phase.IDLE


class Server(Record):
    """The lock server, with the client that holds the lock."""

    id: Name = Name.SERVER
    holder: ModelValue | Name = Name.NOBODY


class Acquire(Record):
    """A client's request for the lock."""

    source: ModelValue
    dest: Name = Name.SERVER


class Grant(Record):
    """The server's grant of the lock to a client."""

    dest: ModelValue


class Release(Record):
    """A client's release of the lock."""

    source: ModelValue
    dest: Name = Name.SERVER


class Nothing(Record):
    """The empty shared state."""


class LockService(Protocol):
    """One server hands out one lock, over a network that loses messages."""

    clients: frozenset[ModelValue] = constant("Clients")
    losses: int = bound("MaxLosses")
    network = Bag(loses="losses")
    symmetries = {"symmClients": ("clients",)}

    def initial(self) -> Iterator[State]:
        """Yield the initial state: all clients are idle and the lock is free."""
        yield self.start([*map(Client, ordered(self.clients)), Server()], Nothing())

    @internal
    def ask(self, me: Client) -> Steps:
        """An idle client asks for the lock."""
        if me.phase is not Phase.IDLE:
            return
        yield become(me.but(phase=Phase.WAITING)).send(Acquire(me.id))

    @on(Acquire)
    def grant(self, me: Server, request: Acquire) -> Steps:
        """The server grants the lock if it is free; otherwise the request stays in flight."""
        if me.holder is not Name.NOBODY:
            return
        yield consume(me.but(holder=request.source)).send(Grant(request.source))

    @on(Grant)
    def enter(self, me: Client, grant: Grant) -> Steps:
        """A client that receives the grant holds the lock."""
        yield consume(me.but(phase=Phase.HOLDING))

    @internal
    def leave(self, me: Client) -> Steps:
        """A client that is done releases the lock."""
        if me.phase is not Phase.HOLDING:
            return
        yield become(me.but(phase=Phase.IDLE)).send(Release(me.id))

    @on(Release)
    def free(self, me: Server, release: Release) -> Steps:
        """The server marks the lock as free."""
        yield consume(me.but(holder=Name.NOBODY))

    @invariant
    def mutual_exclusion(self, me: Client, peer: Client) -> bool:
        """No two clients hold the lock."""
        return me.phase is not Phase.HOLDING or peer.phase is not Phase.HOLDING

    @invariant
    def whoever_asks_waits(self, me: Client, message: Acquire | Grant) -> bool:
        """A client is waiting while its request or its grant is in flight: it asks only once."""
        client = message.source if isinstance(message, Acquire) else message.dest
        return client != me.id or me.phase is Phase.WAITING


class ImpatientServer(LockService, variant="impatient-server"):
    """The server may take the lock back from a client without its release."""

    @internal
    def expire(self, me: Server) -> Steps:
        """The server takes back a granted lock."""
        if me.holder is Name.NOBODY:
            return
        yield become(me.but(holder=Name.NOBODY))
