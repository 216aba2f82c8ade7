"""A lock service with a lost message: clients, one server, and a network that may lose what is sent.

No two clients ever hold the lock. But nobody repeats a message, so one that is lost can leave the lock taken for ever
and everyone waiting. The shortest way there loses not the release of the lock, as one might think, but its grant:

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

A server that grows impatient and takes the lock back deadlocks no more, and breaks the one promise there was:

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
    """Ids that are not clients'."""

    SERVER = "server"
    NOBODY = "nobody"


class Client(Record):
    """Someone who needs the lock now and then."""

    id: ModelValue
    phase: Phase = Phase.IDLE


class Server(Record):
    """The lock server, and to whom it has granted the lock."""

    id: Name = Name.SERVER
    holder: ModelValue | Name = Name.NOBODY


class Acquire(Record):
    """A client asks for the lock."""

    source: ModelValue
    dest: Name = Name.SERVER


class Grant(Record):
    """The server gives a client the lock."""

    dest: ModelValue


class Release(Record):
    """A client gives the lock back."""

    source: ModelValue
    dest: Name = Name.SERVER


class Nothing(Record):
    """The protocol has no shared state."""


class LockService(Protocol):
    """One server hands out one lock, over a network that loses messages."""

    clients: frozenset[ModelValue] = constant("Clients")
    losses: int = bound("MaxLosses")
    network = Bag(loses="losses")
    symmetries = {"symmClients": ("clients",)}

    def initial(self) -> Iterator[State]:
        """Everyone is idle and the lock is free."""
        yield self.start([*map(Client, ordered(self.clients)), Server()], Nothing())

    @internal
    def ask(self, me: Client) -> Steps:
        """An idle client asks for the lock."""
        if me.phase is not Phase.IDLE:
            return
        yield become(me.but(phase=Phase.WAITING)).send(Acquire(me.id))

    @on(Acquire)
    def grant(self, me: Server, request: Acquire) -> Steps:
        """The server grants the lock if it is free; otherwise the request waits in the network."""
        if me.holder is not Name.NOBODY:
            return
        yield consume(me.but(holder=request.source)).send(Grant(request.source))

    @on(Grant)
    def enter(self, me: Client, grant: Grant) -> Steps:
        """A client that gets the lock holds it."""
        yield consume(me.but(phase=Phase.HOLDING))

    @internal
    def leave(self, me: Client) -> Steps:
        """A client that is done gives the lock back."""
        if me.phase is not Phase.HOLDING:
            return
        yield become(me.but(phase=Phase.IDLE)).send(Release(me.id))

    @on(Release)
    def free(self, me: Server, release: Release) -> Steps:
        """The server takes the lock back."""
        yield consume(me.but(holder=Name.NOBODY))

    @invariant
    def mutual_exclusion(self, me: Client, peer: Client) -> bool:
        """No two clients hold the lock."""
        return me.phase is not Phase.HOLDING or peer.phase is not Phase.HOLDING

    @invariant
    def whoever_asks_waits(self, me: Client, message: Acquire | Grant) -> bool:
        """A client waits as long as its request, or the grant of it, is under way: it asks once."""
        client = message.source if isinstance(message, Acquire) else message.dest
        return client != me.id or me.phase is Phase.WAITING


class ImpatientServer(LockService, variant="impatient-server"):
    """The server may take the lock back from a client that it has not heard from."""

    @internal
    def expire(self, me: Server) -> Steps:
        """The server takes back a lock that is granted."""
        if me.holder is Name.NOBODY:
            return
        yield become(me.but(holder=Name.NOBODY))
