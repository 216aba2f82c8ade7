"""The environment of `prevote`: network partitions, restarts, crashes, new servers, voter changes."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain, combinations

from kraftcheck.kraft_model.prevote.base import PrevoteBase, ServerSummary, zero_end_offsets
from kraftcheck.kraft_model.prevote.records import (
    AddedVoter,
    BeginQuorumEpochRequest,
    Command,
    Config,
    Connection,
    Entry,
    FetchState,
    FirstFetchRequest,
    Identity,
    Nil,
    RemovedVoter,
    Server,
    ServerState,
    Shared,
)
from kraftcheck.kraft_model.prevote.rules import (
    config_of_entry_value,
    is_voter,
    no_transition,
    to_resigned,
    to_unattached_at_boot,
)
from kraftcheck.spec import Map, Step, Steps, become, environment, internal, ordered, projection


def connections_both_ways(pairs: Iterable[frozenset[int]], started: Iterable[int]) -> list[Connection]:
    """Return both directions of the connections between pairs of started servers."""
    there = set(started)
    return [
        Connection(source, dest)
        for pair in pairs
        if pair <= there
        for source in ordered(pair)
        for dest in pair - {source}
    ]


class PrevoteDisturbances(PrevoteBase):
    @environment(reads=(PrevoteBase.alive, PrevoteBase.seen))
    def change_network_connectivity(
        self, shared: Shared, alive: Map[int, bool], seen: Map[int, ServerSummary]
    ) -> Steps:
        """The network changes to any set of connected pairs without dead servers; a cut loses messages in flight."""
        if shared.connectivity_ctr >= self.max_connectivity_changes:
            return
        pairs = ordered(shared.connectivity)
        for connected in chain.from_iterable(combinations(pairs, n) for n in range(len(pairs) + 1)):
            if not all(alive.get(server, True) for pair in connected for server in pair):
                continue
            if self._elections_can_progress(connected, seen):
                cut = [pair for pair in pairs if pair not in connected]
                yield (
                    Step()
                    .forget(*connections_both_ways(cut, alive))
                    .put(
                        connectivity=Map((pair, pair in connected) for pair in pairs),
                        connectivity_ctr=shared.connectivity_ctr + 1,
                    )
                )

    @internal
    def restart_with_state(self, me: Server, shared: Shared) -> Steps:
        """A server restarts from stable storage with its log and epoch; vote, leader and state depend on its old state.

        A leader restarts as resigned, or as unattached if it is an observer; a prospective restarts as unattached.
        """
        if shared.counters.restart_ctr >= self.max_restarts or me.state is ServerState.DEAD_NO_STATE:
            return
        if me.state is ServerState.LEADER and is_voter(me):
            outcome = to_resigned(me)
        elif me.state in (ServerState.LEADER, ServerState.PROSPECTIVE):
            outcome = to_unattached_at_boot(me)
        else:
            outcome = no_transition(me)
        restarted = outcome.of(me).but(
            hwm=0, fetch_state=FetchState(), flwr_end_offset=zero_end_offsets(me.flwr_end_offset)
        )
        yield self._count(self._fail_pending(become(restarted), me, shared), shared, "restart_ctr")

    @internal(reads=(PrevoteBase.alive, PrevoteBase.seen))
    def crash_lose_state(
        self, me: Server, shared: Shared, alive: Map[int, bool], seen: Map[int, ServerSummary]
    ) -> Steps:
        """A voter crashes and loses its disk for good, together with the messages to and from it."""
        if shared.counters.crash_ctr >= self.max_crashes or not is_voter(me):
            return
        others = [pair for pair in self._connected_pairs(shared) if me.id not in pair]
        if not self._elections_can_progress(others, seen):
            return
        dead = Server(me.id, me.identity, Config(), 0, ServerState.DEAD_NO_STATE, Nil.NIL, pending_ack=me.pending_ack)
        cut = [pair for pair in ordered(shared.connectivity) if me.id in pair]
        connectivity = Map((pair, up and me.id not in pair) for pair, up in shared.connectivity.items())
        step = become(dead).forget(*connections_both_ways(cut, alive)).put(connectivity=connectivity)
        yield self._count(self._fail_pending(step, me, shared), shared, "crash_ctr")


class PrevoteMembership(PrevoteBase):
    @projection
    def leads(self, me: Server) -> Config:
        """Return a leader's configuration, an empty one for others; the model omits how a new server finds a leader."""
        return me.config if me.state is ServerState.LEADER else Config()

    @environment(reads=leads)
    def start_new_server(self, shared: Shared, leads: Map[int, Config]) -> Steps:
        """A server starts on a blank disk with a leader's configuration, and sends a fetch that is not pending."""
        if len(leads) >= self.max_spawned_servers:
            return
        new = max(leads) + 1
        for leader in ordered(server for server, config in leads.items() if config.id):
            for host in ordered(self.hosts):
                server = Server(new, Identity(host, shared.disk_id_gen + 1), leads[leader])
                step = Step().write(server).put(disk_id_gen=shared.disk_id_gen + 1)
                yield self._send(step, shared, [FirstFetchRequest(0, 0, 0, new, leader)])

    @internal(reads=PrevoteBase.alive)
    def accept_add_voter_request(self, me: Server, shared: Shared, alive: Map[int, bool]) -> Steps:
        """A leader appends an AddVoterCommand, uses the new configuration at once, and announces itself."""
        if shared.counters.add_reconfig_ctr >= self.max_add_reconfigs or not self._may_change_voters(me):
            return
        if len(me.config.members) >= self.max_cluster_size:
            return
        for added in ordered(alive.keys() - me.config.members):
            if self._may_add(me, added, shared):
                step = become(self._append_config(me, Command.ADD_VOTER, added, me.config.members | {added}))
                step = self._send(step, shared, [BeginQuorumEpochRequest(me.current_epoch, me.id, added)])
                yield self._count(step, shared, "add_reconfig_ctr")

    @internal(reads=PrevoteBase.seen)
    def accept_remove_voter_request(self, me: Server, shared: Shared, seen: Map[int, ServerSummary]) -> Steps:
        """A leader appends a RemoveVoterCommand; if it removes itself, it leads until the removal is committed."""
        if shared.counters.remove_reconfig_ctr >= self.max_remove_reconfigs or not self._may_change_voters(me):
            return
        if len(me.config.members) <= self.min_cluster_size:
            return
        for removed in ordered(me.config.members):
            if self._may_remove(me, removed, shared, seen):
                after = self._append_config(me, Command.REMOVE_VOTER, removed, me.config.members - {removed})
                yield self._count(become(after), shared, "remove_reconfig_ctr")

    def _may_change_voters(self, me: Server) -> bool:
        """Whether this server leads and may change voters (`AddVoterCheck`, `RemoveVoterCheck`)."""
        return me.state is ServerState.LEADER and not self._has_pending_config(me) and self._is_ready(me)

    def _has_pending_config(self, me: Server) -> bool:
        """Whether a configuration of this leader's log is uncommitted (`HasPendingConfigCommand`)."""
        return not me.config.committed

    def _is_ready(self, me: Server) -> bool:
        """Whether an entry of the leader's epoch is committed (`LeaderHasCommittedOffsetsInCurrentEpoch`)."""
        return any(entry.epoch == me.current_epoch for entry in me.log[: me.hwm])

    def _append_config(self, me: Server, command: Command, changed: int, members: frozenset[int]) -> Server:
        kind = AddedVoter if command is Command.ADD_VOTER else RemovedVoter
        value = kind(me.config.id + 1, changed, members)
        log = (*me.log, Entry(command, me.current_epoch, value))
        offsets = Map((member, me.flwr_end_offset.get(member, 0)) for member in ordered(members))
        return me.but(log=log, config=config_of_entry_value(len(log), value, me.hwm), flwr_end_offset=offsets)
