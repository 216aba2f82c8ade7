"""The constants of `reconfig`, its initial states, and shared methods.

A `.cfg` names an initial state under INIT: `Init`, or a scenario of `ReconfigScenarios`. The steps of a scenario lead
to a reachable state close to a rare one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from kraftcheck.kraft_model.reconfig.records import (
    SYMBOL_TYPES,
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
from kraftcheck.spec.language.semantics import Take, scenario, take

LIMIT_OF_MAX_ELECTIONS = 1_000_000
"""Bound on MaxElections: a state has one value counter per epoch, and one epoch per election."""


class ReconfigBase(Protocol):
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

    network = BagWithMemory(once=(RequestVoteRequest, BeginQuorumRequest, JoinRequest), replies_once=(FetchResponse,))
    symbols = SYMBOL_TYPES
    symmetries = {"symmHosts": ("hosts",), "symmHostsAndValues": ("hosts", "values")}
    views = {"view": hide("elections", "restarts", "add_reconfigs", "remove_reconfigs", "value_ctr", "disk_id_gen")}
    specifications = {"Spec": False, "LivenessSpec": (weak("Next"),)}
    strict_bounds = True  # bounds are part of the specification

    def check_constants(self) -> None:
        """Reject cluster sizes that contradict each other, and more elections than LIMIT_OF_MAX_ELECTIONS."""
        if self.elections > LIMIT_OF_MAX_ELECTIONS:
            raise ConstantError("MaxElections", f"expected at most {LIMIT_OF_MAX_ELECTIONS}, found {self.elections}")
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
        """Yield the initial state: a cluster with an established leader, the first host by order (`Init`)."""
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
        """Whether a server receives messages: one that died without its state does not (`ReceivableMessage`)."""
        return isinstance(me, Server) and me.state is not ServerState.DEAD_NO_STATE

    def _peers(self, me: Server) -> list[ServerId]:
        return ordered(me.config.members - {me.id})

    def _no_offsets(self, shared: Shared) -> Map[ServerId, int]:
        return Map((server, 0) for server in ordered(shared.servers))


class ReconfigScenarios(ReconfigBase):
    @scenario
    def competing_removals(self) -> Iterator[Take]:
        """Four voters: leader 1 has appended the removal of 4, which no server fetched, when 3 and 4 elect 2.

        Server 1 uses {1, 2, 3} and knows the new epoch; the others use {1, 2, 3, 4}. The new leader has appended a
        value that no server fetched, so no entry of its epoch is committed.
        """
        one, two, three, four = self._servers(of_four=4)
        yield take("HandleRemoveRequest", one, _voters_condition(one, two, three))
        yield from _election_steps(two, voters=[three, four], others=[one])
        yield from _append_and_begin_quorum_steps(two, follower=four)

    @scenario
    def lagging_high_watermark(self) -> Iterator[Take]:
        """Three voters and a committed fourth: leader 1 has appended the removal of 3, when 3 and 4 elect 2.

        Server 1 uses {1, 2, 4} and knows the new epoch. The new leader uses {1, 2, 3, 4}, but its high watermark is
        below the command that added 4. It has appended a value that no server fetched.
        """
        one, two, three, four = self._servers(of_four=3)
        yield take("StartNewServer", result=_started_condition(four))
        yield take("RejectFetchRequest", one, source=four)
        yield take("HandleNonSuccessFetchResponse", four)
        yield take("SendJoinRequest", four)
        yield take("AcceptJoinRequest", one)
        yield from _fetch_steps(two, one)
        for _ in range(2):
            yield from _fetch_steps(four, one, "AcceptFetchRequestFromObserver")
        for member in (four, two):  # both hold the command and report it to the leader, without its response
            yield take("SendFetchRequest", member)
            yield take("AcceptFetchRequestFromVoter", one, source=member)
        yield take("HandleRemoveRequest", one, _voters_condition(one, two, four))
        yield from _election_steps(two, voters=[three, four], others=[one])
        yield from _append_and_begin_quorum_steps(two, follower=three)

    def _servers(self, *, of_four: int) -> list[ServerId]:
        """Return four servers on the first four hosts; the first `of_four` are initial members."""
        if len(self.hosts) < 4:
            raise ConstantError("Hosts", f"expected at least 4 for this start, found {len(self.hosts)}")
        if self.init_cluster_size != of_four:
            raise ConstantError("InitClusterSize", f"expected {of_four} for this start, found {self.init_cluster_size}")
        return [
            ServerId(host, 0 if number <= of_four else number - of_four)
            for number, host in enumerate(ordered(self.hosts)[:4], start=1)
        ]


def _election_steps(candidate: ServerId, voters: list[ServerId], others: list[ServerId]) -> Iterator[Take]:
    """Yield the steps in which a candidate wins the votes of `voters` and becomes leader; `others` reject it."""
    yield take("RequestVote", candidate)
    for server in (*voters, *others):
        yield take("HandleRequestVoteRequest", server, source=candidate)
    for server in voters:
        yield take("HandleRequestVoteResponse", candidate, source=server, vote_granted=True)
    yield take("BecomeLeader", candidate)


def _append_and_begin_quorum_steps(leader: ServerId, follower: ServerId) -> Iterator[Take]:
    """Yield the steps in which a new leader appends a value and one server follows it, without a fetch."""
    yield take("ClientRequest", leader)
    yield take("AcceptBeginQuorumRequest", follower, source=leader)


def _fetch_steps(follower: ServerId, leader: ServerId, accept: str = "AcceptFetchRequestFromVoter") -> Iterator[Take]:
    """Yield the steps in which a follower fetches once and appends the result."""
    yield take("SendFetchRequest", follower)
    yield take(accept, leader, source=follower)
    yield take("HandleSuccessFetchResponse", follower)


def _voters_condition(*members: ServerId) -> Callable[[Server], bool]:
    return lambda me: me.config.members == frozenset(members)


def _started_condition(server: ServerId) -> Callable[[State], bool]:
    return lambda state: server in state.replicas
