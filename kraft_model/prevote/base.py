"""The constants of `prevote`, its initial state, shared methods, and the liveness conditions on actions.

With TestLiveness TRUE, conditions on actions keep a cluster able to elect a leader, and exclude cycles: module
kraft_kip_996_liveness of the TLA+ specification kraft_kip_996.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import combinations
from typing import Any

from kraftcheck.kraft_model.prevote.records import (
    SYMBOL_TYPES,
    Command,
    Config,
    Connection,
    Entry,
    Error,
    FetchState,
    Identity,
    InitialMembers,
    LastFetch,
    Nil,
    RequestVoteResponse,
    Server,
    ServerState,
    Shared,
)
from kraftcheck.kraft_model.prevote.rules import is_voter
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


def connection_of_message(message: Any) -> Connection | None:
    """Return the connection from a message's sender to its receiver; None if `message` is itself a Connection."""
    return None if isinstance(message, Connection) else Connection(message.source, message.dest)


def zero_end_offsets(members: Iterable[int]) -> Map[int, int]:
    """Return a map from each member to end offset 0 (`ResetFollowerFetchStateIfLeader`)."""
    return Map((member, 0) for member in ordered(members))


ServerIdPairs = Iterable[frozenset[int]]


class ServerSummary(Record):
    """State, log, configuration and end offsets of a server, which other servers' liveness conditions read."""

    state: ServerState = ServerState.UNATTACHED
    epoch: int = 0
    leader: int | Nil = Nil.NIL
    config: Config = Config()
    log: tuple[Entry, ...] = ()
    hwm: int = 0
    end_offset: Map[int, int] = Map()
    votes: bool = False


class RejectedPreVote(Record):
    """A rejected pre-vote: the rejecting server, with the leader and the epoch in its response."""

    source: int
    leader: int | Nil
    epoch: int


class PrevoteBase(Protocol):
    """Constants, initial state, shared methods, and the liveness conditions on actions."""

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

    network = MessageSetWithMemory(variables=("net_messages", "net_messages_processed"), groups=connection_of_message)
    symbols = SYMBOL_TYPES
    written_only = ("result", "resend")  # fields of the specification that distinguish messages
    symmetries = {"symmHosts": ("hosts",), "symmHostsAndValues": ("hosts", "values")}
    strict_bounds = True  # bounds are part of the specification
    accepted_constants = ("Voter", "Observer", "Voted")

    def check_constants(self) -> None:
        """Reject cluster sizes that contradict each other."""
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
        """Yield the initial state: a connected cluster with an established leader, server 1 (`Init`)."""
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
        """Whether a server receives messages: a dead one does not (`ReceivableMessage`)."""
        return isinstance(me, Server) and me.state is not ServerState.DEAD_NO_STATE

    # Shared methods

    @projection
    def alive(self, me: Server) -> bool:
        """Whether a server is alive, that is, has not crashed and lost its disk."""
        return me.state is not ServerState.DEAD_NO_STATE

    def _connected(self, shared: Shared, one: int, other: int) -> bool:
        """Whether two servers are connected (`Connected`)."""
        return shared.connectivity.get(frozenset((one, other)), False)

    def _send(self, step: Step, shared: Shared, messages: Iterable[Record]) -> Step:
        """Return a step that also sends messages; messages on a cut connection are lost (`Send`, `SendAll`)."""
        connections = ((message, connection_of_message(message)) for message in messages)
        return step.send(*(m for m, on in connections if on and self._connected(shared, on.source, on.dest)))

    def _fail_pending(self, step: Step, me: Server, shared: Shared) -> Step:
        """Return a step that rejects the pending values of a server's clients (`FailAnyPendingWritesIfLeader`).

        The server of the step has no pending values afterwards.
        """
        after: Server = step.me.but(pending_ack=frozenset())
        step = step.but(me=after)
        return step.put(negatively_acked=shared.negatively_acked | me.pending_ack) if me.pending_ack else step

    def _count(self, step: Step, shared: Shared, counter: str) -> Step:
        return step.put(counters=shared.counters.but(**{counter: getattr(shared.counters, counter) + 1}))

    @projection
    def seen(self, me: Server) -> ServerSummary:
        """Return a server's state, log, configuration and end offsets; defaults unless TestLiveness is TRUE."""
        if not self.test_liveness:
            return ServerSummary()
        return ServerSummary(
            me.state, me.current_epoch, me.leader, me.config, me.log, me.hwm, me.flwr_end_offset, is_voter(me)
        )

    @projection
    def refusals(self, inbox: tuple[frozenset[Record], frozenset[Record]]) -> frozenset[RejectedPreVote]:
        """Return the rejections of pre-votes that a server has processed; none unless TestLiveness is TRUE."""
        if not self.test_liveness:
            return frozenset()
        return frozenset(
            RejectedPreVote(vote.source, vote.leader, vote.replica_epoch)
            for vote in inbox[1]
            if isinstance(vote, RequestVoteResponse) and vote.pre_vote and not vote.vote_granted
        )

    def _connected_pairs(self, shared: Shared) -> list[frozenset[int]]:
        return [pair for pair, is_up in shared.connectivity.items() if is_up]

    def _elections_can_progress(self, pairs: ServerIdPairs, seen: Map[int, ServerSummary]) -> bool:
        """Whether a voter is connected to a majority without a newer epoch (`LIVENESS_ElectionsCanProgress`)."""
        if not self.test_liveness:
            return True
        connected = frozenset(pairs)

        def reaches_majority(server: int) -> bool:
            members = seen[server].config.members
            reached = [
                m
                for m in members
                if m != server
                and seen[server].epoch >= seen[m].epoch
                and seen[m].state is not ServerState.DEAD_NO_STATE
                and frozenset((server, m)) in connected
            ]
            return len(reached) >= len(members) // 2

        return any(server.votes and reaches_majority(key) for key, server in seen.items())

    def _is_valid_peer(self, me: Server, peer: int, shared: Shared, seen: Map[int, ServerSummary]) -> bool:
        """Whether a peer can name the leader to an unattached voter (`LIVENESS_ValidPeer`)."""
        if not self.test_liveness:
            return True
        return seen[peer].votes and seen[peer].leader is not Nil.NIL and self._connected(shared, me.id, peer)

    def _helps(self, me: Server, peer: int, seen: Map[int, ServerSummary]) -> bool:
        """Whether a fetch can tell this server or `peer` anything new (`LIVENESS_HelpsMakeProgress`)."""
        if not self.test_liveness:
            return True
        other = seen[peer]
        return (
            other.state is not ServerState.LEADER
            or me.current_epoch != other.epoch
            or (me.log, me.hwm) != (other.log, other.hwm)
            or other.end_offset.get(me.id, -1) < len(me.log) + 1
        )

    def _is_in_prevote_cycle(
        self, me: Server, leader: int, shared: Shared, refusals: Map[int, frozenset[RejectedPreVote]]
    ) -> bool:
        """Whether a peer connected to the leader has rejected a pre-vote of its epoch (`LIVENESS_InPrevoteCycle`)."""
        if not self.test_liveness or not is_voter(me) or self._connected(shared, me.id, leader):
            return False
        return any(
            (refusal.leader, refusal.epoch) == (leader, me.current_epoch)
            and self._connected(shared, refusal.source, leader)
            for refusal in refusals[me.id]
        )

    def _is_another_peer(self, me: Server, peer: int) -> bool:
        """Whether a peer differs from the one that just answered NotLeader (`LIVENESS_MaybeNotSamePeerAgain`)."""
        if not self.test_liveness:
            return True
        last = me.fetch_state.last_fetch_res
        return not (isinstance(last, LastFetch) and last.error is Error.NOT_LEADER and last.peer == peer)

    def _may_add(self, me: Server, added: int, shared: Shared) -> bool:
        """Whether a majority is connected after adding a voter (`LIVENESS_AddVoterLivenessCondition`)."""
        if not self.test_liveness:
            return True
        members = me.config.members
        reached = sum(self._connected(shared, me.id, member) for member in {*members, added} - {me.id}) + 1
        return reached > (len(members) + 1) // 2

    def _may_remove(self, me: Server, removed: int, shared: Shared, seen: Map[int, ServerSummary]) -> bool:
        """Whether a majority is connected after removing a voter (`LIVENESS_RemoveVoterLivenessCondition`)."""
        if not self.test_liveness:
            return True
        members = me.config.members
        reached = sum(seen[peer].votes and self._connected(shared, me.id, peer) for peer in members - {removed, me.id})
        return reached > len(members) // 2
