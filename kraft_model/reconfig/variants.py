"""Variants of `Reconfig`: a correction of an action, a reduction of equivalent states, and seeded faults.

A fault breaks one rule and violates one of the five invariants. Configuration `fault.<variant>` names the invariant,
sets the bounds, and states how far `Reconfig` itself holds there. KAFKA-n is the issue in Apache Kafka's tracker of the
fault in Kafka, or of the rule.
"""

from __future__ import annotations

from typing import ClassVar

from kraftcheck.kraft_model.reconfig import Reconfig
from kraftcheck.kraft_model.reconfig.elections import MembershipSummary
from kraftcheck.kraft_model.reconfig.records import (
    FetchRequest,
    FetchResponse,
    Nil,
    RequestVoteRequest,
    Role,
    Server,
    ServerId,
    ServerState,
)
from kraftcheck.kraft_model.reconfig.rules import ILLEGAL_TRANSITION, TransitionResult, most_recent_config
from kraftcheck.spec import ModelValue, Step, Steps, become, consume


class RestartWithoutStateCorrected(Reconfig, variant="restart-without-state-corrected"):
    """RestartWithoutState as the specification must have intended it.

    It requires a peer whose role, not whose state, is Voter. The old identity keeps running if a zombie is left, and
    dies otherwise. It counts a restart: by the specification, MaxRestarts "limits the number of restarts with or
    without state", but its action never counts one.
    """

    def _is_voter(self, peer: MembershipSummary) -> bool:
        return peer.role is Role.VOTER

    def _without_state(self, me: Server, dead: Server, leave_zombie: bool) -> Step:
        return become(me if leave_zombie else dead).spend("restarts")


class NewServersOnOneHost(Reconfig, variant="new-servers-on-one-host"):
    """All new servers start on the first host, since their hosts only multiply equivalent states.

    No rule depends on the host, and no two new servers share a `disk_id`. A state with k servers of StartNewServer
    stands for h^k states of `Reconfig` with h hosts, one for each choice of hosts. SYMMETRY does not apply, since the
    hosts are not interchangeable.
    """

    symmetries: ClassVar[dict[str, tuple[str, ...]]] = {}

    def _hosts_of_new_servers(self) -> list[ModelValue]:
        return super()._hosts_of_new_servers()[:1]


# Elections


class VotesWithoutLogComparison(Reconfig, variant="votes-without-log-comparison"):
    """Votes are granted without comparing logs: a candidate without an acknowledged value can win."""

    def _log_is_current(self, me: Server, request: RequestVoteRequest) -> bool:
        return True


class SecondVoteInEpoch(Reconfig, variant="second-vote-in-epoch"):
    """A server that has voted also votes for another candidate of the same epoch (the danger of KAFKA-17641)."""

    def _may_vote(self, me: Server, now: TransitionResult, request: RequestVoteRequest) -> bool:
        return now.state in (ServerState.UNATTACHED, ServerState.VOTED)


class RestartedLeaderUnattached(Reconfig, variant="restarted-leader-unattached"):
    """A restarted leader forgets that it led, and votes for another candidate of the same epoch (KAFKA-10661)."""

    def _state_after_restart(self, me: Server) -> ServerState:
        return ServerState.UNATTACHED if me.state is ServerState.LEADER else me.state


class ObserverStands(Reconfig, variant="observer-stands"):
    """An observer becomes candidate like a voter (KAFKA-17067)."""

    def _may_stand(self, me: Server) -> bool:
        return True


# Fetching


class FetchPositionUnchecked(Reconfig, variant="fetch-position-unchecked"):
    """A leader serves and counts every fetch, even at a position outside its log (as in KAFKA-13141)."""

    def _valid_position(self, me: Server, request: FetchRequest) -> bool:
        return True


class RemovedLeaderContradicted(Reconfig, variant="removed-leader-contradicted"):
    """A leader that has removed itself treats a peer that names it as leader as inconsistent.

    The specification's HasConsistentLeader makes an exception here; its comment says that Kafka 3.2.0 would not.
    """

    def handle_non_success_fetch_response(self, me: Server, response: FetchResponse) -> Steps:
        """An observer that a response names as leader enters the illegal state."""
        for step in super().handle_non_success_fetch_response(me, response):
            contradicted = me.role is Role.OBSERVER and response.leader == me.id
            yield consume(ILLEGAL_TRANSITION.of(me).but(pending_fetch=Nil.NIL)) if contradicted else step


# Reconfiguration


class PendingChangeAccepted(Reconfig, variant="pending-change-accepted"):
    """A leader accepts a change of the voter set while another one is uncommitted (KAFKA-20740)."""

    def _has_pending_config(self, me: Server) -> bool:
        return False


class LeaderNotReady(Reconfig, variant="leader-not-ready"):
    """A leader accepts a change before it has committed an entry of its epoch (the rule of KAFKA-16535).

    This is the known hole of single-server changes in the Raft thesis. Two leaders of different epochs change the same
    voter set, and the majorities do not overlap.
    """

    def _is_ready(self, me: Server) -> bool:
        return True


class OldVoterSetCounted(Reconfig, variant="old-voter-set-counted"):
    """The high watermark is computed over the last voter set known to be committed.

    One leader alone is safe, and so are two voter sets that differ by one server: their majorities overlap. A failure
    takes a leader whose high watermark lags behind a committed change, and a second leader with the next change.
    """

    def _counted_members(self, me: Server) -> frozenset[ServerId]:
        if me.high_watermark == 0:
            return me.config.members
        return most_recent_config(me.log[: me.high_watermark], me.high_watermark).members
