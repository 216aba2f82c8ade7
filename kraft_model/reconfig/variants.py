"""Variants of `Reconfig`: one corrects an action, one leaves out states that are alike; the others are seeded faults.

A fault breaks one rule and is caught by one of the five invariants. Configuration `fault.<variant>` says which one,
within which bounds, and how far `Reconfig` itself holds there. KAFKA-n is the issue in
Apache Kafka's tracker where Kafka had the fault, or where the rule comes from.
"""

from __future__ import annotations

from typing import ClassVar

from kraftcheck.kraft_model.reconfig import Reconfig
from kraftcheck.kraft_model.reconfig.elections import Membership
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
from kraftcheck.kraft_model.reconfig.rules import ILLEGAL, TransitionResult, most_recent_config
from kraftcheck.spec import ModelValue, Step, Steps, become, consume


class RestartWithoutStateCorrected(Reconfig, variant="restart-without-state-corrected"):
    """RestartWithoutState as it must have been meant.

    It asks for a peer whose role, not whose state, is Voter. The old identity goes on running if a zombie is left,
    and dies otherwise. And it spends a restart: the specification says that MaxRestarts "limits the number of restarts
    with or without state", but its action never counts one.
    """

    def _is_voter(self, peer: Membership) -> bool:
        return peer.role is Role.VOTER

    def _without_state(self, me: Server, dead: Server, leave_zombie: bool) -> Step:
        return become(me if leave_zombie else dead).spend("restarts")


class NewServersOnOneHost(Reconfig, variant="new-servers-on-one-host"):
    """New servers all start on the first host: the others would only multiply the states.

    Nothing asks which host it is, and no two new servers have the same `disk_id`. So each state with k servers that
    StartNewServer started stands for h^k of `Reconfig`, with h hosts: those with other hosts in these servers' names.
    Hosts are not alike then, so there is no SYMMETRY.
    """

    symmetries: ClassVar[dict[str, tuple[str, ...]]] = {}

    def _hosts_of_new_servers(self) -> list[ModelValue]:
        return super()._hosts_of_new_servers()[:1]


# Elections


class VotesWithoutLogComparison(Reconfig, variant="votes-without-log-comparison"):
    """Votes are granted without comparing logs, so that a candidate wins without a value that was acknowledged."""

    def _log_is_current(self, me: Server, request: RequestVoteRequest) -> bool:
        return True


class SecondVoteInEpoch(Reconfig, variant="second-vote-in-epoch"):
    """A server that has voted grants another candidate of the same epoch its vote too (the danger of KAFKA-17641)."""

    def _may_vote(self, me: Server, now: TransitionResult, request: RequestVoteRequest) -> bool:
        return now.state in (ServerState.UNATTACHED, ServerState.VOTED)


class RestartedLeaderUnattached(Reconfig, variant="restarted-leader-unattached"):
    """A leader that restarts forgets that it led, and votes for a rival of the same epoch (KAFKA-10661)."""

    def _state_after_restart(self, me: Server) -> ServerState:
        return ServerState.UNATTACHED if me.state is ServerState.LEADER else me.state


class ObserverStands(Reconfig, variant="observer-stands"):
    """An observer stands for election like a voter (KAFKA-17067)."""

    def _may_stand(self, me: Server) -> bool:
        return True


# Fetching


class FetchPositionUnchecked(Reconfig, variant="fetch-position-unchecked"):
    """A leader serves and counts every fetch, also from a position that is not in its log (as in KAFKA-13141)."""

    def _valid_position(self, me: Server, request: FetchRequest) -> bool:
        return True


class RemovedLeaderContradicted(Reconfig, variant="removed-leader-contradicted"):
    """A leader that has removed itself takes a peer that still names it leader for a contradiction.

    The comment on HasConsistentLeader in the specification, which makes an exception here, says that Kafka 3.2.0 would.
    """

    def handle_non_success_fetch_response(self, me: Server, response: FetchResponse) -> Steps:
        """An observer that is told that it leads enters the illegal state."""
        for step in super().handle_non_success_fetch_response(me, response):
            contradicted = me.role is Role.OBSERVER and response.leader == me.id
            yield consume(ILLEGAL.of(me).but(pending_fetch=Nil.NIL)) if contradicted else step


# Reconfiguration


class PendingChangeAccepted(Reconfig, variant="pending-change-accepted"):
    """A leader accepts a change of the voter set while another one is uncommitted (KAFKA-20740)."""

    def _has_pending_config(self, me: Server) -> bool:
        return False


class LeaderNotReady(Reconfig, variant="leader-not-ready"):
    """A leader accepts a change before it has committed anything of its own epoch (the rule of KAFKA-16535).

    This is the known hole of single-server changes in the Raft thesis: two changes made from the same voter set by
    leaders of different epochs leave majorities that do not meet.
    """

    def _is_ready(self, me: Server) -> bool:
        return True


class OldVoterSetCounted(Reconfig, variant="old-voter-set-counted"):
    """The high watermark is counted over the last voter set that the leader knows to be committed.

    One leader alone does no harm with it, nor do two voter sets that differ by one server: their majorities meet. Harm
    takes a leader whose high watermark lags behind a committed change, and a rival that has made the next change.
    """

    def _counted_members(self, me: Server) -> frozenset[ServerId]:
        if me.high_watermark == 0:
            return me.config.members
        return most_recent_config(me.log[: me.high_watermark], me.high_watermark).members
