"""The constants of `reconfig`, how it starts, and what several modules use."""

from __future__ import annotations

from collections.abc import Iterator

from kraftcheck.kraft_model.reconfig.records import (
    SYMBOLS,
    BeginQuorumRequest,
    Command,
    Config,
    Entry,
    FetchResponse,
    InitialMembers,
    JoinRequest,
    Nil,
    RequestVoteRequest,
    Role,
    Server,
    ServerId,
    ServerState,
    Shared,
)
from kraftcheck.spec import (
    BagWithMemory,
    ConstantError,
    Map,
    ModelValue,
    Protocol,
    Record,
    State,
    bound,
    constant,
    hide,
    ordered,
    weak,
)

MOST_ELECTIONS = 1_000_000
"""A state counts the values of each epoch, and there is an epoch for each election."""


class ReconfigBase(Protocol):
    """Constants, bounds, the start, and what several modules use."""

    hosts: frozenset[ModelValue] = constant("Hosts")
    values: frozenset[ModelValue] = constant("Value")
    init_cluster_size: int = constant("InitClusterSize", at_least=1)
    min_cluster_size: int = constant("MinClusterSize", at_least=0)
    max_cluster_size: int = constant("MaxClusterSize", at_least=0)
    max_values_per_epoch: int = constant("MaxValuesPerEpoch", at_least=0)
    max_spawned_servers: int = constant("MaxSpawnedServers", at_least=0)
    elections: int = bound("MaxElections", counter="_electionCtr")
    restarts: int = bound("MaxRestarts", counter="_restartCtr")
    add_reconfigs: int = bound("MaxAddReconfigs", counter="_addReconfigCtr")
    remove_reconfigs: int = bound("MaxRemoveReconfigs", counter="_removeReconfigCtr")

    network = BagWithMemory(
        once=(RequestVoteRequest, BeginQuorumRequest, JoinRequest),
        replies_once=(FetchResponse,),
    )
    symbols = SYMBOLS
    symmetries = {"symmHosts": ("hosts",), "symmHostsAndValues": ("hosts", "values")}
    views = {"view": hide("elections", "restarts", "add_reconfigs", "remove_reconfigs", "value_ctr", "disk_id_gen")}
    specifications = {"Spec": False, "LivenessSpec": (weak("Next"),)}
    strict_bounds = True  # they are part of the specification

    def check_constants(self) -> None:
        """Refuse cluster sizes that contradict each other, and more epochs than a state can have a counter for."""
        if self.elections > MOST_ELECTIONS:
            raise ConstantError("MaxElections", f"expected at most {MOST_ELECTIONS}, found {self.elections}")
        if self.init_cluster_size > len(self.hosts):
            raise ConstantError(
                "InitClusterSize",
                f"expected at most {len(self.hosts)}, the number of Hosts, found {self.init_cluster_size}",
            )
        if self.min_cluster_size > self.init_cluster_size:
            raise ConstantError(
                "MinClusterSize",
                f"expected at most InitClusterSize = {self.init_cluster_size}, found {self.min_cluster_size}",
            )

    def initial(self) -> Iterator[State]:
        """Yield the one start: a cluster with an established leader, the first host by order (`Init`)."""
        members = frozenset(ServerId(host, 0) for host in ordered(self.hosts)[: self.init_cluster_size])
        leader = ordered(members)[0]
        first = Entry(Command.INIT_CLUSTER, 1, InitialMembers(1, members))
        servers = [
            Server(
                id=member,
                config=Config(1, members, True),
                current_epoch=1,
                role=Role.VOTER,
                state=ServerState.LEADER if member == leader else ServerState.FOLLOWER,
                leader=leader,
                log=(first,),
                high_watermark=1,
                end_offset=Map((peer, 1) for peer in ordered(members)),
            )
            for member in ordered(members)
        ]
        acked: Map[ModelValue, bool | Nil] = Map((value, Nil.NIL) for value in ordered(self.values))
        yield self.start(servers, Shared(members, acked, value_ctr=(0,) * (self.elections + 1)))

    def receives(self, me: Record, message: Record) -> bool:
        """A server that died without its state receives nothing (`ReceivableMessage`)."""
        return isinstance(me, Server) and me.state is not ServerState.DEAD_NO_STATE

    def _peers(self, me: Server) -> list[ServerId]:
        return ordered(me.config.members - {me.id})

    def _no_offsets(self, shared: Shared) -> Map[ServerId, int]:
        return Map((server, 0) for server in ordered(shared.servers))
