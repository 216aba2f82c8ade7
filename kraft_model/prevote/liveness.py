"""Conditions of `prevote` that hold actions back while liveness is tested; with TestLiveness FALSE none does.

Source: module kraft_kip_996_liveness of the TLA+ specification kraft_kip_996. They keep a cluster able to elect a
leader, and keep it from going round in circles.
"""

from __future__ import annotations

from collections.abc import Iterable

from kraftcheck.kraft_model.prevote.base import PrevoteBase
from kraftcheck.kraft_model.prevote.records import (
    Config,
    Entry,
    Error,
    LastFetch,
    Nil,
    RequestVoteResponse,
    Server,
    ServerState,
    Shared,
)
from kraftcheck.kraft_model.prevote.transitions import is_voter
from kraftcheck.spec import Map, Record, projection

Pairs = Iterable[frozenset[int]]


class Seen(Record):
    """The part of a server that the conditions read; nothing unless liveness is tested."""

    state: ServerState = ServerState.UNATTACHED
    epoch: int = 0
    leader: int | Nil = Nil.NIL
    config: Config = Config()
    log: tuple[Entry, ...] = ()
    hwm: int = 0
    end_offset: Map[int, int] = Map()
    votes: bool = False


class Refusal(Record):
    """A pre-vote that a server did not get: who refused it, and the leader and the epoch that it named."""

    source: int
    leader: int | Nil
    epoch: int


class PrevoteLiveness(PrevoteBase):
    """The conditions."""

    @projection
    def seen(self, me: Server) -> Seen:
        """What the conditions read of a server."""
        if not self.test_liveness:
            return Seen()
        return Seen(me.state, me.current_epoch, me.leader, me.config, me.log, me.hwm, me.flwr_end_offset, is_voter(me))

    @projection
    def refusals(self, inbox: tuple[frozenset[Record], frozenset[Record]]) -> frozenset[Refusal]:
        """The pre-votes that were refused to a server and that it has processed."""
        if not self.test_liveness:
            return frozenset()
        return frozenset(
            Refusal(vote.source, vote.leader, vote.replica_epoch)
            for vote in inbox[1]
            if isinstance(vote, RequestVoteResponse) and vote.pre_vote and not vote.vote_granted
        )

    def _connected_pairs(self, shared: Shared) -> list[frozenset[int]]:
        return [pair for pair, is_up in shared.connectivity.items() if is_up]

    def _elections_can_progress(self, pairs: Pairs, seen: Map[int, Seen]) -> bool:
        """Whether a voter reaches a majority that is not ahead of it (`LIVENESS_ElectionsCanProgress`)."""
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

    def _is_valid_peer(self, me: Server, peer: int, shared: Shared, seen: Map[int, Seen]) -> bool:
        """Whether a peer can tell an unattached voter who leads (`LIVENESS_ValidPeer`)."""
        if not self.test_liveness:
            return True
        return seen[peer].votes and seen[peer].leader is not Nil.NIL and self._connected(shared, me.id, peer)

    def _helps(self, me: Server, peer: int, seen: Map[int, Seen]) -> bool:
        """Whether a fetch can bring anything (`LIVENESS_HelpsMakeProgress`)."""
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
        self, me: Server, leader: int, shared: Shared, refusals: Map[int, frozenset[Refusal]]
    ) -> bool:
        """Whether a peer that reaches the leader has refused a pre-vote of its epoch (`LIVENESS_InPrevoteCycle`)."""
        if not self.test_liveness or not is_voter(me) or self._connected(shared, me.id, leader):
            return False
        return any(
            (refusal.leader, refusal.epoch) == (leader, me.current_epoch)
            and self._connected(shared, refusal.source, leader)
            for refusal in refusals[me.id]
        )

    def _is_another_peer(self, me: Server, peer: int) -> bool:
        """Whether a peer is not the one that did not lead just now (`LIVENESS_MaybeNotSamePeerAgain`)."""
        if not self.test_liveness:
            return True
        last = me.fetch_state.last_fetch_res
        return not (isinstance(last, LastFetch) and last.error is Error.NOT_LEADER and last.peer == peer)

    def _may_add(self, me: Server, added: int, shared: Shared) -> bool:
        """Whether a majority is reached with a voter more (`LIVENESS_AddVoterLivenessCondition`)."""
        if not self.test_liveness:
            return True
        members = me.config.members
        reached = sum(self._connected(shared, me.id, member) for member in {*members, added} - {me.id}) + 1
        return reached > (len(members) + 1) // 2

    def _may_remove(self, me: Server, removed: int, shared: Shared, seen: Map[int, Seen]) -> bool:
        """Whether a majority is reached without a voter (`LIVENESS_RemoveVoterLivenessCondition`)."""
        if not self.test_liveness:
            return True
        members = me.config.members
        reached = sum(seen[peer].votes and self._connected(shared, me.id, peer) for peer in members - {removed, me.id})
        return reached > len(members) // 2
