"""Disturbances of `prevote`: connections that are cut and mended, restarts, and crashes that lose all state."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain, combinations

from kraftcheck.kraft_model.prevote.base import zeros
from kraftcheck.kraft_model.prevote.liveness import PrevoteLiveness, Seen
from kraftcheck.kraft_model.prevote.records import Config, Connection, FetchState, Nil, Server, ServerState, Shared
from kraftcheck.kraft_model.prevote.transitions import booted, is_voter, resigned, unchanged
from kraftcheck.spec import Map, Step, Steps, become, environment, internal, ordered


def both_ways(pairs: Iterable[frozenset[int]], started: Iterable[int]) -> list[Connection]:
    """Return the connections of pairs of servers, between those that were started."""
    there = set(started)
    return [
        Connection(source, dest)
        for pair in pairs
        if pair <= there
        for source in ordered(pair)
        for dest in pair - {source}
    ]


class PrevoteDisturbances(PrevoteLiveness):
    """Connections, restarts and crashes."""

    @environment(reads=(PrevoteLiveness.alive, PrevoteLiveness.seen))
    def change_network_connectivity(self, shared: Shared, alive: Map[int, bool], seen: Map[int, Seen]) -> Steps:
        """Any set of pairs is connected from now on, also the same; dead servers are not. What was on a cut is lost."""
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
                    .forget(*both_ways(cut, alive))
                    .put(
                        connectivity=Map((pair, pair in connected) for pair in pairs),
                        connectivity_ctr=shared.connectivity_ctr + 1,
                    )
                )

    @internal
    def restart_with_state(self, me: Server, shared: Shared) -> Steps:
        """A server restarts from stable storage: its log survives, and its epoch, vote, leader and most states.

        A leader resigns, or is unattached if it is an observer; a prospective is unattached.
        """
        if shared.counters.restart_ctr >= self.max_restarts or me.state is ServerState.DEAD_NO_STATE:
            return
        if me.state is ServerState.LEADER and is_voter(me):
            outcome = resigned(me)
        elif me.state in (ServerState.LEADER, ServerState.PROSPECTIVE):
            outcome = booted(me)
        else:
            outcome = unchanged(me)
        restarted = outcome.of(me).but(hwm=0, fetch_state=FetchState(), flwr_end_offset=zeros(me.flwr_end_offset))
        yield self._count(self._fail_pending(become(restarted), me, shared), shared, "restart_ctr")

    @internal(reads=(PrevoteLiveness.alive, PrevoteLiveness.seen))
    def crash_lose_state(self, me: Server, shared: Shared, alive: Map[int, bool], seen: Map[int, Seen]) -> Steps:
        """A voter is lost with its disk, for good. What was on the way to it and from it is lost too."""
        if shared.counters.crash_ctr >= self.max_crashes or not is_voter(me):
            return
        others = [pair for pair in self._connected_pairs(shared) if me.id not in pair]
        if not self._elections_can_progress(others, seen):
            return
        dead = Server(me.id, me.identity, Config(), 0, ServerState.DEAD_NO_STATE, Nil.NIL, pending_ack=me.pending_ack)
        cut = [pair for pair in ordered(shared.connectivity) if me.id in pair]
        connectivity = Map((pair, up and me.id not in pair) for pair, up in shared.connectivity.items())
        step = become(dead).forget(*both_ways(cut, alive)).put(connectivity=connectivity)
        yield self._count(self._fail_pending(step, me, shared), shared, "crash_ctr")
