"""The constants of `prevote`, how it starts, and what several modules use."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import combinations
from typing import Any

from kraftcheck.kraft_model.prevote.records import (
    SYMBOLS,
    Command,
    Config,
    Connection,
    Entry,
    FetchState,
    Identity,
    InitialMembers,
    Server,
    ServerState,
    Shared,
)
from kraftcheck.spec import (
    ConstantError,
    Map,
    MessageSetWithMemory,
    ModelValue,
    Protocol,
    Record,
    State,
    Step,
    constant,
    ordered,
    projection,
)


def connection(message: Any) -> Connection | None:
    """Return the connection that a message is on; None for a connection itself."""
    return None if isinstance(message, Connection) else Connection(message.source, message.dest)


class PrevoteBase(Protocol):
    """Constants, the start, and what several modules use."""

    hosts: frozenset[ModelValue] = constant("Hosts")
    values: frozenset[ModelValue] = constant("Value")
    test_liveness: bool = constant("TestLiveness", default=False)
    init_cluster_size: int = constant("InitClusterSize", at_least=1)
    min_cluster_size: int = constant("MinClusterSize", at_least=0)
    max_cluster_size: int = constant("MaxClusterSize", at_least=0)
    max_epoch: int = constant("MaxEpoch", at_least=0)
    max_values_per_epoch: int = constant("MaxValuesPerEpoch", at_least=0)
    max_spawned_servers: int = constant("MaxSpawnedServers", at_least=0)
    max_disruptions: int = constant("MaxDisruptiveElectionTriggers", at_least=0)
    max_connectivity_changes: int = constant("MaxConnectivityChanges", at_least=0)
    max_crashes: int = constant("MaxPermCrashes", at_least=0)
    max_restarts: int = constant("MaxRestarts", at_least=0)
    max_add_reconfigs: int = constant("MaxAddReconfigs", at_least=0)
    max_remove_reconfigs: int = constant("MaxRemoveReconfigs", at_least=0)

    network = MessageSetWithMemory(variables=("net_messages", "net_messages_processed"), groups=connection)
    symbols = SYMBOLS
    written_only = ("result", "resend")  # the specification has them, to tell messages apart
    symmetries = {"symmHosts": ("hosts",), "symmHostsAndValues": ("hosts", "values")}
    strict_bounds = True  # they are part of the specification
    accepted_constants = ("Voter", "Observer", "Voted")

    def check_constants(self) -> None:
        """Refuse cluster sizes that contradict each other."""
        size = self.init_cluster_size
        for name, fits, expected in (
            ("InitClusterSize", size <= len(self.hosts), f"at most {len(self.hosts)}, the number of Hosts"),
            ("MinClusterSize", self.min_cluster_size <= size, f"at most InitClusterSize = {size}"),
            ("MaxClusterSize", size <= self.max_cluster_size, f"at least InitClusterSize = {size}"),
            ("MaxSpawnedServers", size <= self.max_spawned_servers, f"at least InitClusterSize = {size}"),
        ):
            if not fits:
                raise ConstantError(name, f"expected {expected}, found {self._found(name)}")

    def _found(self, name: str) -> object:
        return self.constant_values()[name]

    def initial(self) -> Iterator[State]:
        """Yield the one start: a cluster with an established leader, server 1, and all connected (`Init`)."""
        servers = range(1, self.init_cluster_size + 1)
        members, first = frozenset(servers), servers[0]
        entry = Entry(Command.INIT_CLUSTER, 1, InitialMembers(1, members))
        pairs = combinations(range(1, self.max_spawned_servers + 1), 2)
        cluster = [
            Server(
                id=server,
                identity=Identity(host, 0),
                config=Config(1, members, True),
                current_epoch=1,
                state=ServerState.LEADER if server == first else ServerState.FOLLOWER,
                leader=first,
                fetch_state=FetchState(has_fetch_success=True),
                log=(entry,),
                hwm=1,
                flwr_end_offset=Map((peer, 1) for peer in servers),
            )
            for server, host in zip(servers, ordered(self.hosts), strict=False)
        ]
        yield self.start(cluster, Shared(Map((frozenset(pair), True) for pair in pairs)))

    def receives(self, me: Record, message: Record) -> bool:
        """A dead server receives nothing (`ReceivableMessage`)."""
        return isinstance(me, Server) and me.state is not ServerState.DEAD_NO_STATE

    # What several modules use

    @projection
    def alive(self, me: Server) -> bool:
        """Whether a server lives; of all servers ever started."""
        return me.state is not ServerState.DEAD_NO_STATE

    def _connected(self, shared: Shared, one: int, other: int) -> bool:
        """Whether two servers reach each other (`Connected`)."""
        return shared.connectivity.get(frozenset((one, other)), False)

    def _send(self, step: Step, shared: Shared, messages: Iterable[Record]) -> Step:
        """Return a step that sends messages too; those on a cut connection are lost (`Send`, `SendAll`)."""
        connections = ((message, connection(message)) for message in messages)
        return step.send(*(m for m, on in connections if on and self._connected(shared, on.source, on.dest)))

    def _fail_pending(self, step: Step, me: Server, shared: Shared) -> Step:
        """Return a step that refuses clients what is pending at a server (`FailAnyPendingWritesIfLeader`).

        The step's own server no longer has it pending.
        """
        after: Server = step.me.but(pending_ack=frozenset())
        step = step.but(me=after)
        return step.put(negatively_acked=shared.negatively_acked | me.pending_ack) if me.pending_ack else step

    def _count(self, step: Step, shared: Shared, counter: str) -> Step:
        """Return a step that adds one to a counter."""
        return step.put(counters=shared.counters.but(**{counter: getattr(shared.counters, counter) + 1}))


def zeros(members: Iterable[int]) -> Map[int, int]:
    """Return the end offset 0 for each member (`ResetFollowerFetchStateIfLeader`)."""
    return Map((member, 0) for member in ordered(members))
